"""The model against dense algebra, the steps by their rule, and when bounds are asked for."""

from __future__ import annotations

import numpy as np
import pytest
from dense_system import random_system

from rankine.solvers import quasi_newton as module
from rankine.solvers.base import ResumePoint
from rankine.solvers.problem import Penalty
from rankine.solvers.quasi_newton import solve_quasi_newton

pytestmark = pytest.mark.kernels


class Quadratic:
    """w'Aw/2 - b'w + constant, positive everywhere, and its dual, by dense algebra."""

    def __init__(self, seed=0, n=6):
        system = random_system(seed, n)
        self.A, self.b = system.A, system.b
        self.constant = 1.0 + system.b @ np.linalg.solve(system.A, system.b) / 2
        self.asked, self.bounds = [], []
        self.resume_point = lambda _solver: ResumePoint()

    def value_and_gradient(self, w):
        self.asked.append(w.copy())
        return w @ self.A @ w / 2 - self.b @ w + self.constant, self.A @ w - self.b

    def dual(self, w, kappa):
        """min over v of the loss - kappa <its gradient at w, v>."""
        self.bounds.append((w.copy(), kappa))
        pull = self.b + kappa * (self.A @ w - self.b)
        return self.constant - pull @ np.linalg.solve(self.A, pull) / 2


def curvature(seed, pairs):
    """A curvature that has seen some steps of a quadratic, and the matrix it stands for."""
    rng, A = np.random.default_rng(seed), random_system(seed).A
    known = module._Curvature(6, 2.0)
    seen = []
    for _ in range(pairs):
        s = rng.normal(size=6)
        known.add(s, A @ s)
        seen.append((s, A @ s))
    B = known.gamma * np.eye(6)
    for s, y in seen[-module.MEMORY :]:
        B = B - np.outer(B @ s, B @ s) / (s @ B @ s) + np.outer(y, y) / (y @ s)
    return known, B


@pytest.mark.parametrize("pairs", [0, 1, 3, 5])
def test_the_compact_form_is_the_recursion_of_bfgs(pairs):
    known, B = curvature(1, pairs)
    N, Q = known.factors()
    assert N.shape == Q.shape == (6, 2 * pairs)
    np.testing.assert_allclose(known.gamma * np.eye(6) - Q @ N.T, B, atol=1e-8)
    if pairs:
        s, y = known.steps[-1], known.changes[-1]
        assert known.gamma == pytest.approx(y @ y / (s @ y))


def test_last_steps_are_stored_unless_without_curvature():
    known, _ = curvature(2, module.MEMORY + 3)
    assert len(known.steps) == len(known.changes) == module.MEMORY
    last = known.steps[-1]
    gamma = known.gamma
    for y in (np.zeros(6), -last, np.full(6, np.nan)):
        known.add(last + 1.0, y)
        assert known.steps[-1] is last
        assert known.gamma == gamma
    unit, other = np.eye(2)
    flat = module._Curvature(2, 1.0)
    flat.add(unit, 1e-10 * unit + other)  # at the very edge
    assert not flat.steps
    flat.add(unit, 1e-9 * unit + other)
    assert flat.steps
    assert known.forget()
    assert (known.steps, known.changes) == ([], [])
    assert not known.forget()
    twice = module._Curvature(2, 1.0)
    twice.steps = twice.changes = [np.zeros(2)]  # singular
    assert twice.factors()[0].shape == (2, 0)


def slow_model(w, g, l1, B, sweeps):
    """Coordinate descent on g'd + d'Bd/2 + l1 |w + d|_1, coordinate by coordinate."""
    d, first = np.zeros(len(w)), None
    for _ in range(sweeps):
        worst = 0.0
        for j in range(len(w)):
            slope, bend = g[j] + B[j] @ d, B[j, j]
            u = w[j] + d[j] - slope / bend
            move = np.sign(u) * max(abs(u) - l1 / bend, 0.0) - w[j] - d[j]
            d[j] += move
            worst = max(worst, abs(move) * bend)
        first = worst if first is None else first
        if worst <= module.MODEL_SHARE * first:
            break
    return d


@pytest.mark.parametrize("l1", [0.0, 0.4])
@pytest.mark.parametrize("seed", range(4))
def test_the_model_is_minimised_by_sweeps(seed, l1):
    known, B = curvature(seed, 3)
    rng = np.random.default_rng(seed)
    w, g = rng.normal(size=6) * (rng.random(6) < 0.5), rng.normal(size=6)
    N, Q = known.factors()
    for sweeps in (1, 2, 100):
        d, v = np.zeros(6), np.zeros(6)
        module._minimise_model(w, g, l1, known.gamma, N, Q, d, v, sweeps)
        np.testing.assert_allclose(d, slow_model(w, g, l1, B, sweeps), atol=1e-8)
        np.testing.assert_allclose(v, N.T @ d, atol=1e-9)


def test_a_flat_model_gets_a_minimal_curvature():
    """1e-10 of its gamma."""
    for gamma in (1e6, 1e-3):
        d, v = np.zeros(1), np.zeros(1)
        N, Q = np.ones((1, 1)), np.full((1, 1), gamma)
        module._minimise_model(np.zeros(1), np.array([3.0]), 0.0, gamma, N, Q, d, v, 1)
        np.testing.assert_allclose(d, -3.0 / (1e-10 * gamma))
        np.testing.assert_array_equal(v, d)


PENALTY = Penalty(0.6, 0.2)


def optimum(problem, penalty):
    """By many plain proximal steps."""
    w = np.zeros(6)
    for _ in range(2_000):
        u = w - (problem.A @ w - problem.b + penalty.l2 * w) / 11
        w = np.sign(u) * np.maximum(np.abs(u) - penalty.l1 / 11, 0)
    return w, w @ problem.A @ w / 2 - problem.b @ w + problem.constant + penalty.value(w)


def test_optimum_bound_and_number_of_rounds_are_correct():
    problem = Quadratic()
    w, best = optimum(problem, PENALTY)
    assert 0 < np.count_nonzero(w) < 6
    solution = solve_quasi_newton(problem, PENALTY, np.ones(6), at_zero=2.0, tol=1e-9)
    assert solution.stop_reason == "converged"
    np.testing.assert_allclose(solution.coef, w, atol=1e-4)
    certificate = solution.certificate
    assert certificate["lower_bound"] <= best <= solution.objective <= best + 2e-9
    assert certificate["gap"] == solution.objective - certificate["lower_bound"]
    assert certificate["relative_gap"] == certificate["gap"] / 2.0
    assert solution.trace[-1]["rounds"] == len(problem.asked)
    assert solution.trace[0]["rounds"] == 1
    assert solution.n_iter <= 40
    given = Quadratic()
    first = given.value_and_gradient(np.ones(6))
    known = solve_quasi_newton(
        given, PENALTY, np.ones(6), at_zero=2.0, tol=1e-9, start_value_and_gradient=first
    )
    assert [one["rounds"] + 1 for one in known.trace] == [one["rounds"] for one in solution.trace]
    np.testing.assert_array_equal(known.coef, solution.coef)


@pytest.mark.parametrize("d", [-0.05 * np.ones(6), 3.0 * np.ones(6), -3e5 * np.ones(6)])
def test_a_step_is_halved_until_the_decrease_suffices(d):
    problem = Quadratic(1)
    run = module._QuasiNewton(problem, PENALTY, np.zeros(6), None)
    start, gradient = run.point, run._smooth_gradient(run.point)
    np.testing.assert_allclose(gradient, -problem.b)
    downhill = d if gradient @ d < 0 else -d
    promise = -(gradient @ downhill + 0.6 * np.abs(downhill).sum())
    if promise <= 0:
        promise = 1e-3
    objective = lambda w: problem.value_and_gradient(w)[0] + PENALTY.value(w)  # noqa: E731
    size = 1.0
    while size >= 1e-12 and objective(size * downhill) > start.objective - 1e-4 * size * promise:
        size /= 2
    moved = run.step(downhill, promise)
    assert moved == (size >= 1e-12)
    if moved:
        np.testing.assert_array_equal(run.point.w, size * downhill)
        np.testing.assert_array_equal(run.curvature.steps[0], size * downhill)
        change = (problem.A + 0.2 * np.eye(6)) @ (size * downhill)
        np.testing.assert_allclose(run.curvature.changes[0], change, atol=1e-9)
    else:
        assert run.point is start


def test_a_step_with_equal_objective_is_taken_but_reports_no_improvement():
    problem = Quadratic()
    problem.value_and_gradient = lambda w: (1.0, np.zeros_like(w))
    run = module._QuasiNewton(problem, Penalty(0.0, 0.0), np.zeros(6), None)
    assert not run.step(np.ones(6), 0.0)
    assert run.point.w.tolist() == [1.0] * 6


def test_bounds_are_computed_at_both_ends_and_regularly(monkeypatch):
    monkeypatch.setattr(module, "NEAR", 0.0)
    monkeypatch.setattr(module, "BOUND_EVERY", 3)
    problem = Quadratic(2)
    told = []

    def stands(progress):
        told.append((progress.step, len(problem.bounds)))

    solution = solve_quasi_newton(
        problem,
        Penalty(0.0, 0.1),
        np.zeros(6),
        at_zero=1.0,
        tol=1e-300,
        max_iter=8,
        callbacks=[stands],
    )
    counts = np.diff([0, *(count for _, count in told)])
    assert np.flatnonzero(counts).tolist() == [0, 3, 6, 8]
    assert (solution.stop_reason, solution.n_iter) == ("max_iter", 8)


def test_bounds_are_computed_when_the_predicted_decrease_is_small():
    problem = Quadratic(2)
    asked, promises = [], []
    direction = module._QuasiNewton.direction

    def noted(run):
        d, promise = direction(run)
        promises.append(promise)
        asked.append(len(problem.bounds))
        return d, promise

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module._QuasiNewton, "direction", noted)
        solve_quasi_newton(problem, PENALTY, np.zeros(6), at_zero=0.5, tol=1e-5)
    bounded = np.diff([*asked, len(problem.bounds)]) > 0
    expected = [k == 0 or promise <= 0.5e-5 for k, promise in enumerate(promises)]
    assert bounded.tolist() == expected
    assert sum(expected[1:]) >= 1


def test_direction_minimises_the_model_and_predicts_its_linear_part():
    problem = Quadratic(3)
    run = module._QuasiNewton(problem, PENALTY, np.linspace(-1, 1, 6), None)
    d, promise = run.direction()
    w = run.point.w
    g = problem.A @ w - problem.b + 0.2 * w
    assert run.curvature.gamma == pytest.approx(np.linalg.norm(problem.A @ w - problem.b))
    np.testing.assert_allclose(d, slow_model(w, g, 0.6, run.curvature.gamma * np.eye(6), 100))
    assert promise == pytest.approx(-(g @ d) - 0.6 * (np.abs(w + d).sum() - np.abs(w).sum()))


@pytest.mark.parametrize(("fails_at", "n_iter"), [(0, 0), (3, None)])
def test_a_failed_step_resets_the_curvature_or_ends_the_run(fails_at, n_iter, monkeypatch):
    step, calls = module._QuasiNewton.step, []

    def failing(run, d, promise):
        calls.append(len(run.curvature.steps))
        return len(calls) - 1 != fails_at and step(run, d, promise)

    monkeypatch.setattr(module._QuasiNewton, "step", failing)
    solution = solve_quasi_newton(Quadratic(), PENALTY, np.zeros(6), at_zero=1.0, tol=1e-9)
    if n_iter is None:
        assert solution.stop_reason == "converged"
        assert calls[3:5] == [3, 0]
    else:
        assert (solution.stop_reason, solution.n_iter) == ("precision", n_iter)


def test_the_run_ends_when_the_gap_equals_the_tolerance():
    trace = solve_quasi_newton(Quadratic(), PENALTY, np.zeros(6), at_zero=1.0, tol=1e-3).trace
    again = solve_quasi_newton(Quadratic(), PENALTY, np.zeros(6), at_zero=1.0, tol=trace[-1]["gap"])
    assert (again.stop_reason, again.certificate["gap"]) == ("converged", trace[-1]["gap"])
    first = solve_quasi_newton(Quadratic(), PENALTY, np.zeros(6), at_zero=1.0, tol=trace[0]["gap"])
    assert (first.stop_reason, first.n_iter) == ("converged", 0)
    stopped = solve_quasi_newton(
        Quadratic(),
        PENALTY,
        np.zeros(6),
        at_zero=1.0,
        tol=trace[0]["gap"],
        callbacks=[lambda _: True],
    )
    assert stopped.stop_reason == "converged"
