"""Values of the logistic loss at known points."""

import numpy as np
import pytest

from rankine.losses import pair_loss
from rankine.losses.pairwise.logistic import Logistic


def test_known_values():
    assert pair_loss(Logistic(), 0.0) == pytest.approx((np.log(2.0), -0.5, 0.25))
