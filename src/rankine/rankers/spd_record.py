"""The exact objective of an SPD run at chosen steps (Sculley 2009, figure 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rankine.data.dataset import row_scores
from rankine.losses import Hinge, Logistic
from rankine.solvers.pair_mean import BY_LABELS, BY_PAIRS, BY_QUERIES, mean_pair_loss

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset
    from rankine.rankers.base import Job
    from rankine.rankers.spd import SPDRanker

__all__ = ["ObjectiveRecorder", "spd_objective"]

_MEANS = {"query": BY_QUERIES, "uniform": BY_PAIRS, "rejection": BY_PAIRS, "indexed": BY_LABELS}


def spd_objective(
    ranker: SPDRanker, data: Dataset, coef: NDArray[np.float64], query_weight: NDArray[np.float64]
) -> float:
    """l2/2 |w|^2 + mean pair loss, the mean as ``sampling`` says; hinge unless logistic."""
    loss = Logistic() if ranker.solver == "logistic" else Hinge()
    scores = row_scores(data.X, coef)
    mean = mean_pair_loss(loss, data, scores, query_weight, _MEANS[ranker.sampling])
    return float(0.5 * ranker.l2 * (coef @ coef) + mean)


class ObjectiveRecorder:
    """Called by the solver at every report; measures at the steps the user named."""

    def __init__(self, ranker: SPDRanker, job: Job) -> None:
        self.ranker = ranker
        self.job = job
        self.steps = {int(step) for step in ranker.record_at or ()}
        self.rows: list[dict[str, float]] = []

    def __call__(self, step: int, coef: NDArray[np.float64]) -> dict[str, float]:
        """Objective on training and evaluation data at this step, if it was asked for."""
        if step not in self.steps:
            return {}
        values = {
            "objective": spd_objective(self.ranker, self.job.data, coef, self.job.query_weight)
        }
        if self.job.valid is not None:
            ones = np.ones(self.job.valid.n_queries)
            values["eval_objective"] = spd_objective(self.ranker, self.job.valid, coef, ones)
        self.rows.append({"step": step, **values})
        return values
