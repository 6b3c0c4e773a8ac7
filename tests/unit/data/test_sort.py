"""Files larger than memory, grouped by query."""

from __future__ import annotations

import io
import random

import numpy as np
import pytest

import rankine
from rankine.core.errors import (
    DataError,
    EmptyDataError,
    FileKindError,
    ParameterError,
    ParseError,
)
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
    with pytest.raises(FileKindError, match="from a pipe"):
        sort_file(io.BytesIO(b"PAR1...."), tmp_path / "out.txt")
    with pytest.raises(DataError, match="query id"):
        sort_file(io.BytesIO(b"1 1:1\n"), tmp_path / "out.txt")
    assert not (tmp_path / "out.txt").exists()


def sorter(limit):
    return module._LineSorter(io.BytesIO(), limit)


def add(into, lines, ids):
    """Lines behind some other bytes, as a window of a file holds them."""
    buffer = np.frombuffer(b"##" + b"".join(lines), dtype=np.uint8)
    stops = np.cumsum([len(line) for line in lines]) + 2
    into.add(buffer, stops - [len(line) for line in lines], stops, np.array(ids))


def test_a_run_ends_when_its_memory_is_full():
    for limit, runs in ((60, 1), (61, 0)):
        held = sorter(limit)
        add(held, [b"abcde\n", b"abcde\n"], [1, 1])
        assert (len(held.runs), held.n_rows) == (runs, 2)
    add(held := sorter(60), [b"abcde\n", b"abcde\n"], [1, 1])
    add(held, [b"abcde\n", b"abcd\n"], [1, 1])
    assert len(held.runs) == 1
    none = sorter(1)
    none.add(np.zeros(3, np.uint8), np.zeros(0, int), np.zeros(0, int), np.zeros(0, int))
    none.end_run()
    assert (none.runs, none.n_rows) == ([], 0)


@pytest.mark.kernels
def test_segments_of_several_runs_are_merged_in_order():
    held = sorter(2**30)
    for lines, ids in (
        ([b"b1\n", b"a1\n", b"b2\n"], [2, 1, 2]),
        ([b"c1\n", b"a2\n"], [3, 1]),
        ([b"long a3\n"], [1]),
    ):
        add(held, lines, ids)
        held.end_run()
    assert [run.qid.tolist() for run in held.runs] == [[1, 2], [1, 3], [1]]
    assert [run.sizes.tolist() for run in held.runs] == [[3, 6], [3, 3], [8]]
    assert [run.start for run in held.runs] == [0, 9, 15]
    out = io.BytesIO()
    assert held.merge(out) == 3
    assert out.getvalue() == b"a1\na2\nlong a3\nb1\nb2\nc1\n"


def test_neighbours_are_copied_in_one_piece(monkeypatch):
    found = module._join_neighbours(np.array([0, 5, 20, 8, 10]), np.array([5, 3, 1, 2, 4]))
    assert list(found) == [(0, 8), (20, 1), (8, 6)]
    store, out = io.BytesIO(bytes(range(256)) * 9000), io.BytesIO()
    module._copy_bytes(store, 3, 2**21 + 5, out)
    assert out.getvalue() == store.getvalue()[3 : 2**21 + 8]


def test_a_third_of_the_memory_is_for_a_run(tmp_path, monkeypatch):
    path, limits = shuffled(tmp_path / "in.txt", range(9)), []
    made = module._LineSorter
    monkeypatch.setattr(
        module, "_LineSorter", lambda s, limit: limits.append(limit) or made(s, limit)
    )
    report = sort_file(path, tmp_path / "out.txt", chunk_bytes=1024)
    sort_file(path, tmp_path / "out.txt", max_memory=2**20)
    assert limits == [2**28, 2**20 // 3]
    assert report.runs == 1
    with pytest.raises(ParameterError, match="no query ids to sort by"):
        sort_file(path, tmp_path / "out.txt", group=[2000])


def test_bad_rows_of_every_file_are_counted(tmp_path, capsysbinary):
    for k in range(2):
        (tmp_path / f"{k}.txt").write_bytes(b"1 qid:2 1:1\nbad\n0 qid:1 1:%d\nbad\n" % k)
    report = sort_file([tmp_path / "0.txt", tmp_path / "1.txt"], "-", on_bad_row="skip")
    assert (report.rows, report.queries, report.skipped) == (4, 2, 4)
    assert capsysbinary.readouterr().out == (
        b"0 qid:1 1:0\n0 qid:1 1:1\n1 qid:2 1:1\n1 qid:2 1:1\n"
    )
