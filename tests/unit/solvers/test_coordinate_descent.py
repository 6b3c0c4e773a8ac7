"""One step along one weight against a grid."""

import numpy as np
import pytest

from rankine.solvers.coordinate_descent import (
    FIRST_VIOLATORS,
    exponential_step,
    extrapolated,
    newton_step,
    quadratic_step,
    violation,
    working_set,
)
from rankine.solvers.problem import Penalty

pytestmark = pytest.mark.kernels

RNG = np.random.default_rng(3)
DRAWS = [
    (
        RNG.normal() * 3,
        10 ** RNG.uniform(-4, 1),
        10 ** RNG.uniform(-1, 1),
        RNG.choice([0.0, RNG.normal()]),
        RNG.choice([0.0, 0.7]),
        RNG.choice([0.0, 0.5]),
    )
    for _ in range(40)
]


def minimum(function, around):
    grid = around + np.linspace(-1, 1, 4001) * max(1.0, abs(around))
    return min(function(d) for d in grid)


@pytest.mark.parametrize(("g", "h", "R", "w", "l1", "l2"), DRAWS)
def test_steps_minimise_their_bounds(g, h, R, w, l1, l2):
    def penalty(d):
        return l1 * abs(w + d) + l2 / 2 * (w + d) ** 2

    def parabola(d):
        return g * d + h / 2 * d * d + penalty(d)

    def exponential(d):
        return g * d + h / R**2 * (np.expm1(R * abs(d)) - R * abs(d)) + penalty(d)

    for bound, step in (
        (parabola, quadratic_step(g, h, w, l1, l2)),
        (exponential, exponential_step(g, h, R, w, l1, l2)),
    ):
        assert bound(step) <= minimum(bound, step) + 1e-9
        assert bound(step) <= bound(0.0) + 1e-12


def test_a_vanishing_curvature_does_not_make_the_step_tiny():
    # phi'' is 0.01 here but may be 30 elsewhere: the parabola alone would creep.
    step = newton_step(-2.2, 0.012, 0.27, 30.0, 2.7, 1.6, 0.0)
    assert step > 5.0


def test_violation_is_zero_exactly_at_the_optimum():
    assert violation(0.5, 0.0, 0.5, 0.0) == 0.0
    assert violation(0.6, 0.0, 0.5, 0.0) == pytest.approx(0.1)
    assert violation(-0.5, 2.0, 0.5, 0.0) == 0.0
    assert violation(0.5, -2.0, 0.4, 0.1) == pytest.approx(0.1)


def test_a_linear_sequence_is_followed_to_its_end():
    """As many steps as directions tell the fixed point of x -> A x + b."""
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    A = turn @ np.diag([0.9, 0.5, 0.2]) @ turn.T
    end = np.array([1.0, 2.0, 3.0])
    points = [end + np.array([0.3, -0.2, 0.1])]
    for _ in range(4):
        points.append(end + A @ (points[-1] - end))
    found = extrapolated(points)
    assert np.abs(found - end).max() < 1e-3 * np.abs(points[-1] - end).max()
    assert extrapolated([end] * 5) is None


def test_an_extrapolated_weight_keeps_its_sign_or_is_zero():
    target = extrapolated([np.array([1.0 - 0.1**k, 0.4 * 0.5**k - 0.02]) for k in range(4)])
    assert target[0] == pytest.approx(1.0, abs=1e-6)
    assert target[1] == 0.0


@pytest.mark.parametrize("l1", [0.0, 0.1])
@pytest.mark.parametrize("n_active", [3, 2 * FIRST_VIOLATORS])
def test_a_working_set_is_every_weight_and_the_worst_of_the_others(l1, n_active):
    slopes = np.random.default_rng(1).permutation(np.linspace(0.2, 1.0, 1000))
    w = np.zeros(1000)
    w[:n_active] = -1.0
    chosen, worst = working_set(slopes, w, Penalty(l1, 0.0))
    others = n_active + np.argsort(-slopes[n_active:])
    room = max(FIRST_VIOLATORS, n_active) if l1 else 1000
    assert set(chosen) == {*range(n_active), *others[:room]}
    assert worst == pytest.approx(1.0 - l1, abs=0.01)
