"""What every solver returns, reports to callbacks, and keeps for resuming."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import DivergenceError

#: Stop reasons that leave the tolerance unmet; rankers warn about them.
UNFINISHED = ("max_iter", "stalled", "precision")


@dataclass(frozen=True)
class Progress:
    """State of a run as reported to callbacks.

    ``values`` holds named numbers such as ``objective``, ``gap`` or the evaluation metric.
    ``coef()`` computes the current weights.
    """

    stage: str
    step: int
    total: int | None
    values: Mapping[str, float]
    coef: Callable[[], NDArray[np.float64]]


#: Called from time to time during training; returning True stops the run ("callback").
Callback = Callable[[Progress], bool | None]


@dataclass(frozen=True)
class Solution:
    """Result of a run.

    Attributes
    ----------
    coef
        Weights, one per feature.
    objective
        Value of the stated objective at ``coef`` (NaN if the solver does not compute it).
    certificate
        Numbers that prove the result: ``gap``, ``lower_bound``, ``residual`` ...
    n_iter
        Number of iterations, steps or sweeps, depending on the solver.
    trace
        One mapping per record, in order, for plots.
    stop_reason
        ``"converged"``: the certificate is within the tolerance. ``"estimated"``: only an estimate
        of it is, as the caller allowed. ``"max_iter"``: the budget ended first. ``"stalled"``,
        ``"precision"``: neither bound nor objective improved any more, or only rounding errors are
        left. ``"passes"``, ``"steps"``: a stochastic run ended as planned. ``"callback"``,
        ``"early_stopping"``: stopped on request.
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
        """Whether the run ended without reaching its tolerance and without a request to stop."""
        return self.stop_reason in UNFINISHED


class ResumePoint:
    """Saved state of a solver's loop, from which an interrupted run continues.

    A loop restores ``state`` before its first iteration, unless it is None, and calls ``save``
    before every iteration. Batch solvers use it; this base class saves nothing, because their runs
    on rows in memory start again. ``distributed.journal`` has the implementation for partitions,
    which writes states to files. Stochastic solvers use ``solvers.checkpoint`` instead.
    """

    #: State in which the interrupted run stopped; None for a new run.
    state: Sequence[Any] | None = None

    def save(self, state: Callable[[], Sequence[Any]]) -> None:
        """Replace the saved state by ``state()``.

        It returns all variables of the loop as arrays, numbers, texts, lists or mappings of these.
        """


def notify(callbacks: Sequence[Callback], progress: Progress) -> bool:
    """Call every callback; return whether one of them requested a stop."""
    # Every callback is called, also after one has returned True.
    results = [callback(progress) for callback in callbacks]
    return any(isinstance(result, (bool, np.bool_)) and bool(result) for result in results)


def initial_weights(start: NDArray[np.float64] | None, n_features: int) -> NDArray[np.float64]:
    """Return a copy of the weights to start from, zeros by default."""
    if start is None:
        return np.zeros(n_features)
    return np.array(start, dtype=np.float64)


def require_finite(values: NDArray[np.float64], step: int, method: str) -> None:
    """Raise DivergenceError if ``values`` (weights or what steps are computed from) has NaN or inf.

    ``method`` is the name of the method in the message.
    """
    if not np.isfinite(values).all():
        raise DivergenceError(
            f"{method} diverged: numbers are no longer finite at step {step}",
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
    """Call every callback with the current weights; return whether one of them requested a stop."""
    return notify(callbacks, Progress(stage, step, total, values, lambda: coef))


def gap_certificate(
    objective: float, lower_bound: float, at_zero: float, **counts: float
) -> dict[str, float]:
    """Return the certificate of a minimum: its value, a lower bound, and the gap between them.

    ``at_zero`` is the objective at w = 0, which the relative gap is measured by.
    """
    gap = objective - lower_bound
    return {
        "objective": objective,
        "lower_bound": lower_bound,
        "gap": gap,
        "relative_gap": gap / at_zero,
        **counts,
    }
