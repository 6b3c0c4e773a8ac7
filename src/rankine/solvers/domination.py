"""Coordinate descent on the domination loss: the pair that makes domination rank."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.columns import Columns, n_columns
from rankine.losses.domination import (
    Domination,
    Levels,
    dual_value,
    loss_value,
    move_to,
    new_scratch,
    new_state,
)
from rankine.solvers.coordinate_descent import CoordinateDescent, Penalty

__all__ = ["best_bound", "domination_descent", "lower_bound", "restart"]


def domination_descent(columns: Columns, levels: Levels) -> CoordinateDescent:
    """Coordinate descent for one task, at w = 0."""
    loss = new_state(levels)
    descent = CoordinateDescent(
        loss,
        columns,
        np.zeros(n_columns(columns)),
        loss_value,
        lower_bound,
        move_to,
        partial(new_scratch, levels),
    )
    descent.at_zero = loss_value(loss)
    return descent


def restart(descent: CoordinateDescent, w: NDArray[np.float64]) -> None:
    """Continue from the weights w."""
    descent.w[:] = w
    move_to(descent.loss, descent.columns, descent.w)


def lower_bound(loss: Domination, slopes: NDArray[np.float64], penalty: Penalty) -> float:
    """The bound of ``best_bound`` for a loss in memory."""
    return best_bound(partial(dual_value, loss), slopes, penalty)


def best_bound(
    dual: Callable[[float], float], slopes: NDArray[np.float64], penalty: Penalty
) -> float:
    """The best of two dual points: slopes as they are (needs l2), and shrunk until l1 holds them.

    ``dual(kappa)`` is the dual without the term of l2; see ``rankine.losses.domination.state``.
    """
    largest = float(np.abs(slopes).max(initial=0.0))
    kappa = 1.0 if largest <= penalty.l1 else penalty.l1 / largest
    best = dual(kappa)
    if penalty.l2 > 0.0 and kappa < 1.0:
        excess = np.maximum(np.abs(slopes) - penalty.l1, 0.0)
        best = max(best, dual(1.0) - float(np.square(excess).sum()) / (2.0 * penalty.l2))
    return best
