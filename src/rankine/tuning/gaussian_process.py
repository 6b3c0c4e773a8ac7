r"""Gaussian process regression on few points: Matern-5/2, one length scale per parameter.

.. math:: k(x, x') = s_f (1 + r + r^2/3) e^{-r}, \qquad
          r^2 = 5 \sum_g |x_g - x'_g|^2 / \ell_g^2

where a group g holds the coordinates of one parameter (one for a number, one per value for a
category). Length scales, signal and noise maximise the log marginal likelihood under weak
log-normal priors (empirical Bayes; Rasmussen and Williams 2006, eq. 2.30 and 5.9): without priors
six points in five dimensions are interpolated without noise and without sense. The next candidate
is chosen by a draw from the process or by expected improvement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.special import ndtr

Floats = NDArray[np.float64]

JITTER = 1e-8
RESTARTS = 4
#: Median and standard deviation of the logarithm, for the priors of length scale, signal, noise.
PRIORS = ((0.5, 1.0), (1.0, 1.0), (1e-2, 2.0))
#: Bounds of the logarithms of length scale, signal and noise.
BOUNDS = ((-3.0, 3.0), (-4.0, 4.0), (-14.0, 1.0))


@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """A fitted process; ``y`` are values standardised by ``mean`` and ``spread``.

    ``groups`` is the parameter of each coordinate; ``scales``, ``signal``, ``noise``: length scale
    per parameter, variance of the function and of the noise; ``factor``: lower Cholesky factor of
    the covariance of ``y``.
    """

    X: Floats
    y: Floats
    groups: NDArray[np.int64]
    scales: Floats
    signal: float
    noise: float
    mean: float
    spread: float
    factor: Floats

    def posterior(self, points: Floats) -> tuple[Floats, Floats]:
        """Return mean and covariance of the function at points, in the units of the values."""
        cross = self.signal * matern(points, self.X, self.scales, self.groups)
        half = solve_triangular(self.factor, cross.T, lower=True)
        mean = half.T @ solve_triangular(self.factor, self.y, lower=True)
        within = self.signal * matern(points, points, self.scales, self.groups)
        return self.mean + self.spread * mean, self.spread**2 * (within - half.T @ half)

    def draw(self, points: Floats, rng: np.random.Generator) -> Floats:
        """Draw the function at points, jointly."""
        mean, covariance = self.posterior(points)
        normal = rng.standard_normal(len(points))
        unit = covariance / self.spread**2
        return mean + self.spread * (safe_cholesky(unit) @ normal)

    def with_expected(self, points: Floats) -> GaussianProcess:
        """Return the process as if its mean had been measured at ``points`` (running trials)."""
        if len(points) == 0:
            return self
        expected = (self.posterior(points)[0] - self.mean) / self.spread
        return self.with_data(np.vstack([self.X, points]), np.concatenate([self.y, expected]))

    def with_data(self, X: Floats, y: Floats) -> GaussianProcess:
        """Return the process with the same parameters on other points and standardised values."""
        covariance = self.signal * matern(X, X, self.scales, self.groups)
        covariance[np.diag_indices(len(y))] += self.noise
        return replace(self, X=X, y=y, factor=safe_cholesky(covariance))


def matern(A: Floats, B: Floats, scales: Floats, groups: NDArray[np.int64]) -> Floats:
    """Compute the Matern-5/2 correlation between two sets of points."""
    weight = np.sqrt(5.0) / scales[groups]
    scaled_A, scaled_B = A * weight, B * weight
    # |a - b|^2 = |a|^2 + |b|^2 - 2 a.b; rounding may make it slightly negative.
    squares = (scaled_A**2).sum(1)[:, None] + (scaled_B**2).sum(1)[None, :]
    squares = squares - 2.0 * scaled_A @ scaled_B.T
    r = np.sqrt(np.maximum(squares, 0.0))
    return np.asarray((1.0 + r + r * r / 3.0) * np.exp(-r))


def fit_process(
    X: Floats, y: Floats, groups: NDArray[np.int64], rng: np.random.Generator
) -> GaussianProcess:
    """Fit the process by empirical Bayes from several random starts."""
    # Equal values have no spread to divide by.
    mean, spread = float(y.mean()), max(float(y.std()), 1e-12)
    values = (y - mean) / spread
    n_groups = int(groups.max()) + 1
    squares = _group_squares(X, groups, n_groups)
    bounds = [BOUNDS[0]] * n_groups + [BOUNDS[1], BOUNDS[2]]
    optima = [
        minimize(
            negative_log_posterior,
            np.concatenate([np.log(rng.uniform(0.2, 1.0, n_groups)), [0.0, np.log(1e-2)]]),
            (squares, values),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": 60},
        )
        for _ in range(RESTARTS)
    ]
    best = min(optima, key=lambda optimum: optimum.fun).x
    process = GaussianProcess(X, values, groups, *_unpack(best), mean, spread, np.empty(0))
    return process.with_data(X, values)


def negative_log_posterior(theta: Floats, squares: Floats, y: Floats) -> tuple[float, Floats]:
    r"""Compute minus the log marginal likelihood and log prior, and the gradient.

    ``theta`` are logarithms of the parameters, ``squares[g]`` the squared distances along parameter
    g. With
    :math:`\partial k / \partial \log \ell_g = s_f \tfrac{5}{3} (1 + r) e^{-r} D_g / \ell_g^2`
    the gradient needs no division by r.
    """
    scales, signal, noise = _unpack(theta)
    scaled = squares * (5.0 / scales[:, None, None] ** 2)
    r = np.sqrt(scaled.sum(0))
    decay = np.exp(-r)
    correlation = (1.0 + r + r * r / 3.0) * decay
    covariance = signal * correlation
    covariance[np.diag_indices(len(y))] += noise + JITTER
    try:
        factor = cholesky(covariance, lower=True)
    except LinAlgError:
        # Not positive definite in floating point: a value that the optimiser leaves.
        return 1e10, np.zeros_like(theta)
    solved = cho_solve((factor, True), y)
    inverse = cho_solve((factor, True), np.eye(len(y)))
    value = 0.5 * y @ solved + np.log(np.diag(factor)).sum()
    # d value = 1/2 tr((K^-1 - a a^T) dK)
    weight = 0.5 * (inverse - np.outer(solved, solved))
    slope = np.empty_like(theta)
    slope[:-2] = np.einsum("gij,ij->g", scaled, weight * (signal / 3.0 * (1.0 + r) * decay))
    slope[-2] = signal * np.sum(weight * correlation)
    slope[-1] = noise * np.trace(weight)
    medians, width = np.array([PRIORS[0]] * (len(theta) - 2) + [*PRIORS[1:]]).T
    deviation = (theta - np.log(medians)) / width
    return float(value + 0.5 * deviation @ deviation), slope + deviation / width


def safe_cholesky(covariance: Floats) -> Floats:
    """Return the lower Cholesky factor, adding ten times more jitter until there is one."""
    size = max(float(np.diag(covariance).max(initial=0.0)), 1.0)
    jitter = JITTER
    while True:
        padded = covariance + jitter * size * np.eye(len(covariance))
        try:
            return np.asarray(cholesky(padded, lower=True))
        except LinAlgError:
            jitter *= 10.0


def _unpack(theta: Floats) -> tuple[Floats, float, float]:
    return np.exp(theta[:-2]), float(np.exp(theta[-2])), float(np.exp(theta[-1]))


def _group_squares(X: Floats, groups: NDArray[np.int64], n_groups: int) -> Floats:
    """Compute the squared distances between all points along each parameter."""
    squares = np.zeros((n_groups, len(X), len(X)))
    for column, group in zip(X.T, groups, strict=True):
        squares[group] += (column[:, None] - column[None, :]) ** 2
    return squares


ACQUISITIONS = ("thompson", "ei")


def choose(
    acquisition: str,
    process: GaussianProcess,
    constraints: Sequence[GaussianProcess],
    points: Floats,
    best: float,
    rng: np.random.Generator,
) -> int:
    """Return the index of the best candidate; a constraint is satisfied at values <= 0.

    Thompson sampling draws one function for the objective and one for each constraint, and chooses
    the maximum over candidates that satisfy the drawn constraints; otherwise the candidate
    with the smallest violation (Eriksson and Poloczek 2021). Expected improvement is multiplied by
    the probability that the constraints are satisfied.
    """
    if acquisition == "thompson":
        values = process.draw(points, rng)
        if not constraints:
            return int(np.argmax(values))
        violation = np.asarray(sum(np.maximum(gp.draw(points, rng), 0.0) for gp in constraints))
        satisfied = violation <= 0
        if not satisfied.any():
            return int(np.argmin(violation))
        return int(np.argmax(np.where(satisfied, values, -np.inf)))
    value = expected_improvement(process, points, best)
    for gp in constraints:
        mean, covariance = gp.posterior(points)
        value = value * ndtr(-mean / _sd(covariance))
    return int(np.argmax(value))


def expected_improvement(process: GaussianProcess, points: Floats, best: float) -> Floats:
    """Compute E max(f - best, 0) = (m - best) Phi(z) + s phi(z), z = (m - best) / s (Mockus)."""
    mean, covariance = process.posterior(points)
    sd = _sd(covariance)
    z = (mean - best) / sd
    density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    return np.asarray((mean - best) * ndtr(z) + sd * density)


def _sd(covariance: Floats) -> Floats:
    return np.sqrt(np.maximum(np.diag(covariance), 1e-18))
