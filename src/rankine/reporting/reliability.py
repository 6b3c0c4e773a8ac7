"""Compare the probabilities of a calibrated model with what happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankine.core.specs import OutcomeCalibration
from rankine.evaluation.calibration import read_outcome
from rankine.metrics.probability import (
    brier_score,
    calibration_error,
    log_loss,
    probability_bins,
)
from rankine.model import LinearModel
from rankine.reporting.evaluated import EvaluatedModel
from rankine.reporting.html import captions
from rankine.reporting.numbers import count, percent
from rankine.reporting.page import Section, figures
from rankine.reporting.share_bins import ShareBin, share_bin, shares_line
from rankine.reporting.svg import Line, line_chart
from rankine.scoring.datasets import dataset_probabilities
from rankine.scoring.probability import OutcomeProbabilities

#: Bins of equal numbers of rows.
_BINS = 15


@dataclass(frozen=True)
class Reliability:
    """Bins of equal numbers of rows by probability, with the share that had the outcome.

    The metrics ``ece`` (expected calibration error), ``log_loss`` and ``brier`` are of all rows.
    """

    outcome: str
    bins: Sequence[ShareBin]
    ece: float
    log_loss: float
    brier: float
    rows: int


def calibration_columns(model: LinearModel) -> tuple[str, ...]:
    """Return the columns that a comparison with outcomes needs."""
    from rankine.data.expressions import parse_expression

    spec = model.calibration
    if spec is None:
        return ()
    position = () if spec.position is None else (spec.position,)
    return (*parse_expression(spec.outcome).columns, *position)


def reliability(model: LinearModel, evaluated: EvaluatedModel) -> Reliability | None:
    """Compare probabilities with outcomes; None without a calibration or without its columns."""
    data, spec = evaluated.data, model.calibration
    if spec is None or any(name not in data.columns for name in calibration_columns(model)):
        return None
    outcomes = read_outcome(data, spec.outcome)
    compute = OutcomeProbabilities(spec)
    probabilities = dataset_probabilities(compute, data, evaluated.scores, spec.position)
    return _measure(spec, outcomes, probabilities)


def _measure(
    spec: OutcomeCalibration, outcomes: NDArray[np.float64], probabilities: NDArray[np.float64]
) -> Reliability:
    bins = probability_bins(probabilities, _BINS)
    parts = [np.flatnonzero(bins == number) for number in np.unique(bins)]
    return Reliability(
        spec.outcome,
        [share_bin(probabilities[part], outcomes[part]) for part in parts],
        calibration_error(outcomes, probabilities),
        log_loss(outcomes, probabilities),
        brier_score(outcomes, probabilities),
        len(outcomes),
    )


def reliability_section(measured: Reliability) -> Section:
    """Build the reliability diagram: the share of the outcome against its probability."""
    shares = shares_line(
        measured.bins,
        lambda b: f"probability {percent(b.value, 1)}: {percent(b.share, 1)} of {count(b.n)} rows",
    )
    top = max(*shares.x, *shares.high)
    exact = Line("exact", "soft", [0.0, top], [0.0, top], points=False)
    chart = line_chart(
        "Probability against what happened",
        [exact, shares],
        ("probability", "share of rows"),
        captions.reliability(measured),
        about="Share of rows with the outcome against their probability",
        legend=[("model", "measured, with 95 % interval"), ("soft", "exact probabilities")],
        y_values=(0.0, top),
    )
    title = "Can its probabilities be trusted?"
    lead = captions.reliability_lead(measured.outcome)
    return Section("reliability", "Probabilities", title, lead, figures(chart))
