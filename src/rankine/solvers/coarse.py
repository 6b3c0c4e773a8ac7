"""A preconditioner for tables that sees how their effects overlap.

The factors of ``solvers.tables`` solve B = K + diag(D), which holds every table on its own. Columns
of real data are correlated, so that the curvature A of the objective is far from B along a few
smooth directions of each table. Let W hold such directions, W'BW = I. Then::

    M^-1 = B^-1 + W ((W'AW)^-1 - I) W'

equals A^-1 on these directions and B^-1 on the rest. A direction is the response B^-1 D 1_k of a
table to a group k of its cells, of about the same mass; a column has its slope as well.

W'AW is computed from a sample of lists, with about the curvature of pairs: a list with degrees
d_i (the diagonal of the curvature by row) counts as d_i d_j / sum d for its rows i and j.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.binned import BinnedProducts
from rankine.kernels.compile import jit
from rankine.kernels.covariance import cholesky, solve_columns
from rankine.kernels.rows import add_outer
from rankine.kernels.shards import cut_by_weight, map_shards, tree_sum

if TYPE_CHECKING:
    from rankine.solvers.tables import TableProblem, TableSpace

Vector = NDArray[np.float64]

#: Directions of each table, and of all tables together at most.
N_DIRECTIONS, MAX_DIRECTIONS = 5, 1000
#: Rows of the sample of lists at most, and as a share of all rows.
SAMPLE_ROWS, SAMPLE_SHARE = 10_000, 0.05
#: Rows from which the sample costs less than the products that it saves in one system.
MIN_ROWS = 300_000
#: Directions with less than this share of the largest one's mass are left out.
RANK_TOL = 1e-5


class CoarseFactor:
    """Factors of M, see the module; ``solve`` returns M^-1 b.

    ``blocks`` has ``solve(b)`` for B; ``degrees`` is the diagonal of the curvature by row, and
    ``scale`` is D.
    """

    def __init__(self, problem: TableProblem, blocks: Any, degrees: Vector, scale: Vector) -> None:
        space = problem.space
        self._blocks = blocks
        self._block_of, n_blocks = _number_blocks(space)
        size = int(np.clip(MAX_DIRECTIONS // max(n_blocks, 1), 3, N_DIRECTIONS))
        self._shape = (n_blocks, size)
        groups = _group_parameters(space, scale, size)
        # B v = D 1_k, so that W'BW needs no product with B.
        images = np.where(groups[:, None] == np.arange(size), scale[:, None], 0.0)
        directions = np.column_stack(
            [blocks.solve(np.ascontiguousarray(image)) for image in images.T]
        )
        masses, vectors = np.linalg.eigh(self._inner(directions, images))
        largest = np.maximum(masses[:, -1:], np.finfo(np.float64).tiny)
        factors = np.where(masses > RANK_TOL * largest, masses, np.inf) ** -0.5
        basis = (vectors * factors[:, None, :])[np.maximum(self._block_of, 0)]
        self._directions = np.einsum("pi,pij->pj", directions, basis)
        coarse = _gram(problem, degrees, self._directions)
        by_block = coarse.reshape(n_blocks, size, n_blocks, size)
        # W'BW = I, less what D stands for.
        penalised = np.eye(size) - self._inner(self._directions, self._directions * scale[:, None])
        each = np.arange(n_blocks)
        by_block[each, :, each, :] += penalised
        self._chol = cholesky(coarse)

    def _inner(self, first: Vector, second: Vector) -> Vector:
        """Return the products of the columns of two matrices, block by block."""
        out = np.zeros((*self._shape, self._shape[1]))
        _add_inner(self._block_of, first, second, out)
        return out

    def solve(self, b: Vector) -> Vector:
        """Return M^-1 b."""
        out: Vector = self._blocks.solve(b)
        projected = np.zeros(self._shape)
        _project(self._block_of, self._directions, b, projected)
        column = projected.reshape(-1, 1).copy()
        solve_columns(self._chol, column)
        _expand(self._block_of, self._directions, column.reshape(self._shape) - projected, out)
        return out


def _number_blocks(space: TableSpace) -> tuple[NDArray[np.int64], int]:
    """Return the table of each parameter (-1: none), and the number of tables."""
    out = np.full(space.size, -1, dtype=np.int64)
    n_columns = len(space.sizes)
    out[: space.n_curve_cells] = np.repeat(np.arange(n_columns), space.sizes)
    cells = space.grid_sides.prod(axis=1)
    grids = slice(space.n_curve_cells, space.layout.size)
    out[grids] = np.repeat(n_columns + np.arange(len(cells)), cells)
    out[space.layout.size : space.layout.size + n_columns] = np.arange(n_columns)
    return out, n_columns + len(cells)


def _group_parameters(space: TableSpace, mass: Vector, size: int) -> NDArray[np.int64]:
    """Return the group of each parameter within its table (-1: none); slopes are the last."""
    out = np.full(space.size, -1, dtype=np.int64)
    start = 0
    for n_cells in space.sizes.tolist():
        out[start : start + n_cells] = _cut_by_mass(mass[start : start + n_cells], size - 1)
        start += n_cells
    side = int(np.sqrt(size))
    for rows, columns in space.grid_sides.tolist():
        cells = slice(start, start + rows * columns)
        grid = mass[cells].reshape(rows, columns)
        across, along = _cut_by_mass(grid.sum(axis=1), side), _cut_by_mass(grid.sum(axis=0), side)
        out[cells] = (across[:, None] * side + along).ravel()
        start += rows * columns
    out[start : start + len(space.sizes)] = size - 1
    return out


def _cut_by_mass(mass: Vector, n_groups: int) -> NDArray[np.int64]:
    """Return the group of each of neighbouring cells, so that groups have about the same mass."""
    middles = np.cumsum(mass) - 0.5 * mass
    total = float(mass.sum())
    if total <= 0.0:
        return np.zeros(len(mass), dtype=np.int64)
    return np.minimum((middles / total * n_groups).astype(np.int64), n_groups - 1)


def _gram(problem: TableProblem, degrees: Vector, directions: Vector) -> Vector:
    """Return W'R''W, the curvature of the risk along the directions, from a sample of lists.

    Entries above the diagonal have no meaning.
    """
    space, queries = problem.space, problem.risk.queries
    products: BinnedProducts = problem.products
    features = np.ascontiguousarray(
        np.column_stack([space.tables(np.ascontiguousarray(v)) for v in directions.T])
    )
    size = directions.shape[1] * (len(space.sizes) + len(space.grid_sides))
    masses = np.add.reduceat(degrees[queries.rows], queries.starts[:-1])
    n_rows, n = int(queries.starts[-1]), queries.n_queries
    target = min(SAMPLE_ROWS, max(SAMPLE_SHARE * n_rows, 8 * size))
    stride = int(np.clip(n_rows / target, 1, n))
    chosen = np.arange(stride // 2, n, stride)
    factor = float(masses.sum()) / max(float(masses[chosen].sum()), np.finfo(np.float64).tiny)
    ends = np.concatenate([[0], np.cumsum(np.diff(queries.starts)[chosen])])

    def add_shard(first: int, last: int) -> Vector:
        out = np.zeros((size, size))
        _add_gram(
            products.rows.codes,
            products.layout,
            (queries.rows, queries.starts),
            chosen[first:last],
            degrees,
            features,
            out,
        )
        return out

    total = tree_sum(map_shards(add_shard, cut_by_weight(ends, 4), products.threads))
    return factor * total


@jit
def _add_gram(
    codes: Any, layout: Any, queries: Any, chosen: Any, degrees: Any, features: Any, out: Any
) -> None:
    query_rows, starts = queries
    length, width = codes.shape[2], features.shape[1]
    block_rows = 64
    Z, weighted = np.empty((block_rows, out.shape[0])), np.empty((block_rows, out.shape[0]))
    for q in chosen:
        mass, mean = 0.0, np.zeros(out.shape[0])
        for start in range(starts[q], starts[q + 1], block_rows):
            n = min(block_rows, starts[q + 1] - start)
            Z[:n] = 0.0
            for i in range(n):
                row = query_rows[start + i]
                cells = codes[row // length, :, row % length]
                for j in range(layout.starts.shape[0]):
                    if layout.starts[j] >= 0:
                        Z[i, j * width : (j + 1) * width] = features[layout.starts[j] + cells[j]]
                for g in range(layout.firsts.shape[0]):
                    cell = np.int64(layout.offsets[2 * g, cells[layout.firsts[g]]])
                    cell += np.int64(layout.offsets[2 * g + 1, cells[layout.seconds[g]]])
                    at = (layout.starts.shape[0] + g) * width
                    Z[i, at : at + width] = features[layout.grid_starts[g] + cell]
                degree = degrees[row]
                mass += degree
                for k in range(out.shape[0]):
                    weighted[i, k] = degree * Z[i, k]
                    mean[k] += weighted[i, k]
            add_outer(Z[:n], weighted[:n], out)
        if mass > 0.0:
            Z[0] = mean / -mass
            weighted[0] = mean
            add_outer(Z[:1], weighted[:1], out)


@jit
def _add_inner(block_of: Any, first: Any, second: Any, out: Any) -> None:
    for p in range(block_of.shape[0]):
        if block_of[p] < 0:
            continue
        block = out[block_of[p]]
        for i in range(first.shape[1]):
            for j in range(first.shape[1]):
                block[i, j] += first[p, i] * second[p, j]


@jit
def _project(block_of: Any, directions: Any, b: Any, out: Any) -> None:
    for p in range(block_of.shape[0]):
        if block_of[p] >= 0:
            for k in range(directions.shape[1]):
                out[block_of[p], k] += directions[p, k] * b[p]


@jit
def _expand(block_of: Any, directions: Any, values: Any, out: Any) -> None:
    for p in range(block_of.shape[0]):
        if block_of[p] >= 0:
            for k in range(directions.shape[1]):
                out[p] += directions[p, k] * values[block_of[p], k]
