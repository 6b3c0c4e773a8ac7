"""Trained models: linear weights, bundles of models, and the checked file they are stored in."""

from rankine.model.bundle import ModelBundle
from rankine.model.linear import LinearModel

__all__ = ["LinearModel", "ModelBundle"]
