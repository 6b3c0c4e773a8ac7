"""From labels and scores to the metric of each query, and their mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankine.core.errors import EmptyDataError, NoPairsError, SchemaError
from rankine.data.dataset import check_finite, check_labels, check_weight
from rankine.data.query_index import QueryIndex
from rankine.kernels.shards import cut_by_weight, map_shards
from rankine.metrics.columns import cutoffs, displayed_mask, docid_key
from rankine.metrics.gains import gain_values, relevance
from rankine.metrics.metric import Metric
from rankine.metrics.pairs import pair_values
from rankine.metrics.parse import parse_metric
from rankine.metrics.ranks import expected_values, ranked_values
from rankine.metrics.registry import definition

__all__ = ["evaluate", "mean_value", "query_weights", "random_expectation"]

#: Below this many rows a thread pool costs more than it gains.
_SMALL = 20_000


class _Values(NamedTuple):
    """Per query: the value (NaN where it is skipped) and how much it pools."""

    value: NDArray[np.float64]
    mass: NDArray[np.float64]


@overload
def evaluate(
    metric: str | Metric,
    y: ArrayLike,
    score: ArrayLike,
    qid: ArrayLike | QueryIndex | None = None,
    *,
    per_query: Literal[False] = False,
    sample_weight: ArrayLike | None = None,
    query_weight: Any = None,
    columns: Mapping[str, Any] | None = None,
) -> float: ...
@overload
def evaluate(
    metric: str | Metric,
    y: ArrayLike,
    score: ArrayLike,
    qid: ArrayLike | QueryIndex | None = None,
    *,
    per_query: bool,
    sample_weight: ArrayLike | None = None,
    query_weight: Any = None,
    columns: Mapping[str, Any] | None = None,
) -> Any: ...
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
    chosen = parse_metric(metric)
    queries, labels, scores = _inputs(y, score, qid)
    values = _query_values(chosen, labels, scores, queries, columns or {})
    if per_query:
        return values.value
    weight = query_weights(queries, sample_weight, query_weight)
    return mean_value(chosen, values.value, values.mass, weight)


@overload
def random_expectation(
    metric: str | Metric,
    y: ArrayLike,
    qid: ArrayLike | QueryIndex | None = None,
    *,
    per_query: Literal[False] = False,
    columns: Mapping[str, Any] | None = None,
) -> float: ...
@overload
def random_expectation(
    metric: str | Metric,
    y: ArrayLike,
    qid: ArrayLike | QueryIndex | None = None,
    *,
    per_query: bool,
    columns: Mapping[str, Any] | None = None,
) -> Any: ...
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
    chosen = parse_metric(metric).with_options(ties="expected")
    zeros = np.zeros(len(np.asarray(y)))
    return evaluate(chosen, y, zeros, qid, per_query=per_query, columns=columns)


def query_weights(
    queries: QueryIndex, sample_weight: ArrayLike | None = None, query_weight: Any = None
) -> NDArray[np.float64] | None:
    """Weight of each query, or None when all weigh the same."""
    weight: NDArray[np.float64] | None = None
    if sample_weight is not None:
        rows = queries.gather(check_weight(sample_weight, queries.n_rows))
        weight = np.add.reduceat(rows, queries.starts[:-1]) / queries.sizes
    if query_weight is not None:
        if isinstance(query_weight, Mapping):
            missing = [q for q in queries.ids.tolist() if q not in query_weight]
            if missing:
                raise SchemaError(
                    f"query_weight lacks query {missing[0]!r} (and {len(missing) - 1} more)",
                    fix="Give every query a weight",
                )
            query_weight = [query_weight[q] for q in queries.ids.tolist()]
        given = check_weight(query_weight, queries.n_queries)
        weight = given if weight is None else weight * given
    return weight


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


def _query_values(
    metric: Metric,
    labels: NDArray[np.float64],
    scores: NDArray[np.float64],
    queries: QueryIndex,
    columns: Mapping[str, Any],
) -> _Values:
    grouped = {name: queries.gather(np.asarray(v)) for name, v in columns.items() if v is not None}
    shown = displayed_mask(metric.displayed, grouped, len(labels))
    family = _rank_family if definition(metric.name).family == "ranks" else _pair_family
    value, mass = family(metric, labels, scores, _Grouped(queries, grouped, shown))
    empty = np.isnan(value)
    if metric.no_relevant != "skip":
        value[empty] = float(str(metric.no_relevant))
    return _Values(value, mass)


class _Grouped(NamedTuple):
    """The queries, their columns in grouped order, and which items were displayed."""

    queries: QueryIndex
    columns: Mapping[str, NDArray[Any]]
    shown: NDArray[np.bool_] | None


def _items(metric: Metric, labels: NDArray[np.float64], data: _Grouped) -> NDArray[np.float64]:
    """Gain or relevance of each row; items that were not displayed have none."""
    if definition(metric.name).items == "gain":
        values = gain_values(str(metric.gain), labels, data.columns, metric.max_label)
    else:
        values = relevance(labels, float(metric.threshold or 0.0))
    return values if data.shown is None else np.where(data.shown, values, 0.0)


def _rank_family(
    metric: Metric, labels: NDArray[np.float64], scores: NDArray[np.float64], data: _Grouped
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    queries = data.queries
    items = _items(metric, labels, data)
    depth = cutoffs(metric.cutoff, _ungrouped(queries), data.columns)
    spec = definition(metric.name).spec(metric, int(queries.sizes.max()))
    out = np.empty(queries.n_queries)
    starts = queries.starts
    if metric.ties == "expected":

        def work(a: int, b: int) -> None:
            expected_values(spec, starts, items, scores, depth, a, b, out)

    else:
        key = _tie_key(metric, items, data)

        def work(a: int, b: int) -> None:
            ranked_values(spec, starts, items, scores, key, depth, a, b, out)

    _over_shards(work, starts)
    if metric.short == "zero":
        out[(depth > queries.sizes) & ~np.isnan(out)] = 0.0
    return out, np.ones(queries.n_queries)


def _tie_key(metric: Metric, items: NDArray[np.float64], data: _Grouped) -> NDArray[np.float64]:
    if metric.ties == "worst":
        return items
    if metric.ties == "docid":
        return docid_key(data.columns, len(items))
    return np.empty(0)


def _pair_family(
    metric: Metric, labels: NDArray[np.float64], scores: NDArray[np.float64], data: _Grouped
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    starts = data.queries.starts
    if data.shown is not None:
        kept = np.concatenate([[0], np.cumsum(data.shown)])
        starts = kept[starts].astype(np.int64)
        labels, scores = labels[data.shown], scores[data.shown]
    spec = definition(metric.name).spec(metric, int(data.queries.sizes.max()))
    out, mass = np.empty(len(starts) - 1), np.empty(len(starts) - 1)

    def work(a: int, b: int) -> None:
        pair_values(spec, starts, labels, scores, a, b, out, mass)

    _over_shards(work, starts)
    out[mass == 0.0] = np.nan
    return out, mass


def _ungrouped(queries: QueryIndex) -> QueryIndex:
    """The same queries over rows that are already in grouped order."""
    return QueryIndex(queries.ids, queries.starts)


def _over_shards(work: Any, starts: NDArray[np.int64]) -> None:
    threads = 1 if starts[-1] < _SMALL else None
    map_shards(work, cut_by_weight(starts), threads)
