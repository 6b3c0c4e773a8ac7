"""Two list columns as CSR: Arrow's offsets are the row pointer, its values the matrix's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import sparse

from rankine.core.errors import DataError, LimitError, SchemaError
from rankine.data.concat import make_csr
from rankine.data.dataset import finite
from rankine.data.readers.numbers import refuse_not_finite, to_numbers, writable
from rankine.data.readers.row_faults import RowFaults

if TYPE_CHECKING:
    from collections.abc import Callable

    from rankine.data.options import ReadOptions
    from rankine.data.readers.column_plan import ColumnPlan

__all__ = ["csr_rows", "highest_index", "sparse_rows"]


class ItemFaults(RowFaults):
    """Faults of list items, reported as faults of the rows that hold them."""

    def __init__(self, rows: RowFaults, pointer: NDArray[Any]) -> None:
        super().__init__(rows.place, rows.n_rows, skip=rows.skip)
        self.rows = rows
        self.pointer = pointer

    def refuse(
        self,
        bad: NDArray[Any],
        column: str,
        reason: str | Callable[[int], str],
        fix: str,
        kind: type[DataError] = SchemaError,
    ) -> None:
        """Refuse the rows with an item where ``bad`` is true."""
        items = np.flatnonzero(bad)
        if len(items) == 0:
            return
        marked = np.zeros(self.n_rows, dtype=np.bool_)
        marked[np.searchsorted(self.pointer, items, side="right") - 1] = True
        text = reason if isinstance(reason, str) else reason(int(items[0]))
        self.rows.refuse(marked, column, text, fix, kind)


def sparse_rows(
    batch: pa.RecordBatch, plan: ColumnPlan, options: ReadOptions, faults: RowFaults
) -> Any:
    """CSR matrix of the two list columns of a batch."""
    index_name, value_name = plan.features
    zero = options.missing == "zero"
    pointer, index_items = _list_parts(batch.column(index_name), index_name, faults)
    value_pointer, value_items = _list_parts(batch.column(value_name), value_name, faults)
    sizes, value_sizes = np.diff(pointer), np.diff(value_pointer)
    unequal = sizes != value_sizes
    if unequal.any():
        faults.refuse(
            unequal,
            value_name,
            lambda row: f"{value_sizes[row]} values for {sizes[row]} indices",
            "Every index needs one value",
        )
        pointer, index_items = _empty(unequal, sizes, index_items)
        _, value_items = _empty(unequal, value_sizes, value_items)
    items = ItemFaults(faults, pointer)
    values = to_numbers(value_items, value_name, items, plan.dtype, zero=zero)
    if not finite(values):
        values = refuse_not_finite(values, value_name, items, zero=zero)
    if index_items.null_count:
        nulls = pc.is_null(index_items).to_numpy(zero_copy_only=False)
        items.refuse(nulls, index_name, "null index", "Remove the entry")
        index_items = pc.fill_null(index_items, options.base)
    faults.missing += items.missing
    indices = index_items.to_numpy(zero_copy_only=False)
    return csr_rows(values, indices, pointer, plan.n_features, options, items, index_name)


def _list_parts(array: pa.Array, name: str, faults: RowFaults) -> tuple[NDArray[Any], pa.Array]:
    """Row pointer from 0 and items of a list column; a null list is refused."""
    if array.null_count:
        nulls = pc.is_null(array).to_numpy(zero_copy_only=False)
        faults.refuse(nulls, name, "null list", "Write an empty list for a row without features")
        sizes = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        return _pointer(sizes), array.flatten()
    pointer = array.offsets.to_numpy(zero_copy_only=False)
    if len(pointer) == 0:
        return np.zeros(1, dtype=np.int32), array.flatten()
    first, last = int(pointer[0]), int(pointer[-1])
    pointer = pointer if first == 0 else pointer - pointer.dtype.type(first)
    return pointer, array.values.slice(first, last - first)


def _empty(
    bad: NDArray[np.bool_], sizes: NDArray[Any], items: pa.Array
) -> tuple[NDArray[Any], pa.Array]:
    """Row pointer and items with the lists of bad rows emptied."""
    kept = items.filter(pa.array(np.repeat(~bad, sizes)))
    return _pointer(np.where(bad, 0, sizes)), kept


def _pointer(sizes: NDArray[Any]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64, copy=False)


def csr_rows(
    values: NDArray[Any],
    indices: NDArray[Any],
    pointer: NDArray[Any],
    n_features: int | None,
    options: ReadOptions,
    items: RowFaults,
    name: str,
) -> Any:
    """Canonical CSR matrix from checked parts; indices count from ``options.base``.

    Unsorted rows are sorted, duplicates refused; with ``n_features=None`` the largest index
    decides the width.
    """
    base = options.base
    highest = options.max_features if n_features is None else n_features
    if len(indices) and (indices.min() < base or indices.max() >= highest + base):
        low, high = indices < base, indices >= highest + base
        items.refuse(
            low,
            name,
            lambda item: f"index {indices[item]} is below the declared base {base}",
            "Pass base=0 if indices count from 0" if base else "Indices must not be negative",
        )
        limit = "max_features" if n_features is None else "n_features"
        items.refuse(
            high,
            name,
            lambda item: f"index {indices[item]} (base {base}) is beyond {limit}={highest}",
            f"Raise {limit}, or declare the right base",
            LimitError,
        )
        indices = np.where(low | high, base, indices)
    columns = indices.astype(np.int32, copy=False)
    if base:
        columns = columns - np.int32(base)
    width = n_features
    if width is None:
        width = int(columns.max()) + 1 if len(columns) else 0
    return _canonical(values, columns, pointer, width, items, name)


def _canonical(
    values: NDArray[Any],
    columns: NDArray[np.int32],
    pointer: NDArray[Any],
    width: int,
    items: RowFaults,
    name: str,
) -> Any:
    shape = (len(pointer) - 1, width)
    if _first_disorder(columns, pointer) >= 0:
        matrix = sparse.csr_matrix((values.copy(), columns.copy(), pointer.copy()), shape=shape)
        matrix.sort_indices()
        twins = np.zeros(len(columns), dtype=np.bool_)
        twins[1:] = matrix.indices[1:] == matrix.indices[:-1]
        twins[pointer[:-1][np.diff(pointer) > 0]] = False
        items.refuse(
            twins,
            name,
            "the same index appears twice in a row",
            "Add the values up, or keep one of them",
        )
        return make_csr(matrix.data, matrix.indices, matrix.indptr, shape)
    return make_csr(writable(values), writable(columns), pointer, shape)


def _first_disorder(columns: NDArray[np.int32], pointer: NDArray[Any]) -> int:
    """Position of the first item that does not exceed its predecessor in the row, or -1."""
    falls = columns[1:] <= columns[:-1]
    starts = pointer[1:-1]
    falls[starts[(starts > 0) & (starts < len(columns))] - 1] = False
    return int(np.argmax(falls)) if falls.any() else -1


def highest_index(array: pa.Array, options: ReadOptions) -> int:
    """Number of features that the lists need; unusable indices are left to the reader's checks."""
    indices = array.flatten().drop_null().to_numpy(zero_copy_only=False)
    usable = indices[indices < options.max_features + options.base]
    return max(0, int(usable.max()) - options.base + 1) if len(usable) else 0
