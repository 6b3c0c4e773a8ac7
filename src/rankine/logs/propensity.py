"""Position bias: users look at the top of a list more often than at its end.

A click at position k happens with probability P(looked at k) P(relevant), so a click weighs
1 / P(looked at k): the weighted loss is unbiased (Joachims, Swaminathan, Schnabel 2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ParameterError, SchemaError
from rankine.data.dataset import Dataset

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["estimate_propensity", "inverse_propensity", "position_weights"]


def estimate_propensity(
    impressions: Dataset | Iterable[Dataset], *, max_position: int = 50, min_rows: int = 100
) -> NDArray[np.float64]:
    """Chance of being looked at, by position, relative to position 1.

    Parameters
    ----------
    impressions
        Lists whose order was random (or at least independent of relevance), with ``position``; a
        row counts as clicked where its label is positive. A ``Dataset`` or a stream.
    max_position
        Positions beyond it share the last value.
    min_rows
        Rows that a position needs; the first with fewer ends the estimate.

    Returns
    -------
    ndarray
        ``clicks(k) / rows(k)`` divided by the same at position 1; at most 1, never rising.

    Examples
    --------
    >>> import numpy as np
    >>> from rankine import Dataset
    >>> clicks = np.tile([1, 1, 1, 0], 100); shown = np.tile([1, 1, 2, 2], 100)
    >>> data = Dataset.from_arrays(np.zeros((400, 1)), clicks, position=shown)
    >>> estimate_propensity(data).tolist()
    [1.0, 0.5]
    """
    shown, clicked = np.zeros(max_position), np.zeros(max_position)
    for block in [impressions] if isinstance(impressions, Dataset) else impressions:
        place = np.minimum(_positions(block), max_position) - 1
        shown += np.bincount(place, minlength=max_position)
        clicked += np.bincount(place[block.y > 0], minlength=max_position)
    enough = shown >= min_rows
    count = max_position if enough.all() else int(np.argmin(enough))
    if count == 0 or clicked[0] == 0:
        raise SchemaError(
            f"position 1 has {int(shown[0])} rows and {int(clicked[0])} clicks",
            fix="Give more randomised impressions with their positions",
        )
    rate = clicked[:count] / shown[:count]
    # Noise must not make a lower position look more visible than the one above it.
    falling = np.minimum.accumulate(rate / rate[0])
    positive = falling > 0
    return falling if positive.all() else falling[: max(int(np.argmin(positive)), 1)]


def inverse_propensity(propensity: Sequence[float], max_weight: float) -> tuple[float, ...]:
    """Weight of a click at position 1, 2, ...: 1 / propensity, at most ``max_weight``."""
    values = np.asarray(propensity, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0 or not ((values > 0) & (values <= 1)).all():
        raise ParameterError(
            "propensity must be probabilities in (0, 1], one per position from 1",
            fix="Pass for example [1.0, 0.6, 0.4], or estimate_propensity(...)",
        )
    if not (np.isfinite(max_weight) and max_weight >= 1):
        raise ParameterError(f"max_weight={max_weight!r} is not >= 1", fix="Use 10.0")
    return tuple(np.minimum(1.0 / values, max_weight).tolist())


def position_weights(data: Dataset, inverse: Sequence[float]) -> NDArray[np.float64]:
    """Weight of each row: that of its position where its label is positive, else 1."""
    table = np.asarray(inverse)
    place = np.minimum(_positions(data), len(table)) - 1
    return np.where(data.y > 0, table[place], 1.0)


def _positions(data: Dataset) -> NDArray[np.int64]:
    if data.position is None:
        raise SchemaError(
            "propensities need the position that each row was shown at",
            fix="Give a position column (position='position')",
        )
    positions: Any = np.asarray(data.position)
    if positions.dtype.kind not in "iu" or (positions < 1).any():
        raise SchemaError("positions must be integers from 1", fix="Count positions from 1")
    return np.asarray(positions, dtype=np.int64)
