"""Recall at k: the share of the relevant items that stand in the first k ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rankine.metrics.families import block_means, list_expected, list_value
from rankine.metrics.metric import Definition, register
from rankine.metrics.precision import hits

if TYPE_CHECKING:
    from rankine.metrics.metric import Metric


class Recall(NamedTuple):
    """No parameters."""


@list_value.answer(Recall)
def _value(spec: Any, ranked: Any, gain: Any, k: Any) -> Any:
    return hits(ranked, k) / gain.sum() if gain.max() > 0.0 else np.nan


@list_expected.answer(Recall)
def _expected(spec: Any, ranked: Any, ends: Any, gain: Any, k: Any) -> Any:
    return hits(block_means(ranked, ends), k) / gain.sum() if gain.max() > 0.0 else np.nan


def _spec(metric: Metric, longest: int) -> Recall:
    return Recall()


register(
    Definition(
        "recall",
        "R",
        "ranks",
        _spec,
        aliases=("r",),
        cutoff="required",
        defaults={"threshold": 1.0},
    )
)
