"""One step along one weight against a grid."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from rankine.core.errors import DivergenceError
from rankine.data import Dataset
from rankine.kernels.columns import DenseColumns
from rankine.kernels.random import permutation, stream_seed
from rankine.losses.domination import DominationOptions, domination_risk
from rankine.solvers import coordinate_descent as module
from rankine.solvers.coordinate_descent import (
    FIRST_VIOLATORS,
    HALVINGS,
    SEARCH_RATIO,
    CoordinateDescent,
    DescentSettings,
    exponential_step,
    extrapolated,
    l1_grid,
    newton_step,
    path_until_nonzeros,
    quadratic_step,
    regularisation_path,
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
# Far from the root of a step with l2, at both sides of 0, and where steps end at 0.
DRAWS += [
    (g, 1e-3, 50.0, w, l1, 0.5) for g in (-90.0, 90.0) for w in (0.0, 1.0) for l1 in (0.0, 2.0)
]
DRAWS += list(product((-1.0, 0.4, 1.0), (0.5,), (2.0,), (-0.3, 0.0, 0.3), (0.7, 1.0), (0.0, 0.1)))


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


@pytest.mark.parametrize(("g", "h", "R", "w", "l1", "l2"), DRAWS)
def test_the_longer_step_is_taken_and_has_the_larger_guaranteed_decrease(g, h, R, w, l1, l2):
    for beta in (h, 3 * h, 40 * h, 1e15 * h):
        plain = quadratic_step(g, beta, w, l1, l2)
        bold = exponential_step(g, h, R, w, l1, l2)

        def sure(d, bent):
            return g * d + bent + l1 * abs(w + d) + l2 / 2 * (w + d) ** 2

        u = R * abs(bold)
        far = sure(bold, h / R**2 * (np.expm1(u) - u) if u < 600 else np.inf)
        near = sure(plain, beta / 2 * plain**2)
        longer = abs(bold) > abs(plain)
        assert newton_step(g, h, R, beta, w, l1, l2) == (
            bold if longer and h > 1e-14 * beta else plain
        )
        assert not longer or far <= near + 1e-12 * abs(near)


def test_exponential_step_tends_to_newtons_step():
    """R of 1e-6: a step of 1 / h."""
    for beta in (1.001, 1.1, 5.0):
        assert newton_step(-1.0, 1.0, 1e-6, beta, 0.0, 0.0, 0.0) == pytest.approx(1.0, rel=1e-5)
        assert newton_step(-9.0, 3.0, 1e-6, 3 * beta, 0.0, 0.0, 0.0) == pytest.approx(3.0, rel=1e-5)


def test_a_vanishing_curvature_does_not_make_the_step_tiny():
    # phi'' is 0.01 here but may be 30 elsewhere: the parabola alone would creep.
    step = newton_step(-2.2, 0.012, 0.27, 30.0, 2.7, 1.6, 0.0)
    assert step > 5.0


def test_violation_is_zero_exactly_at_the_optimum():
    assert violation(0.5, 0.0, 0.5, 0.0) == 0.0
    assert violation(0.6, 0.0, 0.5, 0.0) == pytest.approx(0.1)
    assert violation(-0.5, 2.0, 0.5, 0.0) == 0.0
    assert violation(0.5, -2.0, 0.4, 0.1) == pytest.approx(0.1)
    assert violation(-0.6, 0.0, 0.5, 3.0) == pytest.approx(0.1)
    assert violation(0.2, 0.0, 0.5, 0.0) == violation(-0.2, 0.0, 0.5, 0.0) == 0.0
    assert violation(-0.5, 2.0, 0.4, 0.3) == pytest.approx(0.5)


def test_a_linear_sequence_is_extrapolated_to_its_limit():
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
    with np.errstate(over="ignore", invalid="ignore"):
        assert extrapolated([end, 5e307 * end, -5e307 * end]) is None


def test_extrapolation_does_not_depend_on_units():
    points = [np.array([1.0 - 0.6**k, 2.0 + 0.9**k, 0.3 - 0.2**k]) for k in range(5)]
    for factor in (2.0**-900, 2.0**-40, 2.0**900):  # their squares are no numbers
        found = extrapolated([factor * point for point in points])
        assert np.array_equal(found, factor * extrapolated(points))


def test_an_extrapolated_weight_keeps_its_sign_or_is_zero():
    target = extrapolated([np.array([1.0 - 0.1**k, 0.4 * 0.5**k - 0.02]) for k in range(4)])
    assert target[0] == pytest.approx(1.0, abs=1e-6)
    assert target[1] == 0.0


@pytest.mark.parametrize("l1", [0.0, 0.1])
@pytest.mark.parametrize("n_active", [3, 2 * FIRST_VIOLATORS])
def test_working_set_has_all_nonzero_weights_and_the_worst_violators(l1, n_active):
    slopes = np.random.default_rng(1).permutation(np.linspace(0.2, 1.0, 1000))
    w = np.zeros(1000)
    w[:n_active] = -1.0
    chosen, worst = working_set(slopes, w, Penalty(l1, 0.0))
    others = n_active + np.argsort(-slopes[n_active:])
    room = max(FIRST_VIOLATORS, n_active) if l1 else 1000
    assert set(chosen) == {*range(n_active), *others[:room]}
    assert worst == pytest.approx(1.0 - l1, abs=0.01)


def test_violations_count_both_penalties():
    w = np.array([0.0, 2.0, -3.0, 0.0, 0.0])
    slopes = np.array([0.5, -1.0, 1.0, 0.3, -2.0])
    chosen, worst = working_set(slopes, w, Penalty(0.5, 0.25))
    assert chosen.tolist() == [1, 2, 4]  # 0.5 and 0.3 are held by l1
    assert worst == 1.5
    _, active = working_set(np.zeros(5), w, Penalty(0.5, 0.25))
    assert active == 0.5 + 0.25 * 3.0
    many = np.ones(FIRST_VIOLATORS + 1)
    assert len(working_set(many, 0 * many, Penalty(0.5, 0.0))[0]) == FIRST_VIOLATORS
    assert len(working_set(many[1:], 0 * many[1:], Penalty(0.5, 0.0))[0]) == FIRST_VIOLATORS
    assert working_set(np.zeros(0), np.zeros(0), Penalty(1.0, 0.0))[1] == 0.0


def descent(seed=0, m=60, n=8, correlated=0.0, noise=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n)) + correlated * rng.normal(size=(m, 1))
    y = (X @ rng.normal(size=n) + noise * rng.normal(size=m) > 1).astype(float)
    data = Dataset.from_arrays(X, y, np.repeat(range(m // 10), 10))
    risk = domination_risk(data, DominationOptions())
    return CoordinateDescent(risk, DenseColumns(m, np.ascontiguousarray(X.T).ravel()))


@pytest.mark.parametrize(
    ("left", "moves", "expected"),
    [(1e9, 0, (False, 1)), (1e9, 1, (True, 50)), (0.0, 1, (True, 1)), (0.0, 0, (False, 1))],
)
def test_sweeps_continue_while_weights_change_and_violation_is_large(
    left, moves, expected, monkeypatch
):
    monkeypatch.setattr(module, "sweep", lambda *_: (left, moves))
    run = descent()
    slopes, settings = run.gradient(), DescentSettings(plain=True)
    assert run._descend(slopes, Penalty(0.1, 0.0), settings, 0) == expected
    if not moves:  # rounding has the last word
        solution = run.solve(Penalty(0.1, 0.0), settings)
        assert (solution.stop_reason, solution.n_iter) == ("precision", 1)


def test_a_single_column_is_solved():
    solution = descent(n=1).solve(Penalty(0.1, 0.1), DescentSettings(tol=1e-9))
    assert solution.stop_reason == "converged"
    assert solution.coef[0] != 0.0


@pytest.mark.parametrize("paper", [False, True])
def test_a_weight_without_influence_is_set_to_zero(paper):
    run = descent()
    values = run.columns.values.reshape(8, 60)
    values[3] = 0.0
    run.restart(np.where(np.arange(8) == 3, 2.0, 0.0))
    solution = run.solve(Penalty(0.2, 0.1), DescentSettings(tol=1e-9, paper=paper))
    assert solution.stop_reason == "converged"
    assert solution.coef[3] == 0.0
    assert np.count_nonzero(solution.coef) > 3


def test_each_sweep_shuffles_columns_differently(monkeypatch):
    orders, sweep = [], module.sweep

    def noted(loss, columns, order, *rest):
        orders.append(order.tolist())
        return sweep(loss, columns, order, *rest)

    monkeypatch.setattr(module, "sweep", noted)
    settings = DescentSettings(tol=1e-9, plain=True, shuffle=True, seed=7)
    solution = descent().solve(Penalty(0.0, 0.1), settings)
    assert len(solution.trace) > 2
    assert DescentSettings(shuffle=True) == DescentSettings(shuffle=True, seed=0)
    expected = [permutation(stream_seed(7, k), 8).tolist() for k in range(solution.n_iter)]
    assert orders == expected


def test_sweeps_are_counted_and_limited():
    penalty = Penalty(0.5, 0.1)
    whole = descent().solve(penalty, DescentSettings(tol=1e-9))
    assert whole.stop_reason == "converged"
    sweeps = [record["sweep"] for record in whole.trace]
    assert sweeps[0] == 0
    assert sweeps[-1] == whole.n_iter
    assert (np.diff(sweeps) > 0).all()
    assert max(np.diff(sweeps)) < module.INNER_SWEEPS  # a round ends where it has done its share
    plain = descent().solve(penalty, DescentSettings(tol=1e-9, plain=True))
    assert len(plain.trace) - 1 < plain.n_iter  # and takes more than one sweep
    for budget in {0, 1, 3, int(sweeps[1])}:
        cut = descent().solve(penalty, DescentSettings(tol=1e-9, max_iter=budget))
        assert (cut.stop_reason, cut.n_iter) == ("max_iter", budget)
        kept = sum(sweep <= budget for sweep in sweeps)
        assert [one for one in cut.trace if one["sweep"] in sweeps] == list(whole.trace[:kept])
    for record in whole.trace:
        assert record["gap"] >= 0.0
    assert whole.trace[0]["nonzeros"] == 0
    assert whole.trace[-1]["nonzeros"] == np.count_nonzero(whole.coef)
    certificate = whole.certificate
    at_zero = whole.trace[0]["objective"]
    assert certificate["gap"] == whole.objective - certificate["lower_bound"] <= 1e-9 * at_zero
    assert certificate["relative_gap"] == pytest.approx(certificate["gap"] / at_zero)
    assert whole.trace[-2]["gap"] > 1e-9 * at_zero
    for record in whole.trace:
        tol = record["gap"] / at_zero
        if tol * at_zero == record["gap"]:
            again = descent().solve(penalty, DescentSettings(tol=tol))
            assert (again.stop_reason, again.n_iter) == ("converged", record["sweep"])


def test_solve_continues_from_weights_and_gradient():
    one, two = descent(), descent()
    penalty, settings = Penalty(0.5, 0.1), DescentSettings(tol=1e-9)
    solution = one.solve(penalty, settings)
    two.restart(solution.coef)
    again = two.solve(penalty, settings, gradient=two.gradient())
    assert (again.stop_reason, again.n_iter) == ("converged", 0)
    np.testing.assert_array_equal(again.coef, solution.coef)
    told = []
    stopped = descent().solve(
        penalty, settings, [lambda progress: told.append(progress) or progress.step > 0]
    )
    assert (stopped.stop_reason, len(told)) == ("callback", 2)
    assert (told[0].total, told[0].step, told[1].step) == (1000, 0, stopped.n_iter)
    np.testing.assert_array_equal(told[1].coef(), stopped.coef)
    exact = descent().solve(penalty, DescentSettings(tol=0.0))
    assert exact.stop_reason == ("converged" if exact.certificate["gap"] == 0.0 else "precision")


@pytest.mark.parametrize("better", [True, False])
def test_an_extrapolation_is_kept_only_where_the_objective_falls(better):
    """Weights 1 - 2^-k tend to 1."""
    moved = []
    goal = np.array([1.0, 0.0]) if better else np.array([1 - 2**-4, 0.0])
    risk = SimpleNamespace(at_zero=1.0, scratch=lambda: None)
    risk.move_to = lambda _columns, w: moved.append(w.copy())
    run = CoordinateDescent(risk, DenseColumns(1, np.ones(2)))
    risk.value = lambda: float(((run.w - goal) ** 2).sum())
    recent = [np.array([1 - 2.0**-k]) for k in range(5)]
    run.w[0] = recent[-1][0]
    run._extrapolate(np.array([0], np.uint64), recent, Penalty(0.0, 0.0))
    if better:
        assert run.w[0] == pytest.approx(1.0, abs=1e-6)
        assert len(moved) == 1
    else:
        assert run.w.tolist() == goal.tolist()
        assert moved[-1].tolist() == goal.tolist()
        assert len(moved) == 2
    run._extrapolate(np.array([0], np.uint64), [recent[0]] * 3, Penalty(0.0, 0.0))
    assert len(moved) == (1 if better else 2)


def test_extrapolation_speeds_up_correlated_columns(monkeypatch):
    """Extrapolation saves most sweeps; without it they creep to the same weights."""
    points, extrapolate = set(), CoordinateDescent._extrapolate

    def noted(run, chosen, recent, penalty):
        points.add(len(recent))
        return extrapolate(run, chosen, recent, penalty)

    monkeypatch.setattr(CoordinateDescent, "_extrapolate", noted)
    penalty = Penalty(0.0, 1e-2)
    quick = descent(n=4, correlated=5.0, noise=9.0).solve(
        penalty, DescentSettings(tol=1e-7, max_iter=20_000)
    )
    settings = DescentSettings(tol=1e-7, max_iter=20_000, plain=True)
    slow = descent(n=4, correlated=5.0, noise=9.0).solve(penalty, settings)
    assert quick.stop_reason == slow.stop_reason == "converged"
    assert quick.n_iter < 0.5 * slow.n_iter
    assert points == {module.EXTRAPOLATE_EVERY + 1}


def test_infinite_weights_raise_an_error():
    run = descent()
    run._require_finite(1.0, 3)
    with pytest.raises(DivergenceError, match="after 3 sweeps"):
        run._require_finite(np.nan, 3)
    run.w[1] = np.inf
    with pytest.raises(DivergenceError, match="after 4 sweeps"):
        run._require_finite(1.0, 4)
    run._require_curvature(1)
    run.limits[5, 2] = np.inf
    with pytest.raises(DivergenceError, match=r"column 5 .*after 2 sweeps"):
        run._require_curvature(2)


def test_l1_grid_falls_geometrically_to_its_ratio():
    np.testing.assert_allclose(l1_grid(8.0, 4, 1e-3), [8.0, 0.8, 0.08, 0.008])


def test_path_starts_each_solve_from_the_previous_solution():
    run, alone = descent(), descent()
    settings = DescentSettings(tol=1e-8)
    for point, l1 in zip(
        regularisation_path(run, [3.0, 1.0, 0.2], 0.1, settings), [3.0, 1.0, 0.2], strict=True
    ):
        solution = alone.solve(Penalty(l1, 0.1), settings)
        np.testing.assert_array_equal(point.solution.coef, solution.coef)
        assert (point.l1, point.nonzeros) == (l1, np.count_nonzero(solution.coef))
        w = solution.coef
        penalty = l1 * np.abs(w).sum() + 0.05 * w @ w
        assert point.loss == pytest.approx(solution.objective - penalty)
        assert 0.0 <= point.seconds < 60.0


@pytest.mark.parametrize("edge", [0.3, 0.7, 1.5e-4, 0.0])
def test_models_of_a_size_are_found_by_ratio_and_bisection(edge, monkeypatch):
    """More than three weights below the edge."""
    asked = []

    def solve(_descent, l1, _l2, _settings):
        asked.append(l1)
        return SimpleNamespace(l1=l1, nonzeros=3 if l1 >= edge else 4)

    monkeypatch.setattr(module, "_solve", solve)
    found = [point.l1 for point in path_until_nonzeros(None, 1.0, 0.0, None, 3)]
    assert found == [l1 for l1 in asked if l1 >= edge]
    steps = []
    l1 = 1.0
    while l1 > 1e-4 and l1 >= edge:
        l1 *= SEARCH_RATIO
        steps.append(l1)
    assert asked[: len(steps)] == pytest.approx(steps)
    assert len(asked) == len(steps) + (HALVINGS if l1 < edge else 0)
    good, bad = (l1 / SEARCH_RATIO, l1)
    for halved in asked[len(steps) :]:
        assert halved == pytest.approx(np.sqrt(good * bad))
        good, bad = (halved, bad) if halved >= edge else (good, halved)
