"""What mixtures share: directions of linear systems, and cuts."""

import numpy as np
import pytest

from rankine.data import Dataset
from rankine.kernels.products import Products
from rankine.losses.mixture import mix_risks
from rankine.losses.pair_queries import pair_risk
from rankine.solvers import mixture
from rankine.solvers.bundle import solve_bundle
from rankine.solvers.mixture import GoalCuts, GoalSystems
from rankine.solvers.problem import RowsProblem

RNG = np.random.default_rng(0)


def systems(n=30, spread=3):
    """Return two random systems and ``GoalSystems`` of them."""
    factors = RNG.normal(size=(2, 200, n)) * np.logspace(0, -spread, n)
    matrices = [factor.T @ factor for factor in factors]
    sides = np.array([factor.T @ RNG.normal(size=200) for factor in factors])
    goals = GoalSystems(sides, lambda v: np.array([A @ v for A in matrices]), np.ones(2))
    return matrices, sides, goals


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 1.0])
def test_the_solution_is_that_of_the_mixed_system(share):
    matrices, sides, goals = systems()
    for first in (0.2, share):  # from nothing, and from the directions of another mixture
        weights = np.array([first, 1.0 - first])
        solution = goals.solve(weights, 0.5, tol=1e-10, max_iter=1000)
        mixed = sum(b * A for b, A in zip(weights, matrices, strict=True)) + 0.5 * np.eye(30)
        np.testing.assert_allclose(mixed @ solution.coef, weights @ sides, atol=1e-7)
        assert solution.stop_reason == "converged"
        optimum = np.linalg.solve(mixed, weights @ sides)
        gap = (solution.coef - optimum) @ mixed @ (solution.coef - optimum)
        assert gap <= solution.certificate["gap"] + 1e-20
        w = solution.coef
        risks = [1 + w @ A @ w - 2 * b @ w for A, b in zip(matrices, sides, strict=True)]
        np.testing.assert_allclose(goals.risks(w), risks)


def test_the_gap_is_certified_where_a_small_residual_does_not():
    _, _, goals = systems(spread=2)
    solution = goals.solve(np.array([0.5, 0.5]), 1e-9, tol=1e-3, max_iter=1000)
    assert solution.certificate["residual"] < 1e-3
    assert solution.certificate["relative_gap"] <= 1e-3


def test_neighbours_need_fewer_products():
    _, _, goals = systems(n=300, spread=4)
    goals.solve(np.array([0.5, 0.5]), 0.01, tol=1e-8, max_iter=1000)
    first = goals.n_products
    solution = goals.solve(np.array([0.49, 0.51]), 0.01, tol=1e-8, max_iter=1000)
    assert solution.n_iter < first / 2


def test_few_directions_in_memory_are_enough(monkeypatch):
    monkeypatch.setattr(mixture, "MAX_DIRECTIONS", 12)
    matrices, sides, goals = systems(spread=1)
    weights = np.array([0.4, 0.6])
    solution = goals.solve(weights, 10.0, tol=1e-8, max_iter=1000)
    mixed = sum(b * A for b, A in zip(weights, matrices, strict=True)) + 10.0 * np.eye(30)
    np.testing.assert_allclose(mixed @ solution.coef, weights @ sides, atol=1e-5)
    assert solution.stop_reason == "converged"


def test_a_limit_of_iterations_is_reported():
    _, _, goals = systems()
    solution = goals.solve(np.array([0.5, 0.5]), 1e-3, tol=1e-12, max_iter=2)
    assert (solution.stop_reason, solution.n_iter) == ("max_iter", 2)


def test_mixed_cuts_are_below_the_mixed_risk():
    X, qid = RNG.normal(size=(60, 4)), np.repeat(np.arange(10), 6)
    rows = [Dataset.from_arrays(X, RNG.integers(0, 3, 60), qid) for _ in range(2)]
    risks = [pair_risk(data, None, "hinge") for data in rows]
    products = Products(rows[0].rows, 4, 1)
    cuts = GoalCuts(risks, products, positive=False)
    problem = RowsProblem.from_dataset(rows[0], None, 1)
    for shares in ((1.0, 0.0), (0.3, 0.7)):
        weights = np.array(shares)
        risk = mix_risks(risks, weights, rows[0].queries)
        bundle = cuts.bundle(weights)
        solution = solve_bundle(problem.with_risk(risk), 0.1, tol=1e-6, bundle=bundle)
        assert solution.certificate["relative_gap"] <= 1e-6
    reused = cuts.bundle(np.array([0.6, 0.4]))
    risk = mix_risks(risks, np.array([0.6, 0.4]), rows[0].queries)
    assert reused.n_cuts > 2
    for _ in range(20):
        w = RNG.normal(size=4)
        assert (reused.cuts @ w + reused.b <= risk.evaluate(X @ w)[0] + 1e-12).all()
