"""Metrics of probabilities: calibration error, log loss and Brier score of all rows.

    log-loss = mean of -log P(what happened)
    brier    = mean of (p - y)^2
    ece      = sum over 20 bins of equal counts by p of |sum of (p - y)|, over all rows

y is 1 for rows whose label reaches ``threshold``. Scores must be probabilities: those of a
calibrated model. Each is a mean over rows, so the value of a query is the mean over its rows; for
the ECE these are signed by the bin, and only their mean over all rows is the ECE.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ParameterError
from rankine.metrics.metric import Definition, Metric, register

#: Number of bins of the calibration error; ties of p stay in one bin.
BINS = 20
Floats = NDArray[np.float64]


class RowLoss(NamedTuple):
    """The loss of each row: a function of outcomes and probabilities."""

    compute: Callable[[Floats, Floats], Floats]


def log_losses(outcomes: Floats, probabilities: Floats) -> Floats:
    """Return -log of the probability of what happened; it is at most 708, also for p = 0."""
    happened = np.where(outcomes > 0, probabilities, 1.0 - probabilities)
    losses: Floats = -np.log(np.maximum(happened, np.finfo(np.float64).tiny))
    return losses


def squared_errors(outcomes: Floats, probabilities: Floats) -> Floats:
    """Return (p - y)^2."""
    errors: Floats = (probabilities - outcomes) ** 2
    return errors


def probability_bins(probabilities: Floats, n_bins: int = BINS) -> NDArray[np.int64]:
    """Return the bin of each row, from 0: equal counts by probability, equal ones together."""
    shares = np.arange(1, n_bins) / n_bins
    edges = np.unique(np.quantile(probabilities, shares, method="inverted_cdf"))
    return np.searchsorted(edges, probabilities, side="left")


def signed_errors(outcomes: Floats, probabilities: Floats) -> Floats:
    """Return p - y with the sign of the sum over its bin, so that the mean is the ECE."""
    bins = probability_bins(probabilities)
    errors = probabilities - outcomes
    signs = np.where(np.bincount(bins, errors) < 0, -1.0, 1.0)
    return errors * signs[bins]


def log_loss(outcomes: Floats, probabilities: Floats) -> float:
    """Return the mean of -log P(what happened)."""
    return float(log_losses(outcomes, probabilities).mean())


def brier_score(outcomes: Floats, probabilities: Floats) -> float:
    """Return the mean of (p - y)^2."""
    return float(squared_errors(outcomes, probabilities).mean())


def calibration_error(outcomes: Floats, probabilities: Floats) -> float:
    """Return the expected calibration error.

    Examples
    --------
    >>> calibration_error(np.array([0.0, 1.0]), np.array([0.25, 0.25]))
    0.25
    """
    return float(signed_errors(outcomes, probabilities).mean())


def row_losses(metric: Metric, spec: RowLoss, labels: Floats, probabilities: Floats) -> Floats:
    """Return the loss of each row; raise unless scores are probabilities."""
    if not ((probabilities >= 0) & (probabilities <= 1)).all():
        raise ParameterError(
            f"{metric} needs probabilities, and a score is not between 0 and 1",
            parameter="metric",
            fix="Calibrate the model on held-out lists: rankine calibrate MODEL LOG --outcome ...",
        )
    outcomes = (labels >= float(metric.threshold or 0.0)).astype(np.float64)
    return spec.compute(outcomes, probabilities)


for _name, _title, _compute, _summary in (
    ("log-loss", "Log loss", log_losses, "Mean of -log P of what happened, of a calibrated model."),
    ("brier", "Brier score", squared_errors, "Mean squared error of a calibrated model's P."),
    ("ece", "ECE", signed_errors, "Calibration error: |mean P - rate| over 20 bins by P."),
):
    register(
        Definition(
            _name,
            _title,
            "rows",
            lambda _metric, _longest, compute=_compute: RowLoss(compute),  # type: ignore[misc]
            summary=_summary,
            cutoff="none",
            larger_is_better=False,
            defaults={"threshold": 1.0, "no_relevant": "skip", "mean": "items"},
            choices={"mean": ("queries", "items")},
        )
    )
