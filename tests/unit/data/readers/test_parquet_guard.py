"""Page headers of Parquet are read before Arrow decodes them, and the footer must agree with itself."""

import itertools
import random
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankine
from rankine.core.errors import EmptyDataError, FileKindError, LimitError, SchemaError
from rankine.data.options import ReadOptions
from rankine.data.readers import parquet_guard
from rankine.data.readers.parquet_guard import Page, check_footer, check_row_group, read_struct
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
    assert read_struct(data, 0) == ({1: number}, len(data))


def test_fields_of_every_type():
    inner = field(1, 5, zigzag(7)) + b"\0"
    data = (
        field(1, 1)  # a boolean is its own value
        + field(1, 2)
        + field(1, 3, b"\x05")
        + field(2, 8, varint(200) + b"x" * 200)
        + field(1, 12, inner)
        + b"\x05" + zigzag(100) + zigzag(42)  # the long form of a field number
        + field(1, 12, field(1, 8, varint(3) + b"abc") + field(1, 12, inner) + b"\0")
        + b"\0"
    )  # fmt: skip
    fields, position = read_struct(data, 0)
    assert fields == {
        1: True, 2: False, 3: 5, 5: b"x" * 200, 6: {1: 7}, 100: 42, 101: {1: b"abc", 2: {1: 7}},
    }  # fmt: skip
    assert position == len(data)


def random_struct(rng, depth=0):
    """A struct as it is stored, and its fields."""
    data, fields, number = b"", {}, 0
    for _ in range(rng.randrange(5)):
        step = rng.choice([1, 2, 15, 40])
        kind = rng.choice([1, 2, 3, 4, 5, 6, 8, *([12] if depth < 3 else [])])
        number += step
        if kind in (1, 2):
            content, value = b"", kind == 1
        elif kind == 3:
            content = rng.randbytes(1)
            value = content[0]
        elif kind == 8:
            value = rng.randbytes(rng.choice([0, 1, 127, 128, 200]))
            content = varint(len(value)) + value
        elif kind == 12:
            content, value = random_struct(rng, depth + 1)
        else:
            value = rng.choice([0, -1, 63, -64, 64, -300, 2**40])
            content = zigzag(value)
        data += field(step, kind) if step < 16 else bytes([kind]) + zigzag(number)
        data += content
        fields[number] = value
    return data + b"\0", fields


def test_any_struct_is_read_to_its_end():
    rng = random.Random(0)
    for _ in range(300):
        data, fields = random_struct(rng)
        assert read_struct(b"\x77" + data + b"\x15\x02", 1) == (fields, len(data) + 1)


def test_structs_are_nested_up_to_a_limit():
    for count in (12, 13, 5000):
        data = field(1, 12) * count + b"\0" * (count + 1)
        if count == 12:
            assert read_struct(data, 0)[1] == len(data)
        else:
            with pytest.raises(ValueError, match="nested too deeply"):
                read_struct(data, 0)


def test_data_that_end_too_early():
    data = field(1, 12, field(1, 8, varint(3) + b"abc") + b"\0") + field(1, 6, zigzag(300)) + b"\0"
    for stop in range(len(data)):
        with pytest.raises(IndexError):
            read_struct(data[:stop], 0)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (field(1, 15, b"\0") + b"\0", ValueError),  # an unknown type
        (field(1, 9, b"\x05") + b"\0", ValueError),  # a list, which page headers do not hold
        (field(1, 6, b"\xff" * 12) + b"\0", ValueError),  # a number of more than 64 bits
        (field(1, 8, varint(2**40)) + b"\0", IndexError),  # a text longer than the data
        (field(1, 8, varint(2) + b"a"), IndexError),
    ],
)
def test_malformed_structs(data, error):
    with pytest.raises(error):
        read_struct(data, 0)


# ------------------------------------------------------------------ the footer
def fake_footer(n_rows, group_rows, schema=("a",), stored=None):
    """What the checks read of pyarrow's view of a footer."""
    groups = [
        SimpleNamespace(
            num_rows=rows,
            num_columns=len(names),
            column=lambda j, names=names: SimpleNamespace(path_in_schema=names[j]),
        )
        for rows, names in zip(group_rows, stored or [schema] * len(group_rows), strict=True)
    ]
    return SimpleNamespace(
        num_rows=n_rows,
        num_row_groups=len(groups),
        row_group=groups.__getitem__,
        num_columns=len(schema),
        schema=SimpleNamespace(column=lambda j: SimpleNamespace(path=schema[j])),
    )


def test_a_footer_must_agree_with_itself():
    check_footer(fake_footer(0, []))
    check_footer(fake_footer(5, [2, 3]))
    for footer, reason in (
        (fake_footer(5, [2, 2]), "5 rows in all, but 4 in its row groups"),
        (fake_footer(1, [2, -1]), "rows in all"),
        (fake_footer(2, [1, 1], "ab", ["ab", "a"]), "row group 1 holds 1 columns, 2 in the schema"),
        (fake_footer(2, [1, 1], "ab", ["ab", "ax"]), "row group 1 holds 'x', 'b' in the schema"),
    ):
        with pytest.raises(FileKindError, match=reason):
            check_footer(footer)


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


def chunk(start, stop, path="a.b", dictionary=None, physical_type="INT64"):
    return SimpleNamespace(
        path_in_schema=path,
        data_page_offset=start,
        dictionary_page_offset=dictionary,
        total_compressed_size=stop - (dictionary or start),
        physical_type=physical_type,
    )


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
    later = 4 + len(heads[0]) + 10
    pages = list(parquet_guard._read_pages(Raw(data), chunk(later, end, dictionary=4)))
    assert len(pages) == 3
    for start, stop in ((3, 50), (50, 40), (4, end + 1)):
        with pytest.raises(SchemaError, match=r"the pages of 'a\.b' are outside the file"):
            list(parquet_guard._read_pages(Raw(data), chunk(start, stop)))
    for stop in (5, len(heads[0]) + 3):  # cut, though there are more bytes
        with pytest.raises(SchemaError, match=r"a page of 'a\.b' has no valid header"):
            list(parquet_guard._read_pages(Raw(data), chunk(4, stop)))
    assert len(list(parquet_guard._read_pages(Raw(data), chunk(4, len(heads[0]) + 4)))) == 1


def test_invalid_page_headers_are_refused(monkeypatch):
    def read(data, start=0):
        return parquet_guard._read_header(Raw(data), start, len(data), "a")

    data = b"PAR1" + page_header(1, 1, 1, before=b"x" * 3000)
    assert read(data, 4) == ((1, 1, 1), len(data) - 4)
    plain = field(2, 5, zigzag(7)) + field(1, 5, zigzag(4)) + b"\0"  # that of a dictionary
    assert read(plain) == ((4, 7, 0), len(plain))
    monkeypatch.setattr(parquet_guard, "_MAX_HEADER_BYTES", 3000)
    with pytest.raises(SchemaError, match="no valid header"):
        read(data, 4)
    for bad in (
        b"\x1f\0",
        field(1, 5, zigzag(1)) + b"\0",
        b"\x15" * 3,
        field(2, 12, b"\0") + field(1, 5, zigzag(4)) + b"\0",  # a struct for a size
        plain[:-1] + field(2, 5, zigzag(4)) + b"\0",  # a number for a struct
        *(page_header(*sizes) for sizes in ((-1, 2, 3), (1, -2, 3), (1, 2, -3))),
    ):
        with pytest.raises(SchemaError, match="no valid header"):
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
        parquet_guard, "_read_pages", lambda _, column: iter(pages[column.path_in_schema])
    )
    chunks = [
        chunk(4, 4, name, physical_type="DOUBLE" if width == 8 else "FLOAT")
        for name, width, _ in columns
    ]

    def footer(n_rows):
        group = SimpleNamespace(num_rows=n_rows, num_columns=len(chunks), column=chunks.__getitem__)
        levels = [int("." in name) for name, _, _ in columns]
        schema = SimpleNamespace(column=lambda j: SimpleNamespace(max_repetition_level=levels[j]))
        return SimpleNamespace(row_group=lambda _: group, schema=schema)

    for n_rows, (memory, ratio, n_values) in itertools.product((1, 9), limits):
        options = ReadOptions(max_memory=memory, max_ratio=ratio)
        if n_values is None:
            with pytest.raises(LimitError) as caught:
                check_row_group(None, footer(n_rows), 0, ["a", "b"], options)
            assert caught.value.parameter in ("max_memory", "max_ratio")
        else:
            assert check_row_group(None, footer(n_rows), 0, ["a", "b"], options) == n_values
    tight = ReadOptions(max_memory=1, max_ratio=1)
    assert check_row_group(None, footer(0), 0, ["a", "b"], tight) == 0


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
    with pytest.raises(LimitError, match="quarter of the memory limit"):
        list(rankine.scan(path, features=["a"], max_memory=1000))


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
