"""Domination rank on partitions: the same objective, by a batch method instead of coordinates."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import NoPairsError, ParameterError
from rankine.distributed.answer import Answer
from rankine.distributed.measure import RawRecipe
from rankine.distributed.pair_parts import scaling_token
from rankine.distributed.token import token_of
from rankine.kernels.products import Products
from rankine.losses.domination import dual_value, loss_value, new_state, row_slopes, set_scores
from rankine.rankers.domination_task import TaskOptions, task_levels
from rankine.solvers.coordinate_descent import Penalty
from rankine.solvers.domination import best_bound
from rankine.solvers.prox_quasi_newton import solve_prox_quasi_newton

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset
    from rankine.distributed.team import Team
    from rankine.rankers.domination import DominationRanker
    from rankine.rankers.parts_job import PartsJob
    from rankine.solvers.base import Solution
    from rankine.transforms.scaling import Scaling

__all__ = ["DominationRecipe", "solve_parts"]


class DominationRecipe(NamedTuple):
    """The domination loss of the queries of a partition."""

    options: TaskOptions
    scaling: Scaling

    @property
    def token(self) -> str:
        """Digest of everything above."""
        chosen = self.options
        return token_of(
            "domination",
            [chosen.normalization, chosen.margin, chosen.margin_scale],
            None if chosen.margin_table is None else np.asarray(chosen.margin_table, dtype=float),
            scaling_token(self.scaling),
        )

    def build(
        self,
        data: Dataset,
        threads: int | None,
        number: int,  # noqa: ARG002
    ) -> DominationPart:
        """The partition."""
        return DominationPart(self.scaling.apply(data), self.options, threads)


class DominationPart:
    """Loss, gradient and dual of a partition, at given weights."""

    def __init__(self, data: Dataset, options: TaskOptions, threads: int | None) -> None:
        self.products = Products(data.rows, data.n_features, threads)
        self._lock = threading.Lock()
        try:
            levels = task_levels(
                data.y,
                data.queries,
                np.ones(data.n_queries),
                options,
                weight=data.weight,
                columns=data.columns,
                labels=data.labels,
            )
        except NoPairsError:
            self.state = None
        else:
            self.state = new_state(levels)

    def loss(self, w: NDArray[np.float64]) -> Answer:
        """L and its gradient."""
        if self.state is None:
            return Answer((0.0, np.zeros(self.products.n_features)))
        slopes = np.empty(self.products.n_rows)
        with self._lock:
            set_scores(self.state, self.products.scores(w))
            value = float(loss_value(self.state))
            row_slopes(self.state, slopes)
        return Answer((value, self.products.transpose_times(slopes)))

    def dual(self, w: NDArray[np.float64], kappa: float) -> Answer:
        """The dual at the weights w, without the term of l2."""
        if self.state is None:
            return Answer((0.0,))
        with self._lock:
            set_scores(self.state, self.products.scores(w))
            return Answer((float(dual_value(self.state, kappa)),))


class _TeamLoss:
    """The loss of all partitions."""

    def __init__(self, team: Team) -> None:
        self.team = team

    def value_and_gradient(self, w: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        value, gradient = self.team.total("loss", w)
        return float(value), gradient

    def lower_bound(
        self, w: NDArray[np.float64], gradient: NDArray[np.float64], penalty: Penalty
    ) -> float:
        return best_bound(
            lambda kappa: float(self.team.total("dual", w, kappa)[0]), gradient, penalty
        )


def solve_parts(ranker: DominationRanker, job: PartsJob) -> Solution:
    """Minimise the objective of ``DominationRanker`` over partitions."""
    from rankine.rankers.domination import warn_unless_done

    settings = ranker.solver_settings(job.seed)
    _check(ranker, job)
    loss = _TeamLoss(job.team(DominationRecipe(ranker.task_options(), job.scaling)))
    zero = np.zeros(job.n_features)
    value, slopes = loss.value_and_gradient(zero)
    ranker.l1_max_ = float(np.abs(slopes).max(initial=0.0))
    ranker.l1_ = ranker.resolve_l1(ranker.l1_max_, ranker.l1)
    solution = solve_prox_quasi_newton(
        loss,
        Penalty(ranker.l1_, float(ranker.l2)),
        zero if job.coef_init is None else job.coef_init,
        at_zero=value,
        first=(value, slopes) if job.coef_init is None else None,
        tol=settings.tol,
        max_iter=settings.max_iter,
        callbacks=job.callbacks,
    )
    warn_unless_done(solution)
    return solution


def _check(ranker: DominationRanker, job: PartsJob) -> None:
    """Refuse what belongs to rows in memory."""
    if ranker.max_nonzero is not None:
        raise ParameterError(
            "max_nonzero walks down a path of models and needs the rows in memory",
            fix="Choose l1, or train on a sample that fits",
        )
    margin: Any = ranker.margin
    if not (margin is None or isinstance(margin, str) or np.isscalar(margin)):
        raise ParameterError(
            "margin as a function or an array belongs to rows in memory",
            fix="Pass a number, or the name of a column of the files (columns=[...])",
        )
    if ranker.margin_table is None:
        return
    size = len(np.asarray(ranker.margin_table))
    ranges = job.team(RawRecipe()).each("label_range")
    if any(low < 0 or high >= size or not whole for low, high, whole in ranges):
        raise ParameterError(
            f"margin_table on partitions needs the labels 0 to {size - 1}",
            fix="Store labels that number the rows of the table",
        )
