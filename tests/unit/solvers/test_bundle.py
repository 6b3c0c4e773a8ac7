"""Cuts, their dual problems and the line search."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize

from rankine.core.errors import DivergenceError
from rankine.solvers import bundle as module
from rankine.solvers.bundle import (
    CENTRING,
    IDLE_ROUNDS,
    INSIDE,
    MAX_COARSE,
    MAX_STALLED,
    PRECISION,
    ROUNDING,
    Bundle,
    Trial,
    interior_dual,
    maximise_dual,
    maximise_dual_positive,
    minimise_along,
    solve_bundle,
)
from rankine.solvers.problem import Problem

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
@pytest.mark.parametrize("seed", range(8))
def test_a_restored_bundle_continues_with_the_same_bits(seed, positive):
    """Room for more cuts, which a kept bundle does not have, changes nothing."""
    rng = np.random.default_rng(seed)
    bundle = filled(rng, 9 + seed, 20, positive=positive)
    bundle.solve(0.1, 1e-9)
    kept = Bundle(20, positive=positive)
    kept.restore([np.array(one) for one in bundle.state()])
    for _ in range(5):
        slope = rng.normal(size=20)
        bundle.add(slope, 0.1)
        kept.add(slope, 0.1)
        (w, bound), again = bundle.solve(0.1, 1e-9), kept.solve(0.1, 1e-9)
        np.testing.assert_array_equal(again[0], w)
        assert again[1] == bound


@pytest.mark.parametrize("positive", [False, True])
def test_every_tolerance_gives_a_valid_lower_bound(positive):
    rng = np.random.default_rng(9)
    bundle = filled(rng, 10, 5, positive=positive)
    expected, _ = model_minimum(bundle.cuts, bundle.b, 0.1, positive=positive)
    _, bound = bundle.solve(0.1, 10.0)
    assert bound <= expected + 1e-9


def test_the_free_cut_bounds_by_zero():
    w, bound = Bundle(3).solve(1.0, 1e-9)
    assert bound == 0.0
    assert not w.any()


def dual_gap(gram, b, l2, alpha):
    gradient = b - gram @ alpha / l2
    return gradient.max() - gradient[alpha > 0].min()


def best_exchange(gram, b, l2, alpha):
    """The exchange with the cut of the largest gradient that gains most, by trying all givers."""
    gradient = b - gram @ alpha / l2
    i, unit, gains = int(gradient.argmax()), np.eye(len(b)), {}
    for k in set(np.flatnonzero(alpha).tolist()) - {i}:
        way = unit[i] - unit[k]
        rise, bend = gradient @ way, way @ gram @ way / l2
        step = min(alpha[k], rise / bend)
        gains[k] = step * rise - step * step / 2 * bend, step * way
    return alpha + max(gains.values(), key=lambda gain: gain[0])[1]


def duals(seed, n_cuts=7, n=4):
    rng = np.random.default_rng(seed)
    cuts, b = rng.normal(size=(n_cuts, n)), rng.normal(size=n_cuts)
    alpha = rng.random(n_cuts) * (rng.random(n_cuts) < 0.6) + 1e-3 * np.eye(n_cuts)[0]
    return cuts @ cuts.T, b, alpha / alpha.sum(), cuts


@pytest.mark.parametrize("l2", [0.05, 3.0])
def test_exchanges_choose_the_pair_of_largest_gain(l2):
    single = 0
    for seed in range(30):
        gram, b, alpha, _ = duals(seed)
        expected = best_exchange(gram, b, l2, alpha)
        enough = dual_gap(gram, b, l2, expected) * (1 + 1e-9)
        if enough < dual_gap(gram, b, l2, alpha):
            single += 1
            maximise_dual(gram, b, l2, alpha, enough)
            np.testing.assert_allclose(alpha, expected, atol=1e-12)
        for tol in (1.0, 1e-3, 1e-9):
            gap = maximise_dual(gram, b, l2, alpha, tol)
            assert gap == pytest.approx(dual_gap(gram, b, l2, alpha), abs=1e-10)
            assert gap <= tol
            assert alpha.sum() == pytest.approx(1.0)
    assert single > 10


def test_a_dual_point_within_the_tolerance_is_not_changed():
    """Gradients 0, 3, 1: the gap of all weight on the first is 3, with or without w >= 0."""
    cuts, b = np.zeros((3, 2)), np.array([0.0, 3.0, 1.0])
    for tol, moved in ((3.0, False), (np.nextafter(3.0, 0.0), True)):
        alpha = np.array([1.0, 0.0, 0.0])
        maximise_dual(cuts @ cuts.T, b, 1.0, alpha, tol)
        assert alpha.tolist() == [0.0, 1.0, 0.0] if moved else [1.0, 0.0, 0.0]
        found = maximise_dual_positive(cuts, b, 1.0, np.array([1.0, 0.0, 0.0]), tol)
        assert found.tolist() == alpha.tolist()
    # Only what has weight counts: all of it on the gradient 1 leaves a gap of 2.
    for tol, moved in ((2.0, False), (np.nextafter(2.0, 0.0), True)):
        alpha = np.array([0.0, 0.0, 1.0])
        maximise_dual(cuts @ cuts.T, b, 1.0, alpha, tol)
        assert alpha.tolist() == ([0.0, 1.0, 0.0] if moved else [0.0, 0.0, 1.0])
        found = maximise_dual_positive(cuts, b, 1.0, np.array([0.0, 0.0, 1.0]), tol)
        assert found.tolist() == alpha.tolist()
    bundle = Bundle(2)
    bundle.add(np.zeros(2), 3.0)
    assert bundle.solve(1.0, 3.0) == (pytest.approx(np.zeros(2)), 0.0)
    assert not bundle.coarse


def test_negligible_weights_are_moved_completely():
    """All but 5e-17 of a weight of 1e-8 is to move from the second cut to the first."""
    gram, rest = np.diag([0.5, 0.5, 0.0]), 5e-17
    b = np.array([0.5e-8 - rest, 0.0, 0.5e-8 - rest])
    alpha = np.array([0.0, 1e-8, 1.0 - 1e-8])
    maximise_dual(gram, b, 1.0, alpha, 0.7e-8)
    assert alpha[1] == 0.0
    assert alpha[0] == pytest.approx(1e-8, rel=1e-12, abs=0.0)


def slow_interior(gram, b, l2, tol):
    """Newton's steps on the optimality conditions, their whole matrix at once."""
    n = len(b)
    x = np.full(n, 1 / n)
    slack = gram @ x / l2 - b
    shift = slack.min() - np.ptp(slack) - tol
    z = slack - shift
    for _ in range(60):
        aim = CENTRING * x @ z / n
        rest = gram @ x / l2 - b - shift - z
        if n * aim <= CENTRING * 0.1 * tol and np.abs(rest).max() <= 0.1 * tol:
            break
        one = np.ones((n, 1))
        matrix = np.block(
            [
                [gram / l2, -np.eye(n), -one],
                [np.diag(z), np.diag(x), 0 * one],
                [one.T, 0 * one.T, np.zeros((1, 1))],
            ]
        )
        move = np.linalg.solve(matrix, np.r_[-rest, aim - x * z, 1 - x.sum()])
        at, way = np.r_[x, z], move[:-1]
        step = min([1.0, *(-INSIDE * at[way < 0] / way[way < 0])])
        x, z, shift = x + step * move[:n], z + step * move[n:-1], shift + step * move[-1]
    x = np.where(x > 1e-12, x, 0.0)
    return x / x.sum()


@pytest.mark.parametrize("tol", [1e-1, 1e-4, 1e-8, 1e-11])
@pytest.mark.parametrize("seed", range(3))
def test_interior_point_steps_are_newton_steps(seed, tol):
    gram, b, alpha, _ = duals(seed)
    found = alpha.copy()
    interior_dual(gram, b, 0.3, found, tol)
    np.testing.assert_allclose(found, slow_interior(gram, b, 0.3, tol), atol=1e-7)
    assert (found == 0.0).any() == (tol == 1e-11)  # dust, which the others make up for
    assert abs(found.sum() - 1.0) < 5e-16


def test_interior_point_returns_the_better_point():
    gram, b, alpha, _ = duals(1)
    best = alpha.copy()
    maximise_dual(gram, b, 0.3, best, 1e-14)
    found = best.copy()
    interior_dual(gram, b, 0.3, found, 1.0)
    np.testing.assert_array_equal(found, best)


def test_two_systems_are_solved_or_the_factorisation_fails():
    rng = np.random.default_rng(2)
    root = rng.normal(size=(5, 5))
    matrix, u, v = root @ root.T, *rng.normal(size=(2, 5))
    solved = [matrix.copy(), u.copy(), v.copy()]
    assert module._solve_two(*solved)
    np.testing.assert_allclose(solved[1:], np.linalg.solve(matrix, np.array([u, v]).T).T, rtol=1e-8)
    for wrong in (np.zeros((2, 2)), np.array([[1.0, 2.0], [2.0, 1.0]])):
        assert not module._solve_two(wrong.copy(), np.ones(2), np.ones(2))


def test_masked_gram_ignores_masked_columns():
    cuts = duals(3)[3]
    mask = np.array([1.0, 0.0, 1.0, 1.0])
    np.testing.assert_allclose(module._masked_gram(cuts, mask), cuts * mask @ cuts.T)


@pytest.mark.parametrize("seed", range(6))
def test_dual_step_maximises_along_its_direction(seed):
    rng = np.random.default_rng(seed)
    _, b, alpha, cuts = duals(seed)
    target = np.eye(len(b))[rng.integers(len(b))]
    pull, move, l2 = alpha @ cuts, target - alpha, 0.2
    found = module._dual_step(b, l2, pull, move, move @ cuts)
    steps = np.linspace(0, 1, 20_001)
    held = np.maximum(0.0, -(pull + steps[:, None] * (move @ cuts)))
    values = (alpha + steps[:, None] * move) @ b - (held**2).sum(axis=1) / (2 * l2)
    assert found == pytest.approx(steps[values.argmax()], abs=1e-4)


def test_weights_off_the_simplex_are_normalised():
    bundle = filled(np.random.default_rng(4), 5, 3, positive=False)
    bundle.solve(0.5, 1e-10)
    bundle.alpha *= 1.001
    _, bound = bundle.solve(0.5, 1.0)
    assert bundle.alpha.sum() == pytest.approx(1.0, abs=1e-15)
    dual = bundle.b @ bundle.alpha - bundle.alpha @ bundle.gram @ bundle.alpha
    assert bound == pytest.approx(dual, abs=1e-12)


def test_the_bound_subtracts_rounding_errors():
    """Of offsets made from large numbers, and of a mean of long slopes."""
    bundle = Bundle(2)
    bundle.add(np.array([3e5, 4e5]), 1e12, 2e12)
    w, bound = bundle.solve(1.0, 1e-9)
    share = bundle.alpha[1]
    value = share * 1e12 - w @ w / 2
    room = share * 2e12 + np.linalg.norm(w) * share * 5e5
    assert value - bound == pytest.approx(ROUNDING * room, rel=0.1)


def test_memory_bounds_the_number_of_cuts():
    assert [Bundle(n).max_cuts for n in (2**23, 2**20, 0)] == [8, 32, 2**25]


def test_a_merged_cut_is_the_weighted_mean():
    rng = np.random.default_rng(5)
    bundle = filled(rng, 5, 3, positive=False)
    bundle._magnitude = np.arange(6.0)
    bundle.alpha = np.array([0.3, 0.0, 0.05, 0.25, 0.1, 0.3])
    cuts, b = bundle.cuts.copy(), bundle.b.copy()
    bundle._merge(3)
    kept, share = [0, 3, 5], np.array([0.0, 0.05, 0.1]) / 0.15
    np.testing.assert_allclose(bundle.cuts, [*cuts[kept], share @ cuts[[1, 2, 4]]])
    np.testing.assert_allclose(bundle.gram, bundle.cuts @ bundle.cuts.T)
    np.testing.assert_allclose(bundle.b, [*b[kept], share @ b[[1, 2, 4]]])
    np.testing.assert_allclose(bundle.alpha, [0.3, 0.25, 0.3, 0.15])
    np.testing.assert_allclose(bundle._magnitude, [0, 3, 5, share @ [1, 2, 4]])
    bundle.alpha = np.array([0.0, 0.0, 1.0, 0.0])
    bundle._merge(2)
    np.testing.assert_allclose(bundle.cuts[0], cuts[5])
    assert bundle.n_cuts == 2


def test_a_full_bundle_merges_half_of_its_cuts():
    bundle = filled(np.random.default_rng(5), 11, 3, positive=False)
    bundle.max_cuts = 12
    bundle.alpha = np.arange(1.0, 13.0) / 78
    bundle.add(np.ones(3), -1.0)
    assert bundle.n_cuts == 6 + 1 + 1
    assert bundle.alpha[-2:].tolist() == [pytest.approx(21 / 78), 0.0]


def test_cuts_that_overflow_raise_an_error():
    bundle = Bundle(2)
    with (
        np.errstate(over="ignore"),
        pytest.raises(DivergenceError, match=r"bundle method.*step 1"),
    ):
        bundle.add(np.array([1e200, 0.0]), 0.0)


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
    for _ in range(IDLE_ROUNDS - 1):
        bundle.solve(1.0, 1e-12)
    assert bundle.n_cuts == 3
    bundle.solve(1.0, 1e-12)
    assert bundle.b.tolist() == [0.0, 0.5]
    bundle.add(np.array([0.0, 0.0]), 1e6)  # the others have no weight from now on
    for _ in range(IDLE_ROUNDS - 1):
        bundle.solve(1.0, 1e-12)
    assert 0.5 in bundle.b
    bundle.solve(1.0, 1e-12)
    assert bundle.b.tolist() == [1e6]


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


def unasked(_step):
    pytest.fail("nothing is to be gained along this line")


@pytest.mark.parametrize(
    ("slope", "line"), [(5.0, (1.0, 1.0)), (-1.0, (1.0, 1.0)), (-5.0, (1.0, 0.0))]
)
def test_line_search_returns_a_start_that_is_a_minimum(slope, line):
    start = Trial(0.0, 2.0, 1.0, slope, None)
    assert minimise_along(unasked, start, line) is start


def asked_by(risk, slope, line, **options):
    """The steps that are asked for where the risk has this slope, and the best of them."""
    steps = []

    def ask(step):
        steps.append(step)
        return risk(step), slope(step), None

    start = Trial(0.0, risk(0.0), risk(0.0), slope(0.0), None)
    return steps, minimise_along(ask, start, line, **options).step


def test_line_search_doubles_up_to_the_longest_step():
    def downhill(max_step):
        return asked_by(lambda k: -10.0 * k, lambda _k: -10.0, (0.0, 1e-3), max_step=max_step)

    assert downhill(0.25) == ([0.25], 0.25)
    assert downhill(3.0) == ([1.0, 2.0, 3.0], 3.0)
    assert downhill(2.0) == ([1.0, 2.0], 2.0)
    assert downhill(float("inf")) == ([1.0, 2.0, 4.0, 8.0, 16.0, 32.0], 32.0)


def test_line_search_ends_when_the_slope_has_shrunk_enough():
    """J = -k + bend k^2 / 2: at 1 the slope is bend - 1, that at 0 is -1."""
    for rtol, steps in ((0.25, [1.0]), (np.nextafter(0.25, 0.0), [1.0, 2.0])):
        asked, _ = asked_by(lambda k: -k, lambda _k: -1.0, (0.0, 0.75), rtol=rtol, max_trials=2)
        assert asked == steps
    # As good as the start is not better.
    assert asked_by(lambda k: -k, lambda _k: -1.0, (0.0, 2.0), max_trials=1) == ([1.0], 0.0)


@pytest.mark.parametrize("seed", range(40))
def test_the_next_trial_is_the_minimum_between_two(seed):
    """Of the quadratic and the higher of two lines, but not too near to an end."""
    rng = np.random.default_rng(seed)
    falls = rises = False
    while not (falls and rises):  # the slope at the two trials
        low_step, width = rng.random(), rng.random() + 0.1
        low_slope, bend, linear = -rng.random() * 3, rng.random() * 4, rng.normal() * 0.3
        high_slope = low_slope if seed % 4 == 0 else low_slope + rng.random() * 6
        falls = linear + bend * low_step + low_slope < 0
        rises = linear + bend * (low_step + width) + high_slope > 0
    kink = low_step + width * rng.random()
    risk = lambda k: max(low_slope * (k - kink), high_slope * (k - kink))  # noqa: E731
    low, high = (
        Trial(step, 0.0, risk(step), slope, None)
        for step, slope in ((low_step, low_slope), (low_step + width, high_slope))
    )
    steps = np.linspace(low.step, high.step, 2_001)
    values = [linear * k + 0.5 * bend * k * k + risk(k) for k in steps]
    best = (steps[int(np.argmin(values))] - low.step) / width
    expected = best if 0.02 <= best <= 0.98 else np.clip(best, 0.1, 0.9)
    found = (module._between(low, high, linear, bend) - low.step) / width
    assert found == pytest.approx(expected, abs=2e-3)


def test_longest_step_stops_when_a_weight_reaches_zero():
    w = np.array([0.0, 4.0, 3.0, 1.0])
    assert module._longest_step(w, np.array([0.0, -1.0, -2.0, 5.0])) == 1.5
    assert module._longest_step(w, np.array([0.0, 0.0, 2.0, 5.0])) == float("inf")


class Scripted(Bundle):
    """Bounds as told, and no better point; notes what it is asked."""

    def __init__(self, bounds, *, coarse=False):
        super().__init__(1)
        self.bounds, self.coarse, self.tols = iter(bounds), coarse, []

    def solve(self, _l2, tol):
        self.tols.append(tol)
        return np.zeros(1), next(self.bounds)


def flat_problem(at_zero=1.0):
    """A risk of 1, which cuts must find out."""
    return Problem(lambda _question, w: (1.0, np.zeros_like(w)), 1, at_zero)


@pytest.mark.parametrize(
    ("bounds", "coarse", "reason", "n_iter"),
    [
        ([0.0] * 99, False, "stalled", MAX_STALLED),
        ([0.0] * 9 + [0.2] * 99, False, "stalled", 9 + 1 + MAX_STALLED),
        ([k / 1e3 for k in range(1, 99)], True, "precision", MAX_COARSE),
        ([k / 1e3 for k in range(1, 99)], False, "max_iter", 90),
        ([0.5, 1.0 - PRECISION / 2, 1.0], False, "precision", 2),
        ([0.5, 0.6, 1.0], False, "converged", 3),
    ],
)
def test_stop_reason_of_a_stalled_run(bounds, coarse, reason, n_iter):
    given = Scripted(bounds, coarse=coarse)
    solution = solve_bundle(flat_problem(), 0.1, tol=1e-30, max_iter=90, bundle=given)
    assert (solution.stop_reason, solution.n_iter) == (reason, n_iter)
    assert solution.certificate["lower_bound"] == max(0.0, *bounds[:n_iter])


def test_zero_iterations_return_the_start():
    solution = solve_bundle(flat_problem(), 0.1, start=np.array([2.0]), max_iter=0)
    assert (solution.stop_reason, solution.n_iter, list(solution.trace)) == ("max_iter", 0, [])
    certificate = solution.certificate
    assert (certificate["gap"], certificate["evaluations"], certificate["cuts"]) == (1.2, 1, 1)


def test_a_gap_that_equals_the_tolerance_is_within_it():
    given = Scripted([0.5, 0.75, 0.75])
    solution = solve_bundle(flat_problem(), 0.1, tol=0.25, max_iter=3, bundle=given)
    assert (solution.stop_reason, solution.n_iter) == ("converged", 2)


@pytest.mark.parametrize(("tol", "inner"), [(0.4, 8e-3), (1e-3, 2e-5), (1e-30, 1e-13)])
def test_the_dual_is_solved_to_a_hundredth_of_the_gap(tol, inner):
    given = Scripted([0.0] * 3)
    solve_bundle(flat_problem(at_zero=2.0), 0.1, tol=tol, max_iter=2, bundle=given)
    assert given.tols == [pytest.approx(inner)] * 2


@pytest.mark.parametrize("positive", [False, True])
def test_cuts_lie_below_the_risk_and_evaluations_are_counted(positive):
    """R = max of random lines; the objective told is that of the weights."""
    rng = np.random.default_rng(7)
    slopes, offsets = rng.normal(size=(20, 3)), rng.random(20) + 1.0
    asked = []

    def risk(_question, w):
        values = slopes @ w + offsets
        asked.append(w)
        return values.max(), slopes[values.argmax()]

    given, sizes = Bundle(3, positive=positive), []
    add = given.add
    given.add = lambda slope, offset, size: sizes.append(size) or add(slope, offset, size)
    problem, start = Problem(risk, 3, offsets.max()), np.array([-0.2, 0.1, 0.0])
    solution = solve_bundle(problem, 0.2, start=start, tol=1e-9, positive=positive, bundle=given)
    assert solution.stop_reason == "converged"
    assert solution.certificate["evaluations"] == len(asked)
    assert [record["evaluations"] for record in solution.trace][-1] == len(asked)
    assert solution.certificate["cuts"] == given.n_cuts
    first = np.maximum(0.0, start) if positive else start
    assert (asked[0] == first).all()
    risk_there, slope = risk(None, first)
    size = risk_there + np.linalg.norm(slope) * np.linalg.norm(first)  # of what made the offset
    assert sizes[0] == pytest.approx(size)
    assert not positive or all((w >= 0).all() for w in asked)
    told = 0.1 * solution.coef @ solution.coef + (slopes @ solution.coef + offsets).max()
    assert solution.objective == pytest.approx(told, rel=1e-13)
    best, _ = model_minimum(slopes, offsets, 0.2, positive=positive)
    assert solution.objective == pytest.approx(best, abs=1e-8)
    for w in 3 * rng.normal(size=(200, 3)):
        assert (given.cuts @ w + given.b).max() <= (slopes @ w + offsets).max() + 1e-12
    falls = [one["objective"] - two["objective"] for one, two in pairwise(solution.trace)]
    assert min(falls) >= 0.0
