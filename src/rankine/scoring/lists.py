"""Lists as callers hold them, checked and handed to the kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankine.core.errors import FeatureMismatchError, SchemaError
from rankine.core.safe_text import printable
from rankine.kernels.list_range import list_range_values
from rankine.kernels.rows import CsrRows
from rankine.scoring.kernels import (
    BAD_INDEX,
    NOT_FINITE,
    OK,
    array_scores,
    hashed_scores,
)
from rankine.scoring.lookup import DenseTable, Table

if TYPE_CHECKING:
    from rankine.model import LinearModel

__all__ = ["Parts", "check_group", "csr_parts", "own", "refuse_scores", "run_csr", "scale_parts"]


class Parts(NamedTuple):
    """Compressed rows."""

    indptr: NDArray[Any]
    indices: NDArray[Any]
    data: NDArray[Any]


def own(array: NDArray[Any]) -> NDArray[Any]:
    """C-ordered and writable: one compiled form of every kernel serves all callers."""
    return array if array.flags.carray else np.array(array, order="C")


def csr_parts(rows: Any, n_features: int) -> Parts:
    """The three arrays of compressed rows, of types the kernels know; scipy is not needed."""
    if getattr(rows, "format", "csr") != "csr":
        rows = rows.tocsr()
    shape = getattr(rows, "shape", None)
    if shape is not None and (len(shape) != 2 or shape[1] != n_features):
        raise FeatureMismatchError(
            f"rows of shape {tuple(shape)} for a model of {n_features} features",
            fix="Read the data with the model's n_features",
        )
    indptr, indices, data = rows.indptr, rows.indices, rows.data
    try:  # what scipy holds, nearly always
        if (
            indptr.dtype is indices.dtype
            and indices.dtype.char in "il"
            and data.dtype.char in "df"
            and indptr.flags.carray
            and indices.flags.carray
            and data.flags.carray
            and len(indptr)
        ):
            return Parts(indptr, indices, data)
    except AttributeError:
        pass
    if type(indptr) is not np.ndarray or indptr.dtype.char not in "il" or len(indptr) == 0:
        indptr = _integers(indptr, "indptr")
    if type(indices) is not np.ndarray or indices.dtype.char not in "il":
        indices = _integers(indices, "indices")
    if type(data) is not np.ndarray or data.dtype.char not in "df":
        data = np.asarray(data, dtype=np.float64)
    if indptr.dtype != indices.dtype:
        indptr, indices = indptr.astype(np.int64), indices.astype(np.int64)
    return Parts(own(indptr), own(indices), own(data))


def run_csr(
    parts: Parts, table: Table, model: LinearModel, starts: NDArray[np.int64] | None
) -> NDArray[np.float64]:
    """Scores of compressed rows; with ``starts``, each feature is divided by its list's range."""
    scores = np.empty(len(parts.indptr) - 1)
    n_features = model.n_features
    code = _weigh(parts, table, n_features, scores)  # checks every offset and index
    if starts is not None and code in (OK, NOT_FINITE):
        code = _weigh(scale_parts(parts, n_features, starts), table, n_features, scores)
    if code == NOT_FINITE:
        refuse_scores(model, parts, scores)
    if code != OK:
        what = "an index lies outside the features" if code == BAD_INDEX else "offsets are broken"
        raise FeatureMismatchError(
            f"compressed rows do not fit a model of {n_features} features: {what}",
            fix="Read the data with the model's n_features and index base",
        )
    return scores


def _weigh(parts: Parts, table: Table, n_features: int, scores: NDArray[np.float64]) -> int:
    if isinstance(table, DenseTable):
        return int(array_scores(*parts, table.values, scores))
    keys, values, shift = table
    return int(hashed_scores(*parts, keys, values, int(shift), n_features, scores))


def scale_parts(parts: Parts, n_features: int, starts: NDArray[np.int64]) -> Parts:
    """Each feature divided by its list's range; offsets and indices have been checked."""
    return parts._replace(data=list_range_values(CsrRows(*parts), n_features, starts))


def check_group(group: ArrayLike | None, n_rows: int) -> NDArray[np.int64]:
    """Starts of consecutive lists of the given sizes; None is one list."""
    if group is None:
        return np.array([0, n_rows], dtype=np.int64)
    sizes = _integers(group, "group")
    if sizes.ndim != 1 or (sizes < 0).any() or int(sizes.sum()) != n_rows:
        raise SchemaError(
            f"group sizes add up to {int(sizes.sum())} for {n_rows} rows",
            fix="Pass the number of rows of each list, in order",
        )
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def refuse_scores(model: LinearModel, rows: Any, scores: NDArray[np.float64]) -> NoReturn:
    """Name the row, and the feature where there is one, that makes a score NaN or infinite."""
    i = int(np.flatnonzero(~np.isfinite(scores))[0])
    if isinstance(rows, Parts):
        span = slice(int(rows.indptr[i]), int(rows.indptr[i + 1]))
        columns, values = rows.indices[span], rows.data[span]
    elif isinstance(rows, np.ndarray):
        columns, values = np.arange(rows.shape[1]), rows[i]
    else:
        columns, values = np.zeros(0, dtype=np.int64), np.zeros(0)
    bad = np.flatnonzero(~np.isfinite(values))
    where = ""
    if len(bad):
        j = int(columns[bad[0]])
        name = model.feature_names[j] if model.feature_names is not None else str(j + model.base)
        where = f": feature {printable(name)!r} is {values[bad[0]]}"
    raise SchemaError(
        f"the score of row {i} is {scores[i]}{where}",
        fix="Impute missing values and bound huge ones as in training",
    )


def _integers(values: Any, name: str) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.ndim != 1 or (name == "indptr" and not len(array)):
        raise SchemaError(f"{name} must be a list of whole numbers", fix="Pass integers")
    return array.astype(np.int64)
