"""The loss, its derivatives, bounds and dual against the definition."""

import numpy as np
import pytest
from scipy import sparse
from slow_domination import brute_loss, slope

from rankine.data import Dataset
from rankine.kernels.columns import columns_of, curvature_bounds, shift, slope_and_curvature
from rankine.losses.domination import dual_value, loss_value, move_to, new_scratch
from rankine.rankers.domination_task import TaskOptions, task_levels
from rankine.solvers.coordinate_descent import Penalty
from rankine.solvers.domination import domination_descent, lower_bound

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
    return domination_descent(columns_of(data.rows, X.shape[1]), levels)


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
    move_to(descent.loss, descent.columns, w)

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

    assert loss_value(descent.loss) == pytest.approx(brute(w), rel=1e-12)
    gradient = slope(brute, w)
    np.testing.assert_allclose(descent.gradient(1), gradient, atol=1e-6)
    scratch = new_scratch(descent.loss.levels)
    for r in range(len(w)):
        step = 1e-4 * np.eye(len(w))[r]
        bend = (brute(w + step) - 2 * brute(w) + brute(w - step)) / 1e-8
        _, h = slope_and_curvature(descent.loss, descent.columns, r, scratch)
        assert h == pytest.approx(bend, abs=2e-5 * max(1, bend))
        _, beta, crude = curvature_bounds(descent.loss, descent.columns, r, scratch)
        assert h <= beta * (1 + 1e-12)
        assert beta <= crude * (1 + 1e-12)


@pytest.mark.parametrize("case", CASES)
def test_shifting_one_weight_equals_starting_afresh(case):
    made, options = CASES[case]
    X, y, qid, rng = problem(7, **made)
    descent = start(sparse.csr_array(X), y, qid, **options)
    again = start(sparse.csr_array(X), y, qid, **options)
    scratch = new_scratch(descent.loss.levels)
    w = np.zeros(X.shape[1])
    for _ in range(60):
        r = int(rng.integers(len(w)))
        d = rng.normal()
        w[r] += d
        slope_and_curvature(descent.loss, descent.columns, r, scratch)
        shift(descent.loss, descent.columns, r, d, scratch)
    move_to(again.loss, again.columns, w)
    np.testing.assert_allclose(descent.gradient(1), again.gradient(1), rtol=1e-8, atol=1e-9)
    assert loss_value(descent.loss) == pytest.approx(loss_value(again.loss), rel=1e-9)


def test_scores_far_apart_stay_finite():
    X = np.array([[1.0], [0.0], [-1.0], [0.5]])
    descent = start(X, np.array([0.0, 1.0, 1.0, 2.0]), np.zeros(4, dtype=int))
    move_to(descent.loss, descent.columns, np.array([1e4]))
    assert loss_value(descent.loss) == pytest.approx(10000 + 20000 + 5000, rel=1e-12)
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
        move_to(descent.loss, descent.columns, w)
        objectives.append(loss_value(descent.loss) + penalty.value(w))
        bounds.append(lower_bound(descent.loss, descent.gradient(1), penalty))
    assert max(bounds) <= min(objectives) + 1e-9
    assert dual_value(descent.loss, 0.0) == pytest.approx(0.0, abs=1e-12)
