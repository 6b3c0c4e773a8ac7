"""Discounts of ranks 1, 2, 3, ..."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["discounts"]


def discounts(kind: str, size: int) -> NDArray[np.float64]:
    """The first ``size`` discounts.

    ``std``: 1/log2(r + 1) (Järvelin and Kekäläinen 2002 as used today; Burges et al. 2005).
    ``paper``: 1/(log2(r) + 1), as printed by Freno et al. 2015, eq. 1.
    ``letor``: 1/max(1, log2 r), the LETOR and MSLR scripts.
    """
    ranks = np.arange(1, size + 1, dtype=np.float64)
    if kind == "std":
        return 1.0 / np.log2(ranks + 1.0)
    if kind == "paper":
        return 1.0 / (np.log2(ranks) + 1.0)
    return 1.0 / np.maximum(1.0, np.log2(ranks))
