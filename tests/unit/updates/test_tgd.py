"""Truncated gradient descent."""

from __future__ import annotations

import numpy as np
import pytest

from rankine.updates import Fobos, Tgd
from rankine.updates.lazy import new_clock, read_weights
from reference.update_steps import N, step, weights_of_steps

pytestmark = pytest.mark.kernels


def test_truncated_gradient_at_every_step_is_fobos_without_l2():
    fobos, tgd = Fobos(0.7, 0.5, 0.05, 0.0), Tgd(0.7, 0.5, 0.05, np.inf, 1)
    states = np.zeros((N, 1)), np.zeros((N, 2))
    clocks = new_clock(), new_clock()
    rng = np.random.default_rng(3)
    for _ in range(100):
        indices = rng.choice(N, 3, replace=False).astype(np.int64)
        gradient = rng.normal(size=3)
        step(fobos, clocks[0], states[0], indices, gradient)
        step(tgd, clocks[1], states[1], indices, gradient)
    a, b = np.empty(N), np.empty(N)
    read_weights(fobos, clocks[0], states[0], a)
    read_weights(tgd, clocks[1], states[1], b)
    assert (a == 0).any()
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-13)


def test_a_weight_exactly_at_the_threshold_is_truncated():
    at_threshold = Tgd(1.0, 0.0, 0.125, 0.5, 1)
    assert weights_of_steps(at_threshold, [-0.5, 0.0]) == [0.375, 0.25]
    above = Tgd(1.0, 0.0, 0.125, 0.49, 1)
    assert weights_of_steps(above, [-0.5, 0.0, 0.25]) == [0.5, 0.5, 0.125]
    every_second_step = Tgd(1.0, 0.0, 0.125, 0.5, 2)
    assert weights_of_steps(every_second_step, [-0.5, 0.0, 0.0]) == [0.5, 0.25, 0.25]
