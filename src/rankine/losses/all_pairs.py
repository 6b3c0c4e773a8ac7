"""Sums of any pair loss over all pairs, by visiting every pair: O(pairs) time.

``AllPairsRisk`` is the exact sum of losses without an O(m log m) form. ``MeanPairLoss`` computes
the objective that a stochastic ranker estimates by drawing pairs. Threads share the work by
queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.data.dataset import Dataset
from rankine.kernels.compile import jit
from rankine.kernels.shards import cut_by_weight, map_shards
from rankine.losses.base import pair_loss
from rankine.losses.pair_queries import PairQueries
from rankine.losses.query_curvature import PairCurvature, pair_curvature


class PairMean(Enum):
    """What a mean of pair losses is taken over."""

    #: All pairs alike.
    PAIRS = 0
    #: Queries; each contributes the mean over its pairs.
    QUERIES = 1
    #: Queries; each contributes the mean over its pairs of distinct labels, of which each
    #: contributes the mean over the pairs of rows with these labels.
    LABELS = 2


#: Value of ``sampling`` -> the mean that the loss of a drawn pair has as its expectation.
MEAN_OF_SAMPLING = {
    "query": PairMean.QUERIES,
    "uniform": PairMean.PAIRS,
    "rejection": PairMean.PAIRS,
    "indexed": PairMean.LABELS,
}


@jit
def _level_pair_sums(loss: Any, scores: Any, weights: Any, upper: Any, lower: Any) -> Any:
    """Return weighted loss and weight of all pairs of two levels, given as position ranges."""
    total, weight = 0.0, 0.0
    for p in range(upper[0], upper[1]):
        row_total, row_weight = 0.0, 0.0
        for q in range(lower[0], lower[1]):
            row_total += weights[q] * pair_loss(loss, scores[p] - scores[q])[0]
            row_weight += weights[q]
        total += weights[p] * row_total
        weight += weights[p] * row_weight
    return total, weight


@jit
def _query_sums(
    loss: Any,
    scores: Any,
    weights: Any,
    level_starts: Any,
    level_ptr: Any,
    by_labels: bool,
    queries: Any,
    out: Any,
) -> None:
    """Write weighted loss and pair weight of each query to ``out``.

    With ``by_labels`` each pair of labels contributes its mean loss with weight 1.
    """
    for q in range(queries[0], queries[1]):
        total, weight = 0.0, 0.0
        for high in range(level_ptr[q] + 1, level_ptr[q + 1]):
            for low in range(level_ptr[q], high):
                upper = (level_starts[high], level_starts[high + 1])
                lower = (level_starts[low], level_starts[low + 1])
                pair_total, pair_weight = _level_pair_sums(loss, scores, weights, upper, lower)
                if by_labels and pair_weight > 0.0:
                    pair_total, pair_weight = pair_total / pair_weight, 1.0
                total += pair_total
                weight += pair_weight
        out[q, 0] = total
        out[q, 1] = weight


class MeanPairLoss:
    """Weighted mean of ``pair_loss(loss, s_a - s_b)`` over the pairs of blocks of rows.

    Queries are added one after another, so the result does not depend on how the rows are cut into
    blocks, to the last bit.
    """

    def __init__(self, loss: Any, mean: PairMean) -> None:
        self.loss = loss
        self.mean = mean
        self.sums = np.zeros(2)  # weighted loss, weight

    def add(
        self, data: Dataset, scores: NDArray[np.float64], query_weight: NDArray[np.float64]
    ) -> None:
        """Add the pairs of a block."""
        index = data.labels
        ordered_scores = scores[index.order]
        weights = np.ones(data.n_rows) if data.weight is None else data.weight[index.order]
        query_sums = np.zeros((data.n_queries, 2))
        by_labels = self.mean is PairMean.LABELS

        def add_queries(first: int, last: int) -> None:
            _query_sums(
                self.loss,
                ordered_scores,
                weights,
                index.level_starts,
                index.level_ptr,
                by_labels,
                (first, last),
                query_sums,
            )

        map_shards(add_queries, cut_by_weight(np.concatenate([[0], np.cumsum(index.pair_counts)])))
        has_pairs = query_sums[:, 1] > 0
        sums = query_sums[has_pairs]
        if self.mean is not PairMean.PAIRS:
            sums = sums / sums[:, 1:]
        weighted = query_weight[has_pairs, None] * sums
        # cumsum adds row by row; sum() would add in a tree that depends on the block's size.
        self.sums = np.cumsum(np.concatenate([self.sums[None, :], weighted]), axis=0)[-1]

    @property
    def value(self) -> float:
        """Mean so far; NaN before the first pair."""
        if self.sums[1] > 0:
            return float(self.sums[0] / self.sums[1])
        return float("nan")


#: What ``_visit_pairs`` accumulates: dR/dp; d2R/dp2 times a vector; the diagonal of d2R/dp2.
GRADIENT, CURVATURE_PRODUCT, CURVATURE_DIAGONAL = 0, 1, 2


@jit
def _visit_pairs(
    loss: Any,
    scores: Any,
    query_rows: Any,
    ranks: Any,
    row_weights: Any,
    omega: Any,
    span: Any,
    mode: int,
    vector: Any,
    out: Any,
) -> float:
    """Sum the loss over all preference pairs of the queries ``span``.

    Accumulates what ``mode`` names into ``out``, in row order; ``vector`` (by row) is read by
    ``CURVATURE_PRODUCT`` alone. The query factor omega and the two row weights multiply each pair.
    """
    rows, starts = query_rows
    weights, weighted = row_weights
    total = 0.0
    for q in range(span[0], span[1]):
        for a in range(starts[q], starts[q + 1]):
            i = rows[a]
            # Labels enter as ranks within the query; equal labels are no pair.
            for b in range(starts[q], starts[q + 1]):
                if ranks[b] < ranks[a]:
                    j = rows[b]
                    pair_weight = omega[q]
                    if weighted:
                        pair_weight *= weights[a] * weights[b]
                    value, slope, curvature = pair_loss(loss, scores[i] - scores[j])
                    total += pair_weight * value
                    if mode == CURVATURE_DIAGONAL:
                        # The second derivatives by both scores have the same sign.
                        out[i] += pair_weight * curvature
                        out[j] += pair_weight * curvature
                        continue
                    if mode == CURVATURE_PRODUCT:
                        derivative = pair_weight * curvature * (vector[i] - vector[j])
                    else:
                        derivative = pair_weight * slope
                    out[i] += derivative
                    out[j] -= derivative
    return total


class AllPairsRisk:
    """R(p) = sum_q omega_q sum over pairs of w_i w_j loss(p_i - p_j), one step per pair.

    Works for every registered pair loss.

    Examples
    --------
    >>> from rankine.losses import AllPairsRisk, register_pair_loss
    >>> from rankine.losses.pairwise.logistic import Logistic
    >>> register_pair_loss("logistic", Logistic, smooth=True, exact_sum=AllPairsRisk)
    """

    #: R(0) of all the data; ``pair_risk`` sets it.
    at_zero: float = 1.0
    #: Share of each query in the mean that the risk is; ``pair_risk`` sets it.
    shares: NDArray[np.float64]

    def __init__(
        self,
        loss: Any,
        queries: PairQueries,
        omega: NDArray[np.float64],
        counting: str = "pairs",  # noqa: ARG002 - every exact sum takes it; here pairs are visited
        threads: int | None = None,
    ) -> None:
        self.loss = loss
        self.queries = queries
        self.omega = omega
        self.threads = threads
        # The time per query is quadratic in its size, so shards are cut by squared sizes.
        sizes = np.diff(queries.starts)
        self.cuts = cut_by_weight(np.concatenate([[0], np.cumsum(sizes * sizes)]))

    def visit(
        self, scores: NDArray[np.float64], mode: int, vector: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64]]:
        """Return R and what ``mode`` names, see ``_visit_pairs``."""
        queries, out = self.queries, np.zeros(len(scores))

        # Queries share no row, so threads write to different places of ``out``.
        def visit_queries(first: int, last: int) -> float:
            return _visit_pairs(
                self.loss,
                scores,
                (queries.rows, queries.starts),
                queries.ranks,
                (queries.kernel_weight, queries.weighted),
                self.omega,
                (first, last),
                mode,
                vector,
                out,
            )

        totals = map_shards(visit_queries, self.cuts, self.threads)
        return float(sum(totals)), out

    def evaluate(self, scores: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return R and dR/dp, in row order."""
        return self.visit(scores, GRADIENT, scores)

    def evaluate_with_curvature(
        self, scores: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64], AllPairsCurvature]:
        """Return R, dR/dp and d2R/dp2."""
        value, slopes = self.evaluate(scores)
        return value, slopes, AllPairsCurvature(self, scores)

    def query_curvature(self, scores: NDArray[np.float64], width: float) -> PairCurvature:  # noqa: ARG002
        """Return d2R/dp2 query by query."""
        return pair_curvature(self, scores, 0.0)


@dataclass(frozen=True, eq=False)
class AllPairsCurvature:
    """d2R/dp2 at fixed scores."""

    risk: AllPairsRisk
    scores: NDArray[np.float64]

    def times(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the product with a vector in row order."""
        return self.risk.visit(self.scores, CURVATURE_PRODUCT, values)[1]

    def diagonal(self) -> NDArray[np.float64]:
        """Return the diagonal, in row order."""
        return self.risk.visit(self.scores, CURVATURE_DIAGONAL, self.scores)[1]
