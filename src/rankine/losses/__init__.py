"""Losses: functions of score differences, their exact sums over pairs, and losses of whole lists.

* ``pairwise``: one file per pair loss; each registers itself (see ``rankine.losses.base``)
* ``all_pairs``, ``active_pairs``: the sum of a pair loss over all pairs as a function of scores
* ``pair_queries``: which pairs count, and where query and row weights enter
* ``least_squares``: pairwise least squares as a matrix product
* ``lists``: losses of one list, for one-pass learning; ``list_objectives`` parses their names
* ``list_risk``: sums of list losses as functions of the scores of all rows, for batch solvers
* ``domination``: each better item against all worse ones at once
"""

from rankine.core.discovery import import_modules
from rankine.losses.all_pairs import AllPairsRisk
from rankine.losses.base import pair_loss, pair_loss_names, pair_loss_spec, register_pair_loss

__all__ = [
    "AllPairsRisk",
    "pair_loss",
    "pair_loss_names",
    "pair_loss_spec",
    "register_pair_loss",
]

# Each module of the folder registers its loss; a new one needs no entry in any list.
import_modules("rankine.losses.pairwise")
