"""Every registered update keeps the promises of ``updates.lazy``."""

from __future__ import annotations

import numpy as np
import pytest

from rankine.updates.lazy import (
    UPDATES,
    add_gradient,
    close_step,
    make_update,
    new_clock,
    open_step,
    read_importances,
    read_weights,
    set_weights,
    state_width,
)

pytestmark = pytest.mark.kernels

PLAIN = {"eta0": 0.5, "power": 0.5, "l1": 0.0, "l2": 0.0, "theta": None, "prune_every": 10}
SPARSE = {**PLAIN, "l1": 0.02, "l2": 0.1, "theta": 0.05}


class Weights:
    """A state, its clock and an update, driven one step at a time."""

    def __init__(self, name, options, start=None, offset=0, n=4):
        self.update = make_update(name, **options, started=start is not None)
        self.state = np.zeros((n, int(state_width(self.update))))
        self.clock = new_clock(offset)
        if start is not None:
            set_weights(self.update, self.state, np.asarray(start, dtype=float))

    def step(self, gradient):
        now = open_step(self.update, self.clock)
        for j, part in gradient.items():
            add_gradient(self.update, now, self.state, np.uint64(j), part)
        close_step(self.update, self.clock, self.state)

    def read(self):
        out = np.empty(len(self.state))
        read_weights(self.update, self.clock, self.state, out)
        return out


@pytest.mark.parametrize("name", UPDATES)
def test_given_weights_are_read_back(name):
    start = np.array([0.5, -2.0, 0.0, 1e-3])
    weights = Weights(name, PLAIN, start)
    np.testing.assert_allclose(weights.read(), start, rtol=1e-15)
    for _ in range(3):
        weights.step({0: 0.0})
    np.testing.assert_allclose(weights.read()[[0, 1]], start[[0, 1]], rtol=1e-12)


@pytest.mark.parametrize("name", UPDATES)
def test_a_gradient_moves_its_weight_down_and_no_other(name):
    weights = Weights(name, PLAIN)
    weights.step({1: 1.0, 2: -1.0})
    found = weights.read()
    assert found[1] < 0.0 < found[2]
    assert found[0] == found[3] == 0.0


@pytest.mark.parametrize("name", UPDATES)
def test_parts_of_a_gradient_add_up(name):
    one, two = Weights(name, SPARSE), Weights(name, SPARSE)
    for k in range(30):
        one.step({k % 4: 0.75})
        now = open_step(two.update, two.clock)
        for part in (0.5, 0.25):
            add_gradient(two.update, now, two.state, np.uint64(k % 4), part)
        close_step(two.update, two.clock, two.state)
    np.testing.assert_allclose(one.read(), two.read(), rtol=1e-12)


@pytest.mark.parametrize("name", UPDATES)
def test_steps_already_seen_make_steps_smaller(name):
    """A continued run goes on with the step size it had reached, not with the first one."""
    start = np.array([1.0, 1.0, 1.0, 1.0])
    moved = []
    for offset in (0, 9_999):
        weights = Weights(name, PLAIN, start, offset)
        weights.step({0: 1.0})
        moved.append(1.0 - weights.read()[0])
    assert moved[1] == pytest.approx(moved[0] / 100, rel=1e-9)


@pytest.mark.parametrize("name", UPDATES)
def test_importance_orders_weights_and_penalties_shrink_them(name):
    weights = Weights(name, SPARSE)
    rng = np.random.default_rng(0)
    for _ in range(200):
        weights.step({0: 1.0 + rng.normal() * 0.1, 1: 0.05 * rng.normal()})
    value = np.empty(4)
    read_importances(weights.update, weights.clock, weights.state, value)
    assert value[0] > value[1] >= value[3] == 0.0
    before = abs(weights.read()[0])
    for _ in range(50):
        weights.step({2: 0.0})
    assert abs(weights.read()[0]) <= before
