"""Tables over binned columns as one problem: parameters, penalty, products.

Parameters theta are, in this order: an entry for every cell of every column, the cells of the
grids, one slope a column (the *anchor*), and the weights of columns that stay linear. The tables
that rows are scored with are::

    table_j[c] = curve_j[c] + slope_j m_j[c]        m_j: centred, scaled middles of the bins

so that a strong penalty on the curves leaves a linear ranker, not a constant one. Curves of
monotone columns are sums of steps of one sign, and their slopes have that sign too. The objective
is R(scores) + theta' K theta / 2 with a block-diagonal K::

    curve   smooth sum_c (t_c - t_c+1)^2 + ridge |t|^2        c, c+1 neighbours in order
    grid    the same over neighbours along both sides
    slope   anchor slope^2,     linear weight   l2 w^2

K bounds the curvature of J from below, which certifies a result: J(theta) - J* <= g' K^-1 g / 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.shards import dot, map_shards
from rankine.solvers.problem import RowsProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rankine.core.specs import Bins, Grids
    from rankine.kernels.binned import BinnedProducts, TableLayout
    from rankine.kernels.products import Products

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class PenaltyStrengths:
    """What the penalty charges."""

    #: Differences of neighbouring cells of a curve, and of a grid.
    smooth: float
    pair_smooth: float
    #: Slopes and linear weights.
    anchor: float
    #: Share of ``smooth`` (``pair_smooth``) on each cell's square.
    ridge: float = 1e-3

    def times(self, factor: float) -> PenaltyStrengths:
        """All strengths, multiplied."""
        return PenaltyStrengths(
            factor * self.smooth, factor * self.pair_smooth, factor * self.anchor, self.ridge
        )


@dataclass(frozen=True, eq=False)
class TableSpace:
    """Parameters and the tables they stand for."""

    layout: TableLayout
    #: Cells of each column, 0 where it has none, and places on both sides of each grid.
    sizes: NDArray[np.int64]
    grid_sides: NDArray[np.int64]
    #: m of every cell, 0 for missing values, unordered columns and grids.
    means: Vector
    #: Whether the bins of a column are in order.
    ordered: NDArray[np.bool_]
    #: 1, -1 or 0 for each column: which way its curve may go.
    signs: NDArray[np.int64]
    #: Whether the places of each grid's two sides are in order.
    grid_ordered: NDArray[np.bool_]
    #: Columns that stay linear.
    n_linear: int

    @classmethod
    def build(
        cls,
        layout: TableLayout,
        bins: Bins,
        grids: Grids | None,
        means: Vector,
        monotone: Mapping[int, int] | None = None,
        n_linear: int = 0,
    ) -> TableSpace:
        """Parameters of bins and grids; ``means`` covers the cells of the columns."""
        ordered = np.array([j not in bins.unordered for j in range(len(bins.cuts))])
        signs = np.zeros(len(bins.cuts), dtype=np.int64)
        for j, sign in (monotone or {}).items():
            signs[j] = sign
        pairs = () if grids is None else grids.pairs
        axes = () if grids is None else grids.axes
        sides = [(axes[a].size, axes[b].size) for a, b in pairs]
        in_order = [(ordered[axes[a].column], ordered[axes[b].column]) for a, b in pairs]
        return cls(
            layout,
            np.array(bins.n_cells, dtype=np.int64),
            np.array(sides, dtype=np.int64).reshape(-1, 2),
            np.concatenate([means, np.zeros(layout.size - len(means))]),
            ordered,
            signs,
            np.array(in_order, dtype=np.bool_).reshape(-1, 2),
            n_linear,
        )

    @property
    def n_curve_cells(self) -> int:
        """Cells of all columns; those of the grids follow."""
        return int(self.sizes.sum())

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self.layout.size + len(self.sizes) + self.n_linear

    @property
    def bounded(self) -> NDArray[np.bool_]:
        """Parameters that must not be negative: steps and slopes of monotone columns."""
        mask = np.zeros(self.size, dtype=np.bool_)
        for j in np.flatnonzero(self.signs):
            start = self.layout.starts[j]
            mask[start : start + self.sizes[j] - 1] = True
            mask[self.layout.size + j] = True
        return mask

    def tables(self, theta: Vector) -> Vector:
        """Tables that parameters stand for."""
        out = theta[: self.layout.size].copy()
        slopes = theta[self.layout.size : self.layout.size + len(self.sizes)]
        _expand(self.layout.starts, self.sizes, self.signs, self.means, slopes, out)
        return out

    def adjoint(self, histogram: Vector) -> Vector:
        """Derivative by the parameters from the derivative by table entries."""
        out = np.zeros(self.size)
        out[: self.layout.size] = histogram
        slopes = out[self.layout.size : self.layout.size + len(self.sizes)]
        _reduce(self.layout.starts, self.sizes, self.signs, self.means, slopes, out)
        return out

    def diagonal(self, histogram: Vector) -> Vector:
        """About the diagonal of the curvature by the parameters, from sums of row curvatures."""
        out = np.zeros(self.size)
        out[: self.layout.size] = histogram
        slopes = out[self.layout.size : self.layout.size + len(self.sizes)]
        _reduce(self.layout.starts, self.sizes, np.abs(self.signs), self.means**2, slopes, out)
        return out


@jit
def _expand(starts: Any, sizes: Any, signs: Any, means: Any, slopes: Any, out: Any) -> None:
    for j in range(starts.shape[0]):
        start, missing = starts[j], starts[j] + sizes[j] - 1
        slope = slopes[j]
        if signs[j] != 0:
            slope *= signs[j]
            level = 0.0
            for c in range(start, missing):
                level += signs[j] * out[c]
                out[c] = level
        for c in range(start, missing + 1):
            out[c] += slope * means[c]


@jit
def _reduce(starts: Any, sizes: Any, signs: Any, means: Any, slopes: Any, out: Any) -> None:
    for j in range(starts.shape[0]):
        start, missing = starts[j], starts[j] + sizes[j] - 1
        total = 0.0
        for c in range(start, missing + 1):
            total += means[c] * out[c]
        slopes[j] = total if signs[j] == 0 else signs[j] * total
        if signs[j] != 0:
            level = 0.0
            for c in range(missing - 1, start - 1, -1):
                level += out[c]
                out[c] = signs[j] * level


def standardised_bin_centres(bins: Bins, counts: Vector) -> Vector:
    """m: place of every bin on its column's scale, centred and of unit variance over the rows.

    A bin stands in the middle of its cuts, an outer one as far beyond its cut as its neighbour
    before it. ``counts`` are the rows of every cell.
    """
    out = np.zeros(len(counts))
    start = 0
    for j, size in enumerate(bins.n_cells):
        inner = slice(start, start + size - 1)
        start += size
        cuts, weight = np.array(bins.cuts[j]), counts[inner]
        if j in bins.unordered or len(cuts) == 0 or weight.sum() == 0.0:
            continue
        own = np.array([-1.0, 1.0])  # of a single cut, whatever its size
        if len(cuts) > 1:
            widths = np.diff(cuts)
            first, last = cuts[0] - widths[0] / 2, cuts[-1] + widths[-1] / 2
            own = np.concatenate([[first], (cuts[1:] + cuts[:-1]) / 2, [last]])
            own = own / np.abs(own).max()
        own = own - dot(weight, own) / weight.sum()
        spread = np.sqrt(dot(weight, own * own) / weight.sum())
        if spread > 0.0 and np.isfinite(spread):
            out[inner] = own / spread
    return out


def purify(space: TableSpace, tables: Vector, counts: Vector) -> Vector:
    """The same function with centred curves and pure grids.

    The part of a grid that is a curve of one of its columns moves into that column's table, until
    the weighted mean of every row and every column of the grid is 0; then the weighted mean of
    every curve is taken away, which changes all scores alike. Cells of missing and unknown values
    that no row fell into become 0: what was never seen says nothing. ``counts`` are the rows of
    every cell.
    """
    out = tables.copy()
    layout = space.layout
    for g, (rows, columns) in enumerate(space.grid_sides.tolist()):
        start = layout.grid_starts[g]
        span = slice(start, start + rows * columns)
        grid, weight = out[span].reshape(rows, columns), counts[span].reshape(rows, columns)
        across, down = np.zeros(rows), np.zeros(columns)
        _pure(grid, weight, across, down)
        for side, (j, added) in enumerate(((layout.firsts[g], across), (layout.seconds[g], down))):
            own = layout.offsets[2 * g + side, : space.sizes[j]].astype(np.int64)
            place = own // columns if side == 0 else own
            out[layout.starts[j] : layout.starts[j] + space.sizes[j]] += added[place]
        grid[-1] = np.where(weight[-1] > 0.0, grid[-1], 0.0)
        grid[:, -1] = np.where(weight[:, -1] > 0.0, grid[:, -1], 0.0)
    for j in np.flatnonzero(space.sizes):
        span = slice(layout.starts[j], layout.starts[j] + space.sizes[j])
        weight = counts[span]
        if weight.sum() > 0.0:
            out[span] -= dot(weight, out[span]) / weight.sum()
        seldom = 1 if space.ordered[j] else 2
        out[span][-seldom:] = np.where(weight[-seldom:] > 0.0, out[span][-seldom:], 0.0)
    return out


@jit
def _pure(grid: Any, weight: Any, across: Any, down: Any) -> None:
    """Take weighted means of rows and columns out by turns, into ``across`` and ``down``."""
    rows, columns = grid.shape
    for _ in range(1000):
        moved, largest = 0.0, 0.0
        for a in range(rows):
            total, mass = 0.0, 0.0
            for b in range(columns):
                total += weight[a, b] * grid[a, b]
                mass += weight[a, b]
                largest = max(largest, abs(grid[a, b]))
            if mass > 0.0:
                for b in range(columns):
                    grid[a, b] -= total / mass
                across[a] += total / mass
                moved = max(moved, abs(total / mass))
        for b in range(columns):
            total, mass = 0.0, 0.0
            for a in range(rows):
                total += weight[a, b] * grid[a, b]
                mass += weight[a, b]
            if mass > 0.0:
                for a in range(rows):
                    grid[a, b] -= total / mass
                down[b] += total / mass
                moved = max(moved, abs(total / mass))
        if moved <= 1e-12 * largest:
            return


class TablePenalty:
    """theta' K theta / 2 for one choice of strengths."""

    forcing = 0.25
    ahead = 0.5

    def __init__(
        self, space: TableSpace, strengths: PenaltyStrengths, threads: int | None = None
    ) -> None:
        self.space = space
        self.strengths = strengths
        self.threads = threads
        curve = space.n_curve_cells
        self.diagonal = np.empty(space.size)
        self.diagonal[:curve] = strengths.ridge * strengths.smooth
        self.diagonal[curve : space.layout.size] = strengths.ridge * strengths.pair_smooth
        self.diagonal[space.layout.size :] = strengths.anchor
        self.links = np.zeros(curve)
        for j in np.flatnonzero(space.sizes):
            start, size = space.layout.starts[j], space.sizes[j]
            # A ramp over all bins costs the same whatever their number.
            weight = strengths.smooth * max(size - 2, 1)
            if space.signs[j] != 0:
                self.diagonal[start : start + size - 1] = weight
            elif space.ordered[j]:
                self.links[start : start + size - 2] = weight
        self._bare: _Factor | None = None
        self.bounded = space.bounded

    def times(self, theta: Vector) -> Vector:
        """K theta."""
        out = self.diagonal * theta
        _add_links(self.links, theta, out)
        space = self.space
        _add_grid_links(
            space.layout.grid_starts,
            space.grid_sides,
            space.grid_ordered,
            self.strengths.pair_smooth,
            theta,
            out,
        )
        return out

    def scale(self) -> Vector:
        """About the diagonal of K."""
        out = self.diagonal.copy()
        out[: len(self.links)] += 2.0 * self.links
        out[len(self.links) : self.space.layout.size] += 4.0 * self.strengths.pair_smooth
        return out

    def value(self, theta: Vector) -> float:
        """theta' K theta / 2."""
        return 0.5 * dot(theta, self.times(theta))

    def factor(self, diagonal: Vector | None = None) -> _Factor:
        """Solves (K + diag) x = b."""
        if diagonal is not None:
            return _Factor(self, self.diagonal + diagonal)
        if self._bare is None:
            self._bare = _Factor(self, self.diagonal)
        return self._bare

    def gap(self, theta: Vector, gradient: Vector) -> float:
        """Largest possible J(theta) - J*: -min over v of g'v + v'Kv/2 with theta + v allowed."""
        held = self.bounded
        free = np.where(held, 0.0, gradient)
        gap = 0.5 * dot(free, self.factor().solve(free))
        if held.any():
            g, k = gradient[held], self.diagonal[held]
            move = np.maximum(0.0, theta[held] - g / k) - theta[held]
            gap -= float((g * move + 0.5 * k * move * move).sum())
        return float(max(gap, 0.0))


def least_penalty_parameters(
    penalty: TablePenalty, tables: Vector, linear: Vector, counts: Vector
) -> Vector:
    """Of the parameters that stand for tables, those with the least penalty.

    The optimum has these. Scores within a query stay as they are when lines move between curves
    and slopes, curves between a column and its grids, a column by a constant, or a cell that no row
    fell into. ``linear`` are weights of linear columns, the first ones; ``counts`` are the rows of
    every cell.
    """
    space = penalty.space
    theta = np.zeros(space.size)
    theta[: space.layout.size] = tables
    theta[space.size - space.n_linear :][: len(linear)] = linear
    for j in np.flatnonzero(space.signs):
        _rise(penalty, int(j), theta)
    cell, move, factor = _free_moves(space, counts)
    n_moves = int(move.max(initial=-1)) + 1

    def slope(theta: Any) -> Any:
        return np.bincount(move, factor * penalty.times(theta)[cell], minlength=n_moves)

    scale = np.bincount(move, factor**2 * penalty.scale()[cell], minlength=n_moves)
    residual = -slope(theta)
    search = residual / scale
    squared = dot(residual, search)
    enough = _LIGHT * _LIGHT * squared
    for _ in range(_LIGHT_STEPS):
        if squared <= enough:
            break
        direction = np.bincount(cell, factor * search[move], minlength=space.size)
        product = slope(direction)
        step = squared / dot(search, product)
        theta += step * direction
        residual -= step * product
        before, squared = squared, dot(residual, residual / scale)
        search = residual / scale + squared / before * search
    return theta


#: What is left of the slope of the penalty along free moves, and steps to get there at most.
_LIGHT, _LIGHT_STEPS = 1e-6, 1000


def _rise(penalty: TablePenalty, j: int, theta: Vector) -> None:
    """Steps and the slope of a monotone curve, from its entries; its first step is 0."""
    space = penalty.space
    start, missing = space.layout.starts[j], space.layout.starts[j] + space.sizes[j] - 1
    curve = space.signs[j] * theta[start:missing]
    rises = np.maximum(np.diff(curve), 0.0)
    along = np.diff(space.means[start:missing])
    step, slope = penalty.diagonal[start], penalty.diagonal[space.layout.size + j]
    most = np.divide(rises, along, out=np.full(len(along), np.inf), where=along > 0.0)
    best = step * dot(rises, along) / (step * dot(along, along) + slope)
    line = min(best, float(most.min(initial=np.inf)))
    theta[start] = 0.0
    theta[start + 1 : missing] = rises - line * along
    theta[missing] += space.signs[j] * (line * space.means[start] - curve[0])
    theta[space.layout.size + j] = line


def _free_moves(space: TableSpace, counts: Vector) -> tuple[Any, Any, Vector]:
    """Changes of parameters that leave rankings as they are: cell, number of the move, factor."""
    layout, found = space.layout, []
    for j in np.flatnonzero((space.sizes > 0) & (space.signs == 0)):
        cells = np.arange(layout.starts[j], layout.starts[j] + space.sizes[j])
        found.append((cells, np.ones(len(cells))))
        if space.means[cells].any():
            line = np.append(cells, layout.size + j)
            found.append((line, np.append(-space.means[cells], 1.0)))
    for g, (rows, columns) in enumerate(space.grid_sides.tolist()):
        grid = layout.grid_starts[g] + np.arange(rows * columns).reshape(rows, columns)
        for side, j in enumerate((layout.firsts[g], layout.seconds[g])):
            own = layout.offsets[2 * g + side, : space.sizes[j]].astype(np.int64)
            place = own // columns if side == 0 else own
            for at, inside in enumerate(grid if side == 0 else grid.T):
                curve = layout.starts[j] + np.flatnonzero(place == at)
                factors = np.repeat([1.0, -1.0], [len(inside), len(curve)])
                found.append((np.concatenate([inside, curve]), factors))
    unseen = np.flatnonzero((counts == 0.0) & ~space.bounded[: layout.size])
    sizes = [len(cells) for cells, _ in found] + [1] * len(unseen)
    cell = np.concatenate([*(cells for cells, _ in found), unseen])
    factor = np.concatenate([*(factors for _, factors in found), np.ones(len(unseen))])
    return cell, np.repeat(np.arange(len(sizes)), sizes), factor


#: Parts into which the grids are cut for threads.
_GRID_SHARDS = 4


class _Factor:
    """Factors of K + diagonal: a tridiagonal one for all curves, a banded one for each grid."""

    def __init__(self, penalty: TablePenalty, diagonal: Vector) -> None:
        space = penalty.space
        self._space = space
        self._curve = space.n_curve_cells
        self._diagonal = diagonal
        self._pivots, self._ratios = _factor_links(penalty.links, diagonal)
        sides = space.grid_sides
        self._band = int(sides[:, 1].max()) if len(sides) else 0
        self._rows = np.zeros((space.layout.size - self._curve, self._band + 1))
        self._starts = space.layout.grid_starts - self._curve
        self._threads = penalty.threads
        weight, own = penalty.strengths.pair_smooth, diagonal[self._curve : space.layout.size]
        self._over_grids(
            lambda a, b: _factor_grids(
                self._starts[a:b], sides[a:b], space.grid_ordered[a:b], weight, own, self._rows
            )
        )

    def _over_grids(self, work: Callable[[int, int], None]) -> None:
        """Every grid is a matrix of its own."""
        cuts = np.linspace(0, len(self._starts), _GRID_SHARDS + 1).astype(np.int64)
        map_shards(work, np.unique(cuts), self._threads)

    def solve(self, b: Vector) -> Vector:
        """(K + diag)^-1 b."""
        out = b / self._diagonal
        out[: self._curve] = b[: self._curve]
        _solve_links(self._pivots, self._ratios, out)
        space = self._space
        grids, sides = out[self._curve : space.layout.size], space.grid_sides
        grids[:] = b[self._curve : space.layout.size]
        self._over_grids(
            lambda a, b: _solve_grids(self._starts[a:b], sides[a:b], self._rows, grids)
        )
        return out


@jit
def _add_links(links: Any, theta: Any, out: Any) -> None:
    for c in range(links.shape[0] - 1):
        step = links[c] * (theta[c] - theta[c + 1])
        out[c] += step
        out[c + 1] -= step


@jit
def _factor_links(links: Any, diagonal: Any) -> Any:
    """LDL' of a tridiagonal matrix: pivots, and ratios of each row to the next."""
    n = links.shape[0]
    pivots, ratios = np.empty(n), np.zeros(n)
    before = 0.0
    carried = 0.0
    for c in range(n):
        link = links[c]
        pivots[c] = diagonal[c] + before + link - carried
        ratios[c] = -link / pivots[c]
        carried = ratios[c] * -link
        before = link
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
def _linked(place: int, size: int, ordered: bool) -> bool:
    """Whether a place has a neighbour above it; the last place, of missing values, has none."""
    return ordered and place + 2 < size


@jit
def _add_grid_links(
    starts: Any, sides: Any, ordered: Any, weight: float, theta: Any, out: Any
) -> None:
    for g in range(starts.shape[0]):
        rows, columns = sides[g, 0], sides[g, 1]
        for a in range(rows):
            for b in range(columns):
                c = starts[g] + a * columns + b
                if _linked(a, rows, ordered[g, 0]):
                    step = weight * (theta[c] - theta[c + columns])
                    out[c] += step
                    out[c + columns] -= step
                if _linked(b, columns, ordered[g, 1]):
                    step = weight * (theta[c] - theta[c + 1])
                    out[c] += step
                    out[c + 1] -= step


@jit
def _factor_grids(
    starts: Any, sides: Any, ordered: Any, weight: float, diagonal: Any, band: Any
) -> None:
    """Banded Cholesky factors; ``band[c, k]`` is the factor's entry in row c, column c - k."""
    for g in range(starts.shape[0]):
        rows, columns = sides[g, 0], sides[g, 1]
        start = starts[g]
        for a in range(rows):
            for b in range(columns):
                c = start + a * columns + b
                band[c, 0] += diagonal[c]
                if _linked(a, rows, ordered[g, 0]):
                    band[c, 0] += weight
                    band[c + columns, 0] += weight
                    band[c + columns, columns] -= weight
                if _linked(b, columns, ordered[g, 1]):
                    band[c, 0] += weight
                    band[c + 1, 0] += weight
                    band[c + 1, 1] -= weight
        for c in range(start, start + rows * columns):
            for k in range(min(columns, c - start), -1, -1):
                total = band[c, k]
                other = c - k
                for l in range(k + 1, min(columns, c - start) + 1):
                    total -= band[c, l] * band[other, l - k]
                band[c, k] = np.sqrt(total) if k == 0 else total / band[other, 0]


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
    """R as a function of parameters: tables, scores, and the risk's own answers."""

    def __init__(
        self, space: TableSpace, products: BinnedProducts, risk: Any, linear: Products | None = None
    ) -> None:
        self.space = space
        self.products: Any = products
        self.risk = risk
        self.n_features = space.size
        self.at_zero = 1.0 if risk is None else risk.evaluate(np.zeros(products.rows.n_rows))[0]
        self.linear = linear

    def scores(self, theta: Vector) -> Vector:
        """Scores of all rows."""
        scores = self.products.scores(self.space.tables(theta))
        if self.linear is not None:  # held-out rows lack the columns of positions, the last ones
            weights = theta[self.space.size - self.space.n_linear :]
            scores += self.linear.scores(weights[: self.linear.n_features])
        return scores

    def gradient(self, slopes: Vector) -> Vector:
        """dR/dtheta from dR/dscores."""
        out = self.space.adjoint(self.products.transpose_times(slopes))
        if self.linear is not None:
            out[self.space.size - self.space.n_linear :] = self.linear.transpose_times(slopes)
        return out

    def curvature_scale(self, curvature: Any) -> Vector:
        """About the diagonal of d2R/dtheta2."""
        degrees = curvature.diagonal()
        out = self.space.diagonal(self.products.transpose_times(degrees))
        out[self.space.size - self.space.n_linear :] = degrees.sum()  # columns of unit deviation
        return out
