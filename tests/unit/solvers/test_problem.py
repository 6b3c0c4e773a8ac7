"""A problem in partitions is the whole problem: the same solvers, the same answers."""

from __future__ import annotations

import numpy as np
import pytest

from rankine.core.errors import DivergenceError
from rankine.data import Dataset
from rankine.distributed.team import sum_in_order
from rankine.losses.domination import TaskOptions, domination_risk
from rankine.losses.pair_queries import PairTotals, pair_risk, pair_totals
from rankine.losses.squared import pair_squares, square_totals
from rankine.solvers.bundle import solve_bundle
from rankine.solvers.cg import solve_cg
from rankine.solvers.newton import solve_newton
from rankine.solvers.problem import NormalEquations, Penalty, Problem, RowsProblem
from rankine.solvers.quasi_newton import solve_quasi_newton


def dataset(seed=0, m=120, n=4, n_queries=9):
    rng = np.random.default_rng(seed)
    X, qid = rng.normal(size=(m, n)), np.sort(rng.integers(0, n_queries, m))
    y = np.round(X @ rng.normal(size=n) + rng.normal(size=m))
    return Dataset.from_arrays(X, y, qid, weight=rng.integers(1, 3, m).astype(float))


def partitions_of(data):
    cut = [np.arange(0, 3), np.arange(3, 4), np.arange(4, data.n_queries)]
    return [data.take_queries(queries) for queries in cut]


def summed(data, risk, at_zero=None):
    """The problem of partitions in this process; ``risk(data)`` is that of one of them."""
    problems = [RowsProblem.of(part, risk(part)) for part in partitions_of(data)]

    def total(question, *arguments):
        answer = sum_in_order(getattr(one, question)(*arguments) for one in problems)
        return answer if isinstance(answer, tuple) else (answer,)

    return Problem(total, data.n_features, at_zero)


def totals_of(data, count, *arguments):
    found = [count(part, *arguments) for part in partitions_of(data)]
    return PairTotals(*np.sum(found, axis=0).tolist())


def pair_problems(data, loss, normalization):
    """In memory, and in partitions."""
    whole = RowsProblem.of(data, pair_risk(data, None, loss, normalization))
    totals = totals_of(data, pair_totals)
    risk = lambda part: pair_risk(part, None, loss, normalization, totals=totals)  # noqa: E731
    return whole, summed(data, risk, whole.at_zero)


@pytest.mark.parametrize("normalization", ["query", "pair", "sum"])
@pytest.mark.parametrize(
    ("loss", "solve"), [("hinge", solve_bundle), ("squared_hinge", solve_newton)]
)
def test_pair_risks_add_up(normalization, loss, solve):
    data = dataset()
    w = np.random.default_rng(1).normal(size=4)
    found = []
    for problem in pair_problems(data, loss, normalization):
        value, slopes = problem.evaluate(problem.scores(w))
        solution = solve(problem, 0.1, tol=1e-10 / problem.at_zero)
        found.append((value, problem.gradient(slopes), solution.objective, solution.coef))
    for whole, added in zip(*found, strict=True):
        np.testing.assert_allclose(added, whole, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("normalization", ["query", "pair", "sum"])
def test_at_zero_is_the_risk_of_equal_scores(normalization):
    data = dataset(5)
    for loss in ("hinge", "squared_hinge"):
        for problem in pair_problems(data, loss, normalization):
            assert problem.value_and_gradient(np.zeros(4))[0] == pytest.approx(problem.at_zero)


@pytest.mark.parametrize("normalization", ["query", "pair", "sum"])
def test_least_squares_add_up(normalization):
    data = dataset(3)
    totals = totals_of(data, square_totals)
    problems = (
        RowsProblem.of(data, pair_squares(data, None, normalization)),
        summed(data, lambda part: pair_squares(part, None, normalization, totals=totals)),
    )
    found = [solve_cg(NormalEquations(problem), 0.1, tol=1e-12) for problem in problems]
    np.testing.assert_allclose(found[1].coef, found[0].coef, rtol=1e-9)
    assert found[1].objective == pytest.approx(found[0].objective)


def test_domination_adds_up_and_is_asked_by_rows_in_memory_too():
    data = dataset(4)
    risk = lambda part: domination_risk(part, TaskOptions())  # noqa: E731
    zero, penalty = np.zeros(4), Penalty(0.5, 0.1)
    found = []
    for problem in (RowsProblem.of(data, risk(data)), summed(data, risk)):
        first = problem.value_and_gradient(zero)
        found.append(solve_quasi_newton(problem, penalty, zero, at_zero=first[0], tol=1e-9))
    assert [one.stop_reason for one in found] == ["converged"] * 2
    np.testing.assert_allclose(found[1].coef, found[0].coef, rtol=1e-6)


def test_a_smoothed_hinge_lies_just_below_the_hinge_and_its_slopes_fit():
    data = dataset(6)
    rng = np.random.default_rng(2)
    for problem in pair_problems(data, "hinge", "sum"):
        for width in (0.5, 0.1, 1e-3):
            smooth = problem.smoothed(width)
            w, d = rng.normal(size=(2, 4))
            hinge = problem.value_and_gradient(w)[0]
            value, gradient = smooth.curved_gradient(w)
            assert hinge - width / 2 * problem.at_zero <= value * (1 + 1e-9) <= hinge * (1 + 2e-9)
            step = 1e-6
            ahead, behind = (smooth.value_and_gradient(w + s * d) for s in (step, -step))
            slope = (ahead[0] - behind[0]) / (2 * step)
            assert gradient @ d == pytest.approx(slope, rel=1e-4, abs=1e-3)
            bend = (ahead[1] - behind[1]) / (2 * step)
            if width > 0.01:  # pairs change sides within a step otherwise
                np.testing.assert_allclose(smooth.curvature_product(w, d), bend, rtol=1e-3, atol=1)


def test_curvature_belongs_to_its_weights():
    """What was remembered of other weights is not taken for that of these."""
    data = dataset()
    whole, _ = pair_problems(data, "squared_hinge", "query")
    rng = np.random.default_rng(1)
    v = rng.normal(size=4)
    for w in (np.zeros(4), 9.0 * rng.normal(size=4), np.zeros(4)):
        fresh, _ = pair_problems(data, "squared_hinge", "query")
        expected = fresh.curvature_product(w, v)
        np.testing.assert_array_equal(whole.curvature_product(w, v), expected)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_start_beyond_the_numbers_is_an_error():
    data = dataset()
    problem = RowsProblem.of(data, domination_risk(data, TaskOptions()))
    with pytest.raises(DivergenceError, match="no longer finite"):
        solve_quasi_newton(problem, Penalty(0.1, 0.0), np.full(4, 1e308), at_zero=1.0)
