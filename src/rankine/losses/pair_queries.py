"""Rows that form pairs, query by query, and the weights of pairs.

``PairQueries.from_dataset`` collects query weights and row weights, and ``query_omega`` combines
them for ``RankSVM``. (Where other rankers apply them: see
``rankers.sources.TrainingSource.query_weights``.) A pair (i, j) of query q has the weight
``omega_q w_i w_j`` with row weights w (1 by default). With the query's pair weight N_q = sum over
its pairs of w_i w_j, the query weight v_q, and sums over queries k with a pair::

    "query"  omega_q = v_q / (N_q sum_k v_k)    mean over queries of the mean over pairs
    "pair"   omega_q = v_q / sum_k (v_k N_k)    mean over all pairs
    "sum"    omega_q = v_q

Integer weights therefore give the same risk as repeated rows and repeated queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.checks import check_choice
from rankine.core.errors import NoPairsError
from rankine.data.dataset import Dataset
from rankine.kernels.shards import N_SHARDS, cut_by_weight
from rankine.kernels.sorting import LONG
from rankine.losses.base import find_pair_loss, pair_loss

NORMALIZATIONS = ("query", "pair", "sum")

#: Passed to kernels in place of row weights that are all 1; they never read it.
_UNREAD = np.zeros(0)


class PairTotals(NamedTuple):
    """Sums over all queries with a pair, which the normalisation divides by.

    ``query_weight`` is sum_q v_q, and ``pair_weight`` is sum_q v_q N_q.
    """

    query_weight: float
    pair_weight: float
    n_queries: int


@dataclass(frozen=True, eq=False)
class PairQueries:
    """Rows of the queries that hold at least one pair of positive weight.

    Query q has the rows ``rows[starts[q]:starts[q + 1]]``; ``ranks`` and ``weight`` are aligned
    with ``rows`` (*grouped order*).
    """

    rows: NDArray[np.uint32]
    starts: NDArray[np.int64]
    #: Rank of each row's label within its query, 1..n_levels[q]; equal labels share a rank.
    ranks: NDArray[np.uint32]
    #: Number of distinct labels of each query.
    n_levels: NDArray[np.int64]
    #: Row weights; None when all are 1.
    weight: NDArray[np.float64] | None
    #: v_q.
    query_weight: NDArray[np.float64]
    #: N_q.
    pair_weight: NDArray[np.float64]

    @classmethod
    def from_dataset(
        cls, data: Dataset, query_weight: NDArray[np.float64] | None = None
    ) -> PairQueries:
        """Collect the queries of a dataset that hold a pair; a partition may have none."""
        index, labels = data.queries, data.labels
        weights = np.ones(index.n_queries) if query_weight is None else query_weight
        if data.weight is None:
            pair_weight = labels.pair_counts.astype(np.float64)
        else:
            # Divided by 2, because each pair is counted at the levels of both rows.
            level_masses = labels.level_masses(data.weight)
            pair_weight = np.add.reduceat(level_masses, labels.level_ptr[:-1]) / 2
        # All other queries have no influence on the risk and its normalisation.
        keep = (pair_weight > 0) & (weights > 0)
        level = np.repeat(np.arange(len(labels.level_sizes)), labels.level_sizes)
        rank_of_row = np.empty(index.n_rows, dtype=np.uint32)
        first_level = np.repeat(labels.level_ptr[:-1], index.sizes)
        rank_of_row[labels.order] = level - first_level + 1
        positions = np.flatnonzero(np.repeat(keep, index.sizes))
        rows = index.rows_at(positions)
        return cls(
            rows.astype(np.uint32),
            np.concatenate([[0], np.cumsum(index.sizes[keep])]).astype(np.int64),
            rank_of_row[rows],
            labels.n_levels[keep],
            None if data.weight is None else data.weight[rows],
            weights[keep],
            pair_weight[keep],
        )

    @property
    def weighted(self) -> bool:
        """Whether rows have weights other than 1."""
        return self.weight is not None

    @property
    def kernel_weight(self) -> NDArray[np.float64]:
        """Row weights for a kernel, which reads them only if ``weighted``."""
        if self.weight is None:
            return _UNREAD
        return self.weight

    @property
    def n_pairs(self) -> NDArray[np.float64]:
        """Number of pairs of positive weight of each query."""
        first_level = np.cumsum(self.n_levels) - self.n_levels
        level = np.repeat(first_level, np.diff(self.starts)) + self.ranks - 1
        counts = np.bincount(level, None if self.weight is None else self.weight > 0.0)
        squares = np.add.reduceat(counts**2, first_level)
        return 0.5 * (np.add.reduceat(counts, first_level) ** 2 - squares)

    @cached_property
    def cuts(self) -> NDArray[np.int64]:
        """Boundaries of shards of whole queries."""
        return cut_by_weight(self.starts)

    @cached_property
    def row_cuts(self) -> NDArray[np.int64]:
        """Boundaries of shards of rows, across queries; a single shard if there are few rows."""
        n_shards = N_SHARDS if len(self.rows) >= LONG else 1
        return np.linspace(0, len(self.rows), n_shards + 1).astype(np.int64)

    @property
    def n_queries(self) -> int:
        """Number of queries that hold a pair."""
        return len(self.starts) - 1

    @property
    def totals(self) -> PairTotals:
        """Sums over these queries, for the normalisation."""
        return PairTotals(
            float(self.query_weight.sum()),
            float((self.query_weight * self.pair_weight).sum()),
            self.n_queries,
        )


def query_omega(
    normalization: str, totals: PairTotals, queries: PairQueries
) -> NDArray[np.float64]:
    """Return omega_q of every query, given the totals of all the data."""
    check_normalization(normalization, totals.n_queries)
    if normalization == "sum":
        return queries.query_weight.copy()
    if normalization == "pair":
        return queries.query_weight / totals.pair_weight
    return queries.query_weight / (totals.query_weight * queries.pair_weight)


def query_shares(
    normalization: str,
    totals: PairTotals,
    query_weight: NDArray[np.float64],
    pair_weight: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the share of every query in the mean that the risk is; the shares of all add up to 1.

    A query's contribution to the gradient of the objective is that of its loss plus its share of
    the gradient of the penalty. A sum gives every query the same share.
    """
    if normalization == "sum":
        return np.full(len(query_weight), 1.0 / totals.n_queries)
    if normalization == "pair":
        return query_weight * pair_weight / totals.pair_weight
    return query_weight / totals.query_weight


def pair_totals(data: Dataset) -> PairTotals:
    """Return the totals of a dataset or of a partition."""
    return PairQueries.from_dataset(data).totals


def pair_risk(
    data: Dataset,
    query_weight: NDArray[np.float64] | None = None,
    loss: str = "hinge",
    normalization: str = "query",
    counting: str = "tree",
    totals: PairTotals | None = None,
    threads: int | None = None,
) -> Any:
    """Return the risk of a registered pair loss over all pairs, as a function of the scores.

    ``totals`` are sums over all the data if ``data`` is a partition of it; the attribute
    ``at_zero`` of the result is the risk of all the data at w = 0, and ``shares`` are those of
    ``query_shares``.
    """
    registered = find_pair_loss(loss, exact=True)
    queries = PairQueries.from_dataset(data, query_weight)
    if totals is None:
        totals = queries.totals
    omega = query_omega(normalization, totals, queries)
    spec = registered.spec()
    exact_sum: Any = registered.exact_sum
    risk = exact_sum(spec, queries, omega, counting, threads)
    risk.at_zero = risk_at_zero(spec, normalization, totals)
    risk.shares = query_shares(normalization, totals, queries.query_weight, queries.pair_weight)
    return risk


def risk_at_zero(loss: Any, normalization: str, totals: PairTotals) -> float:
    """Return the risk at w = 0, where every pair has a score difference of 0."""
    pair_value = float(pair_loss(loss, 0.0)[0])
    if normalization == "sum":
        return pair_value * totals.pair_weight
    return pair_value


def check_normalization(normalization: str, n_queries: int) -> None:
    """Raise an error for an unknown normalisation, and for data without a single pair."""
    check_choice("normalization", normalization, NORMALIZATIONS)
    if n_queries == 0:
        raise NoPairsError(
            "no query holds two different labels of positive weight, so there are no pairs to "
            "learn from",
            fix="Check labels, query ids and weights; a query needs a better and a worse row",
        )
