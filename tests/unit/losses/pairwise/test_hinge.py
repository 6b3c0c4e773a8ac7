"""Values of the hinge at known points."""

import pytest

from rankine.losses import pair_loss
from rankine.losses.pairwise.hinge import Hinge


def test_known_values():
    assert pair_loss(Hinge(), -1.0) == (2.0, -1.0, 0.0)


@pytest.mark.parametrize("margin", [0.5, 1.0])
def test_a_pair_exactly_at_the_margin_costs_nothing(margin):
    assert pair_loss(Hinge(margin), margin) == (0.0, 0.0, 0.0)
