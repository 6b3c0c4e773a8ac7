"""The squared pair loss."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankine.losses.base import gap_power, pair_loss, register_pair_loss


class Squared(NamedTuple):
    """(margin - z)^2; Tas, eq. 1 with ``margin`` the difference of the two labels."""

    margin: float = 1.0


@pair_loss.implementation(Squared)
def _squared(loss: Any, z: Any) -> Any:
    gap = loss.margin - z
    return gap * gap, -2.0 * gap, 2.0


@gap_power.implementation(Squared)
def _power_of_squared(loss: Any) -> Any:
    return 2, loss.margin, np.inf


# No exact sum: ``LeastSquaresRanker`` solves this loss by ``losses.least_squares``.
register_pair_loss("squared", Squared, smooth=True)
