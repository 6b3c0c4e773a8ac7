"""Weight tables, and kernels that score lists in one pass over the stored values.

Weights are stored in one array or, for a huge feature space, in a small hash table. The array is
faster (one load, no branch). The hash table's size depends on the number of weights instead of the
number of features, so that a server can hold thousands of models over 2^26 hashed features.

Rows come from callers, and a kernel that trusted their offsets would read foreign memory. Every
index is therefore checked. Each kernel returns ``OK``, ``BAD_OFFSETS``, ``BAD_INDEX`` or, if
nothing else is wrong, ``NOT_FINITE``: checking the scores is cheaper than checking the rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import REDUCE, jit
from rankine.kernels.dispatch import generic
from rankine.kernels.list_range import list_range_values
from rankine.kernels.rows import CsrRows

OK, BAD_OFFSETS, BAD_INDEX, NOT_FINITE = 0, 1, 2, 3
_1, _2, _3, _4 = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
#: Slots per weight: most features without a weight then hit an empty slot at once.
_SLOTS_PER_WEIGHT = 8
#: Number of features up to which weights are stored in an array (16 MB).
_MAX_ARRAY_FEATURES = 1 << 21
_EMPTY = np.uint32(0xFFFFFFFF)
#: Knuth's multiplier, 2^32 / golden ratio; features are below 2^31, so products fit 64 bits.
_KNUTH = np.uint64(2654435769)
_LOW = np.uint64(0xFFFFFFFF)


class DenseTable(NamedTuple):
    """Slot j holds the weight of feature j."""

    values: NDArray[np.float64]


class HashTable(NamedTuple):
    """Open addressing with linear probing; ``keys`` holds features, and 2^32 - 1 in empty slots."""

    keys: NDArray[np.uint32]
    values: NDArray[np.float64]
    shift: np.uint64


Table = DenseTable | HashTable


@generic
def weight_of(table: Table, j: Any) -> Any:
    """Return the weight of feature j (unsigned), zero if it has none."""


@weight_of.implementation(DenseTable)
def _dense_weight(table: Any, j: Any) -> Any:
    return table.values[j]


@weight_of.implementation(HashTable)
def _hashed_weight(table: Any, j: Any) -> Any:
    last = np.uint64(table.keys.shape[0]) - _1
    slot = ((j * _KNUTH) & _LOW) >> table.shift
    key = table.keys[slot]
    while key != _EMPTY:
        if np.uint64(key) == j:
            return table.values[slot]
        slot = (slot + _1) & last
        key = table.keys[slot]
    return 0.0


def build_table(
    indices: NDArray[np.int64],
    values: NDArray[np.float64],
    n_features: int,
    *,
    small: bool | None = None,
) -> Table:
    """Build the weight table of a model.

    ``small`` selects the hash table (True) or the array (False). By default it is the array for up
    to 2^21 features; it is always the array if the hash table would not be smaller.
    """
    slots = _SLOTS_PER_WEIGHT * max(len(indices), 8)
    if small is None:
        small = n_features > _MAX_ARRAY_FEATURES
    if not small or n_features <= 2 * slots:
        dense = np.zeros(n_features)
        dense[indices] = values
        return DenseTable(dense)
    bits = int(slots - 1).bit_length()
    keys = np.full(1 << bits, _EMPTY, dtype=np.uint32)
    slot_values = np.zeros(1 << bits)
    mask, shift = (1 << bits) - 1, 32 - bits
    for j, value in zip(indices.tolist(), values.tolist(), strict=True):
        slot = ((j * 2654435769) & 0xFFFFFFFF) >> shift
        while keys[slot] != _EMPTY:
            slot = (slot + 1) & mask
        keys[slot] = j
        slot_values[slot] = value
    return HashTable(keys, slot_values, np.uint64(shift))


@jit(fastmath=REDUCE)
def _dot(values: Any, i: int, w: Any) -> float:
    total = 0.0
    for j in range(values.shape[1]):
        total += values[i, j] * w[j]
    return total


# fastmath only in _dot: re-association would also remove the test for finite numbers.
@jit
def dense_scores(values: Any, w: Any, out: Any) -> int:
    """Compute out_i = sum_j w_j x_ij in float64, for x of any type."""
    code = OK
    for i in range(values.shape[0]):
        total = _dot(values, i, w)
        out[i] = total
        if not np.isfinite(total):
            code = NOT_FINITE
    return code


@jit
def csr_scores(indptr: Any, indices: Any, data: Any, table: Any, n_features: Any, out: Any) -> int:
    """Compute out_i, the sum over the stored values of row i of w_j x_ij.

    Four partial sums are independent of each other; with one, each addition would wait for the
    last.
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
            # As unsigned numbers negative indices are huge, so that one test checks both bounds.
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


#: Largest number of partial sums: doubles have too few exponents for more without overlap.
_MAX_PARTIALS = 64


@jit
def exact_scores(values: Any, weights: Any, out: Any) -> bool:
    """Compute out_i = fl(sum_j fl(w_j x_ij)): rounded products, whose exact sum is rounded once.

    This is the algorithm of ``math.fsum`` (Shewchuk, "Adaptive Precision Floating-Point
    Arithmetic", 1997). Its partial sums do not overlap, so the result does not depend on the order
    of columns. Return whether all scores are finite.
    """
    partials = np.empty(_MAX_PARTIALS)
    for i in range(values.shape[0]):
        count = 0
        for j in range(values.shape[1]):
            x = values[i, j] * weights[j]
            n_nonzero = 0
            for k in range(count):
                y = partials[k]
                if abs(x) < abs(y):
                    x, y = y, x
                high = x + y
                low = y - (high - x)
                if low != 0.0:
                    partials[n_nonzero] = low
                    n_nonzero += 1
                x = high
            if not np.isfinite(x):
                return False
            count = n_nonzero
            if x != 0.0:
                partials[count] = x
                count += 1
        out[i] = _rounded(partials, count)
    return True


@jit
def _rounded(partials: Any, count: int) -> float:
    """Return the sum of partial sums, rounded half to even."""
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
    # At a tie, the sign of the next partial sum decides the direction (neither is 0).
    if count > 0 and (low < 0.0) == (partials[count - 1] < 0.0):
        y = low * 2.0
        x = high + y
        if y == x - high:
            high = x
    return high


# Entry points for Python: Numba unboxes arrays several microseconds faster than a NamedTuple.
@jit
def _array_scores(indptr: Any, indices: Any, data: Any, w: Any, out: Any) -> int:
    return csr_scores(indptr, indices, data, DenseTable(w), w.shape[0], out)


@jit
def _hashed_scores(
    indptr: Any, indices: Any, data: Any, keys: Any, values: Any, shift: Any, n: Any, out: Any
) -> int:
    return csr_scores(indptr, indices, data, HashTable(keys, values, np.uint64(shift)), n, out)


def run_csr_kernel(
    rows: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
    table: Table,
    n_features: int,
    out: NDArray[np.float64],
) -> int:
    """Score compressed rows into ``out`` and return the kernel's code."""
    if isinstance(table, DenseTable):
        return int(_array_scores(*rows, table.values, out))
    keys, values, shift = table
    return int(_hashed_scores(*rows, keys, values, int(shift), n_features, out))


def run_scaled_csr_kernel(
    rows: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
    table: Table,
    n_features: int,
    starts: NDArray[np.int64],
    out: NDArray[np.float64],
) -> int:
    """Score compressed rows whose features are divided by their range within each list."""
    # The unscaled pass checks every offset and index before the scaling uses them.
    code = run_csr_kernel(rows, table, n_features, out)
    if code not in (OK, NOT_FINITE):
        return code
    scaled = list_range_values(CsrRows(*rows), n_features, starts)
    return run_csr_kernel((rows[0], rows[1], scaled), table, n_features, out)
