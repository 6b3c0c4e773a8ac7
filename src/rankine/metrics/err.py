"""Expected reciprocal rank (Chapelle, Metzler, Zhang and Grinspan 2009, eq. 4).

    ERR@k = sum over r <= k of 1/r p_r prod over i < r of (1 - p_i),   p = (2^label - 1) / 2^max

A reader goes down the list and stops at rank r with probability p_r. ``max_label`` is a property
of the task (default: 4) and never taken from the data. With gains from a table or a column, p is
that gain itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankine.kernels.compile import jit
from rankine.metrics.families import list_expected, list_value
from rankine.metrics.metric import Definition, Metric, register


class ExpectedReciprocalRank(NamedTuple):
    """Gains divided by ``scale`` are stopping probabilities."""

    scale: float


@list_value.implementation(ExpectedReciprocalRank)
def _value(spec: Any, ranked: Any, gain: Any, k: Any) -> Any:
    total, reach_probability = 0.0, 1.0
    for r in range(min(k, ranked.shape[0])):
        stop_probability = ranked[r] / spec.scale
        total += reach_probability * stop_probability / (r + 1.0)
        reach_probability *= 1.0 - stop_probability
    return total


@jit
def _mean_products(values: Any, largest: int) -> Any:
    """Compute mean[j], the mean over all subsets of j <= ``largest`` values of their product.

    Adding value v to i - 1 others: mean_i[j] = (j/i) v mean[j - 1] + (1 - j/i) mean[j].
    """
    mean = np.zeros(largest + 1)
    mean[0] = 1.0
    for i in range(1, values.shape[0] + 1):
        # Downwards: mean[j - 1] must still be the mean over i - 1 values.
        for j in range(min(i, largest), 0, -1):
            share = j / i
            mean[j] = share * values[i - 1] * mean[j - 1] + (1.0 - share) * mean[j]
    return mean


@list_expected.implementation(ExpectedReciprocalRank)
def _expected(spec: Any, ranked: Any, ends: Any, gain: Any, k: Any) -> Any:
    """Average over the orders of tied items, block by block of equal scores."""
    total, reach_probability = 0.0, 1.0
    start = 0
    while start < min(k, ranked.shape[0]):
        end = ends[start]
        n_counted = min(k, end) - start
        # passed[j]: the mean probability that j random items of the block do not stop the reader.
        passed = _mean_products(1.0 - ranked[start:end] / spec.scale, n_counted)
        for r in range(n_counted):
            total += reach_probability * (passed[r] - passed[r + 1]) / (start + r + 1.0)
        reach_probability *= passed[n_counted]  # no rank follows a block that the cutoff cuts
        start = end
    return total


def _spec(metric: Metric, longest: int) -> ExpectedReciprocalRank:
    if metric.gain != "exp":
        return ExpectedReciprocalRank(1.0)
    return ExpectedReciprocalRank(2.0 ** float(metric.max_label or 0.0))


register(
    Definition(
        "err",
        "ERR",
        "ranks",
        _spec,
        summary="Expected reciprocal rank at which a reader who stops at good items stops.",
        items="gain",
        defaults={"gain": "exp", "max_label": 4},
    )
)
