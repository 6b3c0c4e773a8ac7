"""From labels and scores to the metric of each query, and their mean."""

from __future__ import annotations

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
from rankine.data.query_index import QueryIndex
from rankine.kernels.shards import cut_by_weight, map_shards
from rankine.metrics.families import (
    ItemPool,
    RankedLists,
    expected_values,
    pair_values,
    ranked_values,
    weighted_values,
)
from rankine.metrics.gains import cutoffs, docid_key, gain_values, marks, relevance
from rankine.metrics.metric import Metric, definition, parse_metric
from rankine.transforms.apply import score_dataset

#: Scores, or features and weights, to the values of the queries and how much each pools.
_Measure = Callable[
    [NDArray[np.float64], NDArray[np.float64] | None],
    tuple[NDArray[np.float64], NDArray[np.float64]],
]
#: Below this many rows a thread pool costs more than it gains.
_SMALL = 20_000


class QueryValues(NamedTuple):
    """Per query: the value (NaN where it is skipped) and how much it pools."""

    value: NDArray[np.float64]
    mass: NDArray[np.float64]


def value_function(
    metric: Metric,
    labels: NDArray[np.float64],
    queries: QueryIndex,
    columns: Mapping[str, Any],
) -> Callable[[NDArray[np.float64], NDArray[np.float64] | None], QueryValues]:
    """The function from scores to values, for many scores of the same rows, in grouped order.

    ``columns`` are in row order.
    Beside weights (one row a candidate) it takes features instead of scores, and gives values of
    shape candidates x queries.
    """
    grouped = columns
    if queries.rows is not None:
        known = {name: values for name, values in columns.items() if values is not None}
        grouped = {name: queries.gather(np.asarray(values)) for name, values in known.items()}
    family = _rank_family if definition(metric.name).family == "ranks" else _pair_family
    data = _Grouped(
        QueryIndex(queries.ids, queries.starts),
        grouped,
        marks(metric.displayed, grouped, len(labels)),
        marks(metric.retrieved, grouped, len(labels)),
    )
    measure = family(metric, labels, data)

    def values(
        scores: NDArray[np.float64], weights: NDArray[np.float64] | None = None
    ) -> QueryValues:
        value, mass = measure(scores, weights)
        if metric.no_relevant != "skip":
            value[np.isnan(value)] = float(str(metric.no_relevant))
        return QueryValues(value, mass)

    return values


class _Grouped(NamedTuple):
    """Rows in grouped order: their queries and columns, and which were displayed, retrieved."""

    queries: QueryIndex
    columns: Mapping[str, NDArray[Any]]
    shown: NDArray[np.bool_] | None
    retrieved: NDArray[np.bool_] | None


def _items(metric: Metric, labels: NDArray[np.float64], data: _Grouped) -> NDArray[np.float64]:
    """Gain or relevance of each row; items that were not displayed have none."""
    if definition(metric.name).items == "gain":
        values = gain_values(str(metric.gain), labels, data.columns, metric.max_label)
    else:
        values = relevance(labels, float(metric.threshold or 0.0))
    return values if data.shown is None else np.where(data.shown, values, 0.0)


def _rank_family(metric: Metric, labels: NDArray[np.float64], data: _Grouped) -> _Measure:
    queries = data.queries
    items = _items(metric, labels, data)
    depth = cutoffs(metric.cutoff, queries, data.columns)
    spec = definition(metric.name).spec(metric, int(queries.sizes.max()))
    key = _tie_key(metric, items, data)
    pool = ItemPool(queries.starts, items)
    starts, kept = queries.starts, data.retrieved
    if kept is not None:
        starts, items = _starts_of(kept, starts), items[kept]
        key = key[kept] if len(key) else key
    short = depth > np.diff(starts)
    mass = np.ones(queries.n_queries)

    def at_once(
        scores: NDArray[np.float64], weights: NDArray[np.float64] | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        lists = RankedLists(starts, items, scores if kept is None else scores[kept])
        out = np.empty(len(mass) if weights is None else (len(weights), len(mass)))
        measured = expected_values if metric.ties == "expected" else ranked_values

        def work(a: int, b: int) -> None:
            if weights is not None:
                weighted_values(spec, lists, pool, key, depth, weights, a, b, out)
            else:
                measured(spec, lists, pool, key, depth, a, b, out)

        _over_shards(work, queries.starts)
        if metric.short == "zero":
            out[short & ~np.isnan(out)] = 0.0
        return out, mass

    # A function that calls itself would live, with all rows, until cycles are looked for.
    def measure(
        scores: NDArray[np.float64], weights: NDArray[np.float64] | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if weights is not None and metric.ties == "expected":
            return np.array([at_once(scores @ w, None)[0] for w in weights]), mass
        return at_once(scores, weights)

    return measure


def _starts_of(kept: NDArray[np.bool_], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each query starts among the kept rows."""
    return np.concatenate([[0], np.cumsum(kept)])[starts].astype(np.int64)


def _tie_key(metric: Metric, items: NDArray[np.float64], data: _Grouped) -> NDArray[np.float64]:
    if metric.ties == "worst":
        return items
    if metric.ties == "docid":
        return docid_key(data.columns, len(items))
    return np.empty(0)


def _pair_family(metric: Metric, labels: NDArray[np.float64], data: _Grouped) -> _Measure:
    starts = data.queries.starts
    if data.shown is not None:
        starts, labels = _starts_of(data.shown, starts), labels[data.shown]
    spec = definition(metric.name).spec(metric, int(data.queries.sizes.max()))

    def of_scores(
        scores: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if data.retrieved is not None:
            # what was not retrieved stands below everything that was, tied with its kind
            scores = np.where(data.retrieved, scores, scores.min(initial=0.0) - 1.0)
        if data.shown is not None:
            scores = scores[data.shown]
        out, mass = np.empty(len(starts) - 1), np.empty(len(starts) - 1)

        def work(a: int, b: int) -> None:
            pair_values(spec, starts, labels, scores, a, b, out, mass)

        _over_shards(work, starts)
        out[mass == 0.0] = np.nan
        return out, mass

    def measure(
        scores: NDArray[np.float64], weights: NDArray[np.float64] | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if weights is None:
            return of_scores(scores)
        each = [of_scores(scores @ w) for w in weights]
        return np.array([value for value, _ in each]), each[0][1]

    return measure


def _over_shards(work: Any, starts: NDArray[np.int64]) -> None:
    if starts[-1] < _SMALL:
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
    """Value of a metric: the mean over queries, or one value per query.

    Parameters
    ----------
    metric
        A ``Metric`` or its text form, such as ``"ndcg@10"``.
    y, score
        Label and score of each row; larger is better.
    qid
        Query id of each row in any order (or a ``QueryIndex``); None means one query.
    per_query
        Return an array in order of first appearance of the queries (``QueryIndex.ids``); a query
        that the metric skips holds NaN.
    sample_weight
        Row weights; a query weighs the mean weight of its rows.
    query_weight
        Mapping from query id to weight, or one number per query in order of first appearance.
    columns
        Columns that the metric names (cutoff, gain, ``displayed``, ``docid``), one value per row.

    Examples
    --------
    >>> evaluate("letor3:ndcg@2", [0, 1, 2], [3, 2, 1])
    0.25
    """
    rule = parse_metric(metric)
    queries, labels, scores = _inputs(y, score, qid)
    values = value_function(rule, labels, queries, columns or {})(scores, None)
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
    """Score a dataset and evaluate: ``evaluate`` with the labels, queries and columns of the data.

    Parameters
    ----------
    data
        Labelled rows; a metric finds its columns and the document ids there.
    metric, per_query, sample_weight, query_weight
        As in ``evaluate``; weights of the data itself are not used.
    coef
        Weights, one per column of ``data.X`` as it stands.
    scores
        Scores in row order.
    model
        A ``LinearModel`` or a fitted ranker, with the scaling it carries.

    Exactly one of ``coef``, ``scores`` and ``model`` says what is evaluated.

    Examples
    --------
    >>> from rankine.data import Dataset
    >>> data = Dataset.from_arrays([[3.0], [2.0], [1.0]], [0, 1, 2])
    >>> evaluate_on(data, metric="letor3:ndcg@2", coef=[1.0])
    0.25
    """
    if (coef is not None) + (scores is not None) + (model is not None) != 1:
        raise ParameterError(
            "evaluate_on takes exactly one of coef, scores and model", fix="Pass one of them"
        )
    judged: Any = scores
    if coef is not None:
        judged = row_scores(data.X, coef)
    elif model is not None:  # a fitted ranker predicts by itself
        judged = model.predict(data) if hasattr(model, "predict") else score_dataset(model, data)
    return evaluate(
        metric,
        data.y,
        judged,
        data.queries,
        per_query=per_query,
        sample_weight=sample_weight,
        query_weight=query_weight,
        columns=data_columns(data),
    )


def data_columns(data: Dataset) -> Mapping[str, Any]:
    """Columns of a dataset as metrics look them up: the named ones and, for ties, ``docid``."""
    return data.columns if data.docid is None else {**data.columns, "docid": data.docid}


def random_expectation(
    metric: str | Metric,
    y: ArrayLike,
    qid: ArrayLike | QueryIndex | None = None,
    *,
    per_query: bool = False,
    columns: Mapping[str, Any] | None = None,
) -> Any:
    """Exact expectation of a metric under a uniformly random order of each list.

    A random order is the metric's ``ties="expected"`` with all scores equal; every metric has a
    closed form (docs/metrics.md).

    Examples
    --------
    >>> random_expectation("p@1", [1, 0, 0, 0])
    0.25
    """
    rule = parse_metric(metric).with_options(ties="expected")
    zeros = np.zeros(len(np.asarray(y)))
    return evaluate(rule, y, zeros, qid, per_query=per_query, columns=columns)


def count_without_value(
    metric: str | Metric,
    y: ArrayLike,
    qid: ArrayLike | QueryIndex | None = None,
    *,
    columns: Mapping[str, Any] | None = None,
) -> int:
    """Queries that have no value of their own, so that ``no_relevant`` decides what they count."""
    strict = parse_metric(metric).with_options(no_relevant="skip")
    zeros = np.zeros(len(np.asarray(y)))
    values = evaluate(strict, y, zeros, qid, per_query=True, columns=columns)
    return int(np.isnan(values).sum())


def query_weights(
    queries: QueryIndex, sample_weight: ArrayLike | None = None, query_weight: Any = None
) -> NDArray[np.float64] | None:
    """Weight of each query, or None when all weigh the same."""
    weight: NDArray[np.float64] | None = None
    if sample_weight is not None:
        rows = queries.gather(check_weight(sample_weight, queries.n_rows))
        weight = np.add.reduceat(rows, queries.starts[:-1]) / queries.sizes
    if query_weight is not None:
        found = align_query_weights(query_weight, queries)
        per_query = check_weight(found, queries.n_queries, "query_weight")
        weight = per_query if weight is None else weight * per_query
    return weight


def align_query_weights(query_weight: Any, queries: QueryIndex) -> Any:
    """Weights of queries in the order of ``queries.ids``, also from a mapping."""
    if not isinstance(query_weight, Mapping):
        return query_weight
    missing = [q for q in queries.ids.tolist() if q not in query_weight]
    if missing:
        raise SchemaError(
            f"query_weight lacks query {missing[0]!r} (and {len(missing) - 1} more)",
            fix="Give every query a weight",
        )
    return [query_weight[q] for q in queries.ids.tolist()]


def mean_value(
    metric: Metric,
    value: NDArray[np.float64],
    mass: NDArray[np.float64],
    weight: NDArray[np.float64] | None = None,
) -> float:
    """Weighted mean over the queries that have a value."""
    has = ~np.isnan(value)
    if not has.any():
        raise NoPairsError(
            f"no query has a value of {metric}: none holds both relevant and other documents",
            fix="Check the labels, or set no_relevant=0",
        )
    if metric.mean in {"pairs", "items"}:
        weight = mass if weight is None else weight * mass
    if weight is None:
        return float(value[has].mean())
    total = float(weight[has].sum())
    if total <= 0.0:
        raise SchemaError("all queries with a value weigh 0", fix="Pass a positive weight")
    return float((weight[has] * value[has]).sum() / total)


def _inputs(
    y: ArrayLike, score: ArrayLike, qid: ArrayLike | QueryIndex | None
) -> tuple[QueryIndex, NDArray[np.float64], NDArray[np.float64]]:
    n_rows = len(np.asarray(y))
    labels = check_labels(y, n_rows)
    try:
        scores = np.asarray(score, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise SchemaError(f"scores are not numeric: {error}", fix="Pass real numbers") from error
    if scores.shape != (n_rows,):
        raise SchemaError(
            f"score has shape {scores.shape} for {n_rows} labels", fix="Pass one score per row"
        )
    check_finite(scores, "score")
    queries = qid if isinstance(qid, QueryIndex) else QueryIndex.from_qid(qid, n_rows)
    if n_rows == 0:
        raise EmptyDataError("there are no rows to evaluate", fix="Check the path and the filters")
    if queries.n_rows != n_rows:
        raise SchemaError(
            f"the query index covers {queries.n_rows} rows, not {n_rows}",
            fix="Pass the index of these rows",
        )
    return queries, queries.gather(labels), queries.gather(scores)
