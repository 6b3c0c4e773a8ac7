"""The squared hinge loss, which is smooth enough for Newton's method."""

from __future__ import annotations

from typing import Any, NamedTuple

from rankine.losses.active_pairs import SquaredHingeRisk
from rankine.losses.base import gap_power, pair_loss, register_pair_loss


class SquaredHinge(NamedTuple):
    """max(0, margin - z)^2, without a factor 1/2; Lee and Lin 2014, eq. 3."""

    margin: float = 1.0


@pair_loss.implementation(SquaredHinge)
def _squared_hinge(loss: Any, z: Any) -> Any:
    gap = loss.margin - z
    if gap > 0.0:
        return gap * gap, -2.0 * gap, 2.0
    return 0.0, 0.0, 0.0


@gap_power.implementation(SquaredHinge)
def _power_of_squared_hinge(loss: Any) -> Any:
    return 2, loss.margin, loss.margin


register_pair_loss("squared_hinge", SquaredHinge, smooth=True, exact_sum=SquaredHingeRisk)
