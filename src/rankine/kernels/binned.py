"""Binned rows: one byte per column, and tables with one entry per cell instead of weights.

With a table for every column, and grids for pairs of columns::

    scores           s_i = sum_j table[start_j + c_ij] + sum_(a,b) grid_ab[r_a(c_ia), r_b(c_ib)]
    transpose times  h[cell] = sum of v_i over the rows that fall into the cell: a histogram

Codes are stored in blocks of ``BLOCK`` rows, column after column within a block, so that a block's
scores stay in the first-level cache while its columns are read. The cell of a pair is computed from
the codes of its columns, so that pairs need no memory. Shards are ranges of blocks that depend on
the data alone, and their sums are added in order: any number of threads computes the same bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.shards import N_SHARDS, map_shards, tree_sum

#: Rows per block. With a power of two the columns of a block would compete for the same cache sets.
BLOCK = 2112


class BinnedRows(NamedTuple):
    """Codes of m rows; ``codes[b, j, i]`` is the cell of column j in row ``b * BLOCK + i``."""

    codes: NDArray[np.uint8]
    n_rows: int


class TableLayout(NamedTuple):
    """Positions of all tables in one vector."""

    #: First entry of each column's table, or -1 for a column without cells.
    starts: NDArray[np.int64]
    #: The two columns of each grid, and its first entry.
    firsts: NDArray[np.int64]
    seconds: NDArray[np.int64]
    grid_starts: NDArray[np.int64]
    #: The entry of cells (c, d) in grid g is ``offsets[2 g, c] + offsets[2 g + 1, d]``.
    offsets: NDArray[np.uint16]
    #: Length of the vector.
    size: int


@jit
def block_scores(codes: Any, n: int, layout: Any, table: Any, out: Any) -> None:
    """Add the table entries of the n rows of a block to ``out``, in the order of the tables.

    Exported programs add in the same order and compute the same bits.
    """
    # Two tables at a time halve the reads and writes of ``out``.
    starts = layout.starts
    previous = -1
    for j in range(starts.shape[0]):
        if starts[j] < 0:
            continue
        if previous < 0:
            previous = j
            continue
        first, second = table[starts[previous] :], table[starts[j] :]
        for i in range(n):
            out[i] = out[i] + first[codes[previous, i]] + second[codes[j, i]]
        previous = -1
    if previous >= 0:
        first = table[starts[previous] :]
        for i in range(n):
            out[i] += first[codes[previous, i]]
    for g in range(layout.firsts.shape[0]):
        a, b = codes[layout.firsts[g]], codes[layout.seconds[g]]
        offset_a, offset_b = layout.offsets[2 * g], layout.offsets[2 * g + 1]
        grid = table[layout.grid_starts[g] :]
        for i in range(n):
            out[i] += grid[np.uint32(offset_a[a[i]]) + np.uint32(offset_b[b[i]])]


@jit
def _scores(
    codes: Any, n_rows: int, first: int, last: int, layout: Any, table: Any, o: Any
) -> None:
    for k in range(first, last):
        start = k * codes.shape[2]
        stop = min(start + codes.shape[2], n_rows)
        out = o[start:stop]
        out[:] = 0.0
        block_scores(codes[k], stop - start, layout, table, out)


@jit
def _block_histogram(codes: Any, n: int, layout: Any, v: Any, out: Any) -> None:
    """Add ``v`` of the n rows of a block to the cells that the rows are in."""
    # Two tables at a time: additions to one cell have to wait for each other.
    starts = layout.starts
    previous = -1
    for j in range(starts.shape[0]):
        if starts[j] < 0:
            continue
        if previous < 0:
            previous = j
            continue
        first, second = out[starts[previous] :], out[starts[j] :]
        for i in range(n):
            x = v[i]
            first[codes[previous, i]] += x
            second[codes[j, i]] += x
        previous = -1
    if previous >= 0:
        first = out[starts[previous] :]
        for i in range(n):
            first[codes[previous, i]] += v[i]
    for g in range(layout.firsts.shape[0]):
        a, b = codes[layout.firsts[g]], codes[layout.seconds[g]]
        offset_a, offset_b = layout.offsets[2 * g], layout.offsets[2 * g + 1]
        grid = out[layout.grid_starts[g] :]
        for i in range(n):
            grid[np.uint32(offset_a[a[i]]) + np.uint32(offset_b[b[i]])] += v[i]


@jit
def _histogram(
    codes: Any, n_rows: int, first: int, last: int, layout: Any, v: Any, out: Any
) -> None:
    for k in range(first, last):
        start = k * codes.shape[2]
        stop = min(start + codes.shape[2], n_rows)
        _block_histogram(codes[k], stop - start, layout, v[start:stop], out)


def shard_cuts(n_blocks: int) -> list[int]:
    """Cut blocks into at most ``N_SHARDS`` ranges."""
    shards = max(1, min(N_SHARDS, n_blocks))
    return [n_blocks * k // shards for k in range(shards + 1)]


class BinnedProducts:
    """The products of binned rows with tables; any number of threads computes the same bits."""

    def __init__(self, rows: BinnedRows, layout: TableLayout, threads: int | None = None) -> None:
        self.rows = rows
        self.layout = layout
        self.threads = threads
        self.cuts = shard_cuts(rows.codes.shape[0])

    def scores(self, table: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum of table entries of each row."""
        out = np.empty(self.rows.n_rows)
        codes, n_rows = self.rows
        map_shards(
            lambda a, b: _scores(codes, n_rows, a, b, self.layout, table, out),
            self.cuts,
            self.threads,
        )
        return out

    def transpose_times(self, v: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum of ``v`` over the rows of each cell."""
        codes, n_rows = self.rows

        def shard(first: int, last: int) -> NDArray[np.float64]:
            out = np.zeros(self.layout.size)
            _histogram(codes, n_rows, first, last, self.layout, v, out)
            return out

        return tree_sum(map_shards(shard, self.cuts, self.threads))


@jit
def _pair_histogram(
    codes: Any, n_rows: int, a: int, b: int, offset_a: Any, offset_b: Any, values: Any, out: Any
) -> None:
    """Add two values per row to the cells of one grid."""
    for k in range(codes.shape[0]):
        start = k * codes.shape[2]
        n = min(start + codes.shape[2], n_rows) - start
        first, second, block = codes[k, a], codes[k, b], values[start : start + n]
        for i in range(n):
            cell = np.uint32(offset_a[first[i]]) + np.uint32(offset_b[second[i]])
            out[cell, 0] += block[i, 0]
            out[cell, 1] += block[i, 1]


@jit
def pair_histograms(
    codes: Any, n_rows: int, pairs: Any, places: Any, side: int, values: Any, out: Any
) -> None:
    """Sum two values per row over the cells of ``side x side`` grids, for several pairs of columns.

    ``places[j, c]`` is the row or column of the grid that cell c of column j belongs to. The two
    sums are added to ``out[p, r, s]``.
    """
    step = np.empty(places.shape[1], dtype=np.uint16)
    for p in range(pairs.shape[0]):
        a, b = pairs[p, 0], pairs[p, 1]
        for c in range(step.shape[0]):
            step[c] = np.uint16(places[a, c] * side)
        flat = out[p].reshape(side * side, 2)
        _pair_histogram(codes, n_rows, a, b, step, places[b], values, flat)


@jit
def copy_rows(codes: Any, n_rows: int, out: Any, offset: int) -> None:
    """Copy n rows to another store, from its row ``offset`` on."""
    block, length = codes.shape[2], out.shape[2]
    for i in range(n_rows):
        source, target = codes[i // block], out[(offset + i) // length]
        a, b = i % block, (offset + i) % length
        for j in range(codes.shape[1]):
            target[j, b] = source[j, a]


@jit
def _take(codes: Any, rows: Any, out: Any) -> None:
    block, length = codes.shape[2], out.shape[2]
    for i in range(rows.shape[0]):
        source, target = codes[rows[i] // block], out[i // length]
        a, b = rows[i] % block, i % length
        for j in range(codes.shape[1]):
            target[j, b] = source[j, a]


def take_rows(binned: BinnedRows, rows: NDArray[np.int64]) -> BinnedRows:
    """Return the rows of these numbers, in this order."""
    n_columns = binned.codes.shape[1]
    length = min(max(len(rows), 1), BLOCK)
    out = np.zeros((max(1, -(-len(rows) // BLOCK)), n_columns, length), dtype=np.uint8)
    _take(binned.codes, rows, out)
    return BinnedRows(out, len(rows))
