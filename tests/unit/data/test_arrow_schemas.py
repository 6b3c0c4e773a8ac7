"""Arrow's formats carry no checksum; what they say twice must agree."""

import struct
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import rankine
from rankine.core.errors import FileKindError, SchemaError
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


def test_columns_that_the_schema_has_lost_are_noticed(tmp_path, batch):
    """Arrow passes over them without a word."""
    path = tmp_path / "x.arrows"
    path.write_bytes(stream(batch.select(["label", "qid"]).schema, batch))
    with pa.ipc.open_stream(path) as reader:
        assert reader.read_all().num_columns == 2
    with pytest.raises(SchemaError, match="6 columns where the schema has 2"):
        rankine.load(path)


def test_nested_and_dictionary_columns_count_as_arrow_counts_them(tmp_path):
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
        with pytest.raises(FileKindError, match="at its start and the one at its end differ"):
            rankine.load(path)


@pytest.mark.parametrize("place", [-4, -1, 5, 8, 10**9])
def test_a_table_outside_its_message_is_no_table(place):
    with pytest.raises(ValueError, match="outside the message"):
        FlatTable(bytes(8), place)


@pytest.mark.parametrize(
    ("buffers", "stated", "expected"),
    [
        ([(0, 16), (16, 4)], 1000, 1000),
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
