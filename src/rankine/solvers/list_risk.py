"""Risks of whole lists as functions of scores: softmax cross entropy, and pairs weighted by Delta.

Both answer what ``pair_risk`` answers: value, slope and curvature in row order. With om_q the weight
of a list::

    softmax  R  = - sum_q om_q sum_i g_i log softmax(p)_i          g: shares of the list's gain
             u  = om (softmax(p) - g),    Hv = om (s v - s <s, v>)
    delta    R  = sum_q om_q sum over label_i > label_j of D_ij max(0, 1 - (p_i - p_j))^2
             D_ij = (G_i - G_j) |d_i - d_j|: the change of DCG when i and j change places

with the discounts d held fixed at a ranking; they are 0 beyond the cutoff k, so that a pass costs
O(k m) for a list of m rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.shards import cut_by_weight, map_shards

if TYPE_CHECKING:
    from rankine.solvers.pair_queries import PairQueries

__all__ = ["DeltaRisk", "SoftmaxRisk", "gain_shares"]


def gain_shares(gains: NDArray[np.float64], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Each row's share of its list's gain; equal shares where there is none."""
    totals = np.add.reduceat(gains, starts[:-1]) if len(gains) else gains
    sizes = np.diff(starts)
    return np.where(
        np.repeat(totals > 0, sizes),
        gains / np.repeat(np.where(totals > 0, totals, 1.0), sizes),
        1.0 / np.repeat(sizes, sizes),
    )


@dataclass(eq=False)
class _ListCurvature:
    """Row-ordered products with the second derivative of a list risk."""

    risk: Any
    state: NDArray[np.float64]
    n_rows: int

    def times(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """d2R/dp2 v."""
        return self.risk._times(self.state, values, self.n_rows)  # noqa: SLF001 - its own curvature

    def degrees(self) -> NDArray[np.float64]:
        """Diagonal of the second derivative."""
        return self.risk._degrees(self.state, self.n_rows)  # noqa: SLF001


class _ListRisk:
    """Lists sharded over threads; sub-classes name the kernels."""

    def __init__(
        self, queries: PairQueries, omega: NDArray[np.float64], threads: int | None = None
    ) -> None:
        self.queries = queries
        self.omega = omega
        self.threads = threads
        self.cuts = cut_by_weight(queries.starts)

    def evaluate(self, scores: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """R and its gradient u = dR/dp, in row order."""
        risk, slope, _ = self.evaluate_curved(scores)
        return risk, slope

    def evaluate_curved(self, scores: NDArray[np.float64]) -> Any:
        """R, its gradient and its curvature."""
        grouped = scores[self.queries.rows]
        slope, state = np.empty(len(grouped)), np.empty(len(grouped))
        values = map_shards(
            lambda a, b: self._look(grouped, a, b, slope, state), self.cuts, self.threads
        )
        out = np.zeros(len(scores))
        out[self.queries.rows] = slope
        return float(sum(values)), out, _ListCurvature(self, state, len(scores))

    def _look(self, p: Any, first: int, last: int, slope: Any, state: Any) -> float:
        raise NotImplementedError


@jit
def _softmax(
    p: Any, shares: Any, starts: Any, omega: Any, first: int, last: int, slope: Any, state: Any
) -> float:
    total = 0.0
    for q in range(first, last):
        start, stop = starts[q], starts[q + 1]
        top = p[start]
        for k in range(start, stop):
            top = max(top, p[k])
        mass = 0.0
        for k in range(start, stop):
            state[k] = np.exp(p[k] - top)
            mass += state[k]
        log_mass = np.log(mass) + top
        for k in range(start, stop):
            state[k] /= mass
            slope[k] = omega[q] * (state[k] - shares[k])
            total += omega[q] * shares[k] * (log_mass - p[k])
    return total


@jit
def _softmax_times(
    s: Any, v: Any, starts: Any, omega: Any, first: int, last: int, out: Any
) -> None:
    for q in range(first, last):
        mean = 0.0
        for k in range(starts[q], starts[q + 1]):
            mean += s[k] * v[k]
        for k in range(starts[q], starts[q + 1]):
            out[k] = omega[q] * s[k] * (v[k] - mean)


class SoftmaxRisk(_ListRisk):
    """Cross entropy of softmax(scores) and the shares of gain, list by list."""

    def __init__(
        self,
        queries: PairQueries,
        omega: NDArray[np.float64],
        shares: NDArray[np.float64],
        threads: int | None = None,
    ) -> None:
        super().__init__(queries, omega, threads)
        self.shares = shares

    def _look(self, p: Any, first: int, last: int, slope: Any, state: Any) -> float:
        starts = self.queries.starts
        return float(_softmax(p, self.shares, starts, self.omega, first, last, slope, state))

    def _times(self, state: Any, values: Any, n_rows: int) -> NDArray[np.float64]:
        queries = self.queries
        grouped = values[queries.rows]
        moved = np.empty_like(grouped)
        map_shards(
            lambda a, b: _softmax_times(
                state, grouped, queries.starts, self.omega, a, b, moved
            ),
            self.cuts,
            self.threads,
        )
        out = np.zeros(n_rows)
        out[queries.rows] = moved
        return out

    def _degrees(self, state: Any, n_rows: int) -> NDArray[np.float64]:
        out = np.zeros(n_rows)
        weight = np.repeat(self.omega, np.diff(self.queries.starts))
        out[self.queries.rows] = weight * state * (1.0 - state)
        return out


@jit
def _delta(
    p: Any, gains: Any, discounts: Any, order: Any, starts: Any, omega: Any, first: int, last: int,
    v: Any, slope: Any, degrees: Any,
) -> float:  # fmt: skip
    """One pass over the pairs that count.

    ``order`` lists a query's rows by falling discount. With ``v`` empty: risk, slopes and degrees;
    otherwise ``slope`` receives the curvature times v.
    """
    risk = 0.0
    curved = v.shape[0] > 0
    for q in range(first, last):
        start, stop = starts[q], starts[q + 1]
        for k in range(start, stop):
            slope[k] = 0.0
            degrees[k] = 0.0
        for a in range(start, stop):
            i = order[a]
            if discounts[i] <= 0.0:
                break
            for b in range(a + 1, stop):
                j = order[b]
                gap = gains[i] - gains[j]
                if gap == 0.0:
                    continue
                weight = 2.0 * omega[q] * abs(gap) * (discounts[i] - discounts[j])
                sign = 1.0 if gap > 0.0 else -1.0
                short = 1.0 - sign * (p[i] - p[j])
                if weight > 0.0 and short > 0.0:
                    if curved:
                        pull = weight * (v[i] - v[j])
                        slope[i] += pull
                        slope[j] -= pull
                    else:
                        risk += 0.5 * weight * short * short
                        slope[i] -= sign * weight * short
                        slope[j] += sign * weight * short
                        degrees[i] += weight
                        degrees[j] += weight
    return risk


class DeltaRisk(_ListRisk):
    """Squared hinge of pairs, each weighted by the change of DCG at a fixed ranking.

    Parameters
    ----------
    queries, omega
        Lists and their weights.
    gains
        G of each grouped row.
    scores
        Scores of all rows, whose ranking is held; equal scores rank in grouped order.
    cutoff
        k of DCG@k.
    """

    def __init__(
        self,
        queries: PairQueries,
        omega: NDArray[np.float64],
        gains: NDArray[np.float64],
        scores: NDArray[np.float64],
        cutoff: int,
        threads: int | None = None,
    ) -> None:
        super().__init__(queries, omega, threads)
        self.gains = gains
        sizes = np.diff(queries.starts)
        lists = np.repeat(np.arange(len(sizes)), sizes)
        self.order = np.lexsort((-scores[queries.rows], lists))
        rank = np.arange(len(lists)) - np.repeat(queries.starts[:-1], sizes)
        self.discounts = np.empty(len(lists))
        self.discounts[self.order] = np.where(rank < cutoff, 1.0 / np.log2(rank + 2.0), 0.0)
        best = gains[np.lexsort((-gains, lists))]
        ideal = np.add.reduceat(best * np.where(rank < cutoff, 1.0 / np.log2(rank + 2.0), 0.0), queries.starts[:-1])
        self.omega = np.where(ideal > 0, omega / np.where(ideal > 0, ideal, 1.0), 0.0)
        at_zero = self.evaluate(np.zeros(len(scores)))[0]
        if at_zero > 0.0:
            self.omega *= omega.sum() / at_zero
        self._p = np.zeros(0)

    def _pass(self, p: Any, v: Any, slope: Any, degrees: Any) -> float:
        starts, none = self.queries.starts, np.zeros(0)
        return float(
            sum(
                map_shards(
                    lambda a, b: _delta(
                        p, self.gains, self.discounts, self.order, starts, self.omega, a, b,
                        none if v is None else v, slope, degrees,
                    ),  # fmt: skip
                    self.cuts,
                    self.threads,
                )
            )
        )

    def evaluate_curved(self, scores: NDArray[np.float64]) -> Any:
        """R, its gradient and its curvature."""
        p = scores[self.queries.rows]
        slope, degrees = np.empty(len(p)), np.empty(len(p))
        value = self._pass(p, None, slope, degrees)
        out = np.zeros(len(scores))
        out[self.queries.rows] = slope
        return value, out, _ListCurvature(self, np.stack([p, degrees]), len(scores))

    def _times(self, state: Any, values: Any, n_rows: int) -> NDArray[np.float64]:
        v = values[self.queries.rows]
        moved, spare = np.empty(len(v)), np.empty(len(v))
        self._pass(state[0], v, moved, spare)
        out = np.zeros(n_rows)
        out[self.queries.rows] = moved
        return out

    def _degrees(self, state: Any, n_rows: int) -> NDArray[np.float64]:
        out = np.zeros(n_rows)
        out[self.queries.rows] = state[1]
        return out
