"""Small files that would need much memory are refused early; a scan holds blocks, not files."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.reliability


def make_long_row(path):
    count = 2**24
    ones = pa.array(np.ones(count, dtype=np.int32))
    lists = pa.ListArray.from_arrays([0, count], ones)
    values = pa.ListArray.from_arrays([0, count], ones.cast(pa.float32()))
    pq.write_table(pa.table({"label": [1.0], "qid": [1], "indices": lists, "values": values}), path)


def make_long_text(path):
    column = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(50_000, dtype=np.int32)), pa.array(["x" * 2**20])
    )
    content = pa.table({"label": np.zeros(50_000), "qid": column, "a": np.zeros(50_000)})
    pq.write_table(content, path)


def make_arrow(path):
    zeros = np.zeros(2**24)
    content = pa.table({"label": zeros, "qid": zeros.astype(np.int64), "a": zeros})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(path, content.schema, options=options) as writer:
        writer.write_table(content)


def make_arrow_text(path):
    column = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(50_000, dtype=np.int32)), pa.array(["x" * 2**20])
    )
    content = pa.table({"label": np.zeros(50_000), "qid": column, "a": np.zeros(50_000)})
    with pa.ipc.new_stream(path, content.schema) as writer:
        writer.write_table(content)


BOMBS = {
    "row.parquet": make_long_row,
    "text.parquet": make_long_text,
    "batch.arrow": make_arrow,
    "text.arrows": make_arrow_text,
}
READ = """
import resource, sys, rankine
from rankine.core.errors import LimitError
import rankine.data.readers.tables
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    rankine.load(sys.argv[1])
except LimitError as error:
    print(error.code, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize("name", list(BOMBS))
def test_bombs_are_refused_in_little_memory(tmp_path, name):
    path = tmp_path / name
    BOMBS[name](path)
    assert path.stat().st_size < 3 * 2**20
    child = subprocess.run(
        [sys.executable, "-c", READ, path], capture_output=True, text=True, timeout=100
    )
    assert child.returncode == 0, child.stderr
    code, grown = child.stdout.split()
    assert code == "limit"
    assert int(grown) < 100


STREAM = """
import resource, sys, rankine
import rankine.data.readers.tables
next(iter(rankine.scan(sys.argv[1])))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = sum(block.n_rows for block in rankine.scan(sys.argv[1]))
print(rows, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_a_scan_holds_blocks_not_files(tmp_path):
    rng = np.random.default_rng(0)
    rows = 2_000_000
    columns = {f"f{j}": rng.random(rows, dtype=np.float32) for j in range(8)}
    content = pa.table({"label": np.zeros(rows), "qid": np.arange(rows) // 10, **columns})
    path = tmp_path / "large.parquet"
    pq.write_table(content, path)  # pyarrow's default: row groups of a million rows
    child = subprocess.run(
        [sys.executable, "-c", STREAM, path], capture_output=True, text=True, timeout=100
    )
    assert child.returncode == 0, child.stderr
    found, grown = map(int, child.stdout.split())
    assert found == rows
    assert grown < 60  # the columns read take 96 MB
