"""Plots for notebooks: every function draws on matplotlib axes and returns them.

The numbers are those of ``rankine.report``; matplotlib is needed (``rankine[report]``).
"""

from rankine.plot.data import labels, lengths
from rankine.plot.models import (
    calibration,
    differences,
    metric_at_k,
    per_query,
    quality,
    size,
    training,
    weights,
)
from rankine.plot.results import comparison, path, propensity, trials

__all__ = [
    "calibration",
    "comparison",
    "differences",
    "labels",
    "lengths",
    "metric_at_k",
    "path",
    "per_query",
    "propensity",
    "quality",
    "size",
    "training",
    "trials",
    "weights",
]
