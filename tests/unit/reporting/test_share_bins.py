"""Bins of shares have Wilson's intervals."""

from __future__ import annotations

import numpy as np
import pytest

from rankine.reporting.share_bins import ShareBin, share_bin, shares_line


def test_intervals_are_wilsons():
    rng = np.random.default_rng(0)
    for n in (1, 5, 400):
        for right in (np.ones(n), np.zeros(n), rng.integers(0, 2, n) * 1.0):
            size = rng.random(n)
            found = share_bin(size, right)
            p = right.mean()
            assert (found.value, found.share, found.n) == (pytest.approx(size.mean()), p, n)
            for end in (found.low, found.high):  # |p - end| = z sqrt(end (1 - end) / n)
                assert (p - end) ** 2 == pytest.approx(1.959964**2 * end * (1 - end) / n, abs=1e-12)
            assert found.low <= p + 1e-12
            assert found.high >= p - 1e-12


def test_the_line_has_the_bins_and_their_tooltips():
    bins = [ShareBin(0.1, 0.5, 0.4, 0.6, 7), ShareBin(0.2, 0.8, 0.7, 0.9, 9)]
    line = shares_line(bins, lambda each: f"{each.n} rows")
    assert (line.x, line.y, line.low, line.high) == ([0.1, 0.2], [0.5, 0.8], [0.4, 0.7], [0.6, 0.9])
    assert line.tips == ["7 rows", "9 rows"]
