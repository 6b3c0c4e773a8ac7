"""AdditiveRanker: curves of single columns and tables of pairs, exact and explained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from rankine.core.checks import check_choice, check_count, check_positive
from rankine.core.errors import ParameterError
from rankine.data.dataset import Dataset, concat
from rankine.kernels.binned import BinnedProducts
from rankine.model.tables import Tables
from rankine.rankers.additive_search import (
    LOSSES,
    Plan,
    TableData,
    best_pairs,
    hold_out,
    judge_rounds,
    search,
    solve_plan,
)
from rankine.rankers.base import BaseRanker
from rankine.rankers.fitting import Outcome, Task
from rankine.rankers.registry import Choice, Number
from rankine.rankers.sources import Capabilities
from rankine.solvers.tables import Strengths, bin_means, purify
from rankine.transforms.bins import (
    SAMPLE_LISTS,
    BinCoder,
    CodeStore,
    fit_bins,
    layout_of,
    score_tables,
)
from rankine.transforms.scaling import Scaling, fit_scaling

if TYPE_CHECKING:
    from rankine.core.specs import Bins


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
        See ``BaseRanker``. A warm start keeps cuts, pairs and strengths of the last fit and
        starts from its tables.
    scale
        ``"none"``: quantiles make scaling void.
    early_stopping
        Strengths of a path without a better metric before the path ends; None: 2.
    n_threads
        Threads; None takes what the machine offers.

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
    can = Capabilities(fit=("memory", "stream"), query_weight=("memory", "stream"))
    takes_missing: ClassVar[bool] = True
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

    # ---------------------------------------------------------------- training
    def _solve(self, task: Task) -> Outcome:
        before: Plan | None = self.__dict__.get("_plan") if self.warm_start else None
        bins, data = self._read(task.source, before)
        tried: list[dict[str, float]] = []
        plan, start = before, self.__dict__.get("_theta")
        if plan is None:
            products = BinnedProducts(data.rows, layout_of(bins), self.n_threads)
            counts = products.transpose_times(np.ones(data.lists.n_rows))
            plan, start = self._choose(self._first_plan(bins, counts), data, task, tried.append)
        # Plans are judged above; the last solution is watched by the user's callbacks alone.
        outcome = replace(task, judge=None).run(
            lambda _, watch: solve_plan(plan, data, start, self.tol, watch.callbacks)
        )
        self._plan, self._theta = plan, outcome.solution.coef
        self._data = data
        evals = [{"step": k, **one} for k, one in enumerate(tried)]
        return replace(outcome, evals=[evals]).noting(**plan.notes())

    def _choose(
        self, plan: Plan, data: TableData, task: Task, told: Callable[[dict[str, float]], None]
    ) -> tuple[Plan, NDArray[np.float64] | None]:
        """Strengths, pairs and rounds, and parameters to start from."""
        rounds = self.reweight if self.reweight is not None else int(self.smooth is None)
        pairs = self._named_pairs(plan.bins)
        train = valid = data
        if task.judge is not None:
            held = task.judge.data
            if task.judge.query_weight is not None:
                raise ParameterError(
                    "AdditiveRanker cannot take eval_query_weight", fix="Leave it out"
                )
            valid = self._table_data(held, plan.bins, np.ones(held.n_queries))
        elif self.smooth is None or rounds:
            train, valid = hold_out(data, task.seed)
        if self.smooth is None:
            patience = 2 if self.early_stopping is None else self.early_stopping
            return search(plan, train, valid, pairs, rounds, patience, task.seed, told)
        start = None
        if not isinstance(pairs, int):
            plan = plan.with_pairs(pairs)
        elif pairs > 0:
            theta = solve_plan(plan, data, None, self.tol).coef
            curves, plan = plan, plan.with_pairs(best_pairs(plan, data, theta, pairs))
            start = plan.carried(theta, curves)
        if rounds:
            plan = judge_rounds(plan, train, valid, rounds, told)
        return plan, start

    def _first_plan(self, bins: Bins, counts: NDArray[np.float64]) -> Plan:
        smooth = 1.0 if self.smooth is None else float(self.smooth)
        pair_smooth = smooth if self.pair_smooth is None else float(self.pair_smooth)
        monotone = {self._column(name): sign for name, sign in (self.monotone or {}).items()}
        return Plan(
            bins,
            bin_means(bins, counts),
            counts,
            Strengths(smooth, pair_smooth, float(self.anchor)),
            self.loss,
            self.metric,
            monotone=monotone,
            max_iter=self.max_iter,
            threads=self.n_threads,
        )

    def _read(self, source: Any, before: Plan | None) -> tuple[Bins, TableData]:
        """Cuts of the first lists, then all lists as codes, block by block."""
        if source.encoding is not None:
            raise ParameterError(
                "AdditiveRanker cannot be fitted to a raw log",
                fix="Use columns of numbers (rankine.load or rankine.scan), or ElasticRanker",
            )
        blocks = source.blocks()
        first: list[Dataset] = []
        while sum(block.n_queries for block in first) < SAMPLE_LISTS:
            block = next(blocks, None)
            if block is None:
                break
            first.append(block)
        bins = self._fit_bins(concat(list(first))) if before is None else before.bins
        store = CodeStore(BinCoder(bins, self.n_threads))
        parts: list[Dataset] = []
        weights: list[NDArray[np.float64]] = []
        for block in chain(first, blocks):
            weights.append(source.weights(block, sum(map(len, weights))))
            store.append(block.X)
            parts.append(_columns(block, bins.linear))
        lists = concat(parts)
        if before is None:
            self._linear_scaling = fit_scaling("standard", lists)
        labels = lists.labels
        source.note(
            rows=lists.n_rows,
            queries=lists.n_queries,
            queries_used=len(labels.usable),
            pairs=labels.n_pairs,
        )
        linear = self._linear_scaling.apply(lists).X if bins.linear else None
        bare = replace(lists, X=np.zeros((lists.n_rows, 0)), query_index=lists.queries)
        return bins, TableData(bare, np.concatenate(weights), store.rows(), linear)

    def _fit_bins(self, data: Dataset) -> Bins:
        """Cuts of the first lists."""
        first = min(SAMPLE_LISTS, data.n_queries)
        bins = fit_bins(
            data.take_queries(np.arange(first)).X if first < data.n_queries else data.X,
            self.bins,
            unordered=[self._column(name) for name in self.categorical],
            linear=[self._column(name) for name in self.linear],
        )
        names = getattr(self, "feature_names_in_", None)
        return bins if names is None else _renamed(bins, names)

    def _table_data(
        self, data: Dataset, bins: Bins, query_weight: NDArray[np.float64]
    ) -> TableData:
        coder = BinCoder(bins, self.n_threads)
        lists = replace(data, X=np.zeros((data.n_rows, 0)), query_index=data.queries)
        linear = None
        if bins.linear:
            linear = self._linear_scaling.apply(_columns(data, bins.linear)).X
        return TableData(lists, query_weight, coder.code(data.X), linear)

    def _keep(self, task: Task, outcome: Outcome, seconds: float) -> None:
        super()._keep(task, outcome, seconds)
        plan = self._plan
        self.coef_ = self._purified(plan, self.__dict__.pop("_data"))
        self.bins_, self.grids_ = plan.bins, plan.grids
        self.strengths_ = plan.strengths
        grids = plan.grids
        names: Any = plan.bins.names or range(len(plan.bins.cuts))
        columns = [] if grids is None else [names[axis.column] for axis in grids.axes]
        self.pairs_ = [] if grids is None else [(columns[a], columns[b]) for a, b in grids.pairs]
        self.training_["interactions"] = [list(pair) for pair in self.pairs_]

    def _purified(self, plan: Plan, data: TableData) -> NDArray[np.float64]:
        """Tables whose curves are centred and whose grids are pure, and weights of raw columns."""
        space = plan.space()
        counts = BinnedProducts(data.rows, space.layout, self.n_threads).transpose_times(
            np.ones(data.lists.n_rows)
        )
        tables = purify(space, space.tables(self._theta), counts)
        weights = self._theta[space.size - space.n_linear :]
        return np.concatenate([tables, self._linear_scaling.fold(weights) if len(weights) else []])

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

    def _features(self) -> dict[str, Any]:
        grids = () if self.grids_ is None else (self.grids_,)
        return {"transforms": (self.bins_, *grids)}

    def _shown_weights(self) -> tuple[list[str], NDArray[np.float64]]:
        """Ranges of all tables."""
        terms = Tables(self.bins_, self.grids_, self.coef_, 0).ranges()
        return [name for name, _ in terms], np.array([size for _, size in terms])

    # ------------------------------------------------------------------- input
    def _start(self, given: Any, _scaling: Scaling) -> tuple[None, int]:
        if given is not None:
            raise ParameterError(
                "tables cannot start from one weight a feature (coef_init)",
                fix="Use warm_start=True and fit again",
            )
        return None, 0

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

    def _named_pairs(self, bins: Bins) -> int | list[tuple[int, int]]:
        if isinstance(self.pairs, (int, np.integer)):
            return int(self.pairs)
        chosen = []
        barred = {self._column(name) for name in (self.monotone or {})} | set(bins.linear)
        for first, second in self.pairs:
            a, b = sorted((self._column(first), self._column(second)))
            if a == b or {a, b} & barred:
                raise ParameterError(
                    f"the pair {first!r}, {second!r} needs two columns with tables, none monotone",
                    fix="Take monotone and linear columns out of pairs",
                )
            chosen.append((a, b))
        return list(dict.fromkeys(chosen))

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
        if self.scale != "none":
            raise ParameterError(
                f"scale={self.scale!r}: cuts are quantiles of the columns as they stand",
                fix="Leave scale='none'; scale lists before training if they need it",
            )
        signs = set((self.monotone or {}).values())
        if not signs <= {-1, 1}:
            raise ParameterError("monotone maps a column to 1 or -1", fix="Use 1 or -1")
        if isinstance(self.pairs, (int, np.integer)) and self.pairs < 0:
            raise ParameterError(f"pairs={self.pairs}", fix="Pass 0 or more, or a list of pairs")
        if self.reweight is not None and self.reweight < 0:
            raise ParameterError(f"reweight={self.reweight}", fix="Pass 0 or more rounds")


def _take_columns(X: Any, columns: Sequence[int]) -> Any:
    taken = X[:, list(columns)]
    return taken if hasattr(taken, "indptr") else np.ascontiguousarray(taken)


def _columns(data: Dataset, columns: Sequence[int]) -> Dataset:
    """The data with some of its columns alone."""
    X = _take_columns(data.X, columns) if len(columns) else np.zeros((data.n_rows, 0))
    return replace(data, X=X, feature_names=None, query_index=data.queries)


def _renamed(bins: Bins, names: Sequence[str]) -> Bins:
    from msgspec.structs import replace as changed

    return changed(bins, names=tuple(str(name) for name in names))
