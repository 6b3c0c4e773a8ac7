"""Position bias: users look at the top of a list more often than at its end.

A click at position k happens with probability P(looked at k) P(relevant), so a click weighs
1 / P(looked at k): the weighted loss is unbiased (Joachims, Swaminathan, Schnabel 2017).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import SchemaError
from rankine.data.dataset import Dataset
from rankine.losses.list_objectives import row_positions

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["estimate_propensity"]


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
        place = np.minimum(row_positions(block), max_position) - 1
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
