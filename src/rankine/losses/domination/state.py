"""The domination loss at the current weights: its running sums, value, dual and slopes by row.

With an anchor c_q per query, E_i = a_i e^{rho_i - c_q}; A_l is the sum of E over level l, and a
term of level k sees Z_k = sum_{l<k} e^{M[k,l]} A_l (M = 0 without a table of gaps). For a term i
of level k, sigma_i = Z_k / (Z_k + e^{rho_i - c_q}); S_k and T_k are the sums of v a sigma and of
v a sigma (1 - sigma) over the level. See ALGORITHM in docs/rankers/domination.md.

Rounding errors accumulate in sums that are updated a million times. The sums of a query are
recomputed, around a new anchor, when their error could exceed 1e-10 of a sum in use, or when a sum
leaves the safe range.

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
    DominationTask,
    build_domination_task,
)

#: Accepted relative error of a running sum; beyond it the sums of the query are recomputed.
DRIFT = 1e-10
#: Above this a query's sums are re-anchored.
LARGE = 1e100
#: Exponents are limited to this; the sums then exceed ``LARGE``, and the query is re-anchored.
TOP_EXPONENT = 600.0


#: Columns of ``Domination.query``.
ANCHOR, BOTTOM, PEAK, MOVES = 0, 1, 2, 3
#: Columns of ``Domination.level``.
MASS, BELOW, SLOPE, CURVATURE = 0, 1, 2, 3


class Domination(NamedTuple):
    """The domination loss of one task at the current weights."""

    task: DominationTask
    #: <w, x_i> of every row that takes part, and E_i.
    score: NDArray[np.float64]
    mass: NDArray[np.float64]
    #: [q, ``ANCHOR``]: c_q; [q, ``BOTTOM``]: A of the query's bottom; [q, ``PEAK``]: its largest
    #: sum since it was recomputed; [q, ``MOVES``]: number of updates since then.
    query: NDArray[np.float64]
    #: [k, ``MASS``]: A_k; [k, ``BELOW``]: Z_k; [k, ``SLOPE``]: S_k; [k, ``CURVATURE``]: T_k.
    level: NDArray[np.float64]
    #: [d, 0]: v a sigma; [d, 1]: v a sigma (1 - sigma).
    slot: NDArray[np.float64]


class Scratch(NamedTuple):
    """Work space of one thread, for one column at a time."""

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


def new_state(task: DominationTask) -> Domination:
    """Create the state at w = 0."""
    state = Domination(
        task,
        np.zeros(len(task.code)),
        np.zeros(len(task.code)),
        np.zeros((len(task.query), 4)),
        np.zeros((len(task.level) - 1, 4)),
        np.zeros((len(task.slot), 2)),
    )
    refresh_all(state)
    return state


def new_scratch(task: DominationTask) -> Scratch:
    """Create work space for the loss of a task."""
    n_queries = len(task.term)
    return Scratch(
        np.zeros((n_queries + 1, 5)),
        np.zeros((len(task.level) - 1, 3)),
        np.zeros(n_queries, dtype=np.int64),
        np.zeros(n_queries, dtype=np.uint32),
        np.zeros(2, dtype=np.int64),
    )


@jit
def compute_shares(state: Domination, q: int) -> None:
    """Compute Z, sigma, S and T of a query from its sums."""
    task = state.task
    n_queries = task.term.shape[0]
    first, last = task.query[q, LEVELS], task.query[q + 1, LEVELS]
    below = state.query[q, BOTTOM]
    for k in range(np.uint64(first), np.uint64(last)):
        if task.has_table:
            gaps = task.table[task.label[n_queries + k]]
            below = gaps[task.label[q]] * state.query[q, BOTTOM]
            for l in range(np.uint64(first), k):
                below += gaps[task.label[n_queries + l]] * state.level[l, MASS]
        slope = 0.0
        curvature = 0.0
        start, stop = task.level[k, SLOTS], task.level[k + np.uint64(1), SLOTS]
        for d in range(np.uint64(start), np.uint64(stop)):
            term_mass = state.mass[task.slot_index[d, ROW]] / task.slot[d, WEIGHT]
            total = below + term_mass
            # Both masses underflow to 0 for rows far below the anchor.
            share = below / total if total > 0.0 else 0.0
            state.slot[d, 0] = task.slot[d, TERM] * share
            state.slot[d, 1] = state.slot[d, 0] * (term_mass / total) if total > 0.0 else 0.0
            slope += state.slot[d, 0]
            curvature += state.slot[d, 1]
        state.level[k, BELOW] = below
        state.level[k, SLOPE] = slope
        state.level[k, CURVATURE] = curvature
        below += state.level[k, MASS]


@jit
def refresh_query(state: Domination, q: int) -> None:
    """Recompute all sums of a query from its scores, around the largest of them."""
    task = state.task
    first, last = np.uint64(task.query[q, ROWS]), np.uint64(task.query[q + 1, ROWS])
    anchor = -np.inf
    for p in range(first, last):
        row = task.order[p]
        rho = state.score[row]
        if task.has_offset:
            rho += task.offset[row]
        anchor = max(anchor, rho)
    # Masses are relative to the anchor, so that none is larger than 1.
    for k in range(task.query[q, LEVELS], task.query[q + 1, LEVELS]):
        state.level[k, MASS] = 0.0
    first_term = np.uint32(task.term.shape[0] + 1)
    bottom = 0.0
    for p in range(first, last):
        row = task.order[p]
        rho = state.score[row]
        if task.has_offset:
            rho += task.offset[row]
        row_mass = np.exp(rho - anchor)
        state.mass[row] = row_mass
        code = task.code[row]
        if code < first_term:
            bottom += row_mass
        else:
            state.level[task.slot_index[code - first_term, LEVEL], MASS] += row_mass
    state.query[q, ANCHOR] = anchor
    state.query[q, BOTTOM] = bottom
    compute_shares(state, q)
    state.query[q, PEAK] = state.level[task.query[q + 1, LEVELS] - 1, BELOW]
    state.query[q, MOVES] = 0.0


@jit
def settle_query(state: Domination, q: Any) -> None:
    """Complete the update of a query's sums; recompute them if error or range demand it."""
    task = state.task
    top_level = task.query[q + 1, LEVELS] - 1
    smallest = state.query[q, BOTTOM]
    sum_of_masses = smallest
    for k in range(task.query[q, LEVELS], top_level):
        smallest = min(smallest, state.level[k, MASS])
        sum_of_masses += state.level[k, MASS]
    state.query[q, PEAK] = max(state.query[q, PEAK], sum_of_masses)
    drift = 2.2e-16 * np.sqrt(state.query[q, MOVES] + 1.0) * state.query[q, PEAK]
    # Comparisons with NaN are false, so a NaN leads to a refresh as well.
    in_range = smallest > 0.0 and sum_of_masses < LARGE and state.level[top_level, MASS] < LARGE
    if in_range and drift <= DRIFT * smallest:
        compute_shares(state, q)
    else:
        refresh_query(state, q)


@jit
def refresh_all(state: Domination) -> None:
    """Recompute the sums of all queries from the scores."""
    for q in range(state.task.term.shape[0]):
        refresh_query(state, q)


@jit
def loss_value(state: Domination) -> float:
    """Return L = sum_i v a_i log(1 + e^{log Z_k - rho_i})."""
    task = state.task
    total = 0.0
    for k in range(task.level.shape[0] - 1):
        if state.level[k, BELOW] <= 0.0:
            continue
        log_below = np.log(state.level[k, BELOW]) + state.query[task.level[k, QUERY], ANCHOR]
        for d in range(task.level[k, SLOTS], task.level[k + 1, SLOTS]):
            z = log_below - (state.score[task.slot_index[d, ROW]] - task.slot[d, MARGIN])
            total += task.slot[d, TERM] * (max(z, 0.0) + np.log1p(np.exp(-abs(z))))
    return total


@jit
def _entropy(v: float) -> float:
    return v * np.log(v) if v > 0.0 else 0.0


@jit
def _score_sums(state: Any, q: int, level: Any) -> float:
    """Return the sum of E f over a query's bottom; add the sums of its levels to ``level``."""
    task = state.task
    first_term = np.uint32(task.term.shape[0] + 1)
    bottom = 0.0
    for p in range(task.query[q, ROWS], task.query[q + 1, ROWS]):
        row = task.order[p]
        code = task.code[row]
        weighted_score = state.mass[row] * state.score[row]
        if code < first_term:
            bottom += weighted_score
        else:
            level[task.slot_index[code - first_term, LEVEL]] += weighted_score
    return bottom


@jit
def dual_value(state: Domination, kappa: float) -> float:
    """Return the dual without the term of l2."""
    task = state.task
    n_queries = task.term.shape[0]
    sums = np.zeros(task.level.shape[0] - 1)
    total = 0.0
    for q in range(n_queries):
        bottom = _score_sums(state, q, sums)
        scores = bottom
        for k in range(task.query[q, LEVELS], task.query[q + 1, LEVELS]):
            if task.has_table:
                gaps = task.table[task.label[n_queries + k]]
                scores = gaps[task.label[q]] * bottom
                for l in range(task.query[q, LEVELS], k):
                    scores += gaps[task.label[n_queries + l]] * sums[l]
            softmax_sum = state.level[k, BELOW]
            if softmax_sum > 0.0:
                log_ratio = scores / softmax_sum - np.log(softmax_sum) - state.query[q, ANCHOR]
                for d in range(task.level[k, SLOTS], task.level[k + 1, SLOTS]):
                    sigma = kappa * state.slot[d, 0] / task.slot[d, TERM]
                    term = -_entropy(sigma) - _entropy(1.0 - sigma)
                    term -= sigma * (log_ratio - task.slot[d, MARGIN])
                    total += task.slot[d, TERM] * term
            scores += sums[k]
    return total


@jit
def _sum_slope_ratios(state: Any, q: int, label: Any, first: Any) -> float:
    """Return the sum over the levels from ``first`` of e^M[k, label] S_k / Z_k."""
    task = state.task
    n_queries = task.term.shape[0]
    total = 0.0
    for k in range(first, task.query[q + 1, LEVELS]):
        if state.level[k, BELOW] > 0.0:
            ratio = state.level[k, SLOPE] / state.level[k, BELOW]
            if task.has_table:
                ratio *= task.table[task.label[n_queries + k], label]
            total += ratio
    return total


@jit
def row_slopes(state: Domination, out: Any) -> None:
    """Write dL/dp of every row to ``out``; 0 for rows that take no part."""
    task = state.task
    n_queries = task.term.shape[0]
    first_term = np.uint32(n_queries + 1)
    level_ratios = np.zeros(task.level.shape[0])
    out[:] = 0.0
    for q in range(n_queries):
        first, last = task.query[q, LEVELS], task.query[q + 1, LEVELS]
        bottom_ratio = _sum_slope_ratios(state, q, task.label[q] if task.has_table else 0, first)
        for l in range(first, last):
            label = task.label[n_queries + l] if task.has_table else 0
            level_ratios[l] = _sum_slope_ratios(state, q, label, l + 1)
        for p in range(task.query[q, ROWS], task.query[q + 1, ROWS]):
            row = task.order[p]
            code = task.code[row]
            if code < first_term:
                out[row] = state.mass[row] * bottom_ratio
            else:
                d = code - first_term
                ratio = level_ratios[task.slot_index[d, LEVEL]]
                out[row] = state.mass[row] * ratio - state.slot[d, 0]


class DominationRisk:
    """The domination loss of one task, by columns or by rows.

    Coordinate descent updates ``state`` through the generic functions of ``kernels.columns``;
    ``evaluate`` and ``dual`` take scores and serve ``solvers.problem``. A task without pairs, for
    example of a partition, has the loss 0; its ``state`` is None.
    """

    def __init__(self, task: DominationTask | None) -> None:
        self.state: Domination | None = None
        if task is not None:
            self.state = new_state(task)
        self.at_zero = self.value()
        self._lock = threading.Lock()

    def value(self) -> float:
        """Return L at the current state."""
        if self.state is None:
            return 0.0
        return float(loss_value(self.state))

    def current_dual(self, kappa: float) -> float:
        """Return the dual at the current state, without the term of l2."""
        if self.state is None:
            return 0.0
        return float(dual_value(self.state, kappa))

    def scratch(self) -> Scratch:
        """Create work space of one thread."""
        assert self.state is not None  # noqa: S101 - coordinate descent needs a task with pairs
        return new_scratch(self.state.task)

    def move_to(self, columns: Columns, w: NDArray[np.float64]) -> None:
        """Set the state to the weights w."""
        assert self.state is not None  # noqa: S101 - as above
        self.state.score[:] = 0.0
        add_column_products(columns, w, self.state.score)
        refresh_all(self.state)

    def evaluate(self, scores: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return L and dL/dp, in row order."""
        slopes = np.zeros(len(scores))
        if self.state is None:
            return 0.0, slopes
        # The state is shared by all callers, so one at a time may set its scores.
        with self._lock:
            _set_scores(self.state, scores)
            row_slopes(self.state, slopes)
            return self.value(), slopes

    def dual(self, scores: NDArray[np.float64], kappa: float) -> float:
        """Return the dual at ``scores``, without the term of l2."""
        if self.state is None:
            return 0.0
        with self._lock:
            _set_scores(self.state, scores)
            return self.current_dual(kappa)


def _set_scores(state: Domination, scores: NDArray[np.float64]) -> None:
    """Set the state to the given scores, recomputing all sums."""
    state.score[:] = scores
    refresh_all(state)


def domination_risk(
    data: Dataset,
    options: DominationOptions,
    threads: int | None = None,
) -> DominationRisk:
    """Return the risk of a dataset whose queries have weight 1; a partition may hold no pair."""
    try:
        task = build_domination_task(
            data.y,
            data.queries,
            np.ones(data.n_queries),
            options,
            weight=data.weight,
            columns=data.columns,
            labels=data.labels,
        )
    except NoPairsError:
        task = None
    return DominationRisk(task)
