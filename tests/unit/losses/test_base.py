"""Registration of pair losses."""

from __future__ import annotations

from functools import partial

import pytest

from error_checks import raises_for
from rankine.core.errors import ParameterError
from rankine.losses.base import (
    PAIR_LOSSES,
    find_pair_loss,
    pair_loss_names,
    pair_loss_spec,
)
from rankine.losses.pairwise.hinge import Hinge
from rankine.losses.pairwise.logistic import Logistic
from rankine.losses.pairwise.squared_hinge import SquaredHinge

pytestmark = pytest.mark.kernels


def test_losses_are_found_by_name():
    assert pair_loss_names() == tuple(PAIR_LOSSES)
    assert set(pair_loss_names(exact=True)) == {"hinge", "squared_hinge", "logistic"}
    assert pair_loss_spec("hinge", 0.25) == Hinge(0.25)
    assert pair_loss_spec("logistic", 0.25) == Logistic()
    assert find_pair_loss("squared_hinge", exact=True).spec() == SquaredHinge(1.0)
    assert [PAIR_LOSSES[name].can_be_smoothed for name in ("hinge", "squared")] == [True, False]
    for find in (pair_loss_spec, find_pair_loss, partial(find_pair_loss, exact=True)):
        with raises_for("loss") as caught:
            find("cubic")
        assert caught.value.parameter == "loss"
    with pytest.raises(ParameterError):
        find_pair_loss("squared", exact=True)
