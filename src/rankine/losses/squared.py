"""The squared loss, and the matrix L of pairwise least squares as a product that lists no pairs.

For one query with row weights w, W = sum w, and residuals e::

    e^T L e = om / (2 W) sum over ordered pairs w_i w_j (e_i - e_j)^2
    "all"     L e = om w (e - mean),                       mean = <w, e> / W
    "untied"  L e = om w [ (W - W_c) e - (S - S_c) ] / W   c: rows of the same label, S = <w, e>

With unit weights the first is the centring matrix om (I - 11^T / m) (Tas, eq. 2 corrected). For
v_q the query's weight and M_q the weight of its unordered pairs, sums over usable queries::

    "query"  om_q = v_q / (sum v  W_q)     "sum"  om_q = v_q     "pair"  om_q = v_q W_q / sum(v M)

Queries whose rows all have one label are left out, as everywhere in rankine. A row of weight 2 is
the row twice in L; only M_q of "pair" with all pairs leaves out the pairs of a row with its own
copies, whose residuals are equal, so there the copies have a smaller om by one factor for all
queries: the same optimum at an l2 that is smaller by it.
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
from rankine.losses.base import add_normal_product, pair_loss, register_pair_loss
from rankine.losses.pair_queries import PairQueries, PairTotals, check_normalization


class Squared(NamedTuple):
    """(margin - z)^2; Tas, eq. 1 with ``margin`` the difference of the two labels."""

    margin: float = 1.0


@pair_loss.implementation(Squared)
def _squared(loss: Any, z: Any) -> Any:
    gap = loss.margin - z
    return gap * gap, -2.0 * gap, 2.0


register_pair_loss("squared", Squared, smooth=True)

PAIR_CHOICES = ("all", "untied")


class Laplacian(NamedTuple):
    """What the kernels read: queries, weights (empty: ones), label ranks (empty: all pairs)."""

    rows: NDArray[np.uint32]
    starts: NDArray[np.int64]
    omega: NDArray[np.float64]
    weight: NDArray[np.float64]
    ranks: NDArray[np.uint32]
    n_levels: NDArray[np.int64]


@jit
def _apply(lap: Laplacian, q: int, t: Any) -> None:
    """t <- L_q t for the values of one query."""
    start, m = lap.starts[q], t.shape[0]
    weighted = lap.weight.shape[0] > 0
    total, mean = 0.0, 0.0
    for k in range(m):
        w = lap.weight[start + k] if weighted else 1.0
        total += w
        mean += w * t[k]
    mean = mean / total  # a usable query has a positive weight
    rest = 0.0  # what rounding left of the mean
    for k in range(m):
        t[k] -= mean
        rest += (lap.weight[start + k] if weighted else 1.0) * t[k]
    rest = rest / total
    if lap.ranks.shape[0] == 0:
        for k in range(m):
            w = lap.weight[start + k] if weighted else 1.0
            t[k] = lap.omega[q] * w * (t[k] - rest)
        return
    level_weight = np.zeros(lap.n_levels[q] + 1)
    level_sum = np.zeros(lap.n_levels[q] + 1)
    for k in range(m):
        w = lap.weight[start + k] if weighted else 1.0
        level_weight[lap.ranks[start + k]] += w
        level_sum[lap.ranks[start + k]] += w * t[k]
    for k in range(m):
        w = lap.weight[start + k] if weighted else 1.0
        c = lap.ranks[start + k]
        pull = (total - level_weight[c]) * t[k] - (rest * total - level_sum[c])
        t[k] = lap.omega[q] * w * pull / total


@jit
def _times(lap: Laplacian, first: int, last: int, values: Any, out: Any) -> None:
    for q in range(first, last):
        t = np.empty(lap.starts[q + 1] - lap.starts[q])
        for k in range(t.shape[0]):
            t[k] = values[lap.rows[lap.starts[q] + k]]
        _apply(lap, q, t)
        for k in range(t.shape[0]):
            out[lap.rows[lap.starts[q] + k]] = t[k]


@add_normal_product.implementation(Laplacian)
def _normal_times(lap: Any, rows: Any, q: Any, v: Any, offset: Any, factor: Any, out: Any) -> Any:
    start, stop = lap.starts[q], lap.starts[q + 1]
    t = np.empty(stop - start)
    for k in range(t.shape[0]):
        t[k] = row_dot(rows, lap.rows[start + k], v)
        if offset.shape[0]:
            t[k] -= offset[lap.rows[start + k]]
    _apply(lap, q, t)
    for k in range(t.shape[0]):
        if t[k] != 0.0:
            row_add(rows, lap.rows[start + k], factor * t[k], out)


@jit
def _normal_range(rows: Any, lap: Any, first: int, last: int, v: Any, out: Any) -> None:
    none = np.zeros(0)
    for q in range(first, last):
        add_normal_product(lap, rows, q, v, none, 1.0, out)


#: Shards of whole queries share the work only if the longest query is below this part of a shard.
LONGEST_SHARE = 4


class LeastSquaresRisk:
    """(p - y)^T L (p - y) over the usable queries of a dataset or partition.

    ``y`` are all labels; ``pairs`` is "all", or "untied": pairs of different labels alone.
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
        self.row_weight = _query_sums(queries, 1)
        squares = _query_sums(queries, 2)
        self.pair_weight = (
            queries.pair_weight if pairs == "untied" else 0.5 * (self.row_weight**2 - squares)
        )
        self.cuts = queries.cuts
        self.laplacian = self._laplacian(np.ones(queries.n_queries))

    @property
    def totals(self) -> PairTotals:
        """Sums that normalisation needs; pairs count as ``pairs`` says."""
        weights = self.queries.query_weight
        return PairTotals(
            float(weights.sum()), float((weights * self.pair_weight).sum()), len(weights)
        )

    def normalise(self, normalization: str, totals: PairTotals) -> LeastSquaresRisk:
        """Set om_q, given the totals of all the data."""
        check_normalization(normalization, totals.n_queries)
        omega = self.queries.query_weight.copy()
        if normalization == "pair":
            omega *= self.row_weight / totals.pair_weight
        elif normalization == "query":
            omega /= totals.query_weight * self.row_weight
        self.laplacian = self._laplacian(omega)
        return self

    def _laplacian(self, omega: NDArray[np.float64]) -> Laplacian:
        queries = self.queries
        return Laplacian(
            queries.rows,
            queries.starts,
            omega,
            np.zeros(0) if queries.weight is None else queries.weight,
            queries.ranks if self.pairs == "untied" else queries.ranks[:0],
            queries.n_levels,
        )

    def times(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """L v in row order; 0 for rows that form no pair."""
        out = np.zeros(len(values))
        map_shards(
            lambda first, last: _times(self.laplacian, first, last, values, out),
            self.cuts,
            self.threads,
        )
        return out

    def target(self) -> NDArray[np.float64]:
        """L y."""
        return self.times(self.y)

    def spread(self, scores: NDArray[np.float64]) -> float:
        """(p - y)^T L (p - y)."""
        residual = scores - self.y
        return float(dot(residual, self.times(residual)))

    def query_values(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """What each usable query adds to it."""
        residual = scores - self.y
        each = residual * self.times(residual)
        return np.add.reduceat(each[self.queries.rows], self.queries.starts[:-1])

    @property
    def row_weight_sum(self) -> float:
        """Sum of om_q W_q: what all rows weigh together."""
        return float((self.laplacian.omega * self.row_weight).sum())

    def normal_product(self, products: Products, v: NDArray[np.float64]) -> NDArray[np.float64]:
        """X^T L X v.

        X is never centred and never copied. Where all queries are short, each query's rows are
        read once for both directions, while they are in the processor's cache.
        """
        starts = self.queries.starts
        sums, sizes = len(products.sum_cuts) - 1, np.diff(starts)
        if len(sizes) == 0 or int(sizes.max()) * LONGEST_SHARE * sums > int(sizes.sum()):
            return products.transpose_times(self.times(products.scores(v)))
        shards = map_shards(
            lambda first, last: self.range_product(products, first, last, v),
            cut_by_weight(starts, sums),
            self.threads,
        )
        return tree_sum(shards)

    def range_product(
        self, products: Products, first: int, last: int, v: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """X^T L X v over queries ``first`` to ``last`` alone."""
        out = np.zeros(products.n_features)
        _normal_range(products.rows, self.laplacian, first, last, v, out)
        return out

    def blocks(
        self, products: Products, count: int
    ) -> list[Callable[[NDArray[np.float64]], NDArray[np.float64]]]:
        """Products with at most ``count`` blocks of queries, which add up to the whole."""
        cuts = cut_by_weight(self.queries.starts, count).tolist()
        return [
            partial(self.range_product, products, a, b)
            for a, b in zip(cuts[:-1], cuts[1:], strict=True)
        ]


def least_squares_totals(data: Dataset, pairs: str = "all") -> PairTotals:
    """Totals of a dataset, or of a partition."""
    return LeastSquaresRisk(PairQueries.from_dataset(data), data.y, pairs).totals


def least_squares_risk(
    data: Dataset,
    query_weight: NDArray[np.float64] | None = None,
    normalization: str = "query",
    pairs: str = "all",
    totals: PairTotals | None = None,
    threads: int | None = None,
) -> LeastSquaresRisk:
    """The quadratic risk of a dataset; ``totals`` of all the data where this is a partition."""
    squares = LeastSquaresRisk(PairQueries.from_dataset(data, query_weight), data.y, pairs, threads)
    return squares.normalise(normalization, squares.totals if totals is None else totals)


def _query_sums(queries: PairQueries, power: int) -> NDArray[np.float64]:
    """Sum of w_i^power over the rows of each query."""
    sizes = np.diff(queries.starts).astype(np.float64)
    if queries.weight is None or queries.n_queries == 0:
        return sizes
    return np.add.reduceat(queries.weight**power, queries.starts[:-1])
