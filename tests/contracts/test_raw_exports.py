"""Exports of every kind of raw column score in their engine as the scorer does."""

from __future__ import annotations

import math
import sqlite3
import subprocess
from contextlib import suppress
from datetime import date
from decimal import Decimal

import numpy as np
import pytest

from contracts.export_readers import postgres, run_java, run_javascript  # noqa: F401 - a fixture
from rankine import LinearModel, Scorer
from rankine.core.column_values import category_text
from rankine.core.errors import ExportError
from rankine.core.specs import Binned, Bins, LogColumns, MissingValues, OneHot
from rankine.export import ExportOptions, export, targets

NAN = float("nan")
#: Kind -> type of its SQL column, values in training, and values that were not.
CATEGORIES = {
    "text": ("TEXT", ["a'b", "01234", "1e5", "5.0", "true"], ["", "7", "nan"]),
    "digits": ("TEXT", ["12", "0", "-7"], ["", "x"]),
    "integer": ("BIGINT", [5, 0, -12, 900], [7]),
    "whole": ("DOUBLE PRECISION", [5.0, 0.0, -12.0, 900.0], [7.0, NAN]),
    "decimal": ("DECIMAL(10,2)", [Decimal("5.00"), Decimal("100.00")], [Decimal("7.00")]),
    "boolean": ("BOOLEAN", [True, False], []),
    "date": ("DATE", [date(2026, 11, 1), date(2026, 11, 19)], [date(2025, 1, 1)]),
}
NUMBERS = {
    "integer": ("BIGINT", [5, 0, -12]),
    "fraction": ("DOUBLE PRECISION", [0.25, -3.5, 1e300, NAN]),
    "narrow": ("REAL", [0.5, -0.25, 8.0]),
    "decimal": ("DECIMAL(10,2)", [Decimal("5.25"), Decimal("-1.50")]),
    "boolean": ("BOOLEAN", [True, False]),
}


def category_models(values):
    texts = tuple(dict.fromkeys(map(category_text, values)))
    weights = np.random.default_rng(len(texts)).normal(size=len(texts) + 2)
    one_hot = (OneHot("value", texts),)
    linear = LogColumns(one_hot=one_hot)
    yield LinearModel.from_weights(
        weights[: len(texts)], weight_names=linear.names, transforms=(linear,)
    )
    bins = Bins((tuple(map(float, range(len(texts)))),), (0,), names=("value",))
    tables = LogColumns(one_hot=one_hot, tables=True)
    yield LinearModel.from_weights(weights, transforms=(tables, bins))


def number_models():
    weights = np.random.default_rng(1).normal(size=4)
    linear = LogColumns(numeric=("value",))
    for missing in ((), ("zero",), ("mean",), ("indicator",)):
        rules = []
        for rule in missing:
            columns = () if rule == "zero" else (0,)
            rules = [MissingValues(rule, columns, (2.5,) * len(columns))]
        yield LinearModel.from_weights(
            weights[:1], weight_names=linear.names, transforms=(*rules, linear)
        )
    binned = LogColumns(binned=(Binned("value", (0.0, 1.0)),))
    yield LinearModel.from_weights(weights, weight_names=binned.names, transforms=(binned,))
    tables = LogColumns(numeric=("value",), tables=True)
    bins = Bins(((0.0, 1.0),), names=("value",))
    yield LinearModel.from_weights(weights, transforms=(tables, bins))


def literal(value, sql_type):
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        text = str(int(value)) if sql_type == "INTEGER" else str(value).upper()
    elif isinstance(value, (str, date)):
        text = "'" + str(value).replace("'", "''") + "'"
    elif math.isnan(value):
        text = "'NaN'"
    else:
        text = repr(value) if isinstance(value, float) else str(value)
    return f"CAST({text} AS {sql_type})"


def run_sqlite(script, query):
    with sqlite3.connect(":memory:") as database:
        database.executescript(script)
        return [score for (score,) in database.execute(query)]


def run_duckdb(script, query):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(":memory:") as database:
        database.execute(script)
        return [score for (score,) in database.execute(query).fetchall()]


def run_postgres(psql, script, query):
    text = f"SET extra_float_digits = 3; DROP TABLE IF EXISTS rows; {script} {query}"
    done = subprocess.run(psql, input=text, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return [float(line) for line in done.stdout.split()]


def statements(model, sql_type, values):
    rows = ", ".join(f"({k}, {literal(value, sql_type)})" for k, value in enumerate(values))
    script = f'CREATE TABLE rows (k INTEGER, "value" {sql_type}); '
    script += f"INSERT INTO rows VALUES {rows};"  # noqa: S608 - our own rows
    text = export(model, "sql").content.decode()
    return script, f"SELECT\n{text} FROM rows ORDER BY k;"


#: SQLite has neither booleans, dates nor NaN.
SQLITE_TYPES = {"BOOLEAN": "INTEGER", "DATE": "TEXT"}


def check_sql(model, sql_type, values, run):
    expected = Scorer(model).score([{"value": value} for value in values])
    script, query = statements(model, sql_type, values)
    np.testing.assert_allclose(run(script, query), expected, rtol=1e-12, atol=1e-12)


def check_python(model, values):
    rows = [{"value": value} for value in values]
    namespace = {}
    if model.missing is not None and model.missing.rule != "zero":
        with pytest.raises(ExportError):
            export(model, "python")
        return
    exec(export(model, "python").content, namespace)  # noqa: S102 - the file under test
    expected = Scorer(model).score(rows)
    np.testing.assert_allclose(namespace["scores"](rows), expected, rtol=1e-12, atol=1e-12)


def is_nan(value):
    return isinstance(value, float) and math.isnan(value)


def check_all(model, sql_type, values, psql):
    check_python(model, values)
    check_sql(model, sql_type, values, run_duckdb)
    sqlite_values = [None if is_nan(value) else value for value in values]
    check_sql(model, SQLITE_TYPES.get(sql_type, sql_type), sqlite_values, run_sqlite)
    if psql is not None:
        check_sql(model, sql_type, values, lambda *texts: run_postgres(psql, *texts))


@pytest.mark.parametrize("kind", CATEGORIES)
def test_categories(kind, postgres):  # noqa: F811
    sql_type, trained, unseen = CATEGORIES[kind]
    for model in category_models(trained):
        check_all(model, sql_type, [*trained, *unseen, None], postgres)


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers(kind, postgres):  # noqa: F811
    sql_type, values = NUMBERS[kind]
    for model in number_models():
        if kind == "boolean":  # PostgreSQL refuses to cast booleans to numbers
            check_all(model, sql_type, [*values, None], None)
            script, query = statements(model, sql_type, values)
            with pytest.raises(AssertionError, match="boolean"):
                run_postgres(postgres, script, query)
        else:
            check_all(model, sql_type, [*values, None], postgres)


def test_python_refuses_what_the_scorer_refuses():
    for model in category_models([1, 2]):
        namespace = {}
        exec(export(model, "python").content, namespace)  # noqa: S102 - the file under test
        with pytest.raises(TypeError):
            namespace["scores"]([{"value": 3.4}])
        with pytest.raises(TypeError):
            Scorer(model).score([{"value": 3.4}])


def all_cases():
    """Yield every model with every kind of column that it reads."""
    for _, trained, unseen in CATEGORIES.values():
        for model in category_models(trained):
            yield model, [*trained, *unseen, None]
    days = {"date": ("DATE", [date(2026, 11, 1), date(1969, 12, 31)])}
    for _, values in {**NUMBERS, **days}.values():
        for model in number_models():
            yield model, [*values, None]


def json_value(value):
    """JSON has neither dates nor decimals."""
    if isinstance(value, date):
        return value.isoformat()
    return float(value) if isinstance(value, Decimal) else value


@pytest.mark.parametrize(("target", "run"), [("javascript", run_javascript), ("java", run_java)])
def test_programs_compute_the_same_bits(target, run):
    programs, expected = [], []
    for k, (model, values) in enumerate(all_cases()):
        content = export(model, target, ExportOptions(name=f"m{k}")).content
        # One list with all rows, and lists of one row each.
        rows = [{"value": value} for value in values]
        lists = [rows, *([row] for row in rows)]
        programs.append((content, [[{"value": json_value(r["value"])} for r in x] for x in lists]))
        expected.append([Scorer(model).score(each).tolist() for each in lists])
    assert run(programs) == expected


@pytest.mark.parametrize("target", targets())
def test_every_target_scores_raw_columns_or_refuses_them(target):
    for model, _ in all_cases():
        with suppress(ExportError):
            assert export(model, target).content
