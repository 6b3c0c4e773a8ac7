"""Discounted cumulative gain: DCG@k = sum over ranks r <= k of discount(r) gain(label at r)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import REDUCE, jit
from rankine.metrics.families import block_means, list_expected, list_value
from rankine.metrics.gains import discounts
from rankine.metrics.metric import Definition, register

if TYPE_CHECKING:
    from rankine.metrics.metric import Metric


class Dcg(NamedTuple):
    """Discounts of the ranks."""

    discount: NDArray[np.float64]


@jit(fastmath=REDUCE)
def discounted_sum(ranked: Any, discount: Any, k: int) -> float:
    """sum_r discount[r] ranked[r] over the first k ranks."""
    total = 0.0
    for r in range(min(k, ranked.shape[0])):
        total += discount[r] * ranked[r]
    return total


@list_value.answer(Dcg)
def _value(spec: Any, ranked: Any, gain: Any, k: Any) -> Any:
    return discounted_sum(ranked, spec.discount, k) if gain.max() > 0.0 else np.nan


@list_expected.answer(Dcg)
def _expected(spec: Any, ranked: Any, ends: Any, gain: Any, k: Any) -> Any:
    if not gain.max() > 0.0:
        return np.nan
    return discounted_sum(block_means(ranked, ends), spec.discount, k)


def _spec(metric: Metric, longest: int) -> Dcg:
    return Dcg(discounts(str(metric.discount), longest))


register(
    Definition(
        "dcg",
        "DCG",
        "ranks",
        _spec,
        items="gain",
        defaults={"gain": "exp", "discount": "std", "short": "fill"},
    )
)
