"""Domination rank: sparse ranking functions by coordinate descent (Stevens, Bengio, Singer)."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import sparse

from rankine.core.errors import ParameterError
from rankine.data.dataset import column_storage, is_column_storage
from rankine.rankers.base import BaseRanker, Job
from rankine.rankers.checks import check_choice, check_count, check_positive
from rankine.rankers.domination_task import TaskOptions, task_levels
from rankine.rankers.search_space import SCALE, Choice, Number
from rankine.solvers.coordinate_descent import CoordinateDescent, Penalty, Settings
from rankine.solvers.domination import domination_descent, restart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from rankine.data.dataset import Dataset
    from rankine.model import ModelBundle
    from rankine.rankers.parts_job import PartsJob
    from rankine.rankers.regularization_path import RegularizationPath
    from rankine.solvers.base import Callback, Solution

__all__ = ["DominationRanker"]

SOLVERS = ("cd",)
CURVATURES = ("newton", "paper")
ORDERS = ("cyclic", "random")
#: Default l1 as a share of the smallest l1 that gives w = 0.
DEFAULT_SHARE = 0.01


class DominationRanker(BaseRanker):
    r"""Every better item above all worse ones at once; tiny models by an l1 penalty.

    Minimises, exactly and to a certified duality gap,

    .. math::

        J(w) = \sum_q v_q \sum_{i \in q} a_i
               \log\Bigl(1 + \sum_{j \in D(i)} a_j e^{\rho_j - \rho_i}\Bigr)
               + l_1 |w|_1 + \tfrac{l_2}{2} |w|^2,
        \qquad \rho_i = \langle w, x_i \rangle - s_i,

    where D(i) are the rows of i's query with a smaller label, s the margin and a the sample
    weights (a row of weight k counts like k copies). Meant for few relevant items among very many:
    a step along one feature costs O(non-zeros of the feature).

    Parameters
    ----------
    l1
        Strength of the l1 penalty; None takes 1 % of the smallest l1 that gives w = 0.
    l2
        Strength of the squared penalty.
    solver
        ``"cd"``: coordinate descent with a working set.
    normalization
        "sum" (the paper's): v_q is the query's weight. "query": divided by the query's dominating
        weight (the sum of a over rows that have someone below them), so that every query counts
        alike.
    margin
        Required gap s_i - s_j between a better row i and a worse row j: a number (s = number x
        label), a function of the array of labels, one number per row, or the name of a column of
        the ``Dataset``. A higher label must never have the smaller s.
    margin_scale
        Multiplies s; tune this.
    margin_table
        K x K gaps between labels that need not be separable: row k, column l < k is the gap that
        label k must keep above label l. Adds to ``margin``.
    curvature
        "newton": the true second derivative, enlarged just enough to be safe. "paper": the
        paper's fixed bound, many times slower.
    tol
        Stop when the duality gap is at most ``tol`` times J(0).
    max_iter
        Most sweeps over the working set.
    order
        "cyclic" or "random" visits of the working set.
    max_nonzero
        Walk down the l1 path (``l1`` is then ignored) and keep the best model with at most this
        many non-zero weights: best by ``metric`` when an ``eval_set`` is given, else by loss.
    metric, scale, early_stopping, warm_start, random_state, n_threads
        As in every ranker. ``random_state`` matters for ``order="random"`` alone; the number of
        threads changes no bit of the result.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights.
    l1_, l1_max_ : float
        The l1 that was used, and the smallest that gives w = 0.
    n_iter_ : int
        Sweeps over the working set.
    solution_ : Solution
        ``certificate`` holds ``gap``, ``relative_gap`` (gap / J(0)) and ``lower_bound``;
        ``trace`` one record per look at all features.

    References
    ----------
    M. Stevens, S. Bengio, Y. Singer. Efficient learning of sparse ranking functions. In Empirical
    Inference, Springer, 2013.

    Examples
    --------
    >>> from rankine import DominationRanker
    >>> X = [[1.0, 0.0], [0.8, 1.0], [0.1, 0.0], [0.0, 1.0]]
    >>> ranker = DominationRanker().fit(X, [1, 1, 0, 0])
    >>> ranker.predict(X).argsort()[::-1][:2].tolist()
    [0, 1]
    """

    _system: ClassVar[str] = "domination"
    #: Values that the LETOR runner tries on the validation part of each fold.
    letor_grid: ClassVar[dict[str, list[Any]]] = {
        "l1": [0.1, 0.3, 1.0, 3.0, 10.0],
        "l2": [0.0, 1.0],
    }
    #: What tuning searches.
    search_space: ClassVar[dict[str, Choice | Number]] = {
        "l1": Number(1e-3, 1e3, log=True),
        "l2": Number(1e-4, 10.0, log=True),
        "margin_scale": Number(0.1, 10.0, log=True),
        "scale": SCALE,
    }

    def __init__(
        self,
        l1: float | None = None,
        l2: float = 0.0,
        *,
        solver: str = "cd",
        normalization: str = "sum",
        margin: Any = None,
        margin_scale: float = 1.0,
        margin_table: Any = None,
        curvature: str = "newton",
        tol: float = 1e-4,
        max_iter: int = 1000,
        order: str = "cyclic",
        max_nonzero: int | None = None,
        metric: str = "ndcg@10",
        scale: str = "none",
        early_stopping: int | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_threads: int | None = None,
    ) -> None:
        self.l1 = l1
        self.l2 = l2
        self.solver = solver
        self.normalization = normalization
        self.margin = margin
        self.margin_scale = margin_scale
        self.margin_table = margin_table
        self.curvature = curvature
        self.tol = tol
        self.max_iter = max_iter
        self.order = order
        self.max_nonzero = max_nonzero
        self.metric = metric
        self.scale = scale
        self.early_stopping = early_stopping
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_threads = n_threads

    def _solve(self, job: Job) -> Solution:
        settings = self.solver_settings(job.seed, self.n_threads)
        descent = self._descent(job)
        slopes = descent.gradient(self.n_threads)
        self.l1_max_ = float(np.abs(slopes).max(initial=0.0))
        self.l1_ = self.resolve_l1(self.l1_max_, self.l1)
        if self.max_nonzero is not None:
            return self._best_within(job, descent)
        start = job.coef_init
        if start is not None:
            restart(descent, start)
        solution = descent.solve(
            Penalty(self.l1_, float(self.l2)),
            settings,
            job.callbacks,
            slopes if start is None else None,
        )
        warn_unless_done(solution)
        return solution

    def _solve_parts(self, job: PartsJob) -> Solution:
        from rankine.rankers.domination_parts import solve_parts

        return solve_parts(self, job)

    def _best_within(self, job: Job, descent: CoordinateDescent) -> Solution:
        """The best model with at most ``max_nonzero`` features; w = 0 when no other is so small."""
        from rankine.rankers.domination_path import best_within

        limit = int(self.max_nonzero or 0)
        point = best_within(self, job, descent, self.l1_max_, limit) if self.l1_max_ > 0 else None
        if point is None:
            restart(descent, np.zeros(len(descent.w)))
            self.l1_ = self.l1_max_
            return descent.solve(
                Penalty(self.l1_max_, float(self.l2)),
                self.solver_settings(job.seed, self.n_threads),
            )
        warn_unless_done(point.solution)
        self.l1_ = point.l1
        return point.solution

    def path(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: Any = None,
        eval_set: Any = None,
        eval_qid: ArrayLike | None = None,
        l1s: Sequence[float] | None = None,
        n_steps: int = 30,
        min_ratio: float = 0.01,
        max_nonzero: int | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> RegularizationPath:
        """Solve for a falling l1, each from the one before; see ``rankine.domination_path``."""
        from rankine.rankers.domination_path import path_of

        prepared = self._prepare(X, y, qid, group, sample_weight, query_weight, eval_set, eval_qid)
        return path_of(
            self,
            prepared,
            self._descent(prepared.job),
            self.solver_settings(prepared.job.seed, self.n_threads),
            l1s=l1s,
            n_steps=n_steps,
            min_ratio=min_ratio,
            max_nonzero=max_nonzero,
            callbacks=callbacks,
        )

    def fit_topics(self, X: Any, Y: Any, **options: Any) -> ModelBundle:
        """Learn one model per column of Y over the same rows; see ``rankine.fit_topics``."""
        from rankine.rankers.topics import topics_of

        return topics_of(self, X, Y, **options)

    def _descent(self, job: Job) -> CoordinateDescent:
        data = job.data
        levels = task_levels(
            data.y,
            data.queries,
            job.query_weight,
            self.task_options(),
            weight=data.weight,
            columns=data.columns,
            labels=data.labels,
        )
        return domination_descent(column_storage(data.X)[0], levels)

    def _dataset(
        self, X: Any, y: Any, qid: Any, group: Any, sample_weight: Any, *, reset: bool
    ) -> Dataset:
        """As in every ranker, but a CSC matrix is used as it stands where nothing needs rows."""
        if not (reset and self.scale == "none" and is_column_storage(X)):
            return super()._dataset(X, y, qid, group, sample_weight, reset=reset)
        shape_alone = sparse.csr_array(X.shape, dtype=X.dtype)
        data = super()._dataset(shape_alone, y, qid, group, sample_weight, reset=True)
        return replace(data, X=X, query_index=data.queries)

    def resolve_l1(self, largest: float, chosen: float | None) -> float:
        """The l1 to use: the chosen one, or the default share of the largest (None or NaN)."""
        l1 = DEFAULT_SHARE * largest if chosen is None or np.isnan(chosen) else float(chosen)
        if l1 == 0.0 and self.l2 == 0.0 and largest > 0.0:
            raise ParameterError(
                "l1 = l2 = 0: without a penalty the loss need not have a minimum",
                fix="Pass a small l2, or leave l1=None",
            )
        return l1

    def task_options(self) -> TaskOptions:
        """What the parameters say about the loss, checked."""
        return TaskOptions(self.normalization, self.margin, self.margin_scale, self.margin_table)

    def solver_settings(self, seed: int, threads: int | None = None) -> Settings:
        """What the parameters say about the descent, checked."""
        for name in ("l1", "l2", "tol"):
            value = getattr(self, name)
            if value is not None and value != 0:
                check_positive(name, value)
        check_choice("solver", self.solver, SOLVERS)
        check_choice("curvature", self.curvature, CURVATURES)
        check_choice("order", self.order, ORDERS)
        check_count("max_iter", self.max_iter)
        if self.max_nonzero is not None:
            check_count("max_nonzero", self.max_nonzero)
        return Settings(
            float(self.tol),
            int(self.max_iter),
            self.curvature == "paper",
            self.order == "random",
            seed,
            threads,
        )


def warn_unless_done(solution: Solution) -> None:
    """Say so when the run ended before its gap was small."""
    if solution.stop_reason != "max_iter":
        return
    from sklearn.exceptions import ConvergenceWarning

    warnings.warn(
        f"domination rank stopped after {solution.n_iter} sweeps at a relative duality gap of "
        f"{solution.certificate['relative_gap']:.1e}; raise max_iter, or l1",
        ConvergenceWarning,
        stacklevel=2,
    )
