"""What an online update answers: exact updates that touch only the features of a list.

Per weight an optimiser keeps a few numbers (a row of ``state``); for all weights together a short
``clock``. A step is ``open_step`` (scalars of this step), any number of ``read_weight`` (read) and
``add_gradient`` (add a gradient), then ``close_step`` (the penalty of this step becomes pending for every
weight, touched or not). Reading brings a weight through all pending penalties in O(1).

Notation: t counts steps from 1, eta_t = eta0 / t^power, g is the gradient of step t, and
soft(v, a) = sign(v) max(|v| - a, 0).

An update is one file: its spec, its answers and one ``register_update``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.checks import check_choice, check_count, check_not_negative, check_positive
from rankine.core.errors import ParameterError
from rankine.kernels.compile import jit
from rankine.kernels.dispatch import generic

#: Places of the clock: steps done, steps done before this run, then what an optimiser needs.
STEP, OFFSET, SHRINK, PENALTY, EPOCH, SHRINK_AT_EPOCH = range(6)
CLOCK_SIZE = 6


@generic
def state_width(optimizer: Any) -> Any:
    """Numbers kept per weight; one unless an update says otherwise."""


@state_width.implementation(object)
def _one(_optimizer: Any) -> Any:
    return 1


@generic
def open_step(optimizer: Any, clock: NDArray[np.float64]) -> Any:
    """Scalars that ``read_weight`` and ``add_gradient`` need during the coming step, as a tuple."""


@generic
def read_weight(optimizer: Any, now: Any, state: NDArray[np.float64], j: int) -> Any:
    """Value of weight j before the coming step."""


@generic
def add_gradient(
    optimizer: Any, now: Any, state: NDArray[np.float64], j: int, gradient: float
) -> Any:
    """Add a part of the gradient of the coming step to weight j."""


@generic
def close_step(optimizer: Any, clock: NDArray[np.float64], state: NDArray[np.float64]) -> Any:
    """End the step: its penalty is pending for all weights from now on."""


@generic
def importance(optimizer: Any, now: Any, state: NDArray[np.float64], j: int) -> Any:
    """How late weight j would vanish if the model had to become sparser; larger stays longer."""


@importance.implementation(object)
def _magnitude(optimizer: Any, now: Any, state: Any, j: Any) -> Any:
    return abs(read_weight(optimizer, now, state, j))


@generic
def set_weight(optimizer: Any, state: NDArray[np.float64], j: int, value: float) -> Any:
    """Set weight j of a fresh state, to start from given weights."""


@set_weight.implementation(object)
def _first(_optimizer: Any, state: Any, j: Any, value: Any) -> Any:
    state[j, 0] = value


def new_clock(offset: int = 0) -> NDArray[np.float64]:
    """Clock before the first step; ``offset`` steps were made by the run this one continues."""
    clock = np.zeros(CLOCK_SIZE)
    clock[OFFSET] = offset
    clock[SHRINK] = clock[SHRINK_AT_EPOCH] = 1.0
    return clock


@jit
def read_weights(optimizer: Any, clock: Any, state: Any, out: Any) -> None:
    """All weights as they stand after the last closed step."""
    now = open_step(optimizer, clock)
    for j in range(np.uint64(out.shape[0])):
        out[j] = read_weight(optimizer, now, state, j) + 0.0  # no negative zeros


@jit
def read_importances(optimizer: Any, clock: Any, state: Any, out: Any) -> None:
    """``importance`` of every weight."""
    now = open_step(optimizer, clock)
    for j in range(np.uint64(out.shape[0])):
        out[j] = importance(optimizer, now, state, j)


@jit
def set_weights(optimizer: Any, state: Any, values: Any) -> None:
    """Fill a fresh state so that reading it gives ``values``."""
    for j in range(np.uint64(values.shape[0])):
        set_weight(optimizer, state, j, values[j])


class UpdateOptions(NamedTuple):
    """What an update is made from; ``started`` when it continues from given weights."""

    eta0: float
    power: float
    l1: float
    l2: float
    theta: float | None
    prune_every: int
    adaptive: bool = False
    started: bool = False


UPDATES: dict[str, Callable[[UpdateOptions], Any]] = {}
"""Name -> maker of the spec; ``register_update`` adds to it."""
_ADAPTIVE: set[str] = set()


def register_update(
    name: str, make: Callable[[UpdateOptions], Any], *, adaptive: bool = False
) -> None:
    """Make an update known by a name; ``adaptive`` when it has step sizes per weight too."""
    UPDATES[name] = make
    if adaptive:
        _ADAPTIVE.add(name)


def make_update(name: str, **chosen: Any) -> Any:
    """The spec of a named update, from the fields of ``UpdateOptions``, checked."""
    check_choice("solver", name, tuple(UPDATES))
    options = UpdateOptions(**chosen)
    theta = options.theta
    if theta is not None and not theta >= 0:
        raise ParameterError(f"theta={theta!r} is not >= 0", fix="Use None, or a threshold >= 0")
    if options.adaptive and name not in _ADAPTIVE:
        raise ParameterError(
            f"adaptive steps are not known for {name!r}",
            fix=f"Use solver={', '.join(map(repr, sorted(_ADAPTIVE)))}",
        )
    checked = options._replace(
        eta0=check_positive("eta0", options.eta0),
        power=check_not_negative("power", options.power),
        l1=check_not_negative("l1", options.l1),
        l2=check_not_negative("l2", options.l2),
        theta=None if theta is None else float(theta),
        prune_every=check_count("prune_every", options.prune_every),
    )
    return UPDATES[name](checked)
