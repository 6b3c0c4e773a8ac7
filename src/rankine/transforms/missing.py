"""Find missing values and fill them: NaN in rows, NULL in text, null in columns.

The parameter ``missing`` of every ranker names a *rule*. ``error`` refuses missing values; ``bin``
leaves them to tables, which have a cell for them. Every other rule becomes a ``MissingValues`` spec
in the model, so that training, prediction and serving fill in the same values.
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


def check_rule(rule: str) -> str:
    """Check the name of a rule."""
    if rule not in RULES:
        raise ParameterError(
            f"{rule!r} is not one of {', '.join(RULES)}",
            parameter="missing",
            fix="Choose one of them",
        )
    return rule


def rule_of(spec: MissingValues | None) -> str:
    """Return the name of a model's rule."""
    if spec is None:
        return "error"
    return spec.rule


class MissingPositions(NamedTuple):
    """Missing values of a matrix, in the order in which they are stored."""

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    #: Index of each among the stored values.
    flat: NDArray[np.int64]


def has_missing(values: Any) -> bool:
    """Return whether any value is NaN."""
    # NaN would make the sum NaN, and summing is several times faster than isnan.
    with np.errstate(all="ignore"):
        return bool(not np.isfinite(values.sum()) and np.isnan(values).any())


def find_missing(X: Any) -> MissingPositions | None:
    """Find NaN in a dense matrix or in compressed rows of any library; None without any NaN."""
    values = X
    if hasattr(X, "indptr"):
        values = X.data
    if not has_missing(values):
        return None
    flat = np.flatnonzero(np.isnan(values))
    if not hasattr(X, "indptr"):
        return MissingPositions(*np.divmod(flat, X.shape[1]), flat)
    outer = np.searchsorted(X.indptr, flat, side="right") - 1
    inner = X.indices[flat].astype(np.int64)
    if getattr(X, "format", "csr") == "csc":
        return MissingPositions(inner, outer, flat)
    return MissingPositions(outer, inner, flat)


def refuse_missing(X: Any, names: Any = None, *, scoring: bool = False) -> None:
    """Raise an error about the first missing value of rows for training, or for scoring."""
    missing = find_missing(X)
    if missing is None:
        return
    # scikit-learn's checks of estimators look for the words "Input X contains NaN".
    reason = f"is missing, one of {len(missing.flat):,} missing values: Input X contains NaN"
    parameter: str | None = "missing"
    fix = (
        "Set missing to 'zero', 'mean', 'query_min' or 'indicator' to fill missing values, or use "
        "AdditiveRanker, which has a cell for them"
    )
    if scoring:
        parameter = None
        fix = (
            "The model was trained without a rule for missing values: train it with missing set to "
            "'zero', 'mean', 'query_min' or 'indicator', or fill the values"
        )
    raise cell_error(int(missing.rows[0]), int(missing.columns[0]), names, reason, fix, parameter)


def fill_missing(
    spec: MissingValues,
    X: Any,
    starts: NDArray[np.int64],
    order: NDArray[np.int64] | None = None,
) -> tuple[Any, NDArray[np.float64] | None]:
    """Fill missing values; return the rows, and what missing values add to the score of each row.

    List q holds rows ``order[starts[q]:starts[q + 1]]``; without ``order`` the lists are
    consecutive.
    """
    missing = find_missing(X)
    if missing is None:
        return X, None
    added_scores = None
    values = np.zeros(len(missing.flat))
    if spec.columns:
        listed, nearest = _match_columns(spec, missing)
        values = np.where(listed, np.asarray(spec.values)[nearest], 0.0)
    if spec.rule == "indicator":
        # Compressed rows of the scorer have no shape.
        if hasattr(X, "indptr"):
            n_rows = len(X.indptr) - 1
        else:
            n_rows = X.shape[0]
        added_scores = np.zeros(n_rows)
        np.add.at(added_scores, missing.rows, values)
        values = np.zeros(len(missing.flat))
    elif spec.rule == "query_min":
        values = _list_minima(X, missing, _list_of_rows(starts, order))
    return _with_values(X, missing.flat, values), added_scores


def _match_columns(
    spec: MissingValues, missing: MissingPositions
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return whether the spec lists the column of each missing value, and its place in the list.

    The place means nothing where the column is not listed.
    """
    columns = np.asarray(spec.columns)
    nearest = np.minimum(np.searchsorted(columns, missing.columns), len(columns) - 1)
    return columns[nearest] == missing.columns, nearest


def _with_values(X: Any, flat: NDArray[np.int64], replacements: NDArray[np.float64]) -> Any:
    # The caller's X must not change, so its values are copied, but a sparse structure is shared.
    if not hasattr(X, "indptr"):
        values = np.array(X)
        values.flat[flat] = replacements
        return values
    values = np.array(X.data)
    values[flat] = replacements
    if hasattr(X, "_replace"):
        return X._replace(data=values)
    return type(X)((values, X.indices, X.indptr), shape=X.shape)


def _list_of_rows(starts: NDArray[np.int64], order: NDArray[np.int64] | None) -> NDArray[np.int64]:
    lists = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    if order is None:
        return lists
    list_of = np.empty(len(lists), dtype=np.int64)
    list_of[order] = lists
    return list_of


def _list_minima(
    X: Any, missing: MissingPositions, list_of: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Find the minimum of each missing value's column within its list; 0 without other values."""
    if hasattr(X, "indptr"):
        rows = np.repeat(np.arange(len(X.indptr) - 1), np.diff(X.indptr))
        columns, values = X.indices.astype(np.int64), X.data
    else:
        affected = np.unique(missing.columns)
        rows = np.repeat(np.arange(X.shape[0]), len(affected))
        columns, values = np.tile(affected, X.shape[0]), X[:, affected].ravel()
    width = int(columns.max()) + 1
    # A cell is a column within a list; only those with a missing value are needed.
    missing_cells = list_of[missing.rows] * width + missing.columns
    cells, cell_of_missing = np.unique(missing_cells, return_inverse=True)
    value_cells = list_of[rows] * width + columns
    nearest = np.minimum(np.searchsorted(cells, value_cells), len(cells) - 1)
    matching = cells[nearest] == value_cells
    low, stored = np.full(len(cells), np.nan), np.zeros(len(cells), dtype=np.int64)
    np.fmin.at(low, nearest[matching], values[matching].astype(np.float64))
    np.add.at(stored, nearest[matching], 1)
    # A row that does not store the feature has a zero there.
    sparse = stored < np.bincount(list_of)[cells // width]
    low[sparse] = np.fmin(low[sparse], 0.0)
    return np.nan_to_num(low)[cell_of_missing]


def fill_dataset(spec: MissingValues, data: Dataset) -> Dataset:
    """Return the data with missing values filled, without indicators and their scores."""
    index = data.queries
    X, _ = fill_missing(spec, data.X, index.starts, index.rows)
    if X is data.X:
        return data
    return replace(data, X=X, query_index=index)


def add_missing_indicators(spec: MissingValues, unfilled: Any, data: Dataset) -> Dataset:
    """Add a column for each of the spec's: 1 where ``unfilled`` was missing, else 0."""
    from rankine.transforms.clicks import append_columns

    missing = find_missing(unfilled)
    rows = indicators = np.zeros(0, dtype=np.int64)
    if missing is not None:
        listed, nearest = _match_columns(spec, missing)
        rows, indicators = missing.rows[listed], nearest[listed]
    return append_columns(data, rows, indicators, [f"missing {j}" for j in spec.columns])


def measure_missing(rule: str, statistics: Any) -> MissingValues | None:
    """Measure the spec of a rule; None refuses missing values, or leaves them as they are.

    ``statistics`` has the methods of ``ColumnStatistics``. "indicator" gets a column for every
    feature that was missing somewhere; its values are learned. "auto" is "indicator" where numbers
    are missing, else "zero".
    """
    if rule in ("error", "bin"):
        return None
    if rule not in ("auto", "mean", "indicator"):
        return MissingValues(rule)  # type: ignore[arg-type]
    missing_weights = statistics.missing_weights()
    if rule == "auto":
        if not missing_weights.any():
            # Every export of raw columns expresses "zero", and later rows may lack a number.
            return MissingValues("zero")
        rule = "indicator"
    if rule == "indicator":
        columns = np.flatnonzero(missing_weights > 0)
        values = np.zeros(len(columns))
    else:
        filled = statistics.without_missing(MissingValues("zero"))
        sizes = filled.sizes()
        columns = np.flatnonzero(sizes.largest > 0)
        largest = sizes.largest[columns]
        # Divided by the largest magnitude first, so that sums of 1e300 do not overflow.
        sums, _ = filled.moments(columns, 1.0 / largest, np.zeros(len(columns)))
        present = sizes.n_rows - missing_weights[columns]
        # The difference loses digits where few values are present; then their weights are summed.
        few = present < 1e-3 * sizes.n_rows
        if few.any():
            present[few] = statistics.known_weights(columns[few])
        values = sums / present * largest
    return MissingValues(rule, tuple(columns.tolist()), tuple(values.tolist()))  # type: ignore[arg-type]
