"""The rows that form pairs, query by query, and how much a query's pairs weigh.

A pair (i, j) of query q weighs ``om_q w_i w_j``; row weights default to 1. With
N_q = sum over pairs of w_i w_j, v_q the query's weight, and sums over queries that hold a pair::

    "query"  om_q = v_q / (sum_q v_q  N_q)     mean over queries of the mean over pairs
    "pair"   om_q = v_q / (sum_q v_q N_q)      mean over all pairs
    "sum"    om_q = v_q

Integer weights therefore equal repeated rows and repeated queries.
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


class PairTotals(NamedTuple):
    """What normalisation needs to know of all the data: sums over queries that hold a pair."""

    query_weight: float
    pair_weight: float
    n_queries: int


@dataclass(frozen=True, eq=False)
class PairQueries:
    """Rows of the queries that hold at least one pair of positive weight.

    Query q holds ``rows[starts[q]:starts[q + 1]]``; ranks and weights are those of these places.
    """

    rows: NDArray[np.uint32]
    starts: NDArray[np.int64]
    ranks: NDArray[np.uint32]  # of the label, 1..n_levels[q]; equal labels share a rank
    n_levels: NDArray[np.int64]  # distinct labels per query
    weight: NDArray[np.float64] | None  # None when all are 1
    query_weight: NDArray[np.float64]  # v_q
    pair_weight: NDArray[np.float64]  # N_q

    @classmethod
    def from_dataset(
        cls, data: Dataset, query_weight: NDArray[np.float64] | None = None
    ) -> PairQueries:
        """Collect the usable queries of a dataset; there may be none (see ``PairTotals``)."""
        index, labels = data.queries, data.labels
        weights = np.ones(index.n_queries) if query_weight is None else query_weight
        mass = (
            labels.pair_counts.astype(np.float64)
            if data.weight is None
            else np.add.reduceat(labels.level_masses(data.weight), labels.level_ptr[:-1]) / 2
        )
        keep = (mass > 0) & (weights > 0)
        level = np.repeat(np.arange(len(labels.level_sizes)), labels.level_sizes)
        rank_of_row = np.empty(index.n_rows, dtype=np.uint32)
        first_level = np.repeat(labels.level_ptr[:-1], index.sizes)
        rank_of_row[labels.order] = level - first_level + 1
        positions = np.flatnonzero(np.repeat(keep, index.sizes))
        rows = positions if index.rows is None else index.rows[positions]
        return cls(
            rows.astype(np.uint32),
            np.concatenate([[0], np.cumsum(index.sizes[keep])]).astype(np.int64),
            rank_of_row[rows],
            labels.n_levels[keep],
            None if data.weight is None else data.weight[rows],
            weights[keep],
            mass[keep],
        )

    @property
    def n_pairs(self) -> NDArray[np.float64]:
        """Pairs of positive weight of each query."""
        first = np.cumsum(self.n_levels) - self.n_levels
        level = np.repeat(first, np.diff(self.starts)) + self.ranks - 1
        rows = np.bincount(level, None if self.weight is None else self.weight > 0.0)
        squares = np.add.reduceat(rows**2, first)
        return 0.5 * (np.add.reduceat(rows, first) ** 2 - squares)

    @cached_property
    def cuts(self) -> NDArray[np.int64]:
        """Shards of whole queries."""
        return cut_by_weight(self.starts)

    @cached_property
    def parts(self) -> NDArray[np.int64]:
        """Shards of rows, whatever their query; one if there are few rows."""
        parts = N_SHARDS if len(self.rows) >= LONG else 1
        return np.linspace(0, len(self.rows), parts + 1).astype(np.int64)

    @property
    def n_queries(self) -> int:
        """Queries that hold a pair."""
        return len(self.starts) - 1

    @property
    def totals(self) -> PairTotals:
        """Sums that normalisation needs."""
        return PairTotals(
            float(self.query_weight.sum()),
            float((self.query_weight * self.pair_weight).sum()),
            self.n_queries,
        )


def query_omega(
    normalization: str, totals: PairTotals, queries: PairQueries
) -> NDArray[np.float64]:
    """om_q of every query, given the totals of all the data."""
    check_normalization(normalization, totals.n_queries)
    if normalization == "sum":
        return queries.query_weight.copy()
    if normalization == "pair":
        return queries.query_weight / totals.pair_weight
    return queries.query_weight / (totals.query_weight * queries.pair_weight)


def pair_totals(data: Dataset) -> PairTotals:
    """Totals of a dataset, or of a partition."""
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
    """The risk of a registered pair loss over all pairs of a dataset, a function of its scores.

    ``totals`` are those of all the data where this is a partition of it; its ``at_zero`` is the
    risk of all the data at w = 0.
    """
    known = find_pair_loss(loss, exact=True)
    queries = PairQueries.from_dataset(data, query_weight)
    whole = queries.totals if totals is None else totals
    omega = query_omega(normalization, whole, queries)
    spec = known.spec()
    risk: Any = known.exact_sum and known.exact_sum(spec, queries, omega, counting, threads)
    risk.at_zero = risk_at_zero(spec, normalization, whole)
    return risk


def risk_at_zero(loss: Any, normalization: str, totals: PairTotals) -> float:
    """The risk of w = 0, where every pair has a score difference of 0."""
    each = float(pair_loss(loss, 0.0)[0])
    return each * totals.pair_weight if normalization == "sum" else each


def check_normalization(normalization: str, n_queries: int) -> None:
    """Refuse an unknown word, and data without a single pair."""
    check_choice("normalization", normalization, NORMALIZATIONS)
    if n_queries == 0:
        raise NoPairsError(
            "no query holds two different labels of positive weight: one class or one sample "
            "makes no pair",
            fix="Check labels, query ids and weights; a query needs a better and a worse row",
        )
