"""Fronts of several goals: what a little less of one goal buys of another.

``pareto`` fits a ranker to a grid of mixtures of goals (``rankine.rankers.goals``) and evaluates
every goal of every fit on held-out lists. A point *dominates* another if no goal is worse and one
is better. The *hypervolume* of a front is the volume of all values that some point reaches in every
goal, above the values of a random order: of two fronts on the same data the larger one is better.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from rankine.core.atomic import atomic_file
from rankine.core.checks import check_count, reject_sets
from rankine.core.errors import EmptyDataError, ParameterError, SchemaError
from rankine.core.user_warnings import warn_user
from rankine.data.dataset import Dataset
from rankine.data.expressions import parse_expression
from rankine.data.splits import split_queries
from rankine.evaluation.significance import (
    bootstrap_means,
    check_confidence,
    check_n_resamples,
    percentile_interval,
)
from rankine.evaluation.tables import Table
from rankine.metrics import Metric, data_columns, parse_metric
from rankine.metrics.engine import mean_value, query_evaluator
from rankine.metrics.gains import formula_values
from rankine.rankers.goals import GoalFits, are_grades, simplex_grid
from rankine.rankers.sources import adapt_raw_log

if TYPE_CHECKING:
    from rankine.model import LinearModel
    from rankine.rankers.base import BaseRanker
    from rankine.solvers.base import Callback

Floats = NDArray[np.float64]

#: Proportions of the lists to train on, to choose on and to test on, where only one set is given.
PROPORTIONS = (3, 1, 1)
#: File of a front beside its models.
INDEX_FILE = "front.json"


@dataclass(frozen=True, eq=False)
class HeldOutValues:
    """Value of every goal for every point on held-out lists, and the front of these values.

    Attributes
    ----------
    values, low, high
        Means with bootstrap intervals by list, points x goals.
    reference
        Value of every goal for a random order.
    optimal
        Whether each point is dominated by no other.
    hypervolume
        Volume between the random order and the points.
    n_queries
        Number of lists.
    """

    values: Floats
    low: Floats
    high: Floats
    reference: Floats
    optimal: NDArray[np.bool_]
    hypervolume: float
    n_queries: int
    #: Bootstrap means of every point and goal.
    drawn: Floats

    @property
    def shares(self) -> Floats:
        """Values as shares of the best of each goal."""
        return self.values / self.values.max(axis=0)


@dataclass(frozen=True)
class GoalResult:
    """Value of one goal of a chosen point on test lists, and its share of the best point's value.

    ``best`` is the point with the largest value of this goal on the validation lists.
    """

    goal: str
    metric: str
    value: float
    low: float
    high: float
    best: int
    share: float
    share_low: float
    share_high: float


@dataclass(frozen=True)
class ChosenPoint:
    """The point that maximises a goal while others keep a share of their best.

    ``point`` was chosen on the validation lists; ``results`` are values on the test lists.
    """

    point: int
    maximise: str
    floors: Mapping[str, float]
    results: Sequence[GoalResult]


@dataclass(frozen=True)
class Trade:
    """What giving up a share of one goal buys of another, on the front of the two."""

    less_of: str
    more_of: str
    given_up: float
    gained: float

    def __str__(self) -> str:
        given_up, gained = f"{self.given_up:.2g} %", f"{self.gained:.3g} %"
        return f"{given_up} less {self.less_of} buys {gained} more {self.more_of}"


@dataclass(frozen=True, eq=False)
class ParetoFront:
    """Fits to a grid of mixtures of goals, and their values on held-out lists.

    Attributes
    ----------
    ranker
        Class name of the ranker.
    goals, metrics
        Formulas of the goals, and the metric of each.
    shares, weights
        Shares a of the goals in each point, and the weights b of their risks.
    relative_gaps
        Certified gap of each point's mixed objective, as a share of its value at w = 0; NaN for
        rankers without a certificate.
    valid, test
        Held-out values.
    choice
        The chosen point, with ``maximise``.
    exact
        Whether points are certified.
    confidence
        Level of the intervals.

    Examples
    --------
    See ``pareto``.
    """

    ranker: str
    goals: tuple[str, ...]
    metrics: tuple[str, ...]
    shares: Floats
    weights: Floats
    relative_gaps: Floats
    valid: HeldOutValues
    test: HeldOutValues
    choice: ChosenPoint | None
    exact: bool
    confidence: float
    _fits: GoalFits

    def __len__(self) -> int:
        return len(self.shares)

    def fitted(self, point: int) -> BaseRanker:
        """Return the fitted ranker of a point."""
        return self._fits.fitted(self._fits.fits[point])

    def to_model(self, point: int | None = None) -> LinearModel:
        """Return a point, by default the chosen one, as a savable model."""
        if point is None:
            if self.choice is None:
                raise ParameterError(
                    "no point was chosen",
                    parameter="point",
                    fix="Pass its number, or maximise= to pareto",
                )
            point = self.choice.point
        return self.fitted(point).to_model()

    def choose(self, maximise: str, floors: Mapping[str, float] | None = None) -> ChosenPoint:
        """Choose a point on the validation lists, and compute its values on the test lists.

        Parameters
        ----------
        maximise
            Goal to maximise.
        floors
            Goal -> smallest share of the best value of this goal on the validation lists.
        """
        target = self._goal(maximise, "maximise")
        floors = dict(floors or {})
        allowed = np.ones(len(self), dtype=bool)
        slack = np.full(len(self), np.inf)
        for goal, share in floors.items():
            number = self._goal(goal, "floors")
            if not 0 < share <= 1:
                raise ParameterError(
                    f"{goal}={share!r} is not a share", parameter="floors", fix=f"Use {goal}=0.98"
                )
            reached = self._valid_shares()[:, number]
            allowed &= reached >= share
            slack = np.minimum(slack, reached - share)
        if not allowed.any():
            closest = int(np.argmax(slack))
            row = self._valid_shares()[closest]
            shares = ", ".join(
                f"{math.floor(1e4 * row[self.goals.index(goal)]) / 1e4:g} of {goal}"
                for goal in floors
            )
            raise ParameterError(
                f"no point keeps all of these shares on the validation lists; the closest keeps "
                f"{shares}",
                parameter="floors",
                fix="Lower a floor, or compute more points",
            )
        # A point that is dominated has another one beside it that is as good and meets the floors.
        allowed &= self.valid.optimal
        point = int(np.argmax(np.where(allowed, self.valid.values[:, target], -np.inf)))
        results = [self._result(goal, point) for goal in range(len(self.goals))]
        return ChosenPoint(point, self.goals[target], floors, results)

    def _goal(self, name: str, parameter: str) -> int:
        if name not in self.goals:
            raise ParameterError(
                f"{name!r} is no goal",
                parameter=parameter,
                fix=f"Use one of {', '.join(self.goals)}",
            )
        return self.goals.index(name)

    def _valid_shares(self) -> Floats:
        best = self.valid.values.max(axis=0)
        if (best <= 0).any():
            goal = self.goals[int(np.argmin(best))]
            raise ParameterError(
                f"the best value of {goal!r} on the validation lists is not positive, so there is "
                "no share of it to keep",
                parameter="floors",
                fix="Use another metric or more validation data",
            )
        return self.valid.shares

    def _result(self, goal: int, point: int) -> GoalResult:
        test = self.test
        best = int(np.argmax(self.valid.values[:, goal]))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = float(test.values[point, goal] / test.values[best, goal])
            drawn = test.drawn[:, point, goal] / test.drawn[:, best, goal]
        return GoalResult(
            self.goals[goal],
            self.metrics[goal],
            float(test.values[point, goal]),
            float(test.low[point, goal]),
            float(test.high[point, goal]),
            best,
            share,
            *percentile_interval(drawn, self.confidence),
        )

    def trade(self, less_of: str, more_of: str, share: float = 0.01) -> Trade | None:
        """Return what giving up a share of one goal's best value buys of another goal.

        Values between points of the test lists are interpolated on the front of the two goals.
        Returns None if no point has more of the other goal, or the front ends before this share is
        given up.
        """
        values = self.test.values[
            :, [self._goal(less_of, "less_of"), self._goal(more_of, "more_of")]
        ]
        front = values[is_optimal(values)]
        front = front[np.argsort(-front[:, 0])]
        if len(front) < 2 or front[0].min() <= 0:
            return None
        target = (1.0 - share) * front[0, 0]
        if front[-1, 0] > target:
            target = float(front[-1, 0])
            share = 1.0 - target / float(front[0, 0])
        bought = float(np.interp(target, front[::-1, 0], front[::-1, 1]))
        return Trade(less_of, more_of, 100 * share, 100 * (bought / float(front[0, 1]) - 1.0))

    @cached_property
    def trades(self) -> list[Trade]:
        """What one percent of the first goal buys of every other goal."""
        trades = [self.trade(self.goals[0], goal) for goal in self.goals[1:]]
        return [trade for trade in trades if trade is not None]

    def records(self) -> list[dict[str, Any]]:
        """Return one mapping per point, for tables and JSON."""
        records = []
        for point in range(len(self)):
            gap = float(self.relative_gaps[point])
            record: dict[str, Any] = {
                "point": point,
                "shares": _by_goal(self.goals, self.shares[point]),
                "weights": _by_goal(self.goals, self.weights[point]),
                "relative_gap": None if math.isnan(gap) else gap,
            }
            for name, part in (("valid", self.valid), ("test", self.test)):
                record[name] = {
                    "values": _by_goal(self.goals, part.values[point]),
                    "low": _by_goal(self.goals, part.low[point]),
                    "high": _by_goal(self.goals, part.high[point]),
                    "optimal": bool(part.optimal[point]),
                }
            records.append(record)
        return records

    def to_dict(self) -> dict[str, Any]:
        """Return data for JSON, as ``--json`` prints it."""
        parts = {}
        for name, part in (("valid", self.valid), ("test", self.test)):
            parts[name] = {
                "queries": part.n_queries,
                "hypervolume": part.hypervolume,
                "random": _by_goal(self.goals, part.reference),
            }
        return {
            "ranker": self.ranker,
            "goals": list(self.goals),
            "metrics": dict(zip(self.goals, self.metrics, strict=True)),
            "certified": self.exact,
            "confidence": self.confidence,
            **parts,
            "points": self.records(),
            "trades": [asdict(trade) for trade in self.trades],
            "choice": None if self.choice is None else asdict(self.choice),
        }

    def to_table(self) -> Any:
        """Convert to a pyarrow table, one row per point.

        For every goal it has the share, and value, interval and front of both held-out sets, such
        as ``test.clicked``, ``test.clicked.low`` and ``test.optimal``.
        """
        import pyarrow as pa

        columns: dict[str, Any] = {
            "point": np.arange(len(self)),
            "relative_gap": self.relative_gaps,
        }
        for k, goal in enumerate(self.goals):
            columns[f"share.{goal}"] = self.shares[:, k]
        for name, part in (("valid", self.valid), ("test", self.test)):
            for k, goal in enumerate(self.goals):
                columns[f"{name}.{goal}"] = part.values[:, k]
                columns[f"{name}.{goal}.low"] = part.low[:, k]
                columns[f"{name}.{goal}.high"] = part.high[:, k]
            columns[f"{name}.optimal"] = part.optimal
        return pa.table(columns)

    def save(self, folder: str | Path) -> dict[str, Any]:
        """Write a model file per point, and ``front.json`` that lists them; return this index."""
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        index = self.to_dict()
        width = len(str(len(self) - 1))
        for record in index["points"]:
            model = self.to_model(record["point"])
            record["model"] = f"point-{record['point']:0{width}d}.rankine"
            record["digest"] = model.digest
            model.save(target / record["model"])
        # Last: an index names only models that exist.
        with atomic_file(target / INDEX_FILE) as file:
            file.write(msgspec.json.format(msgspec.json.encode(index)))
        return index

    def tables(self) -> list[Table]:
        """Return tables of the points and of the choice."""
        tables = [self._points()]
        if self.choice is not None:
            tables.append(choice_table(self.choice, self.confidence))
        return tables

    def _points(self) -> Table:
        chosen = None if self.choice is None else self.choice.point
        rows, part = [], self.valid
        bold = set()
        for k in range(len(self)):
            mark = "chosen" if k == chosen else ""
            if not part.optimal[k]:
                mark = "dominated"
            gap = "" if math.isnan(self.relative_gaps[k]) else f"{self.relative_gaps[k]:.0e}"
            shares = " ".join(f"{share:.2f}" for share in self.shares[k])
            values = [f"{value:.4f}" for value in part.values[k]]
            rows.append((str(k), shares, *values, gap, mark))
            bold |= {(k, 2 + g) for g in range(len(self.goals)) if k == _best(part, g)}
        title = f"{self.ranker}: values on {part.n_queries} validation lists"
        header = ("point", "shares", *self.goals, "gap", "")
        table = Table(title, header, rows, 1, frozenset(bold), ("gap",), ("",))
        if not self.exact:
            table = replace(table, header=(*header[:-2], ""), rows=[(*r[:-2], r[-1]) for r in rows])
        return table


def _best(part: HeldOutValues, goal: int) -> int:
    return int(np.argmax(part.values[:, goal]))


def choice_table(choice: ChosenPoint, confidence: float) -> Table:
    """Return the test values of a chosen point as a table."""
    rows = [
        (
            result.goal,
            f"{result.value:.4f}",
            f"[{result.low:.4f}, {result.high:.4f}]",
            f"{result.share:.1%}",
            f"[{result.share_low:.1%}, {result.share_high:.1%}]",
        )
        for result in choice.results
    ]
    interval = f"{confidence:.0%} interval"
    return Table(
        f"Point {choice.point} on the test lists",
        ("goal", "value", interval, "of best", interval),
        rows,
    )


def _by_goal(goals: Sequence[str], values: Floats) -> dict[str, float]:
    return dict(zip(goals, values.tolist(), strict=True))


def is_optimal(values: Floats) -> NDArray[np.bool_]:
    """Return which rows no other row dominates; larger values are better.

    Examples
    --------
    >>> is_optimal(np.array([[1.0, 0.0], [0.5, 0.5], [0.4, 0.4]])).tolist()
    [True, True, False]
    """
    # Sums in another order differ in the last digits, which make nothing better.
    values = np.round(values / np.maximum(np.abs(values).max(axis=0), 1e-300), 12)
    no_worse = (values[:, None] >= values[None]).all(axis=2)
    better = (values[:, None] > values[None]).any(axis=2)
    return np.asarray(~(no_worse & better).any(axis=0))


def hypervolume(values: Floats, reference: Floats) -> float:
    """Return the volume between a reference and points; larger values are better.

    Examples
    --------
    >>> hypervolume(np.array([[1.0, 0.5], [0.5, 1.0]]), np.zeros(2))
    0.75
    """
    points = values[(values > reference).all(axis=1)]
    if len(points) == 0:
        return 0.0
    if len(reference) == 1:
        return float(points.max() - reference[0])
    # Between two neighbouring values of the last goal, the points above span the same volume.
    points = points[np.argsort(-points[:, -1])]
    levels = np.append(points[:, -1], reference[-1])
    return sum(
        float(levels[k] - levels[k + 1]) * hypervolume(points[: k + 1, :-1], reference[:-1])
        for k in range(len(points))
    )


def pareto(
    ranker: BaseRanker,
    data: Any,
    goals: Sequence[str],
    *,
    valid: Any = None,
    test: Any = None,
    metrics: str | Sequence[str] | None = None,
    n_points: int = 21,
    maximise: str | None = None,
    floors: Mapping[str, float] | None = None,
    query_weight: Any = None,
    confidence: float = 0.95,
    n_resamples: int = 1000,
    random_state: int = 0,
    callbacks: Sequence[Callback] = (),
) -> ParetoFront:
    r"""Fit a ranker to a grid of mixtures of goals, and evaluate every goal on held-out lists.

    A point with the shares a minimises

    .. math:: \sum_k b_k R_k(w) + \text{penalty}(w), \qquad b_k = a_k c_k / \sum_j a_j c_j, \qquad
              c_k = 1 / (R_k(0) - R_k(w_k))

    with the ranker's risk R_k of the labels of goal k and the fit w_k to this goal alone. Points
    with one goal are the fits to it; equal shares are balanced, whatever the units of the labels.
    Each point starts from its neighbours. ``RankSVM``, ``LeastSquaresRanker`` and
    ``AdditiveRanker`` certify every point; ``ElasticRanker``, which learns in one pass, mixes the
    gradients of the goals and has no certificate.

    Parameters
    ----------
    ranker
        Ranker with the parameters of all fits, one strength among them.
    data
        A ``Dataset`` with the columns of the goals, or a raw log (``rankine.logs.scan``).
    goals
        Two or three goals: columns or formulas of columns, such as ``"clicked"`` and
        ``"purchased*margin"``, larger is better. ``"label"`` is the label of the data, if no column
        has this name.
    valid, test
        Held-out data to choose a point on, and to report the values of that choice. Without them
        ``data`` is split by list at random: three fifths to train on, one for each of them.
    metrics
        Metric of each goal, or one for all, which gets ``:label=GOAL``. By default ``ndcg@10``, and
        the discounted sum ``dcg@10:gain=GOAL`` for goals that are no grades, such as money (add
        ``:discount=none`` for the sum itself).
    n_points
        Points at most; three goals have a triangle of them.
    maximise, floors
        Choose the point that maximises this goal on the validation lists while others keep a share
        of their best there, such as ``{"clicked": 0.98}``.
    query_weight
        Weights of training queries, as in ``fit``.
    confidence, n_resamples
        Level of the bootstrap intervals, and number of bootstrap samples of the lists.
    random_state
        Seed of the split and of the bootstrap samples.
    callbacks
        Called after every point; one that returns True ends the run with the points so far.

    Returns
    -------
    ParetoFront
        Points with values and intervals; ``to_model``, ``save``, ``to_table`` and ``choose``.

    Examples
    --------
    >>> import numpy as np
    >>> from rankine import Dataset, RankSVM, pareto
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3))
    >>> clicked = (X[:, 0] + rng.normal(size=2000) > 1).astype(float)
    >>> margin = np.exp(X[:, 1])
    >>> data = Dataset.from_arrays(X, clicked, np.repeat(np.arange(200), 10),
    ...                            columns={"clicked": clicked, "margin": margin})
    >>> front = pareto(RankSVM(), data, ["clicked", "clicked*margin"], n_points=5,
    ...                maximise="clicked*margin", floors={"clicked": 0.9})
    >>> len(front), bool(front.relative_gaps.max() <= 1e-3)
    (5, True)
    """
    names = _check_goals(goals)
    check_count("n_points", n_points)
    check_confidence(confidence)
    check_n_resamples(n_resamples)
    if n_points < len(names):
        raise ParameterError(
            f"{n_points} points for {len(names)} goals, each of which is a point",
            parameter="n_points",
            fix="Use 21",
        )
    if maximise is None and floors:
        raise ParameterError(
            "floors choose a point that maximises a goal, and none is named",
            parameter="maximise",
            fix=f"Name a goal, such as {names[-1]}",
        )
    train, valid, test = _split(data, valid, test, random_state)
    train = adapt_raw_log(train, ("memory",), for_tables=ranker.takes_tables)
    labels = goal_labels(train, names)
    rules = _goal_metrics(metrics, labels)
    # Before the fits, so that held-out data without a column of a metric costs no time.
    evaluators = [_HeldOutEvaluator(part, rules) for part in (valid, test)]
    fits = ranker.goal_fits(train, labels, query_weight)
    fits.solve(simplex_grid(len(names), n_points), callbacks)
    for fit in fits.fits:
        model = fits.fitted(fit)
        for evaluator in evaluators:
            evaluator.add(model)
    held_out = [evaluator.values(confidence, n_resamples, random_state) for evaluator in evaluators]
    front = ParetoFront(
        ranker=type(ranker).__name__,
        goals=names,
        metrics=tuple(str(rule) for rule in rules),
        shares=np.array([fit.shares for fit in fits.fits]),
        weights=np.array([fit.weights for fit in fits.fits]),
        relative_gaps=np.array([fit.relative_gap for fit in fits.fits]),
        valid=held_out[0],
        test=held_out[1],
        choice=None,
        exact=fits.mixture.exact,
        confidence=confidence,
        _fits=fits,
    )
    _warn_of_constant_values(front)
    if maximise is None:
        return front
    return replace(front, choice=front.choose(maximise, floors))


def _warn_of_constant_values(front: ParetoFront) -> None:
    """Warn of metrics that are the same for all points, such as sums over whole lists."""
    values = front.valid.values
    for goal, metric, spread, size in zip(
        front.goals, front.metrics, np.ptp(values, axis=0), np.abs(values).max(axis=0), strict=True
    ):
        if len(front) > 1 and spread <= 1e-9 * size:
            warn_user(
                f"{metric} of the goal {goal!r} is the same for all points, so there is nothing to "
                "trade. Lists may be shorter than its cutoff: use a smaller one, or a discount"
            )


def _check_goals(goals: Sequence[str]) -> tuple[str, ...]:
    reject_sets(goals=goals)
    if isinstance(goals, str) or not 2 <= len(goals) <= 3:
        raise ParameterError(
            f"{goals!r} is not a list of two or three goals",
            parameter="goals",
            fix="Pass for example ['clicked', 'purchased*margin']",
        )
    if len(set(goals)) != len(goals):
        raise ParameterError("a goal is named twice", parameter="goals", fix="Name each goal once")
    for goal in goals:
        parse_expression(goal)
    return tuple(goals)


def _split(data: Any, valid: Any, test: Any, seed: int) -> tuple[Dataset, Dataset, Dataset]:
    """Return rows to train, choose and test on; held-out sets that are not given are split off."""
    data, valid, test = (_load(part) for part in (data, valid, test))
    if data is None:
        raise SchemaError("there is no data", fix="Pass a Dataset")
    if valid is None and test is None:
        data, valid, test = split_queries(data, PROPORTIONS, seed)
    elif valid is None:
        data, valid = split_queries(data, (4, 1), seed)
    elif test is None:
        valid, test = split_queries(valid, (1, 1), seed)
    for name, part in (("data", data), ("valid", valid), ("test", test)):
        if part.n_queries < 2:
            raise EmptyDataError(
                f"{part.n_queries} lists are too few for {name}", fix="Pass more lists"
            )
    return data, valid, test


def _load(data: Any) -> Dataset | None:
    if data is None or isinstance(data, Dataset):
        return data
    if not hasattr(data, "load"):
        raise SchemaError(
            f"a front needs data with query ids and columns in memory, not {type(data).__name__}",
            fix="Pass a Dataset, rankine.load(...) or a raw log",
        )
    loaded: Dataset = data.load()
    return loaded


def goal_labels(data: Dataset, goals: Sequence[str]) -> dict[str, Floats]:
    """Return the labels of every goal; ``"label"`` is that of the data without such a column."""
    labels = {}
    for goal in goals:
        if _is_label(goal, data):
            labels[goal] = data.y
            continue
        formula = parse_expression(goal)
        missing = [name for name in formula.columns if name not in data.columns]
        if missing:
            available = ", ".join(sorted(data.columns)) or "no columns"
            raise ParameterError(
                f"{goal!r} needs the column {missing[0]!r}, and the data has {available}",
                parameter="goals",
                fix="Check the spelling, or load the column (columns=)",
            )
        labels[goal] = formula_values(formula, data.columns, data.n_rows, "goal")
    return labels


def _is_label(goal: str, data: Dataset) -> bool:
    return goal == "label" and "label" not in data.columns


def _goal_metrics(
    metrics: str | Sequence[str] | None, labels: Mapping[str, Floats]
) -> list[Metric]:
    """Return the metric of every goal."""
    if metrics is not None and not isinstance(metrics, str) and len(metrics) == len(labels):
        rules = [parse_metric(text) for text in metrics]
    elif metrics is None:
        rules = [_default_metric(goal, y) for goal, y in labels.items()]
    else:
        texts = [metrics] if isinstance(metrics, str) else list(metrics)
        if len(texts) != 1:
            raise ParameterError(
                f"{len(texts)} metrics for {len(labels)} goals",
                parameter="metrics",
                fix="Name one for all goals, or one for each in their order",
            )
        common = parse_metric(texts[0])
        rules = [_with_label(common, goal) for goal in labels]
    for rule in rules:
        if not rule.larger_is_better:
            raise ParameterError(
                f"{rule} is an error, and the values of goals are maximised",
                parameter="metrics",
                fix="Use ndcg@10, for example",
            )
    return rules


def _default_metric(goal: str, y: Floats) -> Metric:
    if are_grades(y):
        return _with_label(parse_metric("ndcg@10"), goal)
    return parse_metric(f"dcg@10:gain={goal}")


def _with_label(metric: Metric, goal: str) -> Metric:
    if goal == "label" or metric.label is not None:
        return metric
    return metric.with_options(label=goal)


class _HeldOutEvaluator:
    """Evaluates the metrics of all goals for one fitted ranker after the other."""

    def __init__(self, data: Dataset, metrics: Sequence[Metric]) -> None:
        self.data = data
        self.metrics = metrics
        labels, columns = data.queries.gather(data.y), data_columns(data)
        self._evaluators = [
            query_evaluator(metric, labels, data.queries, columns) for metric in metrics
        ]
        #: By point and goal: value and mass of every list.
        self._measured: list[list[tuple[Floats, Floats]]] = []
        zeros = np.zeros(data.n_rows)
        self.reference = np.array([self._mean(k, zeros) for k in range(len(metrics))])

    def add(self, ranker: BaseRanker) -> None:
        """Evaluate a fitted ranker."""
        scores = self.data.queries.gather(ranker.predict(self.data))
        self._measured.append([self._measure(k, scores) for k in range(len(self.metrics))])

    def _measure(self, goal: int, scores: Floats) -> tuple[Floats, Floats]:
        """Return the values of all lists, and the weight of each in the mean (0 if skipped)."""
        metric = self.metrics[goal]
        values, mass = self._evaluators[goal].from_scores(scores)
        if metric.mean not in {"pairs", "items"}:
            mass = np.ones(len(mass))
        defined = ~np.isnan(values)
        return np.where(defined, values, 0.0), np.where(defined, mass, 0.0)

    def _mean(self, goal: int, scores: Floats) -> float:
        """Return the mean over all lists; raise if the metric is undefined for all of them."""
        values, mass = self._evaluators[goal].from_scores(scores)
        return mean_value(self.metrics[goal], values, mass)

    def values(self, confidence: float, n_resamples: int, seed: int) -> HeldOutValues:
        """Return the values of all rankers so far."""
        shape = (len(self._measured), len(self.metrics))
        sums = [value * mass for point in self._measured for value, mass in point]
        # Whether a list counts does not depend on its scores.
        masses = [mass for _, mass in self._measured[0]]
        columns = np.column_stack([*sums, *masses])
        drawn = bootstrap_means(columns, n_resamples, seed)
        n_goals = len(masses)
        drawn_sums = drawn[:, :-n_goals].reshape(-1, *shape)
        with np.errstate(invalid="ignore"):  # a small sample may hold no list that counts
            drawn_means = drawn_sums / drawn[:, None, -n_goals:]
        means = columns.mean(axis=0)
        values = means[:-n_goals].reshape(shape) / means[-n_goals:]
        tail = (1 - confidence) / 2
        low, high = np.nanquantile(drawn_means, [tail, 1 - tail], axis=0)
        optimal = is_optimal(values)
        return HeldOutValues(
            values,
            low,
            high,
            self.reference,
            optimal,
            hypervolume(values[optimal], self.reference),
            self.data.n_queries,
            drawn_means,
        )
