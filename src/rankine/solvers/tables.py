"""The problem of an additive model: parameters, penalty and products of tables of binned columns.

The parameters theta are, in this order: an entry for every cell of every column, the cells of the
grids of pairs of columns, one slope per column (its *anchor*), and the weights of columns that stay
linear. Rows are scored with the tables::

    table_j[c] = curve_j[c] + slope_j m_j[c]        m_j: centred, scaled middles of the bins

so that a strong penalty on the curves gives a linear ranker, not a constant one. The objective is
R(scores) + theta' K theta / 2 with a block-diagonal K::

    curve   smooth sum_c (t_c - t_c+1)^2 + ridge |t|^2        c, c+1 neighbours in order
    grid    the same over neighbours along both sides
    slope   anchor slope^2,     linear weight   l2 w^2

K bounds the curvature of J from below, which certifies a result: J(theta) - J* <= g' K^-1 g / 2.
Tables with shapes are solved by ``rankine.solvers.shapes``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.blocks import table_histograms, table_scores
from rankine.kernels.compile import jit
from rankine.kernels.shards import dot, map_shards
from rankine.model.tables import bin_centres
from rankine.solvers.coarse import MIN_ROWS, CoarseFactor
from rankine.solvers.problem import RowsProblem
from rankine.solvers.shapes import SHAPE_NUMBERS, ShapeRows, move_inside

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rankine.core.specs import Bins, Grids
    from rankine.kernels.binned import BinnedProducts, TableLayout
    from rankine.kernels.products import Products

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class PenaltyStrengths:
    """Strengths of the parts of the penalty."""

    #: Strength on differences of neighbouring cells of a curve.
    smooth: float
    #: Strength on differences of neighbouring cells of a grid.
    pair_smooth: float
    #: Strength on slopes and linear weights.
    anchor: float
    #: Strength on the square of each cell, relative to ``smooth`` (or ``pair_smooth``).
    ridge: float = 1e-3

    def times(self, factor: float) -> PenaltyStrengths:
        """Return all strengths multiplied by a factor."""
        return PenaltyStrengths(
            factor * self.smooth, factor * self.pair_smooth, factor * self.anchor, self.ridge
        )


@dataclass(frozen=True, eq=False)
class TableSpace:
    """The parameters theta and their mapping to tables."""

    layout: TableLayout
    #: Number of cells of each column, 0 for columns without a curve.
    sizes: NDArray[np.int64]
    #: Number of rows and columns of each grid.
    grid_sides: NDArray[np.int64]
    #: m of every cell, 0 for missing values, unordered columns and grids.
    means: Vector
    #: Whether the bins of each column are ordered.
    ordered: NDArray[np.bool_]
    #: Shape of each column (``solvers.shapes.SHAPE_NUMBERS``), 0 if it has none.
    shapes: NDArray[np.int64]
    #: Centre of the bin of every cell of the columns, 0 for missing values and unordered columns.
    centres: Vector
    #: Whether the rows and the columns of each grid are ordered.
    grid_ordered: NDArray[np.bool_]
    #: Number of columns that stay linear.
    n_linear: int

    @classmethod
    def build(
        cls,
        layout: TableLayout,
        bins: Bins,
        grids: Grids | None,
        means: Vector,
        shapes: Mapping[int, str] | None = None,
        n_linear: int = 0,
    ) -> TableSpace:
        """Create the parameters of bins and grids; ``means`` is m of the cells of all columns."""
        ordered = np.array([j not in bins.unordered for j in range(len(bins.cuts))])
        numbers = np.zeros(len(bins.cuts), dtype=np.int64)
        for j, shape in (shapes or {}).items():
            numbers[j] = SHAPE_NUMBERS[shape]
        pairs, axes = ((), ()) if grids is None else (grids.pairs, grids.axes)
        sides = [(axes[a].size, axes[b].size) for a, b in pairs]
        in_order = [(ordered[axes[a].column], ordered[axes[b].column]) for a, b in pairs]
        return cls(
            layout,
            np.array(bins.n_cells, dtype=np.int64),
            np.array(sides, dtype=np.int64).reshape(-1, 2),
            np.concatenate([means, np.zeros(layout.size - len(means))]),
            ordered,
            numbers,
            bin_centres(bins),
            np.array(in_order, dtype=np.bool_).reshape(-1, 2),
            n_linear,
        )

    @property
    def n_curve_cells(self) -> int:
        """Number of cells of all columns; the cells of the grids follow them."""
        return int(self.sizes.sum())

    def grid_positions(self, g: int, side: int) -> NDArray[np.int64]:
        """Return the position along a side of grid g of every cell of the side's column."""
        column = (self.layout.firsts, self.layout.seconds)[side][g]
        places = self.layout.offsets[2 * g + side, : self.sizes[column]].astype(np.int64)
        return places if side == 1 else places // self.grid_sides[g, 1]

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self.layout.size + len(self.sizes) + self.n_linear

    def tables(self, theta: Vector) -> Vector:
        """Compute the tables from the parameters."""
        out = theta[: self.layout.size].copy()
        slopes = theta[self.layout.size : self.layout.size + len(self.sizes)]
        _expand(self.layout.starts, self.sizes, self.means, slopes, out)
        return out

    def adjoint(self, histogram: Vector) -> Vector:
        """Return the gradient with respect to theta, given that with respect to table entries."""
        return self._sum_by_parameter(histogram, self.means)

    def diagonal(self, histogram: Vector) -> Vector:
        """Return about the diagonal of the curvature in theta, given sums of row curvatures."""
        return self._sum_by_parameter(histogram, self.means**2)

    def _sum_by_parameter(self, histogram: Vector, means: Vector) -> Vector:
        """Apply the transpose of ``tables`` with the given means."""
        out = np.zeros(self.size)
        out[: self.layout.size] = histogram
        slopes = out[self.layout.size : self.layout.size + len(self.sizes)]
        _reduce(self.layout.starts, self.sizes, means, slopes, out)
        return out


@jit
def _expand(starts: Any, sizes: Any, means: Any, slopes: Any, out: Any) -> None:
    for j in range(starts.shape[0]):
        for c in range(starts[j], starts[j] + sizes[j]):
            out[c] += slopes[j] * means[c]


@jit
def _reduce(starts: Any, sizes: Any, means: Any, slopes: Any, out: Any) -> None:
    for j in range(starts.shape[0]):
        total = 0.0
        for c in range(starts[j], starts[j] + sizes[j]):
            total += means[c] * out[c]
        slopes[j] = total


def standardised_bin_centres(bins: Bins, counts: Vector) -> Vector:
    """Return m, the centre of every bin, standardised to mean 0 and variance 1 over the rows.

    ``counts`` is the number of rows in every cell.
    """
    out, all_centres = np.zeros(len(counts)), bin_centres(bins)
    start = 0
    for j, size in enumerate(bins.n_cells):
        inner = slice(start, start + size - 1)
        start += size
        weight = counts[inner]
        if j in bins.unordered or len(bins.cuts[j]) == 0 or weight.sum() == 0.0:
            continue
        centres = all_centres[inner]
        centres = centres - dot(weight, centres) / weight.sum()
        deviation = np.sqrt(dot(weight, centres * centres) / weight.sum())
        if deviation > 0.0 and np.isfinite(deviation):
            out[inner] = centres / deviation
    return out


def purify(space: TableSpace, tables: Vector, counts: Vector) -> Vector:
    """Return tables of the same function with centred curves and pure grids.

    Moves the part of a grid that depends on one of its columns alone into the table of that column,
    until the weighted mean of every row and column of the grid is 0. Then subtracts the weighted
    mean of every curve, which changes all scores equally. Cells of missing and unknown values
    without training rows become 0. ``counts`` is the number of rows in every cell.
    """
    out = tables.copy()
    layout = space.layout
    for g, (rows, columns) in enumerate(space.grid_sides.tolist()):
        start = layout.grid_starts[g]
        span = slice(start, start + rows * columns)
        grid, weight = out[span].reshape(rows, columns), counts[span].reshape(rows, columns)
        row_means, column_means = np.zeros(rows), np.zeros(columns)
        _subtract_means(grid, weight, row_means, column_means)
        for side, (j, added) in enumerate(
            ((layout.firsts[g], row_means), (layout.seconds[g], column_means))
        ):
            grid_index = space.grid_positions(g, side)
            out[layout.starts[j] : layout.starts[j] + space.sizes[j]] += added[grid_index]
        if space.shapes[layout.firsts[g]] or space.shapes[layout.seconds[g]]:
            continue  # single cells set to 0 would break the shape
        grid[-1] = np.where(weight[-1] > 0.0, grid[-1], 0.0)
        grid[:, -1] = np.where(weight[:, -1] > 0.0, grid[:, -1], 0.0)
    for j in np.flatnonzero(space.sizes):
        span = slice(layout.starts[j], layout.starts[j] + space.sizes[j])
        weight = counts[span]
        if weight.sum() > 0.0:
            out[span] -= dot(weight, out[span]) / weight.sum()
        n_rare = 1 if space.ordered[j] else 2
        out[span][-n_rare:] = np.where(weight[-n_rare:] > 0.0, out[span][-n_rare:], 0.0)
    return out


@jit
def _subtract_means(grid: Any, weight: Any, row_means: Any, column_means: Any) -> None:
    """Subtract weighted means of rows and of columns in turn; add them to the means' arrays."""
    rows, columns = grid.shape
    for _ in range(1000):
        largest_mean, largest_entry = 0.0, 0.0
        for a in range(rows):
            total, mass = 0.0, 0.0
            for b in range(columns):
                total += weight[a, b] * grid[a, b]
                mass += weight[a, b]
                largest_entry = max(largest_entry, abs(grid[a, b]))
            if mass > 0.0:
                for b in range(columns):
                    grid[a, b] -= total / mass
                row_means[a] += total / mass
                largest_mean = max(largest_mean, abs(total / mass))
        for b in range(columns):
            total, mass = 0.0, 0.0
            for a in range(rows):
                total += weight[a, b] * grid[a, b]
                mass += weight[a, b]
            if mass > 0.0:
                for a in range(rows):
                    grid[a, b] -= total / mass
                column_means[b] += total / mass
                largest_mean = max(largest_mean, abs(total / mass))
        if largest_mean <= 1e-12 * largest_entry:
            return


class TablePenalty:
    """The penalty theta' K theta / 2 for given strengths (a ``newton.QuadraticPenalty``)."""

    forcing = 0.25
    predicted_gap_share = 0.5
    #: ``fixed.FixedPenalty`` has entries of curves that are fixed.
    entries = None

    def __init__(
        self,
        space: TableSpace,
        strengths: PenaltyStrengths,
        threads: int | None = None,
        grid_strengths: Vector | None = None,
    ) -> None:
        self.space = space
        self.strengths = strengths
        self.threads = threads
        if grid_strengths is None:
            grid_strengths = np.full(len(space.grid_sides), float(strengths.pair_smooth))
        #: Strength on differences of neighbouring cells of each grid.
        self.grid_strengths = grid_strengths
        cell_strengths = np.repeat(grid_strengths, space.grid_sides.prod(axis=1))
        curve = space.n_curve_cells
        self.diagonal = np.empty(space.size)
        self.diagonal[:curve] = strengths.ridge * strengths.smooth
        self.diagonal[curve : space.layout.size] = strengths.ridge * cell_strengths
        self.diagonal[space.layout.size :] = strengths.anchor
        #: Strength of the difference between each cell and the next one; 0 at the end of a curve.
        self.links = np.zeros(curve)
        for j in np.flatnonzero(space.sizes):
            start, size = space.layout.starts[j], space.sizes[j]
            # Proportional to the number of bins, so that a ramp over all bins has the same penalty
            # for any number.
            weight = strengths.smooth * max(size - 2, 1)
            if space.ordered[j]:
                self.links[start : start + size - 2] = weight
        self._penalty_factor: _Factor | None = None
        self.bounded = np.zeros(space.size, dtype=np.bool_)

    def times(self, theta: Vector) -> Vector:
        """Return K theta."""
        out = self.diagonal * theta
        _add_links(self.links, theta, out)
        space = self.space
        _add_grid_links(
            space.layout.grid_starts,
            space.grid_sides,
            space.grid_ordered,
            self.grid_strengths,
            theta,
            out,
        )
        return out

    def scale(self) -> Vector:
        """Return about the diagonal of K."""
        out = self.diagonal.copy()
        out[: len(self.links)] += 2.0 * self.links
        cell_strengths = np.repeat(self.grid_strengths, self.space.grid_sides.prod(axis=1))
        out[len(self.links) : self.space.layout.size] += 4.0 * cell_strengths
        return out

    def value(self, theta: Vector) -> float:
        """Return theta' K theta / 2."""
        return 0.5 * dot(theta, self.times(theta))

    def factor(
        self, diagonal: Vector | None = None, barrier: tuple[ShapeRows, Vector] | None = None
    ) -> _Factor:
        """Return factors that solve (K + diag) x = b; without ``diagonal``, K x = b.

        ``barrier`` holds A and D of a matrix A' D A that is added.
        """
        if diagonal is not None:
            return _Factor(self, self.diagonal + diagonal, barrier)
        if self._penalty_factor is None:
            self._penalty_factor = _Factor(self, self.diagonal)
        return self._penalty_factor

    def gap(self, theta: Vector, gradient: Vector) -> float:  # noqa: ARG002 - no bounds
        """Return a bound of J(theta) - J*: g' K^-1 g / 2."""
        return 0.5 * dot(gradient, self.factor().solve(gradient))

    def shape_start(self, theta: Vector) -> tuple[ShapeRows, Vector]:
        """Return the constraints of shapes, and parameters near ``theta`` inside them."""
        return ShapeRows.build(self.space), move_inside(self.space, theta)


def least_penalty_parameters(
    penalty: TablePenalty, tables: Vector, linear: Vector, counts: Vector
) -> Vector:
    """Return, of all parameters that give equivalent tables, those with the smallest penalty.

    The optimum has these. Score differences within a query do not change if a line moves between a
    curve and its slope, a curve between a column and its grids, if a column changes by a constant,
    or a cell without rows by any amount. ``linear`` holds the weights of the first linear columns;
    ``counts`` is the number of rows in every cell. Minimises by preconditioned conjugate gradients.
    """
    space = penalty.space
    theta = np.zeros(space.size)
    theta[: space.layout.size] = tables
    theta[space.size - space.n_linear :][: len(linear)] = linear
    cells, moves, factors = _free_moves(space, counts)
    n_moves = int(moves.max(initial=-1)) + 1

    def slope(theta: Any) -> Any:
        return np.bincount(moves, factors * penalty.times(theta)[cells], minlength=n_moves)

    scale = np.bincount(moves, factors**2 * penalty.scale()[cells], minlength=n_moves)
    residual = -slope(theta)
    search = residual / scale
    squared_residual = dot(residual, search)
    squared_target = _LEAST_PENALTY_TOL * _LEAST_PENALTY_TOL * squared_residual
    for _ in range(_LEAST_PENALTY_STEPS):
        if squared_residual <= squared_target:
            break
        direction = np.bincount(cells, factors * search[moves], minlength=space.size)
        product = slope(direction)
        step = squared_residual / dot(search, product)
        theta += step * direction
        residual -= step * product
        previous_squared, squared_residual = squared_residual, dot(residual, residual / scale)
        search = residual / scale + squared_residual / previous_squared * search
    return theta


#: Relative tolerance and largest number of iterations of ``least_penalty_parameters``.
_LEAST_PENALTY_TOL, _LEAST_PENALTY_STEPS = 1e-6, 1000


def _free_moves(space: TableSpace, counts: Vector) -> tuple[Any, Any, Vector]:
    """Return changes of parameters that do not change rankings.

    As three arrays with one entry per changed parameter: its index, the number of the change it
    belongs to, and its coefficient in that change.
    """
    layout, moves = space.layout, []
    for j in np.flatnonzero(space.sizes):
        cells = np.arange(layout.starts[j], layout.starts[j] + space.sizes[j])
        moves.append((cells, np.ones(len(cells))))
        if space.means[cells].any():
            line = np.append(cells, layout.size + j)
            moves.append((line, np.append(-space.means[cells], 1.0)))
    for g, (rows, columns) in enumerate(space.grid_sides.tolist()):
        grid = layout.grid_starts[g] + np.arange(rows * columns).reshape(rows, columns)
        for side, j in enumerate((layout.firsts[g], layout.seconds[g])):
            grid_index = space.grid_positions(g, side)
            for index, grid_cells in enumerate(grid if side == 0 else grid.T):
                curve = layout.starts[j] + np.flatnonzero(grid_index == index)
                factors = np.repeat([1.0, -1.0], [len(grid_cells), len(curve)])
                moves.append((np.concatenate([grid_cells, curve]), factors))
    unseen = np.flatnonzero(counts == 0.0)
    sizes = [len(cells) for cells, _ in moves] + [1] * len(unseen)
    cell = np.concatenate([*(cells for cells, _ in moves), unseen])
    factor = np.concatenate([*(factors for _, factors in moves), np.ones(len(unseen))])
    return cell, np.repeat(np.arange(len(sizes)), sizes), factor


#: Number of shards of grids for threads.
_GRID_SHARDS = 4


class _Factor:
    """Factors of K + diagonal (+ A' D A): LDL' of the curves, banded Cholesky of each grid."""

    def __init__(
        self,
        penalty: TablePenalty,
        diagonal: Vector,
        barrier: tuple[ShapeRows, Vector] | None = None,
    ) -> None:
        space = penalty.space
        self._space = space
        self._curve = space.n_curve_cells
        self._pivots, self._ratios = np.zeros(0), np.zeros(0)
        #: Factors of curves whose shapes couple every bin to the next two.
        self._band: Vector | None = None
        # Strengths that shapes add between a grid's cells and the next ones along both sides.
        below, beside = np.zeros((2, space.layout.size - self._curve))
        if barrier is None:
            self._pivots, self._ratios = _factor_links(penalty.links, diagonal)
        else:
            shape_rows, ratios = barrier
            diagonal = diagonal.copy()
            band = np.zeros((self._curve, 3))
            _add_shape_rows(
                shape_rows.cells,
                shape_rows.factors,
                ratios,
                self._curve,
                space.layout.size,
                band,
                below,
                beside,
                diagonal,
            )
            _factor_band(penalty.links, diagonal[: self._curve], band)
            self._band = band
        self._diagonal = diagonal
        sides = space.grid_sides
        widest = int(sides[:, 1].max(initial=0))
        self._rows = np.zeros((space.layout.size - self._curve, widest + 1))
        self._starts = space.layout.grid_starts - self._curve
        self._threads = penalty.threads
        grid_diagonal = diagonal[self._curve : space.layout.size]
        self._map_grids(
            lambda first, last: _factor_grids(
                self._starts[first:last],
                sides[first:last],
                space.grid_ordered[first:last],
                penalty.grid_strengths[first:last],
                grid_diagonal,
                below,
                beside,
                self._rows,
            )
        )

    def _map_grids(self, work: Callable[[int, int], None]) -> None:
        """Call ``work`` on shards of grids, which are independent blocks of the matrix."""
        cuts = np.linspace(0, len(self._starts), _GRID_SHARDS + 1).astype(np.int64)
        map_shards(work, np.unique(cuts), self._threads)

    def solve(self, b: Vector) -> Vector:
        """Return (K + diag)^-1 b."""
        out = b / self._diagonal
        out[: self._curve] = b[: self._curve]
        if self._band is None:
            _solve_links(self._pivots, self._ratios, out)
        else:
            _solve_band(self._band, out)
        space = self._space
        grids, sides = out[self._curve : space.layout.size], space.grid_sides
        grids[:] = b[self._curve : space.layout.size]
        self._map_grids(lambda a, b: _solve_grids(self._starts[a:b], sides[a:b], self._rows, grids))
        return out


@jit
def _add_links(links: Any, theta: Any, out: Any) -> None:
    for c in range(links.shape[0] - 1):
        step = links[c] * (theta[c] - theta[c + 1])
        out[c] += step
        out[c + 1] -= step


@jit
def _factor_links(links: Any, diagonal: Any) -> Any:
    """Return the LDL' factors of a tridiagonal matrix: pivots, and ratios of successive rows."""
    n = links.shape[0]
    pivots, ratios = np.empty(n), np.zeros(n)
    previous_link = 0.0
    carried = 0.0
    for c in range(n):
        link = links[c]
        pivots[c] = diagonal[c] + previous_link + link - carried
        ratios[c] = -link / pivots[c]
        carried = ratios[c] * -link
        previous_link = link
    return pivots, ratios


@jit
def _solve_links(pivots: Any, ratios: Any, x: Any) -> None:
    n = pivots.shape[0]
    for c in range(n - 1):
        x[c + 1] -= ratios[c] * x[c]
    for c in range(n):
        x[c] /= pivots[c]
    for c in range(n - 2, -1, -1):
        x[c] -= ratios[c] * x[c + 1]


@jit
def _add_shape_rows(
    cells: Any,
    factors: Any,
    ratios: Any,
    n_curve: int,
    n_cells: int,
    band: Any,
    below: Any,
    beside: Any,
    diagonal: Any,
) -> None:
    """Add A' D A; ``band[c, k]`` is the entry of curves in row c, column c + k."""
    for r in range(cells.shape[0]):
        for i in range(3):
            factor = ratios[r] * factors[r, i]
            if factor == 0.0:
                continue
            c = cells[r, i]
            if c < n_curve or c >= n_cells:
                diagonal[c] += factor * factors[r, i]
            for k in range(3):
                distance = cells[r, k] - c
                if distance <= 0 or factors[r, k] == 0.0:
                    continue
                if c < n_curve:
                    band[c, distance] += factor * factors[r, k]
                elif distance == 1:
                    beside[c - n_curve] -= factor * factors[r, k]
                else:
                    below[c - n_curve] -= factor * factors[r, k]


@jit
def _factor_band(links: Any, diagonal: Any, band: Any) -> None:
    """Replace ``band`` by LDL' factors of it, plus links and a diagonal: pivots and ratios."""
    n = band.shape[0]
    for c in range(n):
        band[c, 0] += diagonal[c] + links[c]
        band[c, 1] -= links[c]
        if c > 0:
            band[c, 0] += links[c - 1]
    for c in range(n):
        if c > 0:
            band[c, 0] -= band[c - 1, 1] * band[c - 1, 1] * band[c - 1, 0]
            band[c, 1] -= band[c - 1, 2] * band[c - 1, 1] * band[c - 1, 0]
        if c > 1:
            band[c, 0] -= band[c - 2, 2] * band[c - 2, 2] * band[c - 2, 0]
        band[c, 1] /= band[c, 0]
        band[c, 2] /= band[c, 0]


@jit
def _solve_band(band: Any, x: Any) -> None:
    n = band.shape[0]
    for c in range(n):
        if c > 0:
            x[c] -= band[c - 1, 1] * x[c - 1]
        if c > 1:
            x[c] -= band[c - 2, 2] * x[c - 2]
    for c in range(n):
        x[c] /= band[c, 0]
    for c in range(n - 1, -1, -1):
        if c + 1 < n:
            x[c] -= band[c, 1] * x[c + 1]
        if c + 2 < n:
            x[c] -= band[c, 2] * x[c + 2]


@jit
def _has_upper_link(index: int, size: int, ordered: bool) -> bool:
    """Return whether a cell is linked to the next; the last, of missing values, has no links."""
    return ordered and index + 2 < size


@jit
def _add_grid_links(
    starts: Any, sides: Any, ordered: Any, strengths: Any, theta: Any, out: Any
) -> None:
    for g in range(starts.shape[0]):
        rows, columns, weight = sides[g, 0], sides[g, 1], strengths[g]
        for a in range(rows):
            for b in range(columns):
                c = starts[g] + a * columns + b
                if _has_upper_link(a, rows, ordered[g, 0]):
                    step = weight * (theta[c] - theta[c + columns])
                    out[c] += step
                    out[c + columns] -= step
                if _has_upper_link(b, columns, ordered[g, 1]):
                    step = weight * (theta[c] - theta[c + 1])
                    out[c] += step
                    out[c + 1] -= step


@jit
def _factor_grids(
    starts: Any,
    sides: Any,
    ordered: Any,
    strengths: Any,
    diagonal: Any,
    below: Any,
    beside: Any,
    band: Any,
) -> None:
    """Compute banded Cholesky factors; ``band[c, k]`` is the entry in row c, column c - k.

    ``below`` and ``beside`` are added to the strengths between a cell and the next ones.
    """
    for g in range(starts.shape[0]):
        rows, columns, weight = sides[g, 0], sides[g, 1], strengths[g]
        start = starts[g]
        for a in range(rows):
            for b in range(columns):
                c = start + a * columns + b
                band[c, 0] += diagonal[c]
                if _has_upper_link(a, rows, ordered[g, 0]):
                    link = weight + below[c]
                    band[c, 0] += link
                    band[c + columns, 0] += link
                    band[c + columns, columns] -= link
                if _has_upper_link(b, columns, ordered[g, 1]):
                    link = weight + beside[c]
                    band[c, 0] += link
                    band[c + 1, 0] += link
                    band[c + 1, 1] -= link
        for c in range(start, start + rows * columns):
            for k in range(min(columns, c - start), -1, -1):
                total = band[c, k]
                column = c - k
                for l in range(k + 1, min(columns, c - start) + 1):
                    total -= band[c, l] * band[column, l - k]
                band[c, k] = np.sqrt(total) if k == 0 else total / band[column, 0]


@jit
def _solve_grids(starts: Any, sides: Any, band: Any, x: Any) -> None:
    for g in range(starts.shape[0]):
        width = sides[g, 1]
        start = starts[g]
        stop = start + sides[g, 0] * width
        for c in range(start, stop):
            total = x[c]
            for k in range(1, min(width, c - start) + 1):
                total -= band[c, k] * x[c - k]
            x[c] = total / band[c, 0]
        for c in range(stop - 1, start - 1, -1):
            x[c] /= band[c, 0]
            for k in range(1, min(width, c - start) + 1):
                x[c - k] -= band[c, k] * x[c]


class TableProblem(RowsProblem):
    """R(X theta) as a function of the parameters, by way of tables and scores."""

    def __init__(
        self, space: TableSpace, products: BinnedProducts, risk: Any, linear: Products | None = None
    ) -> None:
        self.space = space
        self.products: Any = products
        self.risk = risk
        self.n_features = space.size
        self.at_zero = 1.0 if risk is None else risk.evaluate(np.zeros(products.rows.n_rows))[0]
        self.linear = linear

    def with_risk(self, risk: Any) -> TableProblem:
        """Return the problem of the same rows with another risk."""
        return TableProblem(self.space, self.products, risk, self.linear)

    def scores(self, theta: Vector) -> Vector:
        """Return the scores of all rows."""
        scores = self.products.scores(self.space.tables(theta))
        # Held-out rows do not have the position columns, which are the last linear ones.
        if self.linear is not None:
            weights = theta[self.space.size - self.space.n_linear :]
            scores += self.linear.scores(weights[: self.linear.n_features])
        return scores

    def gradient(self, slopes: Vector) -> Vector:
        """Return dR/dtheta, given dR/dscores."""
        out = self.space.adjoint(self.products.transpose_times(slopes))
        if self.linear is not None:
            out[self.space.size - self.space.n_linear :] = self.linear.transpose_times(slopes)
        return out

    def score_columns(self, W: Vector) -> Vector:
        """Return the scores of all rows for each column of parameters."""
        space = self.space
        tables = np.column_stack([space.tables(np.ascontiguousarray(theta)) for theta in W.T])
        scores = table_scores(self.products, tables)
        if self.linear is not None:
            for k, theta in enumerate(W[space.size - space.n_linear :].T):
                scores[:, k] += self.linear.scores(np.ascontiguousarray(theta))
        return scores

    def gradients(self, slopes: Vector) -> Vector:
        """Return dR/dtheta for each column of slopes."""
        space = self.space
        histograms = table_histograms(self.products, slopes)
        out = np.column_stack([space.adjoint(np.ascontiguousarray(h)) for h in histograms.T])
        if self.linear is not None:
            for k, u in enumerate(slopes.T):
                linear = self.linear.transpose_times(np.ascontiguousarray(u))
                out[space.size - space.n_linear :, k] = linear
        return out

    def preconditioner(
        self, penalty: Any, curvature: Any, scale: Vector, n_systems: int = 1
    ) -> Any:
        """Return factors of about the curvature of the objective.

        Where it pays for this number of systems they see how tables overlap, see
        ``solvers.coarse``.
        """
        blocks = penalty.factor(scale)
        # Penalties of other types couple tables as well.
        if n_systems * self.products.rows.n_rows < MIN_ROWS or type(penalty) is not TablePenalty:
            return blocks
        return CoarseFactor(self, blocks, curvature.diagonal(), scale)

    def curvature_scale(self, curvature: Any) -> Vector:
        """Return about the diagonal of d2R/dtheta2."""
        degrees = curvature.diagonal()
        out = self.space.diagonal(self.products.transpose_times(degrees))
        # Linear columns are standardised, so their squares sum to about 1 per row.
        out[self.space.size - self.space.n_linear :] = degrees.sum()
        return out
