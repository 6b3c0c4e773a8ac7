"""Models of raw columns leave the house where a target can say what their columns mean."""

from __future__ import annotations

import json
import sqlite3

import numpy as np
import pytest

from rankine import LinearModel, Scorer
from rankine.core.errors import ExportError
from rankine.core.specs import Binned, ListRange, LogColumns, OneHot
from rankine.export import ExportOptions, export
from rankine.export.registry import targets

SPEC = LogColumns(
    numeric=("price",),
    one_hot=(OneHot("brand", ("acme", "it's", "9")),),
    binned=(Binned("age", (1.0, 2.5)),),
)
WEIGHTS = [-0.5, 1.0, 0.25, 2.0, 0.75, -1.0, 0.5, 0.125]
PLAIN = LinearModel.from_weights(WEIGHTS, weight_names=SPEC.names, transforms=[SPEC])
SCALED = LinearModel.from_weights(
    WEIGHTS,
    weight_names=SPEC.names,
    transforms=[SPEC, ListRange()],
    parameters={"log": {"query": "list"}},
)
ROWS = [
    {"price": 3.0, "brand": "acme", "age": 0.5},
    {"price": None, "brand": "it's", "age": 1.0},
    {"price": 7.5, "brand": "9", "age": 2.5},
    {"price": 0.0, "brand": None, "age": None},
    {"price": 4.0, "brand": "new", "age": 2.0},
]


def expected(model):
    rows = [dict(row) for row in ROWS]
    return Scorer(model).score(rows, group=[3, 2])


@pytest.mark.parametrize("model", [PLAIN, SCALED], ids=["plain", "scaled"])
def test_sql_scores_raw_rows(model):
    text = export(model, "sql").content.decode()
    with sqlite3.connect(":memory:") as base:
        base.execute("CREATE TABLE t (k INTEGER, list TEXT, price REAL, brand TEXT, age REAL)")
        for k, row in enumerate(ROWS):
            base.execute("INSERT INTO t VALUES (?, ?, ?, ?, ?)", (k, "ab"[k > 2], *row.values()))
        found = [s for _, s in base.execute(f"SELECT k, {text} FROM t ORDER BY k")]  # noqa: S608
        best = [k for (k,) in base.execute(f"SELECT k FROM t ORDER BY {text} DESC, k")]  # noqa: S608
    np.testing.assert_allclose(found, expected(model), rtol=1e-12)
    assert best == np.argsort(-expected(model), kind="stable").tolist()


@pytest.mark.parametrize("model", [PLAIN, SCALED], ids=["plain", "scaled"])
def test_a_python_file_scores_raw_rows(model):
    room: dict[str, object] = {}
    exec(export(model, "python").content, room)  # noqa: S102
    found = [*room["scores"](ROWS[:3]), *room["scores"](ROWS[3:])]
    np.testing.assert_allclose(found, expected(model), rtol=1e-12)


def test_sql_scales_features_within_the_named_list():
    model = LinearModel.from_weights([1.0, -2.0], ["a", "b"], transforms=[ListRange()])
    assert "OVER ()" in export(model, "sql").content.decode()
    text = export(model, "sql", ExportOptions(query="qid")).content.decode()
    assert 'OVER (PARTITION BY "qid")' in text


def test_engines_ask_the_fields_of_the_columns():
    options = ExportOptions(feature_set="shop")
    for target in ("elasticsearch", "opensearch"):
        made = export(PLAIN, target, options)
        features = json.loads(made.beside[".featureset.json"])["featureset"]["features"]
        asked = {one["name"]: json.dumps(one["template"]) for one in features}
        assert '"term": {"brand": "acme"}' in asked["brand=acme"]
        assert '"range": {"age": {"gte": 1.0, "lt": 2.5}}' in asked["1 <= age < 2.5"]
        assert "field_value_factor" in asked["price"]
        assert "must_not" in asked["age missing"]
    solr = json.loads(export(PLAIN, "solr", options).beside[".featureset.json"])
    asked = {one["name"]: one["params"] for one in solr}
    assert asked["price"] == {"field": "price"}
    assert asked["brand=it's"] == {"fq": ["{!term f=brand}it's"]}
    assert asked["1 <= age < 2.5"] == {"fq": ["age:[1.0 TO 2.5}"]}
    vespa = export(PLAIN, "vespa").content.decode()
    assert '* if(attribute(brand) == "acme", 1, 0)' in vespa
    assert "* attribute(price)" in vespa
    assert "isNan(attribute(age))" in vespa


@pytest.mark.parametrize("target", sorted(set(targets()) - {"json", "onnx", "xgboost"}))
def test_hashed_columns_are_refused_by_name(target):
    spec = LogColumns(numeric=("price",), hashed=("brand",), hash_bits=2)
    model = LinearModel.from_weights(
        [1, 0, 0, 1, 0], weight_names=["price", "brand=a"], transforms=[spec, ListRange()]
    )
    with pytest.raises(ExportError, match=r"'brand'.*--one-hot"):
        export(model, target)
