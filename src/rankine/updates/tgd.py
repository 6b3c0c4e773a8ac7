"""Truncated gradient descent."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankine.updates.lazy import (
    OFFSET,
    PENALTY,
    STEP,
    UpdateOptions,
    add_gradient,
    close_step,
    open_step,
    read_weight,
    register_update,
    state_width,
)


class Tgd(NamedTuple):
    """w <- w - eta_t g; every k steps, where |w_j| <= theta, w_j <- soft(w_j, k eta_t l1).

    k is ``every``; Langford, Li, Zhang 2009; Freno et al., 5.2. With k = 1 and theta = inf it is
    FOBOS without l2.

    Lazy form. U_t sums the truncations so far, and a weight untouched since step a is
    soft(w_a, U_t - U_a) where |w_a| <= theta, else w_a. The state is (w_a, U_a).
    """

    eta0: float
    power: float
    l1: float
    theta: float
    every: int


class TgdStep(NamedTuple):
    """Scalars of a step: U and eta."""

    truncation: float
    eta: float


@state_width.implementation(Tgd)
def _state_width(_optimizer: Any) -> Any:
    return 2


@open_step.implementation(Tgd)
def _open_step(optimizer: Any, clock: Any) -> Any:
    eta = optimizer.eta0 / (clock[OFFSET] + clock[STEP] + 1.0) ** optimizer.power
    return TgdStep(clock[PENALTY], eta)


@read_weight.implementation(Tgd)
def _read_weight(optimizer: Any, step: Any, state: Any, j: Any) -> Any:
    w = state[j, 0]
    # A weight above the threshold is not truncated, and only a gradient can change that.
    if abs(w) > optimizer.theta:
        return w
    return np.copysign(max(abs(w) - (step.truncation - state[j, 1]), 0.0), w)


@add_gradient.implementation(Tgd)
def _add_gradient(optimizer: Any, step: Any, state: Any, j: Any, gradient: Any) -> Any:
    w = state[j, 0]
    if abs(w) <= optimizer.theta:
        state[j, 0] = np.copysign(max(abs(w) - (step.truncation - state[j, 1]), 0.0), w)
    state[j, 0] -= step.eta * gradient
    state[j, 1] = step.truncation


@close_step.implementation(Tgd)
def _close_step(optimizer: Any, clock: Any, _state: Any) -> Any:
    clock[STEP] += 1.0
    if clock[STEP] % optimizer.every == 0.0:
        eta = optimizer.eta0 / (clock[OFFSET] + clock[STEP]) ** optimizer.power
        clock[PENALTY] += optimizer.every * eta * optimizer.l1


def _make(options: UpdateOptions) -> Tgd:
    theta = options.theta
    if theta is None:
        theta = np.inf
    return Tgd(options.eta0, options.power, options.l1, float(theta), options.prune_every)


register_update("tgd", _make)
