"""Files larger than memory, grouped by query."""

from __future__ import annotations

import io
import random
import tempfile
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import rankine
from rankine.core.errors import (
    DataError,
    EmptyDataError,
    FileKindError,
    ParameterError,
    ParseError,
)
from rankine.data import Dataset
from rankine.data import sort as module
from rankine.data.sort import sort_file


def shuffled(path, ids, seed=0):
    rng = random.Random(seed)
    lines = [b"%d qid:%s 1:%d # d%d\n" % (k % 3, str(rng.choice(ids)).encode(), k, k)
             for k in range(2000)]  # fmt: skip
    path.write_bytes(b"# head\n\n" + b"".join(lines)[:-1])
    return path


@pytest.mark.parametrize("memory", [20_000, 2**30])
@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_sorted_rows_are_the_rows_in_order(tmp_path, memory, suffix):
    path = shuffled(tmp_path / "in.txt", range(-20, 20))
    out = tmp_path / f"out.txt{suffix}"
    report = sort_file(path, out, max_memory=memory, chunk_bytes=1024)
    before, after = rankine.load(path), rankine.load(out)
    order = np.argsort(before.qid, kind="stable")
    assert after.qid.tolist() == before.qid[order].tolist()
    assert after.docid.tolist() == before.docid[order].tolist()
    assert after.X.tolist() == before.X[order].tolist()
    assert (report.rows, report.queries, report.skipped) == (2000, 40, 0)
    assert (report.runs > 5) == (memory < 10**6)
    assert sum(block.n_rows for block in rankine.scan(out, block_rows=50)) == 2000
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["in.txt", out.name])


def test_text_ids_and_many_files(tmp_path):
    one = shuffled(tmp_path / "1.txt", ["é", "b", "aa"], 1)
    two = shuffled(tmp_path / "2.txt", ["b", "zz"], 2)
    out = tmp_path / "out.txt"
    report = sort_file([one, two], out, qid_type="str", max_memory=50_000)
    data = rankine.load(out, qid_type="str")
    assert report.queries == 4
    assert list(dict.fromkeys(data.qid.tolist())) == ["aa", "b", "zz", "é"]
    assert data.n_rows == 4000


def test_every_row_is_checked_and_the_old_file_stays(tmp_path):
    out = tmp_path / "out.txt"
    out.write_bytes(b"old")
    with pytest.raises(ParseError) as caught:
        sort_file(io.BytesIO(b"1 qid:2 1:1\n1 qid:1 1:x\n"), out)
    assert caught.value.line == 2
    assert out.read_bytes() == b"old"
    report = sort_file(io.BytesIO(b"1 qid:2 1:1\n1 qid:1 1:x\n"), out, on_bad_row="skip")
    assert (report.rows, report.skipped) == (1, 1)
    assert out.read_bytes() == b"1 qid:2 1:1\n"


def test_lines_are_not_changed(tmp_path):
    out = tmp_path / "out.txt"
    sort_file(io.BytesIO(b"  1  qid:2\t1:1.0 # x \r\n0.50 qid:1 3:3 1:1"), out)
    assert out.read_bytes() == b"0.50 qid:1 3:3 1:1\n  1  qid:2\t1:1.0 # x \r\n"


def test_what_cannot_be_sorted(tmp_path):
    with pytest.raises(EmptyDataError):
        sort_file(io.BytesIO(b"# none\n"), tmp_path / "out.txt")
    with pytest.raises(FileKindError):
        sort_file(io.BytesIO(b"PAR1...."), tmp_path / "out.txt")
    with pytest.raises(DataError, match="query id"):
        sort_file(io.BytesIO(b"1 1:1\n"), tmp_path / "out.txt")
    assert not (tmp_path / "out.txt").exists()


def test_a_third_of_the_memory_is_for_a_run(tmp_path, monkeypatch):
    path, limits = shuffled(tmp_path / "in.txt", range(9)), []
    made = module.LineSorter
    monkeypatch.setattr(
        module, "LineSorter", lambda s, limit: limits.append(limit) or made(s, limit)
    )
    report = sort_file(path, tmp_path / "out.txt", chunk_bytes=1024)
    sort_file(path, tmp_path / "out.txt", max_memory=2**20)
    assert limits == [2**28, 2**20 // 3]
    assert report.runs == 1
    with pytest.raises(ParameterError) as caught:
        sort_file(path, tmp_path / "out.txt", group=[2000])
    assert caught.value.parameter == "group"


def test_bad_rows_of_every_file_are_counted(tmp_path, capsysbinary):
    for k in range(2):
        (tmp_path / f"{k}.txt").write_bytes(b"1 qid:2 1:1\nbad\n0 qid:1 1:%d\nbad\n" % k)
    report = sort_file([tmp_path / "0.txt", tmp_path / "1.txt"], "-", on_bad_row="skip")
    assert (report.rows, report.queries, report.skipped) == (4, 2, 4)
    assert capsysbinary.readouterr().out == (
        b"0 qid:1 1:0\n0 qid:1 1:1\n1 qid:2 1:1\n1 qid:2 1:1\n"
    )


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


def test_text_and_tables_are_not_mixed(tmp_path):
    (tmp_path / "a.txt").write_text("1 qid:1 1:1\n")
    make([1, 2]).save(tmp_path / "b.parquet")
    with pytest.raises(FileKindError) as error:
        sort_file([tmp_path / "a.txt", tmp_path / "b.parquet"], tmp_path / "out.txt")
    assert error.value.file == str(tmp_path / "b.parquet")


@pytest.mark.parametrize("source", ["in.txt", "in.parquet"])
def test_what_is_kept_meanwhile_stands_beside_the_target(tmp_path, monkeypatch, source):
    replace(make([2, 1, 2]), columns={}, weight=None).save(tmp_path / source)
    (tmp_path / "there").mkdir()
    folders = []
    for name in ("TemporaryFile", "TemporaryDirectory"):
        made = getattr(tempfile, name)
        monkeypatch.setattr(
            tempfile, name, lambda made=made, **more: folders.append(more["dir"]) or made(**more)
        )
    sort_file(tmp_path / source, tmp_path / "there" / "out.txt")
    sort_file(tmp_path / source, "-")
    assert folders == [tmp_path / "there", None]
