"""What a ranker leaves behind: a frozen linear model in one checked file."""

from rankine.model.bundle import ModelBundle
from rankine.model.linear import LinearModel

__all__ = ["LinearModel", "ModelBundle"]
