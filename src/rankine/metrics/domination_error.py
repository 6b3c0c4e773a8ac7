"""Domination error: the share of dominating items that some item they dominate outranks.

Item i dominates D(i), the items of its query with lower labels; it is dominating when D(i) is not
empty. ``ties="strict"`` counts an error when some j in D(i) has a strictly higher score (as the
domination rank paper: 0 for a model without weights); ``"errors"`` (the default) counts equal
scores too, so that a constant score has error 1; ``"expected"`` takes the mean over random orders
of equal scores: t / (t + 1) with t tied items of D(i).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankine.kernels.compile import jit
from rankine.kernels.sorting import rank_order
from rankine.metrics.families import pair_value
from rankine.metrics.metric import Definition, Metric, register

_RULES = ("strict", "errors", "expected")


class DominationError(NamedTuple):
    """Tie rule: 0 strict, 1 errors, 2 expected."""

    rule: int


@jit
def _tie_cost(rule: int, tied: float) -> float:
    if rule == 0:
        return 0.0
    return 1.0 if rule == 1 else tied / (tied + 1.0)


@jit
def _errors(label: Any, score: Any, rule: int) -> Any:
    """(errors, dominating items): labels in increasing order, best score below kept."""
    order = rank_order(-label, np.empty(0))
    n = order.shape[0]
    best, at_best = -np.inf, 0.0  # highest score among lower labels, and how many have it
    errors = 0.0
    start = 0
    lowest = 0
    while start < n:
        end = start + 1
        while end < n and label[order[end]] == label[order[start]]:
            end += 1
        if start == 0:
            lowest = end
        for r in range(start, end):
            s = score[order[r]]
            if s < best:
                errors += 1.0
            elif s == best:
                errors += _tie_cost(rule, at_best)
        for r in range(start, end):
            s = score[order[r]]
            if s > best:
                best, at_best = s, 1.0
            elif s == best:
                at_best += 1.0
        start = end
    return errors, float(n - lowest)


@pair_value.implementation(DominationError)
def _value(spec: Any, label: Any, score: Any) -> Any:
    errors, dominating = _errors(label, score, spec.rule)
    return errors / max(dominating, 1.0), dominating


def _spec(metric: Metric, longest: int) -> DominationError:
    return DominationError(_RULES.index(str(metric.ties)))


register(
    Definition(
        "domination-error",
        "Domination error",
        "pairs",
        _spec,
        aliases=("domination",),
        cutoff="none",
        larger_is_better=False,
        defaults={"ties": "errors", "no_relevant": "skip", "mean": "queries"},
        choices={"ties": _RULES, "mean": ("queries", "items")},
        tie_aliases={"worst": "errors"},
    )
)
