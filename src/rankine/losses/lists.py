"""Losses of a whole list: all pairs, pairs weighted by the change of a metric, and single items.

The hinges and the squared loss are powers of the gap m - (s_i - s_j) over the pairs within the
margin m. Sums of such powers over all pairs take O(n log n) by sorting the scores::

    up_k   = sum over the active higher partners i of k of w_i (m - (s_i - s_k))^(power - 1)
    down_k = the same over its lower partners j, of m - (s_k - s_j)
    slopes = power w (up - down),    loss = sum_k w_k (m up_k + s_k (up_k - down_k))
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankine.kernels.compile import jit
from rankine.kernels.counting import Each, SortedRows, active_sums
from rankine.kernels.lists import deciding_ranks, exchange, open_list, rank_into
from rankine.kernels.sorting import merge_sort, order_descending
from rankine.losses.base import gap_power, list_loss, needs_pairs, pair_loss

#: From this many items above the lowest level on, sums by sorting are faster than pair by pair.
SORT_FROM = 128


class AllPairs(NamedTuple):
    """sum over level_i > level_j of P(s_i - s_j): RankSVM with a hinge, RankLR if logistic."""

    loss: Any


class LambdaWeighted(NamedTuple):
    """sum over level_i > level_j of |Delta(i, j)| P(s_i - s_j); Freno et al., eq. 4.

    |Delta(i, j)| is the change of the metric when items i and j change places, a constant in the
    gradient. P is a pair loss that falls as s_i - s_j grows (the paper's printed logistic term has
    the opposite sign). |Delta| is measured at the model's ranking, or at the ranking by label if
    ``rank_by_label``; items with equal keys are ranked at random in both.
    """

    loss: Any
    gain: Any
    rank_by_label: bool


class Pointwise(NamedTuple):
    """Mean over the items of P(s) where the level is positive, P(-s) elsewhere.

    With the logistic loss this is logistic regression; no pair is formed.
    """

    loss: Any


class PointwiseSquared(NamedTuple):
    """Mean over the items of (level - s)^2 / 2."""


@needs_pairs.implementation(AllPairs)
@needs_pairs.implementation(LambdaWeighted)
def _pairs(_objective: Any) -> Any:
    return True


@needs_pairs.implementation(Pointwise)
@needs_pairs.implementation(PointwiseSquared)
def _no_pairs(_objective: Any) -> Any:
    return False


@jit
def _partner_sums(rows: Any, values: Any, upward: bool) -> Any:
    """Return the sum of ``values`` over the active higher, or lower, partners of each row."""
    sums = np.empty(len(values))
    active_sums(rows, (0, 1), Each(values), np.empty(rows.n_levels[0] + 1), upward, sums)
    return sums


@jit
def _sum_by_sorting(work: Any, n: int, power: int, margin: float, limit: float) -> float:
    """Sum the powers of the gap over all pairs with s_i - s_j < ``limit``; see the module."""
    keys, order = work.scores[:n].copy(), np.arange(n)
    merge_sort(keys, order, np.empty(n), np.empty(n, dtype=np.int64))
    order_descending(work.levels, n, work.order)
    rank = 1
    for k in range(n - 1, -1, -1):
        if k < n - 1 and work.levels[work.order[k]] > work.levels[work.order[k + 1]]:
            rank += 1
        work.ranks[work.order[k]] = rank
    ranks, weights, weighted_scores = np.empty(n, np.uint32), np.empty(n), np.empty(n)
    # Only differences count: scores relative to the median lose no digits to a common offset.
    middle = keys[n // 2]
    for k in range(n):
        ranks[k], weights[k] = work.ranks[order[k]], work.weights[order[k]]
        weighted_scores[k] = weights[k] * (keys[k] - middle)
    rows = SortedRows(keys, ranks, np.array([rank]), np.array([0, n]), limit)
    up, down = _partner_sums(rows, weights, True), _partner_sums(rows, weights, False)
    if power == 2:
        higher = _partner_sums(rows, weighted_scores, True)
        lower = _partner_sums(rows, weighted_scores, False)
        for k in range(n):
            up[k] = (margin + (keys[k] - middle)) * up[k] - higher[k]
            down[k] = (margin - (keys[k] - middle)) * down[k] + lower[k]
    # At scores of 0 every pair has the gap ``margin``.
    level_weight, lower_weight, pair_weight = 0.0, 0.0, 0.0
    for k in range(n - 1, -1, -1):
        item = work.order[k]
        if k < n - 1 and work.levels[item] > work.levels[work.order[k + 1]]:
            lower_weight += level_weight
            level_weight = 0.0
        level_weight += work.weights[item]
        pair_weight += work.weights[item] * lower_weight
    work.zero_loss[0] = pair_weight * margin**power
    total = 0.0
    for k in range(n):
        total += weights[k] * margin * up[k] + weighted_scores[k] * (up[k] - down[k])
        work.slopes[order[k]] = power * weights[k] * (up[k] - down[k])
    return total


@list_loss.implementation(AllPairs)
def _all_pairs(objective: Any, work: Any, n: Any, _cutoff: Any, _seed: Any) -> Any:
    levels, scores, weights, slopes = work.levels, work.scores, work.weights, work.slopes
    lowest = np.inf
    for i in range(n):
        slopes[i] = 0.0
        lowest = min(lowest, levels[i])
    n_higher = 0
    for i in range(n):
        if levels[i] > lowest:
            n_higher += 1
    power, margin, limit = gap_power(objective.loss)
    if power > 0 and n_higher >= SORT_FROM:
        return _sum_by_sorting(work, n, power, margin, limit)
    total, total_weight = 0.0, 0.0
    for i in range(n):
        if levels[i] <= lowest:
            continue  # no item is below this one
        slope_i = 0.0
        for j in range(n):
            if levels[j] < levels[i]:
                value, slope, _ = pair_loss(objective.loss, scores[i] - scores[j])
                pair_weight = weights[i] * weights[j]
                total_weight += pair_weight
                total += pair_weight * value
                slope_i += pair_weight * slope
                slopes[j] -= pair_weight * slope
        slopes[i] += slope_i
    work.zero_loss[0] = total_weight * pair_loss(objective.loss, 0.0)[0]
    return total


@list_loss.implementation(LambdaWeighted)
def _lambda_weighted(objective: Any, work: Any, n: Any, cutoff: Any, seed: Any) -> Any:
    levels, scores, weights, slopes = work.levels, work.scores, work.weights, work.slopes
    keys = levels if objective.rank_by_label else scores
    rank_into(keys, n, seed, work.order, work.ranks)
    common_factor = open_list(objective.gain, work, n, cutoff)
    lowest = np.inf
    for i in range(n):
        slopes[i] = 0.0
        lowest = min(lowest, levels[i])
    total, total_weight = 0.0, 0.0
    work.zero_loss[0] = 0.0
    if common_factor == 0.0:
        return total
    # Below the cutoff an item is exchanged with those above it only: O(n k) for a long list. They
    # stay in file order, which fixes the order of the sums.
    n_ranks = deciding_ranks(objective.gain, work, n, cutoff)
    n_top = 0
    if n_ranks < n:
        for j in range(n):
            if work.ranks[j] <= n_ranks:
                work.order[n_top] = j
                n_top += 1
    for i in range(n):
        if levels[i] <= lowest:
            continue  # no item is below this one
        slope_i = 0.0
        with_all = n_ranks >= n or work.ranks[i] <= n_ranks
        for k in range(n if with_all else n_top):
            j = k if with_all else work.order[k]
            if levels[j] < levels[i]:
                delta = exchange(objective.gain, work, i, j, cutoff)
                if delta > 0.0:
                    value, slope, _ = pair_loss(objective.loss, scores[i] - scores[j])
                    pair_weight = delta * common_factor * weights[i] * weights[j]
                    total_weight += pair_weight
                    total += pair_weight * value
                    slope_i += pair_weight * slope
                    slopes[j] -= pair_weight * slope
        slopes[i] += slope_i
    work.zero_loss[0] = total_weight * pair_loss(objective.loss, 0.0)[0]
    return total


@list_loss.implementation(Pointwise)
def _pointwise(objective: Any, work: Any, n: Any, _cutoff: Any, _seed: Any) -> Any:
    total, total_weight = 0.0, 0.0
    for i in range(n):
        sign = 1.0 if work.levels[i] > 0.0 else -1.0
        value, slope, _ = pair_loss(objective.loss, sign * work.scores[i])
        weight = work.weights[i] / n
        total += weight * value
        total_weight += weight
        work.slopes[i] = weight * slope * sign
    work.zero_loss[0] = total_weight * pair_loss(objective.loss, 0.0)[0]
    return total


@list_loss.implementation(PointwiseSquared)
def _pointwise_squared(_objective: Any, work: Any, n: Any, _cutoff: Any, _seed: Any) -> Any:
    total, at_zero = 0.0, 0.0
    for i in range(n):
        residual = work.scores[i] - work.levels[i]
        weight = work.weights[i] / n
        total += weight * residual * residual * 0.5
        at_zero += weight * work.levels[i] * work.levels[i] * 0.5
        work.slopes[i] = weight * residual
    work.zero_loss[0] = at_zero
    return total
