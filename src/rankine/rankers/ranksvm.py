"""RankSVM: the exact pairwise support vector machine, in O(m s + m log m) a pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankine.core.checks import check_choice, check_count, check_positive, check_strengths
from rankine.core.errors import ParameterError
from rankine.data.dataset import Dataset
from rankine.losses.base import find_pair_loss, pair_loss_names
from rankine.losses.pair_queries import NORMALIZATIONS, PairQueries, pair_risk
from rankine.rankers.base import BaseRanker
from rankine.rankers.capabilities import Capabilities
from rankine.rankers.clicks import QueryDivisor
from rankine.rankers.fitting import FitResult, FitTask
from rankine.rankers.intervals import check_weight_count, solve_to_intervals, weight_covariance
from rankine.rankers.registry import SCALE, Choice, Number
from rankine.rankers.sources import MemorySource, PartitionSource
from rankine.solvers.base import Solution
from rankine.solvers.bundle import Bundle, solve_bundle
from rankine.solvers.newton import move_solution, solve_newton, solve_nonsmooth, solve_smoothed
from rankine.solvers.problem import Problem, RowsProblem, coarsen
from rankine.solvers.sandwich import sandwich

if TYPE_CHECKING:
    from rankine.rankers.goals import GoalMixture

SOLVERS = ("auto", "bundle", "newton")
ORACLES = ("tree", "levels", "pairs")
#: Gap, relative to J(0), to which the sample that gives the start is solved.
COARSE_TOL = 2e-3


@dataclass(eq=False, repr=False)
class RankSVM(BaseRanker):
    r"""Linear ranking support vector machine over all pairs of each query.

    Minimises, over weights w (w >= 0 with ``positive=True``),

    .. math:: J(w) = \tfrac{l_2}{2} |w|^2 + \sum_q \omega_q
              \sum_{(i,j) \in q:\, y_i > y_j} s_i s_j\, \ell(\langle w, x_i - x_j\rangle)

    with row weights s, and :math:`\ell(z) = \max(0, 1 - z)` or its square. Pairs are never listed:
    one pass costs O(nnz + m log m) for m rows, for any number of distinct labels (Airola,
    Pahikkala, Salakoski 2011, whose lambda is l2 / 2).

    Parameters
    ----------
    l2
        Strength of the penalty; or several, solved from the largest to the smallest, each from
        the last one's weights and cuts (see ``coef_path_``).
    C
        Instead of ``l2``: 1/2 |w|^2 + C R(w), that is l2 = 1 / C. With
        ``normalization="query"`` it is SVMrank's ``-c`` (with ``-l 2``); with ``"sum"``, the C of
        1/2 |w|^2 + C sum of losses. The effective values are ``l2_`` and ``C_``.
    loss
        ``"hinge"``, ``"squared_hinge"`` (usually faster), or any registered pair loss with an exact
        sum over pairs (``docs/add-a-loss.md``).
    solver
        ``"bundle"``: cutting planes with a line search, for every loss; ``"newton"``: truncated
        Newton, for smooth losses and for the hinge, whose kink is smoothed less and less;
        ``"auto"``: Newton for smooth losses, cutting planes for others, and Newton where these are
        slow.
    normalization
        ``"query"``: om_q = 1 / (Q N_q), mean over the Q queries that hold a pair of the mean over
        their N_q pairs; ``"pair"``: 1 / N; ``"sum"``: 1. Weights enter as repetitions would.
    tol
        Stop when (J - lower bound) / J(0) <= tol; ``solution_.certificate`` holds them, and
        ``relative_gap``.
    max_iter
        Iterations at most (cuts, or Newton steps).
    positive
        Require w >= 0.
    oracle
        How pairs are summed: ``"tree"`` O(m log m), ``"levels"`` O(m r) with r distinct labels
        (Joachims 2006), ``"pairs"`` O(m^2); same results, for comparison.
    propensity, max_weight, position_offset
        Learn from clicks, see ``BaseRanker``.
    metric, scale, early_stopping, warm_start, random_state
        See ``BaseRanker``. Nothing here is random; ``random_state`` is accepted for uniformity.
    n_threads
        Threads; None takes what the machine offers. Results do not depend on it, to the bit.

    Attributes
    ----------
    coef_
        Weights, one per feature.
    l2_, C_
        Effective regularisation of ``coef_``.
    coef_path_, l2s_, path_
        With several l2: weights, values and solutions in order of solution; ``coef_`` is the one
        that ranks the evaluation set best, or the last without one.
    solution_
        Objective, certificate, trace (one record an iteration) and reason to stop.
    n_iter_
        Iterations.

    Examples
    --------
    >>> import numpy as np
    >>> from rankine import RankSVM
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.0, 0.2]])
    >>> ranker = RankSVM(l2=0.02).fit(X, y=[2, 0, 1, 0])
    >>> ranker.rank(X)[0].tolist()
    [0, 2, 3, 1]

    References
    ----------
    Airola, Pahikkala, Salakoski (2011), An improved training algorithm for the linear ranking
    support vector machine. Lee, Lin (2014), Large-scale linear RankSVM.
    """

    l2: float | Sequence[float] = 2e-3
    _: KW_ONLY
    C: float | None = None
    loss: str = "hinge"
    solver: str = "auto"
    normalization: str = "query"
    tol: float = 1e-3
    max_iter: int = 1000
    positive: bool = False
    oracle: str = "tree"
    n_threads: int | None = None

    system: ClassVar[str] = "ranksvm"
    capabilities = Capabilities(
        fit=("memory", "partitions"),
        checkpoint=("partitions",),
        comparisons="fits the loss of every comparison exactly (loss='logistic': Bradley and "
        "Terry's model); weights and ties need normalization='pair' or 'sum'",
    )
    letor_grid: ClassVar[dict[str, list[Any]]] = {"l2": [2.0 * 10.0**k for k in range(-7, 1)]}
    search_space: ClassVar[dict[str, Choice | Number]] = {
        "l2": Number(2e-7, 20.0, log=True),
        "loss": Choice(lambda: pair_loss_names(exact=True)),
        "scale": SCALE,
    }

    def _check(self) -> None:
        check_positive("tol", self.tol)
        check_count("max_iter", self.max_iter)
        check_choice("solver", self.solver, SOLVERS)
        check_choice("normalization", self.normalization, NORMALIZATIONS)
        check_choice("oracle", self.oracle, ORACLES)
        pair_loss = find_pair_loss(self.loss, exact=True)
        if self.solver == "newton" and not (pair_loss.smooth or pair_loss.can_be_smoothed):
            raise ParameterError(
                f"Newton's method needs a smooth loss, and {self.loss!r} has kinks",
                parameter="solver",
                fix="Use 'bundle' or 'auto', or loss='squared_hinge'",
            )
        self._strengths()

    def _strengths(self) -> list[float]:
        """Return the values of l2, largest first."""
        if self.C is not None:
            if self.l2 != type(self).l2:
                raise ParameterError(
                    "C replaces l2, and both are given", parameter="C", fix="Pass one of them"
                )
            return [1.0 / check_positive("C", self.C)]
        return check_strengths("l2", self.l2)

    def _weighs_lists(self) -> bool:
        return self.normalization != "query"

    def _divisor(self) -> QueryDivisor:
        if self.normalization == "query":
            return QueryDivisor.PAIRS
        return QueryDivisor.NOTHING

    def _solve(self, task: FitTask) -> FitResult:
        l2s, source = self._strengths(), task.source
        if isinstance(source, PartitionSource):
            from rankine.distributed.partition_tasks import pair_problem

            problem = pair_problem(source, self.loss, self.normalization, self.oracle)
        else:
            assert isinstance(source, MemorySource)  # noqa: S101 - streams are not supported
            problem = self._problem(source.data, source.query_weight)
            if task.start is None:
                # Weights learned from a sample are closer to the solution than 0.
                start = self._coarse_start(source.data, source.query_weight, l2s[0])
                task = replace(task, start=start)
        solve = self._solver(problem)
        result = task.run_strengths(
            l2s,
            lambda l2, start, monitor: solve(
                l2, start=start, tol=self.tol, callbacks=monitor.callbacks
            ),
        )
        l2 = result.value
        if task.intervals:
            result = self._add_intervals(task, result, problem, solve)
        result = result.with_attributes(l2_=l2, C_=1.0 / l2, l2s_=np.array(result.values))
        return result.with_parameters(l2=l2, C=1.0 / l2)

    def _add_intervals(
        self, task: FitTask, result: FitResult, problem: Problem, solve: Callable[..., Solution]
    ) -> FitResult:
        """Add the covariance of the weights to a result."""
        check_weight_count(problem.n_features)
        l2 = result.value
        width = 0.0
        if not find_pair_loss(self.loss, exact=True).smooth:
            # Narrower with more queries, as estimates of a density are.
            width = float(task.source.metadata()["queries_used"]) ** -0.2
        result, covariance = solve_to_intervals(
            result,
            self.tol,
            lambda w: sandwich(problem.query_moments(w, width), w, l2),
            lambda start, tol: solve(l2, start=start, tol=tol, callbacks=task.callbacks),
            partial(move_solution, problem, l2),
        )
        return result.with_attributes(covariance_=weight_covariance(covariance, task.scaling))

    def _check_intervals(self) -> None:
        if self.positive:
            raise ParameterError(
                "weights at the bound 0 have no interval around them",
                parameter="intervals",
                fix="Leave it out, or pass positive=False",
            )
        if not find_pair_loss(self.loss, exact=True).has_query_curvature:
            raise ParameterError(
                f"the sum of {self.loss!r} over pairs has no query_curvature",
                parameter="intervals",
                fix="Implement it, as rankine.losses.AllPairsRisk does",
            )

    def _mix_goals(self, task: FitTask, sources: Sequence[MemorySource]) -> GoalMixture:
        from rankine.rankers.goal_mixtures import PairGoal, PairMethod, PairMixture
        from rankine.rankers.goals import require_one_strength

        l2 = require_one_strength(self._strengths(), "l2")
        goals = [PairGoal(each, self._risk(each.data, each.query_weight)) for each in sources]
        method = PairMethod(
            l2, self.tol, self.positive, self.n_threads, self._coarse_start, self._solver
        )
        return PairMixture(task, goals, method)

    def _problem(self, data: Dataset, query_weight: NDArray[np.float64]) -> Problem:
        risk = self._risk(data, query_weight)
        return RowsProblem.from_dataset(data, risk, self.n_threads)

    def _risk(self, data: Dataset, query_weight: NDArray[np.float64]) -> Any:
        return pair_risk(
            data,
            query_weight,
            self.loss,
            self.normalization,
            self.oracle,
            threads=self.n_threads,
        )

    def _solver(self, problem: Problem, bundle: Bundle | None = None) -> Callable[..., Solution]:
        """Return ``solve(l2, start=, tol=, callbacks=)`` for a problem, by the chosen method.

        ``bundle`` holds cuts to start from, where the method is one of cuts.
        """
        pair_loss = find_pair_loss(self.loss, exact=True)
        shared: dict[str, Any] = {"max_iter": self.max_iter, "positive": self.positive}
        if pair_loss.smooth and self.solver != "bundle":
            return partial(solve_newton, problem, **shared)
        # Newton's method solves the hinge with its kink smoothed less and less; by default it takes
        # over from cutting planes where these are slow.
        if pair_loss.can_be_smoothed and self.solver == "newton":
            return partial(solve_smoothed, problem, **shared)
        # The planes do not depend on l2, so every strength reuses them.
        shared["bundle"] = bundle or Bundle(problem.n_features, positive=self.positive)
        if pair_loss.can_be_smoothed and self.solver == "auto":
            return partial(solve_nonsmooth, problem, **shared)
        return partial(solve_bundle, problem, **shared)

    def _coarse_start(
        self, data: Dataset, query_weight: NDArray[np.float64], l2: float
    ) -> NDArray[np.float64] | None:
        """Return weights learnt from a sample of the data, None if the data is small.

        The run on the sample starts from a sample of the sample, and so on.
        """
        sample = coarsen(data, query_weight)
        if sample is None:
            return None
        part, part_weight = sample
        totals = PairQueries.from_dataset(data, query_weight).totals
        part_totals = PairQueries.from_dataset(part, part_weight).totals
        if part_totals.n_queries == 0:
            return None
        if self.normalization == "sum":
            # The risk of the sample is smaller; the penalty shrinks with it.
            l2 *= part_totals.pair_weight / totals.pair_weight
        start = self._coarse_start(part, part_weight, l2)
        solve = self._solver(self._problem(part, part_weight))
        return solve(l2, start=start, tol=max(self.tol, COARSE_TOL)).coef
