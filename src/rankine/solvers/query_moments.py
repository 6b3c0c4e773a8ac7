"""Sums over queries that the covariance of the weights is computed from."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.products import Products
from rankine.kernels.rows import row_add, rows_add_outer
from rankine.kernels.shards import N_SHARDS, cut_by_weight, map_shards, tree_sum
from rankine.losses.query_curvature import query_derivatives

#: Each shard of queries has two matrices of the size of the covariance. Together they may take at
#: most this share of the memory of the rows, unless there is a single shard.
MATRIX_SHARE = 4


class QueryMoments(NamedTuple):
    """Sums over queries q with gradients g_q of the risk and shares s_q (``query_shares``).

    Sums of two sources are the moments of both together.
    """

    #: The curvature of the risk in the weights.
    curvature: NDArray[np.float64]
    #: Sum of g_q g_q'.
    outer: NDArray[np.float64]
    #: Sum of g_q, the gradient of the risk.
    gradient: NDArray[np.float64]
    #: Sum of s_q g_q.
    shared: NDArray[np.float64]
    #: Sum of s_q^2.
    squared_shares: float
    n_queries: int


@jit
def _add_gradients(
    rows: Any,
    queries: Any,
    slopes: Any,
    shares: Any,
    first: int,
    last: int,
    outer: Any,
    gradient: Any,
    shared: Any,
) -> None:
    """Add what the queries ``first`` to ``last`` contribute to the sums of their gradients."""
    query_rows, starts = queries
    g = np.empty(gradient.shape[0])
    for q in range(first, last):
        g[:] = 0.0
        for k in range(starts[q], starts[q + 1]):
            slope = slopes[query_rows[k]]
            if slope != 0.0:
                row_add(rows, query_rows[k], slope, g)
        for i in range(g.shape[0]):
            gradient[i] += g[i]
            shared[i] += shares[q] * g[i]
            c = g[i]
            if c != 0.0:
                for j in range(i + 1):
                    outer[i, j] += c * g[j]


@jit
def _add_curvature(
    rows: Any, queries: Any, curvature: Any, first: int, last: int, slopes: Any, out: Any
) -> None:
    """Add X_q' K_q X_q of the queries ``first`` to ``last`` to the lower triangle of ``out``.

    Writes the slopes of their rows to ``slopes``.
    """
    query_rows, starts = queries
    longest = 0
    for q in range(first, last):
        longest = max(longest, starts[q + 1] - starts[q])
    X, products = np.empty((longest, out.shape[0])), np.empty((longest, out.shape[0]))
    query_slopes = np.empty(longest)
    for q in range(first, last):
        items = query_rows[starts[q] : starts[q + 1]]
        n_rows = len(items)
        X[:n_rows] = 0.0
        for k in range(n_rows):
            row_add(rows, items[k], 1.0, X[k])
        query_derivatives(curvature, q, X[:n_rows], query_slopes[:n_rows], products[:n_rows])
        for k in range(n_rows):
            slopes[items[k]] = query_slopes[k]
        rows_add_outer(rows, items, X[:n_rows], products[:n_rows], out)


def measure_queries(
    products: Products, risk: Any, scores: NDArray[np.float64], width: float
) -> QueryMoments:
    """Sum over the queries of a risk at these scores; ``width`` smooths the kinks of a hinge."""
    n_features, queries = products.n_features, risk.queries
    curvature = risk.query_curvature(scores, width)
    by_query = isinstance(curvature, tuple)
    if by_query:
        # Queries share no row, so that threads write to different places.
        slopes = np.zeros(len(scores))
    else:
        slopes = risk.evaluate(scores)[1]
    n_values = len(queries.rows) * n_features
    n_shards = min(N_SHARDS, max(1, n_values // (MATRIX_SHARE * max(n_features, 1) ** 2)))
    cuts = cut_by_weight(queries.starts, n_shards)
    layout = (queries.rows, queries.starts)

    def measure_shard(first: int, last: int) -> tuple[NDArray[np.float64], ...]:
        size = (n_features, n_features)
        sums = np.zeros(size), np.zeros(size), np.zeros(n_features), np.zeros(n_features)
        if by_query:
            _add_curvature(products.rows, layout, curvature, first, last, slopes, sums[0])
        _add_gradients(products.rows, layout, slopes, risk.shares, first, last, *sums[1:])
        return sums

    parts = map_shards(measure_shard, cuts, products.threads)
    matrix, outer, gradient, shared = (tree_sum(list(sums)) for sums in zip(*parts, strict=True))
    if by_query:
        matrix = _mirror(matrix)
    else:
        matrix = _products_by_column(products, curvature)
    squared_shares = float(np.square(risk.shares).sum())
    return QueryMoments(matrix, _mirror(outer), gradient, shared, squared_shares, queries.n_queries)


def _products_by_column(products: Products, curvature: Any) -> NDArray[np.float64]:
    """Return X' K X column by column."""
    out = np.empty((products.n_features, products.n_features))
    unit = np.zeros(products.n_features)
    for j in range(products.n_features):
        unit[j] = 1.0
        out[j] = products.transpose_times(curvature.times(products.scores(unit)))
        unit[j] = 0.0
    return out


def _mirror(lower: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the symmetric matrix with this lower triangle."""
    return np.tril(lower) + np.tril(lower, -1).T
