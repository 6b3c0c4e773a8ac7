"""Split data frames of any library into values, names and an optional ``qid`` column.

pandas frames are read column by column (sparse columns become CSR). All others with Arrow's C
stream interface (polars, pyarrow, duckdb ...) are converted by Arrow. Categories, texts and
infinities are errors that name the column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.checks import reject_sets
from rankine.core.errors import DataError, RankineError, SchemaError, attach_file_to_errors
from rankine.data.dataset import all_finite
from rankine.data.sources import is_lazy

_QID_FIX = "Give every row a query id"
_TEXT_FIX = "Make it a categorical column, encode it as numbers, or leave it out"


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
    X = in_memory(X)
    if not is_frame(X):
        return FrameParts(X, None if names is None else tuple(names), None)
    features, qid = take_qid(X)
    column_names = _column_names(features) if names is None else tuple(names)
    matrix = _pandas_matrix(features) if _is_pandas(features) else _arrow_matrix(features)
    return FrameParts(matrix, column_names, qid)


#: Returns the record batches of some columns.
BatchReader = Callable[[Sequence[str]], Iterator[Any]]
#: Rows of a pandas frame that are converted at a time.
_PANDAS_ROWS = 2**18
#: Rows of a lazy frame that are computed at a time.
_LAZY_ROWS = 2**16


@contextmanager
def frame_batches(table: Any) -> Iterator[tuple[Any, BatchReader]]:
    """Open a pass over a frame or an Arrow stream: its schema, and a function that reads columns.

    Batches share memory with the frame where Arrow allows it. Other columns of pandas frames are
    converted piece by piece, and lazy frames of polars are computed in batches, so that no second
    frame is held in memory.
    """
    import pyarrow as pa

    with ExitStack() as stack, _frame_errors():
        if is_lazy(table):
            schema = table.collect_schema().to_frame().to_arrow().schema
            read: BatchReader = partial(_lazy_batches, table)
        elif hasattr(table, "read_next_batch"):
            schema, read = table.schema, lambda _: iter(table)
        elif hasattr(table, "scanner"):  # a dataset of Arrow
            schema = table.schema
            read = lambda columns: table.scanner(columns=list(columns)).to_batches()  # noqa: E731
        elif _is_pandas(table):
            schema = pa.Schema.from_pandas(table, preserve_index=False)
            read = partial(_pandas_batches, table, schema)
        else:
            reader = stack.enter_context(pa.RecordBatchReader.from_stream(table))
            schema, read = reader.schema, lambda _: iter(reader)
        yield schema, lambda columns: _checked_batches(read(columns))


@contextmanager
def _frame_errors() -> Iterator[None]:
    """Turn errors of the library that computes a table into errors about its rows."""
    try:
        yield
    except RankineError:
        raise
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise DataError(
            f"the table cannot be computed: {lines[0][:200]}",
            fix="Compute it on its own to see where: collect() it, or write it to Parquet",
        ) from error


def _checked_batches(batches: Iterator[Any]) -> Iterator[Any]:
    while True:
        with _frame_errors():
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def _lazy_batches(table: Any, columns: Sequence[str]) -> Iterator[Any]:
    """Compute columns of a lazy frame of polars, batch by batch where its version can."""
    table = table.select(columns)
    frames = [table]
    if hasattr(table, "collect_batches"):
        frames = table.collect_batches(chunk_size=_LAZY_ROWS, maintain_order=True)
    for frame in frames:
        yield from frame.lazy().collect().to_arrow().to_batches()


def _pandas_batches(table: Any, schema: Any, columns: Sequence[str]) -> Iterator[Any]:
    import pyarrow as pa

    chosen = table.loc[:, list(columns)]
    schema = pa.schema([schema.field(name) for name in columns])
    for start in range(0, len(table), _PANDAS_ROWS):
        rows = chosen.iloc[start : start + _PANDAS_ROWS]
        # A table, since text may be in chunks already.
        yield from pa.Table.from_pandas(rows, schema=schema, preserve_index=False).to_batches()


def in_memory(X: Any) -> Any:
    """Return a table in memory for a lazy frame, a reader or a query; anything else unchanged."""
    if is_lazy(X):
        with _frame_errors():
            return X.collect()
    if hasattr(X, "scanner"):
        with _frame_errors():
            return X.to_table()
    # Frames of polars hold their rows; relations of DuckDB also have to_arrow_table.
    if not hasattr(X, "__arrow_c_stream__") or _is_pandas(X) or hasattr(X, "estimated_size"):
        return X
    import pyarrow as pa

    if isinstance(X, pa.Table | pa.RecordBatch):
        return X
    # A query would be computed again whenever it is read.
    with _frame_errors():
        return pa.table(X)


def to_table(X: Any) -> Any:
    """Return a frame as a table of Arrow, which shares its memory where Arrow allows it."""
    import pyarrow as pa

    if _is_pandas(X):
        return pa.Table.from_pandas(X, preserve_index=False)
    return pa.table(X)


def category_columns(X: Any) -> list[str]:
    """Return the names of the categorical and dictionary columns of a frame."""
    if not is_frame(X):
        return []
    if _is_pandas(X):
        return [
            str(name)
            for name, dtype in zip(X.columns, X.dtypes, strict=True)
            if hasattr(dtype, "categories") and name != "qid"
        ]
    import pyarrow as pa

    with frame_batches(X) as (schema, _):
        return [
            column.name
            for column in schema
            if pa.types.is_dictionary(column.type) and column.name != "qid"
        ]


def is_frame(X: Any) -> bool:
    """Whether ``X`` is a table with named columns."""
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
