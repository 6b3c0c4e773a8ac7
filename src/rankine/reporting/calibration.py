"""Relate differences of scores to preferences: how often the higher score is right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankine.reporting.evaluated import EvaluatedModel
from rankine.reporting.html import captions
from rankine.reporting.numbers import count, percent
from rankine.reporting.page import Section, figures
from rankine.reporting.svg import Line, line_chart
from rankine.samplers.pairs import pair_rows

MAX_PAIRS, BINS = 200_000, 10
#: Quantile 0.975 of the normal distribution.
_Z = 1.959964


@dataclass(frozen=True)
class Bin:
    """Pairs of similar score gap: how often the higher score has the higher label.

    ``low`` and ``high`` are Wilson's 95 % interval of the share.
    """

    gap: float
    share: float
    low: float
    high: float
    pairs: int


@dataclass(frozen=True)
class Calibration:
    """Bins of equal counts by gap, and the slope of the best logistic curve 1/(1 + e^(-slope gap)).

    ``all_pairs`` is False if the pairs are a sample; ``tied`` pairs have equal scores and count as
    half right.
    """

    bins: Sequence[Bin]
    slope: float
    right: float
    pairs: int
    tied: int
    all_pairs: bool


def calibration(evaluated: EvaluatedModel, seed: int = 0) -> Calibration | None:
    """Bin the pairs of different labels by |s_i - s_j|; None if there is no pair."""
    if len(evaluated.data.labels.queries_with_pairs) == 0:
        return None
    better, worse, all_pairs = pair_rows(evaluated.data, MAX_PAIRS, seed)
    gap = evaluated.scores[better] - evaluated.scores[worse]
    size = np.abs(gap)
    right = np.where(gap > 0, 1.0, np.where(gap == 0, 0.5, 0.0))
    order = np.argsort(size, kind="stable")
    parts = np.array_split(order, min(BINS, len(order)))
    bins = [share_bin(size[part], right[part]) for part in parts]
    tied = int((gap == 0).sum())
    return Calibration(bins, _slope(gap), float(right.mean()), len(gap), tied, all_pairs)


def share_bin(size: NDArray[np.float64], right: NDArray[np.float64]) -> Bin:
    """Return a bin with Wilson's interval, which stays inside 0..1 for shares near the ends."""
    n, p = len(size), float(right.mean())
    centre = (p + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z * math.sqrt(p * (1 - p) / n + _Z**2 / (4 * n * n)) / (1 + _Z**2 / n)
    return Bin(float(size.mean()), p, centre - half, centre + half, n)


def _slope(gap: NDArray[np.float64]) -> float:
    """Fit P(better above worse) = 1/(1 + e^(-a gap)), a >= 0, to all pairs by maximum likelihood.

    The derivative of the log likelihood, sum_k gap_k / (1 + e^(a gap_k)), falls with a: bisection.
    """
    if gap.sum() <= 0:
        return 0.0
    unit = float(np.abs(gap).mean())  # scores have any scale; the search starts at 1
    z = gap / unit

    def increasing(a: float) -> bool:
        return float((z / (1 + np.exp(np.clip(a * z, -700, 700)))).sum()) > 0

    low, high = 0.0, 1.0
    while increasing(high) and high < 1e6:
        low, high = high, 2 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        if increasing(middle):
            low = middle
        else:
            high = middle
    return 0.5 * (low + high) / unit


def calibration_section(calibration: Calibration) -> Section:
    """Build a chart of the share of rightly ordered pairs against the gap of their scores."""
    bins, slope = calibration.bins, calibration.slope
    gaps = [b.gap for b in bins]
    measured = Line(
        "measured",
        "model",
        gaps,
        [b.share for b in bins],
        [b.low for b in bins],
        [b.high for b in bins],
        tips=[f"gap {b.gap:.3g}: {percent(b.share, 1)} of {count(b.pairs)} pairs" for b in bins],
    )
    steps = [max(gaps) * k / 40 for k in range(41)]
    curve = [1 / (1 + math.exp(-min(slope * gap, 700))) for gap in steps]
    fitted = Line("logistic curve", "soft", steps, curve, points=False)
    gap_of_90_percent = None
    if slope > 0:
        gap_of_90_percent = math.log(9) / slope  # solves 1/(1 + e^(-slope gap)) = 0.9
    chart = line_chart(
        "Score gap against preference",
        [fitted, measured],
        ("difference of scores", "in the right order"),
        captions.gaps(calibration, gap_of_90_percent),
        about="Share of rightly ordered pairs against the difference of their scores",
        key=[("model", "measured, with 95 % interval"), ("soft", "best logistic curve")],
        y_values=(0.5, 1.0),
    )
    title = "How sure is a gap between two scores?"
    return Section("gaps", "Score gaps", title, captions.gaps_lead(), figures(chart))
