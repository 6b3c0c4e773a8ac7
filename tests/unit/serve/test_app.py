"""The service without a socket: paths, methods, limits, counters; models by name."""

import base64
import hashlib
import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest

import rankine
from integration.serve.serve_tools import NAMES, log_model, make_model
from rankine import ModelBundle, Scorer
from rankine.serve.app import Service, check_json, openapi_document, page_reply
from rankine.serve.connection import ConnectionPool, Request
from rankine.serve.limits import Limits
from rankine.serve.metrics import Metrics, _resident_bytes
from rankine.serve.registry import Registry, ServedModel
from rankine.serve.schemas import RequestError
from rankine.serve.security import AccessPolicy

JSON = {b"host": b"localhost", b"content-type": b"application/json"}
ITEM = {"features": {NAMES[0]: 1.0}}


class RunningService:
    """A service without sockets, and its metrics."""

    def __init__(self, *models, access=None, strict=False, **limits):
        self.registry = Registry()
        for served in models:
            self.registry.put(served)
        self.pool = ConnectionPool(Limits(**limits), Metrics(), None)
        self.service = Service(
            self.registry, self.pool, access or AccessPolicy("127.0.0.1"), strict=strict
        )

    def ask(self, method, target, body=b"", on_event_loop=False, **fields):
        more = {name.replace("_", "-").encode(): value for name, value in fields.items()}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = Request(method, target, {**JSON, **more}, data, close=False)
        return self.service.handle(request, on_event_loop)

    def value(self, name, **labels):
        return self.pool.metrics.registry.get_sample_value(f"rankine_{name}", labels)


def shop(**more):
    return ServedModel("shop", make_model(0, **more))


def error(reply):
    return reply.status, json.loads(reply.body)["error"]


def test_paths_methods_and_hosts():
    service = RunningService(shop())
    for target in (b"/healthz", b"/healthz?x=%2f", b"/%68ealthz"):
        reply = service.ask(b"GET", target)
        assert (reply.status, reply.body, reply.content_type) == (
            200,
            b"ok\n",
            b"text/plain; charset=utf-8",
        )
    assert service.ask(b"GET", b"/v1/models/%73hop").status == 200
    for method, target, allow in (
        (b"POST", b"/healthz", b"GET, HEAD"),
        (b"GET", b"/v1/rank", b"POST"),
        (b"POST", b"/v1/models/shop", b"GET, HEAD"),
    ):
        reply = service.ask(method, target)
        assert (reply.status, reply.fields) == (405, ((b"allow", allow),))
    status, told = error(service.ask(b"GET", b"/v1/model"))
    assert (status, told["fix"]) == (404, "See /openapi.json")
    status, told = error(service.ask(b"GET", b"/", host=b"evil.example"))
    assert (status, told["fix"]) == (421, "Start it with --allow-host")
    nameless = Request(b"GET", b"/healthz", {}, b"", close=False)
    assert service.service.handle(nameless, False).status == 421
    assert service.ask(b"HEAD", b"/").body == page_reply().body


def test_private_paths_need_the_token():
    token = b"c2VjcmV0LXRva2VuLWZvci10ZXN0cw=="
    service = RunningService(shop(), access=AccessPolicy("127.0.0.1", token))
    assert service.ask(b"GET", b"/readyz").status == 200
    reply = service.ask(b"GET", b"/v1/models")
    assert (reply.status, reply.fields) == (401, ((b"www-authenticate", b"Bearer"),))
    good = b"bearer  " + token
    assert service.ask(b"GET", b"/v1/models", authorization=good).status == 200
    assert service.ask(b"GET", b"/v1/models", authorization=token).status == 401


def test_readyz_needs_models_and_no_stop():
    empty = RunningService()
    assert empty.ask(b"GET", b"/readyz")[:2] == (503, b"no model\n")
    service = RunningService(shop())
    assert service.ask(b"GET", b"/readyz")[:2] == (200, b"ready\n")
    service.pool.stopping = True
    assert service.ask(b"GET", b"/readyz")[:2] == (503, b"stopping\n")


@pytest.mark.parametrize(
    ("fields", "good"),
    [
        ({b"content-type": b"application/json"}, True),
        ({b"content-type": b"Application/JSON ; Charset=UTF-8"}, True),
        ({b"content-type": b'application/json; charset="utf-8"'}, True),
        ({b"content-type": b"application/json", b"content-encoding": b"Identity"}, True),
        ({b"content-type": b"application/json", b"content-encoding": b"gzip"}, False),
        ({b"content-type": b"application/json; charset=latin-1"}, False),
        ({b"content-type": b"text/json"}, False),
        ({b"content-type": b"text/plain; charset=utf-8"}, False),
        ({}, False),
    ],
)
def test_only_uncompressed_json_is_accepted(fields, good):
    if good:
        check_json(fields)
    else:
        with pytest.raises(RequestError) as caught:
            check_json(fields)
        assert caught.value.status == 415


def test_large_requests_and_explanations_leave_the_event_loop():
    body = json.dumps({"items": [ITEM]}).encode()
    service = RunningService(shop(), inline_bytes=len(body))
    for path in (b"/v1/rank", b"/v1/score"):
        assert service.ask(b"POST", path, body, on_event_loop=True).status == 200
        assert service.ask(b"POST", path, body + b" ", on_event_loop=True) is None
        assert service.ask(b"POST", path, body + b" ").status == 200
    for explain in (True, 0, 3):
        asked = {"items": [ITEM], "explain": explain}
        wide = RunningService(shop())
        assert wide.ask(b"POST", b"/v1/rank", asked, on_event_loop=True) is None
        assert wide.ask(b"POST", b"/v1/rank", asked).status == 200
    asked = {"items": [ITEM], "explain": False}
    assert wide.ask(b"POST", b"/v1/rank", asked, on_event_loop=True).status == 200
    assert wide.value("http_requests_total", path="/v1/rank", status="200") == 2


def test_explained_items_have_a_limit_of_their_own():
    service = RunningService(shop(), explained=3)
    for sizes, k, status in (([3], None, 200), ([4], None, 422), ([4], 3, 200), ([2, 2], None, 422),
                             ([2, 1], None, 200), ([9, 9], 1, 200)):  # fmt: skip
        asked = {"lists": [{"items": [ITEM] * size} for size in sizes], "explain": 1}
        asked |= {} if k is None else {"k": k}
        reply = service.ask(b"POST", b"/v1/rank", asked)
        assert reply.status == status, (sizes, k)
    del asked["explain"]
    assert service.ask(b"POST", b"/v1/rank", asked).status == 200
    assert json.loads(service.ask(b"POST", b"/v1/rank", {"items": [ITEM] * 9}).body)["ranking"]
    status, told = error(service.ask(b"POST", b"/v1/rank", {"items": [ITEM] * 4, "explain": True}))
    assert (status, told["code"]) == (422, "limit")


def test_a_batch_is_answered_list_by_list():
    service = RunningService(shop(), ServedModel("log", log_model()))
    items = [ITEM, {"features": {NAMES[1]: 2.0}, "id": "b"}]
    lists = [{"items": [], "id": "none"}, {"items": items, "id": 7}, {"items": items[:1]}]
    scores = Scorer(make_model(0)).score([item["features"] for item in items]).tolist()
    asked = {"model": "shop", "lists": lists}
    found = json.loads(service.ask(b"POST", b"/v1/score", asked).body)
    assert found["lists"] == [
        {"scores": [], "id": "none"}, {"scores": scores, "id": 7}, {"scores": scores[:1]},
    ]  # fmt: skip
    assert "scores" not in found
    ranked = json.loads(service.ask(b"POST", b"/v1/rank", asked).body)["lists"]
    best = sorted((0, 1), key=lambda i: -scores[i])
    assert [[one["index"] for one in each["ranking"]] for each in ranked] == [[], best, [0]]
    assert [one.get("id") for one in ranked[1]["ranking"]] == [[None, "b"][i] for i in best]
    wrong = {"model": "shop", "lists": [*lists, {"items": [{"features": {"x": 1}}]}]}
    status, told = error(service.ask(b"POST", b"/v1/score", wrong))
    assert status == 422
    assert told["message"].startswith("list 3: ")
    raw = {"price": 2.0, "brand": "a", "colour": 1}
    shared = {"model": "log", "items": [{"raw": raw}, {"raw": {}}], "context": {"shop": "north"}}
    found = json.loads(service.ask(b"POST", b"/v1/score", shared).body)
    rows = [{"shop": "north", **raw}, {"shop": "north"}]
    assert found["scores"] == Scorer(log_model(), unknown="zero").score(rows).tolist()
    assert found["unknown_columns"] == {"colour": 1}
    assert service.value("unknown_columns_total") == 1
    lacking = sum(found["missing_columns"].values())
    assert service.value("missing_columns_total") == lacking > 0
    strict = RunningService(ServedModel("log", log_model()), strict=True)
    assert strict.ask(b"POST", b"/v1/score", shared).status == 422
    assert service.ask(b"POST", b"/v1/score", {**shared, "unknown": "error"}).status == 422


def test_an_explanation_has_ten_terms_by_default():
    service = RunningService(shop())
    rows = [dict(zip(NAMES, np.random.default_rng(k).normal(size=20), strict=True)) for k in (1, 2)]
    items = [{"features": {name: float(x) for name, x in row.items()}} for row in rows]
    for explain, shown in ((True, 10), (0, 0), (1, 1), (1000, 20)):
        reply = service.ask(b"POST", b"/v1/rank", {"items": items, "explain": explain})
        first, second = json.loads(reply.body)["ranking"]
        for why in (first["explanation"], first["lead"], second["explanation"]):
            assert len(why["contributions"]) == shown
            assert why["rest_count"] == 20 - shown
            terms = sum(term["contribution"] for term in why["contributions"])
            assert terms + why["rest"] == pytest.approx(why["total"], abs=1e-12)
        assert "lead" not in second
        assert all("where" not in term for term in first["explanation"]["contributions"])
        assert all("other" not in term for term in first["explanation"]["contributions"])
        assert all("other" in term for term in first["lead"]["contributions"])


def test_a_lead_is_that_over_the_next_item():
    asked = {"items": [{"features": {NAMES[0]: x}} for x in (1.0, 5.0, 2.0, -4.0)], "explain": 1}
    ranking = json.loads(RunningService(shop()).ask(b"POST", b"/v1/rank", asked).body)["ranking"]
    assert len({one["index"] for one in ranking}) == 4
    for one, below in itertools.pairwise(ranking):
        assert one["lead"]["total"] == pytest.approx(one["score"] - below["score"])
    assert "lead" not in ranking[-1]


def test_replies_items_and_unknown_columns_are_counted():
    service = RunningService(shop())
    asked = {"items": [ITEM, {"features": {"x": 1.0, "y": 2.0}}], "unknown": "zero"}
    service.ask(b"POST", b"/v1/score", asked)
    service.ask(b"POST", b"/v1/score", {**asked, "unknown": "error"})
    service.ask(b"POST", b"/v1/rank", {"items": [ITEM] * 3})
    service.ask(b"POST", b"/v1/rank", b"{")
    for name in (b"/v1/models", b"/v1/models/shop", b"/v1/models/none"):
        service.ask(b"GET", name)
    assert service.value("items_scored_total") == 5
    assert service.value("unknown_features_total") == 2
    assert service.value("unknown_columns_total") == 0
    assert service.value("scoring_seconds_count") == 4
    assert 0 < service.value("scoring_seconds_sum") < 60
    for path, status, count in (("/v1/score", 200, 1), ("/v1/score", 422, 1), ("/v1/rank", 200, 1),
                                ("/v1/rank", 400, 1), ("/v1/models", 200, 2),
                                ("/v1/models", 404, 1)):  # fmt: skip
        assert service.value("http_requests_total", path=path, status=str(status)) == count
    service.pool.large.queued, service.pool.buffered = 3, 70
    service.pool.connections = {1, 2}
    assert service.value("queue_length") == 3
    assert service.value("buffered_bytes") == 70
    assert service.value("connections") == 2
    service.registry.report("shop", "cut")
    service.registry.report("other", "empty")
    assert (
        service.value("model_error", model="shop")
        == service.value("model_error", model="other")
        == 1
    )
    digest = make_model(0).digest
    assert service.value("model_info", model="shop", kind="linear", digest=digest) == 1
    service.registry.report("shop", None)
    assert service.value("model_error", model="shop") == 0
    assert service.value("build_info", version=rankine.__version__) == 1
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    told = next(line.split() for line in lines if line.startswith("VmRSS"))
    resident = _resident_bytes()
    assert resident == pytest.approx(1024 * int(told[1]), rel=0.1)
    assert resident == pytest.approx(service.value("resident_memory_bytes"), rel=0.1)


def test_models_are_listed_with_their_errors():
    service = RunningService(
        shop(), ServedModel("topics", ModelBundle.from_weights({"t": [1.0], "u": [2.0]}))
    )
    service.registry.report("shop", "the new file is cut")
    service.registry.report("absent", "no such thing")
    reply = json.loads(service.ask(b"GET", b"/v1/models").body)
    assert [(one["name"], one["kind"], one["error"]) for one in reply["models"]] == [
        ("absent", "none", "no such thing"),
        ("shop", "linear", "the new file is cut"),
        ("topics", "bundle", None),
    ]
    assert reply["default"] is None
    assert (
        json.loads(service.ask(b"GET", b"/v1/models/shop").body)["error"] == "the new file is cut"
    )
    assert json.loads(service.ask(b"GET", b"/v1/models/topics").body)["topics_count"] == 2
    for name, reason in ((b"none", "no model of this name"), (b"topics/x", "no such topic"),
                         (b"shop/x", "is one model"), (b"absent", "no model")):  # fmt: skip
        reply = service.ask(b"GET", b"/v1/models/" + name)
        status, told = error(reply)
        assert (status, reply.content_type) == (404, b"application/json")
        assert reason in told["message"]
    service.registry.drop("topics")
    assert json.loads(service.ask(b"GET", b"/v1/models").body)["default"] == "shop"
    service.registry.drop("shop")
    assert json.loads(service.ask(b"GET", b"/v1/models").body)["default"] is None
    service.registry.drop("absent")
    assert service.registry.current.errors == {}


def test_the_page_runs_nothing_but_its_own_script():
    reply = page_reply()
    text, fields = reply.body.decode(), dict(reply.fields)
    rules = fields[b"content-security-policy"].decode().split("; ")
    for kind in ("style", "script"):
        (block,) = re.findall(rf"<{kind}>(.*?)</{kind}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(block.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in rules
    assert rules[0] == "default-src 'none'"
    assert "connect-src 'self'" in rules


def test_the_document_names_every_reply():
    document = json.loads(openapi_document())
    rank = document["paths"]["/v1/rank"]["post"]
    assert set(rank["responses"]) == {"200", "400", "401", "403", "404", "413", "415", "422", "503"}
    schema = rank["responses"]["422"]["content"]["application/json"]["schema"]
    assert schema["$ref"].endswith("/ErrorReply")
    ready = document["paths"]["/readyz"]["get"]["responses"]
    assert set(ready["503"]["content"]) == set(ready["200"]["content"]) == {"text/plain"}
    topic = document["paths"]["/v1/models/{name}/{topic}"]["get"]
    assert [one["name"] for one in topic["parameters"]] == ["name", "topic"]
    assert set(topic["responses"]) == {"200", "401", "403", "404"}


def test_unknown_names_are_refused_unless_raw_columns_are_read():
    service = RunningService(shop(), ServedModel("log", log_model()))
    for model, form, status in (
        ("log", "features", 422),
        ("log", "raw", 200),
        ("shop", "features", 422),
        ("shop", "raw", 422),
    ):
        asked = {"model": model, "items": [{form: {"colour": 1.0}}]}
        assert service.ask(b"POST", b"/v1/score", asked).status == status, (model, form)
