"""The index pair samplers draw from, and the probabilities behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import NoPairsError

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset

__all__ = ["PairIndex", "build_pair_index", "pair_masses", "query_shares"]


class PairIndex(NamedTuple):
    """Rows ordered by (query, label) with cumulative masses.

    Empty mass arrays mean "uniform"; the draw then needs no search.
    """

    order: NDArray[np.uint32]  # row at each position
    labels: NDArray[np.float64]  # label at each position
    query_starts: NDArray[np.int64]  # positions of the drawable queries
    query_stops: NDArray[np.int64]
    query_levels: NDArray[np.int64]  # first level of each drawable query
    n_levels: NDArray[np.int64]  # levels of each drawable query
    level_starts: NDArray[np.int64]  # position where each level starts, one more at the end
    level_mass: NDArray[np.float64]  # cumulative n_l (m_q - n_l), restarting in each query
    accept: NDArray[np.float64]  # chance that two random rows of a query form a pair
    query_mass: NDArray[np.float64]  # cumulative chance of each drawable query, or empty
    row_mass: NDArray[np.float64]  # cumulative row weight by position (with a leading 0), or empty


def build_pair_index(
    data: Dataset, query_weight: NDArray[np.float64], *, sampling: str = "query", ties: bool = False
) -> PairIndex:
    """Index a dataset for sampling.

    Parameters
    ----------
    query_weight
        One weight per query.
    sampling
        Draw a query in proportion to its pairs (``"uniform"``) rather than uniformly.
    ties
        Pairs of equal labels count as pairs too.

    Weights are probabilities: with row weights w and query weights v a pair is drawn with
    probability proportional to w_i w_j v_q (times 1 / its query's total for ``query``).
    """
    index = data.labels
    row_mass = np.zeros(0)
    if data.weight is not None:
        row_mass = np.concatenate([[0.0], np.cumsum(data.weight[index.order])])
    level_weight, query_total = _weights(data)
    owner = np.repeat(np.arange(data.n_queries), index.n_levels)
    mass = level_weight * (query_total[owner] - level_weight)
    running = np.cumsum(mass)
    before = np.concatenate([[0.0], running])[index.level_ptr[:-1]]
    pairs = pair_masses(data, ties=ties)
    shares = query_shares(data, query_weight, sampling=sampling, ties=ties)
    usable = np.flatnonzero(shares > 0)
    if len(usable) == 0:
        index.require_pairs()
        raise NoPairsError(
            "every pair has weight zero", fix="Give some rows and queries a weight > 0"
        )
    chance = shares[usable]
    uniform = len(usable) == 1 or bool(np.all(chance == chance[0]))
    return PairIndex(
        index.order.astype(np.uint32 if data.n_rows < 2**32 else np.uint64),
        data.y[index.order],
        index.query_starts[usable],
        index.query_starts[usable + 1],
        index.level_ptr[usable],
        index.n_levels[usable],
        index.level_starts,
        running - before[owner],
        _acceptance(pairs, query_total)[usable],
        np.zeros(0) if uniform else np.cumsum(chance),
        row_mass,
    )


def query_shares(
    data: Dataset, query_weight: NDArray[np.float64], *, sampling: str, ties: bool
) -> NDArray[np.float64]:
    """Share of each query in the objective, and so of its steps; 0 where it has no pair.

    v_q where queries are drawn alike (``"query"``, ``"indexed"``), times the weight of its pairs
    where all pairs are (``"uniform"``, ``"rejection"``).
    """
    mass = pair_masses(data, ties=ties)
    shares = query_weight * mass if sampling in ("uniform", "rejection") else query_weight
    return np.where(mass > 0.0, shares, 0.0)


def pair_masses(data: Dataset, *, ties: bool) -> NDArray[np.float64]:
    """Sum of w_i w_j over the ordered pairs of each query: of two labels, or with ``ties`` any."""
    index = data.labels
    level_weight, query_weight = _weights(data)
    if ties:
        squares = np.ones(data.n_rows) if data.weight is None else np.square(data.weight)
        own = np.add.reduceat(squares[index.order], index.query_starts[:-1])
        return np.maximum(np.square(query_weight) - own, 0.0)
    owner = np.repeat(np.arange(data.n_queries), index.n_levels)
    mass: NDArray[np.float64] = np.add.reduceat(
        level_weight * (query_weight[owner] - level_weight), index.level_ptr[:-1]
    )
    return mass


def _weights(data: Dataset) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weight of each level and of each query; sums of sums, so one level alone leaves no dust."""
    index = data.labels
    if data.weight is None:
        level = index.level_sizes.astype(np.float64)
    else:
        level = np.add.reduceat(data.weight[index.order], index.level_starts[:-1])
    return level, np.add.reduceat(level, index.level_ptr[:-1])


def _acceptance(pairs: NDArray[Any], total: NDArray[Any]) -> NDArray[np.float64]:
    return np.divide(pairs, total**2, out=np.zeros(len(pairs)), where=total > 0)
