"""How an additive ranker finds its strengths, its pairs and its weights on held-out lists.

``TableData`` holds what training needs of some lists: one byte a cell, labels, and how the pair
losses see them. ``search`` walks paths of falling strengths, each solved from the last: slopes
first, then curves, then grids over the pairs that the curves leave most to, and keeps what ranks
the held-out lists best. The risk is a sum over lists, so strengths found on a part serve the whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.specs import Bins, Grids
from rankine.kernels.binned import BinnedProducts, BinnedRows, take_rows
from rankine.kernels.products import Products
from rankine.kernels.random import permutation, stream_seed
from rankine.losses.active_pairs import SquaredHingeRisk
from rankine.losses.list_risk import DeltaRisk, SoftmaxRisk, gain_shares
from rankine.losses.pair_queries import PairQueries, check_normalization
from rankine.losses.pairwise.squared_hinge import SquaredHinge
from rankine.metrics import evaluate_on, parse_metric
from rankine.solvers.newton import solve_newton
from rankine.solvers.pair_search import interaction_gains
from rankine.solvers.tables import PenaltyStrengths, TablePenalty, TableProblem, TableSpace
from rankine.transforms.bins import grid_axis, layout_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rankine.data.dataset import Dataset
    from rankine.solvers.base import Callback, Solution

LOSSES = ("squared_hinge", "softmax")
#: A strength that leaves curves their slopes alone, unless there are very many lists.
STIFF = 1000.0
#: Strengths that are tried first, from nearly linear to tables that follow every bin.
DECADES = (100.0, 10.0, 1.0, 0.1, 0.01, 0.001)
#: Steps between decades.
HALF = 10.0**0.5
#: Rows on which strengths and pairs are sought; the risk is a sum, so they serve all rows.
SEARCH_ROWS = 60_000
#: A path ends at once where the metric falls by more than this share of the best.
CLIFF = 0.01
#: Estimated gap, relative to J(0), to which steps of the search are solved.
SEARCH_TOL = 1e-3
#: Places on a side of the grids in which interactions are sought.
SEARCH_SIDE = 16
#: With fewer columns than this, grids are finer.
FEW_COLUMNS = 30
_HELD_OUT = 0x48454C44


@dataclass(frozen=True, eq=False)
class TableData:
    """Lists as an additive ranker sees them.

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

    def take_queries(self, chosen: NDArray[np.int64]) -> TableData:
        """Whole queries by position, in order of their rows."""
        index = self.lists.queries
        mask = np.zeros(index.n_queries, dtype=np.bool_)
        mask[chosen] = True
        rows = np.flatnonzero(mask[index.codes])
        lists = self.lists.take(rows)
        kept = index.codes[rows]
        _, first = np.unique(kept, return_index=True)
        order = kept[np.sort(first)]
        linear = None if self.linear is None else self.linear[rows]
        return TableData(lists, self.query_weight[order], take_rows(self.rows, rows), linear)


def hold_out(data: TableData, seed: int) -> tuple[TableData, TableData]:
    """Lists to search on and a fifth of the lists, held out, both chosen by the seed."""
    order = permutation(stream_seed(seed, _HELD_OUT), data.lists.n_queries)
    n_held = max(1, len(order) // 5)
    return _some(data, order[n_held:]), _some(data, order[:n_held])


def sample(data: TableData, seed: int) -> TableData:
    """Lists to search on, chosen by the seed."""
    return _some(data, permutation(stream_seed(seed, _HELD_OUT), data.lists.n_queries))


def _some(data: TableData, order: NDArray[np.int64]) -> TableData:
    """The first of these lists that hold about ``SEARCH_ROWS`` rows; the data itself if it can."""
    reached = np.cumsum(data.lists.queries.sizes[order])
    n_kept = max(1, int(np.searchsorted(reached, SEARCH_ROWS, side="right")))
    if n_kept >= data.lists.n_queries:
        return data
    return data.take_queries(np.sort(order[:n_kept]))


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything that is chosen before the last solution.

    Attributes
    ----------
    bins, means
        Cells of columns and their places for slopes.
    strengths
        Penalties.
    n_linear
        Columns that stay linear.
    grids
        Pairs with tables, or None.
    rounds
        Rounds of weights by Delta.
    loss, monotone, tol, max_iter, threads, metric
        As the ranker was told.
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
    monotone: Mapping[int, int] = field(default_factory=dict)
    max_iter: int = 100
    threads: int | None = None

    def space(self) -> TableSpace:
        """Parameters of the tables."""
        layout = layout_of(self.bins, self.grids)
        return TableSpace.build(
            layout, self.bins, self.grids, self.means, self.monotone, self.n_linear
        )

    def problem(self, data: TableData, risk: Any) -> TableProblem:
        """The risk of lists as a function of parameters."""
        space = self.space()
        linear = None
        if data.linear is not None:
            from rankine.data.dataset import as_rows

            linear = Products(as_rows(data.linear), data.linear.shape[1], self.threads)
        products = BinnedProducts(data.rows, space.layout, self.threads)
        return TableProblem(space, products, risk, linear)

    def carried(self, theta: NDArray[np.float64], before: Plan) -> NDArray[np.float64]:
        """Parameters of a plan with other grids; grids of the same pair keep their tables."""
        space, old = self.space(), before.space()
        out = np.zeros(space.size)
        n_cells = space.n_curve_cells
        out[:n_cells] = theta[:n_cells]
        out[space.layout.size :] = theta[old.layout.size :]
        known = {pair: g for g, pair in enumerate(before.pairs)}
        for g, pair in enumerate(self.pairs):
            if pair in known:
                start, source = space.layout.grid_starts[g], old.layout.grid_starts[known[pair]]
                size = int(np.prod(space.grid_sides[g]))
                out[start : start + size] = theta[source : source + size]
        return out

    def with_pairs(self, pairs: Sequence[tuple[int, int]]) -> Plan:
        """The same plan with grids over these pairs of columns."""
        if not len(pairs):
            return replace(self, grids=None)
        side = 32 if len(self.bins.cuts) < FEW_COLUMNS else 16
        columns = sorted({int(j) for pair in pairs for j in pair})
        place = {j: k for k, j in enumerate(columns)}
        axes = tuple(grid_axis(self.bins, j, self.column_counts(j), side) for j in columns)
        named = tuple((place[min(p)], place[max(p)]) for p in (tuple(map(int, p)) for p in pairs))
        return replace(self, grids=Grids(axes, named))

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of columns with a grid."""
        grids = self.grids
        if grids is None:
            return []
        return [(grids.axes[a].column, grids.axes[b].column) for a, b in grids.pairs]

    def notes(self) -> dict[str, float]:
        """What was chosen, in numbers."""
        strengths = self.strengths
        return {
            "smooth": strengths.smooth,
            "pair_smooth": strengths.pair_smooth,
            "anchor": strengths.anchor,
            "rounds": self.rounds,
        }

    def column_counts(self, j: int) -> NDArray[np.float64]:
        """Rows of each cell of a column."""
        ends = np.cumsum(self.bins.n_cells)
        return self.counts[ends[j] - self.bins.n_cells[j] : ends[j]]


class Records:
    """What plans were solved to: told again to a run that is resumed.

    Parameters
    ----------
    journal
        Where answers are kept (``rankine.distributed.journal``), or None.
    """

    def __init__(self, journal: Any = None) -> None:
        self.journal = journal

    def solve(
        self, plan: Plan, data: TableData, start: NDArray[np.float64] | None
    ) -> NDArray[np.float64]:
        """Parameters of a plan, well enough to judge it."""

        def ask() -> tuple[NDArray[np.float64]]:
            return (solve_plan(plan, data, start, SEARCH_TOL, certify=False).coef,)

        if self.journal is None:
            return ask()[0]
        asked = (plan.notes(), plan.pairs, start)
        found: NDArray[np.float64] = self.journal.recall_or_compute("plan", asked, ask)[0]
        return found


def make_risk(plan: Plan, data: TableData, ranked_by: NDArray[np.float64] | None = None) -> Any:
    """The loss of lists; with scores given, pairs weighted by Delta at their ranking."""
    queries = PairQueries.from_dataset(data.lists, data.query_weight)
    check_normalization("query", queries.n_queries)
    if ranked_by is None and plan.loss == "squared_hinge":
        omega = queries.query_weight / queries.pair_weight
        return SquaredHingeRisk(SquaredHinge(), queries, omega, threads=plan.threads)
    gains = list_gains(data.lists.y[queries.rows], queries.starts)
    if ranked_by is None:
        weighed = gains if queries.weight is None else gains * queries.weight
        shares = gain_shares(weighed, queries.starts)
        return SoftmaxRisk(queries, queries.query_weight, shares, plan.threads)
    cutoff = parse_metric(plan.metric).cutoff
    depth = cutoff if isinstance(cutoff, int) else 10
    return DeltaRisk(queries, queries.query_weight, gains, ranked_by, depth, plan.threads)


def list_gains(y: NDArray[np.float64], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """2^(label - lowest label of the list) - 1; labels beyond grades count by their rank share."""
    lowest = np.repeat(np.minimum.reduceat(y, starts[:-1]), np.diff(starts))
    above = y - lowest
    return np.exp2(above) - 1.0 if above.max(initial=0.0) <= 31 else above / above.max()


def solve_plan(
    plan: Plan,
    data: TableData,
    start: NDArray[np.float64] | None,
    tol: float,
    callbacks: Sequence[Callback] = (),
    *,
    certify: bool = True,
) -> Solution:
    """Solve a plan on lists: the plain loss, then its rounds of weights by Delta."""
    problem = plan.problem(data, make_risk(plan, data))
    penalty = TablePenalty(problem.space, plan.strengths, plan.threads)
    told: dict[str, Any] = {"tol": tol, "max_iter": plan.max_iter, "callbacks": callbacks}
    told["certify"] = certify
    solution = solve_newton(problem, penalty, start=start, **told)
    for _ in range(plan.rounds):
        ranked_by = problem.scores(solution.coef)
        problem = plan.problem(data, make_risk(plan, data, ranked_by))
        solution = solve_newton(problem, penalty, start=solution.coef, **told)
    return solution


def judged(plan: Plan, valid: TableData, theta: NDArray[np.float64]) -> float:
    """The metric of parameters on held-out lists."""
    scores = plan.problem(valid, None).scores(theta)
    return float(evaluate_on(valid.lists, metric=parse_metric(plan.metric), scores=scores))


class _Walk:
    """Plans tried on training lists and judged on held-out ones; the best is kept."""

    plan: Plan
    theta: NDArray[np.float64]

    def __init__(
        self,
        train: TableData,
        valid: TableData,
        told: Callable[[dict[str, float]], None],
        records: Records,
    ) -> None:
        self.train = train
        self.valid = valid
        self.told = told
        self.records = records
        self.value = -np.inf
        self.fell = False

    def try_plan(
        self, plan: Plan, start: NDArray[np.float64] | None
    ) -> tuple[bool, NDArray[np.float64]]:
        """Solve and evaluator: whether it is the best so far, and its parameters."""
        theta = self.records.solve(plan, self.train, start)
        metric = parse_metric(plan.metric)
        value = judged(plan, self.valid, theta)
        self.told({**plan.notes(), "pairs": len(plan.pairs), "value": value})
        signed = value if metric.larger_is_better else -value
        better = bool(signed > self.value)
        self.fell = bool(signed < self.value - CLIFF * abs(self.value))
        if better:
            self.value, self.plan, self.theta = signed, plan, theta
        return better, theta

    def path(self, plan: Plan, name: str, values: Sequence[float], patience: int = 1) -> bool:
        """Try strengths in order, each from the last, until ``patience`` of them gain nothing.

        True when one of them is the best of all.
        """
        known = np.isfinite(self.value)
        start = plan.carried(self.theta, self.plan) if known else None
        failed, gained = 0, False
        for value in values:
            tried = replace(plan, strengths=replace(plan.strengths, **{name: value}))
            better, start = self.try_plan(tried, start)
            failed, gained = (0, True) if better else (failed + 1, gained)
            if failed >= patience or self.fell:
                break
        return gained

    def refine(self, name: str, steps: int = 1) -> None:
        """Half decades up, or else down, as long as they gain."""
        value = getattr(self.plan.strengths, name)
        ratios = [HALF**k for k in range(1, steps + 1)]
        if not self.path(self.plan, name, [value * ratio for ratio in ratios]):
            self.path(self.plan, name, [value / ratio for ratio in ratios])

    def add_rounds(self, rounds: int, eased: Sequence[float] = (1.0, 0.3)) -> None:
        """Rounds of weights by Delta, as long as each gains; weights may ease the penalty."""
        for k in range(1, rounds + 1):
            before = self.plan
            for factor in eased:
                strengths = before.strengths.times(factor)
                self.try_plan(replace(before, rounds=k, strengths=strengths), self.theta)
            if self.plan.rounds < k:
                break


def search(
    plan: Plan,
    train: TableData,
    valid: TableData,
    pairs: int | Sequence[tuple[int, int]],
    rounds: int,
    patience: int,
    seed: int,
    told: Callable[[dict[str, float]], None],
    records: Records,
) -> tuple[Plan, NDArray[np.float64]]:
    """The plan that ranks held-out lists best, and its parameters."""
    walk = _Walk(sample(train, seed), valid, told, records)
    stiff = replace(plan, strengths=replace(plan.strengths, smooth=STIFF))
    walk.path(stiff, "anchor", (1.0, 0.1, 0.01))
    if walk.plan.strengths.anchor == 1.0:
        walk.path(walk.plan, "anchor", (10.0, 100.0))
    if walk.path(walk.plan, "smooth", DECADES, patience):
        walk.refine("smooth")
    curves = walk.plan
    if isinstance(pairs, int):
        pairs = best_pairs(curves, walk.train, walk.theta, pairs)
    if len(pairs):
        _pair_paths(walk, curves.with_pairs(pairs), pairs, patience)
    walk.add_rounds(rounds)
    return walk.plan, walk.theta


def first_solution(
    plan: Plan,
    few: TableData,
    data: TableData,
    pairs: int | Sequence[tuple[int, int]],
    records: Records,
) -> tuple[Plan, NDArray[np.float64] | None]:
    """The plan with its pairs, and parameters to start from, both found on a few of the lists.

    The risk is a sum over lists, so the share of the lists is that of the strengths, too.
    """
    strengths = plan.strengths
    own = replace(plan, strengths=strengths.times(few.lists.n_rows / data.lists.n_rows))
    theta = None
    if isinstance(pairs, int):
        theta = records.solve(own, few, None) if pairs else None
        pairs = [] if theta is None else best_pairs(own, few, theta, pairs)
    paired = own.with_pairs(pairs)
    start = None if theta is None else paired.carried(theta, own)
    if few is not data:
        start = records.solve(paired, few, start)
    return replace(paired, strengths=strengths), start


def judge_rounds(
    plan: Plan,
    train: TableData,
    valid: TableData,
    rounds: int,
    told: Callable[[dict[str, float]], None],
    records: Records,
) -> Plan:
    """The plan with as many rounds of weights by Delta as held-out lists gain from."""
    walk = _Walk(train, valid, told, records)
    walk.try_plan(plan, None)
    walk.add_rounds(rounds, eased=(1.0,))
    return walk.plan


def _pair_paths(walk: _Walk, plan: Plan, pairs: Sequence[tuple[int, int]], patience: int) -> None:
    """Strengths of grids; then fewer pairs; then the curves' strength again."""
    if not walk.path(plan, "pair_smooth", DECADES[1:], patience):
        return
    walk.refine("pair_smooth")
    for fewer in (len(pairs) // 3, len(pairs) // 8):
        few = walk.plan.with_pairs(pairs[:fewer])
        if fewer == 0 or not walk.try_plan(few, few.carried(walk.theta, walk.plan))[0]:
            break
    walk.refine("smooth", 2)


def best_pairs(
    plan: Plan, data: TableData, theta: NDArray[np.float64], n_pairs: int
) -> list[tuple[int, int]]:
    """The pairs of columns whose interaction would gain most, best first."""
    free = [
        j
        for j, cells in enumerate(plan.bins.n_cells)
        if cells > 2 and plan.monotone.get(j, 0) == 0 and (plan.column_counts(j) > 0).sum() > 1
    ]
    pairs = np.array([(a, b) for k, a in enumerate(free) for b in free[k + 1 :]], dtype=np.int64)
    if n_pairs == 0 or len(pairs) == 0:
        return []
    problem = plan.problem(data, make_risk(plan, data))
    _, slope, curvature = problem.evaluate_with_curvature(problem.scores(theta))
    places = np.zeros((len(plan.bins.cuts), 256), dtype=np.uint16)
    for j in free:
        axis = grid_axis(plan.bins, j, plan.column_counts(j), SEARCH_SIDE - 1)
        places[j, : len(axis.cells)] = axis.cells
    gains = interaction_gains(
        data.rows, pairs, places, SEARCH_SIDE, slope, curvature.diagonal(), 1.0, plan.threads
    )
    order = np.argsort(-gains, kind="stable")[:n_pairs]
    return [(int(a), int(b)) for a, b in pairs[order]]
