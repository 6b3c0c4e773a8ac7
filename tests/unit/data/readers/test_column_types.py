"""Files of one data set that store a column with different types."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankine
from rankine.core.errors import SchemaError

DAY = dt.date(2026, 11, 1)


def write(folder, *columns):
    paths = []
    for number, column in enumerate(columns):
        table = pa.table({"qid": [number] * 2, "label": [0, 1], "x": column})
        paths.append(folder / f"{number}.parquet")
        pq.write_table(table, paths[-1])
    return paths


SAFE = {
    "integers": ([1, 2], pa.int32(), [3, 2**40], pa.int64(), [1, 2, 3, 2**40]),
    "floats": ([1, 2], pa.int64(), [0.5, 1.5], pa.float64(), [1, 2, 0.5, 1.5]),
    "nulls": ([None, None], pa.null(), [0.5, 1.5], pa.float64(), [np.nan, np.nan, 0.5, 1.5]),
    "null text": ([None, None], pa.null(), ["a", "b"], pa.string(), ["", "", "a", "b"]),
    "texts": (["a", "b"], pa.large_string(), ["c", "a"], pa.string(), ["a", "b", "c", "a"]),
    "days": (
        [DAY] * 2,
        pa.date32(),
        [dt.datetime.fromisoformat("2026-11-01 10:00")] * 2,
        pa.timestamp("us"),
        ["2026-11-01T00:00:00.000000"] * 2 + ["2026-11-01T10:00:00.000000"] * 2,
    ),
}


@pytest.mark.parametrize("case", SAFE)
@pytest.mark.parametrize("order", [1, -1])
def test_a_column_gets_the_type_that_holds_all_values(tmp_path, case, order):
    first, first_type, second, second_type, expected = SAFE[case]
    files = write(tmp_path, pa.array(first, first_type), pa.array(second, second_type))[::order]
    data = rankine.load(files, features=(), columns=["x"])
    values = data.columns["x"]
    if order == -1:
        values = np.concatenate([values[2:], values[:2]])
    if values.dtype.kind == "f":
        np.testing.assert_array_equal(values, expected)
    else:
        if values.dtype.kind == "M":
            values = values.astype(str)
        assert values.tolist() == expected
    blocks = list(rankine.scan(files, features=(), columns=["x"], block_rows=1))
    assert len({block.columns["x"].dtype for block in blocks}) == 1


def test_features_get_one_type(tmp_path):
    files = write(
        tmp_path,
        pa.array([1.5, 2.5], pa.float32()),
        pa.array([0.1, 0.2], pa.float64()),
        pa.nulls(2),
    )
    assert {block.X.dtype for block in rankine.scan(files, block_rows=1)} == {np.dtype(float)}
    assert rankine.load(files).X[:4, 0].tolist() == [1.5, 2.5, 0.1, 0.2]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([1, 2], ["a", "b"]),
        ([True, False], [1, 2]),
        ([DAY, DAY], [1, 2]),
        ([DAY, DAY], ["2026-11-01", "x"]),
        ([1, 2], None),
    ],
)
def test_other_types_are_an_error_that_names_both_files(tmp_path, first, second):
    files = write(tmp_path, first, [0, 0] if second is None else second)
    if second is None:
        table = pq.read_table(files[1]).rename_columns(["qid", "label", "y"])
        pq.write_table(table, files[1])
    with pytest.raises(SchemaError) as error:
        rankine.scan(files, features=(), columns=["x"])
    assert (error.value.file, error.value.column) == (str(files[1]), "x")
    assert str(files[0]) in error.value.reason


def test_numbers_of_a_log_are_no_text(tmp_path):
    files = write(tmp_path, [1.0, 2.0], ["1", "2"])
    with pytest.raises(SchemaError) as error:
        rankine.logs.scan(files, query="qid", label="label", numeric=["x"])
    assert str(files[0]) in error.value.reason


def test_an_integer_that_no_float_holds_is_an_error(tmp_path):
    files = write(tmp_path, [2**53 + 1, 1], [0.5, 1.5])
    with pytest.raises(SchemaError) as error:
        rankine.load(files, features=(), columns=["x"])
    assert error.value.file == str(files[0])
