from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed_data import table, write_files
from scipy import sparse

import rankine
import rankine.distributed as rd
from rankine.core.errors import (
    DataError,
    EmptyDataError,
    ParameterError,
)
from rankine.data.options import ReadOptions
from rankine.data.sources import Source
from rankine.distributed.file_partitions import cut_file


def ids_of(parts):
    return [partition.load().qid for partition in parts.partitions]


def cut(path, partition_bytes):
    return cut_file(Source(str(path), path), ReadOptions(), partition_bytes)


def test_query_ids_are_not_read_where_footers_prove_a_cut(tmp_path):
    """One query per row group: neighbours never share one, and nothing is read to know it."""
    rows = pa.table({"label": [1.0, 0.0] * 8, "qid": np.repeat(np.arange(8), 2), "f": [0.5] * 16})
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=2)
    found = cut(tmp_path / "a.parquet", 450)
    assert found.n_groups_read == 0
    assert found.ranges == [(k, k + 4) for k in range(0, 16, 4)]


@pytest.mark.parametrize("text_ids", [False, True])
@pytest.mark.parametrize("statistics", [False, True])
def test_cuts_move_to_the_next_query(tmp_path, text_ids, statistics):
    rows = table(30, 5, text_ids=text_ids)
    qid = np.asarray(rows["qid"])
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=7, write_statistics=statistics)
    found = cut(tmp_path / "a.parquet", 2_000)
    starts = [start for start, _ in found.ranges][1:]
    assert len(starts) > 3
    assert found.n_groups_read > 0
    assert all(qid[row] != qid[row - 1] for row in starts)


def test_one_query_larger_than_a_partition_stays_whole(tmp_path):
    rows = pa.table({"label": np.arange(50.0), "qid": [7] * 50, "f": np.arange(50.0)})
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=5)
    assert cut(tmp_path / "a.parquet", 300).ranges == [(0, 50)]


def test_a_large_row_group_is_cut_inside(tmp_path):
    rows = table(100, 3)
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=10**6)
    found = cut(tmp_path / "a.parquet", 10_000)
    assert len(found.ranges) > 5
    assert max(found.nbytes) < 2 * 10_000


def test_an_empty_file_is_named(tmp_path):
    pq.write_table(table(3, 0).slice(0, 0), tmp_path / "a.parquet")
    with pytest.raises(EmptyDataError):
        rd.scan(tmp_path / "a.parquet")


def test_a_changed_file_is_noticed(tmp_path):
    write_files(tmp_path, 1)
    parts = rd.scan(f"{tmp_path}/*.parquet")
    write_files(tmp_path, 1, n_queries=51)
    with pytest.raises(rankine.core.errors.ChangedDataError, match="cut into partitions"):
        parts.partitions[0].load()


def test_sizes_count_the_stored_values_of_sparse_rows(tmp_path):
    rng = np.random.default_rng(0)
    sizes = []
    for density in (0.1, 0.4):
        X = sparse.random(200, 50, density, format="csr", random_state=0)
        data = rankine.Dataset.from_arrays(X, rng.integers(0, 2, 200), np.repeat(range(40), 5))
        data.save(tmp_path / "a.parquet")
        sizes.append((sum(cut(tmp_path / "a.parquet", 10**6).nbytes), X.nnz))
    (small, few), (large, many) = sizes
    assert large - small >= 8 * (many - few)


def expected_cuts(qid, groups, row_bytes, partition_bytes):
    """Where parts start: row groups while they fit, large ones in equal pieces, then the query."""
    wanted, held, start = [], 0, 0
    for n_rows in groups:
        size = n_rows * row_bytes
        if held > 0 and held + size > partition_bytes:
            wanted.append(start)
            held = 0
        pieces = size // partition_bytes if size >= 2 * partition_bytes else 1
        wanted += [start + n_rows * k // pieces for k in range(1, pieces)]
        held = held + size if pieces == 1 else size // pieces
        start += n_rows
    cuts = [0]
    firsts = [row for row in range(1, start) if qid[row] != qid[row - 1]]
    for row in wanted:
        clean = next((first for first in firsts if first >= row), start)
        if cuts[-1] < clean < start:
            cuts.append(clean)
    return list(zip(cuts, [*cuts[1:], start], strict=True))


@pytest.mark.parametrize("seed", range(40))
def test_cuts_are_at_the_first_query_after_a_full_part(tmp_path, seed):
    rng = np.random.default_rng(seed)
    groups = rng.integers(1, 12, rng.integers(1, 9))
    if seed >= 24:  # some row groups hold nothing
        groups = np.append(groups * rng.integers(0, 2, len(groups)), [0, 7, 0, 0, 8, 0])
    if seed % 3 == 0:
        groups[rng.integers(len(groups))] = 40
    n_rows = int(groups.sum())
    ids = rng.permutation(n_rows) - n_rows // 2 if seed % 2 else np.arange(n_rows)
    qid = np.repeat(ids, rng.integers(1, 6, n_rows))[:n_rows]
    qid = qid[::-1] if seed >= 32 else qid
    names = [f"q{q + 500:04d}" for q in qid] if seed % 4 == 1 else qid
    rows = pa.table({"label": np.ones(n_rows), "qid": names, "f": np.ones(n_rows),
                     "g": np.ones(n_rows)})  # fmt: skip
    file = tmp_path / "a.parquet"
    with pq.ParquetWriter(file, rows.schema, write_statistics=seed % 5 != 0) as writer:
        for start, size in zip(np.cumsum(groups) - groups, groups, strict=True):
            writer.write_table(rows.slice(int(start), int(size)))
    row_bytes = 100 + 2 * 8
    for partition_bytes in (row_bytes * 5, row_bytes * 9, row_bytes * 20 - 1, row_bytes * 20):
        found = cut(file, partition_bytes)
        assert found.ranges == expected_cuts(qid, groups.tolist(), row_bytes, partition_bytes)
        assert found.nbytes == [row_bytes * (b - a) for a, b in found.ranges]
        assert found.n_groups_read <= len(groups)
        assert (found.n_features, found.feature_names) == (2, ("f", "g"))


@pytest.mark.parametrize("empty", [0, 1, 2])
def test_query_ids_are_read_once_and_only_around_a_cut(tmp_path, empty):
    """Without statistics: both neighbours of a cut between row groups, one where it is inside."""
    rows = pa.table({"label": np.ones(24), "qid": np.arange(24) // 2, "f": np.ones(24)})
    row_bytes = 100 + 8
    for groups, n_groups_read in (([12, 12], 2), ([8, 8, 8], 3), ([24], 1), ([5, 6, 13], 2)):
        file = tmp_path / "a.parquet"
        with pq.ParquetWriter(file, rows.schema, write_statistics=False) as writer:
            start = 0
            for size in groups:
                writer.write_table(rows.slice(start, size))
                start += size
                for _ in range(empty):
                    writer.write_table(rows.slice(0, 0))
        wanted = max(groups) if len(groups) > 1 else 12
        found = cut(file, row_bytes * wanted)
        assert found.ranges == expected_cuts(
            np.arange(24) // 2, groups, row_bytes, row_bytes * wanted
        )
        assert found.n_groups_read == n_groups_read
        assert len(found.ranges) > 1


def test_other_columns_count_towards_the_size(tmp_path):
    rows = pa.table({"label": [1.0] * 4, "qid": [1, 1, 2, 2], "f": [0.5] * 4, "day": [1] * 4})
    pq.write_table(rows, tmp_path / "a.parquet")
    source = Source("a", tmp_path / "a.parquet")
    found = cut_file(source, ReadOptions(columns=("day",)), 10**6)
    assert found.nbytes == [4 * (100 + 8 + 32)]


def test_sparse_rows_count_by_their_items(tmp_path):
    X = sparse.csr_array(np.array([[1.0, 0, 2, 0], [0, 3, 4, 5]]))
    rankine.Dataset.from_arrays(X, [1, 0], [1, 1]).save(tmp_path / "a.parquet")
    assert cut(tmp_path / "a.parquet", 10**6).nbytes == [2 * 100 + 2 * 5 * 6]


def test_files_that_cannot_be_read_are_named(tmp_path, files):
    pq.write_table(table(3, 0), tmp_path / "a.parquet")
    parts = rd.scan(tmp_path / "a.parquet")
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(DataError, match="cannot be opened") as caught:
        parts.partitions[0].load()
    assert caught.value.file == str(tmp_path / "a.parquet")
    (tmp_path / "b.txt").write_text("# nothing\n")
    with pytest.raises(DataError, match="no rows"):
        rd.scan(tmp_path / "b.txt", n_features=2).partitions[0].load()
    with pytest.raises(ParameterError, match="stdin"):
        rd.scan("-")
    for options in ({"partition_bytes": 0}, {"timeout": 0}, {"sample_weight": [1.0]}):
        with pytest.raises(ParameterError):
            rd.scan(files, **options)
    assert len(rd.scan(files, partition_bytes=1, timeout=1e-9)) > 50


def test_a_partition_describes_its_rows(files):
    parts = rd.scan(files, partition_bytes=20_000)
    assert [partition.number for partition in parts.partitions] == list(range(len(parts)))
    first, second = parts.partitions[:2]
    assert first.name == f"partition 0 ({first.file}, rows 1 to {first.rows[1]})"
    assert second.rows[0] == first.rows[1]
    assert replace(second, rows=None).name == f"partition 1 ({first.file})"
    keys = {partition.key for partition in parts.partitions}
    assert len(keys) == len(parts)
    others = [
        replace(first, rows=None),
        replace(first, state=(1, 2)),
        replace(first, options=first.options.with_features(9)),
        replace(first, encoding=SimpleNamespace(key="e")),
        replace(first, label=SimpleNamespace(text="t")),
    ]
    assert len({first.key, *(other.key for other in others)}) == 6
    prints = {rd.scan(files, partition_bytes=b).fingerprint for b in (20_000, 40_000)}
    assert len({*prints, parts.fingerprint}) == 2
    groups = [group.n_partitions for group in rd.scan(files, partition_bytes=3_000).groups()]
    assert groups[:-1] == [16] * (len(groups) - 1)
    assert 0 < groups[-1] <= 16
    assert sum(groups) == rd.scan(files, partition_bytes=3_000).n_partitions
