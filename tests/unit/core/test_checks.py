"""Checks of parameters: accepted values, rejected values, and the parameter that errors name."""

from __future__ import annotations

import math

import numpy as np
import pytest

from error_checks import raises_for
from rankine.core.checks import (
    cell_error,
    check_choice,
    check_count,
    check_n_passes,
    check_not_negative,
    check_positive,
    check_strengths,
    reject_sets,
)
from rankine.core.errors import ParameterError

NOT_NUMBERS = [None, "1", True, np.bool_(True), math.nan, math.inf, -math.inf, [1.0], 1j]
#: Check -> accepted values, rejected values.
CHECKS = {
    check_positive: ([5e-324, 1, 2.5, np.float32(0.5), np.int64(3)], [0, 0.0, -1]),
    check_not_negative: ([0, 0.0, 1, np.float64(2.5)], [-5e-324, -1]),
    check_count: ([1, 2, np.int64(7)], [0, -1, 1.0, 2.5]),
}


@pytest.mark.parametrize("check", CHECKS)
def test_numbers_in_the_domain_are_returned_and_others_rejected(check):
    accepted, rejected = CHECKS[check]
    for value in accepted:
        assert check("size", value) == value
        assert type(check("size", value)) in (int, float)
    for value in (*rejected, *NOT_NUMBERS):
        with pytest.raises(ParameterError) as caught:
            check("size", value)
        assert caught.value.parameter == "size"
        assert repr(value) in caught.value.reason


def test_the_number_of_passes_has_a_default():
    assert check_n_passes(None) == 1
    assert check_n_passes(None, 3) == 3
    assert check_n_passes(2, 3) == 2
    with pytest.raises(ParameterError) as caught:
        check_n_passes(0)
    assert caught.value.parameter == "n_passes"


def test_an_unknown_choice_is_rejected_with_the_list_of_choices():
    assert check_choice("form", "b", ("a", "b")) == "b"
    with raises_for("form") as caught:
        check_choice("form", "c", ("a", "b"))
    assert caught.value.parameter == "form"


def test_strengths_are_sorted_largest_first_without_repetitions():
    assert check_strengths("l1", 0.5) == [0.5]
    assert check_strengths("l1", [0.5, 2, 0.5]) == [2.0, 0.5]
    assert check_strengths("l1", np.array([0.1, 1.0])) == [1.0, 0.1]
    for value in ([], (), "12", "", [1.0, 0.0]):
        with pytest.raises(ParameterError) as caught:
            check_strengths("l1", value)
        assert caught.value.parameter == "l1"


def test_sets_are_rejected_and_ordered_collections_accepted():
    reject_sets(columns=["a", "b"], names=None, keys={"a": 1}.keys())
    for value in ({"a"}, frozenset("a")):
        with pytest.raises(ParameterError) as caught:
            reject_sets(paths=["a"], columns=value)
        assert caught.value.parameter == "columns"


def test_an_error_about_a_cell_names_its_column_where_it_has_a_name():
    named = cell_error(3, 1, ["price", "age"], "is text", "Encode it")
    assert (named.reason, named.column) == ("X[3, 'age'] is text", "age")
    for names in (None, ["price"]):
        unnamed = cell_error(3, 1, names, "is text", "Encode it")
        assert (unnamed.reason, unnamed.column) == ("X[3, 1] is text", None)
