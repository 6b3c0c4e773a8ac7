"""Conditions on rows: what is skipped unread never meets them."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankine
from rankine.core.errors import ParameterError, SchemaError
from rankine.data.expressions import parse_condition, parse_expression
from rankine.data.options import ReadOptions
from rankine.data.readers.values import BatchLocation, RowFaults
from rankine.data.where import condition_mask

DAY = dt.date(2026, 11, 1)
ROWS = {
    "n": pa.array([1, 2, None, 4], pa.int32()),
    "x": pa.array([0.5, None, float("nan"), -1.0]),
    "text": pa.array(["a", None, "b", "c"]).dictionary_encode(),
    "day": pa.array([DAY, dt.date(2026, 11, 2), None, DAY]),
    "ts": pa.array([1793491200000, 1793577599999, None, 1793577600000], pa.timestamp("ms")),
    "iso": ["2026-11-01", "2026-11-02T12:00", None, "2026-11-03"],
}


def chosen(text):
    faults = RowFaults(BatchLocation("rows"), 4, skip=False)
    return condition_mask(parse_condition(text), pa.record_batch(ROWS), faults).tolist()


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("n > 1", [0, 1, 0, 1]),
        ("n != 1", [0, 1, 0, 1]),
        ("not n == 1", [0, 1, 1, 1]),
        ("x <= 1", [1, 0, 0, 1]),
        ("x != 0.5", [0, 0, 0, 1]),
        ("2*n + 1 == 5 or x == -1", [0, 1, 0, 1]),
        ("text == 'a'", [1, 0, 0, 0]),
        ("text != 'a'", [0, 0, 1, 1]),
        ("not text == 'a' and n >= 1", [0, 1, 0, 1]),
        ("n == '4'", [0, 0, 0, 1]),
        ("day >= 2026-11-02", [0, 1, 0, 0]),
        ("day >= '2026-11-02'", [0, 1, 0, 0]),
        ("day == '2026-11-01'", [1, 0, 0, 1]),
        ("day == '2026-11-01' or day > 2026-11-01", [1, 1, 0, 1]),
        ("ts < 2026-11-02", [1, 1, 0, 0]),
        ("2026-11-01 23:59:59.999 <= ts", [0, 1, 0, 1]),
        ("ts >= 2026-11-02T00:00+01:00", [0, 1, 0, 1]),
        ("iso > 2026-11-02", [0, 1, 0, 1]),
    ],
)
def test_rows_that_meet_a_condition(text, rows):
    assert chosen(text) == [bool(row) for row in rows]


@pytest.mark.parametrize("text", ["n > 2026-11-01", "x < 2026-11-01", "ts == 'a'", "text > 3"])
def test_what_cannot_be_compared_is_an_error(text):
    with pytest.raises(SchemaError):
        chosen(text)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("n", 1),
        ("n and x > 1", 1),
        ("x > 1 and n", 11),
        ("not n", 5),
        ("n = 1", 3),
        ("day > 2026-13-01", 7),
        ("day > 2026-11-01 + 1", 7),
        ("text > 'a'", 8),
        ("n > 1 AND x > 1", 7),
        ("1 < n < 3", 7),
        ("exit() == 1", 5),
    ],
)
def test_errors_name_the_first_wrong_character(text, position):
    with pytest.raises(ParameterError, match=rf"character {position}\b") as error:
        ReadOptions(where=text)
    assert error.value.parameter == "where"


def test_a_label_formula_has_no_conditions():
    with pytest.raises(ParameterError):
        parse_expression("n > 1 and x > 1")


def test_rows_whose_condition_cannot_be_read_are_bad_rows(tmp_path):
    days = ["2026-11-01", "?", "2026-11-03"]
    table = pa.table({"qid": [1, 1, 1], "label": [1, 0, 0], "a": [1, 2, 3], "day": days})
    pq.write_table(table, tmp_path / "a.parquet")
    options = {"features": ["a"], "where": "day > 2026-11-02"}
    with pytest.raises(SchemaError) as error:
        rankine.load(tmp_path / "a.parquet", **options)
    assert error.value.line == 2
    data = rankine.load(tmp_path / "a.parquet", **options, on_bad_row="skip")
    assert data.read_counts == {"excluded_rows": 1, "skipped_rows": 1}
