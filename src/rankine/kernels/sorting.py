"""A stable sort for kernels, and rankings by score.

Short lists are sorted by insertion into a few runs that are merged; rows of long queries by
a radix sort of the bits (least significant digit first, 11 bits per digit). Both are stable: equal
keys keep their order. Keys must not be NaN.

In a ranking the best score comes first. Items with equal scores are ordered by row, or by a key,
smallest first, in the functions whose name ends in ``_by_key``. Loops are used where NumPy has
slices and sorts, because they compile in a fraction of the time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.shards import cut_by_weight, map_shards, n_threads

#: From this number of rows on, the radix sort is faster in spite of its tables.
RADIX_FROM = 1024
#: From this number of rows on, two threads share a query.
LONG = 1 << 16
#: Runs of this length are sorted by insertion before merging.
_RUN = 12
#: Up to this length a list is ordered by insertion alone, without runs.
SHORT = 32
#: Up to this depth the top of a list is selected by insertion; for more, the list is sorted.
_SELECT = 64
_DIGITS, _BITS = 6, 11
_BUCKETS = 1 << _BITS
_MASK = np.uint64(_BUCKETS - 1)
_SIGN = np.uint64(1 << 63)


@jit
def _insertion_runs(keys: Any, items: Any) -> None:
    """Sort each run of ``_RUN`` neighbours by insertion."""
    m = keys.shape[0]
    for start in range(0, m, _RUN):
        for i in range(start, min(start + _RUN, m)):
            key, item = keys[i], items[i]
            j = i - 1
            while j >= start and keys[j] > key:
                keys[j + 1], items[j + 1] = keys[j], items[j]
                j -= 1
            keys[j + 1], items[j + 1] = key, item


@jit
def _merge(
    keys: Any, items: Any, start: int, middle: int, stop: int, end: int, out: Any, out_items: Any
) -> None:
    """Merge the smallest of two neighbouring sorted runs into ``out[start:end]``, stably."""
    i, j = start, middle
    for o in range(start, end):
        if j >= stop or (i < middle and keys[i] <= keys[j]):
            out[o], out_items[o] = keys[i], items[i]
            i += 1
        else:
            out[o], out_items[o] = keys[j], items[j]
            j += 1


@jit
def _merge_pass(keys: Any, items: Any, m: int, width: int, out_keys: Any, out_items: Any) -> None:
    """Merge pairs of neighbouring sorted runs of length ``width`` among the first ``m``."""
    for start in range(0, m, 2 * width):
        middle, stop = min(start + width, m), min(start + 2 * width, m)
        _merge(keys, items, start, middle, stop, stop, out_keys, out_items)


@jit
def merge_sort(keys: Any, items: Any, spare_keys: Any, spare_items: Any) -> None:
    """Sort ``keys`` in increasing order in place and ``items`` with them.

    The spare arrays are scratch space of at least the same length.
    """
    _insertion_runs(keys, items)
    m, width = keys.shape[0], _RUN
    while width < m:
        _merge_pass(keys, items, m, width, spare_keys, spare_items)
        width *= 2
        if width < m:
            _merge_pass(spare_keys, spare_items, m, width, keys, items)
            width *= 2
        else:
            for i in range(m):
                keys[i], items[i] = spare_keys[i], spare_items[i]


@jit
def _count_digits(bits: Any, counts: Any) -> None:
    """Turn doubles into integers of the same order, and count each of their digits."""
    for i in range(np.uint64(bits.shape[0])):
        # Order of doubles = order of their bits, once the sign is flipped (all bits if negative).
        b = bits[i]
        b = ~b if b & _SIGN else b | _SIGN
        bits[i] = b
        for digit in range(_DIGITS):
            counts[digit, (b >> np.uint64(_BITS * digit)) & _MASK] += np.uint32(1)


@jit
def _radix_sort(keys: Any, items: Any, spare_keys: Any, spare_items: Any) -> None:
    """Sort ``keys`` in increasing order in place and ``items`` with them."""
    m = keys.shape[0]
    source, target = keys.view(np.uint64), spare_keys[:m].view(np.uint64)
    from_items, to_items = items, spare_items[:m]
    counts = np.zeros((_DIGITS, _BUCKETS), dtype=np.uint32)
    _count_digits(source, counts)
    swapped = False
    # Least significant digit first: each pass is stable, so earlier digits decide ties.
    for digit in range(_DIGITS):
        shift = np.uint64(_BITS * digit)
        ends = counts[digit]
        if ends[(source[0] >> shift) & _MASK] == m:
            continue  # every key has the same digit here
        total = np.uint32(0)
        for bucket in range(_BUCKETS):
            count = ends[bucket]
            ends[bucket] = total
            total += count
        for i in range(np.uint64(m)):
            b = source[i]
            bucket_of = (b >> shift) & _MASK
            o = ends[bucket_of]
            ends[bucket_of] = o + np.uint32(1)
            target[o] = b
            to_items[o] = from_items[i]
        source, target = target, source
        from_items, to_items = to_items, from_items
        swapped = not swapped
    out = keys.view(np.uint64)
    for i in range(np.uint64(m)):
        b = source[i]
        out[i] = b ^ _SIGN if b & _SIGN else ~b
    if swapped:
        for i in range(np.uint64(m)):
            items[i] = from_items[i]


@jit
def sort_queries(
    scores: Any,
    rows: Any,
    starts: Any,
    first: int,
    last: int,
    out_scores: Any,
    out_items: Any,
    spare_scores: Any,
    spare_items: Any,
) -> None:
    """Sort the scores of queries ``first`` to ``last - 1`` in increasing order.

    Query q has positions ``starts[q]:starts[q + 1]``, and position k is row ``rows[k]``. The sorted
    scores are written to ``out_scores``, the position of each to ``out_items``; the spare arrays
    are scratch space of the same size.
    """
    for q in range(first, last):
        start, stop = starts[q], starts[q + 1]
        keys, items = out_scores[start:stop], out_items[start:stop]
        for k in range(start, stop):
            out_scores[k] = scores[rows[k]] + 0.0  # -0.0 becomes 0.0: equal scores, equal bits
            out_items[k] = k
        if stop - start < RADIX_FROM:
            merge_sort(keys, items, spare_scores[start:stop], spare_items[start:stop])
        else:
            _radix_sort(keys, items, spare_scores[start:stop], spare_items[start:stop])


@jit
def _merge_half(
    keys: Any, items: Any, start: int, middle: int, stop: int, upper: int, out: Any, out_items: Any
) -> None:
    """Merge two neighbouring sorted runs, but write only the lower or the upper half, stably."""
    half = (start + stop) // 2
    if upper == 0:
        _merge(keys, items, start, middle, stop, half, out, out_items)
        return
    i, j = middle - 1, stop - 1
    for back in range(stop - half):
        o = stop - 1 - back
        if i < start or (j >= middle and keys[i] <= keys[j]):
            out[o], out_items[o] = keys[j], items[j]
            j -= 1
        else:
            out[o], out_items[o] = keys[i], items[i]
            i -= 1


def sort_scores(
    scores: NDArray[np.float64],
    rows: NDArray[Any],
    starts: NDArray[np.int64],
    threads: int | None = None,
) -> tuple[NDArray[np.float64], NDArray[Any], NDArray[np.float64]]:
    """Sort the scores of every query in increasing order, in several threads.

    Returns the sorted scores, the position of each, and a scratch array of the same size. Two
    threads share a long query: each sorts a half of it and then merges a half of the result. The
    order is a stable sort's, so it does not depend on the number of threads.
    """
    out, spare = np.empty(len(rows)), np.empty(len(rows))
    items, spare_items = np.empty_like(rows), np.empty_like(rows)
    long = np.flatnonzero(np.diff(starts) >= LONG if n_threads(threads) > 1 else [])
    middles = (starts[long] + starts[long + 1]) // 2
    bounds = np.sort(np.concatenate([starts, middles]))

    def sort(first: int, last: int) -> None:
        sort_queries(scores, rows, bounds, first, last, out, items, spare, spare_items)

    def merge(half: int, _next: int) -> None:
        for q, middle in zip(long, middles, strict=True):
            _merge_half(out, items, starts[q], middle, starts[q + 1], half, spare, spare_items)

    map_shards(sort, cut_by_weight(bounds), threads)
    if len(long):
        map_shards(merge, range(3), threads)
    if len(long) == len(starts) - 1:
        return spare, spare_items, out
    for q in long:
        positions = slice(starts[q], starts[q + 1])
        out[positions], items[positions] = spare[positions], spare_items[positions]
    return out, items, spare


@jit
def order_descending(keys: Any, n: int, order: Any) -> None:
    """Write the positions of the n keys to ``order``, the largest key first, stably."""
    if n <= SHORT:
        for i in range(n):
            key = keys[i]
            k = i
            while k > 0 and keys[order[k - 1]] < key:
                order[k] = order[k - 1]
                k -= 1
            order[k] = i
        return
    negated = np.empty(n)
    for i in range(n):
        negated[i] = -keys[i]
        order[i] = i
    merge_sort(negated, order[:n], np.empty(n), np.empty(n, dtype=np.int64))


@jit
def rank_order(score: Any) -> Any:
    """Return the positions of all items, best first; ties are ordered by position."""
    n = score.shape[0]
    order = np.empty(n, dtype=np.int64)
    order_descending(score, n, order)
    return order


@jit
def list_ranks(scores: Any, starts: Any) -> Any:
    """Return the rank of each row in its list, 1 for the best; ties are ordered by position."""
    ranks = np.empty(scores.shape[0], dtype=np.int32)
    order = np.empty(scores.shape[0], dtype=np.int64)
    for q in range(starts.shape[0] - 1):
        start, n = starts[q], starts[q + 1] - starts[q]
        order_descending(scores[start : start + n], n, order)
        for k in range(n):
            ranks[start + order[k]] = k + 1
    return ranks


@jit
def rank_order_by_key(score: Any, key: Any) -> Any:
    """Return the positions of all items, best first; ties are ordered by key, smallest first."""
    n = score.shape[0]
    order = rank_order(score)
    tied_keys, spare, spare_items = np.empty(n), np.empty(n), np.empty(n, dtype=np.int64)
    start = 0
    while start < n:
        stop = start
        while stop < n and score[order[stop]] == score[order[start]]:
            tied_keys[stop] = key[order[stop]]
            stop += 1
        merge_sort(tied_keys[start:stop], order[start:stop], spare, spare_items)
        start = stop
    return order


@jit
def _select_top(score: Any, size: int, floor: float) -> Any:
    """Return positions and scores of the best ``size`` items by insertion, stably.

    At least ``size`` scores must be ``floor`` or larger; smaller ones are skipped quickly.
    """
    order = np.empty(size, dtype=np.int64)
    best = np.empty(size)
    n = np.uint64(score.shape[0])
    # Unsigned numbers: a signed index costs a test for wrap-around at every access.
    last = np.uint64(size - 1)
    unit = np.uint64(1)
    filled = np.uint64(0)
    for i in range(np.uint64(0), n):
        value = score[i]
        if value < floor:
            continue
        rank: Any = filled
        if filled > last:
            if value <= best[last]:
                continue
            rank = last
        else:
            filled += unit
        while rank > 0 and best[rank - unit] < value:
            best[rank] = best[rank - unit]
            order[rank] = order[rank - unit]
            rank -= unit
        best[rank] = value
        order[rank] = i
    return order, best


@jit
def _select_top_by_key(score: Any, key: Any, size: int) -> Any:
    """Return the positions of the best ``size`` items by insertion; ties are ordered by key."""
    order = np.empty(size, dtype=np.int64)
    for i in range(score.shape[0]):
        rank = min(i, size)
        while rank > 0 and _precedes(score, key, i, order[rank - 1]):
            if rank < size:
                order[rank] = order[rank - 1]
            rank -= 1
        if rank < size:
            order[rank] = i
    return order


@jit
def _precedes(score: Any, key: Any, i: int, j: int) -> bool:
    """Return whether item i is ranked before item j, where j < i."""
    return bool(score[i] > score[j] or (score[i] == score[j] and key[i] < key[j]))


@jit
def top_order(score: Any, k: int, floor: float = -np.inf) -> Any:
    """Return the positions of the best min(k, n) items, best first; ties are ordered by position.

    At least that many scores must be ``floor`` or larger. A short top is selected by insertion, in
    O(n + k^2 log(n / k)) on average for random orders.
    """
    size = min(k, score.shape[0])
    if size > _SELECT:
        return rank_order(score)[:size]
    if size == 0:
        return np.empty(0, dtype=np.int64)
    return _select_top(score, size, floor)[0]


@jit
def top_order_by_key(score: Any, key: Any, k: int) -> Any:
    """Return the positions of the best min(k, n) items, best first; ties are ordered by key."""
    size = min(k, score.shape[0])
    if size > _SELECT:
        return rank_order_by_key(score, key)[:size]
    return _select_top_by_key(score, key, size)


@jit
def top_values(values: Any, k: int) -> Any:
    """Return the min(k, n) largest values, largest first."""
    size = min(k, values.shape[0])
    if 0 < size <= _SELECT:
        return _select_top(values, size, -np.inf)[1]
    order = rank_order(values)
    best = np.empty(size)
    for r in range(size):
        best[r] = values[order[r]]
    return best


@jit
def tie_ends(score: Any, order: Any) -> Any:
    """Return, for each rank, the end (exclusive) of its block of equal scores."""
    n = order.shape[0]
    ends = np.empty(n, dtype=np.int64)
    end = n
    for r in range(n - 1, -1, -1):
        if r + 1 < n and score[order[r]] != score[order[r + 1]]:
            end = r + 1
        ends[r] = end
    return ends
