"""Transforms of features before the weights: scaling, missing values, bins, columns of a log."""

from rankine.transforms.scaling import SCALES, Scaling, fit_scaling

__all__ = ["SCALES", "Scaling", "fit_scaling"]
