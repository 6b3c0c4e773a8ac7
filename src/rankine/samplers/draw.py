"""Drawing pairs: exact within a query, the paper's label-first rule, and plain rejection.

A sampler is a NamedTuple that answers ``draw_pair(sampler, seed, step) -> (a, b, t)``: rows a and b
of one query, t = 1 when a is preferred, t = 0 for a tied pair, t = -1 when no pair was found. The
seed of a step determines its draw completely.
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

#: The ways to draw a pair, by the words that users write.
SAMPLINGS = ("query", "uniform", "indexed", "rejection")
#: Above this chance two random rows are compared directly; below it a level is chosen first.
_DIRECT = 0.25
#: How a pair is drawn within a query of a stream.
EXACT, WITH_TIES, BY_LABELS = 0, 1, 2
#: Few levels are scanned, many are searched.
_SCAN = 8
#: Rows whose numbers need more than 32 bits.
_MANY_ROWS = 2**32
_NONE = np.zeros(0)


class PairIndex(NamedTuple):
    """Rows ordered by (query, label) with cumulative masses.

    A level is the rows of one label, or one row where ties are weighed. Empty mass arrays mean
    "uniform"; the draw then needs no search. Sums of rows begin at 0 in each level, and those of
    levels stand on either side of each, so that none holds a huge weight besides what it is for.
    """

    order: NDArray[np.uint32]  # row at each position
    labels: NDArray[np.float64]  # label at each position
    query_starts: NDArray[np.int64]  # positions of the drawable queries
    query_stops: NDArray[np.int64]
    query_levels: NDArray[np.int64]  # first level of each drawable query
    n_levels: NDArray[np.int64]  # levels of each drawable query
    level_starts: NDArray[np.int64]  # position where each level starts, one more at the end
    level_mass: NDArray[np.float64]  # cumulative n_l (m_q - n_l), restarting in each query
    level_before: NDArray[np.float64]  # row weights of the query's levels before each, or empty
    level_after: NDArray[np.float64]  # and after each
    accept: NDArray[np.float64]  # chance that two random rows of a query form a pair
    query_mass: NDArray[np.float64]  # cumulative chance of each drawable query, or empty
    row_mass: NDArray[np.float64]  # row weights of the level before each position, or empty


def build_pair_index(
    data: Dataset, query_weight: NDArray[np.float64], *, sampling: str = "query", ties: bool = False
) -> PairIndex:
    """Index a dataset for sampling; with ``ties`` pairs of equal labels count as pairs too.

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
    uniform = bool(np.all(chance == chance[0]))
    order: Any = index.order.astype(np.uint32 if data.n_rows < _MANY_ROWS else np.uint64)
    labels, query_starts = data.y[index.order], index.query_starts
    level_ptr, level_starts = index.level_ptr, index.level_starts
    before = after = row_mass = _NONE
    if data.weight is None:
        level_mass = _running(index.level_masses(None), level_ptr)
    else:
        if ties:
            level_ptr, level_starts = query_starts, np.arange(data.n_rows + 1)
        # Levels stand one place apart.
        n_levels = len(level_starts) - 1
        places = np.arange(data.n_rows) + np.repeat(np.arange(n_levels), np.diff(level_starts))
        length = data.n_rows + n_levels
        row_mass = _at(places + 1, _running(data.weight[index.order], level_starts), length)
        order, labels = _at(places, order, length), _at(places, labels, length)
        query_starts = query_starts + level_ptr
        level_starts = level_starts + np.arange(n_levels + 1)
        levels = row_mass[level_starts[1:] - 1]
        before, after = _beside(levels, level_ptr)
        level_mass = _running(levels * (before + after), level_ptr)
    return PairIndex(
        order,
        labels,
        query_starts[usable],
        query_starts[usable + 1],
        level_ptr[usable],
        np.diff(level_ptr)[usable],
        level_starts,
        level_mass,
        before,
        after,
        _acceptance(pairs, _sums(_row_weights(data), index.query_starts))[usable],
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


@jit
def _beside(values: Any, starts: Any) -> Any:
    """Sums of the values before and after each, within each of the parts."""
    before, after = np.zeros(values.shape[0]), np.zeros(values.shape[0])
    for part in range(starts.shape[0] - 1):
        first, last = starts[part], starts[part + 1] - 1
        for k in range(first, last):
            before[k + 1] = before[k] + values[k]
        for k in range(last, first, -1):
            after[k - 1] = after[k] + values[k]
    return before, after


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
    if ties:
        weight = _row_weights(data)
        return _sums(weight * sums_of_others(weight, index.query_starts), index.query_starts)
    return _sums(index.level_masses(data.weight), index.level_ptr)


def _row_weights(data: Dataset) -> NDArray[np.float64]:
    """Weights of rows in the order of their labels."""
    return np.ones(data.n_rows) if data.weight is None else data.weight[data.labels.order]


def _sums(values: NDArray[np.float64], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.add.reduceat(values, starts[:-1])


def _acceptance(pairs: NDArray[Any], total: NDArray[Any]) -> NDArray[np.float64]:
    return np.divide(pairs, total**2, out=np.zeros(len(pairs)), where=total > 0)


@inlined_generic
def draw_pair(sampler: Any, seed: int, step: int) -> Any:
    """Draw one pair: rows a, b and t."""


class ExactPairs(NamedTuple):
    """Every pair of a query equally likely, which Sculley (2009) leaves open."""

    pairs: PairIndex


class TiedPairs(NamedTuple):
    """Every two rows of a query equally likely, equal labels included."""

    pairs: PairIndex


class LabelPairs(NamedTuple):
    """Uniform query, two uniform labels, one uniform row of each (Sculley 2009, section 3.1)."""

    pairs: PairIndex


class StreamPairs(NamedTuple):
    """Queries in the order of a stream: query k owns the steps before ``step_ends[k]``."""

    pairs: PairIndex
    step_ends: NDArray[np.int64]
    rule: int


class RejectionPairs(NamedTuple):
    """Two uniform rows, kept if they form a pair (Sculley 2009, section 3.1): no index needed."""

    query_of: NDArray[np.int64]
    labels: NDArray[np.float64]
    row_weight: NDArray[np.float64]  # relative to the largest, or empty
    query_weight: NDArray[np.float64]  # relative to the largest, or empty
    ties: bool
    max_trials: int


@jit
def _search(mass: Any, low: int, high: int, target: float) -> int:
    """First k in [low, high) with mass[k] > target, or ``high``."""
    while low < high:
        middle = (low + high) >> 1
        if mass[middle] > target:
            high = middle
        else:
            low = middle + 1
    return low


@jit
def _pick_query(query_mass: Any, n: int, seed: int) -> int:
    if n == 1:
        return 0
    if query_mass.shape[0] == 0:
        return random_below(seed, 0, n)
    target = random_unit(seed, 0) * query_mass[n - 1]
    return _search(query_mass, 0, n - 1, target)


@jit
def _weight_of(index: PairIndex, level: int) -> float:
    return index.row_mass[index.level_starts[level + 1] - 1]


@jit
def _below(target: float, total: float) -> float:
    """The target, brought back where rounding has taken it out of [0, total)."""
    return max(0.0, min(target, np.nextafter(total, 0.0)))


@jit
def _row_at(index: PairIndex, level: int, target: float) -> int:
    """The position of a level before which and with which its weights pass the target."""
    start, stop = index.level_starts[level], index.level_starts[level + 1] - 1
    return _search(index.row_mass, start, stop, _below(target, index.row_mass[stop])) - 1


@jit
def _pick_within(index: PairIndex, seed: int, counter: int, level: int) -> int:
    """A position of a level, in proportion to row weights."""
    if index.row_mass.shape[0] == 0:
        start = index.level_starts[level]
        return start + random_below(seed, counter, index.level_starts[level + 1] - start)
    return _row_at(index, level, random_unit(seed, counter) * _weight_of(index, level))


@jit
def _pick_position(index: PairIndex, seed: int, counter: int, k: int) -> int:
    """A position of query k, in proportion to row weights."""
    if index.row_mass.shape[0] == 0:
        start = index.query_starts[k]
        return start + random_below(seed, counter, index.query_stops[k] - start)
    before, first = index.level_before, index.query_levels[k]
    last = first + index.n_levels[k] - 1
    target = random_unit(seed, counter) * (before[last] + _weight_of(index, last))
    level = _search(before, first + 1, last + 1, target) - 1
    return _row_at(index, level, target - before[level])


@jit
def _pick_outside(index: PairIndex, seed: int, k: int, level: int) -> int:
    """A position of query k that is not in a level of it."""
    first, last = index.level_starts[level], index.level_starts[level + 1]
    if index.row_mass.shape[0] == 0:
        start, stop = index.query_starts[k], index.query_stops[k]
        position = start + random_below(seed, 3, stop - start - (last - first))
        return position + (last - first) if position >= first else position
    before, after = index.level_before[level], index.level_after[level]
    target = random_unit(seed, 3) * (before + after)
    if target < before:
        other = _search(index.level_before, index.query_levels[k], level, target) - 1
        return _row_at(index, other, target - index.level_before[other])
    target = _below(target - before, after)
    other, high = level + 1, index.query_levels[k] + index.n_levels[k] - 1
    while other < high:
        middle = (other + high) >> 1
        if after - index.level_after[middle] > target:
            high = middle
        else:
            other = middle + 1
    return _row_at(index, other, target - (after - index.level_after[other - 1]))


@jit
def _pick_level(level_mass: Any, first: int, n: int, seed: int) -> int:
    last = first + n - 1
    target = random_unit(seed, 1) * level_mass[last]
    if n > _SCAN:
        return _search(level_mass, first, last, target)
    level = first
    while level < last and level_mass[level] <= target:
        level += 1
    return level


@jit(inline=True)
def _oriented(index: PairIndex, p: int, q: int) -> Any:
    a, b = np.int64(index.order[p]), np.int64(index.order[q])
    if index.labels[p] > index.labels[q]:
        return a, b, 1.0
    if index.labels[p] < index.labels[q]:
        return b, a, 1.0
    return a, b, 0.0


@jit(inline=True)
def _exact_in(index: PairIndex, seed: int, k: int) -> Any:
    if index.accept[k] >= _DIRECT:
        counter = 1
        while True:
            p = _pick_position(index, seed, counter, k)
            q = _pick_position(index, seed, counter + 1, k)
            if index.labels[p] != index.labels[q]:
                return _oriented(index, p, q)
            counter += 2
    level = _pick_level(index.level_mass, index.query_levels[k], index.n_levels[k], seed)
    p = _pick_within(index, seed, 2, level)
    q = _pick_outside(index, seed, k, level)
    # Positions rise with the label, so the later one is preferred; no label is read.
    return np.int64(index.order[max(p, q)]), np.int64(index.order[min(p, q)]), 1.0


@jit(inline=True)
def _tied_in(index: PairIndex, seed: int, k: int) -> Any:
    if index.accept[k] >= _DIRECT:
        counter = 1
        while True:
            p = _pick_position(index, seed, counter, k)
            q = _pick_position(index, seed, counter + 1, k)
            if p != q:
                return _oriented(index, p, q)
            counter += 2
    level = _pick_level(index.level_mass, index.query_levels[k], index.n_levels[k], seed)
    return _oriented(index, index.level_starts[level], _pick_outside(index, seed, k, level))


@jit(inline=True)
def _labels_in(index: PairIndex, seed: int, k: int) -> Any:
    n = index.n_levels[k]
    counter = 1
    while True:
        i = random_below(seed, counter, n)
        j = random_below(seed, counter + 1, n - 1)
        j += j >= i
        low, high = index.query_levels[k] + min(i, j), index.query_levels[k] + max(i, j)
        # A label whose rows all have weight 0 is none; a drawable query has two others.
        if index.row_mass.shape[0] == 0 or (
            _weight_of(index, low) > 0.0 and _weight_of(index, high) > 0.0
        ):
            break
        counter += 4
    p = _pick_within(index, seed, counter + 2, high)
    q = _pick_within(index, seed, counter + 3, low)
    return np.int64(index.order[p]), np.int64(index.order[q]), 1.0


@draw_pair.implementation(ExactPairs)
def _draw_exact(sampler: Any, seed: Any, step: Any) -> Any:
    index = sampler.pairs
    return _exact_in(index, seed, _pick_query(index.query_mass, index.query_starts.shape[0], seed))


@draw_pair.implementation(TiedPairs)
def _draw_tied(sampler: Any, seed: Any, step: Any) -> Any:
    index = sampler.pairs
    return _tied_in(index, seed, _pick_query(index.query_mass, index.query_starts.shape[0], seed))


@draw_pair.implementation(LabelPairs)
def _draw_labels(sampler: Any, seed: Any, step: Any) -> Any:
    index = sampler.pairs
    return _labels_in(index, seed, _pick_query(index.query_mass, index.query_starts.shape[0], seed))


@draw_pair.implementation(StreamPairs)
def _draw_stream(sampler: Any, seed: Any, step: Any) -> Any:
    index = sampler.pairs
    k = np.searchsorted(sampler.step_ends, step, side="right")
    if sampler.rule == BY_LABELS:
        return _labels_in(index, seed, k)
    if sampler.rule == WITH_TIES:
        return _tied_in(index, seed, k)
    return _exact_in(index, seed, k)


@jit(inline=True)
def _kept(sampler: RejectionPairs, seed: int, counter: int, a: int, b: int) -> bool:
    """Thin accepted pairs by their weight, relative to the largest possible one."""
    chance = 1.0
    if sampler.row_weight.shape[0]:
        chance *= sampler.row_weight[a] * sampler.row_weight[b]
    if sampler.query_weight.shape[0]:
        chance *= sampler.query_weight[sampler.query_of[a]]
    return chance >= 1.0 or random_unit(seed, counter) < chance


@draw_pair.implementation(RejectionPairs)
def _draw_rejection(sampler: Any, seed: Any, step: Any) -> Any:
    m = sampler.labels.shape[0]
    for trial in range(sampler.max_trials):
        a = random_below(seed, 3 * trial, m)
        b = random_below(seed, 3 * trial + 1, m)
        if a == b or sampler.query_of[a] != sampler.query_of[b]:
            continue
        gap = sampler.labels[a] - sampler.labels[b]
        if gap == 0.0 and not sampler.ties:
            continue
        if not _kept(sampler, seed, 3 * trial + 2, a, b):
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
    """The sampler of a word: ``"query"``, ``"uniform"``, ``"indexed"`` or ``"rejection"``."""
    if sampling == "rejection":
        return RejectionPairs(
            data.queries.codes,
            data.y,
            np.zeros(0) if data.weight is None else data.weight / data.weight.max(),
            np.zeros(0) if np.ptp(query_weight) == 0 else query_weight / query_weight.max(),
            ties,
            int(max_trials),
        )
    index = build_pair_index(data, query_weight, sampling=sampling, ties=ties)
    if sampling == "indexed":
        return LabelPairs(index)
    return TiedPairs(index) if ties else ExactPairs(index)


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
    """Blocks with their samplers and last steps: every query owns steps by its share of ``total``.

    ``read()`` gives blocks with the weights of their queries, once a pass.
    """
    for number in range(n_passes):
        passed = 0.0
        for block, weight in read():
            shares = query_shares(block, weight, sampling=sampling, ties=ties)
            # One by one, so that how the stream is cut changes no sum.
            reached = np.cumsum(np.concatenate([[passed], shares]))[1:]
            passed = float(reached[-1])
            reached = reached[shares > 0]
            if len(reached) == 0:
                continue
            done = (number * total + reached) / (n_passes * total)
            done[reached == total] = (number + 1) / n_passes
            ends = taken + np.floor(n_steps * done).astype(np.int64)
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
    """A sampler of a block of a stream; its queries that hold a pair own the steps in turn.

    ``"rejection"`` is replaced by exact draws of the same distribution.
    """
    index = build_pair_index(block, query_weight, ties=ties)
    rule = BY_LABELS if sampling == "indexed" else WITH_TIES if ties else EXACT
    return StreamPairs(index, step_ends, rule)
