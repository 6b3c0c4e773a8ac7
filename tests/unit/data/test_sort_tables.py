import json
import shlex

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from typer.testing import CliRunner

import rankine
from rankine.cli.main import app, find_commands
from rankine.core.errors import DataError, FileKindError, QueryOrderError, SchemaError
from rankine.data import Dataset
from rankine.data import sort as sort_tables
from rankine.data.compression import open_target
from rankine.data.sort import sort_file


def make(qid, kind="dense"):
    n = len(qid)
    X = np.arange(3.0 * n).reshape(n, 3) + 1
    return Dataset.from_arrays(
        sparse.csr_matrix(X) if kind == "sparse" else X,
        np.arange(n) % 4,
        qid,
        docid=[f"d{k}" for k in range(n)],
        weight=np.arange(n) + 1.0,
        columns={"shown": np.arange(n)},
    )


def check(found, data):
    order = np.argsort(data.qid, kind="stable")
    expected = data.take(order)
    assert found.fingerprint == expected.fingerprint
    assert found.docid.tolist() == expected.docid.tolist()
    assert found.weight.tolist() == expected.weight.tolist()


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "npz"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_sorted_files_can_be_streamed(tmp_path, suffix, kind):
    data = make(np.random.default_rng(0).integers(0, 40, 500), kind)
    source, target = tmp_path / f"in.{suffix}", tmp_path / "out.parquet"
    data.save(source)
    report = sort_file(source, target)
    assert (report.rows, report.queries, report.runs) == (500, 40, 1)
    check(rankine.load(target), data)
    assert sum(block.n_queries for block in rankine.scan(target, block_rows=20)) == 40
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([source.name, target.name])


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=60),
    st.integers(1, 9), st.integers(1, 9), st.booleans(), st.booleans(),
)  # fmt: skip
def test_any_runs_and_blocks_merge_to_the_same(tmp_path_factory, qid, run, block, text, csr):
    folder = tmp_path_factory.mktemp("sort")
    data = make([f"q{q:02}" for q in qid] if text else qid, "sparse" if csr else "dense")
    data.save(folder / "in.parquet", row_group_rows=run)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sort_tables, "_MERGE_ROWS", block)
        patch.setattr(sort_tables, "_SHARE", 2**60)  # every block is a run
        report = sort_file(folder / "in.parquet", folder / "out.parquet", block_rows=run)
    assert report.rows == len(qid)
    assert report.queries == len(set(qid))
    check(rankine.load(folder / "out.parquet"), data)


def test_text_and_tables_are_not_mixed(tmp_path):
    (tmp_path / "a.txt").write_text("1 qid:1 1:1\n")
    make([1, 2]).save(tmp_path / "b.parquet")
    with pytest.raises(FileKindError, match="together"):
        sort_file([tmp_path / "a.txt", tmp_path / "b.parquet"], tmp_path / "out.txt")


def test_a_raw_log_keeps_names_types_and_all_columns(tmp_path):
    columns = {
        "session": pa.array(["b", "a", "b", "a"]),
        "price": pa.array([1.5, None, 2.5, 3.5], pa.float32()),
        "brand": pa.array(["x", None, "y", "x"]).dictionary_encode(),
        "when": pa.array([4, 3, 2, 1], pa.timestamp("ms")),
        "tags": pa.array([["p"], [], None, ["q", "r"]]),
    }
    table = pa.table(columns)
    log = tmp_path / "the log.v1.parquet"
    pq.write_table(table, log, row_group_size=1)
    with pytest.raises(QueryOrderError, match="comes back") as error:
        list(rankine.logs.scan(log, query="session", numeric=["price"]))
    find_commands()
    command = shlex.split(error.value.fix.partition(": ")[2])
    done = CliRunner().invoke(app, command[1:])
    assert done.exit_code == 0, done.output
    expected = table.take([1, 3, 0, 2])
    assert pq.read_table(tmp_path / "the log.sorted.v1.parquet").equals(expected)
    sort_file([log, log], tmp_path / "twice.arrow", query="session")
    both = pa.ipc.open_file(tmp_path / "twice.arrow").read_all()
    assert both.schema == table.schema
    assert both["session"].to_pylist() == ["a"] * 4 + ["b"] * 4
    pq.write_table(table.drop(["tags"]), tmp_path / "less.parquet")
    with pytest.raises(SchemaError, match="not the columns"):
        sort_file([log, tmp_path / "less.parquet"], tmp_path / "no.parquet", query="session")


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "tsv", "jsonl", "jsonl.zst"])
def test_text_tables_are_logs(tmp_path, suffix):
    """CSV and JSON lines read as the same rows of Parquet do, plain or compressed."""
    rows = [("s1", 1, 2.5, "a", 1), ("s1", 2, None, "b", 0), ("s2", 1, 0.5, None, 1),
            ("s2", 2, 1.5, "c", 0)]  # fmt: skip
    names = ["session", "position", "price", "brand", "clicked"]
    pq.write_table(pa.Table.from_pylist([dict(zip(names, r, strict=True)) for r in rows]),
                   tmp_path / "log.parquet")  # fmt: skip
    if "json" in suffix:
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    else:
        mark = "\t" if "tsv" in suffix else ","
        texts = [["" if v is None else str(v) for v in row] for row in rows]
        lines = [mark.join(row) for row in [names, *texts]]
    path = tmp_path / f"log.{suffix}"
    with open_target(path) as file:
        file.write("\n".join([*lines, ""]).encode())
    wanted = {"query": "session", "label": "clicked", "binned": ["price"], "one_hot": ["brand"]}
    found, same = (rankine.logs.scan(p, **wanted).load() for p in (path, tmp_path / "log.parquet"))
    assert found.fingerprint == same.fingerprint
    assert found.position.tolist() == [1, 2, 1, 2]
    with pytest.raises(SchemaError, match="no column 'brandt'"):
        rankine.logs.scan(path, **{**wanted, "one_hot": ["brandt"]}).load()


def test_bad_text_tables_name_their_file(tmp_path):
    for name, text, reason in (
        ("a.csv", "session,price\ns1,1\ns1,2,3\n", "Expected 2 columns, got 3"),
        ("b.jsonl", '{"session": 1}\n{"session"\n', "JSON"),
        ("c.csv", "", "no rows"),
        ("d.csv", "session,price\n", "no rows"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(DataError, match=reason) as error:
            rankine.logs.scan(tmp_path / name, query="session", numeric=["price"]).load()
        assert name in str(error.value)
