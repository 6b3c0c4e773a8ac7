"""Tables with shapes: constraints, factors, certificates, and tables that keep their shape."""

from dataclasses import replace

import numpy as np
import pytest

from rankine import Dataset
from rankine.kernels.binned import BinnedProducts
from rankine.rankers.additive_search import Plan, TableData, make_risk
from rankine.solvers.newton import solve_newton
from rankine.solvers.shapes import ShapeRows, keep_shapes, move_inside, solve_shaped
from rankine.solvers.tables import (
    PenaltyStrengths,
    TablePenalty,
    purify,
    standardised_bin_centres,
)
from rankine.transforms.bins import BinCoder, fit_bins, layout_of

SHAPES = {0: "increasing", 1: "decreasing", 2: "convex", 4: "concave"}
PAIRS = [(0, 1), (0, 3), (1, 3)]


def setting(shapes, pairs=PAIRS, loss="squared_hinge"):
    """Return plan, problem, penalty and counts; the labels have none of the shapes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5))
    X[rng.random(X.shape) < 0.05] = np.nan
    Z = np.nan_to_num(X)
    value = np.sin(2 * Z[:, 0]) + Z[:, 1] * Z[:, 3] + np.sin(Z[:, 2]) + Z[:, 4] ** 2
    lists = Dataset.from_arrays(
        np.zeros((600, 0)), np.digitize(value, [-1, 0, 1]), np.repeat(np.arange(60), 10)
    )
    bins = fit_bins(X, 8)
    rows = BinCoder(bins).code(X)
    data = TableData(lists, np.ones(60), rows)
    counts = BinnedProducts(rows, layout_of(bins)).transpose_times(np.ones(600))
    plan = Plan(
        bins,
        standardised_bin_centres(bins, counts),
        counts,
        PenaltyStrengths(0.5, 0.2, 0.3),
        loss,
        "ndcg@10",
        shapes=shapes,
    ).with_pairs(pairs)
    all_counts = BinnedProducts(rows, plan.space.layout).transpose_times(np.ones(600))
    problem = plan.problem(data, make_risk(plan, data))
    return problem, TablePenalty(plan.space, plan.strengths), all_counts


def effects(space, tables, j):
    """Return the effect of the ordered cells of a column for all cells of all partners."""
    start = space.layout.starts[j]
    total = tables[start : start + space.sizes[j] - 1][:, None]
    for g, (n_rows, n_columns) in enumerate(space.grid_sides):
        for side, column in enumerate((space.layout.firsts[g], space.layout.seconds[g])):
            if column == j:
                start = space.layout.grid_starts[g]
                grid = tables[start : start + n_rows * n_columns].reshape(n_rows, n_columns)
                lanes = grid if side == 0 else grid.T
                lanes = lanes[space.grid_positions(g, side)[: len(total)]]
                total = (total[:, :, None] + lanes[:, None, :]).reshape(len(total), -1)
    return total


def require_shapes(space, tables, tolerance=0.0):
    for j in np.flatnonzero(space.shapes):
        total, shape = effects(space, tables, j), space.shapes[j]
        change = np.diff(total, axis=0)
        if abs(shape) == 2:
            start = space.layout.starts[j]
            widths = np.diff(space.centres[start : start + len(total)])
            change = np.diff(change / widths[:, None], axis=0)
        assert (np.sign(shape) * change >= -tolerance).all()


@pytest.mark.parametrize("shapes", [SHAPES, {0: "decreasing"}, {2: "concave"}])
def test_equations_with_shapes_are_solved_exactly(shapes):
    problem, penalty, _ = setting(shapes)
    rows = ShapeRows.build(problem.space)
    n, rng = problem.space.size, np.random.default_rng(1)
    A = np.array([rows.times(row) for row in np.eye(n)]).T
    values = rng.normal(size=len(A))
    np.testing.assert_allclose(rows.transpose_times(values, n), A.T @ values, atol=1e-12)
    D, extra, b = rng.uniform(0, 3, len(A)), rng.uniform(0, 2, n), rng.normal(size=n)
    K = np.array([penalty.times(row) for row in np.eye(n)])
    expected = np.linalg.solve(K + np.diag(extra) + A.T @ (D[:, None] * A), b)
    np.testing.assert_allclose(penalty.factor(extra, (rows, D)).solve(b), expected, rtol=1e-7)


def test_a_start_moves_inside():
    problem, _, _ = setting(SHAPES)
    rows = ShapeRows.build(problem.space)
    theta = np.random.default_rng(2).normal(size=problem.space.size)
    assert (rows.times(move_inside(problem.space, theta)) > 0.0).all()


@pytest.mark.parametrize("loss", ["squared_hinge", "softmax"])
def test_the_constrained_optimum_is_reached_and_certified(loss):
    problem, penalty, _ = setting(SHAPES, loss=loss)
    rough = solve_shaped(problem, penalty, tol=1e-2)
    exact = solve_shaped(problem, penalty, tol=1e-7)
    assert exact.stop_reason == "converged"
    assert exact.certificate["gap"] <= 1e-7 * problem.at_zero
    assert rough.certificate["lower_bound"] <= exact.objective * (1 + 1e-12)
    assert exact.objective <= rough.objective <= exact.objective + rough.certificate["gap"]
    require_shapes(problem.space, problem.space.tables(exact.coef), 1e-12)
    # Of the parameters with the shapes, none near the solution is better.
    rng, rows = np.random.default_rng(3), ShapeRows.build(problem.space)
    for scale in (1e-3, 1e-2, 0.1):
        near = move_inside(problem.space, exact.coef + scale * rng.normal(size=len(exact.coef)))
        near = exact.coef + scale * (near - exact.coef)
        assert (rows.times(near) >= -1e-12).all()
        value = penalty.value(near) + problem.value_and_gradient(near)[0]
        assert value >= exact.certificate["lower_bound"]
    free = solve_newton(problem, penalty, tol=1e-7)
    assert free.objective < exact.objective, "the labels have other shapes"


def test_tables_keep_their_shapes_to_the_last_bit_and_their_function():
    problem, penalty, counts = setting(SHAPES)
    space = problem.space
    theta = solve_shaped(problem, penalty, tol=1e-5).coef
    tables = space.tables(theta)
    pure = purify(space, tables, counts)
    kept = keep_shapes(space, pure)
    monotone = replace(space, shapes=np.where(np.abs(space.shapes) == 1, space.shapes, 0))
    for dtype in (np.float64, np.float32):
        require_shapes(monotone, kept.astype(dtype).astype(np.float64))
    scores = [problem.products.scores(each) for each in (tables, pure, kept)]
    for other in scores[1:]:
        difference = other - scores[0]
        np.testing.assert_allclose(difference, difference[0], atol=1e-9)


def test_results_do_not_depend_on_threads_and_callbacks_end_the_run():
    problem, penalty, _ = setting(SHAPES)
    again = TablePenalty(problem.space, penalty.strengths, 2)
    first, second = (solve_shaped(problem, each).coef for each in (penalty, again))
    np.testing.assert_array_equal(first, second)
    ended = solve_shaped(problem, penalty, callbacks=[lambda progress: progress.step == 1])
    assert (ended.stop_reason, ended.n_iter) == ("callback", 1)
    assert solve_shaped(problem, penalty, max_iter=2).stop_reason == "max_iter"
