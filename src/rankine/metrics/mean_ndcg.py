"""MeanNDCG of the LETOR 4.0 script: the mean of NDCG@1, NDCG@2, ..., NDCG@n of a list of n."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.sorting import top_values
from rankine.metrics.families import block_means, list_expected, list_value
from rankine.metrics.gains import discounts
from rankine.metrics.metric import Definition, register

if TYPE_CHECKING:
    from rankine.metrics.metric import Metric


class MeanNdcg(NamedTuple):
    """Discounts of the ranks."""

    discount: NDArray[np.float64]


@jit
def _mean_over_ranks(ranked: Any, gain: Any, discount: Any) -> float:
    best = top_values(gain, gain.shape[0])
    if not best[0] > 0.0:
        return np.nan
    total = found = ideal = 0.0
    if ranked.shape[0] == 0:
        return 0.0
    for r in range(ranked.shape[0]):
        found += discount[r] * ranked[r]
        ideal += discount[r] * best[r]
        total += found / ideal
    return float(total / ranked.shape[0])


@list_value.answer(MeanNdcg)
def _value(spec: Any, ranked: Any, gain: Any, k: Any) -> Any:
    return _mean_over_ranks(ranked, gain, spec.discount)


@list_expected.answer(MeanNdcg)
def _expected(spec: Any, ranked: Any, ends: Any, gain: Any, k: Any) -> Any:
    return _mean_over_ranks(block_means(ranked, ends), gain, spec.discount)


def _spec(metric: Metric, longest: int) -> MeanNdcg:
    return MeanNdcg(discounts(str(metric.discount), longest))


register(
    Definition(
        "mean-ndcg",
        "MeanNDCG",
        "ranks",
        _spec,
        aliases=("meanndcg",),
        items="gain",
        cutoff="none",
        defaults={"gain": "exp", "discount": "std"},
    )
)
