"""Evaluation during training: the metric on held-out queries, the best weights, early stopping."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rankine.data.dataset import row_scores

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset
    from rankine.solvers.base import Progress, Solution

__all__ = ["Monitor"]


class Monitor:
    """A callback that scores held-out data at every report of a solver.

    Parameters
    ----------
    metric
        Name of the metric, larger is better unless the metric says otherwise.
    valid
        Held-out data, scaled like the training data.
    patience
        Stop after this many reports without improvement; None never stops.
    """

    def __init__(self, metric: str, valid: Dataset, patience: int | None) -> None:
        from rankine.metrics import parse_metric

        self.metric = parse_metric(metric)
        self.valid = valid
        self.patience = patience
        self.trace: list[dict[str, float]] = []
        self.best_value = -np.inf
        self.best_step = 0
        self.best_coef: NDArray[np.float64] | None = None
        self._since_best = 0

    def __call__(self, progress: Progress) -> bool:
        """Evaluate; True when patience has run out."""
        from rankine.metrics import data_columns, evaluate

        coef = progress.coef()
        data = self.valid
        scores = row_scores(data.X, coef)
        value = evaluate(self.metric, data.y, scores, data.queries, columns=data_columns(data))
        self.trace.append({"step": progress.step, "value": value, **progress.values})
        signed = value if self.metric.larger_is_better else -value
        if signed > self.best_value:
            self.best_value = signed
            self.best_step = progress.step
            self.best_coef = np.array(coef)
            self._since_best = 0
        else:
            self._since_best += 1
        return self.patience is not None and self._since_best >= self.patience

    def best(self, solution: Solution) -> Solution:
        """The solution with the best weights seen; early stopping is then why it ended."""
        if self.best_coef is None:
            return solution
        stopped = solution.stop_reason == "callback"
        reason = "early_stopping" if stopped else solution.stop_reason
        return replace(solution, coef=self.best_coef, stop_reason=reason)
