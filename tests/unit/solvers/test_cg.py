"""Conjugate gradients against the definition of the method, and honest ends."""

from __future__ import annotations

import numpy as np
import pytest
from dense_system import DenseSystem, random_system
from resume_points import StateRecorder, same_end

from rankine.solvers.cg import MAX_REFRESH, solve_cg, solve_shifted_cg


def krylov_minima(system, gamma, steps):
    """Residuals of the minimisers over the Krylov spaces, by dense algebra."""
    H, b = system.A + gamma * np.eye(len(system.b)), system.b
    found, basis = [1.0], np.zeros((0, len(b)))
    v = b
    for _ in range(steps):
        v = v - basis.T @ (basis @ v)
        v = v - basis.T @ (basis @ v)
        basis = np.vstack([basis, v / np.linalg.norm(v)])
        w = basis.T @ np.linalg.solve(basis @ H @ basis.T, basis @ b)
        found.append(np.linalg.norm(b - H @ w) / np.linalg.norm(b))
        v = H @ basis[-1]
    return found


@pytest.mark.parametrize("gamma", [0.0, 0.5])
def test_every_iterate_is_the_minimum_over_its_krylov_space(gamma):
    system = random_system()
    solution = solve_cg(system, gamma, tol=1e-10)
    residuals = [record["residual"] for record in solution.trace]
    np.testing.assert_allclose(residuals[:-1], krylov_minima(system, gamma, 6)[:-1], rtol=1e-6)
    assert (solution.n_iter, len(residuals)) == (6, 7)
    assert solution.certificate["products"] == 6 + 1  # the last for the true residual
    expected = np.linalg.solve(system.A + gamma * np.eye(6), system.b)
    np.testing.assert_allclose(solution.coef, expected, rtol=1e-8)
    assert solution.objective == pytest.approx(system.objective(expected, gamma))


def test_shifted_systems_share_products_and_equal_separate_runs():
    gammas, system = [2.0, 0.1, 0.5], random_system(1)
    together = solve_shifted_cg(system, gammas, tol=1e-9)
    assert system.products == 6 + 2 * len(gammas)  # then the true residual of each, twice
    for gamma, solution in zip(gammas, together, strict=True):
        alone = solve_cg(random_system(1), gamma, tol=1e-9)
        np.testing.assert_allclose(solution.coef, alone.coef, rtol=1e-9)
        assert (solution.n_iter, solution.stop_reason) == (alone.n_iter, "converged")
        told, own = (
            [(record["iteration"], record["residual"]) for record in one.trace]
            for one in (solution, alone)
        )
        np.testing.assert_allclose(told[:-1], own[:-1], rtol=1e-5)


def test_a_converged_shifted_system_does_not_change():
    """The easy system ends at its own tolerance, while the hard one goes on."""
    easy, hard = solve_shifted_cg(random_system(2), [50.0, 0.0], tol=1e-3)
    assert easy.n_iter == solve_cg(random_system(2), 50.0, tol=1e-3).n_iter < hard.n_iter
    assert easy.trace[-1]["residual"] <= 1e-3 < easy.trace[-2]["residual"]


@pytest.mark.parametrize("place", [0, 2, 4])
def test_shifted_systems_resume_with_the_same_bits(place):
    def run(marks):
        system = random_system(3)
        system.problem.resume_point = marks
        return solve_shifted_cg(system, [1.0, 0.01], tol=1e-9)

    first = StateRecorder()
    whole = run(first)
    known = first.at(place)
    for one, other in zip(run(known), whole, strict=True):
        same_end(one, other)
    assert known.kept[0][1][5] == place  # so many iterations were not made again


def test_a_callback_ends_all_systems():
    seen = []

    def stop(progress):
        seen.append((progress.step, progress.total, progress.values["residual"]))
        found.append(progress.coef())
        return progress.step == 3

    found = []
    system = random_system(4)
    ends = solve_shifted_cg(system, [1.0, 0.1], tol=1e-12, max_iter=50, callbacks=[stop])
    assert [(end.stop_reason, end.n_iter) for end in ends] == [("callback", 3)] * 2
    assert [step[:2] for step in seen] == [(1, 50), (2, 50), (3, 50)]
    assert seen[-1][2] == ends[1].trace[-1]["residual"] == ends[1].certificate["residual"]
    np.testing.assert_array_equal(found[-1], ends[1].coef)  # of the smallest gamma
    assert system.products == 3


def test_a_budget_is_kept_by_all_systems():
    system = random_system(5)
    ends = solve_shifted_cg(system, [1.0, 0.01], tol=1e-12, max_iter=2)
    assert system.products == 2 + 2 * (1 + 2 + 1)  # then each is polished within the same budget
    assert [end.stop_reason for end in ends] == ["max_iter"] * 2
    polished = [[record.get("polish") for record in end.trace] for end in ends]
    assert polished == [[None] * 3 + [1.0] * 2] * 2
    assert [end.n_iter for end in ends] == [4, 4]


def test_imprecise_products_are_retried_a_few_times():
    """The recursion says converged, the true residual says no, again and again."""
    plain = random_system(6)
    system = DenseSystem(plain.A, plain.b, np.float32)
    solution = solve_cg(system, 0.1, tol=1e-13)
    assert solution.stop_reason == "precision"
    assert system.products == solution.n_iter + MAX_REFRESH
    assert np.linalg.norm(plain.b - plain.A @ solution.coef - 0.1 * solution.coef) < 1e-5
    # What is reported is the residual of these products, not what the recursion makes of it.
    left = np.linalg.norm(plain.b - system.times(solution.coef, 0.1)) / np.linalg.norm(plain.b)
    assert solution.certificate["residual"] == pytest.approx(left)
    assert left > 1e-13


@pytest.mark.parametrize("bend", [0.0, -1.0])
def test_a_direction_without_positive_curvature_ends_the_run(bend):
    system = DenseSystem(bend * np.eye(3), np.ones(3))
    solution = solve_cg(system, 0.0, max_iter=50)
    assert (solution.stop_reason, system.products) == ("precision", 2 * MAX_REFRESH)
    assert not solution.coef.any()
    system = DenseSystem(bend * np.eye(3), np.ones(3))
    assert solve_shifted_cg(system, [0.0], max_iter=50)[0].stop_reason == "precision"
    assert system.products == 1 + 2 * MAX_REFRESH


def test_a_solved_system_takes_no_iteration():
    """Numbers that rounding does not touch: a tolerance of 0 is met."""
    system = DenseSystem(np.diag([2.0, 2.0]), [4.0, 0.0])
    solution = solve_cg(system, 0.0, tol=0.0)
    assert (solution.stop_reason, solution.n_iter, system.products) == ("converged", 1, 2)
    assert [end.n_iter for end in solve_shifted_cg(system, [0.0, 2.0], tol=0.0)] == [1, 1]
    assert system.products == 2 + 1 + 2 * 2
    half = solve_cg(DenseSystem(np.diag([2.0, 2.0]), [4.0, 0.0]), 0.0, start=[2.0, 1.0], tol=0.5)
    assert (half.n_iter, half.trace[0]["residual"]) == (0, 0.5)


def test_a_zero_right_hand_side_takes_no_step():
    nothing = DenseSystem(np.eye(2), np.zeros(2))
    for solution in (solve_cg(nothing, 0.1), *solve_shifted_cg(nothing, [0.1, 1.0])):
        assert (solution.stop_reason, solution.n_iter) == ("converged", 0)
    assert solve_cg(nothing, 0.0, start=[2.0, 0.0], max_iter=0).trace[0]["residual"] == 2.0
