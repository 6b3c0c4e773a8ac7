"""AdditiveRanker: curves of single columns and tables of pairs, exact and explained."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from rankine.core.checks import check_choice, check_count, check_positive
from rankine.core.errors import FeatureMismatchError, ParameterError
from rankine.core.specs import Bins
from rankine.data.dataset import Dataset, concat, drain, first_lists
from rankine.kernels.binned import BinnedProducts
from rankine.model import LinearModel
from rankine.model.tables import Tables, find_tables
from rankine.rankers.additive_search import (
    LOSSES,
    STIFF,
    Plan,
    Records,
    TableData,
    best_pairs,
    first_solution,
    hold_out,
    judge_rounds,
    judged,
    sample,
    search,
    solve_plan,
)
from rankine.rankers.base import BaseRanker
from rankine.rankers.fitting import Evaluator, FitResult, FitTask, warn_not_converged
from rankine.rankers.path import Step, TablePath, check_steps
from rankine.rankers.provenance import json_parameters
from rankine.rankers.registry import Choice, Number
from rankine.rankers.sources import Capabilities
from rankine.solvers.base import report_progress
from rankine.solvers.tables import (
    PenaltyStrengths,
    TablePenalty,
    least_penalty_parameters,
    purify,
    standardised_bin_centres,
)
from rankine.transforms.bins import (
    BinCoder,
    CodeStore,
    RowSample,
    fit_bins,
    layout_of,
    linear_part,
    score_tables,
)
from rankine.transforms.scaling import Scaling, check_scale, fit_scaling

if TYPE_CHECKING:
    from rankine.core.specs import Grids
    from rankine.kernels.binned import BinnedRows, TableLayout
    from rankine.solvers.base import Callback

_STRENGTHS = ("smooth", "pair_smooth", "anchor")


@dataclass(eq=False, repr=False)
class AdditiveRanker(BaseRanker):
    r"""Sum of tables: one curve a column, one grid for each of a few pairs of columns.

    .. math:: f(x) = \sum_j t_j[\mathrm{bin}_j(x_j)] + \sum_{(a,b)} g_{ab}[\mathrm{bin}_a(x_a),
              \mathrm{bin}_b(x_b)]

    Columns are cut at quantiles, missing values (NaN) have a cell of their own, and the tables
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
        ``"squared_hinge"`` over pairs, or ``"softmax"``: cross entropy between the scores'
        softmax and the gains 2^label - 1 of each query.
    monotone
        Column -> 1 (scores rise with it) or -1 (they fall). Such a column takes part in no pair.
    categorical
        Columns whose numbers name categories: tables without order, a cell for unseen values.
    linear
        Columns that stay linear, such as hashed ones, beside the tables.
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
    )
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

    _plan: Plan = field(init=False)
    _theta: NDArray[np.float64] = field(init=False)
    #: Columns with cells.
    _cells: NDArray[np.int64] = field(init=False)

    # ---------------------------------------------------------------- training
    def _solve(self, task: FitTask) -> FitResult:
        before, start = self._before()
        data, bins = self._read(task.source, None if before is None else before.bins)
        records = Records(task.source.journal)
        tried: list[dict[str, float]] = []
        if isinstance(before, Tables):
            before, start = self._plan_of(before, data)
        if before is None:
            plan, start = self._choose(self._first_plan(bins, data), data, task, tried, records)
        else:
            plan = self._asked(before)
            start = None if start is None else plan.carried(start, before)
        # Plans are judged above; the last solution is watched by the user's callbacks alone.
        result = replace(task, evaluator=None).run(
            lambda _, monitor: solve_plan(plan, data, start, self.tol, monitor.callbacks)
        )
        self._plan, self._theta = plan, result.solution.coef
        self._data = data
        if task.evaluator is not None and task.evaluator.named:
            sets = {
                name: self._held_out(one, plan.bins) for name, one in task.evaluator.named.items()
            }
            values = {name: judged(plan, one, self._theta) for name, one in sets.items()}
            tried.append({"value": [*values.values()][-1], **values})
        evals = [{"step": k, **one} for k, one in enumerate(tried)]
        return replace(result, evals=[evals]).with_parameters(**plan.notes())

    def _choose(
        self,
        plan: Plan,
        data: TableData,
        task: FitTask,
        tried: list[dict[str, float]],
        records: Records,
    ) -> tuple[Plan, NDArray[np.float64] | None]:
        """Strengths, pairs and rounds, and parameters to start from."""
        rounds = self.reweight if self.reweight is not None else int(self.smooth is None)
        pairs = self._named_pairs()
        train = valid = data
        if task.evaluator is not None:
            valid = self._held_out(task.evaluator, plan.bins)
        elif self.smooth is None or rounds:
            train, valid = hold_out(data, task.seed)
        if self.smooth is None:
            patience = 2 if self.early_stopping is None else self.early_stopping
            return search(
                plan, train, valid, pairs, rounds, patience, task.seed, tried.append, records
            )
        # Nothing is held out, so no seed is drawn: the same lists every time.
        plan, start = first_solution(plan, sample(data, 0), data, pairs, records)
        if rounds:
            plan = judge_rounds(plan, train, valid, rounds, tried.append, records)
        return plan, start

    def _first_plan(self, bins: Bins, data: TableData) -> Plan:
        smooth = 1.0 if self.smooth is None else float(self.smooth)
        pair_smooth = smooth if self.pair_smooth is None else float(self.pair_smooth)
        monotone = {self._cell_column(name): s for name, s in (self.monotone or {}).items()}
        counts = self._counts(layout_of(bins), data)
        return Plan(
            bins,
            standardised_bin_centres(bins, counts),
            counts,
            PenaltyStrengths(smooth, pair_smooth, float(self.anchor)),
            self.loss,
            self.metric,
            0 if data.linear is None else data.linear.shape[1],
            monotone=monotone,
            max_iter=self.max_iter,
            threads=self.n_threads,
        )

    def _counts(self, layout: TableLayout, data: TableData) -> NDArray[np.float64]:
        """Rows of every cell."""
        products = BinnedProducts(data.rows, layout, self.n_threads)
        return products.transpose_times(np.ones(data.lists.n_rows))

    # -------------------------------------------------------------- warm start
    def _start(self, given: Any, _scaling: Scaling) -> tuple[None, int]:
        """A model of tables hands on its cuts, pairs, strengths and tables."""
        self._yesterday: LinearModel | None = None
        if given is not None:
            if not isinstance(given, LinearModel) or given.bins is None:
                raise ParameterError(
                    "tables start from tables, and coef_init holds one weight a feature",
                    fix="Pass a model of AdditiveRanker, or leave it out",
                )
            if given.n_columns != self.n_features_in_:
                raise FeatureMismatchError(
                    f"the model to start from has {given.n_columns} columns, the data "
                    f"{self.n_features_in_}",
                    fix=f"Read the data with n_features={given.n_columns}",
                )
            self._same_names(given.column_names)
            self._yesterday = given
        return None, 0

    def _before(self) -> tuple[Plan | Tables | None, NDArray[np.float64] | None]:
        """What a warm start goes on from, with bins over the columns that have cells."""
        model = self._yesterday
        if model is None:
            known = self.warm_start and hasattr(self, "_plan")
            return (self._plan, self._theta) if known else (None, None)
        tables = find_tables(model)
        assert tables is not None  # noqa: S101 - asked before
        own = [self._column(name) for name in self.linear]
        if list(tables.bins.linear) != sorted(own):
            raise ParameterError(
                "the model to start from has other linear columns",
                fix=f"Pass linear={list(tables.bins.linear)}",
            )
        self._strengths = dict(model.provenance.get("certificate", {}))
        place = {
            j: k for k, j in enumerate(j for j in range(len(tables.bins.cuts)) if j not in own)
        }
        bins = msgspec.structs.replace(
            tables.bins,
            cuts=tuple(tables.bins.cuts[j] for j in place),
            unordered=tuple(place[j] for j in tables.bins.unordered),
            linear=(),
            names=None if tables.bins.names is None else tuple(tables.bins.names[j] for j in place),
        )
        grids = _moved(tables.grids, place)
        return Tables(bins, grids, tables.weights, tables.base), None

    def _plan_of(self, tables: Tables, data: TableData) -> tuple[Plan, NDArray[np.float64]]:
        """The plan of a model, measured on the rows of today."""
        plan = self._first_plan(tables.bins, data)
        found = self._strengths
        strengths = PenaltyStrengths(
            *(float(found.get(k, getattr(plan.strengths, k))) for k in _STRENGTHS)
        )
        plan = replace(
            plan, grids=tables.grids, strengths=strengths, rounds=int(found.get("rounds", 0))
        )
        space = plan.space()
        weights, linear = np.split(tables.weights, [space.layout.size])
        if len(linear):
            factors = self._linear_scaling.factors
            assert factors is not None  # noqa: S101 - standard scaling has some
            linear = linear / factors[: len(linear)]
        counts = self._counts(space.layout, data)
        return plan, least_penalty_parameters(
            TablePenalty(space, strengths), weights, linear, counts
        )

    def _asked(self, plan: Plan) -> Plan:
        """The plan of a warm start with what the ranker is told now: strengths, and named pairs."""
        told = {
            name: float(value)
            for name, value in (("smooth", self.smooth), ("pair_smooth", self.pair_smooth))
            if value is not None
        }
        if self.smooth is not None and self.pair_smooth is None:
            told["pair_smooth"] = float(self.smooth)
        plan = replace(plan, strengths=replace(plan.strengths, **told), max_iter=self.max_iter)
        pairs = self._named_pairs()
        return plan if isinstance(pairs, int) else plan.with_pairs(pairs)

    # ------------------------------------------------------------------- lists
    def _read(self, source: Any, bins: Bins | None) -> tuple[TableData, Bins]:
        """All lists as codes, block by block, and their bins: those of the first lists, or known.

        Columns without cells stay numbers: linear ones, and those of positions.
        """
        own = sorted(self._column(name) for name in self.linear)
        offsets = range(self.n_features_in_, source.n_features)
        self._cells = np.setdiff1d(np.arange(self.n_features_in_), own)
        chosen = None if len(self._cells) == source.n_features else self._cells
        linear = [*own, *offsets]
        fresh = bins is None
        if bins is None:
            bins = self._fit_bins(source, chosen)
        store = CodeStore(BinCoder(bins, self.n_threads))
        parts: list[Dataset] = []
        weights: list[NDArray[np.float64]] = []
        for rows, block in source.map_blocks(code_block, bins, chosen, linear, self.n_threads):
            weights.append(source.weights(block, sum(map(len, weights))))
            store.append_codes(rows)
            parts.append(block)
        lists = concat(drain(parts))
        if fresh or not hasattr(self, "_linear_scaling"):
            self._linear_scaling = fit_scaling("standard", lists)
        labels = lists.labels
        source.record_counts(
            rows=lists.n_rows,
            queries=lists.n_queries,
            queries_used=len(labels.queries_with_pairs),
            pairs=labels.n_pairs,
        )
        numbers = self._linear_scaling.apply(lists).X if linear else None
        bare = replace(lists, X=np.zeros((lists.n_rows, 0)), query_index=lists.queries)
        return TableData(bare, np.concatenate(weights), store.rows(), numbers), bins

    def _fit_bins(self, source: Any, chosen: NDArray[np.int64] | None) -> Bins:
        """Cuts of the first lists, whatever the blocks, threads or partitions."""
        if source.kind == "stream":
            source.require_again("cuts are measured on its first lists")
        sample = RowSample()
        for block in first_lists(source.blocks()):
            sample.append(block.X if chosen is None else block.X[:, chosen])
        texts = () if source.encoding is None else source.encoding.encoding.spec.one_hot
        named = [*self.categorical, *(text.column for text in texts)]
        unordered = [self._cell_column(name) for name in named]
        names = getattr(self, "feature_names_in_", None)
        return msgspec.structs.replace(
            fit_bins(sample.rows(), self.bins, unordered=unordered),
            names=None if names is None else tuple(str(names[j]) for j in self._cells),
        )

    def _held_out(self, evaluator: Evaluator, bins: Bins) -> TableData:
        """An evaluation set; its rows have no positions."""
        if evaluator.query_weight is not None:
            raise ParameterError("AdditiveRanker cannot take eval_query_weight", fix="Leave it out")
        held = evaluator.data
        own = sorted(self._column(name) for name in self.linear)
        chosen = self._cells if own else None
        rows, lists = code_block(held, bins, chosen, own, self.n_threads)
        linear = None
        if own:
            scaling = self._linear_scaling
            assert scaling.factors is not None  # noqa: S101 - standard scaling has some
            linear = replace(scaling, factors=scaling.factors[: len(own)]).apply(lists).X
        bare = replace(lists, X=np.zeros((lists.n_rows, 0)), query_index=lists.queries)
        return TableData(bare, np.ones(held.n_queries), rows, linear)

    def _keep(self, task: FitTask, result: FitResult, times: dict[str, float]) -> None:
        super()._keep(task, result, times)
        plan = self._plan
        tables, weights = self._purified(plan, self.__dict__.pop("_data"), self._theta)
        own = len(self.linear)
        self.coef_ = np.concatenate([tables, weights[:own]])
        if len(weights) > own:
            self.position_offset_ = np.r_[0.0, weights[own:]]
        self.bins_, self.grids_ = self._all_columns(plan)
        self.strengths_ = plan.strengths
        names: Any = self.bins_.names or range(self.n_features_in_)
        self.pairs_ = [(names[self._cells[a]], names[self._cells[b]]) for a, b in plan.pairs]
        self.training_["interactions"] = [list(pair) for pair in self.pairs_]

    def _all_columns(self, plan: Plan) -> tuple[Bins, Grids | None]:
        """Bins and grids over all columns of a row, those without cells too."""
        cuts: list[tuple[float, ...]] = [()] * self.n_features_in_
        for j, own in zip(self._cells, plan.bins.cuts, strict=True):
            cuts[j] = own
        names = getattr(self, "feature_names_in_", None)
        bins = Bins(
            tuple(cuts),
            tuple(int(self._cells[j]) for j in plan.bins.unordered),
            tuple(sorted(self._column(name) for name in self.linear)),
            None if names is None else tuple(str(name) for name in names),
        )
        return bins, _moved(plan.grids, dict(enumerate(self._cells.tolist())))

    def _purified(
        self, plan: Plan, data: TableData, theta: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Tables whose curves are centred and whose grids are pure, and weights of raw columns."""
        space = plan.space()
        weights = theta[space.size - space.n_linear :]
        return (
            purify(space, space.tables(theta), self._counts(space.layout, data)),
            self._linear_scaling.fold(weights) if len(weights) else weights,
        )

    # -------------------------------------------------------------------- path
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
        eval_group: ArrayLike | None = None,
        n_steps: int = 10,
        min_ratio: float = 1e-6,
        max_nonzero: int | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> TablePath:
        """Solve for falling strengths and more and more pairs, each from the one before.

        Parameters
        ----------
        X, y, qid, group, sample_weight, query_weight
            Training data, as in ``fit``.
        eval_set, eval_qid, eval_group
            Evaluation data for ``metric``.
        n_steps, min_ratio
            ``smooth`` falls from 1,000 to ``min_ratio`` times that in so many steps, for curves
            alone and then for an eighth, a third and all of ``pairs``. Grids have the strength of
            the curves unless ``pair_smooth`` is given.
        max_nonzero
            End the path before the first model with more non-zero weights.
        callbacks
            Called after every step; one that returns True ends the path.
        """
        task = self._task(
            X,
            y,
            act="path",
            qid=qid,
            group=group,
            sample_weight=sample_weight,
            query_weight=query_weight,
            eval_set=eval_set,
            eval_qid=eval_qid,
            eval_group=eval_group,
            callbacks=callbacks,
        )
        check_steps(n_steps, min_ratio)
        data, bins = self._read(task.source, None)
        valid = None if task.evaluator is None else self._held_out(task.evaluator, bins)
        plans = self._path_plans(bins, data, np.geomspace(STIFF, STIFF * min_ratio, n_steps))
        steps, tables, solved = [], [], {}
        theta: NDArray[np.float64] | None = None
        for k, plan in enumerate(plans):
            started = time.perf_counter()
            start = None if theta is None else plan.carried(theta, plans[k - 1])
            solution = solve_plan(plan, data, start, self.tol)
            theta = solution.coef
            coef = np.concatenate(self._purified(plan, data, theta))
            if max_nonzero is not None and np.count_nonzero(coef) > max_nonzero:
                break
            value = math.nan if valid is None else judged(plan, valid, theta)
            seconds = time.perf_counter() - started
            found, gap = solution.objective, solution.certificate["relative_gap"]
            loss = found - TablePenalty(plan.space(), plan.strengths).value(theta)
            steps.append(Step(plan.strengths.smooth, loss, coef, seconds, value, found, gap))
            tables.append(tuple(spec for spec in self._all_columns(plan) if spec is not None))
            solved[f"smooth={plan.strengths.smooth:.3g}, {len(plan.pairs)} pairs"] = solution
            told = {"smooth": plan.strengths.smooth, "pairs": len(plan.pairs), self.metric: value}
            if report_progress(callbacks, "path", k + 1, len(plans), told, coef):
                break
        warn_not_converged(type(self).__name__, self.tol, solved)
        width = max((len(step.coef) for step in steps), default=0)
        return TablePath.collect(
            [step._replace(coef=np.pad(step.coef, (0, width - len(step.coef)))) for step in steps],
            task,
            metric=self.metric,
            names=None,
            parameters={"ranker": self.system, **json_parameters(self)},
            tables=tuple(tables),
        )

    def _path_plans(
        self, bins: Bins, data: TableData, strengths: NDArray[np.float64]
    ) -> list[Plan]:
        """Falling strengths for curves alone, then for more and more pairs."""
        plan = self._first_plan(bins, data)
        pairs = self._named_pairs()
        if pairs == 0:
            pairs = []
        elif isinstance(pairs, int):
            # Sought where curves of the ranker's own strength leave most to gain.
            theta = solve_plan(plan, data, None, self.tol).coef
            pairs = best_pairs(plan, data, theta, pairs)
        plans = []
        for count in sorted({0, len(pairs) // 8, len(pairs) // 3, len(pairs)}):
            paired = plan.with_pairs(pairs[:count])
            for smooth in strengths.tolist():
                grid = smooth if self.pair_smooth is None else float(self.pair_smooth)
                own = replace(plan.strengths, smooth=smooth, pair_smooth=grid)
                plans.append(replace(paired, strengths=own))
        return plans

    # --------------------------------------------------------------------- use
    def predict(
        self,
        X: Any,
        _qid: ArrayLike | None = None,
        *,
        group: ArrayLike | None = None,  # noqa: ARG002 - rows are scored one by one
    ) -> NDArray[np.float64]:
        """Scores in row order; only their order within a query means anything."""
        check_is_fitted(self, "coef_")
        if isinstance(X, Dataset):
            matrix = self._same_columns(X).X
        else:
            matrix, _ = self._matrix(X, reset=False)
        return score_tables(self.bins_, self.grids_, self.coef_, matrix, self.n_threads)

    def _same_columns(self, data: Dataset) -> Dataset:
        """The columns of the fit; lists of a raw log are encoded as those of the training were."""
        log = self.__dict__.get("encoding_")
        if log is not None and data.encoding is not None:
            own = log.encoding
            same = data.encoding.spec.read_columns == own.spec.read_columns
            data = data if same else own.encode(data)
        return super()._same_columns(data)

    def _features(self) -> dict[str, Any]:
        grids = () if self.grids_ is None else (self.grids_,)
        return {"transforms": (self.bins_, *grids)}

    def _shown_weights(self) -> tuple[list[str], NDArray[np.float64]]:
        """Ranges of all tables."""
        terms = Tables(self.bins_, self.grids_, self.coef_, 0).ranges()
        return [name for name, _ in terms], np.array([size for _, size in terms])

    # ------------------------------------------------------------------- input
    def _column(self, name: Any) -> int:
        """Number of a column given by name or number."""
        names = getattr(self, "feature_names_in_", None)
        if isinstance(name, str):
            found = [] if names is None else np.flatnonzero(names == name).tolist()
            if not found:
                raise ParameterError(
                    f"no column is called {name!r}", fix="Check the spelling, or pass its number"
                )
            return int(found[0])
        if not 0 <= int(name) < self.n_features_in_:
            raise ParameterError(
                f"column {name} of {self.n_features_in_}", fix="Count columns from 0"
            )
        return int(name)

    def _cell_column(self, name: Any) -> int:
        """Number of a column among those with cells."""
        found = np.flatnonzero(self._cells == self._column(name))
        if len(found) == 0:
            raise ParameterError(
                f"column {name!r} is linear and has no table", fix="Take it out of linear"
            )
        return int(found[0])

    def _named_pairs(self) -> int | list[tuple[int, int]]:
        """How many pairs, or which, among the columns with cells."""
        if isinstance(self.pairs, (int, np.integer)):
            return int(self.pairs)
        chosen = []
        barred = {self._column(name) for name in self.monotone or ()}
        place = {int(j): k for k, j in enumerate(self._cells) if j not in barred}
        for first, second in self.pairs:
            a, b = sorted((self._column(first), self._column(second)))
            if a == b or not {a, b} <= set(place):
                raise ParameterError(
                    f"the pair {first!r}, {second!r} needs two columns with tables, none monotone",
                    fix="Take monotone and linear columns out of pairs",
                )
            chosen.append((place[a], place[b]))
        return list(dict.fromkeys(chosen))

    def _source(self, *given: Any) -> Any:
        """What ``fit`` was given; checkpoints hold what was found on the way."""
        source = super()._source(*given)
        source.asks = True
        self.encoding_ = source.encoding
        return source

    def _divisor(self) -> str:
        return "pairs" if self.loss == "squared_hinge" else "gains"

    def _check(self) -> None:
        check_count("bins", self.bins)
        check_positive("tol", self.tol)
        check_count("max_iter", self.max_iter)
        check_choice("loss", self.loss, LOSSES)
        check_positive("anchor", self.anchor)
        if self.smooth is not None:
            check_positive("smooth", self.smooth)
        if self.pair_smooth is not None:
            check_positive("pair_smooth", self.pair_smooth)
        if check_scale(self.scale) not in ("auto", "none"):
            raise ParameterError(
                f"scale={self.scale!r}: cuts are quantiles of the columns as they stand",
                fix="Leave scale='auto'; scale lists before training if they need it",
            )
        signs = set((self.monotone or {}).values())
        if not signs <= {-1, 1}:
            raise ParameterError("monotone maps a column to 1 or -1", fix="Use 1 or -1")
        if isinstance(self.pairs, (int, np.integer)) and self.pairs < 0:
            raise ParameterError(f"pairs={self.pairs}", fix="Pass 0 or more, or a list of pairs")
        if self.reweight is not None and self.reweight < 0:
            raise ParameterError(f"reweight={self.reweight}", fix="Pass 0 or more rounds")


def code_block(
    data: Dataset,
    bins: Bins,
    chosen: NDArray[np.int64] | None,
    linear: Sequence[int],
    threads: int | None,
) -> tuple[BinnedRows, Dataset]:
    """Codes of some columns (None: of all), and the lists with the linear columns alone."""
    X: Any = data.X
    rows = BinCoder(bins, threads).code(X if chosen is None else X[:, chosen])
    kept = linear_part(X, linear, data.feature_names) if len(linear) else np.zeros((len(data.y), 0))
    if isinstance(kept, np.ndarray):
        kept = np.ascontiguousarray(kept)
    return rows, Dataset(
        kept,
        data.y,
        data.qid,
        weight=data.weight,
        position=data.position,
        sources=data.sources,
        query_index=data.queries,
    )


def _moved(grids: Grids | None, place: Mapping[int, int]) -> Grids | None:
    """Grids whose columns have other numbers, in the same order."""
    if grids is None:
        return None
    axes = [msgspec.structs.replace(axis, column=place[axis.column]) for axis in grids.axes]
    return msgspec.structs.replace(grids, axes=tuple(axes))
