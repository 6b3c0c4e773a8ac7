"""Gradient descent with pruning."""

from __future__ import annotations

import numpy as np
import pytest

from rankine.updates import Psgd
from rankine.updates.lazy import EPOCH, SHRINK, new_clock, read_weights
from reference.elastic_rank import Eager
from reference.update_steps import make, step, weights_of_steps

pytestmark = pytest.mark.kernels


def test_a_weight_exactly_at_the_threshold_is_not_pruned():
    at_threshold = Psgd(1.0, 0.0, 0.0, 0.25, 1)
    assert weights_of_steps(at_threshold, [-0.25, 0.0, -0.25]) == [0.25, 0.25, 0.5]
    below = Psgd(1.0, 0.0, 0.0, 0.26, 2)
    assert weights_of_steps(below, [-0.25, 0.0, -0.5]) == [0.25, 0.0, 0.5]


def test_pruned_weights_stay_pruned_when_the_product_restarts():
    """One weight is pruned before the restart, one by it, one is touched with it, one later."""
    options = {"eta0": 1.0, "power": 0.0, "l2": 1e60, "l1": 0.0, "theta": 1e-70, "every": 1}
    optimizer, slow = make("psgd", options), Eager("psgd", 4, **options)
    state, clock = np.zeros((4, 2)), new_clock()
    alive = []
    for gradient in ([-1e-15, -1e-3, 0.0, 0.0], [0.0, 0.0, -1e55, 0.0], [0.0, 0.0, 0.0, -1.0]):
        touched = np.flatnonzero(gradient)
        step(optimizer, clock, state, touched, np.array(gradient)[touched])
        slow.step(np.array(gradient))
        out = np.empty(4)
        read_weights(optimizer, clock, state, out)
        np.testing.assert_allclose(out, slow.w, rtol=1e-12, atol=0)
        alive.append((np.flatnonzero(out).tolist(), int(clock[EPOCH]), bool(clock[SHRINK] == 1.0)))
    assert alive == [([1], 1, False), ([2], 2, True), ([2, 3], 3, False)]
