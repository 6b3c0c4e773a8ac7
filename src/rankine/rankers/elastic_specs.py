"""From an ElasticRanker's parameters to optimiser specs, checked."""

from __future__ import annotations

import math
from typing import Any

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

__all__ = ["OPTIMIZERS", "optimizer_spec"]

OPTIMIZERS = ("rda", "fobos", "psgd", "tgd")
#: Thresholds when ``theta`` is None: PSGD's of the paper's range, TGD truncates every weight.
DEFAULT_THETA = {"psgd": 0.02, "tgd": math.inf}


def optimizer_spec(
    optimizer: str,
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
    """The spec of a named optimiser; ``started`` when it continues from given weights."""
    if optimizer not in OPTIMIZERS:
        raise ParameterError(
            f"optimizer={optimizer!r} is not one of {', '.join(OPTIMIZERS)}",
            fix="Choose one of them",
        )
    _positive("eta0", eta0)
    for name, value in (("power", power), ("l1", l1), ("l2", l2)):
        _not_negative(name, value)
    if prune_every < 1 or prune_every != int(prune_every):
        raise ParameterError(f"prune_every={prune_every!r} is not a count", fix="Use 1 or more")
    if theta is not None and not theta >= 0:
        raise ParameterError(f"theta={theta!r} is not >= 0", fix="Use None, or a threshold >= 0")
    if adaptive and optimizer != "rda":
        raise ParameterError(
            f"adaptive steps are not known for {optimizer!r}", fix="Use optimizer='rda'"
        )
    rate, shape = float(eta0), float(power)
    if adaptive:
        return (AdaptiveRdaFrom if started else AdaptiveRda)(rate, float(l1), float(l2))
    if optimizer == "rda":
        return (RdaFrom if started else Rda)(rate, shape, float(l1), float(l2))
    if optimizer == "fobos":
        return Fobos(rate, shape, float(l1), float(l2))
    threshold = float(DEFAULT_THETA[optimizer] if theta is None else theta)
    if optimizer == "psgd":
        return Psgd(rate, shape, float(l2), threshold, int(prune_every))
    return Tgd(rate, shape, float(l1), threshold, int(prune_every))


def _positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ParameterError(f"{name}={value!r} is not a finite number > 0", fix="Use 1.0")


def _not_negative(name: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise ParameterError(f"{name}={value!r} is not a finite number >= 0", fix="Use 0 or more")
