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

    beta_t = t^power / eta0, so power = 1/2 is Xiao's gamma sqrt(t) with gamma = 1/eta0. No penalty
    is ever pending: the state is G, and the closed form is evaluated on reading.
    """

    eta0: float
    power: float
    l1: float
    l2: float


class RdaFrom(NamedTuple):
    """Dual averaging around given weights w0 instead of the origin.

    The weights before the first step are w0; the state is (G, w0). After t steps they are::

        w = argmin <G, w> + t l1 |w|_1 + t l2/2 |w|^2 + beta_t/2 |w - w0|^2
          = soft(beta_t w0 - G, t l1) / (t l2 + beta_t)
    """

    eta0: float
    power: float
    l1: float
    l2: float


class AdaptiveRda(NamedTuple):
    """Dual averaging with a step size per weight: beta_t becomes (1 + sqrt(S_j)) / eta0.

    S_j sums the squares of the items' parts of the gradient; Duchi, Hazan, Singer 2011, the
    composite dual-averaging update with a diagonal. Rare features keep large steps while frequent
    ones converge. The state is (G, S).
    """

    eta0: float
    l1: float
    l2: float


class AdaptiveRdaFrom(NamedTuple):
    """``AdaptiveRda`` around given weights w0, as ``RdaFrom``; the state is (G, S, w0)."""

    eta0: float
    l1: float
    l2: float


class RdaStep(NamedTuple):
    """Scalars of a step: beta, t l1 and 1 / (t l2 + beta)."""

    beta: float
    l1: float
    inverse: float


class AdaptiveRdaStep(NamedTuple):
    """Scalars of a step: 1 / eta0, t l1 and t l2."""

    inverse_eta0: float
    l1: float
    l2: float


@state_width.implementation(RdaFrom)
@state_width.implementation(AdaptiveRda)
def _two_numbers(_optimizer: Any) -> Any:
    return 2


@state_width.implementation(AdaptiveRdaFrom)
def _three_numbers(_optimizer: Any) -> Any:
    return 3


@open_step.implementation(Rda)
@open_step.implementation(RdaFrom)
def _open_step(optimizer: Any, clock: Any) -> Any:
    t = clock[STEP]
    # Before the first step G = 0, and any beta > 0 gives the initial weights.
    beta = 1.0
    if t > 0.0:
        beta = (clock[OFFSET] + t) ** optimizer.power / optimizer.eta0
    return RdaStep(beta, t * optimizer.l1, 1.0 / (t * optimizer.l2 + beta))


@open_step.implementation(AdaptiveRda)
@open_step.implementation(AdaptiveRdaFrom)
def _open_adaptive_step(optimizer: Any, clock: Any) -> Any:
    t = clock[STEP]
    return AdaptiveRdaStep(1.0 / optimizer.eta0, t * optimizer.l1, t * optimizer.l2)


@read_weight.implementation(Rda)
def _read_weight(_optimizer: Any, step: Any, state: Any, j: Any) -> Any:
    G = state[j, 0]
    return np.copysign(max(abs(G) - step.l1, 0.0) * step.inverse, -G)


@read_weight.implementation(RdaFrom)
def _read_weight_from(_optimizer: Any, step: Any, state: Any, j: Any) -> Any:
    # At t = 0 the step has no penalty and beta = 1: the weight is exactly w0.
    pull = step.beta * state[j, 1] - state[j, 0]
    return np.copysign(max(abs(pull) - step.l1, 0.0) * step.inverse, pull)


@read_weight.implementation(AdaptiveRda)
def _read_adaptive_weight(_optimizer: Any, step: Any, state: Any, j: Any) -> Any:
    G = state[j, 0]
    excess = abs(G) - step.l1
    if excess <= 0.0:
        return 0.0
    # S is read after the test: many weights are zero, and a pass over them is bound by memory.
    S = state[j, 1]
    return np.copysign(excess / (step.l2 + (1.0 + np.sqrt(S)) * step.inverse_eta0), -G)


@read_weight.implementation(AdaptiveRdaFrom)
def _read_adaptive_weight_from(_optimizer: Any, step: Any, state: Any, j: Any) -> Any:
    beta = (1.0 + np.sqrt(state[j, 1])) * step.inverse_eta0
    pull = beta * state[j, 2] - state[j, 0]
    excess = abs(pull) - step.l1
    if excess <= 0.0:
        return 0.0
    return np.copysign(excess / (step.l2 + beta), pull)


# Importances are compared with t l1: a weight is zero where its importance is not larger.
@importance.implementation(Rda)
@importance.implementation(AdaptiveRda)
def _importance(_optimizer: Any, _step: Any, state: Any, j: Any) -> Any:
    """Return |G|: a rising l1 drops weights in this order, frequent features last."""
    return abs(state[j, 0])


@importance.implementation(RdaFrom)
def _importance_from(_optimizer: Any, step: Any, state: Any, j: Any) -> Any:
    return abs(step.beta * state[j, 1] - state[j, 0])


@importance.implementation(AdaptiveRdaFrom)
def _adaptive_importance_from(_optimizer: Any, step: Any, state: Any, j: Any) -> Any:
    return abs((1.0 + np.sqrt(state[j, 1])) * step.inverse_eta0 * state[j, 2] - state[j, 0])


@add_gradient.implementation(Rda)
@add_gradient.implementation(RdaFrom)
def _add_gradient(_optimizer: Any, _step: Any, state: Any, j: Any, gradient: Any) -> Any:
    state[j, 0] += gradient


@add_gradient.implementation(AdaptiveRda)
@add_gradient.implementation(AdaptiveRdaFrom)
def _add_adaptive_gradient(_optimizer: Any, _step: Any, state: Any, j: Any, gradient: Any) -> Any:
    state[j, 0] += gradient
    state[j, 1] += gradient * gradient


@close_step.implementation(Rda)
@close_step.implementation(RdaFrom)
@close_step.implementation(AdaptiveRda)
@close_step.implementation(AdaptiveRdaFrom)
def _close_step(_optimizer: Any, clock: Any, _state: Any) -> Any:
    clock[STEP] += 1.0


@set_weight.implementation(RdaFrom)
def _set_weight(_optimizer: Any, state: Any, j: Any, value: Any) -> Any:
    state[j, 1] = value


@set_weight.implementation(AdaptiveRdaFrom)
def _set_adaptive_weight(_optimizer: Any, state: Any, j: Any, value: Any) -> Any:
    state[j, 2] = value


def _make(options: UpdateOptions) -> Any:
    if options.adaptive:
        adaptive_spec = AdaptiveRdaFrom if options.started else AdaptiveRda
        return adaptive_spec(options.eta0, options.l1, options.l2)
    spec = RdaFrom if options.started else Rda
    return spec(options.eta0, options.power, options.l1, options.l2)


register_update("rda", _make, adaptive=True)
