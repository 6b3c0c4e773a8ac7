"""Events and history features of a service without sockets."""

from __future__ import annotations

import msgspec
import pytest

from integration.serve.test_history import (
    declare,
)
from rankine.serve.app import openapi_document
from rankine.serve.connection import Request
from rankine.serve.security import AccessPolicy
from unit.serve.state_server import JSON, SMALL, item_rows, outcome, shown

TOKEN, EVENTS_TOKEN = b"c2VjcmV0LXRva2VuLWZvci10ZXN0cw==", b"ZXZlbnRzLW9ubHktdG9rZW4tdGVzdHM="


def test_events_are_counted_and_described(start):
    server = start(declare(SMALL))
    event = shown("L1", 10, "a", "b")
    status, reply = server.ask(b"POST", "/v1/events", event)
    assert (status, reply) == (
        202,
        {"accepted": 1, "duplicates": 0, "unmatched": 0, "late": 0, "unknown_columns": {}},
    )
    status, reply = server.post(
        event, outcome("L1", "a", 11, clicked=True, color=2), outcome("L9", "a", 11, clicked=1)
    )
    assert status == 202
    assert (reply["accepted"], reply["duplicates"], reply["unmatched"]) == (1, 1, 1)
    assert reply["unknown_columns"] == {"color": 1}
    server.score(items=item_rows("a"), context={"user": 1}, time="1970-01-01T00:00:20Z")
    assert server.post(outcome("L1", "b", 21, clicked=1))[1]["late"] == 1
    status, state = server.ask(b"GET", "/v1/state")
    assert status == 200
    assert state["bytes"] > 0
    assert {name: state[name] for name in state if name != "bytes"} == {
        "mode": "events",
        "keys": {"ctr": 2, "clicks": 2},
        "last_event": "1970-01-01T00:00:21+00:00",
        "clock": "1970-01-01T00:00:20+00:00",
        "lists_waiting": 1,
        "late_lists": 0,
        "late_outcomes": 1,
        "evicted": {"ctr": 0, "clicks": 0},
        "parity": False,
    }
    assert server.value("events_total", result="accepted") == 3
    assert server.value("events_total", result="duplicates") == 1
    assert server.value("history_keys", feature="ctr") == 2
    assert server.value("history_late_total", kind="outcome") == 1
    assert server.value("http_requests_total", path="/v1/events", status="202") == 3


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"{", 400, "not JSON"),
        (b'{"type": "seen"}', 422, "Invalid value 'seen'"),
        (shown("L1", 10, "a") | {"colour": 1}, 422, "colour"),
        (shown("", 10, "a"), 422, "length >= 1"),
        (shown("L1", "soon", "a"), 422, "not a time"),
        (shown("L1", 4e9, "a"), 422, "ahead of the server's clock"),
        ([shown("L1", 1, "a"), shown("L2", 1, *range(9))], 422, "event 1: more than 8 items"),
        ([outcome("L1", "a", 1, clicked="yes")], 422, "outcomes"),
        (shown("L1", 1, "a", context={"clicked": "yes"}), 422, "'clicked' is of type"),
        (
            b'{"type": "outcome", "id": 1, "id": 2, "list": 1, "item": 1, "outcomes": {}}',
            400,
            "rep",
        ),
        (b'{"type": "shown", "id": 1, "list": 1, "items": [{"id": 1, "id": 2}]}', 400, "repeated"),
    ],
)
def test_invalid_events_name_what_is_wrong_and_change_nothing(start, body, status, message):
    server = start(declare(SMALL), limits={"items": 8})
    actual, reply = server.ask(b"POST", "/v1/events", body)
    assert actual == status
    assert message in reply["error"]["message"]
    assert server.ask(b"GET", "/v1/state")[1]["mode"] == "snapshots"


def test_an_id_is_that_of_one_event(start):
    server = start(declare(SMALL))
    first = shown(1, 10, "a", id=1)
    assert server.post(first, first)[1] | {"unknown_columns": 0} == {
        "accepted": 1, "duplicates": 1, "unmatched": 0, "late": 0, "unknown_columns": 0
    }  # fmt: skip
    # Whatever its type and content, an event with an id that was seen is a duplicate.
    for event in (shown(2, 10, "b", id="1"), outcome("1", "a", 11, clicked=1) | {"id": 1}):
        reply = server.post(event)[1]
        assert (reply["accepted"], reply["duplicates"]) == (0, 1)
    # Lists and items have the same rule for ids.
    reply = server.post(outcome("1", "a", 11, clicked=1), shown("1", 12, "b", id="again"))[1]
    assert (reply["accepted"], reply["duplicates"]) == (1, 1)
    before = server.ask(b"GET", "/v1/state")[1]
    status, reply = server.post(shown(3, 12, "a", id="x"), shown(4, 12, "a", id="x"))
    assert (status, reply["error"]["code"]) == (422, "schema")
    assert reply["error"]["message"].startswith("event 1: ")
    assert server.ask(b"GET", "/v1/state")[1] == before


def test_a_strict_server_refuses_columns_that_do_not_match(start):
    server = start(declare(SMALL), strict=True)
    server.post(shown("L1", 1, "a"))
    status, reply = server.post(outcome("L1", "a", 2, cliked=1))
    assert (status, reply["error"]["fix"]) == (422, "They read clicked")
    status, reply = server.ask(b"POST", "/v1/rank", {"items": item_rows("a")})
    assert (status, reply["error"]["code"]) == (422, "feature-mismatch")
    assert "'user'" in reply["error"]["message"]


def test_rankings_are_recorded(start):
    server = start(declare(SMALL))
    request = {"items": item_rows("a", "b", "c"), "context": {"user": 1}, "k": 2, "time": 10}
    status, reply = server.ask(b"POST", "/v1/rank", request | {"record": True, "id": "L1"})
    assert (status, reply["recorded"]) == (200, True)
    server.drain()
    first, second = (entry["id"] for entry in reply["ranking"])
    omitted = ({"a", "b", "c"} - {first, second}).pop()
    _, reply = server.post(
        outcome("L1", second, 11, clicked=1), outcome("L1", omitted, 11, clicked=1)
    )
    assert (reply["accepted"], reply["unmatched"]) == (1, 1)
    server.score(items=item_rows("a"), time=20)
    assert server.ask(b"GET", "/v1/state")[1]["keys"] == {"ctr": 2, "clicks": 1}
    status, reply = server.ask(b"POST", "/v1/rank", request | {"record": True})
    assert (status, reply["error"]["fix"]) == (422, "Add id")
    both = {"lists": [{"id": "L2", "items": item_rows("a")}, {"id": "L3", "items": []}]}
    assert server.ask(b"POST", "/v1/rank", both | {"record": True})[1]["recorded"] is True
    status, reply = server.ask(b"POST", "/v1/rank", both | {"id": "L4"})
    assert (status, reply["error"]["message"]) == (422, "id cannot be combined with lists")
    full = start(limits={"event_queue": 1})
    full.pool.events.enter()
    _, reply = full.ask(b"POST", "/v1/rank", request | {"record": True, "id": "L5"})
    assert reply["recorded"] is False
    assert full.value("refused_total", limit="event_queue") == 1


@pytest.mark.parametrize(
    ("request_fields", "message"),
    [
        ({"items": [{"features": {"a": 1.0}}]}, "raw items"),
        ({"items": [{"raw": {"item": "a", "ctr": 0.5}}]}, "'ctr' is computed by the server"),
        ({"items": item_rows("a"), "time": "yesterday"}, "not a time"),
        ({"items": item_rows("a"), "time": 1e300}, "year 9999"),
    ],
)
def test_requests_that_do_not_fit_history_features(start, request_fields, message):
    server = start(declare(SMALL))
    status, reply = server.ask(b"POST", "/v1/rank", request_fields)
    assert status == 422
    assert message in reply["error"]["message"]


def test_missing_keys_are_counted(start):
    server = start(declare(SMALL))
    _, reply = server.ask(b"POST", "/v1/rank", {"items": item_rows("a", "b")})
    assert reply["missing_columns"] == {"user": 2}
    _, entry = server.ask(b"GET", "/v1/models/shop")
    assert entry["required"] == ["price", "item", "user"]
    assert server.ask(b"POST", "/v1/rank", {"items": entry["example"]})[0] == 200


def test_a_column_that_is_also_a_key_is_missing_once(start):
    server = start(declare({"ctr": {"rate": "clicked", "by": ["price", "item"]}}))
    _, reply = server.ask(b"POST", "/v1/rank", {"items": [{"raw": {"item": "a"}}]})
    assert reply["missing_columns"] == {"price": 1}


def test_tokens(start):
    access = AccessPolicy("127.0.0.1", TOKEN, (), EVENTS_TOKEN)
    server = start(declare(SMALL), access=access)
    body = shown("L1", 1, "a")
    for token, status in ((TOKEN, 202), (EVENTS_TOKEN, 202), (b"wrong", 401)):
        header = b"Bearer " + token
        assert server.ask(b"POST", "/v1/events", body, authorization=header)[0] == status
    for path in ("/v1/state", "/v1/models/nobody"):
        assert server.ask(b"GET", path, authorization=b"Bearer " + EVENTS_TOKEN)[0] == 403
        assert server.ask(b"GET", path, authorization=b"Basic " + EVENTS_TOKEN)[0] == 401
        assert server.ask(b"GET", path)[0] == 401
    assert server.ask(b"GET", "/v1/state", authorization=b"Bearer " + TOKEN)[0] == 200


def test_the_lane_of_events_is_not_that_of_rankings(start):
    server = start(declare(SMALL))
    request = Request(b"POST", b"/v1/events", JSON, b"[]", close=False)
    assert server.service.handle(request, True) is server.pool.events
    assert server.pool.events.status == 429


def test_the_openapi_document_describes_events():
    document = msgspec.json.decode(openapi_document())
    operation = document["paths"]["/v1/events"]["post"]
    assert set(operation["responses"]) >= {"202", "401", "422", "429", "503"}
    assert {"ShownEvent", "OutcomeEvent", "EventsReply", "StateReply"} <= set(
        document["components"]["schemas"]
    )
    assert "record" in document["components"]["schemas"]["RankRequest"]["properties"]
