"""Rank-biased precision (Moffat and Zobel 2008, eq. 5).

RBP@k = (1 - p) sum over relevant ranks r <= k of p^(r - 1): a reader looks at rank r and goes on
to the next with probability p, the persistence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.metrics.dcg import discounted_sum
from rankine.metrics.families import block_means, list_expected, list_value
from rankine.metrics.metric import Definition, register

if TYPE_CHECKING:
    from rankine.metrics.metric import Metric


class RankBiasedPrecision(NamedTuple):
    """Probability of looking at each rank, times 1 - p."""

    weight: NDArray[np.float64]


@list_value.answer(RankBiasedPrecision)
def _value(spec: Any, ranked: Any, gain: Any, k: Any) -> Any:
    return discounted_sum(ranked, spec.weight, k) if gain.max() > 0.0 else np.nan


@list_expected.answer(RankBiasedPrecision)
def _expected(spec: Any, ranked: Any, ends: Any, gain: Any, k: Any) -> Any:
    if not gain.max() > 0.0:
        return np.nan
    return discounted_sum(block_means(ranked, ends), spec.weight, k)


def _spec(metric: Metric, longest: int) -> RankBiasedPrecision:
    p = float(metric.persistence or 0.0)
    return RankBiasedPrecision((1.0 - p) * p ** np.arange(longest, dtype=np.float64))


register(Definition("rbp", "RBP", "ranks", _spec, defaults={"threshold": 1.0, "persistence": 0.8}))
