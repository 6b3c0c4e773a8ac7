"""How each ranker minimises mixtures of the risks of several goals (``rankine.rankers.goals``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.data.query_index import QueryIndex
from rankine.losses.mixture import mix_risks
from rankine.rankers.additive_search import Plan, TableData, final_risk, minimise
from rankine.rankers.fitting import FitResult, FitTask
from rankine.rankers.goals import GoalMixture
from rankine.rankers.sources import MemorySource
from rankine.solvers.base import Solution
from rankine.solvers.mixture import GoalCuts, GoalSystems
from rankine.solvers.problem import RowsProblem
from rankine.solvers.tables import TablePenalty

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PairGoal:
    """Rows of a goal and its risk over all pairs."""

    source: MemorySource
    risk: Any


@dataclass(frozen=True, eq=False)
class PairMethod:
    """How ``RankSVM`` solves.

    Attributes
    ----------
    l2, tol, positive, n_threads
        Parameters of the ranker.
    coarse_start
        Returns weights to start from, given rows, weights of queries and l2.
    solver
        Returns the function that solves a problem, given the problem and cuts.
    """

    l2: float
    tol: float
    positive: bool
    n_threads: int | None
    coarse_start: Callable[..., Vector | None]
    solver: Callable[..., Callable[..., Solution]]


class PairMixture(GoalMixture):
    """Pair risks of ``RankSVM``; the bundle method shares its cuts."""

    def __init__(self, task: FitTask, goals: Sequence[PairGoal], method: PairMethod) -> None:
        self.task = task
        self.goals = goals
        self.method = method
        data = goals[0].source.data
        self._queries = data.queries
        self._risks = [goal.risk for goal in goals]
        self._problem = RowsProblem.from_dataset(data, None, method.n_threads)
        self._cuts = GoalCuts(self._risks, self._problem.products, positive=method.positive)

    def solve(self, weights: Vector, start: Vector | None) -> FitResult:
        """Solve by the ranker's method; a mixture of one goal is solved like a fit to it."""
        method, l2 = self.method, self.method.l2
        problem = self._problem.with_risk(mix_risks(self._risks, weights, self._queries))
        if start is None:
            source = self.goals[int(np.argmax(weights))].source
            start = method.coarse_start(source.data, source.query_weight, l2)
        solve = method.solver(problem, self._cuts.bundle(weights))
        result = self.task.run(lambda _, __: solve(l2, start=start, tol=method.tol))
        result = result.with_attributes(l2_=l2, C_=1.0 / l2, l2s_=np.array([l2]))
        return result.with_parameters(l2=l2, C=1.0 / l2)

    def risks(self, coef: Vector) -> Vector:
        """Return the risk R_k of every goal."""
        scores = self._problem.scores(coef)
        return np.array([risk.evaluate(scores)[0] for risk in self._risks])


class SquareMixture(GoalMixture):
    """Squared errors of ``LeastSquaresRanker``: linear systems that share their products.

    ``problems`` and ``l2s`` are those of the goals, where ``l2="auto"`` chooses a separate strength
    for each; a mixture has the mixture of the strengths.
    """

    def __init__(
        self,
        task: FitTask,
        problems: Sequence[RowsProblem],
        l2s: Sequence[float],
        tol: float,
        max_iter: int,
    ) -> None:
        self.task = task
        self.tol = tol
        self.max_iter = max_iter
        self._l2s = np.array(l2s)
        risks: list[Any] = [problem.risk for problem in problems]
        self._systems = GoalSystems(
            np.array([problem.right_hand_side() for problem in problems]),
            lambda v: np.array([problem.normal_product(v) for problem in problems]),
            np.array([risk.value(np.zeros(len(risk.y))) for risk in risks]),
        )

    def solve(self, weights: Vector, start: Vector | None) -> FitResult:  # noqa: ARG002
        """Solve in the space of all directions so far, which contains every start."""
        l2 = float((weights * self._l2s).sum())
        result = self.task.run(
            lambda _, __: self._systems.solve(
                weights, 0.5 * l2, tol=self.tol, max_iter=self.max_iter
            )
        )
        result = result.with_attributes(l2_=l2, l2s_=np.array([l2]), spectrum_=None)
        return result.with_parameters(l2=l2)

    def risks(self, coef: Vector) -> Vector:
        """Return the risk R_k of every goal."""
        return self._systems.risks(coef)


def _unite_pairs(plans: Sequence[Plan]) -> Plan:
    """Return the first plan with the pairs of all."""
    return plans[0].with_pairs(list(dict.fromkeys(pair for plan in plans for pair in plan.pairs)))


@dataclass(frozen=True, eq=False)
class TableGoal:
    """What the fit of an additive ranker to one goal chooses: a plan, and where its rows start."""

    plan: Plan
    data: TableData
    start: Vector | None


class TableMixture(GoalMixture):
    """Risks of ``AdditiveRanker``. Every goal has a plan, and mixtures mix the plans.

    The risk R_k is that of the last round of the goal's plan. A mixture has the grids of all goals.
    The strengths of curves and slopes are sum_k b_k s_k. That of a grid is 1 / sum_k (b_k / s_k)
    over the goals that chose its pair: it grows without limit where their weights go to 0, so that
    the grid vanishes, and a mixture of one goal is the fit to that goal.

    Parameters
    ----------
    task
        The fit; its rows are those of every goal.
    goals
        Plans of the goals. Cells are the same.
    tol
        Gap up to which every mixture is solved.
    describe
        Adds the fitted attributes of tables to a result, given the plan of its parameters.
    """

    def __init__(
        self,
        task: FitTask,
        goals: Sequence[TableGoal],
        tol: float,
        describe: Callable[[FitResult, Plan], FitResult],
    ) -> None:
        self.task = replace(task, evaluator=None)
        self.goals = goals
        self.tol = tol
        self._describe = describe
        rounds = [final_risk(goal.plan, goal.data, goal.start, tol=tol) for goal in goals]
        self._risks = [risk for risk, _ in rounds]
        self._starts = [start for _, start in rounds]
        #: The plan with the grids of all goals.
        self._plan = _unite_pairs([goal.plan for goal in goals])

    def solve(self, weights: Vector, start: Vector | None) -> FitResult:
        """Solve; a mixture of one goal has only the grids of that goal."""
        plan, data = self._mixed_plan(weights), self.goals[0].data
        if start is None:
            start = self._starts[int(np.argmax(weights))]
        else:
            start = plan.convert_parameters(start, self._plan)
        problem = plan.problem(data, mix_risks(self._risks, weights, data.lists.queries))
        penalty = TablePenalty(
            plan.space, plan.strengths, plan.threads, self._grid_strengths(plan, weights)
        )
        result = self.task.run(
            lambda _, __: minimise(
                problem, penalty, start=start, tol=self.tol, max_iter=plan.max_iter
            )
        )
        # Parameters of all results have the same order, so that points can start from others.
        solution = result.solutions[0]
        coef = self._plan.convert_parameters(solution.coef, plan)
        result = replace(result, solutions=[replace(solution, coef=coef)])
        return result.with_parameters(**plan.chosen())

    def _mixed_plan(self, weights: Vector) -> Plan:
        """Return the plan of a mixture; for a single goal this is the plan of the goal."""
        plans = [goal.plan for goal, w in zip(self.goals, weights, strict=True) if w > 0.0]
        shares = weights[weights > 0.0]
        if len(plans) == 1:
            return plans[0]
        strengths = [plan.strengths for plan in plans]
        mixed = replace(
            strengths[0],
            smooth=float(shares @ [each.smooth for each in strengths]),
            anchor=float(shares @ [each.anchor for each in strengths]),
            pair_smooth=1.0 / float(shares @ [1.0 / each.pair_smooth for each in strengths]),
        )
        rounds = max(plan.rounds for plan in plans)
        return replace(_unite_pairs(plans), strengths=mixed, rounds=rounds)

    def _grid_strengths(self, plan: Plan, weights: Vector) -> Vector:
        """Return the strength of every grid of a mixture."""
        inverse = [
            sum(
                weight / goal.plan.strengths.pair_smooth
                for weight, goal in zip(weights, self.goals, strict=True)
                if pair in goal.plan.pairs
            )
            for pair in plan.pairs
        ]
        return 1.0 / np.array(inverse, dtype=np.float64)

    def risks(self, coef: Vector) -> Vector:
        """Return the risk R_k of every goal."""
        scores = self._plan.problem(self.goals[0].data, None).scores(coef)
        return np.array([risk.evaluate(scores)[0] for risk in self._risks])

    def describe(self, result: FitResult, weights: Vector) -> FitResult:
        """Add the fitted attributes of tables."""
        plan, solution = self._mixed_plan(weights), result.solutions[0]
        coef = plan.convert_parameters(solution.coef, self._plan)
        return self._describe(replace(result, solutions=[replace(solution, coef=coef)]), plan)


class OnePassMixture(GoalMixture):
    """List losses of ``ElasticRanker``: every list is learned from once for each goal.

    A step for goal k weighs b_k N / N_k, where N_k of the N lists with a gradient have one for goal
    k, so that the mean loss of all steps is the mixture. A single goal is learned as in a fit to
    it. Every point is a separate run, since one pass depends on where it starts.

    ``learn`` fits to a task, and ``learner`` starts at weights.
    """

    exact = False

    def __init__(
        self,
        task: FitTask,
        sources: Sequence[MemorySource],
        learn: Callable[[FitTask], FitResult],
        learner: Callable[[Vector], Any],
    ) -> None:
        self.task = task
        self.learn = learn
        self.learner = learner
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
        result = self.learn(replace(self.task, source=source))
        # A warm start cannot continue a run on copies of lists.
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
            learner = self.learner(coef)
            # One step for all lists: all losses are computed before any weight changes.
            learner.batch_lists = len(usable)
            learner.learn(data, usable, learner.lists(data, source.query_weight))
            out.append(learner.mean_loss)
        return np.array(out)
