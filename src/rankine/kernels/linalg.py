"""Vector sums with a fixed order.

BLAS splits long sums by the number of threads it finds, so its last bits depend on the machine's
load and settings; these kernels depend on the vectors alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import REDUCE, jit

__all__ = ["add_rows", "dot", "norm", "rows_dot", "tree_sum"]


@jit(fastmath=REDUCE)
def dot(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """<a, b>."""
    total = 0.0
    for k in range(a.shape[0]):
        total += a[k] * b[k]
    return total


def norm(a: NDArray[np.float64]) -> float:
    """|a|, without overflow where the squares would."""
    with np.errstate(over="ignore"):
        squared = dot(a, a)
    if 1e-290 < squared < 1e290 or not a.size:
        return float(np.sqrt(squared))
    largest = float(np.abs(a).max())
    if largest == 0.0 or not np.isfinite(largest):
        return largest
    scaled = a / largest
    return largest * float(np.sqrt(dot(scaled, scaled)))


@jit
def rows_dot(matrix: NDArray[np.float64], a: NDArray[np.float64]) -> NDArray[np.float64]:
    """<row, a> for every row of a matrix."""
    out = np.empty(matrix.shape[0])
    for k in range(matrix.shape[0]):
        out[k] = dot(matrix[k], a)
    return out


@jit
def add_rows(matrix: NDArray[np.float64], c: NDArray[np.float64]) -> NDArray[np.float64]:
    """sum_k c_k row_k, rows with c_k = 0 untouched."""
    out = np.zeros(matrix.shape[1])
    for k in range(matrix.shape[0]):
        if c[k] != 0.0:
            for j in range(matrix.shape[1]):
                out[j] += c[k] * matrix[k, j]
    return out


def tree_sum(parts: list[Any]) -> Any:
    """Sum by halves: ((a + b) + (c + d)) ...; the order depends on the number of parts alone."""
    while len(parts) > 1:
        paired = [parts[k] + parts[k + 1] for k in range(0, len(parts) - 1, 2)]
        parts = paired + parts[len(parts) - len(parts) % 2 :]
    return parts[0]
