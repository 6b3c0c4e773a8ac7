"""Risks of whole lists as functions of scores: softmax cross entropy, and pairs weighted by Delta.

Both answer what lifted pair losses answer: value, slope and curvature in row order. With om_q the
weight of a list::

    softmax  R  = - sum_q om_q sum_i g_i log softmax(p)_i          g: shares of the list's gain
             u  = om (softmax(p) - g),    Hv = om (s v - s <s, v>)
    delta    R  = sum_q om_q sum over label_i > label_j of w_i w_j D_ij max(0, 1 - (p_i - p_j))^2
             D_ij = (G_i - G_j) |d_i - d_j|: the change of DCG when i and j change places

with w the weights of rows and the discounts d held fixed at a ranking; they are 0 beyond the cutoff
k, so that a pass costs O(k m) for a list of m rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.shards import map_shards

if TYPE_CHECKING:
    from rankine.losses.pair_queries import PairQueries


def gain_shares(gains: NDArray[np.float64], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Each row's share of its list's gain; equal shares where there is none."""
    totals = np.add.reduceat(gains, starts[:-1]) if len(gains) else gains
    sizes = np.diff(starts)
    return np.where(
        np.repeat(totals > 0, sizes),
        gains / np.repeat(np.where(totals > 0, totals, 1.0), sizes),
        1.0 / np.repeat(sizes, sizes),
    )


@dataclass(frozen=True, eq=False)
class ListCurvature:
    """d2R/dp2 at grouped scores p; ``grouped_diagonal`` is its diagonal, in grouped order."""

    risk: ListRisk
    p: NDArray[np.float64]
    grouped_diagonal: NDArray[np.float64]
    n_rows: int

    def times(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """d2R/dp2 v, in row order."""
        _, moved, _ = self.risk.ask(self.p, values[self.risk.queries.rows])
        return self.risk.spread(moved, self.n_rows)

    def diagonal(self) -> NDArray[np.float64]:
        """Diagonal of the second derivative, in row order."""
        return self.risk.spread(self.grouped_diagonal, self.n_rows)


class ListRisk(ABC):
    """A sum over lists, sharded over threads; sub-classes name the kernel."""

    def __init__(
        self, queries: PairQueries, omega: NDArray[np.float64], threads: int | None = None
    ) -> None:
        self.queries = queries
        self.omega = omega
        self.threads = threads
        self.cuts = queries.cuts

    @abstractmethod
    def kernel(self, p: Any, v: Any, first: int, last: int, slope: Any, diagonal: Any) -> float:
        """R, its slope and its diagonal over some lists; with v, ``slope`` receives H v."""

    def ask(self, p: NDArray[np.float64], v: NDArray[np.float64]) -> Any:
        """The kernel over all lists: R, slopes and diagonal, grouped."""
        slope, diagonal = np.zeros(len(p)), np.zeros(len(p))
        values = map_shards(
            lambda a, b: self.kernel(p, v, a, b, slope, diagonal), self.cuts, self.threads
        )
        return float(sum(values)), slope, diagonal

    def spread(self, grouped: NDArray[np.float64], n_rows: int) -> NDArray[np.float64]:
        """Grouped values in row order; 0 for rows that form no pair."""
        out = np.zeros(n_rows)
        out[self.queries.rows] = grouped
        return out

    def evaluate(self, scores: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """R and its gradient u = dR/dp, in row order."""
        risk, slope, _ = self.evaluate_with_curvature(scores)
        return risk, slope

    def evaluate_with_curvature(
        self, scores: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64], ListCurvature]:
        """R, its gradient and its curvature."""
        p = scores[self.queries.rows]
        value, slope, diagonal = self.ask(p, np.zeros(0))
        n_rows = len(scores)
        return value, self.spread(slope, n_rows), ListCurvature(self, p, diagonal, n_rows)


@jit
def _softmax(
    p: Any, v: Any, shares: Any, starts: Any, omega: Any, first: int, last: int, out: Any, diag: Any
) -> float:
    total = 0.0
    for q in range(first, last):
        start, stop = starts[q], starts[q + 1]
        top, mass, mean = p[start], 0.0, 0.0
        for k in range(start, stop):
            top = max(top, p[k])
        for k in range(start, stop):
            diag[k] = np.exp(p[k] - top)
            mass += diag[k]
        for k in range(start, stop):
            s = diag[k] / mass
            if v.shape[0] > 0:
                mean += s * v[k]
                diag[k] = s
            else:
                out[k] = omega[q] * (s - shares[k])
                diag[k] = omega[q] * s * (1.0 - s)
                total += omega[q] * shares[k] * (np.log(mass) + top - p[k])
        if v.shape[0] > 0:
            for k in range(start, stop):
                out[k] = omega[q] * diag[k] * (v[k] - mean)
    return total


class SoftmaxRisk(ListRisk):
    """Cross entropy of softmax(scores) and the shares of gain, list by list.

    ``shares`` are those of the grouped rows (``gain_shares``).
    """

    def __init__(
        self,
        queries: PairQueries,
        omega: NDArray[np.float64],
        shares: NDArray[np.float64],
        threads: int | None = None,
    ) -> None:
        super().__init__(queries, omega, threads)
        self.shares = shares

    def kernel(self, p: Any, v: Any, first: int, last: int, slope: Any, diagonal: Any) -> float:
        """See ``ListRisk``."""
        starts, shares = self.queries.starts, self.shares
        return _softmax(p, v, shares, starts, self.omega, first, last, slope, diagonal)


class Swaps(NamedTuple):
    """What a change of places changes: gain and discount of each grouped row, rows by discount."""

    weight: NDArray[np.float64]
    gains: NDArray[np.float64]
    discounts: NDArray[np.float64]
    order: NDArray[np.int64]


@jit
def _delta(
    p: Any, v: Any, swaps: Any, starts: Any, omega: Any, first: int, last: int, out: Any, diag: Any
) -> float:
    """One pass over the pairs that count: one of the two stands within the cutoff."""
    rows, gains, discounts, order = swaps
    risk = 0.0
    for q in range(first, last):
        stop = starts[q + 1]
        for a in range(starts[q], stop):
            i = order[a]
            if discounts[i] <= 0.0:
                break
            for b in range(a + 1, stop):
                j = order[b]
                gap = gains[i] - gains[j]
                sign = 1.0 if gap > 0.0 else -1.0
                weight = 2.0 * omega[q] * abs(gap) * (discounts[i] - discounts[j])
                weight *= rows[i] * rows[j]
                short = 1.0 - sign * (p[i] - p[j])
                if weight > 0.0 and short > 0.0:
                    if v.shape[0] > 0:
                        pull = weight * (v[i] - v[j])
                    else:
                        pull = -sign * weight * short
                        risk += 0.5 * weight * short * short
                        diag[i] += weight
                        diag[j] += weight
                    out[i] += pull
                    out[j] -= pull
    return risk


class DeltaRisk(ListRisk):
    """Squared hinge of pairs, each weighted by the change of NDCG at a fixed ranking.

    All weights are scaled together so that R(0) is the sum of the lists' weights, as for the mean
    over pairs; within a list rows weigh relative to the mean of its pairs. ``gains`` is G of each
    grouped row; the ranking by ``scores`` of all rows is held, equal scores in grouped order;
    ``cutoff`` is the k of NDCG@k.
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
        sizes, total = np.diff(queries.starts), omega.sum()
        lists = np.repeat(np.arange(len(sizes)), sizes)
        rank = np.arange(len(lists)) - np.repeat(queries.starts[:-1], sizes)
        by_rank = np.where(rank < cutoff, 1.0 / np.log2(rank + 2.0), 0.0)
        order = np.lexsort((-scores[queries.rows], lists))
        discounts = np.empty(len(lists))
        discounts[order] = by_rank
        weight = np.ones(len(lists)) if queries.weight is None else queries.weight
        self.swaps = Swaps(weight, gains, discounts, order)
        best = gains[np.lexsort((-gains, lists))]
        ideal = np.add.reduceat(best * by_rank, queries.starts[:-1])
        omega = omega * queries.n_pairs / queries.pair_weight
        self.omega = np.divide(omega, ideal, out=np.zeros(len(omega)), where=ideal > 0.0)
        at_zero = self.evaluate(np.zeros(len(scores)))[0]
        if at_zero > 0.0:
            self.omega *= total / at_zero

    def kernel(self, p: Any, v: Any, first: int, last: int, slope: Any, diagonal: Any) -> float:
        """See ``ListRisk``."""
        starts = self.queries.starts
        return _delta(p, v, self.swaps, starts, self.omega, first, last, slope, diagonal)
