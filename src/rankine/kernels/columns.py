"""Storage of features: columns of a CSC matrix or of a dense one, behind the same questions.

Coordinate solvers read columns. ``csc_from_csr`` transposes compressed rows in O(non-zeros) and
leaves the rows of every column increasing; ``dense_columns`` lays the columns of a dense matrix
out contiguously. Indices are unsigned, values keep their type (float32 or float64).

Any smooth loss that answers ``slope_and_curvature``, ``curvature_bounds`` and ``shift`` can be
minimised along columns by ``rankine.solvers.coordinate_descent``: ``loss`` is the loss with its
state at the current weights (scores, sums, whatever it keeps), ``scratch`` its private work space,
one per thread. ``column_variances`` is the weighted variance of every column within queries::

    out_j = sum_q [ sum_i c_i x_ij^2 - (sum_i c_i x_ij)^2 / sum_i c_i ],

the diagonal of X^T C X when C joins all rows of a query alike, and close to it otherwise: what a
diagonal preconditioner needs.
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
    """Columns in compressed form; the rows of a column are strictly increasing."""

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
    """Position of the first stored value of column r in ``columns.values``."""


@generic
def column_stop(columns: Columns, r: int) -> Any:
    """Position after the last stored value of column r."""


@generic
def column_row(columns: Columns, r: int, p: int) -> Any:
    """Row of the value stored at position p of column r."""


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
    """Columns of row storage: one copy of the data, in O(stored values)."""
    if isinstance(rows, DenseRows):
        return DenseColumns(rows.values.shape[0], np.ascontiguousarray(rows.values.T).ravel())
    return csc_from_csr(rows, n_features, threads)


def csc_from_csr(rows: CsrRows, n_features: int, threads: int | None = None) -> CscColumns:
    """Transpose compressed rows; the rows of every column come out increasing.

    Every thread has a range of rows: it counts their values by column, and then knows where in
    each column its own begin.
    """
    n_rows = len(rows.indptr) - 1
    cuts = cut_by_weight(rows.indptr, n_threads(threads))
    counts = np.array(
        map_shards(lambda a, b: _count_by_column(rows, a, b, n_features), cuts, threads)
        or np.zeros((0, n_features), dtype=np.int64)
    )
    indptr = np.concatenate([[0], np.cumsum(counts.sum(axis=0))])
    places = dict(zip(cuts.tolist(), indptr[:-1] + counts.cumsum(axis=0) - counts, strict=False))
    indices = np.empty(len(rows.values), dtype=_row_type(n_rows))
    values = np.empty_like(rows.values)
    map_shards(lambda a, b: _place(rows, a, b, places[a], indices, values), cuts, threads)
    return CscColumns(indptr, indices, values)


def _row_type(n_rows: int) -> type[np.unsignedinteger[Any]]:
    """The smaller of two types that numbers all rows."""
    return np.uint32 if n_rows <= 2**32 else np.uint64


@jit
def _count_by_column(rows: CsrRows, start: int, stop: int, n_features: int) -> Any:
    counts = np.zeros(n_features, dtype=np.int64)
    for p in range(np.uint64(rows.indptr[start]), np.uint64(rows.indptr[stop])):
        counts[rows.indices[p]] += 1
    return counts


@jit
def _place(rows: CsrRows, start: int, stop: int, place: Any, indices: Any, values: Any) -> None:
    for i in range(np.uint64(start), np.uint64(stop)):
        for p in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + np.uint64(1)])):
            r = rows.indices[p]
            at = np.uint64(place[r])
            place[r] += 1
            indices[at] = i
            values[at] = rows.values[p]


@jit
def add_column_products(columns: Columns, w: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """out += X w, reading only the columns whose weight is not zero."""
    for r in range(np.uint64(0), np.uint64(w.shape[0])):
        if w[r] != 0.0:
            for p in range(column_start(columns, r), column_stop(columns, r)):
                out[column_row(columns, r, p)] += w[r] * columns.values[p]


@generic
def slope_and_curvature(loss: Any, columns: Any, r: int, scratch: Any) -> Any:
    """First and second derivative of the loss along weight r, at the current weights."""


@generic
def curvature_bounds(loss: Any, columns: Any, r: int, scratch: Any) -> Any:
    """(R, beta, crude): what bounds the loss along weight r whatever the weights are.

    phi'' <= beta <= crude, and |phi'''| <= R phi''. R = 0 says that the loss does not depend on
    the weight at all.
    """


@generic
def shift(loss: Any, columns: Any, r: int, step: float, scratch: Any) -> None:
    """Bring the state of the loss to the weights with ``step`` added to weight r.

    Called right after ``slope_and_curvature`` of the same column, whose notes in ``scratch`` it
    may use.
    """


@generic
def no_moments(rows: Rows, n_features: int) -> Any:
    """Zero moments of n_features columns, laid out as the storage visits them."""


@no_moments.implementation(DenseRows)
def _dense_no_moments(_rows: Any, n_features: Any) -> Any:
    return np.zeros((2, n_features)).T


@no_moments.implementation(CsrRows)
def _csr_no_moments(_rows: Any, n_features: Any) -> Any:
    return np.zeros((n_features, 2))


@generic
def add_moments(rows: Rows, members: Any, c: Any, moments: Any) -> None:
    """moments[:, 0] += c_i x_i and moments[:, 1] += c_i x_i^2 over rows ``members``."""


@generic
def fold_means(rows: Rows, members: Any, factor: float, moments: Any) -> None:
    """Second moments -= factor (first moments)^2; then first moments = 0."""


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
    if members.shape[0] > moments.shape[0] // 32:  # most columns were touched
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
    """Of members ``begin`` to ``end``; and first moments of the queries cut there, by end."""
    moments = no_moments(rows, n_features)
    cut = np.zeros((2, n_features))
    for q in range(np.searchsorted(starts, begin, side="right") - 1, starts.shape[0] - 1):
        if starts[q] >= end:
            break
        mine = members[max(starts[q], begin) : min(starts[q + 1], end)]
        total = 0.0
        for i in mine:
            total += c[i]
        if total > 0.0:
            add_moments(rows, mine, c, moments)
            if starts[q] >= begin and starts[q + 1] <= end:
                fold_means(rows, mine, 1.0 / total, moments)
                continue
            side = 0 if starts[q] < begin else 1  # it is the last query of the shard
            for j in range(n_features):
                cut[side, j] = moments[j, 0]
    return moments[:, 1].copy(), cut


def column_variances(
    rows: Rows,
    members: NDArray[Any],
    starts: NDArray[np.int64],
    n_shards: int,
    c: NDArray[np.float64],
    n_features: int,
    threads: int | None = None,
) -> NDArray[np.float64]:
    """The sums above; query q holds rows ``members[starts[q]:starts[q + 1]]``, ``c`` per row."""
    cuts = _member_cuts(starts, n_shards)
    parts = map_shards(
        lambda begin, end: _variances(rows, members, starts, c, begin, end, n_features),
        cuts,
        threads,
    )
    if not parts:
        return np.zeros(n_features)
    total = tree_sum([second for second, _ in parts])
    firsts: dict[int, list[NDArray[np.float64]]] = {}
    for begin, end, (_, (left, right)) in zip(cuts[:-1], cuts[1:], parts, strict=True):
        q, after = np.searchsorted(starts, [begin, end], side="right") - 1
        if starts[q] < begin:
            firsts.setdefault(int(q), []).append(left)
        if begin <= starts[after] < end:
            firsts.setdefault(int(after), []).append(right)
    for q, found in firsts.items():
        mass = float(c[members[starts[q] : starts[q + 1]]].sum())
        if mass > 0.0:
            total -= tree_sum(found) ** 2 / mass
    return np.maximum(total, 0.0)


def _member_cuts(starts: NDArray[np.int64], n_shards: int) -> NDArray[np.int64]:
    """Shards of whole queries; a query longer than two shards is cut."""
    between = starts[cut_by_weight(starts, n_shards)].tolist()
    size = max(1, int(starts[-1]) // n_shards)
    cuts = between[:1]
    for begin, end in zip(between[:-1], between[1:], strict=True):
        parts = (end - begin) // size if end - begin >= 2 * size else 1
        cuts += [begin + (end - begin) * k // parts for k in range(1, parts + 1)]
    return np.array(cuts, dtype=np.int64)
