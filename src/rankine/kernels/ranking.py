"""The order of a list: best score first, ties by a key, then by position.

``key`` is empty (ties keep the order of the rows) or holds one number per item: among equal
scores the smaller key comes first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankine.kernels.compile import jit

__all__ = ["precedes", "rank_order", "tie_ends", "top_order", "top_values"]

#: Runs of this length are sorted by insertion before merging.
_RUN = 16
#: Up to this depth the top of a list is selected; deeper, the list is sorted.
_SELECT = 64


@jit
def precedes(score: Any, key: Any, i: int, j: int) -> bool:
    """Whether item i stands before item j."""
    if score[i] != score[j]:
        return bool(score[i] > score[j])
    if key.shape[0] > 0 and key[i] != key[j]:
        return bool(key[i] < key[j])
    return i < j


@jit
def _insert_run(score: Any, key: Any, order: Any, start: int, stop: int) -> None:
    for i in range(start + 1, stop):
        item = order[i]
        j = i - 1
        while j >= start and precedes(score, key, item, order[j]):
            order[j + 1] = order[j]
            j -= 1
        order[j + 1] = item


@jit
def _merge(score: Any, key: Any, source: Any, start: int, middle: int, stop: int, out: Any) -> None:
    left, right = start, middle
    for place in range(start, stop):
        if right >= stop or (
            left < middle and not precedes(score, key, source[right], source[left])
        ):
            out[place] = source[left]
            left += 1
        else:
            out[place] = source[right]
            right += 1


@jit
def rank_order(score: Any, key: Any) -> Any:
    """Positions of all items, best first (merge sort, stable)."""
    n = score.shape[0]
    order = np.arange(n)
    for start in range(0, n, _RUN):
        _insert_run(score, key, order, start, min(start + _RUN, n))
    spare = np.empty_like(order)
    width = _RUN
    while width < n:
        for start in range(0, n, 2 * width):
            middle = min(start + width, n)
            _merge(score, key, order, start, middle, min(start + 2 * width, n), spare)
        order, spare = spare, order
        width *= 2
    return order


@jit
def _select_top(score: Any, size: int) -> Any:
    """Positions and scores of the best ``size`` items, ties in order of position, by insertion."""
    order = np.empty(size, dtype=np.int64)
    best = np.empty(size)
    n = np.uint64(score.shape[0])
    last = np.uint64(size - 1)
    one = np.uint64(1)
    for i in range(np.uint64(0), n):
        value = score[i]
        if i > last and value <= best[last]:
            continue
        place: Any = min(i, last)
        while place > 0 and best[place - one] < value:
            best[place] = best[place - one]
            order[place] = order[place - one]
            place -= one
        best[place] = value
        order[place] = i
    return order, best


@jit
def _select_top_by_key(score: Any, key: Any, size: int) -> Any:
    """The best ``size`` items, equal scores by key, by insertion."""
    order = np.empty(size, dtype=np.int64)
    for i in range(score.shape[0]):
        if i >= size and not precedes(score, key, i, order[size - 1]):
            continue
        place = min(i, size - 1)
        while place > 0 and precedes(score, key, i, order[place - 1]):
            order[place] = order[place - 1]
            place -= 1
        order[place] = i
    return order


@jit
def top_order(score: Any, key: Any, k: int) -> Any:
    """Positions of the best min(k, n) items, best first.

    A short top is selected by insertion, O(n + k^2 log(n / k)) on average for random orders.
    """
    size = min(k, score.shape[0])
    if size > _SELECT:
        return rank_order(score, key)[:size]
    if size == 0:
        return np.empty(0, dtype=np.int64)
    if key.shape[0] > 0:
        return _select_top_by_key(score, key, size)
    return _select_top(score, size)[0]


@jit
def top_values(values: Any, k: int) -> Any:
    """The min(k, n) largest values, largest first."""
    size = min(k, values.shape[0])
    if size > _SELECT or size == 0:
        return -np.sort(-values)[:size]
    return _select_top(values, size)[1]


@jit
def tie_ends(score: Any, order: Any) -> Any:
    """For each rank, the end (exclusive) of its block of equal scores."""
    n = order.shape[0]
    ends = np.empty(n, dtype=np.int64)
    end = n
    for r in range(n - 1, -1, -1):
        if r + 1 < n and score[order[r]] != score[order[r + 1]]:
            end = r + 1
        ends[r] = end
    return ends
