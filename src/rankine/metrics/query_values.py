"""The values of a metric, query by query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.data.query_index import QueryIndex
from rankine.kernels.shards import cut_by_weight, map_shards
from rankine.metrics.columns import cutoffs, docid_key, marks
from rankine.metrics.gains import gain_values, relevance
from rankine.metrics.metric import Metric
from rankine.metrics.pairs import pair_values
from rankine.metrics.ranks import ItemPool, RankedLists, expected_values, ranked_values
from rankine.metrics.registry import definition

__all__ = ["QueryValues", "query_values"]

#: Below this many rows a thread pool costs more than it gains.
_SMALL = 20_000


class QueryValues(NamedTuple):
    """Per query: the value (NaN where it is skipped) and how much it pools."""

    value: NDArray[np.float64]
    mass: NDArray[np.float64]


def query_values(
    metric: Metric,
    labels: NDArray[np.float64],
    scores: NDArray[np.float64],
    queries: QueryIndex,
    columns: Mapping[str, Any],
) -> QueryValues:
    """Values of labels and scores in grouped order; ``columns`` are in row order."""
    grouped = {name: queries.gather(np.asarray(v)) for name, v in columns.items() if v is not None}
    family = _rank_family if definition(metric.name).family == "ranks" else _pair_family
    data = _Grouped(
        QueryIndex(queries.ids, queries.starts),
        grouped,
        marks(metric.displayed, grouped, len(labels)),
        marks(metric.retrieved, grouped, len(labels)),
    )
    value, mass = family(metric, labels, scores, data)
    empty = np.isnan(value)
    if metric.no_relevant != "skip":
        value[empty] = float(str(metric.no_relevant))
    return QueryValues(value, mass)


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


def _rank_family(
    metric: Metric, labels: NDArray[np.float64], scores: NDArray[np.float64], data: _Grouped
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    queries = data.queries
    items = _items(metric, labels, data)
    depth = cutoffs(metric.cutoff, queries, data.columns)
    spec = definition(metric.name).spec(metric, int(queries.sizes.max()))
    key = _tie_key(metric, items, data)
    pool = ItemPool(queries.starts, items)
    lists = RankedLists(queries.starts, items, scores)
    if data.retrieved is not None:
        lists = RankedLists(
            _starts_of(data.retrieved, queries.starts),
            items[data.retrieved],
            scores[data.retrieved],
        )
        key = key[data.retrieved] if len(key) else key
    out = np.empty(queries.n_queries)

    def work(a: int, b: int) -> None:
        if metric.ties == "expected":
            expected_values(spec, lists, pool, depth, a, b, out)
        else:
            ranked_values(spec, lists, pool, key, depth, a, b, out)

    _over_shards(work, queries.starts)
    if metric.short == "zero":
        out[(depth > np.diff(lists.starts)) & ~np.isnan(out)] = 0.0
    return out, np.ones(queries.n_queries)


def _starts_of(kept: NDArray[np.bool_], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each query starts among the kept rows."""
    return np.concatenate([[0], np.cumsum(kept)])[starts].astype(np.int64)


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
    if data.retrieved is not None:
        # what was not retrieved stands below everything that was, tied with its kind
        scores = np.where(data.retrieved, scores, scores.min(initial=0.0) - 1.0)
    if data.shown is not None:
        starts = _starts_of(data.shown, starts)
        labels, scores = labels[data.shown], scores[data.shown]
    spec = definition(metric.name).spec(metric, int(data.queries.sizes.max()))
    out, mass = np.empty(len(starts) - 1), np.empty(len(starts) - 1)

    def work(a: int, b: int) -> None:
        pair_values(spec, starts, labels, scores, a, b, out, mass)

    _over_shards(work, starts)
    out[mass == 0.0] = np.nan
    return out, mass


def _over_shards(work: Any, starts: NDArray[np.int64]) -> None:
    threads = 1 if starts[-1] < _SMALL else None
    map_shards(work, cut_by_weight(starts), threads)
