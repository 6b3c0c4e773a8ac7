"""The index pair samplers draw from, and the probabilities behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import NoPairsError
from rankine.kernels.compile import jit

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset

_NONE = np.zeros(0)


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
    row_mass: NDArray[np.float64]  # row weights of the query before each position, or empty


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
    level_weight, query_total = _weights(data)
    owner = np.repeat(np.arange(data.n_queries), index.n_levels)
    level_mass = _running(level_weight * (query_total[owner] - level_weight), index.level_ptr)
    order: Any = index.order.astype(np.uint32 if data.n_rows < 2**32 else np.uint64)
    labels, row_mass, level_starts, apart = data.y[index.order], _NONE, index.level_starts, 0
    if data.weight is not None:
        # Queries stand one place apart, and sums begin at 0 in each: a draw depends on the rows of
        # its own query alone, to the bit, however a stream is cut into blocks.
        apart = 1
        of_query = np.repeat(np.arange(data.n_queries), np.diff(index.query_starts))
        places = np.arange(data.n_rows) + of_query
        length = data.n_rows + data.n_queries
        row_mass = _at(places + 1, _running(data.weight[index.order], index.query_starts), length)
        order, labels = _at(places, order, length), _at(places, labels, length)
        levels = np.arange(len(owner)) + owner
        ends = index.query_starts[1:] + np.arange(data.n_queries)
        level_starts = np.concatenate([np.repeat(ends, index.n_levels + 1), [length]])
        level_starts[levels] = index.level_starts[:-1] + owner
        level_mass = _at(levels, level_mass, len(owner) + data.n_queries)
    return PairIndex(
        order,
        labels,
        index.query_starts[usable] + apart * usable,
        index.query_starts[usable + 1] + apart * usable,
        index.level_ptr[usable] + apart * usable,
        index.n_levels[usable],
        level_starts,
        level_mass,
        _acceptance(pairs, query_total)[usable],
        _NONE if uniform else np.cumsum(chance),
        row_mass,
    )


def _at(places: NDArray[Any], values: NDArray[Any], length: int) -> NDArray[Any]:
    """The values at some places, 0 elsewhere."""
    out = np.zeros(length, dtype=values.dtype)
    out[places] = values
    return out


@jit
def _running(values: Any, starts: Any) -> Any:
    """Sums up to each value, within each of the parts that begin at ``starts``."""
    out = np.empty(values.shape[0])
    for part in range(starts.shape[0] - 1):
        total = 0.0
        for k in range(starts[part], starts[part + 1]):
            total += values[k]
            out[k] = total
    return out


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
