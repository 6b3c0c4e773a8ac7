"""What a client may take by default, and what stands in replies about models without a file."""

import msgspec

from rankine.serve.limits import Limits
from rankine.serve.schemas import ModelEntry


def test_defaults_are_as_documented_and_within_their_own_bounds():
    limits = Limits()
    kib, mib = 1024, 1024 * 1024
    sizes = (limits.header_bytes, limits.body_bytes, limits.buffered_bytes, limits.inline_bytes)
    assert sizes == (16 * kib, mib, 64 * mib, 64 * kib)
    assert all(type(size) is int for size in sizes)
    assert msgspec.convert(msgspec.to_builtins(limits), Limits, strict=True) == limits


def test_a_name_without_a_model_is_listed_as_nothing():
    entry = msgspec.to_builtins(ModelEntry("shop", "none", error="cut"))
    assert {name: value for name, value in entry.items() if value} == {
        "name": "shop",
        "kind": "none",
        "base": 1,
        "reads": "features",
        "error": "cut",
    }
