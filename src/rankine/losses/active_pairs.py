"""Pair risk as a function of scores: value, slope and curvature without listing pairs.

With p = Xw, active sums ``above`` (c) and ``below`` (d) of row weights, and
``near_i(g) = sum of w_j g_j`` over all active partners of i (see ``kernels.counting``)::

    hinge    R  = sum_q om_q sum_i w_i [ (c_i - d_i) p_i + c_i ]          (Airola et al., eq. 3)
             u  = om w (c - d)
    squared  R  = sum_q om_q sum_i w_i [ c_i + (2 (c_i - d_i) + t_i) p_i ]
             t  = (c + d) p - near(p)
             u  = 2 om w ( t + c - d )
             Hv = 2 om w ( (c + d) v - near(v) )                          active pairs held fixed

u is dR/dp. Scores are centred within the query before they are multiplied: legal, because only
differences matter, and accurate, because no large offset cancels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ParameterError
from rankine.kernels.compile import jit
from rankine.kernels.counting import Each, Ones, SortedRows, active_sums, levels_sums, pairs_sums
from rankine.kernels.shards import map_shards
from rankine.kernels.sorting import sort_scores
from rankine.losses.pair_queries import PairQueries

#: How active partners are summed: O(m log m), O(levels m), O(m^2).
COUNTINGS = {"tree": active_sums, "levels": levels_sums, "pairs": pairs_sums}


@jit
def _pick(values: Any, items: Any, out: Any) -> None:
    for k in range(items.shape[0]):
        out[k] = values[items[k]]


@jit
def _gather(values: Any, rows: Any, items: Any, out: Any) -> None:
    for k in range(items.shape[0]):
        out[k] = values[rows[items[k]]]


@jit
def _centre(p: Any, starts: Any, out: Any) -> None:
    for q in range(starts.shape[0] - 1):
        start, stop = starts[q], starts[q + 1]
        # The middle score first: the mean of what is left is small, whatever the offset.
        offset = p[(start + stop) // 2]
        mean = 0.0
        for k in range(start, stop):
            mean += p[k] - offset
        mean = mean / (stop - start)
        for k in range(start, stop):
            out[k] = (p[k] - offset) - mean


@jit
def _hinge_finish(
    p: Any, weight: Any, above: Any, below: Any, starts: Any, omega: Any, slope: Any
) -> float:
    """Sum the risk; ``slope`` receives u in sorted order."""
    risk = 0.0
    for q in range(starts.shape[0] - 1):
        total = 0.0
        for k in range(starts[q], starts[q + 1]):
            w = weight[k] if weight.shape[0] else 1.0
            excess = w * (above[k] - below[k])
            total += excess * p[k] + w * above[k]
            slope[k] = omega[q] * excess
        risk += omega[q] * total
    return risk


@jit
def _squared_finish(
    p: Any, weight: Any, above: Any, below: Any, near: Any, starts: Any, omega: Any, slope: Any
) -> float:
    risk = 0.0
    for q in range(starts.shape[0] - 1):
        total = 0.0
        for k in range(starts[q], starts[q + 1]):
            w = weight[k] if weight.shape[0] else 1.0
            pull = (above[k] + below[k]) * p[k] - near[k]
            excess = above[k] - below[k]
            total += w * (above[k] + (2.0 * excess + pull) * p[k])
            slope[k] = 2.0 * omega[q] * w * (pull + excess)
        risk += omega[q] * total
    return risk


@jit
def _curvature_finish(
    v: Any, weight: Any, degree: Any, near: Any, starts: Any, omega: Any, out: Any
) -> None:
    for q in range(starts.shape[0] - 1):
        for k in range(starts[q], starts[q + 1]):
            w = weight[k] if weight.shape[0] else 1.0
            out[k] = 2.0 * omega[q] * w * (degree[k] * v[k] - near[k])


@jit
def _scatter(values: Any, rows: Any, items: Any, out: Any) -> None:
    for k in range(items.shape[0]):
        out[rows[items[k]]] = values[k]


class ActivePairs:
    """The active pairs at one vector of scores: sorted once, summed over as often as needed."""

    def __init__(
        self, queries: PairQueries, scores: NDArray[np.float64], counting: str, threads: int | None
    ) -> None:
        self.queries = queries
        self.n_rows = len(scores)
        self.threads = threads
        self._sum = COUNTINGS[counting]
        self.cuts = queries.cuts
        starts = queries.starts
        sorted_scores, self.items, spare = sort_scores(scores, queries.rows, starts, threads)
        ranks, items = np.empty_like(queries.ranks), self.items
        self._in_parts(lambda a, b: _pick(queries.ranks, items[a:b], ranks[a:b]))
        self.rows = SortedRows(sorted_scores, ranks, queries.n_levels, starts)
        self.weight = np.zeros(0) if queries.weight is None else queries.weight[self.items]
        # Centred scores are what products need; the spare array has done its work.
        _centre(sorted_scores, starts, spare)
        self.centred = spare

    def _in_parts(self, work: Callable[[int, int], None]) -> None:
        """Work that moves one row after the other, on the threads if there are many rows."""
        map_shards(work, self.queries.parts, self.threads)

    def sums(self, values: NDArray[np.float64] | None = None) -> list[NDArray[np.float64]]:
        """Sums over active higher and lower partners of ``values`` (None: of row weights)."""
        out = [np.empty(len(self.items)), np.empty(len(self.items))]
        weighted = self.weight if values is None else values
        asked = Each(weighted) if len(weighted) else Ones()
        kind = np.float64 if len(weighted) else np.int32
        spans = list(zip(self.cuts[:-1], self.cuts[1:], strict=True))

        def task(number: int, _next: int) -> None:
            span, upward = divmod(number, 2)
            first, last = int(spans[span][0]), int(spans[span][1])
            levels = self.queries.n_levels[first:last]
            tree = np.zeros(int(levels.max()) + 1 if len(levels) else 1, dtype=kind)
            self._sum(self.rows, (first, last), asked, tree, upward == 0, out[upward])

        map_shards(task, range(2 * len(spans) + 1), self.threads)
        return out

    def near(self, sorted_values: NDArray[np.float64]) -> NDArray[np.float64]:
        """near(g): sums of w_j g_j over all active partners."""
        weighted = sorted_values * self.weight if len(self.weight) else sorted_values
        above, below = self.sums(weighted)
        above += below
        return above

    def sort(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Row-ordered values in sorted order."""
        out, rows, items = np.empty(len(self.items)), self.queries.rows, self.items
        self._in_parts(lambda a, b: _gather(values, rows, items[a:b], out[a:b]))
        return out

    def unsort(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sorted values in row order; 0 for rows that form no pair."""
        out, rows, items = np.zeros(self.n_rows), self.queries.rows, self.items
        self._in_parts(lambda a, b: _scatter(values[a:b], rows, items[a:b], out))
        return out


class CountedRisk:
    """A risk whose active pairs are counted rather than listed; the loss has margin 1."""

    #: The risk of all the data at w = 0; see ``pair_risk``.
    at_zero: float = 1.0

    def __init__(
        self,
        loss: Any,
        queries: PairQueries,
        omega: NDArray[np.float64],
        counting: str = "tree",
        threads: int | None = None,
    ) -> None:
        if loss.margin != 1.0:
            raise ParameterError(f"margin={loss.margin!r} is not 1", fix="Scale the features")
        self.loss = loss
        self.queries = queries
        self.omega = omega
        self.counting = counting
        self.threads = threads

    def active(self, scores: NDArray[np.float64]) -> ActivePairs:
        """The active pairs at some scores."""
        return ActivePairs(self.queries, scores, self.counting, self.threads)


class HingeRisk(CountedRisk):
    """sum_q om_q sum over pairs of max(0, 1 - (p_hi - p_lo))."""

    def evaluate(self, scores: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """R and its subgradient u = dR/dp, in row order."""
        active = self.active(scores)
        above, below = active.sums()
        p, starts, slope = active.centred, self.queries.starts, np.empty(len(above))
        risk = _hinge_finish(p, active.weight, above, below, starts, self.omega, slope)
        return float(risk), active.unsort(slope)

    def smoothed(self, width: float) -> SmoothedHingeRisk:
        """The hinge with its kink rounded over the last ``width`` before the margin.

        A width of 1 or more stands for half the squared hinge, which is no bound of the hinge but
        bends everywhere: a start for narrower ones.
        """
        risk = SmoothedHingeRisk(self.loss, self.queries, self.omega, self.counting, self.threads)
        risk.width, risk.at_zero = width, self.at_zero * (1.0 - 0.5 * min(width, 1.0))
        return risk


@dataclass(frozen=True, eq=False)
class SquaredHingeCurvature:
    """v -> d2R/dp2 v with the active pairs of one vector of scores."""

    active: ActivePairs
    degree: NDArray[np.float64]
    omega: NDArray[np.float64]

    def diagonal(self) -> NDArray[np.float64]:
        """Diagonal of the second derivative, in row order: 2 om w (c + d)."""
        active = self.active
        starts, out = active.queries.starts, np.zeros(len(self.degree))
        ones = np.ones(len(self.degree))
        _curvature_finish(ones, active.weight, self.degree, out, starts, self.omega, out)
        return active.unsort(out)

    def times(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Product with a row-ordered vector."""
        active = self.active
        sorted_values = active.sort(values)
        starts = active.queries.starts
        _centre(sorted_values, starts, sorted_values)
        near = active.near(sorted_values)
        _curvature_finish(sorted_values, active.weight, self.degree, near, starts, self.omega, near)
        return active.unsort(near)


class SquaredHingeRisk(CountedRisk):
    """sum_q om_q sum over pairs of max(0, 1 - (p_hi - p_lo))^2."""

    def evaluate_with_curvature(
        self, scores: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64], SquaredHingeCurvature]:
        """R, its gradient u in row order, and its curvature."""
        active = self.active(scores)
        above, below = active.sums()
        p, starts, slope = active.centred, self.queries.starts, np.empty(len(above))
        near = active.near(p)
        risk = _squared_finish(p, active.weight, above, below, near, starts, self.omega, slope)
        above += below
        return float(risk), active.unsort(slope), SquaredHingeCurvature(active, above, self.omega)

    def evaluate(self, scores: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """R and its gradient u = dR/dp, in row order."""
        risk, slope, _ = self.evaluate_with_curvature(scores)
        return risk, slope


@dataclass(frozen=True, eq=False)
class SmoothedHingeCurvature:
    """The difference of two curvatures of the squared hinge, or half of one."""

    outer: SquaredHingeCurvature
    inner: SquaredHingeCurvature | None
    factor: float

    def diagonal(self) -> NDArray[np.float64]:
        """Diagonal of the second derivative, in row order."""
        found = self.outer.diagonal()
        if self.inner is not None:
            found = np.maximum(found - self.inner.diagonal(), 0.0)
        return found * self.factor

    def times(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Product with a row-ordered vector."""
        found = self.outer.times(values)
        return (found if self.inner is None else found - self.inner.times(values)) * self.factor


class SmoothedHingeRisk(SquaredHingeRisk):
    """The rounded hinge: 0 beyond the margin, (1 - z)^2 / (2 s) near it, 1 - z - s/2 elsewhere.

    It is [max(0, 1 - z)^2 - max(0, 1 - s - z)^2] / (2 s), two squared hinges whose pairs can be
    counted, and lies between the hinge minus s/2 and the hinge (Nesterov 2005).
    """

    width: float = 0.5

    def evaluate_with_curvature(
        self, scores: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64], Any]:
        """R, its gradient u in row order, and its curvature."""
        rest = 1.0 - self.width
        outer, outer_slope, outer_curvature = super().evaluate_with_curvature(scores)
        if rest <= 0.0:
            return (
                0.5 * outer,
                0.5 * outer_slope,
                SmoothedHingeCurvature(outer_curvature, None, 0.5),
            )
        inner, inner_slope, inner_curvature = super().evaluate_with_curvature(scores / rest)
        factor = 0.5 / self.width
        value = factor * (outer - rest * rest * inner)
        slope = factor * (outer_slope - rest * inner_slope)
        return value, slope, SmoothedHingeCurvature(outer_curvature, inner_curvature, factor)
