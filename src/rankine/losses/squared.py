"""The squared loss of pairwise least squares."""

from __future__ import annotations

from typing import Any, NamedTuple

from rankine.losses.pair import pair_loss

__all__ = ["Squared"]


class Squared(NamedTuple):
    """(margin - z)^2; Tas, eq. 1 with ``margin`` the difference of the two labels."""

    margin: float = 1.0


@pair_loss.answer(Squared)
def _squared(loss: Any, z: Any) -> Any:
    gap = loss.margin - z
    return gap * gap, -2.0 * gap, 2.0
