"""Products of binned rows and of curvatures with several vectors at once.

A row's cells are looked up once for all vectors, whose entries are next to each other in memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.binned import BinnedProducts
from rankine.kernels.compile import REDUCE, jit
from rankine.kernels.shards import cut_by_weight, map_shards, tree_sum


@jit
def _scores(
    codes: Any, n_rows: int, first: int, last: int, layout: Any, tables: Any, out: Any
) -> None:
    length = codes.shape[2]
    for i in range(first * length, min(last * length, n_rows)):
        cells = codes[i // length, :, i % length]
        scores = out[i]
        scores[:] = 0.0
        for j in range(layout.starts.shape[0]):
            if layout.starts[j] >= 0:
                _add(tables[layout.starts[j] + cells[j]], scores)
        for g in range(layout.firsts.shape[0]):
            cell = np.int64(layout.offsets[2 * g, cells[layout.firsts[g]]])
            cell += np.int64(layout.offsets[2 * g + 1, cells[layout.seconds[g]]])
            _add(tables[layout.grid_starts[g] + cell], scores)


@jit
def _histograms(
    codes: Any, n_rows: int, first: int, last: int, layout: Any, values: Any, out: Any
) -> None:
    length = codes.shape[2]
    for i in range(first * length, min(last * length, n_rows)):
        cells = codes[i // length, :, i % length]
        for j in range(layout.starts.shape[0]):
            if layout.starts[j] >= 0:
                _add(values[i], out[layout.starts[j] + cells[j]])
        for g in range(layout.firsts.shape[0]):
            cell = np.int64(layout.offsets[2 * g, cells[layout.firsts[g]]])
            cell += np.int64(layout.offsets[2 * g + 1, cells[layout.seconds[g]]])
            _add(values[i], out[layout.grid_starts[g] + cell])


@jit
def _add(values: Any, out: Any) -> None:
    for k in range(values.shape[0]):
        out[k] += values[k]


def table_scores(products: BinnedProducts, tables: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the scores of all rows by each of the columns of ``tables``."""
    codes, n_rows = products.rows
    out = np.empty((n_rows, tables.shape[1]))
    map_shards(
        lambda a, b: _scores(codes, n_rows, a, b, products.layout, tables, out),
        products.cuts,
        products.threads,
    )
    return out


def table_histograms(products: BinnedProducts, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sums of each of the columns of ``values`` over the rows of each cell."""
    codes, n_rows = products.rows

    def shard(first: int, last: int) -> NDArray[np.float64]:
        out = np.zeros((products.layout.size, values.shape[1]))
        _histograms(codes, n_rows, first, last, products.layout, values, out)
        return out

    return tree_sum(map_shards(shard, products.cuts, products.threads))


@jit(fastmath=REDUCE)
def _multiply(
    matrices: Any, offsets: Any, rows: Any, starts: Any, first: int, last: int, P: Any, out: Any
) -> None:
    for q in range(first, last):
        start, n = starts[q], starts[q + 1] - starts[q]
        for a in range(n):
            product = out[rows[start + a]]
            matrix = matrices[offsets[q] + a * n : offsets[q] + (a + 1) * n]
            # Four rows at a time: each entry of the sum is loaded and stored once for all of them.
            for b in range(0, n - n % 4, 4):
                s, t = P[rows[start + b]], P[rows[start + b + 1]]
                u, v = P[rows[start + b + 2]], P[rows[start + b + 3]]
                c, d, e, f = matrix[b], matrix[b + 1], matrix[b + 2], matrix[b + 3]
                for k in range(P.shape[1]):
                    product[k] += c * s[k] + d * t[k] + e * u[k] + f * v[k]
            for b in range(n - n % 4, n):
                row = P[rows[start + b]]
                for k in range(P.shape[1]):
                    product[k] += matrix[b] * row[k]


@jit
def _store_columns(
    column: int, product: Any, rows: Any, starts: Any, offsets: Any, out: Any
) -> None:
    """Store the entries of one column of the matrix of each query that has it."""
    for q in range(starts.shape[0] - 1):
        start, n = starts[q], starts[q + 1] - starts[q]
        if column < n:
            for a in range(n):
                out[offsets[q] + a * n + column] = product[rows[start + a]]


#: Entries of the matrices of all queries at most (512 MiB).
MAX_ENTRIES = 1 << 26


class BlockCurvature:
    """The matrix of each query, d2R/dp2, to be multiplied by several vectors at once.

    ``curvature`` has ``times(values)`` of one vector. It multiplies as many vectors as the longest
    query has rows, each of which is 1 at one row of every query. Queries whose matrices would take
    too much memory are multiplied by one vector after the other.
    """

    def __init__(self, curvature: Any, queries: Any, n_rows: int, threads: int | None) -> None:
        self._curvature, self._queries, self._threads = curvature, queries, threads
        sizes = np.diff(queries.starts)
        self._offsets = np.concatenate([[0], np.cumsum(sizes**2)])
        self._matrices: NDArray[np.float64] | None = None
        if self._offsets[-1] > MAX_ENTRIES:
            return
        self._matrices = np.zeros(self._offsets[-1])
        for column in range(int(sizes.max(initial=0))):
            unit = np.zeros(n_rows)
            unit[queries.rows[queries.starts[:-1][sizes > column] + column]] = 1.0
            product = curvature.times(unit)
            _store_columns(
                column, product, queries.rows, queries.starts, self._offsets, self._matrices
            )

    def times(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the products with the columns of ``values``."""
        if self._matrices is None:
            columns = [self._curvature.times(np.ascontiguousarray(v)) for v in values.T]
            return np.column_stack(columns)
        out, queries = np.zeros_like(values), self._queries
        matrices, offsets = self._matrices, self._offsets
        map_shards(
            lambda a, b: _multiply(
                matrices, offsets, queries.rows, queries.starts, a, b, values, out
            ),
            cut_by_weight(offsets),
            self._threads,
        )
        return out
