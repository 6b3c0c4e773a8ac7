from __future__ import annotations

import numpy as np
from scipy.optimize import approx_fprime
from scipy.special import gamma, kv
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from threadpoolctl import ThreadpoolController

from rankine.tune.gaussian_process import (
    _group_squares,
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


def test_believing_keeps_the_mean_and_shrinks_the_doubt():
    X, y, groups, rng = problem()
    process = fit_process(X, y, groups, rng)
    place = np.array([[0.9, 0.1, 0.9]])
    sure = process.believe(place)
    np.testing.assert_allclose(sure.posterior(place)[0], process.posterior(place)[0], rtol=1e-4)
    assert sure.posterior(place)[1][0, 0] < 0.5 * process.posterior(place)[1][0, 0]
    assert process.believe(np.zeros((0, 3))) is process


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
