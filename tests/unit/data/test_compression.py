"""Compressed text: whole or refused, in bounded memory."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import random
import sqlite3
import tarfile
import zipfile
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import rankine
from error_checks import raises_for
from rankine.core.errors import CompressionError, DataError, FileKindError, LimitError
from rankine.data import compression
from rankine.data.compression import kind_of

TEXT = b"".join(b"%d qid:%d 1:%d 2:0.%d # d%d\n" % (k % 3, k // 5, k, k, k) for k in range(300))


def zstd(data):
    return pa.Codec("zstd").compress(data, asbytes=True)


PACKERS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstd}


@pytest.mark.parametrize("kind", PACKERS)
def test_compression_is_seen_by_content_not_by_name(kind, tmp_path):
    path = tmp_path / "data.txt"
    path.write_bytes(PACKERS[kind](TEXT))
    plain = rankine.load(io.BytesIO(TEXT))
    packed = rankine.load(path, chunk_bytes=100)
    assert packed.fingerprint == plain.fingerprint
    assert packed.docid.tolist() == plain.docid.tolist()


@pytest.mark.parametrize("kind", PACKERS)
def test_several_members_are_one_file(kind):
    pack = PACKERS[kind]
    half = TEXT.index(b"\n", len(TEXT) // 2) + 1
    data = rankine.load(io.BytesIO(pack(TEXT[:half]) + pack(TEXT[half:])))
    assert data.n_rows == 300


@pytest.mark.reliability
@pytest.mark.parametrize("kind", PACKERS)
def test_every_truncation_is_refused(kind):
    packed = PACKERS[kind](TEXT)
    for stop in range(1, len(packed)):
        with pytest.raises(DataError):
            rankine.load(io.BytesIO(packed[:stop]), chunk_bytes=256)


@pytest.mark.reliability
@pytest.mark.parametrize("kind", ["gz", "bz2", "xz"])
def test_flipped_bits_never_change_rows(kind):
    packed = PACKERS[kind](TEXT)
    whole = rankine.load(io.BytesIO(TEXT)).fingerprint
    rng = random.Random(5)
    refused = 0
    for _ in range(500):
        damaged = bytearray(packed)
        damaged[rng.randrange(len(packed))] ^= 1 << rng.randrange(8)
        try:
            assert rankine.load(io.BytesIO(bytes(damaged)), chunk_bytes=1024).fingerprint == whole
        except DataError:
            refused += 1
    assert refused > 400


@pytest.mark.parametrize("tail", [b"\0", b"\0" * 512, b"rubbish", b"\x1f\x8b", b"1 qid:1 1:1\n"])
def test_bytes_after_the_end_are_refused(tail):
    for kind in ("gz", "bz2", "xz"):
        with pytest.raises(CompressionError):
            rankine.load(io.BytesIO(PACKERS[kind](TEXT) + tail))
    with pytest.raises(DataError):
        rankine.load(io.BytesIO(zstd(TEXT) + tail))


def bomb(kind, megabytes):
    """Many members of good text, each expanding hundreds of times."""
    return PACKERS[kind](b"1 qid:1 1:1\n" * 87381) * megabytes


@pytest.mark.reliability
@pytest.mark.parametrize("kind", PACKERS)
def test_a_compression_bomb_is_stopped(kind):
    data = bomb(kind, 18)
    assert len(data) * 256 < 18 * 2**20
    with raises_for("max_ratio", LimitError):
        rankine.load(io.BytesIO(data))


def test_a_trusted_bomb_can_be_streamed():
    stream = rankine.scan(io.BytesIO(bomb("gz", 18)), n_features=1, max_ratio=10_000)
    assert sum(block.n_rows for block in stream) == 87381 * 18


def test_an_archive_inside_is_named():
    with pytest.raises(DataError, match="gzip data inside"):
        rankine.load(io.BytesIO(gzip.compress(gzip.compress(TEXT))))


def test_xz_that_wants_gigabytes_is_refused():
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 2**29}]
    data = bytearray(lzma.compress(b"1 qid:1 1:1\n", filters=filters))
    with pytest.raises(CompressionError):
        rankine.load(io.BytesIO(bytes(data)))


@pytest.mark.parametrize("kind", PACKERS)
def test_a_small_file_may_be_very_repetitive(kind):
    data = bomb(kind, 1)
    assert len(data) * 256 < 2**20
    assert rankine.load(io.BytesIO(data)).n_rows == 87381


@pytest.mark.parametrize("kind", PACKERS)
def test_cut_files_and_tails_are_told_apart(kind):
    name = {"gz": "gzip", "bz2": "bzip2", "xz": "xz", "zst": "zstd"}[kind]
    packed = PACKERS[kind](TEXT)
    with pytest.raises(CompressionError, match=f"{name} data") as error:
        rankine.load(io.BytesIO(packed[: len(packed) // 2]))
    cut = "damaged or cut" if kind == "zst" else "end too early: the file was cut"
    assert cut in error.value.reason
    if kind != "zst":
        with pytest.raises(CompressionError, match=f"bytes after the end of the {name} data"):
            rankine.load(io.BytesIO(packed + b"rubbish"))
        damaged = packed[:20] + bytes(20) + packed[40:]
        with pytest.raises(CompressionError, match=f"{name} data"):
            rankine.load(io.BytesIO(damaged))


class Drops(io.RawIOBase):
    """A stream that gives one byte at a time."""

    def __init__(self, data):
        self._file = io.BytesIO(data)

    def readable(self):
        return True

    def read(self, count=-1):
        return self._file.read(min(count, 1) if count > 0 else count)


@pytest.mark.parametrize("kind", PACKERS)
def test_streams_that_give_a_byte_at_a_time(kind):
    packed = PACKERS[kind](TEXT)
    assert len(packed) > 512, "more than is looked at beforehand"
    assert rankine.load(Drops(packed + packed)).n_rows == 600


def test_the_ratio_is_judged_at_its_limit(monkeypatch):
    monkeypatch.setattr(compression, "_RATIO_FREE", 100)

    def given(pieces, consumed, limit=10):
        stream = SimpleNamespace(consumed=consumed)
        return len(
            b"".join(compression._DecompressedStream._check_ratio(stream, iter(pieces), limit))
        )

    assert given([b"x" * 60, b"x" * 60], consumed=12) == 120
    assert given([b"x" * 100], consumed=1) == 100, "small files may be very repetitive"
    for pieces, consumed in (([b"x" * 60, b"x" * 61], 12), ([b"x" * 101], 10)):
        with pytest.raises(LimitError) as caught:
            given(pieces, consumed)
        assert caught.value.parameter == "max_ratio"


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz", "zst", "GZ"])
def test_equal_data_give_equal_files(tmp_path, suffix):
    for name in ("a", "b"):
        with compression.open_target(tmp_path / f"{name}.txt.{suffix}") as file:
            file.write(TEXT)
    first, second = (tmp_path / f"{name}.txt.{suffix}" for name in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()
    assert rankine.load(first).n_rows == 300
    if suffix == "gz":
        assert first.read_bytes()[3:8] == bytes(5), "neither a name nor a time stands inside"


def test_standard_output_is_flushed_and_stays_open(capsysbinary):
    with compression.open_target("-") as file:
        file.write(b"rows")
    assert capsysbinary.readouterr().out == b"rows"


def test_bytes_are_counted_and_views_filled():
    stream = compression.ByteStream(io.BytesIO(b"abcdef"))
    view = memoryview(bytearray(4))
    assert (compression.fill(stream, view), bytes(view), stream.consumed) == (4, b"abcd", 4)
    assert (compression.fill(stream, view), bytes(view[:2]), stream.consumed) == (2, b"ef", 6)
    assert compression.fill(stream, view) == 0
    nothing = SimpleNamespace(readinto=lambda _view: None)  # a file that has none at the moment
    assert compression.ByteStream(nothing).readinto(view) == 0
    drops = SimpleNamespace(readinto=lambda view: io.BytesIO(b"x").readinto(view[:1]))
    assert compression.fill(drops, memoryview(bytearray(3))) == 3

    class Failing(io.RawIOBase):
        def readinto(self, _view):
            raise OSError(5, "Input/output error")

    with pytest.raises(DataError, match="cannot be read: Input/output error"):
        compression.ByteStream(Failing()).readinto(view)


def test_every_byte_that_no_line_starts_with_is_binary():
    for k in range(256):
        head = bytes([k]) + b"1 qid:1 1:1\n"
        text = 32 <= k < 127 or 9 <= k <= 13
        found = compression.kind_of(head)
        assert (found is None) == (text and k not in b"{["), k
    assert compression.kind_of(b"\x80\x01abc")[0] == "binary data"
    assert compression.kind_of(b"\x80\x02abc")[0] == "a Python pickle"
    tar = b"name" + bytes(253) + b"ustar"
    assert compression.kind_of(tar)[0] == "a tar archive"
    assert compression.kind_of(b"1" * 257 + b"ustar") is None
    for head, wide in (
        (b"1\x001", False), (b"1\x001\x00", True), (b"\x001\x001", True),
        (b"1\x00 \x00q", True), (b"1 q\x00d\x00", True), (b"1 q d\x00", False),
        (b"1 q\x00", False), (b"#\x001\x00", False),
    ):  # fmt: skip
        assert (compression.kind_of(head) is not None) == wide, head


def test_xz_may_ask_for_what_its_strongest_preset_needs():
    assert rankine.load(io.BytesIO(lzma.compress(TEXT, preset=9))).n_rows == 300


# ------------------------------------------------------------------ Files of other kinds are name
ROWS = "1 qid:1 1:0.5\n0 qid:1 1:0.25\n"


def tar():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        info = tarfile.TarInfo("train.txt")
        info.size = len(ROWS)
        archive.addfile(info, io.BytesIO(ROWS.encode()))
    return out.getvalue()


def zipped():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("train.txt", ROWS)
    return out.getvalue()


def npy():
    out = io.BytesIO()
    np.save(out, np.ones(3))
    return out.getvalue()


def sqlite(tmp_path):
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as base:
        base.execute("create table t (a)")
    base.close()
    return path.read_bytes()


NAMED = {
    "UTF-8 with a byte order mark": ROWS.encode("utf-8-sig"),
    "UTF-16": ROWS.encode("utf-16"),
    "UTF-16 ": ROWS.encode("utf-16-be"),
    "UTF-16  ": ROWS.encode("utf-16-le"),
    "UTF-32": ROWS.encode("utf-32"),
    "HTML": b"<!DOCTYPE html><html><body>404 Not Found</body></html>",
    "HTML ": b"\n\n<html>\n",
    "HTML or XML": b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>",
    "Git LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
    "pickle": pickle.dumps({"X": [1]}),
    "pickle ": pickle.dumps([1], protocol=2),
    "Parquet": b"PAR1\x15\x04\x15\x10",
    "Arrow": b"ARROW1\x00\x00\xff\xff\xff\xff",
    "Arrow stream": b"\xff\xff\xff\xff\x10\x00\x00\x00",
    "numpy": npy(),
    "tar": tar(),
    "zip": zipped(),
    "JSON": json.dumps([{"label": 1}]).encode(),
    "JSON ": b'  {"label": 1}\n',
    "binary data": b"\x89HDF\r\n\x1a\n\x00",
    "Avro": b"Obj\x01\x04\x14",
    "ORC": b"ORC\x08\x03",
    "lz4": b"\x04\x22\x4d\x18\x64\x40",
    "binary data ": b"\xff\x06\x00\x00sNaPpY\x00",
    "7z": b"7z\xbc\xaf\x27\x1c\x00\x04",
    "RAR": b"Rar!\x1a\x07\x01\x00",
    "binary data  ": b"\x1f\x9d\x90",
    "Feather V1": b"FEA1\x00\x00\x00\x00",
    "binary data   ": b"\x01\xab\xff\xff\x04\x00",
    "LightGBM model": b"tree\nversion=v4\n",
    "SVMlight model": b"SVM-light Version V6.02\n0 # kernel type\n",
    "liblinear model": b"solver_type L2R_L2LOSS_SVC\n",
    "libsvm model": b"svm_type c_svc\n",
    "PDF": b"%PDF-1.7\n",
    "binary data        ": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\x00",
    "binary data    ": b"\x89PNG\r\n\x1a\n\x00",
    "binary data     ": b"\xff\xd8\xff\xe0\x00\x10JFIF",
    "binary data      ": b"\x7fELF\x02\x01\x01",
    "binary data       ": b"\x00asm\x01\x00\x00\x00",
}


@pytest.mark.parametrize("kind", NAMED)
def test_the_kind_is_named(kind):
    head = NAMED[kind][:512]
    found = kind_of(head)
    assert found is not None
    assert kind.strip() in found[0]


@pytest.mark.parametrize("kind", NAMED)
def test_none_is_read_as_text(kind):
    with pytest.raises(FileKindError) as caught:
        rankine.load(io.BytesIO(NAMED[kind]), format="letor")
    assert kind.strip() in caught.value.reason
    assert caught.value.fix
    with pytest.raises(DataError):
        rankine.load(io.BytesIO(NAMED[kind]))


def test_a_database_is_named(tmp_path):
    assert "SQLite" in kind_of(sqlite(tmp_path)[:512])[0]


@pytest.mark.parametrize(
    "head",
    [b"", b"1 qid:1 1:1\n", b"# {json}\n", b"#\x00\x00\x00\x00\n", b"+1 qid:1\n", b".5 qid:1\n",
     b"\n", b"-1 qid:3 # <html>\n", b"1"],
)  # fmt: skip
def test_text_is_taken_for_text(head):
    assert kind_of(head) is None


def test_a_name_that_lies_is_refused(tmp_path):
    path = tmp_path / "x.parquet"
    path.write_text(ROWS)
    with pytest.raises(FileKindError):
        rankine.load(path)
