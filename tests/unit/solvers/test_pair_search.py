"""Gains of pairs of columns against a slow computation."""

import numpy as np
import pytest

from rankine.solvers.pair_search import interaction_gains
from rankine.transforms.bins import BinCoder, fit_bins, grid_axis

pytestmark = pytest.mark.kernels


def slow_gain(a, b, side, slope, curvature, damping):
    """Best contrast over all cuts of the grid of two columns, quadrant by quadrant."""
    best = 0.0
    for r in range(1, side):
        for s in range(1, side):
            masks = [(a < r) & (b < s), (a < r) & (b >= s), (a >= r) & (b < s), (a >= r) & (b >= s)]
            h = np.array([curvature[mask].sum() + damping for mask in masks])
            f = np.array([slope[mask].sum() for mask in masks]) / h
            best = max(best, 0.5 * (f[0] - f[1] - f[2] + f[3]) ** 2 / (1 / h).sum())
    return best


def test_the_interacting_pair_has_the_largest_gain():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(800, 4))
    bins = fit_bins(X, 16)
    rows = BinCoder(bins).code(X)
    slope = 2 * np.sign(X[:, 1] * X[:, 3]) + rng.normal(size=len(X)) + X[:, 0] + X[:, 3]
    curvature = rng.uniform(0.5, 3.0, len(X))
    pairs = np.array([(a, b) for a in range(4) for b in range(a + 1, 4)])
    places = np.zeros((4, 256), dtype=np.uint16)
    for j in range(4):
        cells = grid_axis(bins, j, np.ones(len(bins.cuts[j]) + 2), 8).cells
        places[j, : len(cells)] = cells
    gains = interaction_gains(rows, pairs, places, 9, slope, curvature, 0.7)
    assert pairs[gains.argmax()].tolist() == [1, 3]
    codes = np.concatenate(list(rows.codes.transpose(0, 2, 1)))[: len(X)]
    own = [places[j][codes[:, j]] for j in range(4)]
    expected = [slow_gain(own[a], own[b], 9, slope, curvature, 0.7) for a, b in pairs]
    np.testing.assert_allclose(gains, expected, rtol=1e-9)
    # More pairs than are looked at together.
    many = interaction_gains(
        rows, np.tile(pairs, (12, 1)), places, 9, slope, curvature, 0.7, threads=1
    )
    np.testing.assert_array_equal(many, np.tile(gains, 12))
