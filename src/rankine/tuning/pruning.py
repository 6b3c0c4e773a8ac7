r"""Give up a trial when no gain seen so far would still make it the best.

At report t of its training a trial stands at :math:`v_t`; what it ends at is :math:`v_t + g_t`. The
gains :math:`g_t` of finished trials that came by the same report are known. The trial is given up
when even the largest of them, and a standard deviation more, leaves it behind the best trial:

.. math:: v_t + \max_i g_{t,i} + \mathrm{sd}_i(g_{t,i}) < v^*

If trials come in no particular order, the next gain exceeds the largest of n earlier ones with a
probability of at most 1 / (n + 1), whatever the distribution of gains (a conformal bound: the ranks
of exchangeable numbers are uniform). The standard deviation pays for what that leaves out: trials
that were given up show no gain, and a sampler does not propose at random.
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
    """Optuna pruner that forecasts a trial's end from the gains of the finished ones.

    Parameters
    ----------
    n_trials
        Finished trials that must have come by the same report before anything is given up.
    slack
        Standard deviations of the gains that are added to the largest.
    like
        Parameters in which trials must agree to be compared (such as the ranker).
    """

    def __init__(
        self, n_trials: int = 8, slack: float = 1.0, like: Sequence[str] = ("ranker",)
    ) -> None:
        if n_trials < 1 or slack < 0:
            raise ParameterError(
                "n_trials must be at least 1, slack at least 0", fix="Use 8 and 1.0"
            )
        self.n_trials = n_trials
        self.slack = slack
        self.like = tuple(like)

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """Whether the trial cannot win, by all that was seen so far."""
        gains = self.gains(study, trial)
        if len(gains) < self.n_trials:
            return False
        sign = _sign(study)
        best = max(
            (sign * float(t.value) for t in _finished(study) if is_feasible(t)), default=-np.inf
        )
        hope = float(gains.max() + self.slack * gains.std())
        return sign * _last(trial) + hope < best

    def gains(self, study: Study, trial: FrozenTrial) -> NDArray[np.float64]:
        """What finished trials gained after the report that this trial made last."""
        step, sign = trial.last_step, _sign(study)
        kind = [trial.params.get(name) for name in self.like]
        return np.array(
            [
                sign * (float(past.value) - past.intermediate_values[step])
                for past in _finished(study)
                if step in past.intermediate_values
                and [past.params.get(name) for name in self.like] == kind
            ]
        )

    def forecast(self, study: Study, trial: FrozenTrial) -> float:
        """Where the trial would probably end: its last report and the median gain."""
        gains = self.gains(study, trial)
        return _last(trial) + (_sign(study) * float(np.median(gains)) if len(gains) else 0.0)


def make_pruner(name: str) -> Any:
    """``"gain"``, ``"median"`` or ``"halving"`` (Optuna's, with its defaults), or ``"none"``."""
    made = {
        "gain": GainPruner,
        "median": optuna.pruners.MedianPruner,
        "halving": optuna.pruners.SuccessiveHalvingPruner,
        "none": optuna.pruners.NopPruner,
    }
    if name not in made:
        raise ParameterError(
            f"no pruner is called {name!r}", fix=f"Choose one of {', '.join(made)}"
        )
    return made[name]()


def _finished(study: Study) -> list[FrozenTrial]:
    return [t for t in study.get_trials(deepcopy=False) if t.state.name == "COMPLETE"]


def _last(trial: FrozenTrial) -> float:
    return float(trial.intermediate_values[trial.last_step])


def _sign(study: Study) -> float:
    return 1.0 if study.direction.name == "MAXIMIZE" else -1.0
