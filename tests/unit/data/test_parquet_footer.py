import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankine
import rankine.distributed as rd
from rankine.core.errors import FileKindError, LimitError, SchemaError
from rankine.data.readers import parquet_guard, tables
from rankine.data.readers.parquet_guard import read_footer


@pytest.fixture
def path(tmp_path):
    rows = 300
    content = {
        "label": np.zeros(rows),
        "qid": np.arange(rows),
        "a": np.random.default_rng(0).random(rows),
    }
    pq.write_table(pa.table(content), tmp_path / "x.parquet", row_group_size=100)
    return tmp_path / "x.parquet"


def test_the_footer_agrees_with_pyarrow(path):
    metadata = pq.ParquetFile(path).metadata
    groups = read_footer(pa.OSFile(str(path)))
    assert [group.n_rows for group in groups] == [100, 100, 100]
    for k, group in enumerate(groups):
        for j, chunk in enumerate(group.chunks):
            column = metadata.row_group(k).column(j)
            assert ".".join(chunk.path) == column.path_in_schema
            assert chunk.stop - chunk.start == column.total_compressed_size
            assert chunk.width == 8


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
    found = np.concatenate([piece.load().X for piece in parts.pieces])
    np.testing.assert_array_equal(found, rankine.load(path).X)
