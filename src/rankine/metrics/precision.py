"""Precision at k: the share of the first k ranks that is relevant; missing ranks are not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rankine.kernels.compile import jit
from rankine.metrics.families import block_means, list_expected, list_value
from rankine.metrics.metric import Definition, register

if TYPE_CHECKING:
    from rankine.metrics.metric import Metric


class Precision(NamedTuple):
    """No parameters."""


@jit
def hits(ranked: Any, k: int) -> float:
    """Relevant items among the first k ranks."""
    total = 0.0
    for r in range(min(k, ranked.shape[0])):
        total += ranked[r]
    return total


@list_value.answer(Precision)
def _value(spec: Any, ranked: Any, gain: Any, k: Any) -> Any:
    return hits(ranked, k) / k if gain.max() > 0.0 else np.nan


@list_expected.answer(Precision)
def _expected(spec: Any, ranked: Any, ends: Any, gain: Any, k: Any) -> Any:
    return hits(block_means(ranked, ends), k) / k if gain.max() > 0.0 else np.nan


def _spec(metric: Metric, longest: int) -> Precision:
    return Precision()


register(
    Definition(
        "p",
        "P",
        "ranks",
        _spec,
        aliases=("precision", "pre", "prec"),
        cutoff="required",
        defaults={"threshold": 1.0, "short": "fill"},
    )
)
