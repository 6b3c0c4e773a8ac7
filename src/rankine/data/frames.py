"""Split data frames of any library into values, names and an optional ``qid`` column.

pandas frames are read column by column (sparse columns become CSR). All others with Arrow's C
stream interface (polars, pyarrow, duckdb ...) are converted by Arrow. Categories, texts and
infinities are errors that name the column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.checks import reject_sets
from rankine.core.errors import DataError, SchemaError, attach_file_to_errors
from rankine.data.dataset import all_finite
from rankine.data.sources import is_lazy

_QID_FIX = "Give every row a query id"
_TEXT_FIX = "Encode it as numbers first, or leave the column out"


class FrameParts(NamedTuple):
    """A matrix, its column names or None, and the query ids of its ``qid`` column or None."""

    values: Any
    names: tuple[str, ...] | None
    qid: Any


def split_frame(X: Any, names: Sequence[str] | None = None) -> FrameParts:
    """Separate a frame's ``qid`` column from its features; return other inputs unchanged.

    The matrix is float32 if every column is, else float64. ``names`` replace the column names.
    """
    reject_sets(feature_names=names)
    if not is_frame(X):
        return FrameParts(X, None if names is None else tuple(names), None)
    features, qid = take_qid(X)
    column_names = _column_names(features) if names is None else tuple(names)
    matrix = _pandas_matrix(features) if _is_pandas(features) else _arrow_matrix(features)
    return FrameParts(matrix, column_names, qid)


@contextmanager
def frame_batches(table: Any) -> Iterator[tuple[Any, Iterator[Any]]]:
    """Open a pass over a frame or an Arrow stream: its schema, and its record batches.

    Batches share memory with the frame where Arrow allows it. Lazy frames of polars are computed
    in batches.
    """
    import pyarrow as pa

    if is_lazy(table):
        yield table.collect_schema().to_frame().to_arrow().schema, _lazy_batches(table)
    elif hasattr(table, "read_next_batch"):
        yield table.schema, iter(table)
    else:
        if _is_pandas(table):
            table = pa.Table.from_pandas(table, preserve_index=False)
        with pa.RecordBatchReader.from_stream(table) as reader:
            yield reader.schema, iter(reader)


def _lazy_batches(table: Any) -> Iterator[Any]:
    """Compute a lazy frame of polars batch by batch, where its version can."""
    frames = [table] if not hasattr(table, "collect_batches") else table.collect_batches()
    try:
        for frame in frames:
            yield from frame.lazy().collect().to_arrow().to_batches()
    except Exception as error:
        raise DataError(
            f"the lazy frame cannot be computed: {error}", fix="Call collect() on it to see where"
        ) from error


def is_frame(X: Any) -> bool:
    """Whether ``X`` is a table with named columns."""
    if is_lazy(X):
        raise SchemaError("a lazy frame holds no rows yet", fix="Call collect() on it first")
    tables = ("columns", "column_names", "schema")
    return _is_pandas(X) or (
        hasattr(X, "__arrow_c_stream__") and any(hasattr(X, name) for name in tables)
    )


def take_qid(X: Any) -> tuple[Any, Any]:
    """Return a frame without its ``qid`` column, and that column, or None if it has none."""
    if not is_frame(X) or "qid" not in _names_of(X):
        return X, None
    if _is_pandas(X):
        return X.drop(columns=["qid"]), _pandas_ids(X["qid"])
    if hasattr(X, "drop"):
        return X.drop(["qid"]), _arrow_ids(X)
    return _arrow_table(X).drop(["qid"]), _arrow_ids(X)


def _is_pandas(X: Any) -> bool:
    return hasattr(X, "iloc") and hasattr(X, "columns") and hasattr(X, "dtypes")


def _names_of(X: Any) -> list[Any]:
    """Return the column names of a pandas, polars or pyarrow table."""
    if hasattr(X, "column_names"):
        return list(X.column_names)
    arrow = getattr(getattr(X, "schema", None), "names", None)
    return list(arrow if isinstance(arrow, list) else getattr(X, "columns", ()))


def _column_names(X: Any) -> tuple[str, ...] | None:
    """Return names that are strings, which must be distinct; None for columns that are numbered."""
    names = _names_of(X)
    if not all(isinstance(name, str) for name in names):
        return None
    for k, name in enumerate(names):
        if name in names[:k]:
            raise SchemaError(f"two columns are called {name!r}", fix="Rename one", column=name)
    return tuple(names)


# ---------------------------------------------------------------------- pandas
def _pandas_matrix(frame: Any) -> Any:
    dtypes = list(frame.dtypes)
    if dtypes and all(hasattr(dtype, "fill_value") for dtype in dtypes):  # sparse columns
        if any(dtype.fill_value != 0 for dtype in dtypes):
            raise SchemaError(
                "sparse columns must have 0 as their fill value", fix="Convert them to dense"
            )
        return frame.sparse.to_coo().tocsr()
    columns = [_pandas_column(frame.iloc[:, j], name) for j, name in enumerate(frame.columns)]
    return _stack(columns, list(frame.columns), len(frame))


def _pandas_column(series: Any, name: Any) -> NDArray[Any]:
    dtype = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "fiub":
        return np.asarray(series.to_numpy())
    if getattr(dtype, "kind", "O") not in "fiub":
        raise _error(f"column is of type {dtype}, not a number", str(name), _TEXT_FIX)
    # Extension types, such as nullable integers.
    if series.isna().any():
        return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(series.to_numpy(dtype=getattr(dtype, "numpy_dtype", np.float64)))


def _pandas_ids(series: Any) -> NDArray[Any]:
    if series.isna().any():
        row = int(np.argmax(series.isna().to_numpy()))
        raise _error(f"row {row} is missing", "qid", _QID_FIX)
    if hasattr(series.dtype, "categories"):
        categories = np.asarray(series.cat.categories)
        return np.asarray(categories[series.cat.codes.to_numpy()])
    return np.asarray(series.to_numpy())


# ----------------------------------------------------------------------- Arrow
def _arrow_table(X: Any) -> Any:
    import pyarrow as pa

    return pa.table(X).combine_chunks()


def _arrow_matrix(X: Any) -> NDArray[Any]:
    from pyarrow import types as pt

    from rankine.data.readers.values import BatchLocation, RowFaults, is_number, to_numbers

    table = _arrow_table(X)
    is_narrow = all(pt.is_float32(t) or pt.is_float16(t) for t in table.schema.types)
    dtype = np.dtype(np.float32 if is_narrow else np.float64)
    faults = RowFaults(BatchLocation("data frame"), table.num_rows, skip=False)
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if not is_number(column.type):
            raise _error(f"column is of type {column.type}, not a number", name, _TEXT_FIX)
        columns.append(to_numbers(_one_chunk(column), name, faults, dtype, missing=True))
    return _stack(columns, table.column_names, table.num_rows)


def _one_chunk(column: Any) -> Any:
    import pyarrow as pa

    return column.chunk(0) if column.num_chunks else pa.array([], type=column.type)


def _refuse_nulls(array: Any, name: str, fix: str) -> Any:
    if array.null_count:
        row = int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
        raise _error(f"row {row} is missing", name, fix)
    return array


def _arrow_ids(X: Any) -> NDArray[Any]:
    from rankine.data.readers.columns import to_ids
    from rankine.data.readers.values import BatchLocation, RowFaults

    column = _arrow_table(X).column("qid")
    array = _refuse_nulls(_one_chunk(column), "qid", _QID_FIX)
    with attach_file_to_errors("data frame"):
        return to_ids(array, "qid", RowFaults(BatchLocation("data frame"), len(column), skip=False))


def _stack(columns: list[NDArray[Any]], names: Sequence[Any], n_rows: int) -> NDArray[Any]:
    """Copy columns into one C-ordered array; float32 only if every column is float32."""
    is_narrow = bool(columns) and all(column.dtype == np.float32 for column in columns)
    matrix = np.empty((n_rows, len(columns)), dtype=np.float32 if is_narrow else np.float64)
    for j, column in enumerate(columns):
        matrix[:, j] = column
    if not all_finite(matrix) and np.isinf(matrix).any():
        row, j = np.argwhere(np.isinf(matrix))[0]
        raise _error(f"row {row} is {matrix[row, j]}", str(names[j]), "Store finite numbers")
    return matrix


def _error(reason: str, column: str, fix: str) -> SchemaError:
    return SchemaError(reason, fix=fix, file="data frame", column=column)
