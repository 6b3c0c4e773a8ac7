"""Label formulas: a few kinds of nodes of Python's syntax tree, never code."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from error_checks import raises_at
from rankine.core.errors import ParameterError, SchemaError
from rankine.data import tiers
from rankine.data.expressions import parse_expression

COLUMNS = {
    "clicked": np.array([0, 1, 1]),
    "purchased": np.array([False, False, True]),
    "price": np.array([2.5, 10.0, 4.0]),
    "dwell time": np.array([1.0, 30.0, 99.0]),
    "név": np.array([1, 2, 3]),
    "brand": ["acme", "it's", None],
    "the size": np.array([10, 9, 10]),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("clicked", [0, 1, 1]),
        ("clicked + 4*purchased", [0, 1, 5]),
        ("price*purchased", [0, 0, 4]),
        ("1 - 2 - clicked", [-1, -2, -2]),
        ("8/2/2*clicked", [0, 2, 2]),
        ("-(clicked + 1)*2", [-2, -4, -4]),
        ("--clicked", [0, 1, 1]),
        ("2e0*clicked + .5", [0.5, 2.5, 2.5]),
        ("`dwell time` >= 30", [0, 1, 1]),
        ("(price > 3)*2 + (clicked == 0)", [1, 2, 2]),
        ("clicked != purchased", [0, 1, 0]),
        ("név", [1, 2, 3]),
        ("brand == 'acme'", [1, 0, 0]),
        ("'it is # + 1' != brand", [1, 1, 0]),
        ("2*(brand == \"acme\") + (`the size` == '9')*clicked", [2, 1, 0]),
    ],
)
def test_values(text, expected):
    values = parse_expression(text)(COLUMNS)
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("name", ["class", "True", "\ufb01", "a#b", "1st", "_0", "x y"])
def test_a_quoted_name_is_any_column(name):
    values = parse_expression(f"2*`{name}` + _0")({name: [1, 2], "_0": [1, 2]})
    np.testing.assert_array_equal(values, [3, 6])


def test_columns_in_order_of_appearance():
    assert parse_expression("b + a*b").columns == ("b", "a")
    assert parse_expression("class + in").columns == ("class", "in")
    assert parse_expression("a*(b == 'x') + (c != 'y')").text_columns == ("b", "c")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", 1),
        ("clicked +", 10),
        ("clicked purchased", 9),
        ("(clicked", 1),
        ("clicked)", 8),
        ("4 ** clicked", 3),
        ("__import__('os')", 11),
        ("clicked.real", 8),
        ("clicked[0]", 8),
        ("clicked; price", 8),
        ("a < b < c", 7),
        ("clicked + @", 11),
        ("clicked # price", 9),
        ("clicked and price", 9),
        ("f'{clicked}'", 1),
        ("1j*clicked", 1),
        ("clicked + 1e999", 11),
        ("  clicked +  @", 14),
        ("   a b", 6),
        ("+clicked", 1),
        ("1 + ~clicked", 5),
        ("  a < b < c", 9),
        ("név + (a; b)", 9),
        ("1" + "0" * 400 + "*a", 1),
        ("a + 'b'", 5),
        ("a\0b", 4),
        ("clicked + \ud800", 1),
        ("a if b else c", 3),
        ("brand < 'b'", 9),
        ("'a' == 'b'", 1),
        ("brand == 'a'b", 13),
    ],
)
def test_errors_point_at_the_place(text, place):
    with pytest.raises(ParameterError, match=f"character {place}"):
        parse_expression(text)


def test_limits():
    with pytest.raises(ParameterError, match="longer than"):
        parse_expression("a+" * 600 + "a")
    with pytest.raises(ParameterError, match="nests"):
        parse_expression("-(" * 60 + "a" + ")" * 60)
    assert parse_expression("a+" * 499 + "a")({"a": [1, 2]}).tolist() == [500, 1000]
    with pytest.raises(ParameterError, match="nests"):
        parse_expression("-" * 60 + "a")
    with pytest.raises(ParameterError, match="no column"):
        parse_expression("1 + 2")


def test_bad_columns_and_values():
    with raises_at(SchemaError, column="price") as caught:
        parse_expression("price == '2.5'")({"price": [2, 2.5]})
    assert caught.value.row == 1
    with raises_at(SchemaError, column="sold"):
        parse_expression("sold")(COLUMNS)
    with raises_at(SchemaError, column="brand"):
        parse_expression("brand")({"brand": np.array(["a", "b"])})
    with pytest.raises(SchemaError, match="inf at row 0"):
        parse_expression("price/clicked")(COLUMNS)
    with pytest.raises(SchemaError, match="nan at row 1"):
        parse_expression("x")({"x": [1.0, np.nan]})


def test_limits_are_reached_and_not_passed():
    assert parse_expression("-" * 50 + "a")({"a": [3]}).tolist() == [3]
    assert parse_expression("a-(" * 50 + "a" + ")" * 50)({"a": [3]}).tolist() == [3]
    for deep in ("-" * 51 + "a", "a-(" * 51 + "a" + ")" * 51):
        with pytest.raises(ParameterError, match="nests"):
            parse_expression(deep)
    assert parse_expression("a" + " " * 999).columns == ("a",)
    with pytest.raises(ParameterError, match="longer than 1000"):
        parse_expression("a" + " " * 1000)


def test_names_that_look_alike_stay_apart():
    text = "`a b` + 10*`c d` + 100*class + 1000*_0_ + 10000*True"
    values = {"a b": [1], "c d": [2], "class": [3], "_0_": [4], "True": [5]}
    assert parse_expression(text)(values).tolist() == [54321]
    assert parse_expression(text).columns == tuple(values)
    assert parse_expression("`x` + 10*_0_")({"x": [1], "_0_": [2]}).tolist() == [21]
    assert parse_expression("2\n*\ta")({"a": [1]}).tolist() == [2]


# ------------------------------------------------------------------ test_tiers
def test_a_grade_counts_the_cuts_reached():
    np.testing.assert_array_equal(
        tiers([0, 0.5, 1, 4, 5, 20, 99], cuts=[1, 5, 20]), [0, 0, 1, 1, 2, 3, 3]
    )


def test_quantiles_divide_the_positive_counts():
    counts = [0] * 50 + list(range(1, 101))
    grades = tiers(counts, quantiles=[0.5, 0.9])
    assert np.bincount(grades.astype(int)).tolist() == [50, 50, 40, 10]


@given(st.lists(st.integers(0, 50), max_size=60))
def test_grades_are_monotone_dense_and_keep_zero(counts):
    grades = tiers(counts, quantiles=[0.25, 0.5, 0.75])
    order = np.argsort(counts, kind="stable")
    assert (np.diff(grades[order]) >= 0).all()
    assert all(grade == 0 for grade, count in zip(grades, counts, strict=True) if count == 0)
    assert all(grade >= 1 for grade, count in zip(grades, counts, strict=True) if count > 0)
    positive = sorted({g for g, c in zip(grades.tolist(), counts, strict=True) if c > 0})
    assert positive == list(range(1, len(positive) + 1))


@pytest.mark.parametrize("counts", [[1, -1], [np.nan], [np.inf], [[1, 2]]])
def test_bad_counts(counts):
    with pytest.raises(SchemaError):
        tiers(counts, cuts=[1])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"cuts": [1], "quantiles": [0.5]},
        {"cuts": []},
        {"cuts": [2, 1]},
        {"cuts": [0, 1]},
        {"cuts": [1, 1]},
        {"quantiles": [0.5, 1.0]},
        {"quantiles": [np.nan]},
    ],
)
def test_bad_cuts(options):
    with pytest.raises(ParameterError):
        tiers([0, 1, 2], **options)


def test_counts_without_feedback_have_grade_zero():
    assert tiers([0, 0], quantiles=[0.5]).tolist() == [0.0, 0.0]
    assert tiers([], cuts=[1]).tolist() == []
    with pytest.raises(SchemaError, match=r"counts\[2\] is -1.0"):
        tiers([0, 3, -1], cuts=[1])
    for cuts in ([[1, 2]], [np.inf], [1, np.nan]):
        with pytest.raises(ParameterError) as caught:
            tiers([1], cuts=cuts)
        assert caught.value.parameter == "cuts"
