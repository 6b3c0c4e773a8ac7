"""Exports of models of tables score as the scorer does, or refuse in one sentence."""

import json
import sqlite3

import numpy as np
import pytest

from rankine import AdditiveRanker, Dataset, Scorer
from rankine.core.errors import ExportError
from rankine.export import export, targets

NAMES = ['price"', "rating", "brand", "noise"]


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(600, 4)), 2)
    X[:, 2] = rng.integers(0, 5, len(X))
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 3] = np.nan_to_num(X[:, 3])
    clean = np.nan_to_num(X)
    y = np.digitize(clean[:, 0] * clean[:, 1] + clean[:, 0] ** 2 + clean[:, 2] / 4, [0.3, 1.2])
    data = Dataset.from_arrays(
        X, y, np.repeat(np.arange(30), 20), feature_names=NAMES, missing=True
    )
    ranker = AdditiveRanker(
        smooth=0.1, pairs=[(0, 1), (1, 2)], categorical=["brand"], linear=["noise"]
    ).fit(data)
    extra = X[:50].copy()
    extra[:, 2] = 77.0
    rows = np.concatenate([X, extra])
    model = ranker.to_model()
    return model, rows, Scorer(model).score(rows)


def named(rows):
    return [
        {name: None if np.isnan(v) else v for name, v in zip(NAMES, row, strict=True)}
        for row in rows.tolist()
    ]


def in_table(connect, text, rows, kind):
    quoted = ['"' + name.replace('"', '""') + '"' for name in NAMES]
    connect.execute(f"CREATE TABLE t (k INTEGER, {', '.join(f'{c} {kind}' for c in quoted)})")
    values = [[k, *row.values()] for k, row in enumerate(named(rows))]
    connect.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", values)
    return [s for (s,) in connect.execute(f"SELECT {text} FROM t ORDER BY k").fetchall()]  # noqa: S608


@pytest.mark.parametrize("engine", ["sqlite3", "duckdb"])
def test_sql(case, engine):
    model, rows, expected = case
    module = pytest.importorskip(engine)
    text = export(model, "sql").content.decode().split("\n", 1)[1]
    kind = "REAL" if module is sqlite3 else "DOUBLE"
    found = in_table(module.connect(":memory:"), text, rows, kind)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_python(case):
    model, rows, expected = case
    room = {}
    exec(export(model, "python").content, room)  # noqa: S102 - the file under test
    np.testing.assert_allclose(room["scores"](named(rows)), expected, atol=1e-12)


def test_json_holds_all_tables(case):
    model, _, _ = case
    told = json.loads(export(model, "json").content)
    assert [spec["type"] for spec in told["transforms"]] == ["bins", "grids"]
    assert told["weights"] == model.values.tolist()


@pytest.mark.parametrize("target", sorted(set(targets()) - {"sql", "python", "json"}))
def test_what_is_not_built_is_refused(case, target):
    with pytest.raises(ExportError, match="Bins"):
        export(case[0], target)
