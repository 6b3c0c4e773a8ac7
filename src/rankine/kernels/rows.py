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

__all__ = [
    "CsrRows",
    "DenseRows",
    "Rows",
    "n_rows",
    "row_add",
    "row_add_diff",
    "row_dot",
    "row_dot_diff",
    "row_norm2",
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


@jit
def scores_into(
    rows: Rows, start: int, stop: int, w: NDArray[np.float64], out: NDArray[np.float64]
) -> None:
    """out[i] = <w, x_i> for start <= i < stop."""
    for i in range(start, stop):
        out[i] = row_dot(rows, i, w)
