"""Checkpoints of partitions: bounded, and the same bits wherever a run is interrupted."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import rankine.distributed as rd
from rankine import (
    Dataset,
    DominationRanker,
    ElasticRanker,
    LeastSquaresRanker,
    RankSVM,
    SPDRanker,
)
from rankine.core.errors import CheckpointError
from rankine.distributed.journal import Journal

WIDTH = 1000


class LostError(BaseException):
    """The cluster is gone, or a user interrupts; a journal must keep its records in both cases."""


class Cluster:
    """Answers sums until it is lost."""

    def __init__(self, lost_after=10**9):
        self.asked, self.lost_after = 0, lost_after

    def ask(self, v):
        if self.asked == self.lost_after:
            raise LostError
        self.asked += 1
        return np.sin(v + 0.1), float(v.sum())


class Watcher:
    """What stands beside a run: counts reports."""

    def __init__(self):
        self.seen = []

    def state(self):
        return {"all": np.array(self.seen)}, {"last": self.seen[-1:]}

    def restore(self, arrays, metadata):
        self.seen = arrays["all"].tolist()
        assert self.seen[-1:] == metadata["last"]


def nested_loops(journal, cluster, outer=6, inner=4):
    """A question, then loops within a loop, as in Newton's method; all that was reported."""
    journal.monitor = monitor = Watcher()

    def ask(name, v):
        return journal.recall_or_compute(name, (v,), lambda: cluster.ask(v))

    w, total = ask("first", np.arange(float(WIDTH)))
    begun = 0
    point = journal.resume_point("outer")
    if point.state is not None:
        begun, w, total = point.state
    for at in range(begun, outer):
        point.save(lambda at=at, w=w, total=total: (at, w, total))
        scale = ask("scale", w)[1]
        d, done = np.zeros(WIDTH), 0
        within = journal.resume_point("inner")
        if within.state is not None:
            done, d = within.state
        for k in range(done, inner + at % 2):
            within.save(lambda k=k, d=d: (k, d))
            d += ask("product", w + d)[0] / (scale + 5.0)
        w = w + d
        total += float(d.sum())
        monitor.seen.append(total)
    return np.concatenate([w, monitor.seen])


def kept_bytes(folder):
    return sum(path.stat().st_size for path in folder.glob("*"))


@pytest.mark.parametrize("seconds", [0.0, 1e9])
def test_loops_resume_wherever_they_were_interrupted(tmp_path, seconds):
    whole = Cluster()
    expected = nested_loops(Journal(tmp_path / "whole", {}, resume=False), whole)
    for lost_after in range(1, whole.asked, 2):
        folder = tmp_path / str(lost_after)
        lost = Cluster(lost_after)
        with pytest.raises(LostError):
            nested_loops(Journal(folder, {}, resume=False, seconds=seconds), lost)
        rest = Cluster()
        found = nested_loops(Journal(folder, {}, resume=True, seconds=seconds), rest)
        np.testing.assert_array_equal(found, expected)
        assert rest.asked == whole.asked - lost_after


class Clock:
    """Shows what it is set to."""

    def __init__(self, now):
        self.now = now

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    """The journal's clock, held by the test."""
    clock = Clock(100.0)
    monkeypatch.setattr("rankine.distributed.journal.time", clock)
    return clock


@pytest.mark.parametrize("seconds", [0.0, 3.0, 1e9])
@pytest.mark.parametrize("answers", [1, 2, 3, 7])
def test_a_run_that_is_interrupted_repeatedly_finishes(tmp_path, clock, seconds, answers):
    class Slow(Cluster):
        def ask(self, v):
            clock.now += 1.0
            return super().ask(v)

    whole = Cluster()
    expected = nested_loops(Journal(tmp_path / "whole", {}, resume=False), whole)
    folder, asked, resume = tmp_path / "kept", 0, False
    while True:
        cluster = Slow(answers)
        journal = Journal(folder, {}, resume=resume, seconds=seconds)
        try:
            found = nested_loops(journal, cluster)
            break
        except LostError:
            assert cluster.asked == answers
        asked, resume = asked + answers, True
    np.testing.assert_array_equal(found, expected)
    assert asked + cluster.asked == whole.asked


def test_results_and_states_are_written_when_due(tmp_path, clock):
    journal = Journal(tmp_path, {}, resume=False, seconds=5.0)

    def files():
        return [int(path.stem.removeprefix("step-")) for path in sorted(tmp_path.iterdir())]

    def answered(now):
        clock.now = now
        journal.recall_or_compute("sum", (now,), lambda: (now,))
        return files()

    assert answered(104.75) == []
    assert answered(105.0) == [1]
    assert answered(109.75) == [1]
    assert answered(110.0) == [1, 2]
    point = journal.resume_point("loop")
    written = []

    def put(now):
        clock.now = now
        point.save(lambda: written.append(now) or [now])
        return written[-1:], files()

    assert put(110.25) == ([110.25], [1, 2, 3])
    assert put(115.0) == ([110.25], [1, 2, 3])
    assert answered(115.0) == [1, 2, 3]
    assert answered(115.25) == [1, 2, 3, 4]
    # A state takes the place of the one before it and of the answers since.
    assert put(115.25) == ([115.25], [1, 2, 5])
    clock.now = 200.0
    resumed = Journal(tmp_path, {}, resume=True, seconds=5.0)
    for now in (104.75, 105.0, 109.75, 110.0):
        assert resumed.recall_or_compute("sum", (now,), lambda: pytest.fail("known")) == (now,)
    assert resumed.resume_point("loop").state == [115.25]
    assert resumed.recall_or_compute("sum", (1.0,), lambda: (2.0,)) == (2.0,)
    assert files() == [1, 2, 5]
    clock.now = 205.0
    resumed.recall_or_compute("sum", (2.0,), lambda: (2.0,))
    assert files() == [1, 2, 5, 6]


def test_a_different_request_is_an_error_with_its_number(tmp_path):
    journal = Journal(tmp_path, {}, resume=False, seconds=0.0)
    for k in range(3):
        assert journal.recall_or_record(f"number {k}", k + 7) == k + 7
    resumed = Journal(tmp_path, {}, resume=True)
    assert [resumed.recall_or_record(f"number {k}", 0) for k in range(2)] == [7, 8]
    with pytest.raises(CheckpointError, match="request 3 of this run differs"):
        resumed.recall_or_record("another", 0)


def test_the_folder_does_not_grow_with_the_rounds(tmp_path):
    sizes = {}
    for outer in (3, 40):
        folder = tmp_path / str(outer)
        nested_loops(Journal(folder, {}, resume=False, seconds=0.0), Cluster(), outer)
        sizes[outer] = kept_bytes(folder)
    # Eight numbers more for every report that the watcher has seen, and no vector more.
    assert sizes[40] < sizes[3] + 40 * 64
    assert sizes[40] < 12 * 8 * WIDTH


def test_files_that_a_kill_left_behind_are_superseded(tmp_path):
    """Killed after a state was written and before the files that it replaces were removed."""
    cluster, folder = Cluster(13), tmp_path / "kept"
    unlinked = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pathlib.Path.unlink", lambda path, **_: unlinked.append(path))
        with pytest.raises(LostError):
            nested_loops(Journal(folder, {}, resume=False, seconds=0.0), cluster)
    assert all(path.exists() for path in unlinked)
    assert len(unlinked) > 5
    expected = nested_loops(Journal(tmp_path / "whole", {}, resume=False), Cluster())
    rest = Cluster()
    found = nested_loops(Journal(folder, {}, resume=True, seconds=0.0), rest)
    np.testing.assert_array_equal(found, expected)
    assert not any(path.exists() for path in unlinked)


def test_a_missing_file_is_named(tmp_path):
    nested_loops(Journal(tmp_path, {}, resume=False, seconds=0.0), Cluster())
    min(tmp_path.glob("*.checkpoint")).unlink()
    with pytest.raises(CheckpointError):
        Journal(tmp_path, {}, resume=True)


RANKERS = {
    "hinge": RankSVM(l2=2e-2, tol=1e-5),
    "rounded": RankSVM(l2=2e-2, tol=1e-3, solver="newton"),
    "newton": RankSVM(l2=[2e-1, 2e-2], tol=1e-7, loss="squared_hinge", positive=True),
    "cg": LeastSquaresRanker(2e-2, tol=1e-9),
    "cg of several": LeastSquaresRanker([2e-1, 2e-2], tol=1e-9),
    "egdm": LeastSquaresRanker(2e-2, solver="egdm", tol=1e-9, random_state=0),
    "gdm": LeastSquaresRanker(2e-2, solver="gdm", tol=1e-2, random_state=0),
    "domination": DominationRanker(tol=1e-6),
    "spd": SPDRanker(n_steps=9_000, random_state=0),
    "elastic": ElasticRanker(random_state=0),
}


@pytest.fixture
def always(monkeypatch):
    """States and answers are written as soon as they are there."""
    monkeypatch.setitem(Journal.__init__.__kwdefaults__, "seconds", 0.0)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", RANKERS)
def test_every_solver_resumes_from_its_state(name, files, tmp_path):
    def fit(lost_after=None, **options):
        data = rd.scan(files, partition_bytes=60_000)
        total, count, told = data.runner.total, [0], []

        def counted(*arguments):
            if count[0] == lost_after:
                raise LostError
            count[0] += 1
            return total(*arguments)

        data.runner.total = counted
        ranker = clone(RANKERS[name])
        ranker.fit(data, callbacks=[lambda p: told.append(p.step) and None], **options)
        return ranker, count[0], told

    whole, rounds, told = fit()
    for k, lost_after in enumerate(np.linspace(3, rounds - 1, 3).astype(int)):
        folder = tmp_path / str(k)
        with pytest.raises(LostError):
            fit(lost_after, checkpoint=folder)
        resumed, rest, told_again = fit(checkpoint=folder, resume=True)
        np.testing.assert_array_equal(resumed.coef_, whole.coef_)
        assert resumed.solution_.certificate == pytest.approx(whole.solution_.certificate, rel=0)
        assert list(resumed.solution_.trace) == list(whole.solution_.trace)
        assert rest == rounds - lost_after
        assert len(told_again) <= len(told)
        assert set(told_again) <= set(told)


@pytest.mark.usefixtures("always")
def test_a_solver_of_many_rounds_keeps_a_few_vectors(tmp_path):
    """200 rounds of 400 weights: not 200 vectors but those that the next step needs."""
    rng = np.random.default_rng(0)
    wide = Dataset.from_arrays(
        rng.normal(size=(200, 400)), rng.integers(0, 3, 200), np.repeat(np.arange(20), 10)
    )
    wide.save(tmp_path / "wide.parquet")
    data = rd.scan(tmp_path / "wide.parquet")
    ranker = LeastSquaresRanker(1e-3, solver="gdm", tol=1e-12, max_iter=200, random_state=0)
    with pytest.warns(match="max_iter"):
        ranker.fit(data, checkpoint=tmp_path / "kept")
    assert ranker.n_iter_ == 200
    trace = 120 * len(ranker.solution_.trace)
    # Lanczos has a basis of 31, the loop itself five vectors.
    assert kept_bytes(tmp_path / "kept") < 45 * 8 * 400 + trace + 50_000


@pytest.mark.usefixtures("always")
def test_a_run_from_another_start_is_refused(files, tmp_path):
    def fit(**options):
        SPDRanker(n_steps=2_000, random_state=0).fit(
            rd.scan(files), checkpoint=tmp_path / "kept", **options
        )

    fit()
    with pytest.raises(CheckpointError):
        fit(resume=True, coef_init=np.ones(6))
