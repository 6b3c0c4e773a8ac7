"""Updates of online learning in lazy form, one a file; siblings never meet."""

from rankine.updates.rda import AdaptiveRda, AdaptiveRdaFrom, Rda, RdaFrom  # isort: skip
from rankine.updates.fobos import Fobos
from rankine.updates.lazy import UPDATES, UpdateOptions, make_update, register_update
from rankine.updates.psgd import Psgd
from rankine.updates.tgd import Tgd

__all__ = [
    "UPDATES",
    "AdaptiveRda",
    "AdaptiveRdaFrom",
    "Fobos",
    "Psgd",
    "Rda",
    "RdaFrom",
    "Tgd",
    "UpdateOptions",
    "make_update",
    "register_update",
]
