"""Scanning files into partitions, and writing files that can be cut."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed_data import table, write_files

import rankine
import rankine.distributed as rd
from rankine.core.errors import (
    ParameterError,
    SchemaError,
)
from rankine.data.options import ReadOptions
from rankine.data.sources import Source
from rankine.distributed.file_partitions import cut_file


def cut(path, partition_bytes):
    return cut_file(Source(str(path), path), ReadOptions(), partition_bytes)


def ids_of(parts):
    return [partition.load().qid for partition in parts.partitions]


@pytest.mark.parametrize("partition_bytes", [2_000, 9_000, 10**9])
def test_partitions_hold_every_row_once_and_no_query_twice(files, partition_bytes):
    parts = rd.scan(files, partition_bytes=partition_bytes)
    whole = rankine.load(files)
    loaded = [partition.load() for partition in parts.partitions]
    np.testing.assert_array_equal(np.concatenate([d.qid for d in loaded]), whole.qid)
    np.testing.assert_array_equal(np.concatenate([d.X for d in loaded]), whole.X)
    owners = [set(d.qid.tolist()) for d in loaded]
    assert sum(len(o) for o in owners) == len(set().union(*owners))
    assert parts.feature_names == whole.feature_names
    assert len(parts) == {2_000: len(parts), 9_000: len(parts), 10**9: 3}[partition_bytes]


def test_a_smaller_partition_size_gives_more_partitions(files):
    sizes = [rd.scan(files, partition_bytes=b).n_partitions for b in (10**9, 20_000, 3_000)]
    assert sizes[0] == 3 < sizes[1] < sizes[2]


def test_text_files_are_one_partition_each(tmp_path, files):
    data = rankine.load(files)
    data.save(tmp_path / "a.txt")
    parts = rd.scan(tmp_path / "a.txt")
    assert parts.n_partitions == 1
    assert parts.partitions[0].load().n_rows == data.n_rows
    size = (tmp_path / "a.txt").stat().st_size
    assert cut(tmp_path / "a.txt", 1) == ([None], [size], data.n_features, None, 0, 0)


def test_all_partitions_have_the_width_of_the_widest_file(tmp_path):
    for name, wide in (("a", 2), ("b", 5), ("c", 3)):
        (tmp_path / f"{name}.txt").write_text(f"1 qid:{wide} {wide}:1.5\n0 qid:{wide} 1:2\n")
    parts = rd.scan(f"{tmp_path}/*.txt")
    assert parts.n_features == 5
    assert [partition.load().n_features for partition in parts.partitions] == [5, 5, 5]


def test_a_file_of_one_row_is_one_partition(tmp_path):
    rows = pa.table({"label": [1.0], "qid": [3], "f": [0.5]})
    pq.write_table(rows, tmp_path / "a.parquet")
    for partition_bytes in (1, 10**6):
        found = cut(tmp_path / "a.parquet", partition_bytes)
        assert (found.ranges, found.nbytes) == ([(0, 1)], [108])


def test_repartition_mends_split_queries(tmp_path):
    for k in range(2):
        pq.write_table(table(20, k, first_query=10 * k), tmp_path / f"{k}.parquet")
    target = tmp_path / "sorted" / "rows.parquet"
    report = rd.repartition(f"{tmp_path}/*.parquet", target)
    parts = rd.scan(target, partition_bytes=3_000)
    assert parts.measure().rows == report.rows == rankine.load(f"{tmp_path}/*.parquet").n_rows
    assert parts.measure().queries == 30
    assert parts.n_partitions > 2


def test_files_of_other_names_are_refused(tmp_path):
    write_files(tmp_path, 1)
    other = table(3, 9, first_query=999)
    renamed = other.rename_columns([n if n != "f1" else "g" for n in other.column_names])
    pq.write_table(renamed, tmp_path / "z.parquet")
    with pytest.raises(SchemaError, match=r"0\.parquet"):
        rd.scan(f"{tmp_path}/*.parquet")


@pytest.mark.parametrize(
    "options", [{"group": [1]}, {"single_query": True}, {"query": None}, {"timeout": 0}]
)
def test_options_that_apply_to_one_file_are_refused(files, options):
    with pytest.raises(ParameterError):
        rd.scan(files, **options)


HASHED = """
import types
import rankine.distributed as rd
from rankine.data.options import ReadOptions
from rankine.data.sources import Source
from rankine.distributed.file_partitions import Partition

labels = (types.SimpleNamespace(text=text) for text in ("clicks / 2", "orders", "coec", "margin"))
pieces = [Partition(k, Source("a"), (k, k + 1), (1, 1), 1, ReadOptions(), None, None, label)
          for k, label in enumerate(labels)]
print(rd.PartitionedDataset(tuple(pieces), 1, None, ("a",), None).fingerprint)
"""


def test_the_fingerprint_does_not_depend_on_how_python_orders_a_set():
    found = {
        subprocess.run(
            [sys.executable, "-c", HASHED],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed in "123"
    }
    assert len(found) == 1


def test_text_is_not_grouped_into_parquet(tmp_path):
    (tmp_path / "d.txt").write_text("1 qid:1 1:1\n0 qid:2 1:0\n0 qid:1 1:0\n")
    with pytest.raises(ParameterError, match=r"d\.txt is text"):
        rd.repartition(tmp_path / "d.txt", tmp_path / "rows.parquet")
    assert not (tmp_path / "rows.parquet").exists()
