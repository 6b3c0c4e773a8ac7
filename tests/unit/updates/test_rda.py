"""Dual averaging minimises its model and drops weights by importance."""

from __future__ import annotations

import numpy as np
import pytest

from rankine.updates import RdaFrom
from rankine.updates.lazy import new_clock, read_importances, read_weights, set_weights, state_width
from reference.update_steps import N, make, step

pytestmark = pytest.mark.kernels


def test_dual_averaging_minimises_its_model():
    optimizer = RdaFrom(0.5, 0.5, 0.1, 0.2)
    start = np.array([0.7])
    state, clock = np.zeros((1, 2)), new_clock()
    set_weights(optimizer, state, start)
    total = 0.0
    for gradient in (0.3, -0.9, 0.5):
        step(optimizer, clock, state, np.array([0]), np.array([gradient]))
        total += gradient
    out = np.empty(1)
    read_weights(optimizer, clock, state, out)
    grid = np.linspace(-3, 3, 600_001)
    beta = np.sqrt(3) / 0.5
    value = total * grid + 0.3 * np.abs(grid) + 0.3 * grid**2 + beta / 2 * (grid - start) ** 2
    assert out[0] == pytest.approx(grid[np.argmin(value)], abs=1e-5)


@pytest.mark.parametrize("kind", ["rda", "adaptive"])
@pytest.mark.parametrize("started", [False, True], ids=["fresh", "started"])
def test_dual_averaging_drops_weights_in_the_order_of_their_importance(kind, started):
    """A larger l1 leaves those weights whose importance is above the penalty of all steps."""
    rng = np.random.default_rng(4)
    options = {"eta0": 0.5, "power": 0.5, "l1": 0.0, "l2": 0.1}
    optimizer = make(kind, options, started)
    state, clock = np.zeros((N, int(state_width(optimizer)))), new_clock()
    if started:
        set_weights(optimizer, state, rng.normal(size=N))
    steps = 30
    for _ in range(steps):
        step(optimizer, clock, state, np.arange(N), rng.normal(size=N))
    importances, out = np.empty(N), np.empty(N)
    read_importances(optimizer, clock, state, importances)
    for l1 in (0.0, 0.02, 0.1, 0.3):
        read_weights(optimizer._replace(l1=l1), clock, state, out)
        np.testing.assert_array_equal(out != 0.0, importances > steps * l1)
