"""Pairwise least squares: the Laplacian L of the squared loss as a product that lists no pairs.

For one query with row weights w, W = sum w, and residuals e = Xw - y::

    e^T L e = om / (2 W) sum over ordered pairs w_i w_j (e_i - e_j)^2
    "all"     L e = om w (e - mean),                       mean = <w, e> / W
    "untied"  L e = om w [ (W - W_c) e - (S - S_c) ] / W   c: rows of the same label, S = <w, e>

With unit weights the first is the centring matrix om (I - 11^T / m) (Tas, eq. 2 corrected). A query
is *usable* if it holds two rows of different labels; only these take part. With the query's weight
v_q, the weight M_q of its unordered pairs, and sums over usable queries::

    "query"  om_q = v_q / (sum v  W_q)     "sum"  om_q = v_q     "pair"  om_q = v_q W_q / sum(v M)

A row of weight 2 enters L like the same row twice. The one exception is M_q of "pair" with all
pairs, which leaves out the pairs of a row with its own copies (their residuals are equal). There
om of the copies is smaller by one factor for all queries, which gives the same optimum at an l2
that is smaller by that factor.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.data.dataset import Dataset
from rankine.kernels.compile import jit
from rankine.kernels.products import Products
from rankine.kernels.rows import row_add, row_dot
from rankine.kernels.shards import cut_by_weight, dot, map_shards, tree_sum
from rankine.losses.base import add_normal_product
from rankine.losses.pair_queries import (
    PairQueries,
    PairTotals,
    check_normalization,
    query_shares,
)
from rankine.losses.query_curvature import query_derivatives

#: Values of ``pairs``: all pairs of rows of a query, or those of rows with different labels.
PAIR_CHOICES = ("all", "untied")


class Laplacian(NamedTuple):
    """L for compiled code."""

    rows: NDArray[np.uint32]
    starts: NDArray[np.int64]
    omega: NDArray[np.float64]
    #: Row weights in grouped order, read if ``weighted``.
    weight: NDArray[np.float64]
    weighted: bool
    #: Label ranks in grouped order and distinct labels per query, read if ``untied``.
    ranks: NDArray[np.uint32]
    n_levels: NDArray[np.int64]
    untied: bool


@jit
def _apply(lap: Laplacian, q: int, t: Any) -> None:
    """Replace the values ``t`` of query q's rows by L_q t."""
    start, m = lap.starts[q], t.shape[0]
    total, mean = 0.0, 0.0
    for k in range(m):
        w = lap.weight[start + k] if lap.weighted else 1.0
        total += w
        mean += w * t[k]
    mean = mean / total  # a usable query has a positive weight
    # Centring first keeps all digits if the values share a large offset. Rounding leaves a small
    # mean of the centred values, which is subtracted as well.
    remainder = 0.0
    for k in range(m):
        t[k] -= mean
        remainder += (lap.weight[start + k] if lap.weighted else 1.0) * t[k]
    remainder = remainder / total
    if not lap.untied:
        for k in range(m):
            w = lap.weight[start + k] if lap.weighted else 1.0
            t[k] = lap.omega[q] * w * (t[k] - remainder)
        return
    level_weight = np.zeros(lap.n_levels[q] + 1)
    level_sum = np.zeros(lap.n_levels[q] + 1)
    for k in range(m):
        w = lap.weight[start + k] if lap.weighted else 1.0
        level_weight[lap.ranks[start + k]] += w
        level_sum[lap.ranks[start + k]] += w * t[k]
    for k in range(m):
        w = lap.weight[start + k] if lap.weighted else 1.0
        c = lap.ranks[start + k]
        difference = (total - level_weight[c]) * t[k] - (remainder * total - level_sum[c])
        t[k] = lap.omega[q] * w * difference / total


@jit
def _times(lap: Laplacian, first: int, last: int, values: Any, out: Any) -> None:
    """Write L v of the queries ``first`` to ``last`` to ``out``, both in row order."""
    for q in range(first, last):
        t = np.empty(lap.starts[q + 1] - lap.starts[q])
        for k in range(t.shape[0]):
            t[k] = values[lap.rows[lap.starts[q] + k]]
        _apply(lap, q, t)
        for k in range(t.shape[0]):
            out[lap.rows[lap.starts[q] + k]] = t[k]


@add_normal_product.implementation(Laplacian)
def _add_normal_product(
    lap: Any, rows: Any, q: Any, v: Any, y: Any, residual: Any, factor: Any, out: Any
) -> Any:
    start, stop = lap.starts[q], lap.starts[q + 1]
    t = np.empty(stop - start)
    for k in range(t.shape[0]):
        t[k] = row_dot(rows, lap.rows[start + k], v)
        if residual:
            t[k] -= y[lap.rows[start + k]]
    _apply(lap, q, t)
    for k in range(t.shape[0]):
        if t[k] != 0.0:
            row_add(rows, lap.rows[start + k], factor * t[k], out)


@jit
def _add_normal_products(
    rows: Any, lap: Any, first: int, last: int, v: Any, y: Any, out: Any
) -> None:
    for q in range(first, last):
        add_normal_product(lap, rows, q, v, y, False, 1.0, out)


class SquareCurvature(NamedTuple):
    """2 L for compiled code, with slopes in row order."""

    laplacian: Laplacian
    slopes: NDArray[np.float64]


@query_derivatives.implementation(SquareCurvature)
def _square_derivatives(curvature: Any, q: Any, X: Any, slopes: Any, out: Any) -> Any:
    # As ``_apply`` computes it for one column.
    lap = curvature.laplacian
    start, n_rows = lap.starts[q], X.shape[0]
    for k in range(n_rows):
        slopes[k] = curvature.slopes[lap.rows[start + k]]
    out[:] = X
    total = 0.0
    # Twice, because rounding leaves a small mean of the centred values.
    for _ in range(2):
        total = 0.0
        mean = np.zeros(X.shape[1])
        for k in range(n_rows):
            w = lap.weight[start + k] if lap.weighted else 1.0
            total += w
            for j in range(X.shape[1]):
                mean[j] += w * out[k, j]
        for k in range(n_rows):
            for j in range(X.shape[1]):
                out[k, j] -= mean[j] / total
    if lap.untied:
        level_weight = np.zeros(lap.n_levels[q] + 1)
        level_sum = np.zeros((lap.n_levels[q] + 1, X.shape[1]))
        for k in range(n_rows):
            w = lap.weight[start + k] if lap.weighted else 1.0
            level_weight[lap.ranks[start + k]] += w
            level_sum[lap.ranks[start + k]] += w * out[k]
        for k in range(n_rows):
            c = lap.ranks[start + k]
            out[k] = ((total - level_weight[c]) * out[k] + level_sum[c]) / total
    for k in range(n_rows):
        w = lap.weight[start + k] if lap.weighted else 1.0
        factor = 2.0 * lap.omega[q] * w
        for j in range(X.shape[1]):
            out[k, j] *= factor


#: Shards of whole queries balance only if the longest query is below this part of a shard.
LONGEST_SHARE = 4


class LeastSquaresRisk:
    """R(p) = (p - y)^T L (p - y) over the usable queries of a dataset or partition; Tas, eq. 2.

    ``y`` are the labels by row; for ``pairs`` see ``PAIR_CHOICES``.
    """

    def __init__(
        self,
        queries: PairQueries,
        y: NDArray[np.float64],
        pairs: str = "all",
        threads: int | None = None,
    ) -> None:
        self.queries = queries
        self.y = y
        self.pairs = pairs
        self.threads = threads
        self.row_weight = _query_sums(queries, 1)  # W_q
        if pairs == "untied":
            self.pair_weight = queries.pair_weight  # M_q
        else:
            self.pair_weight = 0.5 * (self.row_weight**2 - _query_sums(queries, 2))
        self.cuts = queries.cuts
        #: Share of each query in the mean that the risk is, see ``query_shares``.
        self.shares = np.zeros(queries.n_queries)
        self.laplacian = self._build_laplacian(np.ones(queries.n_queries))

    @property
    def totals(self) -> PairTotals:
        """Sums over these queries, for the normalisation; ``pairs`` selects the pairs."""
        weights = self.queries.query_weight
        return PairTotals(
            float(weights.sum()), float((weights * self.pair_weight).sum()), len(weights)
        )

    def normalise(self, normalization: str, totals: PairTotals) -> LeastSquaresRisk:
        """Set om_q from the query weights, given the totals of all the data."""
        check_normalization(normalization, totals.n_queries)
        omega = self.queries.query_weight.copy()
        if normalization == "pair":
            omega *= self.row_weight / totals.pair_weight
        elif normalization == "query":
            omega /= totals.query_weight * self.row_weight
        self.laplacian = self._build_laplacian(omega)
        self.shares = query_shares(
            normalization, totals, self.queries.query_weight, self.pair_weight
        )
        return self

    def _build_laplacian(self, omega: NDArray[np.float64]) -> Laplacian:
        queries = self.queries
        return Laplacian(
            queries.rows,
            queries.starts,
            omega,
            queries.kernel_weight,
            queries.weighted,
            queries.ranks,
            queries.n_levels,
            self.pairs == "untied",
        )

    def times(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return L v in row order; 0 for rows that form no pair."""
        out = np.zeros(len(values))
        map_shards(
            lambda first, last: _times(self.laplacian, first, last, values, out),
            self.cuts,
            self.threads,
        )
        return out

    def right_hand_side(self) -> NDArray[np.float64]:
        """Return L y."""
        return self.times(self.y)

    def evaluate(self, scores: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return R and its slopes 2 L (p - y)."""
        residual = scores - self.y
        product = self.times(residual)
        return float(dot(residual, product)), 2.0 * product

    def query_curvature(self, scores: NDArray[np.float64], width: float) -> SquareCurvature:  # noqa: ARG002
        """Return 2 L, which is the same at all scores, with the slopes."""
        return SquareCurvature(self.laplacian, self.evaluate(scores)[1])

    def value(self, scores: NDArray[np.float64]) -> float:
        """Return (p - y)^T L (p - y)."""
        residual = scores - self.y
        return float(dot(residual, self.times(residual)))

    def query_values(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the contribution of each usable query to ``value``."""
        residual = scores - self.y
        by_row = residual * self.times(residual)
        return np.add.reduceat(by_row[self.queries.rows], self.queries.starts[:-1])

    @property
    def row_weight_sum(self) -> float:
        """Sum of om_q W_q, the weight of all rows."""
        return float((self.laplacian.omega * self.row_weight).sum())

    def normal_product(self, products: Products, v: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return X^T L X v; X is neither centred nor copied.

        If all queries are short, the rows of each query are read once for both products, while
        they are in the processor's cache.
        """
        starts = self.queries.starts
        n_shards = len(products.sum_cuts) - 1
        sizes = np.diff(starts)
        # With a long query the shards would be too uneven: two products, each sharded by rows.
        if len(sizes) == 0 or int(sizes.max()) * LONGEST_SHARE * n_shards > int(sizes.sum()):
            return products.transpose_times(self.times(products.scores(v)))
        shard_products = map_shards(
            lambda first, last: self.range_product(products, first, last, v),
            cut_by_weight(starts, n_shards),
            self.threads,
        )
        return tree_sum(shard_products)

    def range_product(
        self, products: Products, first: int, last: int, v: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return X^T L X v summed over the queries ``first`` to ``last`` only."""
        out = np.zeros(products.n_features)
        _add_normal_products(products.rows, self.laplacian, first, last, v, self.y, out)
        return out

    def blocks(
        self, products: Products, count: int
    ) -> list[Callable[[NDArray[np.float64]], NDArray[np.float64]]]:
        """Return products with at most ``count`` blocks of queries; they sum to X^T L X v."""
        cuts = cut_by_weight(self.queries.starts, count).tolist()
        return [
            partial(self.range_product, products, first, last)
            for first, last in zip(cuts[:-1], cuts[1:], strict=True)
        ]


def least_squares_totals(data: Dataset, pairs: str = "all") -> PairTotals:
    """Return the totals of a dataset or of a partition."""
    return LeastSquaresRisk(PairQueries.from_dataset(data), data.y, pairs).totals


def least_squares_risk(
    data: Dataset,
    query_weight: NDArray[np.float64] | None = None,
    normalization: str = "query",
    pairs: str = "all",
    totals: PairTotals | None = None,
    threads: int | None = None,
) -> LeastSquaresRisk:
    """Return the quadratic risk of a dataset.

    ``totals`` are sums over all the data if ``data`` is a partition of it.
    """
    queries = PairQueries.from_dataset(data, query_weight)
    risk = LeastSquaresRisk(queries, data.y, pairs, threads)
    if totals is None:
        totals = risk.totals
    return risk.normalise(normalization, totals)


def _query_sums(queries: PairQueries, power: int) -> NDArray[np.float64]:
    """Return the sum of w_i^power over the rows of each query."""
    if queries.weight is None or queries.n_queries == 0:
        return np.diff(queries.starts).astype(np.float64)
    return np.add.reduceat(queries.weight**power, queries.starts[:-1])
