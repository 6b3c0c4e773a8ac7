"""Compressed text: whole or refused, in bounded memory."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random

import pyarrow as pa
import pytest

import rankine
from rankine.core.errors import CompressionError, DataError, LimitError

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
    whole = rankine.load(io.BytesIO(TEXT)).fingerprint
    for stop in range(1, len(packed)):
        try:
            data = rankine.load(io.BytesIO(packed[:stop]), chunk_bytes=256)
        except DataError:
            continue
        # Only the end mark of the container may be missing a byte without loss: never rows.
        pytest.fail(f"accepted {stop} of {len(packed)} bytes: {data.fingerprint == whole}")


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
    with pytest.raises(LimitError, match="max_ratio"):
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
