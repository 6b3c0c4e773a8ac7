"""Rounded hinges, bad scales, and honest ends."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from rankine.core.errors import DivergenceError
from rankine.data import Dataset
from rankine.losses.pair_queries import pair_risk
from rankine.solvers.bundle import interior_dual, maximise_dual, solve_bundle
from rankine.solvers.newton import solve_newton, solve_nonsmooth, solve_rounded
from rankine.solvers.problem import RowsProblem


def badly_scaled(scale, m=300):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(m, 4))
    X[:, 3] = rng.uniform(0, scale, m)
    y = np.clip(np.round(X[:, :3] @ [1, -1, 0.5] + X[:, 3] / scale * 2), 0, 3)
    return Dataset.from_arrays(X, y, np.repeat(np.arange(m // 10), 10))


def hinge(data):
    return RowsProblem.of(data, pair_risk(data))


@pytest.mark.parametrize("positive", [False, True])
def test_cuts_and_rounding_find_the_same_optimum(positive):
    problem = hinge(badly_scaled(1.0))
    found = [
        solve(problem, 0.05, tol=1e-4, positive=positive)
        for solve in (solve_bundle, solve_rounded, solve_nonsmooth)
    ]
    for one in found:
        assert one.stop_reason == "converged"
        assert one.certificate["relative_gap"] <= 1e-4
        assert one.objective == pytest.approx(found[0].objective, abs=1e-4)
        assert one.certificate["lower_bound"] <= min(other.objective for other in found)


@pytest.mark.parametrize("scale", [1e3, 1e6, 1e9])
def test_a_column_of_another_scale_is_solved_to_its_certificate(scale):
    solution = solve_nonsmooth(hinge(badly_scaled(scale)), 2e-3)
    assert solution.stop_reason == "converged"
    assert 0 <= solution.certificate["gap"] <= 1e-3


@pytest.mark.parametrize("scale", [1e20, 1e60])
def test_no_solver_says_converged_where_numbers_are_too_coarse(scale):
    """A bound that rounding has lifted above the objective proves nothing."""
    problem = hinge(badly_scaled(scale))
    for solve in (solve_bundle, solve_nonsmooth):
        solution = solve(problem, 2e-3, max_iter=300)
        assert solution.unfinished
        assert solution.certificate["relative_gap"] > 1e-3


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_overflow_is_an_error_with_a_cure():
    data = badly_scaled(1e170)
    squared = RowsProblem.of(data, pair_risk(data, None, "squared_hinge"))
    for solve, problem in ((solve_bundle, hinge(data)), (solve_newton, squared)):
        with pytest.raises(DivergenceError, match="Scale the features"):
            solve(problem, 2e-3)


def test_the_interior_point_reaches_the_dual_optimum():
    rng, l2 = np.random.default_rng(3), 0.1
    for trial in range(5):
        cuts = rng.normal(size=(6, 3)) * 10.0 ** rng.uniform(-2, 2, size=3)
        gram, b = cuts @ cuts.T, rng.normal(size=6)
        alpha = np.full(6, 1 / 6)
        interior_dual(gram, b, l2, alpha, 1e-9)
        assert alpha.min() >= 0
        assert alpha.sum() == pytest.approx(1.0)
        best = optimize.minimize(
            lambda a, g=gram, b=b: a @ g @ a / (2 * l2) - b @ a,
            np.full(6, 1 / 6),
            jac=lambda a, g=gram, b=b: g @ a / l2 - b,
            bounds=[(0, 1)] * 6,
            constraints={"type": "eq", "fun": lambda a: a.sum() - 1},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 1000},
        )
        value = b @ alpha - alpha @ gram @ alpha / (2 * l2)
        assert value >= -best.fun - 1e-6 * max(1.0, abs(best.fun)), trial
        assert maximise_dual(gram, b, l2, alpha, 1e-7) <= 1e-6
