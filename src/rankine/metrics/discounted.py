"""Sums of gains that fade with the rank: DCG, NDCG, MeanNDCG and rank-biased precision.

    DCG@k   = sum over ranks r <= k of discount(r) gain(label at r)
    NDCG@k  = DCG@k over DCG@k of the best possible order
    RBP@k   = (1 - p) sum over relevant ranks r <= k of p^(r - 1)

MeanNDCG, of the LETOR 4.0 script, is the mean of NDCG@1, NDCG@2, ..., NDCG@n of a list of n. In RBP
(Moffat and Zobel 2008, eq. 5) a reader looks at rank r and goes on to the next with probability p,
the persistence.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.sorting import top_values
from rankine.metrics.families import block_means, list_expected, list_value
from rankine.metrics.gains import discounts
from rankine.metrics.metric import Definition, Metric, register


class Dcg(NamedTuple):
    """Discounts of the ranks; those of RBP are (1 - p) p^(r - 1)."""

    discount: NDArray[np.float64]


class Ndcg(NamedTuple):
    """Discounts of the ranks."""

    discount: NDArray[np.float64]


class MeanNdcg(NamedTuple):
    """Discounts of the ranks."""

    discount: NDArray[np.float64]


@jit
def _discounted_sum(ranked: Any, discount: Any, k: int) -> float:
    """sum_r discount[r] ranked[r] over the first k ranks."""
    total = 0.0
    for r in range(min(k, ranked.shape[0])):
        total += discount[r] * ranked[r]
    return total


@list_value.implementation(Dcg)
def _dcg(spec: Any, ranked: Any, gain: Any, k: Any) -> Any:
    return _discounted_sum(ranked, spec.discount, k) if gain.max() > 0.0 else np.nan


@list_expected.implementation(Dcg)
def _expected_dcg(spec: Any, ranked: Any, ends: Any, gain: Any, k: Any) -> Any:
    if not gain.max() > 0.0:
        return np.nan
    return _discounted_sum(block_means(ranked, ends), spec.discount, k)


@jit
def _normalised(ranked: Any, gain: Any, discount: Any, k: int) -> float:
    ideal = _discounted_sum(top_values(gain, k), discount, k)
    return _discounted_sum(ranked, discount, k) / ideal if ideal > 0.0 else np.nan


@list_value.implementation(Ndcg)
def _ndcg(spec: Any, ranked: Any, gain: Any, k: Any) -> Any:
    return _normalised(ranked, gain, spec.discount, k)


@list_expected.implementation(Ndcg)
def _expected_ndcg(spec: Any, ranked: Any, ends: Any, gain: Any, k: Any) -> Any:
    return _normalised(block_means(ranked, ends), gain, spec.discount, k)


@jit
def _mean_over_ranks(ranked: Any, gain: Any, discount: Any) -> float:
    best = top_values(gain, gain.shape[0])
    if not best[0] > 0.0:
        return np.nan
    total = found = ideal = 0.0
    if ranked.shape[0] == 0:
        return 0.0
    for r in range(ranked.shape[0]):
        found += discount[r] * ranked[r]
        ideal += discount[r] * best[r]
        total += found / ideal
    return float(total / ranked.shape[0])


@list_value.implementation(MeanNdcg)
def _mean_ndcg(spec: Any, ranked: Any, gain: Any, k: Any) -> Any:
    return _mean_over_ranks(ranked, gain, spec.discount)


@list_expected.implementation(MeanNdcg)
def _expected_mean_ndcg(spec: Any, ranked: Any, ends: Any, gain: Any, k: Any) -> Any:
    return _mean_over_ranks(block_means(ranked, ends), gain, spec.discount)


def _discount(metric: Metric, longest: int) -> NDArray[np.float64]:
    return discounts(str(metric.discount), longest)


def _patience(metric: Metric, longest: int) -> NDArray[np.float64]:
    p = float(metric.persistence or 0.0)
    return (1.0 - p) * p ** np.arange(longest, dtype=np.float64)


register(
    Definition(
        "ndcg",
        "NDCG",
        "ranks",
        lambda metric, longest: Ndcg(_discount(metric, longest)),
        items="gain",
        defaults={"gain": "exp", "discount": "std", "short": "fill"},
    ),
    Definition(
        "dcg",
        "DCG",
        "ranks",
        lambda metric, longest: Dcg(_discount(metric, longest)),
        items="gain",
        defaults={"gain": "exp", "discount": "std", "short": "fill"},
    ),
    Definition(
        "mean-ndcg",
        "MeanNDCG",
        "ranks",
        lambda metric, longest: MeanNdcg(_discount(metric, longest)),
        aliases=("meanndcg",),
        items="gain",
        cutoff="none",
        defaults={"gain": "exp", "discount": "std"},
    ),
    Definition(
        "rbp",
        "RBP",
        "ranks",
        lambda metric, longest: Dcg(_patience(metric, longest)),
        defaults={"threshold": 1.0, "persistence": 0.8},
    ),
)
