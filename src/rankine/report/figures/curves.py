"""A metric at every depth of the list."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rankine.core.errors import DataError
from rankine.evaluation.resampling import bootstrap_means, percentile_interval
from rankine.metrics import Metric, parse_metric
from rankine.metrics.metric import definition
from rankine.report.figures.headline import CONFIDENCE, resamples_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankine.report.judged import Judged

__all__ = ["Curve", "Curves", "curve_metrics", "curves"]

DEPTHS = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20)


@dataclass(frozen=True)
class Curve:
    """One opponent's mean at each depth; the model's carries an interval."""

    kind: str
    name: str
    values: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True)
class Curves:
    """One metric at each depth, for all opponents, over the queries that have a value."""

    metric: str
    title: str
    depths: Sequence[int]
    curves: Sequence[Curve]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def curve_metrics(judged: Judged) -> list[Metric]:
    """The headline's metric where it has a cutoff (else NDCG), and precision."""
    own = judged.metric
    if own is None:
        return []
    cut = own.cutoff is None or isinstance(own.cutoff, int)
    base = own if definition(own.name).cutoff != "none" and own.cutoff and cut else None
    found = [base or parse_metric("ndcg@10")]
    if found[0].name != "precision":
        found.append(parse_metric("p@10"))
    return found


def curves(judged: Judged, metric: Metric, seed: int = 0) -> Curves | None:
    """Values at growing depths, as deep as lists go; None where labels do not suit the metric."""
    longest = int(judged.data.queries.sizes.max())
    depths = [k for k in DEPTHS if k <= max(longest, 1)]
    found = []
    try:
        for one in judged.opponents:
            values = np.column_stack([judged.values(one, metric.at(k)) for k in depths])
            kept = values[~np.isnan(values).any(axis=1)]
            if len(kept) == 0:
                return None
            low: list[float] = []
            high: list[float] = []
            if one.kind == "model" and len(kept) >= 2:
                means = bootstrap_means(kept, resamples_for(len(kept) * len(depths)), seed)
                ends = [percentile_interval(means[:, c], CONFIDENCE) for c in range(len(depths))]
                low, high = [end[0] for end in ends], [end[1] for end in ends]
            found.append(Curve(one.kind, one.name, kept.mean(axis=0).tolist(), low, high))
    except DataError:
        return None
    title = metric.title.partition("@")[0]
    return Curves(metric.name, title, depths, found)
