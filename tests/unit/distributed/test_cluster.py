"""A real cluster of two processes: same bits as here, whoever dies, joins or leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone

import rankine
import rankine.distributed as rd
from error_checks import raises_for
from rankine import DominationRanker, ElasticRanker, LeastSquaresRanker, RankSVM, SPDRanker
from rankine.core.errors import (
    ChangedDataError,
    ClusterError,
    MissingExtraError,
    ParameterError,
)
from rankine.distributed.runners import cluster_errors, connect

pytestmark = [pytest.mark.dask, pytest.mark.timeout(400)]  # compiles when the cache is cold

HINGE = RankSVM(l2=2e-3, tol=2e-3)
RANKERS = {
    "hinge": HINGE,
    "newton": RankSVM(l2=2e-3, tol=1e-8, loss="squared_hinge", scale="standard"),
    "cg": LeastSquaresRanker(2e-3, scale="maxabs"),
    "egdm": LeastSquaresRanker(2e-2, solver="egdm", random_state=0),
    "domination": DominationRanker(tol=1e-8),
    "spd": SPDRanker(n_steps=20_000, random_state=1),
    "elastic": ElasticRanker(random_state=1),
}


@pytest.fixture(scope="module")
def parts(files):
    return rd.scan(files, partition_bytes=20_000)


@pytest.fixture(scope="module")
def expected(parts):
    return clone(HINGE).fit(parts)


@pytest.mark.parametrize("name", RANKERS)
def test_a_cluster_gives_the_bits_of_this_process(name, parts, client):
    here = clone(RANKERS[name]).fit(parts)
    there = clone(RANKERS[name]).fit(parts.on(client, timeout=100))
    np.testing.assert_array_equal(here.coef_, there.coef_)
    assert here.to_model().digest == there.to_model().digest


def test_scanning_by_the_workers_gives_the_same_partitions(files, parts, client):
    by_workers = rd.scan(files, partition_bytes=20_000, client=client)
    # Sources are compared by identity, so their names are compared instead.
    described = [
        [(part.source.name, replace(part, source=None)) for part in scanned.partitions]
        for scanned in (by_workers, parts)
    ]
    assert described[0] == described[1]


def kill_one(client):
    pids = []
    while not pids:
        pids = list(client.run(os.getpid, on_error="ignore").values())
    os.kill(pids[0], signal.SIGKILL)


def test_killed_workers_do_not_change_the_model(parts, client, expected):
    """Three kills, each just before a round of tasks is sent to the dead."""

    def kill(progress):
        if progress.step in (2, 4, 6):
            kill_one(client)

    ranker = clone(HINGE).fit(parts.on(client, timeout=100), callbacks=[kill])
    assert ranker.n_iter_ > 6
    np.testing.assert_array_equal(ranker.coef_, expected.coef_)


def test_a_raw_log_has_the_same_bits_on_a_cluster_whose_worker_dies(client, tmp_path):
    """Values of one-hot columns and cuts are those of one machine, and so is the model."""
    rng = np.random.default_rng(0)
    brand, price = rng.choice(list("abcd"), 480), rng.random(480)
    columns = {
        "session": np.repeat(np.arange(80), 6),
        "brand": brand,
        "seller": rng.choice(list("uvwxyz"), 480),
        "price": price,
        "clicked": ((brand == "b") * 0.5 - price + rng.random(480) > 0).astype(np.int64),
    }
    pq.write_table(pa.table(columns), tmp_path / "log.parquet", row_group_size=60)

    def fitted(client, *callbacks):
        log = rankine.logs.scan(
            tmp_path / "log.parquet",
            query="session",
            label="clicked",
            one_hot=["brand"],
            binned=["price"],
            categorical=["seller"],
            hash_bits=6,
        )
        parts = rd.scan(log, client=client, partition_bytes=20_000, timeout=100)
        assert len(parts) > 1
        return clone(HINGE).set_params(scale="query").fit(parts, callbacks=callbacks).to_model()

    def kill(progress):
        if progress.step == 2:
            kill_one(client)

    here = fitted(None)
    assert here.digest == fitted(client, kill).digest
    assert {"brand=b", "price missing"} & set(here.weight_names) == {"brand=b"}


def test_workers_that_die_within_their_tasks_do_not_change_the_model(
    parts, client, expected, tmp_path
):
    """A task that is at work ends its own process, once; it is run again elsewhere."""
    flag = tmp_path / "killed"
    data = parts.on(client, timeout=100)
    pool = data.worker_pool(Assassin(str(flag)))
    alone = parts.worker_pool(Assassin(str(tmp_path / "absent"), armed=False))
    np.testing.assert_array_equal(pool.total("work")[0], alone.total("work")[0])
    assert flag.exists()
    np.testing.assert_array_equal(clone(HINGE).fit(data).coef_, expected.coef_)


class Assassin:
    """A task whose third partition kills its worker the first time it is asked."""

    def __init__(self, flag, armed=True):
        self.flag, self.armed, self.token = flag, armed, f"assassin {flag}"

    def build(self, data, threads, number):
        flag, armed = self.flag, self.armed

        class Part:
            def work(self):
                if armed and number == 3 and not os.path.exists(flag):  # noqa: PTH110
                    with open(flag, "w", encoding="utf-8"):  # noqa: PTH123
                        pass
                    os.kill(os.getpid(), signal.SIGKILL)
                return data.X.sum(axis=0)

        return Part()


def test_a_worker_that_is_gone_for_good_is_replaced(parts, expected):
    """A nanny gives up when its worker is killed while it starts; the last one must not be lost."""
    with connect("local:1", memory_limit="1GB") as client:
        (nanny,) = client.cluster.workers.values()
        lost = set(client.scheduler_info()["workers"])

        def give_up(progress):
            if progress.step == 2:
                client.sync(nanny.close)

        ranker = clone(HINGE).fit(parts.on(client, timeout=100), callbacks=[give_up])
        assert not lost & set(client.scheduler_info()["workers"])
    np.testing.assert_array_equal(ranker.coef_, expected.coef_)


def test_workers_that_join_and_leave_do_not_change_the_model(parts, client, expected):
    def scale(progress):
        if progress.step == 2:
            client.cluster.scale(3)
        if progress.step == 5:
            client.cluster.scale(2)

    ranker = clone(HINGE).fit(parts.on(client, timeout=100), callbacks=[scale])
    np.testing.assert_array_equal(ranker.coef_, expected.coef_)


def test_errors_of_partitions_are_raised_unchanged(tmp_path, client, files):
    from distributed_data import write_files

    write_files(tmp_path, 1)
    data = rd.scan(f"{tmp_path}/*.parquet", client=client)
    write_files(tmp_path, 1, n_queries=51)
    with pytest.raises(ChangedDataError):
        data.measure()


def test_no_progress_is_an_error_in_time(parts):
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        started = time.monotonic()
        with pytest.raises(ClusterError, match=r"no task finished for 1 s: 0 of .* 0 workers"):
            parts.on(client, timeout=1.0).measure()
        assert time.monotonic() - started < 30


def start(module, *arguments):
    command = [sys.executable, "-m", f"distributed.cli.{module}", *arguments]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_a_killed_scheduler_is_an_error_and_the_run_resumes(files, tmp_path, expected):
    from distributed import Client

    where = tmp_path / "scheduler.json"
    kept = tmp_path / "kept"
    scheduler = start(
        "dask_scheduler", "--host", "127.0.0.1", "--port", "0",
        "--dashboard-address", "127.0.0.1:0", "--scheduler-file", where,
    )  # fmt: skip
    while not where.exists():
        time.sleep(0.1)
    worker = start(
        "dask_worker", "--scheduler-file", where, "--nthreads", "1", "--no-nanny", "--no-dashboard"
    )
    try:
        with Client(scheduler_file=str(where), set_as_default=False) as client:
            data = rd.scan(files, client=client, timeout=60, partition_bytes=20_000)

            def kill(progress):
                if progress.step == 3:
                    scheduler.kill()

            with pytest.raises(ClusterError):
                clone(HINGE).fit(data, callbacks=[kill], checkpoint=kept)
    finally:
        for process in (worker, scheduler):
            process.kill()
            process.wait()
    seen = []
    ranker = clone(HINGE).fit(
        rd.scan(files, partition_bytes=20_000),
        callbacks=[lambda progress: seen.append(progress.step)],
        checkpoint=kept,
        resume=True,
    )
    np.testing.assert_array_equal(ranker.coef_, expected.coef_)
    assert seen[0] == 1


def test_tls_settings_are_passed_to_dask(parts, expected):
    pytest.importorskip("cryptography")
    from distributed import Client, LocalCluster
    from distributed.security import Security

    security = Security.temporary()
    with (
        LocalCluster(
            n_workers=1,
            processes=False,
            protocol="tls://",
            security=security,
            dashboard_address="127.0.0.1:0",
        ) as cluster,
        Client(cluster, security=security, set_as_default=False) as client,
    ):
        assert client.scheduler.address.startswith("tls://")
        ranker = clone(HINGE).fit(parts.on(client, timeout=100))
    np.testing.assert_array_equal(ranker.coef_, expected.coef_)


def test_large_weights_are_sent_once(parts, client, monkeypatch):
    from rankine.distributed import runners

    monkeypatch.setattr(runners, "SHARED_BYTES", 8)
    here = LeastSquaresRanker().fit(parts)
    there = LeastSquaresRanker().fit(parts.on(client, timeout=100))
    np.testing.assert_array_equal(here.coef_, there.coef_)


def test_an_unreachable_scheduler_is_named():
    with (
        pytest.raises(ClusterError, match=r"cannot reach a scheduler at tcp://127\.0\.0\.1:9"),
        connect("tcp://127.0.0.1:9", timeout=1.0),
    ):
        pass


@pytest.mark.parametrize("address", ["local:0", "local:x", "somewhere:8786"])
def test_an_invalid_address_is_refused(address):
    with pytest.raises(ParameterError, match="cannot read the cluster"), connect(address):
        pass


def test_an_object_that_is_not_a_client_is_refused(files):
    with raises_for("client"):
        rd.scan(files, client="tcp://127.0.0.1:8786")


def test_without_dask_the_extra_is_named(files, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError):
        rd.scan(files, client=object())


def test_a_task_that_kills_its_workers_is_an_error_with_a_fix():
    from distributed.scheduler import KilledWorker

    with pytest.raises(ClusterError), cluster_errors(None):
        raise KilledWorker("rankine-risk-3", None, 3)


def test_a_worker_without_rankine_is_an_error():
    with pytest.raises(ClusterError), cluster_errors(None):
        raise ModuleNotFoundError("No module named 'rankine'")
