"""Metrics of pairs: pairwise error, area under the ROC curve (AUC), Kendall's tau.

*Pairwise error*: share of the pairs with different labels that scores order wrongly; a tie is half
an error. ``mean="queries"`` averages the queries' shares (Airola et al. 2011, eq. 1, averaged);
``mean="pairs"`` is the share of all pairs of all queries (Stevens et al.).

*AUC*: share of the pairs (relevant, not relevant) that scores order correctly; a tie counts half.

*Kendall's tau-b* between labels and scores, within each query:

    tau = (C - D) / sqrt((n0 - score ties) (n0 - label ties)),   n0 = n (n - 1) / 2

C and D count the pairs that scores order correctly and wrongly. ``ties="corrected"`` is the formula
above; a query whose scores are all equal has tau 0. ``"expected"``: mean over random orders of
tied scores (no score ties in the denominator). ``"errors"``: tied scores count as wrong.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankine.metrics.families import count_pairs, pair_value
from rankine.metrics.metric import Definition, register

PAIR_TIES = ("half", "strict", "errors")
# Over random orders of ties half of the pairs are wrong; in the worst order all are.
TIE_ALIASES = {"expected": "half", "worst": "errors"}
TIE_COST = {"half": 0.5, "strict": 0.0, "errors": 1.0}


class PairwiseError(NamedTuple):
    """A tie costs ``tie_cost`` of an error."""

    tie_cost: float


class RocArea(NamedTuple):
    """Labels from ``threshold`` on are relevant; a tie costs ``tie_cost`` of an error."""

    threshold: float
    tie_cost: float


class KendallTau(NamedTuple):
    """``corrected``: tied scores leave the denominator; a tie costs ``tie_cost`` of an error."""

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
    concordant = counts.usable - counts.wrong - counts.tied
    numerator = concordant - counts.wrong - spec.tie_cost * counts.tied
    n_ordered = counts.total
    if spec.corrected:
        n_ordered = counts.total - counts.score_tied
    denominator = np.sqrt(n_ordered * counts.usable)
    if not denominator > 0.0:
        return 0.0, counts.usable
    return numerator / denominator, counts.usable


register(
    Definition(
        "auc",
        "AUC",
        "pairs",
        lambda metric, _: RocArea(float(metric.threshold or 0.0), TIE_COST[str(metric.ties)]),
        summary="Area under the ROC curve: share of relevant items above irrelevant ones.",
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
        summary="Share of pairs with different labels in the wrong order.",
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
        summary="Kendall's rank correlation of labels and scores.",
        aliases=("tau", "kendall-tau"),
        cutoff="none",
        defaults={"ties": "corrected", "no_relevant": "skip"},
        choices={"ties": ("corrected", "expected", "errors")},
        tie_aliases={"worst": "errors"},
    ),
)
