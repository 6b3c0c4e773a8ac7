"""Forward-backward splitting with the elastic net."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankine.updates.lazy import (
    OFFSET,
    PENALTY,
    SHRINK,
    STEP,
    UpdateOptions,
    add_gradient,
    close_step,
    open_step,
    read_weight,
    register_update,
)

#: When the product of shrink factors falls below this, all weights are brought up to date and the
#: product restarts at 1: a little later it would underflow.
REBASE_BELOW = 1e-100


class Fobos(NamedTuple):
    """w <- soft(w - eta_t g, eta_t l1) / (1 + eta_t l2); Duchi, Singer 2009; Freno et al., eq. 7.

    Lazy form. With P_t = prod_{u<=t} 1/(1 + eta_u l2) and C_t = C_{t-1} + eta_t l1 / P_{t-1},
    a weight untouched from step a to step t is

        w_t = sign(w_a) P_t max(0, |w_a| / P_a + C_a - C_t),

    because dividing the recursion by P_t telescopes and the clip can wait. The state is the one
    number s = sign(w_a) (|w_a| / P_a + C_a); the clock holds P and C.
    """

    eta0: float
    power: float
    l1: float
    l2: float


class FobosStep(NamedTuple):
    """Scalars of a step: P, 1 / P, C and eta."""

    shrink: float
    inverse_shrink: float
    penalty: float
    eta: float


@open_step.implementation(Fobos)
def _open_step(optimizer: Any, clock: Any) -> Any:
    eta = optimizer.eta0 / (clock[OFFSET] + clock[STEP] + 1.0) ** optimizer.power
    return FobosStep(clock[SHRINK], 1.0 / clock[SHRINK], clock[PENALTY], eta)


@read_weight.implementation(Fobos)
def _read_weight(_optimizer: Any, step: Any, state: Any, j: Any) -> Any:
    s = state[j, 0]
    return np.copysign(max(abs(s) - step.penalty, 0.0) * step.shrink, s)


@add_gradient.implementation(Fobos)
def _add_gradient(_optimizer: Any, step: Any, state: Any, j: Any, gradient: Any) -> Any:
    s = state[j, 0]
    w = np.copysign(max(abs(s) - step.penalty, 0.0) * step.shrink, s) - step.eta * gradient
    state[j, 0] = np.copysign(abs(w) * step.inverse_shrink + step.penalty, w)


@close_step.implementation(Fobos)
def _close_step(optimizer: Any, clock: Any, state: Any) -> Any:
    clock[STEP] += 1.0
    eta = optimizer.eta0 / (clock[OFFSET] + clock[STEP]) ** optimizer.power
    # C_t is divided by P_(t-1), so the penalty comes before the shrinkage.
    clock[PENALTY] += eta * optimizer.l1 / clock[SHRINK]
    clock[SHRINK] /= 1.0 + eta * optimizer.l2
    if clock[SHRINK] < REBASE_BELOW:
        for j in range(state.shape[0]):
            s = state[j, 0]
            state[j, 0] = np.copysign(max(abs(s) - clock[PENALTY], 0.0) * clock[SHRINK], s)
        clock[PENALTY] = 0.0
        clock[SHRINK] = 1.0


def _make(options: UpdateOptions) -> Fobos:
    return Fobos(options.eta0, options.power, options.l1, options.l2)


register_update("fobos", _make)
