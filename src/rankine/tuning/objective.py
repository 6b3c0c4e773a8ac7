"""What a trial does: fit on each fold, judge on the held-out queries, stop when it cannot win.

Solvers report about twenty times a run (stochastic ones) or after every iteration (exact ones);
reports number 4, 8, 16 ... are judged: before the fourth, weights tell little, and twice as much
work between judgements keeps their cost small beside the training.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.checks import check_count, check_positive
from rankine.data.dataset import Dataset, row_scores
from rankine.metrics import Metric, evaluate_on
from rankine.scoring.latency import scoring_latency
from rankine.solvers.base import Progress
from rankine.transforms.scaling import Scaling, fit_scaling
from rankine.tuning import import_optuna
from rankine.tuning.folds import Folds
from rankine.tuning.pruning import GainPruner
from rankine.tuning.spaces import Space
from rankine.tuning.thompson import SO_FAR

FIRST = 4
#: Steps of an Optuna trial per fold: more than a run has judged reports.
STEPS = 64


@dataclass
class TrialWatch:
    """A callback of ``fit`` that reports to an Optuna trial and heeds its pruner.

    ``metric`` on the ``held`` rows judges; ``scaling`` is that of the fit (solvers speak of weights
    for scaled rows); ``means`` are the values of the folds before this one, and what is reported
    is the mean up to here.
    """

    trial: Any
    metric: Metric
    held: Dataset
    scaling: Scaling
    means: list[float]
    hopeless: bool = False
    _reports: int = 0

    def __post_init__(self) -> None:
        self._step = len(self.means) * STEPS

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

    def end_fold(self) -> None:
        """Report the mean of the finished folds, this one (added by the caller) included."""
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


#: Costs of nothing, for their logarithms: half a weight, a picosecond (in milliseconds).
_LEAST = {"weights": 0.5, "latency": 1e-9}


@dataclass(frozen=True)
class CostLimits:
    """What a model may cost: weights, and milliseconds to score an item on this machine."""

    max_nonzero: int | None = None
    max_latency: float | None = None

    def __post_init__(self) -> None:
        if self.max_nonzero is not None:
            check_count("max_nonzero", self.max_nonzero)
        if self.max_latency is not None:
            check_positive("max_latency", self.max_latency)

    def costs(self, coef: NDArray[np.float64], data: Dataset) -> dict[str, float]:
        """What a model costs, of what is limited."""
        found: dict[str, float] = {}
        if self.max_nonzero is not None:
            found["weights"] = float(np.count_nonzero(coef))
        if self.max_latency is not None:
            found["latency"] = scoring_latency(coef, data)
        return found

    def excess(self, costs: dict[str, float]) -> dict[str, float]:
        """Logarithm of cost over limit: at most 0 where the limit is kept."""
        limits = {"weights": self.max_nonzero, "latency": self.max_latency}
        return {
            name: float(np.log(max(cost, _LEAST[name]) / float(limits[name] or 1.0)))
            for name, cost in costs.items()
        }

    def kept(self, costs: dict[str, float]) -> bool:
        """Whether all limits are kept."""
        return all(value <= 0 for value in self.excess(costs).values())


@dataclass
class Objective:
    """The value of a trial: mean over folds of the metric on held-out queries.

    Training is watched: an Optuna pruner may end it at any judged report, and after each fold.
    """

    folds: Folds
    space: Space
    metric: Metric
    limits: CostLimits
    #: What scaling found, by fold and what it depends on: trials share it.
    _scalings: dict[tuple[Any, ...], Scaling] = field(default_factory=dict)

    def __call__(self, trial: Any) -> float:
        """Run a trial; raises ``TrialPruned`` when it cannot win."""
        started = time.perf_counter()
        setting = self.space.suggest(trial)
        means: list[float] = []
        costs: dict[str, float] = {}
        sizes: list[int] = []
        last = len(self.folds.pairs) - 1
        for k, (train, held) in enumerate(self.folds.pairs):
            ranker = self.space.ranker(setting)
            watch = self._watch(trial, k, ranker, means)
            # What tables report while they train are not weights of columns: they are judged after
            # each fold.
            judged = watch is not None and not getattr(ranker, "takes_tables", False)
            ranker.fit(train, callbacks=(watch,) if judged else ())
            sizes.append(int(np.count_nonzero(ranker.coef_)))
            if watch is None or not watch.hopeless:
                means.append(evaluate_on(held, model=ranker, metric=self.metric))
                for name, cost in self.limits.costs(ranker.coef_, held).items():
                    costs[name] = max(cost, costs.get(name, 0.0))
                if watch is not None and k < last:
                    watch.end_fold()
            hopeless = watch is not None and watch.hopeless
            if hopeless or (k < last and not self.limits.kept(costs)):
                self._note(trial, started, sizes, costs)
                trial.set_user_attr(SO_FAR, self._forecast(trial, means))
                raise import_optuna().TrialPruned
        self._note(trial, started, sizes, costs)
        return float(np.mean(means))

    def _watch(self, trial: Any, fold: int, ranker: Any, means: list[float]) -> TrialWatch | None:
        """A callback for training; None where nothing is ever given up."""
        if isinstance(trial.study.pruner, import_optuna().pruners.NopPruner):
            return None
        train, held = self.folds.pairs[fold]
        key = (fold, type(ranker), ranker.scale, getattr(ranker, "missing", None))
        if key not in self._scalings:
            self._scalings[key] = _scaling_of(ranker, train)
        return TrialWatch(trial, self.metric, held, self._scalings[key], means)

    @staticmethod
    def _forecast(trial: Any, means: list[float]) -> float:
        """What the sampler learns from a trial that was given up."""
        frozen, pruner = trial.study.get_trials(deepcopy=False)[trial.number], trial.study.pruner
        if frozen.last_step is None:
            return float(np.mean(means))
        if isinstance(pruner, GainPruner):
            return pruner.forecast(trial.study, frozen)
        return float(frozen.intermediate_values[frozen.last_step])

    def _note(self, trial: Any, started: float, sizes: list[int], costs: dict[str, float]) -> None:
        trial.set_user_attr("seconds", round(time.perf_counter() - started, 4))
        for name, cost in {**costs, "weights": max(sizes)}.items():
            trial.set_user_attr(name, cost)
        for name, value in self.limits.excess(costs).items():
            trial.set_constraint(name, value)


def _scaling_of(ranker: Any, train: Dataset) -> Scaling:
    """How a ranker prepares training rows; estimators of others may only know ``scale``."""
    own = getattr(ranker, "fit_scaling", None)
    return fit_scaling(ranker.scale, train) if own is None else own(train)
