"""What a client may send and hold by default."""

import msgspec

from rankine.serve.limits import Limits


def test_defaults_are_as_documented_and_within_their_own_bounds():
    limits = Limits()
    kib, mib = 1024, 1024 * 1024
    sizes = (limits.header_bytes, limits.body_bytes, limits.buffered_bytes, limits.inline_bytes)
    assert sizes == (16 * kib, mib, 64 * mib, 64 * kib)
    assert all(type(size) is int for size in sizes)
    assert msgspec.convert(msgspec.to_builtins(limits), Limits, strict=True) == limits
