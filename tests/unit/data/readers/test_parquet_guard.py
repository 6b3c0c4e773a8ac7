"""Footers and page headers of Parquet are checked before Arrow decodes anything."""

import itertools
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankine
from rankine.core.errors import EmptyDataError, FileKindError, LimitError, SchemaError
from rankine.data.options import ReadOptions
from rankine.data.readers import parquet_guard
from rankine.data.readers.parquet_guard import (
    Chunk,
    Page,
    RowGroup,
    check_row_group,
    read_footer,
    read_struct,
)
from reference.thrift import field, varint, zigzag


@pytest.fixture
def path(tmp_path):
    rows = 300
    content = {
        "label": np.zeros(rows),
        "qid": np.arange(rows),
        "a": np.random.default_rng(0).random(rows),
        "b": np.arange(rows, dtype=np.float32) % 5,
    }
    pq.write_table(pa.table(content), tmp_path / "x.parquet", row_group_size=100)
    return tmp_path / "x.parquet"


# ------------------------------------------------------------------ Thrift's compact protocol
@pytest.mark.parametrize(
    "number", [0, 1, -1, 63, 64, -64, 127, 300, 2**31 - 1, -(2**31), 2**62, -(2**63)]
)
def test_integers(number):
    data = field(1, 6, zigzag(number)) + b"\0"
    assert read_struct(data, 0, {1: None}) == ({1: number}, len(data))


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
        + b"\x05" + zigzag(100) + zigzag(42)  # the long form of a field number
        + field(1, 12, field(1, 8, varint(3) + b"abc") + field(1, 12, inner) + b"\0")
        + b"\0"
    )  # fmt: skip
    fields, position = read_struct(data, 0, {1: None, 5: {1: None}, 6: None, 100: None})
    assert fields == {1: True, 5: {1: 7}, 6: [b"ab", b"c"], 100: 42}
    assert position == len(data)


def random_value(rng, kind, depth=0):
    """Any value of a type, as it is stored inside lists and maps."""
    inner = rng.choice([1, 3, 4, 7, 8, 13, *([9, 11, 12] if depth < 2 else [])])
    if kind in (9, 10):
        count = rng.choice([0, 1, 14, 15, 20])
        head = bytes([count << 4 | inner]) if count < 15 else bytes([240 | inner]) + varint(count)
        return head + b"".join(random_value(rng, inner, depth + 1) for _ in range(count))
    if kind == 11:
        count = rng.randrange(3)
        pairs = [random_value(rng, 8) + random_value(rng, inner, depth + 1) for _ in range(count)]
        return varint(count) + (bytes([8 << 4 | inner]) if count else b"") + b"".join(pairs)
    if kind == 12:
        return random_fields(rng, [None] * rng.randrange(4), depth + 1)
    fixed = {1: 1, 2: 1, 3: 1, 7: 8, 13: 16}
    if kind in fixed:
        return rng.randbytes(fixed[kind])
    if kind == 8:
        length = rng.choice([0, 1, 127, 128, 200])
        return varint(length) + rng.randbytes(length)
    return zigzag(rng.choice([0, -1, 63, -64, 64, -300, 2**40]))


def random_fields(rng, wanted, depth=0):
    """A struct with the wanted fields (type, content), and others of any type in place of None."""
    data = b""
    for number, one in enumerate(wanted, 1):
        kind = rng.choice([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]) if one is None else one[0]
        content = one[1] if one else b"" if kind < 3 else random_value(rng, kind, depth)
        near = one is None or rng.random() < 0.5
        data += field(1, kind) if near else bytes([kind]) + zigzag(number)
        data += content
    return data + b"\0"


def test_any_struct_is_read_to_its_end():
    rng = random.Random(0)
    for _ in range(300):
        parts = [None] * rng.randint(1, 8)
        wanted, expected = {}, {}
        for k in rng.sample(range(len(parts)), rng.randrange(len(parts) + 1)):
            number = rng.choice([0, -1, 2**31, -(2**40)])
            words = [rng.randbytes(rng.choice([0, 3, 130])) for _ in range(rng.choice([0, 2, 16]))]
            inner = random_fields(rng, [None, (6, zigzag(number)), None])
            size = len(words)
            head = bytes([size << 4 | 8]) if size < 15 else b"\xf8" + varint(size)
            listed = head + b"".join(varint(len(word)) + word for word in words)
            parts[k], wanted[k + 1], expected[k + 1] = rng.choice(
                [
                    ((rng.choice([4, 5, 6]), zigzag(number)), None, number),
                    ((8, varint(300) + b"y" * 300), None, b"y" * 300),
                    ((12, inner), {2: None}, {2: number}),
                    ((rng.choice([9, 10]), listed), None, words),
                ]
            )
        data = b"\x77" + random_fields(rng, parts)
        assert read_struct(data + b"\x15\x02", 1, wanted) == (expected, len(data))


def test_nesting_is_limited():
    for kind, most in (("struct", 12), ("list", 13), ("map", 13)):
        for count in (most, most + 1, 5000):
            if kind == "struct":
                data = field(1, 12) * count + b"\0" * (count + 1)
            elif kind == "list":
                data = field(1, 9, b"\x19" * (count - 1) + b"\x05") + b"\0"
            else:
                data = field(1, 11, b"\x01\x3b\x07" * (count - 1) + b"\0") + b"\0"
            if count == most:
                assert read_struct(data, 0, {})[1] == len(data)
            elif count == 5000 or kind != "map":  # an empty map is not one more level
                with pytest.raises(ValueError, match="nested too deeply"):
                    read_struct(data, 0, {})


def test_data_that_end_too_early():
    data = field(1, 12, field(1, 8, varint(3) + b"abc") + b"\0") + field(1, 6, zigzag(300)) + b"\0"
    for stop in range(len(data)):
        with pytest.raises(IndexError):
            read_struct(data[:stop], 0, {2: None})


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (field(1, 15, b"\0") + b"\0", ValueError),  # an unknown type
        (field(1, 6, b"\xff" * 12) + b"\0", ValueError),  # a number of more than 64 bits
        (field(1, 9, b"\x45\0\0") + b"\0", IndexError),  # a list longer than the data
        (field(1, 9, b"\xf5" + varint(2**40)) + b"\0", IndexError),
        (field(1, 11, varint(2**40) + b"\x55") + b"\0", IndexError),
        (field(1, 8, varint(2**40)) + b"\0", IndexError),  # a text longer than the data
        (field(1, 8, varint(2) + b"a"), IndexError),
    ],
)
@pytest.mark.parametrize("wanted", [{}, {1: None}])
def test_malformed_structs(data, error, wanted):
    with pytest.raises(error):
        read_struct(data, 0, wanted)


# ------------------------------------------------------------------ the footer
def test_the_footer_agrees_with_pyarrow(path):
    metadata = pq.ParquetFile(path).metadata
    groups = read_footer(pa.OSFile(str(path)))
    assert [group.n_rows for group in groups] == [100, 100, 100]
    for k, group in enumerate(groups):
        for j, chunk in enumerate(group.chunks):
            column = metadata.row_group(k).column(j)
            assert ".".join(chunk.path) == column.path_in_schema
            assert chunk.start == column.dictionary_page_offset < column.data_page_offset
            assert chunk.stop - chunk.start == column.total_compressed_size
            assert chunk.value_bytes == (4 if chunk.path == ("b",) else 8)
            assert chunk.n_values == column.num_values
            code = {"qid": "<i8", "b": "<f4"}.get(chunk.path[0], "<f8")
            bounds = [np.frombuffer(one, code)[0] for one in (chunk.minimum, chunk.maximum)]
            assert bounds == [column.statistics.min, column.statistics.max]


def test_what_a_chunk_may_leave_out():
    stored = {1: 5, 3: [b"a", b"b"], 7: 10, 9: 50}
    assert parquet_guard._make_chunk(stored) == (("a", "b"), 8, 50, 60, 0, b"", b"")
    for dictionary, start in ((0, 50), (1, 1), (40, 40), (60, 50)):
        assert parquet_guard._make_chunk({**stored, 11: dictionary}).start == start
    chunk = parquet_guard._make_chunk({**stored, 1: 4, 5: 7, 12: {5: b"z", 6: b"a"}})
    assert chunk[1:] == (4, 50, 60, 7, b"a", b"z")


def test_columns_of_a_schema_and_of_its_groups():
    leaves = parquet_guard._leaf_paths
    assert leaves([{4: b"root"}]) == []
    nested = [{4: b"r", 5: 2}, {4: b"a"}, {4: b"b", 5: 1}, {4: b"c"}]
    assert leaves(nested) == [("a",), ("b", "c")]
    for schema in ([{4: b"r"}, {4: b"a"}], [{4: b"r", 5: 1}, {4: b"a"}, {4: b"b"}]):
        with pytest.raises(IndexError):
            leaves(schema)
    good, short = RowGroup(1, [chunk(4, 4, "a")] * 2), RowGroup(1, [chunk(4, 4, "a")])
    parquet_guard._check_paths([("a",)] * 2, [good, good])
    with pytest.raises(ValueError, match="row group 1 holds 1 columns, 2 in the schema"):
        parquet_guard._check_paths([("a",)] * 2, [good, short])
    with pytest.raises(ValueError, match=r"row group 0 holds 'a', 'x\.y' in the schema"):
        parquet_guard._check_paths([("a",), ("x", "y")], [good])


def test_the_rows_of_all_groups_are_those_of_the_file(path, monkeypatch):
    read = parquet_guard.read_struct

    def read_one_more(*given):
        fields, end = read(*given)
        return ({**fields, 3: fields[3] + 1} if 3 in fields and 4 in fields else fields), end

    monkeypatch.setattr(parquet_guard, "read_struct", read_one_more)
    with pytest.raises(FileKindError, match="301 rows in all, but 300 in its row groups"):
        rankine.load(path)


def test_a_footer_above_the_limit_is_refused(path, monkeypatch):
    length = int.from_bytes(path.read_bytes()[-8:-4], "little")
    monkeypatch.setattr(parquet_guard, "_MAX_FOOTER_BYTES", length)
    assert rankine.load(path).n_rows == 300
    monkeypatch.setattr(parquet_guard, "_MAX_FOOTER_BYTES", length - 1)
    with pytest.raises(FileKindError):
        rankine.load(path)


@pytest.mark.parametrize("length", [0, 1, -11, 2**28 + 1, 2**31, 2**32 - 1])
def test_a_footer_of_an_impossible_length_is_refused(path, length):
    whole = path.read_bytes()
    length = length % len(whole) if length < 0 else length
    path.write_bytes(whole[:-8] + length.to_bytes(4, "little") + b"PAR1")
    with pytest.raises(FileKindError) as caught:
        rankine.load(path)
    assert caught.value.file == str(path)
    path.write_bytes(whole[:-1] + b"2")
    with pytest.raises(FileKindError):
        rankine.load(path, format="parquet")


def test_every_cut_is_refused(path):
    whole = path.read_bytes()
    for stop in range(0, len(whole), 37):
        path.write_bytes(whole[:stop])
        with pytest.raises((FileKindError, SchemaError, EmptyDataError)):
            rankine.load(path)


def test_a_column_renamed_in_one_place_is_refused(path):
    whole = path.read_bytes()
    starts = [k for k in range(len(whole)) if whole.startswith(b"label", k)]
    assert len(starts) == 4  # the schema and three row groups; Arrow's own copy is in base64
    for start in starts:
        path.write_bytes(whole[:start] + b"lebal" + whole[start + 5 :])
        with pytest.raises(FileKindError, match=r"row group \d holds '(label|lebal)', '(le|la)"):
            rankine.load(path)


def test_columns_inside_lists_and_structs_are_read(tmp_path):
    path = tmp_path / "x.parquet"
    table = pa.table(
        {
            "label": [0.0, 1.0],
            "pair": [{"a": 1, "b": {"c": [1.5], "d": "x"}}] * 2,
            "list": [[[1, 2], [3]], []],
            "map": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64())),
            "last.one": [1, 2],
        }
    )
    pq.write_table(table, path, row_group_size=1)
    data = rankine.load(path, query=None, features=["last.one"])
    assert data.X[:, 0].tolist() == [1, 2]


# ------------------------------------------------------------------ pages
class Raw:
    """Bytes as an open file."""

    def __init__(self, data):
        self._data = data

    def size(self):
        return len(self._data)

    def read_at(self, count, position):
        assert count >= 0
        return self._data[position : position + count]


def chunk(start, stop, path="a.b", value_bytes=8):
    return Chunk(tuple(path.split(".")), value_bytes, start, stop, 0, b"", b"")


def page_header(stored, expanded, n_values, kind=5, before=b""):
    inner = field(1, 5, zigzag(n_values)) + b"\0"
    return (
        field(1, 8, varint(len(before)) + before) + field(1, 5, zigzag(expanded))
        + field(1, 5, zigzag(stored)) + field(kind - 3, 12, inner) + b"\0"
    )  # fmt: skip


@pytest.mark.parametrize("long", [0, 2100, 2**20])
def test_pages_follow_one_another(long):
    heads = [page_header(10, 70, 3, before=b"x" * long), page_header(0, 0, 0, 8),
             page_header(5, 6, 7, 8)]  # fmt: skip
    data = b"PAR1" + heads[0] + b"p" * 10 + heads[1] + heads[2] + b"p" * 5
    end = len(data)
    pages = list(parquet_guard._read_pages(Raw(data + b"more"), chunk(4, end)))
    assert pages == [(10, 70, 3), (0, 0, 0), (5, 6, 7)]
    for start, stop in ((3, 50), (50, 40), (4, end + 1)):
        with pytest.raises(SchemaError, match=r"the pages of 'a\.b' are outside the file"):
            list(parquet_guard._read_pages(Raw(data), chunk(start, stop)))
    for stop in (5, len(heads[0]) + 3):  # cut, though there are more bytes
        with pytest.raises(SchemaError, match=r"a page of 'a\.b' has no valid header"):
            list(parquet_guard._read_pages(Raw(data), chunk(4, stop)))
    assert len(list(parquet_guard._read_pages(Raw(data), chunk(4, len(heads[0]) + 4)))) == 1


def test_invalid_page_headers_are_refused(monkeypatch):
    def read(data, start=0):
        return parquet_guard._read_header(Raw(data), start, chunk(start, len(data)))

    data = b"PAR1" + page_header(1, 1, 1, before=b"x" * 3000)
    assert read(data, 4) == ((1, 1, 1), len(data) - 4)
    plain = field(2, 5, zigzag(7)) + field(1, 5, zigzag(4)) + b"\0"  # that of a dictionary
    assert read(plain) == ((4, 7, 0), len(plain))
    monkeypatch.setattr(parquet_guard, "_MAX_HEADER_BYTES", 3000)
    with pytest.raises(SchemaError):
        read(data, 4)
    for bad in (
        b"\x1f\0",
        field(1, 5, zigzag(1)) + b"\0",
        b"\x15" * 3,
        field(2, 12, b"\0") + field(1, 5, zigzag(4)) + b"\0",  # a struct for a size
        plain[:-1] + field(2, 5, zigzag(4)) + b"\0",  # a number for a struct
        *(page_header(*sizes) for sizes in ((-1, 2, 3), (1, -2, 3), (1, 2, -3))),
    ):
        with pytest.raises(SchemaError):
            read(bad)


#: Columns: name, bytes a value, pages (stored, expanded, values); max_memory, max_ratio, values.
GROUPS = [
    ([("a", 8, [(1, 100, 9), (1, 30, 9)]), ("b", 8, [(1, 50, 9)])], [(600, 1, 0), (599, 1, None)]),
    ([("a.x", 8, [(1, 5, 9), (2, 6, 4)])], [(416, 35, 13), (415, 35, None), (416, 34, None)]),
    ([("a.x", 4, [(1, 5, 9)]), ("b.x", 8, [(1, 5, 2)])], [(208, 26, 9), (207, 26, None)]),
    ([("a.x", 4, [(1, 5, 2)]), ("b.x", 8, [(0, 5, 9)])], [(320, 80, 9), (320, 79, None)]),
    ([("a.x", 8, [(0, 0, 9)])], [(288, 72, 9), (288, 71, None)]),
    ([("a.x", 8, [(0, 0, 4)])], [(128, 1, 4)]),
    ([("other", 8, [(1, 10**9, 1)]), ("a", 8, [])], [(3, 1, 0)]),
    ([("other", 8, [(1, 10**9, 1)]), ("a.x", 8, [(1, 5, 4)])], [(128, 1, 4), (127, 1, None)]),
]


@pytest.mark.parametrize(("columns", "limits"), GROUPS)
def test_what_a_row_group_needs(monkeypatch, columns, limits):
    monkeypatch.setattr(parquet_guard, "RATIO_FREE", 32)
    pages = {name: [Page(*page) for page in held] for name, _, held in columns}
    monkeypatch.setattr(
        parquet_guard, "_read_pages", lambda _, chunk: iter(pages[".".join(chunk.path)])
    )
    chunks = [chunk(4, 4, name, value_bytes) for name, value_bytes, _ in columns]
    for n_rows, (memory, ratio, n_values) in itertools.product((1, 9), limits):
        options = ReadOptions(max_memory=memory, max_ratio=ratio)
        group = RowGroup(n_rows, chunks)
        if n_values is None:
            with pytest.raises(LimitError) as caught:
                check_row_group(None, group, ["a", "b"], options)
            assert caught.value.parameter in ("max_memory", "max_ratio")
        else:
            assert check_row_group(None, group, ["a", "b"], options) == n_values
    tight = ReadOptions(max_memory=1, max_ratio=1)
    assert check_row_group(None, RowGroup(0, chunks), ["a", "b"], tight) == 0


def test_a_flipped_bit_in_a_page_is_noticed(tmp_path):
    data = rankine.Dataset.from_arrays(np.random.default_rng(0).random((50, 2)), np.zeros(50))
    path = tmp_path / "x.parquet"
    data.save(path, compression="none")
    raw = bytearray(path.read_bytes())
    raw[raw.index(data.X[3, 1].tobytes()) + 2] ^= 1
    path.write_bytes(raw)
    with pytest.raises(rankine.core.errors.DataError, match="row group 0"):
        rankine.load(path)


def test_memory_limits(path):
    for read in (rankine.load, lambda *given, **options: list(rankine.scan(*given, **options))):
        with pytest.raises(LimitError) as caught:
            read(path, max_memory=1000)
        assert caught.value.parameter == "max_memory"


def test_columns_that_are_read_count_wherever_they_are(path):
    """Columns before them that are not read hide nothing."""
    table = pq.read_table(path)
    pq.write_table(table.add_column(0, "other", table["a"]), path)
    with pytest.raises(LimitError) as caught:
        list(rankine.scan(path, features=["a"], max_memory=1000))
    assert caught.value.parameter == "max_memory"


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_small_files_may_be_very_repetitive(tmp_path, suffix):
    rows, path = 50_000, tmp_path / f"rows.{suffix}"
    lists = pa.ListArray.from_arrays(np.arange(rows + 1, dtype=np.int32), np.ones(rows, int))
    content = {"label": np.ones(rows), "qid": np.ones(rows, int), "indices": lists}
    table = pa.table({**content, "values": lists.cast(pa.list_(pa.float64()))})
    if suffix == "parquet":
        pq.write_table(table, path)
    else:
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_file(path, table.schema, options=options) as writer:
            writer.write_table(table)
    assert path.stat().st_size < 6 * rows
    assert rankine.load(path, max_ratio=2).n_rows == rows
