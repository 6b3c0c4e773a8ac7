"""The way the bytes arrive never changes the result."""

from __future__ import annotations

import io

import numpy as np
import pytest

import rankine
from corpus.bad_text import GOOD
from rankine.core.errors import DataError, LimitError, ParseError
from reference import slow_reader

TEXT = (
    b"2 qid:10 1:0.5 2:0 45:0.123456789012345678901 #docid = 1234 x\n"
    b"# whole line\n\n0 qid:10 3:1e-3 1:-7 # d2\n1 qid:11 2:.25\n  1 qid:12\n"
)


@pytest.fixture(autouse=True, scope="module")
def _short_head():
    """Only the first bytes are read before the first chunk, so that small files have windows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rankine.data.compression.HEAD_BYTES", 4)
        yield


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
        with pytest.raises(ParseError, match="does not end in a line feed") as caught:
            rankine.load(io.BytesIO(text), chunk_bytes=chunk, require_final_newline=True)
        assert caught.value.line == 4
        with pytest.raises(ParseError, match="carriage return"):
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
        with pytest.raises(LimitError, match="longer than") as caught:
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
