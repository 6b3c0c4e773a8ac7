"""One step along one weight against a grid."""

import numpy as np
import pytest

from rankine.solvers.coordinate_descent import (
    exponential_step,
    newton_step,
    quadratic_step,
    violation,
)

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
