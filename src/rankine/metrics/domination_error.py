"""Domination error: the share of dominating items that an item with a lower label outranks.

Let D(i) be the items of the same query with lower labels than item i; item i is dominating when
D(i) is not empty. Tie rules:

``strict``
    Item i is an error when some j in D(i) has a strictly higher score (as in the domination rank
    paper; a model without weights then has error 0).
``errors``
    Equal scores are errors too, so that a constant score has error 1.
``expected`` (default)
    Mean over random orders of equal scores: t / (t + 1) with t items of D(i) tied with i.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankine.kernels.compile import jit
from rankine.kernels.sorting import rank_order
from rankine.metrics.families import pair_value
from rankine.metrics.metric import Definition, Metric, register

_TIE_RULES = ("strict", "errors", "expected")


class DominationError(NamedTuple):
    """``rule`` is the position of the tie rule in ``_TIE_RULES``, as kernels take no text."""

    rule: int


@jit
def _tie_cost(rule: int, n_tied: float) -> float:
    if rule == 0:
        return 0.0
    if rule == 1:
        return 1.0
    return n_tied / (n_tied + 1.0)


@jit
def _count_errors(label: Any, score: Any, rule: int) -> Any:
    """Return the number of errors and of dominating items.

    Items are visited in increasing order of labels, while the highest score of all lower labels
    is kept.
    """
    order = rank_order(-label)
    n = order.shape[0]
    best_score, n_best = -np.inf, 0.0  # highest score among lower labels; how many items have it
    errors = 0.0
    start = 0
    n_lowest = 0
    while start < n:
        end = start + 1
        while end < n and label[order[end]] == label[order[start]]:
            end += 1
        if start == 0:
            n_lowest = end
        for r in range(start, end):
            s = score[order[r]]
            if s < best_score:
                errors += 1.0
            elif s == best_score:
                errors += _tie_cost(rule, n_best)
        # Only now: items of equal label do not dominate each other.
        for r in range(start, end):
            s = score[order[r]]
            if s > best_score:
                best_score, n_best = s, 1.0
            elif s == best_score:
                n_best += 1.0
        start = end
    return errors, float(n - n_lowest)


@pair_value.implementation(DominationError)
def _value(spec: Any, label: Any, score: Any) -> Any:
    errors, n_dominating = _count_errors(label, score, spec.rule)
    return errors / max(n_dominating, 1.0), n_dominating


def _spec(metric: Metric, longest: int) -> DominationError:
    return DominationError(_TIE_RULES.index(str(metric.ties)))


register(
    Definition(
        "domination-error",
        "Domination error",
        "pairs",
        _spec,
        summary="Share of items that some item with a lower label outranks.",
        aliases=("domination",),
        cutoff="none",
        larger_is_better=False,
        defaults={"ties": "expected", "no_relevant": "skip", "mean": "queries"},
        choices={"ties": _TIE_RULES, "mean": ("queries", "items")},
        tie_aliases={"worst": "errors"},
    )
)
