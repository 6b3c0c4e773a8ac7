"""Export to SQL, run by SQLite, DuckDB and PostgreSQL."""

from __future__ import annotations

import math
import sqlite3
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from contracts import export_readers as readers
from contracts.export_readers import postgres  # noqa: F401 - a fixture
from rankine.core.errors import ExportError
from rankine.core.specs import (
    Binned,
    Bins,
    GridAxis,
    Grids,
    ListRange,
    LogColumns,
    MissingValues,
    OneHot,
    OutcomeCalibration,
)
from rankine.export import ExportOptions, export
from rankine.export.sql import _literal
from rankine.model import LinearModel
from rankine.scoring import Scorer


def sql_script(export, names, X):
    """A table of the rows, its creation, and the query that ranks it."""
    columns = ", ".join(f"{readers.quoted(name)} double precision" for name in names)
    values = ", ".join(
        "(" + ", ".join([str(i), *("NULL" if x == 0 else repr(x) for x in row)]) + ")"
        for i, row in enumerate(X.tolist())
    )
    expression = export.content.decode()
    return (
        f"CREATE TABLE t (id integer, {columns})",
        f"INSERT INTO t VALUES {values}",  # noqa: S608 - our own rows
        f"SELECT id, \n{expression} AS score FROM t ORDER BY \n{expression} DESC, id",  # noqa: S608
    )


@readers.reads("sql")
def read_sql(result, names, X, n_features, indices):
    create, insert, query = sql_script(result, names, X)
    with sqlite3.connect(":memory:") as database:
        database.execute(create)
        database.execute(insert)
        return ordered(database.execute(query).fetchall(), X)


def ordered(rows, X):
    """Scores in row order; the engine's own order must agree with them."""
    scores = np.full(len(X), np.nan)
    for i, score in rows:
        scores[i] = score
    values = [score for _, score in rows]
    assert values == sorted(values, reverse=True)
    return scores


def test_sql_refuses_names_that_a_database_would_cut_or_confuse():
    assert export(LinearModel.from_weights([1.0], ["x" * 63]), "sql").content
    for name in ("x" * 64, "é" * 32, "", "a\x00b"):
        with pytest.raises(ExportError):
            export(LinearModel.from_weights([1.0], [name]), "sql")
    with pytest.raises(ExportError):
        export(LinearModel.from_weights([1.0, 2.0], ["Age", "age"]), "sql")


def test_duckdb_ranks_as_the_scorer_does():
    duckdb = pytest.importorskip("duckdb")
    for names in (readers.HOSTILE, [f"f{j}" for j in range(300)]):
        model = readers.make_model(names)
        X = readers.random_rows(model, n=20)
        create, insert, query = sql_script(export(model, "sql"), names[2:], X)
        with duckdb.connect(":memory:") as database:
            database.execute(create)
            database.execute(insert)
            readers.assert_same_order(model, ordered(database.execute(query).fetchall(), X), X)


def table_model():
    """A curve, categories and a grid; no value is 0."""
    bins = Bins(((-1.0, 0.5, 1.0), (1.0, 2.0)), (1,), names=("price", "brand"))
    grids = Grids((GridAxis(0, (0, 0, 1, 1, 2)), GridAxis(1, (0, 1, 1, 2))), ((0, 1),))
    weights = np.random.default_rng(0).normal(size=5 + 4 + 9)
    return LinearModel.from_weights(weights, transforms=(bins, grids))


def test_postgresql_ranks_as_the_scorer_does(postgres):  # noqa: F811
    for model in (
        readers.make_model(readers.HOSTILE),
        readers.make_model([f"f{j}" for j in range(300)]),
        table_model(),
    ):
        tables = model.bins is not None
        names = list(model.column_names) if tables else list(model.weight_names)
        X = readers.random_rows(model, n=20)[:, : len(names)]
        if tables:
            X[:, 1] = np.arange(20) % 4
        create, insert, query = sql_script(export(model, "sql"), names, X)
        script = f"SET extra_float_digits = 3;DROP TABLE IF EXISTS t;{create};{insert};{query};"
        done = subprocess.run(
            postgres, input=script, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        rows = [line.split("|") for line in done.stdout.split()]
        found = ordered([(int(i), float(score)) for i, score in rows], X)
        if tables:  # the script writes NULL for 0
            expected = Scorer(model).score(np.where(X == 0, np.nan, X))
            np.testing.assert_allclose(found, expected, atol=1e-12)
        else:
            readers.assert_same_order(model, found, X)


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


def test_sql_scales_features_within_the_named_list():
    model = LinearModel.from_weights([1.0, -2.0], ["a", "b"], transforms=[ListRange()])
    assert "OVER ()" in export(model, "sql").content.decode()
    text = export(model, "sql", ExportOptions(query="qid")).content.decode()
    assert 'OVER (PARTITION BY "qid")' in text


def test_sql_names_the_list_and_says_how_to_use_it():
    assert "each list separately" in export(SCALED, "sql").remark
    assert export(PLAIN, "sql").remark == ""
    assert 'PARTITION BY "list"' in export(SCALED, "sql").content.decode()
    named = export(SCALED, "sql", ExportOptions(query="other")).content.decode()
    assert 'PARTITION BY "other"' in named
    whole = LinearModel.from_weights([1.0, -2.0], ["a", "b"], transforms=[ListRange()])
    assert "all rows as one list" in export(whole, "sql").remark
    with pytest.raises(ExportError):
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


def test_numbers_are_written_as_doubles():
    texts = [_literal(x) for x in (0.5, -3.0, 1e-7, 1e22, 0.1)]
    assert texts == ["0.5e0", "-3.0e0", "1e-07", "1e+22", "0.1e0"]
    assert all(
        float(text) == x for text, x in zip(texts, (0.5, -3.0, 1e-7, 1e22, 0.1), strict=True)
    )


def test_an_expression_of_the_probability(tmp_path):
    spec = OutcomeCalibration(
        outcome="clicked",
        position="position",
        scores=(-1.0, 0.0, 0.7),
        logits=(-3.0, -1.0, 0.5),
        tails=(0.5, 2.0),
        examination=(1.0, 0.6, 0.3),
    )
    model = replace(LinearModel.from_weights([1.0, -0.5], ["a", "b"]), calibration=spec)
    result = export(model, "sql", ExportOptions(query="qid", probability=True))
    score, probability = (
        content.decode().split("\n", 1)[1]
        for content in (result.content, result.extra_files[".probability.sql"])
    )
    rng = np.random.default_rng(0)
    X, positions = rng.normal(size=(60, 2)), np.tile(np.arange(1, 21), 3)
    database = sqlite3.connect(":memory:")
    database.create_function("EXP", 1, math.exp)
    database.execute("CREATE TABLE items (i, qid, a, b, position)")
    lists = np.repeat([1, 2, 3], 20).tolist()
    rows = zip(range(60), lists, *X.T.tolist(), positions.tolist(), strict=True)
    database.executemany("INSERT INTO items VALUES (?, ?, ?, ?, ?)", rows)
    query = f"SELECT {probability} FROM (SELECT *, {score} AS score FROM items) ORDER BY i"  # noqa: S608 - ours
    found = [value for (value,) in database.execute(query)]
    expected = Scorer(model).probability(X, positions, group=[20, 20, 20])
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    with pytest.raises(ExportError):
        export(replace(model, calibration=None), "sql", ExportOptions(probability=True))
    assert b'"calibration"' in export(model, "json").content
