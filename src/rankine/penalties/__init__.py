"""Penalties of online learning in lazy form, one optimiser a file; siblings never meet."""

from rankine.penalties.fobos import Fobos
from rankine.penalties.psgd import Psgd
from rankine.penalties.rda import AdaptiveRda, AdaptiveRdaFrom, Rda, RdaFrom
from rankine.penalties.tgd import Tgd

__all__ = ["AdaptiveRda", "AdaptiveRdaFrom", "Fobos", "Psgd", "Rda", "RdaFrom", "Tgd"]
