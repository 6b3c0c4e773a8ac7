"""Risks of whole lists as functions of scores: softmax cross entropy, and pairs weighted by Delta.

Both have the interface of exact sums of pair losses: value, gradient and curvature in row order.
With om_q the weight of a list::

    softmax  R  = - sum_q om_q sum_i g_i log softmax(p)_i          g: shares of the list's gain
             u  = om (softmax(p) - g),    Hv = om (s v - s <s, v>)
    delta    R  = sum_q om_q sum over label_i > label_j of w_i w_j D_ij max(0, 1 - (p_i - p_j))^2
             D_ij = (G_i - G_j) |d_i - d_j|: the change of DCG when i and j change places

where s = softmax(p), and w are row weights. The discounts d are those of a fixed ranking and 0
after the cutoff k, so that a pass costs O(k m) for a list of m rows.
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
    """Return each row's share of its list's gain; equal shares in lists without gain."""
    if len(gains) == 0:  # reduceat needs at least one row
        return gains
    totals = np.add.reduceat(gains, starts[:-1])
    sizes = np.diff(starts)
    return np.where(
        np.repeat(totals > 0, sizes),
        gains / np.repeat(np.where(totals > 0, totals, 1.0), sizes),
        1.0 / np.repeat(sizes, sizes),
    )


@dataclass(frozen=True, eq=False)
class ListCurvature:
    """H = d2R/dp2 at fixed scores.

    ``p`` are the scores and ``grouped_diagonal`` is the diagonal of H, both in grouped order.
    """

    risk: ListRisk
    p: NDArray[np.float64]
    grouped_diagonal: NDArray[np.float64]
    n_rows: int

    def times(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return H v, in row order."""
        product = self.risk.curvature_product(self.p, values[self.risk.queries.rows])
        return self.risk.to_row_order(product, self.n_rows)

    def diagonal(self) -> NDArray[np.float64]:
        """Return the diagonal of H, in row order."""
        return self.risk.to_row_order(self.grouped_diagonal, self.n_rows)


class ListRisk(ABC):
    """A sum over lists, computed in shards of whole lists; subclasses name the kernel."""

    def __init__(
        self, queries: PairQueries, omega: NDArray[np.float64], threads: int | None = None
    ) -> None:
        self.queries = queries
        self.omega = omega
        self.threads = threads

    @abstractmethod
    def visit_lists(
        self, p: Any, v: Any, product: bool, first: int, last: int, out: Any, diagonal: Any
    ) -> float:
        """Visit the lists from ``first`` to before ``last`` at the grouped scores p.

        If ``product``, write H v to ``out``; ``diagonal`` is scratch. Else write dR/dp to ``out``
        and the diagonal of H to ``diagonal``, and return R.
        """

    def _visit_all(
        self, p: NDArray[np.float64], v: NDArray[np.float64], *, product: bool
    ) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
        out, diagonal = np.zeros(len(p)), np.zeros(len(p))
        values = map_shards(
            lambda first, last: self.visit_lists(p, v, product, first, last, out, diagonal),
            self.queries.cuts,
            self.threads,
        )
        return float(sum(values)), out, diagonal

    def curvature_product(
        self, p: NDArray[np.float64], v: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return H v at the scores p, all in grouped order."""
        return self._visit_all(p, v, product=True)[1]

    def to_row_order(self, grouped: NDArray[np.float64], n_rows: int) -> NDArray[np.float64]:
        """Return grouped values in row order, 0 for rows that form no pair."""
        out = np.zeros(n_rows)
        out[self.queries.rows] = grouped
        return out

    def evaluate(self, scores: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return R and its gradient u = dR/dp, in row order."""
        risk, slope, _ = self.evaluate_with_curvature(scores)
        return risk, slope

    def evaluate_with_curvature(
        self, scores: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64], ListCurvature]:
        """Return R, its gradient in row order, and its curvature."""
        p = scores[self.queries.rows]
        value, slope, diagonal = self._visit_all(p, p, product=False)
        n_rows = len(scores)
        return value, self.to_row_order(slope, n_rows), ListCurvature(self, p, diagonal, n_rows)


@jit
def _softmax(
    p: Any,
    v: Any,
    product: bool,
    shares: Any,
    starts: Any,
    omega: Any,
    first: int,
    last: int,
    out: Any,
    diagonal: Any,
) -> float:
    """Visit lists, see ``ListRisk.visit_lists``."""
    total = 0.0
    for q in range(first, last):
        start, stop = starts[q], starts[q + 1]
        # Exponents relative to the largest score cannot overflow.
        largest, exp_sum, mean = p[start], 0.0, 0.0
        for k in range(start, stop):
            largest = max(largest, p[k])
        for k in range(start, stop):
            diagonal[k] = np.exp(p[k] - largest)
            exp_sum += diagonal[k]
        for k in range(start, stop):
            s = diagonal[k] / exp_sum
            if product:
                mean += s * v[k]
                diagonal[k] = s
            else:
                out[k] = omega[q] * (s - shares[k])
                diagonal[k] = omega[q] * s * (1.0 - s)
                total += omega[q] * shares[k] * (np.log(exp_sum) + largest - p[k])
        if product:
            for k in range(start, stop):
                out[k] = omega[q] * diagonal[k] * (v[k] - mean)
    return total


class SoftmaxRisk(ListRisk):
    """R(p) = - sum_q om_q sum_i g_i log softmax(p)_i, the cross entropy with the shares of gain.

    ``shares`` are the g of the grouped rows (see ``gain_shares``).
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

    def visit_lists(
        self, p: Any, v: Any, product: bool, first: int, last: int, out: Any, diagonal: Any
    ) -> float:
        """Visit lists, see ``ListRisk``."""
        starts, shares, omega = self.queries.starts, self.shares, self.omega
        return _softmax(p, v, product, shares, starts, omega, first, last, out, diagonal)


class RankedGains(NamedTuple):
    """What D_ij is computed from, in grouped order; ``order`` lists each query's rows by rank."""

    weight: NDArray[np.float64]
    gains: NDArray[np.float64]
    discounts: NDArray[np.float64]
    order: NDArray[np.int64]


@jit
def _delta(
    p: Any,
    v: Any,
    product: bool,
    ranked: Any,
    starts: Any,
    omega: Any,
    first: int,
    last: int,
    out: Any,
    diagonal: Any,
) -> float:
    """Visit the pairs of which at least one row is ranked within the cutoff."""
    row_weight, gains, discounts, order = ranked
    risk = 0.0
    for q in range(first, last):
        stop = starts[q + 1]
        for a in range(starts[q], stop):
            i = order[a]
            if discounts[i] <= 0.0:
                break  # rows are visited by rank: all further ones are after the cutoff as well
            for b in range(a + 1, stop):
                j = order[b]
                gain_difference = gains[i] - gains[j]
                sign = 1.0 if gain_difference > 0.0 else -1.0
                weight = 2.0 * omega[q] * abs(gain_difference) * (discounts[i] - discounts[j])
                weight *= row_weight[i] * row_weight[j]
                shortfall = 1.0 - sign * (p[i] - p[j])
                if weight > 0.0 and shortfall > 0.0:
                    if product:
                        change = weight * (v[i] - v[j])
                    else:
                        change = -sign * weight * shortfall
                        risk += 0.5 * weight * shortfall * shortfall
                        diagonal[i] += weight
                        diagonal[j] += weight
                    out[i] += change
                    out[j] -= change
    return risk


class DeltaRisk(ListRisk):
    """R(p) = sum_q om_q sum over pairs of w_i w_j D_ij max(0, 1 - (p_i - p_j))^2.

    D_ij is the change of NDCG@``cutoff`` when i and j change places in the ranking by ``scores`` of
    all rows (equal scores in grouped order). ``gains`` is G of each grouped row. All weights are
    scaled together so that R(0) is the sum of the lists' weights, as for the mean over pairs;
    within a list, row weights count relative to the mean of its pairs.
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
        sizes, total_weight = np.diff(queries.starts), omega.sum()
        lists = np.repeat(np.arange(len(sizes)), sizes)
        rank = np.arange(len(lists)) - np.repeat(queries.starts[:-1], sizes)
        discount_of_rank = np.where(rank < cutoff, 1.0 / np.log2(rank + 2.0), 0.0)
        # lexsort is stable, so rows with equal scores stay in grouped order.
        order = np.lexsort((-scores[queries.rows], lists))
        discounts = np.empty(len(lists))
        discounts[order] = discount_of_rank
        weight = np.ones(len(lists)) if queries.weight is None else queries.weight
        self.ranked = RankedGains(weight, gains, discounts, order)
        best_gains = gains[np.lexsort((-gains, lists))]
        ideal_dcg = np.add.reduceat(best_gains * discount_of_rank, queries.starts[:-1])
        # Row weights count relative to the mean weight of the list's pairs.
        omega = omega * queries.n_pairs / queries.pair_weight
        self.omega = np.divide(omega, ideal_dcg, out=np.zeros(len(omega)), where=ideal_dcg > 0.0)
        # Scale all weights together so that R(0) is the sum of the lists' weights.
        at_zero = self.evaluate(np.zeros(len(scores)))[0]
        if at_zero > 0.0:
            self.omega *= total_weight / at_zero

    def visit_lists(
        self, p: Any, v: Any, product: bool, first: int, last: int, out: Any, diagonal: Any
    ) -> float:
        """Visit lists, see ``ListRisk``."""
        starts = self.queries.starts
        return _delta(p, v, product, self.ranked, starts, self.omega, first, last, out, diagonal)
