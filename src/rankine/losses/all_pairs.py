"""Any pair loss over all pairs, by visiting every one: O(pairs) time, threads over queries.

For losses and pair weights that have no O(m log m) form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.data.dataset import Dataset
from rankine.kernels.compile import jit
from rankine.kernels.shards import cut_by_weight, map_shards
from rankine.losses.base import pair_loss
from rankine.losses.pair_queries import PairQueries

#: The mean over all pairs; over queries of their mean; over queries of the mean over label pairs.
BY_PAIRS, BY_QUERIES, BY_LABELS = 0, 1, 2
#: The mean that each way of drawing pairs has in expectation.
MEANS = {"query": BY_QUERIES, "uniform": BY_PAIRS, "rejection": BY_PAIRS, "indexed": BY_LABELS}


@jit
def _block_sums(loss: Any, scores: Any, weights: Any, upper: Any, lower: Any) -> Any:
    """Weighted loss and weight of all pairs of two levels, given as position ranges."""
    total, mass = 0.0, 0.0
    for p in range(upper[0], upper[1]):
        row_total, row_mass = 0.0, 0.0
        for q in range(lower[0], lower[1]):
            row_total += weights[q] * pair_loss(loss, scores[p] - scores[q])[0]
            row_mass += weights[q]
        total += weights[p] * row_total
        mass += weights[p] * row_mass
    return total, mass


@jit
def _query_sums(
    loss: Any,
    scores: Any,
    weights: Any,
    starts: Any,
    ptr: Any,
    by_labels: bool,
    span: Any,
    out: Any,
) -> None:
    """Loss and mass of some queries; each pair of labels weighs 1 if asked."""
    for q in range(span[0], span[1]):
        total, mass = 0.0, 0.0
        for high in range(ptr[q] + 1, ptr[q + 1]):
            for low in range(ptr[q], high):
                upper, lower = (starts[high], starts[high + 1]), (starts[low], starts[low + 1])
                part, part_mass = _block_sums(loss, scores, weights, upper, lower)
                if by_labels and part_mass > 0.0:
                    part, part_mass = part / part_mass, 1.0
                total += part
                mass += part_mass
        out[q, 0] = total
        out[q, 1] = mass


class MeanPairLoss:
    """Weighted mean of ``pair_loss(loss, s_a - s_b)`` over the pairs of rows that come in blocks.

    Queries are added one by one, so that how the rows are cut changes no bit. ``mean`` is
    ``BY_PAIRS``, ``BY_QUERIES`` or ``BY_LABELS``; ``MEANS`` has that of every sampling.
    """

    def __init__(self, loss: Any, mean: int) -> None:
        self.loss = loss
        self.mean = mean
        self.sums = np.zeros(2)

    def add(
        self, data: Dataset, scores: NDArray[np.float64], query_weight: NDArray[np.float64]
    ) -> None:
        """Add the pairs of a block."""
        index = data.labels
        ordered = scores[index.order]
        weights = np.ones(data.n_rows) if data.weight is None else data.weight[index.order]
        sums = np.zeros((data.n_queries, 2))
        starts, ptr = index.level_starts, index.level_ptr
        cuts = cut_by_weight(np.concatenate([[0], np.cumsum(index.pair_counts)]))
        by_labels = self.mean == BY_LABELS

        def visit(first: int, last: int) -> None:
            span = (first, last)
            _query_sums(self.loss, ordered, weights, starts, ptr, by_labels, span, sums)

        map_shards(visit, cuts)
        used = sums[:, 1] > 0
        share, sums = query_weight[used, None], sums[used]
        if self.mean != BY_PAIRS:
            sums = sums / sums[:, 1:]
        self.sums = np.cumsum(np.concatenate([self.sums[None, :], share * sums]), axis=0)[-1]

    @property
    def value(self) -> float:
        """The mean so far; NaN before the first pair."""
        return float(self.sums[0] / self.sums[1]) if self.sums[1] > 0 else float("nan")


@jit
def _visit(
    loss: Any,
    scores: Any,
    queries: Any,
    ranks: Any,
    weight: Any,
    omega: Any,
    span: Any,
    values: Any,
    out: Any,
) -> float:
    """Visit the pairs of some queries; their loss.

    ``out`` receives dR/dp in row order, or d2R/dp2 times ``values`` where values are given. A
    single value stands for the diagonal of d2R/dp2.
    """
    rows, starts = queries
    total = 0.0
    for q in range(span[0], span[1]):
        for a in range(starts[q], starts[q + 1]):
            i = rows[a]
            for b in range(starts[q], starts[q + 1]):
                if ranks[b] < ranks[a]:
                    j = rows[b]
                    share = omega[q]
                    if weight.shape[0]:
                        share *= weight[a] * weight[b]
                    value, slope, bend = pair_loss(loss, scores[i] - scores[j])
                    total += share * value
                    if values.shape[0] > 1:
                        pull = share * bend * (values[i] - values[j])
                    elif values.shape[0] == 1:
                        out[i] += share * bend
                        out[j] += share * bend
                        continue
                    else:
                        pull = share * slope
                    out[i] += pull
                    out[j] -= pull
    return total


class AllPairsRisk:
    """The exact lift of any pair loss: one step a pair.

    Examples
    --------
    >>> from rankine.losses import AllPairsRisk, Logistic, register_pair_loss
    >>> register_pair_loss("logistic", Logistic, smooth=True, exact_sum=AllPairsRisk)
    """

    at_zero: float = 1.0

    def __init__(
        self,
        loss: Any,
        queries: PairQueries,
        omega: NDArray[np.float64],
        counting: str = "pairs",  # noqa: ARG002 - there is one way to visit
        threads: int | None = None,
    ) -> None:
        self.loss = loss
        self.queries = queries
        self.omega = omega
        self.threads = threads
        sizes = np.diff(queries.starts)
        self.cuts = cut_by_weight(np.concatenate([[0], np.cumsum(sizes * sizes)]))

    def visit(
        self, scores: NDArray[np.float64], values: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64]]:
        """The loss, and what ``_visit`` gathers; queries share no row, so threads may write."""
        queries, out = self.queries, np.zeros(len(scores))
        weight = np.zeros(0) if queries.weight is None else queries.weight

        def part(first: int, last: int) -> float:
            at, span = (queries.rows, queries.starts), (first, last)
            return _visit(
                self.loss, scores, at, queries.ranks, weight, self.omega, span, values, out
            )

        totals = map_shards(part, self.cuts, self.threads)
        return float(sum(totals)), out

    def evaluate(self, scores: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """R and dR/dp, in row order."""
        return self.visit(scores, np.zeros(0))

    def evaluate_with_curvature(
        self, scores: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64], AllPairsCurvature]:
        """R, dR/dp and d2R/dp2."""
        value, slopes = self.evaluate(scores)
        return value, slopes, AllPairsCurvature(self, scores)


@dataclass(frozen=True, eq=False)
class AllPairsCurvature:
    """d2R/dp2 at some scores."""

    risk: AllPairsRisk
    scores: NDArray[np.float64]

    def times(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Product with a row-ordered vector."""
        return self.risk.visit(self.scores, values)[1]

    def diagonal(self) -> NDArray[np.float64]:
        """Diagonal of the second derivative, in row order."""
        return self.risk.visit(self.scores, np.ones(1))[1]
