"""A trial in training: judge it now and then on the held-out queries, stop it when it cannot win.

Solvers report about twenty times a run (stochastic ones) or after every iteration (exact ones);
reports number 4, 8, 16 ... are judged: before the fourth, weights tell little, and twice as much
work between judgements keeps their cost small beside the training.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.data.dataset import row_scores
from rankine.metrics import Metric, evaluate_on
from rankine.transforms.scaling import Scaling

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset
    from rankine.solvers.base import Progress

__all__ = ["Watch"]

FIRST = 4
#: Steps of an Optuna trial per part: more than a run has judged reports.
STEPS = 64


class Watch:
    """A callback of ``fit`` that reports to an Optuna trial and heeds its pruner.

    Parameters
    ----------
    trial
        The Optuna trial.
    metric, held
        What judges.
    scaling
        Of the fit: solvers speak of weights for scaled rows.
    means
        Values of the parts before this one; what is reported is the mean up to here.
    """

    def __init__(
        self, trial: Any, metric: Metric, held: Dataset, scaling: Scaling, means: list[float]
    ) -> None:
        self.trial = trial
        self.metric = metric
        self.held = held
        self.scaling = scaling
        self.means = means
        self.hopeless = False
        self._reports = 0
        self._step = len(means) * STEPS

    def __call__(self, progress: Progress) -> bool:
        """Whether to stop."""
        self._reports += 1
        count = self._reports
        if count < FIRST or count & (count - 1):
            return False
        scores = self._scores(progress.coef())
        value = evaluate_on(self.held, scores=scores, metric=self.metric)
        self.hopeless = self._tell(float(np.mean([*self.means, value])))
        return self.hopeless

    def end_part(self) -> None:
        """Report the mean of the finished parts, this one (added by the caller) included."""
        self._step = len(self.means) * STEPS - 1
        self.hopeless = self._tell(float(np.mean(self.means)))

    def _tell(self, value: float) -> bool:
        if not np.isfinite(value):
            return False
        self.trial.report(value, self._step)
        self._step += 1
        return bool(self.trial.should_prune())

    def _scores(self, coef: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.scaling.transforms:
            return row_scores(self.scaling.apply(self.held).X, coef)
        return row_scores(self.held.X, self.scaling.fold(coef))
