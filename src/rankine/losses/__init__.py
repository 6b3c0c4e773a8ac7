"""Losses, each a leaf that knows nothing of its siblings.

A pair loss is one file and one registration, see ``rankine.losses.base``; lists, domination and
pairwise least squares have rooms of their own. Exact lifts stand beside the loss they lift.
"""

from rankine.losses.all_pairs import AllPairsRisk
from rankine.losses.base import pair_loss, pair_loss_names, pair_loss_spec, register_pair_loss
from rankine.losses.hinge import Hinge
from rankine.losses.logistic import Logistic
from rankine.losses.squared import Squared
from rankine.losses.squared_hinge import SquaredHinge

__all__ = [
    "AllPairsRisk",
    "Hinge",
    "Logistic",
    "Squared",
    "SquaredHinge",
    "pair_loss",
    "pair_loss_names",
    "pair_loss_spec",
    "register_pair_loss",
]
