"""The operations of an online update: exact updates that touch only the features of a list.

An update keeps a few numbers for each weight, a row of ``state``, and a short ``clock`` for all
weights together. One step consists of ``open_step``, which computes the scalars of the step, any
number of calls of ``read_weight`` and ``add_gradient``, and ``close_step``, which makes the penalty
of the step pending for every weight. Reading a weight applies all its pending penalties in O(1).

Notation: t counts steps from 1, eta_t = eta0 / t^power, g is the gradient of step t, and
soft(v, a) = sign(v) max(|v| - a, 0).

A new update is one file: its spec, implementations of these operations, and one call of
``register_update``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.checks import check_choice, check_count, check_not_negative, check_positive
from rankine.core.errors import ParameterError
from rankine.kernels.compile import jit
from rankine.kernels.dispatch import generic, inlined_generic

#: Entries of the clock: steps of this run, steps of the runs before it, and what updates add.
STEP, OFFSET, SHRINK, PENALTY, EPOCH, SHRINK_AT_EPOCH = range(6)
CLOCK_SIZE = 6


@generic
def state_width(optimizer: Any) -> Any:
    """Return how many numbers are kept for each weight (default: 1)."""


@state_width.implementation(object)
def _default_state_width(_optimizer: Any) -> Any:
    return 1


@generic
def open_step(optimizer: Any, clock: NDArray[np.float64]) -> Any:
    """Return a tuple of the scalars that the next step's reads and gradients need."""


# Inlined: one call for each non-zero made a fit on sparse rows 5 to 10 % slower. Numba warns of an
# inlined implementation that assigns a local variable twice, so assign each of them once.
@inlined_generic
def read_weight(optimizer: Any, step: Any, state: NDArray[np.float64], j: int) -> Any:
    """Return the value of weight j before the step."""


# Not inlined: that kept LLVM from vectorising the loop over dense rows, and a fit took 1.3 times as
# long; on sparse rows it gains 2 %.
@generic
def add_gradient(
    optimizer: Any, step: Any, state: NDArray[np.float64], j: int, gradient: float
) -> Any:
    """Add a part of the step's gradient to weight j."""


@generic
def close_step(optimizer: Any, clock: NDArray[np.float64], state: NDArray[np.float64]) -> Any:
    """Count the step and make its penalty pending for all weights."""


@generic
def importance(optimizer: Any, step: Any, state: NDArray[np.float64], j: int) -> Any:
    """Return a value that is larger the longer weight j stays non-zero under rising penalties."""


@importance.implementation(object)
def _weight_magnitude(optimizer: Any, step: Any, state: Any, j: Any) -> Any:
    return abs(read_weight(optimizer, step, state, j))


@generic
def set_weight(optimizer: Any, state: NDArray[np.float64], j: int, value: float) -> Any:
    """Set weight j of a new state to its initial value."""


@set_weight.implementation(object)
def _set_first_number(_optimizer: Any, state: Any, j: Any, value: Any) -> Any:
    state[j, 0] = value


def new_clock(offset: int = 0) -> NDArray[np.float64]:
    """Create the clock of a run that continues after ``offset`` steps of earlier runs."""
    clock = np.zeros(CLOCK_SIZE)
    clock[OFFSET] = offset
    clock[SHRINK] = clock[SHRINK_AT_EPOCH] = 1.0
    return clock


@jit
def read_weights(optimizer: Any, clock: Any, state: Any, out: Any) -> None:
    """Write all weights after the last closed step to ``out``."""
    step = open_step(optimizer, clock)
    # Unsigned: a signed index costs a test for wrap-around at every access.
    for j in range(np.uint64(out.shape[0])):
        out[j] = read_weight(optimizer, step, state, j) + 0.0  # no negative zeros


@jit
def read_importances(optimizer: Any, clock: Any, state: Any, out: Any) -> None:
    """Write the ``importance`` of every weight to ``out``."""
    step = open_step(optimizer, clock)
    for j in range(np.uint64(out.shape[0])):
        out[j] = importance(optimizer, step, state, j)


@jit
def set_weights(optimizer: Any, state: Any, values: Any) -> None:
    """Fill a new state so that reading it returns ``values``."""
    for j in range(np.uint64(values.shape[0])):
        set_weight(optimizer, state, j, values[j])


class UpdateOptions(NamedTuple):
    """Parameters of an update; ``started`` means that it continues from given weights."""

    eta0: float
    power: float
    l1: float
    l2: float
    theta: float | None
    prune_every: int
    adaptive: bool = False
    started: bool = False


UPDATES: dict[str, Callable[[UpdateOptions], Any]] = {}
"""Name -> function that creates the spec; ``register_update`` adds to it."""
#: Names of the updates that have one step size per weight as well.
_ADAPTIVE: set[str] = set()


def register_update(
    name: str, make: Callable[[UpdateOptions], Any], *, adaptive: bool = False
) -> None:
    """Register an update under a name; ``adaptive`` if it also has one step size per weight."""
    UPDATES[name] = make
    if adaptive:
        _ADAPTIVE.add(name)


def make_update(name: str, **parameters: Any) -> Any:
    """Check the fields of ``UpdateOptions`` and create the spec of a named update."""
    check_choice("solver", name, tuple(UPDATES))
    options = UpdateOptions(**parameters)
    theta = options.theta
    if theta is not None:
        if not theta >= 0:
            raise ParameterError(
                f"{theta!r} is not a threshold >= 0", parameter="theta", fix="Pass None or 0.02"
            )
        theta = float(theta)
    if options.adaptive and name not in _ADAPTIVE:
        raise ParameterError(
            f"the solver {name!r} has no step size per weight",
            parameter="adaptive",
            fix=f"Use the solver {' or '.join(map(repr, sorted(_ADAPTIVE)))}",
        )
    return UPDATES[name](
        options._replace(
            eta0=check_positive("eta0", options.eta0),
            power=check_not_negative("power", options.power),
            l1=check_not_negative("l1", options.l1),
            l2=check_not_negative("l2", options.l2),
            theta=theta,
            prune_every=check_count("prune_every", options.prune_every),
        )
    )
