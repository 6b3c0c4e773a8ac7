"""A smaller problem of the same kind, whose solution is a good start for the whole.

Training on every eighth query (or, where queries are few, on every eighth row of each) costs an
eighth a pass and lands near the optimum; the exact solver then needs a few steps on all rows. The
sample is a fixed stride, so nothing is random, and the result is exact whatever the start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset

__all__ = ["coarsen"]

#: One in so many queries or rows is kept.
STRIDE = 8
#: Below this many rows the whole problem is cheap enough.
MIN_ROWS = 32_000
#: Queries needed to sample whole queries rather than rows within them.
MIN_QUERIES = 64 * STRIDE


def coarsen(
    data: Dataset, query_weight: NDArray[np.float64]
) -> tuple[Dataset, NDArray[np.float64]] | None:
    """A sample of the data with its query weights, or None when the data is small."""
    if data.n_rows < MIN_ROWS:
        return None
    index, usable = data.queries, data.labels.usable
    if len(usable) >= MIN_QUERIES:
        kept = usable[::STRIDE]
        return data.take_queries(kept), query_weight[kept]
    within = np.arange(index.n_rows) - np.repeat(index.starts[:-1], index.sizes)
    positions = np.flatnonzero(within % STRIDE == 0)
    rows = positions if index.rows is None else index.rows[positions]
    return data.take(rows), query_weight
