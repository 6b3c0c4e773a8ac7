"""What a trial does: fit on each part, judge on the held-out queries, stop when it cannot win."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.data.dataset import Dataset
from rankine.metrics import Metric, evaluate
from rankine.metrics.data_columns import data_columns
from rankine.rankers.checks import check_count, check_positive
from rankine.rankers.latency import scoring_latency
from rankine.tune.extra import import_optuna
from rankine.tune.parts import Parts
from rankine.tune.spaces import Space
from rankine.tune.thompson import SO_FAR

__all__ = ["Limits", "Objective"]

#: Values reported per held-out part: means over groups of queries, for the test that prunes.
GROUPS = 8


@dataclass(frozen=True)
class Limits:
    """What a model may cost.

    Attributes
    ----------
    max_weights
        Most non-zero weights.
    max_latency
        Most milliseconds to score an item, as measured on this machine.
    """

    max_weights: int | None = None
    max_latency: float | None = None

    def __post_init__(self) -> None:
        if self.max_weights is not None:
            check_count("max_weights", self.max_weights)
        if self.max_latency is not None:
            check_positive("max_latency", self.max_latency)

    def costs(self, coef: NDArray[np.float64], data: Dataset) -> dict[str, float]:
        """What a model costs, of what is limited."""
        found: dict[str, float] = {}
        if self.max_weights is not None:
            found["weights"] = float(np.count_nonzero(coef))
        if self.max_latency is not None:
            found["latency"] = scoring_latency(coef, data)
        return found

    def excess(self, costs: dict[str, float]) -> dict[str, float]:
        """Logarithm of cost over limit: at most 0 where the limit is kept."""
        limits = {"weights": self.max_weights, "latency": self.max_latency}
        return {
            name: float(np.log(max(cost, 0.5) / float(limits[name] or 1.0)))
            for name, cost in costs.items()
        }

    def kept(self, costs: dict[str, float]) -> bool:
        """Whether all limits are kept."""
        return all(value <= 0 for value in self.excess(costs).values())


class Objective:
    """The value of a trial: mean over parts of the metric on held-out queries.

    After each part the means of eight fixed groups of its queries are reported, so that a pruner
    can compare the trial with the best one, query group by query group.
    """

    def __init__(self, parts: Parts, space: Space, metric: Metric, limits: Limits) -> None:
        self.parts = parts
        self.space = space
        self.metric = metric
        self.limits = limits

    def __call__(self, trial: Any) -> float:
        """Run a trial; raises ``TrialPruned`` when it cannot win."""
        started = time.perf_counter()
        setting = self.space.suggest(trial)
        means: list[float] = []
        costs: dict[str, float] = {}
        sizes: list[int] = []
        last = len(self.parts.pairs) - 1
        for k, (train, held) in enumerate(self.parts.pairs):
            ranker = self.space.ranker(setting).fit(train)
            means.append(self._judge(trial, k, ranker.predict(held), held))
            sizes.append(int(np.count_nonzero(ranker.coef_)))
            for name, cost in self.limits.costs(ranker.coef_, held).items():
                costs[name] = max(cost, costs.get(name, 0.0))
            too_costly = not self.limits.kept(costs)
            if k < last and (too_costly or trial.should_prune()):
                self._note(trial, started, sizes, costs)
                trial.set_user_attr(SO_FAR, float(np.mean(means)))
                raise import_optuna().TrialPruned
        self._note(trial, started, sizes, costs)
        return float(np.mean(means))

    def _judge(self, trial: Any, part: int, scores: NDArray[np.float64], held: Dataset) -> float:
        columns = data_columns(held)
        arguments = (self.metric, held.y, scores, held.queries)
        values = evaluate(*arguments, per_query=True, columns=columns)
        if len(self.parts.pairs) > 1:
            for group in range(min(GROUPS, len(values))):
                some = values[group::GROUPS]
                some = some[np.isfinite(some)]
                if len(some):
                    trial.report(float(some.mean()), part * GROUPS + group)
        return float(evaluate(*arguments, columns=columns))

    def _note(self, trial: Any, started: float, sizes: list[int], costs: dict[str, float]) -> None:
        trial.set_user_attr("seconds", round(time.perf_counter() - started, 4))
        for name, cost in {**costs, "weights": max(sizes)}.items():
            trial.set_user_attr(name, cost)
        for name, value in self.limits.excess(costs).items():
            trial.set_constraint(name, value)
