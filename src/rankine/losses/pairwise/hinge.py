"""The hinge loss of the ranking support vector machine."""

from __future__ import annotations

from typing import Any, NamedTuple

from rankine.losses.active_pairs import HingeRisk
from rankine.losses.base import gap_power, pair_loss, register_pair_loss


class Hinge(NamedTuple):
    """max(0, margin - z); Herbrich, Graepel and Obermayer 2000; Joachims 2002.

    A pair at exactly the margin has loss 0 and slope 0.
    """

    margin: float = 1.0


@pair_loss.implementation(Hinge)
def _hinge(loss: Any, z: Any) -> Any:
    gap = loss.margin - z
    if gap > 0.0:
        return gap, -1.0, 0.0
    return 0.0, 0.0, 0.0


@gap_power.implementation(Hinge)
def _power_of_hinge(loss: Any) -> Any:
    return 1, loss.margin, loss.margin


register_pair_loss("hinge", Hinge, exact_sum=HingeRisk)
