"""What a run consists of, what it reports, when it is saved, and results that are none."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from rankine.core.errors import DivergenceError, NoPairsError
from rankine.data import Dataset
from rankine.kernels.random import random_bits
from rankine.losses.pairwise.hinge import Hinge
from rankine.samplers.draw import draw_pair, pair_sampler
from rankine.solvers.pair_sgd import (
    PairPlan,
    Phase,
    Span,
    _require_in_ball,
    run_phase,
    solve_pairs,
)
from rankine.solvers.pair_steps import (
    COUNT,
    PassiveAggressiveStep,
    average_iterate,
    gradient_step,
    last_iterate,
    new_vector,
)

pytestmark = pytest.mark.kernels


@pytest.mark.parametrize(
    ("plan", "given", "expected"),
    [
        (PairPlan("a", warm_step=7), (10,), [("a", 0, 10, 0, 5)]),
        (PairPlan("a", warm_step=7), (11, 4), [("a", 4, 15, 0, 9)]),
        (PairPlan("a", warm_step=7), (10, 0, True), [("a", 0, 10, 7, 5)]),
        (PairPlan("a", warm_step=7), (10, 4, True), [("a", 4, 14, 0, 9)]),
        (PairPlan("a", average=False), (10, 4), [("a", 4, 14, 0, 14)]),
        (PairPlan("a", "b", warm_step=7), (100,), [("a", 0, 10, 0, 50), ("b", 10, 100, -3, 50)]),
        (PairPlan("a", "b", 30, 7), (90, 20), [("a", 20, 30, 0, 65), ("b", 30, 110, -23, 65)]),
        (PairPlan("a", "b", 30, 7), (90, 30), [("b", 30, 120, -23, 75)]),
        (PairPlan("a", "b", 30), (90, 20), [("a", 20, 30, 0, 65), ("b", 30, 110, -30, 65)]),
        (PairPlan("a", "b", 30, 7), (90, 40), [("b", 40, 130, -23, 85)]),
        (PairPlan("a", "b", 500, 7), (90, 10), [("a", 10, 100, 0, 55)]),
        (PairPlan("a", "b", -5, 7), (90,), [("b", 0, 90, 7, 45)]),
    ],
)
def test_phases_follow_the_plan(plan, given, expected):
    n_steps, taken, warm = (*given, 0, False)[:3] if len(given) < 3 else given
    found = plan.phases(n_steps, taken, warm=bool(warm))
    assert found == [Phase(*phase) for phase in expected]


def lists(n=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, n))
    return Dataset.from_arrays(X, rng.integers(0, 3, 40), np.repeat(range(4), 10))


class Keeps:
    """A checkpointer in memory."""

    def __init__(self, every, saved=None):
        self.every, self.saved, self.steps = every, saved, []

    def next_due(self, step):
        return (step // self.every + 1) * self.every

    def save(self, solver, step, arrays, facts):
        assert solver == "pairs"
        self.steps.append(step)
        copied = {name: array.copy() for name, array in arrays.items()}
        self.saved = SimpleNamespace(step=step, arrays=copied, metadata={**facts})
        self.saved.metadata["trace"] = list(facts["trace"])

    def restore(self, solver):
        assert solver == "pairs"
        return self.saved


def run(stops=(60,), taken=0, **options):
    """A run of two learners over 60 steps, drawn from so many spans."""
    data = lists()
    sampler = pair_sampler(data, np.ones(4))
    plan = PairPlan(PassiveAggressiveStep(0.5), gradient_step(Hinge(), 0.1, project=False), 25)
    spans = [Span(data.rows, sampler, stop) for stop in stops]
    return solve_pairs(spans, plan.phases(60 - taken, taken), np.full(6, 0.2), 9, **options)


def test_reports_come_after_the_requested_steps_and_at_the_end():
    told, recorded = [], []

    def record(step, coef):
        recorded.append((step, coef.copy()))
        return {"length": float(np.linalg.norm(coef))} if step != 30 else {}

    solution = run(
        report_at=[0, 10, 30, 31, 60, 70], record=record, callbacks=[lambda p: told.append(p) or 0]
    )
    assert [progress.step for progress in told] == [10, 30, 31, 60]
    assert {(progress.stage, progress.total) for progress in told} == {("steps", 60)}
    assert [step for step, _ in recorded] == [10, 30, 31, 60]
    assert [row["step"] for row in solution.trace] == [10, 31, 60]
    for progress, (_, coef) in zip(told, recorded, strict=True):
        assert progress.values == {} or progress.values["length"] == np.linalg.norm(coef)
    np.testing.assert_array_equal(recorded[-1][1], solution.coef)
    assert (solution.stop_reason, solution.n_iter) == ("steps", 60)
    np.testing.assert_array_equal(told[-1].coef(), solution.coef)
    assert run(report_at=[10]).trace == ()


@pytest.mark.parametrize(("at", "reason"), [(10, "callback"), (30, "callback"), (60, "steps")])
def test_a_callback_stops_a_run_that_has_not_ended(at, reason):
    solution = run((20, 60), report_at=[10, 30], callbacks=[lambda p: p.step == at])
    assert (solution.stop_reason, solution.n_iter) == (reason, at)


def test_spans_reports_and_checkpoints_change_no_bit():
    whole = run()
    checkpointer = Keeps(7)
    for options in (
        {"stops": (13, 40, 60)},
        {"report_at": range(0, 60, 4)},
        {"stops": (30, 60), "checkpointer": checkpointer},
    ):
        np.testing.assert_array_equal(run(**options).coef, whole.coef)
    assert checkpointer.steps == [7, 14, 21, 28, 35, 42, 49, 56]


@pytest.mark.parametrize("steps", [14, 28, 56])
def test_a_saved_run_resumes_with_the_same_bits(steps):
    record = lambda step, coef: {"first": float(coef[0]), "at": step}  # noqa: E731
    options = {"report_at": range(5, 60, 5), "record": record}
    whole, checkpointer = run(**options), Keeps(7)
    with pytest.raises(ZeroDivisionError):
        run(checkpointer=checkpointer, callbacks=[lambda p: 1 / (p.step < steps + 1)], **options)
    assert checkpointer.steps[-1] == steps
    again = Keeps(7, checkpointer.saved)
    solution = run(checkpointer=again, **options)
    np.testing.assert_array_equal(solution.coef, whole.coef)
    assert solution.trace == whole.trace
    assert again.steps == list(range(steps + 7, 60, 7))


def test_the_mean_is_over_the_second_half():
    """Of both learners; those before are not counted."""
    data = lists()
    sampler, w = pair_sampler(data, np.ones(4)), new_vector(np.full(6, 0.2))
    plan = PairPlan(PassiveAggressiveStep(0.5), gradient_step(Hinge(), 0.1, project=False), 25)
    total = []
    for phase in plan.phases(60):
        lone = phase.__class__(phase.learner, phase.start, phase.stop, phase.shift, 10**9)
        for at in range(phase.start, phase.stop):
            run_phase(data.rows, sampler, lone, w, 9, (at, at + 1))
            total.append(last_iterate(w))
    np.testing.assert_allclose(run().coef, np.mean(total[30:], axis=0), rtol=1e-10)
    assert not w.c[COUNT]
    np.testing.assert_array_equal(average_iterate(w), last_iterate(w))


def test_a_split_phase_has_the_same_bits():
    """Rows are fetched ahead by batches of 64 steps."""
    data = lists()
    sampler, found = pair_sampler(data, np.ones(4)), []
    for cuts in ([0, 200], [0, 3, 67, 128, 200]):
        w = new_vector(np.zeros(6))
        for span in pairwise(cuts):
            phase = Phase(gradient_step(Hinge(), 0.1, project=True), 0, 200, 0, 100)
            run_phase(data.rows, sampler, phase, w, 3, span)
        found.append(average_iterate(w))
    np.testing.assert_array_equal(*found)
    assert w.c[COUNT] == 100


def test_a_step_without_a_pair_raises_an_error_with_its_number():
    data = Dataset.from_arrays(np.eye(4), [0, 0, 0, 1], [0, 0, 0, 0])
    sampler = pair_sampler(data, np.ones(1), sampling="rejection", max_trials=1)
    found = [draw_pair(sampler, random_bits(np.uint64(2), i), i)[2] >= 0 for i in range(20)]
    first = found.index(False)
    w, phase = new_vector(np.zeros(4)), Phase(PassiveAggressiveStep(1.0), 0, 20, 0, 0)
    with pytest.raises(NoPairsError, match=f"at step {first}"):
        run_phase(data.rows, sampler, phase, w, 2, (0, 20))


def test_tied_pairs_are_pairs():
    data = Dataset.from_arrays(np.eye(4), [0, 0, 0, 1])
    sampler = pair_sampler(data, np.ones(1), sampling="uniform", ties=True)
    drawn = [draw_pair(sampler, random_bits(np.uint64(2), i), i)[2] for i in range(30)]
    assert set(drawn) == {0.0, 1.0}
    w, phase = new_vector(np.zeros(4)), Phase(PassiveAggressiveStep(1.0), 0, 30, 0, 0)
    run_phase(data.rows, sampler, phase, w, 2, (0, 30))
    assert last_iterate(w)[3] > max(last_iterate(w)[:3])


def test_results_are_checked_when_a_phase_ends():
    data = Dataset.from_arrays(np.eye(4), [0, 0, 0, 1])
    sampler, far = pair_sampler(data, np.ones(1)), new_vector(np.array([9.0, 0.0, 0.0, 0.0]))
    projected = Phase(gradient_step(Hinge(), 1.0, project=True), 0, 9, 0, 9)
    run_phase(data.rows, sampler, projected, far, 2, (3, 3))
    with pytest.raises(DivergenceError, match="length 9"):
        run_phase(data.rows, sampler, projected, far, 2, (9, 9))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_features_whose_squares_overflow_raise_an_error():
    data = Dataset.from_arrays(1e200 * np.eye(4), [0, 0, 0, 1])
    spans = [Span(data.rows, pair_sampler(data, np.ones(1)), 9)]
    with pytest.raises(DivergenceError, match="step 9"):
        solve_pairs(spans, [Phase(PassiveAggressiveStep(1.0), 0, 9, 0, 0)], np.zeros(4), 2)


def test_projected_weights_lie_in_their_ball():
    def require(length, *, counted=0.0, average_from=5, max_norm2=4.0, **learner):
        learner = learner or {"max_norm2": max_norm2}
        w = new_vector(np.array([0.0, length]))
        w.c[COUNT] = counted
        if counted:
            w.u[:] = [0.0, length]
        _require_in_ball(w, Phase(SimpleNamespace(**learner), 5, 9, 0, average_from))

    require(2.0)
    require(2.0 * (1 + 0.9e-6))
    require(9.0, max_norm2=np.inf)
    require(9.0, C=1.0)  # a learner that does not project
    require(9.0, counted=1.0, average_from=4)  # iterates of another learner are in the mean
    for given in (
        {"length": 2.0 * (1 + 1.1e-6)},
        {"length": np.nan},
        {"length": 9.0, "average_from": 4},
        {"length": 9.0, "counted": 1.0},
    ):
        with pytest.raises(DivergenceError, match="after 9 steps"):
            require(**given)


def test_infinite_weights_raise_an_error_at_reports_and_checkpoints():
    data = lists()
    sampler = pair_sampler(data, np.ones(4))
    learner = PassiveAggressiveStep(0.5)

    def broken(**options):
        coef = np.array([np.nan] + [0.0] * 5)
        spans = [Span(data.rows, sampler, 20)]
        return solve_pairs(spans, [Phase(learner, 0, 20, 0, 20)], coef, 1, **options)

    for at, options in (
        (20, {}),
        (5, {"report_at": [5]}),
        (5, {"report_at": [5], "record": lambda *_: {}}),
        (7, {"checkpointer": Keeps(7)}),
    ):
        with pytest.raises(DivergenceError, match=f"step {at}"):
            broken(**options)
