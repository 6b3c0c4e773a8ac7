"""Orders that need no model: as shown, and by the best single feature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.metrics import evaluate_on
from rankine.report.judged import Opponent

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset
    from rankine.report.judged import Judged

__all__ = ["best_feature", "shown_order"]

#: Features that are tried one by one; of more, those that go with the labels best.
MAX_TRIED = 64
#: Queries that choose the feature, evenly spaced over the data.
MAX_QUERIES = 2000


def shown_order(data: Dataset) -> Opponent | None:
    """The order in which items were displayed, where positions are known."""
    if data.position is None:
        return None
    try:
        position = np.asarray(data.position, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    if not np.isfinite(position).all():
        return None
    return Opponent("shown", "order as shown", -position, "displayed positions")


def best_feature(judged: Judged) -> Opponent | None:
    """The single feature, upwards or downwards, that orders this very data best."""
    data, metric = judged.data, judged.metric
    assert metric is not None  # noqa: S101 - called where something can be measured
    tried = _candidates(judged)
    every = -(-data.n_queries // MAX_QUERIES)
    some = data.take_queries(np.arange(0, data.n_queries, every))
    matrix = judged.features
    if every > 1:
        rows = np.concatenate([data.queries.rows_of(q) for q in range(0, data.n_queries, every)])
        matrix = matrix[rows]
    sign = 1.0 if metric.larger_is_better else -1.0
    best: tuple[float, int, float] | None = None
    for j in tried.tolist():
        values = _column(matrix, j)
        if np.ptp(values) == 0:
            continue
        for direction in (1.0, -1.0):
            found = sign * np.nanmean(
                evaluate_on(some, scores=direction * values, metric=metric, per_query=True)
            )
            if np.isfinite(found) and (best is None or found > best[0]):
                best = float(found), j, direction
    if best is None:
        return None
    _, j, direction = best
    words = "more is better" if direction > 0 else "less is better"
    scores = direction * _column(judged.features, j)
    note = f"{words}; chosen on this data"
    return Opponent("feature", f"best single feature: {judged.feature_name(j)}", scores, note)


def _candidates(judged: Judged) -> NDArray[np.int64]:
    """Features whose values go up or down with the labels within lists, strongest first."""
    data = judged.data
    if data.n_features <= MAX_TRIED:
        return np.arange(data.n_features)
    queries = data.queries
    y = queries.gather(data.y)
    means = np.add.reduceat(y, queries.starts[:-1]) / queries.sizes
    centred = queries.scatter(y - np.repeat(means, queries.sizes))
    together = np.abs(judged.features.T @ centred)
    strength = np.divide(
        together, judged.spread, out=np.zeros(data.n_features), where=judged.spread > 0
    )
    return np.argsort(-strength, kind="stable")[:MAX_TRIED]


def _column(matrix: Any, j: int) -> NDArray[np.float64]:
    column = matrix[:, [j]]
    dense = column.toarray() if hasattr(column, "toarray") else column
    return np.asarray(dense, dtype=np.float64).ravel()
