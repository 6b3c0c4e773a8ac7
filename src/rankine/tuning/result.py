"""What a search found."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rankine.model import LinearModel
from rankine.tuning import import_optuna
from rankine.tuning.thompson import ABANDONED


@dataclass(frozen=True)
class TrialRecord:
    """One trial; ``state`` is ``"complete"``, ``"pruned"`` or ``"failed"`` (for a ``reason``).

    ``value`` of the metric is None for trials that did not finish, ``best`` the best value of the
    trials up to this one; ``weights`` are the non-zero ones (most of all folds); ``feasible`` says
    whether the limits were kept.
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
        Share of the variation of the metric that each parameter explains; empty with few trials.
    test
        The metric on the newest part of a split in three, measured once; else None.
    study
        The Optuna study.
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

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        trials = [asdict(record) for record in self.trace]
        for plain in trials:
            if not plain["reason"]:
                del plain["reason"]
        return {
            "metric": self.metric,
            "best_value": self.best_value,
            "best_params": dict(self.best_params),
            "ranker": type(self.ranker).__name__,
            "weights": self.model.nnz,
            "test": self.test,
            "importances": dict(self.importances),
            "trials": trials,
        }


def records(trials: Sequence[Any], *, maximize: bool) -> list[TrialRecord]:
    """Finished trials in order, with the best value so far; those of dead workers are left out."""
    better = max if maximize else min
    best: float | None = None
    found = []
    states = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
    for trial in trials:
        if trial.state.name not in states or trial.user_attrs.get(ABANDONED):
            continue
        value = float(trial.value) if trial.state.name == "COMPLETE" else None
        feasible = is_feasible(trial)
        if value is not None and feasible:
            best = value if best is None else better(best, value)
        notes = trial.user_attrs
        found.append(
            TrialRecord(
                trial.number,
                states[trial.state.name],
                value,
                best,
                trial.params,
                notes.get("weights"),
                notes.get("seconds"),
                feasible,
                str(notes.get("reason", "")),
            )
        )
    return found


def is_feasible(trial: Any) -> bool:
    """Whether no constraint of a trial is above 0."""
    return all(
        value <= 0 for key, value in trial.system_attrs.items() if key.startswith("constraints:")
    )


def importances(study: Any) -> dict[str, float]:
    """Optuna's importances; nothing when the trials do not suffice."""
    optuna = import_optuna()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = optuna.importance.get_param_importances(study)
        except (ValueError, RuntimeError):
            return {}
    return {name: float(value) for name, value in found.items()}
