"""What the text reader makes of good files."""

from __future__ import annotations

import io
import os
import threading
from dataclasses import fields, replace

import numpy as np
import pytest
from scipy import sparse

import rankine
from corpus.bad_text import GOOD
from error_checks import raises_at, raises_for
from rankine.core.errors import (
    DataError,
    EmptyDataError,
    LimitError,
    ParameterError,
    ParseError,
    SchemaError,
)
from rankine.data.options import ReadKeywords, ReadOptions
from rankine.data.readers import letor
from rankine.data.readers.letor_tokens import State, _sort_row
from rankine.data.sources import find_sources
from reference import slow_reader

LETOR4 = (
    b"# a comment line\n"
    b"2 qid:10032 1:0.056537 2:0.000000 46:0.076923 #docid = GX029-35-5894638 inc = 0.1 prob = 0\n"
    b"\n"
    b"0 qid:10032 1:0.279152 3:-0.5 # 7555 rambo\r\n"
    b"\t1.5 \t qid:-7\t2:1e3#tight\n"
    b"1 qid:10032\n"
)


@pytest.fixture(autouse=True, scope="module")
def _short_head():
    """Only the first bytes are read before the first chunk, so that small files have windows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rankine.data.compression.HEAD_BYTES", 4)
        yield


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
    assert data.read_counts["missing_values"] == 2
    with raises_at(ParseError, line=1, column=11):
        load(b"1 qid:1 1:NA\n")
    with raises_at(ParseError, line=1, column=11):
        load(b"1 qid:1 1:inf\n")


@pytest.mark.kernels
def test_every_part_of_a_row_is_kept_over_windows():
    rng = np.random.default_rng(4)
    lines, rows = [], []
    for k in range(60):
        order = rng.permutation(9)[: rng.integers(0, 9)]
        values = np.round(rng.normal(size=len(order)), 3)
        rows.append(
            (dict(zip(order, values, strict=True)), k % 5, 7 * (k // 4) - 50, "d" * (k % 3))
        )
        label, qid, docid = rows[-1][1:]
        pairs = "".join(f" {j + 1}:{v}" for j, v in zip(order, values, strict=True))
        lines.append(f"{label} qid:{qid}{pairs} # {docid}\n# none\n".encode())
    for chunk in (11, 97, 10_000):
        data = load(b"".join(lines), dense=False, chunk_bytes=chunk, n_features=9)
        for i, (features, label, qid, docid) in enumerate(rows):
            assert dict(zip(data.X[i].indices, data.X[i].data, strict=True)) == features
            assert (data.y[i], data.qid[i], data.docid[i]) == (label, qid, docid)
        data.X.check_format(full_check=True)


@pytest.mark.kernels
@pytest.mark.parametrize("count", [*range(2, 12), 100])
def test_rows_in_any_order_are_sorted_and_twins_found(count):
    rng = np.random.default_rng(count)
    for twin in (False, True):
        for _ in range(4):
            columns = rng.permutation(3 * count)[:count].astype(np.int32)
            columns[0] = columns[-1] if twin else columns[0]
            values = columns * 2.0
            expected = np.sort(columns)
            assert _sort_row(columns, values) == (not twin)
            np.testing.assert_array_equal(columns, expected)
            np.testing.assert_array_equal(values, 2.0 * expected)


@pytest.mark.kernels
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_of_many_hard_numbers(dtype):
    for count in (0, 1, 2, 31, 32, 33, 63, 70):
        texts = [f"0.{k + 1:02d}98765432109876543210" for k in range(count)]
        row = "".join(f" {k + 1}:{text}" for k, text in enumerate(texts))
        label = "0.12345678901234567890123"
        rows = f" \t {label} qid:1{row} 99:1\n1 qid:1 1:{label}\n2 qid:1 1:0.55555555555555555555\n"
        data = load(rows.encode(), dtype=dtype, dense=True)
        assert data.y.tolist() == [float(label), 1, 2]
        np.testing.assert_array_equal(data.X[0, :count], np.array(texts, dtype=float).astype(dtype))
        assert data.X[1:, 0].tolist() == [np.dtype(dtype).type(x) for x in (label, 5 / 9)]


def test_a_refused_hard_number_does_not_stand_in_for_the_next():
    long = "1.2345678901234567890123"
    for bad in (f"1 qid:1 1:{long} 2:1e999", f"1e999 qid:1 1:{long}", f"1 qid:1 2:{long} 1:-1e999"):
        text = f"{bad}\n1 qid:1 1:{long[::-1]}\n0 qid:1 1:{long}\n".encode()
        data = load(text, on_bad_row="skip")
        assert data.read_counts["skipped_rows"] == 1
        assert data.X[:, 0].tolist() == [float(long[::-1]), float(long)]


@pytest.mark.kernels
def test_query_ids_are_64_bits_and_documents_any_word():
    ids = [2**63 - 1, -(2**63), 2**63 - 8, 0, 10, -9, 922337203685477580]
    comments = [b"docid = a b", b"docid=b", b" docid\t=\tc", b"docid d", b"doc e", b"docid =", b""]
    rows = [b"1 qid:%d #%s\n" % row for row in zip(ids, comments, strict=True)]
    for ending in (b"\n", b"\r\n"):
        data = load(b"".join(rows).replace(b"\n", ending))
        assert data.qid.tolist() == ids
        assert data.docid.tolist() == ["a", "b", "c", "docid", "doc", "", ""]
    assert load(b"1 qid:+5 # x\n").qid.tolist() == [5]
    assert load(b"1 qid:5 # x\n").docid.tolist() == ["x"]
    assert load(b"1 qid:5 #\n").docid is None
    assert load(b"# d\n1 qid:5\n# d").docid is None


def test_texts_are_the_pieces_of_their_heap():
    rng = np.random.default_rng(0)
    pieces = [b"a", b"", b" ", b"~", b"\x7f", b"\x1f", "é".encode(), b"\xff", b"xyz" * 9]
    for chosen in [pieces, *([piece] for piece in pieces), [], [b"z", b"yy"], [b"yy", b"z"]]:
        for _ in range(3):
            drawn = [chosen[k] for k in rng.permutation(len(chosen))]
            heap = np.frombuffer(b"".join(drawn), dtype=np.uint8)
            ends = np.cumsum([len(piece) for piece in drawn], dtype=np.int64)
            shown = [piece.decode("utf-8", "backslashreplace") for piece in drawn]
            shown = [piece.replace("\x7f", "\\x7f").replace("\x1f", "\\x1f") for piece in shown]
            found = letor.decode_texts(heap, ends)
            assert found.tolist() == shown
            assert found.dtype.itemsize == 4 * max([1, *map(len, shown)])


@pytest.mark.parametrize("letter", ["x", "é"])
def test_long_texts_do_not_make_every_row_as_wide(letter):
    for length, kind in ((256, "U"), (257, "T")):
        text = f"1 qid:1 # {letter * length}\n0 qid:1 # b\n".encode()
        data = load(text)
        assert data.docid.dtype.kind == kind
        assert data.docid.tolist() == [letter * length, "b"]


@pytest.mark.parametrize("qid_type", ["int", "str"])
def test_one_query_has_the_id_0(qid_type):
    data = load(b"1\n2\n" * 50, single_query=True, qid_type=qid_type)
    assert data.qid.tolist() == [0] * 100
    assert data.y.tolist() == [1, 2] * 50
    assert data.X.shape == (100, 0)


@pytest.mark.parametrize("name", ["label", "query", "docid", "weight", "position"])
def test_text_has_no_columns_to_name(name):
    with pytest.raises(ParameterError, match="'x'") as caught:
        load(b"1 qid:1 1:1\n", **{name: "x"})
    assert caught.value.parameter == name
    with pytest.raises(ParameterError, match="'x'") as caught:
        load(b"1 qid:1 1:1\n", columns=["x"])
    assert caught.value.parameter == "columns"
    assert load(b"1 qid:1 1:1\n", **{name: None}).n_rows == 1


def source_of(tmp_path, text):
    path = tmp_path / "rows.txt"
    path.write_bytes(text)
    (source,) = find_sources(path)
    return source


def test_blocks_end_after_so_many_rows_or_values(tmp_path, monkeypatch):
    source = source_of(tmp_path, b"1 qid:1 1:1 2:2\n" * 8)

    def sizes(**options):
        options = ReadOptions(chunk_bytes=1, n_features=2, **options)
        return [block.n_rows for block in letor.read_blocks(source, options)]

    assert sizes(block_rows=3) == [3, 3, 2]
    assert sizes(block_rows=4) == [4, 4]
    monkeypatch.setattr(letor, "_BLOCK_VALUES", 4)
    assert sizes(block_rows=3) == [2, 2, 2, 2]
    assert sizes(block_rows=1) == [1] * 8


def test_notes_of_blocks_are_their_own(tmp_path):
    bad, good = b"x\n", b"1 qid:1 1:NaN 2:nan\n1 qid:1 1:1 2:1\n"
    source = source_of(tmp_path, good + bad + good + bad + bad + good + bad + b"1 qid:1 2:1")
    options = ReadOptions(n_features=3, on_bad_row="skip", block_rows=2, chunk_bytes=1)
    blocks = list(letor.read_blocks(source, options))
    assert sum(block.n_rows for block in blocks) == 7
    for name, count in (("skipped_rows", 4), ("missing_values", 6), ("no_final_newline", 1)):
        assert sum(block.read_counts.get(name, 0) for block in blocks) == count
    assert ["narrower_files" in block.read_counts for block in blocks] == [False] * 3 + [True]
    wide = letor.read_blocks(source, replace(options, n_features=2))
    assert not any("narrower_files" in block.read_counts for block in wide)
    assert [k for block in blocks for k in block.lines] == [1, 2, 4, 5, 8, 9, 11]
    whole = letor.read(source, options)
    assert (whole.read_counts["skipped_rows"], whole.read_counts["missing_values"]) == (4, 6)
    assert whole.read_counts["narrower_files"] == 1
    assert "narrower_files" not in letor.read(source, replace(options, n_features=2)).read_counts
    only_bad = source_of(tmp_path, good + bad)
    last = list(letor.read_blocks(only_bad, options))[-1]
    assert (last.n_rows, last.read_counts) == (0, {"skipped_rows": 1, "narrower_files": 1})
    assert letor.measure(only_bad, replace(options, n_features=None)) == 2


def test_room_is_reserved_for_what_a_file_still_holds(tmp_path, monkeypatch):
    text = b"1 qid:1 1:1 2:2\n" * 100
    source, asked, make_room = source_of(tmp_path, text), [], letor.Columns.make_room

    def noted(self, n_bytes, ahead):
        asked.append(ahead)
        return make_room(self, n_bytes, ahead)

    monkeypatch.setattr(letor.Columns, "make_room", noted)
    source.head()
    reader = letor.Reader(source, ReadOptions(chunk_bytes=160))
    for _ in reader.windows():
        pass
    assert asked[0] == 0
    assert asked[1:] == sorted(asked[1:], reverse=True)
    assert 1 <= asked[-1] < 1.2
    assert len(text) / 200 < asked[1] < len(text) / 100
    arrays = make_room(reader._columns, 0)
    assert 200 <= len(arrays.values) < 400
    assert len(arrays.indices) < 60  # full rows need none
    assert reader.take().X.tolist() == [[1, 2]] * 100
    again = make_room(reader._columns, 160)
    assert len(again.y) >= 100  # as much as before


def test_growing_is_refused_above_the_limit_when_half_of_it_is_used():
    columns = letor.Columns(ReadOptions(max_memory=8000), np.zeros(len(State), dtype=np.int64))
    for used, length, good in ((500, 1001, True), (501, 1000, True), (501, 1001, False)):
        columns._arrays["y"] = np.arange(600.0)
        if good:
            columns._grow("y", used, length)
            assert len(columns._arrays["y"]) == length
            assert columns._arrays["y"][:used].tolist() == list(range(used))
        else:
            with pytest.raises(LimitError) as caught:
                columns._grow("y", used, length)
            assert caught.value.parameter == "max_memory"
    with pytest.raises(LimitError):
        columns._grow("y", 0, 2**57)
    assert load(b"1 qid:1 1:1\n" * 200, max_memory=5000).n_rows == 200


def test_half_full_is_dense_and_fits_exactly():
    half = b"1 qid:1 1:3\n0 qid:1 2:4\n"
    assert load(half).X.tolist() == [[3, 0], [0, 4]]
    assert sparse.issparse(load(half + b"0 qid:1\n").X)
    text = b"".join(b"0 qid:1 %d:%d\n" % (k % 4 + 1, k + 1) for k in range(300))
    assert load(text, dense=True, max_memory=9600).X.sum(axis=1).tolist() == list(range(1, 301))
    with pytest.raises(LimitError) as caught:
        load(text, dense=True, max_memory=9599)
    assert caught.value.parameter == "dense"


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
    assert data.read_counts["empty_files"] == 1
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
        with raises_for("group", SchemaError):
            load(rows, group=sizes)
    with raises_for("group", SchemaError):
        load(rows, group=[1.5, 1.5])
    side.write_text("1\n2.0\n")
    with raises_at(ParseError, line=2, column=1) as caught:
        load(rows, group=side)
    assert caught.value.line == 2
    with pytest.raises(ParameterError):
        load(rows, group=[3], single_query=True)


def test_row_weights(tmp_path):
    rows = b"1 qid:1 1:1\n0 qid:1 1:2\n"
    side = tmp_path / "x.weight"
    side.write_text("0.5\n2\n")
    assert load(rows, sample_weight=side).weight.tolist() == [0.5, 2]
    with raises_for("sample_weight", SchemaError):
        load(rows, sample_weight=[1.0])
    side.write_text("0.5\nnan\n")
    with raises_at(ParseError, line=2, column=1):
        load(rows, sample_weight=side)


def test_feature_names(tmp_path):
    file = tmp_path / "names.txt"
    file.write_text("price\nclicks\nage\n")
    data = load(b"1 qid:1 1:1 2:3\n", feature_names=file)
    assert data.feature_names == ("price", "clicks", "age")
    assert data.n_features == 3
    with pytest.raises(LimitError):
        load(b"1 qid:1 4:1\n", feature_names=["a", "b", "c"])
    with raises_at(SchemaError, line=2):
        load(b"1 qid:1 1:1\n", feature_names=["a", "a"])
    with pytest.raises(SchemaError, match="2 feature names for 3"):
        load(b"1 qid:1 1:1\n", feature_names=["a", "b"], n_features=3)


def test_a_final_line_without_newline_is_noted():
    assert load(b"1 qid:1 1:1").read_counts["no_final_newline"] == 1
    assert "no_final_newline" not in load(b"1 qid:1 1:1\n").read_counts


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
    with raises_for("max_memory", LimitError):
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
    assert data.read_counts["skipped_rows"] == 1
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
    with pytest.raises(LimitError) as caught:
        load(b"1 qid:1 2147483647:1\n", dense=True, max_memory=2**30)
    assert caught.value.parameter == "dense"
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


# ------------------------------------------------------------------ The way the bytes arrive neve
TEXT = (
    b"2 qid:10 1:0.5 2:0 45:0.123456789012345678901 #docid = 1234 x\n"
    b"# whole line\n\n0 qid:10 3:1e-3 1:-7 # d2\n1 qid:11 2:.25\n  1 qid:12\n"
)


def bits(data):
    matrix = data.X.tocsr()
    return (
        matrix.shape, matrix.data.tobytes(), matrix.indices.tobytes(), matrix.indptr.tobytes(),
        data.y.tobytes(), data.qid.tobytes(),
        None if data.docid is None else data.docid.tolist(),
    )  # fmt: skip


class Split:
    """A stream that ends a read at a given byte."""

    name = "split"

    def __init__(self, data, place):
        self._pieces = [data[:place], data[place:]]

    def read(self, count=-1):
        while self._pieces and not self._pieces[0]:
            self._pieces.pop(0)
        if not self._pieces:
            return b""
        piece, self._pieces[0] = self._pieces[0][:count], self._pieces[0][count:]
        return piece

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_every_split_point_and_chunk_size(ending):
    text = TEXT.replace(b"\n", ending)
    expected = bits(rankine.load(io.BytesIO(TEXT), dense=False))
    for place in range(len(text) + 1):
        assert bits(rankine.load(Split(text, place), dense=False)) == expected
    for chunk in range(1, len(text) + 2):
        assert bits(rankine.load(io.BytesIO(text), dense=False, chunk_bytes=chunk)) == expected


def outcome(read, data, refusal):
    """(line of the refusal, None) or (None, rows)."""
    try:
        return None, read(data)
    except refusal as error:
        return error.line, None


def test_every_prefix_agrees_with_the_slow_reader():
    for stop in range(len(TEXT) + 1):
        data = TEXT[:stop]
        line, rows = outcome(slow_reader.read, data, slow_reader.RefusedError)
        fast = outcome(lambda d: rankine.load(io.BytesIO(d), chunk_bytes=16), data, DataError)
        assert fast[0] == line
        if rows:
            assert fast[1].y.tolist() == [row.label for row in rows]
            total = sum(sum(row.features.values()) for row in rows)
            assert fast[1].X.sum() == pytest.approx(total)


def test_blocks_do_not_depend_on_chunks(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"".join(b"1 qid:%d 1:%d\n" % (k // 7, k) for k in range(200)))
    expected = [(b.qid.tolist(), b.y.tolist()) for b in rankine.scan(path, block_rows=20)]
    assert len(expected) > 5
    for chunk in (1, 13, 100, 5000):
        stream = rankine.scan(path, block_rows=20, chunk_bytes=chunk)
        assert [(b.qid.tolist(), b.y.tolist()) for b in stream] == expected


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 16, 40, 1000])
def test_a_line_of_exactly_the_limit_is_read(chunk):
    for length in (12, 13, 60, 61):
        for ending in (b"", b"\n", b"\n\n# a\n"):
            row = b"1 qid:1 1:5".ljust(length, b" ")
            text = b"#\n# 2\n" + row + ending
            options = {"chunk_bytes": chunk}
            data = rankine.load(io.BytesIO(text), max_line_bytes=length, **options)
            assert data.X.tolist() == [[5]]
            assert ("no_final_newline" in data.read_counts) == (not ending)
            for bad in (row, row[:-1] + b"x"):
                text = b"#\n# 2\n" + bad + ending
                with pytest.raises(LimitError, match=f"longer than {length - 1} bytes") as caught:
                    rankine.load(io.BytesIO(text), max_line_bytes=length - 1, **options)
                assert caught.value.line == 3
            with pytest.raises(ParseError) as caught:  # bad, but not too long
                rankine.load(io.BytesIO(text), max_line_bytes=length, **options)
            assert caught.value.line == 3


@pytest.mark.parametrize("chunk", [1, 5, 16])
def test_a_last_line_without_line_feed_may_have_any_length(chunk):
    for length in range(0, 90, 1 if chunk > 1 else 7):
        text = GOOD + b"1 qid:3 1:" + b"1" * length + b".5"
        data = rankine.load(io.BytesIO(text), chunk_bytes=chunk)
        assert data.y[-1] == 1
        assert data.X[-1, 0] == float("1" * length + ".5")
        with pytest.raises(ParseError) as caught:
            rankine.load(io.BytesIO(text), chunk_bytes=chunk, require_final_newline=True)
        assert caught.value.parameter == "require_final_newline"
        assert caught.value.line == 4
        with raises_at(ParseError, line=4):
            rankine.load(io.BytesIO(text + b"\r"), chunk_bytes=chunk)


def test_long_bad_lines_are_skipped_whole():
    bad = b"1 qid:1 1:x # " + b"y" * 9000 + b"\n"
    text = GOOD + bad + GOOD + bad + bad + b"5 qid:9 1:1\n"
    for chunk in (100, 5000, 10**6):
        data = rankine.load(io.BytesIO(text), chunk_bytes=chunk, on_bad_row="skip")
        assert data.read_counts["skipped_rows"] == 3
        assert data.y.tolist() == [2, 0, 1, 2, 0, 1, 5]


class Endless:
    """A stream without end and without a line feed; counts what was taken from it."""

    name = "endless"

    def __init__(self, byte, start=b""):
        self.taken = 0
        self._byte = byte
        self._start = start

    def read(self, count=-1):
        start, self._start = self._start, b""
        self.taken += count
        return start + self._byte * (count - len(start))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.mark.reliability
@pytest.mark.parametrize(
    "stream",
    [Endless(b"1"), Endless(b"x", b"1 qid:1 1:1 # "), Endless(b" "), Endless(b"0", b"1 qid:1 1:")],
    ids=["digits", "comment", "blanks", "number"],
)
def test_a_line_without_end_is_refused_before_it_is_buffered(stream):
    import tracemalloc

    tracemalloc.start()
    try:
        with raises_for("max_line_bytes", LimitError) as caught:
            rankine.load(stream)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.line == 1
    assert stream.taken < 20 * 2**20
    assert peak < 64 * 2**20


def test_long_lines_within_the_limit_are_read():
    row = b"1 qid:1 " + b" ".join(b"%d:1" % k for k in range(1, 300_001)) + b"\n"
    data = rankine.load(io.BytesIO(GOOD + row), chunk_bytes=1024, dense=False)
    assert np.diff(data.X.indptr).tolist() == [2, 1, 1, 300_000]
