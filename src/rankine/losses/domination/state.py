"""The domination loss at the current weights: sums kept up to date, value, dual, slopes by row.

With an anchor c_q per query, E_i = a_i e^{rho_i - c_q}; A_l is the sum of E over level l, and a
term of level k sees Z_k = sum_{l<k} e^{M[k,l]} A_l (M = 0 without a table of gaps). For a term i
of level k, sigma_i = Z_k / (Z_k + e^{rho_i - c_q}); S_k and T_k are the sums of v a sigma and of
v a sigma (1 - sigma) over the level. See ALGORITHM in docs/rankers/domination.md.

Sums that are changed a million times drift. A query is computed afresh, around a new anchor, when
its drift could exceed 1e-10 of a sum in use, or when a sum leaves the safe range.

*Dual.* For any w and any 0 <= kappa <= 1 the numbers sigma' = kappa sigma_i are a point of the
dual; with fbar_k the mean of the raw scores <w, x_j> of the rows below level k under their softmax,

    Dual = sum_i v a_i [-xl(sigma') - xl(1 - sigma') - sigma' (fbar_k - log Z_k - s_i)]
           - (l2 > 0) sum_r max(kappa |g_r| - l1, 0)^2 / (2 l2),      xl(v) = v log v

is a lower bound of the regularised optimum provided that kappa |g_r| <= l1 wherever l2 = 0. (The
entropy of the softmax has been eliminated by log pi_j = rho_j + log a_j + M - log Z; margins, row
weights and a table of gaps therefore enter only through Z.)

*Slopes.* A row j of level l and mass E_j has

    dL/dp_j = E_j sum_{k > l} e^M[k, l] S_k / Z_k  -  v a sigma_j (if j is a term)

so that X^T dL/dp is the gradient. One pass over rows and levels.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import NoPairsError
from rankine.data.dataset import Dataset
from rankine.kernels.columns import Columns, add_column_products
from rankine.kernels.compile import jit
from rankine.losses.domination.task import (
    LEVEL,
    LEVELS,
    MARGIN,
    QUERY,
    ROW,
    ROWS,
    SLOTS,
    TERM,
    WEIGHT,
    DominationOptions,
    Levels,
    build_domination_task,
)

#: Largest relative error of a sum that drift may cause before it is computed afresh.
DRIFT = 1e-10
#: Above this a query's sums are re-anchored.
LARGE = 1e100
#: Exponents are cut here; the sums then exceed ``LARGE`` and the query is re-anchored at once.
TOP_EXPONENT = 600.0


ANCHOR, BOTTOM, PEAK, MOVES = 0, 1, 2, 3
MASS, BELOW, SLOPE, BEND = 0, 1, 2, 3


class Domination(NamedTuple):
    """The domination loss of one task at the current weights."""

    levels: Levels
    #: <w, x_i> of every row that takes part, and E_i.
    score: NDArray[np.float64]
    mass: NDArray[np.float64]
    #: [q, ``ANCHOR``]: c_q; [q, ``BOTTOM``]: A of the query's bottom; [q, ``PEAK``]: its largest
    #: sum since it was computed afresh; [q, ``MOVES``]: changes since then.
    query: NDArray[np.float64]
    #: [k, ``MASS``]: A_k; [k, ``BELOW``]: Z_k; [k, ``SLOPE``]: S_k; [k, ``BEND``]: T_k.
    level: NDArray[np.float64]
    #: [d, 0]: v a sigma; [d, 1]: v a sigma (1 - sigma).
    slot: NDArray[np.float64]


class Scratch(NamedTuple):
    """Work space of one thread, for the column at hand."""

    #: [q, 0] and [q, 1]: sums of E x and E x^2 over the bottom; [q, 2:5]: min, max and number of
    #: stored values.
    query: NDArray[np.float64]
    #: [k, 0] and [k, 1]: the same sums; [k, 2]: sum of v a sigma (1 - sigma) x.
    level: NDArray[np.float64]
    #: Column visit that last touched each query, and queries touched by the column.
    seen: NDArray[np.int64]
    touched: NDArray[np.uint32]
    #: [visits so far, queries touched].
    tally: NDArray[np.int64]


def new_state(levels: Levels) -> Domination:
    """Give the loss at w = 0."""
    state = Domination(
        levels,
        np.zeros(len(levels.code)),
        np.zeros(len(levels.code)),
        np.zeros((len(levels.query), 4)),
        np.zeros((len(levels.level) - 1, 4)),
        np.zeros((len(levels.slot), 2)),
    )
    refresh_all(state)
    return state


def new_scratch(levels: Levels) -> Scratch:
    """Work space for the loss of a task."""
    n_queries = len(levels.term)
    return Scratch(
        np.zeros((n_queries + 1, 5)),
        np.zeros((len(levels.level) - 1, 3)),
        np.zeros(n_queries, dtype=np.int64),
        np.zeros(n_queries, dtype=np.uint32),
        np.zeros(2, dtype=np.int64),
    )


def move_to(state: Domination, columns: Columns, w: NDArray[np.float64]) -> None:
    """Bring the state to the weights w, computing everything afresh."""
    state.score[:] = 0.0
    add_column_products(columns, w, state.score)
    refresh_all(state)


@jit
def weigh_query(state: Domination, q: int) -> None:
    """Z, sigma, S and T of a query from its sums."""
    levels = state.levels
    n_queries = levels.term.shape[0]
    tabled = levels.table.shape[0] > 0
    first, last = levels.query[q, LEVELS], levels.query[q + 1, LEVELS]
    below = state.query[q, BOTTOM]
    for k in range(np.uint64(first), np.uint64(last)):
        if tabled:
            gaps = levels.table[levels.label[n_queries + k]]
            below = gaps[levels.label[q]] * state.query[q, BOTTOM]
            for l in range(np.uint64(first), k):
                below += gaps[levels.label[n_queries + l]] * state.level[l, MASS]
        slope = 0.0
        bend = 0.0
        start, stop = levels.level[k, SLOTS], levels.level[k + np.uint64(1), SLOTS]
        for d in range(np.uint64(start), np.uint64(stop)):
            own = state.mass[levels.place[d, ROW]] / levels.slot[d, WEIGHT]
            total = below + own
            share = below / total if total > 0.0 else 0.0
            state.slot[d, 0] = levels.slot[d, TERM] * share
            state.slot[d, 1] = state.slot[d, 0] * (own / total) if total > 0.0 else 0.0
            slope += state.slot[d, 0]
            bend += state.slot[d, 1]
        state.level[k, BELOW] = below
        state.level[k, SLOPE] = slope
        state.level[k, BEND] = bend
        below += state.level[k, MASS]


@jit
def refresh_query(state: Domination, q: int) -> None:
    """Everything about a query from its scores, around the largest of them."""
    levels = state.levels
    first, last = np.uint64(levels.query[q, ROWS]), np.uint64(levels.query[q + 1, ROWS])
    has_offset = levels.offset.shape[0] > 0
    anchor = -np.inf
    for p in range(first, last):
        row = levels.order[p]
        rho = state.score[row]
        if has_offset:
            rho += levels.offset[row]
        anchor = max(anchor, rho)
    for k in range(levels.query[q, LEVELS], levels.query[q + 1, LEVELS]):
        state.level[k, MASS] = 0.0
    n_bottoms = np.uint32(levels.term.shape[0] + 1)
    bottom = 0.0
    for p in range(first, last):
        row = levels.order[p]
        rho = state.score[row]
        if has_offset:
            rho += levels.offset[row]
        mass = np.exp(rho - anchor)
        state.mass[row] = mass
        code = levels.code[row]
        if code < n_bottoms:
            bottom += mass
        else:
            state.level[levels.place[code - n_bottoms, LEVEL], MASS] += mass
    state.query[q, ANCHOR] = anchor
    state.query[q, BOTTOM] = bottom
    weigh_query(state, q)
    state.query[q, PEAK] = state.level[levels.query[q + 1, LEVELS] - 1, BELOW]
    state.query[q, MOVES] = 0.0


@jit
def settle_query(state: Domination, q: Any) -> None:
    """After sums of a query have moved: weigh it again, afresh when drift or range demand it."""
    levels = state.levels
    top = levels.query[q + 1, LEVELS] - 1
    smallest = state.query[q, BOTTOM]
    total = smallest
    for k in range(levels.query[q, LEVELS], top):
        smallest = min(smallest, state.level[k, MASS])
        total += state.level[k, MASS]
    state.query[q, PEAK] = max(state.query[q, PEAK], total)
    drift = 2.2e-16 * np.sqrt(state.query[q, MOVES] + 1.0) * state.query[q, PEAK]
    # Written so that NaN asks for a refresh too.
    in_range = smallest > 0.0 and total < LARGE and state.level[top, MASS] < LARGE
    if in_range and drift <= DRIFT * smallest:
        weigh_query(state, q)
    else:
        refresh_query(state, q)


@jit
def refresh_all(state: Domination) -> None:
    """Everything from the scores."""
    for q in range(state.levels.term.shape[0]):
        refresh_query(state, q)


@jit
def loss_value(state: Domination) -> float:
    """L = sum_i v a_i log(1 + e^{log Z_k - rho_i})."""
    levels = state.levels
    total = 0.0
    for k in range(levels.level.shape[0] - 1):
        if state.level[k, BELOW] <= 0.0:
            continue
        log_below = np.log(state.level[k, BELOW]) + state.query[levels.level[k, QUERY], ANCHOR]
        for d in range(levels.level[k, SLOTS], levels.level[k + 1, SLOTS]):
            z = log_below - (state.score[levels.place[d, ROW]] - levels.slot[d, MARGIN])
            total += levels.slot[d, TERM] * (max(z, 0.0) + np.log1p(np.exp(-abs(z))))
    return total


@jit
def _entropy(v: float) -> float:
    return v * np.log(v) if v > 0.0 else 0.0


@jit
def _score_sums(state: Any, q: int, level: Any) -> float:
    """Sum of E f over the bottom of a query; over its dominating levels into ``level``."""
    levels = state.levels
    n_bottoms = np.uint32(levels.term.shape[0] + 1)
    bottom = 0.0
    for p in range(levels.query[q, ROWS], levels.query[q + 1, ROWS]):
        row = levels.order[p]
        code = levels.code[row]
        part = state.mass[row] * state.score[row]
        if code < n_bottoms:
            bottom += part
        else:
            level[levels.place[code - n_bottoms, LEVEL]] += part
    return bottom


@jit
def dual_value(state: Domination, kappa: float) -> float:
    """The dual without the term of l2."""
    levels = state.levels
    n_queries = levels.term.shape[0]
    sums = np.zeros(levels.level.shape[0] - 1)
    total = 0.0
    for q in range(n_queries):
        bottom = _score_sums(state, q, sums)
        scores = bottom
        for k in range(levels.query[q, LEVELS], levels.query[q + 1, LEVELS]):
            if levels.table.shape[0] > 0:
                gaps = levels.table[levels.label[n_queries + k]]
                scores = gaps[levels.label[q]] * bottom
                for l in range(levels.query[q, LEVELS], k):
                    scores += gaps[levels.label[n_queries + l]] * sums[l]
            below = state.level[k, BELOW]
            if below > 0.0:
                pull = scores / below - np.log(below) - state.query[q, ANCHOR]
                for d in range(levels.level[k, SLOTS], levels.level[k + 1, SLOTS]):
                    sigma = kappa * state.slot[d, 0] / levels.slot[d, TERM]
                    part = -_entropy(sigma) - _entropy(1.0 - sigma)
                    part -= sigma * (pull - levels.slot[d, MARGIN])
                    total += levels.slot[d, TERM] * part
            scores += sums[k]
    return total


def set_scores(state: Domination, scores: NDArray[np.float64]) -> None:
    """Bring the state to given scores, computing everything afresh."""
    state.score[:] = scores
    refresh_all(state)


@jit
def _pull(state: Any, q: int, label: Any, first: Any) -> float:
    """Sum over the levels from ``first`` of e^M[k, label] S_k / Z_k."""
    levels = state.levels
    n_queries = levels.term.shape[0]
    total = 0.0
    for k in range(first, levels.query[q + 1, LEVELS]):
        if state.level[k, BELOW] > 0.0:
            part = state.level[k, SLOPE] / state.level[k, BELOW]
            if levels.table.shape[0] > 0:
                part *= levels.table[levels.label[n_queries + k], label]
            total += part
    return total


@jit
def row_slopes(state: Domination, out: Any) -> None:
    """dL/dp of every row; 0 for rows that take no part."""
    levels = state.levels
    n_queries = levels.term.shape[0]
    n_bottoms = np.uint32(n_queries + 1)
    tabled = levels.table.shape[0] > 0
    pulls = np.zeros(levels.level.shape[0])
    out[:] = 0.0
    for q in range(n_queries):
        first, last = levels.query[q, LEVELS], levels.query[q + 1, LEVELS]
        bottom = _pull(state, q, levels.label[q] if tabled else 0, first)
        for l in range(first, last):
            label = levels.label[n_queries + l] if tabled else 0
            pulls[l] = _pull(state, q, label, l + 1)
        for p in range(levels.query[q, ROWS], levels.query[q + 1, ROWS]):
            row = levels.order[p]
            code = levels.code[row]
            if code < n_bottoms:
                out[row] = state.mass[row] * bottom
            else:
                d = code - n_bottoms
                pull = pulls[levels.place[d, LEVEL]]
                out[row] = state.mass[row] * pull - state.slot[d, 0]


class DominationRisk:
    """The domination loss of one task, asked by columns or by rows.

    Coordinate descent moves ``state`` through the questions of ``kernels.columns``;
    ``evaluate`` and ``dual`` take scores, as ``solvers.problem`` asks. A task without a single
    pair (a partition may be one) has the loss 0.
    """

    def __init__(self, levels: Levels | None) -> None:
        self.state: Domination | None = None if levels is None else new_state(levels)
        self.at_zero = 0.0 if self.state is None else float(loss_value(self.state))
        self._lock = threading.Lock()

    def value(self) -> float:
        """L at the current state."""
        return 0.0 if self.state is None else float(loss_value(self.state))

    def current_dual(self, kappa: float) -> float:
        """The dual at the current state, without the term of l2."""
        return 0.0 if self.state is None else float(dual_value(self.state, kappa))

    def scratch(self) -> Scratch:
        """Work space of one thread."""
        assert self.state is not None  # noqa: S101 - coordinates are asked where there are pairs
        return new_scratch(self.state.levels)

    def move_to(self, columns: Columns, w: NDArray[np.float64]) -> None:
        """Bring the state to the weights w."""
        assert self.state is not None  # noqa: S101 - as above
        move_to(self.state, columns, w)

    def evaluate(self, scores: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """L and dL/dp, in row order."""
        slopes = np.zeros(len(scores))
        if self.state is None:
            return 0.0, slopes
        with self._lock:
            set_scores(self.state, scores)
            row_slopes(self.state, slopes)
            return self.value(), slopes

    def dual(self, scores: NDArray[np.float64], kappa: float) -> float:
        """The dual at some scores, without the term of l2."""
        if self.state is None:
            return 0.0
        with self._lock:
            set_scores(self.state, scores)
            return self.current_dual(kappa)


def domination_risk(
    data: Dataset,
    options: DominationOptions,
    threads: int | None = None,
) -> DominationRisk:
    """The risk of a dataset's queries by rows, each of weight 1; a partition may hold no pair."""
    try:
        levels = build_domination_task(
            data.y,
            data.queries,
            np.ones(data.n_queries),
            options,
            weight=data.weight,
            columns=data.columns,
            labels=data.labels,
        )
    except NoPairsError:
        levels = None
    return DominationRisk(levels)
