"""What every solver takes and gives, and how it tells callbacks where it stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import DivergenceError

#: Reasons to stop that leave a tolerance unmet; rankers warn of them.
UNFINISHED = ("max_iter", "stalled", "precision")


@dataclass(frozen=True)
class Progress:
    """What a callback sees: where the run stands and what it measured.

    ``values`` holds named numbers such as ``objective``, ``gap`` or the evaluation metric;
    ``coef()`` gives the current weights (computed only when asked).
    """

    stage: str
    step: int
    total: int | None
    values: Mapping[str, float]
    coef: Callable[[], NDArray[np.float64]]


#: Called now and then during training; returning True stops it ("stopped by callback").
Callback = Callable[[Progress], bool | None]


@dataclass(frozen=True)
class Solution:
    """The end of a run.

    Attributes
    ----------
    coef
        Weights, one per feature.
    objective
        Value of the stated objective at ``coef`` (NaN where the solver never computes it).
    certificate
        What proves the result: ``gap``, ``lower_bound``, ``residual`` ...
    n_iter
        Iterations, steps or sweeps, as the solver's documentation says.
    trace
        One mapping per record, in order: what to plot.
    stop_reason
        ``"converged"``: the certificate is within the tolerance. ``"max_iter"``: the budget ended
        first. ``"stalled"``, ``"precision"``: neither bound nor objective improved any more, or
        rounding leaves nothing to improve. ``"passes"``, ``"steps"``: a stochastic run took what
        it was given. ``"callback"``, ``"early_stopping"``: somebody asked.
    """

    coef: NDArray[np.float64]
    objective: float
    certificate: Mapping[str, float]
    n_iter: int
    trace: Sequence[Mapping[str, float]] = field(default_factory=tuple)
    stop_reason: str = "converged"
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def unfinished(self) -> bool:
        """Whether the run ended short of its tolerance without being asked to."""
        return self.stop_reason in UNFINISHED


class ResumePoint:
    """Where the loop of a solver stands, for a run that may have to be resumed.

    ``state`` is where an interrupted run stood, None where a run begins. ``put`` is called before
    every iteration with a function that gives all that the loop carries on: arrays, numbers,
    texts, lists and mappings of these. This one, that of rows in memory, keeps nothing.
    """

    state: Sequence[Any] | None = None

    def save(self, state: Callable[[], Sequence[Any]]) -> None:
        """Keep a state in place of the one before it."""


def notify(callbacks: Sequence[Callback], progress: Progress) -> bool:
    """Call every callback; True when one of them asks to stop."""
    answers = [callback(progress) for callback in callbacks]
    return any(isinstance(answer, (bool, np.bool_)) and bool(answer) for answer in answers)


def require_finite(values: NDArray[np.float64], step: int, what: str) -> None:
    """Raise DivergenceError when a weight, or what steps are made from, is NaN or infinite."""
    if not np.isfinite(values).all():
        raise DivergenceError(
            f"{what} diverged: numbers are no longer finite at step {step}",
            fix="Scale the features (scale='standard') or regularise more",
        )


def report_progress(
    callbacks: Sequence[Callback],
    stage: str,
    step: int,
    total: int,
    values: Mapping[str, float],
    coef: NDArray[np.float64],
) -> bool:
    """Call every callback with the current weights; True when one of them asks to stop."""

    def current() -> NDArray[np.float64]:
        return coef

    return notify(callbacks, Progress(stage, step, total, values, current))


def gap_certificate(
    objective: float, low: float, at_zero: float, **more: float
) -> dict[str, float]:
    """What proves a minimum: its value, a lower bound of it, and how far apart they are."""
    gap = objective - low
    proof = {"objective": objective, "lower_bound": low, "gap": gap, "relative_gap": gap / at_zero}
    return {**proof, **more}
