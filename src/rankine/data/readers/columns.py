"""Turn one Arrow batch into a Dataset, and check every value.

Numbers are views of Arrow's memory where type and layout allow it. Two list columns become CSR:
Arrow's offsets are the row pointer, its values the values of the matrix. Nulls, NaN, infinities,
integers that a float cannot hold, and unusable types are errors that name file, row and column.
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
    all_finite,
    beyond_weights,
    make_csr,
)
from rankine.data.options import ReadOptions
from rankine.data.readers.column_plan import ColumnPlan
from rankine.data.readers.raw_values import to_category_texts, to_numbers_or_nan
from rankine.data.readers.values import (
    BatchLocation,
    RowFaults,
    exact_floats,
    is_number,
    is_text,
    null_mask,
    refuse_not_finite,
    to_floats,
    to_numbers,
    wrap_arrow_errors,
    writable,
)

_NULL_FIX = "Fill or remove nulls before training"
#: Bytes of text that one column of one block may hold.
MAX_TEXT_BYTES = 2**29


def batch_to_dataset(
    batch: pa.RecordBatch,
    plan: ColumnPlan,
    options: ReadOptions,
    location: BatchLocation,
    out: NDArray[Any] | None = None,
) -> Dataset:
    """Convert one validated batch; dense features are written to ``out`` if it is given."""
    with wrap_arrow_errors(location.part or "the table"):
        faults = RowFaults(location, batch.num_rows, skip=options.on_bad_row == "skip")
        if plan.sparse:
            X = _sparse_rows(batch, plan, options, faults)
        else:
            X = _dense_rows(batch, plan, faults, out)
        return _rows_to_dataset(X, batch, plan, options, faults)


def _rows_to_dataset(
    X: Any,
    batch: pa.RecordBatch,
    plan: ColumnPlan,
    options: ReadOptions,
    faults: RowFaults,
) -> Dataset:
    """Join checked features with the other columns, and leave out the bad rows."""
    location, n_rows = faults.location, faults.n_rows
    X = _force_storage(X, options)
    y, qid = np.zeros(n_rows), np.zeros(n_rows, dtype=np.int64)
    docid = weight = position = None
    if plan.label is not None:
        y = to_floats(batch.column(plan.label), plan.label, faults)
    if plan.query is not None:
        qid = to_ids(batch.column(plan.query), plan.query, faults)
        if options.qid_type == "str":
            qid = qid.astype(TEXT)
    if plan.docid is not None:
        docid = to_ids(batch.column(plan.docid), plan.docid, faults)
    if plan.weight is not None:
        weight = _to_weights(batch.column(plan.weight), plan.weight, faults)
    if plan.position is not None:
        position = _to_positions(batch.column(plan.position), plan.position, faults)
    columns = {name: to_values(batch.column(name), name, faults, plan) for name in plan.extra}
    if faults.bad is not None:
        # Bad rows are left out below; until then a dataset needs their labels to be numbers.
        y = np.where(faults.bad, 0.0, y)
    data = Dataset(
        X,
        y,
        qid,
        docid,
        plan.feature_names,
        weight,
        position,
        NamedColumns(columns),
        sources=(location.file,),
        read_counts=faults.read_counts,
        lines=location.line_numbers(n_rows),
    )
    if faults.bad is None:
        return data
    return data.take(np.flatnonzero(~faults.bad))


def _force_storage(X: Any, options: ReadOptions) -> Any:
    """Convert to a dense array or CSR matrix where the options require one of them."""
    if options.dense is None or options.dense != sparse.issparse(X):
        return X
    if not options.dense:
        return sparse.csr_matrix(X)
    needed = X.shape[0] * X.shape[1] * X.dtype.itemsize
    if needed > options.memory_limit:
        raise LimitError(
            f"{X.shape[0]} dense rows of {X.shape[1]} features need {needed} bytes",
            parameter="dense",
            fix="Leave it out: sparse rows stay sparse",
        )
    return X.toarray()


def validate(batch: pa.RecordBatch, location: BatchLocation) -> None:
    """Run Arrow's own full check of offsets, lengths and UTF-8."""
    try:
        batch.validate(full=True)
    except pa.ArrowException as error:
        raise SchemaError(
            f"{location.part or 'the table'} holds invalid data: {error}",
            fix="The file is damaged; write it again",
        ) from error


def _dense_rows(
    batch: pa.RecordBatch,
    plan: ColumnPlan,
    faults: RowFaults,
    out: NDArray[Any] | None,
) -> NDArray[Any]:
    matrix = out
    if matrix is None:
        matrix = np.empty((batch.num_rows, len(plan.features)), dtype=plan.dtype)
    for j, name in enumerate(plan.features):
        matrix[:, j] = to_numbers(batch.column(name), name, faults, plan.dtype, missing=True)
    # One test of the whole matrix is much faster than one of each of its columns.
    if not all_finite(matrix):
        for j, name in enumerate(plan.features):
            refuse_not_finite(matrix[:, j], name, faults, missing=True)
    return matrix


def to_ids(array: pa.Array, name: str, faults: RowFaults) -> NDArray[Any]:
    """Convert ids of queries or documents to int64 or strings; nulls are refused."""
    value_type = _value_type(array)
    if not (pt.is_integer(value_type) or is_text(value_type)):
        raise SchemaError(
            f"id column {name!r} is of type {array.type}",
            fix="Cast ids to int64 or string",
            column=name,
        )
    return _to_discrete(array, name, faults)


def _value_type(array: pa.Array) -> pa.DataType:
    """Return the type of the values, whether or not they are dictionary-encoded."""
    if pt.is_dictionary(array.type):
        return array.type.value_type
    return array.type


def _to_discrete(array: pa.Array, name: str, faults: RowFaults) -> NDArray[Any]:
    """Convert integers or text, dictionary-encoded or not; nulls are refused."""
    if array.null_count or (pt.is_dictionary(array.type) and array.dictionary.null_count):
        faults.refuse(null_mask(array), name, "null value", _NULL_FIX)
    if not pt.is_dictionary(array.type):
        _check_view_expansion(array, name, faults.location)
        return _decode(array, name, faults.location)
    codes = pc.fill_null(array.indices, 0).to_numpy(zero_copy_only=False)
    if len(array.dictionary) == 0:  # then every row is null, and marked as bad
        return _decode(pa.nulls(len(codes), array.type.value_type), name, faults.location)
    _check_code_expansion(array.dictionary, codes, name, faults.location)
    return np.asarray(_decode(array.dictionary, name, faults.location)[codes])


# Few stored bytes can stand for one long text in every row: by the codes of a dictionary, or by
# views, which share their bytes. Such a column is refused before it is decoded.
def _check_view_expansion(texts: pa.Array, name: str, location: BatchLocation) -> None:
    if pt.is_string_view(texts.type):
        _check_text_bytes(int(_text_lengths(texts).sum()), name, location)


def without_views(texts: pa.Array, name: str, location: BatchLocation) -> pa.Array:
    """Return text in a type of which Arrow can take rows; other arrays unchanged."""
    if not pt.is_string_view(texts.type):
        return texts
    _check_view_expansion(texts, name, location)
    return texts.cast(pa.large_string())


def _check_code_expansion(
    texts: pa.Array, codes: NDArray[Any], name: str, location: BatchLocation
) -> None:
    if not is_text(texts.type):
        return
    lengths = _text_lengths(texts)
    if int(lengths.max(initial=0)) * len(codes) > MAX_TEXT_BYTES:  # else no sum can be too large
        _check_text_bytes(int(lengths[codes].sum()), name, location)


def _check_text_bytes(text_bytes: int, name: str, location: BatchLocation) -> None:
    if text_bytes > MAX_TEXT_BYTES:
        raise LimitError(
            f"column {name!r} expands to {text_bytes} bytes in {location.part or 'one block'}",
            fix="Shorten the texts, or read fewer rows at a time with block_rows",
            column=name,
        )


def _text_lengths(texts: pa.Array) -> NDArray[np.int64]:
    """Return the bytes of each text (any number for a null) without expanding any."""
    if pt.is_string_view(texts.type):  # a view starts with its length, in 32 bits
        views = np.frombuffer(texts.buffers()[1], dtype=np.int32).reshape(-1, 4)
        return views[texts.offset : texts.offset + len(texts), 0].astype(np.int64)
    lengths = pc.fill_null(pc.binary_length(texts), 0)
    return np.asarray(lengths.to_numpy(zero_copy_only=False).astype(np.int64))


def _decode(array: pa.Array, name: str, location: BatchLocation) -> NDArray[Any]:
    """Convert integers to int64, text to variable-width strings; fill nulls, marked before."""
    if is_text(array.type):
        filled = pc.fill_null(array.cast(pa.large_string()), "")
        return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=object).astype(TEXT)
    values = pc.fill_null(array, 0).to_numpy(zero_copy_only=False)
    if values.dtype == np.uint64 and len(values) and values.max() > np.iinfo(np.int64).max:
        row = int(np.argmax(values > np.iinfo(np.int64).max))
        raise location.error(
            row, name, f"id {values[row]} exceeds 2^63 - 1", "Store it as a string"
        )
    return writable(values.astype(np.int64, copy=False))


def _to_weights(array: pa.Array, name: str, faults: RowFaults) -> NDArray[np.float64]:
    values = to_floats(array, name, faults)
    faults.refuse(
        values < 0, name, lambda row: f"weight {values[row]} is negative", "Pass weights >= 0"
    )
    faults.refuse(
        beyond_weights(values),
        name,
        lambda row: f"weight {values[row]:g} is not between {LIGHTEST:g} and {HEAVIEST:g}",
        "Multiply all weights by one number",
    )
    return values


def _to_positions(array: pa.Array, name: str, faults: RowFaults) -> NDArray[np.int64]:
    """Convert positions, which count from 1; rows that are bad already are not checked again."""
    if not pt.is_integer(array.type):
        raise SchemaError(
            f"position column {name!r} is of type {array.type}",
            fix="Cast positions to integers",
            column=name,
        )
    values = _to_discrete(array, name, faults)
    too_low = values < 1
    if faults.bad is not None:
        too_low &= ~faults.bad
    faults.refuse(
        too_low,
        name,
        lambda row: f"position {values[row]} is below 1",
        "Positions count from 1: the topmost item shown has position 1",
    )
    return values


def to_values(
    array: pa.Array, name: str, faults: RowFaults, plan: ColumnPlan
) -> NDArray[Any] | CodedText:
    """Convert a column that is no feature: numbers, text, booleans or times.

    Missing numbers become NaN, missing times NaT, missing booleans None, missing text is empty.
    Columns that the plan names as categories or numbers have one type, whatever the file stores.
    """
    if name in plan.numbers:
        return to_numbers_or_nan(array, name, faults)
    if name in plan.categories:
        array = to_category_texts(array, name, faults)
    value_type = _value_type(array)
    if pt.is_null(value_type):
        faults.missing += len(array)
        return np.full(len(array), np.nan)
    if is_text(value_type):
        return _to_coded_text(array, name, faults, plan)
    if pt.is_dictionary(array.type):
        array = array.dictionary_decode()
    if is_number(value_type) and _any_missing(array):
        return _numbers_with_missing(array, name, faults)
    if pt.is_integer(value_type):
        return _to_discrete(array, name, faults)
    if pt.is_floating(value_type):
        values = to_numbers(array, name, faults, np.dtype(array.type.to_pandas_dtype()))
        return writable(refuse_not_finite(values, name, faults))
    if pt.is_boolean(value_type) or pt.is_timestamp(value_type) or pt.is_date(value_type):
        # A missing time is NaT: rows without an outcome have no time of one.
        faults.missing += array.null_count
        return writable(array.to_numpy(zero_copy_only=False))
    raise SchemaError(
        f"column {name!r} is of type {array.type}, which cannot be kept as a further column",
        fix="Use numbers, strings, booleans, dates or timestamps",
        column=name,
    )


def _to_coded_text(array: pa.Array, name: str, faults: RowFaults, plan: ColumnPlan) -> CodedText:
    """Convert text to codes; a dictionary that equals the last one is not decoded again."""
    if not pt.is_dictionary(array.type):
        _check_view_expansion(array, name, faults.location)
        array = array.cast(pa.large_string()).dictionary_encode()
    indices, dictionary = array.indices, array.dictionary
    codes = pc.fill_null(indices, 0).to_numpy(zero_copy_only=False).astype(np.int32)
    missing = null_mask(indices)
    if len(dictionary) > max(len(codes), 1):  # keep only the used part of a long dictionary
        used_codes, codes = np.unique(codes, return_inverse=True)
        dictionary = without_views(dictionary, name, faults.location).take(pa.array(used_codes))
        codes = codes.astype(np.int32)
    _check_view_expansion(dictionary, name, faults.location)
    # A short dictionary of long texts expands to much more than it takes in the file.
    if len(dictionary):
        _check_code_expansion(dictionary, codes, name, faults.location)
    last_dictionary, texts = plan.dictionaries.get(name, (None, []))
    if last_dictionary is None or not last_dictionary.equals(dictionary):
        # The empty text behind the others stands for missing values.
        texts = ["" if text is None else text for text in dictionary.to_pylist()] + [""]
        plan.dictionaries[name] = (dictionary, texts)
    # Arrow allows nulls in the indices and in the dictionary: both are missing.
    if dictionary.null_count:
        missing = missing | null_mask(dictionary)[codes]
    codes[missing] = len(texts) - 1
    faults.missing += int(missing.sum())
    return CodedText(codes, texts)


def _any_missing(array: pa.Array) -> bool:
    """Whether some numbers are null or NaN."""
    if array.null_count:
        return True
    if not pt.is_floating(array.type) or all_finite(array.to_numpy(zero_copy_only=False)):
        return False
    return bool(null_mask(array, nan_is_null=True).any())


def _numbers_with_missing(array: pa.Array, name: str, faults: RowFaults) -> NDArray[Any]:
    """Convert numbers of which some are missing; all others must be finite."""
    missing = null_mask(array, nan_is_null=True)
    faults.missing += int(missing.sum())
    # NumPy has no boolean that can be missing.
    if pt.is_boolean(array.type):
        return np.array(array.to_pylist(), dtype=object)
    stored = pc.fill_null(array, 0).to_numpy(zero_copy_only=False)
    values = exact_floats(stored, np.dtype(np.float64), name, faults)
    values = refuse_not_finite(np.where(missing, 0.0, values), name, faults)
    return np.where(missing, np.nan, values)


class ItemFaults(RowFaults):
    """Faults of list items, which are reported as faults of the rows that hold them."""

    def __init__(self, rows: RowFaults, pointer: NDArray[Any]) -> None:
        super().__init__(rows.location, rows.n_rows, skip=rows.skip)
        self.rows = rows
        self.pointer = pointer

    def refuse(
        self,
        bad: NDArray[Any],
        column: str,
        reason: str | Callable[[int], str],
        fix: str,
        error_type: type[DataError] = SchemaError,
    ) -> None:
        """Refuse the rows with an item where ``bad`` is true."""
        items = np.flatnonzero(bad)
        if len(items) == 0:
            return
        bad_rows = np.zeros(self.n_rows, dtype=np.bool_)
        # The row of an item is the last one that starts at or before it.
        bad_rows[np.searchsorted(self.pointer, items, side="right") - 1] = True
        text = reason if isinstance(reason, str) else reason(int(items[0]))
        self.rows.refuse(bad_rows, column, text, fix, error_type)


def _sparse_rows(
    batch: pa.RecordBatch, plan: ColumnPlan, options: ReadOptions, faults: RowFaults
) -> Any:
    """Build the CSR matrix of the two list columns of a batch."""
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
        # Where such rows are skipped, their items go, so that both lists have the same length.
        index_items = index_items.filter(pa.array(np.repeat(~unequal, sizes)))
        value_items = value_items.filter(pa.array(np.repeat(~unequal, value_sizes)))
        pointer = _make_pointer(np.where(unequal, 0, sizes))
    items = ItemFaults(faults, pointer)
    values = to_numbers(value_items, value_name, items, plan.dtype, missing=True)
    values = refuse_not_finite(values, value_name, items, missing=True)
    # A null index is reported above; the base stands in for it in rows that are skipped.
    if index_items.null_count:
        items.refuse(null_mask(index_items), index_name, "null index", "Remove the entry")
        index_items = pc.fill_null(index_items, options.base)
    faults.missing += items.missing
    indices = index_items.to_numpy(zero_copy_only=False)
    columns = _to_columns(indices, plan.n_features, options, items, index_name)
    width = plan.n_features
    if width is None:
        width = int(columns.max(initial=-1)) + 1
    return _canonical_csr(values, columns, pointer, width, items, index_name)


def _list_parts(array: pa.Array, name: str, faults: RowFaults) -> tuple[NDArray[Any], pa.Array]:
    """Return the row pointer (from 0) and the items of a list column; null lists are refused."""
    if array.null_count:
        fix = "Write an empty list for a row without features"
        faults.refuse(null_mask(array), name, "null list", fix)
        sizes = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        return _make_pointer(sizes), array.flatten()
    # A slice of a column keeps the offsets of the whole column.
    pointer = array.offsets.to_numpy(zero_copy_only=False)
    first, last = int(pointer[0]), int(pointer[-1])
    if first:
        pointer = pointer - pointer.dtype.type(first)
    return pointer, array.values.slice(first, last - first)


def _make_pointer(sizes: NDArray[Any]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64, copy=False)


def _to_columns(
    indices: NDArray[Any],
    n_features: int | None,
    options: ReadOptions,
    items: RowFaults,
    name: str,
) -> NDArray[np.int32]:
    """Check feature indices, which count from ``options.base``, and make them count from 0."""
    base = options.base
    limit_name, n_columns = "n_features", n_features
    if n_columns is None:
        limit_name, n_columns = "max_features", options.max_features
    if len(indices) and (indices.min() < base or indices.max() >= n_columns + base):
        too_low, too_high = indices < base, indices >= n_columns + base
        fix = "Indices must not be negative"
        if base:
            fix = "Set base to 0 if indices count from 0"
        items.refuse(
            too_low,
            name,
            lambda item: f"index {indices[item]} is below the declared base {base}",
            fix,
        )
        items.refuse(
            too_high,
            name,
            lambda item: f"index {indices[item]} (base {base}) is above {limit_name}={n_columns}",
            f"Raise {limit_name}, or declare the right base",
            LimitError,
        )
        # Only rows that are skipped come here; their indices must still be inside the matrix.
        indices = np.where(too_low | too_high, base, indices)
    columns = indices.astype(np.int32, copy=False)
    if base:
        columns = columns - np.int32(base)
    return columns


def _canonical_csr(
    values: NDArray[Any],
    columns: NDArray[np.int32],
    pointer: NDArray[Any],
    width: int,
    items: RowFaults,
    name: str,
) -> Any:
    """Build a canonical CSR matrix: unsorted rows are sorted, duplicate indices refused."""
    shape = (len(pointer) - 1, width)
    # Most files are sorted, and checking is cheaper than sorting.
    if not _any_unsorted(columns, pointer):
        return make_csr(writable(values), writable(columns), pointer, shape)
    matrix = sparse.csr_matrix((values.copy(), columns.copy(), pointer.copy()), shape=shape)
    matrix.sort_indices()
    duplicates = np.zeros(len(columns), dtype=np.bool_)
    duplicates[1:] = matrix.indices[1:] == matrix.indices[:-1]
    duplicates[pointer[:-1][np.diff(pointer) > 0]] = False  # the first item of each row
    items.refuse(
        duplicates,
        name,
        "the same index appears twice in a row",
        "Add the values up, or keep one of them",
    )
    return make_csr(matrix.data, matrix.indices, matrix.indptr, shape)


def _any_unsorted(columns: NDArray[np.int32], pointer: NDArray[Any]) -> bool:
    """Whether some row holds an index that does not exceed the one before it."""
    decreases = columns[1:] <= columns[:-1]
    # An index may be smaller than the one before it where a new row starts.
    starts = pointer[1:-1]
    decreases[starts[(starts > 0) & (starts < len(columns))] - 1] = False
    return bool(decreases.any())


def highest_index(array: pa.Array, options: ReadOptions) -> int:
    """Return the number of features that the lists need; bad indices are left to the reader."""
    indices = array.flatten().drop_null().to_numpy(zero_copy_only=False)
    indices = indices[indices < options.max_features + options.base]
    if not len(indices):
        return 0
    return max(0, int(indices.max()) - options.base + 1)
