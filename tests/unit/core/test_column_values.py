"""One value of a log: its text as a category and its number, in every type."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from rankine.core.column_values import category_text, number_of, plain_value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a b", "a b"), ("", ""), (None, ""), (math.nan, ""), (pd.NaT, ""), (7, "7"), (-0.0, "0"),
        (7.0, "7"), (np.float32(7), "7"), (np.int8(-7), "-7"), (Decimal("7.0"), "7"),
        (10**20, str(10**20)), (True, "true"), (np.bool_(False), "false"),
        (date(2026, 1, 31), "2026-01-31"), (np.str_("x"), "x"),
    ],
)  # fmt: skip
def test_categories(value, text):
    assert category_text(value) == text


@pytest.mark.parametrize(
    "value", [0.5, 1e15, datetime(2026, 1, 1, tzinfo=UTC), [1], b"a", Decimal("0.1"), timedelta(1)]
)  # fmt: skip
def test_what_is_no_category_is_refused(value):
    with pytest.raises(TypeError):
        category_text(value)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (1, 1.0), (True, 1.0), (Decimal("0.5"), 0.5), (10**400, math.inf), (np.float32(0.5), 0.5),
        (date(1970, 1, 2), 86400.0), ("1970-01-02", 86400.0), ("1970-01-01T00:00:01.5", 1.5),
        (datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), 0.0),
        (pd.Timestamp(1_500_000_001), 1.500000001),
    ],
)  # fmt: skip
def test_numbers(value, number):
    assert number_of(value) == number


def test_missing_numbers_are_nan():
    assert all(math.isnan(number_of(value)) for value in (None, math.nan, pd.NaT))


@pytest.mark.parametrize("value", ["seven", "", "2026-99-01", [1], np.timedelta64(1, "s")])
def test_what_is_no_number_is_refused(value):
    with pytest.raises((TypeError, ValueError)):
        number_of(value)


def test_scalars_of_numpy_become_values_of_python():
    assert plain_value("x") == "x"
    assert type(plain_value(np.int64(3))) is int
    plain = plain_value(np.datetime64("2026-01-01T00:00:00.5", "ns"))
    assert plain.isoformat() == "2026-01-01T00:00:00.500000"
