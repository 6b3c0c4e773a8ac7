"""Lazy optimisers equal their textbook forms to 1e-12, with the same zeros."""

from __future__ import annotations

import numpy as np
import pytest

from rankine.kernels.compile import jit
from rankine.updates import (
    AdaptiveRda,
    AdaptiveRdaFrom,
    Fobos,
    Psgd,
    Rda,
    RdaFrom,
    Tgd,
)
from rankine.updates.lazy import (
    SHRINK,
    close_step,
    new_clock,
    open_step,
    push,
    read_all,
    start_from,
    state_width,
    weight,
)
from reference.elastic_rank import Eager

pytestmark = pytest.mark.kernels

N = 20


@jit
def read_some(optimizer, clock, state, places):
    now = open_step(optimizer, clock)
    out = np.empty(places.shape[0])
    for k in range(places.shape[0]):
        out[k] = weight(optimizer, now, state, places[k])
    return out


@jit
def step(optimizer, clock, state, places, gradient):
    now = open_step(optimizer, clock)
    for k in range(places.shape[0]):
        # In two parts, as two items of a list that share a feature.
        push(optimizer, now, state, places[k], 0.25 * gradient[k])
        push(optimizer, now, state, places[k], 0.75 * gradient[k])
    close_step(optimizer, clock, state)


def make(kind, o, started=False):
    if kind == "fobos":
        return Fobos(o["eta0"], o["power"], o["l1"], o["l2"])
    if kind == "rda":
        return (RdaFrom if started else Rda)(o["eta0"], o["power"], o["l1"], o["l2"])
    if kind == "adaptive":
        return (AdaptiveRdaFrom if started else AdaptiveRda)(o["eta0"], o["l1"], o["l2"])
    if kind == "psgd":
        return Psgd(o["eta0"], o["power"], o["l2"], o["theta"], o["every"])
    return Tgd(o["eta0"], o["power"], o["l1"], o["theta"], o["every"])


def draw(rng, kind):
    theta = rng.choice([0.05, 0.3, np.inf]) if kind == "tgd" else rng.choice([0.01, 0.1])
    return {
        "eta0": rng.choice([0.1, 1.0, 3.0]),
        "power": rng.choice([0.0, 0.5, 1.0]),
        "l1": rng.choice([0.0, 0.01, 0.1]),
        "l2": 0.0 if kind == "tgd" else rng.choice([0.0, 0.01, 0.3]),
        "theta": float(theta),
        "every": int(rng.choice([1, 3, 10])),
    }


def compare(kind, seed, steps, start=None):
    rng = np.random.default_rng(seed)
    options = draw(rng, kind)
    optimizer = make(kind, options, started=start is not None)
    slow = Eager(kind, N, **options)
    state, clock = np.zeros((N, int(state_width(optimizer)))), new_clock()
    if start is not None:
        slow.begin_at(start)
        start_from(optimizer, state, start)
    zeros = 0
    for _ in range(steps):
        places = np.sort(rng.choice(N, rng.integers(0, 4), replace=False)).astype(np.int64)
        np.testing.assert_allclose(
            read_some(optimizer, clock, state, places), slow.w[places], rtol=0, atol=1e-12
        )
        gradient = rng.normal(size=len(places)) + 0.5 * np.sign(slow.w[places])
        full, squares = np.zeros(N), np.zeros(N)
        full[places], squares[places] = gradient, gradient**2 * (0.25**2 + 0.75**2)
        step(optimizer, clock, state, places, gradient)
        slow.step(full, squares)
        zeros += np.count_nonzero(slow.w == 0)
    out = np.empty(N)
    read_all(optimizer, clock, state, out)
    np.testing.assert_allclose(out, slow.w, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(out == 0, slow.w == 0)
    return zeros


@pytest.mark.parametrize("kind", ["fobos", "rda", "adaptive", "psgd", "tgd"])
def test_lazy_equals_eager(kind):
    zeros = sum(compare(kind, seed, 120) for seed in range(12))
    assert zeros > 1000  # the zero patterns compared are not empty


@pytest.mark.parametrize("kind", ["fobos", "rda", "adaptive", "psgd", "tgd"])
def test_lazy_equals_eager_from_given_weights(kind):
    start = np.random.default_rng(1).normal(size=N) * (np.arange(N) % 3 > 0)
    for seed in range(4):
        compare(kind, seed, 60, start)


@pytest.mark.parametrize("kind", ["fobos", "psgd"])
def test_long_shrinking_is_rebased(kind):
    options = {"eta0": 3.0, "power": 0.0, "l1": 1e-3, "l2": 2.0, "theta": 1e-3, "every": 7}
    optimizer, slow = make(kind, options), Eager(kind, N, **options)
    state, clock = np.zeros((N, int(state_width(optimizer)))), new_clock()
    rng = np.random.default_rng(0)
    rebased = 0
    for t in range(400):  # the product of shrinkings would be 7^-400
        places = np.array([t % 5])
        gradient = rng.normal(size=1)
        before = clock[SHRINK]
        step(optimizer, clock, state, places, gradient)
        rebased += clock[SHRINK] > before
        full = np.zeros(N)
        full[places] = gradient
        slow.step(full)
    out = np.empty(N)
    read_all(optimizer, clock, state, out)
    assert rebased >= 2
    np.testing.assert_allclose(out, slow.w, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(out == 0, slow.w == 0)


def test_truncated_gradient_at_every_step_is_fobos_without_l2():
    fobos, tgd = Fobos(0.7, 0.5, 0.05, 0.0), Tgd(0.7, 0.5, 0.05, np.inf, 1)
    states = np.zeros((N, 1)), np.zeros((N, 2))
    clocks = new_clock(), new_clock()
    rng = np.random.default_rng(3)
    for _ in range(100):
        places = rng.choice(N, 3, replace=False).astype(np.int64)
        gradient = rng.normal(size=3)
        step(fobos, clocks[0], states[0], places, gradient)
        step(tgd, clocks[1], states[1], places, gradient)
    a, b = np.empty(N), np.empty(N)
    read_all(fobos, clocks[0], states[0], a)
    read_all(tgd, clocks[1], states[1], b)
    assert (a == 0).any()
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-13)


def test_dual_averaging_minimises_its_model():
    optimizer = RdaFrom(0.5, 0.5, 0.1, 0.2)
    start = np.array([0.7])
    state, clock = np.zeros((1, 2)), new_clock()
    start_from(optimizer, state, start)
    total = 0.0
    for gradient in (0.3, -0.9, 0.5):
        step(optimizer, clock, state, np.array([0]), np.array([gradient]))
        total += gradient
    out = np.empty(1)
    read_all(optimizer, clock, state, out)
    grid = np.linspace(-3, 3, 600_001)
    beta = np.sqrt(3) / 0.5
    value = total * grid + 0.3 * np.abs(grid) + 0.3 * grid**2 + beta / 2 * (grid - start) ** 2
    assert out[0] == pytest.approx(grid[np.argmin(value)], abs=1e-5)
