"""Column storage: the operations on a feature's column, for CSC and dense matrices.

Coordinate solvers read columns. ``csc_from_csr`` transposes compressed rows in O(non-zeros), with
the rows of every column in increasing order; the columns of a dense matrix are copied so that each
is contiguous. Indices are unsigned, values keep their type (float32 or float64).

A smooth loss that implements ``slope_and_curvature``, ``curvature_bounds`` and ``shift`` can be
minimised by ``rankine.solvers.coordinate_descent``. Their argument ``loss`` is a spec that also
holds the loss's state at the current weights (scores, sums), and ``scratch`` is its work space, one
per thread.

``column_variances`` computes the weighted variance of every column within queries::

    out_j = sum_q [ sum_i c_i x_ij^2 - (sum_i c_i x_ij)^2 / sum_i c_i ],

the diagonal of X^T C X if C has the same entry for all pairs of rows of a query, and close to it
otherwise. It is used as a diagonal preconditioner.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.dispatch import generic
from rankine.kernels.rows import CsrRows, DenseRows, Rows
from rankine.kernels.shards import cut_by_weight, map_shards, n_threads, tree_sum


class CscColumns(NamedTuple):
    """Compressed sparse columns; the rows of each column are strictly increasing."""

    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    values: NDArray[Any]


class DenseColumns(NamedTuple):
    """Columns of a dense matrix, one after the other in ``values``."""

    n_rows: int
    values: NDArray[Any]


Columns = CscColumns | DenseColumns


@generic
def column_start(columns: Columns, r: int) -> Any:
    """Return the position of the first stored value of column r in ``columns.values``."""


@generic
def column_stop(columns: Columns, r: int) -> Any:
    """Return the position after the last stored value of column r."""


@generic
def column_row(columns: Columns, r: int, p: int) -> Any:
    """Return the row of the value at position p, which belongs to column r."""


@column_start.implementation(CscColumns)
def _csc_start(columns: Any, r: Any) -> Any:
    return np.uint64(columns.indptr[r])


@column_stop.implementation(CscColumns)
def _csc_stop(columns: Any, r: Any) -> Any:
    return np.uint64(columns.indptr[r + 1])


@column_row.implementation(CscColumns)
def _csc_row(columns: Any, r: Any, p: Any) -> Any:
    return columns.indices[p]


@column_start.implementation(DenseColumns)
def _dense_start(columns: Any, r: Any) -> Any:
    return np.uint64(r) * np.uint64(columns.n_rows)


@column_stop.implementation(DenseColumns)
def _dense_stop(columns: Any, r: Any) -> Any:
    return (np.uint64(r) + np.uint64(1)) * np.uint64(columns.n_rows)


@column_row.implementation(DenseColumns)
def _dense_row(columns: Any, r: Any, p: Any) -> Any:
    return np.uint64(p) - np.uint64(r) * np.uint64(columns.n_rows)


def n_columns(columns: Columns) -> int:
    """Count the columns."""
    if isinstance(columns, CscColumns):
        return len(columns.indptr) - 1
    return len(columns.values) // max(columns.n_rows, 1)


def columns_of(rows: Rows, n_features: int, threads: int | None = None) -> Columns:
    """Copy rows into columns, in O(stored values)."""
    if isinstance(rows, DenseRows):
        return DenseColumns(rows.values.shape[0], np.ascontiguousarray(rows.values.T).ravel())
    return csc_from_csr(rows, n_features, threads)


def csc_from_csr(rows: CsrRows, n_features: int, threads: int | None = None) -> CscColumns:
    """Transpose compressed rows; the rows of every column are in increasing order.

    Each thread has a range of rows. It counts their values by column first, which determines where
    in each column its values begin.
    """
    n_rows = len(rows.indptr) - 1
    cuts = cut_by_weight(rows.indptr, n_threads(threads))
    counts = np.array(
        map_shards(lambda a, b: _count_by_column(rows, a, b, n_features), cuts, threads)
        or np.zeros((0, n_features), dtype=np.int64)
    )
    indptr = np.concatenate([[0], np.cumsum(counts.sum(axis=0))])
    first_positions = indptr[:-1] + counts.cumsum(axis=0) - counts
    positions_by_start = dict(zip(cuts.tolist(), first_positions, strict=False))
    indices = np.empty(len(rows.values), dtype=_row_type(n_rows))
    values = np.empty_like(rows.values)

    def copy(start: int, stop: int) -> None:
        _copy_to_columns(rows, start, stop, positions_by_start[start], indices, values)

    map_shards(copy, cuts, threads)
    return CscColumns(indptr, indices, values)


def _row_type(n_rows: int) -> type[np.unsignedinteger[Any]]:
    """Return the smaller of two types that can number all rows."""
    if n_rows <= 2**32:
        return np.uint32
    return np.uint64


@jit
def _count_by_column(rows: CsrRows, start: int, stop: int, n_features: int) -> Any:
    counts = np.zeros(n_features, dtype=np.int64)
    for p in range(np.uint64(rows.indptr[start]), np.uint64(rows.indptr[stop])):
        counts[rows.indices[p]] += 1
    return counts


@jit
def _copy_to_columns(
    rows: CsrRows, start: int, stop: int, positions: Any, indices: Any, values: Any
) -> None:
    """Copy rows ``start`` to ``stop - 1``; ``positions`` has the next position of each column."""
    for i in range(np.uint64(start), np.uint64(stop)):
        for p in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + np.uint64(1)])):
            r = rows.indices[p]
            position = np.uint64(positions[r])
            positions[r] += 1
            indices[position] = i
            values[position] = rows.values[p]


@jit
def add_column_products(columns: Columns, w: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Add X w to ``out``, reading only the columns whose weight is not zero."""
    for r in range(np.uint64(0), np.uint64(w.shape[0])):
        if w[r] != 0.0:
            for p in range(column_start(columns, r), column_stop(columns, r)):
                out[column_row(columns, r, p)] += w[r] * columns.values[p]


@generic
def slope_and_curvature(loss: Any, columns: Any, r: int, scratch: Any) -> Any:
    """Return the first and second derivative of the loss with respect to weight r."""


@generic
def curvature_bounds(loss: Any, columns: Any, r: int, scratch: Any) -> Any:
    """Return (R, beta, crude), which bound the loss phi as a function of weight r everywhere.

    phi'' <= beta <= crude, and |phi'''| <= R phi''. R = 0 means that the loss does not depend on
    the weight.
    """


@generic
def shift(loss: Any, columns: Any, r: int, step: float, scratch: Any) -> None:
    """Update the state of the loss after ``step`` was added to weight r.

    It is called right after ``slope_and_curvature`` of the same column, and may use what that left
    in ``scratch``.
    """


@generic
def zero_moments(rows: Rows, n_features: int) -> Any:
    """Create zero moments of n_features columns, in the memory layout that suits the storage."""


@zero_moments.implementation(DenseRows)
def _dense_zero_moments(_rows: Any, n_features: Any) -> Any:
    return np.zeros((2, n_features)).T


@zero_moments.implementation(CsrRows)
def _csr_zero_moments(_rows: Any, n_features: Any) -> Any:
    return np.zeros((n_features, 2))


@generic
def add_moments(rows: Rows, members: Any, c: Any, moments: Any) -> None:
    """Add c_i x_i to moments[:, 0] and c_i x_i^2 to moments[:, 1] for the rows ``members``."""


@generic
def fold_means(rows: Rows, members: Any, factor: float, moments: Any) -> None:
    """Subtract factor (first moment)^2 from second moments; reset first moments to 0."""


@add_moments.implementation(DenseRows)
def _dense_moments(rows: Any, members: Any, c: Any, moments: Any) -> Any:
    for i in members:
        for j in range(rows.values.shape[1]):
            x = np.float64(rows.values[i, j])
            moments[j, 0] += c[i] * x
            moments[j, 1] += c[i] * x * x


@add_moments.implementation(CsrRows)
def _csr_moments(rows: Any, members: Any, c: Any, moments: Any) -> Any:
    for i in members:
        for k in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
            j, x = rows.indices[k], np.float64(rows.values[k])
            moments[j, 0] += c[i] * x
            moments[j, 1] += c[i] * x * x


@jit
def _fold_all(factor: float, moments: Any) -> None:
    for j in range(moments.shape[0]):
        moments[j, 1] -= factor * moments[j, 0] * moments[j, 0]
        moments[j, 0] = 0.0


@fold_means.implementation(DenseRows)
def _dense_fold(_rows: Any, _members: Any, factor: Any, moments: Any) -> Any:
    _fold_all(factor, moments)


@fold_means.implementation(CsrRows)
def _csr_fold(rows: Any, members: Any, factor: Any, moments: Any) -> Any:
    # Short queries of wide data visit their own values; a pass over all columns costs more.
    if members.shape[0] > moments.shape[0] // 32:  # most columns have a value
        _fold_all(factor, moments)
        return
    for i in members:
        for k in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
            j = rows.indices[k]
            moments[j, 1] -= factor * moments[j, 0] * moments[j, 0]
            moments[j, 0] = 0.0


@jit
def _variances(
    rows: Rows, members: Any, starts: Any, c: Any, begin: int, end: int, n_features: int
) -> Any:
    """Sum the variances of members ``begin`` to ``end - 1``.

    Also returns the first moments of the query that is cut at the beginning and of the one that is
    cut at the end, whose variances need the moments of other shards.
    """
    moments = zero_moments(rows, n_features)
    cut_moments = np.zeros((2, n_features))
    for q in range(np.searchsorted(starts, begin, side="right") - 1, starts.shape[0] - 1):
        if starts[q] >= end:
            break
        query_rows = members[max(starts[q], begin) : min(starts[q + 1], end)]
        total = 0.0
        for i in query_rows:
            total += c[i]
        if total > 0.0:
            add_moments(rows, query_rows, c, moments)
            if starts[q] >= begin and starts[q + 1] <= end:
                fold_means(rows, query_rows, 1.0 / total, moments)
                continue
            # Its variance needs the first moments of other shards as well.
            side = 0
            if starts[q] >= begin:  # it is the last query of the shard
                side = 1
            for j in range(n_features):
                cut_moments[side, j] = moments[j, 0]
    return moments[:, 1].copy(), cut_moments


def column_variances(
    rows: Rows,
    members: NDArray[Any],
    starts: NDArray[np.int64],
    n_shards: int,
    c: NDArray[np.float64],
    n_features: int,
    threads: int | None = None,
) -> NDArray[np.float64]:
    """Compute the variance of every column within queries, with row weights ``c``.

    Query q has the rows ``members[starts[q]:starts[q + 1]]``.
    """
    cuts = _member_cuts(starts, n_shards)
    parts = map_shards(
        lambda begin, end: _variances(rows, members, starts, c, begin, end, n_features),
        cuts,
        threads,
    )
    if not parts:
        return np.zeros(n_features)
    total = tree_sum([variances for variances, _ in parts])
    first_moments: dict[int, list[NDArray[np.float64]]] = {}
    for begin, end, (_, (at_begin, at_end)) in zip(cuts[:-1], cuts[1:], parts, strict=True):
        first_query, last_query = np.searchsorted(starts, [begin, end], side="right") - 1
        if starts[first_query] < begin:
            first_moments.setdefault(int(first_query), []).append(at_begin)
        if begin <= starts[last_query] < end:
            first_moments.setdefault(int(last_query), []).append(at_end)
    for q, query_moments in first_moments.items():
        mass = float(c[members[starts[q] : starts[q + 1]]].sum())
        if mass > 0.0:
            total -= tree_sum(query_moments) ** 2 / mass
    return np.maximum(total, 0.0)


def _member_cuts(starts: NDArray[np.int64], n_shards: int) -> NDArray[np.int64]:
    """Cut members into shards of whole queries; a query longer than two shards is cut too."""
    between = starts[cut_by_weight(starts, n_shards)].tolist()
    size = max(1, int(starts[-1]) // n_shards)
    cuts = between[:1]
    for begin, end in zip(between[:-1], between[1:], strict=True):
        parts = 1
        if end - begin >= 2 * size:
            parts = (end - begin) // size
        cuts += [begin + (end - begin) * k // parts for k in range(1, parts + 1)]
    return np.array(cuts, dtype=np.int64)
