"""Pair losses, one a file; each answers ``pair_loss`` and knows nothing of its siblings."""

from rankine.losses.hinge import Hinge
from rankine.losses.logistic import Logistic
from rankine.losses.pair import pair_loss
from rankine.losses.squared import Squared
from rankine.losses.squared_hinge import SquaredHinge

__all__ = ["Hinge", "Logistic", "Squared", "SquaredHinge", "pair_loss"]
