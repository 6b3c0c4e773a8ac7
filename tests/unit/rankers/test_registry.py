"""Rankers are found by the names users type; ranges that hold nothing are refused."""

from __future__ import annotations

import math

import pytest

from rankine.core.errors import ParameterError
from rankine.rankers.registry import RANKERS, Choice, Number, ranker_class


@pytest.mark.parametrize("name", RANKERS)
def test_a_ranker_has_the_name_it_is_found_by(name):
    assert ranker_class(name).system == name


def test_other_names_are_refused():
    with pytest.raises(ParameterError) as caught:
        ranker_class("lambdamart")
    assert caught.value.parameter == "ranker"


@pytest.mark.parametrize(
    ("low", "high", "log"),
    [(1.0, 1.0, False), (2.0, 1.0, False), (math.nan, 1.0, False), (0.0, math.inf, False),
     (0.0, 1.0, True), (-1.0, 1.0, True)],
)  # fmt: skip
def test_a_range_without_numbers_is_refused(low, high, log):
    with pytest.raises(ParameterError):
        Number(low, high, log=log)


def test_choices_that_a_user_registers_later_are_among_the_values():
    names = ["a"]
    choice = Choice(lambda: names)
    names += ["b", "a"]
    assert choice.values == ("a", "b")
    with pytest.raises(ParameterError) as caught:
        _ = Choice({"a", "b"}).values
    assert caught.value.parameter == "options"
