"""Schemas of requests and replies."""

import msgspec

from rankine.serve.schemas import ModelEntry


def test_a_name_without_a_model_is_listed_as_nothing():
    entry = msgspec.to_builtins(ModelEntry("shop", "none", error="cut"))
    assert {name: value for name, value in entry.items() if value} == {
        "name": "shop",
        "kind": "none",
        "base": 1,
        "reads": "features",
        "error": "cut",
    }
