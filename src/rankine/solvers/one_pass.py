"""One-pass list learning: score a list, compute its gradient, update; O(non-zeros) per list.

One loop serves every update, objective and row storage. A learner receives blocks of lists in the
order in which it learns from them. Random draws are functions of the seed and the list's number, so
the result does not depend on how the sequence of lists is cut into blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import DivergenceError, FeatureMismatchError, ModelError, NoPairsError
from rankine.kernels.compile import REDUCE, jit
from rankine.kernels.dispatch import inlined_generic
from rankine.kernels.lists import ListWork, list_work
from rankine.kernels.random import LIST_DRAWS, random_bits, stream_seed
from rankine.kernels.rows import CsrRows, DenseRows, Rows
from rankine.losses.base import list_loss, needs_pairs
from rankine.model.training_state import TrainingState
from rankine.solvers.base import require_finite
from rankine.updates.lazy import (
    STEP,
    add_gradient,
    close_step,
    new_clock,
    open_step,
    read_importances,
    read_weight,
    read_weights,
    set_weights,
    state_width,
)

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset
    from rankine.losses.list_objectives import ListObjective


class ListBlock(NamedTuple):
    """Lists to learn from; list q has the positions ``starts[q]:starts[q + 1]``."""

    starts: NDArray[np.int64]
    #: Row number at each position, read if ``has_rows``; otherwise position k is row k.
    rows: NDArray[np.int64]
    has_rows: bool
    #: Values that the objective compares, by row.
    levels: NDArray[np.float64]
    #: Weights by row, read if ``has_row_weights``; otherwise 1.
    row_weights: NDArray[np.float64]
    has_row_weights: bool
    #: Weights by list, read if ``has_list_weights``; otherwise 1.
    list_weights: NDArray[np.float64]
    has_list_weights: bool
    #: Cutoff of the metric for each list.
    cutoffs: NDArray[np.int64]


@inlined_generic
def lazy_dot(rows: Rows, i: int, optimizer: Any, now: Any, state: Any) -> Any:
    """Return <w, x_i>; the optimiser updates each weight when it is read."""


@inlined_generic
def lazy_push(rows: Rows, i: int, c: float, optimizer: Any, now: Any, state: Any) -> Any:
    """Add c x_i to the gradient."""


@jit(fastmath=REDUCE)
def _csr_dot(rows: Any, i: int, optimizer: Any, now: Any, state: Any) -> float:
    total = 0.0
    for k in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
        total += rows.values[k] * read_weight(optimizer, now, state, rows.indices[k])
    return total


@jit(fastmath=REDUCE)
def _dense_dot(rows: Any, i: int, optimizer: Any, now: Any, state: Any) -> float:
    total = 0.0
    for j in range(np.uint64(rows.values.shape[1])):
        total += rows.values[i, j] * read_weight(optimizer, now, state, j)
    return total


@lazy_dot.implementation(CsrRows)
def _csr_lazy_dot(rows: Any, i: Any, optimizer: Any, now: Any, state: Any) -> Any:
    return _csr_dot(rows, i, optimizer, now, state)


@lazy_dot.implementation(DenseRows)
def _dense_lazy_dot(rows: Any, i: Any, optimizer: Any, now: Any, state: Any) -> Any:
    return _dense_dot(rows, i, optimizer, now, state)


@lazy_push.implementation(CsrRows)
def _csr_lazy_push(rows: Any, i: Any, c: Any, optimizer: Any, now: Any, state: Any) -> Any:
    for k in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
        add_gradient(optimizer, now, state, rows.indices[k], c * rows.values[k])


@lazy_push.implementation(DenseRows)
def _dense_lazy_push(rows: Any, i: Any, c: Any, optimizer: Any, now: Any, state: Any) -> Any:
    for j in range(np.uint64(rows.values.shape[1])):
        value = rows.values[i, j]
        if value != 0.0:
            add_gradient(optimizer, now, state, j, c * value)


@jit
def _fill(lists: Any, q: int, work: Any) -> Any:
    """Copy a list's levels and weights into the work space.

    Returns the length of the list and whether it has two different levels.
    """
    start = lists.starts[q]
    n = lists.starts[q + 1] - start
    levels_differ = False
    for k in range(n):
        row = lists.rows[start + k] if lists.has_rows else start + k
        work.levels[k] = lists.levels[row]
        work.weights[k] = lists.row_weights[row] if lists.has_row_weights else 1.0
        levels_differ = levels_differ or work.levels[k] != work.levels[0]
    return n, levels_differ


@jit
def learn_lists(
    rows: Rows,
    lists: ListBlock,
    order: Any,
    batch: int,
    optimizer: Any,
    objective: Any,
    state: Any,
    clock: Any,
    work: ListWork,
    slopes: Any,
    scores: Any,
    tally: Any,
    seed: Any,
    n_seen: int,
) -> Any:
    """Learn from ``lists`` in the given order, ``batch`` lists per step.

    Writes to ``scores`` every row's score before its list was learned from; ``slopes`` (by position
    in the batch) is scratch. ``n_seen`` is the number of lists before these; it selects the random
    draws. The scores of a pointwise model have a constant term, the last weight of ``state``.

    ``tally`` accumulates, over the lists that had a gradient: their losses, their number, their
    losses at weights of 0, and the squared differences of the two. Returns the first list whose
    scores are not finite, else -1.
    """
    constant = np.uint64(state.shape[0] - 1)
    needs_two_levels = needs_pairs(objective)
    for first in range(0, order.shape[0], batch):
        last = min(first + batch, order.shape[0])
        now = open_step(optimizer, clock)
        n_used, position = 0, 0
        for p in range(first, last):
            q = order[p]
            start = lists.starts[q]
            n, levels_differ = _fill(lists, q, work)
            bias = 0.0 if needs_two_levels else read_weight(optimizer, now, state, constant)
            finite_check = 0.0
            for k in range(n):
                row = lists.rows[start + k] if lists.has_rows else start + k
                score = lazy_dot(rows, row, optimizer, now, state)
                scores[row] = score
                work.scores[k] = score + bias
                finite_check += score - score  # NaN if any score is not finite, else 0
            if finite_check != 0.0:
                return q
            if needs_two_levels and not levels_differ:
                for k in range(n):
                    slopes[position + k] = 0.0
            else:
                list_seed = random_bits(seed, n_seen + p)
                value = list_loss(objective, work, n, lists.cutoffs[q], list_seed)
                importance = lists.list_weights[q] if lists.has_list_weights else 1.0
                excess = importance * (value - work.zero_loss[0])
                tally[0] += importance * value
                tally[2] += importance * work.zero_loss[0]
                tally[3] += excess * excess
                n_used += 1
                for k in range(n):
                    slopes[position + k] = importance * work.slopes[k]
            position += n
        if n_used > 0:
            position = 0
            for p in range(first, last):
                start, stop = lists.starts[order[p]], lists.starts[order[p] + 1]
                for k in range(start, stop):
                    slope = slopes[position] / n_used
                    position += 1
                    if slope != 0.0:
                        row = lists.rows[k] if lists.has_rows else k
                        lazy_push(rows, row, slope, optimizer, now, state)
                        if not needs_two_levels:
                            add_gradient(optimizer, now, state, constant, slope)
            close_step(optimizer, clock, state)
            tally[1] += n_used
    return -1


@jit
def slopes_at_zero(
    lists: ListBlock, order: Any, objective: Any, work: ListWork, slopes: Any, seed: Any
) -> None:
    """Write the derivatives of the losses of some lists by row, at scores of 0."""
    for p in range(order.shape[0]):
        q = order[p]
        start = lists.starts[q]
        n, levels_differ = _fill(lists, q, work)
        if needs_pairs(objective) and not levels_differ:
            continue
        work.scores[:n] = 0.0
        list_loss(objective, work, n, lists.cutoffs[q], random_bits(seed, p))
        importance = lists.list_weights[q] if lists.has_list_weights else 1.0
        for k in range(n):
            row = lists.rows[start + k] if lists.has_rows else start + k
            slopes[row] = importance * work.slopes[k]


def _optional_weights(weights: NDArray[np.float64] | None) -> tuple[NDArray[np.float64], bool]:
    """Return weights for ``ListBlock``, and whether there are any."""
    if weights is None:
        return np.zeros(0), False
    return np.ascontiguousarray(weights, np.float64), True


@dataclass
class OnePassLearner:
    """Weights that are learned list by list; ``optimizer`` is a spec of ``rankine.updates``."""

    optimizer: Any
    objective: ListObjective
    n_features: int
    #: Lists per step; their gradients are averaged.
    batch_lists: int = 1
    #: Seed of the draws that break ties.
    seed: int = 0
    #: Weights to start from, and the number of steps they were trained for.
    start: NDArray[np.float64] | None = None
    offset: int = 0

    state: NDArray[np.float64] = field(init=False, repr=False)
    clock: NDArray[np.float64] = field(init=False, repr=False)
    lists_seen: int = field(default=0, init=False)
    #: Sums over the lists so far, see ``learn_lists``.
    tally: NDArray[np.float64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # The last weight is the constant term of the pointwise objectives.
        self.state = np.zeros((self.n_features + 1, int(state_width(self.optimizer))))
        self.clock = new_clock(self.offset)
        self.tally = np.zeros(4)
        if self.start is not None:
            set_weights(self.optimizer, self.state, np.ascontiguousarray(self.start, np.float64))

    def snapshot(self, factors: NDArray[np.float64]) -> TrainingState:
        """Return the state of learning; ``factors`` scale the columns."""
        rows = np.flatnonzero(self.state.any(axis=1))
        row_factors = np.ones(len(rows))
        of_columns = rows < len(factors)
        row_factors[of_columns] = factors[rows[of_columns]]
        return TrainingState(rows, self.state[rows].ravel(), row_factors, self.clock)

    def restore(self, saved: TrainingState) -> None:
        """Continue where another learner with the same optimizer stood."""
        width = self.state.shape[1]
        in_range = not len(saved.rows) or saved.rows[-1] < len(self.state)
        if len(saved.values) != width * len(saved.rows) or len(saved.clock) != len(self.clock):
            in_range = False
        if not in_range:
            raise ModelError(
                "the state of its training does not fit this ranker", fix="Train without it"
            )
        self.state[saved.rows] = saved.values.reshape(-1, width)
        self.clock[...] = saved.clock

    @property
    def steps(self) -> int:
        """Number of steps so far."""
        return int(self.clock[STEP])

    @property
    def lists_used(self) -> int:
        """Number of lists that had a gradient (two different levels)."""
        return int(self.tally[1])

    @property
    def mean_loss(self) -> float:
        """Mean loss of the lists, each computed before it was learned from."""
        return float(self.tally[0] / self.tally[1]) if self.tally[1] else float("nan")

    def learn(
        self,
        data: Dataset,
        order: NDArray[np.int64] | None = None,
        lists: ListBlock | None = None,
    ) -> NDArray[np.float64]:
        """Learn from the lists of a block; return every row's score before that.

        ``lists`` is ``self.lists(data, weight)``; callers that learn a block in several parts pass
        it to create it once. Rows of lists that are not in ``order`` have the score NaN. A block
        whose number of lists is not a multiple of ``batch_lists`` ends with a smaller step.
        """
        longest = int(data.queries.sizes.max(initial=0))
        if order is None:
            order = np.arange(data.n_queries, dtype=np.int64)
        scores = np.full(data.n_rows, np.nan)
        first_bad = learn_lists(
            data.rows,
            lists or self.lists(data),
            order,
            self.batch_lists,
            self.optimizer,
            self.objective.spec(longest),
            self.state,
            self.clock,
            list_work(longest),
            np.zeros(longest * self.batch_lists),
            scores,
            self.tally,
            stream_seed(self.seed, LIST_DRAWS),
            self.lists_seen,
        )
        # The kernel stops at the first such list, before its step.
        if first_bad >= 0:
            raise DivergenceError(
                f"the scores of query {data.queries.ids[first_bad]} are not finite after "
                f"{self.steps} steps",
                fix="Lower eta0, or scale the features (scale='query')",
            )
        self.lists_seen += len(order)
        return scores

    def lists(self, data: Dataset, list_weight: NDArray[np.float64] | None = None) -> ListBlock:
        """Create the lists of a block for compiled code, with levels and weights."""
        if data.n_features > self.n_features:
            raise FeatureMismatchError(
                f"a block has {data.n_features} features, more than the {self.n_features} of the "
                "blocks before it",
                fix="Pass n_features to scan, at least the number of the widest block",
            )
        index = data.queries
        row_weights = self.objective.row_weights(data)
        return ListBlock(
            index.starts,
            np.zeros(0, dtype=np.int64) if index.rows is None else index.rows,
            index.rows is not None,
            np.ascontiguousarray(self.objective.levels(data), dtype=np.float64),
            *_optional_weights(row_weights),
            *_optional_weights(list_weight),
            self.objective.cutoffs(data),
        )

    def first_slopes(self, data: Dataset, lists: ListBlock, order: NDArray[np.int64]) -> Any:
        """Return the derivatives of the losses of some lists by row, at weights of 0."""
        longest = int(data.queries.sizes.max(initial=0))
        slopes = np.zeros(data.n_rows)
        slopes_at_zero(
            lists,
            order,
            self.objective.spec(longest),
            list_work(longest),
            slopes,
            stream_seed(self.seed, LIST_DRAWS),
        )
        return slopes

    def coef(self) -> NDArray[np.float64]:
        """Return the current weights; raise DivergenceError if they are not finite."""
        out = np.empty(self.n_features)
        read_weights(self.optimizer, self.clock, self.state, out)
        # An infinite sum of squares gives step size 0 and finite weights: check the state as well.
        for values in (self.state, out):
            require_finite(values, self.steps, "one-pass learning")
        return out

    def largest_weights(self, count: int) -> NDArray[np.float64]:
        """Return the current weights, at most ``count`` non-zero ones.

        It keeps those that would be the last to become 0 if l1 were raised.
        """
        coef = self.coef()
        if np.count_nonzero(coef) <= count:
            return coef
        importance = np.empty(self.n_features)
        read_importances(self.optimizer, self.clock, self.state, importance)
        importance[coef == 0] = -1.0
        largest = np.argsort(-importance, kind="stable")[:count]
        out = np.zeros(self.n_features)
        out[largest] = coef[largest]
        return out

    def intercept(self) -> float:
        """Return the constant term of the pointwise objectives (0 for the others)."""
        out = np.empty(self.n_features + 1)
        read_weights(self.optimizer, self.clock, self.state, out)
        return float(out[-1])


def no_learnable_lists(objective: str) -> NoPairsError:
    """Create the error for data in which no list had a gradient."""
    return NoPairsError(
        f"no list holds two labels that the objective {objective!r} distinguishes",
        fix="Check the labels, or choose another objective",
    )
