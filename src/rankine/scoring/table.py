"""Lists whose rows all have the same named columns, as a matrix: no dictionary per row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit

__all__ = ["NamedTable", "exact_scores"]

#: More partial sums than the exponents of doubles can keep apart.
_PARTIALS = 64


@dataclass(frozen=True, eq=False)
class NamedTable:
    """A list of rows over the same named columns.

    Scores equal those of the same rows as dictionaries, bit for bit.

    Attributes
    ----------
    names
        Distinct names of features or raw columns.
    values
        Rows x names.
    """

    names: tuple[str, ...]
    values: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.values)

    def dictionaries(self) -> list[dict[str, float]]:
        """The rows as dictionaries."""
        return [dict(zip(self.names, row, strict=True)) for row in self.values.tolist()]


@jit
def exact_scores(values: Any, weights: Any, out: Any) -> bool:
    """out_i = fl(sum_j fl(w_j x_ij)): products rounded, their sum exact and rounded once.

    The algorithm of ``math.fsum`` (Shewchuk, "Adaptive Precision Floating-Point Arithmetic", 1997):
    partial sums that do not overlap, so that the order of the columns does not matter. Returns
    whether all scores are finite.
    """
    partials = np.empty(_PARTIALS)
    for i in range(values.shape[0]):
        count = 0
        for j in range(values.shape[1]):
            x = values[i, j] * weights[j]
            kept = 0
            for k in range(count):
                y = partials[k]
                if abs(x) < abs(y):
                    x, y = y, x
                high = x + y
                low = y - (high - x)
                if low != 0.0:
                    partials[kept] = low
                    kept += 1
                x = high
            if not np.isfinite(x):
                return False
            count = kept
            if x != 0.0:
                partials[count] = x
                count += 1
        out[i] = _rounded(partials, count)
    return True


@jit
def _rounded(partials: Any, count: int) -> float:
    """The sum of partial sums, rounded half to even."""
    if count == 0:
        return 0.0
    count -= 1
    high = partials[count]
    low = 0.0
    while count > 0:
        x = high
        count -= 1
        y = partials[count]
        high = x + y
        low = y - (high - x)
        if low != 0.0:
            break
    if count > 0 and (
        (low < 0.0 and partials[count - 1] < 0.0) or (low > 0.0 and partials[count - 1] > 0.0)
    ):
        y = low * 2.0
        x = high + y
        if y == x - high:
            high = x
    return high
