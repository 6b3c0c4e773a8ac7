"""One-pass list learning: a mutable learner that eats blocks of lists.

The order of the lists is the caller's. Everything random is drawn by list number, so the result
depends on the sequence of lists and the seed alone: not on how the sequence is cut into blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import DivergenceError, FeatureMismatchError
from rankine.kernels.lists import list_work
from rankine.kernels.random import stream_seed
from rankine.penalties.lazy import (
    STEP,
    importances,
    new_clock,
    read_all,
    start_from,
    state_width,
)
from rankine.solvers.one_pass_kernels import Lists, learn_lists

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset

__all__ = ["LearnsLists", "OnePassLearner"]

_NOTHING = np.zeros(0)
_NO_ROWS = np.zeros(0, dtype=np.int64)


class LearnsLists(Protocol):
    """What a learner asks of an objective."""

    def spec(self, longest: int) -> Any:
        """A spec that answers ``list_loss``, for lists of up to ``longest`` items."""

    def levels(self, data: Dataset) -> NDArray[np.float64]:
        """What is compared within a list, by row."""

    def row_weights(self, data: Dataset) -> NDArray[np.float64] | None:
        """Weights by row; None: all 1."""

    def cutoffs(self, data: Dataset) -> NDArray[np.int64]:
        """Cutoff of each list."""


@dataclass
class OnePassLearner:
    """Weights that learn list by list.

    Parameters
    ----------
    optimizer
        A spec of ``rankine.penalties``.
    objective
        What a list's loss is.
    n_features
        Length of the weight vector.
    batch_lists
        Lists a step; their gradients are averaged.
    seed
        Root of the tie-breaking draws.
    start, offset
        Weights to start from, and the steps they have already seen.
    """

    optimizer: Any
    objective: LearnsLists
    n_features: int
    batch_lists: int = 1
    seed: int = 0
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
            start_from(self.optimizer, self.state, np.ascontiguousarray(self.start, np.float64))

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
        list_weight: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Learn from the lists of a block; every row's score before its list was learned from.

        Rows of lists that ``order`` leaves out keep the score NaN. A block whose number of lists
        is not a multiple of ``batch_lists`` ends with a smaller step.
        """
        if data.n_features > self.n_features:
            raise FeatureMismatchError(
                f"the block has {data.n_features} features, the learner {self.n_features}",
                fix="Pass n_features to scan, as large as the widest block needs",
            )
        lists = self._lists(data, list_weight)
        sizes = data.queries.sizes
        longest = int(sizes.max(initial=0))
        if order is None:
            order = np.arange(data.n_queries, dtype=np.int64)
        scores = np.full(data.n_rows, np.nan)
        bad = learn_lists(
            data.rows,
            lists,
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
            stream_seed(self.seed, 2),
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

    def _lists(self, data: Dataset, list_weight: NDArray[np.float64] | None) -> Lists:
        index = data.queries
        row_weights = self.objective.row_weights(data)
        return Lists(
            index.starts,
            _NO_ROWS if index.rows is None else index.rows,
            np.ascontiguousarray(self.objective.levels(data), dtype=np.float64),
            _NOTHING if row_weights is None else np.ascontiguousarray(row_weights, np.float64),
            _NOTHING if list_weight is None else np.ascontiguousarray(list_weight, np.float64),
            self.objective.cutoffs(data),
        )

    def coef(self) -> NDArray[np.float64]:
        """Current weights."""
        out = np.empty(self.n_features)
        read_all(self.optimizer, self.clock, self.state, out)
        return out

    def largest(self, count: int) -> NDArray[np.float64]:
        """Current weights, at most ``count`` of them: the last to vanish if l1 were raised."""
        coef = self.coef()
        if np.count_nonzero(coef) <= count:
            return coef
        value = np.empty(self.n_features)
        importances(self.optimizer, self.clock, self.state, value)
        value[coef == 0] = -1.0
        kept = np.argsort(-value, kind="stable")[:count]
        out = np.zeros(self.n_features)
        out[kept] = coef[kept]
        return out

    def intercept(self) -> float:
        """Constant term of the pointwise objectives (0 for the others)."""
        out = np.empty(self.n_features + 1)
        read_all(self.optimizer, self.clock, self.state, out)
        return float(out[-1])
