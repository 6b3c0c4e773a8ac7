"""Lazy optimisers equal their textbook forms to 1e-12, with the same zeros."""

from __future__ import annotations

import numpy as np
import pytest

from rankine.core.errors import ParameterError
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
    EPOCH,
    SHRINK,
    add_gradient,
    close_step,
    make_update,
    new_clock,
    open_step,
    read_importances,
    read_weight,
    read_weights,
    set_weights,
    state_width,
)
from reference.elastic_rank import Eager

pytestmark = pytest.mark.kernels

N = 20


@jit
def read_some(optimizer, clock, state, places):
    now = open_step(optimizer, clock)
    out = np.empty(places.shape[0])
    for k in range(places.shape[0]):
        out[k] = read_weight(optimizer, now, state, places[k])
    return out


@jit
def step(optimizer, clock, state, places, gradient):
    now = open_step(optimizer, clock)
    for k in range(places.shape[0]):
        # In two parts, as two items of a list that share a feature.
        add_gradient(optimizer, now, state, places[k], 0.25 * gradient[k])
        add_gradient(optimizer, now, state, places[k], 0.75 * gradient[k])
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


#: Nothing is zero, one or the same as something else.
RICH = {"eta0": 0.6, "power": 0.5, "l1": 0.03, "l2": 0.2, "theta": 0.15, "every": 3}


def compare(kind, seed, steps, start=None, before=0, options=None):
    rng = np.random.default_rng(seed)
    options = draw(rng, kind) if options is None else options
    optimizer = make(kind, options, started=start is not None)
    slow = Eager(kind, N, **options, before=before)
    state, clock = np.zeros((N, int(state_width(optimizer)))), new_clock(before)
    if start is not None:
        slow.begin_at(start)
        set_weights(optimizer, state, start)
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
    read_weights(optimizer, clock, state, out)
    np.testing.assert_allclose(out, slow.w, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(out == 0, slow.w == 0)
    return zeros


@pytest.mark.parametrize("kind", ["fobos", "rda", "adaptive", "psgd", "tgd"])
def test_lazy_equals_eager(kind):
    zeros = sum(compare(kind, seed, 120) for seed in range(12))
    assert zeros > 1000  # the zero patterns compared are not empty


@pytest.mark.parametrize("before", [0, 13])
@pytest.mark.parametrize("kind", ["fobos", "rda", "adaptive", "psgd", "tgd"])
def test_lazy_equals_eager_from_given_weights(kind, before):
    """Also where step sizes go on from a run of thirteen steps."""
    start = np.random.default_rng(1).normal(size=N) * (np.arange(N) % 3 > 0)
    for seed in range(4):
        compare(kind, seed, 60, start, before)
        compare(kind, seed, 60, start, before, RICH)


@pytest.mark.parametrize("every", [1, 4, 7])
@pytest.mark.parametrize("kind", ["fobos", "psgd"])
def test_weights_stay_the_same_when_the_product_of_shrinkings_restarts(kind, every):
    """Whether prunings fall on a restart or between two; weights shrink by a power of two.

    Sizes are powers of two as well, so that many weights are exactly at the threshold and pruned
    weights equal the textbook's to the bit.
    """
    options = {"eta0": 1.0, "power": 0.0, "l1": 2.0**-60, "l2": 2.0**40 - 1, "every": every}
    options["theta"] = 2.0**-70
    optimizer, slow = make(kind, options), Eager(kind, N, **options)
    state, clock = np.zeros((N, int(state_width(optimizer)))), new_clock()
    rng = np.random.default_rng(every)
    restarts, below, at = [], 0, 0
    for t in range(1, 301):  # the product of shrinkings would be 2^-12000
        places = np.sort(rng.choice(N, 2, replace=False)).astype(np.int64)
        gradient = rng.choice([-1.0, 1.0], 2) * 2.0 ** (10 * rng.integers(-15, 20, 2))
        before = clock[SHRINK]
        step(optimizer, clock, state, places, gradient)
        if clock[SHRINK] > before:
            restarts.append(t % every)
        full = np.zeros(N)
        full[places] = gradient
        slow.step(full)
        out = np.empty(N)
        read_weights(optimizer, clock, state, out)
        exact = kind == "psgd"
        np.testing.assert_allclose(
            out, slow.w, rtol=0 if exact else 1e-9, atol=0 if exact else 1e-12 * options["l1"]
        )
        np.testing.assert_array_equal(out == 0, slow.w == 0)
        below += np.count_nonzero((slow.w != 0) & (np.abs(slow.w) < options["theta"]))
        at += np.count_nonzero(np.abs(slow.w) == options["theta"])
    assert len(restarts) >= 30
    assert len(set(restarts)) == every
    if kind == "psgd":
        assert at > 5
        assert (below > 50) == (every > 1)  # alive until the next pruning


@pytest.mark.parametrize("kind", ["fobos", "rda", "adaptive", "psgd", "tgd"])
def test_a_weight_of_nothing_has_no_sign(kind):
    options = {"eta0": 1.0, "power": 0.0, "l1": 10.0, "l2": 0.1, "theta": 20.0, "every": 1}
    optimizer = make(kind, options)
    state, clock = np.zeros((2, int(state_width(optimizer)))), new_clock()
    step(optimizer, clock, state, np.array([0, 1]), np.array([1.0, -1.0]))
    out = np.empty(2)
    read_weights(optimizer, clock, state, out)
    assert out.tolist() == [0.0, 0.0]
    assert not np.signbit(out).any()


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
    read_weights(fobos, clocks[0], states[0], a)
    read_weights(tgd, clocks[1], states[1], b)
    assert (a == 0).any()
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-13)


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
    value, out = np.empty(N), np.empty(N)
    read_importances(optimizer, clock, state, value)
    for l1 in (0.0, 0.02, 0.1, 0.3):
        read_weights(optimizer._replace(l1=l1), clock, state, out)
        np.testing.assert_array_equal(out != 0.0, value > steps * l1)


@pytest.mark.parametrize("kind", ["fobos", "psgd", "tgd"])
def test_other_weights_are_as_important_as_they_are_large(kind):
    optimizer = make(kind, draw(np.random.default_rng(1), kind))
    state, clock = np.zeros((N, int(state_width(optimizer)))), new_clock()
    step(optimizer, clock, state, np.arange(N), np.random.default_rng(5).normal(size=N))
    value, out = np.empty(N), np.empty(N)
    read_importances(optimizer, clock, state, value)
    read_weights(optimizer, clock, state, out)
    np.testing.assert_array_equal(value, np.abs(out))


def one_weight(optimizer, values, before=0):
    """The weight after each step of gradients."""
    state, clock = np.zeros((1, int(state_width(optimizer)))), new_clock(before)
    found = []
    for gradient in values:
        step(optimizer, clock, state, np.array([0]), np.array([gradient]))
        found.append(float(read_some(optimizer, clock, state, np.array([0]))[0]))
    return found


def test_a_weight_exactly_at_the_threshold():
    """Pruning takes what is below it, truncation what is not above it."""
    assert one_weight(Psgd(1.0, 0.0, 0.0, 0.25, 1), [-0.25, 0.0, -0.25]) == [0.25, 0.25, 0.5]
    assert one_weight(Psgd(1.0, 0.0, 0.0, 0.26, 2), [-0.25, 0.0, -0.5]) == [0.25, 0.0, 0.5]
    assert one_weight(Tgd(1.0, 0.0, 0.125, 0.5, 1), [-0.5, 0.0]) == [0.375, 0.25]
    assert one_weight(Tgd(1.0, 0.0, 0.125, 0.49, 1), [-0.5, 0.0, 0.25]) == [0.5, 0.5, 0.125]
    assert one_weight(Tgd(1.0, 0.0, 0.125, 0.5, 2), [-0.5, 0.0, 0.0]) == [0.5, 0.25, 0.25]


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


def test_an_update_is_made_from_what_it_knows_and_the_rest_is_checked():
    given = {"eta0": 0.5, "power": 0.25, "l1": 0.1, "l2": 0.2, "theta": None, "prune_every": 7}
    assert make_update("fobos", **given) == Fobos(0.5, 0.25, 0.1, 0.2)
    assert make_update("rda", **given) == Rda(0.5, 0.25, 0.1, 0.2)
    assert type(make_update("rda", **given, started=True)) is RdaFrom
    assert make_update("rda", **given, adaptive=True) == AdaptiveRda(0.5, 0.1, 0.2)
    assert type(make_update("rda", **given, adaptive=True, started=True)) is AdaptiveRdaFrom
    assert make_update("psgd", **given) == Psgd(0.5, 0.25, 0.2, 0.02, 7)
    assert make_update("tgd", **given) == Tgd(0.5, 0.25, 0.1, np.inf, 7)
    for name in ("psgd", "tgd"):
        assert make_update(name, **{**given, "theta": 0}).theta == 0.0
    kinds = {"fobos": 1, "rda": 1, "psgd": 2, "tgd": 2}  # numbers kept per weight
    assert {name: int(state_width(make_update(name, **given))) for name in kinds} == kinds
    for started, adaptive, width in ((True, False, 2), (False, True, 2), (True, True, 3)):
        update = make_update("rda", **given, started=started, adaptive=adaptive)
        assert int(state_width(update)) == width
    for name, wrong in (
        ("sgd", {}),
        ("psgd", {"theta": -0.1}),
        ("psgd", {"theta": np.nan}),
        ("fobos", {"adaptive": True}),
        ("rda", {"eta0": 0.0}),
        ("rda", {"power": -1.0}),
        ("rda", {"l1": -1.0}),
        ("rda", {"l2": -1.0}),
        ("psgd", {"prune_every": 0}),
    ):
        with pytest.raises(ParameterError, match=next(iter(wrong), "solver")):
            make_update(name, **{**given, **wrong})
