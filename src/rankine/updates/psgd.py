"""Stochastic gradient descent with an L2 penalty and periodic pruning."""

from __future__ import annotations

from typing import Any, NamedTuple

from rankine.updates.lazy import (
    EPOCH,
    OFFSET,
    SHRINK,
    SHRINK_AT_EPOCH,
    STEP,
    UpdateOptions,
    add_gradient,
    close_step,
    open_step,
    read_weight,
    register_update,
    state_width,
)

#: When the product of shrink factors falls below this, it restarts at 1: it would underflow.
REBASE_BELOW = 1e-100
#: Threshold when ``theta`` is None, within the range that the paper searches.
DEFAULT_THETA = 0.02


class Psgd(NamedTuple):
    """w <- (w - eta_t g) / (1 + eta_t l2); every ``every`` steps w_j = 0 where |w_j| < theta.

    Freno et al., 5.2.

    Lazy form. Between two gradients |w| only falls, so only the last pruning needs to be checked.
    With P_t as in ``Fobos``, the state is (w_a / P_a, prunings before step a); the clock holds P,
    the number of prunings and P at the last of them.
    """

    eta0: float
    power: float
    l2: float
    theta: float
    every: int


class PsgdStep(NamedTuple):
    """Scalars of a step: P, 1 / P, eta, the number of prunings, and P at the last of them."""

    shrink: float
    inverse_shrink: float
    eta: float
    prunings: float
    shrink_at_pruning: float


@state_width.implementation(Psgd)
def _state_width(_optimizer: Any) -> Any:
    return 2


@open_step.implementation(Psgd)
def _open_step(optimizer: Any, clock: Any) -> Any:
    eta = optimizer.eta0 / (clock[OFFSET] + clock[STEP] + 1.0) ** optimizer.power
    shrink = clock[SHRINK]
    return PsgdStep(shrink, 1.0 / shrink, eta, clock[EPOCH], clock[SHRINK_AT_EPOCH])


@read_weight.implementation(Psgd)
def _read_weight(optimizer: Any, step: Any, state: Any, j: Any) -> Any:
    scaled = state[j, 0]
    # Since its last gradient |w| only fell, so the last pruning finds what earlier ones would.
    if state[j, 1] < step.prunings and abs(scaled) * step.shrink_at_pruning < optimizer.theta:
        return 0.0
    return scaled * step.shrink


@add_gradient.implementation(Psgd)
def _add_gradient(optimizer: Any, step: Any, state: Any, j: Any, gradient: Any) -> Any:
    magnitude = abs(state[j, 0]) * step.shrink_at_pruning
    if state[j, 1] < step.prunings and magnitude < optimizer.theta:
        state[j, 0] = 0.0
    state[j, 0] -= step.eta * gradient * step.inverse_shrink
    state[j, 1] = step.prunings


@close_step.implementation(Psgd)
def _close_step(optimizer: Any, clock: Any, state: Any) -> Any:
    clock[STEP] += 1.0
    eta = optimizer.eta0 / (clock[OFFSET] + clock[STEP]) ** optimizer.power
    clock[SHRINK] /= 1.0 + eta * optimizer.l2
    if clock[STEP] % optimizer.every == 0.0:
        clock[EPOCH] += 1.0
        clock[SHRINK_AT_EPOCH] = clock[SHRINK]
    if clock[SHRINK] < REBASE_BELOW:
        # Apply pending prunings first: they compare with the product that is about to change.
        for j in range(state.shape[0]):
            scaled = state[j, 0]
            magnitude = abs(scaled) * clock[SHRINK_AT_EPOCH]
            if state[j, 1] < clock[EPOCH] and magnitude < optimizer.theta:
                scaled = 0.0
            state[j, 0] = scaled * clock[SHRINK]
            state[j, 1] = clock[EPOCH]
        clock[SHRINK] = clock[SHRINK_AT_EPOCH] = 1.0


def _make(options: UpdateOptions) -> Psgd:
    theta = options.theta
    if theta is None:
        theta = DEFAULT_THETA
    return Psgd(options.eta0, options.power, options.l2, theta, options.prune_every)


register_update("psgd", _make)
