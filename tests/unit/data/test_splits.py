from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankine
from error_checks import raises_for
from rankine.core.errors import DataError, ParameterError, QueryOrderError, SchemaError
from rankine.data import Dataset
from rankine.data import splits as module
from rankine.data.splits import (
    named_parts,
    parse_split,
    query_folds,
    split_in_order,
    split_queries,
)


def make(qid, **more):
    n = len(qid)
    return Dataset.from_arrays(np.arange(2.0 * n).reshape(n, 2), np.arange(n) % 3, qid, **more)


@pytest.fixture
def data():
    return make(np.repeat(np.arange(50), 4))


@pytest.fixture
def interleaved():
    return make(np.tile(np.arange(50), 4))


def queries(part):
    return set(part.qid.tolist())


@pytest.mark.parametrize("shuffled", [False, True])
def test_random_parts_are_whole_queries_in_row_order(data, interleaved, shuffled):
    whole = interleaved if shuffled else data
    parts = split_queries(whole, (0.6, 0.2, 0.2), random_state=1)
    assert [part.n_queries for part in parts] == [30, 10, 10]
    assert set.union(*map(queries, parts)) == queries(whole)
    assert sum(part.n_rows for part in parts) == whole.n_rows
    for part in parts:
        assert (np.diff(part.X[:, 0]) > 0).all()


def test_the_seed_decides(data):
    first = queries(split_queries(data, (1, 1), random_state=1)[0])
    assert queries(split_queries(data, (1, 1), random_state=1)[0]) == first
    assert queries(split_queries(data, (1, 1), random_state=2)[0]) != first
    assert queries(split_queries(data, (1, 1))[0]) != queries(split_queries(data, (1, 1))[0])


def test_every_query_is_in_one_test_fold(interleaved):
    seen = []
    for train, test in query_folds(interleaved, 7, random_state=0):
        assert not queries(train) & queries(test)
        assert train.n_rows + test.n_rows == interleaved.n_rows
        assert test.n_queries in (7, 8)
        seen += sorted(queries(test))
    assert sorted(seen) == list(range(50))


@pytest.mark.parametrize("n_folds", [0, 1, 51])
def test_impossible_folds(data, n_folds):
    with raises_for("n_folds"):
        next(query_folds(data, n_folds))


def test_split_in_order_of_appearance(data):
    parts = split_in_order(data, (9, 1, 1))
    assert [part.n_queries for part in parts] == [41, 4, 5]
    np.testing.assert_array_equal(np.concatenate([part.qid for part in parts]), data.qid)


@pytest.mark.parametrize("given", ["column", "array", "dates"])
def test_split_by_time_puts_the_latest_last(given):
    qid = np.repeat(np.arange(10), 3)
    day = np.repeat(np.arange(10)[::-1], 3)
    day[0] += 100  # a query has the time of its earliest row
    times = np.datetime64("2026-01-01", "D") + day if given == "dates" else day
    data = make(qid, columns={"day": times})
    old, new = split_in_order(data, (8, 2), time="day" if given != "array" else times)
    assert queries(new) == {0, 1}
    assert queries(old) == set(range(2, 10))
    day[-1] += 200
    old, new = split_in_order(data, (8, 2), time=day)
    assert queries(new) == {0, 1}


def test_bad_times(data):
    with raises_for("columns", SchemaError):
        split_in_order(data, (1, 1), time="day")
    with pytest.raises(SchemaError):
        split_in_order(data, (1, 1), time=np.full(200, np.nan))
    with pytest.raises(SchemaError):
        split_in_order(data, (1, 1), time=np.full(200, np.datetime64("NaT", "D")))
    with pytest.raises(SchemaError):
        split_in_order(data, (1, 1), time=np.arange(3))


@pytest.mark.parametrize("proportions", [(), (1,), (1, 0), (1, -1), (1, np.nan), (np.inf, 1)])
def test_bad_proportions(data, proportions):
    with raises_for("proportions"):
        split_queries(data, proportions)


def test_an_empty_part_is_refused(data):
    with pytest.raises(ParameterError, match="part 2 would get none"):
        split_queries(data, (1000, 1), random_state=0)


@pytest.mark.parametrize("kind", ["int", "str"])
def test_stream_parts_by_hash(tmp_path, kind):
    qid = np.repeat(np.arange(2000), 2)
    data = make(qid if kind == "int" else [f"q{q}" for q in qid])
    path = tmp_path / "data.parquet"
    data.save(path)
    parts = split_queries(rankine.scan(path, block_rows=300), (3, 1), random_state=5)
    found = [{q for block in part for q in block.qid.tolist()} for part in parts]
    assert not found[0] & found[1]
    assert len(found[0] | found[1]) == 2000
    assert 1400 < len(found[0]) < 1600
    other = split_queries(rankine.scan(path, block_rows=77), (3, 1), random_state=5)
    assert {q for block in other[0] for q in block.qid.tolist()} == found[0]
    assert parts[0].n_features == 2
    assert parts[0].feature_names is None
    assert "Part of Scan" in repr(parts[0])


def test_stream_parts_in_order(tmp_path):
    data = make(np.repeat(np.arange(11), 3), columns={"day": np.repeat(np.arange(11), 3)})
    path = tmp_path / "data.parquet"
    data.save(path)
    for time in (None, "day"):
        parts = split_in_order(rankine.scan(path, block_rows=5), (9, 1, 1), time=time)
        found = [np.concatenate([block.qid for block in part]) for part in parts]
        assert [len(np.unique(ids)) for ids in found] == [9, 1, 1]
        np.testing.assert_array_equal(np.concatenate(found), data.qid)
    with raises_for("time"):
        split_in_order(rankine.scan(path), (1, 1), time=np.arange(33))


def test_a_stream_out_of_order_is_refused(tmp_path):
    data = make(np.repeat(np.arange(6), 2), columns={"day": np.repeat(np.arange(6)[::-1], 2)})
    path = tmp_path / "data.parquet"
    data.save(path)
    part = split_in_order(rankine.scan(path, block_rows=4), (1, 1), time="day")[0]
    with pytest.raises(QueryOrderError, match="not in order of 'day'"):
        list(part)


@pytest.mark.parametrize("block_rows", [1, 7, 1000])
def test_streams_are_split_as_rows_in_memory_are(data, tmp_path, block_rows):
    data.save(tmp_path / "rows.parquet")
    stream = rankine.scan(tmp_path / "rows.parquet", block_rows=block_rows)
    for rows, blocks in zip(
        split_in_order(data, (5, 3, 2)), split_in_order(stream, (5, 3, 2)), strict=True
    ):
        found = np.concatenate([block.X for block in blocks])
        np.testing.assert_array_equal(found, rows.X)


# ------------------------------------------------------------------ streams, query by query
class Blocks:
    """A stream in memory that counts its passes."""

    options, sources, feature_names, n_features = "options", ("a", "b.txt"), None, 2

    is_raw_log = False

    def __init__(self, *blocks):
        self._blocks, self.passes = blocks, 0

    def blocks(self, _rows=None):
        self.passes += 1
        return iter(self._blocks)


def test_a_query_goes_where_its_number_says(monkeypatch):
    units = np.array([0.0, 0.25, 0.5, 0.74, 0.75, 0.99])
    monkeypatch.setattr(module, "query_units", lambda ids, _: units[ids])
    block = make(np.repeat(np.arange(6), 2))
    parts = split_queries(Blocks(block), (2, 1, 1), random_state=0)
    assert [sorted(queries(part.load())) for part in parts] == [[0, 1], [2, 3], [4, 5]]
    assert (parts[0].options, parts[0].sources, parts[0].schema) == (
        "options",
        ("a", "b.txt"),
        None,
    )
    whole = split_queries(Blocks(block, make([0, 0]), make([1, 1])), (1, 1e-9), random_state=0)[0]
    assert next(iter(whole)) is block
    assert [len(list(part)) for part in split_queries(Blocks(make([0]), make([3])), (1, 1))] == [
        1,
        1,
    ]


@pytest.mark.kernels
@pytest.mark.parametrize("kind", [int, str])
def test_numbers_of_ids_are_even_and_their_own(kind):
    ids = np.array([kind(k) for k in range(4000)])
    found = module.query_units(ids, np.uint64(5))
    assert ((found >= 0) & (found < 1)).all()
    np.testing.assert_allclose(np.quantile(found, [0.1, 0.5, 0.9]), [0.1, 0.5, 0.9], atol=0.03)
    np.testing.assert_array_equal(module.query_units(ids[::-1], np.uint64(5)), found[::-1])
    assert (module.query_units(ids, np.uint64(6)) != found).all()
    assert len(np.unique(found)) == 4000


def test_queries_are_counted_once_for_all_parts():
    stream = Blocks(
        make([0, 0, 1], columns={"day": np.zeros(3)}), make([2, 3], columns={"day": np.zeros(2)})
    )
    parts = split_in_order(stream, (1, 2, 1))
    assert [part.load().qid.tolist() for part in parts] == [[0, 0], [1, 2], [3]]
    assert stream.passes == 1 + 3
    again = split_in_order(stream, (3, 1))
    assert [part.load().qid.tolist() for part in again] == [[0, 0, 1, 2], [3]]
    assert stream.passes == 4 + 2
    by_day = split_in_order(stream, (3, 1), time="day")
    assert len(list(by_day[1])) == 1
    assert stream.passes == 6 + 2, "equal times are in order; they are looked at once"
    assert parts[0].compute_fingerprint() == make([0, 0]).fingerprint


def test_time_that_runs_back_between_blocks_is_noticed():
    def block(qid, days, sources=()):
        return replace(make([qid] * len(days), columns={"day": np.array(days)}), sources=sources)

    later = block(2, [1, 4], ("a.txt", "b.txt"))
    with pytest.raises(QueryOrderError) as error:
        split_in_order(Blocks(block(0, [3]), block(1, [5]), later), (1, 1), time="day")[0].load()
    assert error.value.file == "b.txt"
    with pytest.raises(QueryOrderError) as error:
        split_in_order(Blocks(block(1, [5]), block(2, [4])), (1, 1), time="day")[0].load()
    assert error.value.file is None
    fine = Blocks(block(0, [3]), block(1, [5, 3]), block(2, [4]))
    assert split_in_order(fine, (2, 1), time="day")[0].load().qid.tolist() == [0, 1, 1]


def test_as_many_folds_as_queries(data):
    for folds in (2, 50):
        tests = [test.n_queries for _, test in query_folds(data, folds, random_state=0)]
        assert tests == [50 // folds] * folds
    once, again = (
        [sorted(queries(test)) for _, test in query_folds(data, 5, random_state=s)] for s in (1, 2)
    )
    assert once != again


@pytest.mark.parametrize(
    "text", ["space:1,1", "time", "time:1,1,1,1", "time:-1,2", "time:0,1", ":1,1", "time:1,,1"]
)
def test_splits_that_are_none(text):
    with raises_for("split"):
        parse_split(text)


def test_parts_have_names(data):
    assert parse_split("time: 1/2 , 0.5") == (0.5, 0.5)
    two, three = (named_parts(data, f"time:{text}", None) for text in ("4,1", "3,1,1"))
    assert {name: part.n_queries for name, part in two.items()} == {"train": 40, "valid": 10}
    assert [part.n_queries for part in three.values()] == [30, 10, 10]
    assert list(three) == ["train", "valid", "test"]


def test_times_of_another_shape_or_kind(data):
    for times in (np.array(["a"] * 200), np.zeros((200, 1)), np.zeros(199)):
        with pytest.raises(SchemaError):
            split_in_order(data, (1, 1), time=times)
    assert module.query_times(make([]), np.zeros(0)).tolist() == []
    with pytest.raises(ParameterError, match="part 1 would get none of the 50"):
        split_queries(data, (1, 1000), random_state=0)
    with raises_for("proportions"):
        split_queries(data, [[1, 1]])
    tenths = module._cumulate([0.1] * 10)
    assert (len(tenths), tenths[0], tenths[-1]) == (11, 0.0, 1.0), "whatever their sum is"


@pytest.mark.parametrize(
    "text", ["time:", "9/11,2/11", "time:1", "time:1,0", "time:1,x", "time:1,1/0"]
)
def test_bad_splits(text):
    with raises_for("split"):
        parse_split(text)


def test_split_shares():
    assert parse_split("time:9/11,1/11,1/11") == pytest.approx((9 / 11, 1 / 11, 1 / 11))


# ------------------------------------------------------------------------ Hive columns
def write_days(folder, spans):
    """Write a log of five days, in which the last list of a day may go on to the next one."""
    for day in range(1, 6):
        ids = np.repeat(np.arange(4), 2) + 4 * day
        if spans:
            ids[-1] += 1
            ids = np.sort(ids)
        table = pa.table({"qid": ids, "label": [0, 1] * 4, "x": np.arange(8) + 8.0 * day})
        path = folder / f"day=2026-11-0{day}" / "part-0.parquet"
        path.parent.mkdir()
        pq.write_table(table, path)


@pytest.mark.parametrize("where", [None, "x != 8 and x != 9"])
def test_only_the_folders_of_a_part_are_read(tmp_path, where):
    write_days(tmp_path, spans=False)
    stream = rankine.scan(tmp_path, columns=["day"], where=where)
    whole = rankine.load(tmp_path, columns=["day"], where=where)
    parts = split_in_order(stream, (0.55, 0.25, 0.2), "day")
    expected = split_in_order(whole, (0.55, 0.25, 0.2), "day")
    loaded = [part.load() for part in parts]
    assert [part.fingerprint for part in loaded] == [part.fingerprint for part in expected]
    for day in (1, 2, 3):  # the last part does not need these
        (tmp_path / f"day=2026-11-0{day}" / "part-0.parquet").unlink()
    assert parts[2].load().fingerprint == expected[2].fingerprint
    with pytest.raises(DataError):
        parts[0].load()


def test_a_list_in_two_folders_is_whole_in_its_part(tmp_path):
    write_days(tmp_path, spans=True)
    stream = rankine.scan(tmp_path, columns=["day"])
    whole = rankine.load(tmp_path, columns=["day"])
    for part, expected in zip(
        split_in_order(stream, (2, 1), "day"), split_in_order(whole, (2, 1), "day"), strict=True
    ):
        assert part.load().fingerprint == expected.fingerprint
