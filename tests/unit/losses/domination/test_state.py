"""Value, dual and slopes of the domination loss, and its running sums."""

import numpy as np
import pytest
from scipy import sparse
from slow_domination import brute_loss, slope

from rankine.data import Dataset
from rankine.kernels.columns import columns_of, shift, slope_and_curvature
from rankine.losses.domination import (
    DominationOptions,
    DominationRisk,
    build_domination_task,
    domination_risk,
)
from rankine.losses.domination.task import (
    resolve_table,
)
from rankine.solvers.coordinate_descent import CoordinateDescent
from rankine.solvers.problem import Penalty, RowsProblem

pytestmark = pytest.mark.kernels


TABLE = np.array([[0.0, 0, 0, 0], [0.3, 0, 0, 0], [1.1, 0.2, 0, 0], [0.9, 1.5, 0.4, 0]])


def problem(seed, levels=3, m=24, n=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n)) * (rng.random((m, n)) < 0.6)
    return X, rng.integers(0, levels, m).astype(float), rng.integers(0, 3, m), rng


def start(X, y, qid, *, weight=None, query_weight=None, **options):
    data = Dataset.from_arrays(X, y, qid)
    ids = data.queries.ids
    chosen = np.ones(len(ids)) if query_weight is None else query_weight[ids]
    levels = build_domination_task(
        data.y, data.queries, chosen, DominationOptions(**options), weight=weight
    )
    return CoordinateDescent(DominationRisk(levels), columns_of(data.rows, X.shape[1]))


CASES = {
    "binary": ({"levels": 2}, {}),
    "levels": ({"levels": 4}, {}),
    "margin": ({"levels": 3}, {"margin": 0.4, "margin_scale": 1.5}),
    "table": ({"levels": 4}, {"margin_table": TABLE}),
    "table and margin": ({"levels": 4}, {"margin_table": TABLE, "margin": 0.3}),
    "query": ({"levels": 3}, {"normalization": "query"}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_shifting_one_weight_equals_recomputing(case, weighted):
    made, options = CASES[case]
    X, y, qid, rng = problem(7, **made)
    weight = rng.choice([0.0, 0.5, 3.0], len(y)) if weighted else None
    descent = start(sparse.csr_array(X), y, qid, weight=weight, **options)
    again = start(sparse.csr_array(X), y, qid, weight=weight, **options)
    scratch = descent.risk.scratch()
    w = np.zeros(X.shape[1])
    for _ in range(60):
        r = int(rng.integers(len(w)))
        d = rng.normal()
        w[r] += d
        slope_and_curvature(descent.risk.state, descent.columns, r, scratch)
        shift(descent.risk.state, descent.columns, r, d, scratch)
    again.restart(w)
    np.testing.assert_allclose(descent.gradient(1), again.gradient(1), rtol=1e-8, atol=1e-9)
    assert descent.risk.value() == pytest.approx(again.risk.value(), rel=1e-9)


def test_scores_far_apart_stay_finite():
    X = np.array([[1.0], [0.0], [-1.0], [0.5]])
    descent = start(X, np.array([0.0, 1.0, 1.0, 2.0]), np.zeros(4, dtype=int))
    descent.restart(np.array([1e4]))
    assert descent.risk.value() == pytest.approx(10000 + 20000 + 5000, rel=1e-12)
    assert np.isfinite(descent.gradient(1)).all()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("l1", "l2"), [(1.0, 0.0), (0.5, 0.3), (0.0, 0.5)])
def test_dual_never_exceeds_the_objective_anywhere(case, l1, l2):
    made, options = CASES[case]
    X, y, qid, rng = problem(11, **made)
    weight = rng.choice([0.5, 1.0, 2.0], len(y))
    descent = start(X, y, qid, weight=weight, **options)
    penalty = Penalty(l1, l2)
    points = [rng.normal(size=X.shape[1]) * scale for scale in (0.0, 0.1, 1.0, 5.0)]
    objectives, bounds = [], []
    for w in points:
        descent.restart(w)
        objectives.append(descent.risk.value() + penalty.value(w))
        bounds.append(penalty.lower_bound(descent.risk.current_dual, descent.gradient(1)))
    assert max(bounds) <= min(objectives) + 1e-9
    assert descent.risk.current_dual(0.0) == pytest.approx(0.0, abs=1e-12)


def test_a_level_that_underflows_leaves_the_others_in_the_sum():
    """e^-1000 is 0: the first query's loss is 0, and the second's still counts."""
    X = np.array([[1000.0], [0.0], [0.0], [1.0], [2.0]])
    y, qid = np.array([1.0, 0.0, 1.0, 0.0, 0.0]), np.array([0, 0, 1, 1, 1])
    descent = start(X, y, qid)
    descent.restart(np.ones(1))
    second = np.log1p(np.exp(1.0) + np.exp(2.0))
    assert descent.risk.value() == pytest.approx(second, rel=1e-12)
    problem = RowsProblem.from_dataset(Dataset.from_arrays(X, y, qid), descent.risk)
    assert problem.value_and_gradient(np.ones(1))[0] == pytest.approx(second, rel=1e-12)


def test_gaps_and_margins_of_zero_are_legal():
    own, rows = resolve_table(np.zeros((2, 2)), np.array([0.0, 1.0]))
    assert (own == 0).all()
    assert rows.tolist() == [0, 1]
    X, y, qid, _ = problem(2, levels=3)
    level = start(X, y, qid, margin=np.zeros_like)
    assert level.at_zero == pytest.approx(start(X, y, qid).at_zero)


def scored(case, weighted, seed=5):
    """A risk by rows, scores, and the definition as a function of scores."""
    made, options = CASES[case]
    X, y, qid, rng = problem(seed, **made)
    weight = rng.choice([0.0, 0.5, 1.0, 3.0], len(y)) if weighted else None
    query_weight = np.array([1.0, 0.5, 2.0]) if weighted else None
    risk = start(X, y, qid, weight=weight, query_weight=query_weight, **options).risk
    s = options.get("margin", 0.0) * options.get("margin_scale", 1.0) * y

    def brute(at):
        return brute_loss(
            at, np.eye(len(y)), y, qid, s=s, weight=weight, query_weight=query_weight,
            table=options.get("margin_table"), mean=options.get("normalization") == "query",
        )  # fmt: skip

    return risk, rng.normal(size=len(y)), brute, (y, qid, weight, query_weight, s, options)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_slopes_by_row_are_derivatives_by_score(case, weighted):
    risk, scores, brute, _ = scored(case, weighted)
    assert risk.at_zero == pytest.approx(brute(np.zeros(len(scores))), rel=1e-12)
    value, slopes = risk.evaluate(scores)
    assert value == pytest.approx(brute(scores), rel=1e-12)
    np.testing.assert_allclose(slopes, slope(brute, scores), atol=1e-7)


def entropy(v):
    return v * np.log(v) if v > 0 else 0.0


@pytest.mark.parametrize("kappa", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_the_dual_equals_its_formula(case, weighted, kappa):
    risk, f, _, (y, qid, weight, query_weight, s, options) = scored(case, weighted)
    a = np.ones(len(y)) if weight is None else weight
    table = options.get("margin_table")
    total = 0.0
    for q in np.unique(qid):
        parts, dominating = 0.0, 0.0
        for i in np.flatnonzero((qid == q) & (a > 0)):
            below = np.flatnonzero((qid == q) & (y < y[i]) & (a > 0))
            if len(below) == 0:
                continue
            gap = 0.0 if table is None else table[int(y[i]), y[below].astype(int)]
            each = a[below] * np.exp(f[below] - s[below] + gap)
            z = each.sum()
            sigma = kappa * z / (z + np.exp(f[i] - s[i]))
            pull = each @ f[below] / z - np.log(z) - s[i]
            parts += a[i] * (-entropy(sigma) - entropy(1 - sigma) - sigma * pull)
            dominating += a[i]
        v = 1.0 if query_weight is None else query_weight[q]
        mean = options.get("normalization") == "query"
        total += v * parts / (dominating if mean and dominating else 1.0)
    assert risk.dual(f, kappa) == pytest.approx(total, rel=1e-11, abs=1e-12)


@pytest.mark.parametrize("far", [30.0, -30.0, 200.0, 800.0, -800.0])
@pytest.mark.parametrize("case", ["levels", "margin", "table"])
def test_moving_far_and_back_restores_the_sums(case, far):
    """Sums that were huge are computed afresh before what they lost matters."""
    made, options = CASES[case]
    X, y, qid, _ = problem(13, **made)
    descent = start(sparse.csr_array(X), y, qid, **options)
    scratch, zero = descent.risk.scratch(), np.zeros(X.shape[1])
    descent.restart(zero)
    value, gradient = descent.risk.value(), descent.gradient(1)
    for r in range(X.shape[1]):
        for step in (far, -far):
            slope_and_curvature(descent.risk.state, descent.columns, r, scratch)
            shift(descent.risk.state, descent.columns, r, step, scratch)
            assert np.isfinite(descent.risk.value())
    np.testing.assert_allclose(descent.gradient(1), gradient, rtol=1e-8, atol=1e-9)
    assert descent.risk.value() == pytest.approx(value, rel=1e-9)


def test_one_move_may_empty_a_sum():
    """What a row of nearly all the mass leaves behind is not what rounding left of it."""
    X = np.array([[1.0], [0.0], [0.0], [0.0]])
    y, qid = np.array([0.0, 0.0, 1.0, 2.0]), np.zeros(4, dtype=int)
    descent = start(sparse.csr_array(X), y, qid)
    scratch = descent.risk.scratch()
    descent.restart(np.array([25.0]))
    slope_and_curvature(descent.risk.state, descent.columns, 0, scratch)
    shift(descent.risk.state, descent.columns, 0, -50.0, scratch)
    value = descent.risk.value()
    descent.restart(np.array([-25.0]))
    assert value == pytest.approx(descent.risk.value(), rel=1e-11)


def test_one_move_may_empty_a_sum_beside_a_large_one():
    """A second label holds a row with as much mass, and one that sees what is left."""
    X = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    y, qid = np.array([0.0, 0.0, 1.0, 1.0, 2.0]), np.zeros(5, dtype=int)
    descent = start(sparse.csr_array(X), y, qid)
    scratch = descent.risk.scratch()
    descent.restart(np.array([25.0, 25.0]))
    slope_and_curvature(descent.risk.state, descent.columns, 0, scratch)
    shift(descent.risk.state, descent.columns, 0, -50.0, scratch)
    gradient = descent.gradient(1)
    descent.restart(np.array([-25.0, 25.0]))
    np.testing.assert_allclose(gradient, descent.gradient(1), rtol=1e-9)


def test_a_partition_without_pairs_has_the_loss_zero():
    alone = Dataset.from_arrays(np.zeros((3, 1)), np.ones(3), np.arange(3))
    risk = domination_risk(alone, DominationOptions())
    value, slopes = risk.evaluate(np.ones(3))
    assert (risk.at_zero, risk.value(), value, slopes.tolist()) == (0.0, 0.0, 0.0, [0.0] * 3)
    assert risk.dual(np.ones(3), 0.5) == risk.current_dual(0.5) == 0.0
