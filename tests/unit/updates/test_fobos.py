"""Forward-backward splitting."""

from __future__ import annotations

import numpy as np
import pytest

from rankine.updates import Fobos
from rankine.updates.fobos import REBASE_BELOW
from rankine.updates.lazy import SHRINK, new_clock, read_weights
from reference.update_steps import N, step, weights_of_steps

pytestmark = pytest.mark.kernels


def test_a_step_goes_down_the_gradient_and_then_shrinks():
    update = Fobos(0.5, 0.0, 0.2, 1.0)
    w, expected = 0.0, []
    gradients = [-1.0, -2.0, 0.0, 3.0, 0.1]
    for gradient in gradients:
        after = w - 0.5 * gradient
        w = np.sign(after) * max(abs(after) - 0.5 * 0.2, 0.0) / (1.0 + 0.5 * 1.0)
        expected.append(w)
    assert weights_of_steps(update, gradients) == pytest.approx(expected, abs=1e-15)


def test_steps_get_smaller():
    gradients = [-1.0] * 4
    steps = np.diff([0.0, *weights_of_steps(Fobos(2.0, 0.5, 0.0, 0.0), gradients)])
    assert steps == pytest.approx(2.0 / np.sqrt(np.arange(1, 5)))


def test_weights_survive_the_restart_of_the_product():
    update = Fobos(1.0, 0.0, 0.0, 1e30)
    state, clock = np.zeros((N, 1)), new_clock()
    restarted = False
    for _ in range(8):
        step(update, clock, state, np.array([0]), np.array([-1.0]))
        restarted = restarted or clock[SHRINK] == 1.0
        assert clock[SHRINK] >= REBASE_BELOW
        weights = np.empty(N)
        read_weights(update, clock, state, weights)
        assert weights[0] == pytest.approx(1e-30)
    assert restarted
