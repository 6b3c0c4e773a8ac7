"""Check sparse matrices of scipy, without importing it, before anything reads them."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankine.core.errors import SchemaError
from rankine.kernels.rows import compression_fault


def check_sparse(X: Any) -> Any:
    """Return a CSR or CSC matrix whose offsets and indices are in range, in order, each index once.

    Neither scipy nor kernels check them when they read a matrix. A matrix that is in order is
    returned as it is, and others as a copy; values of one index are added, which is their meaning.
    """
    if X.ndim != 2:
        raise SchemaError(f"X has {X.ndim} dimensions", fix="Pass rows x features")
    if X.format not in ("csr", "csc"):
        X = _to_csr(X)
    n_outer, n_inner = X.shape
    if X.format == "csc":
        n_outer, n_inner = n_inner, n_outer
    indptr, indices, data = parts = X.indptr, X.indices, X.data
    fault: str | None = None
    if not all(isinstance(part, np.ndarray) and part.ndim == 1 for part in parts):
        fault = "offsets, indices and values are no arrays of one dimension"
    elif indptr.dtype.kind not in "iu" or indices.dtype.kind not in "iu":
        fault = "offsets and indices are no integers"
    elif len(indptr) != n_outer + 1 or indptr[0] != 0:
        fault = "offsets do not fit its shape"
    fault = fault or compression_fault(*parts, n_inner)
    if fault is not None:
        raise _broken(X, fault)
    is_native = all(part.dtype.isnative for part in parts)
    is_signed = indptr.dtype.kind == indices.dtype.kind == "i"
    if not (is_native and is_signed) or len(data) != indptr[-1] or len(indices) != len(data):
        n_stored = int(indptr[-1])
        values = data[:n_stored].astype(data.dtype.newbyteorder("="))
        numbers = indices[:n_stored].astype(np.int64), indptr.astype(np.int64)
        X = type(X)((values, *numbers), shape=X.shape)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def _to_csr(X: Any) -> Any:
    """Convert another sparse format, whose indices scipy does not check either."""
    try:
        if X.format == "bsr":
            X.check_format(full_check=False)
            fault = compression_fault(X.indptr, X.indices, X.data, X.shape[1] // X.blocksize[1])
            if fault is not None:
                raise _broken(X, fault)
        elif X.format == "coo":
            # The constructor checks coordinates, which may have changed since.
            X = type(X)((X.data, X.coords), shape=X.shape)
        return X.tocsr()
    except (TypeError, ValueError, IndexError) as error:
        raise _broken(X, str(error)) from error


def _broken(X: Any, fault: str) -> SchemaError:
    return SchemaError(
        f"X is a broken sparse matrix of shape {X.shape}: {fault}",
        fix="Build it again with scipy.sparse",
    )
