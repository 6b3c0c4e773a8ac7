"""Kendall's tau-b between labels and scores, within each query.

    tau = (C - D) / sqrt((n0 - score ties) (n0 - label ties)),   n0 = n (n - 1) / 2

C and D count the pairs that scores order rightly and wrongly. ``ties="corrected"`` is the formula
above; a query whose scores are all equal has tau 0. ``"expected"``: mean over random orders of
tied scores (no score ties in the denominator). ``"errors"``: tied scores count as wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rankine.metrics.families import count_pairs, pair_value
from rankine.metrics.metric import Definition, register

if TYPE_CHECKING:
    from rankine.metrics.metric import Metric


class KendallTau(NamedTuple):
    """Whether tied scores leave the denominator, and what share of them is wrong."""

    corrected: bool
    tie_cost: float


@pair_value.answer(KendallTau)
def _value(spec: Any, label: Any, score: Any) -> Any:
    counts = count_pairs(label, score)
    right = counts.usable - counts.wrong - counts.tied
    gap = right - counts.wrong - spec.tie_cost * counts.tied
    ordered = counts.total - counts.score_tied if spec.corrected else counts.total
    scale = np.sqrt(ordered * counts.usable)
    return gap / scale if scale > 0.0 else 0.0, counts.usable


def _spec(metric: Metric, longest: int) -> KendallTau:
    return KendallTau(metric.ties == "corrected", 1.0 if metric.ties == "errors" else 0.0)


register(
    Definition(
        "kendall",
        "Kendall's tau",
        "pairs",
        _spec,
        aliases=("tau", "kendall-tau"),
        cutoff="none",
        defaults={"ties": "corrected", "no_relevant": "skip"},
        choices={"ties": ("corrected", "expected", "errors")},
        tie_aliases={"worst": "errors"},
    )
)
