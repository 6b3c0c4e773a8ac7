"""Metrics of a TREC run against judgements, by trec_eval's rules.

Order: score descending, ties by descending document id. A document without judgement, or with a
negative one (spam), is not relevant; a relevant document that was not retrieved counts in recall
and in the ideal order. A judged query that the run lacks counts as an empty list (0 for ranked
metrics); a query of the run without judgements is left out, and counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import DataError
from rankine.data.query_index import QueryIndex
from rankine.evaluation.trec_files import Qrels, Run, read_qrels, read_run
from rankine.metrics import DEFINITIONS, Metric, evaluate, parse_metric

__all__ = ["RunEvaluation", "evaluate_run", "judged_lists"]


@dataclass(frozen=True, eq=False)
class RunEvaluation:
    """Means, and values per query when asked for.

    ``notes`` counts judged queries that the run lacks, queries of the run without judgements,
    retrieved documents without judgement, and negative judgements (read as 0).
    """

    means: Mapping[str, float]
    ids: NDArray[Any]
    per_query: Mapping[str, NDArray[np.float64]] | None
    notes: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class JudgedLists:
    """A run joined with its judgements, as columns: one row per retrieved or judged document."""

    y: NDArray[np.float64]
    score: NDArray[np.float64]
    queries: QueryIndex
    columns: Mapping[str, NDArray[Any]]
    notes: Mapping[str, int]


def evaluate_run(
    run: Any, qrels: Any, metrics: Sequence[str | Metric], *, per_query: bool = False
) -> RunEvaluation:
    """Evaluate a run file (or ``Run``) against a judgement file (or ``Qrels``)."""
    joined = judged_lists(
        run if isinstance(run, Run) else read_run(run),
        qrels if isinstance(qrels, Qrels) else read_qrels(qrels),
    )
    chosen = [parse_metric(metric) for metric in metrics]
    arguments = (joined.y, joined.score, joined.queries)
    means, values = {}, {}
    for metric in chosen:
        rule = run_metric(metric)
        means[str(metric)] = evaluate(rule, *arguments, columns=joined.columns)
        if per_query:
            values[str(metric)] = evaluate(rule, *arguments, per_query=True, columns=joined.columns)
    return RunEvaluation(means, joined.queries.ids, values if per_query else None, joined.notes)


def run_metric(metric: Metric) -> Metric:
    """The metric with ties by document id: a run file's own order means nothing."""
    if DEFINITIONS[metric.name].family == "ranks" and metric.ties == "file":
        return metric.with_options(ties="docid")
    return metric


def judged_lists(run: Run, qrels: Qrels) -> JudgedLists:
    """Join retrieved and judged documents of the judged queries, in order of the judgements."""
    judged = _by_query(qrels.qid, qrels.docid, qrels.label)
    found = _by_query(run.qid, run.docid, run.score)
    if not judged.keys() & found.keys():
        raise DataError(
            "the run and the judgements have no query in common",
            fix="Check that both use the same query ids",
        )
    rows: list[tuple[str, str, float, float, bool]] = []
    unjudged = 0
    for query, labels in judged.items():
        scores = found.get(query, {})
        unjudged += len(scores.keys() - labels.keys())
        rows += [(query, doc, labels.get(doc, 0.0), s, True) for doc, s in scores.items()]
        rows += [(query, doc, l, 0.0, False) for doc, l in labels.items() if doc not in scores]
    qid, docid, label, score, retrieved = (np.array(c) for c in zip(*rows, strict=True))
    return JudgedLists(
        np.maximum(label, 0.0),
        score,
        QueryIndex.from_qid(qid, len(qid)),
        {"docid": docid, "retrieved": retrieved},
        {
            "queries_missing_from_run": len(judged.keys() - found.keys()),
            "queries_without_judgements": len(found.keys() - judged.keys()),
            "documents_without_judgement": unjudged,
            "negative_judgements": int((label < 0).sum()),
        },
    )


def _by_query(
    qid: NDArray[Any], docid: NDArray[Any], values: NDArray[np.float64]
) -> dict[str, dict[str, float]]:
    queries: dict[str, dict[str, float]] = {}
    for query, doc, value in zip(qid.tolist(), docid.tolist(), values.tolist(), strict=True):
        queries.setdefault(query, {})[doc] = value
    return queries
