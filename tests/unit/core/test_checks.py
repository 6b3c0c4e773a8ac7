"""Checks of parameters, errors that say where, and values as text."""

from __future__ import annotations

import json
import math
import pickle

import numpy as np
import pytest

import rankine
from rankine.core import safe_text
from rankine.core.checks import (
    check_choice,
    check_count,
    check_n_passes,
    check_not_negative,
    check_positive,
    check_strengths,
)
from rankine.core.errors import (
    DataError,
    ModelFormatError,
    ParameterError,
    RankineError,
    attach_file_to_errors,
)
from rankine.core.safe_text import html_table, listed, printable, small_bar, tag, text
from rankine.core.strict_json import canonical_json, parse_json_strictly, parse_value, to_json_value

NO_NUMBERS = [None, "1", True, np.bool_(True), math.nan, math.inf, -math.inf, [1.0], 1j]
#: Check -> what it takes, what it refuses.
CHECKS = {
    check_positive: ([5e-324, 1, 2.5, np.float32(0.5), np.int64(3)], [0, 0.0, -1]),
    check_not_negative: ([0, 0.0, 1, np.float64(2.5)], [-5e-324, -1]),
    check_count: ([1, 2, np.int64(7)], [0, -1, 1.0, 2.5]),
}


@pytest.mark.parametrize("check", CHECKS)
def test_numbers_inside_the_domain_pass_and_others_are_refused(check):
    good, bad = CHECKS[check]
    for value in good:
        assert check("size", value) == value
        assert type(check("size", value)) in (int, float)
    for value in (*bad, *NO_NUMBERS):
        with pytest.raises(ParameterError, match=r"size=.* Pass size >"):
            check("size", value)


def test_passes_may_be_left_open():
    assert (check_n_passes(None), check_n_passes(None, 3), check_n_passes(2, 3)) == (1, 3, 2)
    with pytest.raises(ParameterError, match="n_passes=0"):
        check_n_passes(0)


def test_choices_are_listed_where_none_is_met():
    assert check_choice("form", "b", ("a", "b")) == "b"
    with pytest.raises(ParameterError, match="form='c' is not one of a, b"):
        check_choice("form", "c", ("a", "b"))


def test_strengths_come_once_and_the_largest_first():
    assert check_strengths("l1", 0.5) == [0.5]
    assert check_strengths("l1", [0.5, 2, 0.5]) == [2.0, 0.5]
    assert check_strengths("l1", np.array([0.1, 1.0])) == [1.0, 0.1]
    for value in ([], (), "12", ""):
        with pytest.raises(ParameterError, match="list of numbers"):
            check_strengths("l1", value)
    with pytest.raises(ParameterError, match="not a positive number"):
        check_strengths("l1", [1.0, 0.0])


def test_an_error_says_what_where_and_how_to_mend_it():
    error = DataError("bad row", fix="Mend it", file="a.txt", line=3, column="price")
    assert str(error) == "a.txt:3:price: bad row [data]. Mend it"
    assert str(DataError("bad row")) == "bad row [data]"
    assert str(DataError("bad row", line=1)) == "1: bad row [data]"
    assert ModelFormatError("cut").fix == ModelFormatError.default_fix
    assert ModelFormatError("cut", fix="Wait").fix == "Wait"
    for one in (error, DataError("x"), ModelFormatError("y", column=0)):
        again = pickle.loads(pickle.dumps(one))  # noqa: S301 - our own bytes
        assert type(again) is type(one)
        assert vars(again) == vars(one)
        assert str(again) == str(one)


def test_errors_inside_are_about_the_file_unless_they_name_one():
    for named, expected in ((None, "outer"), ("inner", "inner")):
        with pytest.raises(RankineError) as caught, attach_file_to_errors("outer"):
            raise DataError("bad", file=named)
        assert caught.value.file == expected


def test_a_package_has_only_its_public_names():
    with pytest.raises(AttributeError, match=r"'rankine' has no attribute 'nothing'"):
        _ = rankine.nothing
    with pytest.raises(AttributeError, match=r"'rankine.tuning' has no attribute"):
        _ = rankine.tuning.nothing
    assert rankine.plot.__name__ == "rankine.plot"
    assert rankine.Dataset.__name__ == "Dataset"
    assert callable(rankine.report)


def test_json_is_read_strictly():
    value = {"b": [1, 2.5, None, True], "a": "\N{GREEK SMALL LETTER ALPHA}\N{SLEEPING SYMBOL}"}
    assert canonical_json(value).isascii()
    assert parse_json_strictly(canonical_json(value)) == value
    assert parse_json_strictly(canonical_json(value).encode()) == value
    for bad in ('{"a": 1, "a": 2}', "[NaN]", "[Infinity]", "[1e999]", '["\\ud800"]', "[", "[1,]"):
        with pytest.raises(ValueError):
            parse_json_strictly(bad)
    assert parse_json_strictly("[1e308]") == [1e308]
    assert parse_json_strictly('["\\ud83d\\ude00"]') == ["\N{GRINNING FACE}"]


def test_values_are_described_where_json_cannot_hold_them():
    held = {
        "a": np.float32(0.5),
        1: (np.int64(2), None, True, "x\ud800"),
        "n": [math.nan, -math.inf],
    }
    found = to_json_value(held)
    assert found == {"a": 0.5, "1": [2, None, True, "x\\ud800"], "n": ["nan", "-inf"]}
    assert found["1"][2] is True
    assert json.loads(canonical_json(found)) == found
    assert to_json_value(np.arange(64)) == list(range(64))
    assert to_json_value(np.zeros((5, 13))) == "array of shape (5, 13)"
    assert to_json_value({1, 2}) == "<set>"


def test_what_users_type_is_a_value():
    typed = {
        "+7": 7, "-7": -7, "7": 7, "1e-3": 0.001, ".5": 0.5, "[1, 2]": [1, 2], "None": None,
        "TRUE": True, "false": False, "inf": math.inf, "romma": "romma", "1-2": "1-2",
    }  # fmt: skip
    for word, value in typed.items():
        assert parse_value(word) == value
        assert type(parse_value(word)) is type(value)


@pytest.mark.parametrize("show", [printable, text], ids=["terminal", "page"])
def test_names_have_at_most_their_length(show):
    assert show("x" * 30, 30) == "x" * 30
    assert show("x" * 31, 30) == "x" * 29 + "…"
    assert show("x" * safe_text.MAX_TEXT) == "x" * safe_text.MAX_TEXT
    assert len(show("x" * 500)) == safe_text.MAX_TEXT


def test_lists_of_names_say_how_many_more_there_are():
    def words(*given, **options):
        return str(listed(*given, **options)).replace("<bdi>", "").replace("</bdi>", "")

    assert words("abc", 3) == "a, b, c"
    assert words("abcde", 3) == "a, b, c and 2 more"
    assert words("abc", 3, total=1003) == "a, b, c and 1,000 more"
    assert words("ab", 3, total=2) == "a, b"


def test_small_tables_for_notebooks():
    assert "width:60px" in small_bar(0.5)
    assert "width:120px" in small_bar(1.0)
    assert "width:1px" in small_bar(0.0)
    made = html_table("<all>", [("a", 1), ("b", tag("i", "x"))])
    assert made.count("<tr>") == 2
    assert "&lt;all&gt;" in made
    assert ">1</td>" in made
    assert "<i>x</i></td>" in made


def test_attributes_that_are_false_are_left_out():
    assert tag("details", open=False, hidden=True, id=None, data_of=0) == (
        '<details hidden data-of="0"></details>'
    )
