"""Bins of a share, such as the share of pairs in the right order, with intervals; their line."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankine.reporting.svg import Line

#: Quantile 0.975 of the normal distribution.
_Z = 1.959964


@dataclass(frozen=True)
class ShareBin:
    """Cases with similar values, such as pairs of similar score gaps.

    Attributes
    ----------
    value
        Mean value of the cases.
    share
        Share of the cases in which something holds.
    low, high
        Wilson's 95 % interval of the share.
    n
        Number of cases.
    """

    value: float
    share: float
    low: float
    high: float
    n: int


def share_bin(values: NDArray[np.float64], holds: NDArray[np.float64]) -> ShareBin:
    """Return the bin of some cases; ``holds`` is 1 where something holds, and 0 elsewhere."""
    n, p = len(values), float(holds.mean())
    # Wilson's interval stays inside 0..1 for shares near the ends, unlike p +- z sqrt(p (1-p) / n).
    centre = (p + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z * math.sqrt(p * (1 - p) / n + _Z**2 / (4 * n * n)) / (1 + _Z**2 / n)
    return ShareBin(float(values.mean()), p, centre - half, centre + half, n)


def shares_line(bins: Sequence[ShareBin], tip: Callable[[ShareBin], str]) -> Line:
    """Return the line of the shares against the values, with its band; ``tip`` describes a bin."""
    return Line(
        "measured",
        "model",
        [each.value for each in bins],
        [each.share for each in bins],
        [each.low for each in bins],
        [each.high for each in bins],
        tips=[tip(each) for each in bins],
    )
