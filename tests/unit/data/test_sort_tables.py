"""Sorted tables: rows, columns, row groups, runs and times."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import rankine
from error_checks import raises_at, raises_for
from rankine.cli.main import app, find_commands
from rankine.core.errors import (
    DataError,
    EmptyDataError,
    ParameterError,
    QueryOrderError,
    SchemaError,
)
from rankine.data import sort_tables
from rankine.data.compression import open_target
from rankine.data.sort import sort_file
from unit.data.test_sort import make


def check(found, data):
    order = np.argsort(data.qid, kind="stable")
    expected = data.take(order)
    assert found.fingerprint == expected.fingerprint
    assert found.docid.tolist() == expected.docid.tolist()
    assert found.weight.tolist() == expected.weight.tolist()


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
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
        patch.setattr(sort_tables, "_RUN_SHARE", 2**60)  # every block is a run
        report = sort_file(folder / "in.parquet", folder / "out.parquet", block_rows=run)
    assert report.rows == len(qid)
    assert report.queries == len(set(qid))
    check(rankine.load(folder / "out.parquet"), data)


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
    with raises_at(QueryOrderError, line=3) as error:
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
    with raises_at(SchemaError, column="tags"):
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
    with raises_for("columns", SchemaError):
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


def test_row_groups_hold_whole_queries(tmp_path, monkeypatch):
    data = make(np.random.default_rng(1).integers(0, 30, 300))
    data.save(tmp_path / "in.parquet", row_group_rows=40)
    monkeypatch.setattr(sort_tables, "_MERGE_ROWS", 7)
    monkeypatch.setattr(sort_tables, "_GROUP_ROWS", 50)
    monkeypatch.setattr(sort_tables, "_RUN_SHARE", 2**60)
    report = sort_file(tmp_path / "in.parquet", tmp_path / "out.parquet", block_rows=40)
    assert report.runs > 3
    file = pq.ParquetFile(tmp_path / "out.parquet")
    groups = [file.read_row_group(k)["qid"].to_pylist() for k in range(file.num_row_groups)]
    assert len(groups) > 2
    assert all(len(group) >= 50 for group in groups[:-1])
    assert sum(len(set(group)) for group in groups) == len(set(data.qid.tolist()))
    check(rankine.load(tmp_path / "out.parquet"), data)


def rows(qid):
    qid = np.asarray(qid)
    return sort_tables.TablePart(pa.table({"qid": qid, "n": np.arange(len(qid))}), qid)


def test_batches_fill_a_run_up_to_its_memory():
    batches = [rows([3, 1]), rows([2, 2]), rows([1, 0]), rows([1, 5])]
    size = batches[0].table.nbytes
    for budget, lengths in ((1, [2] * 4), (size, [2] * 4), (size + 1, [4, 4]), (9 * size, [8])):
        found = list(sort_tables._join_batches(iter(batches), budget))
        assert [len(run.qid) for run in found] == lengths
        assert [q for run in found for q in run.qid] == [3, 1, 2, 2, 1, 0, 1, 5]
    assert list(sort_tables._join_batches(iter([]), 1)) == []


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_runs_of_equal_ids_are_counted_over_blocks(tmp_path, monkeypatch, form):
    blocks = [rows([1, 1, 2]), rows([2, 3]), rows([3]), rows([4])]
    path = str(tmp_path / "out")
    schema = blocks[0].table.schema
    monkeypatch.setattr(sort_tables, "_GROUP_ROWS", 3)
    assert sort_tables.write_table(form, path, schema, iter(blocks)) == (7, 4)
    if form == "parquet":
        found = pq.ParquetFile(path).metadata
        assert [found.row_group(k).num_rows for k in range(found.num_row_groups)] == [3, 3, 1]


def test_bad_ids_are_skipped_where_asked(tmp_path):
    for k, ids in enumerate(([2, None, 1], [None, 2, None])):
        pq.write_table(pa.table({"qid": pa.array(ids), "n": range(3)}), tmp_path / f"{k}.parquet")
    paths = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    report = sort_file(paths, tmp_path / "out.parquet", on_bad_row="skip")
    assert (report.rows, report.queries, report.skipped) == (3, 2, 3)
    assert pq.read_table(tmp_path / "out.parquet")["n"].to_pylist() == [2, 0, 1]
    with pytest.raises(DataError, match="qid"):
        sort_file(paths, tmp_path / "no.parquet")
    pq.write_table(pa.table({"qid": pa.array([], pa.int64())}), tmp_path / "none.parquet")
    with pytest.raises(EmptyDataError):
        sort_file([tmp_path / "none.parquet"] * 4, tmp_path / "no.parquet")
    assert not (tmp_path / "no.parquet").exists()


def test_the_first_file_says_names_and_types(tmp_path, capsysbinary):
    first = pa.table({"qid": [2, 1], "x": [1.0, 2.0], "label": [1, 0]})
    other = pa.table({"x": pa.array([3, 4], pa.int32()), "label": [0, 1], "qid": [1, 3]})
    words = other.set_column(0, "x", pa.array(["a", "b"]))
    for name, table in (("a", first), ("b", other), ("c", words)):
        pq.write_table(table, tmp_path / f"{name}.parquet")
    both = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    sort_file(both, tmp_path / "out.arrow")
    found = pa.ipc.open_file(tmp_path / "out.arrow").read_all()
    assert found.schema == first.schema
    assert found["x"].to_pylist() == [2.0, 3.0, 1.0, 4.0]
    sort_file(both, "-")
    lines = capsysbinary.readouterr().out.decode().splitlines()
    assert lines == ["0 qid:1 1:2", "0 qid:1 1:3", "1 qid:2 1:1", "1 qid:3 1:4"]
    sort_file(both, tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_text().splitlines() == lines
    with raises_at(SchemaError, column="x"):
        sort_file([tmp_path / "a.parquet", tmp_path / "c.parquet"], tmp_path / "no.arrow")


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("memory", [2**20, 2**30])
def test_lists_are_sorted_by_their_earliest_time(tmp_path, text, memory):
    """Rows of a list are spread over files, and lists overlap in time."""
    rng = np.random.default_rng(0)
    n_rows = 20_000
    qid = rng.integers(0, 3000, n_rows)
    start = rng.permutation(3000) // 2  # two lists start at each time
    table = pa.table({
        "session": [f"s{i:04}" for i in qid] if text else qid,
        "ts": pa.array(start[qid] + rng.integers(0, 50, n_rows)).cast(pa.timestamp("s")),
        "row": np.arange(n_rows),
        "note": ["x" * 100] * n_rows,
    })  # fmt: skip
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    pq.write_table(table[:9000], files[0])
    pq.write_table(table[9000:], files[1])
    report = sort_file(files, tmp_path / "out.parquet", query="session", by_time="ts",
                       max_memory=memory)  # fmt: skip
    assert (report.rows, report.runs > 1) == (n_rows, memory == 2**20)
    frame = table.to_pandas()
    frame["first"] = frame.groupby("session").ts.transform("min")
    expected = frame.sort_values(["first", "session", "row"]).drop(columns="first")
    sorted_rows = pq.read_table(tmp_path / "out.parquet")
    assert sorted_rows.schema.names == table.schema.names
    assert sorted_rows.to_pandas().row.tolist() == expected.row.tolist()


def test_times_are_columns_of_tables(tmp_path):
    (tmp_path / "a.txt").write_text("1 qid:1 1:1\n")
    with pytest.raises(ParameterError) as caught:
        sort_file(tmp_path / "a.txt", tmp_path / "b.txt", by_time="ts")
    assert caught.value.parameter == "by_time"
    pq.write_table(pa.table({"qid": [1], "ts": [None]}), tmp_path / "a.parquet")
    with pytest.raises(SchemaError):
        sort_file(tmp_path / "a.parquet", tmp_path / "b.parquet", by_time="ts")
