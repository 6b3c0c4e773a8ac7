"""Storage of features: columns of a CSC matrix or of a dense one, behind the same questions.

Coordinate solvers read columns. ``csc_from_csr`` transposes compressed rows in O(non-zeros) and
leaves the rows of every column increasing; ``dense_columns`` lays the columns of a dense matrix
out contiguously. Indices are unsigned, values keep their type (float32 or float64).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.dispatch import question
from rankine.kernels.rows import CsrRows, DenseRows, Rows

__all__ = [
    "Columns",
    "CscColumns",
    "DenseColumns",
    "add_column_products",
    "column_row",
    "column_start",
    "column_stop",
    "columns_of",
    "n_columns",
]


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


@question
def column_start(columns: Columns, r: int) -> Any:
    """Position of the first stored value of column r in ``columns.values``."""


@question
def column_stop(columns: Columns, r: int) -> Any:
    """Position after the last stored value of column r."""


@question
def column_row(columns: Columns, r: int, p: int) -> Any:
    """Row of the value stored at position p of column r."""


@column_start.answer(CscColumns)
def _csc_start(columns: Any, r: Any) -> Any:
    return np.uint64(columns.indptr[r])


@column_stop.answer(CscColumns)
def _csc_stop(columns: Any, r: Any) -> Any:
    return np.uint64(columns.indptr[r + 1])


@column_row.answer(CscColumns)
def _csc_row(columns: Any, r: Any, p: Any) -> Any:
    return columns.indices[p]


@column_start.answer(DenseColumns)
def _dense_start(columns: Any, r: Any) -> Any:
    return np.uint64(r) * np.uint64(columns.n_rows)


@column_stop.answer(DenseColumns)
def _dense_stop(columns: Any, r: Any) -> Any:
    return (np.uint64(r) + np.uint64(1)) * np.uint64(columns.n_rows)


@column_row.answer(DenseColumns)
def _dense_row(columns: Any, r: Any, p: Any) -> Any:
    return np.uint64(p) - np.uint64(r) * np.uint64(columns.n_rows)


def n_columns(columns: Columns) -> int:
    """Count the columns."""
    if isinstance(columns, CscColumns):
        return len(columns.indptr) - 1
    return len(columns.values) // max(columns.n_rows, 1)


def columns_of(rows: Rows, n_features: int) -> Columns:
    """Columns of row storage: one copy of the data, in O(stored values)."""
    if isinstance(rows, DenseRows):
        return DenseColumns(rows.values.shape[0], np.ascontiguousarray(rows.values.T).ravel())
    return csc_from_csr(rows, n_features)


def csc_from_csr(rows: CsrRows, n_features: int) -> CscColumns:
    """Transpose compressed rows; the rows of every column come out increasing."""
    n_rows = len(rows.indptr) - 1
    indptr = np.zeros(n_features + 1, dtype=np.int64)
    indices = np.empty(len(rows.values), dtype=np.uint32 if n_rows < 2**32 else np.uint64)
    values = np.empty_like(rows.values)
    _transpose(rows.indptr, rows.indices, rows.values, indptr, indices, values)
    return CscColumns(indptr, indices, values)


@jit
def _transpose(
    row_ptr: Any, row_indices: Any, row_values: Any, indptr: Any, indices: Any, values: Any
) -> None:
    n_features = np.uint64(indptr.shape[0] - 1)
    for p in range(np.uint64(0), np.uint64(row_values.shape[0])):
        indptr[np.uint64(row_indices[p]) + np.uint64(1)] += 1
    for r in range(np.uint64(0), n_features):
        indptr[r + np.uint64(1)] += indptr[r]
    place = indptr[:-1].copy()
    for i in range(np.uint64(0), np.uint64(row_ptr.shape[0] - 1)):
        for p in range(np.uint64(row_ptr[i]), np.uint64(row_ptr[i + np.uint64(1)])):
            r = row_indices[p]
            at = np.uint64(place[r])
            place[r] += 1
            indices[at] = i
            values[at] = row_values[p]


@jit
def add_column_products(columns: Columns, w: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """out += X w, reading only the columns whose weight is not zero."""
    for r in range(np.uint64(0), np.uint64(w.shape[0])):
        if w[r] != 0.0:
            for p in range(column_start(columns, r), column_stop(columns, r)):
                out[column_row(columns, r, p)] += w[r] * columns.values[p]
