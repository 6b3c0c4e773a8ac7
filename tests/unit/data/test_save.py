"""Writers: what is refused before a file appears, where row groups end, what goes beside text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

import rankine
from error_checks import raises_at, raises_for
from rankine.core.errors import EmptyDataError, ParameterError, SchemaError
from rankine.data import Dataset, writers
from rankine.data.save import ConversionReport, _count_blocks, convert, save
from reference.npz import load_npz

SUFFIXES = ("parquet", "arrow", "npz")


def make(sizes=(3, 1, 4, 2), kind=np.asarray, **more):
    n = sum(sizes)
    X = np.arange(2.0 * n).reshape(n, 2)
    return Dataset.from_arrays(
        kind(X), np.arange(n) % 3, np.repeat(np.arange(len(sizes)), sizes), **more
    )


def test_row_groups_end_with_the_query_that_fills_them(tmp_path):
    data = make()
    for rows, groups in (
        (1, [3, 1, 4, 2]),
        (3, [3, 5, 2]),
        (4, [4, 4, 2]),
        (5, [8, 2]),
        (99, [10]),
    ):
        for cut in (1, 4, 10):
            blocks = [data.take(slice(k, k + cut)) for k in range(0, 10, cut)]
            assert save(blocks, tmp_path / "x.parquet", row_group_rows=rows) == 10
            found = pq.ParquetFile(tmp_path / "x.parquet").metadata
            assert [found.row_group(k).num_rows for k in range(found.num_row_groups)] == groups
    assert rankine.load(tmp_path / "x.parquet").fingerprint == data.fingerprint


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_blocks_without_rows_are_left_out(tmp_path, suffix):
    data, empty = make(), make().take(slice(0, 0))
    path = tmp_path / f"x.{suffix}"
    assert save([empty, data.take(slice(0, 4)), empty, data.take(slice(4, 10))], path) == 10
    load = load_npz if suffix == "npz" else rankine.load
    assert load(path).fingerprint == data.fingerprint
    for nothing in ([], [empty]):
        with pytest.raises(EmptyDataError):
            save(nothing, tmp_path / f"none.{suffix}")
    assert not (tmp_path / f"none.{suffix}").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"X": np.zeros((10, 3))},
        {"feature_names": ("a", "b")},
        {"columns": {"price": np.arange(10)}},
        {"docid": np.array(list("abcdefghij"))},
        {"weight": None},
        {"qid": np.array(list("abcdefghij")), "query_index": None},
    ],
    ids=lambda change: next(iter(change)),
)
def test_blocks_of_another_shape_are_refused(tmp_path, change):
    first = make(weight=np.ones(10))
    other = replace(first, **change)
    for suffix in ("parquet", "arrow"):
        with pytest.raises(SchemaError):
            save(
                [first, other],
                tmp_path / f"x.{suffix}",
                **({"row_group_rows": 1} if suffix == "parquet" else {}),
            )
    assert list(tmp_path.iterdir()) == []


def test_the_first_block_says_the_type(tmp_path):
    wide, narrow = make(), make()
    narrow = replace(narrow, X=narrow.X.astype(np.float32))
    for first, second in ((wide, narrow), (narrow, wide)):
        save([first, second], tmp_path / "x.arrow")
        assert rankine.load(tmp_path / "x.arrow").X.dtype == first.X.dtype


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_names_that_mean_something_else_are_refused(tmp_path, suffix):
    column = make(columns={"weight": np.arange(10)})
    with raises_at(SchemaError, column="weight") as error:
        save(replace(column, weight=np.ones(10)), tmp_path / f"x.{suffix}")
    assert error.value.column == "weight"
    if suffix == "npz":
        for name in writers._NPZ_NAMES:
            with pytest.raises(SchemaError, match=f"{name!r}, which has another"):
                save(make(columns={name: np.arange(10)}), tmp_path / "x.npz")
    else:
        with raises_at(SchemaError, column="qid"):
            save(make(feature_names=["a", "qid"]), tmp_path / f"x.{suffix}", layout="columns")
        with raises_at(SchemaError, column="a"):
            save(
                make(feature_names=["a", "b"], columns={"a": np.arange(10)}),
                tmp_path / f"x.{suffix}",
            )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("base", [0, 1])
def test_indices_count_from_the_base(tmp_path, kind, base):
    data = make(kind=kind)
    save(data, tmp_path / "x.parquet", layout="sparse", base=base)
    table = pq.read_table(tmp_path / "x.parquet")
    assert table["indices"].to_pylist()[1] == [base, base + 1]
    assert rankine.load(tmp_path / "x.parquet", base=base).fingerprint == data.fingerprint
    save(data, tmp_path / "x.txt", base=base)
    assert f" {base}:2 {base + 1}:3\n" in (tmp_path / "x.txt").read_text()
    with raises_for("base"):
        save(data, tmp_path / "y.parquet", base=2)
    save(data, tmp_path / "named.parquet", layout="columns")
    assert pq.read_table(tmp_path / "named.parquet").column_names[-2:] == ["f1", "f2"]


def test_compression_is_as_asked(tmp_path):
    data = make()
    for name in ("none", "snappy", "gzip", "zstd"):
        save(data, tmp_path / "x.parquet", compression=name)
        column = pq.ParquetFile(tmp_path / "x.parquet").metadata.row_group(0).column(0)
        assert column.compression == {"none": "UNCOMPRESSED"}.get(name, name.upper())
    long = Dataset.from_arrays(np.ones((5000, 2)), np.zeros(5000))
    sizes = {}
    for suffix, names in (("arrow", ("none", "lz4")), ("npz", ("none", "deflate"))):
        for name in names:
            save(long, tmp_path / f"{name}.{suffix}", compression=name)
            sizes[name] = (tmp_path / f"{name}.{suffix}").stat().st_size
            load = load_npz if suffix == "npz" else rankine.load
            assert load(tmp_path / f"{name}.{suffix}").fingerprint == long.fingerprint
        assert sizes[names[0]] > 4 * sizes[names[1]]
    for suffix in SUFFIXES:
        with raises_for("compression"):
            save(data, tmp_path / f"y.{suffix}", compression="zip")
        with raises_for("layout"):
            save(data, tmp_path / f"y.{suffix}", layout="wide")
    save(data, tmp_path / "x.arrows")
    with pa.ipc.open_stream(tmp_path / "x.arrows") as stream:
        assert stream.read_all().num_rows == 10


@pytest.mark.parametrize(("nnz", "kind"), [(2**31 - 1, pa.list_), (2**31, pa.large_list)])
def test_offsets_are_as_wide_as_the_stored_values_need(nnz, kind):
    class Long(sparse.csr_matrix):
        """A matrix that says it holds more than it does."""

        said = None
        nnz = property(lambda self: self.said or len(self.data))

    maker = writers._BatchMaker(make(kind=sparse.csr_matrix), "sparse", 1)
    matrix = Long(np.array([[0.0, 5.0], [6.0, 0.0]]))
    matrix.said = nnz
    found = maker._to_lists(matrix)
    assert found["indices"].type == kind(pa.int32())
    assert found["values"].type == kind(pa.float64())
    assert found["indices"].to_pylist() == [[2], [1]]
    assert found["values"].to_pylist() == [[5.0], [6.0]]


# ------------------------------------------------------------------ text
def test_rows_per_query_run_on_over_blocks(tmp_path):
    data = make()
    for cuts in ((10,), (1, 3, 6, 10), (2, 2, 7, 10), (5, 10)):
        edges = zip((0, *cuts[:-1]), cuts, strict=True)
        blocks = [data.take(slice(a, b)) for a, b in edges]
        assert save(blocks, tmp_path / "x.txt", group=True) == 10
        assert (tmp_path / "x.txt.query").read_text() == "3\n1\n4\n2\n"
        assert "qid" not in (tmp_path / "x.txt").read_text()


def test_weights_need_a_file_of_their_own(tmp_path, capsysbinary):
    for more in ({"weight": np.ones(10)}, {"position": np.ones(10, int)}):
        with pytest.raises(SchemaError, match=f"{next(iter(more))} needs a separate file"):
            save(make(**more), "-")
    capsysbinary.readouterr()
    save(make((1,)), "-")
    assert capsysbinary.readouterr().out == b"0 qid:0 2:1\n"
    weights = np.arange(10) + 0.5
    save(make(weight=weights).blocks(4), tmp_path / "x.txt")
    assert np.loadtxt(tmp_path / "x.txt.weight").tolist() == weights.tolist()
    assert not (tmp_path / "x.txt.position").exists()


def test_lines_are_the_same_whatever_is_formatted_at_once(tmp_path, monkeypatch):
    data = make(
        kind=sparse.csr_matrix, docid=[f"d{k % 4 or ''}" if k % 4 else "" for k in range(10)]
    )
    save(data, tmp_path / "whole.txt")
    monkeypatch.setattr(writers, "_SLAB_VALUES", 3)
    save(data, tmp_path / "parts.txt")
    whole = (tmp_path / "whole.txt").read_text()
    assert (tmp_path / "parts.txt").read_text() == whole
    assert whole.splitlines()[:2] == ["0 qid:0 2:1", "1 qid:0 1:2 2:3 #docid = d1"]


@pytest.mark.parametrize("bad", ["a#b", "", "a b"])
def test_query_ids_are_one_token(tmp_path, bad):
    data = Dataset.from_arrays(np.eye(2), [0, 1], np.array(["fine", bad]))
    with pytest.raises(SchemaError, match=f"query id {bad!r} cannot be written"):
        save(data, tmp_path / "x.txt")
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------ conversion
def test_what_a_conversion_counts(tmp_path):
    text = tmp_path / "x.txt"
    text.write_text("1 qid:1 1:1\n0 qid:1 2:NaN\nbad\n0 qid:2 1:NULL\n1 qid:1 1:2\n")
    names = {"feature_names": ["a", "b"]}
    for chunk in (16, 2**20):
        report = convert(
            text, tmp_path / "x.parquet", on_bad_row="skip", chunk_bytes=chunk, **names
        )
        assert (report.rows, report.queries, report.features) == (4, 3, 2)
        assert (report.skipped, report.missing) == (1, 2)
        assert (report.names, report.names_lost) == (("a", "b"), False)
    back = convert(tmp_path / "x.parquet", tmp_path / "y.txt")
    assert back.names_lost
    assert not convert(
        tmp_path / "x.parquet", tmp_path / "y.txt", names_out=tmp_path / "n"
    ).names_lost
    assert (tmp_path / "n").read_text() == "a\nb\n"
    assert not convert(text, tmp_path / "z.txt", on_bad_row="skip").names_lost
    with pytest.raises(ParameterError) as caught:
        convert(text, tmp_path / "z.txt", on_bad_row="skip", names_out=tmp_path / "m")
    assert caught.value.parameter == "names_out"
    assert not (tmp_path / "m").exists()


def test_runs_of_ids_are_count_blocks_over_blocks():
    assert ConversionReport() == ConversionReport(0, 0, 0, 0, 0, None, names_lost=False)
    ids = [1, 2, 2, 3, 3, 3, 1, 1, 2, 2, 3, 1]
    whole = Dataset.from_arrays(np.zeros((12, 1)), np.zeros(12), ids)
    for cut in (1, 2, 3, 5, 12):
        report = ConversionReport()
        blocks = [whole.take(slice(k, k + n)) for k in range(0, 12, cut) for n in (0, cut)]
        found = [block.n_rows for block in _count_blocks(iter(blocks), report)]
        assert (sum(found), min(found) > 0) == (12, True)
        assert (report.queries, report.skipped, report.missing) == (7, 0, 0)


@pytest.mark.parametrize("name", [" a", "a ", "", "a\nb", "a\u2028b"])
def test_names_that_fit_on_no_line(tmp_path, name):
    data = make(feature_names=["ok", name])
    data.save(tmp_path / "x.parquet", layout="sparse")
    with pytest.raises(SchemaError):
        convert(tmp_path / "x.parquet", tmp_path / "x.txt", names_out=tmp_path / "n")
