"""The whole circle against a small server that plays the engine: features, model, rescored search.

The server checks each request against the engine's documented schema, and answers with the logged
features that training reads back.
"""

import json
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from rankine import LinearModel
from rankine.core.errors import ParameterError
from rankine.evaluation.engine_logs import join_logged
from rankine.export import ExportOptions, export

NAMES = ["title", "body", "age"]
DOCS = {str(i): row for i, row in enumerate(np.random.default_rng(0).random((6, 3)).tolist())}


class Engine(BaseHTTPRequestHandler):
    """Stores feature sets and models; scores documents as the plug-ins do, in float32."""

    sets: dict
    models: dict

    def log_message(self, *_):
        pass

    def handle_body(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            reply, status = self.answer(self.path.strip("/").split("/"), body), 200
        except (KeyError, ValueError, AssertionError) as error:
            reply, status = {"error": repr(error)}, 400
        text = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_PUT = do_POST = handle_body  # noqa: N815 - names of the standard library

    def answer(self, path, body):
        if path[:2] == ["_ltr", "_featureset"] and len(path) == 3:
            inner = body["featureset"]
            assert inner["name"] == path[2]
            for feature in inner["features"]:
                assert set(feature) == {"name", "params", "template_language", "template"}
            self.sets[path[2]] = [feature["name"] for feature in inner["features"]]
            return {"result": "created"}
        if path[:2] == ["_ltr", "_featureset"] and path[3:] == ["_createmodel"]:
            model = body["model"]
            assert model["model"]["type"] == "model/linear"
            weights = json.loads(model["model"]["definition"])  # text, not an object
            assert set(weights) <= set(self.sets[path[2]])
            self.models[model["name"]] = weights
            return {"result": "created"}
        if path[-1] == "_search":
            sltr = body["rescore"]["query"]["rescore_query"]["sltr"]
            return self.hits(self.models[sltr["model"]])
        if path[-1] == "feature-store":
            for feature in body:
                assert set(feature) == {"store", "name", "class", "params"}
                self.sets.setdefault(feature["store"], []).append(feature["name"])
            return {"responseHeader": {"status": 0}}
        if path[-1] == "model-store":
            assert body["class"] == "org.apache.solr.ltr.model.LinearModel"
            listed = [feature["name"] for feature in body["features"]]
            assert set(listed) == set(body["params"]["weights"]) <= set(self.sets[body["store"]])
            self.models[body["name"]] = body["params"]["weights"]
            return {"responseHeader": {"status": 0}}
        assert path[-1] == "select"
        name = body["params"]["rq"].removeprefix("{!ltr model=").split()[0]
        return self.docs(self.models[name])

    @staticmethod
    def scored(weights):
        w = np.array([weights.get(name, 0.0) for name in NAMES], dtype=np.float32)
        return sorted(
            ((float(np.float32(row) @ w), doc) for doc, row in DOCS.items()), reverse=True
        )

    def hits(self, weights):
        found = [
            {"_id": doc, "_score": score, "fields": {"_ltrlog": [{"log": [
                {"name": name, "value": x} for name, x in zip(NAMES, DOCS[doc], strict=True)]}]}}
            for score, doc in self.scored(weights)
        ]  # fmt: skip
        return {"timed_out": False, "hits": {"hits": found}}

    def docs(self, weights):
        found = []
        for score, doc in self.scored(weights):
            text = ",".join(f"{n}={x}" for n, x in zip(NAMES, DOCS[doc], strict=True))
            found.append({"id": doc, "score": score, "[features]": text})
        return {"response": {"docs": found}}


@pytest.fixture
def engine():
    kind = type("Played", (Engine,), {"sets": {}, "models": {}})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def send(method, url, body):
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method=method)  # noqa: S310
    with urllib.request.urlopen(request) as reply:  # noqa: S310 - our own server
        return json.loads(reply.read())


MODEL = LinearModel.from_weights([0.75, 0.0, -0.5], NAMES)


@pytest.mark.parametrize("to", ["elasticsearch", "opensearch", "solr"])
def test_features_model_and_search_go_round(engine, to, tmp_path):
    found = export(MODEL, to, ExportOptions(feature_set="products"))
    files = {"model": found.content, **found.extra_files}
    if to == "solr":
        send("PUT", f"{engine}/solr/c/schema/feature-store", files[".featureset.json"])
        send("PUT", f"{engine}/solr/c/schema/model-store", files["model"])
        answer = send("POST", f"{engine}/solr/c/select", files[".query.json"])
        order = [(doc["id"], doc["score"]) for doc in answer["response"]["docs"]]
    else:
        send("PUT", f"{engine}/_ltr/_featureset/products", files[".featureset.json"])
        send("POST", f"{engine}/_ltr/_featureset/products/_createmodel", files["model"])
        answer = send("POST", f"{engine}/i/_search", files[".query.json"])
        order = [(hit["_id"], hit["_score"]) for hit in answer["hits"]["hits"]]
    wanted = {doc: np.dot(row, MODEL.to_dense()) for doc, row in DOCS.items()}
    assert [doc for doc, _ in order] == sorted(wanted, key=lambda doc: -wanted[doc])
    np.testing.assert_allclose([s for _, s in order], [wanted[d] for d, _ in order], rtol=1e-6)
    # and back: what the engine logged is what training reads
    (tmp_path / "log.jsonl").write_text(json.dumps({"qid": "q", "response": answer}))
    (tmp_path / "j.csv").write_text("query,document,grade\n" + "".join(f"q,{d},1\n" for d in DOCS))
    data = join_logged(tmp_path / "log.jsonl", tmp_path / "j.csv").data
    assert dict(zip(data.docid.tolist(), data.X.tolist(), strict=True)) == DOCS


def test_the_engine_refuses_what_its_schema_does_not_know(engine):
    with pytest.raises(urllib.error.HTTPError):
        send(
            "POST",
            f"{engine}/_ltr/_featureset/none/_createmodel",
            export(MODEL, "elasticsearch").content,
        )


def test_a_feature_set_belongs_to_engines_that_have_one():
    with pytest.raises(ParameterError) as caught:
        export(MODEL, "vespa", ExportOptions(feature_set="products"))
    assert caught.value.parameter == "feature_set"
