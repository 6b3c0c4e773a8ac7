"""Arrow's formats carry no checksum; what they say twice must agree."""

import struct
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import rankine
from rankine.core.errors import FileKindError, LimitError, SchemaError
from rankine.data.options import ReadOptions
from rankine.data.readers import arrow_guard
from rankine.data.readers.arrow_guard import FlatTable

END = b"\xff\xff\xff\xff\0\0\0\0"


@pytest.fixture
def batch():
    rows = 12
    content = {
        "label": np.zeros(rows),
        "qid": np.arange(rows) // 4,
        "indices": pa.array([[1, 3]] * rows, pa.list_(pa.int32())),
        "values": pa.array([[0.5, 2.0]] * rows),
    }
    return pa.RecordBatch.from_pydict(content)


def stream(schema, batch):
    return schema.serialize().to_pybytes() + batch.serialize().to_pybytes() + END


def test_a_stream_is_read(tmp_path, batch):
    path = tmp_path / "x.arrows"
    path.write_bytes(stream(batch.schema, batch))
    assert rankine.load(path).X.shape == (12, 3)


def test_nested_and_dictionary_columns_may_be_beside_the_features(tmp_path):
    rows = 3
    content = {
        "label": np.zeros(rows),
        "qid": pa.array(["a", "a", "b"]).dictionary_encode(),
        "f": np.ones(rows),
        "more": pa.array([{"x": 1, "y": [1.0]}] * rows),
        "map": pa.array([[("k", 1)]] * rows, pa.map_(pa.string(), pa.int64())),
        "fixed": pa.array([[1, 2]] * rows, pa.list_(pa.int64(), 2)),
        "nothing": pa.nulls(rows),
        "large": pa.array([[1]] * rows, pa.large_list(pa.int64())),
        "either": pa.UnionArray.from_sparse(
            pa.array([0] * rows, pa.int8()), [pa.array([1] * rows), pa.array(["x"] * rows)]
        ),
    }
    table = pa.table(content)
    for suffix, kind in (("arrow", pa.ipc.new_file), ("arrows", pa.ipc.new_stream)):
        path = tmp_path / f"x.{suffix}"
        with kind(path, table.schema) as writer:
            writer.write_table(table)
        assert rankine.load(path, features=["f"]).X.shape == (rows, 1)


def test_schemas_at_both_ends_must_agree(tmp_path, batch):
    path = tmp_path / "x.arrow"
    with pa.ipc.new_file(path, batch.schema) as writer:
        writer.write(batch)
    whole = path.read_bytes()
    assert rankine.load(path).X.shape == (12, 3)
    for at in (whole.index(b"values"), whole.rindex(b"values")):
        path.write_bytes(whole[:at] + b"volues" + whole[at + 6 :])
        with pytest.raises(FileKindError):
            rankine.load(path)


@pytest.mark.parametrize("place", [-4, -1, 5, 8, 10**9])
def test_a_table_outside_its_message_is_no_table(place):
    with pytest.raises(ValueError, match="outside the message"):
        FlatTable(bytes(8), place)


def test_a_table_at_the_start_of_its_message_is_one():
    assert FlatTable(bytes(8), 0).number(0, "I") == 0


def test_a_table_at_the_end_of_its_message_is_one():
    assert FlatTable(bytes(8), 4).number(0, "I") == 0
    assert FlatTable(struct.pack("<HHi", 4, 8, 4), 4).child(0) is None
    with pytest.raises(ValueError, match="outside the message"):
        FlatTable(struct.pack("<HHi", 4, 8, 5), 4)


def flat_table(*slots, content=b""):
    """A flatbuffer of a table with these places of fields, its content after the table's head."""
    fields = struct.pack(f"<{len(slots)}H", *slots)
    size = 4 + len(fields)
    return struct.pack("<IHH", 4 + size, size, 4 + len(content)) + fields + struct.pack(
        "<i", size
    ) + content  # fmt: skip


def test_fields_of_a_flatbuffer_are_found():
    items = struct.pack("<I", 2) + struct.pack("<qq", 5, -6) + struct.pack("<qq", 7, 8)
    data = flat_table(4, 0, 8, content=struct.pack("<iI", -9, 4) + items)
    table = FlatTable.root(data)
    assert table.number(0, "i") == -9
    assert [table.number(field, "i") for field in (1, 3, 4)] == [0, 0, 0]
    assert table.structs(2, "qq") == [(5, -6), (7, 8)]
    assert table.structs(1, "qq") == table.structs(3, "qq") == []
    assert table.child(1) is table.child(3) is None
    with pytest.raises(ValueError, match="outside the message"):
        FlatTable.root(data[:-1]).structs(2, "qq")
    inner = flat_table(4, content=struct.pack("<I", 77))
    root = struct.unpack("<I", inner[:4])[0]
    outer = FlatTable.root(flat_table(4, content=struct.pack("<I", 4 + root) + inner))
    assert outer.child(0).number(0, "I") == 77


def write(path, table, **options):
    kind = pa.ipc.new_file if path.suffix == ".arrow" else pa.ipc.new_stream
    with kind(path, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, 40)


@pytest.fixture
def coded_table():
    texts = pa.array([f"a rather long text, number {k % 7}" for k in range(100)])
    return pa.table(
        {"label": np.zeros(100), "qid": texts.dictionary_encode(), "f": np.arange(100) % 3}
    )


@pytest.mark.parametrize(
    ("suffix", "options"),
    [("arrow", {}), ("arrow", {"use_legacy_format": True}), ("arrow", {"compression": "zstd"}),
     ("arrows", {}), ("arrows", {"compression": "zstd"})],
)  # fmt: skip
def test_every_message_is_checked_by_what_its_buffers_hold(
    tmp_path, monkeypatch, coded_table, suffix, options
):
    path = tmp_path / f"x.{suffix}"
    write(path, coded_table, **options)
    found, count = [], arrow_guard._expanded_bytes

    def noted(message, held, read):
        found.append((message.number(1, "B"), count(message, held, read)))
        return found[-1][1]

    monkeypatch.setattr(arrow_guard, "_expanded_bytes", noted)
    data = rankine.load(path, features=["f"])
    assert data.X[:, 0].tolist() == (np.arange(100) % 3).tolist()
    assert data.qid.tolist() == coded_table["qid"].to_pylist()
    sizes = [4 * 8 + 7 * 28, 40 * 20, 40 * 20, 20 * 20] if "compression" in options else [0] * 4
    kinds = [arrow_guard._DICTIONARY] + [arrow_guard._BATCH] * 3
    assert [one for one in found if one[0] != 1] == list(zip(kinds, sizes, strict=True))
    assert all(size == 0 for kind, size in found if kind == 1)


@pytest.mark.parametrize(
    ("held", "memory", "limit"), [(10, None, 100), (50, None, 250), (50, 301, 150), (1, 199, 99)]
)
def test_a_message_may_expand_so_far(monkeypatch, held, memory, limit):
    monkeypatch.setattr(arrow_guard, "RATIO_FREE", 100)
    options = ReadOptions(max_ratio=5, max_memory=memory)

    def check(expanded):
        monkeypatch.setattr(arrow_guard, "_expanded_bytes", lambda *_: expanded)
        arrow_guard.check_message(bytes(8), held, None, options, "message 3")

    check(limit)
    with pytest.raises(LimitError, match=f"message 3 expands from {held} to {limit + 1} bytes"):
        check(limit + 1)


def changed(path, place, piece):
    """Put other bytes at a place of a file."""
    whole = path.read_bytes()
    place %= len(whole)
    path.write_bytes(whole[:place] + piece + whole[place + len(piece) :])


def test_the_index_at_the_end_must_be_one(tmp_path, coded_table):
    path = tmp_path / "x.arrow"
    write(path, coded_table)
    whole = path.read_bytes()
    for length in (0, -1, len(whole) - 17):
        changed(path, -10, struct.pack("<i", length))
        with pytest.raises(FileKindError):
            rankine.load(path, features=["f"])
    path.write_bytes(whole[:-1] + b"2")
    with pytest.raises(FileKindError):
        rankine.load(path, features=["f"])
    path.write_bytes(whole)
    changed(path, -10, struct.pack("<i", 1))
    with pytest.raises(FileKindError):
        rankine.load(path, features=["f"])


def test_the_first_message_must_lie_in_the_file(tmp_path, coded_table):
    path = tmp_path / "x.arrow"
    write(path, coded_table)
    for length in (0, -1, path.stat().st_size - 15):
        changed(path, 12, struct.pack("<i", length))
        with pytest.raises(FileKindError):
            rankine.load(path, features=["f"])
    changed(path, 12, struct.pack("<i", 1))
    with pytest.raises(FileKindError):
        rankine.load(path, features=["f"])


@pytest.mark.parametrize("suffix", ["arrow", "arrows"])
def test_batches_without_rows_are_passed_over(tmp_path, suffix):
    path = tmp_path / f"x.{suffix}"
    numbers = {"label": np.zeros(12), "qid": np.arange(12) // 4, "f": np.ones(12)}
    batch = pa.RecordBatch.from_pydict(numbers)  # of no rows it has no body
    kind = pa.ipc.new_file if suffix == "arrow" else pa.ipc.new_stream
    with kind(path, batch.schema) as writer:
        for one in (batch[:0], batch[:5], batch[:0], batch[5:], batch[:0]):
            writer.write_batch(one)
    assert rankine.load(path).qid.tolist() == batch["qid"].to_pylist()


def test_batches_must_lie_in_the_file(tmp_path, coded_table):
    path = tmp_path / "x.arrow"
    write(path, coded_table)
    whole = path.read_bytes()
    (length,) = struct.unpack("<i", whole[-10:-6])
    footer = FlatTable.root(whole[-10 - length : -10])
    place, head, body = footer.structs(3, "qi4xq")[1]
    at = whole.rindex(struct.pack("<qi4xq", place, head, body))
    rest = len(whole) - place - head
    for block, reason in (
        ((-8, head, body), "record batch 2 of the index is outside the file"),
        ((place, head, -8), "record batch 2 of the index is outside the file"),
        ((place, 7, body), "record batch 2 of the index is outside the file"),
        ((place, head, rest + 1), "record batch 2 of the index is outside the file"),
        ((place, 8, body), "record batch 2 of the index is damaged"),
    ):
        path.write_bytes(whole)
        changed(path, at, struct.pack("<qi4xq", *block))
        with pytest.raises(SchemaError, match=reason):
            rankine.load(path, features=["f"])
    changed(path, at, struct.pack("<qi4xq", place, head, rest))
    with pa.OSFile(str(path)) as raw:
        arrow_guard.check_file(raw, ReadOptions())


def test_extension_types_count_by_what_they_store(tmp_path, coded_table):
    path = tmp_path / "x.arrow"
    write(path, coded_table.append_column("u", pa.array([b"0" * 16] * 100, pa.uuid())))
    assert rankine.load(path, features=["f"]).n_rows == 100


def test_a_stream_counts_its_messages_and_its_bytes(tmp_path, batch):
    path = tmp_path / "x.arrows"
    path.write_bytes(stream(batch.schema, batch))
    with path.open("rb") as file:
        guarded = arrow_guard.GuardedStream(file, ReadOptions())
        assert guarded.readable()
        assert guarded._file.readable()
        assert len(guarded.read()) > 500
        assert guarded.consumed == path.stat().st_size
    path.write_bytes(stream(batch.schema, batch)[:-8])
    with pytest.raises(SchemaError, match="end after message 2 without an end mark"):
        rankine.load(path)
    path.write_bytes(batch.serialize().to_pybytes() + END)
    with pytest.raises(FileKindError):
        rankine.load(path, format="arrow")


def test_only_batches_expand():
    batch = SimpleNamespace(child=lambda _: "compressed", structs=lambda *_: [(0, 16)])
    for kind, content in ((1, batch), (arrow_guard._BATCH, None), (arrow_guard._DICTIONARY, None)):
        message = SimpleNamespace(number=lambda *_, kind=kind: kind, child=lambda _, c=content: c)
        assert arrow_guard._expanded_bytes(message, 100, lambda *_: bytes(8)) == 0


@pytest.mark.parametrize(
    ("buffers", "stated", "expected"),
    [
        ([(16, 4), (0, 16)], 1000, 1000),
        ([(16, 7), (0, 8), (24, 0)], 1000, 1000),
        ([(0, 16), (16, 24)], -1, 40),
        ([(0, 16)], -2, "negative"),
        ([(-1, 16)], 5, "outside"),
        ([(93, 16)], 5, "outside"),
        ([(92, 16)], 5, 5),
    ],
)
def test_the_lengths_that_compressed_buffers_state_are_added_up(buffers, stated, expected):
    batch = SimpleNamespace(child=lambda _: "compressed", structs=lambda *_: buffers)
    message = SimpleNamespace(number=lambda *_: arrow_guard._BATCH, child=lambda _: batch)

    def total():
        return arrow_guard._expanded_bytes(message, 100, lambda *_: struct.pack("<q", stated))

    if isinstance(expected, str):
        with pytest.raises(ValueError, match=expected):
            total()
    else:
        assert total() == expected
