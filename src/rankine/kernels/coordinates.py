"""What a coordinate solver asks of a smooth loss.

``loss`` is the loss with its state at the current weights (scores, sums, whatever it keeps);
``scratch`` is its private work space, one per thread. Any loss that answers these three questions
can be minimised by ``rankine.solvers.coordinate_descent``.
"""

from __future__ import annotations

from typing import Any

from rankine.kernels.dispatch import question

__all__ = ["curvature_bounds", "shift", "slope_and_curvature"]


@question
def slope_and_curvature(loss: Any, columns: Any, r: int, scratch: Any) -> Any:
    """First and second derivative of the loss along weight r, at the current weights."""


@question
def curvature_bounds(loss: Any, columns: Any, r: int, scratch: Any) -> Any:
    """(R, beta, crude): what bounds the loss along weight r whatever the weights are.

    phi'' <= beta <= crude, and |phi'''| <= R phi''. R = 0 says that the loss does not depend on
    the weight at all.
    """


@question
def shift(loss: Any, columns: Any, r: int, step: float, scratch: Any) -> None:
    """Bring the state of the loss to the weights with ``step`` added to weight r.

    Called right after ``slope_and_curvature`` of the same column, whose notes in ``scratch`` it
    may use.
    """
