"""Medians with spread, ratios and slopes."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.common.timing import exponent, median_and_range, ratio, repeated, spread


def test_spread_is_median_lowest_highest_and_number():
    assert spread([3.0, 1.0, 2.0]) == {"median": 2.0, "low": 1.0, "high": 3.0, "n": 3}


@pytest.mark.parametrize("values", [[], [1.0, float("nan")]])
def test_missing_measurements_are_refused(values):
    with pytest.raises(ValueError, match="missing"):
        spread(values)


def test_repeated_calls_once_more_to_compile():
    calls = []
    measured, last = repeated(lambda: calls.append(0) or len(calls), 3)
    assert (measured["n"], last, len(calls)) == (3, 4, 4)


def test_ratio_and_text():
    a, b = spread([2.0, 4.0, 9.0]), spread([2.0])
    assert ratio(a, b) == 2.0
    assert median_and_range(a, ".1f") == "4.0 (2.0 to 9.0)"
    assert median_and_range(b, ".1f") == "2.0"


def test_exponent_of_a_power():
    sizes = np.array([1.0, 10.0, 100.0])
    assert exponent(sizes, 5 * sizes**1.5) == pytest.approx(1.5)


def test_one_size_has_no_exponent():
    with pytest.raises(ValueError, match="two sizes"):
        exponent([1.0], [1.0])
