"""Losses of a whole list: metric-weighted pairs, and the pointwise baselines."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankine.kernels.lists import exchange, open_list, rank_into, uses_ranking
from rankine.losses.base import list_loss, needs_pairs, pair_loss


class LambdaWeighted(NamedTuple):
    """sum over level_i > level_j of |Delta(i, j)| P(s_i - s_j); Freno et al., eq. 4.

    Pairs are ordered by label, |Delta| is never negative, and P falls as s_i - s_j grows (the
    printed logistic term has the opposite sign). |Delta| is a constant in the gradient. It is
    measured at the model's ranking, or at the ranking by label when ``target`` is set; equal keys
    are ranked by chance in both.
    """

    loss: Any
    gain: Any
    target: bool


class Pointwise(NamedTuple):
    """Mean over the items of P(s) where the level is positive, P(-s) elsewhere.

    With the logistic loss this is the papers' logistic regression; no pair is ever formed.
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
        keys = levels if objective.target else scores
        rank_into(keys, n, seed, work.order, work.ranks)
    common = open_list(objective.gain, work, n, cutoff)
    lowest = np.inf
    for i in range(n):
        slopes[i] = 0.0
        lowest = min(lowest, levels[i])
    total = 0.0
    if common == 0.0:
        return total
    for i in range(n):
        if levels[i] <= lowest:
            continue
        pull = 0.0
        for j in range(n):
            if levels[j] < levels[i]:
                change = exchange(objective.gain, work, i, j, cutoff)
                if change > 0.0:
                    value, slope, _ = pair_loss(objective.loss, scores[i] - scores[j])
                    share = change * common * weights[i] * weights[j]
                    total += share * value
                    pull += share * slope
                    slopes[j] -= share * slope
        slopes[i] += pull
    return total


@list_loss.implementation(Pointwise)
def _pointwise(objective: Any, work: Any, n: Any, _cutoff: Any, _seed: Any) -> Any:
    total = 0.0
    for i in range(n):
        sign = 1.0 if work.levels[i] > 0.0 else -1.0
        value, slope, _ = pair_loss(objective.loss, sign * work.scores[i])
        share = work.weights[i] / n
        total += share * value
        work.slopes[i] = share * slope * sign
    return total


@list_loss.implementation(PointwiseSquared)
def _pointwise_squared(_objective: Any, work: Any, n: Any, _cutoff: Any, _seed: Any) -> Any:
    total = 0.0
    for i in range(n):
        gap = work.scores[i] - work.levels[i]
        share = work.weights[i] / n
        total += share * gap * gap * 0.5
        work.slopes[i] = share * gap
    return total
