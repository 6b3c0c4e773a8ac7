"""Features of categorical values: one index for equal texts, in every type and format."""

from __future__ import annotations

import pickle
from hashlib import blake2b

import numpy as np
import pytest

from rankine.core.errors import SchemaError
from rankine.transforms import categories as module
from rankine.transforms.categories import (
    HashedFeatures,
    OneHotFeatures,
    categories,
    category_texts,
    distinct,
    feature_indices,
    first_rows,
    texts_in_order,
)


def index_of(columns, value, bits, start):
    text = "\x1f".join((*columns, value)).encode()
    return start + int.from_bytes(blake2b(text, digest_size=8).digest(), "little") % (1 << bits)


def test_the_index_of_a_value_is_that_of_the_documentation():
    features = HashedFeatures(("brand",), 10, 5)
    assert features["acme"] == index_of(("brand",), "acme", 10, 5)
    assert features[7] == features["7"]
    assert features[None] == features[""] == -1
    cross = HashedFeatures(("brand", "size"), 10, 0)
    assert cross["acme", 9] == index_of(("brand", "size"), "acme\x1f9", 10, 0)
    assert cross["acme", None] == cross["", "9"] == -1
    assert (features.name("acme"), cross.name(("acme", 9))) == ("brand=acme", "brand=acme x size=9")


def test_cached_indices_change_nothing(monkeypatch):
    monkeypatch.setattr(module, "MAX_CACHED", 3)
    features = HashedFeatures(("b",), 20, 0)
    values = list("abcdefab")
    expected = [index_of(("b",), value, 20, 0) for value in values]
    assert feature_indices(features, values).tolist() == expected
    assert len(features) <= 3
    features.add_texts(["y", "", None, "y"])
    features.add_texts(list("uvwxyz"))  # too many at once
    assert len(features) <= 3
    again = pickle.loads(pickle.dumps(features))  # noqa: S301 - our own bytes
    assert len(again) == 0
    assert again["a"] == expected[0]


def test_a_one_hot_column_has_its_values_only():
    features = OneHotFeatures(("7", "a"), 3)
    assert [features[value] for value in ("7", 7, "a", "b", 8, None, True)] == [3, 3, 4] + [-1] * 4


def test_texts_of_other_types():
    assert category_texts([1, None, "a", True, 2.0], "x") == ["1", "", "a", "true", "2"]
    assert category_texts(np.array(["2026-01-31"], dtype="M8[D]"), "x") == ["2026-01-31"]
    assert categories(["a", 1, None], "x") == ["a", 1, None]
    assert categories([True], "x") == ["true"]
    with pytest.raises(SchemaError) as caught:
        category_texts(["a", 0.5], "x")
    assert (caught.value.column, caught.value.row) == ("x", 1)


class Coded(dict):
    """Columns that are stored as codes."""

    def coded(self, name):
        texts, codes = self[name]
        return np.array(codes), texts


def test_codes_are_not_decoded():
    columns = Coded(a=(["x", "", "y"], [2, 0, 0, 1]), b=(["p", "q"], [0, 1, 1, 0]))
    texts, codes = distinct(columns, ("a",))
    assert (texts, codes.tolist()) == (["x", "", "y"], [2, 0, 0, 1])
    pairs, codes = distinct(columns, ("a", "b"))
    assert [pairs[code] for code in codes] == [("y", "p"), ("x", "q"), ("x", "q"), ("", "p")]
    assert texts_in_order(columns, "a") == ["y", "x", ""]
    assert texts_in_order({"a": ["y", "x", "y"]}, "a") == ["y", "x"]
    assert distinct({"a": [1], "b": ["c"]}, ("a", "b")) == ([(1, "c")], None)
    assert first_rows(np.array([2, 0, 2]), 4).tolist() == [1, -1, 0, -1]
