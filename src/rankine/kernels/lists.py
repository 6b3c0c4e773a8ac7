"""Work space for one list, rankings with seeded ties, and |Delta| of exchanges.

|Delta| is the change of a metric when two items of a ranking are exchanged. For each metric,
``open_list`` reads a ranked list (``work.levels``, ``work.ranks``) once, and ``exchange`` returns
|M(r) - M(r with i and j exchanged)| for level_i > level_j in O(1); Freno et al., eq. 3. ``levels``
are gains for DCG, and relevance (1 or 0) for recall, MRR and MAP.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.dispatch import generic
from rankine.kernels.random import random_below
from rankine.kernels.sorting import order_descending


class ListWork(NamedTuple):
    """Buffers for one list, whose items are the first ``n`` entries, in file order.

    ``levels`` are the values that are compared: gains, relevance or labels, as the objective
    defines. ``slopes`` is the derivative of the list's loss with respect to each score; ``ranks``
    count from 1. ``zero_loss[0]`` is the loss at scores of 0, with the pairs weighted as at the
    present ranking. ``first`` and ``second`` are scratch space of the metric, set by ``open_list``.
    """

    scores: NDArray[np.float64]
    levels: NDArray[np.float64]
    weights: NDArray[np.float64]
    slopes: NDArray[np.float64]
    order: NDArray[np.int64]
    ranks: NDArray[np.int64]
    zero_loss: NDArray[np.float64]
    first: NDArray[np.float64]
    second: NDArray[np.float64]


def list_work(longest: int) -> ListWork:
    """Create buffers for lists of up to ``longest`` items."""
    size = longest + 2
    return ListWork(
        scores=np.zeros(size),
        levels=np.zeros(size),
        weights=np.zeros(size),
        slopes=np.zeros(size),
        order=np.zeros(size, dtype=np.int64),
        ranks=np.zeros(size, dtype=np.int64),
        zero_loss=np.zeros(1),
        first=np.zeros(size),
        second=np.zeros(size),
    )


@jit
def rank_into(keys: Any, n: int, seed: int, order: Any, ranks: Any) -> None:
    """Rank n items by decreasing key, from 1; items of equal keys are ordered at random."""
    order_descending(keys, n, order)
    start = 0
    while start < n:
        stop = start + 1
        while stop < n and keys[order[stop]] == keys[order[start]]:
            stop += 1
        for k in range(stop - 1, start, -1):
            drawn = start + random_below(seed, k, k - start + 1)
            order[k], order[drawn] = order[drawn], order[k]
        start = stop
    for k in range(n):
        ranks[order[k]] = k + 1


class DcgGain(NamedTuple):
    """DCG or NDCG at a cutoff: (G_i - G_j) |d(r_i) - d(r_j)|, d(r) = 0 after the cutoff.

    ``discounts[r - 1]`` is d(r); NDCG divides by the DCG of the best order at the same cutoff.
    """

    discounts: NDArray[np.float64]
    normalised: bool


class RecallGain(NamedTuple):
    """R@K: [(r_i <= K) != (r_j <= K)] / relevant items."""


class ReciprocalRankGain(NamedTuple):
    """MRR@K: the reciprocal rank of the first relevant item, 0 after the cutoff."""


class AveragePrecisionGain(NamedTuple):
    """Average precision over the whole list."""


@generic
def open_list(gain: Any, work: ListWork, n: int, cutoff: int) -> Any:
    """Prepare a ranked list and return the factor common to its pairs; 0 if no pair counts."""


@generic
def exchange(gain: Any, work: ListWork, i: int, j: int, cutoff: int) -> Any:
    """Return |Delta(i, j)| without the common factor, for level_i > level_j."""


@generic
def deciding_ranks(gain: Any, work: ListWork, n: int, cutoff: int) -> Any:
    """Return k such that |Delta| is 0 for two items that both rank below k; n without one."""


@deciding_ranks.implementation(AveragePrecisionGain)
def _all_ranks_decide(_gain: Any, _work: Any, n: Any, _cutoff: Any) -> Any:
    return n


@deciding_ranks.implementation(DcgGain)
@deciding_ranks.implementation(RecallGain)
def _ranks_to_the_cutoff_decide(_gain: Any, _work: Any, n: Any, cutoff: Any) -> Any:
    return min(n, cutoff)


@deciding_ranks.implementation(ReciprocalRankGain)
def _ranks_to_the_first_relevant_decide(_gain: Any, work: Any, n: Any, cutoff: Any) -> Any:
    return int(min(float(min(n, cutoff)), work.first[0]))


@open_list.implementation(DcgGain)
def _open_dcg(gain: Any, work: Any, n: Any, cutoff: Any) -> Any:
    """Set first[i] to the discount of item i."""
    depth = min(n, cutoff)
    for i in range(n):
        rank = work.ranks[i]
        work.first[i] = gain.discounts[rank - 1] if rank <= depth else 0.0
    if not gain.normalised:
        return 1.0
    order_descending(work.levels, n, work.order)
    ideal = 0.0
    for k in range(depth):
        ideal += work.levels[work.order[k]] * gain.discounts[k]
    return 1.0 / ideal if ideal > 0.0 else 0.0


@exchange.implementation(DcgGain)
def _exchange_dcg(_gain: Any, work: Any, i: Any, j: Any, _cutoff: Any) -> Any:
    return (work.levels[i] - work.levels[j]) * abs(work.first[i] - work.first[j])


@open_list.implementation(RecallGain)
def _open_recall(_gain: Any, work: Any, n: Any, _cutoff: Any) -> Any:
    relevant = 0.0
    for i in range(n):
        relevant += work.levels[i]
    return 1.0 / relevant if relevant > 0.0 else 0.0


@exchange.implementation(RecallGain)
def _exchange_recall(_gain: Any, work: Any, i: Any, j: Any, cutoff: Any) -> Any:
    return 1.0 if (work.ranks[i] <= cutoff) != (work.ranks[j] <= cutoff) else 0.0


@open_list.implementation(ReciprocalRankGain)
def _open_mrr(_gain: Any, work: Any, n: Any, cutoff: Any) -> Any:
    """Set first[0] and first[1] to the ranks of the first and the second relevant item."""
    work.first[0] = work.first[1] = np.inf
    for i in range(n):
        if work.levels[i] > 0.0:
            rank = float(work.ranks[i])
            if rank < work.first[0]:
                work.first[1] = work.first[0]
                work.first[0] = rank
            elif rank < work.first[1]:
                work.first[1] = rank
    return 1.0


@exchange.implementation(ReciprocalRankGain)
def _exchange_mrr(_gain: Any, work: Any, i: Any, j: Any, cutoff: Any) -> Any:
    # Item i is relevant and j is not, so the first relevant rank may move to the rank of j.
    best, second = work.first[0], work.first[1]
    rank_i, rank_j = float(work.ranks[i]), float(work.ranks[j])
    if rank_j < rank_i:
        new_best = min(best, rank_j)
    elif rank_i == best:
        new_best = min(second, rank_j)
    else:
        return 0.0
    value = 1.0 / best if best <= cutoff else 0.0
    new_value = 1.0 / new_best if new_best <= cutoff else 0.0
    return abs(new_value - value)


@open_list.implementation(AveragePrecisionGain)
def _open_map(_gain: Any, work: Any, n: Any, _cutoff: Any) -> Any:
    """Set first[r] to the number of relevant items down to rank r, second[r] to the sum of 1/r."""
    for rank in range(n + 1):
        work.first[rank] = 0.0
    for i in range(n):
        work.first[work.ranks[i]] = work.levels[i]
    work.second[0] = 0.0
    for rank in range(1, n + 1):
        work.second[rank] = work.second[rank - 1] + work.first[rank] / rank
        work.first[rank] += work.first[rank - 1]
    return 1.0 / work.first[n] if work.first[n] > 0.0 else 0.0


@exchange.implementation(AveragePrecisionGain)
def _exchange_map(_gain: Any, work: Any, i: Any, j: Any, _cutoff: Any) -> Any:
    a, b = work.ranks[i], work.ranks[j]
    count, inverse = work.first, work.second
    if b < a:
        change = (count[b] + 1.0) / b - count[a] / a + inverse[a] - 1.0 / a - inverse[b]
    else:
        change = count[a] / a - count[b] / b + inverse[b] - inverse[a]
    return abs(change)
