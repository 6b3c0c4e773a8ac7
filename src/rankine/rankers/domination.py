"""Domination rank: sparse ranking functions by coordinate descent (Stevens, Bengio, Singer)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankine.core.checks import (
    check_choice,
    check_count,
    check_not_negative,
    check_positive,
)
from rankine.core.errors import NoPairsError, ParameterError
from rankine.data.dataset import column_storage, is_column_storage
from rankine.losses.domination import DominationOptions, DominationRisk, build_domination_task
from rankine.model import ModelBundle
from rankine.rankers.base import BaseRanker
from rankine.rankers.capabilities import Capabilities
from rankine.rankers.clicks import QueryDivisor
from rankine.rankers.fitting import FitMonitor, FitResult, FitTask, warn_not_converged
from rankine.rankers.path import RegularizationPath, Step
from rankine.rankers.path_fitting import PathGrid, PathMixin
from rankine.rankers.registry import SCALE, Choice, Condition, Number
from rankine.rankers.sources import MemorySource, PartitionSource
from rankine.solvers.base import Progress, Solution, notify
from rankine.solvers.coordinate_descent import (
    CoordinateDescent,
    DescentSettings,
    PathPoint,
    l1_grid,
    path_until_nonzeros,
    regularisation_path,
)
from rankine.solvers.problem import Penalty

SOLVERS = ("cd", "cd_plain")
CURVATURES = ("newton", "paper")
ORDERS = ("cyclic", "random")
#: Default l1 and l2 as shares of the smallest l1 that gives w = 0.
L1_SHARE, L2_SHARE = 0.01, 0.003


@dataclass(eq=False, repr=False)
class DominationRanker(PathMixin, BaseRanker):
    r"""Every better item above all worse ones at once; tiny models by an l1 penalty.

    Minimises, exactly and to a certified duality gap,

    .. math::

        J(w) = \sum_q v_q \sum_{i \in q} a_i
               \log\Bigl(1 + \sum_{j \in D(i)} a_j e^{\rho_j - \rho_i}\Bigr)
               + l_1 |w|_1 + \tfrac{l_2}{2} |w|^2,
        \qquad \rho_i = \langle w, x_i \rangle - s_i,

    where D(i) are the rows of i's query with a smaller label, s the margin and a the sample
    weights (a row of weight k counts like k copies). Meant for few relevant items among many:
    a step along one feature costs O(non-zeros of the feature).

    Parameters
    ----------
    l1
        Strength of the l1 penalty; None takes 1 % of the smallest l1 that gives w = 0.
    l2
        Strength of the squared penalty; None takes 0.3 % of the same where l1 is None too, else 0.
    solver
        ``"cd"``: coordinate descent with a working set. ``"cd_plain"``: the paper's algorithm
        (figure 1.1), every feature in turn by its fixed bound; the same optimum, many times slower.
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
        "newton" (the default of ``"cd"``): the true second derivative, enlarged just enough to be
        safe. "paper" (the default of
        ``"cd_plain"``): the paper's fixed bound.
    tol
        Stop when the duality gap is at most ``tol`` times J(0).
    max_iter
        Most sweeps over the working set.
    order
        "cyclic" or "random" visits of the working set.
    max_nonzero
        Walk down the l1 path (``l1`` is then ignored) and keep the best model with at most this
        many non-zero weights: best by ``metric`` when an ``eval_set`` is given, else by loss.
    propensity, max_weight, position_offset
        Learn from clicks, see ``BaseRanker``.
    metric, scale, early_stopping, warm_start, random_state, n_threads
        As in every ranker. ``random_state`` matters for ``order="random"`` alone; the number of
        threads changes no bit of the result.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights.
    l1_, l2_, l1_max_ : float
        The l1 and l2 that were used, and the smallest l1 that gives w = 0.
    n_iter_ : int
        Sweeps over the working set.
    solution_ : Solution
        ``certificate`` holds ``gap``, ``relative_gap`` (gap / J(0)) and ``lower_bound``;
        ``trace`` one record per check of all features.

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

    l1: float | None = None
    l2: float | None = None
    _: KW_ONLY
    solver: str = "cd"
    normalization: str = "sum"
    margin: Any = None
    margin_scale: float = 1.0
    margin_table: Any = None
    curvature: str | None = None
    tol: float = 1e-4
    max_iter: int = 1000
    order: str = "cyclic"
    max_nonzero: int | None = None
    n_threads: int | None = None

    system: ClassVar[str] = "domination"
    capabilities = Capabilities(
        fit=("memory", "partitions"),
        path=("memory",),
        checkpoint=("partitions",),
        path_options=("l1s",),
    )
    path_grid: ClassVar[PathGrid] = PathGrid(n_steps=30, min_ratio=0.01)
    no_effect_with: ClassVar[Mapping[str, Condition]] = {"margin_scale": {"margin": (None,)}}
    letor_grid: ClassVar[dict[str, list[Any]]] = {
        "l1": [0.1, 0.3, 1.0, 3.0, 10.0],
        "l2": [0.0, 1.0],
    }
    search_space: ClassVar[dict[str, Choice | Number]] = {
        "l1": Number(1e-3, 1e3, log=True),
        "l2": Number(1e-4, 10.0, log=True),
        "margin_scale": Number(0.1, 10.0, log=True, unless={"margin": (None,)}),
        "scale": SCALE,
    }

    def _check(self) -> None:
        for name in ("l1", "l2", "tol"):
            if getattr(self, name) is not None:
                check_not_negative(name, getattr(self, name))
        check_positive("margin_scale", self.margin_scale)
        check_choice("solver", self.solver, SOLVERS)
        if self.curvature is not None:
            check_choice("curvature", self.curvature, CURVATURES)
        if self.solver == "cd_plain" and self.curvature == "newton":
            raise ParameterError(
                "solver='cd_plain' takes the paper's steps, whose curvature is fixed",
                parameter="curvature",
                fix="Leave it out, or use solver='cd'",
            )
        check_choice("order", self.order, ORDERS)
        check_count("max_iter", self.max_iter)
        if self.max_nonzero is not None:
            check_count("max_nonzero", self.max_nonzero)
        self.task_options()

    def _divisor(self) -> QueryDivisor:
        # Refused rather than ignored: the result would look corrected.
        if self.propensity is not None and self.normalization == "query":
            raise ParameterError(
                "'query' would divide the weights of propensity out again",
                parameter="normalization",
                fix="Use 'sum'",
            )
        return QueryDivisor.NOTHING

    def _solve(self, task: FitTask) -> FitResult:
        if isinstance(task.source, PartitionSource):
            return self._solve_partitions(task, task.source)
        # The gradient at w = 0 gives the smallest l1 without any weight, which defaults refer to.
        settings = self.solver_settings(task.seed, self.n_threads)
        descent = self._descent(task)
        slopes = descent.gradient(self.n_threads)
        largest_l1 = float(np.abs(slopes).max(initial=0.0))
        if self.max_nonzero is not None:
            # The strength of the best step comes out of the search beside its solution.
            best_l1: list[float] = []

            def search(_start: NDArray[np.float64] | None, monitor: FitMonitor) -> Solution:
                solution, l1 = self._best_within(descent, settings, largest_l1, monitor)
                best_l1.append(l1)
                return solution

            result = task.run(search)
            return _with_penalty(result, Penalty(best_l1[0], self.path_l2), largest_l1)
        penalty = self.penalty(largest_l1, self.l1)

        def solve(start: NDArray[np.float64] | None, monitor: FitMonitor) -> Solution:
            # The gradient at 0 is known already; from another start it is computed again.
            if start is None:
                return descent.solve(penalty, settings, monitor.callbacks, slopes)
            descent.restart(start)
            return descent.solve(penalty, settings, monitor.callbacks)

        return _with_penalty(task.run(solve), penalty, largest_l1)

    def _solve_partitions(self, task: FitTask, source: PartitionSource) -> FitResult:
        """Minimise the same objective by a batch method, which needs sums over rows only."""
        from rankine.distributed.partition_tasks import domination_problem
        from rankine.solvers.quasi_newton import solve_quasi_newton

        if self.solver == "cd_plain":
            raise ParameterError(
                "'cd_plain' needs columns and is not available on partitions, which hold rows",
                parameter="solver",
                fix="Use 'cd', whose objective partitions minimise by another method",
            )
        if self.max_nonzero is not None:
            raise ParameterError(
                "a path of models needs the rows in memory and is not available on partitions",
                parameter="max_nonzero",
                fix="Choose l1, or train on a sample that fits",
            )
        problem = domination_problem(source, self.task_options())
        zero = np.zeros(source.n_features)
        at_zero, slopes = problem.value_and_gradient(zero)
        # A loss of 0 at w = 0 means that no row has another below it.
        if at_zero <= 0.0:
            raise NoPairsError(
                "no query of any partition holds two different labels of positive weight",
                fix="Check labels, query ids and weights; a query needs a better and a worse row",
            )
        largest_l1 = float(np.abs(slopes).max(initial=0.0))
        penalty = self.penalty(largest_l1, self.l1)
        result = task.run(
            lambda start, monitor: solve_quasi_newton(
                problem,
                penalty,
                zero if start is None else start,
                at_zero=at_zero,
                start_value_and_gradient=(at_zero, slopes) if start is None else None,
                tol=float(self.tol),
                max_iter=int(self.max_iter),
                callbacks=monitor.callbacks,
            )
        )
        return _with_penalty(result, penalty, largest_l1)

    def _best_within(
        self,
        descent: CoordinateDescent,
        settings: DescentSettings,
        largest_l1: float,
        monitor: FitMonitor,
    ) -> tuple[Solution, float]:
        """Return the best model with at most ``max_nonzero`` features, and its l1.

        Best on the evaluation set, else by loss; w = 0 when no other model is so small. The
        monitor evaluates every model of the path.
        """
        best, least_loss = None, np.inf
        limit, l2 = int(self.max_nonzero or 0), self.path_l2
        points: Iterable[PathPoint] = ()
        if largest_l1 > 0:
            points = path_until_nonzeros(descent, largest_l1, l2, settings, limit)
        for count, point in enumerate(points, start=1):
            stop = notify(monitor.callbacks, _progress(point, count, None))
            # The monitor has just evaluated this model, if there is evaluation data.
            if monitor.evaluator is None:
                better = point.loss < least_loss
            else:
                better = monitor.since_best == 0
            if better:
                best, least_loss = point, point.loss
            if stop:
                break
        if best is None:
            descent.restart(np.zeros(len(descent.w)))
            return descent.solve(Penalty(largest_l1, l2), settings), largest_l1
        return best.solution, best.l1

    def _solve_path(
        self, task: FitTask, grid: PathGrid, options: Mapping[str, Any]
    ) -> RegularizationPath:
        settings = self.solver_settings(task.seed, self.n_threads)
        descent = self._descent(task)
        largest_l1 = float(np.abs(descent.gradient(self.n_threads)).max(initial=0.0))
        if options.get("l1s") is None:
            l1s = l1_grid(largest_l1, grid.n_steps, grid.min_ratio)
        else:
            l1s = _check_l1s(options["l1s"])
        steps: list[Step] = []
        solutions: dict[str, Solution] = {}
        for point in regularisation_path(descent, l1s.tolist(), self.path_l2, settings):
            # Models grow along the path, so that all further ones are too large as well.
            if not grid.allows(point.nonzeros):
                break
            solution, value, largest_gain = point.solution, math.nan, math.inf
            if task.evaluator is not None:
                value = task.evaluator.value(solution.coef)
                largest_gain = task.evaluator.largest_gain(solution.coef)
            steps.append(
                Step(
                    point.l1,
                    point.loss,
                    solution.coef,
                    point.seconds,
                    value,
                    largest_gain,
                    solution.objective,
                    solution.certificate["relative_gap"],
                )
            )
            solutions[f"l1={point.l1:.3g}"] = solution
            progress = _progress(point, len(steps), len(l1s), {self.metric: value})
            if notify(task.callbacks, progress):
                break
        warn_not_converged(type(self).__name__, self.tol, solutions)
        names = self._model_feature_names(task.columns.names)
        return RegularizationPath.from_steps(self, task, steps, names)

    def fit_topics(self, X: Any, Y: Any, **options: Any) -> ModelBundle:
        """Learn one model per column of Y over the same rows; see ``rankine.fit_topics``."""
        from rankine.rankers.topics import fit_topics

        return fit_topics(X, Y, ranker=self, **options)

    def _descent(self, task: FitTask) -> CoordinateDescent:
        source = task.source
        assert isinstance(source, MemorySource)  # noqa: S101 - other sources are handled before
        data = source.data
        levels = build_domination_task(
            data.y,
            data.queries,
            source.query_weight,
            self.task_options(),
            weight=data.weight,
            columns=data.columns,
            labels=data.labels,
        )
        return CoordinateDescent(DominationRisk(levels), column_storage(data.X)[0])

    def _keeps_column_storage(self, X: Any) -> bool:
        """Return whether a CSC matrix is used as it is: neither scaling nor filling reads rows."""
        unchanged = self.scale in ("none", None) and self._missing() == "error"
        return unchanged and is_column_storage(X)

    def penalty(self, largest: float, l1: float | None) -> Penalty:
        """Return the penalty; strengths that are None or NaN are shares of the largest l1."""
        l2 = self.path_l2
        # Shares of the largest l1 mean the same for any number of rows and any scale of labels.
        if l1 is None or np.isnan(l1):
            l1 = L1_SHARE * largest
            if self.l2 is None:
                l2 = L2_SHARE * largest
        # Separable data would let the weights grow for ever.
        if l1 == 0.0 and l2 == 0.0 and largest > 0.0:
            raise ParameterError(
                "l1 = l2 = 0: without a penalty the loss need not have a minimum",
                fix="Pass a small l2, or leave l1=None",
            )
        return Penalty(float(l1), l2)

    @property
    def path_l2(self) -> float:
        """The l2 of models along a path of l1."""
        return float(self.l2 or 0.0)

    def task_options(self) -> DominationOptions:
        """Return the options of the loss, checked."""
        return DominationOptions(
            self.normalization, self.margin, self.margin_scale, self.margin_table
        )

    def solver_settings(self, seed: int, threads: int | None = None) -> DescentSettings:
        """Return the settings of coordinate descent, checked."""
        self._check()
        plain = self.solver == "cd_plain"
        return DescentSettings(
            float(self.tol),
            int(self.max_iter),
            plain or self.curvature == "paper",
            plain,
            self.order == "random",
            seed,
            threads,
        )


def domination_path(
    X: Any, y: ArrayLike | None = None, qid: ArrayLike | None = None, **options: Any
) -> RegularizationPath:
    """Solve domination rank for a falling l1, each from the solution before.

    Parameters
    ----------
    X, y, qid
        Training data, as in ``DominationRanker.fit``.
    **options
        Options of ``DominationRanker.path`` (``eval_set``, ``n_steps``, ``max_nonzero`` ...), and
        parameters of the ranker (``l2``, ``tol``, ``metric`` ...). ``max_nonzero`` is the path's.

    Examples
    --------
    >>> from rankine import domination_path
    >>> X = [[1.0, 0.0], [0.8, 1.0], [0.1, 0.0], [0.0, 1.0]]
    >>> path = domination_path(X, [1, 1, 0, 0], n_steps=3)
    >>> path.nonzeros.tolist()[0]
    0
    """
    # One flat list of options: those of the ranker go to the ranker, the others to its path.
    names = set(DominationRanker().get_params(deep=False)) - {"max_nonzero"}
    parameters = {name: options.pop(name) for name in names & set(options)}
    return DominationRanker(**parameters).path(X, y, qid=qid, **options)


def _with_penalty(result: FitResult, penalty: Penalty, largest_l1: float) -> FitResult:
    """Add the penalty that was used to a result."""
    l1, l2 = penalty.l1, penalty.l2
    return result.with_attributes(l1_=l1, l2_=l2, l1_max_=largest_l1).with_parameters(l1=l1, l2=l2)


def _check_l1s(l1s: Sequence[float]) -> NDArray[np.float64]:
    """Return the strengths of a path, checked."""
    values = np.asarray(l1s, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all() or (values <= 0).any():
        raise ParameterError(
            "strengths must be positive finite numbers", parameter="l1s", fix="Pass [10, 1]"
        )
    if (np.diff(values) > 0).any():
        raise ParameterError(
            "strengths must fall", parameter="l1s", fix="Sort them from large to small"
        )
    return values


def _progress(
    point: PathPoint, step: int, total: int | None, measured: Mapping[str, float] | None = None
) -> Progress:
    """Return what callbacks receive after a step of a path."""
    values = {"l1": point.l1, "nonzeros": float(point.nonzeros), "loss": point.loss}
    values |= {name: value for name, value in (measured or {}).items() if math.isfinite(value)}
    coef = point.solution.coef
    return Progress("path", step, total, values, lambda: coef)
