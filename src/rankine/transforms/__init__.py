"""What is done to features before the weights: scaling here, columns of a log next door."""

from rankine.transforms.scaling import SCALES, Scaling, fit_scaling

__all__ = ["SCALES", "Scaling", "fit_scaling"]
