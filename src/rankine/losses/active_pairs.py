"""Hinge and squared hinge summed over all pairs as functions of scores, without listing pairs.

A pair is *active* if its score difference is below the margin. For row i let ``above_i`` (c) and
``below_i`` (d) be the sums of row weights of its active higher and lower partners, and
``near_i(g)`` the sum of w_j g_j over all its active partners j (see ``kernels.counting``). With
scores p = Xw::

    hinge    R  = sum_q om_q sum_i w_i [ (c_i - d_i) p_i + c_i ]          (Airola et al., eq. 3)
             u  = om w (c - d)
    squared  R  = sum_q om_q sum_i w_i [ c_i + (2 (c_i - d_i) + t_i) p_i ]
             t  = (c + d) p - near(p)
             u  = 2 om w ( t + c - d )
             Hv = 2 om w ( (c + d) v - near(v) )                          active pairs held fixed

where u is dR/dp and H is d2R/dp2. Scores are centred within their query before they are
multiplied: R depends on differences only, and no large common offset cancels digits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ParameterError
from rankine.kernels.compile import jit
from rankine.kernels.counting import Each, Ones, SortedRows, active_sums, levels_sums, pairs_sums
from rankine.kernels.shards import map_shards
from rankine.kernels.sorting import sort_scores
from rankine.losses.pair_queries import PairQueries
from rankine.losses.query_curvature import has_long_queries, pair_curvature

#: Algorithms that sum over active partners: O(m log m), O(levels m), O(m^2).
COUNTINGS = {"tree": active_sums, "levels": levels_sums, "pairs": pairs_sums}


@jit
def _copy_items(values: Any, items: Any, out: Any) -> None:
    for k in range(items.shape[0]):
        out[k] = values[items[k]]


@jit
def _gather(values: Any, rows: Any, items: Any, out: Any) -> None:
    for k in range(items.shape[0]):
        out[k] = values[rows[items[k]]]


@jit
def _scatter(values: Any, rows: Any, items: Any, out: Any) -> None:
    for k in range(items.shape[0]):
        out[rows[items[k]]] = values[k]


@jit
def _centre(p: Any, starts: Any, out: Any) -> None:
    """Subtract its mean from the scores of each query."""
    for q in range(starts.shape[0] - 1):
        start, stop = starts[q], starts[q + 1]
        # Subtract the middle score first: the mean of the differences is small for any offset.
        offset = p[(start + stop) // 2]
        mean = 0.0
        for k in range(start, stop):
            mean += p[k] - offset
        mean = mean / (stop - start)
        for k in range(start, stop):
            out[k] = (p[k] - offset) - mean


@jit
def _hinge_sums(
    p: Any,
    weight: Any,
    weighted: bool,
    above: Any,
    below: Any,
    starts: Any,
    omega: Any,
    slope: Any,
) -> float:
    """Return the risk R of the hinge and write u to ``slope``; all arrays in sorted order."""
    risk = 0.0
    for q in range(starts.shape[0] - 1):
        query_risk = 0.0
        for k in range(starts[q], starts[q + 1]):
            w = weight[k] if weighted else 1.0
            excess = w * (above[k] - below[k])
            query_risk += excess * p[k] + w * above[k]
            slope[k] = omega[q] * excess
        risk += omega[q] * query_risk
    return risk


@jit
def _squared_hinge_sums(
    p: Any,
    weight: Any,
    weighted: bool,
    above: Any,
    below: Any,
    near: Any,
    starts: Any,
    omega: Any,
    slope: Any,
) -> float:
    """Return the risk R of the squared hinge and write u to ``slope``; arrays in sorted order."""
    risk = 0.0
    for q in range(starts.shape[0] - 1):
        query_risk = 0.0
        for k in range(starts[q], starts[q + 1]):
            w = weight[k] if weighted else 1.0
            t = (above[k] + below[k]) * p[k] - near[k]
            excess = above[k] - below[k]
            query_risk += w * (above[k] + (2.0 * excess + t) * p[k])
            slope[k] = 2.0 * omega[q] * w * (t + excess)
        risk += omega[q] * query_risk
    return risk


@jit
def _curvature_product(
    v: Any, weight: Any, weighted: bool, degree: Any, near: Any, starts: Any, omega: Any, out: Any
) -> None:
    """Write Hv of the squared hinge to ``out``; all arrays in sorted order."""
    for q in range(starts.shape[0] - 1):
        for k in range(starts[q], starts[q + 1]):
            w = weight[k] if weighted else 1.0
            out[k] = 2.0 * omega[q] * w * (degree[k] * v[k] - near[k])


class ActivePairs:
    """Active pairs at fixed scores: rows are sorted once and then summed over any number of times.

    *Sorted order* is grouped by query and by score within a query.
    """

    def __init__(
        self, queries: PairQueries, scores: NDArray[np.float64], counting: str, threads: int | None
    ) -> None:
        self.queries = queries
        self.n_rows = len(scores)
        self.threads = threads
        self._sum_partners = COUNTINGS[counting]
        self.cuts = queries.cuts
        starts = queries.starts
        sorted_scores, items, spare = sort_scores(scores, queries.rows, starts, threads)
        self.items = items
        ranks = np.empty_like(queries.ranks)
        self._over_row_shards(lambda a, b: _copy_items(queries.ranks, items[a:b], ranks[a:b]))
        self.rows = SortedRows(sorted_scores, ranks, queries.n_levels, starts)
        self.weighted = queries.weighted
        self.weight = queries.kernel_weight
        if self.weighted:
            self.weight = self.weight[items]
        # The sort's second buffer is free again: it holds the centred scores from here on.
        _centre(sorted_scores, starts, spare)
        self.centred = spare

    def _over_row_shards(self, work: Callable[[int, int], None]) -> None:
        map_shards(work, self.queries.row_cuts, self.threads)

    def sums(
        self, values: NDArray[np.float64] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return sums over the active higher and over the active lower partners of each row.

        Sums ``values`` (in sorted order), by default the row weights.
        """
        out = np.empty(len(self.items)), np.empty(len(self.items))
        summands: Ones | Each
        if values is not None:
            summands = Each(values)
        elif self.weighted:
            summands = Each(self.weight)
        else:
            summands = Ones()
        # Weights of 1 are counted in integers: half the memory, and no rounding.
        dtype: Any = np.int32 if isinstance(summands, Ones) else np.float64
        shards = list(zip(self.cuts[:-1], self.cuts[1:], strict=True))

        # Higher and lower partners of a shard are two tasks, so a single shard uses two threads.
        # ``range`` serves as cuts: task number k is the span from k to k + 1.
        def sum_partners(number: int, _next: int) -> None:
            shard, direction = divmod(number, 2)
            first, last = int(shards[shard][0]), int(shards[shard][1])
            n_levels = self.queries.n_levels[first:last]
            tree = np.zeros(int(n_levels.max(initial=0)) + 1, dtype=dtype)
            upward = direction == 0
            self._sum_partners(self.rows, (first, last), summands, tree, upward, out[direction])

        map_shards(sum_partners, range(2 * len(shards) + 1), self.threads)
        return out

    def near(self, sorted_values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return near(g): sums of w_j g_j over all active partners."""
        if self.weighted:
            sorted_values = sorted_values * self.weight
        above, below = self.sums(sorted_values)
        above += below  # both are new arrays, so the sum needs no third
        return above

    def sort(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return values in row order in sorted order."""
        out, rows, items = np.empty(len(self.items)), self.queries.rows, self.items
        self._over_row_shards(lambda a, b: _gather(values, rows, items[a:b], out[a:b]))
        return out

    def unsort(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return sorted values in row order, 0 for rows that form no pair."""
        out, rows, items = np.zeros(self.n_rows), self.queries.rows, self.items
        self._over_row_shards(lambda a, b: _scatter(values[a:b], rows, items[a:b], out))
        return out


class ActivePairsRisk:
    """Base of risks that are sums over active pairs of a loss with margin 1."""

    #: R(0) of all the data; ``pair_risk`` sets it.
    at_zero: float = 1.0
    #: Share of each query in the mean that the risk is; ``pair_risk`` sets it.
    shares: NDArray[np.float64]

    def __init__(
        self,
        loss: Any,
        queries: PairQueries,
        omega: NDArray[np.float64],
        counting: str = "tree",
        threads: int | None = None,
    ) -> None:
        if loss.margin != 1.0:
            raise ParameterError(
                f"exact sums need the margin 1, not {loss.margin!r}",
                parameter="margin",
                fix="Scale the features instead",
            )
        self.loss = loss
        self.queries = queries
        self.omega = omega
        self.counting = counting
        self.threads = threads

    def active(self, scores: NDArray[np.float64]) -> ActivePairs:
        """Find the active pairs at ``scores``."""
        return ActivePairs(self.queries, scores, self.counting, self.threads)


class HingeRisk(ActivePairsRisk):
    """R(p) = sum_q om_q sum over pairs of w_i w_j max(0, 1 - (p_i - p_j)); Airola et al., eq. 3."""

    def evaluate(self, scores: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return R and its subgradient u = dR/dp, in row order."""
        active = self.active(scores)
        above, below = active.sums()
        slope = np.empty(len(above))
        risk = _hinge_sums(
            active.centred,
            active.weight,
            active.weighted,
            above,
            below,
            self.queries.starts,
            self.omega,
            slope,
        )
        return float(risk), active.unsort(slope)

    def query_curvature(self, scores: NDArray[np.float64], width: float) -> Any:
        """Return the curvature of the hinge with its kink smoothed over ``width`` (at most 1).

        It is 1 / width for pairs with a score difference within width / 2 of the margin: their
        share estimates the density of differences at the kink.
        """
        if not has_long_queries(self.queries):
            return pair_curvature(self, scores, width)
        # Squared hinges with the margins 1 + width/2 and 1 - width/2, by scaling the scores.
        squared = SquaredHingeRisk(self.loss, self.queries, self.omega, self.counting, self.threads)
        outer = squared.evaluate_with_curvature(scores / (1.0 + 0.5 * width))[2]
        inner = squared.evaluate_with_curvature(scores / (1.0 - 0.5 * width))[2]
        return SmoothedHingeCurvature(outer, inner, 0.5 / width)

    def smoothed(self, width: float) -> SmoothedHingeRisk:
        """Return the risk with the hinge's kink rounded over the last ``width`` before the margin.

        A width of 1 or more gives half the squared hinge. That is no lower bound of the hinge, but
        has curvature everywhere: a start for narrower widths.
        """
        risk = SmoothedHingeRisk(self.loss, self.queries, self.omega, self.counting, self.threads)
        risk.width = width
        risk.at_zero = self.at_zero * (1.0 - 0.5 * min(width, 1.0))
        return risk


@dataclass(frozen=True, eq=False)
class SquaredHingeCurvature:
    """H = d2R/dp2 of the squared hinge with the active pairs of fixed scores."""

    active: ActivePairs
    degree: NDArray[np.float64]  # c + d, in sorted order
    omega: NDArray[np.float64]

    def diagonal(self) -> NDArray[np.float64]:
        """Return the diagonal 2 om w (c + d), in row order."""
        zeros = np.zeros(len(self.degree))
        return self._product(np.ones(len(self.degree)), zeros)

    def times(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the product with a vector in row order."""
        sorted_values = self.active.sort(values)
        _centre(sorted_values, self.active.queries.starts, sorted_values)
        return self._product(sorted_values, self.active.near(sorted_values))

    def _product(self, v: NDArray[np.float64], near: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return 2 om w ((c + d) v - near) in row order; overwrites ``near``."""
        active, starts = self.active, self.active.queries.starts
        weight, weighted = active.weight, active.weighted
        _curvature_product(v, weight, weighted, self.degree, near, starts, self.omega, near)
        return active.unsort(near)


class SquaredHingeRisk(ActivePairsRisk):
    """R(p) = sum_q om_q sum over pairs of w_i w_j max(0, 1 - (p_i - p_j))^2; Lee and Lin, eq. 3."""

    def evaluate_with_curvature(
        self, scores: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64], SquaredHingeCurvature]:
        """Return R, its gradient u in row order, and its curvature."""
        active = self.active(scores)
        above, below = active.sums()
        slope = np.empty(len(above))
        risk = _squared_hinge_sums(
            active.centred,
            active.weight,
            active.weighted,
            above,
            below,
            active.near(active.centred),
            self.queries.starts,
            self.omega,
            slope,
        )
        above += below
        return float(risk), active.unsort(slope), SquaredHingeCurvature(active, above, self.omega)

    def evaluate(self, scores: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return R and its gradient u = dR/dp, in row order."""
        risk, slope, _ = self.evaluate_with_curvature(scores)
        return risk, slope

    def query_curvature(self, scores: NDArray[np.float64], width: float) -> Any:  # noqa: ARG002
        """Return d2R/dp2 query by query, or as products where pairs of long queries are many."""
        if has_long_queries(self.queries):
            return self.evaluate_with_curvature(scores)[2]
        return pair_curvature(self, scores, 0.0)


@dataclass(frozen=True, eq=False)
class SmoothedHingeCurvature:
    """Curvature of the smoothed hinge: factor (outer - inner), curvatures of squared hinges."""

    outer: SquaredHingeCurvature
    inner: SquaredHingeCurvature
    factor: float

    def diagonal(self) -> NDArray[np.float64]:
        """Return the diagonal, in row order."""
        difference = np.maximum(self.outer.diagonal() - self.inner.diagonal(), 0.0)
        return difference * self.factor

    def times(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the product with a vector in row order."""
        return (self.outer.times(values) - self.inner.times(values)) * self.factor


class SmoothedHingeRisk(SquaredHingeRisk):
    """Hinge with a rounded kink: 0 for z > 1, (1 - z)^2 / (2 s) in [1 - s, 1], else 1 - z - s/2.

    It equals [max(0, 1 - z)^2 - max(0, 1 - s - z)^2] / (2 s), two squared hinges whose active pairs
    can be summed, and is between the hinge minus s/2 and the hinge (Nesterov 2005).
    """

    #: s.
    width: float = 0.5

    def evaluate_with_curvature(
        self, scores: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64], Any]:
        """Return R, its gradient u in row order, and its curvature."""
        inner_margin = 1.0 - self.width
        outer, outer_slope, outer_curvature = super().evaluate_with_curvature(scores)
        if inner_margin <= 0.0:
            return 0.5 * outer, 0.5 * outer_slope, replace(outer_curvature, omega=0.5 * self.omega)
        # max(0, m - z)^2 = m^2 max(0, 1 - z/m)^2: the margin m is reached by scaling the scores.
        scaled = scores / inner_margin
        inner, inner_slope, inner_curvature = super().evaluate_with_curvature(scaled)
        factor = 0.5 / self.width
        value = factor * (outer - inner_margin * inner_margin * inner)
        slope = factor * (outer_slope - inner_margin * inner_slope)
        return value, slope, SmoothedHingeCurvature(outer_curvature, inner_curvature, factor)
