"""The summary of a log is checked before anything in it sizes an array."""

import base64
import tracemalloc
import zlib

import msgspec
import pytest

from rankine.core.log_summary import (
    SEEN_BITS,
    ColumnSummary,
    LogSummary,
    pack_slots,
    unpack_slots,
)

SCORES = ColumnSummary(0.0, (0.5, 0.5), (1.0,))


def test_slots_are_packed_and_unpacked():
    assert pack_slots(bytes(4)) == ""
    assert unpack_slots("") == b""
    for packed in (b"\x80", b"\x01\x00", bytes(range(256))):
        assert unpack_slots(pack_slots(packed)) == packed
    largest = b"\xff" * ((1 << SEEN_BITS) // 8)
    assert unpack_slots(pack_slots(largest)) == largest
    with pytest.raises(ValueError, match="cut or too many"):
        unpack_slots(pack_slots(largest + b"\x01"))


def test_a_bomb_is_refused_in_little_memory():
    bomb = base64.b64encode(zlib.compress(bytes(64 * 2**20), 9)).decode()
    tracemalloc.start()
    with pytest.raises(ValueError, match="too many"):
        unpack_slots(bomb)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


@pytest.mark.parametrize("damage", ["!", "AAAA", "eJwDAAAAAAE", "é"])
def test_damaged_slots_are_refused(damage):
    with pytest.raises(ValueError, match=r"slots of hashed values|only ASCII"):
        unpack_slots(damage)


def test_slots_that_are_cut_or_continued_are_refused():
    packed = zlib.compress(bytes(range(256)), 9)
    for data in (packed[:-1], packed + b"x"):
        with pytest.raises(ValueError, match="cut or too many"):
            unpack_slots(base64.b64encode(data).decode())
    with pytest.raises(ValueError, match="24 slots of hashed values are no power of two"):
        LogSummary(1, 1, {}, SCORES, pack_slots(b"\x01\x02\x03"))


def test_shares_fit_the_groups():
    assert ColumnSummary(0.0, (1.0,), ()).cuts == ()
    assert len(ColumnSummary(0.5, (0.0,) * 16).shares) == 16
    for shares, cuts in (((1.0,), (1.0,)), ((0.5, 0.5), ()), ((0.0,) * 15, None)):
        with pytest.raises(ValueError, match=f"{len(shares)} shares"):
            ColumnSummary(0.0, shares, cuts)
    for cuts in ((2.0, 1.0), (float("nan"), 1.0)):
        with pytest.raises(ValueError, match="cut"):
            ColumnSummary(0.0, (0.5, 0.25, 0.25), cuts)
    with pytest.raises(ValueError, match="the scores have no cuts"):
        LogSummary(1, 1, {}, ColumnSummary(0.0, (0.0,) * 16))


@pytest.mark.parametrize(
    ("field", "value"), [("missing", -0.1), ("missing", 1.5), ("shares", [2.0]), ("shares", [-1.0])]
)
def test_shares_of_a_file_are_between_0_and_1(field, value):
    good = {"missing": 0.0, "shares": [1.0], "cuts": []}
    assert msgspec.convert(good, ColumnSummary)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**good, field: value}, ColumnSummary)
