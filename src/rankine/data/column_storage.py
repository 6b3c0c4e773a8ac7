"""Column storage of a matrix, without a copy where it already lies by columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from rankine.data.dataset import as_rows, check_finite, check_matrix
from rankine.kernels.columns import Columns, CscColumns, columns_of

__all__ = ["column_storage", "is_column_storage"]


def is_column_storage(X: Any) -> bool:
    """Whether X is a CSC matrix that can be used as it stands: canonical, float32 or float64."""
    return bool(
        sparse.issparse(X)
        and X.format == "csc"
        and X.dtype in (np.float32, np.float64)
        and X.has_canonical_format
    )


def column_storage(X: Any) -> tuple[Columns, tuple[int, int]]:
    """Columns and shape of a matrix: views of a canonical CSC, one copy of anything else."""
    if is_column_storage(X):
        check_finite(X.data, "X")
        unsigned = np.uint32 if X.indices.dtype.itemsize == 4 else np.uint64
        indptr = X.indptr.astype(np.int64, copy=False)
        return CscColumns(indptr, X.indices.view(unsigned), X.data), X.shape
    matrix = check_matrix(X)
    return columns_of(as_rows(matrix), matrix.shape[1]), matrix.shape
