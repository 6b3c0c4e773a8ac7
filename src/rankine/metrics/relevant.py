"""What the relevant items of a list say: precision, recall, hit rate, reciprocal rank, MAP.

    P@k    share of the first k ranks that is relevant; missing ranks are not
    R@k    share of the relevant items that stand in the first k ranks
    Hit@k  1 when a relevant item stands in the first k ranks, else 0
    RR@k   1 / rank of the first relevant item, 0 below the cutoff; its mean is MRR
    AP@k   1/R sum over relevant ranks r <= k of (relevant among the first r) / r; its mean is MAP

R counts all relevant items of the list, whatever the cutoff (trec_eval's ``map`` and ``map_cut``).
Over ties: McSherry and Najork 2008, section 2.3.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankine.kernels.compile import jit
from rankine.metrics.families import block_means, list_expected, list_value
from rankine.metrics.metric import Definition, register


class Precision(NamedTuple):
    """No parameters."""


class Recall(NamedTuple):
    """No parameters."""


class HitRate(NamedTuple):
    """No parameters."""


class ReciprocalRank(NamedTuple):
    """No parameters."""


class AveragePrecision(NamedTuple):
    """No parameters."""


@jit
def _hits(ranked: Any, k: int) -> float:
    """Relevant items among the first k ranks."""
    total = 0.0
    for r in range(min(k, ranked.shape[0])):
        total += ranked[r]
    return total


@list_value.implementation(Precision)
def _precision(spec: Any, ranked: Any, gain: Any, k: Any) -> Any:
    return _hits(ranked, k) / k if gain.max() > 0.0 else np.nan


@list_expected.implementation(Precision)
def _expected_precision(spec: Any, ranked: Any, ends: Any, gain: Any, k: Any) -> Any:
    return _hits(block_means(ranked, ends), k) / k if gain.max() > 0.0 else np.nan


@list_value.implementation(Recall)
def _recall(spec: Any, ranked: Any, gain: Any, k: Any) -> Any:
    return _hits(ranked, k) / gain.sum() if gain.max() > 0.0 else np.nan


@list_expected.implementation(Recall)
def _expected_recall(spec: Any, ranked: Any, ends: Any, gain: Any, k: Any) -> Any:
    return _hits(block_means(ranked, ends), k) / gain.sum() if gain.max() > 0.0 else np.nan


@jit
def _chance(ranked: Any, ends: Any, k: int) -> float:
    """Probability of a relevant item in the first k ranks, drawing ties without replacement."""
    missed = 1.0
    start = 0
    while start < min(k, ranked.shape[0]):
        end = ends[start]
        inside = ranked[start:end].sum()
        for r in range(start, min(k, end)):
            missed *= 1.0 - min(1.0, inside / (end - r))
        start = end
    return 1.0 - missed


@list_value.implementation(HitRate)
def _hit(spec: Any, ranked: Any, gain: Any, k: Any) -> Any:
    return min(1.0, _hits(ranked, k)) if gain.max() > 0.0 else np.nan


@list_expected.implementation(HitRate)
def _expected_hit(spec: Any, ranked: Any, ends: Any, gain: Any, k: Any) -> Any:
    return _chance(ranked, ends, k) if gain.max() > 0.0 else np.nan


@list_value.implementation(ReciprocalRank)
def _reciprocal(spec: Any, ranked: Any, gain: Any, k: Any) -> Any:
    if not gain.max() > 0.0:
        return np.nan
    for r in range(min(k, ranked.shape[0])):
        if ranked[r] > 0.0:
            return 1.0 / (r + 1.0)
    return 0.0


@list_expected.implementation(ReciprocalRank)
def _expected_reciprocal(spec: Any, ranked: Any, ends: Any, gain: Any, k: Any) -> Any:
    if not gain.max() > 0.0:
        return np.nan
    total, none_yet = 0.0, 1.0
    start = 0
    while start < min(k, ranked.shape[0]):
        end = ends[start]
        inside = ranked[start:end].sum()
        for r in range(start, min(k, end)):
            # drawing without replacement from the block, no relevant item so far
            here = min(1.0, inside / (end - r))
            total += none_yet * here / (r + 1.0)
            none_yet *= 1.0 - here
        start = end
    return total


@list_value.implementation(AveragePrecision)
def _average_precision(spec: Any, ranked: Any, gain: Any, k: Any) -> Any:
    total = found = 0.0
    for r in range(min(k, ranked.shape[0])):
        if ranked[r] > 0.0:
            found += 1.0
            total += found / (r + 1.0)
    relevant = gain.sum()
    return total / relevant if relevant > 0.0 else np.nan


@list_expected.implementation(AveragePrecision)
def _expected_average_precision(spec: Any, ranked: Any, ends: Any, gain: Any, k: Any) -> Any:
    total = before = 0.0
    start = 0
    while start < min(k, ranked.shape[0]):
        end = ends[start]
        size = end - start
        inside = ranked[start:end].sum()
        # given that rank r is relevant, another rank of the block is so with this probability
        other = (inside - 1.0) / (size - 1.0) if size > 1 else 0.0
        for r in range(start, min(k, end)):
            total += inside / size * (before + 1.0 + (r - start) * other) / (r + 1.0)
        before += inside
        start = end
    relevant = gain.sum()
    return total / relevant if relevant > 0.0 else np.nan


register(
    Definition(
        "p",
        "P",
        "ranks",
        lambda _metric, _longest: Precision(),
        aliases=("precision", "pre", "prec"),
        cutoff="required",
        defaults={"threshold": 1.0, "short": "fill"},
    ),
    Definition(
        "recall",
        "R",
        "ranks",
        lambda _metric, _longest: Recall(),
        aliases=("r",),
        cutoff="required",
        defaults={"threshold": 1.0},
    ),
    Definition(
        "hit",
        "Hit",
        "ranks",
        lambda _metric, _longest: HitRate(),
        aliases=("hit-rate", "success"),
        cutoff="required",
        defaults={"threshold": 1.0},
    ),
    Definition(
        "mrr",
        "MRR",
        "ranks",
        lambda _metric, _longest: ReciprocalRank(),
        aliases=("rr",),
        defaults={"threshold": 1.0},
    ),
    Definition(
        "map",
        "MAP",
        "ranks",
        lambda _metric, _longest: AveragePrecision(),
        aliases=("ap",),
        defaults={"threshold": 1.0},
    ),
)
