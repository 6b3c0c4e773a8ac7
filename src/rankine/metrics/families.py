"""The two families of metrics, ranked lists and pairs, and their loops over queries.

The spec of a list metric implements two generic functions of a list whose items have a ``gain`` (a
gain, or 0/1 relevance): its value in one order (``list_value``) and its mean over all orders of
items with equal scores (``list_expected``). Neither is called for a list in which no item has a
positive gain: its value is NaN, and the caller decides how such a query counts.

The spec of a pair metric implements ``pair_value``: its value and its mass, the number of pairs or
items that it averages over. A query of mass 0 has no pair. Pairs are counted in O(n log n).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.dispatch import generic
from rankine.kernels.sorting import (
    rank_order,
    rank_order_by_key,
    tie_ends,
    top_order,
    top_order_by_key,
    top_values,
)


class RankedLists(NamedTuple):
    """Items that have a rank; query q holds rows starts[q]:starts[q + 1]."""

    starts: NDArray[np.int64]
    gain: NDArray[np.float64]
    score: NDArray[np.float64]
    #: Orders items with equal scores, smallest first, if ``has_tie_key``; otherwise their rows do.
    tie_key: NDArray[np.float64]
    has_tie_key: bool
    #: Average over all orders of items with equal scores instead.
    averages_ties: bool


class ItemPool(NamedTuple):
    """All items of each query, also those without a rank; an ideal order draws from them."""

    starts: NDArray[np.int64]
    gain: NDArray[np.float64]


@generic
def list_value(spec: Any, ranked: Any, gain: Any, k: int) -> Any:
    """Return the value of one list.

    ``ranked`` holds the gains of the first min(k, n) ranks, ``gain`` the gains of all items.
    """


@generic
def list_expected(spec: Any, ranked: Any, ends: Any, gain: Any, k: int) -> Any:
    """Return the mean value of one list over all orders of its ties.

    ``ranked`` holds the gains of the first ranks, at least to the end of the block of equal scores
    that contains rank min(k, n); the block of rank r (from 0) ends at ends[r].
    """


@jit
def block_means(ranked: Any, ends: Any) -> Any:
    """Replace each gain by the mean of its block of ties.

    A metric that is linear in gains has its expectation over ties at these means.
    """
    means = np.empty(ranked.shape[0])
    start = 0
    while start < ranked.shape[0]:
        end = ends[start]
        total = 0.0
        for r in range(start, end):
            total += ranked[r]
        for r in range(start, end):
            means[r] = total / (end - start)
        start = end
    return means


@jit
def _has_gain(gains: Any) -> bool:
    # Stops at the first positive gain, so that a long list costs almost nothing.
    for gain in gains:  # noqa: SIM110 - Numba compiles no generators in any()
        if gain > 0.0:
            return True
    return False


@jit
def ranked_values(
    spec: Any,
    lists: RankedLists,
    pool: ItemPool,
    cutoffs: NDArray[np.int64],
    first: int,
    last: int,
    out: NDArray[np.float64],
) -> None:
    """Set out[q] to the value of query q, first <= q < last."""
    for q in range(first, last):
        scores = lists.score[lists.starts[q] : lists.starts[q + 1]]
        all_gains = pool.gain[pool.starts[q] : pool.starts[q + 1]]
        out[q] = np.nan
        if _has_gain(all_gains):
            out[q] = _value_and_top(spec, lists, q, scores, all_gains, cutoffs[q], -np.inf)[0]


@jit
def _value_and_top(
    spec: Any, lists: Any, q: int, scores: Any, all_gains: Any, cutoff: int, floor: float
) -> Any:
    """Return the value of query q under the given scores, and the positions of its top items.

    At least as many scores as there are top items must be ``floor`` or larger.
    """
    a, b = lists.starts[q], lists.starts[q + 1]
    gains = lists.gain[a:b]
    if lists.has_tie_key:
        top = top_order_by_key(scores, lists.tie_key[a:b], cutoff)
    elif lists.averages_ties:
        # One rank more than counts, so that a tie across the cutoff is a tie of neighbours too.
        top = top_order(scores, cutoff + 1, floor)
        if _has_tie(scores, top):
            order = _complete_last_block(scores, top, cutoff)
            ranked = _in_order(gains, order)
            value = list_expected(spec, ranked, tie_ends(scores, order), all_gains, cutoff)
            return value, top
    else:
        top = top_order(scores, cutoff, floor)
    return list_value(spec, _in_order(gains, top[:cutoff]), all_gains, cutoff), top


@jit
def _has_tie(scores: Any, order: Any) -> bool:
    """Return whether two neighbours of an order have equal scores."""
    for r in range(1, order.shape[0]):  # noqa: SIM110 - Numba compiles no generators in any()
        if scores[order[r]] == scores[order[r - 1]]:
            return True
    return False


@jit
def _complete_last_block(scores: Any, top: Any, cutoff: int) -> Any:
    """Return the positions ``top`` with all items that are tied with the last one that counts."""
    # The whole list is in ``top``: no item is left that could be tied with the last one.
    if top.shape[0] <= cutoff:
        return top
    last = scores[top[cutoff - 1]]
    if scores[top[cutoff]] < last:
        return top[:cutoff]
    n_above = 0
    while scores[top[n_above]] > last:
        n_above += 1
    order = np.empty(scores.shape[0], dtype=np.int64)
    order[:n_above] = top[:n_above]
    size = n_above
    for i in range(scores.shape[0]):
        if scores[i] == last:
            order[size] = i
            size += 1
    return order[:size]


@jit
def _in_order(values: Any, order: Any) -> Any:
    ordered = np.empty(order.shape[0])
    for r in range(order.shape[0]):
        ordered[r] = values[order[r]]
    return ordered


@jit
def weighted_values(
    spec: Any,
    lists: RankedLists,
    pool: ItemPool,
    cutoffs: NDArray[np.int64],
    weights: NDArray[np.float64],
    first: int,
    last: int,
    out: NDArray[np.float64],
) -> None:
    """Set out[c, q] to the value of query q under scores s_i = sum_j weights[c, j] x_ij.

    ``lists.score`` holds the features x, one row per item.
    """
    width = weights.shape[1]
    for q in range(first, last):
        a, b = lists.starts[q], lists.starts[q + 1]
        all_gains = pool.gain[pool.starts[q] : pool.starts[q + 1]]
        if not _has_gain(all_gains):
            out[:, q] = np.nan
            continue
        scores = np.empty(b - a)
        columns = np.empty((width, scores.shape[0]))
        for j in range(width):
            for i in range(b - a):
                columns[j, i] = lists.score[a + i, j]
        # Sorted once here: metrics that need the ideal order then sort a sorted array.
        all_gains = top_values(all_gains, all_gains.shape[0])
        order = np.arange(b - a)
        for c in range(weights.shape[0]):
            scores[:] = 0.0
            for j in range(width):
                weight, column = weights[c, j], columns[j]
                for i in range(scores.shape[0]):
                    scores[i] += weight * column[i]
            # The items at the top under the previous weights bound the new top from below, so that
            # most items are skipped by one comparison.
            floor = np.inf
            for r in range(order.shape[0]):
                floor = min(floor, scores[order[r]])
            value, order = _value_and_top(spec, lists, q, scores, all_gains, cutoffs[q], floor)
            out[c, q] = value


@generic
def pair_value(spec: Any, label: Any, score: Any) -> Any:
    """Return the value and the mass of one query."""


class PairCounts(NamedTuple):
    """Numbers of unordered pairs of a query.

    Attributes
    ----------
    wrong
        Labels differ and scores order them the other way.
    tied
        Labels differ, scores are equal.
    usable
        Labels differ.
    score_tied
        Scores are equal; labels differ or not.
    total
        All pairs, n (n - 1) / 2.
    """

    wrong: float
    tied: float
    usable: float
    score_tied: float
    total: float


@jit
def _tied_pairs(ends: Any) -> float:
    """Count the pairs inside blocks of equal values."""
    pairs = 0.0
    start = 0
    while start < ends.shape[0]:
        size = float(ends[start] - start)
        pairs += 0.5 * size * (size - 1.0)
        start = ends[start]
    return pairs


@jit
def _inversions(values: Any) -> float:
    """Count the pairs i < j with values[i] < values[j], by merge sort in descending order."""
    n = values.shape[0]
    source = values.copy()
    out = np.empty_like(source)
    n_inversions = 0.0
    width = 1
    while width < n:
        for start in range(0, n, 2 * width):
            middle, stop = min(start + width, n), min(start + 2 * width, n)
            left, right = start, middle
            for k in range(start, stop):
                # Equal values are taken from the left half first, since they are no inversion.
                if right >= stop or (left < middle and source[left] >= source[right]):
                    out[k] = source[left]
                    left += 1
                else:
                    # This value is larger than all that remain of the left half.
                    n_inversions += middle - left
                    out[k] = source[right]
                    right += 1
        source, out = out, source
        width *= 2
    return n_inversions


@jit
def count_pairs(label: Any, score: Any) -> PairCounts:
    """Count the pairs of one query.

    With items ordered by score, and by label (high first) among equal scores, the wrong pairs are
    the inversions of the labels.
    """
    n = label.shape[0]
    tie_key = np.empty(n)
    for i in range(n):
        tie_key[i] = -label[i]
    order = rank_order_by_key(score, tie_key)
    ranked = np.empty(n)
    for r in range(n):
        ranked[r] = label[order[r]]
    score_ends = tie_ends(score, order)
    score_tied = _tied_pairs(score_ends)
    # Pairs that are tied in scores and labels: they are not usable, so not tied pairs either.
    both_tied = 0.0
    start = 0
    while start < n:
        end = start + 1
        while end < score_ends[start] and ranked[end] == ranked[start]:
            end += 1
        size = float(end - start)
        both_tied += 0.5 * size * (size - 1.0)
        start = end
    by_label = rank_order(label)
    total = 0.5 * n * (n - 1.0)
    usable = total - _tied_pairs(tie_ends(label, by_label))
    return PairCounts(_inversions(ranked), score_tied - both_tied, usable, score_tied, total)


@jit
def pair_values(
    spec: Any,
    starts: NDArray[np.int64],
    label: NDArray[np.float64],
    score: NDArray[np.float64],
    first: int,
    last: int,
    out: NDArray[np.float64],
    mass: NDArray[np.float64],
) -> None:
    """Set out[q] and mass[q] to the value and the mass of query q, first <= q < last."""
    for q in range(first, last):
        a, b = starts[q], starts[q + 1]
        out[q], mass[q] = pair_value(spec, label[a:b], score[a:b])
