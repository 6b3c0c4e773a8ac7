"""The files that are named, the options of reading them, and the names of their formats."""

from __future__ import annotations

import io
import os
import threading

import numpy as np
import pytest

import rankine
from rankine.core.errors import (
    ChangedDataError,
    DataError,
    EmptyDataError,
    FileKindError,
    ParameterError,
    ParseError,
    SchemaError,
)
from rankine.data import options as option_module
from rankine.data.compression import strip_compression
from rankine.data.formats import FORMATS, choose_format, format_for
from rankine.data.options import ReadOptions
from rankine.data.save import save
from rankine.data.sources import HEAD_BYTES, Prefixed, Source, find_sources, read_fully

ROW = b"1 qid:%d 1:%d\n"


@pytest.fixture
def folder(tmp_path):
    for k, name in enumerate(("b.txt", "a.txt", "c[1].txt")):
        (tmp_path / name).write_bytes(ROW % (k, k + 1))
    (tmp_path / "d.txt").mkdir()
    return tmp_path


# ------------------------------------------------------------------ which files
def test_patterns_lists_and_streams(folder):
    def names(paths):
        return [source.name.removeprefix(f"{folder}/") for source in find_sources(paths)]

    assert names(f"{folder}/*.txt") == ["a.txt", "b.txt", "c[1].txt"]
    assert names([folder / "b.txt", f"{folder}/a.txt"]) == ["b.txt", "a.txt"]
    assert names(folder / "c[1].txt") == ["c[1].txt"], "a file whose name looks like a pattern"
    assert names("-") == ["<stdin>"]
    assert names(io.BytesIO()) == ["<stream>"]
    with (folder / "a.txt").open("rb") as file:
        assert names([file]) == ["a.txt"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [("none.txt", "does not exist"), ("d.txt", "is a folder"), ("x*.txt", "no file matches")],
)
def test_what_is_no_file_is_said(folder, name, reason):
    with pytest.raises(DataError, match=reason) as error:
        find_sources(folder / name)
    assert error.value.file == str(folder / name)


def test_no_files_at_all():
    with pytest.raises(EmptyDataError, match="no files"):
        find_sources([])


def test_a_file_that_may_not_be_opened(folder):
    source = Source("x", folder / "gone.txt")
    with pytest.raises(DataError, match="cannot be opened: No such file"):
        source.open()
    assert (source.rereadable, source.size) == (False, None)
    with pytest.raises(DataError, match="has no path"):
        Source("x")._open_path()


def test_a_file_is_watched_while_it_is_read(folder):
    path = folder / "a.txt"
    (source,) = find_sources(path)
    source.check()
    with source.open() as file:
        assert file.read() == path.read_bytes()
    assert source.size == len(path.read_bytes())
    source.check()
    with source.watched():
        pass
    path.write_bytes(b"more than before\n")
    for act, when in ((source.check, "while it was read"), (source.open, "since the last pass")):
        with pytest.raises(ChangedDataError, match=when):
            act()
    with pytest.raises(ChangedDataError, match="while it was read"), source.watched():
        pass
    with pytest.raises(ChangedDataError, match="while it was read"), source.watched():
        raise DataError("a bad row", fix="")
    path.unlink()
    with pytest.raises(ChangedDataError, match="it is gone"):
        source.check()
    with pytest.raises(ChangedDataError, match="since the last pass"):
        source.open()
    (other,) = find_sources(folder / "b.txt")
    with pytest.raises(DataError, match="a bad row") as error, other.watched():
        raise DataError("a bad row", fix="")
    assert error.value.file == str(folder / "b.txt")


def test_a_pipe_is_read_once_and_its_head_is_not_lost(tmp_path):
    pipe, data = tmp_path / "pipe", ROW % (1, 2) * 100
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(data))
    writer.start()
    (source,) = find_sources(pipe)
    assert not source.rereadable
    assert source.head() == data[:HEAD_BYTES]
    assert source.head() == data[:HEAD_BYTES]
    with source.open() as file:
        assert file.read() == data
    writer.join()
    assert source.size is None
    source.check()
    with pytest.raises(ChangedDataError, match="only once"):
        source.open()


class Slow(io.RawIOBase):
    """A stream that gives one byte at a time, then nothing."""

    def __init__(self, data):
        self._rest = data

    def readable(self):
        return True

    def read(self, count=-1):
        piece, self._rest = self._rest[: min(count, 1)], self._rest[1:]
        return piece or None


def test_streams_that_give_little_at_a_time():
    assert read_fully(Slow(b"abcdef"), 4) == b"abcd"
    assert read_fully(Slow(b"abc"), 10) == b"abc"
    assert read_fully(Slow(b"abc"), 0) == b""
    joined = Prefixed(b"abc", Slow(b"def"))
    assert joined.readable()
    buffer = bytearray(2)
    pieces = []
    while count := joined.readinto(buffer):
        pieces.append(bytes(buffer[:count]))
    assert pieces == [b"ab", b"c", b"d", b"e", b"f"]
    assert not joined._rest.closed
    with pytest.raises(ParameterError, match="binary mode"):
        rankine.load(io.StringIO("1 qid:1 1:1\n"))


# ------------------------------------------------------------------ how they are read
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"base": 2}, "base=2 is not known"),
        ({"qid_type": "float"}, "qid_type='float'"),
        ({"on_bad_row": "ignore"}, "on_bad_row='ignore'"),
        ({"dtype": "float16"}, "dtype='float16'"),
        ({"block_rows": 0}, "block_rows=0 is not positive"),
        ({"max_features": 0}, "max_features=0 is not positive"),
        ({"max_features": 2**31}, r"max_features is above 2\^31 - 1"),
        ({"n_features": -1}, "n_features=-1 is not between 0 and"),
        ({"n_features": 11, "max_features": 10}, "n_features=11 is not between 0 and 10"),
        ({"group": [1], "single_query": True}, "both group and single_query"),
        ({"rows": 3}, "unknown option 'rows'"),
    ],
)
def test_options_that_mean_nothing(given, reason):
    with pytest.raises(ParameterError, match=reason):
        ReadOptions.make(**given)


def test_what_is_not_said_is_as_documented():
    options = ReadOptions()
    assert (options.base, options.block_rows, options.max_ratio) == (1, 65536, 256)
    assert options.max_features == 2**31 - 1
    assert options.max_line_bytes == 16 * 1024**2
    assert options.max_query_rows == options.max_queries == 16 * 1024**2
    assert options.chunk_bytes == 1024**2


def test_options_at_their_limits(monkeypatch):
    least = dict.fromkeys(option_module._POSITIVE, 1)
    assert ReadOptions.make(**least, n_features=1).n_features == 1
    assert ReadOptions.make(n_features=0, max_features=2**31 - 1).n_features == 0
    assert ReadOptions.make(dtype=np.float32).dtype == "float32"
    assert ReadOptions.make(group=[1]).single_query is False
    assert ReadOptions.make().has_query_ids
    assert not ReadOptions.make(group=[1]).has_query_ids
    assert not ReadOptions.make(single_query=True).has_query_ids
    assert ReadOptions.make(max_memory=7).memory_limit == 7
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 10}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)
    assert ReadOptions.make().memory_limit == 40960
    monkeypatch.delattr(os, "sysconf")
    assert ReadOptions.make().memory_limit == 2**63 - 1


def test_feature_names_from_a_list_or_a_file(folder):
    path, names = folder / "a.txt", folder / "names"
    names.write_text(" price \nsize\n")
    for given in (["price", "size"], names, str(names)):
        data = rankine.load(path, feature_names=given)
        assert data.feature_names == ("price", "size")
        assert data.n_features == 2
        assert rankine.scan(path, feature_names=given).feature_names == ("price", "size")
        assert [b.feature_names for b in rankine.scan(path, feature_names=given)] == [
            ("price", "size")
        ]
    with pytest.raises(SchemaError, match="2 feature names for 3 features"):
        rankine.load(path, feature_names=names, n_features=3)
    for text, reason, line in (("a\n\nb\n", "empty feature name", 2), ("a\nb\na\n", "twice", 3)):
        names.write_text(text)
        with pytest.raises(SchemaError, match=reason) as error:
            rankine.load(path, feature_names=names)
        assert (error.value.file, error.value.line) == (str(names), line)
    with pytest.raises(SchemaError, match="cannot be read"):
        rankine.load(path, feature_names=folder / "none")


def test_empty_files_are_counted_and_named(folder):
    for k in range(5):
        (folder / f"empty{k}.txt").write_bytes(b"# nothing\n")
    data = rankine.load([folder / "a.txt", folder / "empty0.txt", folder / "b.txt"])
    assert (data.n_rows, data.read_counts) == (2, {"empty_files": 1})
    assert data.sources == tuple(str(folder / f"{name}.txt") for name in ("a", "empty0", "b"))
    assert "empty_files" not in rankine.load(folder / "a.txt").read_counts
    empty = [str(folder / f"empty{k}.txt") for k in range(5)]
    with pytest.raises(EmptyDataError) as error:
        rankine.load(empty)
    assert error.value.reason == f"no rows in {', '.join(empty[:3])} and 2 more"
    with pytest.raises(EmptyDataError) as error:
        rankine.load(empty[:3])
    assert error.value.reason == f"no rows in {', '.join(empty[:3])}"


# ------------------------------------------------------------------ numbers beside the rows
def test_sizes_and_weights_beside_the_rows(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"1 1:1\n0 1:2\n2 1:3\n1 1:4\n")
    for name, lines in (
        ("q", "1\n 2 \n1\n"),
        ("q1", "1\n"),
        ("q2", "2\n1"),
        ("w", "1\n.5\n2e-1\n0"),
    ):
        (tmp_path / name).write_text(lines)
    both = [str(tmp_path / "q1"), tmp_path / "q2"]
    for group in ([1, 2, 1], tmp_path / "q", both):
        assert rankine.load(path, group=group).qid.tolist() == [0, 1, 1, 2]
    for weight in ([1, 0.5, 0.2, 0], str(tmp_path / "w")):
        data = rankine.load(path, single_query=True, sample_weight=weight)
        assert data.weight.tolist() == [1.0, 0.5, 0.2, 0.0]
        stream = rankine.scan(path, group=[2, 2], sample_weight=weight, block_rows=1)
        assert [block.weight.tolist() for block in stream] == [[1.0, 0.5], [0.2, 0.0]]
    for weight, reason in (
        ([1] * 3, "3 weights for at least 4 rows"),
        ([1] * 5, "5 weights for 4"),
    ):
        with pytest.raises(SchemaError, match=reason):
            rankine.load(path, single_query=True, sample_weight=weight)
    for group, reason in (
        ([3], "add up to 3 rows but the data has at least 4"), ([5], "5 rows but the data has 4"),
        ([], "add up to 0 rows"), ([0], "add up to 0 rows"),
    ):  # fmt: skip
        with pytest.raises(SchemaError, match=reason):
            rankine.load(path, group=group)
    for text, integer, reason in (
        ("2\n-2\n", True, "b'-2' is not a row count"), ("1\n2.5\n", True, "b'2.5' is not"),
        ("1\nx\n", False, "b'x' is not a weight"), ("1\nnan", False, "b'nan' is not a weight"),
    ):  # fmt: skip
        (tmp_path / "bad").write_text(text)
        name = "group" if integer else "sample_weight"
        given = {name: tmp_path / "bad"} | ({} if integer else {"single_query": True})
        with pytest.raises(ParseError, match=reason) as error:
            rankine.load(path, **given)
        assert (error.value.line, error.value.column) == (2, 1)
    with pytest.raises(DataError, match="cannot be opened"):
        rankine.load(path, group=tmp_path / "none")


# ------------------------------------------------------------------ formats
def test_a_format_is_named_recognised_or_told_by_its_suffix():
    def chosen(name, head=b"1 qid:1\n", form=None):
        return choose_format(Source(name), form, head).name

    assert chosen("x.txt.gz") == chosen("x") == chosen("x.unknown") == "letor"
    assert chosen("x.CSV") == chosen("x.tsv.bz2") == "csv"
    assert chosen("x.txt", b"PAR1....") == "parquet"
    assert chosen("x.txt", b"FEA1....") == "arrow"
    assert chosen("x.parquet", b"") == "parquet"
    assert chosen("x.parquet", form="csv") == "csv"
    with pytest.raises(FileKindError, match="npz files are written but not read") as caught:
        chosen("x.npz")
    assert "numpy.load" in caught.value.fix
    with pytest.raises(ParameterError, match="'xls' is not a known format") as caught:
        chosen("x", form="xls")
    assert caught.value.parameter == "format"
    for name in ("x.gz", "x.bz2", "x.xz", "x.zst"):
        assert strip_compression(name) == "x"
    assert strip_compression("x.gzip") == "x.gzip"


def test_only_some_formats_are_written(tmp_path):
    assert format_for("x.txt").name == "letor"
    assert format_for("x.txt", "npz").name == "npz"
    for name, form in (("x.csv", None), ("x", None), ("x.txt", "csv")):
        with pytest.raises(ParameterError, match="no writer for"):
            format_for(name, form)
    assert all(form.writer or form.name in ("csv", "json") for form in FORMATS.values())
    data = rankine.Dataset.from_arrays(np.eye(2), [0, 1])
    for name, given, parameter in (
        ("-", {"format": "npz"}, "path"),
        ("x.parquet.gz", {}, "path"),
        ("x.parquet", {"zeros": True}, "zeros"),
        ("x.txt", {"layout": "sparse"}, "layout"),
    ):
        with pytest.raises(ParameterError) as caught:
            save(data, name if name == "-" else tmp_path / name, **given)
        assert caught.value.parameter == parameter
    assert list(tmp_path.iterdir()) == []
