"""Declarations of history features: each field is used or refused, with its name."""

from __future__ import annotations

import math

import pytest

from rankine.core.errors import ParameterError
from rankine.core.specs import History, HistoryFeature
from rankine.history.declarations import (
    parse_duration,
    plan_feature,
    plan_features,
    read_declarations,
)
from rankine.history.kernels import AGE, COUNT, LAST, MEAN, RATE


@pytest.mark.parametrize(
    ("value", "microseconds"),
    [(0, 0), (1.5, 1_500_000), ("10us", 10), (" 2 ms", 2000), ("1.5h", 5_400_000_000),
     ("3min", 180 * 10**6), ("1w", 7 * 86400 * 10**6)],
)  # fmt: skip
def test_durations(value, microseconds):
    assert parse_duration(value, "delay") == microseconds


@pytest.mark.parametrize(
    "value", [-1, True, math.inf, math.nan, "7 years", "d", "", None, "2000000d"]
)
def test_what_is_no_duration_is_refused(value):
    with pytest.raises(ParameterError) as caught:
        parse_duration(value, "delay")
    assert caught.value.parameter == "delay"


@pytest.mark.parametrize(
    ("fields", "kind", "texts"),
    [
        ({"count": "clicked"}, COUNT, ("clicked", None)),
        ({"rate": "clicked"}, RATE, ("clicked", None)),
        ({"rate": "clicked", "over": "shown"}, RATE, ("clicked", "shown")),
        ({"mean": "price", "weight": "clicked"}, MEAN,
         ("(price) * (clicked)", "(clicked) where price")),
        ({"last": "clicked"}, LAST, ("clicked", None)),
        ({"age": True}, AGE, (None, None)),
    ],
)  # fmt: skip
def test_a_feature_sums_the_amounts_of_its_kind(fields, kind, texts):
    plan = plan_feature(HistoryFeature(("item",), **fields))
    assert plan.kind == kind
    assert tuple(amount and amount.text for amount in (plan.first, plan.second)) == texts


def test_a_window_has_equal_buckets():
    plan = plan_feature(HistoryFeature(("item",), count="x", window="8s", buckets=4))
    assert (plan.bucket, plan.n_buckets, plan.half_life) == (2 * 10**6, 4, math.inf)
    assert plan_feature(HistoryFeature(("item",), count="x", half_life="1s")).half_life == 10**6


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"count": "x", "rate": "y"},
        {"count": "x", "by": []},
        {"count": "x", "by": ["a", "a"]},
        {"count": "x", "over": "rows2"},
        {"count": "x", "prior": 3.0},
        {"rate": "x", "weight": "y"},
        {"last": "x", "half_life": "1d"},
        {"age": True, "window": "1d"},
        {"count": "x", "window": "8s", "half_life": "1d"},
        {"count": "x", "half_life": 0},
        {"count": "x", "buckets": 4},
        {"count": "x", "window": "8s", "buckets": 0},
        {"count": "x", "window": "10us", "buckets": 8},
        {"rate": "x", "prior": -1.0},
        {"rate": "x", "prior": math.nan},
        {"count": "x +"},
        {"count": 1},
        {"count": "x", "colour": 1},
    ],
)
def test_a_bad_declaration_names_its_feature(fields):
    with pytest.raises(ParameterError) as caught:
        read_declarations({"clicks": {"by": ["item"], **fields}})
    assert caught.value.parameter == "history"
    assert "[history.clicks]" in caught.value.reason


def test_one_column_needs_no_brackets():
    features = read_declarations({"clicks": {"by": "item", "count": "x"}})
    assert features == {"clicks": HistoryFeature(("item",), count="x")}
    with pytest.raises(ParameterError):
        read_declarations([])


@pytest.mark.parametrize("fields", [{}, {"position": "pos"}, {"propensity": (1.0,)}], ids="+".join)
def test_the_examination_needs_positions_and_propensities(fields):
    feature = HistoryFeature(("item",), rate="x", over="examination")
    with pytest.raises(ParameterError):
        plan_features(History(("f",), (feature,), "q", "t", **fields))
    whole = History(("f",), (feature,), "q", "t", position="pos", propensity=(1.0, 0.5))
    assert plan_features(whole)[0].second.text == "examination"
