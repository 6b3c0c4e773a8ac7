"""A ranker after a failure: every call that does not finish leaves it as it was.

A trace function raises at the n-th line of rankine that a call runs. That is where Ctrl-C, a failed
allocation or a failed read can end it. The lines are spread over the call; ``make test-full`` takes
many more.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import replace
from itertools import count, cycle
from pathlib import Path

import joblib
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankine
import rankine.distributed as rd
from rankine import logs, shop_log
from rankine.core.errors import DataError, RankineError
from rankine.core.specs import History, HistoryFeature
from rankine.history.live import LiveHistory, Outcome, Shown
from rankine.history.state import HistoryState
from rankine.rankers.registry import RANKERS, ranker_class
from rankine.serve.metrics import Metrics
from rankine.serve.registry import Registry
from rankine.serve.reload import Reloader

#: The folder of the package's files, whatever the name of the checkout.
PACKAGE = str(Path(rankine.__file__).parent) + os.sep
#: Parameters that keep a run short.
OPTIONS = {
    "spd": {"n_steps": 200},
    "ranksvm": {"l2": 0.1},
    "least-squares": {"l2": 0.1},
    "domination": {"l1": 3.0},
    "elastic": {"l1": 0.0, "n_passes": 1},
    "additive": {"smooth": 1.0, "pairs": 1, "bins": 8},
}
PATHS = {"domination": {"n_steps": 2}, "elastic": {"n_steps": 1}, "additive": {"n_steps": 1}}
ERRORS = (KeyboardInterrupt, MemoryError, OSError)
#: Lines before the end of a call, where fitted attributes are set.
LAST_LINES = (0, 1, 2, 3, 4, 6, 9, 14)
POINTS = [
    pytest.param(5, id="short"),
    pytest.param(200, id="full", marks=[pytest.mark.full, pytest.mark.timeout(0)]),
]


@contextmanager
def trace_lines(on_line):
    """Call ``on_line`` before every line of rankine that this thread runs."""

    def trace(_frame, event, _argument):
        if event == "line":
            on_line()
        return trace

    def start(frame, _event, _argument):
        return trace if frame.f_code.co_filename.startswith(PACKAGE) else None

    earlier = sys.gettrace()
    sys.settrace(start)
    try:
        yield
    finally:
        sys.settrace(earlier)


def count_lines(call):
    """Return the number of lines that a call runs."""
    lines = count()
    with trace_lines(lambda: next(lines)):
        call()
    return next(lines)


def raise_at(line, error):
    """Raise at a line of what runs in this context."""
    lines = count()

    def raise_at_line():
        if next(lines) == line:
            raise error("injected")

    return trace_lines(raise_at_line)


def fail_at(line, error, call):
    """Run a call that fails at a line; return whether it failed."""
    with raise_at(line, error):
        try:
            call()
        except (error, RankineError):  # readers name the file of a failed read
            return True
    return False


def spread(n_lines, n_points, last=()):
    """Return the lines at which a call fails, and the error there."""
    lines = np.linspace(0, n_lines - 1, n_points).astype(int)
    chosen = {*lines.tolist(), *(n_lines - 1 - k for k in last)}
    return zip(sorted(k for k in chosen if k >= 0), cycle(ERRORS), strict=False)


def state(ranker):
    """Return a digest of all attributes but the times of the training."""
    attributes = dict(vars(ranker))
    if "training_" in attributes:
        training = attributes["training_"].items()
        attributes["training_"] = {k: v for k, v in training if "seconds" not in k}
    return joblib.hash(attributes)


def make(name, **options):
    return ranker_class(name)(random_state=0, **{**OPTIONS[name], **options})


def without_times(path):
    """Return what a path has learned; its steps are timed."""
    return path.l1.tobytes(), path.weights.toarray().tobytes()


DATA = shop_log(25, random_state=1, list_length=6)
#: Another log: fewer columns, in reverse order.
OTHER = replace(
    DATA, X=np.ascontiguousarray(-DATA.X[:, 4::-1]), feature_names=DATA.feature_names[4::-1]
)
CALLS = {
    "fit": lambda ranker: ranker.fit(OTHER),
    "fit with evaluation": lambda ranker: ranker.fit(OTHER, eval_set=OTHER),
    "warm start": lambda ranker: ranker.fit(DATA),
    "partial_fit": lambda ranker: ranker.partial_fit(DATA),
}


def calls_of(name):
    """Return the calls that a ranker has, and for a path one that compares no times."""
    calls = dict(CALLS)
    if not hasattr(make(name), "partial_fit"):
        del calls["partial_fit"]
    if name in PATHS:
        calls["path"] = lambda ranker: without_times(ranker.path(OTHER, **PATHS[name]))
    return calls.items()


@pytest.mark.parametrize("n_points", POINTS)
@pytest.mark.parametrize(
    ("name", "title", "call"),
    [
        pytest.param(name, title, call, id=f"{name}-{title}")
        for name in RANKERS
        for title, call in calls_of(name)
    ],
)
def test_a_call_that_fails_leaves_the_ranker_as_it_was(name, title, call, n_points):
    ranker = make(name, warm_start=title == "warm start").fit(DATA)
    if hasattr(ranker, "partial_fit"):
        ranker.partial_fit(DATA)
    before, finished = state(ranker), deepcopy(ranker)
    n_lines = count_lines(lambda: call(finished))
    complete, unchanged = state(finished), None
    for line, error in spread(n_lines, n_points, LAST_LINES):
        subject = deepcopy(ranker)
        failed = fail_at(line, error, lambda subject=subject: call(subject))
        after = state(subject)
        # The last lines run after everything is set.
        assert after == complete or (failed and after == before)
        if after == before:
            unchanged = subject
    assert use(unchanged, call) == use(deepcopy(ranker), call)


def use(ranker, call):
    """Return what a ranker says and learns next."""
    said = [ranker.predict(DATA).tobytes(), ranker.score(DATA), ranker.to_model().to_bytes()]
    call(ranker)
    return *said, state(ranker)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Lists as a table, and as a raw log with a text column."""
    folder = tmp_path_factory.mktemp("interrupts")
    DATA.save(folder / "lists.parquet")
    brands = np.array(["acme", "globex", "initech"])[np.arange(DATA.n_rows) % 3]
    columns = {"query": DATA.qid, "click": DATA.y, "price": DATA.X[:, 0], "brand": brands}
    pq.write_table(pa.table(columns), folder / "log.parquet", row_group_size=40)
    return folder


SOURCES = {
    "stream": ("elastic", lambda files: rankine.scan(files / "lists.parquet", block_rows=40)),
    "partitions": ("ranksvm", lambda files: rd.scan(files / "lists.parquet", partition_bytes=9000)),
    "hashed log": ("elastic", lambda files: scan_log(files, categorical=["brand"], hash_bits=8)),
    "log": ("additive", lambda files: scan_log(files, one_hot=["brand"])),
}


def scan_log(files, **columns):
    return logs.scan(
        files / "log.parquet",
        query="query",
        label="click",
        numeric=["price"],
        block_rows=40,
        **columns,
    )


@pytest.mark.parametrize("n_points", POINTS)
@pytest.mark.parametrize("kind", SOURCES)
def test_a_source_can_be_read_again_after_a_fit_that_failed(files, kind, n_points):
    name, open_source = SOURCES[kind]
    if kind == "partitions":
        n_points = 1 + n_points // 10  # every fit starts worker processes

    def fit(source):
        return make(name).fit(source).to_model().digest

    expected = fit(open_source(files))
    n_lines = count_lines(lambda: fit(open_source(files)))
    n_lines -= n_lines // 4  # the rest makes the model
    source = open_source(files)
    for line, error in spread(n_lines, n_points):
        fail_at(line, error, lambda: fit(source))
    assert fit(source) == expected


class Broken:
    """A stream whose third block cannot be read."""

    n_features = DATA.n_features
    feature_names = DATA.feature_names

    def __iter__(self):
        for first in (0, 8, 16):
            if first == 16:
                raise OSError("the disk is gone")
            yield DATA.take_queries(np.arange(first, first + 8))


@pytest.mark.parametrize("name", [n for n in RANKERS if "stream" in make(n).capabilities.fit])
def test_a_stream_that_breaks_off_leaves_the_ranker_as_it_was(name):
    ranker = make(name).fit(DATA)
    before = state(ranker)
    with pytest.raises(OSError, match="the disk is gone"):
        ranker.fit(Broken())
    assert state(ranker) == before


@pytest.mark.parametrize("name", [n for n in RANKERS if "partitions" in make(n).capabilities.fit])
def test_a_worker_that_fails_leaves_the_ranker_as_it_was(name, files, tmp_path):
    ranker = make(name).fit(DATA)
    before = state(ranker)
    path = tmp_path / "lists.parquet"
    path.write_bytes((files / "lists.parquet").read_bytes())
    partitions = rd.scan(path, partition_bytes=4000)
    path.unlink()
    with pytest.raises((OSError, ValueError)):
        ranker.fit(partitions)
    assert state(ranker) == before


@pytest.mark.parametrize("n_points", POINTS)
def test_a_tuning_goes_on_after_an_interrupt(tmp_path, n_points):
    """The interrupted trial is tried again; the others are kept."""

    def tune(study):
        result = rankine.tune(
            DATA, ranker="least-squares", valid=DATA, trials=3, study=study, random_state=0
        )
        trials = sorted(str(trial.parameters) for trial in result.trace if trial.value is not None)
        return trials, result.best_value, result.model.digest

    expected = tune(tmp_path / "whole")
    n_lines = count_lines(lambda: tune(tmp_path / "counted"))
    for k, (line, _) in enumerate(spread(n_lines, 1 + n_points // 2)):
        study = tmp_path / str(k)
        # A search that has finished trials ends with the best of them.
        fail_at(line, KeyboardInterrupt, lambda study=study: tune(study))
        assert tune(study) == expected


def test_files_can_be_loaded_after_a_load_that_failed(files, tmp_path):
    make("additive").fit(DATA).to_model().save(tmp_path / "m.rankine")
    for load in (
        lambda: rankine.LinearModel.load(tmp_path / "m.rankine").digest,
        lambda: rankine.load(files / "lists.parquet").fingerprint,
    ):
        expected = load()
        for line, error in spread(count_lines(load), 10):
            fail_at(line, error, load)
            assert load() == expected


@pytest.mark.parametrize("error", [OSError, MemoryError, KeyboardInterrupt])
def test_a_reload_that_fails_keeps_the_old_model(tmp_path, error):
    path = tmp_path / "shop.rankine"
    old, new = (make("ranksvm", l2=l2).fit(DATA).to_model() for l2 in (0.1, 1.0))
    reloader = Reloader(path, Registry(), Metrics())
    check, lines = reloader._checked, []

    def refresh(line):
        """Fail at a line of reading and checking the file."""

        def failing(*arguments):
            with raise_at(line, error):
                return check(*arguments)

        reloader._checked = failing
        with suppress(KeyboardInterrupt):
            reloader.refresh()

    old.save(path)
    reloader.refresh()
    new.save(path)
    reloader._checked = lambda *arguments: lines.append(count_lines(lambda: check(*arguments)))
    with suppress(AttributeError):  # nothing is returned
        reloader.refresh()
    for line in np.linspace(0, lines[0] - 1, 15).astype(int).tolist():
        reloader._checked = check
        old.save(path)
        reloader.refresh()
        new.save(path)
        refresh(line)
        assert reloader.registry.find("shop").model.digest == old.digest
        reloader._checked = check
        # What does not fit into memory is tried again when the file changes, or on a signal.
        reloader.refresh(retry=error is MemoryError)
        assert reloader.registry.find("shop").model.digest == new.digest
        assert reloader.registry.current.errors == {}


HISTORY = History(
    ("rate", "count"),
    (HistoryFeature(("item",), rate="clicked"), HistoryFeature(("item", "user"), count=True)),
    "list",
    "time",
)


def live_history(n_lists):
    """Return a state that lists and their outcomes were added to."""
    live = LiveHistory(HistoryState(HISTORY), join_ttl=25)
    for k in range(n_lists):
        add_list(live, k)
    return live


def add_list(live, k):
    rows = [{"item": k % 3, "user": k}, {"item": k % 2, "user": k}]
    for event in (Shown(k, k, 10 * k, [1, 2], rows), Outcome(-k, k, 10 * k, 1, {"clicked": 1})):
        live.apply(live.prepare([event])[0])


def read_features(live, time):
    columns = {"item": [0, 1, 2], "user": [3, 4, 5]}
    return live.read(time, live.state.reader.read_keys(columns, 3)).tobytes()


@pytest.mark.parametrize("n_points", POINTS)
@pytest.mark.parametrize(
    "change", [lambda live: add_list(live, 5), lambda live: read_features(live, 45)]
)
def test_a_history_update_that_fails_makes_no_difference_or_is_noticed(change, n_points):
    """A half-made change is never read, saved or added to."""
    finished = live_history(5)
    n_lines, n_noticed = count_lines(lambda: change(finished)), 0
    expected = read_features(finished, 100)
    for line, error in spread(n_lines, 6 * n_points, LAST_LINES):
        live = live_history(5)
        fail_at(line, error, lambda live=live: change(live))
        if not live.changes.has_failed:
            change(live)  # as a sender does that got no reply
            assert read_features(live, 100) == expected
            continue
        n_noticed += 1
        for use in (
            lambda live=live: read_features(live, 100),
            lambda live=live: live.prepare([]),
            lambda live=live: live.content(1),
        ):
            with pytest.raises(DataError, match="half-way"):
                use()
        live.replace(live_history(5))
        change(live)
        assert read_features(live, 100) == expected
    assert n_noticed > 0


@pytest.mark.parametrize("n_points", POINTS)
def test_a_state_whose_change_failed_is_not_saved(tmp_path, n_points):
    state = live_history(5).state
    n_lines, n_noticed = count_lines(lambda: state.advance(45)), 0
    state.advance(100)
    for line, error in spread(n_lines, n_points, LAST_LINES):
        other = live_history(5).state
        fail_at(line, error, lambda other=other: other.advance(45))
        if other.changes.has_failed:
            n_noticed += 1
            for use in (other.copy, lambda other=other: other.save(tmp_path / "s")):
                with pytest.raises(DataError, match="half-way"):
                    use()
        else:
            other.advance(100)
            assert other.read_key({"item": 1}) == state.read_key({"item": 1})
    assert n_noticed > 0
    assert list(tmp_path.iterdir()) == []
