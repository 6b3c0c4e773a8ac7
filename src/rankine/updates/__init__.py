"""Updates of online learning in lazy form, one per file.

A new file in this folder that calls ``register_update`` is found without being listed here.
"""

from rankine.core.discovery import import_modules

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

# The order of registration is the order in which updates are offered, so rda is imported first.
import_modules(__name__)
