"""Every bad file is refused with its place and in words, whatever way it is read."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import rankine
from corpus.bad_text import CORPUS, GOOD
from rankine.core.errors import DataError, ParseError
from reliability.trials import text

pytestmark = pytest.mark.reliability


@pytest.fixture(autouse=True, scope="module")
def _short_head():
    """Only the first bytes are read before the first chunk, so that small files have windows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rankine.data.compression.HEAD_BYTES", 4)
        yield


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


REASONS = [
    (b"good qid:1 1:1", {}, "parse", 1, "label 'good' is not a decimal number", "Write a decimal"),
    (b"1 qid:1 1:0x1", {}, "parse", 11, "value '0x1' is not a decimal number", "Write a decimal"),
    (b"1:1 qid:1", {}, "parse", 1, "the line starts with '1:1', not with a label", "Write a dec"),
    (b"1 qid:1 1:2:3", {}, "parse", 11, "value '2:3' is not a decimal number", "Write a decimal"),
    (b"1 qid:1 1:", {}, "parse", 11, "empty value", "Write a decimal number such as 0.5"),
    (b"1 qid:1 1:# x", {}, "parse", 11, "empty value", "Write a decimal number such as 0.5"),
    (b"nan qid:1", {}, "parse", 1, "label is missing ('nan')", "Every row needs a number as label"),
    (b"1 qid:1 1:-NA", {}, "parse", 11, "value is missing ('-NA')", "Write NULL or NaN where a"),
    (b"-Inf qid:1", {}, "parse", 1, "label '-Inf' is infinite", "Write a finite number"),
    (b"1 qid:1 1:+inf", {}, "parse", 11, "value '+inf' is infinite", "Write a finite number"),
    (b"1 qid:1 1:1\0", {}, "parse", 11, "a NUL byte: the file is binary", "Check that the file"),
    (b"1 qid:1 1:2\xff", {}, "parse", 11, "bytes that are not UTF-8 (b'\\xff')", "Check that"),
    (b"1 qid:1 1:2\x0b3", {}, "parse", 11, "character '\\x0b' where only blanks", "Check that"),
    (b"1 qid:1 2\xc2\xa0:3", {}, "parse", 9, "character '\\xa0' where only blanks", "Check that"),
    (b"-1e999 qid:1", {}, "limit", 1, "label '-1e999' is too large for the chosen dtype", "Rescal"),
    (b"1 qid:1 1:.5e39", {"dtype": "float32"}, "limit", 11, "value '.5e39' is too large", "Rescal"),
    (b"1 qid:1 1:1.e999", {}, "parse", 11, "value '1.e999' is not a decimal number", "Write a dec"),
    (b"1 qid:1 1:1_0", {}, "parse", 11, "value '1_0' is not a decimal number", "Write a decimal"),
    (b"1,5 qid:1", {}, "parse", 1, "label '1,5' holds a comma", "Use a point as decimal separator"),
    (b"1 2:1", {}, "query-order", 3, "no query id before '2:1'", "Write 'label qid:ID index:value"),
    (b"1 xid:2 2:1", {}, "query-order", 3, "no query id before 'xid:2'", "single_query if al"),
    (b"1 qix:2 2:1", {}, "query-order", 3, "no query id before 'qix:2'", "or pass group (rows pe"),
    (b"1 # x", {}, "query-order", 3, "no query id", "Write 'label qid:ID index:value ...' on ever"),
    (b"1 qid:1", {"single_query": True}, "query-order", 3, "a query id in a file whose", "Leave o"),
    (b"1 qid:9223372036854775808", {}, "limit", 7, "query id '9223372036854775808' is not a 64-bit",
     "Set qid_type to 'str'"),
    (b"1 qid:\xe9 1:1", {"qid_type": "str"}, "parse", 7, "query id '\\xe9' is not UTF-8", "Conv"),
    (b"1 qid:\x80 1:1", {"qid_type": "str"}, "parse", 7, "query id '\\x80' is not UTF-8", "Conv"),
    (b"1 qid: 1:1", {"qid_type": "str"}, "parse", 7, "empty query id", "Write the id directly aft"),
    (b"1 qid: 1:1", {}, "parse", 7, "empty query id", "Write the id directly after 'qid:'"),
    (b"1 qid:a\x7f 1:1", {"qid_type": "str"}, "parse", 7, "query id 'a\\x7f' holds a control", "R"),
    (b"1 qid:a 1:1", {}, "parse", 7, "query id 'a' is not an integer", "Set qid_type to 'str'"),
    (b"1 qid:1 0:1", {}, "parse", 9, "feature index 0, but indices start at 1", "Set base to 0 if"),
    (b"1 qid:1 4:1", {"n_features": 3}, "limit", 9, "feature index '4' is above 3, the last of 3 f",
     "Increase n_features"),
    (b"1 qid:1 3:1", {"n_features": 3, "base": 0}, "limit", 9, "feature index '3' is above 2, the",
     "Increase n_features"),
    (b"1 qid:1 11:1", {"max_features": 10}, "limit", 9, "feature index '11' is above the limit of ",
     "Renumber or hash the features"),
    (b"1 qid:1 2:1\t3:1 02:2", {}, "parse", 17, "feature index '02' appears twice", "Write every"),
    (b"1 qid:1 5:1 5:2 # 5:3", {}, "parse", 13, "feature index '5' appears twice", "Write every f"),
    (b"1 qid:1 qid:1", {}, "parse", 9, "the query id must come right after the label", "Move it"),
    (b"1 qid:1 cost:2", {}, "parse", 9, "'cost:2' is an SVMlight extension that is not read", "Re"),
    (b"1 qid:1 sid:2", {}, "parse", 9, "'sid:2' is an SVMlight extension that is not read", "Rem"),
    (b"1 qid:1 23 4:1", {}, "parse", 9, "'23' has no value", "Write 'index:value'"),
    (b"1 qid:1 price:1", {}, "parse", 9, "'price:1' is not a feature 'index:value'", "index in di"),
    (b"1 qid:1 2:1\r3", {}, "parse", 12, "a carriage return that is not followed by a line feed",
     "Convert the line endings to LF or CRLF"),
    (b"1 qid:1 1:" + b"x" * 99, {}, "parse", 11, f"value '{'x' * 39}…' is not a decimal", "Write "),
    (b"1 qid:1 1:" + "検".encode() * 99, {}, "parse", 11, f"value '{'検' * 39}…' is not", "Write"),
]  # fmt: skip


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n"])
def test_the_reason_and_the_fix_say_what_is_wrong(ending):
    for line, options, code, column, reason, fix in REASONS:
        if ending == b"" and line.endswith(b"\0"):
            continue
        with pytest.raises(DataError) as caught:
            rankine.load(io.BytesIO(b"# first\n" + line + ending), **options)
        error = caught.value
        assert (error.code, error.line, error.column) == (code, 2, column), line
        assert error.reason.startswith(reason), line
        assert fix in error.fix, line


@pytest.mark.kernels
def test_changed_files_are_read_or_refused_as_the_slow_reader_does(tmp_path):
    rng = random.Random(1)
    ends = Counter(text.read_and_compare(*text.draw(rng), tmp_path) for _ in range(400))
    assert min(ends["read"], ends["refused"]) > 80


@pytest.mark.kernels
def test_words_for_a_missing_value_are_two():
    words = ["nan", "NaN", "NULL", "Null", "nULl"]
    near = {
        word[:k] + c + word[k + 1 :] for word in words for k in range(len(word)) for c in "alnux"
    }
    near |= {word[:k] for word in words for k in range(1, len(word))} | {f"{w}l" for w in words}
    for word in [*words, *sorted(w for w in near if w.lower() not in {"nan", "null"})]:
        line = io.BytesIO(f"1 qid:1 1:{word}\n".encode())
        if word in words:
            data = rankine.load(line)
            assert np.isnan(data.X).all()
            assert data.read_counts["missing_values"] == 1
        else:
            with pytest.raises(ParseError):
                rankine.load(line)


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
        assert data.read_counts["skipped_rows"] == 1, bad.name
        assert data.n_rows == bad.data.strip(b"\n").count(b"\n"), bad.name
