"""What the pairs of a query say: pairwise error, area under the ROC curve, Kendall's tau.

*Pairwise error*: the share of pairs with different labels that scores order wrongly, ties half.
``mean="queries"``: mean over queries of each query's share (Airola et al. 2011, eq. 1, averaged).
``mean="pairs"``: share of all pairs of all queries (Stevens et al.); a query weighs its pairs.

*AUC*: share of pairs (relevant, not relevant) whose scores order them rightly, ties half.

*Kendall's tau-b* between labels and scores, within each query:

    tau = (C - D) / sqrt((n0 - score ties) (n0 - label ties)),   n0 = n (n - 1) / 2

C and D count the pairs that scores order rightly and wrongly. ``ties="corrected"`` is the formula
above; a query whose scores are all equal has tau 0. ``"expected"``: mean over random orders of
tied scores (no score ties in the denominator). ``"errors"``: tied scores count as wrong.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankine.metrics.families import count_pairs, pair_value
from rankine.metrics.metric import Definition, register

PAIR_TIES = ("half", "strict", "errors")
#: Over random orders of ties half of the pairs are wrong; at worst all are.
TIE_ALIASES = {"expected": "half", "worst": "errors"}
TIE_COST = {"half": 0.5, "strict": 0.0, "errors": 1.0}


class PairwiseError(NamedTuple):
    """A tie is ``tie_cost`` of an error."""

    tie_cost: float


class RocArea(NamedTuple):
    """Labels from ``threshold`` on are relevant; a tie is ``tie_cost`` of an error."""

    threshold: float
    tie_cost: float


class KendallTau(NamedTuple):
    """Whether tied scores leave the denominator, and what share of them is wrong."""

    corrected: bool
    tie_cost: float


@pair_value.implementation(PairwiseError)
def _error(spec: Any, label: Any, score: Any) -> Any:
    counts = count_pairs(label, score)
    error = counts.wrong + spec.tie_cost * counts.tied
    return error / max(counts.usable, 1.0), counts.usable


@pair_value.implementation(RocArea)
def _area(spec: Any, label: Any, score: Any) -> Any:
    counts = count_pairs((label >= spec.threshold).astype(np.float64), score)
    error = counts.wrong + spec.tie_cost * counts.tied
    return 1.0 - error / max(counts.usable, 1.0), counts.usable


@pair_value.implementation(KendallTau)
def _tau(spec: Any, label: Any, score: Any) -> Any:
    counts = count_pairs(label, score)
    right = counts.usable - counts.wrong - counts.tied
    gap = right - counts.wrong - spec.tie_cost * counts.tied
    ordered = counts.total - counts.score_tied if spec.corrected else counts.total
    scale = np.sqrt(ordered * counts.usable)
    return gap / scale if scale > 0.0 else 0.0, counts.usable


register(
    Definition(
        "auc",
        "AUC",
        "pairs",
        lambda metric, _: RocArea(float(metric.threshold or 0.0), TIE_COST[str(metric.ties)]),
        aliases=("roc", "roc-area", "roc-auc"),
        cutoff="none",
        defaults={"threshold": 1.0, "ties": "half", "no_relevant": "skip", "mean": "queries"},
        choices={"ties": PAIR_TIES, "mean": ("queries", "pairs")},
        tie_aliases=TIE_ALIASES,
    ),
    Definition(
        "pairwise-error",
        "Pairwise error",
        "pairs",
        lambda metric, _: PairwiseError(TIE_COST[str(metric.ties)]),
        aliases=("pair-error", "swapped-pairs"),
        cutoff="none",
        larger_is_better=False,
        defaults={"ties": "half", "no_relevant": "skip", "mean": "queries"},
        choices={"ties": PAIR_TIES, "mean": ("queries", "pairs")},
        tie_aliases=TIE_ALIASES,
    ),
    Definition(
        "kendall",
        "Kendall's tau",
        "pairs",
        lambda metric, _: KendallTau(metric.ties == "corrected", float(metric.ties == "errors")),
        aliases=("tau", "kendall-tau"),
        cutoff="none",
        defaults={"ties": "corrected", "no_relevant": "skip"},
        choices={"ties": ("corrected", "expected", "errors")},
        tie_aliases={"worst": "errors"},
    ),
)
