"""Domination rank: sparse ranking functions by coordinate descent (Stevens, Bengio, Singer)."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rankine.core.errors import ParameterError
from rankine.kernels.columns import columns_of
from rankine.rankers.base import BaseRanker, Job
from rankine.rankers.domination_task import TaskOptions, task_levels
from rankine.solvers.coordinate_descent import CoordinateDescent, Penalty, Settings
from rankine.solvers.domination import domination_descent, restart

if TYPE_CHECKING:
    from rankine.solvers.base import Solution

__all__ = ["DominationRanker"]

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
    n_nonzero
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

    def __init__(
        self,
        l1: float | None = None,
        l2: float = 0.0,
        *,
        normalization: str = "sum",
        margin: Any = None,
        margin_scale: float = 1.0,
        margin_table: Any = None,
        curvature: str = "newton",
        tol: float = 1e-4,
        max_iter: int = 1000,
        order: str = "cyclic",
        n_nonzero: int | None = None,
        metric: str = "ndcg@10",
        scale: str = "none",
        early_stopping: int | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_threads: int | None = None,
    ) -> None:
        self.l1 = l1
        self.l2 = l2
        self.normalization = normalization
        self.margin = margin
        self.margin_scale = margin_scale
        self.margin_table = margin_table
        self.curvature = curvature
        self.tol = tol
        self.max_iter = max_iter
        self.order = order
        self.n_nonzero = n_nonzero
        self.metric = metric
        self.scale = scale
        self.early_stopping = early_stopping
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_threads = n_threads

    def _solve(self, job: Job) -> Solution:
        settings = self._settings(job.seed)
        descent = self._descent(job)
        slopes = descent.gradient(self.n_threads)
        self.l1_max_ = float(np.abs(slopes).max(initial=0.0))
        self.l1_ = self._l1(self.l1_max_)
        start = None if job.coef_init is None else job.coef_init
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

    def _descent(self, job: Job) -> CoordinateDescent:
        data = job.data
        levels = task_levels(
            data.y,
            data.queries,
            job.query_weight,
            self._task_options(),
            weight=data.weight,
            columns=data.columns,
            labels=data.labels,
        )
        return domination_descent(columns_of(data.rows, data.n_features), levels)

    def _l1(self, largest: float) -> float:
        l1 = DEFAULT_SHARE * largest if self.l1 is None else float(self.l1)
        if l1 == 0.0 and self.l2 == 0.0 and largest > 0.0:
            raise ParameterError(
                "l1 = l2 = 0: without a penalty the loss need not have a minimum",
                fix="Pass a small l2, or leave l1=None",
            )
        return l1

    def _task_options(self) -> TaskOptions:
        return TaskOptions(self.normalization, self.margin, self.margin_scale, self.margin_table)

    def _settings(self, seed: int) -> Settings:
        for name in ("l1", "l2", "tol"):
            value = getattr(self, name)
            if name == "l1" and value is None:
                continue
            if not (isinstance(value, Real) and 0 <= float(value) < np.inf):
                raise ParameterError(
                    f"{name}={value!r} must be a finite number >= 0", fix="Pass such a number"
                )
        for name, known in (("curvature", CURVATURES), ("order", ORDERS)):
            if getattr(self, name) not in known:
                raise ParameterError(
                    f"{name}={getattr(self, name)!r} is not one of {', '.join(known)}",
                    fix="Choose one of them",
                )
        for name in ("max_iter", "n_nonzero"):
            value = getattr(self, name)
            if value is not None and (int(value) != value or value < 1):
                raise ParameterError(
                    f"{name}={value!r} must be a positive integer", fix="Pass 1 or more"
                )
        return Settings(
            float(self.tol),
            int(self.max_iter),
            self.curvature == "paper",
            self.order == "random",
            seed,
            self.n_threads,
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
