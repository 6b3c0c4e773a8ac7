"""Lazy updates equal their textbook forms to 1e-12, with the same zeros."""

from __future__ import annotations

import numpy as np
import pytest

from rankine.core.errors import ParameterError
from rankine.updates import AdaptiveRda, AdaptiveRdaFrom, Fobos, Psgd, Rda, RdaFrom, Tgd
from rankine.updates.lazy import (
    SHRINK,
    make_update,
    new_clock,
    read_importances,
    read_weights,
    set_weights,
    state_width,
)
from reference.elastic_rank import Eager
from reference.update_steps import N, draw_options, make, read_some, step

pytestmark = pytest.mark.kernels


#: Nothing is zero, one or the same as something else.
RICH = {"eta0": 0.6, "power": 0.5, "l1": 0.03, "l2": 0.2, "theta": 0.15, "every": 3}


def compare(kind, seed, steps, start=None, before=0, options=None):
    rng = np.random.default_rng(seed)
    options = draw_options(rng, kind) if options is None else options
    optimizer = make(kind, options, started=start is not None)
    slow = Eager(kind, N, **options, before=before)
    state, clock = np.zeros((N, int(state_width(optimizer)))), new_clock(before)
    if start is not None:
        slow.begin_at(start)
        set_weights(optimizer, state, start)
    zeros = 0
    for _ in range(steps):
        indices = np.sort(rng.choice(N, rng.integers(0, 4), replace=False)).astype(np.int64)
        np.testing.assert_allclose(
            read_some(optimizer, clock, state, indices), slow.w[indices], rtol=0, atol=1e-12
        )
        gradient = rng.normal(size=len(indices)) + 0.5 * np.sign(slow.w[indices])
        full, squares = np.zeros(N), np.zeros(N)
        full[indices], squares[indices] = gradient, gradient**2 * (0.25**2 + 0.75**2)
        step(optimizer, clock, state, indices, gradient)
        slow.step(full, squares)
        zeros += np.count_nonzero(slow.w == 0)
    out = np.empty(N)
    read_weights(optimizer, clock, state, out)
    np.testing.assert_allclose(out, slow.w, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(out == 0, slow.w == 0)
    return zeros


@pytest.mark.parametrize("kind", ["fobos", "rda", "adaptive", "psgd", "tgd"])
def test_lazy_updates_equal_eager_ones(kind):
    zeros = sum(compare(kind, seed, 120) for seed in range(12))
    assert zeros > 1000  # the zero patterns compared are not empty


@pytest.mark.parametrize("before", [0, 13])
@pytest.mark.parametrize("kind", ["fobos", "rda", "adaptive", "psgd", "tgd"])
def test_lazy_updates_equal_eager_ones_from_given_weights(kind, before):
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
        indices = np.sort(rng.choice(N, 2, replace=False)).astype(np.int64)
        gradient = rng.choice([-1.0, 1.0], 2) * 2.0 ** (10 * rng.integers(-15, 20, 2))
        before = clock[SHRINK]
        step(optimizer, clock, state, indices, gradient)
        if clock[SHRINK] > before:
            restarts.append(t % every)
        full = np.zeros(N)
        full[indices] = gradient
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
def test_a_zero_weight_has_no_sign(kind):
    options = {"eta0": 1.0, "power": 0.0, "l1": 10.0, "l2": 0.1, "theta": 20.0, "every": 1}
    optimizer = make(kind, options)
    state, clock = np.zeros((2, int(state_width(optimizer)))), new_clock()
    step(optimizer, clock, state, np.array([0, 1]), np.array([1.0, -1.0]))
    out = np.empty(2)
    read_weights(optimizer, clock, state, out)
    assert out.tolist() == [0.0, 0.0]
    assert not np.signbit(out).any()


@pytest.mark.parametrize("kind", ["fobos", "psgd", "tgd"])
def test_importance_is_the_magnitude_by_default(kind):
    optimizer = make(kind, draw_options(np.random.default_rng(1), kind))
    state, clock = np.zeros((N, int(state_width(optimizer)))), new_clock()
    step(optimizer, clock, state, np.arange(N), np.random.default_rng(5).normal(size=N))
    value, out = np.empty(N), np.empty(N)
    read_importances(optimizer, clock, state, value)
    read_weights(optimizer, clock, state, out)
    np.testing.assert_array_equal(value, np.abs(out))


OPTIONS = {"eta0": 0.5, "power": 0.25, "l1": 0.1, "l2": 0.2, "theta": None, "prune_every": 7}


def test_an_update_takes_the_options_it_has():
    assert make_update("fobos", **OPTIONS) == Fobos(0.5, 0.25, 0.1, 0.2)
    assert make_update("rda", **OPTIONS) == Rda(0.5, 0.25, 0.1, 0.2)
    assert type(make_update("rda", **OPTIONS, started=True)) is RdaFrom
    assert make_update("rda", **OPTIONS, adaptive=True) == AdaptiveRda(0.5, 0.1, 0.2)
    assert type(make_update("rda", **OPTIONS, adaptive=True, started=True)) is AdaptiveRdaFrom
    assert make_update("psgd", **OPTIONS) == Psgd(0.5, 0.25, 0.2, 0.02, 7)
    assert make_update("tgd", **OPTIONS) == Tgd(0.5, 0.25, 0.1, np.inf, 7)
    for name in ("psgd", "tgd"):
        assert make_update(name, **{**OPTIONS, "theta": 0}).theta == 0.0


@pytest.mark.parametrize(("name", "width"), [("fobos", 1), ("rda", 1), ("psgd", 2), ("tgd", 2)])
def test_the_state_has_the_width_of_the_update(name, width):
    assert int(state_width(make_update(name, **OPTIONS))) == width


@pytest.mark.parametrize(
    ("started", "adaptive", "width"), [(True, False, 2), (False, True, 2), (True, True, 3)]
)
def test_the_state_of_dual_averaging_also_holds_starts_and_squares(started, adaptive, width):
    update = make_update("rda", **OPTIONS, started=started, adaptive=adaptive)
    assert int(state_width(update)) == width


@pytest.mark.parametrize(
    ("name", "wrong", "parameter"),
    [
        ("sgd", {}, "solver"),
        ("psgd", {"theta": -0.1}, "theta"),
        ("psgd", {"theta": np.nan}, "theta"),
        ("fobos", {"adaptive": True}, "adaptive"),
        ("rda", {"eta0": 0.0}, "eta0"),
        ("rda", {"power": -1.0}, "power"),
        ("rda", {"l1": -1.0}, "l1"),
        ("rda", {"l2": -1.0}, "l2"),
        ("psgd", {"prune_every": 0}, "prune_every"),
    ],
)
def test_options_outside_their_domain_are_errors(name, wrong, parameter):
    with pytest.raises(ParameterError) as caught:
        make_update(name, **{**OPTIONS, **wrong})
    assert caught.value.parameter == parameter
