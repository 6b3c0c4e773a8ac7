"""One Arrow batch as a Dataset, every value checked.

Numbers are views of Arrow's memory where type and layout allow it. Two list columns become CSR:
Arrow's offsets are the row pointer, its values the matrix's. Nulls, NaN, infinities, integers that
a float cannot hold, and unusable types are errors that name file, row and column.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types as pt
from scipy import sparse

from rankine.core.errors import DataError, LimitError, SchemaError
from rankine.data.dataset import (
    HEAVIEST,
    LIGHTEST,
    TEXT,
    CodedText,
    Dataset,
    NamedColumns,
    beyond_weights,
    finite,
    make_csr,
)
from rankine.data.options import ReadOptions
from rankine.data.readers.column_plan import ColumnPlan
from rankine.data.readers.values import (
    MISSING_FIX,
    Place,
    RowFaults,
    arrow_errors,
    exact_floats,
    is_number,
    is_text,
    refuse_not_finite,
    to_floats,
    to_numbers,
    writable,
)

_NULL_FIX = "Fill or remove nulls before training"
#: Bytes of text that one column of one block may hold.
MAX_TEXT_BYTES = 2**29


def batch_to_dataset(
    batch: pa.RecordBatch,
    plan: ColumnPlan,
    options: ReadOptions,
    place: Place,
    out: NDArray[Any] | None = None,
) -> Dataset:
    """Convert one validated batch; dense features go to ``out`` where it is given."""
    with arrow_errors(place.part or "the table"):
        faults = RowFaults(place, batch.num_rows, skip=options.on_bad_row == "skip")
        if plan.sparse:
            X = sparse_rows(batch, plan, options, faults)
        else:
            X = _dense_rows(batch, plan, faults, out)
        return rows_to_dataset(X, batch.column, plan, options, faults)


def rows_to_dataset(
    X: Any,
    column: Callable[[str], pa.Array],
    plan: ColumnPlan,
    options: ReadOptions,
    faults: RowFaults,
) -> Dataset:
    """Checked features and the columns beside them, without the rows that are bad."""
    place, n_rows = faults.place, faults.n_rows
    X = _stored_as(X, options, place)
    y, qid = np.zeros(n_rows), np.zeros(n_rows, dtype=np.int64)
    docid = weight = position = None
    if plan.label is not None:
        y = to_floats(column(plan.label), plan.label, faults)
    if plan.query is not None:
        qid = to_ids(column(plan.query), plan.query, faults)
        qid = qid.astype(TEXT) if options.qid_type == "str" else qid
    if plan.docid is not None:
        docid = to_ids(column(plan.docid), plan.docid, faults)
    if plan.weight is not None:
        weight = _to_weights(column(plan.weight), plan.weight, faults)
    if plan.position is not None:
        position = _to_positions(column(plan.position), plan.position, faults)
    data = Dataset(
        X,
        y,
        qid,
        docid,
        plan.feature_names,
        weight,
        position,
        NamedColumns({name: to_values(column(name), name, faults, plan) for name in plan.extra}),
        sources=(place.file,),
        read_counts=faults.read_counts,
        lines=np.arange(place.first_row + 1, place.first_row + n_rows + 1),
    )
    return data if faults.bad is None else data.take(np.flatnonzero(~faults.bad))


def _stored_as(X: Any, options: ReadOptions, place: Place) -> Any:
    """Dense or CSR, where the caller forces one of them."""
    if options.dense is None or options.dense != sparse.issparse(X):
        return X
    if not options.dense:
        return sparse.csr_matrix(X)
    needed = X.shape[0] * X.shape[1] * X.dtype.itemsize
    if needed > options.memory_limit:
        raise LimitError(
            f"{X.shape[0]} dense rows of {X.shape[1]} features need {needed} bytes",
            fix="Leave dense out: sparse rows stay sparse",
        )
    return X.toarray()


def validate(batch: pa.RecordBatch, place: Place) -> None:
    """Arrow's own full check of offsets, lengths and UTF-8, as a typed error."""
    try:
        batch.validate(full=True)
    except pa.ArrowException as error:
        raise SchemaError(
            f"{place.part or 'the table'} holds invalid data: {error}",
            fix="The file is damaged; write it again",
        ) from error


def _dense_rows(
    batch: pa.RecordBatch,
    plan: ColumnPlan,
    faults: RowFaults,
    out: NDArray[Any] | None,
) -> NDArray[Any]:
    shape = (batch.num_rows, len(plan.features))
    matrix = np.empty(shape, dtype=plan.dtype) if out is None else out
    for j, name in enumerate(plan.features):
        matrix[:, j] = to_numbers(batch.column(name), name, faults, plan.dtype, missing=True)
    if not finite(matrix):
        for j, name in enumerate(plan.features):
            matrix[:, j] = refuse_not_finite(matrix[:, j], name, faults, missing=True)
    return matrix


def to_ids(array: pa.Array, name: str, faults: RowFaults) -> NDArray[Any]:
    """Integers (int64) or strings, as ids of queries or documents; nulls are refused."""
    kind = array.type.value_type if pt.is_dictionary(array.type) else array.type
    if not (pt.is_integer(kind) or is_text(kind)):
        raise SchemaError(
            f"id column {name!r} is of type {array.type}",
            fix="Cast ids to int64 or string",
            column=name,
        )
    return _discrete(array, name, faults)


def _discrete(array: pa.Array, name: str, faults: RowFaults) -> NDArray[Any]:
    """Integers or text, dictionary-encoded or not, without nulls."""
    if array.null_count or (pt.is_dictionary(array.type) and array.dictionary.null_count):
        nulls = pc.is_null(array, nan_is_null=False).to_numpy(zero_copy_only=False)
        faults.refuse(nulls, name, "null value", _NULL_FIX)
    if not pt.is_dictionary(array.type):
        _refuse_expansion(array, None, name, faults.place)
        return _plain(array, name, faults.place)
    codes = pc.fill_null(array.indices, 0).to_numpy(zero_copy_only=False)
    if len(array.dictionary) == 0:  # then every row is null, and marked
        return _plain(pa.nulls(len(codes), array.type.value_type), name, faults.place)
    _refuse_expansion(array.dictionary, codes, name, faults.place)
    return np.asarray(_plain(array.dictionary, name, faults.place)[codes])


def _refuse_expansion(texts: pa.Array, codes: NDArray[Any] | None, name: str, place: Place) -> None:
    """Few stored bytes can stand for one long text in every row; such a column is refused."""
    if not is_text(texts.type) or (codes is None and not pt.is_string_view(texts.type)):
        return
    lengths = _text_lengths(texts)
    if codes is not None and int(lengths.max(initial=0)) * len(codes) <= MAX_TEXT_BYTES:
        return
    total = int((lengths if codes is None else lengths[codes]).sum())
    if total > MAX_TEXT_BYTES:
        raise LimitError(
            f"column {name!r} expands to {total} bytes in {place.part or 'one block'}",
            fix="Shorten the texts, or read fewer rows at a time with block_rows",
            column=name,
        )


def _text_lengths(texts: pa.Array) -> NDArray[np.int64]:
    """Bytes of each text (anything for a null), without expanding any."""
    if pt.is_string_view(texts.type):  # a view starts with its length, in 32 bits
        views = np.frombuffer(texts.buffers()[1], dtype=np.int32).reshape(-1, 4)
        return views[texts.offset : texts.offset + len(texts), 0].astype(np.int64)
    lengths = pc.fill_null(pc.binary_length(texts), 0)
    return np.asarray(lengths.to_numpy(zero_copy_only=False).astype(np.int64))


def _plain(array: pa.Array, name: str, place: Place) -> NDArray[Any]:
    """Integers as int64, text as variable-width strings; nulls (already marked) are filled."""
    if is_text(array.type):
        filled = pc.fill_null(array.cast(pa.large_string()), "")
        return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=object).astype(TEXT)
    values = pc.fill_null(array, 0).to_numpy(zero_copy_only=False)
    if values.dtype == np.uint64 and len(values) and values.max() > np.iinfo(np.int64).max:
        row = int(np.argmax(values > np.iinfo(np.int64).max))
        raise place.error(row, name, f"id {values[row]} exceeds 2^63 - 1", "Store it as a string")
    return writable(values.astype(np.int64, copy=False))


def _to_weights(array: pa.Array, name: str, faults: RowFaults) -> NDArray[np.float64]:
    values = to_floats(array, name, faults)
    faults.refuse(
        values < 0, name, lambda row: f"weight {values[row]} is negative", "Pass weights >= 0"
    )
    faults.refuse(
        beyond_weights(values),
        name,
        lambda row: f"weight {values[row]:g} is beyond {LIGHTEST:g} to {HEAVIEST:g}",
        "Multiply all weights by one number",
    )
    return values


def _to_positions(array: pa.Array, name: str, faults: RowFaults) -> NDArray[np.int64]:
    """Positions, all from 1; rows that are bad already are not judged again."""
    if not pt.is_integer(array.type):
        raise SchemaError(
            f"position column {name!r} is of type {array.type}",
            fix="Cast positions to integers",
            column=name,
        )
    values = _discrete(array, name, faults)
    unmarked = values if faults.bad is None else np.where(faults.bad, 1, values)
    faults.refuse(
        unmarked < 1,
        name,
        lambda row: f"position {values[row]} is below 1",
        "Positions count from 1: the topmost item shown has position 1",
    )
    return values


def to_values(
    array: pa.Array, name: str, faults: RowFaults, plan: ColumnPlan
) -> NDArray[Any] | CodedText:
    """A further column: numbers, text, booleans or times.

    Missing numbers are NaN, missing booleans None, missing text is empty.
    """
    kind = array.type.value_type if pt.is_dictionary(array.type) else array.type
    if pt.is_null(kind):
        faults.missing += len(array)
        return np.full(len(array), np.nan)
    if is_text(kind):
        return _coded(array, name, faults, plan)
    if pt.is_dictionary(array.type):
        array = array.dictionary_decode()
    if is_number(kind):
        kept = _kept_numbers(array, name, faults)
        if kept is not None:
            return kept
    if pt.is_integer(kind):
        return _discrete(array, name, faults)
    if pt.is_floating(kind):
        values = to_numbers(array, name, faults, np.dtype(array.type.to_pandas_dtype()))
        return writable(refuse_not_finite(values, name, faults))
    if pt.is_boolean(kind) or pt.is_timestamp(kind) or pt.is_date(kind):
        if array.null_count:
            nulls = pc.is_null(array).to_numpy(zero_copy_only=False)
            faults.refuse(nulls, name, "null value", MISSING_FIX)
        return writable(array.to_numpy(zero_copy_only=False))
    raise SchemaError(
        f"column {name!r} is of type {array.type}, which cannot be carried along",
        fix="Use numbers, strings, booleans, dates or timestamps",
        column=name,
    )


def _coded(array: pa.Array, name: str, faults: RowFaults, plan: ColumnPlan) -> CodedText:
    """Text as codes; a dictionary that comes again is decoded once."""
    if not pt.is_dictionary(array.type):
        _refuse_expansion(array, None, name, faults.place)
        array = array.cast(pa.large_string()).dictionary_encode()
    indices, dictionary = array.indices, array.dictionary
    codes = pc.fill_null(indices, 0).to_numpy(zero_copy_only=False).astype(np.int32)
    absent = pc.is_null(indices).to_numpy(zero_copy_only=False) if indices.null_count else None
    if len(dictionary) > max(len(codes), 1):  # of a long dictionary only what is used
        used, codes = np.unique(codes, return_inverse=True)
        codes, dictionary = codes.astype(np.int32), dictionary.take(pa.array(used))
    _refuse_expansion(dictionary, None, name, faults.place)
    if len(dictionary):
        _refuse_expansion(dictionary, codes, name, faults.place)
    known = plan.dictionaries.get(name)
    if known is None or not known[0].equals(dictionary):
        texts = ["" if text is None else text for text in dictionary.to_pylist()]
        known = plan.dictionaries[name] = (dictionary, [*texts, ""])
    if dictionary.null_count:
        empty = pc.is_null(dictionary).to_numpy(zero_copy_only=False)[codes]
        absent = empty if absent is None else absent | empty
    if absent is not None:
        codes[absent] = len(known[1]) - 1
        faults.missing += int(absent.sum())
    return CodedText(codes, known[1])


def _kept_numbers(array: pa.Array, name: str, faults: RowFaults) -> NDArray[Any] | None:
    """Numbers of which some are missing; None where none is."""
    if not array.null_count and (
        not pt.is_floating(array.type) or finite(array.to_numpy(zero_copy_only=False))
    ):
        return None
    nulls = pc.is_null(array, nan_is_null=True).to_numpy(zero_copy_only=False)
    if not nulls.any():
        return None
    faults.missing += int(nulls.sum())
    if pt.is_boolean(array.type):
        return np.array(array.to_pylist(), dtype=object)
    values = exact_floats(pc.fill_null(array, 0).to_numpy(zero_copy_only=False),
                          np.dtype(np.float64), name, faults)  # fmt: skip
    values = refuse_not_finite(np.where(nulls, 0.0, values), name, faults)
    return np.where(nulls, np.nan, values)


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
    values = to_numbers(value_items, value_name, items, plan.dtype, missing=True)
    values = refuse_not_finite(values, value_name, items, missing=True)
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
