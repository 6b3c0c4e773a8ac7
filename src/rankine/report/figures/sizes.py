"""Quality of the model cut down to its strongest weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rankine.data.dataset import row_scores
from rankine.metrics import Metric, evaluate_on

if TYPE_CHECKING:
    from rankine.report.judged import Judged

__all__ = ["SizeCurve", "size_curve"]

POINTS = 12


@dataclass(frozen=True)
class SizeCurve:
    """The metric of models that keep only the ``sizes[k]`` weights with the largest effect.

    ``enough`` is the smallest size within one percent of the whole model's value.
    """

    metric: str
    sizes: Sequence[int]
    values: Sequence[float]
    enough: int

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def size_curve(judged: Judged, metric: Metric) -> SizeCurve | None:
    """Cut the weights of smallest effect, measure again; None for a model without weights."""
    model, data = judged.model, judged.data
    if model.nnz == 0:
        return None
    steps = np.geomspace(1, model.nnz, POINTS).round().astype(int)
    strong = np.lexsort((-np.abs(model.values), -np.abs(judged.effect)))
    sizes = sorted({*steps.tolist(), model.nnz})
    values = []
    for size in sizes:
        kept = strong[:size]
        coef = np.zeros(model.n_features)
        coef[model.indices[kept]] = model.values[kept]
        scores = judged.scores if size == model.nnz else row_scores(judged.features, coef)
        values.append(evaluate_on(data, scores=scores, metric=metric))
    near = [
        size
        for size, value in zip(sizes, values, strict=True)
        if (value >= 0.99 * values[-1] if metric.larger_is_better else value <= 1.01 * values[-1])
    ]
    return SizeCurve(str(metric), sizes, values, min(near))
