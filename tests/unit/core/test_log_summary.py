"""The summary of a log is checked before anything in it sizes an array."""

import base64
import tracemalloc
import zlib

import msgspec
import pytest

from rankine.core.log_summary import MAX_SIZES, ColumnSummary, LogSummary, unpack_gaps

SCORES = ColumnSummary(0.0, (0.5, 0.5), (1.0,))


def pack(gaps, bits=20):
    return f"{bits}:" + base64.b64encode(zlib.compress(gaps, 9)).decode()


@pytest.mark.parametrize("bits", MAX_SIZES)
def test_a_set_of_values_holds_as_many_hashes_as_training_keeps(bits):
    largest = bytes(4 * MAX_SIZES[bits])
    assert unpack_gaps(pack(largest, bits)) == (largest, bits)
    for wrong in (largest + bytes(4), largest[1:]):
        with pytest.raises(ValueError, match="cut or too large"):
            unpack_gaps(pack(wrong, bits))


def test_a_bomb_is_refused_in_little_memory():
    bomb = pack(bytes(256 * 2**20))
    tracemalloc.start()
    with pytest.raises(ValueError, match="too large"):
        unpack_gaps(bomb)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**24


def test_all_sets_together_are_limited():
    full = pack(bytes(4 * MAX_SIZES[20]))
    assert LogSummary(1, 1, {}, SCORES, {str(k): full for k in range(8)})
    with pytest.raises(ValueError, match="more than 8,388,608 hashes"):
        LogSummary(1, 1, {}, SCORES, {str(k): full for k in range(9)})


@pytest.mark.parametrize(
    "damage", ["", "!", "20", "20:", "20:!", "20:AAAA", "21:eJwDAAAAAAE=", "20:é", "²0:AAAA"]
)
def test_damaged_sets_are_refused(damage):
    with pytest.raises(ValueError, match=r"set of values|only ASCII"):
        unpack_gaps(damage)


def test_sets_that_are_cut_or_continued_are_refused():
    packed = zlib.compress(bytes(range(256)), 9)
    assert unpack_gaps("28:" + base64.b64encode(packed).decode()) == (bytes(range(256)), 28)
    for data in (packed[:-1], packed + b"x"):
        with pytest.raises(ValueError, match="cut or too large"):
            unpack_gaps("28:" + base64.b64encode(data).decode())


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
