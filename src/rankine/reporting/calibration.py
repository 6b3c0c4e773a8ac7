"""How sure a difference of scores makes us: score gaps against preferences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankine.reporting.judged import Judged
from rankine.reporting.page import Section, count, figures, number, percent
from rankine.reporting.svg import Line, line_chart
from rankine.samplers.pairs import pair_rows

MAX_PAIRS, BINS = 200_000, 10
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

    ``all_pairs`` tells whether every pair was counted, or a sample; ``tied`` pairs have equal
    scores and count half right.
    """

    bins: Sequence[Bin]
    slope: float
    right: float
    pairs: int
    tied: int
    all_pairs: bool


def calibration(judged: Judged, seed: int = 0) -> Calibration | None:
    """Bin the pairs of different labels by |s_i - s_j|; None where there is no pair."""
    if len(judged.data.labels.queries_with_pairs) == 0:
        return None
    better, worse, whole = pair_rows(judged.data, MAX_PAIRS, seed)
    gap = judged.scores[better] - judged.scores[worse]
    size = np.abs(gap)
    right = np.where(gap > 0, 1.0, np.where(gap == 0, 0.5, 0.0))
    order = np.argsort(size, kind="stable")
    parts = np.array_split(order, min(BINS, len(order)))
    bins = [_bin(size[part], right[part]) for part in parts]
    tied = int((gap == 0).sum())
    return Calibration(bins, _slope(gap), float(right.mean()), len(gap), tied, whole)


def _bin(size: NDArray[np.float64], right: NDArray[np.float64]) -> Bin:
    n, p = len(size), float(right.mean())
    centre = (p + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z * math.sqrt(p * (1 - p) / n + _Z**2 / (4 * n * n)) / (1 + _Z**2 / n)
    return Bin(float(size.mean()), p, centre - half, centre + half, n)


def _slope(gap: NDArray[np.float64]) -> float:
    """Maximum likelihood of P(better above worse) = 1/(1 + e^(-a gap)), a >= 0, by bisection.

    The derivative sum_k gap_k / (1 + e^(a gap_k)) falls with a.
    """
    unit = float(np.abs(gap).mean())
    if gap.sum() <= 0:
        return 0.0
    z = gap / unit

    def rising(a: float) -> bool:
        return float((z / (1 + np.exp(np.clip(a * z, -700, 700)))).sum()) > 0

    low, high = 0.0, 1.0
    while rising(high) and high < 1e6:
        low, high = high, 2 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if rising(middle) else (low, middle)
    return 0.5 * (low + high) / unit


def calibration_section(found: Calibration) -> Section:
    """Share of right pairs against the gap of their scores."""
    bins = found.bins
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
    top = max(gaps)
    steps = [top * k / 40 for k in range(41)]
    fitted = Line(
        "logistic curve",
        "soft",
        steps,
        [1 / (1 + math.exp(-min(found.slope * g, 700))) for g in steps],
        points=False,
    )
    which = "all pairs" if found.all_pairs else "a random sample of pairs"
    sure = (
        f" A gap of {number(math.log(9) / found.slope, 2)} stands for 90 % by the logistic curve "
        "(dashed)."
        if found.slope > 0
        else ""
    )
    words = (
        f"Two items of one list whose labels differ: how often the one with the higher score has "
        f"the higher label ({which}, {count(found.pairs)}; right in {percent(found.right, 1)} of "
        f"them).{sure} Read: the curve should rise from one half; a flat one means that the size "
        "of a gap says nothing."
    )
    key = [("model", "measured, with 95 % interval"), ("soft", "best logistic curve")]
    chart = line_chart(
        "Score gap against preference",
        [fitted, measured],
        ("difference of scores", "in the right order"),
        words,
        about="Share of rightly ordered pairs against the difference of their scores",
        key=key,
        y_values=(0.5, 1.0),
    )
    lead = "Scores have no unit. This picture gives them one: how sure a difference makes us."
    title = "How sure is a gap between two scores?"
    return Section("gaps", "Score gaps", title, lead, figures(chart))
