"""Columns of raw logs as categories and numbers."""

from __future__ import annotations

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pytest

from rankine.core.errors import SchemaError
from rankine.data.readers.raw_values import to_category_texts, to_numbers_or_nan
from rankine.data.readers.values import BatchLocation, RowFaults


def faults_of(array, *, skip=False):
    return RowFaults(BatchLocation("log.parquet", first_row=10), len(array), skip=skip)


@pytest.mark.parametrize(
    ("values", "data_type", "texts"),
    [
        (["a", None, "b"], pa.string(), ["a", None, "b"]),
        ([1, 2, None], pa.int8(), ["1", "2", None]),
        ([True, None, False], pa.bool_(), ["true", None, "false"]),
        ([1.0, 2.0, None], pa.float32(), ["1", "2", None]),
        ([None, None], pa.null(), [None, None]),
    ],
)
def test_categories_are_texts(values, data_type, texts):
    array = pa.array(values, data_type)
    assert to_category_texts(array, "c", faults_of(array)).to_pylist() == texts


@pytest.mark.parametrize(
    ("values", "data_type", "numbers"),
    [
        (["1970-01-02", None], pa.string(), [86400.0, np.nan]),
        ([decimal.Decimal("0.1"), None], pa.decimal128(5, 2), [0.1, np.nan]),
        ([dt.date(1970, 1, 2), None], pa.date32(), [86400.0, np.nan]),
        ([1_500, None], pa.timestamp("ms"), [1.5, np.nan]),
        ([True, False, None], pa.bool_(), [1.0, 0.0, np.nan]),
        ([None], pa.null(), [np.nan]),
    ],
)
def test_numbers_are_floats_and_times_are_seconds(values, data_type, numbers):
    array = pa.array(values, data_type)
    faults = faults_of(array)
    np.testing.assert_array_equal(to_numbers_or_nan(array, "x", faults), numbers)
    assert faults.missing == values.count(None)


def test_a_text_that_is_no_number_is_a_bad_row():
    array = pa.array(["1970-01-01", "?", "1970-01-02", "?"]).dictionary_encode()
    with pytest.raises(SchemaError) as caught:
        to_numbers_or_nan(array, "x", faults_of(array))
    assert (caught.value.line, caught.value.column) == (12, "x")
    faults = faults_of(array, skip=True)
    to_numbers_or_nan(array, "x", faults)
    assert faults.bad.tolist() == [False, True, False, True]


@pytest.mark.parametrize("convert", [to_category_texts, to_numbers_or_nan])
def test_types_without_a_meaning_are_refused(convert):
    array = pa.array([[1]])
    with pytest.raises(SchemaError) as caught:
        convert(array, "x", faults_of(array))
    assert caught.value.column == "x"
