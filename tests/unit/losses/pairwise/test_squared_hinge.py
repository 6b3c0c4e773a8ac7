"""Values of the squared hinge at known points."""

import pytest

from rankine.losses import pair_loss
from rankine.losses.pairwise.squared_hinge import SquaredHinge


def test_known_values():
    assert pair_loss(SquaredHinge(), -1.0) == (4.0, -4.0, 2.0)


@pytest.mark.parametrize("margin", [1.0, 2.0])
def test_a_pair_exactly_at_the_margin_costs_nothing(margin):
    assert pair_loss(SquaredHinge(margin), margin) == (0.0, 0.0, 0.0)
