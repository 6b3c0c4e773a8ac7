"""Relate differences of scores to preferences: how often the higher score is right.

Probabilities of calibrated models are compared with outcomes in ``reliability``.
"""

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
from rankine.reporting.share_bins import ShareBin, share_bin, shares_line
from rankine.reporting.svg import Line, line_chart
from rankine.samplers.pairs import pair_rows

#: Most pairs; of longer data a random sample is taken.
MAX_PAIRS = 200_000
BINS = 10


@dataclass(frozen=True)
class ScoreGaps:
    """Pairs of one list with different labels, by the difference (gap) of their scores.

    Attributes
    ----------
    bins
        Bins of equal numbers of pairs by the size of the gap, and the share of pairs in which the
        item with the higher score has the higher label.
    slope
        Slope of the logistic curve 1/(1 + e^(-slope gap)) of maximal likelihood.
    right
        Share of all pairs in the right order.
    pairs
        Number of pairs.
    tied
        Number of pairs with equal scores, which count as half right.
    all_pairs
        False if the pairs are a sample.
    """

    bins: Sequence[ShareBin]
    slope: float
    right: float
    pairs: int
    tied: int
    all_pairs: bool


def score_gaps(evaluated: EvaluatedModel, seed: int = 0) -> ScoreGaps | None:
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
    return ScoreGaps(bins, _slope(gap), float(right.mean()), len(gap), tied, all_pairs)


def _slope(gap: NDArray[np.float64]) -> float:
    """Fit P(better above worse) = 1/(1 + e^(-a gap)), a >= 0, to all pairs by maximum likelihood.

    The derivative of the log likelihood, sum_k gap_k / (1 + e^(a gap_k)), falls with a: bisection.
    """
    if gap.sum() <= 0:
        return 0.0
    unit = float(np.abs(gap).mean())  # scores have any scale; the search starts at 1
    z = gap / unit

    def increasing(a: float) -> bool:
        # Clipped, since e^710 is infinite.
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


def score_gaps_section(gaps: ScoreGaps) -> Section:
    """Build a chart of the share of rightly ordered pairs against the gap of their scores."""
    slope = gaps.slope
    measured = shares_line(
        gaps.bins, lambda b: f"gap {b.value:.3g}: {percent(b.share, 1)} of {count(b.n)} pairs"
    )
    largest = max(measured.x)
    steps = [largest * k / 40 for k in range(41)]
    # e^700 is the largest power that float64 holds.
    curve = [1 / (1 + math.exp(-min(slope * gap, 700))) for gap in steps]
    fitted = Line("logistic curve", "soft", steps, curve, points=False)
    gap_of_90_percent = None
    if slope > 0:
        gap_of_90_percent = math.log(9) / slope  # solves 1/(1 + e^(-slope gap)) = 0.9
    chart = line_chart(
        "Score gap against preference",
        [fitted, measured],
        ("difference of scores", "in the right order"),
        captions.score_gaps(gaps, gap_of_90_percent),
        about="Share of rightly ordered pairs against the difference of their scores",
        legend=[("model", "measured, with 95 % interval"), ("soft", "best logistic curve")],
        y_values=(0.5, 1.0),
    )
    title = "How sure is a gap between two scores?"
    return Section("gaps", "Score gaps", title, captions.score_gaps_lead(), figures(chart))
