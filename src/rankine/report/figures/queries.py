"""How quality spreads over queries, and the lists where it is worst and best."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankine.metrics import Metric
    from rankine.report.judged import Judged, Opponent

__all__ = ["Differences", "Spread", "differences", "extremes", "spread"]

BINS = 20


@dataclass(frozen=True)
class Spread:
    """Histogram of a metric over queries, with its quantiles."""

    metric: str
    edges: Sequence[float]
    counts: Sequence[int]
    mean: float
    quantiles: Sequence[float]
    zeros: int
    queries: int

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


@dataclass(frozen=True)
class Differences:
    """Histogram of (model - opponent) over queries; better, equal and worse queries."""

    metric: str
    opponent: str
    edges: Sequence[float]
    counts: Sequence[int]
    better: int
    equal: int
    worse: int

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def spread(judged: Judged, metric: Metric) -> Spread | None:
    """Distribution of the model's values."""
    values = judged.values(judged.opponents[0], metric)
    kept = values[~np.isnan(values)]
    if len(kept) == 0:
        return None
    high = 1.0 if kept.max() <= 1 else float(kept.max())
    low = 0.0 if kept.min() >= 0 else float(kept.min())
    counts, edges = np.histogram(kept, bins=BINS, range=(low, high if high > low else low + 1))
    return Spread(
        str(metric),
        edges.tolist(),
        counts.tolist(),
        float(kept.mean()),
        np.quantile(kept, [0.1, 0.25, 0.5, 0.75, 0.9]).tolist(),
        int((kept == 0).sum()),
        len(kept),
    )


def differences(judged: Judged, metric: Metric, opponent: Opponent) -> Differences | None:
    """Distribution of the differences to an opponent, in bins centred on zero."""
    gap = judged.values(judged.opponents[0], metric) - judged.values(opponent, metric)
    gap = gap[~np.isnan(gap)]
    if len(gap) == 0:
        return None
    gap = np.where(np.abs(gap) > 1e-12, gap, 0.0)
    reach = max(float(np.abs(gap).max()), 1e-6)
    counts, edges = np.histogram(gap, bins=BINS + 1, range=(-reach, reach))
    sign = 1.0 if metric.larger_is_better else -1.0
    return Differences(
        str(metric),
        opponent.name,
        edges.tolist(),
        counts.tolist(),
        int((sign * gap > 0).sum()),
        int((gap == 0).sum()),
        int((sign * gap < 0).sum()),
    )


def extremes(
    judged: Judged, values: NDArray[np.float64], n: int, *, larger_is_better: bool
) -> tuple[list[int], list[int]]:
    """Positions of the ``n`` worst and ``n`` best queries; among equals those with most pairs.

    No query is named twice; with few queries the worst come first.
    """
    pairs = judged.data.labels.pair_counts
    known = np.flatnonzero(~np.isnan(values) & (pairs > 0))
    sign = 1.0 if larger_is_better else -1.0
    worst = known[np.lexsort((-pairs[known], sign * values[known]))][:n]
    rest = np.setdiff1d(known, worst)
    best = rest[np.lexsort((-pairs[rest], -sign * values[rest]))][:n]
    return worst.tolist(), best.tolist()
