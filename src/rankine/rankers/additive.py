"""AdditiveRanker: curves of single columns and tables of pairs, exact and explained."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankine.core.checks import check_count, check_positive
from rankine.core.errors import FeatureMismatchError, ParameterError
from rankine.data.dataset import Dataset
from rankine.kernels.binned import BinnedProducts
from rankine.model import LinearModel
from rankine.model.checks import MAX_ROUNDS, Certificate, read_progress
from rankine.model.tables import Tables, find_tables
from rankine.rankers.additive_search import (
    LOSSES,
    STIFF,
    Plan,
    PlanSolver,
    TableData,
    best_pairs,
    check_loss,
    choose_rounds,
    evaluate_plan,
    first_solution,
    hold_out,
    sample,
    search,
    solve_plan,
)
from rankine.rankers.base import BaseRanker
from rankine.rankers.capabilities import Capabilities
from rankine.rankers.clicks import QueryDivisor
from rankine.rankers.fitting import FitResult, FitTask, warn_not_converged
from rankine.rankers.inputs import FittedColumns
from rankine.rankers.path import Step, TablePath
from rankine.rankers.path_fitting import PathGrid, PathMixin
from rankine.rankers.registry import Choice, Number
from rankine.rankers.table_data import TableColumns, TableReader, fit_table_bins, read_tables
from rankine.solvers.base import report_progress
from rankine.solvers.tables import (
    PenaltyStrengths,
    TablePenalty,
    least_penalty_parameters,
    purify,
    standardised_bin_centres,
)
from rankine.transforms.bins import layout_of, score_tables
from rankine.transforms.scaling import Scaling, check_scale

if TYPE_CHECKING:
    from rankine.kernels.binned import TableLayout
    from rankine.solvers.base import Solution


@dataclass(frozen=True, eq=False)
class FittedTables:
    """What a warm start continues from."""

    plan: Plan
    theta: NDArray[np.float64]
    linear_scaling: Scaling


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
        to gain (the best of a third and an eighth as many is kept); or the pairs themselves, by
        name or number.
    smooth
        Strength on differences of neighbouring bins: the price of a ramp of height 1 over a whole
        column. None chooses all strengths along warm-started paths, on ``eval_set`` or on a fifth
        of the queries, and then solves on all.
    pair_smooth
        Strength on differences within grids; None takes ``smooth``.
    anchor
        Strength on slopes and on the weights of linear columns.
    loss
        ``"squared_hinge"``, or any other registered smooth pair loss with an exact sum
        (``"logistic"``; ``docs/add-a-loss.md``); or ``"softmax"``: cross entropy between the
        scores' softmax and the gains 2^label - 1 of each query.
    monotone
        Column -> 1 (scores rise with it) or -1 (they fall). Such a column takes part in no pair.
    categorical
        Columns whose numbers name categories: tables without order, a cell for unseen values.
    linear
        Columns that stay linear, such as hashed ones.
    reweight
        Rounds in which pairs weigh by how much DCG changes when they change places, up to the
        metric's cutoff; a round is kept when held-out queries gain. None: 1 with ``smooth=None``,
        else 0.
    tol
        Stop when the certified gap is at most ``tol`` times the objective at 0.
    max_iter
        Newton steps at most, for every solution.
    metric, warm_start, random_state
        See ``BaseRanker``. A warm start, or a model of this ranker as ``coef_init``, keeps cuts,
        pairs and strengths and starts from its tables; a ``smooth`` that is a number, or pairs by
        name, replace those.
    scale
        ``"auto"`` and ``"none"`` alike leave columns as they are: quantiles make scaling void.
    early_stopping
        Strengths of a path without a better metric before the path ends; None: 2.
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
        Every plan tried on held-out queries with its metric.
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
    anchor: float = 1.0
    loss: str = "squared_hinge"
    monotone: Mapping[Any, int] | None = None
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
    path_grid: ClassVar[PathGrid] = PathGrid(n_steps=10, min_ratio=1e-6)
    takes_missing: ClassVar[bool] = True
    scales: ClassVar[bool] = False
    takes_tables: ClassVar[bool] = True
    #: Values the LETOR protocol tries on validation data.
    letor_grid: ClassVar[dict[str, list[Any]]] = {"smooth": [0.1, 1.0, 10.0, 100.0, 1000.0]}
    #: What tuning searches.
    search_space: ClassVar[dict[str, Choice | Number]] = {
        "smooth": Number(1e-3, 1e3, log=True),
        "pair_smooth": Number(1e-2, 1e2, log=True),
        "pairs": Number(0, 50, integer=True),
        "loss": Choice(LOSSES),
    }

    # ---------------------------------------------------------------- training
    def _solve(self, task: FitTask) -> FitResult:
        columns = TableColumns.from_columns(task.columns, self.linear)
        previous = self._previous_fit(task.start_model, columns)
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
        start: NDArray[np.float64] | None
        if previous is None:
            plan, start = self._search_plan(task, data, reader, evals)
        else:
            if isinstance(previous, Tables):
                previous = self._tables_of_model(previous, task.start_model, data, reader)
            plan = self._update_plan(previous.plan, columns)
            start = plan.convert_parameters(previous.theta, previous.plan)

        # The search evaluates plans; only the user's callbacks follow the final solution.
        result = replace(task, evaluator=None).run(
            lambda _, monitor: solve_plan(plan, data, start, self.tol, monitor.callbacks)
        )
        theta = result.solution.coef
        if task.evaluator is not None and task.evaluator.named:
            values = {
                name: evaluate_plan(plan, reader.read_eval_set(evaluator), theta)
                for name, evaluator in task.evaluator.named.items()
            }
            evals.append({"value": [*values.values()][-1], **values})
        numbered = [{"step": step, **record} for step, record in enumerate(evals)]
        result = replace(result, evals=[numbered]).with_parameters(**plan.chosen())
        return self._describe(result, plan, data, reader)

    def _describe(
        self, result: FitResult, plan: Plan, data: TableData, reader: TableReader
    ) -> FitResult:
        """Add the fitted attributes of tables to a result."""
        columns, theta = reader.columns, result.solution.coef
        tables, weights = self._model_weights(plan, data, reader, theta)
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
            _last_fit=FittedTables(plan, theta, reader.linear_scaling),
        )
        if len(offsets):
            result = result.with_attributes(position_offset_=np.r_[0.0, offsets])
        return replace(result, training={"interactions": [list(pair) for pair in pairs]})

    def _model_weights(
        self, plan: Plan, data: TableData, reader: TableReader, theta: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return tables with centred curves and pure grids, and weights of unscaled columns."""
        space = plan.space
        tables = purify(space, space.tables(theta), self._cell_counts(space.layout, data))
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
        rounds = int(self.smooth is None)
        if self.reweight is not None:
            rounds = self.reweight
        train = valid = data
        if task.evaluator is not None:
            valid = reader.read_eval_set(task.evaluator)
        elif self.smooth is None or rounds:
            train, valid = hold_out(data, task.seed)
        if self.smooth is None:
            patience = 2
            if self.early_stopping is not None:
                patience = self.early_stopping
            return search(
                plan, train, valid, pairs, rounds, patience, task.seed, evals.append, solver
            )
        # Nothing is held out, so the seed of the fit is not used: the same lists every time.
        plan, start = first_solution(plan, sample(data, 0), data, pairs, solver)
        if rounds:
            plan = choose_rounds(plan, train, valid, rounds, evals.append, solver)
        return plan, start

    def _first_plan(self, data: TableData, reader: TableReader) -> Plan:
        """Return the plan before any choice: curves alone, strengths as far as they are given."""
        strengths = replace(
            PenaltyStrengths(smooth=1.0, pair_smooth=1.0, anchor=float(self.anchor)),
            **self._given_strengths(),
        )
        monotone = {
            reader.columns.table_number(column): sign
            for column, sign in (self.monotone or {}).items()
        }
        counts = self._cell_counts(layout_of(reader.bins), data)
        return Plan(
            reader.bins,
            standardised_bin_centres(reader.bins, counts),
            counts,
            strengths,
            self.loss,
            self.metric,
            n_linear=data.n_linear,
            monotone=monotone,
            max_iter=self.max_iter,
            threads=self.n_threads,
        )

    def _cell_counts(self, layout: TableLayout, data: TableData) -> NDArray[np.float64]:
        """Count the rows in every cell."""
        products = BinnedProducts(data.rows, layout, self.n_threads)
        return products.transpose_times(np.ones(data.lists.n_rows))

    def _chosen_pairs(self, columns: TableColumns) -> int | list[tuple[int, int]]:
        """Return the number of pairs to search for, or the pairs themselves."""
        if isinstance(self.pairs, (int, np.integer)):
            return int(self.pairs)
        return columns.pair_numbers(self.pairs, self.monotone or ())

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

    def _previous_fit(
        self, model: LinearModel | None, columns: TableColumns
    ) -> FittedTables | Tables | None:
        """Return what a warm start continues from: a model's tables or the last fit."""
        if model is None:
            return getattr(self, "_last_fit", None) if self.warm_start else None
        tables = find_tables(model)
        assert tables is not None  # noqa: S101 - checked by _start
        return columns.over_table_columns(tables)

    def _tables_of_model(
        self, tables: Tables, model: LinearModel | None, data: TableData, reader: TableReader
    ) -> FittedTables:
        """Return plan and parameters of a model's tables, with the cell counts of these rows."""
        plan = self._first_plan(data, reader)
        certificate = Certificate()
        if model is not None:
            certificate = read_progress(model.provenance).certificate
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
        return FittedTables(plan, theta, reader.linear_scaling)

    def _update_plan(self, plan: Plan, columns: TableColumns) -> Plan:
        """Replace strengths and pairs of an earlier fit by those that are given now."""
        strengths = replace(plan.strengths, **self._given_strengths())
        plan = replace(plan, strengths=strengths, max_iter=self.max_iter)
        pairs = self._chosen_pairs(columns)
        if isinstance(pairs, int):
            return plan
        return plan.with_pairs(pairs)

    def _given_strengths(self) -> dict[str, float]:
        """Return the strengths that are given; grids have the strength of the curves by default."""
        strengths = {}
        if self.smooth is not None:
            strengths = {"smooth": float(self.smooth), "pair_smooth": float(self.smooth)}
        if self.pair_smooth is not None:
            strengths["pair_smooth"] = float(self.pair_smooth)
        return strengths

    # -------------------------------------------------------------------- path
    def _solve_path(
        self,
        task: FitTask,
        grid: PathGrid,
        options: Mapping[str, Any],  # noqa: ARG002 - it has none
    ) -> TablePath:
        """Solve for falling strengths and more and more pairs, each from the one before."""
        columns = TableColumns.from_columns(task.columns, self.linear)
        bins = fit_table_bins(task.source, columns, self.bins, self.categorical)
        data, reader = read_tables(task.source, columns, bins, None, self.n_threads)
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
            tables.append(_without_none(*columns.over_all_columns(plan.bins, plan.grids)))
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
        return TablePath.from_steps(self, task, padded, tables=tuple(tables))

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

    # --------------------------------------------------------------------- use
    def predict(
        self,
        X: Any,
        _qid: ArrayLike | None = None,
        *,
        group: ArrayLike | None = None,  # noqa: ARG002 - rows are scored one by one
    ) -> NDArray[np.float64]:
        """Return scores in row order; only their order within a query means anything."""
        matrix = self._prediction_matrix(X)
        return score_tables(self.bins_, self.grids_, self.coef_, matrix, self.n_threads)

    def _align_columns(self, data: Dataset) -> Dataset:
        """Return a dataset with the columns of the fit; a raw log is encoded as in training."""
        log_record = getattr(self, "log_record_", None)
        if log_record is not None and data.encoding is not None:
            encoding = log_record.encoding
            if data.encoding.spec.read_columns != encoding.spec.read_columns:
                data = encoding.encode(data)
        return super()._align_columns(data)

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
    def _divisor(self) -> QueryDivisor:
        if self.loss == "softmax":
            return QueryDivisor.GAINS
        return QueryDivisor.PAIRS

    def _check(self) -> None:
        check_count("bins", self.bins)
        check_positive("tol", self.tol)
        check_count("max_iter", self.max_iter)
        check_loss(self.loss)
        check_positive("anchor", self.anchor)
        if self.smooth is not None:
            check_positive("smooth", self.smooth)
        if self.pair_smooth is not None:
            check_positive("pair_smooth", self.pair_smooth)
        if check_scale(self.scale) not in ("auto", "none"):
            raise ParameterError(
                f"{self.scale!r} is not available: cuts are quantiles of the unscaled columns",
                parameter="scale",
                fix="Use 'auto'; scale lists before training if they need it",
            )
        if not set((self.monotone or {}).values()) <= {-1, 1}:
            raise ParameterError(
                "a column is mapped to something else than 1 or -1",
                parameter="monotone",
                fix="Use 1 (rising) or -1 (falling)",
            )
        if isinstance(self.pairs, (int, np.integer)):
            valid = self.pairs >= 0
        else:
            valid = all(np.shape(pair) == (2,) for pair in self.pairs)
        if not valid:
            raise ParameterError(
                f"{self.pairs!r} is neither a number of pairs nor a list of pairs of columns",
                parameter="pairs",
                fix="Pass 0 or more, or a list such as [('price', 'brand')]",
            )
        if self.reweight is not None and not 0 <= self.reweight <= MAX_ROUNDS:
            raise ParameterError(
                f"{self.reweight} is not between 0 and {MAX_ROUNDS}",
                parameter="reweight",
                fix="Pass a number of rounds, such as 2",
            )


def _without_none(*specs: Any) -> tuple[Any, ...]:
    """Return the specifications that a model needs: bins, and grids if there are any."""
    return tuple(spec for spec in specs if spec is not None)
