"""The two families of metrics: of ranked lists, and of pairs; one loop over queries each.

The spec of a list metric answers two questions about a list whose items carry ``gain`` (a gain, or
0/1 relevance): its value in one order, and its mean over all orders of items with equal scores. NaN
says that the metric has no value there (no relevant document); the caller decides what it counts.

The spec of a pair metric answers one: its value and its mass (how many pairs or items it pools), of
counts of correctly and wrongly ordered pairs in O(n log n). A mass of 0 says that the query has no
pair.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.dispatch import generic
from rankine.kernels.sorting import rank_order, tie_ends, top_order, top_values


class RankedLists(NamedTuple):
    """The ranked items: query q holds starts[q]:starts[q + 1]."""

    starts: NDArray[np.int64]
    gain: NDArray[np.float64]
    score: NDArray[np.float64]


class ItemPool(NamedTuple):
    """All items of each query, also those that have no rank: what an ideal order draws from."""

    starts: NDArray[np.int64]
    gain: NDArray[np.float64]


@generic
def list_value(spec: Any, ranked: Any, gain: Any, k: int) -> Any:
    """Value of a list: ``ranked`` holds the gains of the first min(k, n) ranks, ``gain`` all."""


@generic
def list_expected(spec: Any, ranked: Any, ends: Any, gain: Any, k: int) -> Any:
    """Mean value over the orders of ties: rank r (from 0) lies in a block that ends at ends[r].

    ``ranked`` holds the gains of all n ranks.
    """


@jit
def block_means(ranked: Any, ends: Any) -> Any:
    """Each gain replaced by the mean of its block: the expectation of anything linear in gains."""
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
def ranked_values(
    spec: Any,
    lists: RankedLists,
    pool: ItemPool,
    key: NDArray[np.float64],
    cutoffs: NDArray[np.int64],
    first: int,
    last: int,
    out: NDArray[np.float64],
) -> None:
    """out[q] = value of query q for first <= q < last, in the order of scores and keys."""
    for q in range(first, last):
        a, b = lists.starts[q], lists.starts[q + 1]
        everything = pool.gain[pool.starts[q] : pool.starts[q + 1]]
        order = top_order(lists.score[a:b], key[a:b], cutoffs[q])
        out[q] = _ordered_value(spec, lists.gain[a:b], order, everything, cutoffs[q])


@jit
def _ordered_value(spec: Any, gain: Any, order: Any, everything: Any, cutoff: int) -> Any:
    ranked = np.empty(order.shape[0])
    for r in range(order.shape[0]):
        ranked[r] = gain[order[r]]
    return list_value(spec, ranked, everything, cutoff)


@jit
def weighted_values(
    spec: Any,
    lists: RankedLists,
    pool: ItemPool,
    key: NDArray[np.float64],
    cutoffs: NDArray[np.int64],
    weights: NDArray[np.float64],
    first: int,
    last: int,
    out: NDArray[np.float64],
) -> None:
    """out[c, q] = value of query q by scores sum_j weights[c, j] x_ij; ``lists.score`` holds x."""
    width = weights.shape[1]
    for q in range(first, last):
        a, b = lists.starts[q], lists.starts[q + 1]
        scores = np.empty(b - a)
        columns = np.empty((width, scores.shape[0]))
        for j in range(width):
            for i in range(b - a):
                columns[j, i] = lists.score[a + i, j]
        everything = pool.gain[pool.starts[q] : pool.starts[q + 1]]
        everything = top_values(everything, everything.shape[0])  # the ideal order is found once
        ties = key[a:b]
        order = np.arange(b - a)
        for c in range(weights.shape[0]):
            scores[:] = 0.0
            for j in range(width):
                weight, column = weights[c, j], columns[j]
                for i in range(scores.shape[0]):
                    scores[i] += weight * column[i]
            floor = np.inf
            for r in range(order.shape[0]):  # the last top is near: what lies below it is no top
                floor = min(floor, scores[order[r]])
            order = top_order(scores, ties, cutoffs[q], floor)
            out[c, q] = _ordered_value(spec, lists.gain[a:b], order, everything, cutoffs[q])


@jit
def expected_values(
    spec: Any,
    lists: RankedLists,
    pool: ItemPool,
    no_key: NDArray[np.float64],
    cutoffs: NDArray[np.int64],
    first: int,
    last: int,
    out: NDArray[np.float64],
) -> None:
    """out[q] = expected value of query q under random orders of its ties."""
    for q in range(first, last):
        a, b = lists.starts[q], lists.starts[q + 1]
        gains, scores = lists.gain[a:b], lists.score[a:b]
        order = rank_order(scores, no_key)
        ranked = np.empty(order.shape[0])
        for r in range(order.shape[0]):
            ranked[r] = gains[order[r]]
        everything = pool.gain[pool.starts[q] : pool.starts[q + 1]]
        out[q] = list_expected(spec, ranked, tie_ends(scores, order), everything, cutoffs[q])


@generic
def pair_value(spec: Any, label: Any, score: Any) -> Any:
    """(value, mass) of one query."""


class PairCounts(NamedTuple):
    """Unordered pairs of a query.

    ``wrong``: labels differ and scores order them the other way; ``tied``: labels differ, scores
    are equal; ``usable``: labels differ; ``score_tied``: scores are equal, whatever the labels;
    ``total``: n (n - 1) / 2.
    """

    wrong: float
    tied: float
    usable: float
    score_tied: float
    total: float


@jit
def _tied_pairs(ends: Any) -> float:
    """Pairs inside blocks of equal values."""
    pairs = 0.0
    start = 0
    while start < ends.shape[0]:
        size = float(ends[start] - start)
        pairs += 0.5 * size * (size - 1.0)
        start = ends[start]
    return pairs


@jit
def _inversions(values: Any) -> float:
    """Pairs i < j with values[i] < values[j] (merge sort, descending)."""
    n = values.shape[0]
    source = values.copy()
    out = np.empty_like(source)
    found = 0.0
    width = 1
    while width < n:
        for start in range(0, n, 2 * width):
            middle, stop = min(start + width, n), min(start + 2 * width, n)
            left, right = start, middle
            for place in range(start, stop):
                if right >= stop or (left < middle and source[left] >= source[right]):
                    out[place] = source[left]
                    left += 1
                else:
                    found += middle - left
                    out[place] = source[right]
                    right += 1
        source, out = out, source
        width *= 2
    return found


@jit
def count_pairs(label: Any, score: Any) -> PairCounts:
    """Count the pairs of one query.

    Ordered by score, and by label (high first) among equal scores, the wrong pairs are the
    inversions of the labels.
    """
    n = label.shape[0]
    below = np.empty(n)
    for i in range(n):
        below[i] = -label[i]
    order = rank_order(score, below)
    ranked = np.empty(n)
    for r in range(n):
        ranked[r] = label[order[r]]
    score_ends = tie_ends(score, order)
    score_tied = _tied_pairs(score_ends)
    both_tied = 0.0
    start = 0
    while start < n:
        run = start + 1
        while run < score_ends[start] and ranked[run] == ranked[start]:
            run += 1
        size = float(run - start)
        both_tied += 0.5 * size * (size - 1.0)
        start = run
    by_label = rank_order(label, np.empty(0))
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
    """out[q], mass[q] = value and mass of query q for first <= q < last."""
    for q in range(first, last):
        a, b = starts[q], starts[q + 1]
        out[q], mass[q] = pair_value(spec, label[a:b], score[a:b])
