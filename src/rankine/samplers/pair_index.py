"""The index pair samplers draw from, and the probabilities behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import NoPairsError

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset

__all__ = ["PairIndex", "build_pair_index"]


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
    data: Dataset, query_weight: NDArray[np.float64], *, by_pairs: bool, ties: bool
) -> PairIndex:
    """Index a dataset for sampling.

    Parameters
    ----------
    query_weight
        One weight per query.
    by_pairs
        Draw a query in proportion to its pairs (``uniform``) rather than uniformly (``query``).
    ties
        Pairs of equal labels count as pairs too.

    Weights are probabilities: with row weights w and query weights v a pair is drawn with
    probability proportional to w_i w_j v_q (times 1 / its query's total for ``query``).
    """
    index = data.labels
    weights = None if data.weight is None else data.weight[index.order]
    row_mass = np.zeros(0) if weights is None else np.concatenate([[0.0], np.cumsum(weights)])
    sizes = np.diff(index.query_starts).astype(np.float64)
    if weights is None:
        level_total = index.level_sizes.astype(np.float64)
        query_total = sizes
    else:
        level_total = np.diff(row_mass[index.level_starts])
        query_total = np.diff(row_mass[index.query_starts])
    owner = np.repeat(np.arange(data.n_queries), index.n_levels)
    mass = level_total * (query_total[owner] - level_total)
    running = np.cumsum(mass)
    before = np.concatenate([[0.0], running])[index.level_ptr[:-1]]
    pairs = np.concatenate([[0.0], running])[index.level_ptr[1:]] - before
    if ties:
        pairs = np.where(sizes >= 2, query_total**2, 0.0)
    usable = np.flatnonzero((pairs > 0) & (query_weight > 0))
    if len(usable) == 0:
        index.require_pairs()
        raise NoPairsError(
            "every pair has weight zero", fix="Give some rows and queries a weight > 0"
        )
    chance = query_weight[usable] * (pairs[usable] if by_pairs else 1.0)
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


def _acceptance(pairs: NDArray[Any], total: NDArray[Any]) -> NDArray[np.float64]:
    return np.divide(pairs, total**2, out=np.zeros(len(pairs)), where=total > 0)
