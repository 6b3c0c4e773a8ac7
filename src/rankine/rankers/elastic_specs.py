"""From an ElasticRanker's parameters to solver specs, checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from rankine.core.errors import ParameterError
from rankine.penalties import (
    AdaptiveRda,
    AdaptiveRdaFrom,
    Fobos,
    Psgd,
    Rda,
    RdaFrom,
    Tgd,
)

__all__ = ["SOLVERS", "StepOptions", "solver_spec"]

#: Thresholds when ``theta`` is None: PSGD's of the paper's range, TGD truncates every weight.
DEFAULT_THETA = {"psgd": 0.02, "tgd": math.inf}


class StepOptions(NamedTuple):
    """What a solver is made from; ``started`` when it continues from given weights."""

    eta0: float
    power: float
    l1: float
    l2: float
    theta: float | None
    prune_every: int
    adaptive: bool
    started: bool


def _rda(given: StepOptions) -> Any:
    if given.adaptive:
        kind = AdaptiveRdaFrom if given.started else AdaptiveRda
        return kind(given.eta0, given.l1, given.l2)
    return (RdaFrom if given.started else Rda)(given.eta0, given.power, given.l1, given.l2)


def _fobos(given: StepOptions) -> Any:
    return Fobos(given.eta0, given.power, given.l1, given.l2)


def _psgd(given: StepOptions) -> Any:
    return Psgd(given.eta0, given.power, given.l2, _threshold("psgd", given), given.prune_every)


def _tgd(given: StepOptions) -> Any:
    return Tgd(given.eta0, given.power, given.l1, _threshold("tgd", given), given.prune_every)


def _threshold(solver: str, given: StepOptions) -> float:
    return float(DEFAULT_THETA[solver] if given.theta is None else given.theta)


#: Name -> maker of the spec; one more entry is one more solver, also for tuning.
SOLVERS: dict[str, Callable[[StepOptions], Any]] = {
    "rda": _rda,
    "fobos": _fobos,
    "psgd": _psgd,
    "tgd": _tgd,
}


def solver_spec(
    solver: str,
    *,
    eta0: float,
    power: float,
    l1: float,
    l2: float,
    theta: float | None,
    prune_every: int,
    adaptive: bool = False,
    started: bool = False,
) -> Any:
    """The spec of a named solver; ``started`` when it continues from given weights."""
    if solver not in SOLVERS:
        raise ParameterError(
            f"solver={solver!r} is not one of {', '.join(SOLVERS)}",
            fix="Choose one of them",
        )
    _positive("eta0", eta0)
    for name, value in (("power", power), ("l1", l1), ("l2", l2)):
        _not_negative(name, value)
    if prune_every < 1 or prune_every != int(prune_every):
        raise ParameterError(f"prune_every={prune_every!r} is not a count", fix="Use 1 or more")
    if theta is not None and not theta >= 0:
        raise ParameterError(f"theta={theta!r} is not >= 0", fix="Use None, or a threshold >= 0")
    if adaptive and solver != "rda":
        raise ParameterError(f"adaptive steps are not known for {solver!r}", fix="Use solver='rda'")
    return SOLVERS[solver](
        StepOptions(
            float(eta0),
            float(power),
            float(l1),
            float(l2),
            theta,
            int(prune_every),
            adaptive,
            started,
        )
    )


def _positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ParameterError(f"{name}={value!r} is not a finite number > 0", fix="Use 1.0")


def _not_negative(name: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise ParameterError(f"{name}={value!r} is not a finite number >= 0", fix="Use 0 or more")
