"""Streams: whole queries, any number of passes, nothing that comes back or changes unnoticed."""

from __future__ import annotations

import io
import os
import random

import numpy as np
import pytest

import rankine
from rankine.core.errors import (
    ChangedDataError,
    EmptyDataError,
    LimitError,
    ParameterError,
    QueryOrderError,
    SchemaError,
)
from rankine.data import Dataset
from rankine.data.options import ReadOptions
from rankine.data.scan import QueryGuard, _sort_hint, align


def dataset(qid):
    return Dataset.from_arrays(np.arange(len(qid), dtype=float)[:, None], np.zeros(len(qid)), qid)


def cut(qid, size):
    return [dataset(qid[k : k + size]) for k in range(0, len(qid), size)]


def write(path, rows):
    path.write_bytes(b"".join(b"%d qid:%s 1:%d # d%d\n" % (k % 2, str(q).encode(), k, k)
                              for k, q in enumerate(rows)))  # fmt: skip
    return path


def test_blocks_hold_whole_queries(tmp_path):
    path = write(tmp_path / "x.txt", np.repeat(np.arange(50), 1 + np.arange(50) % 7))
    whole = rankine.load(path)
    stream = rankine.scan(path, block_rows=10)
    for _ in range(2):
        blocks = list(stream)
        assert np.concatenate([b.qid for b in blocks]).tolist() == whole.qid.tolist()
        assert np.concatenate([b.docid for b in blocks]).tolist() == whole.docid.tolist()
        assert all(block.n_rows >= 10 for block in blocks[:-1])
        ids = [set(block.qid.tolist()) for block in blocks]
        assert sum(map(len, ids)) == len(set().union(*ids))
    assert stream.n_features == 1
    assert stream.sources == (str(path),)
    assert len(blocks) > 10


def test_width_is_found_by_a_first_pass_or_declared(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"1 qid:1 1:1\n0 qid:2 9:1\n")
    assert {block.n_features for block in rankine.scan(path, block_rows=1)} == {9}
    assert {block.n_features for block in rankine.scan(path, n_features=20)} == {20}
    with pytest.raises(ParameterError, match="n_features"):
        list(rankine.scan(io.BytesIO(b"1 qid:1 1:1\n")))
    with pytest.raises(LimitError):
        list(rankine.scan(path, n_features=8))


def test_a_stream_can_be_read_once():
    stream = rankine.scan(io.BytesIO(b"1 qid:1 1:1\n"), n_features=1)
    assert len(list(stream)) == 1
    with pytest.raises(ChangedDataError, match="only once"):
        list(stream)


def test_a_query_may_cross_files(tmp_path):
    one = write(tmp_path / "1.txt", [1, 1, 2])
    two = write(tmp_path / "2.txt", [2, 2, 3])
    blocks = list(rankine.scan([one, two], block_rows=1))
    assert [block.qid.tolist() for block in blocks] == [[1, 1], [2, 2, 2], [3]]


@pytest.mark.reliability
@pytest.mark.parametrize("kind", [int, str])
def test_reappearing_queries_are_found_and_nothing_else(kind):
    rng = random.Random(1)
    verdicts = {True: 0, False: 0}
    for _ in range(700):
        runs = [rng.randint(-3, 6) for _ in range(rng.randint(1, 7))]
        if rng.random() < 0.5:
            runs = list(dict.fromkeys(runs))
        qid = [kind(q) for q in runs for _ in range(rng.randint(1, 4))]
        merged = [q for k, q in enumerate(qid) if k == 0 or q != qid[k - 1]]
        bad = len(set(merged)) != len(merged)
        verdicts[bad] += 1
        for size in (1, 3, 100):
            blocks = align(iter(cut(qid, size)), ReadOptions(block_rows=2), QueryGuard(100))
            if bad:
                with pytest.raises(QueryOrderError):
                    list(blocks)
            else:
                assert [q for b in blocks for q in b.qid.tolist()] == qid
    assert min(verdicts.values()) > 50


def test_the_error_names_the_line_and_the_way_out(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"# head\n1 qid:5 1:1\n\n1 qid:6 1:1\n0 qid:5 1:1\n")
    with pytest.raises(QueryOrderError, match="query 5 comes back") as caught:
        list(rankine.scan(path))
    assert caught.value.line == 5
    assert "rankine sort" in caught.value.fix
    assert rankine.load(path).n_queries == 2


@pytest.mark.kernels
def test_more_queries_than_the_guard_remembers():
    rising = ReadOptions(block_rows=1)
    assert len(list(align(iter(cut(list(range(50)), 7)), rising, QueryGuard(5)))) == 50
    falling = list(range(50, 0, -1))
    assert len(list(align(iter(cut(falling, 7)), rising, QueryGuard(5)))) == 50
    with pytest.raises(LimitError, match="max_queries"):
        list(align(iter(cut([*range(50), 3], 7)), rising, QueryGuard(5)))


@pytest.mark.kernels
@pytest.mark.parametrize("kind", [int, str])
def test_ids_of_the_sorted_part_are_remembered_when_the_order_breaks(kind):
    ids = [kind(q) for q in [*range(1000, 5000), 10, 7000, 20]]
    guard = QueryGuard(10_000)
    assert sum(block.n_rows for block in align(iter(cut(ids, 700)), ReadOptions(), guard)) == 4003
    guard = QueryGuard(10_000)
    with pytest.raises(QueryOrderError, match="query 1234 comes back"):
        list(align(iter(cut([*ids, kind(1234)], 700)), ReadOptions(), guard))


@pytest.mark.kernels
def test_the_guard_is_exact_for_integers():
    rng = np.random.default_rng(0)
    qid = np.unique(rng.integers(-(2**63), 2**63 - 1, 3000))
    qid = np.append(rng.permutation(qid), [0, -1, 2**63 - 1, -(2**63)])
    list(align(iter([dataset(qid)]), ReadOptions(), QueryGuard(10_000)))
    for again in (qid[0], 0):
        with pytest.raises(QueryOrderError):
            list(align(iter([dataset(np.append(qid, again))]), ReadOptions(), QueryGuard(10_000)))


def test_a_query_of_endless_length_is_stopped(tmp_path):
    path = write(tmp_path / "x.txt", [1] * 100)
    with pytest.raises(LimitError, match="max_query_rows"):
        list(rankine.scan(path, block_rows=10, chunk_bytes=64, max_query_rows=50))


def test_groups_in_streams(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"1 1:1\n0 1:2\n2 1:3\n1 1:4\n")
    blocks = list(rankine.scan(path, group=[2, 2], block_rows=1, chunk_bytes=5))
    assert [block.qid.tolist() for block in blocks] == [[0, 0], [1, 1]]
    for sizes in ([2], [2, 2, 2], [1, 1]):
        with pytest.raises(SchemaError, match="group sizes"):
            list(rankine.scan(path, group=sizes))


def test_nothing_to_read(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"# nothing\n")
    with pytest.raises(EmptyDataError):
        list(rankine.scan(path))


def edit(path, rng):
    kind = rng.randrange(4)
    if kind == 0:
        with path.open("ab") as file:
            file.write(b"1 qid:999 1:1\n")
    elif kind == 1:
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data)
    elif kind == 2:
        os.truncate(path, path.stat().st_size // 2)
    else:
        path.unlink()


@pytest.mark.reliability
def test_a_file_that_changes_is_noticed(tmp_path):
    rng = random.Random(2)
    for case in range(20):
        path = write(tmp_path / f"{case}.txt", np.repeat(np.arange(400), 3))
        stream = rankine.scan(path, block_rows=100, chunk_bytes=256, n_features=1)
        moment = rng.randrange(8)
        with pytest.raises(ChangedDataError):
            for k, _ in enumerate(stream):
                if k == moment:
                    edit(path, rng)
            list(stream)


def test_a_file_that_changes_between_passes(tmp_path):
    path = write(tmp_path / "x.txt", [1, 1, 2])
    stream = rankine.scan(path)
    list(stream)
    path.write_bytes(path.read_bytes() + b"1 qid:3 1:1\n")
    with pytest.raises(ChangedDataError, match="since the last pass"):
        list(stream)


def test_lines_are_counted_over_bad_rows_and_comments(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"1 qid:1 1:1\nbad\n# note\n\n0 qid:2 1:1\nbad\n0 qid:1 1:1\n")
    with pytest.raises(QueryOrderError) as caught:
        list(rankine.scan(path, on_bad_row="skip", n_features=1))
    assert caught.value.line == 7
    path.write_bytes(b"1 qid:1 1:1\nbad\n# note\n\n0 qid:2 1:1\n")
    (block,) = rankine.scan(path, on_bad_row="skip", n_features=1)
    assert block.lines.tolist() == [1, 5]
    assert block.notes == {"skipped_rows": 1}


@pytest.mark.parametrize(
    ("sources", "query", "command"),
    [
        ((), None, "rankine sort IN IN.sorted"),
        (("a.txt.gz", "my b"), "qid", "rankine sort a.txt.gz 'my b' a.sorted.txt.gz"),
        (("log.parquet",), "search id", "log.parquet log.sorted.parquet --query 'search id'"),
    ],
)
def test_the_command_that_groups_rows_names_every_file(sources, query, command):
    assert _sort_hint(sources, query).endswith(command)
