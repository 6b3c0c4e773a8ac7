"""The question every pair loss answers."""

from __future__ import annotations

from typing import Any

from rankine.kernels.dispatch import question

__all__ = ["pair_loss"]


@question
def pair_loss(loss: Any, z: float) -> Any:
    """Value, slope and curvature of a loss at a score difference.

    ``z = <w, x_a - x_b>`` where row a is preferred to row b, so losses fall as ``z`` grows.
    At a kink the slope is the one of the side of larger ``z``, and the curvature is that of the
    same side (a generalised second derivative).
    """
