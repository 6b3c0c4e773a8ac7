"""Explanations of rows within their list, after the model's transforms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ParameterError
from rankine.model.explain import Explanation, contributions_at
from rankine.scoring.lists import Parts

if TYPE_CHECKING:
    from rankine.scoring.scorer import Scorer

__all__ = ["explain_rows"]


def explain_rows(scorer: Scorer, rows: Any, chosen: tuple[int, ...]) -> Explanation:
    """Explain one row of a list, or the difference of two."""
    found = scorer.features(rows)
    n_rows = len(found) if isinstance(found, np.ndarray) else len(found.indptr) - 1
    for i in chosen:
        if not 0 <= i < n_rows:
            raise ParameterError(f"row {i} of a list of {n_rows}", fix="Count rows from 0")
    scorer.score(rows)  # refuses what cannot be scored, with its place
    model = scorer.model
    values = [_at_weights(found, i, model.indices) for i in chosen]
    if scorer.scales_lists:
        span = _half_ranges(found, n_rows, model.indices)
        values = [
            np.divide(row * 0.5, span, out=np.zeros(len(row)), where=span > 0) for row in values
        ]
    return contributions_at(model, values[0], values[1] if len(values) > 1 else None)


def _at_weights(
    rows: Parts | NDArray[Any], i: int, indices: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Values of row i at the positions of the weights."""
    if isinstance(rows, np.ndarray):
        return np.asarray(rows[i, indices], dtype=np.float64)
    span = slice(int(rows.indptr[i]), int(rows.indptr[i + 1]))
    columns, data = rows.indices[span], rows.data[span]
    values = np.zeros(len(indices))
    at = np.searchsorted(indices, columns)
    inside = at < len(indices)
    inside[inside] = indices[at[inside]] == columns[inside]
    np.add.at(values, at[inside], data[inside].astype(np.float64))
    return values


def _half_ranges(
    rows: Parts | NDArray[Any], n_rows: int, indices: NDArray[np.int64]
) -> NDArray[np.float64]:
    """(max - min) / 2 over the list, per weight; halves keep opposite huge values finite."""
    low = high = _at_weights(rows, 0, indices)
    for i in range(1, n_rows):
        values = _at_weights(rows, i, indices)
        low, high = np.minimum(low, values), np.maximum(high, values)
    return high * 0.5 - low * 0.5
