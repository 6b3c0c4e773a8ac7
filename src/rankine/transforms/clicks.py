"""What clicks need in training and models do not: weights by position, and offsets of positions.

A click at position k weighs 1 / P(looked at k), which makes the weighted loss unbiased (Joachims,
Swaminathan and Schnabel 2017). An offset is one more weight per position, learnt beside those of
the features and left out when scoring: it takes up what the position explains, so that features
need not.
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


#: A column with a larger number holds no positions.
_LAST = 1_000_000
#: Offsets beyond these would be columns of dense rows.
_MOST = 1000


class ContextWeights(NamedTuple):
    """Weights of clicks by position, for each value of a column (a device, say)."""

    column: str
    tables: tuple[tuple[str, tuple[float, ...]], ...]


#: Weight of a click by position, or that by context; empty: 1 everywhere.
Inverse = Sequence[float] | ContextWeights


def apply_position_weights(data: Dataset, inverse: Inverse) -> Dataset:
    """The rows with the weights of their positions (``inverse`` empty: as they are)."""
    if len(inverse) == 0:
        return data
    weight = position_weights(data, inverse)
    weight = weight if data.weight is None else data.weight * weight
    return replace(data, weight=weight, query_index=data.queries)


def remove_position_weights(data: Dataset, inverse: Inverse) -> Dataset:
    """The rows before ``apply_position_weights``."""
    weight = data.weight
    if weight is not None and len(inverse):
        weight = weight / position_weights(data, inverse)
    return replace(data, weight=weight, query_index=data.queries)


def check_offset(positions: Any) -> int:
    """Number of positions with an offset of their own; 0 for None."""
    if positions is None:
        return 0
    if not isinstance(positions, (int, np.integer)) or not 2 <= positions <= _MOST:
        raise ParameterError(
            f"position_offset={positions!r} is no number of positions to compare",
            fix=f"Say how many positions have an offset of their own, 2 to {_MOST}",
        )
    return int(positions)


def add_position_columns(data: Dataset, positions: int) -> Dataset:
    """The rows with one more column for each of the positions 2, 3, ..., ``positions``.

    It is 1 where a row was shown at that position; the last stands for all beyond it.
    """
    if positions == 0:
        return data
    place = np.minimum(row_positions(data), positions) - 2
    rows = np.flatnonzero(place >= 0)
    names = [f"position {k}" for k in range(2, positions + 1)]
    return append_columns(data, rows, place[rows], names)


def append_columns(
    data: Dataset, rows: NDArray[np.int64], place: NDArray[np.int64], more: Sequence[str]
) -> Dataset:
    """The data with new columns: 1 at (rows, place), which are in order, 0 elsewhere."""
    if isinstance(data.X, np.ndarray):
        marks = np.zeros((data.n_rows, len(more)), dtype=data.X.dtype)
        marks[rows, place] = 1
        wide: Any = np.ascontiguousarray(np.hstack([data.X, marks]))
    else:
        ends, X = data.X.indptr[rows + 1], data.X
        indices = np.insert(X.indices, ends, X.shape[1] + place)
        counts = np.bincount(rows, minlength=data.n_rows)
        indptr = X.indptr + np.concatenate([[0], np.cumsum(counts)])
        shape = (data.n_rows, X.shape[1] + len(more))
        # A matrix of its own kind: naming scipy would import it into a server.
        wide = type(X)((np.insert(X.data, ends, 1), indices, indptr), shape=shape)
    names = data.feature_names
    return replace(
        data,
        X=wide,
        feature_names=None if names is None else (*names, *more),
        query_index=data.queries,
    )


def inverse_propensity(
    propensity: Sequence[float], max_weight: float
) -> tuple[float, ...] | ContextWeights:
    """Weight of a click at position 1, 2, ...: 1 / propensity, at most ``max_weight``.

    Propensities that were estimated by context give a table for each of its values.
    """
    if context := getattr(propensity, "context", ""):
        parts = propensity.contexts.items()  # type: ignore[attr-defined]
        tables = ((name, inverse_propensity(part, max_weight)) for name, part in parts)
        return ContextWeights(context, tuple(tables))  # type: ignore[arg-type]
    values = np.asarray(propensity, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0 or not ((values > 0) & (values <= 1)).all():
        raise ParameterError(
            "propensity must be probabilities in (0, 1], one per position from 1",
            fix="Pass for example [1.0, 0.6, 0.4], or estimate_propensity(...)",
        )
    if not (np.isfinite(max_weight) and max_weight >= 1):
        raise ParameterError(f"max_weight={max_weight!r} is not >= 1", fix="Use 10.0")
    return tuple(np.minimum(1.0 / values, max_weight).tolist())


def position_weights(data: Dataset, inverse: Inverse) -> NDArray[np.float64]:
    """Weight of each row: that of its position where its label is positive, else 1."""
    place = row_positions(data) - 1
    if not isinstance(inverse, ContextWeights):
        table = np.asarray(inverse)
        return np.where(data.y > 0, table[np.minimum(place, len(table) - 1)], 1.0)
    column, tables = inverse
    if column not in data.columns:
        raise SchemaError(
            f"the propensities differ by {column!r}, and the rows have no such column",
            fix=f"Read it too (columns=[{column!r}])",
        )
    values = np.asarray(data.columns[column])
    texts = values if values.dtype.kind in "UT" else np.array([str(v) for v in values.tolist()])
    found = np.full(data.n_rows, np.nan)
    for name, weights in tables:
        table = np.asarray(weights)
        rows = np.flatnonzero(texts == name)
        found[rows] = table[np.minimum(place[rows], len(table) - 1)]
    unknown = np.flatnonzero(np.isnan(found))
    if len(unknown):
        raise SchemaError(
            f"no propensity is known for {column} = {texts[unknown[0]]}",
            fix="Estimate it on a log that holds this value",
        )
    return np.where(data.y > 0, found, 1.0)


def row_positions(data: Dataset) -> NDArray[np.int64]:
    """Where each row was shown, from 1."""
    if data.position is None:
        raise SchemaError(
            "this needs the position that each row was shown at",
            fix="Give a position column (position='position')",
        )
    return check_positions(data.position)


def check_positions(values: Any) -> NDArray[np.int64]:
    """Positions as integers from 1."""
    positions = np.asarray(values)
    if positions.dtype.kind not in "iu" or (positions < 1).any() or (positions > _LAST).any():
        raise SchemaError(
            f"positions must be integers from 1 to {_LAST:,}", fix="Count positions from 1"
        )
    return positions.astype(np.int64)
