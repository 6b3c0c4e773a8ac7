"""Pairwise error: the share of pairs with different labels that scores order wrongly, ties half.

``mean="queries"``: mean over queries of each query's share (Airola et al. 2011, eq. 1, averaged).
``mean="pairs"``: share of all pairs of all queries (Stevens et al.); a query weighs its pairs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rankine.metrics.families import count_pairs, pair_value
from rankine.metrics.metric import Definition, register

if TYPE_CHECKING:
    from rankine.metrics.metric import Metric

PAIR_TIES = ("half", "strict", "errors")
#: Over random orders of ties half of the pairs are wrong; at worst all are.
TIE_ALIASES = {"expected": "half", "worst": "errors"}
TIE_COST = {"half": 0.5, "strict": 0.0, "errors": 1.0}


class PairwiseError(NamedTuple):
    """A tie is ``tie_cost`` of an error."""

    tie_cost: float


@pair_value.answer(PairwiseError)
def _value(spec: Any, label: Any, score: Any) -> Any:
    counts = count_pairs(label, score)
    error = counts.wrong + spec.tie_cost * counts.tied
    return error / max(counts.usable, 1.0), counts.usable


def _spec(metric: Metric, longest: int) -> PairwiseError:
    return PairwiseError(TIE_COST[str(metric.ties)])


register(
    Definition(
        "pairwise-error",
        "Pairwise error",
        "pairs",
        _spec,
        aliases=("pair-error", "swapped-pairs"),
        cutoff="none",
        larger_is_better=False,
        defaults={"ties": "half", "no_relevant": "skip", "mean": "queries"},
        choices={"ties": PAIR_TIES, "mean": ("queries", "pairs")},
        tie_aliases=TIE_ALIASES,
    )
)
