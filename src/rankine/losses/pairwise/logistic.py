"""The logistic pair loss."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankine.losses.all_pairs import AllPairsRisk
from rankine.losses.base import pair_loss, register_pair_loss


class Logistic(NamedTuple):
    """log(1 + e^-z), with slope -sigma(-z) and curvature sigma(z) sigma(-z)."""


@pair_loss.implementation(Logistic)
def _logistic(_loss: Any, z: Any) -> Any:
    # Only e^-|z| is computed, which cannot overflow.
    exponential = np.exp(-abs(z))
    if z > 0.0:
        wrong = exponential / (1.0 + exponential)
        value = np.log1p(exponential)
    else:
        wrong = 1.0 / (1.0 + exponential)
        value = np.log1p(exponential) - z
    curvature = exponential / ((1.0 + exponential) * (1.0 + exponential))
    return value, -wrong, curvature


register_pair_loss("logistic", Logistic, smooth=True, exact_sum=AllPairsRisk)
