"""Fixed entries of curves: equations, certificates, and curves that keep a shape."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from rankine.solvers.fixed import ContradictionError, FixedEntries, FixedPenalty
from rankine.solvers.newton import solve_newton
from rankine.solvers.shapes import keep_shapes, solve_shaped
from rankine.solvers.tables import purify
from unit.solvers.test_shapes import require_shapes, setting


def stored(space, theta, counts):
    return purify(space, space.tables(theta), counts)


def test_the_equations_are_those_of_stored_curves():
    _, penalty, counts = setting({})
    space = penalty.space
    cells = [0, 3, 8, int(space.layout.starts[1]) + 2, int(space.layout.starts[3]) + 8]
    entries = FixedEntries.build(space, counts, dict.fromkeys(cells, 0.0))
    theta = np.random.default_rng(0).normal(size=space.size)
    assert entries.row_cells.tolist() == cells
    np.testing.assert_allclose(entries.times(theta), stored(space, theta, counts)[cells], atol=1e-9)


@given(seed=st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_grids_with_empty_and_separate_cells(seed):
    _, penalty, counts = setting({})
    space, rng = penalty.space, np.random.default_rng(seed)
    counts = counts.copy()
    start = space.layout.grid_starts[0]
    size = int(space.grid_sides[0].prod())
    grid = counts[start : start + size].reshape(space.grid_sides[0])
    grid[rng.random(grid.shape) < 0.6] = 0.0
    grid[:4, 4:] = grid[4:, :4] = 0.0
    cells = [*range(8), *(int(space.layout.starts[1]) + np.arange(1, 8))]
    entries = FixedEntries.build(space, counts, dict.fromkeys(cells, 0.0))
    theta = rng.normal(size=space.size)
    np.testing.assert_allclose(entries.times(theta), stored(space, theta, counts)[cells], atol=1e-6)


def test_the_solution_is_that_of_a_general_solver():
    problem, penalty, counts = setting({})
    space = penalty.space
    fixed = {2: 0.3, 3: 0.3, int(space.layout.starts[3]) + 4: -0.2, 8: 0.1}
    entries = FixedEntries.build(space, counts, fixed)
    fixed_penalty = FixedPenalty(penalty, entries)
    start = fixed_penalty.move_onto(np.zeros(space.size))
    solution = solve_newton(problem, fixed_penalty, start=start, tol=1e-9)
    assert solution.stop_reason == "converged"
    entries_stored = stored(space, solution.coef, counts)
    np.testing.assert_allclose(entries_stored[list(fixed)], list(fixed.values()), atol=1e-9)

    # The general solver has the null space of the equations as its parameters.
    dense = np.zeros((len(entries.matrix), space.size))
    dense[:, entries.support] = entries.matrix
    basis = np.linalg.svd(dense)[2][len(dense) :].T
    offset = np.linalg.lstsq(dense, entries.targets)[0]

    def objective(u):
        theta = offset + basis @ u
        value, gradient = problem.value_and_gradient(theta)
        gradient = gradient + penalty.times(theta)
        return value + penalty.value(theta), basis.T @ gradient

    reference = minimize(
        objective, np.zeros(basis.shape[1]), jac=True, method="L-BFGS-B",
        options={"maxiter": 20000, "maxfun": 40000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 50},
    )  # fmt: skip
    assert solution.objective == pytest.approx(reference.fun, rel=1e-7)
    assert solution.certificate["lower_bound"] <= reference.fun * (1 + 1e-9)
    tables = stored(space, offset + basis @ reference.x, counts)
    np.testing.assert_allclose(entries_stored, tables, atol=2e-3)


def test_a_wholly_fixed_curve_is_not_centred():
    problem, penalty, counts = setting({})
    space = penalty.space
    values = np.linspace(1.0, 2.0, space.sizes[0])
    entries = FixedEntries.build(space, counts, dict(enumerate(values)))
    fixed_penalty = FixedPenalty(penalty, entries)
    start = fixed_penalty.move_onto(np.zeros(space.size))
    solution = solve_newton(problem, fixed_penalty, start=start, tol=1e-6)
    tables = stored(space, solution.coef, counts)
    shifted = tables.copy()
    shifted[: len(values)] += entries.shifts[0]
    np.testing.assert_allclose(shifted[: len(values)], values, atol=1e-9)
    assert entries.restore(tables)[: len(values)].tolist() == values.tolist()


@pytest.mark.parametrize(
    ("shapes", "fixed"),
    [
        ({2: "increasing"}, {2: -0.1, 3: -0.1, 5: 0.2}),
        ({2: "decreasing"}, {0: 0.5, 7: -0.5}),
        ({2: "increasing"}, dict.fromkeys(range(8), 0.0)),
        ({2: "convex"}, {0: 0.4, 4: -0.2, 7: 0.3}),
        ({4: "concave"}, {3: 0.1, 4: 0.1}),
        ({2: "increasing", 0: "increasing"}, {2: -0.1, 5: 0.2}),
    ],
)
def test_shapes_and_fixed_entries_together(shapes, fixed):
    problem, penalty, counts = setting(shapes)
    space = penalty.space
    j = next(iter(shapes))
    fixed = {int(space.layout.starts[j]) + c: value for c, value in fixed.items()}
    fixed[int(space.layout.starts[3]) + 2] = 0.25
    entries = FixedEntries.build(space, counts, fixed)
    fixed_penalty = FixedPenalty(penalty, entries)
    solution = solve_shaped(problem, fixed_penalty, tol=1e-7)
    assert solution.stop_reason == "converged"
    raw = stored(space, solution.coef, counts)
    np.testing.assert_allclose(raw[list(fixed)], list(fixed.values()), atol=1e-8)
    tables = keep_shapes(space, entries.restore(raw))
    np.testing.assert_allclose(tables[: space.n_curve_cells][list(fixed)], [*fixed.values()])
    require_shapes(space, tables, 1e-9)
    exact = [cell for cell in fixed if abs(space.shapes[space.sizes.cumsum() > cell][0]) != 2]
    assert tables[exact].tolist() == [fixed[cell] for cell in exact]


@pytest.mark.parametrize(
    ("shape", "fixed"),
    [
        ("increasing", {2: 0.2, 3: 0.1}),
        ("increasing", {0: 0.2, 8: 0.0}),  # all above the mean of 0
        ("convex", {2: 0.0, 3: 0.5, 4: 0.0}),
    ],
)
def test_a_contradiction_names_the_column(shape, fixed):
    _, penalty, counts = setting({2: shape})
    space = penalty.space
    fixed = {int(space.layout.starts[2]) + c: value for c, value in fixed.items()}
    with pytest.raises(ContradictionError) as caught:
        FixedEntries.build(space, counts, fixed)
    assert caught.value.column == 2
