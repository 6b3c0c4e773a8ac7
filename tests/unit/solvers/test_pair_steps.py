"""Steps equal their closed forms; learners reach their fixed points."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, sparse
from slow_pairs import all_pairs, hinge, logistic, objective, pair_weights

from rankine import Dataset, SPDRanker
from rankine.core.errors import DivergenceError, ParameterError
from rankine.kernels.rows import CsrRows, DenseRows
from rankine.losses.pairwise.hinge import Hinge
from rankine.losses.pairwise.logistic import Logistic
from rankine.losses.pairwise.squared_hinge import SquaredHinge
from rankine.samplers.draw import pair_sampler
from rankine.solvers import pair_sgd
from rankine.solvers.pair_sgd import Phase, run_phase
from rankine.solvers.pair_steps import (
    _HIGH,
    _HISTORY,
    _LOW,
    _MAX_FOLD_COST,
    _REFRESH,
    ADDS,
    ADDS_AT_FOLD,
    AL,
    COUNT,
    FOLD_COST,
    FOLDS,
    LAZY,
    NORM2,
    OLDEST,
    PassiveAggressiveStep,
    PerceptronStep,
    RommaStep,
    S,
    apply_missed_folds,
    average_iterate,
    fold,
    gradient_step,
    last_iterate,
    new_vector,
    pair_step,
)

pytestmark = [
    pytest.mark.usefixtures("raw_units"),
    pytest.mark.filterwarnings("ignore:overflow encountered"),
]


def problem(seed=0, m=40, n=5, queries=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n))
    qid = rng.integers(0, queries, m)
    y = np.round(X @ rng.normal(size=n) + rng.normal(size=m)).clip(-1, 2)
    return X, y, qid


def rows_of(X, storage):
    if storage == "dense":
        return DenseRows(np.ascontiguousarray(X))
    csr = sparse.csr_array(X)
    return CsrRows(csr.indptr.astype(np.int64), csr.indices.astype(np.uint32), csr.data)


def step(learner, w, X, a, b, t=1.0, i=7, storage="dense"):
    vector, rows = new_vector(np.asarray(w, dtype=float)), rows_of(X, storage)
    vector.c[LAZY] = storage == "csr"
    pair_step(learner, vector.for_kernel(rows), rows, a, b, t, i)
    new = last_iterate(vector)
    assert vector.c[NORM2] == pytest.approx(new @ new, rel=1e-9, abs=1e-12)
    return new


@pytest.mark.kernels
@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("project", [False, True])
def test_gradient_step_is_shrink_then_subgradient_then_projection(storage, project):
    X, _, _ = problem()
    X[np.abs(X) < 0.4] = 0
    lam, i = 0.3, 7
    for w in (np.zeros(5), np.full(5, 0.2), np.full(5, 3.0)):
        x = X[0] - X[1]
        z = w @ x
        expected = (1 - 1 / i) * w + (1 / (lam * i)) * (z < 1) * x
        if project:
            expected *= min(1, 1 / (math.sqrt(lam) * max(np.linalg.norm(expected), 1e-300)))
        got = step(gradient_step(Hinge(), lam, project=project), w, X, 0, 1, i=i, storage=storage)
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.kernels
def test_inverse_schedule_and_logistic_slope():
    X, _, _ = problem()
    w = np.linspace(-1, 1, 5)
    lam, c, i = 0.2, 10.0, 5
    x = X[2] - X[3]
    eta = c / (c + i)
    expected = (1 - eta * lam) * w + eta / (1 + math.exp(w @ x)) * x
    got = step(gradient_step(Logistic(), lam, project=False, inverse=c), w, X, 2, 3, i=i)
    np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.kernels
@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_passive_aggressive_is_the_nearest_point_of_the_constraint(storage):
    """PA-I: argmin 1/2 |u - w|^2 + C max(0, 1 - <u, x>); compared with a solver of that problem."""
    X, _, _ = problem(3)
    X[np.abs(X) < 0.3] = 0
    w = np.full(5, 0.1)
    for C in (0.01, 10.0):
        x = X[0] - X[5]
        got = step(PassiveAggressiveStep(C), w, X, 0, 5, storage=storage)
        best = optimize.minimize_scalar(
            lambda tau, C=C, x=x: 0.5 * tau**2 * (x @ x) + C * max(0.0, 1 - (w + tau * x) @ x),
            bounds=(0, 20),
            method="bounded",
            options={"xatol": 1e-10},
        )
        np.testing.assert_allclose(got, w + best.x * x, atol=1e-6)


@pytest.mark.kernels
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_tied_pairs_are_pulled_together(sign):
    X, _, _ = problem(4)
    w = np.array([sign, 0, 0, 0, 0])
    x = X[0] - X[1]
    got = step(PassiveAggressiveStep(100.0), w, X, 0, 1, t=0.0)
    assert got @ x == pytest.approx(0, abs=1e-12)
    moved = step(gradient_step(Hinge(), 0.1, project=False), w, X, 0, 1, t=0.0, i=10)
    np.testing.assert_allclose(moved, 0.9 * w - 1.0 * np.sign(w @ x) * x)
    np.testing.assert_array_equal(step(PerceptronStep(9.0), w, X, 0, 1, t=0.0), w)


@pytest.mark.kernels
def test_equal_rows_only_shrink_the_weights():
    X = np.ones((2, 4))
    w = np.array([0.5, -1.0, 0.0, 2.0])
    for learner in (PassiveAggressiveStep(3.0), RommaStep(math.inf), PerceptronStep(1.0)):
        np.testing.assert_array_equal(step(learner, w, X, 0, 1), w)
    shrunk = step(gradient_step(Hinge(), 0.5, project=False), w, X, 0, 1, i=4)
    np.testing.assert_allclose(shrunk, 0.75 * w)


@pytest.mark.kernels
def test_the_ball_contains_the_optimum():
    """l2/2 |w|^2 is at most the loss at 0; half of that for the hinge of margin 1."""
    losses = [(Logistic(), math.log(2)), (SquaredHinge(), 1.0), (Hinge(2.0), 2.0), (Hinge(), 0.5)]
    for loss, at_zero in losses:
        learner = gradient_step(loss, 0.2, project=True)
        assert learner.max_norm2 == pytest.approx(2 * at_zero / 0.2)
        assert gradient_step(loss, 0.2, project=False).max_norm2 == math.inf
    # The first step of eta = 1 / l2 leaves nothing of the weights, and is projected.
    X = np.vstack([5.0 * np.eye(3)[0], np.zeros(3)])
    got = step(gradient_step(Hinge(), 0.2, project=True), [0.0, 3.0, 0.0], X, 0, 1, i=1)
    np.testing.assert_allclose(got, [math.sqrt(5.0), 0.0, 0.0])


@pytest.mark.kernels
def test_a_large_penalty_shrinks_weights_to_zero_at_most():
    X, w = problem()[0], np.linspace(-1, 1, 5)
    learner = gradient_step(Hinge(), 5.0, project=False, inverse=10.0)
    x = X[0] - X[1]
    np.testing.assert_allclose(step(learner, w, X, 0, 1, i=1), (w @ x < 1) * 10 / 11 * x)


def lists_of_steps(seed, n, steps):
    """Sparse rows, and pairs with their numbers, which say how much each step shrinks."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12, n)) * (rng.random((12, n)) < min(1.0, 5 / n))
    for _ in range(steps):
        a, b = rng.choice(12, 2, replace=False)
        yield X, int(a), int(b), int(rng.choice([1, 1, 1, 3, 40]))


@pytest.mark.kernels
@pytest.mark.parametrize("n", [6, 300])
@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_scaled_vector_equals_plain_weights_after_any_steps(storage, n):
    """Shrinking by 1 to 1e-4 a step; the last iterate, the mean, the length, after every step."""
    lam, c = 1.9998, 1.0
    learner = gradient_step(Hinge(), lam, project=False, inverse=c)
    start = np.linspace(-1, 1, n)
    vector, plain, total, counted = new_vector(start), start.copy(), np.zeros(n), 0
    vector.c[LAZY] = storage == "csr"
    for k, (X, a, b, i) in enumerate(lists_of_steps(3, n, 40)):
        rows = rows_of(X, storage)
        pair_step(learner, vector.for_kernel(rows), rows, a, b, 1.0, i)
        eta = c / (c + i)
        x = X[a] - X[b]
        plain = (1 - eta * lam) * plain + eta * (plain @ x < 1) * x
        if k >= 10:
            vector.c[AL] += vector.c[S]
            vector.c[COUNT] += 1
            total, counted = total + plain, counted + 1
        scale = np.abs(plain).max() + np.abs(total).max()
        np.testing.assert_allclose(last_iterate(vector), plain, atol=1e-12 * scale)
        mean = total / counted if counted else plain
        np.testing.assert_allclose(average_iterate(vector), mean, atol=1e-12 * scale)
        assert vector.c[NORM2] == pytest.approx(plain @ plain, rel=1e-6, abs=1e-12)
        assert storage == "csr" or _LOW <= vector.c[S] <= _HIGH
        assert not vector.scratch.any()


@pytest.mark.kernels
@pytest.mark.parametrize("size", [1.0, 1e4, 1e8, 1e20, 1e150, 1e300])
@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_long_steps_end_in_the_ball_and_keep_the_mean_accurate(storage, size):
    """A column of 1e300 makes steps that cannot be squared; two rows of it are equal."""
    rng, n, lam = np.random.default_rng(1), 6, 3e-3
    X = rng.normal(size=(12, n))
    X[:6, 2] *= size
    X[3] = X[4]
    learner, rows = gradient_step(Hinge(), lam, project=True), rows_of(X, storage)
    vector = new_vector(np.ones(n))
    vector.c[LAZY] = storage == "csr"
    plain, total, radius = np.ones(n, np.longdouble), np.zeros(n, np.longdouble), lam**-0.5
    for i in range(1, 250):
        a, b = (3, 4) if i % 50 == 49 else map(int, rng.choice(12, 2, replace=False))
        pair_step(learner, vector.for_kernel(rows), rows, a, b, 1.0, i)
        x = X[a].astype(np.longdouble) - X[b]
        plain = (1 - np.longdouble(1) / i) * plain + (plain @ x < 1) * x / (np.longdouble(lam) * i)
        plain *= min(1, radius / max(np.sqrt(plain @ plain), 1e-300))
        if i > 100:
            vector.c[AL] += vector.c[S]
            vector.c[COUNT] += 1
            total += plain
        mean = total / (i - 100) if i > 100 else plain
        np.testing.assert_allclose(last_iterate(vector), plain.astype(float), atol=1e-10 * radius)
        np.testing.assert_allclose(average_iterate(vector), mean.astype(float), atol=1e-10 * radius)
        assert vector.c[NORM2] == pytest.approx(float(plain @ plain), rel=1e-6, abs=1e-12)
        assert not vector.scratch.any()


@pytest.mark.kernels
@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_nearly_equal_rows_keep_rommas_mean_accurate(storage):
    """The shortest vector that tells them apart is 1e20 long, and so was the mean."""
    rng = np.random.default_rng(21)
    X = rng.normal(size=(12, 3)) * [1.0, 1.0, 1e-20]
    X[:6, :2] = X[0, :2]
    learner, rows, radius = RommaStep(4.0), rows_of(X, storage), 2.0
    vector, total = new_vector(np.zeros(3)), np.zeros(3)
    for i in range(1, 100):
        a, b = map(int, rng.choice(12, 2, replace=False))
        pair_step(learner, vector.for_kernel(rows), rows, a, b, 1.0, i)
        assert np.linalg.norm(last_iterate(vector)) <= radius * (1 + 1e-9)
        vector.c[AL] += vector.c[S]
        vector.c[COUNT] += 1
        total += last_iterate(vector)
        np.testing.assert_allclose(average_iterate(vector), total / i, atol=1e-9 * radius)


@pytest.mark.kernels
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_overflowing_numbers_make_all_weights_nan():
    """Squares of 1e200, and steps of 1e200 times 1e300."""
    far = np.vstack([np.full(3, 1e200), np.zeros(3)])
    cases = [(PassiveAggressiveStep(1.0), far), (RommaStep(math.inf), far), (RommaStep(9.0), far)]
    cases.append((gradient_step(SquaredHinge(), 1e-9, project=True), 1e300 * np.sign(far)))
    for learner, X in cases:
        for start in (np.zeros(3), np.full(3, -1e3)):
            vector, rows = new_vector(start), rows_of(X, "dense")
            pair_step(learner, vector.for_kernel(rows), rows, 0, 1, 1.0, 1)
            assert np.isnan(last_iterate(vector)).all()


@pytest.mark.kernels
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_weights_whose_squares_overflow_are_shrunk():
    lam, plain = 0.5, np.zeros(2)
    X = np.array([[1e160, 0.0], [0.0, 1.0], [0.0, 0.0]])
    vector, rows = new_vector(plain), rows_of(X, "dense")
    for i, (a, b) in enumerate([(0, 2), (2, 0), (2, 0), (1, 2), (1, 2)], 1):
        pair_step(
            gradient_step(Hinge(), lam, project=False), vector.for_kernel(rows), rows, a, b, 1.0, i
        )
        x = X[a] - X[b]
        plain = (1 - 1 / i) * plain + (plain @ x < 1) * x / (lam * i)
        np.testing.assert_allclose(
            last_iterate(vector), plain, rtol=1e-12, atol=1e-12 * np.abs(plain).max()
        )


def shrink(vector, factor, *, adds=0):
    """One step that only shrinks, on tied rows that are equal."""
    rows = rows_of(np.ones((2, len(vector.v))), "csr")
    learner = gradient_step(Hinge(), 2.0 * (1.0 - factor), project=False, inverse=1.0)
    vector.c[ADDS] += adds
    pair_step(learner, vector.for_kernel(rows), rows, 0, 1, 0.0, 1)


@pytest.mark.kernels
def test_the_scale_is_folded_outside_its_window():
    for factor, left in ((_LOW, _LOW), (0.9 * _LOW, 1.0), (0.5, 0.5)):
        vector = new_vector(np.ones(3))
        shrink(vector, factor)
        assert vector.c[S] == pytest.approx(left, rel=1e-12)
        np.testing.assert_allclose(last_iterate(vector), factor)
    # The shortest vector of two nearly opposite constraints is long.
    x = np.array([np.cos(1e-3), np.sin(1e-3), 0.0])
    grown, rows = new_vector(np.array([-1.0, 0.0, 0.0])), rows_of(np.vstack([x, 0 * x]), "dense")
    pair_step(RommaStep(math.inf), grown.for_kernel(rows), rows, 0, 1, 1.0, 1)
    assert grown.c[S] == 1.0
    np.testing.assert_allclose(last_iterate(grown)[:2], [-1.0, (1 + x[0]) / x[1]], rtol=1e-6)
    nothing = new_vector(np.zeros(3))
    shrink(nothing, 1e-9)
    assert nothing.c[S] == 1.0


@pytest.mark.kernels
def test_expensive_folds_become_lazy():
    """A fold costs the weights, an addition pays for 64; debts do not fall below nothing."""
    vector = new_vector(np.ones(256))
    for adds, debt in ((0, 256), (1, 448), (4, 448), (9, 128), (40, 0), (3, 64)):
        shrink(vector, 1e-4, adds=adds)
        assert vector.c[FOLD_COST] == debt
        assert vector.c[ADDS_AT_FOLD] == vector.c[ADDS]
        vector.v[:] = 1.0
        vector.c[NORM2] = 256.0
    vector.c[FOLD_COST] = _MAX_FOLD_COST - 256
    shrink(vector, 1e-4)
    assert not vector.c[LAZY]
    vector.c[NORM2] = 256.0
    shrink(vector, 1e-4)
    assert vector.c[LAZY]


@pytest.mark.kernels
def test_lazy_folds_are_applied_when_many_or_cheap():
    vector = new_vector(np.linspace(1, 2, 128))
    vector.c[LAZY], vector.c[AL], vector.c[COUNT] = 1.0, 1.0, 1.0
    shrink(vector, 0.5)  # nothing to fold yet
    assert (vector.c[FOLDS], vector.c[S]) == (0, 0.5)
    for made in (1, 2, 3):
        shrink(vector, 1e-4, adds=made == 2)
        assert (vector.c[FOLDS], vector.c[S], vector.c[AL]) == (made, 1.0, 0.0)
        vector.c[AL] = 1.0
    before = last_iterate(vector), average_iterate(vector)
    shrink(vector, 1e-4, adds=2)  # 2 x 64 weights are paid for
    assert vector.c[FOLDS] == 0
    assert not vector.folds.any()
    np.testing.assert_allclose(last_iterate(vector), 1e-4 * before[0], rtol=1e-12)
    np.testing.assert_allclose(average_iterate(vector), before[1], rtol=1e-12)
    # Without a mean a scale of 1e-18 is still no reason, below it is.
    vector.c[AL] = 0.0
    shrink(vector, 1e-9)
    shrink(vector, 0.9e-9)
    assert (vector.c[FOLDS], vector.c[S]) == (1, 1.0)


@pytest.mark.kernels
def test_a_weight_that_shrank_away_in_missed_folds_is_zero():
    """To less than 1e-18 of what it was after the first of them."""
    for last, kept in ((1.1e-6, True), (0.9e-6, False)):
        vector = new_vector(np.array([3.0, 0.0]))
        for s, al in ((0.1, 2.0), (1e-6, 5.0), (1e-6, 4.0), (last, 7.0)):
            vector.c[S], vector.c[AL] = s, al
            fold(vector)
        vector.c[COUNT] = 1.0
        assert (vector.c[FOLDS], vector.c[OLDEST]) == (4, 0 if kept else 1)
        end = 0.1 * 1e-12 * last * 3.0
        assert last_iterate(vector)[0] == (pytest.approx(end) if kept else 0.0)
        total = 3.0 * (2.0 + 0.1 * 5.0 + 0.1 * 1e-6 * 4.0 + 0.1 * 1e-12 * 7.0)
        assert average_iterate(vector)[0] == pytest.approx(total, rel=1e-14)
        assert vector.v[0] == 3.0  # as if nobody had looked


@pytest.mark.kernels
def test_missed_folds_do_not_change_weights():
    """Each is touched once, after some of the folds; by definition, one weight at a time."""
    rng = np.random.default_rng(3)
    rows, n = rows_of(np.vstack([np.eye(9), np.zeros(9)]), "csr"), 9
    vector, plain, total = new_vector(np.ones(n)), np.ones(n), np.zeros(n)
    for j in range(n):
        s, al = rng.choice([1e-9, 1e-4, 0.5, 2e3]), rng.choice([1.0, 3.0])
        vector.c[S], vector.c[AL], vector.c[COUNT] = s, al, 1.0
        total += al * plain
        plain *= s
        fold(vector)
        apply_missed_folds(vector, rows, j, n)
        vector.v[j] += 1.0
        plain[j] += 1.0
    np.testing.assert_allclose(last_iterate(vector), plain, rtol=1e-12, atol=1e-18 * plain.max())
    np.testing.assert_allclose(average_iterate(vector), total, rtol=1e-12)


@pytest.mark.kernels
def test_a_full_history_is_applied_and_cleared():
    vector = new_vector(np.ones(2))
    vector.c[LAZY], vector.c[FOLDS], vector.folds[:] = 1.0, _HISTORY - 2, _HISTORY - 2
    for left in (_HISTORY - 1, 0):
        vector.c[AL] = 1.0
        shrink(vector, 1e-4)
        assert vector.c[FOLDS] == left
    assert not vector.folds.any()
    np.testing.assert_allclose(last_iterate(vector), 1e-8, rtol=1e-9)


@pytest.mark.kernels
def test_the_norm_is_recomputed_after_many_additions():
    X = np.vstack([np.eye(3)[0], np.zeros(3)])
    for adds, fresh in ((_REFRESH - 2, False), (_REFRESH - 1, True)):
        vector, rows = new_vector(np.full(3, 0.1)), rows_of(X, "dense")
        vector.c[ADDS], vector.c[ADDS_AT_FOLD], vector.c[NORM2] = adds, 5.0, 77.0
        pair_step(PerceptronStep(1.0), vector.for_kernel(rows), rows, 0, 1, 1.0, 1)
        true = 1.1**2 + 2 * 0.1**2
        assert vector.c[NORM2] == pytest.approx(true if fresh else 77.0 + 1.1**2 - 0.1**2)
        assert (vector.c[ADDS], vector.c[ADDS_AT_FOLD]) == ((0, 0) if fresh else (adds + 1, 5))


def romma_by_qp(w, x):
    """Shortest u with <u, w> >= |w|^2 and <u, x> >= 1."""
    result = optimize.minimize(
        lambda u: u @ u,
        w + x,
        jac=lambda u: 2 * u,
        constraints=[
            {"type": "ineq", "fun": lambda u: u @ w - w @ w, "jac": lambda _u: w},
            {"type": "ineq", "fun": lambda u: u @ x - 1, "jac": lambda _u: x},
        ],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return result.x


@pytest.mark.kernels
def test_romma_is_the_shortest_vector_of_its_two_constraints():
    rng = np.random.default_rng(5)
    only_new = 0
    for _ in range(60):
        x, w = rng.normal(size=4), rng.normal(size=4) * rng.choice([0.05, 0.3, 1.0])
        if w @ x >= 1:
            continue
        X = np.vstack([x, np.zeros(4)])
        got = step(RommaStep(math.inf), w, X, 0, 1)
        only_new += w @ x >= (x @ x) * (w @ w)
        np.testing.assert_allclose(got, romma_by_qp(w, x), rtol=2e-5, atol=2e-6)
    assert only_new >= 3  # the case that the paper's formula misses
    for along in (0.0, 0.3, -0.4):  # no weights, or all of them along the new constraint
        first = step(RommaStep(math.inf), along * x / (x @ x), X, 0, 1)
        np.testing.assert_allclose(first, x / (x @ x))
    unit = np.vstack([np.eye(4)[0], np.zeros(4)])
    there = np.array([1.0, 2.0, 0.0, 0.0])  # z = 1 is no error
    np.testing.assert_array_equal(step(RommaStep(math.inf), there, unit, 0, 1), there)
    short = step(RommaStep(0.25), np.zeros(4), unit, 0, 1)
    np.testing.assert_allclose(short, [0.5, 0.0, 0.0, 0.0])


@pytest.mark.kernels
def test_perceptron_moves_only_on_mistakes():
    X, _, _ = problem(6)
    x = X[0] - X[1]
    right, wrong = x / (x @ x), -x / (x @ x)
    np.testing.assert_allclose(step(PerceptronStep(0.0), right, X, 0, 1), right)
    np.testing.assert_allclose(step(PerceptronStep(0.0), wrong, X, 0, 1), wrong + x)
    np.testing.assert_allclose(step(PerceptronStep(2.0), right, X, 0, 1), right + x)
    np.testing.assert_allclose(step(PerceptronStep(0.0), 0.0 * x, X, 0, 1), x)


def optimum(X, y, qid, l2, sampling, loss):
    """Minimum of the smooth or smoothed objective, polished; an independent convex solver."""
    weights = pair_weights(y, qid, sampling)
    D = np.array([X[i] - X[j] for i, j in weights])
    p = np.array(list(weights.values()))
    if loss is logistic:
        value = lambda w: 0.5 * l2 * w @ w + p @ np.logaddexp(0, -D @ w)  # noqa: E731
        return optimize.minimize(value, np.zeros(X.shape[1]), method="BFGS", tol=1e-10).fun
    # Hinge: the dual is a box-constrained quadratic program in the pairs.
    K = D @ D.T / l2
    dual = optimize.minimize(
        lambda a: 0.5 * a @ K @ a - a.sum(),
        np.zeros(len(p)),
        jac=lambda a: K @ a - 1,
        bounds=[(0, cap) for cap in p],
        method="L-BFGS-B",
        options={"maxiter": 20000, "maxfun": 200000, "ftol": 1e-15, "gtol": 1e-10},
    )
    return objective(D.T @ dual.x / l2, X, y, qid, l2, sampling, hinge)


@pytest.mark.parametrize("sampling", ["query", "uniform", "indexed"])
@pytest.mark.parametrize("solver", ["pegasos", "sgd_svm", "logistic", "hybrid"])
def test_solvers_approach_the_exact_optimum(solver, sampling):
    X, y, qid = problem(7)
    l2 = 0.05
    loss = logistic if solver == "logistic" else hinge
    best = optimum(X, y, qid, l2, sampling, loss)
    ranker = SPDRanker(
        solver, sampling=sampling, l2=l2, n_steps=200_000, random_state=0, record_at=[200_000]
    ).fit(X, y, qid=qid)
    reached = objective(ranker.coef_, X, y, qid, l2, sampling, loss)
    assert best - 1e-9 <= reached <= best * 1.003
    assert ranker.record_[-1]["objective"] == pytest.approx(reached, rel=1e-10)


def test_shrinking_on_every_step_matters():
    """The paper's sentence read literally (shrink only on violations) misses the optimum."""
    X, y, qid = problem(8)
    l2 = 0.05
    best = optimum(X, y, qid, l2, "uniform", hinge)
    rng = np.random.default_rng(0)
    pairs = all_pairs(y, qid)
    w = np.zeros(5)
    for i in range(1, 20_001):
        a, b = pairs[rng.integers(len(pairs))]
        x = X[a] - X[b]
        if w @ x < 1:
            w = (1 - 1 / i) * w + x / (l2 * i)
    literal = objective(w, X, y, qid, l2, "uniform", hinge)
    ours = SPDRanker(
        "sgd_svm", sampling="uniform", l2=l2, n_steps=20_000, average=False, random_state=0
    )
    ours.fit(X, y, qid=qid)
    assert objective(ours.coef_, X, y, qid, l2, "uniform", hinge) < best + 0.2 * (literal - best)


def test_romma_without_guard_grows_and_with_guard_stays():
    X, y, qid = problem(9)
    free = SPDRanker(
        "romma", norm_guard=False, l2=1e-2, n_steps=3000, random_state=0, average=False
    )
    kept = SPDRanker("romma", l2=1e-2, n_steps=3000, random_state=0, average=False)
    try:
        grown = np.linalg.norm(free.fit(X, y, qid=qid).coef_)
    except DivergenceError:
        grown = math.inf
    assert grown > 100
    assert np.linalg.norm(kept.fit(X, y, qid=qid).coef_) <= 10.0 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("solver", "svm"),
        ("sampling", "all"),
        ("ties", "half"),
        ("schedule", "cosine"),
        ("l2", 0.0),
        ("l2", float("nan")),
        ("aggressiveness", -1.0),
        ("n_steps", 0),
        ("margin", -1.0),
        ("hybrid_second", "romma"),
    ],
)
def test_invalid_parameters_are_rejected_by_name(name, value):
    X, y, qid = problem()
    with pytest.raises(ParameterError, match=name):
        SPDRanker(**{name: value}).fit(X, y, qid=qid)


def test_lazy_folds_change_rounding_only(monkeypatch):
    calls, run = [], pair_sgd._run
    monkeypatch.setattr(pair_sgd, "_run", lambda *given: calls.append(given[5]) or run(*given))
    rng = np.random.default_rng(8)
    X = sparse.random_array((40, 100_000), density=2e-4, format="csr", rng=rng) * 1e3
    y = rng.integers(0, 2, 40)
    steps, found = 1_000, {}
    for kind in ("dense", "sparse", "lazy"):
        data = Dataset.from_arrays(X.toarray() if kind == "dense" else X, y)
        sampler = pair_sampler(data, np.ones(1))
        w = new_vector(np.zeros(data.n_features))
        w.c[LAZY] = kind == "lazy"
        learner = gradient_step(Hinge(), 1e-2, project=True)
        run_phase(data.rows, sampler, Phase(learner, 0, steps, 0, 500), w, 1, (0, steps))
        assert w.c[LAZY]  # folds were frequent
        assert len(calls) == (1 if kind == "lazy" else 2)
        assert calls.pop()[1] == steps
        calls.clear()
        found[kind] = average_iterate(w), last_iterate(w)
    for kind in ("sparse", "lazy"):
        for ours, expected in zip(found[kind], found["dense"], strict=True):
            np.testing.assert_allclose(ours, expected, rtol=1e-7, atol=1e-12 * abs(expected).max())
