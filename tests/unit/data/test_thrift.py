import random

import pytest

from rankine.data.readers.parquet_guard import BYTES, INT, TEXT, read_struct
from reference.thrift import field, varint, zigzag


@pytest.mark.parametrize(
    "number", [0, 1, -1, 63, 64, -64, 127, 300, 2**31 - 1, -(2**31), 2**62, -(2**63)]
)
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


def text(rng, most=200):
    length = rng.choice([0, 1, 127, 128, most])
    return varint(length) + rng.randbytes(length).replace(b"\xff", b"x")


def value(rng, kind, depth=0):
    """Any value of a kind, as it is stored inside lists and maps."""
    inner = rng.choice([1, 3, 4, 7, 8, 13, *([9, 11, 12] if depth < 2 else [])])
    if kind in (9, 10):
        count = rng.choice([0, 1, 14, 15, 20])
        head = bytes([count << 4 | inner]) if count < 15 else bytes([240 | inner]) + varint(count)
        return head + b"".join(value(rng, inner, depth + 1) for _ in range(count))
    if kind == 11:
        count = rng.randrange(3)
        pairs = [value(rng, 8) + value(rng, inner, depth + 1) for _ in range(count)]
        return varint(count) + (bytes([8 << 4 | inner]) if count else b"") + b"".join(pairs)
    if kind == 12:
        return fields(rng, [None] * rng.randrange(4), depth + 1)
    fixed = {1: 1, 2: 1, 3: 1, 7: 8, 13: 16}
    if kind in fixed:
        return rng.randbytes(fixed[kind])
    return text(rng) if kind == 8 else zigzag(rng.choice([0, -1, 63, -64, 64, -300, 2**40]))


def fields(rng, wanted, depth=0):
    """A struct with the wanted fields (kind, content), and others of any kind where None stands."""
    out = b""
    for number, one in enumerate(wanted, 1):
        kind = rng.choice([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]) if one is None else one[0]
        content = one[1] if one else b"" if kind < 3 else value(rng, kind, depth)
        near = one is None or rng.random() < 0.5
        out += field(1, kind) if near else bytes([kind]) + zigzag(number)
        out += content
    return out + b"\0"


def test_any_struct_is_read_to_its_end():
    rng = random.Random(0)
    for _ in range(300):
        parts = [None] * rng.randint(1, 8)
        spec, expected = {}, {}
        for at in rng.sample(range(len(parts)), rng.randrange(len(parts) + 1)):
            number = rng.choice([0, -1, 2**31, -(2**40)])
            words = [rng.randbytes(rng.choice([0, 3, 130])) for _ in range(rng.choice([0, 2, 16]))]
            inner = fields(rng, [None, (6, zigzag(number)), None])
            size = len(words)
            head = bytes([size << 4 | 8]) if size < 15 else b"\xf8" + varint(size)
            listed = head + b"".join(varint(len(word)) + word for word in words)
            parts[at], spec[at + 1], expected[at + 1] = rng.choice(
                [
                    ((rng.choice([4, 5, 6]), zigzag(number)), INT, number),
                    ((8, varint(300) + b"y" * 300), TEXT, "y" * 300),
                    ((8, varint(2) + b"\xff\x00"), BYTES, b"\xff\x00"),
                    ((12, inner), {2: INT}, {2: number}),
                    ((rng.choice([9, 10]), listed), [BYTES], words),
                ]
            )
        data = b"\x77" + fields(rng, parts)
        assert read_struct(data + b"\x15\x02", 1, spec) == (expected, len(data))


@pytest.mark.parametrize("wanted", [True, False])
def test_so_many_structs_or_lists_may_lie_in_one_another(wanted):
    def nested(count, kind):
        if kind == "struct":
            data, spec = field(1, 12) * count + b"\0" * (count + 1), {}
            for _ in range(count):
                spec = {1: spec}
        elif kind == "list":
            data, spec = field(1, 9, b"\x19" * (count - 1) + b"\x05") + b"\0", [INT]
            for _ in range(count - 1):
                spec = [spec]
            spec = {1: spec}
        else:
            data = field(1, 11, b"\x01\x3b\x07" * (count - 1) + b"\0") + b"\0"
            spec = {}
        return read_struct(data, 0, spec if wanted else {})[1] == len(data)

    for kind, most in (("struct", 12), ("list", 13), ("map", 13)):
        if wanted and kind == "map":
            continue
        assert nested(most, kind)
        if kind != "map":
            with pytest.raises(ValueError, match="nested too deeply"):
                nested(most + 1, kind)
        with pytest.raises(ValueError, match="nested too deeply"):
            nested(5000, kind)


def test_data_that_end_too_early():
    data = field(1, 12, field(1, 8, varint(3) + b"abc") + b"\0") + field(1, 6, zigzag(300)) + b"\0"
    for stop in range(len(data)):
        with pytest.raises(IndexError):
            read_struct(data[:stop], 0, {2: INT})


def test_what_is_of_no_kind_takes_no_bytes():
    data = field(1, 12, b"\x10\0") + field(1, 6, zigzag(5)) + b"\0"
    assert read_struct(data, 0, {2: INT}) == ({2: 5}, len(data))


@pytest.mark.parametrize("wanted", [{1: [INT]}, {}])
def test_lengths_beyond_the_data_are_named(wanted):
    with pytest.raises(IndexError, match="a list longer than the data"):
        read_struct(field(1, 9, b"\x45\0\0") + b"\0", 0, wanted)
    with pytest.raises(IndexError, match="a text longer than the data"):
        read_struct(field(1, 8, varint(2) + b"a"), 0, {1: TEXT})


BAD = {
    "nested too deeply": (field(1, 12) * 50 + b"\0" * 51, {}, ValueError),
    "wanted and nested": (field(1, 12) * 50 + b"\0" * 51, {1: {1: {1: {}}}}, ValueError),
    "unknown kind": (field(1, 15, b"\0") + b"\0", {}, ValueError),
    "another kind": (field(1, 8, varint(1) + b"a") + b"\0", {1: INT}, ValueError),
    "a number for a text": (field(1, 6, varint(1)) + b"\0", {1: TEXT}, ValueError),
    "a number for a struct": (field(1, 6, b"\0") + b"\0", {1: {1: INT}}, ValueError),
    "a number for a list": (field(1, 6, b"\0") + b"\0", {1: [INT]}, ValueError),
    "a struct for a number": (field(1, 12, b"\0") + b"\0", {1: INT}, ValueError),
    "a list for a number": (field(1, 9, b"\x05") + b"\0", {1: INT}, ValueError),
    "a list just too long": (field(1, 9, b"\x45\0\0") + b"\0", {1: [INT]}, IndexError),
    "a text just too long": (field(1, 8, varint(2) + b"a"), {1: TEXT}, IndexError),
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
