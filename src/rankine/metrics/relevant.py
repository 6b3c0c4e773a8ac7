"""Metrics of binary relevance: precision, recall, hit rate, reciprocal rank, average precision.

    P@k    share of the first k ranks that is relevant; missing ranks of a short list are irrelevant
    R@k    share of the relevant items that are in the first k ranks
    Hit@k  1 if a relevant item is in the first k ranks, else 0
    RR@k   1 / rank of the first relevant item, 0 below the cutoff; its mean is MRR
    AP@k   1/R sum over relevant ranks r <= k of (relevant among the first r) / r; its mean is MAP

R is the number of relevant items of the list, also below the cutoff (trec_eval's ``map`` and
``map_cut``). Expectations over ties follow McSherry and Najork 2008, section 2.3.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rankine.kernels.compile import jit
from rankine.metrics.families import block_means, list_expected, list_value
from rankine.metrics.metric import Definition, register


class Precision(NamedTuple):
    """Share of the first k ranks that is relevant."""


class Recall(NamedTuple):
    """Share of the relevant items in the first k ranks."""


class HitRate(NamedTuple):
    """Whether a relevant item is in the first k ranks."""


class ReciprocalRank(NamedTuple):
    """Reciprocal rank of the first relevant item."""


class AveragePrecision(NamedTuple):
    """Mean over relevant items of the precision at their ranks."""


@jit
def _hits(ranked: Any, k: int) -> float:
    """Count the relevant items among the first k ranks."""
    total = 0.0
    for r in range(min(k, ranked.shape[0])):
        total += ranked[r]
    return total


@list_value.implementation(Precision)
def _precision(spec: Any, ranked: Any, gain: Any, k: Any) -> Any:
    return _hits(ranked, k) / k


@list_expected.implementation(Precision)
def _expected_precision(spec: Any, ranked: Any, ends: Any, gain: Any, k: Any) -> Any:
    return _hits(block_means(ranked, ends), k) / k


@list_value.implementation(Recall)
def _recall(spec: Any, ranked: Any, gain: Any, k: Any) -> Any:
    return _hits(ranked, k) / gain.sum()


@list_expected.implementation(Recall)
def _expected_recall(spec: Any, ranked: Any, ends: Any, gain: Any, k: Any) -> Any:
    return _hits(block_means(ranked, ends), k) / gain.sum()


@jit
def _hit_probability(ranked: Any, ends: Any, k: int) -> float:
    """Compute the chance of a relevant item in the first k ranks, over random orders of ties."""
    miss_probability = 1.0
    start = 0
    while start < min(k, ranked.shape[0]):
        end = ends[start]
        n_relevant = ranked[start:end].sum()
        # The ranks of a block are drawn from its items without replacement.
        for r in range(start, min(k, end)):
            miss_probability *= 1.0 - min(1.0, n_relevant / (end - r))
        start = end
    return 1.0 - miss_probability


@list_value.implementation(HitRate)
def _hit(spec: Any, ranked: Any, gain: Any, k: Any) -> Any:
    return min(1.0, _hits(ranked, k))


@list_expected.implementation(HitRate)
def _expected_hit(spec: Any, ranked: Any, ends: Any, gain: Any, k: Any) -> Any:
    return _hit_probability(ranked, ends, k)


@list_value.implementation(ReciprocalRank)
def _reciprocal(spec: Any, ranked: Any, gain: Any, k: Any) -> Any:
    for r in range(min(k, ranked.shape[0])):
        if ranked[r] > 0.0:
            return 1.0 / (r + 1.0)
    return 0.0


@list_expected.implementation(ReciprocalRank)
def _expected_reciprocal(spec: Any, ranked: Any, ends: Any, gain: Any, k: Any) -> Any:
    total, miss_probability = 0.0, 1.0
    start = 0
    while start < min(k, ranked.shape[0]):
        end = ends[start]
        n_relevant = ranked[start:end].sum()
        for r in range(start, min(k, end)):
            # Chance that rank r is relevant if no earlier rank of the block is.
            hit_probability = min(1.0, n_relevant / (end - r))
            total += miss_probability * hit_probability / (r + 1.0)
            miss_probability *= 1.0 - hit_probability
        start = end
    return total


@list_value.implementation(AveragePrecision)
def _average_precision(spec: Any, ranked: Any, gain: Any, k: Any) -> Any:
    # Divided by all relevant items, not by those within the cutoff, as trec_eval does.
    total = n_hits = 0.0
    for r in range(min(k, ranked.shape[0])):
        if ranked[r] > 0.0:
            n_hits += 1.0
            total += n_hits / (r + 1.0)
    return total / gain.sum()


@list_expected.implementation(AveragePrecision)
def _expected_average_precision(spec: Any, ranked: Any, ends: Any, gain: Any, k: Any) -> Any:
    total = n_above = 0.0  # n_above: relevant items in the blocks above
    start = 0
    while start < min(k, ranked.shape[0]):
        end = ends[start]
        size = end - start
        n_hits = ranked[start:end].sum()
        # If rank r is relevant, each other rank of the block is with this probability.
        other_probability = 0.0
        if size > 1:
            other_probability = (n_hits - 1.0) / (size - 1.0)
        for r in range(start, min(k, end)):
            expected_hits = n_above + 1.0 + (r - start) * other_probability
            total += n_hits / size * expected_hits / (r + 1.0)
        n_above += n_hits
        start = end
    return total / gain.sum()


register(
    Definition(
        "p",
        "P",
        "ranks",
        lambda _metric, _longest: Precision(),
        summary="Share of the first k ranks that is relevant.",
        aliases=("precision", "pre", "prec"),
        cutoff="required",
        defaults={"threshold": 1.0, "short": "fill"},
    ),
    Definition(
        "recall",
        "R",
        "ranks",
        lambda _metric, _longest: Recall(),
        summary="Share of the relevant items among the first k ranks.",
        aliases=("r",),
        cutoff="required",
        defaults={"threshold": 1.0},
    ),
    Definition(
        "hit",
        "Hit",
        "ranks",
        lambda _metric, _longest: HitRate(),
        summary="Share of queries with a relevant item among the first k ranks.",
        aliases=("hit-rate", "success"),
        cutoff="required",
        defaults={"threshold": 1.0},
    ),
    Definition(
        "mrr",
        "MRR",
        "ranks",
        lambda _metric, _longest: ReciprocalRank(),
        summary="Reciprocal rank of the first relevant item (MRR).",
        aliases=("rr",),
        defaults={"threshold": 1.0},
    ),
    Definition(
        "map",
        "MAP",
        "ranks",
        lambda _metric, _longest: AveragePrecision(),
        summary="Average precision over the ranks of relevant items (MAP).",
        aliases=("ap",),
        defaults={"threshold": 1.0},
    ),
)
