"""How each ranker minimises mixtures of the risks of several goals (``rankine.rankers.goals``)."""

# ruff: noqa: SLF001 - the methods of rankers are private to this package

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ParameterError
from rankine.data.query_index import QueryIndex
from rankine.losses.mixture import mix_risks
from rankine.rankers.additive_search import PlanSolver, first_solution, make_risk, sample
from rankine.rankers.fitting import FitResult, FitTask
from rankine.rankers.goals import GoalMixture, require_one_strength
from rankine.rankers.sources import MemorySource
from rankine.rankers.table_data import TableColumns, fit_table_bins, read_tables
from rankine.solvers.mixture import GoalCuts, GoalSystems
from rankine.solvers.newton import solve_newton
from rankine.solvers.problem import RowsProblem
from rankine.solvers.tables import TablePenalty

if TYPE_CHECKING:
    from rankine.rankers.additive import AdditiveRanker
    from rankine.rankers.elastic import ElasticRanker
    from rankine.rankers.least_squares import LeastSquaresRanker
    from rankine.rankers.ranksvm import RankSVM

Vector = NDArray[np.float64]


class PairMixture(GoalMixture):
    """Pair risks of ``RankSVM``; the bundle method shares its cuts."""

    def __init__(self, ranker: RankSVM, task: FitTask, sources: Sequence[MemorySource]) -> None:
        self.ranker = ranker
        self.task = task
        self.sources = sources
        self.l2 = require_one_strength(ranker._strengths(), "l2")
        self._risks = [ranker._risk(source.data, source.query_weight) for source in sources]
        self._problem = RowsProblem.from_dataset(sources[0].data, None, ranker.n_threads)
        self._cuts = GoalCuts(self._risks, self._problem.products, positive=ranker.positive)

    def solve(self, weights: Vector, start: Vector | None) -> FitResult:
        """Solve by the ranker's method; a goal alone is solved as its fit is."""
        ranker = self.ranker
        problem = self._problem.with_risk(
            mix_risks(self._risks, weights, self.sources[0].data.queries)
        )
        if start is None:
            source = self.sources[int(np.argmax(weights))]
            start = ranker._coarse_start(source.data, source.query_weight, self.l2)
        solve = ranker._solver(problem, self._cuts.bundle(weights))
        result = self.task.run(lambda _, __: solve(self.l2, start=start, tol=ranker.tol))
        result = result.with_attributes(l2_=self.l2, C_=1.0 / self.l2, l2s_=np.array([self.l2]))
        return result.with_parameters(l2=self.l2, C=1.0 / self.l2)

    def risks(self, coef: Vector) -> Vector:
        """Return R_k."""
        scores = self._problem.scores(coef)
        return np.array([risk.evaluate(scores)[0] for risk in self._risks])


class SquareMixture(GoalMixture):
    """Squared errors of ``LeastSquaresRanker``: linear systems that share their products.

    With ``l2="auto"`` every goal has a separate strength, and mixtures have their mixture.
    """

    def __init__(
        self, ranker: LeastSquaresRanker, task: FitTask, sources: Sequence[MemorySource]
    ) -> None:
        self.ranker = ranker
        self.task = task
        if strengths := ranker._strengths():
            self._l2s = np.full(len(sources), require_one_strength(strengths, "l2"))
        else:
            self._l2s = np.array([ranker._choose_l2(replace(task, source=s)) for s in sources])
        problems = [ranker._rows_problem(s.data, s.query_weight) for s in sources]
        at_zero = np.zeros(sources[0].data.n_rows)
        self._systems = GoalSystems(
            np.array([problem.right_hand_side() for problem in problems]),
            lambda v: np.array([problem.normal_product(v) for problem in problems]),
            np.array([problem.risk.value(at_zero) for problem in problems]),
        )

    def solve(self, weights: Vector, start: Vector | None) -> FitResult:  # noqa: ARG002
        """Solve in the space of all directions so far, which contains every start."""
        ranker, l2 = self.ranker, float((weights * self._l2s).sum())
        result = self.task.run(
            lambda _, __: self._systems.solve(
                weights, 0.5 * l2, tol=ranker.tol, max_iter=ranker.max_iter
            )
        )
        result = result.with_attributes(l2_=l2, l2s_=np.array([l2]), spectrum_=None)
        return result.with_parameters(l2=l2)

    def risks(self, coef: Vector) -> Vector:
        """Return R_k."""
        return self._systems.risks(coef)


class TableMixture(GoalMixture):
    """Pair risks of ``AdditiveRanker``. Cells, pairs and strengths are those of the first goal."""

    def __init__(
        self, ranker: AdditiveRanker, task: FitTask, sources: Sequence[MemorySource]
    ) -> None:
        if ranker.reweight:
            raise ParameterError(
                "rounds weigh pairs by one metric, and several goals have several",
                parameter="reweight",
                fix="Leave it out",
            )
        self.ranker = ranker
        self.task = replace(task, source=sources[0], evaluator=None)
        columns = TableColumns.from_columns(task.columns, ranker.linear)
        bins = fit_table_bins(sources[0], columns, ranker.bins, ranker.categorical)
        self._data, self._reader = read_tables(sources[0], columns, bins, None, ranker.n_threads)
        without_rounds = copy(ranker)
        without_rounds.reweight = 0
        self._plan, self._start = without_rounds._search_plan(
            self.task, self._data, self._reader, []
        )
        lists = self._data.lists
        self._goals = []
        for source in sources:
            labelled = replace(
                lists, y=source.data.y, weight=source.data.weight, query_index=lists.queries
            )
            goal = replace(self._data, lists=labelled, query_weight=source.query_weight)
            self._goals.append(goal)
        self._risks = [make_risk(self._plan, goal) for goal in self._goals]
        self._problem = self._plan.problem(self._data, None)
        self._penalty = TablePenalty(self._problem.space, self._plan.strengths, ranker.n_threads)

    def solve(self, weights: Vector, start: Vector | None) -> FitResult:
        """Solve by Newton's method."""
        ranker = self.ranker
        risk = mix_risks(self._risks, weights, self._data.lists.queries)
        problem = self._problem.with_risk(risk)
        if start is None:
            start = self._start_of_goal(int(np.argmax(weights)))
        result = self.task.run(
            lambda _, __: solve_newton(
                problem, self._penalty, start=start, tol=ranker.tol, max_iter=ranker.max_iter
            )
        )
        return result.with_parameters(**self._plan.chosen())

    def _start_of_goal(self, goal: int) -> Vector | None:
        """Return where the fit to a goal alone starts."""
        if goal == 0:
            return self._start
        plan, data = self._plan, self._goals[goal]
        return first_solution(plan, sample(data, 0), data, plan.pairs, PlanSolver())[1]

    def risks(self, coef: Vector) -> Vector:
        """Return R_k."""
        scores = self._problem.scores(coef)
        return np.array([risk.evaluate(scores)[0] for risk in self._risks])

    def describe(self, result: FitResult) -> FitResult:
        """Add tables, which are purified."""
        return self.ranker._describe(result, self._plan, self._data, self._reader)


class OnePassMixture(GoalMixture):
    """List losses of ``ElasticRanker``: every list is learned from once for each goal.

    A step for goal k weighs b_k N / N_k, where N_k of the N lists with a gradient have one for goal
    k, so that the mean loss of all steps is the mixture. A goal alone is learned as in its fit.
    Every point is a separate run, since one pass depends on where it starts.
    """

    exact = False

    def __init__(
        self, ranker: ElasticRanker, task: FitTask, sources: Sequence[MemorySource]
    ) -> None:
        if not ranker._needs_pairs():
            raise ParameterError(
                "the constant term of 'pointwise' belongs to one goal",
                parameter="objective",
                fix="Use 'ndcg@10' or 'pairwise'",
            )
        self.ranker = ranker
        self.task = task
        self.sources = sources
        self._usable = []
        for source in sources:
            lists = source.data.labels.queries_with_pairs
            self._usable.append(lists[source.query_weight[lists] > 0])

    def solve(self, weights: Vector, start: Vector | None) -> FitResult:  # noqa: ARG002
        """Learn in one run from weights of 0."""
        goals = np.flatnonzero(weights > 0)
        source = self.sources[goals[0]]
        if len(goals) > 1:
            source = self._mixed_source(weights, goals)
        result = self.ranker._solve(replace(self.task, source=source))
        # The state of a run on copies of lists is none that a warm start could continue.
        return result.with_attributes(_run=None)

    def _mixed_source(self, weights: Vector, goals: NDArray[np.int64]) -> MemorySource:
        """Return a source with the lists of every goal in turn, in the order of the lists."""
        data = self.sources[0].data
        index = data.queries
        lists = np.concatenate([self._usable[k] for k in goals])
        goal_of_list = np.repeat(goals, [len(self._usable[k]) for k in goals])
        order = np.argsort(lists, kind="stable")
        lists, goal_of_list = lists[order], goal_of_list[order]
        rows = index.rows_of_queries(lists)
        sizes = index.sizes[lists]
        queries = QueryIndex.from_group(sizes, len(rows))
        goal_of_row = np.repeat(goal_of_list, sizes)
        labels = np.array([source.data.y for source in self.sources])
        row_weights = None
        if data.weight is not None:
            row_weights = np.array([s.data.weight for s in self.sources])[goal_of_row, rows]
        shares = np.array([weights[k] / len(usable) for k, usable in enumerate(self._usable)])
        query_weights = np.array([source.query_weight for source in self.sources])
        source = copy(self.sources[0])
        source.data = replace(
            data.take(rows),
            y=labels[goal_of_row, rows],
            weight=row_weights,
            qid=queries.ids[queries.codes],
            query_index=queries,
        )
        source.query_weight = len(lists) * shares[goal_of_list] * query_weights[goal_of_list, lists]
        return source

    def risks(self, coef: Vector) -> Vector:
        """Return the mean loss of the lists of every goal."""
        out = []
        for source, usable in zip(self.sources, self._usable, strict=True):
            data: Any = source.data
            learner = self.ranker._learner(data.n_features, seed=0, start=coef)
            # One step for all lists: all losses are computed before any weight changes.
            learner.batch_lists = len(usable)
            learner.learn(data, usable, learner.lists(data, source.query_weight))
            out.append(learner.mean_loss)
        return np.array(out)
