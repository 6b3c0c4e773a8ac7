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

REBASE_BELOW = 1e-100
#: Threshold when ``theta`` is None, within the range that the paper searches.
DEFAULT_THETA = 0.02


class Psgd(NamedTuple):
    """w <- (w - eta_t g) / (1 + eta_t l2); every ``every`` steps w_j = 0 where |w_j| < theta.

    Freno et al., 5.2. Lazy form: between touches |w| only falls, so the last pruning decides.
    With P_t as in ``Fobos``, the state is (w_a / P_a, prunings before step a); the clock holds P,
    the number of prunings and P at the last of them.
    """

    eta0: float
    power: float
    l2: float
    theta: float
    every: int


@state_width.implementation(Psgd)
def _width(_optimizer: Any) -> Any:
    return 2


@open_step.implementation(Psgd)
def _open(optimizer: Any, clock: Any) -> Any:
    eta = optimizer.eta0 / (clock[OFFSET] + clock[STEP] + 1.0) ** optimizer.power
    shrink = clock[SHRINK]
    return shrink, 1.0 / shrink, eta, clock[EPOCH], clock[SHRINK_AT_EPOCH]


@read_weight.implementation(Psgd)
def _weight(optimizer: Any, now: Any, state: Any, j: Any) -> Any:
    kept = state[j, 0]
    if state[j, 1] < now[3] and abs(kept) * now[4] < optimizer.theta:
        return 0.0
    return kept * now[0]


@add_gradient.implementation(Psgd)
def _push(optimizer: Any, now: Any, state: Any, j: Any, gradient: Any) -> Any:
    kept = state[j, 0]
    if state[j, 1] < now[3] and abs(kept) * now[4] < optimizer.theta:
        kept = 0.0
    state[j, 0] = kept - now[2] * gradient * now[1]
    state[j, 1] = now[3]


@close_step.implementation(Psgd)
def _close(optimizer: Any, clock: Any, state: Any) -> Any:
    clock[STEP] += 1.0
    eta = optimizer.eta0 / (clock[OFFSET] + clock[STEP]) ** optimizer.power
    clock[SHRINK] /= 1.0 + eta * optimizer.l2
    if clock[STEP] % optimizer.every == 0.0:
        clock[EPOCH] += 1.0
        clock[SHRINK_AT_EPOCH] = clock[SHRINK]
    if clock[SHRINK] < REBASE_BELOW:
        for j in range(state.shape[0]):
            kept = state[j, 0]
            if state[j, 1] < clock[EPOCH] and abs(kept) * clock[SHRINK_AT_EPOCH] < optimizer.theta:
                kept = 0.0
            state[j, 0] = kept * clock[SHRINK]
            state[j, 1] = clock[EPOCH]
        clock[SHRINK] = clock[SHRINK_AT_EPOCH] = 1.0


def _make(options: UpdateOptions) -> Psgd:
    theta = DEFAULT_THETA if options.theta is None else options.theta
    return Psgd(options.eta0, options.power, options.l2, theta, options.prune_every)


register_update("psgd", _make)
