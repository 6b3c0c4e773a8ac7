"""Evaluate metrics: from labels and scores to the value of each query, and their mean."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankine.core.errors import EmptyDataError, NoPairsError, ParameterError, SchemaError
from rankine.data.dataset import (
    Dataset,
    check_finite,
    check_labels,
    check_weight,
    row_scores,
)
from rankine.data.expressions import parse_expression
from rankine.data.query_index import QueryIndex
from rankine.kernels.shards import cut_by_weight, map_shards
from rankine.metrics.families import (
    ItemPool,
    RankedLists,
    list_expected,
    list_value,
    pair_values,
    ranked_values,
    weighted_values,
)
from rankine.metrics.gains import (
    cutoffs,
    docid_key,
    flag_column,
    formula_values,
    gain_values,
    group_numbers,
    relevance,
)
from rankine.metrics.metric import Metric, find_definition, parse_metric
from rankine.metrics.probability import row_losses
from rankine.transforms.apply import score_dataset

#: Below this number of rows a thread pool costs more than it gains.
_MIN_ROWS_FOR_THREADS = 20_000

#: Half the width of a 95 % interval, in standard errors.
HALF_WIDTH = 1.96

Floats = NDArray[np.float64]


class QueryValues(NamedTuple):
    """Per query: the value (NaN if the query is skipped) and its mass, the weight when pooled."""

    value: Floats
    mass: Floats


class QueryEvaluator(ABC):
    """Evaluate one metric on fixed rows, for many score vectors, query by query.

    Rows are in grouped order: query q holds rows starts[q]:starts[q + 1].
    """

    def __init__(self, metric: Metric) -> None:
        self.metric = metric

    def from_scores(self, scores: Floats) -> QueryValues:
        """Return the values of all queries under one score per row."""
        return self._fill_undefined(*self._measure_scores(scores))

    def from_weights(self, features: Floats, weights: Floats) -> QueryValues:
        """Return values of shape (candidates, queries) under scores features @ weights[c]."""
        return self._fill_undefined(*self._measure_weights(features, weights))

    @abstractmethod
    def _measure_scores(self, scores: Floats) -> tuple[Floats, Floats]: ...

    def _measure_weights(self, features: Floats, weights: Floats) -> tuple[Floats, Floats]:
        measured = [self._measure_scores(features @ w) for w in weights]
        # The mass depends on labels alone, so it is the same for all weights.
        return np.array([values for values, _ in measured]), measured[0][1]

    def _fill_undefined(self, values: Floats, mass: Floats) -> QueryValues:
        """Replace NaN, a query without relevant documents, by the value of ``no_relevant``."""
        if self.metric.no_relevant != "skip":
            values[np.isnan(values)] = float(str(self.metric.no_relevant))
        return QueryValues(values, mass)


def query_evaluator(
    metric: Metric, labels: Floats, queries: QueryIndex, columns: Mapping[str, Any]
) -> QueryEvaluator:
    """Prepare a metric for rows whose labels are in grouped order, if it does not replace them.

    ``columns`` are in row order.
    """
    grouped = columns
    if queries.rows is not None:
        present = {name: values for name, values in columns.items() if values is not None}
        grouped = {name: queries.gather(np.asarray(values)) for name, values in present.items()}
    if metric.label is not None:
        labels = formula_values(parse_expression(metric.label), grouped, len(labels), "label")
    # From here on rows are in grouped order, so the index has no row numbers.
    data = _GroupedRows(
        labels,
        QueryIndex(queries.ids, queries.starts),
        grouped,
        flag_column(metric.displayed, grouped, len(labels)),
        flag_column(metric.retrieved, grouped, len(labels)),
    )
    family = find_definition(metric.name).family
    if family == "ranks":
        return _RankedListEvaluator(metric, data)
    if family == "rows":
        return _RowEvaluator(metric, data)
    return _PairEvaluator(metric, data)


class _GroupedRows(NamedTuple):
    """Labels, queries and columns in grouped order, and which rows were displayed, retrieved."""

    labels: Floats
    queries: QueryIndex
    columns: Mapping[str, NDArray[Any]]
    displayed: NDArray[np.bool_] | None
    retrieved: NDArray[np.bool_] | None


def _require_implementations(spec: Any) -> None:
    """Raise if a metric of ranked lists lacks a function that its family calls."""
    # Numba's error for it is a page long.
    for name, function in (("list_value", list_value), ("list_expected", list_expected)):
        if type(spec) not in function.implementations:
            raise ParameterError(
                f"{name} has no implementation for {type(spec).__name__}",
                parameter="metric",
                fix="Implement list_value and list_expected of rankine.metrics.families for it",
            )


class _RankedListEvaluator(QueryEvaluator):
    """Evaluate a metric of ranked lists."""

    def __init__(self, metric: Metric, data: _GroupedRows) -> None:
        super().__init__(metric)
        starts = data.queries.starts
        gains = _item_gains(metric, data)
        tie_key = _tie_key(metric, gains, data)
        self._spec = find_definition(metric.name).spec(metric, int(data.queries.sizes.max()))
        _require_implementations(self._spec)
        self._depth = cutoffs(metric.cutoff, data.queries, data.columns)
        self._query_starts = starts
        self._pool = ItemPool(starts, gains)
        self._retrieved = data.retrieved
        # Items that were not retrieved have no rank, but count among the relevant ones.
        if data.retrieved is not None:
            starts = _count_before(data.retrieved, starts)
            gains = gains[data.retrieved]
            if tie_key is not None:
                tie_key = tie_key[data.retrieved]
        self._starts, self._gains, self._tie_key = starts, gains, tie_key
        # With items that have a rank: a list of which few were retrieved is short as well.
        self._is_short = self._depth > np.diff(starts)

    def _measure_scores(self, scores: Floats) -> tuple[Floats, Floats]:
        lists = self._lists(scores)
        values = np.empty(len(self._depth))

        def work(first: int, last: int) -> None:
            ranked_values(self._spec, lists, self._pool, self._depth, first, last, values)

        _map_queries(work, self._query_starts)
        return self._with_short_lists(values)

    def _measure_weights(self, features: Floats, weights: Floats) -> tuple[Floats, Floats]:
        lists = self._lists(features)
        values = np.empty((len(weights), len(self._depth)))

        def work(first: int, last: int) -> None:
            weighted_values(
                self._spec, lists, self._pool, self._depth, weights, first, last, values
            )

        _map_queries(work, self._query_starts)
        return self._with_short_lists(values)

    def _lists(self, rows: Floats) -> RankedLists:
        if self._retrieved is not None:
            rows = rows[self._retrieved]
        return RankedLists(
            self._starts,
            self._gains,
            rows,
            np.empty(0) if self._tie_key is None else self._tie_key,
            has_tie_key=self._tie_key is not None,
            averages_ties=self.metric.ties == "expected",
        )

    def _with_short_lists(self, values: Floats) -> tuple[Floats, Floats]:
        if self.metric.short == "zero":
            values[self._is_short & ~np.isnan(values)] = 0.0
        return values, np.ones(len(self._depth))


def _item_gains(metric: Metric, data: _GroupedRows) -> Floats:
    """Return the gain or relevance of each row; items that were not displayed have none."""
    items = find_definition(metric.name).items
    if items == "gain":
        gains = gain_values(str(metric.gain), data.labels, data.columns, metric.max_label)
    else:
        gains = relevance(data.labels, float(metric.threshold or 0.0))
    if items in {"group", "relevant group"}:
        groups = group_numbers(str(metric.by), data.columns, len(gains))
        if items == "relevant group":
            # Nothing is known to be redundant with an item without a value.
            alone = groups.max(initial=0.0) + 1.0 + np.arange(len(groups))
            groups = gains * np.where(groups > 0, groups, alone)
        gains = groups
    if data.displayed is None:
        return gains
    return np.where(data.displayed, gains, 0.0)


def _tie_key(metric: Metric, gains: Floats, data: _GroupedRows) -> Floats | None:
    """Return the key that orders equal scores, smallest first; None: the metric has no key."""
    if metric.ties == "worst":
        return gains
    if metric.ties == "docid":
        return docid_key(data.columns, len(gains))
    return None


class _PairEvaluator(QueryEvaluator):
    """Evaluate a metric of pairs; items that were not displayed form no pairs."""

    def __init__(self, metric: Metric, data: _GroupedRows) -> None:
        super().__init__(metric)
        self._spec = find_definition(metric.name).spec(metric, int(data.queries.sizes.max()))
        self._displayed, self._retrieved = data.displayed, data.retrieved
        self._starts, self._labels = data.queries.starts, data.labels
        if data.displayed is not None:
            self._starts = _count_before(data.displayed, self._starts)
            self._labels = self._labels[data.displayed]

    def _measure_scores(self, scores: Floats) -> tuple[Floats, Floats]:
        if self._retrieved is not None:
            # Items that were not retrieved rank below all that were, and are tied with each other.
            scores = np.where(self._retrieved, scores, scores.min(initial=0.0) - 1.0)
        if self._displayed is not None:
            scores = scores[self._displayed]
        values, mass = np.empty(len(self._starts) - 1), np.empty(len(self._starts) - 1)

        def work(first: int, last: int) -> None:
            pair_values(self._spec, self._starts, self._labels, scores, first, last, values, mass)

        _map_queries(work, self._starts)
        # A query without pairs has no value.
        values[mass == 0.0] = np.nan
        return values, mass


class _RowEvaluator(QueryEvaluator):
    """Evaluate a metric of probabilities: the mean loss of the rows of each query."""

    def __init__(self, metric: Metric, data: _GroupedRows) -> None:
        super().__init__(metric)
        self._spec = find_definition(metric.name).spec(metric, 0)
        self._starts, self._labels = data.queries.starts, data.labels

    def _measure_scores(self, scores: Floats) -> tuple[Floats, Floats]:
        losses = row_losses(self.metric, self._spec, self._labels, scores)
        # Not ``np.add.reduceat``, which returns the next query's loss for a query without rows.
        sums = np.concatenate([[0.0], np.cumsum(losses)])[self._starts]
        sizes = np.diff(self._starts).astype(np.float64)
        values = np.full(len(sizes), np.nan)
        return np.divide(np.diff(sums), sizes, out=values, where=sizes > 0), sizes


def _count_before(selected: NDArray[np.bool_], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where each query starts among the selected rows."""
    return np.concatenate([[0], np.cumsum(selected)])[starts].astype(np.int64)


def _map_queries(work: Callable[[int, int], None], starts: NDArray[np.int64]) -> None:
    """Call ``work(first, last)`` for ranges of queries, in threads if there are many rows."""
    if starts[-1] < _MIN_ROWS_FOR_THREADS:
        work(0, len(starts) - 1)
    else:
        map_shards(work, cut_by_weight(starts))


def evaluate(
    metric: str | Metric,
    y: ArrayLike,
    score: ArrayLike,
    qid: ArrayLike | QueryIndex | None = None,
    *,
    per_query: bool = False,
    sample_weight: ArrayLike | None = None,
    query_weight: Any = None,
    columns: Mapping[str, Any] | None = None,
) -> Any:
    """Evaluate a metric: return its mean over queries, or one value per query.

    Parameters
    ----------
    metric
        A ``Metric`` or its text form, such as ``"ndcg@10"``.
    y, score
        Label and score of each row; larger values are better.
    qid
        Query id of each row, in any order (or a ``QueryIndex``). None: all rows are one query.
    per_query
        Return an array with one value per query, in order of first appearance
        (``QueryIndex.ids``); NaN for queries that the metric skips.
    sample_weight
        Row weights; the weight of a query is the mean of its rows' weights.
    query_weight
        Mapping from query id to weight, or one number per query in order of first appearance.
    columns
        Columns that the metric uses (cutoff, gain, label, ``by``, ``displayed``, ``docid``), one
        value per row.

    Examples
    --------
    >>> evaluate("letor3:ndcg@2", [0, 1, 2], [3, 2, 1])
    0.25
    """
    rule = parse_metric(metric)
    queries, labels, scores = _check_inputs(y, score, qid)
    values = query_evaluator(rule, labels, queries, columns or {}).from_scores(scores)
    if per_query:
        return values.value
    weight = query_weights(queries, sample_weight, query_weight)
    return mean_value(rule, values.value, values.mass, weight)


def evaluate_on(
    data: Dataset,
    *,
    metric: str | Metric,
    coef: NDArray[np.float64] | None = None,
    scores: ArrayLike | None = None,
    model: Any = None,
    per_query: bool = False,
    sample_weight: ArrayLike | None = None,
    query_weight: Any = None,
) -> Any:
    """Score a dataset and evaluate a metric with its labels, queries and columns.

    Pass exactly one of ``coef``, ``scores`` and ``model``.

    Parameters
    ----------
    data
        Labelled rows, with the columns and document ids that the metric uses.
    metric, per_query, sample_weight, query_weight
        As in ``evaluate``; weights of the data itself are not used.
    coef
        Weights, one per column of ``data.X``; no scaling is applied.
    scores
        Scores in row order.
    model
        A ``LinearModel`` or a fitted ranker, which scales rows as in training.

    Examples
    --------
    >>> from rankine.data import Dataset
    >>> data = Dataset.from_arrays([[3.0], [2.0], [1.0]], [0, 1, 2])
    >>> evaluate_on(data, metric="letor3:ndcg@2", coef=[1.0])
    0.25
    """
    # Booleans are added: exactly one must be given.
    if (coef is not None) + (scores is not None) + (model is not None) != 1:
        raise ParameterError(
            "evaluate_on takes exactly one of coef, scores and model", fix="Pass one of them"
        )
    if coef is not None:
        scores = row_scores(data.X, coef)
    elif model is not None and hasattr(model, "predict"):
        scores = model.predict(data)
    elif model is not None:
        scores = score_dataset(model, data)
    return evaluate(
        metric,
        data.y,
        scores,  # type: ignore[arg-type]
        data.queries,
        per_query=per_query,
        sample_weight=sample_weight,
        query_weight=query_weight,
        columns=data_columns(data),
    )


def data_columns(data: Dataset) -> Mapping[str, Any]:
    """Return the columns of a dataset that metrics can use: its own and, for ties, ``docid``."""
    if data.docid is None:
        return data.columns
    return {**data.columns, "docid": data.docid}


def random_expectation(
    metric: str | Metric,
    y: ArrayLike,
    qid: ArrayLike | QueryIndex | None = None,
    *,
    per_query: bool = False,
    columns: Mapping[str, Any] | None = None,
) -> Any:
    """Compute the expectation of a metric under a uniformly random order of each list.

    The value is exact: it is the metric with ``ties="expected"`` when all scores are equal, for
    which every metric has a closed form (docs/metrics.md).

    Examples
    --------
    >>> random_expectation("p@1", [1, 0, 0, 0])
    0.25
    """
    rule = parse_metric(metric)
    constant = np.zeros(len(np.asarray(y)))
    if find_definition(rule.name).family == "rows":
        # Without any information, every row has the same probability.
        labels = np.asarray(y, dtype=np.float64)
        if rule.label is not None:
            formula = parse_expression(rule.label)
            labels = formula_values(formula, columns or {}, len(constant), "label")
        constant += (labels >= float(rule.threshold or 0.0)).mean()
    else:
        rule = rule.with_options(ties="expected")
    return evaluate(rule, y, constant, qid, per_query=per_query, columns=columns)


def gain_over_constant(
    metric: str | Metric, data: Dataset, scores: ArrayLike, query_weight: Any = None
) -> tuple[float, float]:
    """Return the mean gain of scores over a constant score, and its standard error.

    A positive gain is an improvement, also for errors. Queries that the metric skips are left out.
    """
    rule = parse_metric(metric)
    evaluator = query_evaluator(rule, data.queries.gather(data.y), data.queries, data_columns(data))
    values, mass = evaluator.from_scores(data.queries.gather(np.asarray(scores, dtype=np.float64)))
    gains = rule.sign * (values - evaluator.from_scores(np.zeros(data.n_rows)).value)
    weight = query_weights(data.queries, None, query_weight)
    mean = mean_value(rule, gains, mass, weight)
    if rule.mean not in {"pairs", "items"}:
        mass = np.ones(len(mass))
    if weight is not None:
        mass = mass * weight
    defined = ~np.isnan(gains)
    share = mass[defined] / mass[defined].sum()
    return mean, float(np.sqrt(share**2 @ (gains[defined] - mean) ** 2))


def count_without_value(
    metric: str | Metric,
    y: ArrayLike,
    qid: ArrayLike | QueryIndex | None = None,
    *,
    columns: Mapping[str, Any] | None = None,
) -> int:
    """Count the queries for which the metric is undefined, so that ``no_relevant`` applies."""
    # Whether a query has a value does not depend on the scores.
    strict = parse_metric(metric).with_options(no_relevant="skip")
    zeros = np.zeros(len(np.asarray(y)))
    values = evaluate(strict, y, zeros, qid, per_query=True, columns=columns)
    return int(np.isnan(values).sum())


def query_weights(
    queries: QueryIndex, sample_weight: ArrayLike | None = None, query_weight: Any = None
) -> NDArray[np.float64] | None:
    """Return the weight of each query, or None if all weights are equal."""
    weight: NDArray[np.float64] | None = None
    if sample_weight is not None:
        rows = queries.gather(check_weight(sample_weight, queries.n_rows))
        weight = np.add.reduceat(rows, queries.starts[:-1]) / queries.sizes
    if query_weight is not None:
        aligned = align_query_weights(query_weight, queries)
        per_query = check_weight(aligned, queries.n_queries, "query_weight")
        if weight is None:
            return per_query
        weight = weight * per_query
    return weight


def align_query_weights(query_weight: Any, queries: QueryIndex) -> Any:
    """Return query weights in the order of ``queries.ids``; look them up if given as a mapping."""
    if not isinstance(query_weight, Mapping):
        return query_weight
    missing = [q for q in queries.ids.tolist() if q not in query_weight]
    if missing:
        raise SchemaError(
            f"query {missing[0]!r} (and {len(missing) - 1} more) has no weight",
            fix="Give every query a weight",
            parameter="query_weight",
        )
    return [query_weight[q] for q in queries.ids.tolist()]


def mean_value(
    metric: Metric,
    value: NDArray[np.float64],
    mass: NDArray[np.float64],
    weight: NDArray[np.float64] | None = None,
) -> float:
    """Compute the weighted mean over the queries for which the metric is defined."""
    defined = ~np.isnan(value)
    if not defined.any():
        reason, fix = "none has both relevant and other documents", "Check the labels"
        if metric.by is not None:
            reason, fix = f"no list has values of {metric.by!r} to compare", "Check the column"
        raise NoPairsError(
            f"{metric} is undefined for all queries: {reason}", fix=f"{fix}, or set no_relevant=0"
        )
    # The mean over all pairs weights each query by its number of pairs.
    if metric.mean in {"pairs", "items"}:
        pooled = np.ones(len(mass)) if weight is None else weight
        weight = pooled * mass
    if weight is None:
        return float(value[defined].mean())
    # Weights of queries without a value do not count in the denominator either.
    total = float(weight[defined].sum())
    if total <= 0.0:
        raise SchemaError(
            "all queries for which the metric is defined have weight 0",
            fix="Pass a positive weight for some of them",
        )
    return float((weight[defined] * value[defined]).sum() / total)


def _check_inputs(
    y: ArrayLike, score: ArrayLike, qid: ArrayLike | QueryIndex | None
) -> tuple[QueryIndex, NDArray[np.float64], NDArray[np.float64]]:
    n_rows = len(np.asarray(y))
    labels = check_labels(y, n_rows)
    try:
        scores = np.asarray(score, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise SchemaError(
            f"scores are not numeric: {error}", fix="Pass real numbers", parameter="score"
        ) from error
    if scores.shape != (n_rows,):
        raise SchemaError(
            f"shape {scores.shape} does not match {n_rows} labels",
            fix="Pass one score per row",
            parameter="score",
        )
    check_finite(scores, "score")
    if isinstance(qid, QueryIndex):
        queries = qid
    else:
        queries = QueryIndex.from_qid(qid, n_rows)
    if n_rows == 0:
        raise EmptyDataError("there are no rows to evaluate", fix="Check the path and the filters")
    if queries.n_rows != n_rows:
        raise SchemaError(
            f"the query index covers {queries.n_rows} rows, not {n_rows}",
            fix="Pass the index of these rows",
        )
    return queries, queries.gather(labels), queries.gather(scores)
