"""Rows of each query in order of score.

Long queries by a radix sort of the bits (least significant digit first, 11 bits a digit), short
ones by insertion into a few runs that are merged. Both are stable, so equal scores keep the order
in which rows were given.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankine.kernels.compile import jit

__all__ = ["RADIX_FROM", "sort_queries"]

#: Rows from which the radix sort's tables pay.
RADIX_FROM = 1024
_RUN = 12
_DIGITS, _BITS = 6, 11
_BUCKETS = 1 << _BITS
_MASK = np.uint64(_BUCKETS - 1)
_SIGN = np.uint64(1 << 63)


@jit
def _insertion_runs(keys: Any, items: Any) -> None:
    """Sort runs of ``_RUN`` neighbours by insertion."""
    m = keys.shape[0]
    for start in range(0, m, _RUN):
        for i in range(start + 1, min(start + _RUN, m)):
            key, item = keys[i], items[i]
            j = i - 1
            while j >= start and keys[j] > key:
                keys[j + 1], items[j + 1] = keys[j], items[j]
                j -= 1
            keys[j + 1], items[j + 1] = key, item


@jit
def _merge_pass(keys: Any, items: Any, width: int, out_keys: Any, out_items: Any) -> None:
    """Merge neighbouring sorted runs of ``width`` rows."""
    m = keys.shape[0]
    for start in range(0, m, 2 * width):
        middle, stop = min(start + width, m), min(start + 2 * width, m)
        i, j = start, middle
        for o in range(start, stop):
            if j >= stop or (i < middle and keys[i] <= keys[j]):
                out_keys[o], out_items[o] = keys[i], items[i]
                i += 1
            else:
                out_keys[o], out_items[o] = keys[j], items[j]
                j += 1


@jit
def _merge_sort(keys: Any, items: Any, spare_keys: Any, spare_items: Any) -> None:
    """Sort ``keys`` in place, carrying ``items``."""
    _insertion_runs(keys, items)
    m, width = keys.shape[0], _RUN
    while width < m:
        _merge_pass(keys, items, width, spare_keys, spare_items)
        keys[:] = spare_keys[:m]
        items[:] = spare_items[:m]
        width *= 2


@jit
def _digit_counts(bits: Any, counts: Any) -> None:
    counts[:] = 0
    for i in range(np.uint64(bits.shape[0])):
        # Order of doubles = order of their bits, once the sign is flipped (all bits if negative).
        b = bits[i]
        b = ~b if b & _SIGN else b | _SIGN
        bits[i] = b
        for digit in range(_DIGITS):
            counts[digit, (b >> np.uint64(_BITS * digit)) & _MASK] += np.uint32(1)


@jit
def _radix_sort(keys: Any, items: Any, spare_keys: Any, spare_items: Any) -> None:
    """Sort ``keys`` (no NaN) in place, carrying ``items``."""
    m = keys.shape[0]
    source, target = keys.view(np.uint64), spare_keys[:m].view(np.uint64)
    from_items, to_items = items, spare_items[:m]
    counts = np.zeros((_DIGITS, _BUCKETS), dtype=np.uint32)
    _digit_counts(source, counts)
    swapped = False
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
        items[:] = from_items


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
    """Order queries ``first`` to ``last`` by increasing score.

    Position k of the grouped order is row ``rows[k]``; query q holds positions
    ``starts[q]:starts[q + 1]``. ``out_scores`` and ``out_items`` receive the sorted scores and the
    positions they belong to; the spare arrays are scratch space of the same size.
    """
    for q in range(first, last):
        start, stop = starts[q], starts[q + 1]
        keys, items = out_scores[start:stop], out_items[start:stop]
        for k in range(start, stop):
            out_scores[k] = scores[rows[k]] + 0.0  # -0.0 becomes 0.0: equal scores, equal bits
            out_items[k] = k
        if stop - start < RADIX_FROM:
            _merge_sort(keys, items, spare_scores[start:stop], spare_items[start:stop])
        else:
            _radix_sort(keys, items, spare_scores[start:stop], spare_items[start:stop])
