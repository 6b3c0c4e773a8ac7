"""Join events of other systems into a raw log: one row for each item that was shown.

``ubi``: queries and events of User Behavior Insights, as OpenSearch stores them. ``metarank``: its
item, user, ranking and interaction events. Files are JSON lines, or JSON documents: a list, or the
response of a search. Lists are in order of time; outcomes are columns of 0 and 1.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from rankine.core.column_values import category_text
from rankine.core.errors import EmptyDataError, ParseError, SchemaError
from rankine.data.json_documents import Location, read_documents
from rankine.history.rows import parse_time

#: Numbers from here on are milliseconds; as seconds they would be in the year 5138.
_FIRST_MILLISECONDS = 10**11
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_NOT_NAME = re.compile(r"\W")
#: Joins the values of a field that is a list.
_SEPARATOR = "|"


@dataclass
class ShownList:
    """A list that was shown.

    Attributes
    ----------
    time
        In microseconds.
    columns
        Columns that all its rows share.
    rows
        Columns of each row, by item.
    """

    time: int
    columns: dict[str, Any]
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass
class ImportedLog:
    """A log of shown rows, and what could not be joined.

    Attributes
    ----------
    table
        One row for each item of each list.
    n_lists
        Number of lists with items.
    outcomes
        Number of rows by outcome.
    unmatched
        Outcomes of an unknown list, or of an item that the list does not contain.
    other
        Events that are neither lists nor outcomes of an item, or name no list.
    """

    table: pa.Table
    n_lists: int
    outcomes: Counter[str]
    unmatched: int
    other: int


class Joiner:
    """Collects lists and outcomes, which may come in any order."""

    def __init__(self) -> None:
        self.lists: dict[str, ShownList] = {}
        self.other = 0
        self._outcomes: list[tuple[str, str, str, int]] = []

    def add_outcome(self, list_id: Any, item: Any, name: Any, time: int) -> None:
        """Add an outcome; without a list, an item or a name it is only counted."""
        if list_id is None or item is None or not isinstance(name, str):
            self.other += 1
            return
        column = _NOT_NAME.sub("_", name)
        self._outcomes.append((category_text(list_id), category_text(item), column, time))

    def join(self) -> ImportedLog:
        """Return the log."""
        names = dict.fromkeys(name for _, _, name, _ in self._outcomes)
        counts: Counter[str] = Counter(dict.fromkeys(names, 0))
        unmatched = 0
        for list_id, item, name, time in self._outcomes:
            shown = self.lists.get(list_id)
            if shown is None or item not in shown.rows:
                unmatched += 1
                continue
            row = shown.rows[item]
            counts[name] += not row.get(name)
            row[name] = 1
            row["outcome_ts"] = max(time, row.get("outcome_ts", time))
        n_lists = sum(bool(shown.rows) for shown in self.lists.values())
        if n_lists == 0:
            raise EmptyDataError(
                "the files contain no list of items", fix="Pass queries or rankings, and events"
            )
        return ImportedLog(self._table(names), n_lists, counts, unmatched, self.other)

    def _table(self, outcomes: Mapping[str, None]) -> pa.Table:
        rows = []
        # A stable sort: lists of one instant stay in the order of the files.
        for list_id, shown in sorted(self.lists.items(), key=lambda pair: pair[1].time):
            # A row without an outcome ends when it was shown.
            first = {"list_id": list_id, "ts": shown.time, "outcome_ts": shown.time}
            first |= shown.columns
            rows += [first | {"item": item} | row for item, row in shown.rows.items()]
        names = dict.fromkeys(
            name for row in rows for name, value in row.items() if value is not None
        )
        names = {name: None for name in names if name not in outcomes}
        columns = {name: _column([row.get(name) for row in rows]) for name in names}
        for name in ("ts", "outcome_ts"):
            times = [row.get(name) for row in rows]
            columns[name] = pa.array(times, pa.timestamp("us", tz="UTC"))
        for name in outcomes:
            columns[name] = pa.array([row.get(name, 0) for row in rows], pa.int8())
        return pa.table(columns)


def _column(values: Sequence[Any]) -> pa.Array:
    """Return values as numbers or booleans if all are, else as texts."""
    plain = [_SEPARATOR.join(map(category_text, x)) if isinstance(x, list) else x for x in values]
    types = set(map(type, plain))
    if types in ({int}, {bool}):
        return pa.array(plain)
    if types <= {int, float, bool, type(None)}:
        return pa.array([None if x is None else float(x) for x in plain], pa.float64())
    # An empty text is a missing category, in files and in requests.
    return pa.array(["" if value is None else category_text(value) for value in plain])


# -- OpenSearch User Behavior Insights ----------------------------------------------------------

#: Names of the list of hits in the versions of the specification.
_HITS = ("query_response_hit_ids", "query_response_objects_ids", "query_response_object_ids")


def import_ubi(paths: Sequence[str]) -> ImportedLog:
    """Join queries and events of User Behavior Insights."""
    joiner = Joiner()
    for document, location in read_documents(paths):
        with _locate(location):
            if "action_name" in document:
                attributes = _object(document, "event_attributes")
                joiner.add_outcome(
                    document.get("query_id"),
                    _object(attributes, "object").get("object_id"),
                    document["action_name"],
                    _time(document),
                )
            else:
                _add_query(joiner, document)
    return joiner.join()


def _add_query(joiner: Joiner, query: Mapping[str, Any]) -> None:
    hits: Any = next((query[name] for name in _HITS if query.get(name) is not None), [])
    list_id = category_text(_required(query, "query_id"))
    if not isinstance(hits, list):
        raise SchemaError("the hits of the query are not a list", fix=f"Log {_HITS[0]} as a list")
    shown = joiner.lists.get(list_id)
    if shown is None:
        columns = {
            "search": query.get("user_query"),
            "user": query.get("client_id"),
            "application": query.get("application"),
        }
        shown = joiner.lists[list_id] = ShownList(_time(query), columns)
    # Further pages of a query have its id, and continue its list.
    for item in map(category_text, hits):
        shown.rows.setdefault(item, {"position": len(shown.rows) + 1})


# -- Metarank -----------------------------------------------------------------------------------


def import_metarank(paths: Sequence[str]) -> ImportedLog:
    """Join item, user, ranking and interaction events of Metarank.

    A row has the fields of its item and user as they were when the list was shown.
    """
    events = []
    for event, location in read_documents(paths):
        with _locate(location):
            events.append((_time(event), event, location))
    # A stable sort: events of one instant stay in the order of the files.
    events.sort(key=lambda entry: entry[0])
    joiner = Joiner()
    fields: dict[str, dict[str, dict[str, Any]]] = {"item": {}, "user": {}}
    for time, event, location in events:
        with _locate(location):
            kind = event.get("event")
            if kind in fields:
                known_fields = fields[kind].setdefault(category_text(_required(event, kind)), {})
                known_fields.update(_fields(event))
            elif kind == "ranking":
                _add_ranking(joiner, time, event, fields)
            elif kind == "interaction":
                joiner.add_outcome(event.get("ranking"), event.get("item"), event.get("type"), time)
            else:
                joiner.other += 1
    return joiner.join()


def _add_ranking(
    joiner: Joiner,
    time: int,
    event: Mapping[str, Any],
    fields: Mapping[str, Mapping[str, Mapping[str, Any]]],
) -> None:
    list_id = category_text(_required(event, "id"))
    items = event.get("items")
    if not isinstance(items, list):
        raise SchemaError("the ranking has no items", fix='Write "items": [{"id": "item1"}]')
    user = event.get("user")
    columns = {"user": user, "user_session": event.get("session"), **_fields(event)}
    if user is not None:
        _add_prefixed(columns, fields["user"].get(category_text(user), {}), "user")
    shown = joiner.lists[list_id] = ShownList(time, columns)
    for position, entry in enumerate(items, 1):
        if not isinstance(entry, dict):
            raise SchemaError("an item of the ranking is no object", fix='Write {"id": "item1"}')
        item = category_text(_required(entry, "id"))
        row = {"position": position, "relevancy": entry.get("relevancy")}
        _add_prefixed(row, fields["item"].get(item, {}), "item", columns)
        shown.rows[item] = row


def _add_prefixed(
    columns: dict[str, Any],
    values: Mapping[str, Any],
    prefix: str,
    others: Mapping[str, Any] | None = None,
) -> None:
    """Add fields as columns; the name of another column gets a prefix."""
    for name, value in values.items():
        if name in columns or name in (others or {}) or name in _OWN_COLUMNS:
            name = f"{prefix}_{name}"  # noqa: PLW2901
        columns[name] = value


#: Columns that every log has.
_OWN_COLUMNS = ("list_id", "ts", "item", "position", "relevancy", "outcome_ts")


def _fields(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an event of Metarank."""
    entries = event.get("fields") or []
    try:
        return {str(entry["name"]): entry["value"] for entry in entries}
    except (TypeError, KeyError) as error:
        raise SchemaError(
            "fields are not a list of names and values",
            fix='Write "fields": [{"name": "title", "value": "a cat"}]',
        ) from error


# -- fields of documents ------------------------------------------------------------------------


@contextmanager
def _locate(location: Location) -> Iterator[None]:
    """Add file and line to errors about a document."""
    try:
        yield
    except SchemaError as error:
        raise ParseError(
            error.reason, file=location.file, line=location.line, fix=error.fix
        ) from error


def _object(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return an object in a document; anything else counts as an empty one."""
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def _required(document: Mapping[str, Any], name: str) -> Any:
    value = document.get(name)
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise SchemaError(f"{name!r} is missing, or neither text nor an integer", fix="Add it")
    return value


def _time(document: Mapping[str, Any]) -> int:
    """Return the timestamp of a document: ISO 8601, or seconds or milliseconds since 1970."""
    value = document.get("timestamp")
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    unit = "s"
    if isinstance(value, (int, float)) and abs(value) >= _FIRST_MILLISECONDS:
        unit = "ms"
    return parse_time(value, unit)


#: Importers by the name of their system.
IMPORTERS: dict[str, Callable[[Sequence[str]], ImportedLog]] = {
    "ubi": import_ubi,
    "metarank": import_metarank,
}
