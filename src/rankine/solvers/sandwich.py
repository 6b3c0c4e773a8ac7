r"""The covariance of the weights of a penalised ranker, clustered by query.

At the minimiser of J(w) = R(w) + w'Kw/2, where R is a mean or a sum over queries, let g_q be the
gradient of query q's part of R and s_q its share (``losses.pair_queries.query_shares``). Then::

    c_q = g_q + s_q K w             what query q contributes to the gradient of J; the sum is 0
    A   = R''(w) + K                the curvature of J
    B   = n / (n - d)  sum_q (c_q - c/n) (c_q - c/n)',      c = sum_q c_q
    Cov = A^-1 B A^-1

for n queries, which are independent as wholes, and d = tr(A^-1 R''), the effective number of
weights. This is the covariance of the minimiser around that of the expected penalised risk (Huber
1967; Liang and Zeger 1986 for clusters). Quantiles are those of Student's t with n - d degrees of
freedom.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import DataError, DivergenceError
from rankine.kernels.covariance import cholesky, pivoted_cholesky, solve_columns
from rankine.solvers.query_moments import QueryMoments

#: Variances below this share of the largest one are rounding errors.
RANK_TOL = 1e-14


class Covariance(NamedTuple):
    """The covariance F F' of the parameters of a fit."""

    #: F, with a row for each parameter.
    factor: NDArray[np.float64]
    n_queries: int
    #: n - d.
    degrees: float

    def largest_distance(self, move: NDArray[np.float64]) -> float:
        """Return the largest change of a parameter in its standard errors."""
        errors = np.sqrt(np.square(self.factor).sum(axis=1))
        varying = errors > 0.0
        return float(np.max(np.abs(move[varying]) / errors[varying], initial=0.0))


class Sandwich(NamedTuple):
    """A covariance, and the Newton steps that lead to the optimum around which it is measured."""

    covariance: Covariance
    #: A^-1 c, the distance from the optimum.
    step: NDArray[np.float64]
    #: Returns A^-1 g for a gradient g.
    solve: Callable[[NDArray[np.float64]], NDArray[np.float64]]


def sandwich(moments: QueryMoments, w: NDArray[np.float64], l2: float) -> Sandwich:
    """Return the covariance of the weights ``w`` under the penalty l2/2 |w|^2."""
    n, n_features = moments.n_queries, len(w)
    chol = cholesky(moments.curvature + l2 * np.eye(n_features))
    if not np.isfinite(chol).all():
        raise DivergenceError(
            "the curvature of the objective is not positive definite, so there are no intervals",
            fix="Scale the features (scale='standard') or regularise more",
        )
    solve = partial(_solve, chol)
    degrees = degrees_of_freedom(n, n_features - l2 * float(np.trace(solve(np.eye(n_features)))))
    penalty = l2 * w
    gradient = moments.gradient + penalty
    cross = np.outer(moments.shared, penalty)
    outer = moments.outer + cross + cross.T - np.outer(gradient, gradient) / n
    outer += moments.squared_shares * np.outer(penalty, penalty)
    factor = solve(pivoted_cholesky(outer * (n / degrees), RANK_TOL))
    return Sandwich(Covariance(factor, n, degrees), solve(gradient), solve)


def _solve(chol: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (L L')^-1 b for a vector, or for every column of a matrix."""
    columns = b.reshape(len(b), -1).copy()
    solve_columns(chol, columns)
    return columns.reshape(b.shape)


def degrees_of_freedom(n_queries: int, effective: float) -> float:
    """Return n - d; raise if there are too few queries."""
    degrees = n_queries - effective
    if degrees < 1.0:
        raise too_few_queries(n_queries, effective)
    return degrees


def too_few_queries(n_queries: int, effective: float) -> DataError:
    """Build the error for fewer queries than the effective number of weights."""
    return DataError(
        f"{n_queries} queries with pairs are too few for intervals of {effective:.0f} effective "
        "weights",
        fix="Use more queries or a stronger penalty",
    )
