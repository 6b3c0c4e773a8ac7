import itertools
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankine
import rankine.distributed as rd
from rankine.core.errors import FileKindError, LimitError, SchemaError
from rankine.data.options import ReadOptions
from rankine.data.readers import npz, parquet_guard, tables
from rankine.data.readers.parquet_guard import RowGroup, read_footer
from rankine.data.sources import find_sources
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


def test_the_footer_agrees_with_pyarrow(path):
    metadata = pq.ParquetFile(path).metadata
    groups = read_footer(pa.OSFile(str(path)))
    assert [group.n_rows for group in groups] == [100, 100, 100]
    bounded = read_footer(pa.OSFile(str(path)), bounds=True)
    for k, group in enumerate(groups):
        for j, chunk in enumerate(group.chunks):
            column = metadata.row_group(k).column(j)
            assert ".".join(chunk.path) == column.path_in_schema
            assert chunk.start == column.dictionary_page_offset < column.data_page_offset
            assert chunk.stop - chunk.start == column.total_compressed_size
            assert chunk.width == (4 if chunk.path == ("b",) else 8)
            assert chunk.items == column.num_values
            assert (chunk.least, chunk.most) == (b"", b"")
            least, most = bounded[k].chunks[j][-2:]
            kind = {"qid": "<i8", "b": "<f4"}.get(chunk.path[0], "<f8")
            found = [np.frombuffer(one, kind)[0] for one in (least, most)]
            assert found == [column.statistics.min, column.statistics.max]


@pytest.mark.parametrize("length", [0, -11, 2**28 + 1])
def test_a_footer_of_an_impossible_length_is_refused(path, length):
    whole = path.read_bytes()
    length = length % len(whole) if length < 0 else length
    path.write_bytes(whole[:-8] + length.to_bytes(4, "little") + b"PAR1")
    with pytest.raises(FileKindError, match="no footer at its end"):
        rankine.load(path)
    path.write_bytes(whole[:-1] + b"2")
    with pytest.raises(FileKindError, match="no footer at its end"):
        rankine.load(path, format="parquet")


def test_a_footer_of_one_byte_is_read_and_found_wanting(path):
    whole = path.read_bytes()
    path.write_bytes(whole[:-8] + (1).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(FileKindError, match="the Parquet footer is damaged"):
        rankine.load(path)


def test_what_a_chunk_leaves_out():
    said = {1: 5, 3: ["a", "b"], 7: 10, 9: 50}
    found = parquet_guard._chunk(said)
    assert found == (("a", "b"), 8, 50, 60, 0, b"", b"")
    for first, start in ((0, 50), (1, 1), (40, 40), (60, 50)):
        assert parquet_guard._chunk({**said, 11: first}).start == start
    assert parquet_guard._chunk({**said, 1: 4, 5: 7})[1:] == (4, 50, 60, 7, b"", b"")


def test_a_footer_above_the_limit_is_refused(path, monkeypatch):
    length = int.from_bytes(path.read_bytes()[-8:-4], "little")
    monkeypatch.setattr(parquet_guard, "_MAX_FOOTER", length)
    assert rankine.load(path).n_rows == 300
    monkeypatch.setattr(parquet_guard, "_MAX_FOOTER", length - 1)
    with pytest.raises(FileKindError, match="no footer at its end"):
        rankine.load(path)


def test_the_rows_of_all_groups_are_those_of_the_file(path, monkeypatch):
    read = parquet_guard.read_struct

    def more(*given):
        found, end = read(*given)
        return ({**found, 3: found[3] + 1} if 3 in found and 4 in found else found), end

    monkeypatch.setattr(parquet_guard, "read_struct", more)
    with pytest.raises(FileKindError, match="301 rows in all, but 300 in its row groups"):
        rankine.load(path)


def test_columns_of_a_schema_and_of_its_groups():
    leaves = parquet_guard._leaves
    assert leaves([{4: "root"}]) == []
    assert leaves([{4: "r", 5: 2}, {4: "a"}, {4: "b", 5: 1}, {4: "c"}]) == [("a",), ("b", "c")]
    for schema in ([{4: "r"}, {4: "a"}], [{4: "r", 5: 1}, {4: "a"}, {4: "b"}]):
        with pytest.raises(IndexError):
            leaves(schema)
    chunk = parquet_guard.Chunk(("a",), 8, 4, 4, 0, b"", b"")
    good, short = RowGroup(1, [chunk, chunk]), RowGroup(1, [chunk])
    parquet_guard._check_names([("a",)] * 2, [good, good])
    with pytest.raises(ValueError, match="row group 1 holds 1 columns, 2 in the schema"):
        parquet_guard._check_names([("a",)] * 2, [good, short])
    with pytest.raises(ValueError, match=r"row group 0 holds 'a', 'x\.y' in the schema"):
        parquet_guard._check_names([("a",), ("x", "y")], [good])


class Raw:
    """Bytes as an open file."""

    def __init__(self, data):
        self._data = data

    def size(self):
        return len(self._data)

    def read_at(self, count, place):
        assert count >= 0
        return self._data[place : place + count]


def page_header(stored, expanded, items, kind=5, before=b""):
    inner = field(1, 5, zigzag(items)) + b"\0"
    return (
        field(1, 8, varint(len(before)) + before) + field(1, 5, zigzag(expanded))
        + field(1, 5, zigzag(stored)) + field(kind - 3, 12, inner) + b"\0"
    )  # fmt: skip


@pytest.mark.parametrize("long", [0, 2100, 2**20])
def test_pages_are_found_one_after_the_other(long):
    heads = [page_header(10, 70, 3, before=b"x" * long), page_header(0, 0, 0, 8),
             page_header(5, 6, 7, 8)]  # fmt: skip
    data = b"PAR1" + heads[0] + b"p" * 10 + heads[1] + heads[2] + b"p" * 5
    chunk = parquet_guard.Chunk(("a", "b"), 8, 4, len(data), 0, b"", b"")
    pages = list(parquet_guard._pages(Raw(data + b"more"), chunk))
    assert pages == [(10, 70, 3), (0, 0, 0), (5, 6, 7)]
    for start, stop in ((3, 50), (50, 40), (4, len(data) + 1)):
        with pytest.raises(SchemaError, match=r"the pages of 'a\.b' lie outside the file"):
            list(parquet_guard._pages(Raw(data), chunk._replace(start=start, stop=stop)))
    for stop in (5, len(heads[0]) + 3):  # cut, though there are more bytes
        with pytest.raises(SchemaError, match=r"a page of 'a\.b' has no valid header"):
            list(parquet_guard._pages(Raw(data), chunk._replace(stop=stop)))
    assert len(list(parquet_guard._pages(Raw(data), chunk._replace(stop=len(heads[0]) + 4)))) == 1


def test_headers_that_are_none(monkeypatch):
    data = b"PAR1" + page_header(1, 1, 1, before=b"x" * 3000)
    assert parquet_guard._header(Raw(data), 4, len(data)) == ((1, 1, 1), len(data) - 4)
    monkeypatch.setattr(parquet_guard, "_MAX_HEADER_BYTES", 3000)
    assert parquet_guard._header(Raw(data), 4, len(data)) is None
    for bad in (b"\x1f\0", field(1, 5, zigzag(1)) + b"\0", b"\x15" * 3):
        assert parquet_guard._header(Raw(bad), 0, len(bad)) is None
    plain = field(2, 5, zigzag(7)) + field(1, 5, zigzag(4)) + b"\0"  # that of a dictionary
    assert parquet_guard._header(Raw(plain), 0, len(plain)) == ((4, 7, 0), len(plain))


@pytest.mark.parametrize("sizes", [(-1, 2, 3), (1, -2, 3), (1, 2, -3)])
def test_sizes_of_pages_are_not_negative(sizes):
    data = b"PAR1" + page_header(*sizes) + b"p"
    chunk = parquet_guard.Chunk(("a",), 8, 4, len(data), 0, b"", b"")
    with pytest.raises(SchemaError, match="a page of 'a' has no valid header"):
        list(parquet_guard._pages(Raw(data), chunk))


#: Columns: name, bytes a value, pages (stored, expanded, items); max_memory, max_ratio, items.
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
    pages = {name: [parquet_guard.Page(*page) for page in found] for name, _, found in columns}
    monkeypatch.setattr(parquet_guard, "_pages", lambda _, chunk: iter(pages[".".join(chunk.path)]))
    chunks = [
        parquet_guard.Chunk(tuple(name.split(".")), width, 4, 4, 0, b"", b"")
        for name, width, _ in columns
    ]
    for n_rows, (memory, ratio, items) in itertools.product((1, 9), limits):
        options = ReadOptions(max_memory=memory, max_ratio=ratio)
        group = RowGroup(n_rows, chunks)
        if items is None:
            with pytest.raises(LimitError, match=r"a row group (needs|expands)"):
                parquet_guard.check_row_group(None, group, ["a", "b"], options)
        else:
            assert parquet_guard.check_row_group(None, group, ["a", "b"], options) == items
    tight = ReadOptions(max_memory=1, max_ratio=1)
    assert parquet_guard.check_row_group(None, RowGroup(0, chunks), ["a", "b"], tight) == 0


@pytest.mark.parametrize(
    ("items", "n_rows", "block_rows", "rows"),
    [(1000, 10, 99, 1), (55, 10, 99, 16), (60, 10, 99, 16), (0, 10, 999, 100), (0, 10, 7, 7),
     (10**6, 10, 99, 1), (10, 1, 99, 10), (10, 0, 99, 10)],
)  # fmt: skip
def test_batches_hold_fewer_rows_where_lists_are_long(
    monkeypatch, path, items, n_rows, block_rows, rows
):
    monkeypatch.setattr(tables, "BATCH_ITEMS", 100)
    monkeypatch.setattr(tables, "check_row_group", lambda *_: items)
    (source,) = find_sources(path)
    with tables.open_parquet(source, ReadOptions(block_rows=block_rows)) as table:
        assert table._batch_rows(RowGroup(n_rows, []), []) == rows


def test_only_row_groups_of_a_span_are_read(path, monkeypatch):
    (source,), visited, check = find_sources(path), [], tables.check_row_group

    def noted(raw, group, columns, options):
        visited.append(group.chunks[0].start)
        return check(raw, group, columns, options)

    monkeypatch.setattr(tables, "check_row_group", noted)
    starts = [group.chunks[0].start for group in read_footer(pa.OSFile(str(path)))]
    for span, groups in (((100, 200), [1]), ((99, 101), [0, 1]), ((150, 300), [1, 2])):
        visited.clear()
        data = tables.read(source, ReadOptions(block_rows=30), span)
        assert data.qid.tolist() == list(range(*span))
        assert visited == [starts[k] for k in groups]


def test_a_span_of_no_rows_is_a_dataset_of_none(path):
    (source,) = find_sources(path)
    for dense in (None, False):
        none = tables.read(source, ReadOptions(dense=dense), (300, 300))
        assert (none.X.shape, none.y.shape, none.qid.shape) == ((0, 0), (0,), (0,))


def test_rows_of_a_span_keep_their_numbers(path):
    table = pq.read_table(path)
    values = table["a"].to_numpy().copy()
    values[150] = np.inf
    pq.write_table(table.set_column(2, "a", pa.array(values)), path, row_group_size=100)
    (source,) = find_sources(path)
    with pytest.raises(SchemaError, match=r"\(row group 1, row 51 of it\)") as caught:
        tables.read(source, ReadOptions(block_rows=7), (120, 180))
    assert caught.value.line == 151


def test_a_row_group_of_other_length_than_described_is_refused(path):
    (source,) = find_sources(path)
    with tables.open_parquet(source, ReadOptions()) as table:
        table.groups[1] = table.groups[1]._replace(n_rows=101)
        with pytest.raises(SchemaError, match=r"row group 1 holds 100 rows but its .* says 101"):
            list(table.batches(["qid"]))


def test_a_matrix_may_take_all_memory_but_no_more():
    plan = SimpleNamespace(features=("a", "b"), dtype=np.dtype("f4"))
    table = SimpleNamespace(plan=plan)
    assert tables._room(table, ReadOptions(max_memory=80), 10).shape == (10, 2)
    with pytest.raises(LimitError, match="10 rows of 2 features need 80 bytes"):
        tables._room(table, ReadOptions(max_memory=79), 10)


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "npz"])
def test_small_files_may_be_very_repetitive(tmp_path, suffix):
    rows, path = 50_000, tmp_path / f"rows.{suffix}"
    if suffix == "npz":
        np.savez_compressed(path, X=np.ones((rows, 4)), y=np.ones(rows), qid=np.ones(rows, int))
    else:
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


@pytest.mark.parametrize("rows", [1, 300])
@pytest.mark.parametrize("suffix", ["parquet", "arrow", "arrows", "npz"])
def test_progress_ends_with_the_file(path, monkeypatch, suffix, rows):
    target, told = path.with_suffix(f".{suffix}"), []
    rankine.load(path).take(np.arange(rows)).save(target)
    for module in (tables, npz):
        meter = mock.MagicMock()
        meter.return_value.__enter__.return_value.update = told.append
        monkeypatch.setattr(module, "Meter", meter)
    assert rankine.load(target, block_rows=40).n_rows == rows
    assert told == sorted(told)
    size = target.stat().st_size
    assert told[-1] == (size if suffix != "arrows" else size - 8)  # its end mark is not read yet


def test_every_cut_is_refused(path):
    whole = path.read_bytes()
    for stop in range(0, len(whole), 37):
        path.write_bytes(whole[:stop])
        with pytest.raises((FileKindError, SchemaError, rankine.core.errors.EmptyDataError)):
            rankine.load(path)


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
    with pytest.raises(LimitError, match="max_memory"):
        rankine.load(path, max_memory=1000)
    with pytest.raises(LimitError, match="quarter of max_memory"):
        list(rankine.scan(path, max_memory=1000))


def test_row_groups_end_with_queries(tmp_path):
    qid = np.repeat(np.arange(40), np.random.default_rng(0).integers(1, 9, 40))
    data = rankine.Dataset.from_arrays(np.ones((len(qid), 1)), np.zeros(len(qid)), qid)
    path = tmp_path / "x.parquet"
    data.save(path, row_group_rows=10)
    metadata = pq.ParquetFile(path).metadata
    assert metadata.num_row_groups > 5
    place = metadata.schema.names.index("qid")
    last = -1
    for k in range(metadata.num_row_groups):
        statistics = metadata.row_group(k).column(place).statistics
        assert statistics.min == last + 1
        last = statistics.max
    assert last == 39


def test_names_inside_lists_and_structs_agree_with_pyarrow(tmp_path):
    path = tmp_path / "x.parquet"
    table = pa.table(
        {
            "label": [0.0, 1.0],
            "pair": [{"a": 1, "b": {"c": [1.5], "d": "x"}}] * 2,
            "list": [[[1, 2], [3]], []],
            "map": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64())),
            "last": [1, 2],
        }
    )
    pq.write_table(table, path, row_group_size=1)
    schema = pq.ParquetFile(path).schema
    paths = [schema.column(k).path for k in range(len(schema))]
    for group in read_footer(pa.OSFile(str(path))):
        assert [".".join(chunk.path) for chunk in group.chunks] == paths


def test_a_column_renamed_in_one_place_is_refused(path):
    whole = path.read_bytes()
    names = [at for at in range(len(whole)) if whole.startswith(b"label", at)]
    assert len(names) == 4  # the schema and three row groups; Arrow's own copy is in base64
    for at in names:
        path.write_bytes(whole[:at] + b"lebal" + whole[at + 5 :])
        with pytest.raises(FileKindError, match=r"row group \d holds '(label|lebal)', '(le|la)"):
            rankine.load(path)


def test_columns_that_are_read_count_wherever_they_stand(path):
    """Columns before them that are not read hide nothing."""
    table = pq.read_table(path)
    pq.write_table(table.add_column(0, "other", table["a"]), path)
    with pytest.raises(LimitError, match="quarter of max_memory"):
        list(rankine.scan(path, features=["a"], max_memory=1000))


def test_a_page_of_negative_size_is_damage(path, monkeypatch):
    page = parquet_guard.Page(-5, 10, 3)
    monkeypatch.setattr(parquet_guard, "_header", lambda *_: (page, 20))
    with pytest.raises(SchemaError, match="no valid header"):
        rankine.load(path)


def test_rows_before_a_range_are_passed_over(path, monkeypatch):
    monkeypatch.setattr(tables.ParquetRows, "_batch_rows", lambda *_: 7)
    parts = rd.scan(path, partition_bytes=1_000)
    assert parts.n_partitions > 3
    found = np.concatenate([partition.load().X for partition in parts.partitions])
    np.testing.assert_array_equal(found, rankine.load(path).X)
