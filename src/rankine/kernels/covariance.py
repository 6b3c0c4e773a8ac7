"""Dense linear algebra for covariances: one order of operations, whatever the number of threads.

BLAS and LAPACK choose the order of their sums by the number of threads; these kernels do not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.shards import dot


@jit
def cholesky(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the lower factor L of a positive definite matrix, L L' = ``matrix``.

    Reads the lower triangle. A pivot that is not positive leaves NaN.
    """
    n = matrix.shape[0]
    factor = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            total = matrix[i, j] - dot(factor[i, :j], factor[j, :j])
            if i == j:
                factor[i, i] = np.sqrt(total) if total > 0.0 else np.nan
            else:
                factor[i, j] = total / factor[j, j]
    return factor


@jit
def solve_columns(factor: Any, columns: Any) -> None:
    """Replace ``columns`` by (L L')^-1 columns, given the lower factor L."""
    n = factor.shape[0]
    for i in range(n):
        for k in range(i):
            c = factor[i, k]
            for j in range(columns.shape[1]):
                columns[i, j] -= c * columns[k, j]
        for j in range(columns.shape[1]):
            columns[i, j] /= factor[i, i]
    for i in range(n - 1, -1, -1):
        for j in range(columns.shape[1]):
            columns[i, j] /= factor[i, i]
        for k in range(i):
            c = factor[i, k]
            for j in range(columns.shape[1]):
                columns[k, j] -= c * columns[i, j]


@jit
def pivoted_cholesky(matrix: Any, tolerance: float) -> Any:
    """Return F with F F' = ``matrix``, which is positive semidefinite and may be singular.

    F has a column for each pivot above ``tolerance`` times the largest diagonal entry.
    """
    n = matrix.shape[0]
    # Stored by pivots, so that the inner loop runs over contiguous entries.
    out = np.zeros((n, n))
    remaining = np.diag(matrix).copy()
    smallest = tolerance * max(remaining.max(), 0.0)
    rank = 0
    while rank < n:
        pivot = int(np.argmax(remaining))
        if not remaining[pivot] > smallest:
            break
        row = out[rank]
        for j in range(n):
            row[j] = matrix[pivot, j]
        for k in range(rank):
            c = out[k, pivot]
            for j in range(n):
                row[j] -= c * out[k, j]
        root = np.sqrt(remaining[pivot])
        for j in range(n):
            row[j] /= root
            remaining[j] -= row[j] * row[j]
        remaining[pivot] = 0.0
        rank += 1
    return out[:rank].T.copy()
