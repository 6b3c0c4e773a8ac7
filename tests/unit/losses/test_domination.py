"""The loss, its derivatives, bounds and dual against the definition."""

import numpy as np
import pytest
from scipy import sparse
from slow_domination import brute_loss, slope

from rankine.core.errors import NoPairsError, ParameterError, SchemaError
from rankine.data import Dataset, LabelIndex
from rankine.kernels.columns import columns_of, curvature_bounds, shift, slope_and_curvature
from rankine.losses.domination import (
    DominationOptions,
    DominationRisk,
    build_domination_task,
    domination_risk,
)
from rankine.losses.domination.state import MOVES
from rankine.losses.domination.task import (
    LARGEST_GAP,
    check_margins,
    resolve_margin,
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
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_shifting_one_weight_equals_starting_afresh(case, weighted):
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


@pytest.mark.parametrize("table", [None, np.zeros((3, 3))], ids=["plain", "table"])
def test_terms_that_underflow_leave_no_trace_in_slopes_and_bounds(table):
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
    with pytest.raises(ParameterError, match="3 labels") as caught:
        resolve_table(np.zeros((2, 2)), y)
    assert caught.value.parameter == "margin_table"
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
        return build_domination_task(
            y,
            data.queries,
            ones.astype(np.float64),
            DominationOptions(),
            weight=keep.astype(np.float64) if of == "rows" else None,
            candidates=keep if of == "candidates" else None,
        )

    part = Dataset.from_arrays(X[kept], y[kept], qid[kept])
    alone = build_domination_task(
        part.y, part.queries, np.ones(part.n_queries), DominationOptions()
    )
    assert DominationRisk(levels(kept)).at_zero == pytest.approx(DominationRisk(alone).at_zero)
    with pytest.raises(NoPairsError, match="no row"):
        levels(np.zeros(len(y), dtype=bool))


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
def test_the_dual_is_its_formula(case, weighted, kappa):
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


@pytest.mark.parametrize("far", [30.0, -30.0, 200.0, 800.0, -800.0])
@pytest.mark.parametrize("case", ["levels", "margin", "table"])
def test_far_and_back_leaves_no_trace(case, far):
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


def test_small_steps_change_sums_and_touch_their_queries_alone():
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


def test_margins_may_stand_in_a_column():
    X, y, qid, _ = problem(2, levels=3)
    data = Dataset.from_arrays(X, y, qid)
    ones = np.ones(data.n_queries)
    named = build_domination_task(
        y, data.queries, ones, DominationOptions(margin="gap"), columns={"gap": 0.5 * y}
    )
    given = build_domination_task(y, data.queries, ones, DominationOptions(margin=0.5))
    assert DominationRisk(named).at_zero == DominationRisk(given).at_zero


def test_a_partition_without_pairs_has_the_loss_zero():
    alone = Dataset.from_arrays(np.zeros((3, 1)), np.ones(3), np.arange(3))
    risk = domination_risk(alone, DominationOptions())
    value, slopes = risk.evaluate(np.ones(3))
    assert (risk.at_zero, risk.value(), value, slopes.tolist()) == (0.0, 0.0, 0.0, [0.0] * 3)
    assert risk.dual(np.ones(3), 0.5) == risk.current_dual(0.5) == 0.0


def test_margins_are_numbers_functions_rows_or_columns():
    y = np.array([0.0, 1.0, 3.0])
    for margin in (2.0, np.float32(2.0), lambda labels: 2.0 * labels, 2.0 * y, [0, 2, 6], "gap"):
        found = resolve_margin(margin, 0.5, y, {"gap": 2.0 * y})
        np.testing.assert_array_equal(found, y)
    np.testing.assert_array_equal(resolve_margin(0.0, 1.0, y, {}), np.zeros(3))
    for scale in (-0.1, np.inf, np.nan):
        with pytest.raises(ParameterError) as caught:
            resolve_margin(None, scale, y, {})
        assert caught.value.parameter == "margin_scale"
    for margin in (-1.0, np.inf, -np.inf, np.nan):
        with pytest.raises(ParameterError) as caught:
            resolve_margin(margin, 1.0, y, {})
        assert caught.value.parameter == "margin"
    for rows, fact in (([1.0, 2.0], r"\(2,\).* 3 rows"), ([1.0, np.nan, np.inf], "row 1 .*nan")):
        with pytest.raises(SchemaError, match=fact) as caught:
            resolve_margin(rows, 1.0, y, {})
        assert caught.value.parameter == "margin"


def test_a_higher_label_never_has_the_smaller_margin_within_a_query():
    y, qid = np.array([0.0, 1.0, 1.0, 2.0, 0.0, 3.0]), np.array([7, 7, 7, 7, 5, 5])
    data = Dataset.from_arrays(np.zeros((6, 1)), y, qid)
    labels = LabelIndex.build(data.queries, y)
    for legal in ([0.0, 1, 2, 2, 0, 1], [5.0, 5, 5, 5, 0, 0], np.zeros(6)):
        check_margins(labels, np.array(legal), y, data.queries.ids)
    words = "query 7: a row of label 2 has margin 1.5, below the margin 2 of a row of label 1"
    with pytest.raises(SchemaError, match=words):
        check_margins(labels, np.array([0.0, 1.0, 2.0, 1.5, 0.0, 1.0]), y, data.queries.ids)
    words = "query 5: a row of label 3 has margin 1, below the margin 4 of a row of label 0"
    with pytest.raises(SchemaError, match=words):
        check_margins(labels, np.array([0.0, 1.0, 1.0, 2.0, 4.0, 1.0]), y, data.queries.ids)
    none = data.take(slice(0, 0))
    check_margins(LabelIndex.build(none.queries, none.y), np.zeros(0), none.y, none.queries.ids)


def test_tables_are_square_and_their_gaps_finite():
    y = np.array([0.0, 1.0])
    for shape in ((2,), (2, 3), (3, 2), (1, 1), (2, 2, 2)):
        with pytest.raises(ParameterError) as caught:
            resolve_table(np.zeros(shape), y)
        assert caught.value.parameter == "margin_table"
    for gap in (-0.5, np.nan, np.inf, LARGEST_GAP + 0.5):
        with pytest.raises(ParameterError) as caught:
            resolve_table([[0.0, 0.0], [gap, 0.0]], y)
        assert caught.value.parameter == "margin_table"
    own, _ = resolve_table([[1.0, np.inf], [LARGEST_GAP, np.nan]], y)
    assert own.tolist() == [[0.0, 0.0], [LARGEST_GAP, 0.0]]
    assert resolve_table(None, y) is None
    assert resolve_table(np.zeros((2, 2)), np.zeros(0))[1].shape == (0,)


@pytest.mark.parametrize(
    ("y", "rows"),
    [
        ([0, 2], [0, 2]),  # numbers of rows themselves
        ([0, 1, 3], [0, 1, 2]),  # a label beyond the table: by order
        ([-1, 0, 2], [0, 1, 2]),
        ([0.5, 1, 2], [0, 1, 2]),
        ([2, 1, 1, 0], [2, 1, 1, 0]),
    ],
)
def test_labels_number_the_rows_of_a_table_or_are_numbered(y, rows):
    assert resolve_table(np.zeros((3, 3)), np.array(y, dtype=float))[1].tolist() == rows


def test_rows_take_part_by_weight_query_and_candidacy_together():
    X, y, qid, rng = problem(3, levels=3)
    data = Dataset.from_arrays(X, y, qid)
    weight, candidates = rng.choice([0.0, 1.0, 2.0], len(y)), rng.random(len(y)) < 0.8
    query_weight = np.array([1.0, 0.0, 2.0])
    kept = (weight > 0) & candidates & (query_weight[data.queries.codes] > 0)
    options = DominationOptions("query", margin=0.5, margin_table=np.tril(np.ones((3, 3)), -1))
    levels = build_domination_task(
        y, data.queries, query_weight, options, weight=weight, candidates=candidates
    )
    part = Dataset.from_arrays(X[kept], y[kept], qid[kept])
    own = np.array([query_weight[data.queries.ids.tolist().index(q)] for q in part.queries.ids])
    alone = build_domination_task(part.y, part.queries, own, options, weight=weight[kept])
    scores = rng.normal(size=len(y))
    value, slopes = DominationRisk(levels).evaluate(scores)
    expected, own_slopes = DominationRisk(alone).evaluate(scores[kept])
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(slopes[kept], own_slopes, rtol=1e-12, atol=1e-15)
    assert not slopes[~kept].any()
