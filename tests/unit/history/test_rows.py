"""Keys and times of rows: what is equal has one hash, in every format and type."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rankine.core.errors import SchemaError
from rankine.history.rows import (
    RowReader,
    format_time,
    hash_values,
    parse_time,
    read_numbers,
    to_microseconds,
)
from reference.history import history_of


def test_equal_categories_have_one_hash():
    (one,) = hash_values(["1"], "id").tolist()
    for values in ([1], [1.0], np.array([1], dtype=np.int8), np.array([1.0, np.nan])[:1], [1, "a"]):
        assert hash_values(values, "id")[0] == one
    for values in (["01"], ["1.0"], [True], ["a"], [2], [-1]):
        assert hash_values(values, "id")[0] != one
    # Integers that float64 cannot tell apart are different keys, whatever comes with them.
    large = hash_values([-1, 2**63, 2**63 + 1], "id")
    assert len(set(large.tolist())) == 3
    assert hash_values([str(2**63)], "id")[0] == large[1]


@pytest.mark.parametrize("values", [[""], [None], [math.nan], np.array([np.nan])])
def test_a_missing_value_has_the_hash_0(values):
    assert hash_values(values, "id").tolist() == [0]


def test_the_hash_of_a_value_does_not_depend_on_its_neighbours():
    texts = ["a", "", "x" * 600, "ä", "7", "a\0", "a"]
    together = hash_values(texts, "id").tolist()
    assert together == [hash_values([text], "id")[0] for text in texts]
    assert len(set(together)) == 6


def test_a_key_is_missing_where_one_of_its_columns_is():
    history = history_of({"n": {"count": "clicked", "by": ["user", "item"]}})
    reader = RowReader(history)
    assert (reader.key_columns, reader.amount_columns) == (("user", "item"), ("clicked",))
    keys = reader.read_keys({"user": ["u", "u", None], "item": ["a", "", "a"]}, 3)
    assert (keys[0] != 0).tolist() == [True, False, False]
    assert (reader.read_keys({"user": ["u"]}, 1) == 0).all()
    swapped = reader.read_keys({"user": ["a"], "item": ["u"]}, 1)
    assert swapped[0, 0] != keys[0, 0]


def test_numbers_of_formulas_need_a_numeric_column():
    assert read_numbers({"x": [1, None]}, "x").tolist()[0] == 1.0
    for columns in ({"x": ["a"]}, {"y": [1]}):
        with pytest.raises(SchemaError) as caught:
            read_numbers(columns, "x")
        assert caught.value.column == "x"


def test_times_are_microseconds_in_every_form():
    moment = 1_700_000_000_500_000
    text = "2023-11-14T22:13:20.500000"
    for value, unit in (
        (1_700_000_000.5, "s"), (1_700_000_000_500, "ms"), (moment, "us"), (text, "s"),
        (text + "Z", "ms"), ("2023-11-14T23:13:20.5+01:00", "s"),
    ):  # fmt: skip
        assert parse_time(value, unit) == moment
    assert to_microseconds(np.array([text], dtype="datetime64[ms]"), "s", "ts")[0] == moment
    assert format_time(moment) == text + "+00:00"
    assert format_time(None) is format_time(10**18) is None
    assert to_microseconds([1.0, math.nan], "s", "ts", np.array([7, 8])).tolist() == [10**6, 8]


@pytest.mark.parametrize("value", [True, None, "soon", [1], 1e300, -1e300])
def test_a_request_without_a_time_is_refused(value):
    with pytest.raises(SchemaError):
        parse_time(value)


def test_a_missing_time_is_refused_with_its_row():
    with pytest.raises(SchemaError) as caught:
        to_microseconds([1.0, math.nan], "s", "ts")
    assert (caught.value.column, caught.value.row) == ("ts", 1)


@pytest.mark.parametrize("values", [np.array([True]), np.array([1j]), np.array([None])])
def test_what_is_no_time_is_refused(values):
    with pytest.raises(SchemaError) as caught:
        to_microseconds(values, "s", "ts")
    assert caught.value.column == "ts"
