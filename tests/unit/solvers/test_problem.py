"""Problems of rows in memory and of partitions have the same values."""

from __future__ import annotations

import numpy as np
import pytest

from rankine.core.errors import DivergenceError
from rankine.data import Dataset
from rankine.distributed.worker_pool import sum_in_order
from rankine.losses.domination import DominationOptions, domination_risk
from rankine.losses.least_squares import least_squares_risk, least_squares_totals
from rankine.losses.pair_queries import PairTotals, pair_risk, pair_totals
from rankine.solvers import problem as module
from rankine.solvers.bundle import solve_bundle
from rankine.solvers.cg import solve_cg
from rankine.solvers.newton import solve_newton
from rankine.solvers.problem import NormalEquations, Penalty, Problem, RowsProblem, coarsen
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
    problems = [RowsProblem.from_dataset(part, risk(part)) for part in partitions_of(data)]

    def total(question, *arguments):
        answer = sum_in_order(getattr(one, question)(*arguments) for one in problems)
        return answer if isinstance(answer, tuple) else (answer,)

    return Problem(total, data.n_features, at_zero)


def totals_of(data, count, *arguments):
    found = [count(part, *arguments) for part in partitions_of(data)]
    return PairTotals(*np.sum(found, axis=0).tolist())


def pair_problems(data, loss, normalization):
    """In memory, and in partitions."""
    whole = RowsProblem.from_dataset(data, pair_risk(data, None, loss, normalization))
    totals = totals_of(data, pair_totals)
    risk = lambda part: pair_risk(part, None, loss, normalization, totals=totals)  # noqa: E731
    return whole, summed(data, risk, whole.at_zero)


@pytest.mark.parametrize("normalization", ["query", "pair", "sum"])
@pytest.mark.parametrize(
    ("loss", "solve"), [("hinge", solve_bundle), ("squared_hinge", solve_newton)]
)
def test_pair_risks_of_partitions_sum_to_the_whole(normalization, loss, solve):
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
def test_least_squares_of_partitions_sum_to_the_whole(normalization):
    data = dataset(3)
    totals = totals_of(data, least_squares_totals)
    problems = (
        RowsProblem.from_dataset(data, least_squares_risk(data, None, normalization)),
        summed(data, lambda part: least_squares_risk(part, None, normalization, totals=totals)),
    )
    found = [solve_cg(NormalEquations(problem), 0.1, tol=1e-12) for problem in problems]
    np.testing.assert_allclose(found[1].coef, found[0].coef, rtol=1e-9)
    assert found[1].objective == pytest.approx(found[0].objective)


def test_domination_partitions_sum_to_the_whole():
    data = dataset(4)
    risk = lambda part: domination_risk(part, DominationOptions())  # noqa: E731
    zero, penalty = np.zeros(4), Penalty(0.5, 0.1)
    found = []
    for problem in (RowsProblem.from_dataset(data, risk(data)), summed(data, risk)):
        first = problem.value_and_gradient(zero)
        found.append(solve_quasi_newton(problem, penalty, zero, at_zero=first[0], tol=1e-9))
    assert [one.stop_reason for one in found] == ["converged"] * 2
    np.testing.assert_allclose(found[1].coef, found[0].coef, rtol=1e-6)


def test_smoothed_hinge_is_a_close_lower_bound_with_correct_slopes():
    data = dataset(6)
    rng = np.random.default_rng(2)
    for problem in pair_problems(data, "hinge", "sum"):
        for width in (0.5, 0.1, 1e-3):
            smooth = problem.smoothed(width)
            w, d = rng.normal(size=(2, 4))
            hinge = problem.value_and_gradient(w)[0]
            value, gradient = smooth.gradient_with_curvature(w)
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
def test_an_infinite_start_raises_an_error():
    data = dataset()
    problem = RowsProblem.from_dataset(data, domination_risk(data, DominationOptions()))
    with pytest.raises(DivergenceError):
        solve_quasi_newton(problem, Penalty(0.1, 0.0), np.full(4, 1e308), at_zero=1.0)


def test_penalties_and_the_better_of_their_bounds():
    """The dual of |w - 1|^2 / 2 at slopes u is <u, 1> - |u|^2 / 2 with the sign of the bound."""
    slopes = np.array([0.5, -2.0, 1.0])
    asked = []

    def dual(kappa):
        asked.append(kappa)
        return 10.0 * kappa - 6.0 * kappa**2

    w = np.array([1.0, -2.0, 0.0])
    assert Penalty(0.5, 0.2).value(w) == pytest.approx(0.5 * 3.0 + 0.1 * 5.0)
    for l1, l2, points, best in (
        (2.0, 1.0, [1.0], 4.0),  # l1 holds the slopes as they are
        (0.5, 0.0, [0.25], 10 / 4 - 6 / 16),
        (0.5, 1.0, [0.25, 1.0], max(10 / 4 - 6 / 16, 4.0 - (1.5**2 + 0.5**2) / 2)),
        (0.5, 9.0, [0.25, 1.0], 4.0 - (1.5**2 + 0.5**2) / 18),
        (0.0, 9.0, [0.0, 1.0], 4.0 - (0.5**2 + 2.0**2 + 1.0) / 18),
    ):
        asked.clear()
        assert Penalty(l1, l2).lower_bound(dual, slopes) == pytest.approx(best)
        assert asked == points
    assert Penalty(0.0, 1.0).lower_bound(dual, np.zeros(3)) == 4.0


@pytest.mark.parametrize("grouped", [True, False])
def test_a_sample_is_every_eighth_query_or_row(grouped, monkeypatch):
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(20), rng.integers(9, 30, 20))
    y = rng.integers(0, 3, len(qid)).astype(float)
    y[qid == 3] = 1.0  # ties only
    order = np.arange(len(qid)) if grouped else rng.permutation(len(qid))
    data = Dataset.from_arrays(rng.normal(size=(len(qid), 2))[order], y[order], qid[order])
    weight = np.arange(20.0)
    monkeypatch.setattr(module, "MIN_ROWS", data.n_rows + 1)
    assert coarsen(data, weight) is None
    monkeypatch.setattr(module, "MIN_ROWS", data.n_rows)
    monkeypatch.setattr(module, "MIN_QUERIES", 19)
    queries, kept = coarsen(data, weight)
    usable = data.labels.queries_with_pairs[::8]
    assert len(usable) == 3
    assert queries.queries.ids.tolist() == data.queries.ids[usable].tolist()
    assert kept.tolist() == weight[usable].tolist()
    monkeypatch.setattr(module, "MIN_QUERIES", 20)
    rows, same = coarsen(data, weight)
    assert same is weight
    expected = [row for q in range(20) for row in data.queries.rows_of(q)[::8]]
    np.testing.assert_array_equal(np.sort(rows.X[:, 0]), np.sort(data.X[expected, 0]))


@pytest.mark.parametrize(("n_queries", "whole"), [(511, False), (512, True)])
def test_whole_queries_are_sampled_if_there_are_hundreds(n_queries, whole):
    m = 32_000
    data = Dataset.from_arrays(
        np.zeros((m, 1)), np.arange(m) % 2, np.sort(np.arange(m) % n_queries)
    )
    sample, _ = coarsen(data, np.ones(n_queries))
    assert sample.n_queries == (64 if whole else n_queries)


def test_products_are_counted_and_shifted():
    data = dataset()
    equations = NormalEquations(RowsProblem.from_dataset(data, least_squares_risk(data)))
    v = np.arange(4.0)
    assert (equations.products, equations.n_features) == (0, 4)
    plain = equations.times(v)
    np.testing.assert_allclose(equations.times(v, 0.5), plain + 0.5 * v)
    assert equations.products == 2
    spread = equations.problem.quadratic_risk(v)
    assert equations.objective(v, 0.5) == pytest.approx(spread + 0.5 * 14.0)
    zero = equations.problem.quadratic_risk(np.zeros(4))
    assert spread == pytest.approx(v @ plain - 2 * v @ equations.b + zero)


def test_curvature_and_smoothed_problem_are_cached():
    """A smoothed problem of the same width, and the curvature of the same weights."""
    problem = RowsProblem.from_dataset(dataset(), pair_risk(dataset()))
    smooth = problem.smoothed(0.5)
    assert problem.smoothed(0.5) is smooth
    assert problem.smoothed(0.25) is not smooth
    asked = []
    curved = smooth.evaluate_with_curvature
    smooth.evaluate_with_curvature = lambda scores: asked.append(1) or curved(scores)
    w = np.full(4, 0.1)
    smooth.gradient_with_curvature(w)
    smooth.curvature_product(w, w)
    smooth.curvature_diagonal(w)
    assert len(asked) == 1
    smooth.curvature_product(2 * w, w)
    smooth.curvature_diagonal(2 * w)
    assert len(asked) == 2


def test_smoothed_problems_share_the_resume_point():
    marks = object()
    problem = Problem(lambda *asked: asked, 3, 2.0, marks)
    smooth = problem.smoothed(0.5)
    assert (smooth.resume_point, smooth.n_features, smooth.at_zero) == (marks, 3, 2.0)
    assert smooth._total("question", 1) == ("call_smoothed", 0.5, "question", 1)
