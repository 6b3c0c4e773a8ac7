"""Average precision; its mean over queries is MAP.

    AP@k = 1/R sum over relevant ranks r <= k of (relevant among the first r) / r

R counts all relevant items of the list, whatever the cutoff (trec_eval's ``map`` and ``map_cut``).
Over ties: McSherry and Najork 2008, section 2.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rankine.kernels.compile import jit
from rankine.metrics.families import list_expected, list_value
from rankine.metrics.metric import Definition, register

if TYPE_CHECKING:
    from rankine.metrics.metric import Metric


class AveragePrecision(NamedTuple):
    """No parameters."""


@jit
def _average(ranked: Any, gain: Any, k: int) -> float:
    total = found = 0.0
    for r in range(min(k, ranked.shape[0])):
        if ranked[r] > 0.0:
            found += 1.0
            total += found / (r + 1.0)
    relevant = gain.sum()
    return total / relevant if relevant > 0.0 else np.nan


@jit
def _expected_average(ranked: Any, ends: Any, gain: Any, k: int) -> float:
    total = before = 0.0
    start = 0
    while start < min(k, ranked.shape[0]):
        end = ends[start]
        size = end - start
        inside = ranked[start:end].sum()
        # given that rank r is relevant, another rank of the block is so with this probability
        other = (inside - 1.0) / (size - 1.0) if size > 1 else 0.0
        for r in range(start, min(k, end)):
            total += inside / size * (before + 1.0 + (r - start) * other) / (r + 1.0)
        before += inside
        start = end
    relevant = gain.sum()
    return total / relevant if relevant > 0.0 else np.nan


@list_value.answer(AveragePrecision)
def _value(spec: Any, ranked: Any, gain: Any, k: Any) -> Any:
    return _average(ranked, gain, k)


@list_expected.answer(AveragePrecision)
def _expected(spec: Any, ranked: Any, ends: Any, gain: Any, k: Any) -> Any:
    return _expected_average(ranked, ends, gain, k)


def _spec(metric: Metric, longest: int) -> AveragePrecision:
    return AveragePrecision()


register(Definition("map", "MAP", "ranks", _spec, aliases=("ap",), defaults={"threshold": 1.0}))
