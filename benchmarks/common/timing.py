"""Repeated measurements: medians with their spread, ratios, slopes."""

from __future__ import annotations

import time

import numpy as np


def cpu_seconds(function):
    """Measure the CPU seconds of a call (all threads); return them and its result."""
    begun = time.process_time()
    result = function()
    return time.process_time() - begun, result


def spread(values):
    """Return median, lowest, highest and number of measurements."""
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
    """Measure a call several times after a warm-up; return the spread and the last result."""
    if warm:
        function()
    runs = [cpu_seconds(function) for _ in range(repetitions)]
    return spread(seconds for seconds, _ in runs), runs[-1][1]


def ratio(a, b):
    """Return the ratio of two medians."""
    return a["median"] / b["median"]


def exponent(sizes, values):
    """Return the slope of log value against log size."""
    if len(sizes) < 2:
        raise ValueError("a slope needs two sizes")
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def median_and_range(measured, form=".3g"):
    """Format a spread as "median (lowest to highest)"."""
    low, high = format(measured["low"], form), format(measured["high"], form)
    middle = format(measured["median"], form)
    return middle if low == high else f"{middle} ({low} to {high})"
