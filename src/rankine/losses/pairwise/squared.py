"""The squared pair loss."""

from __future__ import annotations

from typing import Any, NamedTuple

from rankine.losses.base import pair_loss, register_pair_loss


class Squared(NamedTuple):
    """(margin - z)^2; Tas, eq. 1 with ``margin`` the difference of the two labels."""

    margin: float = 1.0


@pair_loss.implementation(Squared)
def _squared(loss: Any, z: Any) -> Any:
    gap = loss.margin - z
    return gap * gap, -2.0 * gap, 2.0


# No exact sum: ``LeastSquaresRanker`` solves this loss by ``losses.least_squares``.
register_pair_loss("squared", Squared, smooth=True)
