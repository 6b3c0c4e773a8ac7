"""Derivatives, bounds and updates along one weight against the definition."""

import numpy as np
import pytest
from scipy import sparse
from slow_domination import brute_loss, slope

from rankine.data import Dataset
from rankine.kernels.columns import columns_of, curvature_bounds, shift, slope_and_curvature
from rankine.losses.domination import (
    DominationOptions,
    DominationRisk,
    build_domination_task,
)
from rankine.losses.domination.state import MOVES
from rankine.solvers.coordinate_descent import CoordinateDescent

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


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_value_and_derivatives_match_the_definition(case, storage, weighted):
    made, options = CASES[case]
    X, y, qid, rng = problem(len(case), **made)
    weight = rng.choice([0.0, 0.5, 1.0, 3.0], len(y)) if weighted else None
    query_weight = np.array([1.0, 0.5, 2.0]) if weighted else None
    descent = start(storage(X), y, qid, weight=weight, query_weight=query_weight, **options)
    w = rng.normal(size=X.shape[1])
    descent.restart(w)

    def brute(at):
        return brute_loss(
            at,
            X,
            y,
            qid,
            s=options.get("margin", 0.0) * options.get("margin_scale", 1.0) * y,
            weight=weight,
            query_weight=query_weight,
            table=options.get("margin_table"),
            mean=options.get("normalization") == "query",
        )

    assert descent.risk.value() == pytest.approx(brute(w), rel=1e-12)
    gradient = slope(brute, w)
    np.testing.assert_allclose(descent.gradient(1), gradient, atol=1e-6)
    scratch = descent.risk.scratch()
    for r in range(len(w)):
        step = 1e-4 * np.eye(len(w))[r]
        bend = (brute(w + step) - 2 * brute(w) + brute(w - step)) / 1e-8
        _, h = slope_and_curvature(descent.risk.state, descent.columns, r, scratch)
        assert h == pytest.approx(bend, abs=2e-5 * max(1, bend))
        _, beta, crude = curvature_bounds(descent.risk.state, descent.columns, r, scratch)
        assert h <= beta * (1 + 1e-12)
        assert beta <= crude * (1 + 1e-12)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_bounds_come_from_the_ranges_of_a_column_within_queries(storage, weighted):
    X, y, qid, rng = problem(9, levels=3)
    X += 2.0 * (qid == 1)[:, None]  # all values of a query positive: its zeros do not count
    weight = rng.choice([0.0, 0.5, 2.0], len(y)) if weighted else np.ones(len(y))
    descent = start(storage(X), y, qid, weight=weight if weighted else None)
    scratch = descent.risk.scratch()
    for r in range(X.shape[1]):
        widest = beta = crude = 0.0
        for q in np.unique(qid):
            mine = (qid == q) & (weight > 0)
            terms = weight[mine & (y > y[mine].min())].sum()
            low, high = X[mine, r].min(), X[mine, r].max()
            widest = max(widest, high - low)
            beta += terms * (high - low) ** 2 / 4
            crude += terms * max(low**2, high**2)
        found = curvature_bounds(descent.risk.state, descent.columns, r, scratch)
        np.testing.assert_allclose(found, (widest, beta, crude), rtol=1e-12)


def test_small_steps_update_only_the_queries_they_touch():
    """Nothing is computed afresh: a query moves by the values that a column stores in it."""
    X, y, qid, _ = problem(17, levels=3)
    X[:, 0] = 0.0
    X[np.flatnonzero(qid == 1)[:2], 0] = 1.0
    descent = start(sparse.csr_array(X), y, qid)
    ids = Dataset.from_arrays(X, y, qid).queries.ids
    scratch, state = descent.risk.scratch(), descent.risk.state
    for r in range(X.shape[1]):
        descent.restart(np.zeros(X.shape[1]))
        slope_and_curvature(state, descent.columns, r, scratch)
        stored = np.array([np.count_nonzero(X[qid == q, r]) for q in ids])
        touched = np.flatnonzero(stored) if r == 0 else np.arange(3)
        assert sorted(scratch.touched[: scratch.tally[1]]) == touched.tolist()
        shift(state, descent.columns, r, 1e-3, scratch)
        np.testing.assert_array_equal(state.query[:3, MOVES], stored)


@pytest.mark.parametrize("case", ["levels", "table", "query"])
def test_short_columns_meet_queries_as_they_come(case):
    """A column of a few values clears the sums of a query when it first meets it."""
    made, options = CASES[case]
    X, y, qid, rng = problem(19, m=60, n=12, **made)
    X[rng.random(X.shape) < 0.85] = 0.0
    both = [start(storage(X), y, qid, **options) for storage in (sparse.csr_array, np.asarray)]
    scratches = [descent.risk.scratch() for descent in both]
    w = rng.normal(size=12)
    for descent in both:
        descent.restart(w)
    for r in [*range(12), 3, 3, 0]:
        few, every = (
            slope_and_curvature(descent.risk.state, descent.columns, r, scratch)
            for descent, scratch in zip(both, scratches, strict=True)
        )
        np.testing.assert_allclose(few, every, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("table", [None, np.zeros((3, 3))], ids=["plain", "table"])
def test_terms_that_underflow_do_not_change_slopes_and_bounds(table):
    """Both e^-1000 of the lowest levels are 0: only the second query moves anything."""
    X = np.array([[0.0], [0.0], [1000.0], [0.5], [0.0]])
    y, qid = np.array([0.0, 1.0, 2.0, 0.0, 1.0]), np.array([0, 0, 0, 1, 1])
    descent, alone = (
        start(X[rows], y[rows], qid[rows], margin_table=table)
        for rows in (slice(None), slice(3, None))
    )
    for one in (descent, alone):
        one.restart(np.ones(1))
    assert descent.risk.value() == pytest.approx(alone.risk.value(), rel=1e-12)
    np.testing.assert_allclose(descent.gradient(1), alone.gradient(1), rtol=1e-12)
    for kappa in (0.3, 1.0):
        dual = alone.risk.current_dual(kappa)
        assert descent.risk.current_dual(kappa) == pytest.approx(dual, rel=1e-12)
    curvatures = [
        slope_and_curvature(one.risk.state, one.columns, 0, one.risk.scratch())
        for one in (descent, alone)
    ]
    np.testing.assert_allclose(*curvatures, rtol=1e-12)
    slopes = descent.risk.evaluate(X[:, 0])[1]
    np.testing.assert_allclose(slopes[3:], alone.risk.evaluate(X[3:, 0])[1], rtol=1e-12)
    assert not slopes[:3].any()
