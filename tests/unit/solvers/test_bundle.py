"""Cuts, their dual problems and the line search."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from rankine.solvers.bundle import Bundle, Trial, minimise_along

pytestmark = pytest.mark.kernels


def model_minimum(cuts, b, Lam, *, positive):
    """min Lam/2 |w|^2 + t with t above every cut, by a general solver."""
    n = cuts.shape[1]
    rows = np.hstack([-cuts, np.ones((len(b), 1))])
    found = minimize(
        lambda v: 0.5 * Lam * v[:n] @ v[:n] + v[n],
        np.r_[np.zeros(n), b.max()],
        jac=lambda v: np.r_[Lam * v[:n], 1.0],
        method="SLSQP",
        constraints=[{"type": "ineq", "fun": lambda v: rows @ v - b, "jac": lambda v: rows}],
        bounds=[(0 if positive else None, None)] * n + [(None, None)],
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return found.fun, found.x[:n]


def filled(rng, n_cuts, n, *, positive):
    bundle = Bundle(n, positive=positive)
    for _ in range(n_cuts):
        bundle.add(rng.normal(size=n), float(rng.normal() * 0.3))
    return bundle


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_the_dual_value_is_the_models_minimum(seed, positive):
    rng = np.random.default_rng(seed)
    Lam = 10.0 ** rng.integers(-2, 2)
    bundle = filled(rng, 8, 4, positive=positive)
    expected, w_expected = model_minimum(bundle.cuts, bundle.b, Lam, positive=positive)
    w, bound = bundle.solve(Lam, 1e-12)
    assert bound == pytest.approx(expected, rel=1e-7, abs=1e-9)
    np.testing.assert_allclose(w, w_expected, atol=1e-4 * max(1, np.abs(w).max()))
    assert not positive or (w >= 0).all()


@pytest.mark.parametrize("positive", [False, True])
def test_any_accuracy_gives_a_true_lower_bound(positive):
    rng = np.random.default_rng(9)
    bundle = filled(rng, 10, 5, positive=positive)
    expected, _ = model_minimum(bundle.cuts, bundle.b, 0.1, positive=positive)
    _, bound = bundle.solve(0.1, 10.0)
    assert bound <= expected + 1e-9


def test_the_free_cut_bounds_by_zero():
    w, bound = Bundle(3).solve(1.0, 1e-9)
    assert bound == 0.0
    assert not w.any()


def test_merging_cuts_keeps_the_bound_and_the_memory():
    rng = np.random.default_rng(3)
    bundle = filled(rng, 20, 4, positive=False)
    bundle.max_cuts = 12
    _, before = bundle.solve(0.1, 1e-12)
    while bundle.n_cuts < bundle.max_cuts:
        bundle.add(rng.normal(size=4), -100.0)
    bundle.add(rng.normal(size=4), -100.0)
    assert bundle.n_cuts <= bundle.max_cuts
    assert bundle.alpha.sum() == pytest.approx(1.0)
    _, after = bundle.solve(0.1, 1e-12)
    assert after >= before - 1e-9


def test_idle_cuts_are_dropped():
    bundle = Bundle(2)
    bundle.add(np.array([1.0, 0.0]), 0.5)
    bundle.add(np.array([0.0, 1.0]), -100.0)
    for _ in range(61):
        bundle.solve(1.0, 1e-12)
    assert bundle.b.tolist() == [0.0, 0.5]


@pytest.mark.parametrize("seed", range(8))
def test_line_search_finds_the_minimum_of_a_piecewise_quadratic(seed):
    rng = np.random.default_rng(seed)
    slopes, offsets = np.sort(rng.normal(size=12)) * 3, rng.normal(size=12)
    linear, bend = -0.5, float(rng.random() + 0.1)

    def ask(step):
        values = slopes * step + offsets
        k = int(np.argmax(values))
        return values[k], slopes[k], k

    risk, slope, _ = ask(0.0)
    start = Trial(0.0, 1.0 + risk, risk, slope, None)
    best = minimise_along(ask, start, (linear, bend), rtol=1e-9, max_trials=60)
    steps = np.linspace(0, 60, 600_001)
    values = (slopes[:, None] * steps + offsets[:, None]).max(axis=0)
    expected = (1.0 + linear * steps + 0.5 * bend * steps**2 + values).min()
    assert expected - 1e-3 <= best.objective <= expected + 1e-9


def test_line_search_stays_when_the_start_is_a_minimum():
    start = Trial(0.0, 2.0, 1.0, 5.0, None)
    assert minimise_along(lambda step: (9.0, 1.0, None), start, (1.0, 1.0)) is start


def test_line_search_respects_the_longest_step():
    start = Trial(0.0, 0.0, 0.0, -10.0, None)
    best = minimise_along(
        lambda step: (-10.0 * step, -10.0, None), start, (0.0, 1.0), max_step=0.25
    )
    assert best.step == 0.25
