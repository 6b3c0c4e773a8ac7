"""Sparse weights: made from anything array-like, checked before anybody relies on them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ModelError

__all__ = ["MAX_FEATURES", "check_sparse", "frozen", "sparse_weights"]

MAX_FEATURES = 2**31 - 1


def sparse_weights(w: Any) -> tuple[int, NDArray[np.int64], NDArray[np.float64]]:
    """Size, positions and values of the non-zero weights of an array or sparse row."""
    if hasattr(w, "tocsr"):
        row = w.tocsr() if w.shape[0] == 1 else w.T.tocsr()
        if row.shape[0] != 1:
            raise ModelError(f"weights have shape {w.shape}", fix="Pass one weight per feature")
        dense_positions = np.asarray(row.indices, dtype=np.int64)
        order = np.argsort(dense_positions, kind="stable")
        indices = dense_positions[order]
        values = np.asarray(row.data, dtype=np.float64)[order]
        keep = values != 0
        return int(row.shape[1]), indices[keep], values[keep]
    try:
        dense = np.asarray(w, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError(f"weights are not numbers: {error}", fix="Pass real numbers") from error
    if dense.ndim == 2 and 1 in dense.shape:
        dense = dense.ravel()
    if dense.ndim != 1:
        raise ModelError(f"weights have shape {dense.shape}", fix="Pass one weight per feature")
    indices = np.flatnonzero(dense).astype(np.int64)
    return len(dense), indices, dense[indices]


def check_sparse(
    indices: NDArray[Any], values: NDArray[Any], n_features: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Read-only arrays: positions strictly increasing below ``n_features``, finite non-zeros."""
    if not 0 <= n_features <= MAX_FEATURES:
        raise ModelError(
            f"{n_features} features", fix=f"A model holds 0 to {MAX_FEATURES:,} features"
        )
    positions, weights = frozen(indices, np.int64), frozen(values, np.float64)
    if positions.ndim != 1 or positions.shape != weights.shape:
        raise ModelError(
            f"{positions.shape} positions for {weights.shape} weights",
            fix="Give each weight one position",
        )
    if len(positions) and (
        positions[0] < 0
        or positions[-1] >= n_features
        or not (positions[1:] > positions[:-1]).all()
    ):
        raise ModelError(
            "positions of weights are not strictly increasing within the features",
            fix="Sort the positions, each once, below n_features",
        )
    if not np.isfinite(weights).all():
        k = int(np.flatnonzero(~np.isfinite(weights))[0])
        raise ModelError(
            f"the weight at position {positions[k]} is {weights[k]}",
            fix="Train again with a smaller step or scaled features; such a model is never saved",
        )
    if not weights.all():
        raise ModelError("a stored weight is zero", fix="Store non-zero weights only")
    return positions, weights


def frozen(given: Any, dtype: Any) -> NDArray[Any]:
    """A read-only array that shares no writable memory with the caller's."""
    array = np.ascontiguousarray(given, dtype=dtype)
    if not array.flags.writeable:
        return array
    if isinstance(given, np.ndarray) and np.may_share_memory(array, given):
        array = array.copy()
    array.flags.writeable = False
    return array
