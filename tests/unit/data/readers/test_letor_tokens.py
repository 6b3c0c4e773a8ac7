"""Query ids in text: every UTF-8 sequence, nothing else; and streams that fail to read."""

from __future__ import annotations

import io
import random

import numpy as np
import pytest

import rankine
from rankine.core.errors import DataError
from rankine.data.readers.letor_tokens import _is_utf8


def is_utf8(data):
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def pieces(rng):
    """Whole characters of every length, and sequences that are nearly right."""
    points = [0x24, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF]
    if rng.random() < 0.6:
        return chr(rng.choice(points)).encode()
    edges = b"\x80\xbf\xc0\xc2\xe0\x9f\xa0\xed\xf0\x8f\x90\xf4\xf5"
    return bytes(rng.choices(edges, k=rng.randint(1, 4)))


@pytest.mark.kernels
def test_utf8_is_judged_as_python_judges_it():
    rng = random.Random(0)
    seen = {True: 0, False: 0}
    for _ in range(1500):
        data = b"".join(pieces(rng) for _ in range(rng.randint(1, 3)))
        buffer = np.frombuffer(data + b"\n", dtype=np.uint8)
        expected = is_utf8(data)
        assert _is_utf8(buffer, np.uint64(0), np.uint64(len(data))) == expected, data
        seen[expected] += 1
    assert min(seen.values()) > 300


def test_ids_of_every_script_survive():
    ids = ["naïve", "検索", "поиск", "🔎", "a\u0301", "x" * 300]
    text = "".join(f"1 qid:{name} 1:1 # {name}\n" for name in ids).encode()
    data = rankine.load(io.BytesIO(text), qid_type="str")
    assert data.qid.tolist() == ids
    assert data.docid.tolist() == ids
    assert data.n_queries == len(ids)


class Broken:
    name = "broken"

    def __init__(self, good):
        self._file = io.BytesIO(good)

    def read(self, count=-1):
        piece = self._file.read(count)
        if not piece:
            raise OSError(5, "Input/output error")
        return piece


def test_a_disk_that_fails_is_a_data_error():
    for rows in (0, 1, 200):
        with pytest.raises(DataError, match="Input/output error"):
            rankine.load(Broken(b"1 qid:1 1:1\n" * rows))


@pytest.mark.parametrize(
    ("qid", "fits"),
    [
        (2**63 - 1, True),
        (2**63, False),
        (-(2**63), True),
        (-(2**63) - 1, False),
        (2**63 + 9, False),
        (2**64 + 5, False),
        (10 * 2**63, False),
        (922337203685477580, True),
        (9223372036854775809, False),
    ],
)
def test_query_ids_fit_into_64_bits_or_are_refused(qid, fits):
    text = f"1 qid:{qid} 1:1\n0 qid:{qid} 1:2\n".encode()
    if fits:
        assert rankine.load(io.BytesIO(text)).qid.tolist() == [qid, qid]
    else:
        with pytest.raises(DataError):
            rankine.load(io.BytesIO(text))
