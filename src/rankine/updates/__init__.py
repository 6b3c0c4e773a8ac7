"""Penalties of online learning in lazy form, one optimiser a file; siblings never meet."""

from rankine.updates.fobos import Fobos
from rankine.updates.psgd import Psgd
from rankine.updates.rda import AdaptiveRda, AdaptiveRdaFrom, Rda, RdaFrom
from rankine.updates.tgd import Tgd

__all__ = ["AdaptiveRda", "AdaptiveRdaFrom", "Fobos", "Psgd", "Rda", "RdaFrom", "Tgd"]
