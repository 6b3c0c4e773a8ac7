"""Data frames of any library, split into values, names and an optional ``qid`` column.

pandas is read column by column (sparse columns become CSR); everything else that speaks Arrow's
C stream interface (polars, pyarrow, duckdb ...) goes through Arrow. A missing value, a category
or a text is an error that names the column and what to do about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.checks import reject_sets
from rankine.core.errors import SchemaError, attach_file_to_errors
from rankine.data.dataset import all_finite

_QID_FIX = "Give every row a query id"
_TEXT_FIX = "Encode it as numbers first, or leave the column out"


class FrameParts(NamedTuple):
    """A matrix, its column names, and the query ids found in it."""

    values: Any
    names: tuple[str, ...] | None
    qid: Any


def split_frame(X: Any, names: Sequence[str] | None = None) -> FrameParts:
    """Separate a frame's ``qid`` column from its features; other inputs pass through.

    The matrix is float32 if every column is, else float64. ``names`` replace those of the frame.
    """
    reject_sets(feature_names=names)
    if not is_frame(X):
        return FrameParts(X, None if names is None else tuple(names), None)
    features, qid = take_qid(X)
    found = _column_names(features) if names is None else tuple(names)
    matrix = _pandas_matrix(features) if _is_pandas(features) else _arrow_matrix(features)
    return FrameParts(matrix, found, qid)


def is_frame(X: Any) -> bool:
    """Whether ``X`` is a table with named columns."""
    if hasattr(X, "collect_schema") and not hasattr(X, "__arrow_c_stream__"):
        raise SchemaError("a lazy frame holds no rows yet", fix="Call collect() on it first")
    tables = ("columns", "column_names", "schema")
    return _is_pandas(X) or (
        hasattr(X, "__arrow_c_stream__") and any(hasattr(X, name) for name in tables)
    )


def take_qid(X: Any) -> tuple[Any, Any]:
    """A frame without its ``qid`` column, and that column; ``(X, None)`` when there is none."""
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
    """Names of the columns of a pandas, polars or pyarrow table."""
    if hasattr(X, "column_names"):
        return list(X.column_names)
    arrow = getattr(getattr(X, "schema", None), "names", None)
    return list(arrow if isinstance(arrow, list) else getattr(X, "columns", ()))


def _column_names(X: Any) -> tuple[str, ...] | None:
    """String names, each once; numbers in their place are no names."""
    found = _names_of(X)
    if not all(isinstance(name, str) for name in found):
        return None
    for k, name in enumerate(found):
        if name in found[:k]:
            raise SchemaError(f"two columns are called {name!r}", fix="Rename one", column=name)
    return tuple(found)


# ---------------------------------------------------------------------- pandas
def _pandas_matrix(frame: Any) -> Any:
    kinds = list(frame.dtypes)
    if kinds and all(hasattr(kind, "fill_value") for kind in kinds):  # pandas' sparse columns
        if any(kind.fill_value != 0 for kind in kinds):
            raise SchemaError(
                "sparse columns must have 0 as their fill value", fix="Convert them to dense"
            )
        return frame.sparse.to_coo().tocsr()
    columns = [_pandas_column(frame.iloc[:, j], name) for j, name in enumerate(frame.columns)]
    return _stack(columns, list(frame.columns), len(frame))


def _pandas_column(series: Any, name: Any) -> NDArray[Any]:
    kind = series.dtype
    if isinstance(kind, np.dtype) and kind.kind in "fiub":
        return np.asarray(series.to_numpy())
    label = str(name)
    if getattr(kind, "kind", "O") not in "fiub":
        raise _error(f"column is of type {kind}, not a number", label, _TEXT_FIX)
    if series.isna().any():
        return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(series.to_numpy(dtype=getattr(kind, "numpy_dtype", np.float64)))


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
    narrow = all(pt.is_float32(kind) or pt.is_float16(kind) for kind in table.schema.types)
    dtype = np.dtype(np.float32 if narrow else np.float64)
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
    """Column-wise copy into one C-ordered array; float32 only if every column is float32."""
    narrow = bool(columns) and all(column.dtype == np.float32 for column in columns)
    matrix = np.empty((n_rows, len(columns)), dtype=np.float32 if narrow else np.float64)
    for j, column in enumerate(columns):
        matrix[:, j] = column
    if not all_finite(matrix) and np.isinf(matrix).any():
        row, j = np.argwhere(np.isinf(matrix))[0]
        raise _error(f"row {row} is {matrix[row, j]}", str(names[j]), "Store finite numbers")
    return matrix


def _error(reason: str, column: str, fix: str) -> SchemaError:
    return SchemaError(reason, fix=fix, file="data frame", column=column)
