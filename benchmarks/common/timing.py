"""Repeated measurements: medians with their spread, ratios, slopes."""

from __future__ import annotations

import time

import numpy as np


def cpu_seconds(function):
    """CPU seconds of a call, all threads together, and what it returned."""
    begun = time.process_time()
    result = function()
    return time.process_time() - begun, result


def spread(values):
    """Median, lowest, highest and number of some measurements."""
    values = np.asarray(list(values), dtype=float)
    if len(values) == 0 or not np.isfinite(values).all():
        raise ValueError(f"measurements are missing: {values}")
    return {
        "median": float(np.median(values)),
        "low": float(values.min()),
        "high": float(values.max()),
        "n": len(values),
    }


def repeated(function, repetitions, *, warm=True):
    """Spread of the CPU seconds of several calls, after one that compiles; the last result."""
    if warm:
        function()
    runs = [cpu_seconds(function) for _ in range(repetitions)]
    return spread(seconds for seconds, _ in runs), runs[-1][1]


def ratio(a, b):
    """One spread over another, from their medians."""
    return a["median"] / b["median"]


def exponent(sizes, values):
    """The slope of log value against log size."""
    if len(sizes) < 2:
        raise ValueError("a slope needs two sizes")
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def median_and_range(measured, form=".3g"):
    """A spread as text: median (lowest to highest)."""
    low, high = format(measured["low"], form), format(measured["high"], form)
    middle = format(measured["median"], form)
    return middle if low == high else f"{middle} ({low} to {high})"
