"""Weights as a scorer looks them up, and the scores of lists in one pass over what is stored.

A weight stands in one array, or in a small hash table in a huge feature space. The array is faster
(one load, no branch); the table's memory follows the model's weights and not its feature space, so
that a server can hold thousands of models over 2^26 hashed features.

Rows come from callers: a kernel that trusted their offsets would read foreign memory, so every
index is checked on the way. Each kernel returns ``OK``, ``BAD_OFFSETS``, ``BAD_INDEX`` or, where
all else is well, ``NOT_FINITE``: checking the scores costs less than checking the rows.
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
#: Slots per weight: most absent features then meet an empty slot at the first look.
_SLOTS_PER_WEIGHT = 8
_ARRAY_UP_TO = 1 << 21
_EMPTY = np.uint32(0xFFFFFFFF)
#: Knuth's multiplier, 2^32 / golden ratio; features are below 2^31, so products fit 64 bits.
_KNUTH = np.uint64(2654435769)
_LOW = np.uint64(0xFFFFFFFF)


class DenseTable(NamedTuple):
    """Slot j holds the weight of feature j."""

    values: NDArray[np.float64]


class HashTable(NamedTuple):
    """Open addressing with linear probing; ``keys`` holds features, empty slots 2^32 - 1."""

    keys: NDArray[np.uint32]
    values: NDArray[np.float64]
    shift: np.uint64


Table = DenseTable | HashTable


@generic
def weight_of(table: Table, j: Any) -> Any:
    """Weight of feature j (unsigned), zero where it has none."""


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
    """The table of a model.

    ``small`` asks for the hash table (True) or the array (False); None takes the array up to 2^21
    features (16 MB), and wherever the hash table would be no smaller.
    """
    slots = _SLOTS_PER_WEIGHT * max(len(indices), 8)
    if small is None:
        small = n_features > _ARRAY_UP_TO
    if not small or n_features <= 2 * slots:
        dense = np.zeros(n_features)
        dense[indices] = values
        return DenseTable(dense)
    bits = int(slots - 1).bit_length()
    keys = np.full(1 << bits, _EMPTY, dtype=np.uint32)
    held = np.zeros(1 << bits)
    mask, shift = (1 << bits) - 1, 32 - bits
    for j, value in zip(indices.tolist(), values.tolist(), strict=True):
        slot = ((j * 2654435769) & 0xFFFFFFFF) >> shift
        while keys[slot] != _EMPTY:
            slot = (slot + 1) & mask
        keys[slot] = j
        held[slot] = value
    return HashTable(keys, held, np.uint64(shift))


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


#: More partial sums than the exponents of doubles can keep apart.
_PARTIALS = 64


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
    if count > 0 and (low < 0.0) == (partials[count - 1] < 0.0):  # neither is 0
        y = low * 2.0
        x = high + y
        if y == x - high:
            high = x
    return high


# Doors for Python: Numba takes bare arrays several microseconds faster than a NamedTuple of them.
@jit
def _array_scores(indptr: Any, indices: Any, data: Any, w: Any, out: Any) -> int:
    return csr_scores(indptr, indices, data, DenseTable(w), w.shape[0], out)


@jit
def _hashed_scores(
    indptr: Any, indices: Any, data: Any, keys: Any, values: Any, shift: Any, n: Any, out: Any
) -> int:
    return csr_scores(indptr, indices, data, HashTable(keys, values, np.uint64(shift)), n, out)


def run_csr_kernel(
    parts: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
    table: Table,
    n_features: int,
    starts: NDArray[np.int64] | None,
    out: NDArray[np.float64],
) -> int:
    """Scores of compressed rows; with ``starts``, each feature is divided by its list's range."""
    code = _weigh(parts, table, n_features, out)  # checks every offset and index
    if starts is None or code not in (OK, NOT_FINITE):
        return code
    scaled = list_range_values(CsrRows(*parts), n_features, starts)
    return _weigh((parts[0], parts[1], scaled), table, n_features, out)


def _weigh(
    parts: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
    table: Table,
    n_features: int,
    out: NDArray[np.float64],
) -> int:
    if isinstance(table, DenseTable):
        return int(_array_scores(*parts, table.values, out))
    keys, values, shift = table
    return int(_hashed_scores(*parts, keys, values, int(shift), n_features, out))
