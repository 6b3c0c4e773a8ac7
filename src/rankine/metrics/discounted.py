"""Discounted sums of gains: DCG, NDCG, MeanNDCG and rank-biased precision (RBP).

    DCG@k   = sum over ranks r <= k of discount(r) gain(label at r)
    NDCG@k  = DCG@k divided by DCG@k of the best possible order
    RBP@k   = (1 - p) sum over relevant ranks r <= k of p^(r - 1)

MeanNDCG, from the LETOR 4.0 script, is the mean of NDCG@1, ..., NDCG@n of a list of n items. RBP
(Moffat and Zobel 2008, eq. 5) models a reader who continues from one rank to the next with
probability p, the persistence.
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
    """Sum of gains times ``discount``; RBP uses the discounts (1 - p) p^(r - 1)."""

    discount: NDArray[np.float64]


class Ndcg(NamedTuple):
    """DCG divided by the DCG of the best order."""

    discount: NDArray[np.float64]


class MeanNdcg(NamedTuple):
    """Mean of NDCG over all cutoffs."""

    discount: NDArray[np.float64]


@jit
def _discounted_sum(ranked: Any, discount: Any, k: int) -> float:
    """Compute sum_r discount[r] ranked[r] over the first k ranks."""
    total = 0.0
    for r in range(min(k, ranked.shape[0])):
        total += discount[r] * ranked[r]
    return total


@list_value.implementation(Dcg)
def _dcg(spec: Any, ranked: Any, gain: Any, k: Any) -> Any:
    return _discounted_sum(ranked, spec.discount, k)


@list_expected.implementation(Dcg)
def _expected_dcg(spec: Any, ranked: Any, ends: Any, gain: Any, k: Any) -> Any:
    return _discounted_sum(block_means(ranked, ends), spec.discount, k)


@jit
def _normalised(ranked: Any, gain: Any, discount: Any, k: int) -> float:
    return _discounted_sum(ranked, discount, k) / _discounted_sum(top_values(gain, k), discount, k)


@list_value.implementation(Ndcg)
def _ndcg(spec: Any, ranked: Any, gain: Any, k: Any) -> Any:
    return _normalised(ranked, gain, spec.discount, k)


@list_expected.implementation(Ndcg)
def _expected_ndcg(spec: Any, ranked: Any, ends: Any, gain: Any, k: Any) -> Any:
    return _normalised(block_means(ranked, ends), gain, spec.discount, k)


@jit
def _mean_over_ranks(ranked: Any, gain: Any, discount: Any) -> float:
    ideal_order = top_values(gain, gain.shape[0])
    total = dcg = ideal_dcg = 0.0
    if ranked.shape[0] == 0:
        return 0.0
    for r in range(ranked.shape[0]):
        dcg += discount[r] * ranked[r]
        ideal_dcg += discount[r] * ideal_order[r]
        total += dcg / ideal_dcg
    return float(total / ranked.shape[0])


@list_value.implementation(MeanNdcg)
def _mean_ndcg(spec: Any, ranked: Any, gain: Any, k: Any) -> Any:
    return _mean_over_ranks(ranked, gain, spec.discount)


@list_expected.implementation(MeanNdcg)
def _expected_mean_ndcg(spec: Any, ranked: Any, ends: Any, gain: Any, k: Any) -> Any:
    return _mean_over_ranks(block_means(ranked, ends), gain, spec.discount)


def _discount(metric: Metric, longest: int) -> NDArray[np.float64]:
    return discounts(str(metric.discount), longest)


def _rbp(metric: Metric, longest: int) -> Dcg:
    p = float(metric.persistence or 0.0)
    return Dcg((1.0 - p) * p ** np.arange(longest, dtype=np.float64))


register(
    Definition(
        "ndcg",
        "NDCG",
        "ranks",
        lambda metric, longest: Ndcg(_discount(metric, longest)),
        summary="Discounted gain of the ranking divided by that of the best ranking.",
        items="gain",
        defaults={"gain": "exp", "discount": "std", "short": "fill"},
    ),
    Definition(
        "dcg",
        "DCG",
        "ranks",
        lambda metric, longest: Dcg(_discount(metric, longest)),
        summary="Sum of gains, discounted by rank.",
        items="gain",
        defaults={"gain": "exp", "discount": "std", "short": "fill"},
    ),
    Definition(
        "mean-ndcg",
        "MeanNDCG",
        "ranks",
        lambda metric, longest: MeanNdcg(_discount(metric, longest)),
        summary="Mean of NDCG@1 to NDCG@n of a list of n items (LETOR 4.0).",
        aliases=("meanndcg",),
        items="gain",
        cutoff="none",
        defaults={"gain": "exp", "discount": "std"},
    ),
    Definition(
        "rbp",
        "RBP",
        "ranks",
        _rbp,
        summary="Rank-biased precision: relevance weighted by the chance of reading on.",
        defaults={"threshold": 1.0, "persistence": 0.8},
    ),
)
