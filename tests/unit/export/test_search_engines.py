"""Export to Elasticsearch, OpenSearch and Solr LTR, and a server that plays the engines."""

from __future__ import annotations

import json
import sqlite3
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from contracts import export_readers as readers
from rankine.core.errors import ExportError, ParameterError
from rankine.core.specs import (
    Binned,
    Bins,
    LogColumns,
    OneHot,
)
from rankine.evaluation.engine_logs import join_logged
from rankine.export import ExportOptions, export
from rankine.model import LinearModel


@readers.reads("elasticsearch", "opensearch")
def read_ltr(export, names, X, n_features, indices):
    body = json.loads(export.content)
    assert set(body) == {"model"}
    assert set(body["model"]) == {"name", "model"}
    inner = body["model"]["model"]
    assert set(inner) == {"type", "definition"}
    assert inner["type"] == "model/linear"
    assert isinstance(inner["definition"], str)
    weights = json.loads(inner["definition"])
    assert all(isinstance(value, (int, float)) and value != 0 for value in weights.values())
    return readers.float32_sum(weights, names, X)


@readers.reads("solr")
def read_solr(export, names, X, n_features, indices):
    body = json.loads(export.content)
    assert set(body) == {"store", "name", "class", "features", "params"}
    assert body["class"] == "org.apache.solr.ltr.model.LinearModel"
    weights = body["params"]["weights"]
    assert [feature["name"] for feature in body["features"]] == list(weights)
    assert all(set(feature) == {"name"} for feature in body["features"])
    return readers.float32_sum(weights, names, X)


@readers.reads_trees("elasticsearch", "opensearch")
def read_ltr_trees(content):
    body = json.loads(content)["model"]["model"]
    assert body["type"] == "model/xgboost+json"

    def ask(node):
        if "leaf" in node:
            return node["leaf"]
        left, right = node["children"]
        assert [node["yes"], node["no"], node["missing"]] == [
            left["nodeid"], right["nodeid"], right["nodeid"],
        ]  # fmt: skip
        return node["split"], readers.present_and_below(node["split_condition"]), left, right

    return readers.read_trees(json.loads(body["definition"]), ask)


@readers.reads_trees("solr")
def read_solr_trees(content):
    body = json.loads(content)
    assert body["class"].endswith("MultipleAdditiveTreesModel")

    def ask(node):
        if "value" in node:
            return float(node["value"])
        assert node["missing"] == "left"
        return (
            node["feature"],
            readers.at_most(np.float32(node["threshold"]) + np.float32(1e-6)),  # Solr's slack
            node["left"],
            node["right"],
        )

    return readers.read_trees([tree["root"] for tree in body["params"]["trees"]], ask)


def test_solr_reads_the_store_that_is_named():
    model = LinearModel.from_weights([1.0], ["a"])
    assert json.loads(export(model, "solr").content)["store"] == "_DEFAULT_"
    for options in (ExportOptions(store="x"), ExportOptions(feature_set="x", store="y")):
        made = export(model, "solr", options)
        assert json.loads(made.content)["store"] == "x"
        assert bool(made.extra_files) == (options.feature_set is not None)
    (feature,) = json.loads(made.extra_files[".featureset.json"])
    assert feature["params"] == {"q": "{!func}0"}


@pytest.mark.parametrize("cut", [0.0, 1.0, -1.0, 0.05, 1e-7, -1e-7, 2.5e-6, 123.456, -7e8, 1e30])
def test_thresholds_of_solr_are_just_below_the_cut(cut):
    spec = Bins(((cut,),), names=("a",))
    model = LinearModel.from_weights([1.0, 2.0, 4.0], transforms=[spec])
    score = read_solr_trees(export(model, "solr").content)
    below = cut - 2.5e-7 * abs(cut) - 3e-13
    assert score([{"a": x} for x in (cut, below, None, -3e38)]).tolist() == [2.0, 1.0, 4.0, 1.0]


@pytest.mark.parametrize("cut", [1e-12, -4e-21])
def test_cuts_that_solr_does_not_resolve_are_refused(cut):
    model = LinearModel.from_weights([1.0, 2.0, 4.0], transforms=[Bins(((cut,),), names=("a",))])
    with pytest.raises(ExportError):
        export(model, "solr")


def test_columns_of_raw_tables_are_fields():
    spec = LogColumns(numeric=("price", "age"), tables=True)
    bins = Bins(((1.0,), (2.0,)), names=spec.columns)
    model = LinearModel.from_weights([1.0, 2.0, 4.0, 1.0, 0.0, 0.5], transforms=[spec, bins])
    made = export(model, "solr", ExportOptions(feature_set="x"))
    for feature in json.loads(made.extra_files[".featureset.json"]):
        assert feature["class"].endswith("FieldValueFeature")
        assert feature["params"] == {"field": feature["name"], "defaultValue": "NaN"}
    made = export(model, "elasticsearch", ExportOptions(feature_set="x"))
    features = json.loads(made.extra_files[".featureset.json"])["featureset"]["features"]
    assert [feature["name"] for feature in features] == ["price", "age"]


SPEC = LogColumns(
    numeric=("price",),
    one_hot=(OneHot("brand", ("acme", "it's", "9")),),
    binned=(Binned("age", (1.0, 2.5)),),
)


WEIGHTS = [-0.5, 1.0, 0.25, 2.0, 0.75, -1.0, 0.5, 0.125]


PLAIN = LinearModel.from_weights(WEIGHTS, weight_names=SPEC.names, transforms=[SPEC])


def test_engines_ask_the_fields_of_the_columns():
    options = ExportOptions(feature_set="shop")
    values = ("acme", "it's", "9")
    below, inside, above = "age < 1", "1 <= age < 2.5", "age >= 2.5"
    for target in ("elasticsearch", "opensearch"):
        made = export(PLAIN, target, options)
        held = json.loads(made.extra_files[".featureset.json"])["featureset"]
        assert held["name"] == "shop"
        asked = {one["name"]: one["template"] for one in held["features"]}
        number = {"query": {"exists": {"field": "price"}}, "field_value_factor": {"field": "price"}}
        assert asked.pop("price") == {"function_score": number}
        filters = {name: held["constant_score"]["filter"] for name, held in asked.items()}
        assert filters == {
            **{f"brand={value}": {"term": {"brand": value}} for value in values},
            below: {"range": {"age": {"lt": 1.0}}},
            inside: {"range": {"age": {"gte": 1.0, "lt": 2.5}}},
            above: {"range": {"age": {"gte": 2.5}}},
            "age missing": {"bool": {"must_not": {"exists": {"field": "age"}}}},
        }
        search = json.loads(made.extra_files[".query.json"])
        assert search["rescore"]["window_size"] == 100
        assert export(PLAIN, target).extra_files == {}
    solr = json.loads(export(PLAIN, "solr", options).extra_files[".featureset.json"])
    asked = {one["name"]: one["params"] for one in solr}
    assert asked == {
        "price": {"field": "price"},
        **{f"brand={value}": {"fq": [f"{{!term f=brand}}{value}"]} for value in values},
        below: {"fq": ["age:[* TO 1.0}"]},
        inside: {"fq": ["age:[1.0 TO 2.5}"]},
        above: {"fq": ["age:[2.5 TO *]"]},
        "age missing": {"fq": ["*:* -age:[* TO *]"]},
    }
    vespa = export(PLAIN, "vespa").content.decode()
    age = "attribute(age)"
    for term in (
        '1.0 * if(attribute(brand) == "acme", 1, 0)',
        "-0.5 * attribute(price)",
        f"+ 0.75 * if({age} < 1.0, 1, 0)",
        f"- 1.0 * if({age} >= 1.0, 1, 0) * if({age} < 2.5, 1, 0)",
        f"+ 0.5 * if({age} >= 2.5, 1, 0)",
        f"+ 0.125 * isNan({age})",
    ):
        assert f"{term}\n" in vespa


def fill(template):
    """Fill a Mustache template without values: tags vanish, and may set new delimiters."""
    start, end, filled = "{{", "}}", ""
    while start in template:
        text, _, rest = template.partition(start)
        tag, _, template = rest.partition(end)
        filled += text
        if tag.startswith("="):
            start, end = tag.strip("=").split()
    return filled + template


def test_braces_in_texts_are_no_tags_of_a_template():
    assert fill("a{{x}}b") == "ab"
    column, value = "{{brand", "{{{x}}}{{{{#y}}"
    spec = LogColumns(one_hot=(OneHot(column, (value, "{z}")),))
    model = LinearModel.from_weights([1.0, 2.0], weight_names=spec.names, transforms=[spec])
    filters = [{"term": {column: text}} for text in (value, "{z}")]
    for target in ("elasticsearch", "opensearch"):
        made = export(model, target, ExportOptions(feature_set="shop"))
        features = json.loads(made.extra_files[".featureset.json"])["featureset"]["features"]
        asked = [json.loads(fill(json.dumps(one["template"]))) for one in features]
        assert [query["constant_score"]["filter"] for query in asked] == filters
    body = json.loads(export(model, "eland").content)
    extractors = body["inference_config"]["learning_to_rank"]["feature_extractors"]
    asked = [json.loads(fill(json.dumps(one["query_extractor"]["query"]))) for one in extractors]
    assert [query["constant_score"]["filter"] for query in asked] == filters


def test_a_column_without_cuts_is_there_or_missing():
    spec = LogColumns(binned=(Binned("age", ()),))
    model = LinearModel.from_weights([2.0, 3.0], weight_names=spec.names, transforms=[spec])
    assert "2.0 * (1 - isNan(attribute(age)))\n" in export(model, "vespa").content.decode()
    made = export(model, "elasticsearch", ExportOptions(feature_set="s"))
    features = json.loads(made.extra_files[".featureset.json"])["featureset"]["features"]
    assert features[0]["template"]["constant_score"]["filter"] == {"exists": {"field": "age"}}
    text = export(model, "sql").content.decode()
    with sqlite3.connect(":memory:") as base:
        base.execute("CREATE TABLE t (age REAL)")
        base.executemany("INSERT INTO t VALUES (?)", [(None,), (5.0,)])
        found = [score for (score,) in base.execute(f"SELECT {text} FROM t")]  # noqa: S608
    assert found == [3.0, 2.0]


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
