"""The search of ``AdditiveRanker`` for strengths, pairs of columns and weights.

``TableData`` holds what training needs of some lists: one byte a cell, labels, and queries. A
``Plan`` is everything that is chosen before the final solution. ``search`` solves paths of falling
strengths, each from the last solution: slopes first, then curves, then grids over the pairs that
the curves leave most to gain, and keeps the plan that ranks held-out lists best. The risk is a sum
over lists, so strengths found on a part of the lists serve all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ParameterError
from rankine.core.specs import Bins, Grids
from rankine.kernels.binned import BinnedProducts, BinnedRows, take_rows
from rankine.kernels.products import Products
from rankine.kernels.random import permutation, stream_seed
from rankine.kernels.shards import dot
from rankine.losses.base import find_pair_loss
from rankine.losses.list_risk import DeltaRisk, SoftmaxRisk, gain_shares
from rankine.losses.pair_queries import PairQueries, check_normalization
from rankine.metrics import evaluate_on, parse_metric
from rankine.solvers.base import initial_weights
from rankine.solvers.fixed import FixedPenalty
from rankine.solvers.newton import solve_newton
from rankine.solvers.pair_search import interaction_gains
from rankine.solvers.shapes import CURVED, solve_shaped
from rankine.solvers.tables import PenaltyStrengths, TablePenalty, TableProblem, TableSpace
from rankine.transforms.bins import grid_axis, layout_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rankine.data.dataset import Dataset
    from rankine.metrics import Metric
    from rankine.solvers.base import Callback, Solution

#: Losses that tuning tries; ``check_loss`` accepts every smooth pair loss as well.
LOSSES = ("squared_hinge", "softmax")
#: How lists are weighed; see ``make_risk``.
NORMALIZATIONS = ("query", "pair")
#: Strength with which curves are straight lines, unless there are extremely many lists.
STIFF = 1000.0
#: Strengths that are tried first, from nearly linear to tables that follow every bin.
DECADES = (100.0, 10.0, 1.0, 0.1, 0.01, 0.001)
#: Steps between decades.
HALF = 10.0**0.5
#: Rows on which strengths and pairs are sought; the risk is a sum, so they serve all rows.
SEARCH_ROWS = 60_000
#: A path ends at once when the metric falls by more than this share of the best value.
CLIFF = 0.01
#: Estimated gap, relative to J(0), to which steps of the search are solved.
SEARCH_TOL = 1e-3
#: With fewer lists with pairs than this, all folds are used, so that every list is held out once.
MANY_LISTS, N_FOLDS = 1000, 5
#: What folds choose by. The top of few lists says little: on 60 lists of MSLR's shape NDCG@10
#: chose other strengths for every order of the lists, and NDCG@10 of other lists was lower.
FOLD_METRIC = parse_metric("pairwise_error")
#: Places on a side of the grids in which interactions are sought.
SEARCH_SIDE = 16
#: With fewer columns than this, grids are finer.
FEW_COLUMNS = 30
_HELD_OUT = 0x48454C44


def check_loss(name: str) -> None:
    """Raise unless a loss can be minimised by Newton's method, which needs its curvature."""
    if name != "softmax" and not find_pair_loss(name, exact=True).smooth:
        raise ParameterError(
            f"{name!r} has kinks, and Newton's method needs a smooth loss",
            parameter="loss",
            fix="Use 'squared_hinge' or 'softmax'",
        )


@dataclass(frozen=True, eq=False)
class TableData:
    """Lists as cells of tables.

    Attributes
    ----------
    lists
        Labels, queries and weights; its matrix has no columns.
    query_weight
        One weight per query.
    rows
        Codes of all columns with cells.
    linear
        Rows of the columns that stay linear, scaled, or None.
    """

    lists: Dataset
    query_weight: NDArray[np.float64]
    rows: BinnedRows
    linear: Any = None

    @property
    def n_linear(self) -> int:
        """Number of columns that stay linear."""
        return 0 if self.linear is None else int(self.linear.shape[1])

    def take_queries(self, chosen: NDArray[np.int64]) -> TableData:
        """Take whole queries by position; rows keep their order."""
        index = self.lists.queries
        mask = np.zeros(index.n_queries, dtype=np.bool_)
        mask[chosen] = True
        rows = np.flatnonzero(mask[index.codes])
        lists = self.lists.take(rows)
        codes = index.codes[rows]
        _, first_rows = np.unique(codes, return_index=True)
        queries = codes[np.sort(first_rows)]  # in order of first appearance
        linear = None if self.linear is None else self.linear[rows]
        return TableData(lists, self.query_weight[queries], take_rows(self.rows, rows), linear)


def hold_out(data: TableData, seed: int) -> tuple[TableData, TableData]:
    """Split lists into those to search on and a fifth that is held out, chosen by the seed."""
    order = permutation(stream_seed(seed, _HELD_OUT), data.lists.n_queries)
    n_held = max(1, len(order) // 5)
    return _take_rows(data, order[n_held:]), _take_rows(data, order[:n_held])


def split_folds(data: TableData, seed: int) -> list[tuple[TableData, TableData]]:
    """Return pairs of lists to search on and held-out lists.

    One split if there are many lists. Among few lists a fifth is too few to choose by, so every
    list with pairs is held out once.
    """
    lists = data.lists.labels.queries_with_pairs
    if len(lists) >= MANY_LISTS:
        return [hold_out(data, seed)]
    n_folds = min(N_FOLDS, len(lists))
    if n_folds < 2:
        return [(data, data)]
    order = lists[permutation(stream_seed(seed, _HELD_OUT), len(lists))]
    folds = []
    for k in range(n_folds):
        held = np.arange(len(order)) % n_folds == k
        folds.append((_take_rows(data, order[~held]), _take_rows(data, order[held])))
    return folds


def sample(data: TableData, seed: int) -> TableData:
    """Take lists to search on, chosen by the seed."""
    return _take_rows(data, permutation(stream_seed(seed, _HELD_OUT), data.lists.n_queries))


def _take_rows(data: TableData, order: NDArray[np.int64]) -> TableData:
    """Take lists in this order up to about ``SEARCH_ROWS`` rows."""
    n_rows = np.cumsum(data.lists.queries.sizes[order])
    n_lists = max(1, int(np.searchsorted(n_rows, SEARCH_ROWS, side="right")))
    if n_lists >= data.lists.n_queries:
        return data
    return data.take_queries(np.sort(order[:n_lists]))


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything that is chosen before the final solution.

    Attributes
    ----------
    bins, means
        Cells of the columns, and the standardised centres that slopes multiply.
    counts
        Rows of every cell of the columns.
    strengths
        Penalties.
    n_linear
        Number of columns that stay linear.
    grids
        Pairs with tables, or None.
    rounds
        Rounds in which pairs are weighted by the change of DCG.
    loss, normalization, shapes, max_iter, threads, metric
        Parameters of the ranker.
    """

    bins: Bins
    means: NDArray[np.float64]
    counts: NDArray[np.float64]
    strengths: PenaltyStrengths
    loss: str
    metric: Any
    n_linear: int = 0
    grids: Grids | None = None
    rounds: int = 0
    normalization: str = "query"
    shapes: Mapping[int, str] = field(default_factory=dict)
    max_iter: int = 100
    threads: int | None = None

    @cached_property
    def space(self) -> TableSpace:
        """Parameters of the tables; each plan computes them once."""
        layout = layout_of(self.bins, self.grids)
        return TableSpace.build(
            layout, self.bins, self.grids, self.means, self.shapes, self.n_linear
        )

    def problem(self, data: TableData, risk: Any) -> TableProblem:
        """Return the risk of lists as a function of the parameters."""
        space = self.space
        linear = None
        if data.linear is not None:
            from rankine.data.dataset import as_rows

            linear = Products(as_rows(data.linear), data.linear.shape[1], self.threads)
        products = BinnedProducts(data.rows, space.layout, self.threads)
        return TableProblem(space, products, risk, linear)

    def convert_parameters(self, theta: NDArray[np.float64], previous: Plan) -> NDArray[np.float64]:
        """Convert parameters of a plan with other grids; pairs in both plans keep their grids."""
        space, previous_space = self.space, previous.space
        out = np.zeros(space.size)
        n_cells = space.n_curve_cells
        out[:n_cells] = theta[:n_cells]
        out[space.layout.size :] = theta[previous_space.layout.size :]
        previous_grids = {pair: g for g, pair in enumerate(previous.pairs)}
        for g, pair in enumerate(self.pairs):
            if pair in previous_grids:
                start = space.layout.grid_starts[g]
                previous_start = previous_space.layout.grid_starts[previous_grids[pair]]
                size = int(np.prod(space.grid_sides[g]))
                out[start : start + size] = theta[previous_start : previous_start + size]
        return out

    def with_tables(
        self, theta: NDArray[np.float64], tables: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return parameters that score with these tables, and linear columns as ``theta`` does."""
        out = np.concatenate([tables, theta[self.space.layout.size :]])
        out[self.space.layout.size :][: len(self.bins.cuts)] = 0.0  # slopes
        return out

    def with_pairs(self, pairs: Sequence[tuple[int, int]]) -> Plan:
        """Return the plan with grids over these pairs of columns; columns keep their axes."""
        if not len(pairs):
            return replace(self, grids=None)
        side = 32 if len(self.bins.cuts) < FEW_COLUMNS else 16
        columns = sorted({int(j) for pair in pairs for j in pair})
        axes_of = {} if self.grids is None else {axis.column: axis for axis in self.grids.axes}
        for j in columns:
            if j not in axes_of:
                axes_of[j] = grid_axis(self.bins, j, self.column_counts(j), side)
        axes = tuple(axes_of[j] for j in columns)
        axis_pairs = []
        for pair in pairs:
            first, second = sorted(map(int, pair))
            axis_pairs.append((columns.index(first), columns.index(second)))
        return replace(self, grids=Grids(axes, tuple(axis_pairs)))

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of columns with a grid."""
        grids = self.grids
        if grids is None:
            return []
        return [(grids.axes[a].column, grids.axes[b].column) for a, b in grids.pairs]

    def chosen(self) -> dict[str, float]:
        """Return the chosen strengths and rounds."""
        strengths = self.strengths
        return {
            "smooth": strengths.smooth,
            "pair_smooth": strengths.pair_smooth,
            "anchor": strengths.anchor,
            "rounds": self.rounds,
        }

    def column_counts(self, j: int) -> NDArray[np.float64]:
        """Return the number of rows in each cell of a column."""
        ends = np.cumsum(self.bins.n_cells)
        return self.counts[ends[j] - self.bins.n_cells[j] : ends[j]]


class PlanSolver:
    """Solves plans during the search; a resumed run reads finished solutions from the journal.

    Parameters
    ----------
    journal
        Journal of solutions (``rankine.distributed.journal``), or None.
    """

    def __init__(self, journal: Any = None) -> None:
        self.journal = journal

    def solve(
        self, plan: Plan, data: TableData, start: NDArray[np.float64] | None, fold: int = 0
    ) -> NDArray[np.float64]:
        """Return the parameters of a plan, solved well enough to evaluate it.

        The journal tells folds apart by their number. Shapes are left out: strengths that suffice
        without them suffice with them, and a solution without shapes takes half the time.
        """
        free = replace(plan, shapes={})

        def compute() -> tuple[NDArray[np.float64]]:
            return (solve_plan(free, data, start, SEARCH_TOL, certify=False).coef,)

        if self.journal is None:
            return compute()[0]
        arguments = (plan.chosen(), plan.pairs, start, fold)
        theta: NDArray[np.float64]
        (theta,) = self.journal.recall_or_compute("plan", arguments, compute)
        return theta


def make_risk(plan: Plan, data: TableData, ranked_by: NDArray[np.float64] | None = None) -> Any:
    """Return the loss of lists; with scores, the pairs weighted by the change of DCG.

    By "query" a list weighs v_q, by "pair" v_q N_q / mean N: N is the weight of its pairs, or its
    gain where the loss has gains.
    """
    queries = PairQueries.from_dataset(data.lists, data.query_weight)
    check_normalization(plan.normalization, queries.n_queries)
    by_pairs = ranked_by is None and plan.loss != "softmax"
    gains, row_gains = np.zeros(0), np.zeros(0)
    list_sizes = queries.pair_weight
    if not by_pairs:
        gains = list_gains(data.lists.y[queries.rows], queries.starts)
        row_gains = gains if queries.weight is None else gains * queries.weight
        list_sizes = np.add.reduceat(row_gains, queries.starts[:-1])
    list_weights = queries.query_weight
    if plan.normalization == "pair":
        mean_size = dot(list_weights, list_sizes) / list_weights.sum()
        list_weights = list_weights * list_sizes / mean_size
    if by_pairs:
        pair_loss: Any = find_pair_loss(plan.loss, exact=True)
        omega = list_weights / queries.pair_weight
        return pair_loss.exact_sum(pair_loss.spec(), queries, omega, "tree", plan.threads)
    if ranked_by is None:
        shares = gain_shares(row_gains, queries.starts)
        return SoftmaxRisk(queries, list_weights, shares, plan.threads)
    cutoff, depth = parse_metric(plan.metric).cutoff, 10
    if isinstance(cutoff, int):
        depth = cutoff
    return DeltaRisk(queries, list_weights, gains, ranked_by, depth, plan.threads)


def list_gains(y: NDArray[np.float64], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Compute 2^(label - lowest of the list) - 1 of grades; of amounts, the label - lowest."""
    lowest = np.repeat(np.minimum.reduceat(y, starts[:-1]), np.diff(starts))
    above = y - lowest
    if above.max(initial=0.0) <= 31 and (y == np.floor(y)).all():
        return np.exp2(above) - 1.0
    return above / above.max()


def solve_plan(
    plan: Plan,
    data: TableData,
    start: NDArray[np.float64] | None,
    tol: float,
    callbacks: Sequence[Callback] = (),
    *,
    certify: bool = True,
) -> Solution:
    """Solve a plan on lists: the loss itself, then rounds with weights by the change of DCG."""
    options: dict[str, Any] = {
        "tol": tol,
        "max_iter": plan.max_iter,
        "callbacks": callbacks,
        "certify": certify,
    }
    risk, start = final_risk(plan, data, start, **options)
    penalty = TablePenalty(plan.space, plan.strengths, plan.threads)
    return minimise(plan.problem(data, risk), penalty, start=start, **options)


def minimise(
    problem: TableProblem,
    penalty: TablePenalty | FixedPenalty,
    *,
    start: NDArray[np.float64] | None = None,
    **options: Any,
) -> Solution:
    """Minimise a risk and a penalty under the shapes and the fixed entries of the penalty."""
    if penalty.space.shapes.any():
        return solve_shaped(problem, penalty, start=start, **options)
    if penalty.entries is not None:
        start = penalty.move_onto(initial_weights(start, penalty.space.size))
    return solve_newton(problem, penalty, start=start, **options)


def final_risk(
    plan: Plan, data: TableData, start: NDArray[np.float64] | None, **options: Any
) -> tuple[Any, NDArray[np.float64] | None]:
    """Return the risk of the last round of a plan, and parameters to start from.

    Without rounds this is the loss itself. ``options`` are those of ``minimise`` for the rounds
    before.
    """
    risk = make_risk(plan, data)
    penalty = TablePenalty(plan.space, plan.strengths, plan.threads)
    for _ in range(plan.rounds):
        problem = plan.problem(data, risk)
        start = minimise(problem, penalty, start=start, **options).coef
        risk = make_risk(plan, data, problem.scores(start))
    return risk, start


def evaluate_plan(
    plan: Plan, valid: TableData, theta: NDArray[np.float64], metric: Metric | None = None
) -> float:
    """Compute a metric of parameters on held-out lists, the plan's unless another is given."""
    scores = plan.problem(valid, None).scores(theta)
    if metric is None:
        metric = parse_metric(plan.metric)
    return float(evaluate_on(valid.lists, metric=metric, scores=scores))


class Candidate(NamedTuple):
    """Plans of the same strengths and number of pairs, one for each fold.

    Attributes
    ----------
    plans
        One plan for each fold. Every fold seeks its pairs among its own training lists.
    thetas
        Parameters of each plan.
    value
        What it is chosen by, the mean over the folds; larger is better.
    """

    plans: Sequence[Plan]
    thetas: Sequence[NDArray[np.float64]]
    value: float

    @property
    def strengths(self) -> PenaltyStrengths:
        """Strengths of all plans."""
        return self.plans[0].strengths

    @property
    def n_pairs(self) -> int:
        """Number of pairs of the plans."""
        return max(len(plan.pairs) for plan in self.plans)


class PlanSearch:
    """Solves plans on training lists, evaluates them on held-out lists and keeps the best.

    Parameters
    ----------
    folds
        Training and held-out lists: one split, or several folds.
    record
        Receives strengths and metric of every candidate.
    solver
        Solves the plans.
    given
        Strengths that are given and not sought, by name.
    fold_metric
        What several folds choose by; one split chooses by the metric of the plans.
    """

    best: Candidate

    def __init__(
        self,
        folds: Sequence[tuple[TableData, TableData]],
        record: Callable[[dict[str, float]], None],
        solver: PlanSolver,
        given: Mapping[str, float] | None = None,
        fold_metric: Metric | None = None,
    ) -> None:
        self.folds = folds
        self.record = record
        self.solver = solver
        self.given = dict(given or {})
        self.fold_metric = fold_metric
        self.best_value = -np.inf
        #: Whether the last value fell far below the best.
        self.fell = False

    def try_plans(self, plans: Sequence[Plan], start: Candidate | None) -> tuple[bool, Candidate]:
        """Solve and evaluate the plan of every fold, from the parameters of another candidate.

        Return whether they are the best so far, and the candidate.
        """
        plan, thetas, values = plans[0], [], []
        metrics = [parse_metric(plan.metric)]
        if self.fold_metric is not None and len(self.folds) > 1:
            metrics.append(self.fold_metric)
        for k, (fold_plan, (train, valid)) in enumerate(zip(plans, self.folds, strict=True)):
            theta = None
            if start is not None:
                theta = fold_plan.convert_parameters(start.thetas[k], start.plans[k])
            theta = self.solver.solve(fold_plan, train, theta, k)
            thetas.append(theta)
            values.append([evaluate_plan(fold_plan, valid, theta, metric) for metric in metrics])
        means = np.mean(values, axis=0).tolist()
        candidate = Candidate(plans, thetas, metrics[-1].sign * means[-1])
        record = {**plan.chosen(), "pairs": candidate.n_pairs, "value": means[0]}
        if len(metrics) > 1:
            record[metrics[-1].name] = means[-1]
        self.record(record)
        is_best = bool(candidate.value > self.best_value)
        self.fell = bool(candidate.value < self.best_value - CLIFF * abs(self.best_value))
        if is_best:
            self.best_value, self.best = candidate.value, candidate
        return is_best, candidate

    def path(
        self, plans: Sequence[Plan], name: str, values: Sequence[float], patience: int = 1
    ) -> bool:
        """Solve for strengths in order, each from the last, until ``patience`` gain nothing.

        Return whether one of them is the best of all.
        """
        start = None
        if np.isfinite(self.best_value):
            start = self.best
        n_failed, gained = 0, False
        if name in self.given:
            values = [self.given[name]]
        for value in values:
            strengths = replace(plans[0].strengths, **{name: value})
            changed = [replace(plan, strengths=strengths) for plan in plans]
            is_best, start = self.try_plans(changed, start)
            if is_best:
                n_failed, gained = 0, True
            else:
                n_failed += 1
            # A steep fall is not noise: weaker penalties would only fall further.
            if n_failed >= patience or self.fell:
                break
        return gained

    def refine(self, name: str, steps: int = 1) -> None:
        """Follow half decades up, or else down, as long as they gain."""
        if name in self.given:
            return
        value = getattr(self.best.strengths, name)
        ratios = [HALF**k for k in range(1, steps + 1)]
        if not self.path(self.best.plans, name, [value * ratio for ratio in ratios]):
            self.path(self.best.plans, name, [value / ratio for ratio in ratios])

    def add_rounds(self, rounds: int, factors: Sequence[float] = (1.0, 0.3)) -> None:
        """Add rounds with weights by the change of DCG, as long as each gains.

        Weighted pairs may need a weaker penalty, so every round tries these factors of it.
        """
        for k in range(1, rounds + 1):
            previous = self.best
            for factor in factors:
                strengths = replace(previous.strengths.times(factor), **self.given)
                plans = [replace(plan, rounds=k, strengths=strengths) for plan in previous.plans]
                self.try_plans(plans, previous)
            if self.best.plans[0].rounds < k:
                break


def search(
    plans: PlanSearch,
    plan: Plan,
    pairs: int | Sequence[tuple[int, int]],
    patience: int,
) -> None:
    """Search for strengths, then for pairs of columns."""
    stiff = replace(plan, strengths=replace(plan.strengths, smooth=STIFF))
    # Slopes alone: with stiff curves the model is a linear ranker.
    plans.path([stiff] * len(plans.folds), "anchor", (1.0, 0.1, 0.01))
    if plans.best.strengths.anchor == 1.0 and "anchor" not in plans.given:
        plans.path(plans.best.plans, "anchor", (10.0, 100.0))
    # Then curves, and grids over what these leave unexplained.
    if plans.path(plans.best.plans, "smooth", DECADES, patience):
        plans.refine("smooth")
    curves = plans.best
    if isinstance(pairs, int):
        by_fold = zip(plans.folds, curves.plans, curves.thetas, strict=True)
        fold_pairs = [best_pairs(free, train, theta, pairs) for (train, _), free, theta in by_fold]
        if any(map(len, fold_pairs)):
            search_grids(plans, fold_pairs, patience)
    elif len(pairs):
        # Pairs by name stay, also where curves alone rank held-out lists better.
        plans.best_value = -np.inf
        paired = [free.with_pairs(pairs) for free in curves.plans]
        plans.path(paired, "pair_smooth", DECADES[1:], patience)
        plans.refine("pair_smooth")
        plans.refine("smooth", 2)


def search_grids(
    plans: PlanSearch, pairs: Sequence[Sequence[tuple[int, int]]], patience: int
) -> None:
    """Choose strengths of the grids, then fewer pairs, then the strength of the curves again.

    ``pairs`` are those of every fold, best first.
    """

    def with_pairs(n_pairs: int) -> list[Plan]:
        by_fold = zip(plans.best.plans, pairs, strict=True)
        return [plan.with_pairs(fold_pairs[:n_pairs]) for plan, fold_pairs in by_fold]

    most = max(map(len, pairs))
    if not plans.path(with_pairs(most), "pair_smooth", DECADES[1:], patience):
        return
    plans.refine("pair_smooth")
    for n_pairs in (most // 3, most // 8):
        if n_pairs == 0:
            break
        is_best, _ = plans.try_plans(with_pairs(n_pairs), plans.best)
        if not is_best:
            break
    plans.refine("smooth", 2)


def plan_of_all_lists(
    chosen: Candidate,
    pairs: int | Sequence[tuple[int, int]],
    data: TableData,
    part: TableData,
    solver: PlanSolver,
) -> tuple[Plan, NDArray[np.float64] | None]:
    """Return the plan that folds have chosen for all lists, and parameters to start from.

    Its pairs are sought again, on a part of all lists.
    """
    if isinstance(pairs, int):
        pairs = chosen.n_pairs
    return first_solution(replace(chosen.plans[0], grids=None), part, data, pairs, solver)


def first_solution(
    plan: Plan,
    part: TableData,
    data: TableData,
    pairs: int | Sequence[tuple[int, int]],
    solver: PlanSolver,
) -> tuple[Plan, NDArray[np.float64] | None]:
    """Return the plan with its pairs and parameters to start from, found on a part of the lists.

    The risk is a sum over lists, so strengths shrink with the share of the lists.
    """
    strengths = plan.strengths
    small = replace(plan, strengths=strengths.times(part.lists.n_rows / data.lists.n_rows))
    theta = None
    if isinstance(pairs, int):
        n_pairs, pairs = pairs, []
        if n_pairs:
            theta = solver.solve(small, part, None)
            pairs = best_pairs(small, part, theta, n_pairs)
    paired = small.with_pairs(pairs)
    start = None
    if theta is not None:
        start = paired.convert_parameters(theta, small)
    if part is not data:
        start = solver.solve(paired, part, start)
    return replace(paired, strengths=strengths), start


def choose_rounds(
    plan: Plan,
    folds: Sequence[tuple[TableData, TableData]],
    rounds: int,
    record: Callable[[dict[str, float]], None],
    solver: PlanSolver,
) -> Plan:
    """Return the plan with as many rounds of weights by the change of DCG as improve it."""
    plans = PlanSearch(folds, record, solver)
    plans.try_plans([plan] * len(folds), None)
    plans.add_rounds(rounds, factors=(1.0,))
    return plans.best.plans[0]


def best_pairs(
    plan: Plan, data: TableData, theta: NDArray[np.float64], n_pairs: int
) -> list[tuple[int, int]]:
    """Return the pairs of columns whose interaction would gain most, best first."""
    free = [
        j
        for j, cells in enumerate(plan.bins.n_cells)
        if cells > 2 and plan.shapes.get(j) not in CURVED and (plan.column_counts(j) > 0).sum() > 1
    ]
    pairs = np.array([(a, b) for k, a in enumerate(free) for b in free[k + 1 :]], dtype=np.int64)
    if n_pairs == 0 or len(pairs) == 0:
        return []
    problem = plan.problem(data, make_risk(plan, data))
    _, slope, curvature = problem.evaluate_with_curvature(problem.scores(theta))
    positions = np.zeros((len(plan.bins.cuts), 256), dtype=np.uint16)
    for j in free:
        axis = grid_axis(plan.bins, j, plan.column_counts(j), SEARCH_SIDE - 1)
        positions[j, : len(axis.cells)] = axis.cells
    # The gain of a Newton step over each grid alone, from slopes and curvatures of the rows.
    gains = interaction_gains(
        data.rows, pairs, positions, SEARCH_SIDE, slope, curvature.diagonal(), 1.0, plan.threads
    )
    order = np.argsort(-gains, kind="stable")[:n_pairs]
    return [(int(a), int(b)) for a, b in pairs[order]]
