"""Scores of lists, in one pass over what is stored; every index is checked on the way.

``rows`` come from callers: a kernel that trusted their offsets would read foreign memory. Each
returns ``OK``, ``BAD_OFFSETS``, ``BAD_INDEX`` or, where all else is well, ``NOT_FINITE``: checking
the scores costs less than checking the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankine.kernels.compile import REDUCE, jit
from rankine.scoring.lookup import DenseTable, HashTable, slot_of, weight_of

__all__ = [
    "BAD_INDEX",
    "BAD_OFFSETS",
    "NOT_FINITE",
    "OK",
    "csr_list_scores",
    "csr_scores",
    "dense_list_scores",
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


@jit
def csr_list_scores(
    indptr: Any,
    indices: Any,
    data: Any,
    table: Any,
    n_features: Any,
    starts: Any,
    out: Any,
) -> int:
    """Scores after division by each feature's range within its list (``ListRange``).

    Only features with a weight are measured: low, high and count live in the table's slots.
    """
    slots = table.values.shape[0]
    low, high = np.zeros(slots), np.zeros(slots)
    seen = np.zeros(slots, dtype=np.int64)
    code = csr_scores(indptr, indices, data, table, n_features, out)  # checks every index
    if code not in (OK, NOT_FINITE):
        return code
    code = OK
    for q in range(starts.shape[0] - 1):
        first, last = indptr[starts[q]], indptr[starts[q + 1]]
        size = starts[q + 1] - starts[q]
        for k in range(np.uint64(first), np.uint64(last)):
            slot = slot_of(table, np.uint64(indices[k]))
            if slot < np.uint64(slots):
                x = np.float64(data[k])
                low[slot] = x if seen[slot] == 0 else min(low[slot], x)
                high[slot] = x if seen[slot] == 0 else max(high[slot], x)
                seen[slot] += 1
        for i in range(starts[q], starts[q + 1]):
            total = 0.0
            for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                slot = slot_of(table, np.uint64(indices[k]))
                if slot < np.uint64(slots):
                    bottom = min(low[slot], 0.0) if seen[slot] < size else low[slot]
                    top = max(high[slot], 0.0) if seen[slot] < size else high[slot]
                    span = top * 0.5 - bottom * 0.5
                    if span != 0:  # NaN must not pass for a constant
                        total += np.float64(data[k]) * 0.5 / span * table.values[slot]
            out[i] = total
            if not np.isfinite(total):
                code = NOT_FINITE
        for k in range(np.uint64(first), np.uint64(last)):
            slot = slot_of(table, np.uint64(indices[k]))
            if slot < np.uint64(slots):
                seen[slot] = 0
    return code


@jit
def dense_list_scores(values: Any, indices: Any, weights: Any, starts: Any, out: Any) -> int:
    """Scores of dense rows after ``ListRange``, over the non-zero weights alone."""
    out[:] = 0.0
    for q in range(starts.shape[0] - 1):
        first, last = starts[q], starts[q + 1]
        if first == last:
            continue
        for p in range(indices.shape[0]):
            j = indices[p]
            low = high = np.float64(values[first, j])
            for i in range(first + 1, last):
                low = min(low, np.float64(values[i, j]))
                high = max(high, np.float64(values[i, j]))
            span = high * 0.5 - low * 0.5
            if span != 0:  # NaN must not pass for a constant
                for i in range(first, last):
                    out[i] += np.float64(values[i, j]) * 0.5 / span * weights[p]
    return OK if np.isfinite(out).all() else NOT_FINITE


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
