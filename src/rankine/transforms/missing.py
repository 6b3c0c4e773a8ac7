"""What stands for a missing value: NaN in rows, NULL in text, null in columns.

A *rule* is a parameter of every ranker. ``error`` refuses missing values, ``bin`` leaves them to
tables that have a cell for them; the others become a ``MissingValues`` spec, which the model keeps,
so that training, prediction and serving fill the same values in the same way.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.checks import cell_error
from rankine.core.errors import ParameterError
from rankine.core.specs import MissingValues

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset

#: Values of the rankers' parameter ``missing``.
RULES = ("auto", "error", "zero", "mean", "query_min", "indicator")
CHOICES = (
    "Say what stands for missing values (missing='zero', missing='mean', missing='query_min' or "
    "missing='indicator'), or "
    "use AdditiveRanker, which has a place for them"
)
#: The same for rows that a model without a rule is to score.
UNTRAINED = (
    "The model was trained without a rule for missing values: train it with one "
    "(zero, mean, query_min or indicator), or fill them"
)


def check_rule(rule: str) -> str:
    """The name of a rule, or ParameterError."""
    if rule not in RULES:
        raise ParameterError(
            f"missing={rule!r} is not one of {', '.join(RULES)}", fix="Choose one of them"
        )
    return rule


class Places(NamedTuple):
    """Missing values of rows, in the order in which they are stored."""

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    #: Places among the stored values, flat.
    at: NDArray[np.int64]


def find_missing(X: Any) -> Places | None:
    """Where a matrix (dense, or compressed rows of any library) holds NaN; None for nowhere."""
    values = X.data if hasattr(X, "indptr") else X
    with np.errstate(all="ignore"):
        if np.isfinite(values.sum()):
            return None
    at = np.flatnonzero(np.isnan(values))
    if len(at) == 0:
        return None
    if hasattr(X, "indptr"):
        outer = np.searchsorted(X.indptr, at, side="right") - 1
        inner = X.indices[at].astype(np.int64)
        by_column = getattr(X, "format", "csr") == "csc"
        return Places(inner, outer, at) if by_column else Places(outer, inner, at)
    rows, columns = np.divmod(at, X.shape[1])
    return Places(rows, columns, at)


def refuse_missing(X: Any, names: Any = None, fix: str = CHOICES) -> None:
    """Name the first missing value and what may stand for it."""
    found = find_missing(X)
    if found is None:
        return
    what = f"is missing ({len(found.at):,} values are); Input X contains NaN"
    raise cell_error(int(found.rows[0]), int(found.columns[0]), names, what, fix)


def fill_missing(
    spec: MissingValues,
    X: Any,
    starts: NDArray[np.int64],
    order: NDArray[np.int64] | None = None,
) -> tuple[Any, NDArray[np.float64] | None]:
    """Rows without missing values, and what missing values add to the score of each row.

    List q holds rows ``order[starts[q]:starts[q + 1]]``; without ``order`` rows stand list by list.
    """
    found = find_missing(X)
    if found is None:
        return X, None
    added = None
    known = np.zeros(len(found.at))
    if spec.columns:
        columns = np.asarray(spec.columns)
        at = np.minimum(np.searchsorted(columns, found.columns), len(columns) - 1)
        known = np.where(columns[at] == found.columns, np.asarray(spec.values)[at], 0.0)
    if spec.rule == "indicator":
        n_rows = len(X.indptr) - 1 if hasattr(X, "indptr") else X.shape[0]
        added = np.zeros(n_rows)
        np.add.at(added, found.rows, known)
        known = np.zeros(len(found.at))
    elif spec.rule == "query_min":
        known = _smallest(X, found, _list_of_rows(starts, order))
    return _with_values(X, found.at, known), added


def _with_values(X: Any, at: NDArray[np.int64], known: NDArray[np.float64]) -> Any:
    values = np.array(X.data if hasattr(X, "indptr") else X)
    values.flat[at] = known
    if not hasattr(X, "indptr"):
        return values
    if hasattr(X, "_replace"):
        return X._replace(data=values)
    return type(X)((values, X.indices, X.indptr), shape=X.shape)


def _list_of_rows(starts: NDArray[np.int64], order: NDArray[np.int64] | None) -> NDArray[np.int64]:
    lists = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    if order is None:
        return lists
    out = np.empty(len(lists), dtype=np.int64)
    out[order] = lists
    return out


def _smallest(X: Any, found: Places, list_of: NDArray[np.int64]) -> NDArray[np.float64]:
    """The smallest value of each missing value's column within its list; 0 where there is none."""
    if hasattr(X, "indptr"):
        rows = np.repeat(np.arange(len(X.indptr) - 1), np.diff(X.indptr))
        columns, values = X.indices.astype(np.int64), X.data
    else:
        chosen = np.unique(found.columns)
        rows = np.repeat(np.arange(X.shape[0]), len(chosen))
        columns, values = np.tile(chosen, X.shape[0]), X[:, chosen].ravel()
    width = int(columns.max()) + 1
    wanted, inverse = np.unique(list_of[found.rows] * width + found.columns, return_inverse=True)
    keys = list_of[rows] * width + columns
    at = np.minimum(np.searchsorted(wanted, keys), len(wanted) - 1)
    mine = wanted[at] == keys
    low, stored = np.full(len(wanted), np.nan), np.zeros(len(wanted), dtype=np.int64)
    np.fmin.at(low, at[mine], values[mine].astype(np.float64))
    np.add.at(stored, at[mine], 1)
    # A row that does not store the feature has a zero there.
    sparse = stored < np.bincount(list_of)[wanted // width]
    low[sparse] = np.fmin(low[sparse], 0.0)
    return np.nan_to_num(low)[inverse]


def fill_dataset(spec: MissingValues, data: Dataset) -> Dataset:
    """The data without missing values; marks and scores of them are left out."""
    index = data.queries
    X, _ = fill_missing(spec, data.X, index.starts, index.rows)
    return data if X is data.X else replace(data, X=X, query_index=index)


def add_missing_indicators(spec: MissingValues, before: Any, data: Dataset) -> Dataset:
    """The data with a column for each of the spec's: 1 where ``before`` was missing, else 0."""
    from rankine.transforms.clicks import append_columns

    found = find_missing(before)
    rows = places = np.zeros(0, dtype=np.int64)
    if found is not None:
        columns = np.asarray(spec.columns)
        at = np.minimum(np.searchsorted(columns, found.columns), len(columns) - 1)
        known = columns[at] == found.columns
        rows, places = found.rows[known], at[known]
    return append_columns(data, rows, places, [f"missing {j}" for j in spec.columns])


def measure_missing(rule: str, asked: Any) -> MissingValues | None:
    """The spec of a rule, measured by a ``ColumnStatistics``; None refuses missing values.

    "indicator" gets a column for every feature that was missing somewhere; its values are learned.
    """
    if rule in ("error", "bin"):
        return None
    spec = MissingValues("zero" if rule in ("mean", "indicator") else rule)  # type: ignore[arg-type]
    if spec.rule == rule:
        return spec
    absent = asked.missing_weights()
    if rule == "indicator":
        columns = np.flatnonzero(absent > 0)
        values = np.zeros(len(columns))
    else:
        present = asked.without_missing(spec)
        sizes = present.sizes()
        columns = np.flatnonzero(sizes.largest > 0)
        # Divided by the largest magnitude first: sums of 1e300 do not overflow.
        sums, _ = present.moments(columns, 1.0 / sizes.largest[columns], np.zeros(len(columns)))
        known = sizes.n_rows - absent[columns]
        few = known < 1e-3 * sizes.n_rows  # the difference has lost digits
        known[few] = asked.known_weights(columns[few]) if few.any() else 0.0
        values = sums / known * sizes.largest[columns]
    return MissingValues(rule, tuple(columns.tolist()), tuple(values.tolist()))  # type: ignore[arg-type]
