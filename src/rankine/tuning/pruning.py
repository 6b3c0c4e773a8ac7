r"""Stop a trial early when no gain seen so far would still make it the best.

At report t of its training a trial has the value :math:`v_t` and ends at :math:`v_t + g_t`. The
gains :math:`g_t` of finished trials with the same report are recorded. The trial is pruned if even
the largest of them plus a standard deviation would leave it worse than the best trial:

.. math:: v_t + \max_i g_{t,i} + \mathrm{sd}_i(g_{t,i}) < v^*

If trials come in no particular order, the next gain exceeds the largest of n earlier ones with a
probability of at most 1 / (n + 1), for every distribution of gains (a conformal bound: the ranks of
exchangeable numbers are uniform). The standard deviation compensates for two facts that the bound
ignores: the gains of pruned trials are not observed, and a sampler does not propose at random.

Optuna's own pruners compare a trial with others at the same report. On learning curves of MQ2008
and OHSUMED they prune more, but up to 15 % (median) and 30 % (halving) of the pruned trials would
have become the best; with this rule it is 5 % at most (``benchmarks/tune_replay.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.study import Study
from optuna.trial import FrozenTrial

from rankine.core.errors import ParameterError
from rankine.tuning import import_optuna
from rankine.tuning.result import is_feasible

optuna = import_optuna()
_Pruner: Any = optuna.pruners.BasePruner


class GainPruner(_Pruner):
    """Optuna pruner that forecasts the end of a trial from the gains of finished trials.

    Parameters
    ----------
    n_trials
        Number of finished trials with the same report before anything is pruned.
    slack
        Standard deviations of the gains that are added to the largest gain; larger values prune
        less.
    like
        Parameters in which trials must agree to be compared (such as the ranker).
    """

    def __init__(
        self, n_trials: int = 8, slack: float = 1.0, like: Sequence[str] = ("ranker",)
    ) -> None:
        if n_trials < 1:
            raise ParameterError("must be at least 1", fix="Use 8", parameter="n_trials")
        if slack < 0:
            raise ParameterError("must be at least 0", fix="Use 1.0", parameter="slack")
        self.n_trials = n_trials
        self.slack = slack
        self.like = tuple(like)

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """Return whether, by the gains of finished trials, the trial will not become the best."""
        gains = self.gains(study, trial)
        if len(gains) < self.n_trials:
            return False
        sign = _sign(study)
        values = [sign * float(t.value) for t in _finished(study) if is_feasible(t)]
        best_end = sign * _last_value(trial) + float(gains.max() + self.slack * gains.std())
        return best_end < max(values, default=-np.inf)

    def gains(self, study: Study, trial: FrozenTrial) -> NDArray[np.float64]:
        """Return what finished trials gained after the last report of this trial."""
        step, sign = trial.last_step, _sign(study)
        group = [trial.params.get(name) for name in self.like]
        return np.array(
            [
                sign * (float(past.value) - past.intermediate_values[step])
                for past in _finished(study)
                if step in past.intermediate_values
                and [past.params.get(name) for name in self.like] == group
            ]
        )

    def forecast(self, study: Study, trial: FrozenTrial) -> float:
        """Return the probable end of the trial: its last report plus the median gain."""
        gains = self.gains(study, trial)
        if len(gains) == 0:
            return _last_value(trial)
        return _last_value(trial) + _sign(study) * float(np.median(gains))


def make_pruner(name: str) -> Any:
    """Create a pruner: ``"gain"``, Optuna's ``"median"`` or ``"halving"``, or ``"none"``."""
    pruners = {
        "gain": GainPruner,
        "median": optuna.pruners.MedianPruner,
        "halving": optuna.pruners.SuccessiveHalvingPruner,
        "none": optuna.pruners.NopPruner,
    }
    if name not in pruners:
        raise ParameterError(
            f"there is no pruner {name!r}",
            fix=f"Choose one of {', '.join(pruners)}",
            parameter="pruner",
        )
    return pruners[name]()


def _finished(study: Study) -> list[FrozenTrial]:
    return [t for t in study.get_trials(deepcopy=False) if t.state.name == "COMPLETE"]


def _last_value(trial: FrozenTrial) -> float:
    return float(trial.intermediate_values[trial.last_step])


def _sign(study: Study) -> float:
    if study.direction.name == "MAXIMIZE":
        return 1.0
    return -1.0
