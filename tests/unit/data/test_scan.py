"""Streams: whole queries, any number of passes, nothing that comes back or changes unnoticed."""

from __future__ import annotations

import io
import itertools
import os
import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankine
from error_checks import raises_at, raises_for
from rankine.core.errors import (
    ChangedDataError,
    EmptyDataError,
    FileKindError,
    LimitError,
    ParameterError,
    QueryOrderError,
    SchemaError,
)
from rankine.data import Dataset
from rankine.data.options import ReadOptions
from rankine.data.scan import QueryGuard, align, regroup, run_ends, sort_hint


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
    (tmp_path / "narrow.txt").write_bytes(b"1 qid:3 1:1\n")
    for paths in ([path, tmp_path / "narrow.txt"], [tmp_path / "narrow.txt", path]):
        assert {block.n_features for block in rankine.scan(paths)} == {9}
    with raises_for("n_features"):
        list(rankine.scan(io.BytesIO(b"1 qid:1 1:1\n")))
    with pytest.raises(LimitError):
        list(rankine.scan(path, n_features=8))


def test_a_stream_can_be_read_once():
    stream = rankine.scan(io.BytesIO(b"1 qid:1 1:1\n"), n_features=1)
    assert len(list(stream)) == 1
    with pytest.raises(ChangedDataError):
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
    with raises_at(QueryOrderError, line=5) as caught:
        list(rankine.scan(path))
    assert caught.value.line == 5
    assert "rankine sort" in caught.value.fix
    assert rankine.load(path).n_queries == 2


@pytest.mark.kernels
def test_more_queries_than_the_guard_remembers():
    rising = ReadOptions(block_rows=1)
    assert len(list(align(iter(cut(list(range(50)), 7)), rising, QueryGuard(5)))) == 50
    falling = list(range(50, 0, -1))
    guard = QueryGuard(5)
    assert len(list(align(iter(cut(falling, 7)), rising, guard))) == 50
    assert guard._key_parts == [], "what serves no more is forgotten"
    with raises_for("max_queries", LimitError):
        list(align(iter(cut([*range(50), 3], 7)), rising, QueryGuard(5)))


@pytest.mark.kernels
@pytest.mark.parametrize("kind", [int, str])
def test_ids_of_the_sorted_part_are_remembered_when_the_order_breaks(kind):
    ids = [kind(q) for q in [*range(1000, 5000), 10, 7000, 20]]
    guard = QueryGuard(10_000)
    assert sum(block.n_rows for block in align(iter(cut(ids, 700)), ReadOptions(), guard)) == 4003
    guard = QueryGuard(10_000)
    with pytest.raises(QueryOrderError, match="query 1234 reappears"):
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
    with raises_for("max_query_rows", LimitError):
        list(rankine.scan(path, block_rows=10, chunk_bytes=64, max_query_rows=50))


def test_groups_in_streams(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"1 1:1\n0 1:2\n2 1:3\n1 1:4\n")
    blocks = list(rankine.scan(path, group=[2, 2], block_rows=1, chunk_bytes=5))
    assert [block.qid.tolist() for block in blocks] == [[0, 0], [1, 1]]
    for sizes in ([2], [2, 2, 2], [1, 1]):
        with raises_for("group", SchemaError):
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
    with pytest.raises(ChangedDataError):
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
    assert block.read_counts == {"skipped_rows": 1}


@pytest.mark.parametrize(
    ("sources", "query", "command"),
    [
        (("a",), None, "rankine sort a a.sorted"),
        (("a.txt.gz", "my b"), "qid", "rankine sort a.txt.gz 'my b' a.sorted.txt.gz"),
        (("log.parquet",), "search id", "log.parquet log.sorted.parquet --query 'search id'"),
    ],
)
def test_the_command_that_groups_rows_names_every_file(sources, query, command):
    assert sort_hint(sources, query).endswith(command)


# ------------------------------------------------------------------ where blocks end
@pytest.mark.parametrize("seed", range(8))
def test_a_block_ends_with_the_first_query_that_fills_it(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, 12)
    qid = np.repeat(np.arange(12), sizes).tolist()
    for least in (1, 3, 4, 7, 100):
        expected, rows = [], 0
        for size in sizes:
            rows += int(size)
            if rows >= least:
                expected.append(rows)
                rows = 0
        expected += [rows] if rows else []
        for size in (1, 2, 5, 100):
            blocks = list(align(iter(cut(qid, size)), ReadOptions(block_rows=least)))
            assert [block.n_rows for block in blocks] == expected
            assert [q for block in blocks for q in block.qid.tolist()] == qid


@pytest.mark.parametrize("bad", [range(10), range(10, 20), range(20, 30)])
def test_skipped_rows_of_wholly_bad_blocks_are_counted(tmp_path, bad):
    label = [None if row in bad else row % 3 for row in range(30)]
    table = pa.table({"qid": [row // 5 for row in range(30)], "label": label, "x": [1.0] * 30})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=10)
    given = {"on_bad_row": "skip", "block_rows": 5}
    blocks = list(rankine.scan(tmp_path / "rows.parquet", **given))
    assert sum(block.read_counts.get("skipped_rows", 0) for block in blocks) == 10
    assert rankine.load(tmp_path / "rows.parquet", on_bad_row="skip").read_counts == {
        "skipped_rows": 10
    }
    (tmp_path / "bad.txt").write_text("bad\nworse\n")
    (tmp_path / "good.txt").write_text("1 qid:1 1:1\n")
    both = [tmp_path / "bad.txt", tmp_path / "good.txt"]
    data = rankine.load(both, on_bad_row="skip")
    assert data.read_counts == {"skipped_rows": 2, "empty_files": 1}
    (block,) = rankine.scan(both, on_bad_row="skip")
    assert block.read_counts["skipped_rows"] == 2


def test_no_rows_have_no_runs():
    for qid, ends in (([], []), ([7], [1]), ([7, 7], [2]), ([7, 8, 8], [1, 3])):
        assert run_ends(np.array(qid)).tolist() == ends


def test_notes_are_told_once():
    whole = replace(dataset([1, 1, 2, 2, 3]), read_counts={"skipped_rows": 3})
    blocks = list(align(iter([whole]), ReadOptions(block_rows=1)))
    assert [block.read_counts for block in blocks] == [{"skipped_rows": 3}, {}, {}]
    empty = replace(dataset([]), read_counts={"skipped_rows": 2})
    counted = replace(dataset([1]), read_counts={"x": 1})
    (one,) = align(iter([empty, dataset([1]), empty, counted, empty]), ReadOptions())
    assert one.n_rows == 2
    assert one.read_counts == {"skipped_rows": 6, "x": 1}
    assert list(align(iter([]), ReadOptions())) == []


def test_a_query_may_be_as_long_as_allowed():
    for size in (1, 3, 5, 10):
        options = ReadOptions(block_rows=100, max_query_rows=5)
        assert sum(b.n_rows for b in align(iter(cut([1] * 5 + [2] * 5, size)), options)) == 10
        with pytest.raises(LimitError) as caught:
            list(align(iter(cut([1] * 5 + [2] * 6, size)), options))
        assert caught.value.parameter == "max_query_rows"
    two = ReadOptions(block_rows=100, max_query_rows=2)
    apart = align(iter([dataset([1, 1]), dataset([2]), dataset([1])]), two)
    assert sum(block.n_rows for block in apart) == 4, "rows of an earlier run do not count"


def test_as_many_queries_as_allowed_are_remembered():
    for size in (1, 2, 6):
        ids = [5, 1, 7, 2, 9]
        assert len(list(align(iter(cut(ids, size)), ReadOptions(block_rows=1), QueryGuard(5)))) == 5
        for more in ([4], [1], [4, 6]):
            with pytest.raises(LimitError) as caught:
                list(
                    align(iter(cut([*ids, *more], size)), ReadOptions(block_rows=1), QueryGuard(5))
                )
            assert caught.value.parameter == "max_queries"
    rising = [1, 2, 3, 4, 5, 6]
    with raises_for("max_queries", LimitError):
        list(align(iter(cut([*rising, 0], 1)), ReadOptions(block_rows=1), QueryGuard(5)))
    with pytest.raises(QueryOrderError, match="query 2 reappears"):
        list(align(iter(cut([*rising[:5], 2], 1)), ReadOptions(block_rows=1), QueryGuard(6)))


@pytest.mark.parametrize("sorted_first", [True, False])
def test_what_is_remembered_stays_in_few_sorted_parts(monkeypatch, sorted_first):
    guard = QueryGuard(10_000)
    ids = list(range(600)) if sorted_first else np.random.default_rng(0).permutation(600).tolist()
    sort, sorted_ids = np.sort, []
    monkeypatch.setattr(np, "sort", lambda a, **more: sorted_ids.append(len(a)) or sort(a, **more))
    for _ in align(iter(cut(ids, 1)), ReadOptions(block_rows=1), guard):
        assert all(len(a) >= 2 * len(b) for a, b in itertools.pairwise(guard._key_parts))
    assert sum(sorted_ids) < 600 * 12
    parts = guard._key_parts
    assert sorted(np.concatenate(parts).tolist()) == list(range(600))
    assert len(parts) <= 11
    if not sorted_first:
        assert all((np.diff(part) > 0).all() for part in parts)


def test_a_part_is_at_least_twice_as_long_as_the_next():
    guard, lengths = QueryGuard(100), []
    for k in range(8):
        guard._add_part(np.array([k]))
        lengths.append([len(part) for part in guard._key_parts])
    assert lengths == [[1], [2], [2, 1], [4], [4, 1], [4, 2], [4, 2, 1], [8]]


def test_rows_of_a_group_may_be_mixed():
    mixed = dataset([1, 2, 1, 3, 2])
    parts = list(regroup([mixed], 2))
    assert [part.qid.tolist() for part in parts] == [[1, 1, 2, 2], [3]]

    def stopping():
        yield mixed
        raise AssertionError("more was read than a group needs")

    assert next(iter(regroup(stopping(), 3))) is mixed
    assert len(list(regroup([mixed], 3))) == 1


# ------------------------------------------------------------------ what a stream says
def test_files_of_a_stream_have_one_set_of_names(tmp_path):
    for k, names in enumerate((["a", "b"], ["a", "b"], ["a", "c"])):
        made = Dataset.from_arrays(np.eye(2), [0, 1], [k, k], feature_names=names)
        made.save(tmp_path / f"{k}.parquet")
    same = rankine.scan([tmp_path / "0.parquet", tmp_path / "1.parquet"])
    assert same.feature_names == ("a", "b")
    assert (
        same.compute_fingerprint()
        == rankine.load([tmp_path / f"{k}.parquet" for k in (0, 1)]).fingerprint
    )
    other = rankine.scan([tmp_path / "0.parquet", tmp_path / "2.parquet"])
    with pytest.raises(SchemaError) as error:
        list(other)
    assert error.value.parameter == "features"
    assert error.value.file == str(tmp_path / "2.parquet")
    renamed = rankine.scan(
        [tmp_path / "0.parquet", tmp_path / "2.parquet"], feature_names=["x", "y"]
    )
    assert {block.feature_names for block in renamed} == {("x", "y")}


def test_streams_name_three_files_and_read_no_npz(tmp_path):
    paths = [tmp_path / f"{k}.txt" for k in range(4)]
    for path in paths:
        path.write_bytes(b"# none\n")
    names = ", ".join(map(str, paths[:3]))
    assert repr(rankine.scan(paths)) == f"Scan({names}, ...)"
    assert repr(rankine.scan(paths[:3])) == f"Scan({names})"
    with pytest.raises(EmptyDataError) as error:
        list(rankine.scan(paths, n_features=1))
    assert error.value.reason == f"no rows in {names} and 1 more"
    dataset([1]).save(tmp_path / "x.npz")
    for read in (rankine.load, rankine.scan):
        with pytest.raises(FileKindError) as caught:
            read([paths[0], tmp_path / "x.npz"])
        assert "numpy.load" in caught.value.fix
    with pytest.raises(ParameterError) as caught:
        rankine.scan(io.BytesIO(b"1 qid:1 1:1\n"))
    assert caught.value.parameter == "n_features"


def test_the_rows_of_a_block_may_be_said_for_a_pass(tmp_path):
    path = write(tmp_path / "x.txt", range(10))
    stream = rankine.scan(path, block_rows=4)
    assert [block.n_rows for block in stream.blocks()] == [4, 4, 2]
    assert [block.n_rows for block in stream.blocks(5)] == [5, 5]
    assert sum(block.n_rows for block in stream.raw_blocks(3)) == 10
