"""Regularised dual averaging with the elastic net."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankine.updates.lazy import (
    OFFSET,
    STEP,
    UpdateOptions,
    add_gradient,
    close_step,
    importance,
    open_step,
    read_weight,
    register_update,
    set_weight,
    state_width,
)


class Rda(NamedTuple):
    """w = -soft(G, t l1) / (t l2 + beta_t), G the sum of gradients; Xiao 2010; Freno et al., 5.1.

    beta_t = t^power / eta0, so power = 1/2 is Xiao's gamma sqrt(t) with gamma = 1/eta0. Nothing
    has to be caught up: the state is G, and the closed form is evaluated on reading.
    """

    eta0: float
    power: float
    l1: float
    l2: float


class RdaFrom(NamedTuple):
    """Dual averaging around given weights w0 instead of the origin.

    w = argmin <G, w> + t l1 |w|_1 + t l2/2 |w|^2 + beta_t/2 |w - w0|^2
      = soft(beta_t w0 - G, t l1) / (t l2 + beta_t), and w0 before the first step. The state is
    (G, w0).
    """

    eta0: float
    power: float
    l1: float
    l2: float


class AdaptiveRda(NamedTuple):
    """Dual averaging with a step size per weight: beta_t becomes (1 + sqrt(S_j)) / eta0.

    S_j sums the squares of the items' parts of the gradient; Duchi, Hazan, Singer 2011, the
    composite dual-averaging update with a diagonal. Rare features keep large steps while common
    ones settle. The state is (G, S).
    """

    eta0: float
    l1: float
    l2: float


class AdaptiveRdaFrom(NamedTuple):
    """``AdaptiveRda`` around given weights w0, as ``RdaFrom``; the state is (G, S, w0)."""

    eta0: float
    l1: float
    l2: float


@state_width.implementation(RdaFrom)
@state_width.implementation(AdaptiveRda)
def _two(_optimizer: Any) -> Any:
    return 2


@state_width.implementation(AdaptiveRdaFrom)
def _three(_optimizer: Any) -> Any:
    return 3


@open_step.implementation(Rda)
@open_step.implementation(RdaFrom)
def _open(optimizer: Any, clock: Any) -> Any:
    done = clock[STEP]
    beta = (clock[OFFSET] + done) ** optimizer.power / optimizer.eta0 if done > 0.0 else 1.0
    return beta, done * optimizer.l1, 1.0 / (done * optimizer.l2 + beta)


@open_step.implementation(AdaptiveRda)
@open_step.implementation(AdaptiveRdaFrom)
def _open_adaptive(optimizer: Any, clock: Any) -> Any:
    return 1.0 / optimizer.eta0, clock[STEP] * optimizer.l1, clock[STEP] * optimizer.l2


@read_weight.implementation(Rda)
def _weight(_optimizer: Any, now: Any, state: Any, j: Any) -> Any:
    total = state[j, 0]
    return np.copysign(max(abs(total) - now[1], 0.0) * now[2], -total)


@read_weight.implementation(RdaFrom)
def _weight_from(_optimizer: Any, now: Any, state: Any, j: Any) -> Any:
    pull = now[0] * state[j, 1] - state[j, 0]
    return np.copysign(max(abs(pull) - now[1], 0.0) * now[2], pull)


@read_weight.implementation(AdaptiveRda)
def _weight_adaptive(_optimizer: Any, now: Any, state: Any, j: Any) -> Any:
    total = state[j, 0]
    left = abs(total) - now[1]
    if left <= 0.0:
        return 0.0
    return np.copysign(left / (now[2] + (1.0 + np.sqrt(state[j, 1])) * now[0]), -total)


@read_weight.implementation(AdaptiveRdaFrom)
def _weight_adaptive_from(_optimizer: Any, now: Any, state: Any, j: Any) -> Any:
    beta = (1.0 + np.sqrt(state[j, 1])) * now[0]
    pull = beta * state[j, 2] - state[j, 0]
    left = abs(pull) - now[1]
    if left <= 0.0:
        return 0.0
    return np.copysign(left / (now[2] + beta), pull)


@importance.implementation(Rda)
@importance.implementation(AdaptiveRda)
def _importance(_optimizer: Any, _now: Any, state: Any, j: Any) -> Any:
    """|G|: raising l1 drops weights in this order, frequent features last."""
    return abs(state[j, 0])


@importance.implementation(RdaFrom)
def _importance_from(_optimizer: Any, now: Any, state: Any, j: Any) -> Any:
    return abs(now[0] * state[j, 1] - state[j, 0])


@importance.implementation(AdaptiveRdaFrom)
def _importance_adaptive_from(_optimizer: Any, now: Any, state: Any, j: Any) -> Any:
    return abs((1.0 + np.sqrt(state[j, 1])) * now[0] * state[j, 2] - state[j, 0])


@add_gradient.implementation(Rda)
@add_gradient.implementation(RdaFrom)
def _push(_optimizer: Any, _now: Any, state: Any, j: Any, gradient: Any) -> Any:
    state[j, 0] += gradient


@add_gradient.implementation(AdaptiveRda)
@add_gradient.implementation(AdaptiveRdaFrom)
def _push_adaptive(_optimizer: Any, _now: Any, state: Any, j: Any, gradient: Any) -> Any:
    state[j, 0] += gradient
    state[j, 1] += gradient * gradient


@close_step.implementation(Rda)
@close_step.implementation(RdaFrom)
@close_step.implementation(AdaptiveRda)
@close_step.implementation(AdaptiveRdaFrom)
def _close(_optimizer: Any, clock: Any, _state: Any) -> Any:
    clock[STEP] += 1.0


@set_weight.implementation(RdaFrom)
def _place(_optimizer: Any, state: Any, j: Any, value: Any) -> Any:
    state[j, 1] = value


@set_weight.implementation(AdaptiveRdaFrom)
def _place_adaptive(_optimizer: Any, state: Any, j: Any, value: Any) -> Any:
    state[j, 2] = value


def _make(options: UpdateOptions) -> Any:
    if options.adaptive:
        kind = AdaptiveRdaFrom if options.started else AdaptiveRda
        return kind(options.eta0, options.l1, options.l2)
    plain = RdaFrom if options.started else Rda
    return plain(options.eta0, options.power, options.l1, options.l2)


register_update("rda", _make, adaptive=True)
