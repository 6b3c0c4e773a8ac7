"""Hit rate at k: 1 when a relevant item stands in the first k ranks, else 0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rankine.kernels.compile import jit
from rankine.metrics.families import list_expected, list_value
from rankine.metrics.metric import Definition, register
from rankine.metrics.precision import hits

if TYPE_CHECKING:
    from rankine.metrics.metric import Metric


class HitRate(NamedTuple):
    """No parameters."""


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


@list_value.answer(HitRate)
def _value(spec: Any, ranked: Any, gain: Any, k: Any) -> Any:
    return min(1.0, hits(ranked, k)) if gain.max() > 0.0 else np.nan


@list_expected.answer(HitRate)
def _expected(spec: Any, ranked: Any, ends: Any, gain: Any, k: Any) -> Any:
    return _chance(ranked, ends, k) if gain.max() > 0.0 else np.nan


def _spec(metric: Metric, longest: int) -> HitRate:
    return HitRate()


register(
    Definition(
        "hit",
        "Hit",
        "ranks",
        _spec,
        aliases=("hit-rate", "success"),
        cutoff="required",
        defaults={"threshold": 1.0},
    )
)
