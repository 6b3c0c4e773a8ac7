"""Normalised discounted cumulative gain: DCG@k over DCG@k of the best possible order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.sorting import top_values
from rankine.metrics.dcg import discounted_sum
from rankine.metrics.families import block_means, list_expected, list_value
from rankine.metrics.gains import discounts
from rankine.metrics.metric import Definition, register

if TYPE_CHECKING:
    from rankine.metrics.metric import Metric


class Ndcg(NamedTuple):
    """Discounts of the ranks."""

    discount: NDArray[np.float64]


@jit
def _normalised(ranked: Any, gain: Any, discount: Any, k: int) -> float:
    ideal = discounted_sum(top_values(gain, k), discount, k)
    return discounted_sum(ranked, discount, k) / ideal if ideal > 0.0 else np.nan


@list_value.answer(Ndcg)
def _value(spec: Any, ranked: Any, gain: Any, k: Any) -> Any:
    return _normalised(ranked, gain, spec.discount, k)


@list_expected.answer(Ndcg)
def _expected(spec: Any, ranked: Any, ends: Any, gain: Any, k: Any) -> Any:
    return _normalised(block_means(ranked, ends), gain, spec.discount, k)


def _spec(metric: Metric, longest: int) -> Ndcg:
    return Ndcg(discounts(str(metric.discount), longest))


register(
    Definition(
        "ndcg",
        "NDCG",
        "ranks",
        _spec,
        items="gain",
        defaults={"gain": "exp", "discount": "std", "short": "fill"},
    )
)
