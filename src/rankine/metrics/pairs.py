"""Metrics of pairs: counts of correctly and wrongly ordered pairs in O(n log n).

A spec answers one question about a query: its value and its mass (how many pairs or items it
pools). A mass of 0 says that the query has no pair.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.dispatch import question
from rankine.kernels.sorting import rank_order, tie_ends

__all__ = ["PairCounts", "count_pairs", "pair_value", "pair_values"]


@question
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
