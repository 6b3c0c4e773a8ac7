"""Reciprocal rank of the first relevant item (0 below the cutoff); its mean is MRR."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rankine.kernels.compile import jit
from rankine.metrics.families import list_expected, list_value
from rankine.metrics.metric import Definition, register

if TYPE_CHECKING:
    from rankine.metrics.metric import Metric


class ReciprocalRank(NamedTuple):
    """No parameters."""


@jit
def _first(ranked: Any, gain: Any, k: int) -> float:
    if not gain.max() > 0.0:
        return np.nan
    for r in range(min(k, ranked.shape[0])):
        if ranked[r] > 0.0:
            return 1.0 / (r + 1.0)
    return 0.0


@jit
def _expected_first(ranked: Any, ends: Any, gain: Any, k: int) -> float:
    if not gain.max() > 0.0:
        return np.nan
    total, none_yet = 0.0, 1.0
    start = 0
    while start < min(k, ranked.shape[0]) and none_yet > 0.0:
        end = ends[start]
        inside = ranked[start:end].sum()
        for r in range(start, min(k, end)):
            # drawing without replacement from the block, no relevant item so far
            here = min(1.0, inside / (end - r))
            total += none_yet * here / (r + 1.0)
            none_yet *= 1.0 - here
        start = end
    return total


@list_value.answer(ReciprocalRank)
def _value(spec: Any, ranked: Any, gain: Any, k: Any) -> Any:
    return _first(ranked, gain, k)


@list_expected.answer(ReciprocalRank)
def _expected(spec: Any, ranked: Any, ends: Any, gain: Any, k: Any) -> Any:
    return _expected_first(ranked, ends, gain, k)


def _spec(metric: Metric, longest: int) -> ReciprocalRank:
    return ReciprocalRank()


register(Definition("mrr", "MRR", "ranks", _spec, aliases=("rr",), defaults={"threshold": 1.0}))
