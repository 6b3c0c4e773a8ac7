"""The logistic pair loss."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankine.losses.all_pairs import AllPairsRisk
from rankine.losses.base import pair_loss, register_pair_loss


class Logistic(NamedTuple):
    """log(1 + e^-z); the slope is -sigma(-z). No exponent of a positive number is ever taken."""


@pair_loss.implementation(Logistic)
def _logistic(_loss: Any, z: Any) -> Any:
    small = np.exp(-abs(z))
    wrong = small / (1.0 + small) if z > 0.0 else 1.0 / (1.0 + small)
    value = np.log1p(small) + (0.0 if z > 0.0 else -z)
    return value, -wrong, small / ((1.0 + small) * (1.0 + small))


register_pair_loss("logistic", Logistic, smooth=True, exact_sum=AllPairsRisk)
