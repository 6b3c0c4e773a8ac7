"""Tables, their penalty and its factors; risks of tables."""

from dataclasses import replace

import numpy as np
import pytest

from rankine.core.specs import Bins, Grids
from rankine.data.dataset import Dataset
from rankine.kernels.binned import BinnedProducts
from rankine.kernels.products import Products
from rankine.kernels.rows import DenseRows
from rankine.losses.active_pairs import SquaredHingeRisk
from rankine.losses.list_risk import DeltaRisk, SoftmaxRisk, gain_shares
from rankine.losses.pair_queries import PairQueries
from rankine.losses.pairwise.squared_hinge import SquaredHinge
from rankine.solvers.newton import solve_newton
from rankine.solvers.tables import (
    PenaltyStrengths,
    TablePenalty,
    TableProblem,
    TableSpace,
    _subtract_means,
    purify,
    standardised_bin_centres,
)
from rankine.transforms.bins import BinCoder, fit_bins, grid_axis, layout_of

pytestmark = pytest.mark.kernels


def lists(n_queries=25, size=12, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * size, 4))
    X[rng.random(X.shape) < 0.05] = np.nan
    X[:, 3] = rng.integers(0, 4, len(X))
    clean = np.nan_to_num(X)
    y = np.digitize(clean[:, 0] ** 2 + clean[:, 1] * clean[:, 2] + clean[:, 1], [-0.5, 0.5, 1.5])
    return Dataset.from_arrays(X, y, np.repeat(np.arange(n_queries), size))


def build(data, risk_of, shapes=None, pairs=((0, 1), (1, 2)), linear=(), sides=(4, 4, 4)):
    bins = fit_bins(data.X, 8, unordered=[3])
    if linear:
        cuts = tuple(() if j in linear else own for j, own in enumerate(bins.cuts))
        bins = Bins(cuts, bins.unordered, linear)
    rows = BinCoder(bins).code(data.X)
    counts = BinnedProducts(rows, layout_of(bins)).transpose_times(np.ones(data.n_rows))
    ends = np.cumsum(bins.n_cells)
    axes = tuple(
        grid_axis(bins, j, counts[ends[j] - bins.n_cells[j] : ends[j]], side)
        for j, side in zip((1, 2, 3), sides, strict=True)
    )
    grids = Grids(axes, pairs)
    layout = layout_of(bins, grids)
    space = TableSpace.build(layout, bins, grids, standardised_bin_centres(bins, counts), shapes)
    return TableProblem(
        space, BinnedProducts(rows, layout), risk_of(PairQueries.from_dataset(data))
    )


def squared_hinge(queries):
    return SquaredHingeRisk(SquaredHinge(), queries, 1.0 / queries.pair_weight)


def softmax(queries):
    gains = np.exp2(queries.ranks - 1.0) - 1.0
    return SoftmaxRisk(queries, np.ones(queries.n_queries), gain_shares(gains, queries.starts))


def delta(queries):
    gains = np.exp2(queries.ranks - 1.0) - 1.0
    scores = np.random.default_rng(3).normal(size=int(queries.rows.max()) + 1)
    return DeltaRisk(queries, np.ones(queries.n_queries), gains, scores, 5)


RISKS = [squared_hinge, softmax, delta]


STRENGTHS = PenaltyStrengths(0.5, 0.2, 0.3)


def dense(penalty):
    """K as a matrix."""
    return np.array([penalty.times(row) for row in np.eye(penalty.space.size)])


def test_parameters_and_tables_are_adjoint():
    problem = build(lists(), squared_hinge)
    rng = np.random.default_rng(0)
    theta, h = rng.normal(size=problem.space.size), rng.normal(size=problem.space.layout.size)
    here = problem.space.tables(theta) @ h
    assert here == pytest.approx(theta @ problem.space.adjoint(h), rel=1e-12)


def by_definition(space, strengths):
    """K of the module's head, neighbour by neighbour."""
    K = np.zeros((space.size, space.size))

    def link(weight, a, b):
        K[a, a] += weight
        K[b, b] += weight
        K[a, b] -= weight
        K[b, a] -= weight

    start = 0
    for j, size in enumerate(space.sizes):
        cells = range(start, start + size)
        weight = strengths.smooth * max(size - 2, 1)
        for c in cells:
            K[c, c] = strengths.ridge * strengths.smooth
        for c in cells[:-1]:
            if space.ordered[j] and c + 1 < cells[-1]:
                link(weight, c, c + 1)
        start += size
    for (rows, columns), (down, across) in zip(space.grid_sides, space.grid_ordered, strict=True):
        for a in range(rows):
            for b in range(columns):
                c = start + a * columns + b
                K[c, c] += strengths.ridge * strengths.pair_smooth
                if down and a + 1 < rows - 1:
                    link(strengths.pair_smooth, c, c + columns)
                if across and b + 1 < columns - 1:
                    link(strengths.pair_smooth, c, c + 1)
        start += rows * columns
    places = range(start, space.size)
    K[places, places] = strengths.anchor
    return K


SHAPES = [
    {},
    {"pairs": ()},
    {"sides": (3, 2, 4)},
    {"sides": (2, 6, 3), "pairs": ((0, 1), (0, 2), (1, 2))},
    {"linear": (0,)},
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_penalty_and_parameters_are_as_defined(shape):
    space = build(lists(), lambda _queries: None, **shape).space
    penalty = TablePenalty(space, STRENGTHS, threads=1)
    K = by_definition(space, STRENGTHS)
    np.testing.assert_allclose(dense(penalty), K, atol=1e-12)
    rng = np.random.default_rng(4)
    theta, g = np.abs(rng.normal(size=(2, space.size)))
    g[::2] *= -1
    assert penalty.value(theta) == pytest.approx(theta @ K @ theta / 2)
    assert penalty.gap(theta, g) == pytest.approx(g @ np.linalg.solve(K, g) / 2)
    twice = STRENGTHS.times(2.0)
    assert (twice.smooth, twice.pair_smooth, twice.anchor, twice.ridge) == (1.0, 0.4, 0.6, 1e-3)
    # Squares of the tables' derivatives, weighted by the rows' curvatures.
    tables = np.array([space.tables(row) for row in np.eye(space.size)])
    weight = rng.random(space.layout.size)
    np.testing.assert_allclose(space.diagonal(weight), tables**2 @ weight, atol=1e-12)
    np.testing.assert_allclose(space.adjoint(weight), tables @ weight, atol=1e-12)


def test_factors_do_not_depend_on_threads_and_are_cached():
    space = build(lists(), lambda _queries: None).space
    one, two = (TablePenalty(space, STRENGTHS, threads) for threads in (1, 2))
    b = np.random.default_rng(0).normal(size=space.size)
    np.testing.assert_array_equal(one.factor().solve(b), two.factor().solve(b))
    assert one.factor() is one.factor()
    assert one.factor(np.ones(space.size)) is not one.factor()


@pytest.mark.parametrize(
    ("cuts", "counts", "middles"),
    [
        ((1.0, 3.0, 4.0), (2.0, 1.0, 0.0, 5.0), (0.0, 2.0, 3.5, 4.5)),
        ((-1.0, 1.0), (3.0, 1.0, 2.0), (-2.0, 0.0, 2.0)),
        ((7.0,), (1.0, 3.0), (6.5, 7.5)),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the last column
def test_bin_centres_are_the_middles_of_cuts(cuts, counts, middles):
    """Between columns of which nothing can be told."""
    nothing, weight, at = (0.0, 0.0, 0.0), np.array(counts), np.array(middles)
    bins = Bins(((2.0,), (), cuts, (5.0, 6.0), cuts, (-1e308, 1e308)), unordered=(0,))
    all_counts = [1.0, 2.0, 0.0, 4.0, 1.0, *counts, 9.0, 0.0, 0.0, 0.0, 3.0]
    one_bin = [0.0] * (len(counts) - 1) + [8.0, 0.0]
    found = standardised_bin_centres(bins, np.array([*all_counts, *one_bin, 1.0, 1.0, 1.0, 0.0]))
    at = at - weight @ at / weight.sum()
    at = at / np.sqrt(weight @ at**2 / weight.sum())
    expected = [*nothing, 0.0, 0.0, *at, 0.0, *nothing, 0.0, *[0.0] * (len(counts) + 1), *[0.0] * 4]
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("cuts", [(0.7,), (-3.0,), (0.1, 0.7, 2.0)])
def test_bin_centres_do_not_depend_on_units(cuts):
    counts = np.array([3.0, 1.0, 2.0, 7.0, 1.0])[: len(cuts) + 2]
    first = standardised_bin_centres(Bins((cuts,)), counts)
    assert first.any()
    for factor in (2.0**-900, 2.0**-9, 2.0**10, 2.0**900):
        scaled = standardised_bin_centres(Bins((tuple(factor * cut for cut in cuts),)), counts)
        np.testing.assert_array_equal(scaled, first)


def test_penalty_of_neighbours_is_inverted_exactly():
    problem = build(lists(), squared_hinge)
    penalty = TablePenalty(problem.space, STRENGTHS)
    K = dense(penalty)
    assert np.allclose(K, K.T)
    assert np.linalg.eigvalsh(K).min() > 0
    rng = np.random.default_rng(1)
    extra, b = rng.uniform(0, 2, len(K)), rng.normal(size=len(K))
    np.testing.assert_allclose(penalty.factor().solve(b), np.linalg.solve(K, b), rtol=1e-8)
    solved = penalty.factor(extra).solve(b)
    np.testing.assert_allclose(solved, np.linalg.solve(K + np.diag(extra), b), rtol=1e-8)
    # A ramp of height 1 over a column costs the strength, whatever the number of bins.
    size = problem.space.sizes[0]
    ramp = np.zeros(len(K))
    ramp[: size - 1] = np.linspace(0, 1, size - 1)
    free = TablePenalty(problem.space, replace(STRENGTHS, ridge=0.0))
    assert ramp @ free.times(ramp) == pytest.approx(STRENGTHS.smooth)


@pytest.mark.parametrize("risk_of", RISKS)
def test_risks_have_their_gradients_and_curvatures(risk_of):
    data = lists(6, 9)
    risk = risk_of(PairQueries.from_dataset(data))
    rng = np.random.default_rng(2)
    p, v = 0.3 * rng.normal(size=data.n_rows), rng.normal(size=data.n_rows)
    value, slope, curvature = risk.evaluate_with_curvature(p)
    step = 1e-6
    up, slope_up = risk.evaluate(p + step * v)
    down, slope_down = risk.evaluate(p - step * v)
    assert (up - down) / (2 * step) == pytest.approx(slope @ v, rel=1e-6)
    np.testing.assert_allclose(
        curvature.times(v), (slope_up - slope_down) / (2 * step), rtol=1e-4, atol=1e-6
    )
    unit = np.eye(data.n_rows)
    diagonal = np.array([curvature.times(row) @ row for row in unit])
    np.testing.assert_allclose(curvature.diagonal(), diagonal, atol=1e-12)
    assert value >= 0.0


def test_delta_risk_is_the_sum_over_pairs_of_changes_of_ndcg():
    data = lists(4, 8)
    queries = PairQueries.from_dataset(data)
    risk = delta(queries)
    p = 0.2 * np.random.default_rng(5).normal(size=data.n_rows)
    total = 0.0
    for q in range(queries.n_queries):
        span = range(queries.starts[q], queries.starts[q + 1])
        for i in span:
            for j in span:
                if risk.ranked.gains[i] > risk.ranked.gains[j]:
                    change = (risk.ranked.gains[i] - risk.ranked.gains[j]) * abs(
                        risk.ranked.discounts[i] - risk.ranked.discounts[j]
                    )
                    z = p[queries.rows[i]] - p[queries.rows[j]]
                    total += risk.omega[q] * change * max(0.0, 1.0 - z) ** 2
    assert risk.evaluate(p)[0] == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("risk_of", RISKS)
def test_newton_reaches_the_optimum_and_certifies_it(risk_of):
    problem = build(lists(), risk_of)
    penalty = TablePenalty(problem.space, STRENGTHS)
    rough = solve_newton(problem, penalty, tol=1e-2)
    exact = solve_newton(problem, penalty, tol=1e-11)
    assert exact.stop_reason == "converged"
    assert rough.certificate["lower_bound"] <= exact.objective * (1 + 1e-12)
    assert exact.objective <= rough.objective <= exact.objective + rough.certificate["gap"]
    warm = solve_newton(problem, penalty, start=exact.coef, tol=1e-6)
    assert warm.n_iter == 0


def test_strong_smoothing_gives_a_linear_ranker():
    problem = build(lists(), squared_hinge, pairs=())
    found = solve_newton(
        problem, TablePenalty(problem.space, PenaltyStrengths(1e7, 1.0, 0.1)), tol=1e-8
    )
    space = problem.space
    curve = space.tables(found.coef)[: space.sizes[0] - 1]
    slope = found.coef[space.layout.size]
    np.testing.assert_allclose(curve, slope * space.means[: len(curve)], atol=1e-4)


def test_purified_tables_are_the_same_function_up_to_a_constant():
    data = lists()
    problem = build(data, squared_hinge)
    space = problem.space
    theta = np.random.default_rng(6).normal(size=space.size)
    tables = space.tables(theta)
    counts = problem.products.transpose_times(np.ones(data.n_rows))
    pure = purify(space, tables, counts)
    moved = problem.products.scores(pure) - problem.products.scores(tables)
    assert np.ptp(moved) < 1e-9
    start = 0
    for size in space.sizes:
        assert counts[start : start + size] @ pure[start : start + size] == pytest.approx(
            0, abs=1e-8
        )
        start += size
    for g, (rows, columns) in enumerate(space.grid_sides):
        span = slice(space.layout.grid_starts[g], space.layout.grid_starts[g] + rows * columns)
        weighted = (counts[span] * pure[span]).reshape(rows, columns)
        np.testing.assert_allclose(weighted.sum(axis=0), 0.0, atol=1e-7)
        np.testing.assert_allclose(weighted.sum(axis=1), 0.0, atol=1e-7)


def test_a_grid_is_pure_only_when_all_its_rows_and_columns_are():
    """At first the means of all rows are 0, and that of a column is too."""
    rng = np.random.default_rng(1)
    weight, way = rng.uniform(0.2, 2.0, (5, 3)), rng.normal(size=5)
    grid = np.stack([np.zeros(5), way / weight[:, 1], -way / weight[:, 2]], axis=1)
    pure, across, down = grid.copy(), np.zeros(5), np.zeros(3)
    _subtract_means(pure, weight, across, down)
    np.testing.assert_allclose((weight * pure).sum(axis=0), 0.0, atol=1e-10)
    np.testing.assert_allclose((weight * pure).sum(axis=1), 0.0, atol=1e-10)
    np.testing.assert_allclose(pure + across[:, None] + down, grid, atol=1e-12)


def test_cells_without_rows_are_zero_unless_ordered():
    """Of missing and unknown values alone; others keep what their neighbours say."""
    data = lists()
    data = replace(data, X=np.nan_to_num(data.X))  # nothing is missing
    space = build(data, squared_hinge).space
    problem = build(data, squared_hinge)
    counts = problem.products.transpose_times(np.ones(data.n_rows))
    rng = np.random.default_rng(8)
    unseen = space.layout.starts[0] + 2
    counts[unseen] = 0.0
    tables = rng.normal(size=space.layout.size)
    pure = purify(space, tables, counts)
    for j, size in enumerate(space.sizes):
        own = pure[space.layout.starts[j] : space.layout.starts[j] + size]
        assert own[-1] == 0.0
        assert (own[:-2] != 0.0).all()
        assert (own[-2] == 0.0) == (not space.ordered[j])
    for g, (rows, columns) in enumerate(space.grid_sides):
        start = space.layout.grid_starts[g]
        grid = pure[start : start + rows * columns].reshape(rows, columns)
        weight = counts[start : start + rows * columns].reshape(rows, columns)
        assert not grid[-1].any()
        assert not grid[:, -1].any()
        assert grid[:-1, :-1][weight[:-1, :-1] > 0].all()
    empty = purify(space, tables, np.zeros(space.layout.size))
    inner = space.layout.starts[0] + np.arange(space.sizes[0] - 1)
    np.testing.assert_array_equal(empty[inner], tables[inner])


def test_linear_columns_add_to_the_scores():
    """Those that rows have: positions, the last of them, are those of training alone."""
    data = lists()
    plain = build(data, squared_hinge)
    rng = np.random.default_rng(9)
    values = rng.normal(size=(data.n_rows, 2))
    space = replace(plain.space, n_linear=2)
    theta, u = rng.normal(size=space.size), rng.normal(size=data.n_rows)
    tables = plain.scores(theta[:-2])
    for used in (2, 1):
        linear = Products(DenseRows(np.ascontiguousarray(values[:, :used])), used)
        problem = TableProblem(space, plain.products, plain.risk, linear)
        np.testing.assert_allclose(
            problem.scores(theta), tables + values[:, :used] @ theta[-2:][:used], rtol=1e-10
        )
        if used == 2:
            gradient = problem.gradient(u)
            np.testing.assert_allclose(gradient[:-2], plain.gradient(u))
            np.testing.assert_allclose(gradient[-2:], values.T @ u)
    assert TableProblem(space, plain.products, None).at_zero == 1.0
    assert plain.at_zero == pytest.approx(plain.risk.evaluate(np.zeros(data.n_rows))[0])
    assert plain.n_features == plain.space.size


def test_linear_columns_have_the_curvature_of_unit_deviation():
    plain = build(lists(), squared_hinge)
    wider = TableProblem(replace(plain.space, n_linear=2), plain.products, plain.risk)
    curvature = plain.evaluate_with_curvature(np.zeros(plain.products.rows.n_rows))[2]
    scale = wider.curvature_scale(curvature)
    np.testing.assert_array_equal(scale[:-2], plain.curvature_scale(curvature))
    np.testing.assert_array_equal(scale[-2:], curvature.diagonal().sum())
