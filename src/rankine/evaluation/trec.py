"""Read and evaluate TREC runs and judgements by the rules of trec_eval.

    qrels:  qid  0   docid  relevance              run:  qid  Q0  docid  rank  score  tag

Files may be compressed. A document occurs at most once per query; scores are finite numbers. The
rank column of a run is ignored, as by trec_eval.

Documents are ordered by descending score, ties by descending document id. A document without a
judgement, or with a negative one (spam), is not relevant. A relevant document that was not
retrieved counts in recall and in the ideal order. A judged query that is missing from the run
counts as an empty list (0 for ranked metrics). A query of the run without judgements is left out
and counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import DataError, EmptyDataError, ParseError, SchemaError
from rankine.data.json_documents import read_whole
from rankine.data.query_index import QueryIndex
from rankine.data.sources import find_sources
from rankine.metrics import Metric, evaluate, parse_metric
from rankine.metrics.metric import DEFINITIONS

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


class Run(NamedTuple):
    """Retrieved documents, one entry per line of the file."""

    qid: NDArray[Any]
    docid: NDArray[Any]
    score: NDArray[np.float64]
    tag: str


class Qrels(NamedTuple):
    """Judged documents, one entry per line of the file."""

    qid: NDArray[Any]
    docid: NDArray[Any]
    label: NDArray[np.float64]


def read_run(path: Any) -> Run:
    """Read a run; query ids are strings."""
    qid, docid, score, tag = [], [], [], ""
    for location, fields in _lines(path, "qid Q0 docid rank score tag"):
        qid.append(fields[0])
        docid.append(fields[2])
        score.append(_number(fields[4], "score", location, 5))
        # All lines of a run have one tag.
        tag = tag or fields[5]
    _check_pairs(qid, docid, path)
    return Run(np.array(qid), np.array(docid), np.array(score), tag)


def read_qrels(path: Any) -> Qrels:
    """Read judgements; query ids are strings."""
    qid, docid, label = [], [], []
    for location, fields in _lines(path, "qid 0 docid relevance"):
        qid.append(fields[0])
        docid.append(fields[2])
        label.append(_number(fields[3], "relevance", location, 4))
    _check_pairs(qid, docid, path)
    return Qrels(np.array(qid), np.array(docid), np.array(label))


def _lines(path: Any, form: str) -> Iterator[tuple[tuple[str, int], list[str]]]:
    """Yield file name, line number and fields of each line that is not blank."""
    n_fields = len(form.split())
    is_empty = True
    for source in find_sources(path):
        text = read_whole(source)
        try:
            lines = text.decode().split("\n")
        except UnicodeDecodeError as error:
            # Decoding goes over all of the file, so the line is counted here.
            line = text[: error.start].count(b"\n") + 1
            # Without its cause, whose message would repeat the bytes of the file.
            raise ParseError(
                "the file is not UTF-8 text", file=source.name, line=line, fix="Save it as UTF-8"
            ) from None
        for number, line_text in enumerate(lines, 1):
            fields = line_text.split()
            if not fields:
                continue
            is_empty = False
            if len(fields) != n_fields:
                raise ParseError(
                    f"{len(fields)} fields instead of {n_fields}",
                    file=source.name,
                    line=number,
                    fix=f"Write lines as: {form}",
                )
            yield (source.name, number), fields
    if is_empty:
        raise EmptyDataError("no lines", file=str(path), fix=f"Write lines as: {form}")


def _number(text: str, what: str, location: tuple[str, int], column: int) -> float:
    # float() alone would also read "1_000", "nan" and "infinity".
    value = float(text) if _NUMBER.fullmatch(text) else np.nan
    if not np.isfinite(value):
        raise ParseError(
            f"{what} {text!r} is not a finite number",
            file=location[0],
            line=location[1],
            column=f"field {column}",
            fix="Write a decimal number",
        )
    return value


def _check_pairs(qid: list[str], docid: list[str], path: Any) -> None:
    (query, document), count = Counter(zip(qid, docid, strict=True)).most_common(1)[0]
    if count > 1:
        raise SchemaError(
            f"document {document!r} occurs twice in query {query!r}",
            file=str(path),
            fix="Keep one line per query and document",
        )


@dataclass(frozen=True, eq=False)
class RunEvaluation:
    """Means and, if requested, values per query.

    ``counts``: judged queries that are missing from the run, queries of the run without judgements,
    retrieved documents without judgement, and negative judgements (read as 0).
    """

    means: Mapping[str, float]
    ids: NDArray[Any]
    per_query: Mapping[str, NDArray[np.float64]] | None
    counts: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class JudgedLists:
    """A run joined with judgements: one row per retrieved or judged document."""

    y: NDArray[np.float64]
    score: NDArray[np.float64]
    queries: QueryIndex
    columns: Mapping[str, NDArray[Any]]
    counts: Mapping[str, int]


def evaluate_run(
    run: Any,
    qrels: Any,
    metrics: Sequence[str | Metric],
    *,
    per_query: bool = False,
    query_weight: Any = None,
) -> RunEvaluation:
    """Evaluate a run (file or ``Run``) against judgements (file or ``Qrels``).

    ``query_weight`` weighs the judged queries in the means, as in ``rankine.metrics.evaluate``.
    """
    joined = judged_lists(
        run if isinstance(run, Run) else read_run(run),
        qrels if isinstance(qrels, Qrels) else read_qrels(qrels),
    )
    arguments = (joined.y, joined.score, joined.queries)
    means, values = {}, {}
    for metric in [parse_metric(metric) for metric in metrics]:
        rule = run_metric(metric)
        means[str(metric)] = evaluate(
            rule, *arguments, query_weight=query_weight, columns=joined.columns
        )
        if per_query:
            values[str(metric)] = evaluate(rule, *arguments, per_query=True, columns=joined.columns)
    return RunEvaluation(means, joined.queries.ids, values if per_query else None, joined.counts)


def run_metric(metric: Metric) -> Metric:
    """Return the metric with ties by document id, as trec_eval, unless it states another rule.

    The order of a run file is arbitrary, so that its rows never order ties.
    """
    if DEFINITIONS[metric.name].family == "ranks" and (
        metric.ties == "file" or not metric.states_ties
    ):
        return metric.with_options(ties="docid")
    return metric


def judged_lists(run: Run, qrels: Qrels) -> JudgedLists:
    """Join retrieved and judged documents of the judged queries, in order of the judgements."""
    judged = _by_query(qrels.qid, qrels.docid, qrels.label)
    retrieved = _by_query(run.qid, run.docid, run.score)
    if not judged.keys() & retrieved.keys():
        raise DataError(
            "the run and the judgements have no query in common",
            fix="Check that both use the same query ids",
        )
    rows: list[tuple[str, str, float, float, bool]] = []
    unjudged = 0
    for query, labels in judged.items():
        scores = retrieved.get(query, {})
        unjudged += len(scores.keys() - labels.keys())
        rows += [(query, doc, labels.get(doc, 0.0), s, True) for doc, s in scores.items()]
        # Relevant documents that were not retrieved lower recall and average precision.
        rows += [(query, doc, l, 0.0, False) for doc, l in labels.items() if doc not in scores]
    qid, docid, label, score, is_retrieved = (np.array(c) for c in zip(*rows, strict=True))
    return JudgedLists(
        np.maximum(label, 0.0),  # negative judgements (spam) are not relevant
        score,
        QueryIndex.from_qid(qid, len(qid)),
        {"docid": docid, "retrieved": is_retrieved},
        {
            "queries_missing_from_run": len(judged.keys() - retrieved.keys()),
            "queries_without_judgements": len(retrieved.keys() - judged.keys()),
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
