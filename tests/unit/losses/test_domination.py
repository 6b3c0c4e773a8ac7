"""The loss, its derivatives, bounds and dual against the definition."""

import numpy as np
import pytest
from scipy import sparse
from slow_domination import brute_loss, slope

from rankine.core.errors import NoPairsError, ParameterError
from rankine.data import Dataset
from rankine.kernels.columns import columns_of, curvature_bounds, shift, slope_and_curvature
from rankine.losses.domination import DominationRisk, TaskOptions, task_levels
from rankine.losses.domination.task import resolve_margin, resolve_table
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
    levels = task_levels(data.y, data.queries, chosen, TaskOptions(**options), weight=weight)
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


@pytest.mark.parametrize("case", CASES)
def test_shifting_one_weight_equals_starting_afresh(case):
    made, options = CASES[case]
    X, y, qid, rng = problem(7, **made)
    descent = start(sparse.csr_array(X), y, qid, **options)
    again = start(sparse.csr_array(X), y, qid, **options)
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
    problem = RowsProblem.of(Dataset.from_arrays(X, y, qid), descent.risk)
    assert problem.value_and_gradient(np.ones(1))[0] == pytest.approx(second, rel=1e-12)


def test_gaps_and_margins_of_zero_are_legal():
    own, rows = resolve_table(np.zeros((2, 2)), np.array([0.0, 1.0]))
    assert (own == 0).all()
    assert rows.tolist() == [0, 1]
    X, y, qid, _ = problem(2, levels=3)
    level = start(X, y, qid, margin=np.zeros_like)
    assert level.at_zero == pytest.approx(start(X, y, qid).at_zero)


def test_tables_and_margins_that_do_not_fit_the_labels_are_refused():
    y = np.array([0.5, 1.5, 2.5])
    _, rows = resolve_table(np.zeros((3, 3)), y)
    assert rows.tolist() == [0, 1, 2]
    with pytest.raises(ParameterError, match="2 x 2 but the data has 3 labels"):
        resolve_table(np.zeros((2, 2)), y)
    assert resolve_margin(1.0, 0.0, y, {}) is None
    assert resolve_margin(None, 1.0, y, {}) is None
    np.testing.assert_array_equal(resolve_margin(2.0, 0.5, y, {}), y)
    for columns, known in (({}, "none"), ({"b": y, "a": y}, "a, b")):
        with pytest.raises(ParameterError, match=rf"\(columns: {known}\)"):
            resolve_margin("gap", 1.0, y, columns)


@pytest.mark.parametrize("of", ["rows", "queries", "candidates"])
def test_rows_that_take_no_part_are_as_if_left_out(of):
    X, y, qid, _ = problem(3, levels=3)
    data = Dataset.from_arrays(X, y, qid)
    kept = qid != qid[0]

    def levels(keep):
        ones = np.ones(data.n_queries)
        if of == "queries":
            ones = np.array([keep[data.queries.rows_of(q)].any() for q in range(data.n_queries)])
        return task_levels(
            y,
            data.queries,
            ones.astype(np.float64),
            TaskOptions(),
            weight=keep.astype(np.float64) if of == "rows" else None,
            candidates=keep if of == "candidates" else None,
        )

    part = Dataset.from_arrays(X[kept], y[kept], qid[kept])
    alone = task_levels(part.y, part.queries, np.ones(part.n_queries), TaskOptions())
    assert DominationRisk(levels(kept)).at_zero == pytest.approx(DominationRisk(alone).at_zero)
    with pytest.raises(NoPairsError, match="no row takes part"):
        levels(np.zeros(len(y), dtype=bool))
