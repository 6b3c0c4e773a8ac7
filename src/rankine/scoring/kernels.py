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
from rankine.kernels.dispatch import question

__all__ = [
    "BAD_INDEX",
    "BAD_OFFSETS",
    "NOT_FINITE",
    "OK",
    "DenseTable",
    "HashTable",
    "Table",
    "build_table",
    "csr_list_scores",
    "csr_scores",
    "dense_list_scores",
    "dense_scores",
    "exact_scores",
    "run_csr_kernel",
    "weight_of",
]

OK, BAD_OFFSETS, BAD_INDEX, NOT_FINITE = 0, 1, 2, 3
_1, _2, _3, _4 = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
#: Slots per weight: most absent features then meet an empty slot at the first look.
_SLOTS_PER_WEIGHT = 8
_ARRAY_UP_TO = 1 << 21
_EMPTY = np.uint32(0xFFFFFFFF)
#: Knuth's multiplier, 2^32 / golden ratio; features are below 2^31, so products fit 64 bits.
_KNUTH = np.uint64(2654435769)
_LOW = np.uint64(0xFFFFFFFF)
#: An empty slot of a list's table.
_NOWHERE = np.uint64(0xFFFFFFFFFFFFFFFF)


class DenseTable(NamedTuple):
    """Slot j holds the weight of feature j."""

    values: NDArray[np.float64]


class HashTable(NamedTuple):
    """Open addressing with linear probing; ``keys`` holds features, empty slots 2^32 - 1."""

    keys: NDArray[np.uint32]
    values: NDArray[np.float64]
    shift: np.uint64


Table = DenseTable | HashTable


@question
def weight_of(table: Table, j: Any) -> Any:
    """Weight of feature j (unsigned), zero where it has none."""


@weight_of.answer(DenseTable)
def _dense_weight(table: Any, j: Any) -> Any:
    return table.values[j]


@weight_of.answer(HashTable)
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


@jit
def csr_list_scores(
    indptr: Any, indices: Any, data: Any, table: Any, n_features: Any, starts: Any, out: Any
) -> int:
    """Scores after division by each feature's range within its list (``ListRange``).

    The features of a list are measured in a hash table sized by the list's stored values, so that
    the cost is that of the rows, whatever the feature space and the model.
    """
    code = csr_scores(indptr, indices, data, table, n_features, out)  # checks every index
    if code not in (OK, NOT_FINITE):
        return code
    most = 0
    for q in range(starts.shape[0] - 1):
        most = max(most, int(indptr[starts[q + 1]] - indptr[starts[q]]))
    slots = np.empty(most, dtype=np.uint64)
    weights = np.empty(most)
    size = 1 << _table_bits(most)
    keys = np.empty(size, dtype=np.uint64)
    low, high, seen = np.empty(size), np.empty(size), np.empty(size, dtype=np.int64)
    code = OK
    for q in range(starts.shape[0] - 1):
        first, last = int(indptr[starts[q]]), int(indptr[starts[q + 1]])
        bits = _table_bits(last - first)
        keys[: 1 << bits] = _NOWHERE
        for k in range(last - first):
            j = np.uint64(indices[first + k])
            weights[k] = weight_of(table, j)
            if weights[k] == 0.0:
                continue
            slot = _place(keys, bits, j)
            slots[k] = slot
            x = np.float64(data[first + k])
            if keys[slot] == _NOWHERE:
                keys[slot], low[slot], high[slot], seen[slot] = j, x, x, 1
            else:
                low[slot], high[slot] = min(low[slot], x), max(high[slot], x)
                seen[slot] += 1
        n_rows = starts[q + 1] - starts[q]
        for i in range(starts[q], starts[q + 1]):
            total = 0.0
            for k in range(indptr[i] - first, indptr[i + 1] - first):
                if weights[k] == 0.0:
                    continue
                slot = slots[k]
                bottom = min(low[slot], 0.0) if seen[slot] < n_rows else low[slot]
                top = max(high[slot], 0.0) if seen[slot] < n_rows else high[slot]
                span = top * 0.5 - bottom * 0.5  # halves keep opposite huge values finite
                if span != 0:  # NaN must not pass for a constant
                    total += np.float64(data[first + k]) * 0.5 / span * weights[k]
            out[i] = total
            if not np.isfinite(total):
                code = NOT_FINITE
    return code


@jit
def _table_bits(n: int) -> int:
    """Bits of a hash table for n values: at most half full."""
    bits = 2
    while (1 << bits) < 2 * n:
        bits += 1
    return bits


@jit
def _place(keys: Any, bits: int, j: Any) -> Any:
    """Slot of feature j, or the free one where it belongs.

    Steps grow (1, 2, 3 ...): features chosen to meet in one region cannot make long chains.
    """
    last = np.uint64((1 << bits) - 1)
    slot = ((j * _KNUTH) & _LOW) >> np.uint64(32 - bits)
    step = _1
    while keys[slot] != _NOWHERE and keys[slot] != j:
        slot = (slot + step) & last
        step += _1
    return slot


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
    if count > 0 and (
        (low < 0.0 and partials[count - 1] < 0.0) or (low > 0.0 and partials[count - 1] > 0.0)
    ):
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
def _array_list_scores(indptr: Any, indices: Any, data: Any, w: Any, starts: Any, out: Any) -> int:
    return csr_list_scores(indptr, indices, data, DenseTable(w), w.shape[0], starts, out)


@jit
def _hashed_scores(
    indptr: Any, indices: Any, data: Any, keys: Any, values: Any, shift: Any, n: Any, out: Any
) -> int:
    return csr_scores(indptr, indices, data, HashTable(keys, values, np.uint64(shift)), n, out)


@jit
def _hashed_list_scores(
    indptr: Any,
    indices: Any,
    data: Any,
    keys: Any,
    values: Any,
    shift: Any,
    n: Any,
    starts: Any,
    out: Any,
) -> int:
    table = HashTable(keys, values, np.uint64(shift))
    return csr_list_scores(indptr, indices, data, table, n, starts, out)


def run_csr_kernel(
    parts: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
    table: Table,
    n_features: int,
    starts: NDArray[np.int64] | None,
    out: NDArray[np.float64],
) -> int:
    """Scores of compressed rows; with ``starts``, each feature is divided by its list's range."""
    if isinstance(table, DenseTable):
        if starts is None:
            return int(_array_scores(*parts, table.values, out))
        return int(_array_list_scores(*parts, table.values, starts, out))
    keys, values, shift = table
    if starts is None:
        return int(_hashed_scores(*parts, keys, values, int(shift), n_features, out))
    return int(_hashed_list_scores(*parts, keys, values, int(shift), n_features, starts, out))
