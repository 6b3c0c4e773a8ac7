"""Run a trial: fit on each fold, evaluate on held-out queries, stop when it cannot win.

Solvers report about twenty times a run (stochastic ones) or after every iteration (exact ones).
Reports number 4, 8, 16 ... are evaluated: before the fourth, weights carry little information, and
doubling the distance keeps the cost of evaluation small compared with training.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.checks import check_count, check_positive
from rankine.core.errors import DivergenceError
from rankine.data.dataset import Dataset, row_scores
from rankine.metrics import Metric, evaluate_on
from rankine.metrics.engine import HALF_WIDTH, gain_over_constant
from rankine.scoring.latency import scoring_latency
from rankine.solvers.base import Progress
from rankine.transforms.scaling import Scaling, fit_scaling
from rankine.tuning import import_optuna
from rankine.tuning.folds import Folds
from rankine.tuning.pruning import GainPruner
from rankine.tuning.spaces import Space
from rankine.tuning.thompson import PARTIAL_VALUE

#: Number of the first report that is evaluated.
FIRST_REPORT = 4
#: Steps of an Optuna trial per fold: more than a run has evaluated reports.
STEPS = 64
#: Attribute of a trial: the upper end of the interval of its gain over a model without weights.
LARGEST_GAIN = "largest_gain"


@dataclass
class TrialMonitor:
    """A callback of ``fit`` that reports to an Optuna trial and stops when its pruner decides so.

    ``metric`` is measured on the rows ``held_out``. ``scaling`` is the one of the fit: solvers
    report weights for scaled rows. ``means`` are the values of the folds before this one; the mean
    over folds so far is reported.
    """

    trial: Any
    metric: Metric
    held_out: Dataset
    scaling: Scaling
    means: list[float]
    pruned: bool = False
    _n_reports: int = 0

    def __post_init__(self) -> None:
        self._step = len(self.means) * STEPS

    def __call__(self, progress: Progress) -> bool:
        """Return whether to stop."""
        self._n_reports += 1
        n = self._n_reports
        # Evaluation costs as much as many steps, so it grows rarer as training goes on.
        if n < FIRST_REPORT or n & (n - 1):  # neither 4, 8, 16 ...
            return False
        scores = self._scores(progress.coef())
        if not np.isfinite(scores).all():
            raise DivergenceError(
                "scores of held-out rows are not finite", fix="Search smaller steps"
            )
        value = evaluate_on(self.held_out, scores=scores, metric=self.metric)
        return self._report(float(np.mean([*self.means, value])))

    def end_fold(self) -> None:
        """Report the mean of the finished folds; the caller has added this one."""
        self._step = len(self.means) * STEPS - 1
        self._report(float(np.mean(self.means)))

    def _report(self, value: float) -> bool:
        self.pruned = False
        if np.isfinite(value):
            self.trial.report(value, self._step)
            self._step += 1
            self.pruned = bool(self.trial.should_prune())
        return self.pruned

    def _scores(self, coef: NDArray[np.float64]) -> NDArray[np.float64]:
        # Transforms that cannot be folded into the weights are applied to the rows instead.
        if self.scaling.transforms:
            return row_scores(self.scaling.apply(self.held_out).X, coef)
        return row_scores(self.held_out.X, self.scaling.fold(coef))


#: Stand-ins for a cost of zero, which has no logarithm: half a weight, a picosecond (in ms).
_SMALLEST = {"weights": 0.5, "latency": 1e-9}


@dataclass(frozen=True)
class CostLimits:
    """Limits of a model's cost: weights, and milliseconds to score an item on this machine."""

    max_nonzero: int | None = None
    max_latency: float | None = None

    def __post_init__(self) -> None:
        if self.max_nonzero is not None:
            check_count("max_nonzero", self.max_nonzero)
        if self.max_latency is not None:
            check_positive("max_latency", self.max_latency)

    def costs(self, coef: NDArray[np.float64], data: Dataset) -> dict[str, float]:
        """Measure those costs of a model that are limited."""
        costs: dict[str, float] = {}
        if self.max_nonzero is not None:
            costs["weights"] = float(np.count_nonzero(coef))
        if self.max_latency is not None:
            costs["latency"] = scoring_latency(coef, data)
        return costs

    def excess(self, costs: dict[str, float]) -> dict[str, float]:
        """Return the logarithm of cost over limit: at most 0 if the limit is respected."""
        limits = {"weights": self.max_nonzero, "latency": self.max_latency}
        return {
            name: float(np.log(max(cost, _SMALLEST[name]) / float(limits[name] or 1.0)))
            for name, cost in costs.items()
        }

    def respected(self, costs: dict[str, float]) -> bool:
        """Return whether all limits are respected."""
        return all(value <= 0 for value in self.excess(costs).values())


@dataclass
class Objective:
    """The value of a trial: the mean over folds of the metric on held-out queries.

    An Optuna pruner may end a trial at any evaluated report, and after each fold.
    """

    folds: Folds
    space: Space
    metric: Metric
    limits: CostLimits
    #: Fitted scalings by fold and by what they depend on: trials share them.
    _scalings: dict[tuple[Any, ...], Scaling] = field(default_factory=dict)

    def __call__(self, trial: Any) -> float:
        """Run a trial; raise ``TrialPruned`` if it cannot win or exceeds a limit."""
        started = time.perf_counter()
        setting = self.space.suggest(trial)
        means: list[float] = []
        gains: list[tuple[float, float]] = []  # over a model without weights, with standard error
        costs: dict[str, float] = {}
        sizes: list[int] = []
        last = len(self.folds.pairs) - 1
        for k, (train, held_out) in enumerate(self.folds.pairs):
            ranker = self.space.ranker(setting)
            monitor = self._monitor(trial, k, ranker, means)
            callbacks: tuple[TrialMonitor, ...] = ()
            # Models of tables report no weights of columns while they train: they are evaluated
            # after each fold only.
            if monitor is not None and not getattr(ranker, "takes_tables", False):
                callbacks = (monitor,)
            ranker.fit(train, callbacks=callbacks)
            sizes.append(int(np.count_nonzero(ranker.coef_)))
            if monitor is None or not monitor.pruned:
                scores = ranker.predict(held_out)
                means.append(evaluate_on(held_out, scores=scores, metric=self.metric))
                gains.append(gain_over_constant(self.metric, held_out, scores))
                for name, cost in self.limits.costs(ranker.coef_, held_out).items():
                    # A limit holds if it holds in every fold.
                    costs[name] = max(cost, costs.get(name, 0.0))
                if monitor is not None and k < last:
                    monitor.end_fold()
            pruned = monitor is not None and monitor.pruned
            if pruned or (k < last and not self.limits.respected(costs)):
                self._record(trial, started, sizes, costs)
                trial.set_user_attr(PARTIAL_VALUE, self._forecast(trial, means))
                raise import_optuna().TrialPruned
        self._record(trial, started, sizes, costs)
        gain, error = np.mean(gains, axis=0)[0], np.linalg.norm(gains, axis=0)[1] / len(gains)
        trial.set_user_attr(LARGEST_GAIN, float(gain + HALF_WIDTH * error))
        return float(np.mean(means))

    def _monitor(
        self, trial: Any, fold: int, ranker: Any, means: list[float]
    ) -> TrialMonitor | None:
        """Return a callback for training; None if the pruner never ends a trial."""
        if isinstance(trial.study.pruner, import_optuna().pruners.NopPruner):
            return None
        train, held_out = self.folds.pairs[fold]
        # Measuring the scaling reads all rows: trials with the same choice share it.
        key = (fold, type(ranker), ranker.scale, getattr(ranker, "missing", None))
        if key not in self._scalings:
            self._scalings[key] = _scaling_of(ranker, train)
        return TrialMonitor(trial, self.metric, held_out, self._scalings[key], means)

    @staticmethod
    def _forecast(trial: Any, means: list[float]) -> float:
        """Return the value that the sampler learns from a pruned trial."""
        frozen, pruner = trial.study.get_trials(deepcopy=False)[trial.number], trial.study.pruner
        if frozen.last_step is None:
            return float(np.mean(means))
        if isinstance(pruner, GainPruner):
            return pruner.forecast(trial.study, frozen)
        return float(frozen.intermediate_values[frozen.last_step])

    def _record(
        self, trial: Any, started: float, sizes: list[int], costs: dict[str, float]
    ) -> None:
        trial.set_user_attr("seconds", round(time.perf_counter() - started, 4))
        for name, cost in {**costs, "weights": max(sizes)}.items():
            trial.set_user_attr(name, cost)
        for name, value in self.limits.excess(costs).items():
            trial.set_constraint(name, value)


def _scaling_of(ranker: Any, train: Dataset) -> Scaling:
    """Fit the scaling of a ranker; estimators of other libraries may only have ``scale``."""
    if hasattr(ranker, "fit_scaling"):
        return ranker.fit_scaling(train)
    return fit_scaling(ranker.scale, train)
