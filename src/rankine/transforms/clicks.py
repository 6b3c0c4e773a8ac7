"""Corrections for position bias in training: weights by position, and offsets of positions.

A click at position k weighs 1 / P(examined at k), which makes the weighted loss unbiased (Joachims,
Swaminathan and Schnabel 2017). An offset is a weight of a position itself, learned together with
the weights of the features and left out when scoring: it absorbs the effect of the position, which
the features would otherwise learn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ParameterError, SchemaError

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset


#: A column with a larger number does not hold positions.
_MAX_POSITION = 1_000_000
#: More offsets would take too much memory as columns of dense rows.
_MAX_OFFSETS = 1000


class ContextWeights(NamedTuple):
    """Weights of clicks by position, for each value of a column such as the device."""

    column: str
    tables: tuple[tuple[str, tuple[float, ...]], ...]


#: Weight of a click by position, the same for all rows or by context; empty: 1 everywhere.
Inverse = Sequence[float] | ContextWeights


def apply_position_weights(data: Dataset, inverse: Inverse) -> Dataset:
    """Multiply row weights by the weights of positions; without ``inverse`` they stay unchanged."""
    if len(inverse) == 0:
        return data
    weight = position_weights(data, inverse)
    if data.weight is not None:
        weight = data.weight * weight
    return replace(data, weight=weight, query_index=data.queries)


def remove_position_weights(data: Dataset, inverse: Inverse) -> Dataset:
    """Undo ``apply_position_weights``."""
    weight = data.weight
    if weight is not None and len(inverse):
        weight = weight / position_weights(data, inverse)
    return replace(data, weight=weight, query_index=data.queries)


def check_offset(positions: Any) -> int:
    """Check the number of positions with a separate offset; None is 0."""
    if positions is None:
        return 0
    if not isinstance(positions, (int, np.integer)) or not 2 <= positions <= _MAX_OFFSETS:
        raise ParameterError(
            f"{positions!r} is not an integer from 2 to {_MAX_OFFSETS}",
            parameter="position_offset",
            fix="Pass the number of positions that have a separate offset",
        )
    return int(positions)


def add_position_columns(data: Dataset, positions: int) -> Dataset:
    """Add a column for each of the positions 2, 3, ..., ``positions``.

    It is 1 where a row was shown at that position; the last is for all later positions as well.
    """
    if positions == 0:
        return data
    column_of_row = np.minimum(row_positions(data), positions) - 2
    rows = np.flatnonzero(column_of_row >= 0)
    names = [f"position {k}" for k in range(2, positions + 1)]
    return append_columns(data, rows, column_of_row[rows], names)


def append_columns(
    data: Dataset, rows: NDArray[np.int64], columns: NDArray[np.int64], names: Sequence[str]
) -> Dataset:
    """Append new columns that are 1 at (rows, columns), which are in order, and 0 elsewhere."""
    X: Any = data.X
    if isinstance(X, np.ndarray):
        indicators = np.zeros((data.n_rows, len(names)), dtype=X.dtype)
        indicators[rows, columns] = 1
        wide: Any = np.ascontiguousarray(np.hstack([X, indicators]))
    else:
        ends = X.indptr[rows + 1]
        indices = np.insert(X.indices, ends, X.shape[1] + columns)
        counts = np.bincount(rows, minlength=data.n_rows)
        indptr = X.indptr + np.concatenate([[0], np.cumsum(counts)])
        shape = (data.n_rows, X.shape[1] + len(names))
        # The constructor of X's own class: naming scipy would import it into a server.
        wide = type(X)((np.insert(X.data, ends, 1), indices, indptr), shape=shape)
    feature_names = data.feature_names
    if feature_names is not None:
        feature_names = (*feature_names, *names)
    return replace(data, X=wide, feature_names=feature_names, query_index=data.queries)


def inverse_propensity(
    propensity: Sequence[float], max_weight: float
) -> tuple[float, ...] | ContextWeights:
    """Return the weight of a click by position: 1 / propensity, at most ``max_weight``.

    Propensities that were estimated by context give a table for each of its values.
    """
    if context := getattr(propensity, "context", ""):
        parts = propensity.contexts.items()  # type: ignore[attr-defined]
        tables = tuple((name, inverse_propensity(part, max_weight)) for name, part in parts)
        return ContextWeights(context, tables)  # type: ignore[arg-type]
    values = np.asarray(propensity, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0 or not ((values > 0) & (values <= 1)).all():
        raise ParameterError(
            "must be probabilities in (0, 1], one per position from 1",
            parameter="propensity",
            fix="Pass for example [1.0, 0.6, 0.4], or propensities estimated from a click log",
        )
    if not (np.isfinite(max_weight) and max_weight >= 1):
        raise ParameterError(f"{max_weight!r} is not >= 1", parameter="max_weight", fix="Use 10.0")
    return tuple(np.minimum(1.0 / values, max_weight).tolist())


def position_weights(data: Dataset, inverse: Inverse) -> NDArray[np.float64]:
    """Return the weight of the position of each row with a positive label, and 1 for other rows."""
    positions = row_positions(data)
    if not isinstance(inverse, ContextWeights):
        return np.where(data.y > 0, _look_up(inverse, positions), 1.0)
    column, tables = inverse
    if column not in data.columns:
        raise SchemaError(
            f"the propensities differ by {column!r}, and the rows have no such column",
            parameter="columns",
            fix=f"Add {column!r} to columns",
        )
    values = np.asarray(data.columns[column])
    if values.dtype.kind not in "UT":
        values = np.array([str(value) for value in values.tolist()])
    weights = np.full(data.n_rows, np.nan)
    for name, table in tables:
        rows = np.flatnonzero(values == name)
        weights[rows] = _look_up(table, positions[rows])
    unknown = np.flatnonzero(np.isnan(weights))
    if len(unknown):
        raise SchemaError(
            f"there is no estimate for {column} = {values[unknown[0]]}",
            parameter="propensity",
            fix="Estimate propensities on a log that contains this value",
        )
    return np.where(data.y > 0, weights, 1.0)


def _look_up(table: Sequence[float], positions: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the values of positions from 1; the last value is for all later positions."""
    return np.asarray(table)[np.minimum(positions, len(table)) - 1]


def row_positions(data: Any) -> NDArray[np.int64]:
    """Return the position that each row of a dataset or click log was shown at, from 1."""
    if data.position is None:
        raise SchemaError(
            "this needs the position that each row was shown at",
            parameter="position",
            fix="Name the column of displayed positions, such as 'position'",
        )
    return check_positions(data.position)


def check_positions(values: Any) -> NDArray[np.int64]:
    """Check that positions are integers from 1."""
    positions = np.asarray(values)
    in_range = positions.dtype.kind in "iu" and not (
        (positions < 1).any() or (positions > _MAX_POSITION).any()
    )
    if not in_range:
        raise SchemaError(
            f"positions must be integers from 1 to {_MAX_POSITION:,}",
            parameter="position",
            fix="Count positions from 1",
        )
    return positions.astype(np.int64)
