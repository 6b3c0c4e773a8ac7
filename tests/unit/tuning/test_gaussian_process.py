from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import approx_fprime
from scipy.special import gamma, kv
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from threadpoolctl import ThreadpoolController

from rankine.tuning import gaussian_process
from rankine.tuning.gaussian_process import (
    BOUNDS,
    JITTER,
    PRIORS,
    _group_squares,
    choose,
    expected_improvement,
    fit_process,
    matern,
    negative_log_posterior,
    safe_cholesky,
)


def problem(n=15, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3))
    return X, np.sin(4 * X[:, 0]) + X[:, 1], np.array([0, 1, 1]), rng


def test_kernel_is_the_bessel_form():
    d = np.linspace(0.01, 3, 50)
    r = np.sqrt(5) * d / 0.7
    expected = 2 ** (1 - 2.5) / gamma(2.5) * r**2.5 * kv(2.5, r)
    one = np.zeros(1, dtype=np.int64)
    found = matern(d[:, None], np.zeros((1, 1)), np.array([0.7]), one).ravel()
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_posterior_agrees_with_scikit_learn():
    X, y, groups, rng = problem()
    process = fit_process(X, y, groups, rng)
    points = rng.random((5, 3))
    kernel = ConstantKernel(process.signal) * Matern(process.scales[groups], nu=2.5)
    noise = process.noise + 1e-8 * max(process.signal + process.noise, 1.0)
    peer = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None).fit(X, process.y)
    mean, covariance = peer.predict(points, return_cov=True)
    ours = process.posterior(points)
    np.testing.assert_allclose(ours[0], process.mean + process.spread * mean, atol=1e-8)
    np.testing.assert_allclose(ours[1], process.spread**2 * covariance, atol=1e-8)


def test_gradient_is_the_slope():
    X, y, groups, rng = problem()
    squares = _group_squares(X, groups, 2)
    values = (y - y.mean()) / y.std()
    for _ in range(5):
        theta = rng.normal(size=4) * 0.7 + [-1, -1, 0, -3]
        _, slope = negative_log_posterior(theta, squares, values)
        measured = approx_fprime(
            theta, lambda t: negative_log_posterior(t, squares, values)[0], 1e-6
        )
        np.testing.assert_allclose(slope, measured, rtol=2e-4, atol=2e-4)


def test_the_posterior_is_that_of_a_normal_and_log_normal_priors():
    """Up to a constant: what the logarithms of its densities differ by from point to point."""
    X, y, groups, _ = problem()
    squares = _group_squares(X, groups, 2)
    medians, widths = np.array([PRIORS[0], *PRIORS]).T

    def by_hand(theta):
        scales, signal, noise = np.exp(theta[:2]), np.exp(theta[2]), np.exp(theta[3])
        K = signal * matern(X, X, scales, groups) + (noise + JITTER) * np.eye(len(y))
        likelihood = stats.multivariate_normal(np.zeros(len(y)), K).logpdf(y)
        return -likelihood - stats.norm.logpdf(theta, np.log(medians), widths).sum()

    points = [[-1.0, 0.5, 0.2, -3.0], [0.3, -0.4, -0.5, -5.0], [-3.0, -3.0, 1.0, -18.0]]
    found = [negative_log_posterior(np.array(t), squares, y)[0] for t in points]
    wanted = [by_hand(np.array(t)) for t in points]
    np.testing.assert_allclose(np.diff(found), np.diff(wanted), rtol=1e-6)


@pytest.mark.parametrize("log_noise", [-3.0, -17.0, -18.0, -19.0])
def test_two_values_at_one_point_differ_by_noise_and_jitter(log_noise):
    """Covariance s 11' + e I has the eigenvalues 2s + e and e; the values lie along the second."""
    theta = np.array([-0.5, 0.3, log_noise])
    found, _ = negative_log_posterior(theta, np.zeros((1, 2, 2)), np.array([1.0, -1.0]))
    s, e = np.exp(0.3), np.exp(log_noise) + JITTER
    medians, widths = np.array(PRIORS).T
    prior = 0.5 * (((theta - np.log(medians)) / widths) ** 2).sum()
    assert found == pytest.approx(1 / e + 0.5 * np.log((2 * s + e) * e) + prior, rel=1e-6)


def test_an_irrelevant_parameter_gets_the_longer_scale():
    rng = np.random.default_rng(1)
    X = rng.random((30, 2))
    process = fit_process(X, np.sin(6 * X[:, 0]), np.array([0, 1]), rng)
    assert process.scales[1] > 3 * process.scales[0]


def test_constant_values_and_repeated_points_are_no_problem():
    X = np.repeat([[0.2], [0.7]], 4, axis=0)
    process = fit_process(X, np.ones(8), np.zeros(1, dtype=np.int64), np.random.default_rng(0))
    mean, covariance = process.posterior(np.array([[0.2], [0.5]]))
    np.testing.assert_allclose(mean, 1.0)
    assert np.isfinite(covariance).all()


def test_jitter_makes_a_singular_matrix_positive():
    factor = safe_cholesky(np.ones((4, 4)))
    np.testing.assert_allclose(factor @ factor.T, np.ones((4, 4)), atol=1e-5)


@pytest.mark.parametrize("size", [0.01, 1.0, 100.0])
def test_jitter_is_small_beside_the_largest_variance(size):
    factor = safe_cholesky(size * np.diag([1.0, 0.5, 1e-9]))
    added = np.diag(factor @ factor.T) - size * np.array([1.0, 0.5, 1e-9])
    np.testing.assert_allclose(added, JITTER * max(size, 1.0), rtol=1e-3)
    indefinite = size * (np.ones((4, 4)) - 3e-6 * np.eye(4))
    factor = safe_cholesky(indefinite)
    assert np.abs(factor @ factor.T - indefinite).max() < 1.01e-5 * max(size, 1.0)


@pytest.mark.parametrize("spread", [0.01, 1.0, 50.0])
def test_a_draw_is_the_mean_and_a_root_of_the_covariance(spread):
    X, y, groups, rng = problem()
    process = fit_process(X, spread * y + 7.0, groups, rng)
    points = rng.random((3, 3))
    mean, covariance = process.posterior(points)
    root = np.linalg.cholesky(covariance)
    for place in range(3):
        normal = np.eye(3)[place]
        drawn = process.draw(points, SimpleNamespace(standard_normal=lambda n, e=normal: e[:n]))
        np.testing.assert_allclose(drawn - mean, root @ normal, rtol=1e-2, atol=1e-4 * spread)
    np.testing.assert_allclose(
        process.with_data(process.X, process.y).posterior(points)[0], mean, rtol=1e-9
    )


def test_the_best_of_several_starts_is_kept(monkeypatch):
    X, y, groups, rng = problem(8)
    ends = [(3.0, [0.1] * 4), (1.0, [0.3, -0.2, 0.5, -3.0]), (2.0, [0.2] * 4), (4.0, [0.4] * 4)]
    found = iter([SimpleNamespace(fun=fun, x=np.array(x)) for fun, x in ends])
    bounds = []

    def minimized(*_, **options):
        bounds.append(options["bounds"])
        return next(found)

    monkeypatch.setattr(gaussian_process, "minimize", minimized)
    process = fit_process(X, y, groups, rng)
    assert bounds == [[BOUNDS[0], BOUNDS[0], BOUNDS[1], BOUNDS[2]]] * 4
    assert next(found, None) is None
    theta = np.log([*process.scales, process.signal, process.noise])
    np.testing.assert_allclose(theta, ends[1][1])
    assert process.y.std() == pytest.approx(1.0)
    np.testing.assert_allclose(process.mean + process.spread * process.y, y)


def test_expected_improvement_is_the_integral():
    covariance = np.array([[0.25, 0.1], [0.1, 4.0]])
    process = SimpleNamespace(posterior=lambda _: (np.array([1.0, -1.0]), covariance))
    wanted = [
        quad(lambda f, m=m, s=s: (f - 0.5) * stats.norm.pdf(f, m, s), 0.5, 30)[0]
        for m, s in ((1.0, 0.5), (-1.0, 2.0))
    ]
    np.testing.assert_allclose(expected_improvement(process, np.zeros((2, 1)), 0.5), wanted)
    sure = SimpleNamespace(posterior=lambda _: (np.array([1.0, 0.0]), np.zeros((2, 2))))
    np.testing.assert_allclose(expected_improvement(sure, np.zeros((2, 1)), 0.5), [0.5, 0.0])


def fixed_process(*draws, mean=(), variance=()):
    """Stand in for a process with these draws, or this posterior."""
    drawn = iter(draws)
    return SimpleNamespace(
        draw=lambda *_: np.array(next(drawn)),
        posterior=lambda _: (np.array(mean, dtype=float), np.diag(np.array(variance, dtype=float))),
    )


def test_the_choice_by_hand():
    points = np.zeros((4, 1))

    def thompson(values, *limits):
        given = (points, 0.0, None)
        return choose(
            "thompson", fixed_process(values), [fixed_process(one) for one in limits], *given
        )

    assert thompson([1.0, 5.0, 3.0, 4.0]) == 1
    assert thompson([1.0, 5.0, 3.0, 4.0], [-1.0, 2.0, 0.0, 1.0]) == 2  # 0 is within the limit
    assert thompson([1.0, 5.0, 3.0, 4.0], [-1.0, -1.0, 0.0, 1.0], [0.0, 2.0, 0.5, -1.0]) == 0
    assert thompson([1.0, 5.0, 3.0, 4.0], [2.0, 1.0, 3.0, 9.0], [-5.0, 2.0, -1.0, 0.0]) == 0

    values = {"mean": [1.0, 3.0, 2.0, 0.0], "variance": [1.0] * 4}
    safe = {"mean": [-2.0, 3.0, -2.0, -9.0], "variance": [1.0] * 4}
    risky = {"mean": [-2.0, -1.0, 2.0, -9.0], "variance": [1.0] * 4}
    for limits, best in (((), 1), ((safe,), 2), ((safe, risky), 0)):
        constraints = [fixed_process(**limit) for limit in limits]
        assert choose("ei", fixed_process(**values), constraints, points, 0.0, None) == best


def test_expected_values_keep_the_mean_and_shrink_the_variance():
    X, y, groups, rng = problem()
    process = fit_process(X, y, groups, rng)
    place = np.array([[0.9, 0.1, 0.9]])
    sure = process.with_expected(place)
    np.testing.assert_allclose(sure.posterior(place)[0], process.posterior(place)[0], rtol=1e-4)
    assert sure.posterior(place)[1][0, 0] < 0.5 * process.posterior(place)[1][0, 0]
    assert process.with_expected(np.zeros((0, 3))) is process


def test_draws_have_the_posterior_mean_and_spread():
    X, y, groups, rng = problem()
    process = fit_process(X, y, groups, rng)
    points = rng.random((3, 3))
    with ThreadpoolController().limit(limits=1):
        drawn = np.array([process.draw(points, rng) for _ in range(1000)])
    mean, covariance = process.posterior(points)
    sd = np.sqrt(np.diag(covariance))
    assert (np.abs(drawn.mean(0) - mean) < 5 * sd / np.sqrt(1000) + 1e-3).all()
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.2 * covariance.max() + 1e-4)
