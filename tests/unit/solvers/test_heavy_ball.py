"""Momentum descent: its region of stability, and who may end it."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from dense_system import random_system
from scipy import sparse

from error_checks import raises_for
from rankine.core.errors import DivergenceError
from rankine.data import Dataset
from rankine.kernels.random import (
    QUERY_ORDER,
    STEP_START,
    permutation,
    random_unit,
    stream_seed,
)
from rankine.losses.least_squares import least_squares_risk
from rankine.solvers.heavy_ball import (
    EXPLODED,
    MOMENTUM,
    ONLINE_SAFETY,
    PATIENCE,
    POWER_STEPS,
    SAFETY,
    TRANSIENT,
    Spectrum,
    _queries_per_step,
    lanczos,
    online_power_iteration,
    optimal_step_and_momentum,
    power_iteration,
    query_curvature,
    random_direction,
    solve_egdm,
    solve_gdm,
    solve_query_sgd,
    stable_eta,
)
from rankine.solvers.problem import NormalEquations, RowsProblem

pytestmark = pytest.mark.kernels


def system(seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    X = scale * rng.normal(size=(80, 5))
    data = Dataset.from_arrays(X, np.round(X @ rng.normal(size=5) / scale), np.repeat(range(8), 10))
    return NormalEquations(RowsProblem.from_dataset(data, least_squares_risk(data)))


@pytest.mark.parametrize("method", ["gdm", "egdm", "sgd"])
def test_a_callback_ends_the_run_at_once(method):
    equations = system()
    spectrum = lanczos(equations.times, 5, 0)
    seen = []

    def stop_at_three(progress):
        seen.append(progress.step)
        return progress.step == 3

    solve = {
        "gdm": partial(solve_gdm, equations, 0.1, spectrum.shifted(0.1)[0]),
        "egdm": partial(solve_egdm, equations, 0.1, spectrum.shifted(0.1)),
        "sgd": partial(solve_query_sgd, equations, 0.1, seed=0),
    }[method]
    solution = solve(tol=1e-14, callbacks=[stop_at_three])
    assert seen == [0, 1, 2, 3][method == "sgd" :]
    assert (solution.stop_reason, solution.n_iter) == ("callback", 3)


@pytest.mark.parametrize("eta", [100.0, stable_eta(10.0, 0.9), 0.0, -0.1, float("nan")])
def test_steps_outside_the_stable_region_are_rejected(eta):
    with raises_for("eta"):
        solve_gdm(system(), 0.1, 10.0, eta=eta)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_much_too_small_eigenvalue_raises_divergence():
    equations = system()
    largest = lanczos(equations.times, 5, 0).shifted(0.1)[0]
    with pytest.raises(DivergenceError, match=r"step [0-9]+"):
        solve_gdm(equations, 0.1, largest / 1000)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_an_infinite_spectrum_raises_an_error():
    with pytest.raises(DivergenceError):
        lanczos(system(scale=1e170).times, 5, 0)


def test_unconverged_passes_have_the_stop_reason_max_iter():
    solution = solve_query_sgd(system(), 0.1, seed=0, tol=1e-12, n_passes=2)
    assert solution.unfinished
    assert solution.certificate["residual"] > 1e-12


@pytest.mark.parametrize("solve", [solve_gdm, solve_egdm])
def test_residuals_are_relative_to_the_labels(solve):
    """Labels in other units: the same steps, and the same residuals."""
    found = []
    for unit in (1.0, 1024.0):
        equations = system()
        equations.b *= unit
        spectrum = lanczos(equations.times, 5, 0).shifted(0.1)
        spectrum = spectrum[0] if solve is solve_gdm else spectrum
        found.append(solve(equations, 0.1, spectrum, tol=1e-6))
    assert found[0].certificate["residual"] == found[1].certificate["residual"] <= 1e-6
    np.testing.assert_array_equal(1024.0 * found[0].coef, found[1].coef)


def test_a_zero_right_hand_side_takes_no_step():
    equations = system()
    equations.b *= 0.0
    solution = solve_gdm(equations, 0.1, lanczos(equations.times, 5, 0).shifted(0.1)[0])
    assert solution.stop_reason == "converged"
    assert not solution.coef.any()


def test_a_random_direction_is_made_of_normal_draws():
    """Box and Muller by the letter, from the same uniform draws."""
    n, seed = 6, 5
    normal = [
        np.sqrt(-2.0 * np.log1p(-random_unit(stream_seed(seed, 0), 2 * k)))
        * np.cos(2.0 * np.pi * random_unit(stream_seed(seed, 0), 2 * k + 1))
        for k in range(n)
    ]
    np.testing.assert_allclose(random_direction(n, seed), normal / np.linalg.norm(normal))


def spectral_radius(k, step, momentum):
    """Of one step of eq. 7 along an eigenvector."""
    turn = np.array([[1 + momentum - step * k, -momentum], [1.0, 0.0]])
    return np.abs(np.linalg.eigvals(turn)).max()


@pytest.mark.parametrize(("k1", "kn"), [(10.0, 0.1), (3.0, 2.0), (5.0, 5.0)])
def test_the_optimal_pair_contracts_both_ends_alike_and_the_stable_eta_is_the_edge(k1, kn):
    step, momentum = optimal_step_and_momentum(k1, kn)
    rate = (np.sqrt(k1) - np.sqrt(kn)) / (np.sqrt(k1) + np.sqrt(kn))
    for k in (k1, kn, (k1 + kn) / 2):
        assert spectral_radius(k, step, momentum) == pytest.approx(rate, abs=1e-6)
    for mu in (0.0, 0.5, 0.9):
        edge = (1 - mu) * stable_eta(k1, mu)
        assert spectral_radius(k1, 0.999 * edge, mu) < 1 < spectral_radius(k1, 1.001 * edge, mu)


def test_a_spectrum_is_shifted_and_never_below_zero():
    assert Spectrum(3.0, 0.5, 1).shifted(0.25) == (3.25, 0.75)
    assert Spectrum(3.0, -0.5, 1).shifted(0.25) == (3.25, 0.25)


def test_lanczos_finds_the_ritz_values_of_its_krylov_spaces():
    A = random_system(1).A
    asked = []

    def times(v):
        asked.append(v)
        return A @ v

    found = lanczos(times, 6, 3, steps=4)
    assert found.products == len(asked) == len(found.trace) == 4
    for k, record in enumerate(found.trace, 1):
        basis = np.array(asked[:k])
        np.testing.assert_allclose(basis @ basis.T, np.eye(k), atol=1e-12)
        values, vectors = np.linalg.eigh(basis @ A @ basis.T)
        top = vectors[:, -1] @ basis
        told = [record[name] for name in ("step", "kappa_1", "kappa_n", "bound")]
        residual = np.linalg.norm(A @ top - values[-1] * top)
        np.testing.assert_allclose(told, [k, values[-1], values[0], residual], rtol=1e-7)
    last = found.trace[-1]
    assert found.largest == pytest.approx(
        (last["kappa_1"] + last["bound"]) * (1 + 1e-12), rel=1e-15
    )
    assert found.smallest == last["kappa_n"]
    np.testing.assert_array_equal(asked[0], random_direction(6, 3))


def test_lanczos_ends_where_the_krylov_space_does():
    two = lanczos(lambda v: v * np.array([3.0, 3.0, 0.5, 0.5, 3.0]), 5, 0)
    assert two.products == 2
    assert two.largest == pytest.approx(3.0 * (1 + 1e-12), rel=2e-13)
    assert two.largest > 3.0
    assert two.smallest == pytest.approx(0.5)
    assert lanczos(lambda v: 0.0 * v, 5, 0).products == 1
    assert lanczos(lambda v: random_system().A @ v, 6, 0).products == 6


def slow_power(A, seed, steps):
    v, o = random_direction(len(A), seed), random_direction(len(A), seed, 1)
    told = []
    for _ in range(steps):
        v = A @ v
        told.append(np.linalg.norm(v))
        v /= told[-1]
        o = A @ o - told[-1] * o
        o /= np.linalg.norm(o)
    return told, o @ A @ o


def test_power_iteration_equals_the_published_algorithm():
    system = random_system(2)
    found = power_iteration(system.times, 6, 5, steps=7)
    told, smallest = slow_power(system.A, 5, 7)
    assert found.products == system.products == 15
    np.testing.assert_allclose([record["kappa_1"] for record in found.trace], told)
    assert [record["step"] for record in found.trace] == list(range(1, 8))
    assert found.largest == pytest.approx(told[-1])
    assert found.smallest == found.trace[-1]["kappa_n"] == pytest.approx(smallest)
    nothing = power_iteration(lambda v: 0.0 * v, 3, 0)
    assert (nothing.largest, nothing.smallest) == (0.0, 0.0)


def test_online_power_iteration_scales_each_block():
    blocks = [random_system(seed).A for seed in range(3)]
    blocks.insert(1, np.zeros((6, 6)))  # blind to every direction
    found = online_power_iteration([lambda v, A=A: A @ v for A in blocks], 6, 7, passes=2)
    v, growth, told = random_direction(6, 7), {}, []
    for step in range(8):
        moved = 4 * blocks[step % 4] @ v
        growth[step % 4] = np.linalg.norm(moved)
        if growth[step % 4] > 0:
            v = v + moved / growth[step % 4]
        v = v / np.linalg.norm(v)
        told.append(np.mean(list(growth.values())))
    np.testing.assert_allclose([record["kappa_1"] for record in found.trace], told)
    assert [record["step"] for record in found.trace] == list(range(1, 9))
    assert (found.smallest, found.products) == (0.0, 2)
    assert found.largest == pytest.approx(ONLINE_SAFETY * told[-1])


def slow_egdm(system, gamma, k1, kn, tol, max_iter, patience):
    """Eq. 7 with its guard, step by step: residuals and the eigenvalues believed in."""
    H, size = system.A + gamma * np.eye(len(system.b)), np.linalg.norm(system.b)
    w = before = best = np.zeros(len(system.b))
    lowest, half, since, told = np.inf, np.inf, 0, []

    def look():
        gradient = H @ w - system.b
        told.append((np.linalg.norm(gradient) / size, k1, kn))
        return gradient

    for iteration in range(max_iter + 1):
        gradient = look()
        if told[-1][0] < lowest:
            lowest, best = told[-1][0], w
        if told[-1][0] <= tol:
            break
        if iteration == 0 or lowest < half / 2:
            half, since = lowest, 0
        since += 1
        exploded = told[-1][0] > EXPLODED * lowest
        if exploded or since > patience + TRANSIENT * np.sqrt(k1 / kn):
            if exploded or kn <= gamma:
                k1 = 2 * k1
            else:
                kn = max(gamma, kn / 10)
            w = before = best
            gradient = look()
            half, since = lowest, 0
        root_1, root_n = np.sqrt(k1), np.sqrt(kn)
        step = 4 / (root_1 + root_n) ** 2
        momentum = ((root_1 - root_n) / (root_1 + root_n)) ** 2
        w, before = w - step * gradient + momentum * (w - before), w
    return told, best


@pytest.mark.parametrize(
    ("k1", "kn", "gamma"),
    [
        (10.1, 0.2, 0.1),
        (1.0, 0.2, 0.1),
        (10.5, 10.0, 0.1),
        (9.0, 5.0, 1e-4),
        (5.0, 0.01, 0.01),
        (12.0, 3.0, 1e-4),
    ],
)
@pytest.mark.parametrize("patience", [PATIENCE, -30])
def test_momentum_descent_restarts_by_its_rule(k1, kn, gamma, patience, monkeypatch):
    """Without patience the eigenvalues reach their bounds."""
    monkeypatch.setattr("rankine.solvers.heavy_ball.PATIENCE", patience)
    system = random_system(3)
    solution = solve_egdm(system, gamma, (k1, kn), tol=1e-7, max_iter=900)
    told, best = slow_egdm(random_system(3), gamma, k1, kn, 1e-7, 900, patience)
    found = [(one["residual"], one["kappa_1"], one["kappa_n"]) for one in solution.trace]
    assert len(found) == len(told)
    np.testing.assert_allclose(found, told, rtol=1e-5)
    np.testing.assert_allclose(solution.coef, best, rtol=1e-6)
    certificate = solution.certificate
    assert certificate["products"] == system.products == len(told)
    assert certificate["restarts"] == len(told) - solution.n_iter - 1
    assert (certificate["kappa_1"], certificate["kappa_n"]) == pytest.approx(told[-1][1:])
    assert certificate["residual"] == min(one["residual"] for one in solution.trace)
    assert solution.objective == pytest.approx(system.objective(best, gamma))


def test_fixed_steps_are_equation_7():
    system = random_system(4)
    eta, mu, gamma = 0.3 * stable_eta(10.5, 0.6), 0.6, 0.5
    solution = solve_gdm(
        system, gamma, 10.5, eta=eta, momentum=mu, start=np.ones(6), tol=1e-30, max_iter=9
    )
    H, w, before, told = system.A + gamma * np.eye(6), np.ones(6), np.ones(6), []
    for _ in range(10):
        told.append(np.linalg.norm(H @ w - system.b) / np.linalg.norm(system.b))
        w, before = w - (1 - mu) * eta * (H @ w - system.b) + mu * (w - before), w
    np.testing.assert_allclose([one["residual"] for one in solution.trace], told, rtol=1e-10)
    assert (solution.stop_reason, solution.n_iter) == ("max_iter", 9)
    assert (solution.certificate["eta"], solution.certificate["kappa_1"]) == (eta, 10.5)
    plain = solve_gdm(system, gamma, 10.5, max_iter=1)
    assert plain.certificate["eta"] == 1 / 10.5


def laplacians(equations):
    """Every query's share of A, and of b, by unit vectors."""
    data = equations.problem
    queries, X, y = data.risk.queries, data.products.rows.values, data.risk.y
    parts = []
    for q in range(queries.n_queries):
        rows = np.arange(queries.starts[q], queries.starts[q + 1])
        own = X[rows] - X[rows].mean(axis=0)
        parts.append((own.T @ own, own.T @ (y[rows] - y[rows].mean())))
    return parts


def test_stochastic_descent_is_momentum_descent_on_a_few_queries_at_a_time():
    """Every step by the letter, the mean of the second half, and the residual of that mean."""
    equations = system(1)
    problem, gamma, seed = equations.problem, 0.2, 4
    parts = laplacians(equations)
    scale = np.linalg.norm(problem.normal_product(np.ones(5))) / np.linalg.norm(
        sum(A for A, _ in parts) @ np.ones(5)
    )
    parts = [(scale * A, scale * b) for A, b in parts]
    np.testing.assert_allclose(sum(b for _, b in parts), equations.b, rtol=1e-9)
    largest = []
    for A, _ in parts:
        v = np.array([random_unit(stream_seed(seed, STEP_START), j) - 0.5 for j in range(5)])
        for _ in range(POWER_STEPS):
            v = A @ (v / np.linalg.norm(v))
        largest.append(np.linalg.norm(v))
    assert query_curvature(problem, seed) == pytest.approx(SAFETY * 8 * max(largest))
    step = (1 - MOMENTUM) / (query_curvature(problem, seed) + gamma)
    batch = _queries_per_step(problem)
    for n_passes in (3, 4):
        w = before = np.full(5, 0.1)
        total, count, told = np.zeros(5), 0, []
        for done in range(1, n_passes + 1):
            if done == n_passes // 2 + 1:
                total, count = np.zeros(5), 0
            order = permutation(stream_seed(seed, QUERY_ORDER, done), 8)
            for first in range(0, 8, batch):
                chosen = [parts[q] for q in order[first : first + batch]]
                gradient = sum(A @ w - b for A, b in chosen) * 8 / len(chosen) + gamma * w
                w, before = w - step * gradient + MOMENTUM * (w - before), w
                total, count = total + w, count + 1
            residual = equations.times(total / count, gamma) - equations.b
            told.append(np.linalg.norm(residual) / np.linalg.norm(equations.b))
        equations.products = 0
        solution = solve_query_sgd(
            equations, gamma, seed=seed, start=np.full(5, 0.1), tol=0.0, n_passes=n_passes
        )
        np.testing.assert_allclose(solution.coef, total / count, rtol=1e-9)
        np.testing.assert_allclose([one["residual"] for one in solution.trace], told, rtol=1e-7)
        assert (solution.n_iter, solution.certificate["products"]) == (n_passes, n_passes)
        assert solution.certificate["residual"] == solution.trace[-1]["residual"]
        assert [one["iteration"] for one in solution.trace] == list(range(1, n_passes + 1))


def test_batches_balance_gradient_and_update_cost():
    """Six features: one list of dense rows has more numbers, sparse lists need some of them."""
    X = np.zeros((24, 6))
    X[::2, 0] = 1.0  # a number in every other row: 12 of them in 8 lists
    y, qid = np.arange(24) % 3, np.repeat(range(8), 3)

    def problem(X):
        data = Dataset.from_arrays(X, y, qid)
        return RowsProblem.from_dataset(data, least_squares_risk(data))

    assert _queries_per_step(problem(X)) == 1
    assert _queries_per_step(problem(sparse.csr_array(X))) == 4
    few = sparse.csr_array(X * (np.arange(24) < 2)[:, None])  # one number in all
    assert _queries_per_step(problem(few)) == 6
    # Lists of equal rows bend nowhere, and do not hide the others.
    flat = X.copy()
    flat[:12] = 1.0
    assert 0.0 < query_curvature(problem(flat), 0) < np.inf


def test_a_smaller_last_batch_is_averaged_over_its_own_lists():
    rng = np.random.default_rng(0)
    X = sparse.csr_array(rng.normal(size=(21, 12)) * (rng.random((21, 12)) < 0.1))
    data = Dataset.from_arrays(X, rng.integers(0, 3, 21), np.repeat(range(7), 3))
    equations = NormalEquations(RowsProblem.from_dataset(data, least_squares_risk(data)))
    assert 7 % _queries_per_step(equations.problem) not in (0, 7)
    best = np.linalg.solve(np.array([equations.times(row, 0.1) for row in np.eye(12)]), equations.b)
    solution = solve_query_sgd(equations, 0.1, seed=1, tol=1e-9, n_passes=400)
    error = np.linalg.norm(solution.coef - best) / np.linalg.norm(best)
    assert error < 0.05
