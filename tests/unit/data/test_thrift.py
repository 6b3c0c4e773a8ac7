import pytest

from rankine.data.readers.parquet_guard import INT, TEXT, read_struct


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def zigzag(number):
    return varint(number << 1 if number >= 0 else (-number << 1) - 1)


def field(step, kind, content=b""):
    return bytes([step << 4 | kind]) + content


@pytest.mark.parametrize("number", [0, 1, -1, 63, 64, -64, 127, 300, 2**31 - 1, -(2**31), 2**62])
def test_integers(number):
    data = field(1, 6, zigzag(number)) + b"\0"
    assert read_struct(data, 0, {1: INT}) == ({1: number}, len(data))


def test_wanted_fields_among_others():
    inner = field(1, 5, zigzag(7)) + b"\0"
    data = (
        field(1, 1)  # a boolean is its own value
        + field(1, 3, b"\x05")
        + field(1, 7, bytes(8))
        + field(1, 8, varint(200) + b"x" * 200)
        + field(1, 12, inner)
        + field(1, 9, bytes([2 << 4 | 8]) + varint(2) + b"ab" + varint(1) + b"c")
        + field(1, 11, varint(1) + bytes([8 << 4 | 5]) + varint(1) + b"k" + zigzag(3))
        + field(1, 13, bytes(16))
        + b"\x05" + zigzag(100) + zigzag(42)  # a long form of the field number
        + field(1, 12, field(1, 8, varint(3) + b"abc") + field(1, 12, inner) + b"\0")
        + b"\0"
    )  # fmt: skip
    spec = {5: {1: INT}, 6: [TEXT], 100: INT}
    found, place = read_struct(data, 0, spec)
    assert found == {5: {1: 7}, 6: ["ab", "c"], 100: 42}
    assert place == len(data)


def test_data_that_end_too_early():
    data = field(1, 12, field(1, 8, varint(3) + b"abc") + b"\0") + field(1, 6, zigzag(300)) + b"\0"
    for stop in range(len(data)):
        with pytest.raises(IndexError):
            read_struct(data[:stop], 0, {2: INT})


BAD = {
    "nested too deeply": (field(1, 12) * 50 + b"\0" * 51, {}, ValueError),
    "wanted and nested": (field(1, 12) * 50 + b"\0" * 51, {1: {1: {1: {}}}}, ValueError),
    "unknown kind": (field(1, 15, b"\0") + b"\0", {}, ValueError),
    "another kind": (field(1, 8, varint(1) + b"a") + b"\0", {1: INT}, ValueError),
    "a long number": (field(1, 6, b"\xff" * 12) + b"\0", {1: INT}, ValueError),
    "a long list": (field(1, 9, b"\xf5" + varint(2**40)) + b"\0", {}, IndexError),
    "a long map": (field(1, 11, varint(2**40) + b"\x55") + b"\0", {}, IndexError),
    "a long text": (field(1, 8, varint(2**40)) + b"\0", {1: TEXT}, IndexError),
    "text that is not": (field(1, 8, varint(1) + b"\xff") + b"\0", {1: TEXT}, ValueError),
}


@pytest.mark.parametrize("name", list(BAD))
def test_malformed(name):
    data, spec, kind = BAD[name]
    with pytest.raises(kind):
        read_struct(data, 0, spec)
