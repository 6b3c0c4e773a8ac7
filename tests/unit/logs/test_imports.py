"""Events of other systems become logs of shown items, without values from the future."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from error_checks import raises_at
from rankine.core.errors import EmptyDataError, ParseError
from rankine.logs.imports import import_metarank, import_ubi
from rankine.logs.schema import propose_schema
from rankine.logs.source import scan

# As in the schema of UBI 1.x; the second query is as OpenSearch's plugin of 2.15 stored it.
UBI_QUERIES = [
    {
        "query_id": "q2", "client_id": "c1", "user_query": "laptop", "application": "shop",
        "timestamp": "2024-08-16T15:52:00.000Z", "object_id_field": "primary_ean",
        "query_response_id": "r2", "query_response_hit_ids": ["A", "B"],
        "query_attributes": {"page": 1},
    },
    {
        "timestamp": 1723823460000, "query_id": "q1", "client_id": "c2",
        "user_query": "toner", "query_response_objects_ids": ["C", "A"],
    },
    {"query_id": "q0", "timestamp": 1723823400, "user_query": "no hits", "client_id": "c3"},
]  # fmt: skip


def ubi_event(action, query, item, timestamp, **more):
    attributes = {"object": {"object_id": item, "object_id_field": "primary_ean"}}
    attributes["position"] = {"ordinal": 1}
    return {
        "action_name": action, "query_id": query, "client_id": "c1", "session_id": "s",
        "timestamp": timestamp, "event_attributes": attributes, **more,
    }  # fmt: skip


UBI_EVENTS = [
    ubi_event("item_click", "q2", "B", "2024-08-16T15:52:10Z"),
    ubi_event("item_click", "q2", "B", "2024-08-16T15:52:05Z"),
    ubi_event("add-to-cart", "q2", "B", 1723823550000),
    ubi_event("item_click", "q1", "Z", 1723823470000),
    ubi_event("item_click", "q9", "A", 1723823470000),
    {"action_name": "on_search", "query_id": "q2", "timestamp": 1723823520000},
    {"action_name": "login", "timestamp": 1723823520000},
]


def field(name, value):
    return {"name": name, "value": value}


# As in Metarank's documentation of its events.
METARANK = [
    {
        "event": "item", "id": "e1", "timestamp": "1599391467000", "item": "item1",
        "fields": [field("title", "cat"), field("color", ["white", "black"]), field("price", 5)],
    },
    {
        "event": "user", "id": "e2", "timestamp": 1599391467000, "user": "user1",
        "fields": [field("age", 33), field("query", "dogs")],
    },
    {
        "event": "ranking", "id": "r1", "timestamp": "1599391468000", "user": "user1",
        "session": "session1", "fields": [field("query", "cat")],
        "items": [{"id": "item3", "relevancy": 2.0}, {"id": "item1", "relevancy": 1.0}],
    },
    {
        "event": "item", "id": "e3", "timestamp": "1599391469000", "item": "item1",
        "fields": [field("price", 7)],
    },
    {
        "event": "interaction", "id": "i1", "ranking": "r1", "timestamp": "1599391470000",
        "user": "user1", "session": "session1", "type": "click", "item": "item1", "fields": [],
    },
    {"event": "interaction", "id": "i2", "timestamp": 1599391471000, "type": "like", "item": "x"},
    {
        "event": "ranking", "id": "r2", "timestamp": "2020-09-06T11:24:35Z",
        "items": [{"id": "item1"}],
    },
]  # fmt: skip


def write_lines(path, documents):
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))
    return str(path)


def test_ubi_queries_and_events_are_joined(tmp_path):
    queries = write_lines(tmp_path / "queries.jsonl", UBI_QUERIES)
    events = tmp_path / "events.json"
    events.write_text(json.dumps({"hits": {"hits": [{"_source": e} for e in UBI_EVENTS]}}))
    log = import_ubi([queries, str(events)])
    assert (log.n_lists, log.unmatched, log.other) == (2, 2, 2)
    assert log.outcomes == {"item_click": 1, "add_to_cart": 1}
    rows = log.table.to_pylist()
    assert [(row["list_id"], row["item"], row["position"]) for row in rows] == [
        ("q1", "C", 1), ("q1", "A", 2), ("q2", "A", 1), ("q2", "B", 2),
    ]  # fmt: skip
    assert [row["item_click"] for row in rows] == [0, 0, 0, 1]
    assert rows[3]["ts"].isoformat() == "2024-08-16T15:52:00+00:00"
    assert rows[3]["outcome_ts"].isoformat() == "2024-08-16T15:52:30+00:00"
    assert rows[0]["outcome_ts"] == rows[0]["ts"]
    assert (rows[0]["search"], rows[0]["user"], rows[0]["application"]) == ("toner", "c2", "")


def test_metarank_events_are_joined_as_they_were_known(tmp_path):
    # In any order of the files: the timestamps count.
    path = write_lines(tmp_path / "events.jsonl", METARANK[::-1])
    log = import_metarank([path])
    assert (log.n_lists, log.unmatched, log.other) == (2, 0, 1)
    rows = log.table.to_pylist()
    assert [(row["list_id"], row["item"], row["click"]) for row in rows] == [
        ("r1", "item3", 0), ("r1", "item1", 1), ("r2", "item1", 0),
    ]  # fmt: skip
    assert [row["price"] for row in rows] == [None, 5.0, 7.0]
    first, second, third = rows
    assert (second["color"], second["title"], second["query"]) == ("white|black", "cat", "cat")
    assert (first["user_session"], first["user_query"], first["age"]) == ("session1", "dogs", 33)
    assert (first["relevancy"], third["relevancy"], third["user"]) == (2.0, None, "")


def test_a_schema_is_proposed_for_the_log(tmp_path):
    target = tmp_path / "log.parquet"
    pq.write_table(import_metarank([write_lines(tmp_path / "e.jsonl", METARANK)]).table, target)
    schema, _ = propose_schema(target)
    assert (schema.query, schema.time, schema.item, schema.label) == (
        "list_id", "ts", "item", "click",
    )  # fmt: skip
    log = scan(target, query="list_id", label="click", numeric=["price"], time="ts")
    assert sum(block.n_rows for block in log.blocks()) == 3


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([{"event": "ranking", "id": "r", "timestamp": 1}], "has no items"),
        ([{"event": "ranking", "timestamp": 1, "items": []}], "'id' is missing"),
        ([{"event": "ranking", "id": "r", "timestamp": 1, "items": ["a"]}], "is no object"),
        ([{"event": "item", "item": "a", "timestamp": "soon"}], "'soon' is not a time"),
        ([{"event": "item", "item": "a"}], "None is not a time"),
        ([{"event": "item", "item": "a", "timestamp": 1, "fields": [1]}], "names and values"),
        ([7], "no JSON object"),
    ],
)
def test_errors_name_the_line(tmp_path, documents, message):
    path = write_lines(tmp_path / "events.jsonl", [METARANK[0], *documents])
    with pytest.raises(ParseError, match=message) as caught:
        import_metarank([path])
    assert (caught.value.file, caught.value.line) == (path, 2)


def test_files_without_lists_are_an_error(tmp_path):
    path = write_lines(tmp_path / "events.jsonl", UBI_EVENTS)
    with pytest.raises(EmptyDataError):
        import_ubi([path])
    bad = write_lines(tmp_path / "bad.jsonl", [{"query_id": "q", "timestamp": 1}])
    (tmp_path / "bad.jsonl").write_text(
        '{"query_id": 1, "timestamp": 1, "query_response_hit_ids": "A"}'
    )
    with raises_at(ParseError, line=1):
        import_ubi([bad])
