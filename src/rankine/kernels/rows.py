"""Storage of examples: dense and CSR rows behind the same questions.

Indices are unsigned: a signed index costs a wrap-around test at every access of the hot loop.
``values`` may be float32 or float64; sums are float64.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import REDUCE, jit
from rankine.kernels.dispatch import question
from rankine.kernels.prefetch import prefetch_span

__all__ = [
    "CsrRows",
    "DenseRows",
    "Rows",
    "n_rows",
    "row_add",
    "row_add_diff",
    "row_add_tracked",
    "row_diff_norm2",
    "row_dot",
    "row_dot_diff",
    "row_norm2",
    "row_prefetch",
    "scores_into",
]


class DenseRows(NamedTuple):
    """Rows of a C-ordered matrix."""

    values: NDArray[Any]


class CsrRows(NamedTuple):
    """Rows in compressed form; indices of a row are strictly increasing."""

    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    values: NDArray[Any]


Rows = DenseRows | CsrRows


@question
def n_rows(rows: Rows) -> Any:
    """Count the rows."""


@question
def row_dot(rows: Rows, i: int, w: NDArray[np.float64]) -> Any:
    """<w, x_i>."""


@question
def row_norm2(rows: Rows, i: int) -> Any:
    """|x_i|^2."""


@question
def row_dot_diff(rows: Rows, a: int, b: int, w: NDArray[np.float64]) -> Any:
    """<w, x_a - x_b>."""


@question
def row_add(rows: Rows, i: int, c: float, w: NDArray[np.float64]) -> None:
    """w += c x_i."""


@question
def row_add_diff(rows: Rows, a: int, b: int, c: float, w: NDArray[np.float64]) -> None:
    """w += c (x_a - x_b)."""


@question
def row_diff_norm2(rows: Rows, a: int, b: int) -> Any:
    """|x_a - x_b|^2, by merging: no cancellation when the rows are close."""


@question
def row_add_tracked(rows: Rows, i: int, c: float, w: NDArray[np.float64]) -> Any:
    """w += c x_i; returns the change of |w|^2, so that norms cost no pass of their own."""


@question
def row_prefetch(rows: Rows, i: int) -> None:
    """Ask the processor to fetch row i into its cache (no effect on results)."""


@jit(fastmath=REDUCE)
def _csr_dot(indices: Any, values: Any, start: int, stop: int, w: Any) -> float:
    total = 0.0
    for k in range(np.uint64(start), np.uint64(stop)):
        total += values[k] * w[indices[k]]
    return total


@jit(fastmath=REDUCE)
def _dense_dot(values: Any, i: int, w: Any) -> float:
    total = 0.0
    for j in range(values.shape[1]):
        total += values[i, j] * w[j]
    return total


@jit(fastmath=REDUCE)
def _sum_of_squares(values: Any) -> float:
    total = 0.0
    for value in values:
        total += np.float64(value) * np.float64(value)
    return total


@jit
def _csr_add(indices: Any, values: Any, start: int, stop: int, c: float, w: Any) -> None:
    for k in range(np.uint64(start), np.uint64(stop)):
        w[indices[k]] += c * values[k]


@jit
def _csr_diff_norm2(rows: Any, a: int, b: int) -> float:
    p, p_end = rows.indptr[a], rows.indptr[a + 1]
    q, q_end = rows.indptr[b], rows.indptr[b + 1]
    total = 0.0
    while p < p_end and q < q_end:
        i, j = rows.indices[p], rows.indices[q]
        x = np.float64(rows.values[p]) if i <= j else 0.0
        y = np.float64(rows.values[q]) if j <= i else 0.0
        total += (x - y) * (x - y)
        p += i <= j
        q += j <= i
    total += _sum_of_squares(rows.values[p:p_end])
    return total + _sum_of_squares(rows.values[q:q_end])


@jit(fastmath=REDUCE)
def _csr_add_tracked(indices: Any, values: Any, start: int, stop: int, c: float, w: Any) -> float:
    change = 0.0
    for k in range(np.uint64(start), np.uint64(stop)):
        step = c * values[k]
        old = w[indices[k]]
        w[indices[k]] = old + step
        change += step * (2.0 * old + step)
    return change


@jit(fastmath=REDUCE)
def _dense_add_tracked(values: Any, i: int, c: float, w: Any) -> float:
    change = 0.0
    for j in range(values.shape[1]):
        step = c * values[i, j]
        change += step * (2.0 * w[j] + step)
        w[j] += step
    return change


@jit(fastmath=REDUCE)
def _dense_diff_norm2(values: Any, a: int, b: int) -> float:
    total = 0.0
    for j in range(values.shape[1]):
        gap = np.float64(values[a, j]) - np.float64(values[b, j])
        total += gap * gap
    return total


@n_rows.answer(DenseRows)
def _dense_n_rows(rows: Any) -> Any:
    return rows.values.shape[0]


@n_rows.answer(CsrRows)
def _csr_n_rows(rows: Any) -> Any:
    return rows.indptr.shape[0] - 1


@row_dot.answer(DenseRows)
def _dense_row_dot(rows: Any, i: Any, w: Any) -> Any:
    return _dense_dot(rows.values, i, w)


@row_dot.answer(CsrRows)
def _csr_row_dot(rows: Any, i: Any, w: Any) -> Any:
    return _csr_dot(rows.indices, rows.values, rows.indptr[i], rows.indptr[i + 1], w)


@row_norm2.answer(DenseRows)
def _dense_row_norm2(rows: Any, i: Any) -> Any:
    return _sum_of_squares(rows.values[i])


@row_norm2.answer(CsrRows)
def _csr_row_norm2(rows: Any, i: Any) -> Any:
    return _sum_of_squares(rows.values[rows.indptr[i] : rows.indptr[i + 1]])


@row_dot_diff.answer(DenseRows)
def _dense_row_dot_diff(rows: Any, a: Any, b: Any, w: Any) -> Any:
    return _dense_dot(rows.values, a, w) - _dense_dot(rows.values, b, w)


@row_dot_diff.answer(CsrRows)
def _csr_row_dot_diff(rows: Any, a: Any, b: Any, w: Any) -> Any:
    plus = _csr_dot(rows.indices, rows.values, rows.indptr[a], rows.indptr[a + 1], w)
    return plus - _csr_dot(rows.indices, rows.values, rows.indptr[b], rows.indptr[b + 1], w)


@row_add.answer(DenseRows)
def _dense_row_add(rows: Any, i: Any, c: Any, w: Any) -> Any:
    for j in range(rows.values.shape[1]):
        w[j] += c * rows.values[i, j]


@row_add.answer(CsrRows)
def _csr_row_add(rows: Any, i: Any, c: Any, w: Any) -> Any:
    _csr_add(rows.indices, rows.values, rows.indptr[i], rows.indptr[i + 1], c, w)


@row_add_diff.answer(DenseRows)
def _dense_row_add_diff(rows: Any, a: Any, b: Any, c: Any, w: Any) -> Any:
    for j in range(rows.values.shape[1]):
        w[j] += c * (np.float64(rows.values[a, j]) - np.float64(rows.values[b, j]))


@row_add_diff.answer(CsrRows)
def _csr_row_add_diff(rows: Any, a: Any, b: Any, c: Any, w: Any) -> Any:
    _csr_add(rows.indices, rows.values, rows.indptr[a], rows.indptr[a + 1], c, w)
    _csr_add(rows.indices, rows.values, rows.indptr[b], rows.indptr[b + 1], -c, w)


@row_diff_norm2.answer(DenseRows)
def _dense_row_diff_norm2(rows: Any, a: Any, b: Any) -> Any:
    return _dense_diff_norm2(rows.values, a, b)


@row_diff_norm2.answer(CsrRows)
def _csr_row_diff_norm2(rows: Any, a: Any, b: Any) -> Any:
    return _csr_diff_norm2(rows, a, b)


@row_add_tracked.answer(DenseRows)
def _dense_row_add_tracked(rows: Any, i: Any, c: Any, w: Any) -> Any:
    return _dense_add_tracked(rows.values, i, c, w)


@row_add_tracked.answer(CsrRows)
def _csr_row_add_tracked(rows: Any, i: Any, c: Any, w: Any) -> Any:
    return _csr_add_tracked(rows.indices, rows.values, rows.indptr[i], rows.indptr[i + 1], c, w)


@row_prefetch.answer(DenseRows)
def _dense_row_prefetch(rows: Any, i: Any) -> Any:
    flat = rows.values.ravel()
    prefetch_span(flat, i * rows.values.shape[1], (i + 1) * rows.values.shape[1])


@row_prefetch.answer(CsrRows)
def _csr_row_prefetch(rows: Any, i: Any) -> Any:
    prefetch_span(rows.indices, rows.indptr[i], rows.indptr[i + 1])
    prefetch_span(rows.values, rows.indptr[i], rows.indptr[i + 1])


@jit
def scores_into(
    rows: Rows, start: int, stop: int, w: NDArray[np.float64], out: NDArray[np.float64]
) -> None:
    """out[i] = <w, x_i> for start <= i < stop."""
    for i in range(start, stop):
        out[i] = row_dot(rows, i, w)
