"""User input as datasets: arrays, sparse matrices, data frames, query ids, weights, eval sets.

scikit-learn's validation stores ``n_features_in_`` and ``feature_names_in_`` on the estimator that
it is given. ``fit`` passes a copy of the ranker here, so that a failed fit leaves the ranker as it
was; ``predict`` and ``score`` pass the ranker itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import validate_data

from rankine.core.errors import EmptyDataError, FeatureMismatchError, ParameterError, SchemaError
from rankine.core.user_warnings import warn_user
from rankine.data.compressed import check_sparse
from rankine.data.dataset import (
    Dataset,
    check_matrix,
    check_weight,
    concat,
    require_rows,
)
from rankine.data.frames import in_memory, is_frame, split_frame, take_qid
from rankine.data.query_index import QueryIndex
from rankine.rankers.sources import PartitionSource, StreamSource, classify
from rankine.solvers.base import Callback

if TYPE_CHECKING:
    from pathlib import Path

    from rankine.core.edits import Edit
    from rankine.logs.encoding import LogRecord
    from rankine.rankers.base import BaseRanker

#: A single list with more rows than this rather suggests forgotten query ids.
_LONG_LIST = 1_000


@dataclass(frozen=True, kw_only=True)
class FitArguments:
    """Arguments of ``fit``, ``partial_fit``, ``path`` and ``edit``; see ``BaseRanker.fit``."""

    X: Any
    y: ArrayLike | None = None
    qid: ArrayLike | None = None
    group: ArrayLike | None = None
    sample_weight: ArrayLike | None = None
    query_weight: Any = None
    eval_set: Any = None
    eval_names: Sequence[str] | None = None
    eval_qid: Any = None
    eval_group: Any = None
    eval_query_weight: Any = None
    coef_init: Any = None
    callbacks: Sequence[Callback] = ()
    checkpoint: str | Path | None = None
    every: int = 100_000
    resume: bool = False
    intervals: bool = False
    bootstrap: int | None = None
    #: Entries to fix in the last fit or in ``coef_init``.
    edit: Edit | None = None


class InputsMixin:
    """What a ranker may change in how its rows are read."""

    def _keeps_column_storage(self, X: Any) -> bool:  # noqa: ARG002
        """Return whether a matrix that is stored by columns is used as it is."""
        return False

    def _align_columns(
        self,
        data: Dataset,
        columns: FittedColumns,
        log_record: LogRecord | None,  # noqa: ARG002
    ) -> Dataset:
        """Return a dataset with the columns of a fit, or raise."""
        return columns.align(data, type(self).__name__)


@dataclass(frozen=True, eq=False)
class FittedColumns:
    """The columns that a ranker is fitted to."""

    n_features: int = 0
    names: NDArray[Any] | None = None

    @classmethod
    def from_estimator(cls, estimator: BaseRanker) -> FittedColumns:
        """Return the columns that validation stored on an estimator."""
        return cls(estimator.n_features_in_, getattr(estimator, "feature_names_in_", None))

    def store(self, estimator: BaseRanker) -> None:
        """Store the columns on an estimator, as scikit-learn's validation does."""
        estimator.n_features_in_ = self.n_features
        if self.names is not None:
            estimator.feature_names_in_ = self.names
        elif hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_

    def number(self, column: Any) -> int:
        """Return the number of a column that is given by name or number."""
        if self.names is None and isinstance(column, str) and column.isdecimal():
            column = int(column)  # a key of a mapping on the command line or in a model
        if isinstance(column, str):
            matches = [] if self.names is None else np.flatnonzero(self.names == column).tolist()
            if not matches:
                raise ParameterError(
                    f"no column is called {column!r}", fix="Check the spelling, or pass its number"
                )
            return int(matches[0])
        # True and 1.5 would be read as column 1.
        if isinstance(column, bool) or not isinstance(column, Integral):
            raise ParameterError(
                f"{column!r} is not a column", fix="Pass the name or the number of a column"
            )
        if not 0 <= int(column) < self.n_features:
            raise ParameterError(f"column {column} of {self.n_features}", fix="Count from 0")
        return int(column)

    def require_names(self, names: Sequence[str] | None) -> None:
        """Raise if names are given and differ from the names of these columns."""
        if self.names is None or names is None:
            return
        for column, (name, fitted_name) in enumerate(zip(names, self.names, strict=False)):
            if name != fitted_name:
                raise FeatureMismatchError(
                    f"column {column} is {name!r} here and {fitted_name!r} in the fit",
                    fix="Give the columns in the order of the fit",
                )

    def align(self, data: Dataset, ranker: str) -> Dataset:
        """Return a dataset with its matrix stored by rows; raise unless it has these columns.

        ``ranker`` is the name of the fitted class in the error.
        """
        if data.n_features != self.n_features:
            raise FeatureMismatchError(
                f"X has {data.n_features} features, but {ranker} is expecting "
                f"{self.n_features} features as input",
                fix=f"Read the data with n_features={self.n_features}",
            )
        self.require_names(data.feature_names)
        matrix = _by_rows(data.X)
        return data if matrix is data.X else replace(data, X=matrix)


def columns_of_source(n_features: int, names: Sequence[str] | None) -> FittedColumns:
    """Return the columns of a data set, stream or partitions."""
    return FittedColumns(n_features, None if names is None else np.asarray(names, dtype=object))


def _by_rows(matrix: Any) -> Any:
    """Return a matrix stored by rows."""
    return matrix.tocsr() if getattr(matrix, "format", "") == "csc" else matrix


def read_matrix(estimator: BaseRanker, X: Any, *, reset: bool) -> tuple[Any, Any]:
    """Return a checked float matrix, NaN where a value is missing, and a data frame's query ids."""
    if is_frame(X):
        values, names, qid = split_frame(X)
        # Names alone: the values are checked below, with the column in the error.
        validate_data(estimator, take_qid(X)[0], reset=reset, skip_check_array=True)
        if 0 in values.shape:
            what = "sample" if len(values) == 0 else "feature"
            raise EmptyDataError(
                f"a frame with 0 {what}(s) (shape={values.shape}) while a minimum of 1 is required",
                fix="Check how its rows and columns were chosen",
            )
        return check_matrix(values, names, infinite=estimator.takes_missing), qid
    if isinstance(X, (list, tuple)):
        # As objects, so that NumPy turns no mixture of numbers and texts into texts.
        X = np.asarray(X, dtype=object)
    if sparse.issparse(X):
        X = check_sparse(X)
    if getattr(getattr(X, "dtype", None), "kind", "f") in "OmM" and X.ndim == 2 and X.size:
        check_matrix(X, infinite=estimator.takes_missing)  # scikit-learn takes times as numbers
    try:
        matrix = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
            ensure_all_finite="allow-nan",
        )
    except (TypeError, ValueError, OverflowError) as error:
        if np.ndim(X) == 2 and np.size(X):
            # Our own check names the row and column of the bad value.
            try:
                check_matrix(X)
            except SchemaError as located:
                raise located from error
        raise
    return matrix, None


def read_rows(
    estimator: BaseRanker,
    X: Any,
    y: Any,
    qid: Any = None,
    group: Any = None,
    sample_weight: Any = None,
    *,
    reset: bool,
    keep_columns: bool = False,
) -> Dataset:
    """Return labelled rows as a dataset; with ``reset`` they define the columns.

    With ``keep_columns`` a matrix that is stored by columns is used as it is.
    """
    if isinstance(X, Dataset):
        if y is not None or qid is not None or group is not None:
            raise ParameterError("a Dataset already holds y and qid", fix="Pass the Dataset alone")
        if reset:
            columns_of_source(X.n_features, X.feature_names).store(estimator)
        weight = X.weight if sample_weight is None else check_weight(sample_weight, X.n_rows)
        matrix = X.X if keep_columns else _by_rows(X.X)
        return require_rows(replace(X, X=matrix, weight=weight, query_index=X.queries))
    X = in_memory(X)
    if y is None:
        raise SchemaError("requires y to be passed, but the target y is None", fix="Pass labels")
    rows: Any = X
    if keep_columns:
        # Only the shape is checked here, since the matrix is used as it is stored.
        rows = sparse.csr_array(X.shape, dtype=X.dtype)
    matrix, frame_qid = read_matrix(estimator, rows, reset=reset)
    if qid is None and group is None:
        qid = frame_qid
        if qid is None and reset:
            _warn_of_several_lists(matrix, getattr(estimator, "feature_names_in_", None))
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        warn_user(
            "A column-vector y was passed when a 1d array was expected.", DataConversionWarning
        )
        labels = labels.ravel()
    data = Dataset.from_arrays(
        matrix,
        labels,
        qid,
        group=group,
        feature_names=getattr(estimator, "feature_names_in_", None),
        weight=sample_weight,
        infinite=estimator.takes_missing,
    )
    return replace(data, X=X, query_index=data.queries) if keep_columns else data


def _warn_of_several_lists(matrix: Any, names: Any) -> None:
    """Warn if rows without query ids look like several lists.

    They do if they are many, if a column could be the query ids (whole numbers of which each fills
    consecutive rows), or if scikit-learn's cross-validation was given groups.
    """
    n_rows = matrix.shape[0]
    column = None
    if not sparse.issparse(matrix):
        column = next((j for j in range(matrix.shape[1]) if _is_like_ids(matrix[:, j])), None)
    if column is None and n_rows <= _LONG_LIST and not _is_split_by_groups():
        return
    text = f"{n_rows:,} rows came without query ids and are ranked as one list"
    if column is not None:
        name = f"column {column}" if names is None else repr(str(names[column]))
        text += f", and {name} looks like query ids"
    warn_user(
        f"{text}. If they are several lists, pass qid= or group=; scikit-learn's cross-validation "
        "passes groups= to the splitter only, and qid with metadata routing"
    )


def _is_split_by_groups() -> bool:
    """Return whether this is a fit of scikit-learn's cross-validation, which was given groups."""
    frame: Any = inspect.currentframe()
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("sklearn.model_selection"):
            values = {**(frame.f_locals.get("params") or {}), **frame.f_locals}
            if values.get("groups") is not None:
                return True
        frame = frame.f_back
    return False


def _is_like_ids(values: NDArray[Any]) -> bool:
    """Return whether each value is a whole number and fills consecutive rows, two or more."""
    n_changes = np.count_nonzero(values[1:] != values[:-1])
    # Three values at least: two are also what a sorted flag looks like.
    if not 3 <= n_changes + 1 <= len(values) // 2 or not np.all(values == np.floor(values)):
        return False
    return len(np.unique(values)) == n_changes + 1


def read_query_index(X: Any, qid: Any, group: Any, n_rows: int) -> QueryIndex | None:
    """Return the queries of the rows of ``X``; None if they have no ids."""
    if isinstance(X, Dataset):
        if qid is not None or group is not None:
            raise ParameterError("a Dataset already holds qid", fix="Pass the Dataset alone")
        return X.queries
    if qid is not None and group is not None:
        raise SchemaError("both qid and group were given", fix="Pass one of them")
    if group is not None:
        return QueryIndex.from_group(group, n_rows)
    if qid is None:
        qid = take_qid(X)[1]
    return None if qid is None else QueryIndex.from_qid(qid, n_rows)


# ------------------------------------------------------------------------- evaluation sets
class EvalSet(NamedTuple):
    """Held-out rows, their name in ``evals_`` and the weights of their queries."""

    name: str
    data: Dataset
    query_weight: Any


def read_eval_sets(
    estimator: BaseRanker,
    arguments: FitArguments,
    align: Callable[[Dataset], Dataset],
    *,
    needs_query_ids: bool,
) -> list[EvalSet]:
    """Return the evaluation sets, held in memory; ``align`` gives them the columns of the fit."""
    sets, names = arguments.eval_set, arguments.eval_names
    options = {
        "eval_qid": arguments.eval_qid,
        "eval_group": arguments.eval_group,
        "eval_query_weight": arguments.eval_query_weight,
    }
    if sets is None:
        if names is None and all(value is None for value in options.values()):
            return []
        raise ParameterError(
            "eval_names, eval_qid, eval_group and eval_query_weight belong to an eval_set",
            parameter="eval_set",
            fix="Pass it, or leave them out",
        )
    # A mapping names its sets; anything else than a list is a single set.
    if isinstance(sets, Mapping):
        names, sets = list(sets), list(sets.values())
    if not isinstance(sets, list):
        sets = [sets]
    if not sets:
        raise ParameterError("the list is empty", parameter="eval_set", fix="Pass a set, or None")
    if names is None:
        names = [f"valid_{k}" for k in range(len(sets))]
    if len(set(names)) != len(sets):
        raise ParameterError(
            f"{len(sets)} eval sets have the names {names}",
            parameter="eval_names",
            fix="Pass a different name for each set",
        )
    qids, groups, query_weights = (
        _one_per_set(name, value, len(sets)) for name, value in options.items()
    )
    eval_sets = []
    for k, one_set in enumerate(sets):
        data = _read_eval_set(
            estimator, one_set, qids[k], groups[k], align, needs_query_ids=needs_query_ids
        )
        eval_sets.append(EvalSet(names[k], data, query_weights[k]))
    return eval_sets


def _read_eval_set(
    estimator: BaseRanker,
    eval_set: Any,
    qid: Any,
    group: Any,
    align: Callable[[Dataset], Dataset],
    *,
    needs_query_ids: bool,
) -> Dataset:
    if isinstance(eval_set, Dataset):
        return align(eval_set)
    source_type = classify(eval_set)
    if source_type is StreamSource:
        return align(concat(eval_set))
    if source_type is PartitionSource:
        raise ParameterError(
            "evaluation data is held in memory and cannot be partitions",
            parameter="eval_set",
            fix="Pass rankine.load(...)",
        )
    X, y, *more = eval_set
    if more:
        if len(more) > 1 or qid is not None or group is not None:
            raise ParameterError(
                "(X, y, qid) with eval_qid or eval_group, or more than three entries",
                parameter="eval_set",
                fix="Pass (X, y, qid) alone, or (X, y) with eval_qid",
            )
        qid = more[0]
    X = in_memory(X)
    # Without ids all rows would be one list, and its metric would mean something else.
    if needs_query_ids and qid is group is None and take_qid(X)[1] is None:
        raise SchemaError(
            "the training rows have several queries, and these rows no query ids",
            parameter="eval_set",
            fix="Pass (X, y, qid), or eval_qid=, eval_group=, or a frame with a qid column",
        )
    log_record = getattr(estimator, "log_record_", None)
    if log_record is None or not is_frame(X):
        return read_rows(estimator, X, y, qid, group, reset=False)
    X, frame_qid = take_qid(X)
    if qid is None and group is None:
        qid = frame_qid
    rows = align(log_record.encoding.read_frame(X))
    return Dataset.from_arrays(
        rows.X, y, qid, group=group, feature_names=rows.feature_names, infinite=True
    )


def _one_per_set(name: str, values: Any, n_sets: int) -> list[Any]:
    """Return one entry per evaluation set; a single set needs no list around its entry."""
    if values is None:
        return [None] * n_sets
    if isinstance(values, list | tuple) and len(values) == n_sets:
        # A list of as many numbers is one set's array, and not an entry for each set.
        entries = [
            entry is None or isinstance(entry, Mapping) or np.ndim(entry) for entry in values
        ]
        if all(entries):
            return list(values)
    if n_sets == 1:
        return [values]
    raise ParameterError(
        f"there is no entry for each of the {n_sets} eval sets",
        parameter=name,
        fix="Pass a list with one entry per set",
    )
