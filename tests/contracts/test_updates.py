"""Every registered update satisfies the contract of ``updates.lazy``."""

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

UNPENALISED = {"eta0": 0.5, "power": 0.5, "l1": 0.0, "l2": 0.0, "theta": None, "prune_every": 10}
PENALISED = {**UNPENALISED, "l1": 0.02, "l2": 0.1, "theta": 0.05}


class Weights:
    """A state, its clock and an update, driven one step at a time."""

    def __init__(self, name, options, start=None, offset=0, n=4):
        self.update = make_update(name, **options, started=start is not None)
        self.state = np.zeros((n, int(state_width(self.update))))
        self.clock = new_clock(offset)
        if start is not None:
            set_weights(self.update, self.state, np.asarray(start, dtype=float))

    def step(self, gradient):
        step = open_step(self.update, self.clock)
        for j, part in gradient.items():
            add_gradient(self.update, step, self.state, np.uint64(j), part)
        close_step(self.update, self.clock, self.state)

    def read(self):
        out = np.empty(len(self.state))
        read_weights(self.update, self.clock, self.state, out)
        return out


@pytest.mark.parametrize("name", UPDATES)
def test_given_weights_are_read_back(name):
    start = np.array([0.5, -2.0, 0.0, 1e-3])
    weights = Weights(name, UNPENALISED, start)
    np.testing.assert_allclose(weights.read(), start, rtol=1e-15)
    for _ in range(3):
        weights.step({0: 0.0})
    np.testing.assert_allclose(weights.read()[[0, 1]], start[[0, 1]], rtol=1e-12)


@pytest.mark.parametrize("name", UPDATES)
def test_a_gradient_moves_its_weight_down_and_no_other(name):
    weights = Weights(name, UNPENALISED)
    weights.step({1: 1.0, 2: -1.0})
    after = weights.read()
    assert after[1] < 0.0 < after[2]
    assert after[0] == after[3] == 0.0


@pytest.mark.parametrize("name", UPDATES)
def test_parts_of_a_gradient_add_up(name):
    whole, parts = Weights(name, PENALISED), Weights(name, PENALISED)
    for k in range(30):
        whole.step({k % 4: 0.75})
        step = open_step(parts.update, parts.clock)
        for part in (0.5, 0.25):
            add_gradient(parts.update, step, parts.state, np.uint64(k % 4), part)
        close_step(parts.update, parts.clock, parts.state)
    np.testing.assert_allclose(whole.read(), parts.read(), rtol=1e-12)


@pytest.mark.parametrize("name", UPDATES)
def test_a_continued_run_goes_on_with_smaller_steps(name):
    """A continued run goes on with the step size it had reached, not with the first one."""
    start = np.array([1.0, 1.0, 1.0, 1.0])
    changes = []
    for offset in (0, 9_999):
        weights = Weights(name, UNPENALISED, start, offset)
        weights.step({0: 1.0})
        changes.append(1.0 - weights.read()[0])
    assert changes[1] == pytest.approx(changes[0] / 100, rel=1e-9)


@pytest.mark.parametrize("name", UPDATES)
def test_importance_orders_weights_and_penalties_shrink_them(name):
    weights = Weights(name, PENALISED)
    rng = np.random.default_rng(0)
    for _ in range(200):
        weights.step({0: 1.0 + rng.normal() * 0.1, 1: 0.05 * rng.normal()})
    importances = np.empty(4)
    read_importances(weights.update, weights.clock, weights.state, importances)
    assert importances[0] > importances[1] >= importances[3] == 0.0
    magnitude = abs(weights.read()[0])
    for _ in range(50):
        weights.step({2: 0.0})
    assert abs(weights.read()[0]) <= magnitude
