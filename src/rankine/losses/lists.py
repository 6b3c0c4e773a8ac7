"""Losses of a whole list: pairs weighted by the change of a metric, and pointwise baselines."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankine.kernels.lists import deciding_ranks, exchange, open_list, rank_into, uses_ranking
from rankine.losses.base import list_loss, needs_pairs, pair_loss


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


@needs_pairs.implementation(LambdaWeighted)
def _pairs(_objective: Any) -> Any:
    return True


@needs_pairs.implementation(Pointwise)
@needs_pairs.implementation(PointwiseSquared)
def _no_pairs(_objective: Any) -> Any:
    return False


@list_loss.implementation(LambdaWeighted)
def _lambda_weighted(objective: Any, work: Any, n: Any, cutoff: Any, seed: Any) -> Any:
    levels, scores, weights, slopes = work.levels, work.scores, work.weights, work.slopes
    if uses_ranking(objective.gain):
        keys = levels if objective.rank_by_label else scores
        rank_into(keys, n, seed, work.order, work.ranks)
    common_factor = open_list(objective.gain, work, n, cutoff)
    lowest = np.inf
    for i in range(n):
        slopes[i] = 0.0
        lowest = min(lowest, levels[i])
    total = 0.0
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
                    total += pair_weight * value
                    slope_i += pair_weight * slope
                    slopes[j] -= pair_weight * slope
        slopes[i] += slope_i
    return total


@list_loss.implementation(Pointwise)
def _pointwise(objective: Any, work: Any, n: Any, _cutoff: Any, _seed: Any) -> Any:
    total = 0.0
    for i in range(n):
        sign = 1.0 if work.levels[i] > 0.0 else -1.0
        value, slope, _ = pair_loss(objective.loss, sign * work.scores[i])
        weight = work.weights[i] / n
        total += weight * value
        work.slopes[i] = weight * slope * sign
    return total


@list_loss.implementation(PointwiseSquared)
def _pointwise_squared(_objective: Any, work: Any, n: Any, _cutoff: Any, _seed: Any) -> Any:
    total = 0.0
    for i in range(n):
        residual = work.scores[i] - work.levels[i]
        weight = work.weights[i] / n
        total += weight * residual * residual * 0.5
        work.slopes[i] = weight * residual
    return total
