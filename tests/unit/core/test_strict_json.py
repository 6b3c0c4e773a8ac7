"""JSON that is written in one form and parsed strictly, and values that users type."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from rankine.core.strict_json import canonical_json, parse_json_strictly, parse_value, to_json_value


def test_canonical_json_is_ascii_and_is_parsed_back():
    value = {"b": [1, 2.5, None, True], "a": "\N{GREEK SMALL LETTER ALPHA}\N{SLEEPING SYMBOL}"}
    text = canonical_json(value)
    assert text.isascii()
    assert parse_json_strictly(text) == value
    assert parse_json_strictly(text.encode()) == value


@pytest.mark.parametrize(
    "text",
    ['{"a": 1, "a": 2}', "[NaN]", "[Infinity]", "[1e999]", '["\\ud800"]', "[", "[1,]"],
)
def test_duplicate_keys_other_numbers_and_bad_unicode_are_rejected(text):
    with pytest.raises(ValueError):
        parse_json_strictly(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 201 + "]" * 201,
        '{"a":' * 201 + "1" + "}" * 201,
        "[" * 100_000,
        '["]]]]", ' * 201 + "1" + "]" * 201,
    ],
)
def test_deep_nesting_is_rejected(text):
    with pytest.raises(ValueError, match="200"):
        parse_json_strictly(text)


def test_many_lists_and_brackets_in_texts_are_no_nesting():
    for value in ([[k] for k in range(500)], ["[" * 500, '\\"[' * 300], "[" * 1000):
        assert parse_json_strictly(json.dumps(value)) == value
    deepest = "[" * 200 + "]" * 200
    assert canonical_json(parse_json_strictly(deepest)) == deepest


def test_large_numbers_and_surrogate_pairs_are_accepted():
    assert parse_json_strictly("[1e308]") == [1e308]
    assert parse_json_strictly('["\\ud83d\\ude00"]') == ["\N{GRINNING FACE}"]


def test_values_that_json_cannot_hold_are_described():
    value = {
        "a": np.float32(0.5),
        1: (np.int64(2), None, True, "x\ud800"),
        "n": [math.nan, -math.inf],
    }
    plain = to_json_value(value)
    assert plain == {"a": 0.5, "1": [2, None, True, "x\\ud800"], "n": ["nan", "-inf"]}
    assert plain["1"][2] is True
    assert json.loads(canonical_json(plain)) == plain
    assert to_json_value(np.arange(64)) == list(range(64))
    assert to_json_value(np.zeros((5, 13))) == "array of shape (5, 13)"
    assert to_json_value({1, 2}) == "<set>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("+7", 7),
        ("-7", -7),
        ("7", 7),
        ("1e-3", 0.001),
        (".5", 0.5),
        ("[1, 2]", [1, 2]),
        ("None", None),
        ("TRUE", True),
        ("false", False),
        ("inf", math.inf),
        ("romma", "romma"),
        ("1-2", "1-2"),
    ],
)
def test_typed_text_becomes_a_value(text, expected):
    value = parse_value(text)
    assert value == expected
    assert type(value) is type(expected)
