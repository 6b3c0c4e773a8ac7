"""What the endpoints say, through a real socket."""

import json
from dataclasses import replace

import numpy as np
import pytest

from integration.serve.serve_tools import NAMES, LocalServer, log_model, make_model
from rankine import LinearModel, Rules, Scorer
from rankine.core.specs import ListRange, OutcomeCalibration

RNG = np.random.default_rng(3)
ROWS = [dict(zip(NAMES, RNG.normal(size=20).tolist(), strict=True)) for _ in range(7)]
ITEMS = [{"id": f"d{i}", "features": row} for i, row in enumerate(ROWS)]


def test_rank_is_the_scorer_bit_for_bit(server):
    model = make_model(0, metric="ndcg@10")
    status, reply = server.json("POST", "/v1/rank", {"model": "shop", "items": ITEMS})
    expected = Scorer(model).rank(ROWS)
    assert status == 200
    assert reply["digest"] == model.digest
    assert [item["index"] for item in reply["ranking"]] == expected.indices.tolist()
    assert [item["score"] for item in reply["ranking"]] == expected.scores.tolist()
    assert [item["id"] for item in reply["ranking"]] == [f"d{i}" for i in expected.indices]


def test_k_keeps_the_best(server):
    _, everything = server.json("POST", "/v1/rank", {"model": "shop", "items": ITEMS})
    _, reply = server.json("POST", "/v1/rank", {"model": "shop", "items": ITEMS, "k": 2})
    assert reply["ranking"] == everything["ranking"][:2]


def test_score_keeps_the_order_of_the_request(server):
    status, reply = server.json("POST", "/v1/score", {"model": "shop", "items": ITEMS})
    assert status == 200
    assert reply["scores"] == Scorer(make_model(0)).score(ROWS).tolist()


def test_a_batch_is_its_lists_one_by_one(server):
    lists = [{"id": "q1", "items": ITEMS[:3]}, {"id": 2, "items": ITEMS[3:]}, {"items": []}]
    for path in ("/v1/rank", "/v1/score"):
        status, reply = server.json("POST", path, {"model": "scaled", "lists": lists})
        assert status == 200
        assert [one.get("id") for one in reply["lists"]] == ["q1", 2, None]
        for asked, given in zip(lists, reply["lists"], strict=True):
            _, alone = server.json("POST", path, {"model": "scaled", "items": asked["items"]})
            key = path.removeprefix("/v1/").replace("rank", "ranking").replace("score", "scores")
            assert given[key] == alone[key]


def test_scaling_happens_within_the_list(server):
    _, reply = server.json("POST", "/v1/score", {"model": "scaled", "items": ITEMS})
    model = make_model(1, transforms=[ListRange()])
    assert reply["scores"] == Scorer(model).score(ROWS).tolist()


def test_pairs_count_from_the_models_base(server):
    named = [{"features": {NAMES[2]: 1.5, NAMES[5]: -2.0}}, {"features": {}}]
    pairs = [{"indices": [3, 6], "values": [1.5, -2]}, {"indices": [], "values": []}]
    _, one = server.json("POST", "/v1/score", {"model": "shop", "items": named})
    _, two = server.json("POST", "/v1/score", {"model": "shop", "items": pairs})
    np.testing.assert_allclose(one["scores"], two["scores"], rtol=1e-15)
    _, reply = server.json(
        "POST", "/v1/score", {"model": "plain", "items": [{"indices": [0, 7], "values": [1, 1]}]}
    )
    assert reply["scores"] == [9.0]


def test_raw_columns_share_a_context(server):
    whole = [{"raw": {NAMES[0]: 1.0, NAMES[1]: i}} for i in range(3)]
    split = [{"raw": {NAMES[1]: i}} for i in range(3)]
    _, one = server.json("POST", "/v1/score", {"model": "shop", "items": whole})
    _, two = server.json(
        "POST", "/v1/score", {"model": "shop", "items": split, "context": {NAMES[0]: 1.0}}
    )
    assert one["scores"] == two["scores"]


def test_raw_log_columns_go_through_the_models_transforms(server):
    rows = [
        {"price": 3.5, "shop": "north", "brand": "a", "session": "s"},
        {"price": 1, "shop": "south", "brand": None, "ctr": 0.5},
        {"brand": "ü", "shop": "east"},
    ]
    items = [{"id": i, "raw": row} for i, row in enumerate(rows)]
    _, reply = server.json("POST", "/v1/rank", {"model": "log", "items": items, "explain": 2})
    expected = Scorer(log_model()).rank(rows)
    assert [item["index"] for item in reply["ranking"]] == expected.indices.tolist()
    assert [item["score"] for item in reply["ranking"]] == expected.scores.tolist()
    best = Scorer(log_model()).explain(rows, int(expected.indices[0]))
    shown = reply["ranking"][0]["explanation"]["contributions"]
    assert [term["name"] for term in shown] == [term.name for term in best.contributions[:2]]
    _, entry = server.json("GET", "/v1/models/log")
    assert entry["required"] == ["price", "shop", "brand"]
    assert entry["transforms"] == ["log_columns", "list_range"]
    for bad, name in (({"price": "dear"}, "price"), ({"shop": 1.5}, "shop")):
        items = [{"raw": {"price": 1}}, {"raw": bad}]
        for request in ({"items": items}, {"lists": [{"items": []}, {"items": items}]}):
            status, reply = server.json("POST", "/v1/rank", {"model": "log", **request})
            assert status == 422, reply
            assert "item 1" in reply["error"]["message"]
            assert f"column '{name}'" in reply["error"]["message"]
            assert reply["error"]["message"].startswith("list 1: ") == ("lists" in request)
    items = [{"raw": {"price": 10**400}}]
    assert server.json("POST", "/v1/rank", {"model": "log", "items": items})[0] == 422


ODD = [
    {"raw": {"price": 1.0, "shop": "north", "brnad": "a", "colour": "red"}},
    {"raw": {"price": 2.0, "shop": "south", "brnad": "b"}},
    {"raw": {"shop": None}},
]


def test_unknown_and_missing_columns_are_counted_and_named(server):
    counters = ("unknown_columns_total", "missing_columns_total")
    before = [server.metric(name) for name in counters]
    status, reply = server.json("POST", "/v1/rank", {"model": "log", "items": ODD})
    assert status == 200
    assert reply["unknown_columns"] == {"brnad": 2, "colour": 1}
    assert reply["missing_columns"] == {"brand": 3, "price": 1}
    lists = [{"items": ODD}, {"items": ODD[:1]}]
    _, reply = server.json("POST", "/v1/score", {"model": "log", "lists": lists})
    assert reply["unknown_columns"] == {"brnad": 3, "colour": 2}
    assert [server.metric(name) for name in counters] == [before[0] + 8, before[1] + 9]
    _, reply = server.json("POST", "/v1/score", {"model": "log", "items": ODD, "unknown": "error"})
    assert reply["error"]["message"] == "the model has no column 'brnad', 'colour'"
    assert "'brand'" in reply["error"]["fix"]
    good = [{"raw": {"price": None, "shop": "", "brand": 7, "ctr": 1, "session": "s"}}]
    _, reply = server.json("POST", "/v1/score", {"model": "log", "items": good})
    assert (reply["unknown_columns"], reply["missing_columns"]) == ({}, {})


def test_a_strict_server_refuses_unknown_and_missing_columns(folder, request):
    strict = LocalServer(folder, strict=True)
    request.addfinalizer(strict.stop)
    whole = {"price": 1.0, "shop": "north", "brand": "a"}
    for raw, status, word in (
        (whole, 200, ""),
        ({**whole, "session": "s", "ctr": 2}, 200, ""),
        ({**whole, "price": None}, 200, ""),
        ({**whole, "colour": "red"}, 422, "'colour'"),
        ({"price": 1.0, "shop": "north"}, 422, "'brand'"),
    ):
        items = [{"raw": whole}, {"raw": raw}]
        for unknown in ({}, {"unknown": "zero"}):
            found, reply = strict.json(
                "POST", "/v1/rank", {"model": "log", "items": items, **unknown}
            )
            assert found == status, reply
            assert word in reply.get("error", {}).get("message", "")
    # A model of a log reads columns, whatever the item calls them.
    for name, word in (("colour", "'colour'"), ("price", "'brand', 'shop'")):
        items = [{"features": {name: 1.0}}]
        found, reply = strict.json("POST", "/v1/rank", {"model": "log", "items": items})
        assert (found, word in reply["error"]["message"]) == (422, True), reply


def test_the_example_of_every_model_can_be_ranked(server):
    for name in ("log", "plain", "scaled", "shop", "topics/grain"):
        _, entry = server.json("GET", f"/v1/models/{name}")
        items = entry["example"]
        assert entry["reads"] == ("raw" if name == "log" else "features")
        status, reply = server.json("POST", "/v1/rank", {"model": name, "items": items})
        assert status == 200, reply
        assert (reply["unknown_columns"], reply["missing_columns"]) == ({}, {})
        assert len({item["score"] for item in reply["ranking"]}) > 1


def test_topics_of_a_bundle_are_models(server):
    items = [{"features": {"x": 1.0, "y": 2.0, "z": 3.0}}]
    for topic, expected in (("earn", 1.0), ("grain", 2.0), ("a/b", 3.0)):
        status, reply = server.json(
            "POST", "/v1/score", {"model": f"topics/{topic}", "items": items}
        )
        assert (status, reply["scores"], reply["model"]) == (200, [expected], f"topics/{topic}")
    status, reply = server.json("POST", "/v1/score", {"model": "topics", "items": items})
    assert status == 404
    assert "topics/TOPIC" in reply["error"]["fix"]


def test_explanations_add_up(server):
    request = {"model": "shop", "items": ITEMS, "explain": 3}
    _, reply = server.json("POST", "/v1/rank", request)
    ranking = reply["ranking"]
    for item in ranking:
        why = item["explanation"]
        assert len(why["contributions"]) == 3
        assert why["rest_count"] == 17
        parts = sum(term["contribution"] for term in why["contributions"])
        assert parts + why["rest"] == pytest.approx(item["score"], rel=1e-12)
        for term in why["contributions"]:
            assert term["contribution"] == term["weight"] * term["value"]
    for above, below in zip(ranking[:-1], ranking[1:], strict=True):
        assert above["lead"]["total"] == pytest.approx(above["score"] - below["score"], abs=1e-12)
    assert "lead" not in ranking[-1]


def test_unknown_features_are_refused_or_counted(server):
    items = [{"features": {NAMES[0]: 1.0, "featur_1": 2.0}}, {"features": {NAMES[0]: 1.0}}]
    status, reply = server.json("POST", "/v1/score", {"model": "shop", "items": items})
    assert status == 422
    assert reply["error"]["code"] == "feature-mismatch"
    assert reply["digest"] == make_model(0, metric="ndcg@10").digest
    request = {"model": "shop", "items": items, "unknown": "zero"}
    status, reply = server.json("POST", "/v1/score", request)
    assert (status, reply["unknown_features"]) == (200, 1)
    assert reply["scores"][0] == reply["scores"][1]


def test_a_model_is_sent_in_the_json_format(server, tmp_path):
    status, document = server.json("GET", "/v1/export/shop")
    model = make_model(0, metric="ndcg@10")
    assert (status, document["digest"]) == (200, model.digest)
    assert document["weights"] == model.values.tolist()
    status, topic = server.json("GET", "/v1/export/topics/grain")
    _, reply = server.json("GET", "/v1/models/topics/grain")
    assert (status, topic["digest"]) == (200, reply["digest"])
    for path in ("nothing", "topics", "topics/nothing", "shop/grain"):
        assert server.json("GET", f"/v1/export/{path}")[0] == 404
    LinearModel.from_weights(np.ones(20_001)).save(tmp_path / "large.rankine")
    large = LocalServer(str(tmp_path))
    try:
        status, reply = large.json("GET", "/v1/export/large")
        assert (status, reply["error"]["code"]) == (422, "limit")
    finally:
        large.stop()


def test_models_tell_what_they_read(server):
    status, reply = server.json("GET", "/v1/models")
    found = {entry["name"]: entry for entry in reply["models"]}
    assert status == 200
    assert list(found) == ["log", "plain", "scaled", "shop", "topics"]
    assert found["shop"]["required"] == NAMES
    assert found["shop"]["metric"] == "ndcg@10"
    assert found["scaled"]["transforms"] == ["list_range"]
    assert (found["plain"]["base"], found["plain"]["nnz"]) == (0, 8)
    assert found["topics"]["topics"] == ["earn", "grain", "a/b"]
    status, topic = server.json("GET", "/v1/models/topics/grain")
    assert (status, topic["required"], topic["nnz"]) == (200, ["y"], 1)
    assert server.json("GET", "/v1/models/nothing")[0] == 404


def test_probes_metrics_and_openapi(server):
    assert server.request("GET", "/healthz")[::2] == (200, b"ok\n")
    assert server.request("GET", "/readyz")[::2] == (200, b"ready\n")
    before = server.metric("items_scored_total")
    server.json("POST", "/v1/rank", {"model": "shop", "items": ITEMS})
    assert server.metric("items_scored_total") == before + len(ITEMS)
    status, document = server.json("GET", "/openapi.json")
    assert status == 200
    assert document["openapi"].startswith("3.1")
    text = json.dumps(document)
    for reference in {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}:
        assert reference in document["components"]["schemas"]


def test_metrics_follow_the_text_format(server):
    _, headers, body = server.request("GET", "/metrics")
    assert headers["content-type"].startswith("text/plain; version=0.0.4")
    seen = set()
    for line in body.decode().splitlines():
        if line.startswith("# TYPE "):
            seen.add(line.split()[2])
        elif not line.startswith("#"):
            name, value = line.split("{")[0].split(" ")[0], line.rsplit(" ", 1)[1]
            float(value)
            family = name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")
            assert name in seen or family in seen
    assert 'rankine_model_info{digest="' + make_model(0, metric="ndcg@10").digest in body.decode()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 422),
        (b'{"items": []}', 404),
        (b'{"model": "shop"}', 422),
        (b'{"model": "shop", "items": [], "lists": []}', 422),
        (b'{"model": "shop", "items": [{}]}', 422),
        (b'{"model": "shop", "items": [{"id": 1}]}', 422),
        (b'{"model": "shop", "items": [{"features": {}, "raw": {}}]}', 422),
        (b'{"model": "shop", "items": [{"features": {}}, {"raw": {}}]}', 422),
        (b'{"model": "shop", "items": [{"features": {"feature_0": "1"}}]}', 422),
        (b'{"model": "shop", "items": [{"features": {"feature_0": true}}]}', 422),
        (b'{"model": "shop", "items": [{"features": {"feature_0": null}}]}', 422),
        (b'{"model": "shop", "items": [{"features": {"feature_0": NaN}}]}', 400),
        (b'{"model": "shop", "items": [{"features": {"feature_0": 01}}]}', 400),
        (b'{"model": "shop", "items": [{"features": {"feature_0": .5}}]}', 400),
        (b'{"model": "shop", "items": [{"features": {"feature_0": +1}}]}', 400),
        (b'{"model": "shop", "items": [{"features": {"feature_0": 1e400}}]}', 422),
        (b'{"model": "shop", "items": [{"features": {"feature_0": 1, "feature_0": 2}}]}', 400),
        (b'{"model": "shop", "items": [], "items": []}', 400),
        (b'{"model": "shop", "model": "scaled", "items": []}', 400),
        (b'{"model": "shop", "items": [{"id": 1, "id": 1, "features": {}}]}', 400),
        (b'{"model": "shop", "items": [{"indices": [1], "values": []}]}', 422),
        (b'{"model": "shop", "items": [{"indices": [2, 1], "values": [1, 1]}]}', 422),
        (b'{"model": "shop", "items": [{"indices": [1, 1], "values": [1, 1]}]}', 422),
        (b'{"model": "shop", "items": [{"indices": [0], "values": [1]}]}', 422),
        (b'{"model": "shop", "items": [{"indices": [21], "values": [1]}]}', 422),
        (b'{"model": "shop", "items": [{"indices": [99999999999999999999], "values": [1]}]}', 422),
        (b'{"model": "shop", "items": [{"indices": [1.5], "values": [1]}]}', 422),
        (b'{"model": "shop", "items": [], "k": 0}', 422),
        (b'{"model": "shop", "items": [], "path": "/etc/passwd"}', 422),
        (b'{"model": "shop", "items": [], "explain": -1}', 422),
        (b'{"model": "shop", "items": [{"features": {}}], "context": {"a": 1}}', 422),
        (b'{"model": "nothing", "items": []}', 404),
        (b"\xff\xfe{}", 400),
        (b'\xef\xbb\xbf{"model": "shop", "items": []}', 400),
        (
            b'{"model": "shop", "items": [{"features": {"feature_0": 1e308, "feature_1": 1e308}}]}',
            200,
        ),
        (b'{"model": "shop", "items": [{"raw": {"feature_0": ' + b"9" * 400 + b"}}]}", 422),
        (b'{"model": "shop", "items": [{"raw": {"feature_0": ' + b"9" * 9000 + b"}}]}", 422),
        (b'{"model": "shop", "items": [{"features": {"feature_0": ' + b"9" * 9000 + b"}}]}", 422),
        (b'{"model": "shop", "items": [{"id": ' + b"9" * 9000 + b', "features": {}}]}', 422),
        (b"[" * 200_000, 422),
        (b'{"items":' * 50_000, 422),
        (b'{"model": "shop", "items": []}', 200),
    ],
)
def test_bodies_get_the_status_they_deserve(server, body, status):
    found, reply = server.json("POST", "/v1/rank", body)
    assert found == status, reply
    if status != 200:
        assert reply["error"]["message"]
        assert str(server.folder) not in json.dumps(reply)


def test_keys_with_colons_are_no_duplicates(server):
    body = b'{"model": "plain", "items": [{"id": "a:b:\\"c:", "features": {"1": 2.0}}]}'
    status, reply = server.json("POST", "/v1/rank", body)
    assert (status, reply["ranking"][0]["id"]) == (200, 'a:b:"c:')


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "", "text/json"]
)
def test_only_json_is_taken(server, kind):
    status, _ = server.json(
        "POST", "/v1/rank", b'{"model":"shop","items":[]}', [("Content-Type", kind)]
    )
    assert status == 415


def test_other_methods_and_paths(server):
    assert server.request("GET", "/v1/rank")[0] == 405
    assert server.request("POST", "/v1/models", {})[0] == 405
    assert server.request("GET", "/v1/rank/")[0] == 404
    assert server.request("HEAD", "/healthz")[::2] == (200, b"")


@pytest.fixture
def start_calibrated(tmp_path):
    spec = OutcomeCalibration(
        outcome="clicked",
        position="position",
        scores=(-1.0, 1.0),
        logits=(-2.0, 0.0),
        tails=(1.0, 1.0),
        examination=(1.0, 0.5, 0.25),
    )
    model = replace(make_model(0), calibration=spec)
    model.save(tmp_path / "shop.rankine")
    running = LocalServer(tmp_path)
    yield running, model
    assert running.stop()


RULES = {
    "filter": [{"where": "stock == 0"}],
    "pin": [{"name": "campaign", "where": "id == 'd0'", "position": 1}],
    "at_most": [{"name": "brands", "column": "brand", "count": 1, "first": 6}],
    "diversify": [{"vectors": "embedding", "weight": 0.2}],
}


def items_with_columns():
    rng = np.random.default_rng(8)
    items = []
    for number, item in enumerate(ITEMS):
        columns = {"stock": number % 4, "brand": "xyz"[number % 3]}
        columns["embedding"] = rng.normal(size=4).tolist()
        items.append({**item, "columns": columns})
    return items


def test_rules_of_a_request_are_those_of_the_library(server):
    items = items_with_columns()
    body = {"model": "shop", "items": items, "rules": RULES, "k": 3}
    status, reply = server.json("POST", "/v1/rank", body)
    assert status == 200, reply
    columns = {name: [item["columns"][name] for item in items] for name in items[0]["columns"]}
    columns["id"] = [item["id"] for item in items]
    expected = Scorer(make_model(0)).rank(ROWS, 3, rules=Rules(RULES), columns=columns)
    assert [item["index"] for item in reply["ranking"]] == expected.indices.tolist()
    assert [item["score"] for item in reply["ranking"]] == expected.scores.tolist()
    assert "rules" not in reply
    _, explained = server.json("POST", "/v1/rank", {**body, "explain": 1})
    assert explained["ranking"][0]["rules"] == []  # d0 is out of stock, so nothing is pinned
    assert explained["rules"]["removed"][0] == {"index": 0, "rule": "filter 1", "id": "d0"}
    assert explained["rules"]["conflicts"][0]["rule"] == "campaign"
    assert sorted(item["rank_by_score"] for item in explained["ranking"]) != [1, 2, 3]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"rules": {"pins": []}}, "schema"),
        ({"rules": {"pin": [{"where": "id == 'a'"}]}}, "schema"),
        ({"rules": {"pin": [{"where": "id ==", "position": 1}]}}, "schema"),
        ({"rules": 3}, "schema"),
        ({"rules": True}, "schema"),
        ({"rules": {"spread": [{"column": "colour"}]}}, "schema"),
        ({"rules": {"spread": [{"column": "embedding"}]}}, "schema"),
        ({"rules": {"spread": [{"column": "brand"}] * 65}}, "limit"),
        ({"rules": False, "context": {"search": "x"}}, "schema"),
        ({"rules": False, "time": 3}, "schema"),
    ],
)
def test_rules_that_cannot_be_followed_are_refused(server, changes, code):
    body = {"model": "shop", "items": items_with_columns(), **changes}
    status, reply = server.json("POST", "/v1/rank", body)
    assert (status, reply["error"]["code"]) == (422, code)
    assert reply["error"]["message"]


def test_repeated_keys_in_rules_are_refused(server):
    items = json.dumps(items_with_columns())
    rules = '{"pin": [{"where": "stock == 1", "position": 1, "position": 2}]}'
    body = f'{{"model": "shop", "items": {items}, "rules": {rules}}}'.encode()
    status, _, reply = server.request("POST", "/v1/rank", body)
    assert (status, json.loads(reply)["error"]["code"]) == (400, "json")


def test_rules_read_context_and_time(server):
    pin = {
        "where": "brand == 'y'",
        "position": 1,
        "query": "search == 'shoes'",
        "until": "2020-01-01",
    }
    body = {"model": "shop", "items": items_with_columns(), "rules": {"pin": [pin]}}
    context = {"search": "shoes"}
    orders = {}
    for time in ("2019-06-01", "2020-06-01"):
        _, reply = server.json("POST", "/v1/rank", {**body, "context": context, "time": time})
        orders[time] = [item["index"] for item in reply["ranking"]]
    assert orders["2020-06-01"] == Scorer(make_model(0)).rank(ROWS).indices.tolist()
    assert orders["2019-06-01"][0] % 3 == 1


def test_probabilities_are_those_of_the_library(start_calibrated):
    server, model = start_calibrated
    body = {"items": ITEMS, "probability": True}
    _, scored = server.json("POST", "/v1/score", body)
    assert scored["probabilities"] == Scorer(model).probability(ROWS).tolist()
    _, reply = server.json("POST", "/v1/rank", {**body, "k": 3})
    order = Scorer(model).rank(ROWS).indices
    positions = np.empty(len(ROWS), dtype=int)
    positions[order] = np.arange(1, len(ROWS) + 1)
    expected = Scorer(model).probability(ROWS, positions)[order[:3]]
    assert [item["probability"] for item in reply["ranking"]] == expected.tolist()


def test_probabilities_need_a_calibrated_model(server):
    for path in ("/v1/rank", "/v1/score"):
        body = {"model": "shop", "items": ITEMS, "probability": True}
        status, reply = server.json("POST", path, body)
        assert (status, reply["error"]["code"]) == (422, "model")
        assert "calibrate" in reply["error"]["fix"]
