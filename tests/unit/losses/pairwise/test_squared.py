"""Values of the squared loss at known points."""

from rankine.losses import pair_loss
from rankine.losses.pairwise.squared import Squared


def test_known_values():
    assert pair_loss(Squared(3.0), 1.0) == (4.0, -4.0, 2.0)
