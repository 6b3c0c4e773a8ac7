"""What the text reader makes of good files."""

from __future__ import annotations

import io
import os
import threading
from dataclasses import fields

import numpy as np
import pytest
from scipy import sparse

import rankine
from rankine.core.errors import (
    DataError,
    EmptyDataError,
    LimitError,
    ParameterError,
    ParseError,
    SchemaError,
)
from rankine.data.options import ReadKeywords, ReadOptions

LETOR4 = (
    b"# a comment line\n"
    b"2 qid:10032 1:0.056537 2:0.000000 46:0.076923 #docid = GX029-35-5894638 inc = 0.1 prob = 0\n"
    b"\n"
    b"0 qid:10032 1:0.279152 3:-0.5 # 7555 rambo\r\n"
    b"\t1.5 \t qid:-7\t2:1e3#tight\n"
    b"1 qid:10032\n"
)


def load(data, **options):
    return rankine.load(io.BytesIO(data), **options)


@pytest.mark.kernels
def test_a_letor_file_in_full():
    data = load(LETOR4)
    assert data.y.tolist() == [2, 0, 1.5, 1]
    assert data.qid.tolist() == [10032, 10032, -7, 10032]
    assert data.docid.tolist() == ["GX029-35-5894638", "7555", "tight", ""]
    assert sparse.issparse(data.X)
    assert data.X.shape == (4, 46)
    assert data.X[0].indices.tolist() == [0, 1, 45]
    assert data.X[1].data.tolist() == [0.279152, -0.5]
    assert data.X.indptr.tolist() == [0, 3, 5, 6, 6]
    assert data.n_queries == 2


@pytest.mark.kernels
def test_unsorted_rows_are_sorted():
    data = load(b"1 qid:1 9:9 2:2 5:5 1:1\n", dense=False)
    assert data.X.indices.tolist() == [0, 1, 4, 8]
    assert data.X.data.tolist() == [1, 2, 5, 9]


@pytest.mark.kernels
def test_text_query_ids():
    data = load("1 qid:é#x\n0 qid:7 1:1\n0 qid:2.5\n".encode(), qid_type="str")
    assert data.qid.tolist() == ["é", "7", "2.5"]
    assert data.docid.tolist() == ["x", "", ""]


@pytest.mark.kernels
def test_base_zero():
    assert load(b"1 qid:1 0:5 1:6\n", base=0).X.tolist() == [[5, 6]]


@pytest.mark.kernels
def test_null_and_nan_are_missing_values():
    data = load(b"1 qid:1 1:NULL 2:nan 3:3\n")
    np.testing.assert_array_equal(data.X, [[np.nan, np.nan, 3]])
    assert data.notes["missing_values"] == 2
    with pytest.raises(ParseError, match="NULL or NaN"):
        load(b"1 qid:1 1:NA\n")
    with pytest.raises(ParseError, match="infinite"):
        load(b"1 qid:1 1:inf\n")


def test_storage_follows_density():
    assert isinstance(load(b"1 qid:1 1:1 2:1\n0 qid:1 1:3\n").X, np.ndarray)
    assert sparse.issparse(load(b"1 qid:1 1:1 9:1\n").X)
    assert sparse.issparse(load(b"1 qid:1 1:1 2:1\n", dense=False).X)
    wide = load(b"1 qid:1 1:1 9:1\n", dense=True, n_features=12)
    assert wide.X.shape == (1, 12)
    assert wide.X[0, 8] == 1


def test_offsets_stay_within_the_matrix():
    data = load(b"1 qid:1 3:1\n0 qid:2\n", dense=False)
    assert data.X.indices.dtype == np.int32
    data.X.check_format(full_check=True)


def test_docids_longer_than_most_and_not_utf8():
    long = b"x" * 1000
    data = load(b"1 qid:1 1:1 # " + long + b"\n1 qid:1 1:1 # \xff\x00\n")
    assert data.docid.tolist() == [long.decode(), "\\xff\\x00"]


def test_many_files_in_the_given_order(tmp_path):
    for name, row in (
        ("b.txt", b"1 qid:1 5:1\n"),
        ("a.txt", b"2 qid:2 1:1\n"),
        ("c.txt", b"# none\n"),
    ):
        (tmp_path / name).write_bytes(row)
    data = rankine.load([tmp_path / "b.txt", tmp_path / "a.txt", tmp_path / "c.txt"])
    assert data.y.tolist() == [1, 2]
    assert data.X.shape == (2, 5)
    assert data.notes["empty_files"] == 1
    assert rankine.load(str(tmp_path / "*.txt")).y.tolist() == [2, 1]
    with pytest.raises(EmptyDataError):
        rankine.load([tmp_path / "c.txt", tmp_path / "c.txt"])
    with pytest.raises(DataError, match="no file matches"):
        rankine.load(str(tmp_path / "*.nothing"))
    with pytest.raises(DataError, match="does not exist"):
        rankine.load(tmp_path / "nothing.txt")
    with pytest.raises(DataError, match="folder"):
        rankine.load(tmp_path)


def test_storage_of_several_files(tmp_path):
    for name, row in (
        ("1", b"1 qid:1 1:1 2:2\n"),
        ("2", b"1 qid:2 1:3\n"),
        ("3", b"1 qid:3 9:4\n"),
    ):
        (tmp_path / name).write_bytes(row)
    dense = rankine.load([tmp_path / "1", tmp_path / "2"])
    assert dense.X.tolist() == [[1, 2], [3, 0]]
    mixed = rankine.load([tmp_path / "1", tmp_path / "3"])
    assert sparse.issparse(mixed.X)
    assert mixed.X.toarray()[:, [0, 1, 8]].tolist() == [[1, 2, 0], [0, 0, 4]]


def test_standard_input(monkeypatch):
    class Stdin:
        buffer = io.BytesIO(b"1 qid:1 1:1\n")

    monkeypatch.setattr("sys.stdin", Stdin)
    assert rankine.load("-").n_rows == 1


def test_group_sizes_stand_in_for_query_ids(tmp_path):
    rows = b"1 1:1\n0 1:2\n2 1:3\n"
    assert load(rows, group=[2, 1]).qid.tolist() == [0, 0, 1]
    assert load(rows, group=[0, 3]).qid.tolist() == [1, 1, 1]
    side = tmp_path / "x.query"
    side.write_text("1\n2\n")
    assert load(rows, group=side).qid.tolist() == [0, 1, 1]
    assert load(rows, single_query=True).n_queries == 1
    for sizes in ([2], [2, 2], [], [1, 1]):
        with pytest.raises(SchemaError, match="group sizes add up"):
            load(rows, group=sizes)
    with pytest.raises(SchemaError, match="row counts"):
        load(rows, group=[1.5, 1.5])
    side.write_text("1\n2.0\n")
    with pytest.raises(ParseError, match="not a row count") as caught:
        load(rows, group=side)
    assert caught.value.line == 2
    with pytest.raises(ParameterError):
        load(rows, group=[3], single_query=True)


def test_row_weights(tmp_path):
    rows = b"1 qid:1 1:1\n0 qid:1 1:2\n"
    side = tmp_path / "x.weight"
    side.write_text("0.5\n2\n")
    assert load(rows, sample_weight=side).weight.tolist() == [0.5, 2]
    with pytest.raises(SchemaError, match="weights for"):
        load(rows, sample_weight=[1.0])
    side.write_text("0.5\nnan\n")
    with pytest.raises(ParseError, match="not a weight"):
        load(rows, sample_weight=side)


def test_feature_names(tmp_path):
    file = tmp_path / "names.txt"
    file.write_text("price\nclicks\nage\n")
    data = load(b"1 qid:1 1:1 2:3\n", feature_names=file)
    assert data.feature_names == ("price", "clicks", "age")
    assert data.n_features == 3
    with pytest.raises(LimitError):
        load(b"1 qid:1 4:1\n", feature_names=["a", "b", "c"])
    with pytest.raises(SchemaError, match="twice"):
        load(b"1 qid:1 1:1\n", feature_names=["a", "a"])
    with pytest.raises(SchemaError, match="2 feature names for 3"):
        load(b"1 qid:1 1:1\n", feature_names=["a", "b"], n_features=3)


def test_a_final_line_without_newline_is_noted():
    assert load(b"1 qid:1 1:1").notes["no_final_newline"] == 1
    assert "no_final_newline" not in load(b"1 qid:1 1:1\n").notes


@pytest.mark.parametrize(
    ("name", "value"),
    [("base", 2), ("qid_type", "float"), ("missing", "mean"), ("dtype", "int32"),
     ("chunk_bytes", 0), ("n_features", -1), ("max_features", 2**31), ("colour", "red"),
     ("format", "xls")],
)  # fmt: skip
def test_bad_options_are_named(name, value):
    with pytest.raises(ParameterError, match=name):
        load(b"1 qid:1 1:1\n", **{name: value})


def test_memory_is_bounded_when_asked():
    with pytest.raises(LimitError, match=r"rankine\.scan|GiB"):
        load(b"1 qid:1 1:1 2:2 3:3\n" * 20_000, max_memory=100_000, chunk_bytes=4096)


def test_hard_numbers_in_bad_and_good_rows():
    long = b"1" * 25
    data = load(
        b"1 qid:1 1:1e999 2:"
        + long
        + b"\n"
        + long
        + b" qid:1 2:"
        + long
        + b" 1:"
        + long
        + b"e-9\n",
        on_bad_row="skip",
    )
    assert data.notes["skipped_rows"] == 1
    assert data.y.tolist() == [float(long)]
    assert data.X.tolist() == [[float(long + b"e-9"), float(long)]]
    many = b"1 qid:1 " + b" ".join(b"%d:%s" % (k, long) for k in range(1, 200)) + b"\n"
    assert load(many).X.tolist() == [[float(long)] * 199]


@pytest.mark.parametrize("chunk", [1, 16, 64, 4096])
@pytest.mark.parametrize("dense", [True, False, None])
def test_full_rows_before_partial_ones(chunk, dense):
    full = b"".join(b"1 qid:1 1:%d 2:%d 3:%d\n" % (k, k + 1, k + 2) for k in range(9))
    for tail in (b"", b"0 qid:1 2:7\n", b"0 qid:1 5:7 4:1\n", b"0 qid:1\n" + full):
        for width in (None, 8):
            data = load(full + tail, chunk_bytes=chunk, dense=dense, n_features=width)
            whole = load(full + tail, dense=True, n_features=width)
            matrix = data.X.toarray() if sparse.issparse(data.X) else data.X
            assert matrix.tolist() == whole.X.tolist()
            assert matrix[8, :3].tolist() == [8, 9, 10]
            if sparse.issparse(data.X):
                data.X.check_format(full_check=True)
                assert data.X.nnz == (full + tail).count(b":") - (full + tail).count(b"qid:")


def test_keywords_are_the_options():
    assert set(ReadKeywords.__annotations__) == {field.name for field in fields(ReadOptions)}


def test_streams_of_the_caller_stay_open():
    stream = io.BytesIO(b"1 qid:1 1:1\n")
    assert rankine.load(stream).n_rows == 1
    assert not stream.closed
    with pytest.raises(ParameterError, match="binary mode"):
        rankine.load(io.StringIO("1 qid:1 1:1\n"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_named_pipes(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(b"1 qid:1 1:1\n" * 1000,))
    writer.start()
    assert rankine.load(path).n_rows == 1000
    writer.join()


def test_a_dense_matrix_that_cannot_fit_is_refused():
    with pytest.raises(LimitError, match="dense=False"):
        load(b"1 qid:1 2147483647:1\n", dense=True, max_memory=2**30)
    assert load(b"1 qid:1 2147483647:1\n").X.shape == (1, 2**31 - 1)


def test_progress_is_shown_on_stderr_once_it_takes_long(tmp_path, capsys, monkeypatch):
    path = tmp_path / "x[bold].txt"
    path.write_bytes(b"1 qid:1 1:1\n" * 1000)
    rankine.load(path, progress=True)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("rankine.data.progress._PATIENCE", 0.0)
    rankine.load(path, progress=True, chunk_bytes=100)
    assert capsys.readouterr().err == ""  # no terminal: neither a bar nor an empty line
    monkeypatch.setenv("FORCE_COLOR", "1")
    rankine.load(path, progress=True, chunk_bytes=100)
    shown = capsys.readouterr()
    assert "Reading" in shown.err
    assert shown.out == ""
    rankine.load(path, chunk_bytes=100)
    assert capsys.readouterr().err == ""
