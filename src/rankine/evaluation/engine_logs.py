"""Features logged by search engines, joined with judgements.

Read are answers of Elasticsearch LTR and OpenSearch LTR with an ``ltr_log`` extension::

    {"hits": {"hits": [{"_id": "7", "fields": {"_ltrlog": [
        {"log": [{"name": "bm25", "value": 9.5}]}]}}]}}

and of Solr with ``fl=id,[features]``::

    {"response": {"docs": [{"id": "7", "[features]": "bm25=9.5,age=3.0"}]}}

either one per line as ``{"qid": ..., "response": ...}``, or one a file that is named after its
query. Judgements are TREC qrels, or CSV with the columns query, document and grade. Solr's sparse
form leaves zeros out; anywhere else a feature without a value is refused, or 0 when asked for.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from rankine.core.errors import DataError, EmptyDataError, ParseError, SchemaError
from rankine.data.compression import open_stream
from rankine.data.dataset import Dataset
from rankine.data.options import ReadOptions
from rankine.data.sources import find_sources
from rankine.evaluation.systems import is_qrels
from rankine.evaluation.trec import read_qrels, read_whole

_FIX = "Log with the ltr_log extension (fields._ltrlog), or with Solr's fl=id,[features]"
_COLUMNS = (("query", "qid"), ("document", "docid"), ("grade", "label", "relevance"))
_BLOCK = 1 << 20


class LoggedDocument(NamedTuple):
    """One hit: its query, its id and its features (None: no value)."""

    qid: str
    docid: str
    features: dict[str, float | None]
    sparse: bool
    place: tuple[str, int | None]


@dataclass(frozen=True)
class Joined:
    """A row per logged document with a judgement, and (query, document) that did not match.

    ``unjudged`` were logged and have no judgement; ``unlogged`` were judged and not logged.
    """

    data: Dataset
    unjudged: Sequence[tuple[str, str]]
    unlogged: Sequence[tuple[str, str]]


def join_logged(features: Any, judgments: Any) -> Joined:
    """Join logged features with judgements.

    Parameters
    ----------
    features
        Log files or patterns; see the module.
    judgments
        TREC qrels, or CSV. A feature without a value is missing (NaN).
    """
    grades = read_judgments(judgments)
    names: dict[str, int] = {}
    rows: list[LoggedDocument] = []
    unjudged: list[tuple[str, str]] = []
    seen: set[tuple[str, str]] = set()
    for hit in read_logged(features):
        pair = (hit.qid, hit.docid)
        if pair in seen:
            raise SchemaError(
                f"document {hit.docid!r} of query {hit.qid!r} was logged twice",
                file=hit.place[0], line=hit.place[1], fix="Keep one answer per query",
            )  # fmt: skip
        seen.add(pair)
        for name in hit.features:
            names.setdefault(name, len(names))
        if pair in grades:
            rows.append(hit)
        else:
            unjudged.append(pair)
    if not rows:
        raise DataError(
            f"none of {len(seen)} logged documents has a judgement",
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
    return Joined(data, unjudged, [pair for pair in grades if pair not in seen])


def _fill(row: Any, hit: LoggedDocument, names: dict[str, int]) -> None:
    for name, j in names.items():
        value = hit.features.get(name)
        if value is not None:
            row[j] = value
        elif not (hit.sparse and name not in hit.features):
            row[j] = np.nan


# -- logs ---------------------------------------------------------------------------------------


def read_logged(source: Any) -> Iterator[LoggedDocument]:
    """Hits of all answers, one after the other; a file is read line by line."""
    found = False
    for part in find_sources(source):
        name = Path(part.name).name.split(".")[0]
        whole = ".json" in Path(part.name).suffixes  # one answer rather than an answer a line
        for line, text in [(None, read_whole(part))] if whole else _lines(part):
            if not text.strip():
                continue
            place = (part.name, line)
            yield from _hits(_decode(text, place), name if whole else None, place)
            found = True
    if not found:
        raise EmptyDataError("the log holds no answer", file=str(source), fix=_FIX)


def _lines(part: Any) -> Iterator[tuple[int | None, bytes]]:
    """Lines with their numbers, read block by block."""
    with open_stream(part, ReadOptions.make()) as stream:
        rest, number, buffer = b"", 0, bytearray(_BLOCK)
        while count := stream.readinto(memoryview(buffer)):
            *lines, rest = (rest + bytes(buffer[:count])).split(b"\n")
            yield from enumerate(lines, number + 1)
            number += len(lines)
        yield number + 1, rest


def _decode(text: bytes, place: tuple[str, int | None]) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ParseError(
            f"this is not JSON: {error}", file=place[0], line=place[1],
            fix="Write one answer per line in .jsonl files, one answer per .json file",
        ) from error  # fmt: skip


def _hits(answer: Any, name: str | None, place: tuple[str, int | None]) -> Iterator[LoggedDocument]:
    def refuse(reason: str, fix: str = _FIX) -> ParseError:
        return ParseError(reason, file=place[0], line=place[1], fix=fix)

    if not isinstance(answer, dict):
        raise refuse("the answer is no JSON object")
    inner = answer.get("response")
    if "qid" in answer and isinstance(inner, dict):
        qid, answer = answer["qid"], inner
    elif name is not None:
        qid = name
    else:
        raise refuse("the line has no qid", 'Write lines as {"qid": ..., "response": ...}')
    if isinstance(qid, bool) or not isinstance(qid, (str, int)):
        raise refuse(f"qid {qid!r} is neither text nor a whole number")
    if answer.get("timed_out") or answer.get("error"):
        raise refuse("the engine reports an error or a time-out", "Ask the engine again")
    outer, key = ("response", "docs") if "response" in answer else ("hits", "hits")
    found = answer.get(outer)
    docs = found.get(key) if isinstance(found, dict) else None
    if not isinstance(docs, list):
        raise refuse(f"the answer has no {outer}.{key}")
    for i, doc in enumerate(docs):
        try:
            if key == "docs":
                yield LoggedDocument(str(qid), *_solr(doc), sparse=True, place=place)
            else:
                yield LoggedDocument(str(qid), *_ltr(doc), sparse=False, place=place)
        except SchemaError as error:
            raise refuse(f"hit {i} of query {qid!r}: {error.reason}") from error


def _ltr(hit: Any) -> tuple[str, dict[str, float | None]]:
    """Id and features of a hit with fields._ltrlog."""
    log = hit.get("fields", {}).get("_ltrlog") if isinstance(hit, dict) else None
    if not isinstance(log, list) or not isinstance(hit.get("_id"), str):
        raise SchemaError("it has no _id or no fields._ltrlog", fix=_FIX)
    features: dict[str, float | None] = {}
    for group in log:
        for entries in group.values() if isinstance(group, dict) else [None]:
            for entry in entries if isinstance(entries, list) else [None]:
                if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                    raise SchemaError("an entry of _ltrlog has no name", fix=_FIX)
                if entry["name"] in features:
                    raise SchemaError(f"feature {entry['name']!r} was logged twice", fix=_FIX)
                value = entry.get("value")
                features[entry["name"]] = None if value is None else _number(entry["name"], value)
    return hit["_id"], features


def _solr(doc: Any) -> tuple[str, dict[str, float | None]]:
    """Id and features of a document with [features]."""
    text = doc.get("[features]") if isinstance(doc, dict) else None
    if not isinstance(text, str) or "id" not in doc:
        raise SchemaError("it has no id or no [features]", fix=_FIX)
    features: dict[str, float | None] = {}
    for part in filter(None, text.replace(";", ",").split(",")):
        name, equals, value = part.replace(":", "=", 1).rpartition("=")
        if not equals or not name:
            raise SchemaError(f"{part!r} in [features] is not name=value", fix=_FIX)
        if name in features:
            raise SchemaError(f"feature {name!r} was logged twice", fix=_FIX)
        features[name] = _number(name, value)
    return str(doc["id"]), features


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool):
        raise SchemaError(f"feature {name!r} is {value}, not a number", fix=_FIX)
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise SchemaError(f"feature {name!r} is {value!r}, not a finite number", fix=_FIX)
    return number


# -- judgements ---------------------------------------------------------------------------------


def read_judgments(path: Any) -> dict[tuple[str, str], float]:
    """(query, document) -> grade, of TREC qrels or of CSV with query, document and grade."""
    if is_qrels(path):
        found = read_qrels(path)
        pairs = zip(found.qid.tolist(), found.docid.tolist(), strict=True)
        return dict(zip(pairs, found.label.tolist(), strict=True))
    grades: dict[tuple[str, str], float] = {}
    for part in find_sources(path):
        text = read_whole(part)
        try:
            reader = csv.reader(io.StringIO(text.decode("utf-8-sig")), strict=True)
            header = [name.strip().lower() for name in next(reader, [])]
            _read_csv(reader, header, part.name, grades)
        except (UnicodeDecodeError, csv.Error) as error:
            raise ParseError(
                f"this is no CSV: {error}", file=part.name, fix="Save it as UTF-8 CSV"
            ) from error
    if not grades:
        raise EmptyDataError("no judgements", file=str(path), fix="Write: query,document,grade")
    return grades


def _read_csv(
    reader: Any, header: list[str], file: str, grades: dict[tuple[str, str], float]
) -> None:
    chosen = [next((header.index(n) for n in names if n in header), -1) for names in _COLUMNS]
    if -1 in chosen:
        wanted = _COLUMNS[chosen.index(-1)][0]
        raise ParseError(
            f"the header has no column {wanted!r}", file=file, line=1,
            fix="Begin with the line: query,document,grade",
        )  # fmt: skip
    for row in reader:
        if not row:
            continue
        line = reader.line_num
        if len(row) != len(header):
            raise ParseError(
                f"{len(row)} fields instead of {len(header)}", file=file, line=line,
                fix="Quote fields that hold a comma",
            )  # fmt: skip
        query, document, grade = (row[k].strip() for k in chosen)
        try:
            value = _number("grade", grade)
        except SchemaError:
            raise ParseError(
                f"grade {grade!r} is not a finite number", file=file, line=line,
                column=header[chosen[2]], fix="Write a number",
            ) from None  # fmt: skip
        if (query, document) in grades:
            raise SchemaError(
                f"document {document!r} of query {query!r} is judged twice", file=file, line=line,
                fix="Keep one judgement",
            )  # fmt: skip
        grades[query, document] = value
