"""The matrix L of pairwise least squares, as a product that never lists pairs.

For one query with row weights w, W = sum w, and residuals e::

    e^T L e = om / (2 W) sum over ordered pairs w_i w_j (e_i - e_j)^2
    "all"     L e = om w (e - mean),                       mean = <w, e> / W
    "untied"  L e = om w [ (W - W_c) e - (S - S_c) ] / W   c: rows of the same label, S = <w, e>

With unit weights the first is the centring matrix om (I - 11^T / m) (Tas, eq. 2 corrected). For
v_q the query's weight and M_q the weight of its unordered pairs, sums over usable queries::

    "query"  om_q = v_q / (sum v  W_q)     "sum"  om_q = v_q     "pair"  om_q = v_q W_q / sum(v M)

Queries whose rows all have one label are left out, as everywhere in rankine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ParameterError
from rankine.kernels.compile import jit
from rankine.kernels.rows import Rows, row_add, row_dot
from rankine.kernels.shards import cut_by_weight, map_shards
from rankine.solvers.pair_queries import check_normalization

if TYPE_CHECKING:
    from rankine.solvers.pair_queries import PairQueries

__all__ = ["PAIRS", "Laplacian", "LaplacianTotals", "PairLaplacian", "normal_times"]

PAIRS = ("all", "untied")


class Laplacian(NamedTuple):
    """What the kernels read: queries, weights (empty: ones), label ranks (empty: all pairs)."""

    rows: NDArray[np.uint32]
    starts: NDArray[np.int64]
    omega: NDArray[np.float64]
    weight: NDArray[np.float64]
    ranks: NDArray[np.uint32]
    n_levels: NDArray[np.int64]


class LaplacianTotals(NamedTuple):
    """What normalisation needs to know of all the data."""

    query_weight: float
    pair_weight: float
    n_queries: int


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
    mean = mean / total if total > 0.0 else 0.0
    rest = 0.0  # what rounding left of the mean
    for k in range(m):
        t[k] -= mean
        rest += (lap.weight[start + k] if weighted else 1.0) * t[k]
    rest = rest / total if total > 0.0 else 0.0
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


@jit
def normal_times(
    rows: Rows, lap: Laplacian, q: int, v: Any, offset: Any, factor: float, out: Any
) -> None:
    """out += factor X_q^T L_q (X_q v - offset); a query's rows are read while they are near."""
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


class PairLaplacian:
    """L over all usable queries of a partition."""

    def __init__(
        self, queries: PairQueries, pairs: str = "all", threads: int | None = None
    ) -> None:
        if pairs not in PAIRS:
            raise ParameterError(
                f"pairs={pairs!r} is not one of {', '.join(PAIRS)}", fix="Choose one of them"
            )
        self.queries = queries
        self.pairs = pairs
        self.threads = threads
        self.row_weight = _query_sums(queries, 1)
        squares = _query_sums(queries, 2)
        self.pair_weight = (
            queries.mass if pairs == "untied" else 0.5 * (self.row_weight**2 - squares)
        )
        self.cuts = cut_by_weight(queries.starts)
        self.lap = self._laplacian(np.ones(queries.n_queries))

    @property
    def totals(self) -> LaplacianTotals:
        """Sums that normalisation needs."""
        weights = self.queries.query_weight
        return LaplacianTotals(
            float(weights.sum()), float((weights * self.pair_weight).sum()), len(weights)
        )

    def normalise(self, normalization: str, totals: LaplacianTotals) -> PairLaplacian:
        """Set om_q, given the totals of all the data."""
        check_normalization(normalization, totals.n_queries)
        omega = self.queries.query_weight.copy()
        if normalization == "pair":
            omega *= self.row_weight / totals.pair_weight
        elif normalization == "query":
            omega /= totals.query_weight * self.row_weight
        self.lap = self._laplacian(omega)
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
            lambda first, last: _times(self.lap, first, last, values, out), self.cuts, self.threads
        )
        return out


def _query_sums(queries: PairQueries, power: int) -> NDArray[np.float64]:
    """Sum of w_i^power over the rows of each query."""
    sizes = np.diff(queries.starts).astype(np.float64)
    if queries.weight is None or queries.n_queries == 0:
        return sizes
    summed: NDArray[np.float64] = np.add.reduceat(queries.weight**power, queries.starts[:-1])
    return summed
