"""Fixed entries of curves: J(theta) minimised under C theta = v.

A model stores curves with the weighted mean 0, and grids without the parts that depend on one
column alone (``tables.purify``). Both are linear in the tables, so fixing entries of stored curves
gives the equations C theta = v. Newton's method stays in their solutions with the preconditioner

    P = M^-1 - M^-1 C' (C M^-1 C')^-1 C M^-1        (Gould, Hribar and Nocedal 2001)

and K^-1, projected in the same way, certifies a result. For any multipliers mu, and hence for those
that make the bound largest,

    J* >= J(theta) - r' K^-1 r / 2,      r = grad J - C' mu.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.covariance import cholesky, solve_columns
from rankine.kernels.shards import add_rows, dot, norm, rows_dot
from rankine.solvers.shapes import ShapeRows, move_inside

if TYPE_CHECKING:
    from rankine.solvers.tables import TablePenalty, TableSpace

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

#: A row is a combination of earlier ones if less than this share of its length is left.
DEPENDENT = 1e-9
#: Relative residual up to which Newton equations are solved.
FORCING = 0.1
#: A step under a shape that can never be larger than this is fixed at 0 by the entries.
NO_STEP = 1e-6


class ContradictionError(ValueError):
    """The shape of a column leaves no curve with the fixed entries."""

    def __init__(self, column: int) -> None:
        self.column = column
        super().__init__(column)


@dataclass(frozen=True, eq=False)
class FixedEntries:
    """The equations C theta = v of fixed entries.

    Attributes
    ----------
    space
        The parameters theta.
    cells, values
        Fixed cells of the curves, in order, and their values.
    shares
        For every cell of the curves, its share of the rows of its column.
    shifts
        What is added to each centred curve, 0 but where all cells with rows are fixed: such a curve
        is stored as given, since a constant changes no order.
    support
        Parameters that occur in the equations, or are linked to those by the penalty.
    matrix, targets
        C, with columns for the support alone, and v. Rows are linearly independent.
    row_cells
        The fixed cell of each equation; -1 for steps of a shape that are fixed at 0.
    shape_rows
        Constraints of shapes that the equations do not already imply.
    interiors
        Column with a shape and fixed entries -> curve and slope with that shape.
    """

    space: TableSpace
    cells: NDArray[np.int64]
    values: Vector
    shares: Vector
    shifts: Vector
    support: NDArray[np.int64]
    matrix: Matrix
    targets: Vector
    row_cells: NDArray[np.int64]
    shape_rows: ShapeRows
    interiors: Mapping[int, Vector]

    @classmethod
    def build(cls, space: TableSpace, counts: Vector, fixed: Mapping[int, float]) -> FixedEntries:
        """Create the equations of fixed cells; ``counts`` is the number of rows in every cell."""
        layout = space.layout
        cells = np.array(sorted(fixed), dtype=np.int64)
        values = np.array([fixed[c] for c in cells.tolist()])
        columns = np.repeat(np.arange(len(space.sizes)), space.sizes)
        totals = np.bincount(columns, counts[: len(columns)], minlength=len(space.sizes))
        shares = counts[: len(columns)] / np.where(totals > 0.0, totals, 1.0)[columns]
        is_fixed = np.zeros(len(columns), dtype=np.bool_)
        is_fixed[cells] = True
        edited = np.unique(columns[cells])
        grids = [
            g
            for g in range(len(space.grid_sides))
            if layout.firsts[g] in edited or layout.seconds[g] in edited
        ]
        support = _parameters_of(space, edited, grids)
        effects = {g: _curve_parts(space, counts, g) for g in grids}
        shifts = np.zeros(len(space.sizes))
        shape_rows = ShapeRows.build(space)
        interiors, all_rows, all_targets, row_cells = {}, [], [], []
        for j in edited.tolist():
            of_column = columns[cells] == j
            cells_here, values_here = cells[of_column], values[of_column]
            span = slice(layout.starts[j], layout.starts[j] + space.sizes[j])
            if is_fixed[span][shares[span] > 0.0].all():
                shifts[j] = dot(shares[cells_here], values_here)
            rows = _entry_rows(space, shares, effects, j, cells_here)
            targets = values_here - shifts[j]
            if space.shapes[j]:
                rows, targets, shape_rows, interiors[j] = _with_shape(
                    space, j, rows, targets, shape_rows
                )
            independent = _independent(rows[:, support])
            all_rows.append(rows[independent][:, support])
            all_targets.append(targets[independent])
            n_added = len(targets) - len(cells_here)
            row_cells.append(np.append(cells_here, np.full(n_added, -1))[independent])
        return cls(
            space,
            cells,
            values,
            shares,
            shifts,
            support,
            np.concatenate(all_rows),
            np.concatenate(all_targets),
            np.concatenate(row_cells),
            shape_rows,
            interiors,
        )

    def times(self, theta: Vector) -> Vector:
        """Return C theta."""
        return rows_dot(self.matrix, theta[self.support])

    def transpose_times(self, multipliers: Vector, size: int) -> Vector:
        """Return C' multipliers."""
        out = np.zeros(size)
        out[self.support] = add_rows(self.matrix, multipliers)
        return out

    def restore(self, tables: Vector) -> Vector:
        """Return centred tables with the fixed entries to the last bit, also under shapes."""
        out = tables.copy()
        layout, space = self.space.layout, self.space
        for j in np.flatnonzero(self.shifts):
            out[layout.starts[j] : layout.starts[j] + space.sizes[j]] += self.shifts[j]
        out[self.cells] = self.values
        for j in np.flatnonzero(np.abs(space.shapes) == 1):
            sign, start = float(space.shapes[j]), int(layout.starts[j])
            n_ordered = int(space.sizes[j]) - 1
            inside = (self.cells >= start) & (self.cells < start + n_ordered)
            # Rounding may leave a free entry beyond the next fixed one.
            upper = np.full(n_ordered, np.inf)
            upper[self.cells[inside] - start] = sign * self.values[inside]
            upper = np.minimum.accumulate(upper[::-1])[::-1]
            curve = slice(start, start + n_ordered)
            out[curve] = sign * np.minimum(sign * out[curve], upper)
        return out


def _parameters_of(
    space: TableSpace, columns: NDArray[np.int64], grids: list[int]
) -> NDArray[np.int64]:
    """Return the parameters of the curves and slopes of columns, and of grids."""
    layout, parts = space.layout, []
    for j in columns.tolist():
        parts.append(np.arange(layout.starts[j], layout.starts[j] + space.sizes[j]))
        parts.append(np.array([layout.size + j]))
    cells = [np.arange(int(size)) for size in space.grid_sides.prod(axis=1)]
    parts += [layout.grid_starts[g] + cells[g] for g in grids]
    return np.unique(np.concatenate(parts))


def _entry_rows(
    space: TableSpace,
    shares: Vector,
    effects: Mapping[int, tuple[Matrix, Matrix]],
    j: int,
    cells: NDArray[np.int64],
) -> Matrix:
    """Return the derivatives of the stored entries ``cells`` of column j, one row an entry."""
    layout = space.layout
    span = slice(layout.starts[j], layout.starts[j] + space.sizes[j])
    tables = np.zeros((len(cells), layout.size))
    tables[:, span] = -shares[span]
    tables[np.arange(len(cells)), cells] += 1.0
    for g, parts in effects.items():
        for side, column in enumerate((layout.firsts[g], layout.seconds[g])):
            if column != j:
                continue
            positions = space.grid_positions(g, side)
            share_of_position = np.bincount(positions, shares[span], minlength=len(parts[side]))
            mean = add_rows(parts[side], share_of_position.astype(np.float64))
            grid = slice(layout.grid_starts[g], layout.grid_starts[g] + len(mean))
            tables[:, grid] += parts[side][positions[cells - layout.starts[j]]] - mean
    return np.array([space.adjoint(row) for row in tables])


def _curve_parts(space: TableSpace, counts: Vector, g: int) -> tuple[Matrix, Matrix]:
    """Return what ``purify`` moves from grid g to the curves of its two columns.

    Each is a matrix from the cells of the grid to the positions along one of its sides. With W the
    rows in each cell, and r and c their sums by row and by column of the grid, the parts a and b
    solve ::

        diag(r) a + W b = (W * grid) 1,     W' a + diag(c) b = (W * grid)' 1

    where b has the weighted mean 0 in each connected part of W.
    """
    n_rows, n_columns = space.grid_sides[g].tolist()
    start = space.layout.grid_starts[g]
    weight = counts[start : start + n_rows * n_columns].reshape(n_rows, n_columns)
    row_sums, column_sums = weight.sum(axis=1), weight.sum(axis=0)
    by_row = weight / np.where(row_sums > 0.0, row_sums, 1.0)[:, None]
    # Eliminating a leaves a Laplacian of the columns, singular once for each connected part.
    laplacian = np.diag(column_sums) - np.einsum("ak,al->kl", weight, by_row)
    for members in _connected_columns(weight):
        mass = np.where(members, column_sums, 0.0)
        laplacian += np.outer(mass, mass) / mass.sum()
    laplacian[np.diag_indices(n_columns)] += column_sums == 0.0
    # Rows: columns of the grid. Columns: cells, as a pair of row and column of the grid.
    moved = np.einsum("ab,kb->kab", weight, np.eye(n_columns))
    moved -= np.einsum("ab,ak->kab", weight, by_row)
    of_columns = moved.reshape(n_columns, -1)
    solve_columns(cholesky(laplacian), of_columns)
    of_rows = np.einsum("ab,ka->kab", by_row, np.eye(n_rows)).reshape(n_rows, -1)
    of_rows -= np.einsum("ak,kc->ac", by_row, of_columns)
    return np.ascontiguousarray(of_rows), np.ascontiguousarray(of_columns)


def _connected_columns(weight: Matrix) -> list[NDArray[np.bool_]]:
    """Return the columns of each connected part of a grid's cells with rows."""
    parts: list[NDArray[np.bool_]] = []
    left: NDArray[np.bool_] = np.asarray(weight.any(axis=0))
    while left.any():
        members: NDArray[np.bool_] = np.zeros(len(left), dtype=np.bool_)
        members[np.argmax(left)] = True
        while True:
            reached: NDArray[np.bool_] = np.asarray(
                weight[weight[:, members].any(axis=1)].any(axis=0)
            )
            if (reached == members).all():
                break
            members = reached
        parts.append(members)
        left = np.asarray(left & ~members)
    return parts


def _independent(rows: Matrix) -> NDArray[np.int64]:
    """Return the numbers of rows that are no combination of earlier ones."""
    basis = np.zeros((0, rows.shape[1]))
    chosen = []
    for k, row in enumerate(rows):
        rest = row
        for _ in range(2):  # once more, for what rounding leaves
            rest = rest - add_rows(basis, rows_dot(basis, rest))
        length = norm(rest)
        if length > DEPENDENT * norm(row):
            basis = np.concatenate([basis, [rest / length]])
            chosen.append(k)
    return np.array(chosen, dtype=np.int64)


def _with_shape(
    space: TableSpace, j: int, rows: Matrix, targets: Vector, shape_rows: ShapeRows
) -> tuple[Matrix, Vector, ShapeRows, Vector]:
    """Add to the equations of a column the steps of its shape that they fix at 0.

    Equal values in neighbouring bins of a rising curve, for example, leave no step between them and
    no slope. Returns the equations, the constraints of shapes that are left, and parameters of the
    column that satisfy all of them. Columns with a shape and fixed entries are in no grid.
    """
    parameters = _parameters_of(space, np.array([j]), [])
    in_column = np.isin(shape_rows.cells[:, 0], parameters)
    steps = np.zeros((int(in_column.sum()), len(parameters)))
    places = np.searchsorted(parameters, shape_rows.cells[in_column])
    np.add.at(steps, (np.arange(len(steps))[:, None], places), shape_rows.factors[in_column])
    equations = rows[:, parameters]
    possible = _possible_steps(steps, equations, targets)
    if possible is None:
        raise ContradictionError(j)
    flat = steps[~possible]
    interior = _largest_steps(steps[possible], np.concatenate([equations, flat]), targets)
    if interior is None:
        raise ContradictionError(j)
    added = np.zeros((len(flat), rows.shape[1]))
    added[:, parameters] = flat
    keep = np.ones(len(shape_rows.cells), dtype=np.bool_)
    keep[np.flatnonzero(in_column)[~possible]] = False
    left = ShapeRows(shape_rows.cells[keep], shape_rows.factors[keep])
    return np.concatenate([rows, added]), np.append(targets, np.zeros(len(flat))), left, interior


def _possible_steps(steps: Matrix, equations: Matrix, targets: Vector) -> NDArray[np.bool_] | None:
    """Return which steps can be positive when none is negative; None if some have to be."""
    possible = np.zeros(len(steps), dtype=np.bool_)
    while not possible.all():
        # Maximise the sum of the steps not yet seen to be positive, each counted up to 1.
        searched = np.flatnonzero(~possible)
        n_searched, n_parameters = len(searched), steps.shape[1]
        solution = _linear_program(
            np.concatenate([np.zeros(n_parameters), -np.ones(n_searched)]),
            np.hstack([-steps, np.eye(len(steps))[:, searched]]),
            np.hstack([equations, np.zeros((len(equations), n_searched))]),
            targets,
            [(None, None)] * n_parameters + [(0.0, 1.0)] * n_searched,
        )
        if solution is None:
            return None
        positive = searched[solution[n_parameters:] > NO_STEP]
        if not len(positive):
            break
        possible[positive] = True
    return possible


def _largest_steps(steps: Matrix, equations: Matrix, targets: Vector) -> Vector | None:
    """Return parameters whose smallest step is as large as possible, up to 1."""
    targets = np.append(targets, np.zeros(len(equations) - len(targets)))
    solution = _linear_program(
        np.append(np.zeros(steps.shape[1]), -1.0),
        np.hstack([-steps, np.ones((len(steps), 1))]),
        np.hstack([equations, np.zeros((len(equations), 1))]),
        targets,
        [(None, None)] * steps.shape[1] + [(0.0, 1.0)],
    )
    return None if solution is None else solution[:-1]


def _linear_program(
    cost: Vector, upper: Matrix, equations: Matrix, targets: Vector, bounds: Any
) -> Vector | None:
    """Minimise cost'x under upper x <= 0 and equations; return None if nothing satisfies them."""
    from scipy.optimize import linprog

    result = linprog(
        cost,
        A_ub=upper,
        b_ub=np.zeros(len(upper)),
        A_eq=equations,
        b_eq=targets,
        bounds=bounds,
        method="highs",
    )
    return None if result.x is None else np.asarray(result.x)


class FixedPenalty:
    """A penalty on tables with fixed entries (a ``newton.QuadraticPenalty``)."""

    def __init__(self, penalty: TablePenalty, entries: FixedEntries) -> None:
        self.penalty = penalty
        self.entries = entries
        self.space = penalty.space
        # A start close to the solution: fewer and more exact steps cost less than in a fit.
        self.forcing = FORCING
        self.predicted_gap_share = penalty.predicted_gap_share
        self.bounded = penalty.bounded
        self._penalty_factor: _ProjectedFactor | None = None

    def times(self, theta: Vector) -> Vector:
        """Return K theta."""
        return self.penalty.times(theta)

    def value(self, theta: Vector) -> float:
        """Return theta' K theta / 2."""
        return self.penalty.value(theta)

    def factor(self, diagonal: Vector | None = None, barrier: Any = None) -> _ProjectedFactor:
        """Return factors that solve (K + diag) x = b among the x with C x = 0."""
        if diagonal is not None:
            return _ProjectedFactor(self.penalty.factor(diagonal, barrier), self.entries)
        if self._penalty_factor is None:
            self._penalty_factor = _ProjectedFactor(self.penalty.factor(), self.entries)
        return self._penalty_factor

    def gap(self, theta: Vector, gradient: Vector) -> float:
        """Return a bound of J(theta) - J* among the solutions of C theta = v."""
        multipliers = self.factor().multipliers(gradient)
        residual = gradient - self.entries.transpose_times(multipliers, len(gradient))
        return self.penalty.gap(theta, residual)

    def move_onto(self, theta: Vector) -> Vector:
        """Return the parameters with C theta = v nearest to ``theta`` in the norm of K."""
        return theta + self.factor().pull(self.entries.targets - self.entries.times(theta))

    def shape_start(self, theta: Vector) -> tuple[ShapeRows, Vector]:
        """Return the constraints of shapes, and parameters inside them with C theta = v."""
        entries, space = self.entries, self.space
        out = move_inside(space, theta)
        for column, parameters in entries.interiors.items():
            out[_parameters_of(space, np.array([column]), [])] = parameters
        # Of the other columns, only the fixed cells change: steps along their grids may be those of
        # a column with a shape.
        missing = entries.targets - entries.times(out)
        for j in np.flatnonzero(space.shapes == 0):
            start, size = int(space.layout.starts[j]), int(space.sizes[j])
            in_column = (entries.row_cells >= start) & (entries.row_cells < start + size)
            cells = entries.row_cells[in_column]
            share, change = entries.shares[cells], missing[in_column]
            out[cells] += change + dot(share, change) / (1.0 - share.sum())
        return entries.shape_rows, out


class _ProjectedFactor:
    """Factors of M, projected on the x with C x = 0."""

    def __init__(self, factor: Any, entries: FixedEntries) -> None:
        self._factor = factor
        self._entries = entries
        n_parameters = entries.space.size
        solved = []
        for row in entries.matrix:
            full = np.zeros(n_parameters)
            full[entries.support] = row
            solved.append(factor.solve(full)[entries.support])
        #: M^-1 C', by row. M has no entries between the support and other parameters.
        self._solved = np.array(solved)
        gram = np.array([rows_dot(entries.matrix, row) for row in self._solved])
        self._gram_factor = cholesky(gram)

    def multipliers(self, b: Vector) -> Vector:
        """Return (C M^-1 C')^-1 C M^-1 b."""
        return self._solve_gram(rows_dot(self._solved, b[self._entries.support]))

    def pull(self, change: Vector) -> Vector:
        """Return the x with C x = ``change`` and the smallest x'M x."""
        out = np.zeros(self._entries.space.size)
        out[self._entries.support] = add_rows(self._solved, self._solve_gram(change))
        return out

    def solve(self, b: Vector) -> Vector:
        """Return P b."""
        out: Vector = self._factor.solve(b)
        out[self._entries.support] -= add_rows(self._solved, self.multipliers(b))
        return out

    def _solve_gram(self, b: Vector) -> Vector:
        column = b[:, None].copy()
        solve_columns(self._gram_factor, column)
        return column[:, 0]
