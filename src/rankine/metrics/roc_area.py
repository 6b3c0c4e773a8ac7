"""Area under the ROC curve of each query.

AUC = share of pairs (relevant, not relevant) whose scores order them rightly, ties half.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rankine.metrics.families import count_pairs, pair_value
from rankine.metrics.metric import Definition, register
from rankine.metrics.pairwise_error import PAIR_TIES, TIE_ALIASES, TIE_COST

if TYPE_CHECKING:
    from rankine.metrics.metric import Metric


class RocArea(NamedTuple):
    """Labels from ``threshold`` on are relevant; a tie is ``tie_cost`` of an error."""

    threshold: float
    tie_cost: float


@pair_value.answer(RocArea)
def _value(spec: Any, label: Any, score: Any) -> Any:
    counts = count_pairs((label >= spec.threshold) * 1.0, score)
    error = counts.wrong + spec.tie_cost * counts.tied
    return 1.0 - error / max(counts.usable, 1.0), counts.usable


def _spec(metric: Metric, longest: int) -> RocArea:
    return RocArea(float(metric.threshold or 0.0), TIE_COST[str(metric.ties)])


register(
    Definition(
        "auc",
        "AUC",
        "pairs",
        _spec,
        aliases=("roc", "roc-area", "roc-auc"),
        cutoff="none",
        defaults={"threshold": 1.0, "ties": "half", "no_relevant": "skip", "mean": "queries"},
        choices={"ties": PAIR_TIES, "mean": ("queries", "pairs")},
        tie_aliases=TIE_ALIASES,
    )
)
