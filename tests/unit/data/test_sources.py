"""The files that are named, the options of reading them, and the names of their formats."""

from __future__ import annotations

import io
import os
import threading

import pytest

import rankine
from rankine.core.errors import (
    ChangedDataError,
    DataError,
    EmptyDataError,
    ParameterError,
)
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
    with pytest.raises(EmptyDataError):
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
    with pytest.raises(ChangedDataError), source.watched():
        pass
    with pytest.raises(ChangedDataError), source.watched():
        raise DataError("a bad row", fix="")
    path.unlink()
    with pytest.raises(ChangedDataError):
        source.check()
    with pytest.raises(ChangedDataError):
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
    with pytest.raises(ChangedDataError):
        source.open()


class Slow(io.RawIOBase):
    """A stream that gives one byte at a time, then nothing."""

    def __init__(self, data):
        self._stream = data

    def readable(self):
        return True

    def read(self, count=-1):
        piece, self._stream = self._stream[: min(count, 1)], self._stream[1:]
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
    assert not joined._stream.closed
    with pytest.raises(ParameterError, match="binary mode"):
        rankine.load(io.StringIO("1 qid:1 1:1\n"))


# ------------------------------------------------------------------ numbers beside the rows
