"""The curvature of a risk query by query, for the covariance of the weights.

K_q is the second derivative of query q's part of the risk in the scores of its rows: a matrix of
the query's rows. The curvature of the risk in the weights is the sum over queries of X_q' K_q X_q.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import REDUCE, jit
from rankine.kernels.dispatch import generic
from rankine.losses.base import pair_loss

if TYPE_CHECKING:
    from rankine.losses.pair_queries import PairQueries

#: Visiting all pairs costs more than one product with the curvature for each weight where the
#: average row is in a query of more rows than this, and too much memory where a query has more.
LONG_ON_AVERAGE, LONGEST = 1000.0, 4000


@generic
def query_derivatives(
    curvature: Any,
    q: int,
    X: NDArray[np.float64],
    slopes: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Write the slopes of query q's rows to ``slopes``, and K_q X to ``out``.

    ``X`` has a row for each row of query q.
    """


class PairCurvature(NamedTuple):
    """K of a sum of pair losses at fixed scores, for compiled code.

    With a ``width`` above 0 the curvature of a pair is 1 / width where its score difference is
    within width / 2 of 1, and 0 elsewhere; otherwise it is that of the loss.
    """

    loss: Any
    scores: NDArray[np.float64]
    rows: NDArray[np.uint32]
    starts: NDArray[np.int64]
    ranks: NDArray[np.uint32]
    weight: NDArray[np.float64]
    weighted: bool
    omega: NDArray[np.float64]
    width: float


@query_derivatives.implementation(PairCurvature)
def _pair_derivatives(curvature: Any, q: Any, X: Any, slopes: Any, out: Any) -> Any:
    matrix = np.zeros((X.shape[0], X.shape[0]))
    slopes[:] = 0.0
    _add_pairs(curvature, q, matrix, slopes)
    _multiply(matrix, X, out)


@jit
def _add_pairs(curvature: Any, q: int, matrix: Any, slopes: Any) -> None:
    """Add the derivatives of all pairs of query q."""
    start, n_rows = curvature.starts[q], slopes.shape[0]
    order, level_starts = _sort_by_rank(curvature.ranks[start : start + n_rows])
    scores, weight = np.empty(n_rows), np.ones(n_rows)
    for k in range(n_rows):
        scores[k] = curvature.scores[curvature.rows[start + order[k]]]
        if curvature.weighted:
            weight[k] = curvature.weight[start + order[k]]
    pair_slopes, pair_curvatures = np.empty(n_rows), np.empty(n_rows)
    for k in range(n_rows):
        a = order[k]
        n_worse = level_starts[curvature.ranks[start + a] - 1]
        factor = curvature.omega[q] * weight[k]
        for l in range(n_worse):
            difference = scores[k] - scores[l]
            _, slope, second = pair_loss(curvature.loss, difference)
            if curvature.width > 0.0:
                second = 0.0
                if abs(difference - 1.0) < 0.5 * curvature.width:
                    second = 1.0 / curvature.width
            pair_slopes[l] = factor * weight[l] * slope
            pair_curvatures[l] = factor * weight[l] * second
        for l in range(n_worse):
            b = order[l]
            slopes[a] += pair_slopes[l]
            slopes[b] -= pair_slopes[l]
            if pair_curvatures[l] != 0.0:
                matrix[a, a] += pair_curvatures[l]
                matrix[b, b] += pair_curvatures[l]
                matrix[a, b] = matrix[b, a] = -pair_curvatures[l]


@jit
def _sort_by_rank(ranks: Any) -> Any:
    """Return the positions of ranks 1, 2, ... in this order, and where each rank begins."""
    starts = np.zeros(ranks.max() + 1, dtype=np.int64)
    for rank in ranks:
        starts[rank] += 1
    starts = np.cumsum(starts)
    following, order = starts.copy(), np.empty(len(ranks), dtype=np.int64)
    for k in range(len(ranks)):
        order[following[ranks[k] - 1]] = k
        following[ranks[k] - 1] += 1
    return order, starts


@jit(fastmath=REDUCE)
def _multiply(matrix: Any, X: Any, out: Any) -> None:
    """Write ``matrix`` times X to ``out``."""
    n_rows = X.shape[0]
    whole = n_rows - n_rows % 4
    for a in range(n_rows):
        out[a] = 0.0
        # Four rows at a time: each entry of the sum is loaded and stored once for all of them.
        for b in range(0, whole, 4):
            c, d, e, f = matrix[a, b], matrix[a, b + 1], matrix[a, b + 2], matrix[a, b + 3]
            if c == 0.0 and d == 0.0 and e == 0.0 and f == 0.0:
                continue
            for j in range(X.shape[1]):
                out[a, j] += c * X[b, j] + d * X[b + 1, j] + e * X[b + 2, j] + f * X[b + 3, j]
        for b in range(whole, n_rows):
            for j in range(X.shape[1]):
                out[a, j] += matrix[a, b] * X[b, j]


def pair_curvature(risk: Any, scores: NDArray[np.float64], width: float) -> PairCurvature:
    """Return the curvature of a sum of pair losses at these scores."""
    queries = risk.queries
    return PairCurvature(
        risk.loss,
        scores,
        queries.rows,
        queries.starts,
        queries.ranks,
        queries.kernel_weight,
        queries.weighted,
        risk.omega,
        width,
    )


def has_long_queries(queries: PairQueries) -> bool:
    """Return whether visiting all pairs would cost too much."""
    sizes = np.diff(queries.starts).astype(np.float64)
    average = float(np.square(sizes).sum()) / max(float(sizes.sum()), 1.0)
    return average > LONG_ON_AVERAGE or float(sizes.max(initial=0.0)) > LONGEST
