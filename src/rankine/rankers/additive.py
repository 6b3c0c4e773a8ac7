"""AdditiveRanker: curves of single columns and tables of pairs, exact and explained."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from rankine.core.checks import check_choice, check_count, check_list, check_positive
from rankine.core.edits import Edit, check_edit
from rankine.core.errors import FeatureMismatchError, ParameterError
from rankine.data.dataset import Dataset
from rankine.data.frames import in_memory
from rankine.kernels.binned import BinnedProducts
from rankine.metrics import parse_metric
from rankine.model import LinearModel
from rankine.model.checks import MAX_ROUNDS, SavedProgress, read_progress
from rankine.model.shapes import SHAPES
from rankine.model.tables import Tables, find_tables
from rankine.rankers.additive_search import (
    FOLD_METRIC,
    LOSSES,
    NORMALIZATIONS,
    STIFF,
    Plan,
    PlanSearch,
    PlanSolver,
    TableData,
    best_pairs,
    check_loss,
    choose_rounds,
    evaluate_plan,
    final_risk,
    first_solution,
    minimise,
    plan_of_all_lists,
    sample,
    search,
    solve_plan,
    split_folds,
)
from rankine.rankers.base import BaseRanker
from rankine.rankers.capabilities import Capabilities
from rankine.rankers.clicks import QueryDivisor
from rankine.rankers.fitting import Evaluator, FitResult, FitTask, warn_not_converged
from rankine.rankers.inputs import FitArguments, FittedColumns, read_query_index
from rankine.rankers.intervals import covariance_of_rows, solve_to_intervals
from rankine.rankers.path import Step, TablePath
from rankine.rankers.path_fitting import PathGrid, PathMixin
from rankine.rankers.registry import Choice, Condition, Number
from rankine.rankers.table_data import (
    TableColumns,
    TableReader,
    fit_table_bins,
    read_tables,
    unordered_columns,
)
from rankine.rankers.table_edits import EditableTables, measured
from rankine.solvers.base import Callback, report_progress
from rankine.solvers.fixed import FixedEntries, FixedPenalty
from rankine.solvers.newton import move_solution
from rankine.solvers.shapes import CURVED, keep_shapes
from rankine.solvers.sketch import sketch
from rankine.solvers.tables import (
    PenaltyStrengths,
    TablePenalty,
    TableProblem,
    least_penalty_parameters,
    purify,
    standardised_bin_centres,
)
from rankine.transforms.bins import TableScorer, layout_of
from rankine.transforms.scaling import Scaling, check_scale

if TYPE_CHECKING:
    from rankine.core.specs import Bins
    from rankine.kernels.binned import TableLayout
    from rankine.logs.encoding import LogRecord
    from rankine.model.covariance import WeightCovariance
    from rankine.rankers.goals import GoalMixture
    from rankine.rankers.sources import MemorySource
    from rankine.solvers.base import Solution
    from rankine.solvers.sandwich import Covariance

#: A fit with intervals goes on to this share of ``tol``, which costs less than computing the
#: covariance twice.
FIRST_TOL = 1e-5


#: What ``predict`` arranges once for each fitted ranker. Not an attribute, which copies and pickles
#: would contain.
_scorers: WeakKeyDictionary[AdditiveRanker, TableScorer] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class FittedTables:
    """What a warm start continues from."""

    plan: Plan
    theta: NDArray[np.float64]
    linear_scaling: Scaling
    #: Numbers of the columns that stay linear.
    linear: tuple[int, ...]
    #: Entries of curves that people fixed, in the order of the edits.
    edits: tuple[Edit, ...] = ()


@dataclass(eq=False, repr=False)
class AdditiveRanker(PathMixin, BaseRanker):
    r"""Sum of tables: one curve a column, one grid for each of a few pairs of columns.

    .. math:: f(x) = \sum_j t_j[\mathrm{bin}_j(x_j)] + \sum_{(a,b)} g_{ab}[\mathrm{bin}_a(x_a),
              \mathrm{bin}_b(x_b)]

    Columns are cut at quantiles, missing values (NaN) have a separate cell, and the tables
    minimise

    .. math:: J = \sum_q \frac{v_q}{N_q} \sum_{(i,j) \in q:\, y_i > y_j} s_i s_j
              \max(0, 1 - (f(x_i) - f(x_j)))^2 + \tfrac12 \theta^\top K \theta

    where K charges differences of neighbouring bins (``smooth``), of neighbouring cells of grids
    (``pair_smooth``) and the slopes of a linear part (``anchor``), so that strong smoothing leaves
    a linear ranker. J is a sum over queries: strengths do not depend on their number. The result
    is exact up to the certified gap and the same, to the bit, for any number of threads.

    Parameters
    ----------
    bins
        Bins of a column at most, 2 to 255.
    pairs
        Pairs of columns that get a grid: how many at most, sought where the curves leave most
        to gain (on held-out queries: all, a third, an eighth or none of them); or the pairs
        themselves, by name or number, which are kept.
    smooth
        Strength on differences of neighbouring bins: the price of a ramp of height 1 over a whole
        column. None chooses all strengths along warm-started paths, on ``eval_set``, on a fifth of
        the queries, or with fewer than 1,000 queries on five folds, and then solves on all.
    pair_smooth
        Strength on differences within grids. None takes ``smooth``, or chooses as it does.
    anchor
        Strength on slopes and on the weights of linear columns. None: 1 with ``smooth`` given,
        else chosen as well; a warm start keeps the value of the model.
    loss
        ``"squared_hinge"``, or any other registered smooth pair loss with an exact sum
        (``"logistic"``; ``docs/add-a-loss.md``); or ``"softmax"``: cross entropy between the
        scores' softmax and the gains of each query: 2^label - 1 of grades, amounts as they are.
    normalization
        ``"query"``: every query counts alike; ``"pair"``: it counts by its pairs, or with
        ``loss="softmax"`` by its gain, which suits amounts such as money.
    shapes
        Column -> ``"increasing"``, ``"decreasing"``, ``"convex"`` or ``"concave"``: the shape of
        the column's whole effect, its curve plus every grid it takes part in. Convex and concave
        columns take part in no pair. Missing values are not constrained.
    categorical
        Columns whose numbers name categories: tables without order, a cell for unseen values.
    linear
        Columns that stay linear, such as hashed ones.
    reweight
        Rounds in which pairs weigh by how much DCG changes when they change places, up to the
        metric's cutoff; a round is kept when held-out queries gain. None: 1 when ``smooth=None``
        chooses by one split, else 0.
    tol
        Stop when the certified gap is at most ``tol`` times the objective at 0.
    max_iter
        Newton steps at most, for every solution.
    metric, warm_start, random_state
        See ``BaseRanker``. A warm start, or a model of this ranker as ``coef_init``, keeps cuts,
        pairs, strengths and rounds and starts from its tables. Parameters that differ
        replace these (strengths that are numbers, pairs by name or fewer of them, ``reweight``) or
        raise (``bins``, ``categorical``, ``linear``, more pairs). Entries that were fixed by
        ``edit`` stay fixed.
    scale
        ``"auto"`` and ``"none"`` alike leave columns as they are: quantiles make scaling void.
    early_stopping
        Strengths of a path without a better metric before the path ends; None: 2. A warm start
        keeps strengths and searches none.
    n_threads
        Threads; None takes what the machine offers.
    propensity, max_weight, position_offset
        Learn from clicks, see ``BaseRanker``.

    Attributes
    ----------
    coef_
        Entries of all tables, curves centred and grids purified; then linear weights.
    bins_, grids_
        What a row's cells are (``rankine.core.specs``).
    pairs_
        Pairs with a grid, best first: names of columns, or numbers where they have none.
    strengths_
        Chosen strengths.
    evals_
        Every plan tried on held-out queries with its metric; of an edit, the metric before and
        after.
    edits_
        Entries that ``edit`` fixed, and what each edit changed.
    solution_
        Objective, certificate, trace and reason to stop; ``coef`` holds the parameters.

    Examples
    --------
    >>> import numpy as np
    >>> from rankine import AdditiveRanker
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (400, 2))
    >>> y = np.digitize(X[:, 0] ** 2 + 0.1 * X[:, 1], [0.2, 0.6])
    >>> ranker = AdditiveRanker(smooth=0.1, pairs=0).fit(X, y, qid=np.repeat(np.arange(40), 10))
    >>> low, middle, high = ranker.predict([[-0.9, 0.0], [0.0, 0.0], [0.9, 0.0]])
    >>> bool(low > middle < high)
    True

    References
    ----------
    Lou, Caruana, Gehrke, Hooker (2013), Accurate intelligible models with pairwise interactions.
    Lucchese, Nardini, Orlando, Perego, Veneri (2022), ILMART: interpretable ranking with
    constrained LambdaMART.
    """

    bins: int = 64
    pairs: int | Sequence[tuple[Any, Any]] = 30
    smooth: float | None = None
    _: KW_ONLY
    pair_smooth: float | None = None
    anchor: float | None = None
    loss: str = "squared_hinge"
    normalization: str = "query"
    shapes: Mapping[Any, str] | None = None
    categorical: Sequence[Any] = ()
    linear: Sequence[Any] = ()
    reweight: int | None = None
    tol: float = 1e-3
    max_iter: int = 100
    n_threads: int | None = None

    system: ClassVar[str] = "additive"
    capabilities = Capabilities(
        fit=("memory", "stream", "partitions"),
        path=("memory", "stream"),
        checkpoint=("memory", "stream", "partitions"),
        query_weight=("memory", "stream"),
        journal=True,
    )
    no_effect_with: ClassVar[Mapping[str, Condition]] = {"pair_smooth": {"pairs": (0,)}}
    path_grid: ClassVar[PathGrid] = PathGrid(n_steps=10, min_ratio=1e-6)
    takes_missing: ClassVar[bool] = True
    scales: ClassVar[bool] = False
    takes_tables: ClassVar[bool] = True
    #: Values the LETOR protocol tries on validation data.
    letor_grid: ClassVar[dict[str, list[Any]]] = {"smooth": [0.1, 1.0, 10.0, 100.0, 1000.0]}
    #: What tuning searches.
    search_space: ClassVar[dict[str, Choice | Number]] = {
        "smooth": Number(1e-3, 1e3, log=True),
        "pair_smooth": Number(1e-2, 1e2, log=True, unless={"pairs": (0,)}),
        "pairs": Number(0, 50, integer=True),
        "loss": Choice(LOSSES),
    }

    # ---------------------------------------------------------------- training
    def _solve(self, task: FitTask) -> FitResult:
        columns = TableColumns.from_columns(task.columns, self.linear)
        previous = self._previous_fit(task, columns)
        # Cuts, and the unit of linear columns, stay as they were in a warm start.
        linear_scaling = None
        if previous is None:
            bins = fit_table_bins(task.source, columns, self.bins, self.categorical)
        elif isinstance(previous, Tables):
            bins = previous.bins
        else:
            bins, linear_scaling = previous.plan.bins, previous.linear_scaling
        data, reader = read_tables(task.source, columns, bins, linear_scaling, self.n_threads)

        evals: list[dict[str, float]] = []
        edits: tuple[Edit, ...] = ()
        start: NDArray[np.float64] | None
        if previous is None:
            plan, start = self._search_plan(task, data, reader, evals)
        else:
            if isinstance(previous, Tables):
                previous = self._tables_of_model(previous, task.start_model, data, reader)
            plan = self._update_plan(previous, task, data, reader, evals)
            start = plan.convert_parameters(previous.theta, previous.plan)
            edits = previous.edits

        counts = self._cell_counts(plan.space.layout, data)
        editable = EditableTables.from_task(task, plan, counts, reader)
        penalty = editable.penalty(edits)
        if task.edit is not None:
            edit = editable.resolve(task.edit)
            edited_penalty = editable.penalty((*edits, edit))

        # The search evaluates plans; only the user's callbacks follow the final solution.
        options: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter}
        risk, round_start = final_risk(plan, data, start, callbacks=task.callbacks, **options)
        if task.edit is None:
            start = round_start
        problem = plan.problem(data, risk)
        before: Solution | None = None
        if task.edit is not None:
            # Solved on these rows, so that the change is that of the edit alone.
            before = minimise(problem, penalty, start=start, callbacks=task.callbacks, **options)
            entries_before, start, penalty = penalty.entries, before.coef, edited_penalty
        result = replace(task, evaluator=None).run(
            lambda _, monitor: minimise(
                problem, penalty, start=start, callbacks=monitor.callbacks, **options
            )
        )
        covariance = None
        if task.intervals:
            result, covariance = self._measure_covariance(task, result, problem, penalty)
        theta, entries = result.solution.coef, penalty.entries
        evaluator = task.evaluator
        if evaluator is not None and (evaluator.named or before is not None):
            solutions = [theta]
            if before is not None:
                # As they are stored: equal entries are ties, and rounding would break them.
                solutions = []
                for solved, fixed in ((before.coef, entries_before), (theta, entries)):
                    tables, _ = self._model_weights(plan, data, reader, solved, fixed)
                    solutions.append(plan.with_tables(solved, tables))
            evals += _evaluate_sets(plan, reader, evaluator, solutions)
        if before is not None:
            values = [record["value"] for record in evals]
            edits = (*edits, measured(edit, before, result.solution, self.metric, values))
        numbered = [{"step": step, **record} for step, record in enumerate(evals)]
        result = replace(result, evals=[numbered]).with_parameters(**plan.chosen())
        if covariance is not None:
            weights = self._weight_covariance(covariance, plan, data, reader, entries)
            result = result.with_attributes(covariance_=weights)
        return self._describe(result, plan, data, reader, edits, entries)

    def _measure_covariance(
        self,
        task: FitTask,
        result: FitResult,
        problem: TableProblem,
        penalty: TablePenalty | FixedPenalty,
    ) -> tuple[FitResult, Covariance]:
        """Solve close enough to the optimum for intervals, and compute the covariance."""
        n = problem.risk.queries.n_queries
        # J is a sum over lists, which all have the same share of the penalty.
        shares = np.full(n, 1.0 / n)

        def solve(start: NDArray[np.float64], tol: float) -> Solution:
            options: dict[str, Any] = {"max_iter": self.max_iter, "callbacks": task.callbacks}
            return minimise(problem, penalty, start=start, tol=tol, **options)

        return solve_to_intervals(
            result,
            self.tol,
            lambda theta: sketch(problem, penalty, theta, shares),
            solve,
            partial(move_solution, problem, penalty),
            first_tol=FIRST_TOL * self.tol,
        )

    def _weight_covariance(
        self,
        covariance: Covariance,
        plan: Plan,
        data: TableData,
        reader: TableReader,
        entries: FixedEntries | None,
    ) -> WeightCovariance:
        """Return the covariance of table entries and linear weights, from that of parameters."""
        n_linear = len(reader.columns.linear)
        columns = []
        for theta in np.ascontiguousarray(covariance.factor.T):
            tables, weights = self._model_weights(plan, data, reader, theta)
            if entries is not None:
                tables[entries.cells] = 0.0  # up to rounding they have no variance
            columns.append(np.concatenate([tables, weights[:n_linear]]))
        return covariance_of_rows(covariance, np.column_stack(columns))

    def _check_bootstrap(self, arguments: FitArguments) -> None:  # noqa: ARG002
        raise ParameterError(
            "every training would choose other cuts, so that cells could not be compared",
            parameter="bootstrap",
            fix="Leave it out: additive rankers have a formula",
        )

    def _check_intervals(self) -> None:
        if self.shapes:
            raise ParameterError(
                "entries at the bound of a shape have no interval around them",
                parameter="intervals",
                fix="Leave it out, or train without shapes",
            )

    def _describe(
        self,
        result: FitResult,
        plan: Plan,
        data: TableData,
        reader: TableReader,
        edits: Sequence[Edit] = (),
        entries: FixedEntries | None = None,
    ) -> FitResult:
        """Add the fitted attributes of tables to a result."""
        columns, theta = reader.columns, result.solution.coef
        tables, weights = self._model_weights(plan, data, reader, theta, entries)
        # Linear columns come first, then the offsets of positions.
        linear, offsets = np.split(weights, [len(columns.linear)])
        bins, grids = columns.over_all_columns(plan.bins, plan.grids)
        names: Any = bins.names or range(columns.columns.n_features)
        numbers = columns.numbers
        pairs = [(names[numbers[a]], names[numbers[b]]) for a, b in plan.pairs]
        result = result.with_attributes(
            coef_=np.concatenate([tables, linear]),
            bins_=bins,
            grids_=grids,
            pairs_=pairs,
            strengths_=plan.strengths,
            edits_=[edit.to_dict() for edit in edits],
            _last_fit=FittedTables(
                plan, theta, reader.linear_scaling, columns.linear, tuple(edits)
            ),
        )
        if len(offsets):
            result = result.with_attributes(position_offset_=np.r_[0.0, offsets])
        return replace(result, training={"interactions": [list(pair) for pair in pairs]})

    def _model_weights(
        self,
        plan: Plan,
        data: TableData,
        reader: TableReader,
        theta: NDArray[np.float64],
        entries: FixedEntries | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return tables with centred curves and pure grids, and weights of unscaled columns."""
        space = plan.space
        tables = purify(space, space.tables(theta), self._cell_counts(space.layout, data))
        if entries is not None:
            tables = entries.restore(tables)
        if space.shapes.any():
            tables = keep_shapes(space, tables)
        weights = theta[space.size - space.n_linear :]
        if len(weights):
            weights = reader.linear_scaling.fold(weights)
        return tables, weights

    def _search_plan(
        self, task: FitTask, data: TableData, reader: TableReader, evals: list[dict[str, float]]
    ) -> tuple[Plan, NDArray[np.float64] | None]:
        """Choose strengths, pairs and rounds; return the plan and parameters to start from."""
        plan = self._first_plan(data, reader)
        pairs = self._chosen_pairs(reader.columns)
        solver = PlanSolver(task.source.journal)
        rounds = self.reweight
        folds = []
        if task.evaluator is not None or self.smooth is None or rounds:
            folds = self._split_lists(task, data, reader)
        if self.smooth is None:
            patience = 2
            if self.early_stopping is not None:
                patience = self.early_stopping
            given = self._given_strengths()
            plans = PlanSearch(folds, evals.append, solver, given, FOLD_METRIC)
            search(plans, plan, pairs, patience)
            if len(folds) == 1:
                plans.add_rounds(1 if rounds is None else rounds)
                return plans.best.plans[0], plans.best.thetas[0]
            plan, start = plan_of_all_lists(
                plans.best, pairs, data, sample(data, task.seed), solver
            )
        else:
            # Nothing is held out, so the seed of the fit is not used: the same lists every time.
            plan, start = first_solution(plan, sample(data, 0), data, pairs, solver)
        if rounds:
            plan = choose_rounds(plan, folds, rounds, evals.append, solver)
        return plan, start

    def _split_lists(
        self, task: FitTask, data: TableData, reader: TableReader
    ) -> list[tuple[TableData, TableData]]:
        """Return lists to search on and held-out lists: the evaluation set, or folds."""
        if task.evaluator is not None:
            return [(sample(data, task.seed), reader.read_eval_set(task.evaluator))]
        return split_folds(data, task.seed)

    def _shapes_of_columns(self, columns: TableColumns) -> dict[int, str]:
        """Return the shape of each column that has one, by its number among those with tables."""
        shapes = {
            columns.table_number(column): shape for column, shape in (self.shapes or {}).items()
        }
        categorical = {columns.table_number(column) for column in self.categorical}
        if not categorical.isdisjoint(shapes):
            raise ParameterError(
                "a column is also categorical, and categories have no order",
                parameter="shapes",
                fix="Take it out of shapes or of categorical",
            )
        return shapes

    def _first_plan(self, data: TableData, reader: TableReader) -> Plan:
        """Return the plan before any choice: curves alone, strengths as far as they are given."""
        strengths = replace(
            PenaltyStrengths(smooth=1.0, pair_smooth=1.0, anchor=1.0), **self._given_strengths()
        )
        counts = self._cell_counts(layout_of(reader.bins), data)
        return Plan(
            reader.bins,
            standardised_bin_centres(reader.bins, counts),
            counts,
            strengths,
            self.loss,
            self.metric,
            n_linear=data.n_linear,
            normalization=self.normalization,
            shapes=self._shapes_of_columns(reader.columns),
            max_iter=self.max_iter,
            threads=self.n_threads,
        )

    def _cell_counts(self, layout: TableLayout, data: TableData) -> NDArray[np.float64]:
        """Count the rows in every cell."""
        products = BinnedProducts(data.rows, layout, self.n_threads)
        return products.transpose_times(np.ones(data.lists.n_rows))

    def _read_tables(self, task: FitTask) -> tuple[TableData, TableReader]:
        """Cut the columns of a task and read its rows as cells."""
        columns = TableColumns.from_columns(task.columns, self.linear)
        bins = fit_table_bins(task.source, columns, self.bins, self.categorical)
        return read_tables(task.source, columns, bins, None, self.n_threads)

    def _chosen_pairs(self, columns: TableColumns) -> int | list[tuple[int, int]]:
        """Return the number of pairs to search for, or the pairs themselves."""
        if isinstance(self.pairs, (int, np.integer)):
            return int(self.pairs)
        curved = [column for column, shape in (self.shapes or {}).items() if shape in CURVED]
        return columns.pair_numbers(self.pairs, curved)

    # -------------------------------------------------------------- warm start
    def _check_start_model(self, model: LinearModel, columns: FittedColumns) -> None:
        """Leave the check to ``_start``, which also refuses weights."""

    def _start(self, coef_init: Any, columns: FittedColumns, scaling: Scaling) -> tuple[None, int]:  # noqa: ARG002
        """Check a model to start from; ``_solve`` continues from its cuts, pairs and tables."""
        if coef_init is None:
            return None, 0
        if not isinstance(coef_init, LinearModel) or coef_init.bins is None:
            raise ParameterError(
                "tables start from tables, and these are one weight per feature",
                parameter="coef_init",
                fix="Pass a model of AdditiveRanker, or leave it out",
            )
        if coef_init.n_columns != columns.n_features:
            raise FeatureMismatchError(
                f"the model to start from has {coef_init.n_columns} columns, the data "
                f"{columns.n_features}",
                fix=f"Read the data with n_features={coef_init.n_columns}",
            )
        columns.require_names(coef_init.column_names)
        return None, 0

    def _previous_fit(self, task: FitTask, columns: TableColumns) -> FittedTables | Tables | None:
        """Return what a warm start continues from: a model's tables or the last fit."""
        previous: FittedTables | Tables | None
        if task.start_model is not None:
            model_tables = find_tables(task.start_model)
            assert model_tables is not None  # noqa: S101 - checked by _start
            columns.require_linear(model_tables.bins.linear)
            previous = columns.over_table_columns(model_tables)
            self._require_same_cells(previous.bins, task.start_model.parameters, task, columns)
            return previous
        previous = None
        if self.warm_start or task.edit is not None:
            previous = getattr(self, "_last_fit", None)
        if previous is not None:
            columns.require_linear(previous.linear)
            parameters = self._fitted_parameters
            self._require_same_cells(previous.plan.bins, parameters, task, columns)
            # Weights of offsets are in the last fit, and not in a model.
            if parameters["position_offset"] != self.position_offset:
                raise _fixed_in_warm_start("position_offset", parameters["position_offset"])
        return previous

    def _require_same_cells(
        self, bins: Bins, parameters: Mapping[str, Any], task: FitTask, columns: TableColumns
    ) -> None:
        """Raise if the parameters demand other cells or more pairs than the earlier fit has."""
        start_bins = parameters.get("bins", self.bins)
        if start_bins != self.bins:
            raise _fixed_in_warm_start("bins", start_bins)
        if sorted(unordered_columns(task.source, columns, self.categorical)) != [*bins.unordered]:
            names: Any = bins.names or columns.numbers.tolist()
            raise _fixed_in_warm_start("categorical", [names[j] for j in bins.unordered])
        start_pairs, pairs = parameters.get("pairs"), self.pairs
        if (
            isinstance(pairs, (int, np.integer))
            and isinstance(start_pairs, int)
            and pairs > start_pairs
        ):
            raise _fixed_in_warm_start("pairs", start_pairs)

    def _tables_of_model(
        self, tables: Tables, model: LinearModel | None, data: TableData, reader: TableReader
    ) -> FittedTables:
        """Return plan and parameters of a model's tables, with the cell counts of these rows."""
        plan = self._first_plan(data, reader)
        progress = SavedProgress()
        if model is not None:
            progress = read_progress(model.provenance)
        certificate = progress.certificate
        saved = {name: getattr(certificate, name) for name in ("smooth", "pair_smooth", "anchor")}
        saved = {name: value for name, value in saved.items() if value is not None}
        strengths = replace(plan.strengths, **saved)
        plan = replace(plan, grids=tables.grids, strengths=strengths, rounds=certificate.rounds)
        space = plan.space
        weights, linear = np.split(tables.weights, [space.layout.size])
        if len(linear):
            factors = reader.linear_scaling.factors
            assert factors is not None  # noqa: S101 - standard scaling has some
            # The model's weights belong to unscaled columns, parameters to scaled ones.
            linear = linear / factors[: len(linear)]
        penalty = TablePenalty(space, plan.strengths)
        counts = self._cell_counts(space.layout, data)
        theta = least_penalty_parameters(penalty, weights, linear, counts)
        return FittedTables(
            plan, theta, reader.linear_scaling, reader.columns.linear, progress.edits
        )

    def _update_plan(
        self,
        previous: FittedTables,
        task: FitTask,
        data: TableData,
        reader: TableReader,
        evals: list[dict[str, float]],
    ) -> Plan:
        """Return the plan of an earlier fit with the changes that the parameters demand."""
        plan = replace(
            previous.plan,
            strengths=replace(previous.plan.strengths, **self._given_strengths()),
            loss=self.loss,
            normalization=self.normalization,
            metric=self.metric,
            shapes=self._shapes_of_columns(reader.columns),
            max_iter=self.max_iter,
            threads=self.n_threads,
        )
        pairs = self._chosen_pairs(reader.columns)
        if isinstance(pairs, int):
            # Best first; a column that is convex or concave now takes part in none.
            curved = {j for j, shape in plan.shapes.items() if shape in CURVED}
            free = [pair for pair in plan.pairs if curved.isdisjoint(pair)]
            pairs = free[:pairs]
        if pairs != plan.pairs:
            plan = plan.with_pairs(pairs)
        if self.reweight is None or task.edit is not None:
            return plan
        plan = replace(plan, rounds=0)
        if self.reweight == 0:
            return plan
        folds = self._split_lists(task, data, reader)
        solver = PlanSolver(task.source.journal)
        return choose_rounds(plan, folds, self.reweight, evals.append, solver)

    def _given_strengths(self) -> dict[str, float]:
        """Return the strengths that are given; grids have the strength of the curves by default."""
        strengths = {}
        if self.smooth is not None:
            strengths = {"smooth": float(self.smooth), "pair_smooth": float(self.smooth)}
        if self.pair_smooth is not None:
            strengths["pair_smooth"] = float(self.pair_smooth)
        if self.anchor is not None:
            strengths["anchor"] = float(self.anchor)
        return strengths

    def _mix_goals(self, task: FitTask, sources: Sequence[MemorySource]) -> GoalMixture:
        from rankine.rankers.goal_mixtures import TableGoal, TableMixture
        from rankine.rankers.goals import are_grades

        data, reader = self._read_tables(task)
        goals = []
        for source in sources:
            rows, queries = source.data, data.lists.queries
            lists = replace(data.lists, y=rows.y, weight=rows.weight, query_index=queries)
            goal_data = replace(data, lists=lists, query_weight=source.query_weight)
            goal_task = replace(task, source=source, evaluator=None)
            ranker, metric = copy(self), parse_metric(self.metric)
            if metric.gain == "exp" and not are_grades(rows.y):
                # Amounts have no exponential gain to choose strengths by.
                ranker.metric = str(replace(metric, gain="linear"))
            plan, start = AdditiveRanker._search_plan(ranker, goal_task, goal_data, reader, [])
            goals.append(TableGoal(plan, goal_data, start))
        return TableMixture(
            task, goals, self.tol, partial(self._describe, data=data, reader=reader)
        )

    # -------------------------------------------------------------------- path
    def _solve_path(
        self,
        task: FitTask,
        grid: PathGrid,
        options: Mapping[str, Any],  # noqa: ARG002 - it has none
    ) -> TablePath:
        """Solve for falling strengths and more and more pairs, each from the one before."""
        data, reader = self._read_tables(task)
        valid = None
        if task.evaluator is not None:
            valid = reader.read_eval_set(task.evaluator)
        plans = self._path_plans(data, reader, grid.values(STIFF))
        steps: list[Step] = []
        tables: list[tuple[Any, ...]] = []
        solutions: dict[str, Solution] = {}
        theta: NDArray[np.float64] | None = None
        for k, plan in enumerate(plans):
            started = time.perf_counter()
            start = None
            if theta is not None:
                start = plan.convert_parameters(theta, plans[k - 1])
            solution = solve_plan(plan, data, start, self.tol)
            theta = solution.coef
            coef = np.concatenate(self._model_weights(plan, data, reader, theta))
            if not grid.allows(int(np.count_nonzero(coef))):
                break
            value = math.nan
            if valid is not None:
                value = evaluate_plan(plan, valid, theta)
            strengths, n_pairs = plan.strengths, len(plan.pairs)
            objective = solution.objective
            steps.append(
                Step(
                    l1=strengths.smooth,
                    loss=objective - TablePenalty(plan.space, strengths).value(theta),
                    coef=coef,
                    seconds=time.perf_counter() - started,
                    value=value,
                    objective=objective,
                    relative_gap=solution.certificate["relative_gap"],
                )
            )
            tables.append(_without_none(*reader.columns.over_all_columns(plan.bins, plan.grids)))
            solutions[f"smooth={strengths.smooth:.3g}, {n_pairs} pairs"] = solution
            record = {"smooth": strengths.smooth, "pairs": n_pairs, self.metric: value}
            if report_progress(task.callbacks, "path", k + 1, len(plans), record, coef):
                break
        warn_not_converged(type(self).__name__, self.tol, solutions)
        # Rows of the path's weights are as long as those of the largest model.
        width = max((len(step.coef) for step in steps), default=0)
        padded = [
            step._replace(coef=np.pad(step.coef, (0, width - len(step.coef)))) for step in steps
        ]
        return TablePath.from_steps(self, task, padded, feature_names=None, tables=tuple(tables))

    def _path_plans(
        self, data: TableData, reader: TableReader, strengths: NDArray[np.float64]
    ) -> list[Plan]:
        """Return plans of falling strengths for curves alone, then for more and more pairs."""
        plan = self._first_plan(data, reader)
        pairs = self._chosen_pairs(reader.columns)
        if isinstance(pairs, int):
            n_pairs, pairs = pairs, []
            if n_pairs:
                # Found where curves of the ranker's own strength leave most to gain.
                theta = solve_plan(plan, data, None, self.tol).coef
                pairs = best_pairs(plan, data, theta, n_pairs)
        plans = []
        for n_grids in sorted({0, len(pairs) // 8, len(pairs) // 3, len(pairs)}):
            paired = plan.with_pairs(pairs[:n_grids])
            for smooth in strengths.tolist():
                changed = replace(plan.strengths, smooth=smooth, pair_smooth=smooth)
                if self.pair_smooth is not None:
                    changed = replace(changed, pair_smooth=float(self.pair_smooth))
                plans.append(replace(paired, strengths=changed))
        return plans

    # -------------------------------------------------------------------- edit
    def edit(
        self,
        fixed: Any,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: Any = None,
        eval_set: Any = None,
        eval_qid: Any = None,
        eval_group: Any = None,
        coef_init: LinearModel | None = None,
        callbacks: Sequence[Callback] = (),
        by: str | None = None,
        note: str | None = None,
    ) -> Self:
        """Fix entries of curves at given values and solve for all others again.

        Continues from the last fit, or from the model ``coef_init``, with its cuts, pairs and
        strengths. A curve is the one in ``coef_`` and in the model: its mean over the rows is 0.
        An edit that fails leaves the ranker as it was. See ``docs/how-to/edit.md``.

        Parameters
        ----------
        fixed
            Column -> entries: ``{"price": {(100, 200): 0.1}, "brand": {"acme": 0.0}}``. A key is a
            range ``(low, high)``, which fixes the bins that it meets, a category, None for missing
            values or infinity for all other categories. The value None frees entries that an
            earlier edit fixed; those that are not named stay fixed. Or a list of
            ``rankine.core.edits.FixedEntry``.
        X, y, qid, group, sample_weight, query_weight
            Rows to learn from, as in ``fit``: a fitted ranker keeps none.
        eval_set, eval_qid, eval_group
            Held-out rows, as in ``fit``: ``edits_`` records ``metric`` on them before and after.
        coef_init
            Model of an additive ranker to edit in place of the last fit.
        callbacks
            Functions of a ``Progress``; one that returns True stops training.
        by, note
            Who fixes the entries, and why; ``edits_`` and the model record both.

        Examples
        --------
        >>> import numpy as np
        >>> from rankine import AdditiveRanker
        >>> X = np.arange(80.0)[:, None] % 8
        >>> y, qid = (X[:, 0] > 3).astype(int), np.repeat(np.arange(10), 8)
        >>> ranker = AdditiveRanker(smooth=0.1, pairs=0).fit(X, y, qid=qid)
        >>> ranker = ranker.edit({0: {(6, 6): 0.25}}, X, y, qid=qid)
        >>> float(ranker.coef_[6])
        0.25
        """
        if coef_init is None:
            check_is_fitted(self, "_last_fit")
        edit = check_edit(fixed, by, note)
        self._fit(
            FitArguments(
                X=X,
                y=y,
                qid=qid,
                group=group,
                sample_weight=sample_weight,
                query_weight=query_weight,
                eval_set=eval_set,
                eval_qid=eval_qid,
                eval_group=eval_group,
                coef_init=coef_init,
                callbacks=callbacks,
                edit=edit,
            )
        )
        return self

    def _provenance(self) -> dict[str, Any]:
        provenance = super()._provenance()
        if self.edits_:
            provenance["edits"] = self.edits_
        return provenance

    # --------------------------------------------------------------------- use
    def predict(
        self,
        X: Any,
        qid: ArrayLike | None = None,
        *,
        group: ArrayLike | None = None,
    ) -> NDArray[np.float64]:
        """Return scores in row order; only their order within a query means anything.

        Rows are scored one by one: ``qid`` and ``group`` are checked, and change nothing.
        """
        X = in_memory(X)
        matrix = self._prediction_matrix(X)
        read_query_index(X, qid, group, matrix.shape[0])
        scorer = _scorers.get(self)
        fitted = (self.bins_, self.grids_, self.n_threads)
        if scorer is None or (scorer.bins, scorer.grids, scorer.threads) != fitted:
            scorer = _scorers[self] = TableScorer(*fitted)
        return scorer.score(self.coef_, matrix)

    def _align_columns(
        self, data: Dataset, columns: FittedColumns, log_record: LogRecord | None
    ) -> Dataset:
        """Return a dataset with the columns of a fit; a raw log is encoded as in training."""
        if log_record is not None and data.encoding is not None:
            encoding = log_record.encoding
            if data.encoding.spec.read_columns != encoding.spec.read_columns:
                data = encoding.encode(data)
        return super()._align_columns(data, columns, log_record)

    def _model_feature_names(self, names: Any) -> None:  # noqa: ARG002
        """Return None: the bins hold the names of the columns."""
        return

    def _transforms(self) -> tuple[Any, ...]:
        return _without_none(self.bins_, self.grids_)

    def _displayed_weights(self) -> tuple[list[str], NDArray[np.float64]]:
        """Return names and ranges of all tables."""
        terms = Tables(self.bins_, self.grids_, self.coef_, 0).ranges()
        return [name for name, _ in terms], np.array([size for _, size in terms])

    # -------------------------------------------------------------- parameters
    def _weighs_lists(self) -> bool:
        return self.normalization == "pair"

    def _divisor(self) -> QueryDivisor:
        if self.normalization == "pair":
            return QueryDivisor.NOTHING
        if self.loss == "softmax":
            return QueryDivisor.GAINS
        return QueryDivisor.PAIRS

    def _check(self) -> None:
        check_count("bins", self.bins)
        check_positive("tol", self.tol)
        check_count("max_iter", self.max_iter)
        check_loss(self.loss)
        check_choice("normalization", self.normalization, NORMALIZATIONS)
        for name in ("smooth", "pair_smooth", "anchor"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        if self.early_stopping is not None and self.smooth is not None:
            raise ParameterError(
                "it ends the search for strengths, and smooth is given",
                parameter="early_stopping",
                fix="Leave it out, or pass smooth=None",
            )
        if check_scale(self.scale) not in ("auto", "none"):
            raise ParameterError(
                f"{self.scale!r} is not available: cuts are quantiles of the unscaled columns",
                parameter="scale",
                fix="Use 'auto'; scale lists before training if they need it",
            )
        # Users may pass anything, whatever the types of the fields say.
        shapes: Any = {} if self.shapes is None else self.shapes
        names = shapes.values() if isinstance(shapes, Mapping) else (None,)
        if any(name not in SHAPES for name in names):
            raise ParameterError(
                f"{shapes!r} does not map columns to {', '.join(SHAPES)}",
                parameter="shapes",
                fix="Pass for example {'price': 'decreasing'}",
            )
        for name in ("categorical", "linear"):
            check_list(name, getattr(self, name), "columns, by name or number")
        pairs: Any = self.pairs
        if not isinstance(pairs, Integral):
            check_list("pairs", pairs, "pairs of columns, or a number of pairs")
            # As objects, because a pair of a number and a list has no shape.
            if any(np.array(pair, dtype=object).shape != (2,) for pair in pairs):
                raise ParameterError(
                    f"{pairs!r} is not a list of pairs of columns",
                    parameter="pairs",
                    fix="Pass for example [('price', 'age')], or a number of pairs",
                )
        elif pairs != 0:
            check_count("pairs", pairs)
        if self.reweight is not None and self.reweight != 0:
            check_count("reweight", self.reweight)
            if self.reweight > MAX_ROUNDS:
                raise ParameterError(
                    f"{self.reweight} rounds are more than {MAX_ROUNDS}",
                    parameter="reweight",
                    fix="Pass a smaller number",
                )


def _fixed_in_warm_start(name: str, start_value: Any) -> ParameterError:
    """Build the error for a parameter that a warm start cannot change."""
    return ParameterError(
        "a warm start keeps cuts, columns and the number of pairs, and this differs from the fit "
        f"to start from ({start_value})",
        parameter=name,
        fix=f"Pass {start_value}, or train without a warm start",
    )


def _evaluate_sets(
    plan: Plan,
    reader: TableReader,
    evaluator: Evaluator,
    solutions: Sequence[NDArray[np.float64]],
) -> list[dict[str, float]]:
    """Return the metric of each solution on all evaluation sets; the last one decides."""
    sets = {
        name: reader.read_eval_set(named)
        for name, named in (evaluator.named or {"value": evaluator}).items()
    }
    records = []
    for theta in solutions:
        values = {name: evaluate_plan(plan, data, theta) for name, data in sets.items()}
        records.append({"value": [*values.values()][-1], **values})
    return records


def _without_none(*specs: Any) -> tuple[Any, ...]:
    """Return the specifications that a model needs: bins, and grids if there are any."""
    return tuple(spec for spec in specs if spec is not None)
