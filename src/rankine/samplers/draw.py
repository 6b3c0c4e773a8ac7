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
from rankine.kernels.dispatch import inlined_question
from rankine.kernels.random import random_below, random_unit

#: The ways to draw a pair, by the words that users write.
SAMPLINGS = ("query", "uniform", "indexed", "rejection")
#: Above this chance two random rows are compared directly; below it a level is chosen first.
_DIRECT = 0.25
#: How a pair is drawn within a query of a stream.
EXACT, WITH_TIES, BY_LABELS = 0, 1, 2
#: Few levels are scanned, many are searched.
_SCAN = 8
#: Draws of two rows with ties: that both are the same row 500 times has a chance below 1e-5 unless
#: one row has 98 % of its query's weight.
_TIED_DRAWS = 1000
#: Rows whose numbers need more than 32 bits.
_MANY_ROWS = 2**32
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
    own_mass: NDArray[np.float64]  # row weights of the level up to each position, or empty


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
    owner = np.repeat(np.arange(data.n_queries), index.n_levels)
    level_mass = _running(index.level_masses(data.weight), index.level_ptr)
    order: Any = index.order.astype(np.uint32 if data.n_rows < _MANY_ROWS else np.uint64)
    labels, row_mass, own_mass = data.y[index.order], _NONE, _NONE
    level_starts, apart = index.level_starts, 0
    if data.weight is not None:
        # Queries stand one place apart, and sums begin at 0 in each: a draw depends on the rows of
        # its own query alone, to the bit, however a stream is cut into blocks.
        apart = 1
        of_query = np.repeat(np.arange(data.n_queries), np.diff(index.query_starts))
        places = np.arange(data.n_rows) + of_query
        length = data.n_rows + data.n_queries
        weight = data.weight[index.order]
        row_mass = _at(places + 1, _running(weight, index.query_starts), length)
        own_mass = _at(places, _running(weight, index.level_starts), length)
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
        _acceptance(pairs, _sums(_row_weights(data), index.query_starts))[usable],
        _NONE if uniform else np.cumsum(chance),
        row_mass,
        own_mass,
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


@inlined_question
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
def _pick_position(row_mass: Any, seed: int, counter: int, start: int, stop: int) -> int:
    """A position in [start, stop), in proportion to row weights."""
    if row_mass.shape[0] == 0:
        return start + random_below(seed, counter, stop - start)
    low, high = row_mass[start], row_mass[stop]
    target = low + random_unit(seed, counter) * (high - low)
    return _search(row_mass, start, stop, target) - 1


@jit
def _pick_in_level(own_mass: Any, seed: int, counter: int, start: int, stop: int) -> int:
    """The same in a level, whose own sums no huge row of another level can round away."""
    if own_mass.shape[0] == 0:
        return start + random_below(seed, counter, stop - start)
    return _search(own_mass, start, stop - 1, random_unit(seed, counter) * own_mass[stop - 1])


@jit
def _pick_outside(index: PairIndex, seed: int, k: int, own: int) -> int:
    """A position of query k that is not in its level ``own``."""
    starts, mass = index.level_starts, index.own_mass
    if mass.shape[0] == 0:
        start, first, last = index.query_starts[k], starts[own], starts[own + 1]
        position = start + random_below(seed, 3, index.query_stops[k] - start - (last - first))
        return position + (last - first) if position >= first else position
    # Level by level: in sums over the query a huge level would round the others away.
    begin, end = index.query_levels[k], index.query_levels[k] + index.n_levels[k]
    total = 0.0
    for level in range(begin, end):
        total += mass[starts[level + 1] - 1] if level != own else 0.0
    target, chosen = random_unit(seed, 3) * total, begin
    for level in range(begin, end):
        here = mass[starts[level + 1] - 1] if level != own else 0.0
        if here > 0.0:
            chosen = level
            if target < here:
                break
            target -= here
    return _search(mass, starts[chosen], starts[chosen + 1] - 1, target)


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
    start, stop = index.query_starts[k], index.query_stops[k]
    if index.accept[k] >= _DIRECT:
        counter = 1
        while True:
            p = _pick_position(index.row_mass, seed, counter, start, stop)
            q = _pick_position(index.row_mass, seed, counter + 1, start, stop)
            if index.labels[p] != index.labels[q]:
                return _oriented(index, p, q)
            counter += 2
    level = _pick_level(index.level_mass, index.query_levels[k], index.n_levels[k], seed)
    first, last = index.level_starts[level], index.level_starts[level + 1]
    p = _pick_in_level(index.own_mass, seed, 2, first, last)
    q = _pick_outside(index, seed, k, level)
    # Positions rise with the label, so the later one is preferred; no label is read.
    return np.int64(index.order[max(p, q)]), np.int64(index.order[min(p, q)]), 1.0


@jit(inline=True)
def _tied_in(index: PairIndex, seed: int, k: int) -> Any:
    start, stop = index.query_starts[k], index.query_stops[k]
    counter = 1
    # A query whose weight sits in one row offers no second row; the cap ends the search.
    while counter < _TIED_DRAWS:
        p = _pick_position(index.row_mass, seed, counter, start, stop)
        q = _pick_position(index.row_mass, seed, counter + 1, start, stop)
        if p != q:
            return _oriented(index, p, q)
        counter += 2
    return np.int64(0), np.int64(0), -1.0


@jit(inline=True)
def _labels_in(index: PairIndex, seed: int, k: int) -> Any:
    n, starts, mass = index.n_levels[k], index.level_starts, index.own_mass
    counter = 1
    while True:
        i = random_below(seed, counter, n)
        j = random_below(seed, counter + 1, n - 1)
        j += j >= i
        low, high = index.query_levels[k] + min(i, j), index.query_levels[k] + max(i, j)
        # A label whose rows all have weight 0 is none; a drawable query has two others.
        if mass.shape[0] == 0 or (
            mass[starts[low + 1] - 1] > 0.0 and mass[starts[high + 1] - 1] > 0.0
        ):
            break
        counter += 4
    p = _pick_in_level(mass, seed, counter + 2, starts[high], starts[high + 1])
    q = _pick_in_level(mass, seed, counter + 3, starts[low], starts[low + 1])
    return np.int64(index.order[p]), np.int64(index.order[q]), 1.0


@draw_pair.answer(ExactPairs)
def _draw_exact(sampler: Any, seed: Any, step: Any) -> Any:
    index = sampler.pairs
    return _exact_in(index, seed, _pick_query(index.query_mass, index.query_starts.shape[0], seed))


@draw_pair.answer(TiedPairs)
def _draw_tied(sampler: Any, seed: Any, step: Any) -> Any:
    index = sampler.pairs
    return _tied_in(index, seed, _pick_query(index.query_mass, index.query_starts.shape[0], seed))


@draw_pair.answer(LabelPairs)
def _draw_labels(sampler: Any, seed: Any, step: Any) -> Any:
    index = sampler.pairs
    return _labels_in(index, seed, _pick_query(index.query_mass, index.query_starts.shape[0], seed))


@draw_pair.answer(StreamPairs)
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


@draw_pair.answer(RejectionPairs)
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
