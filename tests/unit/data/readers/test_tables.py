"""Tables are read batch by batch: whole, in spans, and within memory."""

from types import SimpleNamespace
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankine
import rankine.distributed as rd
from error_checks import raises_at
from rankine.core.errors import LimitError, SchemaError
from rankine.data.options import ReadOptions
from rankine.data.readers import tables
from rankine.data.readers.parquet_guard import RowGroup, read_footer
from rankine.data.sources import find_sources


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


def test_bounds_of_ids_are_known_where_the_footer_states_both(path, tmp_path):
    (source,) = find_sources(path)
    with tables.open_parquet(source, ReadOptions()) as table:
        found = [table.value_bounds(group, "qid") for group in table.groups]
        assert found == [(0, 99), (100, 199), (200, 299)]
        assert table.value_bounds(table.groups[0], "absent") is None
        group, qid = table.groups[0], table.groups[0].chunks[1]
        for least, most, bounds in (
            (b"\x02", b"\x05", (2, 5)),
            (b"\xfe\xff", b"\x01\x00", (-2, 1)),
            (b"\x07", b"\x07", (7, 7)),
            (b"\x05", b"\x02", None),
            (b"", b"\x05", None),
            (b"\x02", b"", None),
        ):
            chunk = qid._replace(minimum=least, maximum=most)
            assert table.value_bounds(group._replace(chunks=[chunk]), "qid") == bounds
    content = {"label": np.zeros(3), "qid": ["x", "a", "bb"], "f": np.ones(3)}
    for statistics, bounds in ((True, (b"a", b"x")), (False, None)):
        target = tmp_path / f"{statistics}.parquet"
        pq.write_table(pa.table(content), target, write_statistics=statistics)
        (source,) = find_sources(target)
        with tables.open_parquet(source, ReadOptions()) as table:
            assert table.value_bounds(table.groups[0], "qid") == bounds


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

    def record(raw, group, columns, options):
        visited.append(group.chunks[0].start)
        return check(raw, group, columns, options)

    monkeypatch.setattr(tables, "check_row_group", record)
    starts = [group.chunks[0].start for group in read_footer(pa.OSFile(str(path)))]
    for span, groups in (((100, 200), [1]), ((99, 101), [0, 1]), ((150, 300), [1, 2])):
        visited.clear()
        data = tables.read(source, ReadOptions(block_rows=30), span)
        assert data.qid.tolist() == list(range(*span))
        assert visited == [starts[k] for k in groups]


def test_a_span_without_rows_is_an_empty_dataset(path):
    (source,) = find_sources(path)
    for dense in (None, False):
        empty = tables.read(source, ReadOptions(dense=dense), (300, 300))
        assert (empty.X.shape, empty.y.shape, empty.qid.shape) == ((0, 0), (0,), (0,))


def test_rows_of_a_span_keep_their_numbers(path):
    table = pq.read_table(path)
    values = table["a"].to_numpy().copy()
    values[150] = np.inf
    pq.write_table(table.set_column(2, "a", pa.array(values)), path, row_group_size=100)
    (source,) = find_sources(path)
    with raises_at(SchemaError, line=151, column="a") as caught:
        tables.read(source, ReadOptions(block_rows=7), (120, 180))
    assert caught.value.line == 151


def test_a_row_group_must_hold_the_rows_that_the_footer_states(path):
    (source,) = find_sources(path)
    with tables.open_parquet(source, ReadOptions()) as table:
        table.groups[1] = table.groups[1]._replace(n_rows=101)
        with pytest.raises(SchemaError, match=r"row group 1 holds 100 rows but .* states 101"):
            list(table.batches(["qid"]))


def test_a_matrix_may_take_all_memory_but_no_more():
    plan = SimpleNamespace(features=("a", "b"), dtype=np.dtype("f4"))
    table = SimpleNamespace(plan=plan)
    assert tables._allocate(table, ReadOptions(max_memory=80), 10).shape == (10, 2)
    with pytest.raises(LimitError) as caught:
        tables._allocate(table, ReadOptions(max_memory=79), 10)
    assert caught.value.parameter == "max_memory"


@pytest.mark.parametrize("rows", [1, 300])
@pytest.mark.parametrize("suffix", ["parquet", "arrow", "arrows"])
def test_progress_ends_with_the_file(path, monkeypatch, suffix, rows):
    target, progress = path.with_suffix(f".{suffix}"), []
    rankine.load(path).take(np.arange(rows)).save(target)
    meter = mock.MagicMock()
    meter.return_value.__enter__.return_value.update = progress.append
    monkeypatch.setattr(tables, "Meter", meter)
    assert rankine.load(target, block_rows=40).n_rows == rows
    assert progress == sorted(progress)
    size = target.stat().st_size
    # The end mark of a stream is not read yet.
    assert progress[-1] == (size if suffix != "arrows" else size - 8)


def test_rows_before_a_range_are_passed_over(path, monkeypatch):
    monkeypatch.setattr(tables.ParquetRows, "_batch_rows", lambda *_: 7)
    parts = rd.scan(path, partition_bytes=1_000)
    assert parts.n_partitions > 3
    X = np.concatenate([partition.load().X for partition in parts.partitions])
    np.testing.assert_array_equal(X, rankine.load(path).X)
