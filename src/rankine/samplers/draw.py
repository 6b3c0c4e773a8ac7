"""Draw pairs of rows: exact within a query, by labels first as in the paper, or by rejection.

A sampler is a NamedTuple that implements ``draw_pair(sampler, seed, step) -> (a, b, t)``: a and b
are rows of one query, t = 1 when a is preferred, t = 0 for a tied pair, t = -1 when no pair was
found. The seed of a step determines its draw completely.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import NoPairsError
from rankine.data.dataset import Dataset
from rankine.data.query_index import sums_of_others
from rankine.kernels.compile import jit
from rankine.kernels.dispatch import inlined_generic
from rankine.kernels.random import random_below, random_unit

#: Values of the parameter ``sampling``.
SAMPLINGS = ("query", "uniform", "indexed", "rejection")
#: If two random rows of a query form a pair with at least this probability, rows are drawn until
#: two do. Otherwise a level is drawn first, then a row in it and a row outside it.
_DIRECT = 0.25
#: How a pair is drawn within a query of a stream.
EXACT, WITH_TIES, BY_LABELS = 0, 1, 2
#: Up to this number of levels are scanned one by one; more are searched by bisection.
_SCAN = 8
#: From this number of rows on, row numbers need more than 32 bits.
_MANY_ROWS = 2**32
#: In place of an array that the sampler does not use.
_UNUSED = np.zeros(0)


class PairIndex(NamedTuple):
    """Rows ordered by (query, label) with cumulative masses.

    A level is the set of rows of a query with one label, or a single row where ties of weighted
    rows are drawn. Cumulative row weights restart in each level, and the weights of levels are
    summed from both sides: differences of sums that contain a huge weight would lose the small
    ones.
    """

    order: NDArray[np.uint32]  # row at each position
    labels: NDArray[np.float64]  # label at each position
    query_starts: NDArray[np.int64]  # positions of the drawable queries
    query_stops: NDArray[np.int64]
    query_levels: NDArray[np.int64]  # first level of each drawable query
    n_levels: NDArray[np.int64]  # levels of each drawable query
    level_starts: NDArray[np.int64]  # position where each level starts, one more at the end
    level_mass: NDArray[np.float64]  # cumulative n_l (m_q - n_l), restarting in each query
    level_before: NDArray[np.float64]  # row weights of the query's levels before each level
    level_after: NDArray[np.float64]  # and after each level
    accept: NDArray[np.float64]  # probability that two random rows of a query form a pair
    query_mass: NDArray[np.float64]  # cumulative probability of each drawable query
    row_mass: NDArray[np.float64]  # row weights of the level before each position
    uniform_queries: bool  # all drawable queries are equally likely; query_mass is unused
    uniform_rows: bool  # rows have no weights; row_mass, level_before and level_after are unused


def build_pair_index(
    data: Dataset, query_weight: NDArray[np.float64], *, sampling: str = "query", ties: bool = False
) -> PairIndex:
    """Index a dataset for sampling; with ``ties``, two rows of equal labels are a pair too.

    Weights are probabilities: with row weights w and query weights v a pair is drawn with
    probability proportional to w_i w_j v_q (times 1 / its query's total for ``query``).
    """
    labels = data.labels
    pairs = pair_masses(data, ties=ties)
    shares = query_shares(data, query_weight, sampling=sampling, ties=ties)
    usable = np.flatnonzero(shares > 0)
    if len(usable) == 0:
        labels.require_pairs()
        raise NoPairsError(
            "every pair has weight zero", fix="Give some rows and queries a weight > 0"
        )
    probability = shares[usable]
    uniform_queries = bool(np.all(probability == probability[0]))
    row_dtype = np.uint32 if data.n_rows < _MANY_ROWS else np.uint64
    order: Any = labels.order.astype(row_dtype)
    label_at, query_starts = data.y[labels.order], labels.query_starts
    level_ptr, level_starts = labels.level_ptr, labels.level_starts
    weight_before = weight_after = row_mass = _UNUSED
    if data.weight is None:
        level_mass = _cumulative_sums(labels.level_masses(None), level_ptr)
    else:
        if ties:
            level_ptr, level_starts = query_starts, np.arange(data.n_rows + 1)
        # One unused position after each level, so that the cumulative weights of a level, which
        # have one entry more than it has rows, have the same positions as its rows.
        n_levels = len(level_starts) - 1
        length = data.n_rows + n_levels
        gaps = np.repeat(np.arange(n_levels), np.diff(level_starts))
        positions = np.arange(data.n_rows) + gaps
        row_sums = _cumulative_sums(data.weight[labels.order], level_starts)
        row_mass = _scatter(positions + 1, row_sums, length)
        order = _scatter(positions, order, length)
        label_at = _scatter(positions, label_at, length)
        query_starts = query_starts + level_ptr
        level_starts = level_starts + np.arange(n_levels + 1)
        level_weights = row_mass[level_starts[1:] - 1]
        weight_before, weight_after = _sums_before_and_after(level_weights, level_ptr)
        level_mass = _cumulative_sums(level_weights * (weight_before + weight_after), level_ptr)
    return PairIndex(
        order=order,
        labels=label_at,
        query_starts=query_starts[usable],
        query_stops=query_starts[usable + 1],
        query_levels=level_ptr[usable],
        n_levels=np.diff(level_ptr)[usable],
        level_starts=level_starts,
        level_mass=level_mass,
        level_before=weight_before,
        level_after=weight_after,
        accept=_acceptance(pairs, _sums(_row_weights(data), labels.query_starts))[usable],
        query_mass=_UNUSED if uniform_queries else np.cumsum(probability),
        row_mass=row_mass,
        uniform_queries=uniform_queries,
        uniform_rows=data.weight is None,
    )


def _scatter(positions: NDArray[Any], values: NDArray[Any], length: int) -> NDArray[Any]:
    """Return an array with ``values`` at ``positions`` and 0 elsewhere."""
    out = np.zeros(length, dtype=values.dtype)
    out[positions] = values
    return out


@jit
def _cumulative_sums(values: Any, starts: Any) -> Any:
    """Return the sums up to each value, restarting at each of ``starts``."""
    out = np.empty(values.shape[0])
    for part in range(starts.shape[0] - 1):
        total = 0.0
        for k in range(starts[part], starts[part + 1]):
            total += values[k]
            out[k] = total
    return out


@jit
def _sums_before_and_after(values: Any, starts: Any) -> Any:
    """Return the sums of the values before and after each value, within each part."""
    sums_before, sums_after = np.zeros(values.shape[0]), np.zeros(values.shape[0])
    for part in range(starts.shape[0] - 1):
        first, last = starts[part], starts[part + 1] - 1
        for k in range(first, last):
            sums_before[k + 1] = sums_before[k] + values[k]
        for k in range(last, first, -1):
            sums_after[k - 1] = sums_after[k] + values[k]
    return sums_before, sums_after


def query_shares(
    data: Dataset, query_weight: NDArray[np.float64], *, sampling: str, ties: bool
) -> NDArray[np.float64]:
    """Return the share of each query in the objective and the steps; 0 for queries without a pair.

    It is v_q where queries are equally likely (``"query"``, ``"indexed"``), times the weight of the
    query's pairs where all pairs are (``"uniform"``, ``"rejection"``).
    """
    mass = pair_masses(data, ties=ties)
    shares = query_weight
    if sampling in ("uniform", "rejection"):
        shares = query_weight * mass
    return np.where(mass > 0.0, shares, 0.0)


def pair_masses(data: Dataset, *, ties: bool) -> NDArray[np.float64]:
    """Sum w_i w_j over the ordered pairs of each query: of two labels, or with ``ties`` of any."""
    labels = data.labels
    if ties:
        weight = _row_weights(data)
        return _sums(weight * sums_of_others(weight, labels.query_starts), labels.query_starts)
    return _sums(labels.level_masses(data.weight), labels.level_ptr)


def _row_weights(data: Dataset) -> NDArray[np.float64]:
    """Return the weights of rows in the order of their labels."""
    if data.weight is None:
        return np.ones(data.n_rows)
    return data.weight[data.labels.order]


def _sums(values: NDArray[np.float64], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.add.reduceat(values, starts[:-1])


def _acceptance(pairs: NDArray[Any], total: NDArray[Any]) -> NDArray[np.float64]:
    """Return the probability that two random rows of each query form a pair."""
    return np.divide(pairs, total**2, out=np.zeros(len(pairs)), where=total > 0)


@inlined_generic
def draw_pair(sampler: Any, seed: int, step: int) -> Any:
    """Draw one pair: rows a and b, and t (1: a is preferred, 0: tied, -1: none found)."""


class ExactPairs(NamedTuple):
    """Draws every pair of a query with the same probability, which Sculley (2009) leaves open."""

    pairs: PairIndex


class TiedPairs(NamedTuple):
    """Draws every two rows of a query with the same probability, equal labels included."""

    pairs: PairIndex


class LabelPairs(NamedTuple):
    """Uniform query, two uniform labels, one uniform row of each (Sculley 2009, section 3.1)."""

    pairs: PairIndex


class StreamPairs(NamedTuple):
    """Queries in the order of a stream: query k is drawn from in steps before ``step_ends[k]``."""

    pairs: PairIndex
    step_ends: NDArray[np.int64]
    rule: int  # EXACT, WITH_TIES or BY_LABELS


class RejectionPairs(NamedTuple):
    """Two uniform rows, accepted if they form a pair (Sculley 2009, section 3.1); no index needed.

    Weights are divided by the largest one, so that they are probabilities of acceptance.
    """

    query_of: NDArray[np.int64]
    labels: NDArray[np.float64]
    row_weight: NDArray[np.float64]
    query_weight: NDArray[np.float64]
    uniform_rows: bool  # row_weight is unused
    uniform_queries: bool  # query_weight is unused
    ties: bool
    max_trials: int


@jit
def _first_above(mass: Any, low: int, high: int, target: float) -> int:
    """Return the first k in [low, high) with mass[k] > target, or ``high``."""
    while low < high:
        middle = (low + high) >> 1
        if mass[middle] > target:
            high = middle
        else:
            low = middle + 1
    return low


@jit
def _pick_query(index: PairIndex, seed: int) -> int:
    n = index.query_starts.shape[0]
    if n == 1:
        return 0
    if index.uniform_queries:
        return random_below(seed, 0, n)
    return _pick_weighted_query(index.query_mass, n, seed)


@jit
def _pick_weighted_query(query_mass: Any, n: int, seed: int) -> int:
    target = random_unit(seed, 0) * query_mass[n - 1]
    return _first_above(query_mass, 0, n - 1, target)


@jit
def _level_weight(index: PairIndex, level: int) -> float:
    return index.row_mass[index.level_starts[level + 1] - 1]


@jit
def _clamp(target: float, total: float) -> float:
    """Return the target within [0, total), which rounding may have left."""
    return max(0.0, min(target, np.nextafter(total, 0.0)))


@jit
def _position_at(index: PairIndex, level: int, target: float) -> int:
    """Return the position in a level at which the cumulative row weight passes the target."""
    start, stop = index.level_starts[level], index.level_starts[level + 1] - 1
    return _first_above(index.row_mass, start, stop, _clamp(target, index.row_mass[stop])) - 1


@jit
def _pick_within(index: PairIndex, seed: int, counter: int, level: int) -> int:
    """Draw a position of a level in proportion to row weights."""
    if index.uniform_rows:
        start = index.level_starts[level]
        return start + random_below(seed, counter, index.level_starts[level + 1] - start)
    return _position_at(index, level, random_unit(seed, counter) * _level_weight(index, level))


@jit
def _pick_position(index: PairIndex, seed: int, counter: int, k: int) -> int:
    """Draw a position of query k in proportion to row weights."""
    if index.uniform_rows:
        start = index.query_starts[k]
        return start + random_below(seed, counter, index.query_stops[k] - start)
    first = index.query_levels[k]
    last = first + index.n_levels[k] - 1
    total = index.level_before[last] + _level_weight(index, last)
    target = random_unit(seed, counter) * total
    level = _first_above(index.level_before, first + 1, last + 1, target) - 1
    return _position_at(index, level, target - index.level_before[level])


@jit
def _pick_outside(index: PairIndex, seed: int, k: int, level: int) -> int:
    """Draw a position of query k outside one of its levels, in proportion to row weights."""
    if index.uniform_rows:
        first, stop = index.level_starts[level], index.level_starts[level + 1]
        query_start, query_stop = index.query_starts[k], index.query_stops[k]
        n_inside = stop - first
        position = query_start + random_below(seed, 3, query_stop - query_start - n_inside)
        if position >= first:
            return position + n_inside
        return position
    weight_before, weight_after = index.level_before[level], index.level_after[level]
    target = random_unit(seed, 3) * (weight_before + weight_after)
    if target < weight_before:
        other_level = _first_above(index.level_before, index.query_levels[k], level, target) - 1
        return _position_at(index, other_level, target - index.level_before[other_level])
    # level_after sums from the end of the query: bisect on its complement, and never subtract the
    # level's own weight, which may be so large that nothing else is left of the sum.
    target = _clamp(target - weight_before, weight_after)
    other_level, high = level + 1, index.query_levels[k] + index.n_levels[k] - 1
    while other_level < high:
        middle = (other_level + high) >> 1
        if weight_after - index.level_after[middle] > target:
            high = middle
        else:
            other_level = middle + 1
    return _position_at(
        index, other_level, target - (weight_after - index.level_after[other_level - 1])
    )


@jit
def _pick_level(level_mass: Any, first: int, n: int, seed: int) -> int:
    last = first + n - 1
    target = random_unit(seed, 1) * level_mass[last]
    if n > _SCAN:
        return _first_above(level_mass, first, last, target)
    level = first
    while level < last and level_mass[level] <= target:
        level += 1
    return level


@jit(inline=True)
def _preferred_first(index: PairIndex, p: int, q: int) -> Any:
    """Return the rows at two positions, the preferred one first, and t."""
    a, b = np.int64(index.order[p]), np.int64(index.order[q])
    if index.labels[p] > index.labels[q]:
        return a, b, 1.0
    if index.labels[p] < index.labels[q]:
        return b, a, 1.0
    return a, b, 0.0


@jit(inline=True)
def _draw_exact(index: PairIndex, seed: int, k: int) -> Any:
    if index.accept[k] >= _DIRECT:
        counter = 1
        while True:
            p = _pick_position(index, seed, counter, k)
            q = _pick_position(index, seed, counter + 1, k)
            if index.labels[p] != index.labels[q]:
                return _preferred_first(index, p, q)
            counter += 2
    level = _pick_level(index.level_mass, index.query_levels[k], index.n_levels[k], seed)
    p = _pick_within(index, seed, 2, level)
    q = _pick_outside(index, seed, k, level)
    # Positions rise with the label, so the later one is preferred; no label is read.
    return np.int64(index.order[max(p, q)]), np.int64(index.order[min(p, q)]), 1.0


@jit(inline=True)
def _draw_with_ties(index: PairIndex, seed: int, k: int) -> Any:
    if index.accept[k] >= _DIRECT:
        counter = 1
        while True:
            p = _pick_position(index, seed, counter, k)
            q = _pick_position(index, seed, counter + 1, k)
            if p != q:
                return _preferred_first(index, p, q)
            counter += 2
    level = _pick_level(index.level_mass, index.query_levels[k], index.n_levels[k], seed)
    q = _pick_outside(index, seed, k, level)
    return _preferred_first(index, index.level_starts[level], q)


@jit(inline=True)
def _draw_by_labels(index: PairIndex, seed: int, k: int) -> Any:
    n = index.n_levels[k]
    counter = 1
    while True:
        i = random_below(seed, counter, n)
        j = random_below(seed, counter + 1, n - 1)
        j += j >= i
        low, high = index.query_levels[k] + min(i, j), index.query_levels[k] + max(i, j)
        # Skip labels whose rows all have weight 0; a drawable query has two others.
        if index.uniform_rows or (
            _level_weight(index, low) > 0.0 and _level_weight(index, high) > 0.0
        ):
            break
        counter += 4
    p = _pick_within(index, seed, counter + 2, high)
    q = _pick_within(index, seed, counter + 3, low)
    return np.int64(index.order[p]), np.int64(index.order[q]), 1.0


@draw_pair.implementation(ExactPairs)
def _draw_exact_pair(sampler: Any, seed: Any, step: Any) -> Any:
    return _draw_exact(sampler.pairs, seed, _pick_query(sampler.pairs, seed))


@draw_pair.implementation(TiedPairs)
def _draw_tied_pair(sampler: Any, seed: Any, step: Any) -> Any:
    return _draw_with_ties(sampler.pairs, seed, _pick_query(sampler.pairs, seed))


@draw_pair.implementation(LabelPairs)
def _draw_label_pair(sampler: Any, seed: Any, step: Any) -> Any:
    return _draw_by_labels(sampler.pairs, seed, _pick_query(sampler.pairs, seed))


@draw_pair.implementation(StreamPairs)
def _draw_stream_pair(sampler: Any, seed: Any, step: Any) -> Any:
    index = sampler.pairs
    k = np.searchsorted(sampler.step_ends, step, side="right")
    if sampler.rule == BY_LABELS:
        return _draw_by_labels(index, seed, k)
    if sampler.rule == WITH_TIES:
        return _draw_with_ties(index, seed, k)
    return _draw_exact(index, seed, k)


@jit(inline=True)
def _accept(sampler: RejectionPairs, seed: int, counter: int, a: int, b: int) -> bool:
    """Accept a pair with a probability in proportion to its weight."""
    probability = 1.0
    if not sampler.uniform_rows:
        probability *= sampler.row_weight[a] * sampler.row_weight[b]
    if not sampler.uniform_queries:
        probability *= sampler.query_weight[sampler.query_of[a]]
    return probability >= 1.0 or random_unit(seed, counter) < probability


@draw_pair.implementation(RejectionPairs)
def _draw_rejection_pair(sampler: Any, seed: Any, step: Any) -> Any:
    m = sampler.labels.shape[0]
    for trial in range(sampler.max_trials):
        a = random_below(seed, 3 * trial, m)
        b = random_below(seed, 3 * trial + 1, m)
        if a == b or sampler.query_of[a] != sampler.query_of[b]:
            continue
        gap = sampler.labels[a] - sampler.labels[b]
        if gap == 0.0 and not sampler.ties:
            continue
        if not _accept(sampler, seed, 3 * trial + 2, a, b):
            continue
        if gap < 0:
            a, b = b, a
        return a, b, np.float64(gap != 0.0)
    return 0, 0, -1.0


def pair_sampler(
    data: Dataset,
    query_weight: NDArray[np.float64],
    *,
    sampling: str = "query",
    ties: bool = False,
    max_trials: int = 1_000_000,
) -> Any:
    """Create the sampler for a value of ``sampling``."""
    if sampling == "rejection":
        uniform_queries = bool(np.ptp(query_weight) == 0)
        return RejectionPairs(
            query_of=data.queries.codes,
            labels=data.y,
            row_weight=_UNUSED if data.weight is None else data.weight / data.weight.max(),
            query_weight=_UNUSED if uniform_queries else query_weight / query_weight.max(),
            uniform_rows=data.weight is None,
            uniform_queries=uniform_queries,
            ties=ties,
            max_trials=int(max_trials),
        )
    index = build_pair_index(data, query_weight, sampling=sampling, ties=ties)
    if sampling == "indexed":
        return LabelPairs(index)
    if ties:
        return TiedPairs(index)
    return ExactPairs(index)


def stream_spans(
    read: Callable[[], Iterable[tuple[Dataset, NDArray[np.float64]]]],
    total: float,
    n_steps: int,
    *,
    sampling: str,
    ties: bool = False,
    taken: int = 0,
    n_passes: int = 1,
) -> Iterator[tuple[Dataset, StreamPairs, int]]:
    """Yield the blocks of a stream with their samplers and the step at which each block ends.

    ``read()`` yields blocks with the weights of their queries, and is called once per pass. Each
    query gets a number of steps in proportion to its share of ``total``; the first step has number
    ``taken``.
    """
    for number in range(n_passes):
        passed = 0.0
        for block, weight in read():
            shares = query_shares(block, weight, sampling=sampling, ties=ties)
            # Added one by one, so that where the stream is cut into blocks changes no sum.
            reached = np.cumsum(np.concatenate([[passed], shares]))[1:]
            passed = float(reached[-1])
            reached = reached[shares > 0]
            if len(reached) == 0:
                continue
            progress = (number * total + reached) / (n_passes * total)
            # Set exactly, because the division may round down: every pass makes all of its steps.
            progress[reached == total] = (number + 1) / n_passes
            ends = taken + np.floor(n_steps * progress).astype(np.int64)
            sampler = stream_sampler(block, weight, ends, sampling=sampling, ties=ties)
            yield block, sampler, int(ends[-1])


def stream_sampler(
    block: Dataset,
    query_weight: NDArray[np.float64],
    step_ends: NDArray[np.int64],
    *,
    sampling: str = "query",
    ties: bool = False,
) -> StreamPairs:
    """Create the sampler of a block of a stream, whose queries with a pair are drawn from in turn.

    ``"rejection"`` is replaced by exact draws of the same distribution.
    """
    index = build_pair_index(block, query_weight, ties=ties)
    rule = EXACT
    if sampling == "indexed":
        rule = BY_LABELS
    elif ties:
        rule = WITH_TIES
    return StreamPairs(index, step_ends, rule)
