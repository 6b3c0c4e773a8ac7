"""One-pass list learning: score a list, take its gradient, push it; O(non-zeros) a list.

The loop is written once for every update, objective and storage. A learner eats blocks of lists;
their order is the caller's. Everything random is drawn by list number, so the result depends on the
sequence of lists and the seed alone: not on how the sequence is cut into blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import DivergenceError, FeatureMismatchError, NoPairsError
from rankine.kernels.compile import REDUCE, jit
from rankine.kernels.dispatch import generic
from rankine.kernels.lists import ListWork, list_work
from rankine.kernels.random import LIST_DRAWS, random_bits, stream_seed
from rankine.kernels.rows import CsrRows, DenseRows, Rows
from rankine.losses.base import list_loss, needs_pairs
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
    """Lists to learn from; list q holds places ``starts[q]:starts[q + 1]``."""

    starts: NDArray[np.int64]
    rows: NDArray[np.int64]  # row number at each place; empty when place = row
    levels: NDArray[np.float64]  # what the objective compares, by row
    row_weights: NDArray[np.float64]  # empty means 1
    list_weights: NDArray[np.float64]  # empty means 1
    cutoffs: NDArray[np.int64]  # the metric's, of each list


@generic
def lazy_dot(rows: Rows, i: int, optimizer: Any, now: Any, state: Any) -> Any:
    """<w, x_i> with w read through the optimiser."""


@generic
def lazy_push(rows: Rows, i: int, c: float, optimizer: Any, now: Any, state: Any) -> Any:
    """Push the gradient c x_i."""


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
    """Copy a list's levels and weights into the buffers; its length, and whether it can teach."""
    start = lists.starts[q]
    n = lists.starts[q + 1] - start
    differ = False
    for k in range(n):
        row = lists.rows[start + k] if lists.rows.shape[0] > 0 else start + k
        work.levels[k] = lists.levels[row]
        work.weights[k] = lists.row_weights[row] if lists.row_weights.shape[0] > 0 else 1.0
        differ = differ or work.levels[k] != work.levels[0]
    return n, differ


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
    seen: int,
) -> Any:
    """Learn from ``lists`` in the given order, ``batch`` lists a step.

    ``scores`` receives every row's score before its list was learned from; ``slopes`` (by place in
    the batch) is scratch. ``seen`` lists came before these: it selects the random draws. The score
    of a pointwise model has a constant term, the last weight of ``state``.

    ``tally`` adds up the lists' losses and counts the lists that taught. Returns the first list
    whose scores are not finite (-1: none).
    """
    constant = np.uint64(state.shape[0] - 1)
    pairs = needs_pairs(objective)
    for first in range(0, order.shape[0], batch):
        last = min(first + batch, order.shape[0])
        now = open_step(optimizer, clock)
        used, place = 0, 0
        for p in range(first, last):
            q = order[p]
            start = lists.starts[q]
            n, differ = _fill(lists, q, work)
            bias = 0.0 if pairs else read_weight(optimizer, now, state, constant)
            check = 0.0
            for k in range(n):
                row = lists.rows[start + k] if lists.rows.shape[0] > 0 else start + k
                score = lazy_dot(rows, row, optimizer, now, state)
                scores[row] = score
                work.scores[k] = score + bias
                check += score - score  # NaN as soon as one score is not finite
            if check != 0.0:
                return q
            if pairs and not differ:
                for k in range(n):
                    slopes[place + k] = 0.0
            else:
                value = list_loss(objective, work, n, lists.cutoffs[q], random_bits(seed, seen + p))
                importance = lists.list_weights[q] if lists.list_weights.shape[0] > 0 else 1.0
                tally[0] += importance * value
                used += 1
                for k in range(n):
                    slopes[place + k] = importance * work.slopes[k]
            place += n
        if used > 0:
            place = 0
            for p in range(first, last):
                start, stop = lists.starts[order[p]], lists.starts[order[p] + 1]
                for k in range(start, stop):
                    slope = slopes[place] / used
                    place += 1
                    if slope != 0.0:
                        row = lists.rows[k] if lists.rows.shape[0] > 0 else k
                        lazy_push(rows, row, slope, optimizer, now, state)
                        if not pairs:
                            add_gradient(optimizer, now, state, constant, slope)
            close_step(optimizer, clock, state)
            tally[1] += used
    return -1


_NOTHING = np.zeros(0)
_NO_ROWS = np.zeros(0, dtype=np.int64)


@dataclass
class OnePassLearner:
    """Weights that learn list by list; ``optimizer`` is a spec of ``rankine.updates``."""

    optimizer: Any
    objective: ListObjective
    n_features: int
    #: Lists a step; their gradients are averaged.
    batch_lists: int = 1
    #: Root of the tie-breaking draws.
    seed: int = 0
    #: Weights to start from, and the steps they have already seen.
    start: NDArray[np.float64] | None = None
    offset: int = 0

    state: NDArray[np.float64] = field(init=False, repr=False)
    clock: NDArray[np.float64] = field(init=False, repr=False)
    lists_seen: int = field(default=0, init=False)
    tally: NDArray[np.float64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # One weight more than features: the constant term of the pointwise objectives.
        self.state = np.zeros((self.n_features + 1, int(state_width(self.optimizer))))
        self.clock = new_clock(self.offset)
        self.tally = np.zeros(2)
        if self.start is not None:
            set_weights(self.optimizer, self.state, np.ascontiguousarray(self.start, np.float64))

    @property
    def steps(self) -> int:
        """Steps made."""
        return int(self.clock[STEP])

    @property
    def lists_used(self) -> int:
        """Lists that taught something (two different levels)."""
        return int(self.tally[1])

    @property
    def mean_loss(self) -> float:
        """Mean loss of the lists, each measured before it was learned from."""
        return float(self.tally[0] / self.tally[1]) if self.tally[1] else float("nan")

    def learn(
        self,
        data: Dataset,
        order: NDArray[np.int64] | None = None,
        lists: ListBlock | None = None,
    ) -> NDArray[np.float64]:
        """Learn from the lists of a block; every row's score before its list was learned from.

        ``lists`` is ``self.lists(data, weight)``, for who cuts a block and makes it once. Rows of
        lists that ``order`` leaves out keep the score NaN. A block whose number of lists
        is not a multiple of ``batch_lists`` ends with a smaller step.
        """
        longest = int(data.queries.sizes.max(initial=0))
        if order is None:
            order = np.arange(data.n_queries, dtype=np.int64)
        scores = np.full(data.n_rows, np.nan)
        bad = learn_lists(
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
        if bad >= 0:
            raise DivergenceError(
                f"the scores of query {data.queries.ids[bad]} are not finite after "
                f"{self.steps} steps",
                fix="Lower eta0, or scale the features (scale='query')",
            )
        self.lists_seen += len(order)
        return scores

    def lists(self, data: Dataset, list_weight: NDArray[np.float64] | None = None) -> ListBlock:
        """What the objective knows of a block's lists."""
        if data.n_features > self.n_features:
            raise FeatureMismatchError(
                f"the block has {data.n_features} features, the learner {self.n_features}",
                fix="Pass n_features to scan, as large as the widest block needs",
            )
        index = data.queries
        row_weights = self.objective.row_weights(data)
        return ListBlock(
            index.starts,
            _NO_ROWS if index.rows is None else index.rows,
            np.ascontiguousarray(self.objective.levels(data), dtype=np.float64),
            _NOTHING if row_weights is None else np.ascontiguousarray(row_weights, np.float64),
            _NOTHING if list_weight is None else np.ascontiguousarray(list_weight, np.float64),
            self.objective.cutoffs(data),
        )

    def coef(self) -> NDArray[np.float64]:
        """Current weights; a step size that has vanished in an infinite sum makes none."""
        out = np.empty(self.n_features)
        read_weights(self.optimizer, self.clock, self.state, out)
        for part in (self.state, out):
            require_finite(part, self.steps, "one-pass learning")
        return out

    def largest_weights(self, count: int) -> NDArray[np.float64]:
        """Current weights, at most ``count`` of them: the last to vanish if l1 were raised."""
        coef = self.coef()
        if np.count_nonzero(coef) <= count:
            return coef
        value = np.empty(self.n_features)
        read_importances(self.optimizer, self.clock, self.state, value)
        value[coef == 0] = -1.0
        kept = np.argsort(-value, kind="stable")[:count]
        out = np.zeros(self.n_features)
        out[kept] = coef[kept]
        return out

    def intercept(self) -> float:
        """Constant term of the pointwise objectives (0 for the others)."""
        out = np.empty(self.n_features + 1)
        read_weights(self.optimizer, self.clock, self.state, out)
        return float(out[-1])


def no_learnable_lists(objective: str) -> NoPairsError:
    """The error of lists none of which taught anything."""
    return NoPairsError(
        f"no list holds two different labels that objective={objective!r} tells apart",
        fix="Check the labels, or choose another objective",
    )
