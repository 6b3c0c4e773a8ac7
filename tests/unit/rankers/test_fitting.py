"""One way to fit: what holds for every ranker and every source, as its capabilities say."""

from __future__ import annotations

import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from rankine import LeastSquaresRanker, RankSVM, shop_log
from rankine.rankers.fitting import Evaluator, FitMonitor, FitTask, warn_not_converged
from rankine.solvers.base import Progress, Solution


@pytest.fixture(scope="module")
def valid():
    return shop_log(30, random_state=2, list_length=6)


@pytest.mark.parametrize("solver", ["bundle", "newton", "cg", "egdm"])
def test_coef_and_l2_belong_to_the_same_strength(valid, solver):
    """Each strength has a monitor of its own; alone it stops at the same weights."""
    train = shop_log(60, random_state=3, list_length=6)
    kind = RankSVM if solver in ("bundle", "newton") else LeastSquaresRanker
    options = {"solver": solver, "early_stopping": 2, "random_state": 0}
    if solver == "newton":
        options["loss"] = "squared_hinge"
    strengths = [10.0, 1.0, 0.1]
    ranker = kind(strengths, **options).fit(train, eval_set=valid)
    place = ranker.l2s_.tolist().index(ranker.l2_)
    np.testing.assert_array_equal(ranker.coef_, ranker.coef_path_[place])
    assert ranker.score(valid) == pytest.approx(max(row["value"] for row in ranker.evals_))
    values = [replace_coef(ranker, coef).score(valid) for coef in ranker.coef_path_]
    assert ranker.score(valid) == max(values)
    largest = kind(strengths[0], **options).fit(train, eval_set=valid)
    np.testing.assert_array_equal(largest.coef_, ranker.coef_path_[0])


def replace_coef(ranker, coef):
    from copy import copy

    other = copy(ranker)
    other.coef_ = coef
    return other


def test_a_callback_ends_a_path_and_early_stopping_does_not(valid):
    train = shop_log(60, random_state=3, list_length=6)
    early = LeastSquaresRanker([10.0, 1.0, 0.1], early_stopping=1).fit(train, eval_set=valid)
    assert len(early.path_) == 3
    ended = RankSVM([10.0, 1.0, 0.1]).fit(train, callbacks=[lambda _: True])
    assert len(ended.path_) == 1
    assert ended.solution_.stop_reason == "callback"


def test_a_warning_names_the_worst_of_several_runs():
    runs = {
        f"l2={gap}": SimpleNamespace(certificate={"gap": gap}, stop_reason="max_iter", n_iter=3)
        for gap in (0.5, 0.9, 0.7, 0.001)
    }
    with pytest.warns(ConvergenceWarning, match=r"3 of 4 runs, l2=0.9 the worst, .* at gap=0.9"):
        warn_not_converged("A ranker", 0.01, runs)


def evaluator_of(*values, larger=True):
    """A judge that says these values one after the other."""
    left = iter(values)
    metric = SimpleNamespace(sign=1.0 if larger else -1.0)
    return Evaluator(metric, lambda _coef: next(left), None)


def reports(monitor, steps, first=1):
    return [
        monitor(Progress("fit", k, None, {"loss": 1.0}, lambda k=k: np.full(2, float(k))))
        for k in range(first, first + steps)
    ]


@pytest.mark.parametrize("sign", [1, -1])
def test_patience_counts_reports_without_a_better_value(sign):
    values = [sign * value for value in (0.5, 0.5, 0.6, 0.6, 0.6, 0.9)]
    monitor = FitMonitor(evaluator_of(*values, larger=sign > 0), 2, ())
    assert reports(monitor, 5) == [False, False, False, False, True]
    assert monitor.best_coef.tolist() == [3.0, 3.0]
    assert [row["value"] for row in monitor.trace] == values[:5]
    assert monitor.trace[0] == {"step": 1, "value": values[0], "loss": 1.0}
    ended = Solution(np.zeros(2), 0.0, {}, 5, (), "callback")
    found = monitor.finish(ended)
    assert (found.coef.tolist(), found.stop_reason) == ([3.0, 3.0], "early_stopping")
    assert monitor.finish(replace(ended, stop_reason="converged")).stop_reason == "converged"
    never = FitMonitor(evaluator_of(*values, larger=sign > 0), None, ())
    assert not any(reports(never, 6))
    assert never.finish(ended) is ended


def test_a_stop_by_callback_differs_from_early_stopping():
    monitor = FitMonitor(evaluator_of(0.5, 0.4, 0.3), 9, [lambda told: told.step == 2])
    assert reports(monitor, 3) == [False, True, True]
    ended = Solution(np.zeros(2), 0.0, {}, 3, (), "callback")
    assert monitor.finish(ended).stop_reason == "callback"
    assert monitor.finish(ended).coef.tolist() == [1.0, 1.0]
    plain = FitMonitor(None, 3, [lambda _: None])
    assert reports(plain, 2) == [False, False]
    assert plain.finish(ended) is ended
    assert (plain.callbacks, plain.state()) == ((plain,), ({}, {}))
    assert FitMonitor(None, None, ()).callbacks == ()
    fresh = FitMonitor(evaluator_of(), 3, ())
    assert fresh.state() == ({}, {"evals": [], "best_value": None, "since_best": 0})
    fresh.restore({}, {})
    assert (fresh.trace, fresh.since_best, fresh.best_coef) == ([], 0, None)
    unknown = FitMonitor(evaluator_of(np.nan, np.nan), 2, ())
    assert reports(unknown, 2) == [False, True], "no value is better than none"


@pytest.mark.parametrize("cut", range(6))
def test_a_restored_monitor_continues_where_it_was_saved(cut):
    values = (0.5, 0.7, 0.6, 0.7, 0.65, 0.6)
    whole = FitMonitor(evaluator_of(*values), 4, ())
    expected = reports(whole, 6)
    first, second = (
        FitMonitor(evaluator_of(*values), 4, ()),
        FitMonitor(evaluator_of(*values[cut:]), 4, ()),
    )
    told = reports(first, cut)
    second.restore(*first.state())
    assert told + reports(second, 6 - cut, cut + 1) == expected
    assert (second.trace, second.since_best) == (whole.trace, whole.since_best)
    assert second.best_value == whole.best_value
    np.testing.assert_array_equal(second.best_coef, whole.best_coef)


@pytest.mark.parametrize("larger", [True, False])
def test_the_best_solution_is_kept_and_the_last_without_an_evaluator(larger):
    solutions = [Solution(np.full(1, k), 0.0, {"gap": 1.0}, k) for k in (0.0, 1.0, 2.0)]
    values = {0.0: 2.0, 1.0: 1.0, 2.0: 2.0}
    metric = SimpleNamespace(sign=1.0 if larger else -1.0)
    evaluator = Evaluator(metric, lambda coef: values[coef[0]], None)
    task = FitTask(None, None, evaluator=evaluator)
    found = task.select_best([9.0, 8.0, 7.0, 6.0], solutions)
    assert found.position == (0 if larger else 1)
    assert found.values == [9.0, 8.0, 7.0]
    assert found.value == (9.0 if larger else 8.0)
    assert [rows[0]["value"] for rows in found.evals] == [2.0, 1.0, 2.0]
    assert task.select_best([9.0, 8.0], solutions[:2]).position == (0 if larger else 1)
    alone = replace(task, evaluator=None).select_best([9.0, 8.0, 7.0], solutions)
    assert (alone.position, alone.evals) == (2, [[], [], []])
    noted = found.with_parameters(l2=3.0).with_parameters(C=4.0)
    assert dict(noted.solution.certificate) == {"gap": 1.0, "l2": 3.0, "C": 4.0}
    one = task.select_best([9.0], solutions[:1])
    assert (one.position, one.values) == (0, [9.0])
    assert (task.seed, task.steps_seen) == (0, 0)


def test_the_warning_names_certificate_and_tolerance():
    def run(gap, reason="max_iter", what="relative_gap"):
        return SimpleNamespace(certificate={what: gap, "gap": 99.0}, stop_reason=reason, n_iter=3)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_not_converged("A", 0.01, {0: run(0.01)})
        warn_not_converged("A", None, {0: run(0.5)})
        warn_not_converged("A", 0.01, {0: run(0.5, "callback"), 1: run(0.5, "early_stopping")})
        warn_not_converged("A", 0.01, {0: SimpleNamespace(certificate={}, stop_reason="steps")})
    with pytest.warns(ConvergenceWarning, match=r"^A stopped .*relative_gap=nan, short of tol"):
        warn_not_converged("A", 0.01, {0: run(np.nan)})
    with pytest.warns(ConvergenceWarning, match=r"^A in 1 of 2 runs, b the worst, stopped"):
        warn_not_converged("A", 0.01, {"a": run(0.001), "b": run(0.011)})


@pytest.mark.parametrize(("gain", "kept"), [(0.0, 2.0), (-0.1, 0.0)])
def test_no_weights_are_kept_only_if_the_others_are_worse_with_their_interval(gain, kept):
    metric = SimpleNamespace(sign=1.0)
    evaluator = SimpleNamespace(
        metric=metric,
        record=lambda step, coef: {"step": step, "value": -float(coef[0])},
        largest_gain=lambda _: gain,
    )
    monitor = FitMonitor(evaluator, None, ())
    for step, weight in enumerate((0.0, 2.0, 3.0)):
        monitor(Progress("fit", step, None, {}, lambda w=weight: np.array([w])))
    assert monitor.best_coef[0] == kept
