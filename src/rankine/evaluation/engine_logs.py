"""Join features logged by search engines with judgements.

Logs are responses of Elasticsearch LTR and OpenSearch LTR with an ``ltr_log`` extension::

    {"hits": {"hits": [{"_id": "7", "fields": {"_ltrlog": [
        {"log": [{"name": "bm25", "value": 9.5}]}]}}]}}

or of Solr with ``fl=id,[features]``::

    {"response": {"docs": [{"id": "7", "[features]": "bm25=9.5,age=3.0"}]}}

A ``.jsonl`` file has one response per line, as ``{"qid": ..., "response": ...}``. A ``.json`` file
is one response and is named after its query. Judgements are TREC qrels, or CSV with the columns
query, document and grade. In Solr's sparse form an absent feature is 0; elsewhere it is missing
(NaN).
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankine.core.errors import DataError, EmptyDataError, ParseError, SchemaError
from rankine.data.dataset import Dataset
from rankine.data.json_documents import read_json, read_whole
from rankine.data.sources import find_sources
from rankine.evaluation.systems import is_qrels
from rankine.evaluation.trec import read_qrels

_LOG_FIX = "Log with the ltr_log extension (fields._ltrlog), or with Solr's fl=id,[features]"
#: Entry of ``_ltrlog`` with what a script of the plugin logs beside its own feature.
_EXTRA_LOGGING = "extra_logging"
# Accepted names of the columns of CSV judgements.
_COLUMNS = (("query", "qid"), ("document", "docid"), ("grade", "label", "relevance"))


class LoggedDocument(NamedTuple):
    """One hit of a response.

    Attributes
    ----------
    features
        Name -> value, None if there is none.
    sparse
        Whether features that are not listed are 0.
    location
        File and line.
    """

    qid: str
    docid: str
    features: dict[str, float | None]
    sparse: bool
    location: tuple[str, int | None]


@dataclass(frozen=True)
class JoinedLog:
    """Logged documents with judgements, and the (query, document) pairs that did not match.

    Attributes
    ----------
    data
        One row per logged document with a judgement.
    unjudged
        Pairs that were logged and have no judgement.
    unlogged
        Pairs that were judged and not logged.
    """

    data: Dataset
    unjudged: Sequence[tuple[str, str]]
    unlogged: Sequence[tuple[str, str]]


def join_logged(features: Any, judgments: Any) -> JoinedLog:
    """Join logged features with judgements.

    Parameters
    ----------
    features
        Log files or patterns; see the module for their formats.
    judgments
        TREC qrels or CSV.
    """
    grades = read_judgments(judgments)
    names: dict[str, int] = {}
    rows: list[LoggedDocument] = []
    unjudged: list[tuple[str, str]] = []
    pairs: set[tuple[str, str]] = set()
    for hit in read_logged(features):
        pair = (hit.qid, hit.docid)
        if pair in pairs:
            raise SchemaError(
                f"document {hit.docid!r} of query {hit.qid!r} was logged twice",
                file=hit.location[0], line=hit.location[1], fix="Keep one response per query",
            )  # fmt: skip
        pairs.add(pair)
        for name in hit.features:
            # Columns are numbered as they first appear, so that the same logs give the same
            # columns.
            names.setdefault(name, len(names))
        if pair in grades:
            rows.append(hit)
        else:
            unjudged.append(pair)
    if not rows:
        raise DataError(
            f"none of the {len(pairs)} logged documents has a judgement",
            fix="Check that log and judgements use the same query and document ids",
        )
    X = np.zeros((len(rows), len(names)))
    for i, hit in enumerate(rows):
        _fill(X[i], hit, names)
    data = Dataset.from_arrays(
        X,
        [grades[hit.qid, hit.docid] for hit in rows],
        np.array([hit.qid for hit in rows]),
        docid=np.array([hit.docid for hit in rows]),
        feature_names=list(names),
    )
    return JoinedLog(data, unjudged, [pair for pair in grades if pair not in pairs])


def _fill(row: Any, hit: LoggedDocument, names: dict[str, int]) -> None:
    for name, j in names.items():
        value = hit.features.get(name)
        if value is not None:
            row[j] = value
        # In Solr's sparse form a feature that is not listed is 0, as the row is already.
        elif not (hit.sparse and name not in hit.features):
            row[j] = np.nan


# -- logs ---------------------------------------------------------------------------------------


def read_logged(source: Any) -> Iterator[LoggedDocument]:
    """Yield the hits of all responses. Files with one response per line are read line by line."""
    is_empty = True
    for response, location in read_json(source):
        qid = None
        if location.line is None:
            qid = Path(location.file).name.split(".")[0]
        yield from _hits(response, qid, location)
        is_empty = False
    if is_empty:
        raise EmptyDataError("the log has no response", file=str(source), fix=_LOG_FIX)


def _hits(
    response: Any, file_qid: str | None, location: tuple[str, int | None]
) -> Iterator[LoggedDocument]:
    """Yield the hits of a response; ``file_qid`` is the query that its file is named after."""

    def error(reason: str, fix: str = _LOG_FIX) -> ParseError:
        return ParseError(reason, file=location[0], line=location[1], fix=fix)

    if not isinstance(response, dict):
        raise error("the response is not a JSON object")
    if "qid" in response and isinstance(response.get("response"), dict):
        qid, response = response["qid"], response["response"]
    elif file_qid is not None:
        qid = file_qid
    else:
        raise error("the line has no qid", 'Write lines as {"qid": ..., "response": ...}')
    # bool is a kind of int in Python.
    if isinstance(qid, bool) or not isinstance(qid, (str, int)):
        raise error(f"qid {qid!r} is neither text nor an integer")
    # An engine that ran out of time returns some of the hits, without a mark on them.
    if response.get("timed_out") or response.get("error"):
        raise error("the engine reports an error or a time-out", "Query the engine again")
    read_document: Callable[[Any], tuple[str, dict[str, float | None]]] = _read_ltr_hit
    outer, inner = "hits", "hits"
    if "response" in response:
        outer, inner, read_document = "response", "docs", _read_solr_document
    section = response.get(outer)
    documents = _field(section, inner)
    if not isinstance(documents, list):
        raise error(f"the response has no {outer}.{inner}")
    for i, document in enumerate(documents):
        try:
            docid, features = read_document(document)
        except SchemaError as cause:
            raise error(f"hit {i} of query {qid!r}: {cause.reason}", cause.fix) from cause
        yield LoggedDocument(str(qid), docid, features, inner == "docs", location)


def _field(value: Any, name: str) -> Any:
    """Return a field of a JSON object; None for anything else, since logs come from elsewhere."""
    if isinstance(value, dict):
        return value.get(name)
    return None


def _log_entries(log: list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield name and value of each feature of ``_ltrlog``: a list of name -> list of entries."""
    no_name = SchemaError("an entry of _ltrlog has no name", fix=_LOG_FIX)
    for group in log:
        if not isinstance(group, dict):
            raise no_name
        for entries in group.values():
            if not isinstance(entries, list):
                raise no_name
            for entry in entries:
                name = _field(entry, "name")
                if not isinstance(name, str):
                    raise no_name
                yield name, entry.get("value")


def _read_ltr_hit(hit: Any) -> tuple[str, dict[str, float | None]]:
    """Read id and features of a hit with fields._ltrlog."""
    docid, log = _field(hit, "_id"), _field(_field(hit, "fields"), "_ltrlog")
    if not isinstance(log, list) or not isinstance(docid, str):
        raise SchemaError("it has no _id or no fields._ltrlog", fix=_LOG_FIX)
    features: dict[str, float | None] = {}
    for name, value in _log_entries(log):
        if name in features:
            raise SchemaError(f"feature {name!r} was logged twice", fix=_LOG_FIX)
        if name == _EXTRA_LOGGING and isinstance(value, dict):
            raise SchemaError(
                f"the extra_logging fields {', '.join(map(repr, value))} are not features",
                fix="Leave the entry extra_logging out of the log, or define them as features",
            )
        # Engines log a feature without a value where its query did not match.
        features[name] = None if value is None else _number(name, value)
    return docid, features


def _read_solr_document(doc: Any) -> tuple[str, dict[str, float | None]]:
    """Read id and features of a document with [features]."""
    text = _field(doc, "[features]")
    if not isinstance(text, str) or "id" not in doc:
        raise SchemaError("it has no id or no [features]", fix=_LOG_FIX)
    features: dict[str, float | None] = {}
    # Responses have name=value,name=value or name:value;name:value.
    # Names may hold an equals sign, so a field is split at its last one.
    for part in filter(None, text.replace(";", ",").split(",")):
        name, equals, value = part.replace(":", "=", 1).rpartition("=")
        if not equals or not name:
            raise SchemaError(f"{part!r} in [features] is not name=value", fix=_LOG_FIX)
        if name in features:
            raise SchemaError(f"feature {name!r} was logged twice", fix=_LOG_FIX)
        features[name] = _number(name, value)
    return str(doc["id"]), features


def _number(name: str, value: Any) -> float:
    # float(True) would be 1.
    if isinstance(value, bool):
        raise SchemaError(f"feature {name!r} is {value}, not a number", fix=_LOG_FIX)
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise SchemaError(f"feature {name!r} is {value!r}, not a finite number", fix=_LOG_FIX)
    return number


# -- judgements ---------------------------------------------------------------------------------


def read_judgments(path: Any) -> dict[tuple[str, str], float]:
    """Read grades by (query, document) from TREC qrels or CSV with query, document and grade."""
    if is_qrels(path):
        qrels = read_qrels(path)
        pairs = zip(qrels.qid.tolist(), qrels.docid.tolist(), strict=True)
        return dict(zip(pairs, qrels.label.tolist(), strict=True))
    grades: dict[tuple[str, str], float] = {}
    for part in find_sources(path):
        text = read_whole(part)
        try:
            # Spreadsheets begin UTF-8 files with a byte order mark, which utf-8-sig removes.
            reader = csv.reader(io.StringIO(text.decode("utf-8-sig")), strict=True)
            header = [name.strip().lower() for name in next(reader, [])]
            _read_csv(reader, header, part.name, grades)
        except (UnicodeDecodeError, csv.Error) as error:
            raise ParseError(
                f"this is not CSV: {error}", file=part.name, fix="Save it as UTF-8 CSV"
            ) from error
    if not grades:
        raise EmptyDataError(
            "there are no judgements", file=str(path), fix="Write: query,document,grade"
        )
    return grades


def _read_csv(
    reader: Any, header: list[str], file: str, grades: dict[tuple[str, str], float]
) -> None:
    positions = []
    for names in _COLUMNS:
        # Spreadsheets from several tools call these columns differently.
        present = [header.index(name) for name in names if name in header]
        if not present:
            raise ParseError(
                f"the header has no column {names[0]!r}", file=file, line=1,
                fix="Begin with the line: query,document,grade",
            )  # fmt: skip
        positions.append(present[0])
    for row in reader:
        if not row:
            continue
        line = reader.line_num
        if len(row) != len(header):
            raise ParseError(
                f"{len(row)} fields instead of {len(header)}", file=file, line=line,
                fix="Quote fields that hold a comma",
            )  # fmt: skip
        query, document, grade = (row[k].strip() for k in positions)
        try:
            value = _number("grade", grade)
        except SchemaError:
            raise ParseError(
                f"grade {grade!r} is not a finite number", file=file, line=line,
                column=header[positions[2]], fix="Write a number",
            ) from None  # fmt: skip
        if (query, document) in grades:
            raise SchemaError(
                f"document {document!r} of query {query!r} is judged twice", file=file, line=line,
                fix="Keep one judgement",
            )  # fmt: skip
        grades[query, document] = value
