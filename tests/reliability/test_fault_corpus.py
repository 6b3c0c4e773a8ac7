"""Every hand-made bad file is refused with its place, whatever way it is read."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma

import pyarrow as pa
import pytest

import rankine
from corpus.bad_text import CORPUS, GOOD
from rankine.core.errors import DataError

pytestmark = pytest.mark.reliability


class Pipe:
    """A stream that can neither seek nor be read twice, and gives few bytes at a time."""

    name = "pipe"

    def __init__(self, data):
        self._file = io.BytesIO(data)

    def read(self, count=-1):
        return self._file.read(min(count, 13) if count >= 0 else 13)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


WAYS = {
    "plain": lambda data: (io.BytesIO(data), {}),
    "gz": lambda data: (io.BytesIO(gzip.compress(data)), {}),
    "bz2": lambda data: (io.BytesIO(bz2.compress(data)), {}),
    "xz": lambda data: (io.BytesIO(lzma.compress(data)), {}),
    "zst": lambda data: (io.BytesIO(pa.Codec("zstd").compress(data, asbytes=True)), {}),
    "pipe": lambda data: (Pipe(data), {}),
    "chunk 1": lambda data: (io.BytesIO(data), {"chunk_bytes": 1}),
    "chunk 7": lambda data: (io.BytesIO(data), {"chunk_bytes": 7}),
    "chunk 64": lambda data: (io.BytesIO(data), {"chunk_bytes": 64}),
}


@pytest.mark.parametrize("way", WAYS)
def test_corpus_is_refused_with_its_place(way):
    for bad in CORPUS:
        stream, options = WAYS[way](bad.data)
        with pytest.raises(DataError) as caught:
            rankine.load(stream, **options, **bad.options)
        error = caught.value
        found = (error.code, error.line, error.column)
        assert found == (bad.code, bad.line, bad.column), f"{bad.name}: {error}"
        assert error.reason, bad.name
        assert error.fix, bad.name
        assert error.code == "empty" or error.file, bad.name


@pytest.mark.parametrize("way", WAYS)
def test_the_good_file_is_read_in_every_way(way):
    stream, options = WAYS[way](GOOD)
    data = rankine.load(stream, dense=True, **options)
    assert data.X.tolist() == [[0.5, 0, -2e-3], [0, 7, 0], [1, 0, 0]]
    assert data.qid.tolist() == [1, 1, 2]
    assert data.docid.tolist() == ["a", "b", ""]


def test_streams_refuse_the_corpus_too(tmp_path):
    for bad in CORPUS:
        path = tmp_path / "bad.txt"
        path.write_bytes(bad.data)
        with pytest.raises(DataError) as caught:
            list(rankine.scan(path, **bad.options))
        assert (caught.value.code, caught.value.line) == (bad.code, bad.line), bad.name


def test_skipped_rows_are_counted_and_the_others_kept():
    rows = [bad for bad in CORPUS if bad.line == 2 and bad.code in {"parse", "query-order"}]
    assert len(rows) > 50
    for bad in rows:
        if bad.name == "no final newline when required":
            continue
        data = rankine.load(io.BytesIO(bad.data), on_bad_row="skip", **bad.options)
        assert data.notes["skipped_rows"] == 1, bad.name
        assert data.n_rows == bad.data.strip(b"\n").count(b"\n"), bad.name
