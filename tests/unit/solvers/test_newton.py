"""Rounded hinges, bad scales, and honest ends."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from rankine.core.errors import DivergenceError
from rankine.data import Dataset
from rankine.losses.pair_queries import pair_risk
from rankine.solvers import newton as module
from rankine.solvers.base import Solution
from rankine.solvers.bundle import interior_dual, maximise_dual, solve_bundle
from rankine.solvers.newton import solve_newton, solve_nonsmooth, solve_smoothed
from rankine.solvers.problem import Problem, RowsProblem


def badly_scaled(scale, m=300):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(m, 4))
    X[:, 3] = rng.uniform(0, scale, m)
    y = np.clip(np.round(X[:, :3] @ [1, -1, 0.5] + X[:, 3] / scale * 2), 0, 3)
    return Dataset.from_arrays(X, y, np.repeat(np.arange(m // 10), 10))


def hinge(data):
    return RowsProblem.from_dataset(data, pair_risk(data))


@pytest.mark.parametrize("positive", [False, True])
def test_cuts_and_smoothing_find_the_same_optimum(positive):
    problem = hinge(badly_scaled(1.0))
    found = [
        solve(problem, 0.05, tol=1e-4, positive=positive)
        for solve in (solve_bundle, solve_smoothed, solve_nonsmooth)
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
def test_no_solver_reports_convergence_beyond_precision(scale):
    """A bound that rounding has lifted above the objective proves nothing."""
    problem = hinge(badly_scaled(scale))
    for solve in (solve_bundle, solve_nonsmooth):
        solution = solve(problem, 2e-3, max_iter=300)
        assert solution.unfinished
        assert solution.certificate["relative_gap"] > 1e-3


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_overflow_raises_an_error_with_a_remedy():
    data = badly_scaled(1e170)
    squared = RowsProblem.from_dataset(data, pair_risk(data, None, "squared_hinge"))
    for solve, problem in ((solve_bundle, hinge(data)), (solve_newton, squared)):
        with pytest.raises(DivergenceError):
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


def smooth(n=5, seed=0):
    """sum of (1 - <x, w>)_+^2 over random x, as a problem of partitions; its X."""
    X = np.random.default_rng(seed).normal(size=(30, n)) * np.geomspace(0.3, 3.0, n)

    def total(question, w, *v):
        left = np.maximum(0.0, 1.0 - X @ w)
        H = 2.0 * (X * (left > 0)[:, None]).T @ X
        return {
            "value_and_gradient": lambda: ((left**2).sum(), -2.0 * X.T @ left),
            "gradient_with_curvature": lambda: ((left**2).sum(), -2.0 * X.T @ left),
            "curvature_product": lambda: (H @ v[0],),
            "curvature_diagonal": lambda: (np.diag(H).copy(),),
        }[question]()

    return Problem(total, n, 30.0), X


@pytest.mark.parametrize("positive", [False, True])
def test_ridge_gap_equals_the_best_possible_decrease(positive):
    rng = np.random.default_rng(2)
    w, g, l2 = np.abs(rng.normal(size=4)) * [1, 0, 1, 0], rng.normal(size=4), 0.4
    moves = np.linspace(-8, 8, 160_001)
    expected = 0.0
    for own, slope in zip(w, g, strict=True):
        allowed = np.r_[-own, moves[own + moves >= 0]] if positive else moves
        expected -= (slope * allowed + l2 / 2 * allowed**2).min()
    penalty = module._Ridge(l2, 4, positive=positive)
    assert penalty.gap(w, g) == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(penalty.times(w), l2 * w)
    np.testing.assert_allclose(penalty.factor(np.arange(4.0)).solve(g), g / (l2 + np.arange(4.0)))


def slow_direction(H, M, wanted, free, forcing, penalty=None, allowed=0.0, w=None):
    """Conjugate gradients in the coordinates in which M is the identity; the number of steps."""
    d, r = np.zeros(len(wanted)), wanted.copy()
    s = r / M * free
    first = rho = r @ s
    for steps in range(1, 50):
        product = H @ s * free
        step = rho / (s @ product)
        d, r = d + step * s, r - step * product
        before, rho = rho, r @ (r / M * free)
        if rho <= forcing**2 * first or (allowed and penalty.gap(w + d, -r) <= allowed):
            return d, steps
        s = r / M * free + rho / before * s
    return d, steps


@pytest.mark.parametrize("allowed", [0.0, 3.0])
@pytest.mark.parametrize("forcing", [0.5, 0.1, 1e-6])
def test_directions_solve_newtons_equations_to_the_requested_accuracy(forcing, allowed):
    problem, _ = smooth()
    rng = np.random.default_rng(1)
    penalty = module._Ridge(0.5, 5, positive=True)
    point = module.evaluate_point(problem, penalty, np.abs(rng.normal(size=5)) / 9)
    free = np.array([True, True, False, True, True])
    gradient = 0.5 * point.w + point.slopes
    H = np.array([problem.curvature_product(point.w, row) for row in np.eye(5)]) + 0.5 * np.eye(5)
    M, wanted = np.diag(H), -gradient * free
    factor = penalty.factor(np.diag(H) - 0.5)
    given = (problem, penalty, point, wanted, free, factor, forcing, allowed)
    found = module.newton_direction(*given)
    d, steps = slow_direction(H, M, wanted, free, forcing, penalty, allowed, point.w)
    np.testing.assert_allclose(found.d, d, rtol=1e-9)
    np.testing.assert_allclose(found.scores, d, rtol=1e-9)  # weights stand for scores
    assert found.products == steps
    assert found.d[2] == 0.0


def test_directions_take_no_more_products_than_allowed(monkeypatch):
    monkeypatch.setattr(module, "MAX_INNER", 2)
    problem, _ = smooth()
    penalty = module._Ridge(0.5, 5, positive=False)
    point = module.evaluate_point(problem, penalty, np.zeros(5))
    found = module.newton_direction(
        problem,
        penalty,
        point,
        -point.slopes,
        np.full(5, True),
        penalty.factor(np.ones(5)),
        0.0,
        0.0,
    )
    assert found.products == 2
    nothing = module.newton_direction(
        problem, penalty, point, np.zeros(5), np.full(5, True), penalty.factor(np.ones(5)), 0.1, 0.0
    )
    assert (nothing.products, nothing.d.any()) == (0, False)


def test_an_underflowing_residual_gives_no_direction():
    problem, _ = smooth()
    penalty = module._Ridge(0.5, 5, positive=False)
    point = module.evaluate_point(problem, penalty, np.zeros(5))
    given = np.full(5, 1e-158), np.full(5, True), penalty.factor(np.full(5, 1e6)), 0.1, 0.0
    found = module.newton_direction(problem, penalty, point, *given)
    assert (found.products, found.d.any()) == (1, False)


@pytest.mark.parametrize("size", [1.0, -1.0, 40.0, 1e3])
@pytest.mark.parametrize("positive", [False, True])
def test_steps_are_halved_until_the_decrease_suffices(size, positive):
    problem, X = smooth()
    penalty = module._Ridge(0.5, 5, positive=positive)
    objective = lambda w: 0.25 * w @ w + (np.maximum(0, 1 - X @ w) ** 2).sum()  # noqa: E731
    point = module.evaluate_point(problem, penalty, np.full(5, 0.05))
    gradient = 0.5 * point.w + point.slopes
    d = -size * gradient / 100
    found = module._step(problem, penalty, point, gradient, module.Direction(d, d, 1))
    step = 1.0
    while step >= module.MIN_STEP:
        w = point.w + step * d
        w = np.maximum(0.0, w) if positive else w
        if objective(w) <= objective(point.w) + 1e-4 * gradient @ (w - point.w):
            break
        step /= 2
    if step < module.MIN_STEP or objective(w) >= objective(point.w):
        assert found is None
    else:
        np.testing.assert_allclose(found.w, w, rtol=1e-12)
        np.testing.assert_allclose(found.scores, w, rtol=1e-12)
        assert found.objective == pytest.approx(objective(w))
    still = module.Direction(np.zeros(5), np.zeros(5), 1)
    assert module._step(problem, penalty, point, gradient, still) is None


class Ahead(module._Ridge):
    """A ridge whose equations need not be solved beyond half of the tolerance."""

    forcing, predicted_gap_share = 0.25, 0.5


@pytest.mark.parametrize("kind", [module._Ridge, Ahead])
@pytest.mark.parametrize("positive", [False, True])
def test_newton_equations_are_solved_more_accurately_near_the_optimum(positive, kind, monkeypatch):
    """What every direction is asked: the free coordinates, and the share that may be left."""
    problem, X = smooth()
    penalty = 0.5 if kind is module._Ridge else kind(0.5, 5, positive=positive)
    asked = []
    one = module.newton_direction

    def noted(*given):
        asked.append((*given, one(*given)))
        return asked[-1][-1]

    monkeypatch.setattr(module, "newton_direction", noted)
    solution = solve_newton(problem, penalty, tol=1e-10, positive=positive, start=-np.ones(5))
    best = optimize.minimize(
        lambda w: 0.25 * w @ w + (np.maximum(0, 1 - X @ w) ** 2).sum(),
        np.zeros(5),
        jac=lambda w: 0.5 * w - 2 * X.T @ np.maximum(0, 1 - X @ w),
        bounds=[(0.0 if positive else None, None)] * 5,
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 999},
    )
    assert solution.stop_reason == "converged"
    assert solution.objective == pytest.approx(best.fun, rel=1e-9)
    assert solution.certificate["lower_bound"] <= best.fun * (1 + 1e-10)
    np.testing.assert_allclose(solution.coef, best.x, atol=1e-4)
    sizes, products = [], 0
    for k, (_, _, point, wanted, free, _, forcing, allowed, found) in enumerate(asked):
        assert point.slopes is point.curvature is None  # large, and of no more use
        gradient = 0.5 * point.w + problem.value_and_gradient(point.w)[1]
        held = positive & (point.w == 0) & (gradient >= 0)
        np.testing.assert_array_equal(free, ~held)
        np.testing.assert_allclose(wanted, -gradient * free, atol=1e-12)
        sizes.append(np.linalg.norm(gradient * free))
        assert forcing == pytest.approx(min(kind.forcing, np.sqrt(sizes[k] / max(sizes))))
        assert allowed == pytest.approx(kind.predicted_gap_share * 1e-10 * 30.0)
        assert solution.trace[k]["products"] == products
        products += found.products
    assert solution.certificate["products"] == products
    assert len(asked) == solution.n_iter
    assert sizes[-1] < 1e-3 * sizes[0]


def test_a_gap_that_equals_the_tolerance_is_within_it(monkeypatch):
    problem, _ = smooth()
    problem.at_zero = 1.0
    gaps = [record["gap"] for record in solve_newton(problem, 0.5, tol=1e-10).trace]
    for k, gap in enumerate(gaps):
        solution = solve_newton(problem, 0.5, tol=gap)
        assert (solution.stop_reason, solution.n_iter) == ("converged", k)
    flat = Problem(lambda *_: (1.0, np.zeros(1)), 1, 1.0)
    ends = Solution(np.zeros(1), 1.0, {"products": 1.0, "lower_bound": 0.75}, 1)
    monkeypatch.setattr(module, "solve_newton", lambda *_, **__: ends)
    rounded = solve_smoothed(flat, 0.5, tol=0.25)
    assert (rounded.stop_reason, rounded.n_iter) == ("converged", 2)


def test_an_estimated_gap_can_end_the_run_after_one_step():
    problem, _ = smooth()
    runs = [
        solve_newton(problem, 0.5, tol=1e-5, certify=False, max_iter=budget)
        for budget in (1000, *range(9))
    ]
    end = runs[0]
    assert (end.stop_reason, 0 < end.n_iter < 9) == ("estimated", True)

    def about(w):
        gradient = 0.5 * w + problem.value_and_gradient(w)[1]
        return gradient @ (gradient / (0.5 + problem.curvature_diagonal(w))) / 2

    assert about(end.coef) <= 1e-5 * 30 < about(runs[end.n_iter].coef)
    exact = solve_newton(problem, 0.5, tol=1e-13)
    again = solve_newton(problem, 0.5, start=exact.coef, tol=1e-14, certify=False)
    assert again.n_iter > 0 or again.stop_reason == "precision"


def test_a_gap_of_rounding_errors_is_not_convergence(monkeypatch):
    problem, _ = smooth()
    solution = solve_newton(problem, 0.5, tol=1e-300)
    assert (solution.stop_reason, solution.n_iter < 30) == ("precision", True)
    assert solution.certificate["gap"] <= 1e-12 * solution.objective
    monkeypatch.setattr(module, "_step", lambda *_: None)
    stuck = solve_newton(problem, 0.5)
    assert (stuck.stop_reason, stuck.n_iter) == ("precision", 0)


def test_slow_cuts_are_followed_by_smoothed_newton(monkeypatch):
    monkeypatch.setattr(module, "CUTS", 7)
    problem = hinge(badly_scaled(1.0))
    for budget in (7, 5):
        few = solve_nonsmooth(problem, 1e-3, tol=1e-9, max_iter=budget)
        assert few.n_iter == budget
        assert "cuts" in few.certificate
    cuts = solve_bundle(problem, 1e-3, tol=1e-9, max_iter=7)
    longer = solve_nonsmooth(problem, 1e-3, tol=1e-9, max_iter=12)
    assert (longer.stop_reason, longer.n_iter) == ("max_iter", 12)
    assert list(longer.trace[:7]) == list(cuts.trace)
    assert longer.trace[7]["width"] == 1.0
    rough = solve_nonsmooth(problem, 1e-3, tol=0.5, max_iter=12)
    assert (rough.stop_reason, rough.n_iter < 7) == ("converged", True)


def test_smoothing_is_narrowed_to_the_tolerance_or_precision(monkeypatch):
    """Widths fall by a fifth; the first, of a squared hinge, bounds nothing from below."""
    problem = hinge(badly_scaled(1.0))
    asked, newton = [], module.solve_newton

    def noted(smoothed, l2, **options):
        asked.append(options)
        return newton(smoothed, l2, **options)

    monkeypatch.setattr(module, "solve_newton", noted)
    solution = solve_smoothed(problem, 0.05, tol=1e-4)
    assert solution.stop_reason == "converged"
    widths = [record["width"] for record in solution.trace]
    np.testing.assert_allclose(widths, [1.0, *0.5 * 0.2 ** np.arange(len(widths) - 1)])
    assert [options["tol"] for options in asked] == pytest.approx([0.05 * one for one in widths])
    assert solution.trace[0]["lower_bound"] == 0.0 < solution.trace[1]["lower_bound"]
    assert solution.trace[-2]["gap"] > 1e-4 * problem.at_zero >= solution.trace[-1]["gap"]
    assert solution.n_iter == solution.trace[-1]["iteration"]
    assert [options["max_iter"] for options in asked] == [
        1000 - record["iteration"] for record in [{"iteration": 0}, *solution.trace[:-1]]
    ]
    told = 0.025 * solution.coef @ solution.coef + problem.value_and_gradient(solution.coef)[0]
    assert solution.objective == pytest.approx(told, rel=1e-12)


def test_a_worse_point_is_discarded_and_a_too_narrow_width_ends_the_run(monkeypatch):
    problem = hinge(badly_scaled(1.0))
    starts = []

    def poor(_smoothed, _l2, *, start, **_options):
        starts.append(start)
        certificate = {"products": 2.0, "lower_bound": 0.0}
        return Solution(start + 9.0, 0.0, certificate, 3)

    monkeypatch.setattr(module, "solve_newton", poor)
    start = np.full(4, 0.1)
    solution = solve_smoothed(problem, 0.05, start=start, tol=0.1)
    assert solution.stop_reason == "precision"
    widths = [record["width"] for record in solution.trace]
    assert widths[-1] < 0.1 * 0.1 <= widths[-2]
    assert all((one == start).all() for one in [*starts, solution.coef])
    assert solution.n_iter == 3 * len(widths)
    assert solution.certificate["products"] == 2.0 * len(widths)
    budget = solve_smoothed(problem, 0.05, start=start, tol=1e-9, max_iter=6)
    assert (budget.stop_reason, budget.n_iter, len(budget.trace)) == ("max_iter", 6, 2)
