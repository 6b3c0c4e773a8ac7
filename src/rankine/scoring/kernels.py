"""Scores of lists, in one pass over what is stored; every index is checked on the way.

``rows`` come from callers: a kernel that trusted their offsets would read foreign memory. Each
returns ``OK``, ``BAD_OFFSETS``, ``BAD_INDEX`` or, where all else is well, ``NOT_FINITE``: checking
the scores costs less than checking the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankine.kernels.compile import REDUCE, jit
from rankine.scoring.lookup import DenseTable, HashTable, weight_of

__all__ = [
    "BAD_INDEX",
    "BAD_OFFSETS",
    "NOT_FINITE",
    "OK",
    "csr_scores",
    "dense_scores",
]

OK, BAD_OFFSETS, BAD_INDEX, NOT_FINITE = 0, 1, 2, 3
_1, _2, _3, _4 = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


@jit(fastmath=REDUCE)
def _dot(values: Any, i: int, w: Any) -> float:
    total = 0.0
    for j in range(values.shape[1]):
        total += values[i, j] * w[j]
    return total


# Fast-math stays inside the sum: re-association would also fold the finiteness test x - x == 0.
@jit
def dense_scores(values: Any, w: Any, out: Any) -> int:
    """out_i = sum_j w_j x_ij in float64, whatever the type of x."""
    code = OK
    for i in range(values.shape[0]):
        total = _dot(values, i, w)
        out[i] = total
        if not np.isfinite(total):
            code = NOT_FINITE
    return code


@jit
def csr_scores(indptr: Any, indices: Any, data: Any, table: Any, n_features: Any, out: Any) -> int:
    """out_i = sum over the stored values of row i of w_j x_ij.

    Four sums at a time: one alone would wait for its own previous addition.
    """
    size = min(indices.shape[0], data.shape[0])
    limit = np.uint64(n_features)
    code = OK
    start = np.int64(indptr[0])
    if start < 0:
        return BAD_OFFSETS
    for i in range(out.shape[0]):
        stop = np.int64(indptr[i + 1])
        if stop < start or stop > size:
            return BAD_OFFSETS
        k, end = np.uint64(start), np.uint64(stop)
        s0 = s1 = s2 = s3 = 0.0
        while k + _4 <= end:
            # A negative index becomes a huge one.
            a, b = np.uint64(indices[k]), np.uint64(indices[k + _1])
            c, d = np.uint64(indices[k + _2]), np.uint64(indices[k + _3])
            if max(a, b, c, d) >= limit:
                return BAD_INDEX
            s0 += data[k] * weight_of(table, a)
            s1 += data[k + _1] * weight_of(table, b)
            s2 += data[k + _2] * weight_of(table, c)
            s3 += data[k + _3] * weight_of(table, d)
            k += _4
        while k < end:
            a = np.uint64(indices[k])
            if a >= limit:
                return BAD_INDEX
            s0 += data[k] * weight_of(table, a)
            k += _1
        total = (s0 + s1) + (s2 + s3)
        out[i] = total
        if not np.isfinite(total):
            code = NOT_FINITE
        start = stop
    return code


# Doors for Python: Numba takes bare arrays several microseconds faster than a NamedTuple of them.
@jit
def array_scores(indptr: Any, indices: Any, data: Any, w: Any, out: Any) -> int:
    """``csr_scores`` with all weights in one array."""
    return csr_scores(indptr, indices, data, DenseTable(w), w.shape[0], out)


@jit
def hashed_scores(
    indptr: Any, indices: Any, data: Any, keys: Any, values: Any, shift: Any, n: Any, out: Any
) -> int:
    """``csr_scores`` with a hash table of weights."""
    return csr_scores(indptr, indices, data, HashTable(keys, values, np.uint64(shift)), n, out)
