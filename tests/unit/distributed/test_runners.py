"""Runners, with a fake cluster that computes at once and a clock that the tests control."""

from __future__ import annotations

import concurrent.futures
import sys
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from rankine.core.errors import ClusterError, MissingExtraError, ParameterError, SchemaError
from rankine.distributed import partitions, runners
from rankine.distributed.runners import (
    FAN_IN,
    SHARED_BYTES,
    TICK,
    DaskRunner,
    LocalRunner,
    connect,
)


class ClosedClientError(Exception):
    pass


class CommClosedError(OSError):
    pass


class KilledWorker(Exception):  # noqa: N818 - Dask's name
    task = "rankine-learn-7"


class Future:
    """A task that has run."""

    def __init__(self, value, status="finished"):
        self.value, self.status, self.released = value, status, False

    def done(self):
        return self.status != "pending"

    def release(self):
        self.released = True

    def result(self, timeout=None):
        self.waited = timeout
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value


def known(value):
    if isinstance(value, list):
        return [known(one) for one in value]
    return value.value if isinstance(value, Future) else value


class Client:
    """Runs every task when it is asked for."""

    scheduler = SimpleNamespace(address="tcp://here:1")

    def __init__(self):
        self.keys, self.futures, self.priorities = [], [], []

    def map(self, function, items, key, pure, priority=0, **same):
        assert not pure
        same = {name: known(value) for name, value in same.items()}
        futures = [Future(function(known(item), **same)) for item in items]
        self.keys += key
        self.futures += futures
        self.priorities += [priority] * len(items)
        return futures

    def as_current(self):
        return nullcontext()

    def scheduler_info(self, n_workers):
        assert n_workers == -1
        return {"workers": {"a": 1, "b": 2, "c": 3}}

    def named(self, name):
        return [key for key in self.keys if key.startswith(f"rankine-{name}-")]


@pytest.fixture
def dask(monkeypatch):
    """Dask's modules; ``wait`` is over at once."""
    settings = []

    @contextmanager
    def use(chosen):
        settings.append(chosen)
        yield

    fake = SimpleNamespace(Client=Client, wait=lambda roots, timeout: None, settings=settings)
    modules = {
        "dask": SimpleNamespace(config=SimpleNamespace(set=use)),
        "distributed": fake,
        "distributed.client": SimpleNamespace(ClosedClientError=ClosedClientError),
        "distributed.comm": SimpleNamespace(CommClosedError=CommClosedError),
        "distributed.scheduler": SimpleNamespace(KilledWorker=KilledWorker),
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return fake


@pytest.fixture
def numbers(monkeypatch):
    """Partitions are numbers; what one answers is a function of it and of the arguments."""

    def compute(item, method, arguments):
        return np.array([item, method == "sum"]) * sum(float(np.sum(a)) for a in arguments), item

    monkeypatch.setattr(runners, "compute_partial", compute)
    in_list = lambda item, method, arguments: [compute(item, method, arguments)]  # noqa: E731
    monkeypatch.setattr(runners, "compute_in_list", in_list)
    monkeypatch.setattr(LocalRunner, "submit", lambda _, items: list(items))
    return np.random.default_rng(0).normal(size=70) * 10.0 ** np.arange(70)


@pytest.mark.parametrize("count", [1, 7, FAN_IN, FAN_IN + 1, 64, 65, 70])
def test_a_cluster_adds_as_one_process_does(count, dask, numbers):
    client, here = Client(), LocalRunner()
    runner = DaskRunner(client, timeout=7.0)
    items = numbers[:count].tolist()
    placed = runner.submit(items)
    expected = here.total(here.submit(items), "sum", (np.ones(3), 2.0))
    found = runner.total(placed, "sum", (np.ones(3), 2.0))
    np.testing.assert_array_equal(found[0], expected[0])
    assert found[1] == expected[1]
    sums, level, priorities = 0, count, []
    while level > FAN_IN:
        level = -(-level // FAN_IN)
        priorities += [len(set(priorities)) + 1] * level
        sums += level
    assert len(client.named("sum")) == sums + count
    assert client.priorities == [0] * 2 * count + priorities
    assert not any(future.released for future in placed)
    assert all(future.released for future in client.futures if future not in placed)
    each = runner.each(placed, "other", (1.0,))
    assert [one[1] for one in each] == items
    assert [one[0].tolist() for one in each] == [[x, 0.0] for x in items]
    assert here.each(here.submit(items), "other", (1.0,))[-1][1] == items[-1]
    assert runner.map(lambda x: x + 1, items) == here.map(lambda x: x + 1, items)
    assert len(set(client.keys)) == len(client.keys)
    assert {len(one) for one in dask.settings} == {1}
    assert client.futures[-1].waited == 7.0


def test_large_arguments_are_sent_once(dask, numbers):
    client = Client()
    runner = DaskRunner(client)
    placed = runner.submit([1.0, 2.0])
    small, large = np.zeros(SHARED_BYTES // 8), np.ones(SHARED_BYTES // 8 + 1)
    runner.total(placed, "sum", (small, 1))
    assert client.named("weights") == []
    assert runner.total(placed, "sum", (large, 1))[1] == 3.0
    assert len(client.named("weights")) == 1
    runner.total(placed, "sum", (small, np.ones(1)))
    assert len(client.named("weights")) == 2
    assert all(future.released for future in client.futures if future not in placed)


def test_a_round_without_progress_is_an_error(dask, monkeypatch):
    clock, asked = [0.0], []

    def wait(roots, timeout):
        asked.append(timeout)
        clock[0] += 1.0
        for at, future in finish:
            if at == clock[0]:
                future.status = "finished"
        if not all(future.done() for future in roots):
            raise TimeoutError

    dask.wait = wait
    monkeypatch.setattr(runners, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    leaves = [Future(k, "pending") for k in range(3)]
    runner = DaskRunner(Client(), timeout=3.0)
    finish = [(2.0, leaves[0]), (4.0, leaves[1]), (6.0, leaves[2])]
    runner._wait(leaves, leaves)
    assert clock[0] == 6.0
    assert set(asked) == {TICK}
    for future in leaves:
        future.status = "pending"
    clock[0], finish = 0.0, [(2.0, leaves[0])]
    with pytest.raises(
        ClusterError, match=r"for 3 s: 1 of 3 partitions .* the scheduler has 3 workers"
    ):
        runner._wait(leaves[1:], leaves)
    assert clock[0] == 5.0
    runner.client.scheduler_info = lambda n_workers: {}
    hasty = DaskRunner(runner.client, timeout=0.25)
    asked.clear()
    with pytest.raises(ClusterError, match="the scheduler has 0 workers"):
        hasty._wait(leaves[1:], leaves)
    assert set(asked) == {0.25}
    for status in ("error", "cancelled", "lost"):
        leaves[2].status = status
        clock[0] = 0.0
        runner._wait([leaves[1], leaves[2]], leaves)
        assert clock[0] <= 1.0


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (KilledWorker("x"), "repeatedly: rankine-learn-7"),
        (ModuleNotFoundError("no rankine"), "cannot import a module: no rankine"),
        (concurrent.futures.CancelledError(), "tcp://here:1 was lost .* CancelledError"),
        (ClosedClientError("shut\nlong"), r"the work: shut \["),
        (CommClosedError("gone"), "the work: gone"),
        (TimeoutError("late"), "the work: late"),
        (OSError("broken"), "the work: broken"),
    ],
)
def test_errors_of_dask_become_cluster_errors(error, told, dask):
    def fail(_):
        raise error

    client = Client()
    with pytest.raises(ClusterError, match=told) as caught:
        DaskRunner(client).map(fail, [1])
    assert caught.value.__cause__ is error


def test_errors_of_rankine_are_raised_unchanged(dask):
    def fail(_):
        raise SchemaError("this row", fix="Mend it")

    with pytest.raises(SchemaError):
        DaskRunner(Client()).map(fail, [1])
    with pytest.raises(ZeroDivisionError):
        DaskRunner(Client()).map(lambda x: 1 / x, [0])
    nameless = SimpleNamespace(map=lambda *_, **__: (_ for _ in ()).throw(OSError("x")))
    with pytest.raises(ClusterError):
        DaskRunner(nameless).map(fail, [1])


def test_only_clients_of_dask_are_accepted(dask):
    assert type(partitions._make_runner(None, 5.0)) is LocalRunner
    runner = partitions._make_runner(Client(), 5.0)
    assert (type(runner), runner.timeout) == (DaskRunner, 5.0)
    with pytest.raises(ParameterError) as caught:
        partitions._make_runner("tcp://here:1", 5.0)
    assert caught.value.parameter == "client"


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError):
        runners.require_dask()


class Entered:
    """A cluster or a client that says when it is left."""

    def __init__(self, *arguments, **options):
        self.arguments, self.options, self.left = arguments, options, False
        self.waited, self.plan, self.scaled = [], {"a": 1, "b": 2}, []
        self.loop = SimpleNamespace(add_callback=lambda work: work())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.left = True

    def scale(self, count):
        self.scaled.append(count)

    def wait_for_workers(self, count, timeout):
        self.waited.append((count, timeout))
        if "lonely" in str(self.arguments[0]):
            raise TimeoutError


@pytest.fixture
def local(dask, monkeypatch):
    """Clusters and clients that are only remembered."""
    made = []

    class Periodic:
        def __init__(self, work, milliseconds):
            made.append(self)
            self.work, self.milliseconds, self.running = work, milliseconds, False

        def start(self):
            self.running = True

        def stop(self):
            self.running = False

    def make(*arguments, **options):
        if "nobody" in str(arguments[:1]):
            raise OSError(f"{'refused ' * 60}\nmore")
        made.append(Entered(*arguments, **options))
        return made[-1]

    dask.Client = dask.LocalCluster = make
    monkeypatch.setitem(sys.modules, "tornado.ioloop", SimpleNamespace(PeriodicCallback=Periodic))
    monkeypatch.setitem(sys.modules, "tornado", SimpleNamespace())
    return made


def test_local_workers_are_started_restored_and_ended(local, dask):
    with connect("local:2", memory_limit="1GB", host="127.0.0.2") as client:
        cluster, same, renewal = local
        assert same is client
        assert client.arguments == (cluster,)
        assert client.options == {"set_as_default": False}
        assert cluster.options == {
            "n_workers": 2,
            "processes": True,
            "threads_per_worker": 1,
            "dashboard_address": "127.0.0.1:0",
            "host": "127.0.0.2",
            "memory_limit": "1GB",
        }
        assert (renewal.running, renewal.milliseconds) == (True, 1000)
        renewal.work()
        assert cluster.scaled == [2]
    assert not renewal.running
    assert cluster.left
    assert client.left
    assert dask.settings[0]["distributed.scheduler.allowed-failures"] == 10
    with connect("local:1"):
        assert local[-3].options["n_workers"] == 1


@pytest.mark.parametrize("address", ["local:", "local:0", "local:two", "local", "host:8786", ""])
def test_an_address_that_cannot_be_read_is_refused(address, local):
    with pytest.raises(ParameterError, match="cannot read the cluster"), connect(address):
        pass
    assert local == []


def test_a_scheduler_must_answer_and_have_a_worker(local):
    with connect("tcp://here:8786", timeout=3.0) as client:
        assert client.arguments == ("tcp://here:8786",)
        assert client.options == {"timeout": 3.0, "set_as_default": False}
        assert client.waited == [(1, 60.0)]
    assert client.left
    with pytest.raises(ClusterError, match="at tcp://lonely:1 has no worker") as caught:  # noqa: SIM117
        with connect("tcp://lonely:1"):
            pass
    assert "dask worker tcp://lonely:1" in caught.value.fix
    with pytest.raises(ClusterError) as caught, connect("tcp://nobody:1"):
        pass
    told = caught.value.reason.removeprefix("cannot reach a scheduler at tcp://nobody:1: ")
    assert told == ("refused " * 60)[:200]
    assert runners._first_line(ValueError()) == "ValueError"
