"""The result of a search: its trials, the best setting and its model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rankine.model import LinearModel
from rankine.tuning import import_optuna
from rankine.tuning.study import REASON, is_abandoned


@dataclass(frozen=True)
class TrialRecord:
    """One trial; ``state`` is ``"complete"``, ``"pruned"`` or ``"failed"`` (for a ``reason``).

    ``value`` of the metric is None for trials that did not finish. ``best`` is the best value of
    the trials up to this one, ``weights`` the largest number of non-zero weights in a fold, and
    ``feasible`` whether all limits were respected.
    """

    number: int
    state: str
    value: float | None
    best: float | None
    parameters: Mapping[str, Any]
    weights: int | None
    seconds: float | None
    feasible: bool
    reason: str = ""


@dataclass(frozen=True, eq=False)
class TuningResult:
    """The best setting, its model, and how it was found.

    Attributes
    ----------
    best_params, best_value
        The best trial's parameters, and its mean metric on held-out queries.
    ranker, model
        Fitted again with these parameters on all data that was given for training.
    metric
        Text of the metric.
    trace
        All trials in order.
    importances
        Share of the variation of the metric that each parameter explains; empty for few trials.
    test
        The metric on the newest part of a split in three, measured once; None without one.
    study
        The Optuna study.
    interrupted
        Whether Ctrl-C ended the search before all trials had run.
    """

    best_params: Mapping[str, Any]
    best_value: float
    ranker: Any
    model: LinearModel
    metric: str
    trace: Sequence[TrialRecord]
    importances: Mapping[str, float]
    test: float | None
    study: Any
    interrupted: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the study as plain data."""
        trials = [asdict(record) for record in self.trace]
        for trial in trials:
            if not trial["reason"]:
                del trial["reason"]
        return {
            "metric": self.metric,
            "best_value": self.best_value,
            "best_params": dict(self.best_params),
            "ranker": type(self.ranker).__name__,
            "weights": self.model.nnz,
            "test": self.test,
            "interrupted": self.interrupted,
            "importances": dict(self.importances),
            "trials": trials,
        }


def records(trials: Sequence[Any], *, maximize: bool) -> list[TrialRecord]:
    """Return the finished trials in order, without those that dead workers abandoned."""
    better = max if maximize else min
    best: float | None = None
    finished = []
    states = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
    for trial in trials:
        if trial.state.name not in states or is_abandoned(trial):
            continue
        value = None
        feasible = is_feasible(trial)
        if trial.state.name == "COMPLETE":
            value = float(trial.value)
            if feasible and (best is None or better(best, value) == value):
                best = value
        attributes = trial.user_attrs
        finished.append(
            TrialRecord(
                trial.number,
                states[trial.state.name],
                value,
                best,
                trial.params,
                attributes.get("weights"),
                attributes.get("seconds"),
                feasible,
                str(attributes.get(REASON, "")),
            )
        )
    return finished


def is_feasible(trial: Any) -> bool:
    """Return whether no constraint of a trial is above 0."""
    return all(
        value <= 0 for key, value in trial.system_attrs.items() if key.startswith("constraints:")
    )


def importances(study: Any) -> dict[str, float]:
    """Return Optuna's parameter importances; empty if there are too few trials."""
    optuna = import_optuna()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            shares = optuna.importance.get_param_importances(study)
        except (ValueError, RuntimeError):
            return {}
    return {name: float(share) for name, share in shares.items()}
