"""Models of raw columns leave the house where a target can say what their columns mean."""

from __future__ import annotations

import json
import sqlite3
from types import SimpleNamespace

import numpy as np
import pytest

from rankine import LinearModel, Scorer
from rankine.core.errors import ExportError
from rankine.core.specs import (
    Binned,
    ListRange,
    LogColumns,
    MissingValues,
    OneHot,
    RunScores,
)
from rankine.export import ExportOptions, export
from rankine.export.features import require_features
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
    values = ("acme", "it's", "9")
    below, inside, above = "age < 1", "1 <= age < 2.5", "age >= 2.5"
    for target in ("elasticsearch", "opensearch"):
        made = export(PLAIN, target, options)
        held = json.loads(made.extra_files[".featureset.json"])["featureset"]
        assert held["name"] == "shop"
        asked = {one["name"]: one["template"] for one in held["features"]}
        number = {"field_value_factor": {"field": "price", "missing": 0}}
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


def test_what_a_target_cannot_read_is_refused():
    for target in ("onnx", "xgboost"):
        with pytest.raises(ExportError, match="cannot run the transform LogColumns"):
            export(PLAIN, target)
    odd = LogColumns(numeric=("unit price",))
    model = LinearModel.from_weights([1.0], weight_names=odd.names, transforms=[odd])
    with pytest.raises(ExportError, match="cannot be the name of a Vespa attribute"):
        export(model, "vespa")
    for specs in ((SPEC, RunScores()), (MissingValues("zero"), RunScores()), (RunScores(),)):
        with pytest.raises(ExportError, match="cannot normalise"):
            require_features(SimpleNamespace(transforms=specs), "It", raw=True)
    require_features(SimpleNamespace(transforms=(MissingValues("zero"), ListRange())), "It")


def test_sql_names_the_list_and_says_how_to_use_it():
    assert "each list separately" in export(SCALED, "sql").remark
    assert export(PLAIN, "sql").remark == ""
    assert 'PARTITION BY "list"' in export(SCALED, "sql").content.decode()
    named = export(SCALED, "sql", ExportOptions(query="other")).content.decode()
    assert 'PARTITION BY "other"' in named
    whole = LinearModel.from_weights([1.0, -2.0], ["a", "b"], transforms=[ListRange()])
    assert "all rows as one list" in export(whole, "sql").remark
    with pytest.raises(ExportError, match="name of a column"):
        export(whole, "sql", ExportOptions(query="a\x00b"))
    assert f": {len(WEIGHTS)} terms;" in export(PLAIN, "sql").content.decode()


@pytest.mark.parametrize("rule", ["mean", "indicator"])
def test_missing_numbers_of_raw_columns(rule):
    """SQL says what stands for them; a Python file of raw columns refuses."""
    filled = MissingValues(rule, (0,), (2.5,))
    spec = LogColumns(numeric=("price", "size"))
    model = LinearModel.from_weights(
        [2.0, 10.0], weight_names=spec.names, transforms=[filled, spec]
    )
    text = export(model, "sql").content.decode()
    with sqlite3.connect(":memory:") as base:
        base.execute("CREATE TABLE t (price REAL, size REAL)")
        base.executemany("INSERT INTO t VALUES (?, ?)", [(None, None), (1.0, 1.0)])
        found = [score for (score,) in base.execute(f"SELECT {text} FROM t")]  # noqa: S608
    assert found == [5.0 if rule == "mean" else 2.5, 12.0]
    with pytest.raises(ExportError, match=f"missing='{rule}'"):
        export(model, "python")


@pytest.mark.parametrize("named", [True, False])
def test_missing_numbers_of_a_python_file(named):
    filled = MissingValues("mean", (1,), (2.5,))
    model = LinearModel.from_weights(
        [2.0, 10.0], ["a", "b"] if named else None, transforms=[filled]
    )
    room = {}
    exec(export(model, "python").content, room)  # noqa: S102
    a, b = ("a", "b") if named else ("1", "2")
    found = room["scores"]([{a: 1.0, b: None}, {a: float("nan"), b: 1.0}, {b: 3.0}, {}])
    assert found == [27.0, 10.0, 30.0, 0.0]
    assert room["rank"]([{a: 1.0}, {a: 3.0}, {a: 1.0}], 2) == [1, 0]


@pytest.mark.parametrize("target", sorted(set(targets()) - {"json", "onnx", "xgboost"}))
def test_hashed_columns_are_refused_by_name(target):
    spec = LogColumns(numeric=("price",), hashed=("brand",), hash_bits=2)
    for weights in ([1, 0, 0, 1, 0], [1, 1, 0, 0, 0]):
        model = LinearModel.from_weights(
            weights, weight_names=["price", "brand=a"], transforms=[spec, ListRange()]
        )
        with pytest.raises(ExportError, match=r"'brand'.*--one-hot"):
            export(model, target)
