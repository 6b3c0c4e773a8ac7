"""Means with intervals, and what separates the model from every opponent."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rankine.evaluation.compare import compare_values
from rankine.evaluation.comparison import Pair, System

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rankine.metrics import Metric
    from rankine.report.judged import Judged

__all__ = ["Headline", "headline", "resamples_for"]

CONFIDENCE, MARGIN = 0.95, 0.01
#: Draws of queries that a report affords for one metric.
BUDGET = 50_000_000


@dataclass(frozen=True)
class Headline:
    """One metric: every opponent's mean, and the model against each of them.

    ``pairs[k]`` is the model (b) against opponent k + 1 (a); empty with fewer than two queries,
    where intervals and tests mean nothing.
    """

    metric: str
    title: str
    larger_is_better: bool
    queries: int
    skipped: int
    resamples: int
    kinds: Sequence[str]
    systems: Sequence[System]
    pairs: Sequence[Pair]

    @property
    def model(self) -> System:
        """The model's mean."""
        return self.systems[0]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def resamples_for(n_queries: int) -> int:
    """Bootstrap samples: 10,000, fewer for very many queries."""
    return int(np.clip(BUDGET // max(n_queries, 1), 500, 10_000))


def headline(judged: Judged, metric: Metric, seed: int = 0) -> Headline:
    """Compare the model with its opponents on the queries where all have a value."""
    columns = np.column_stack([judged.values(one, metric) for one in judged.opponents])
    kept: NDArray[np.float64] = columns[~np.isnan(columns).any(axis=1)]
    names = [one.name for one in judged.opponents]
    n = len(kept)
    resamples = resamples_for(n)
    if n >= 2:
        against = [(k, 0) for k in range(1, len(names))]
        systems, pairs = compare_values(
            names, kept, metric, against, CONFIDENCE, MARGIN, resamples, seed
        )
    else:
        nothing = float("nan")
        systems = [
            System(name, float(kept[:, c].mean()) if n else nothing, nothing, nothing)
            for c, name in enumerate(names)
        ]
        pairs = []
    return Headline(
        str(metric),
        metric.title,
        metric.larger_is_better,
        n,
        len(columns) - n,
        resamples,
        [one.kind for one in judged.opponents],
        systems,
        pairs,
    )
