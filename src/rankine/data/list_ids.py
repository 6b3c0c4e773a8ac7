"""Recognise the lists that a model was trained on by a sample of the hashes of their ids.

A model stores the smallest hashes of its training lists. Among other lists, those with hashes in
the same range were trained on exactly if the model has their hashes.
"""

from __future__ import annotations

import base64
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from rankine.data.splits import query_units

#: Number of hashes that a model stores.
N_HASHES = 512


def hash_ids(ids: NDArray[Any]) -> NDArray[np.float64]:
    """Return a number in [0, 1) for each id, the same in every process."""
    if ids.dtype.kind != "i":
        # A checksum is fast, and query_units mixes its bits.
        checksums = (crc32(str(text).encode("utf-8", "surrogatepass")) for text in ids.tolist())
        ids = np.fromiter(checksums, dtype=np.int64, count=len(ids))
    return query_units(ids, np.uint64(0))


def pack_ids(ids: NDArray[Any]) -> str | None:
    """Return the smallest hashes of ids as text; None if the ids are numbers from 0 or 1 on.

    Such ids are given anew to the lists of every file, and say nothing.
    """
    if ids.dtype.kind == "i" and ids.min() in (0, 1) and ids.max() - ids.min() == len(ids) - 1:
        return None
    return pack_hashes(hash_ids(ids))


def pack_hashes(hashes: NDArray[np.float64]) -> str:
    """Return the smallest hashes as text."""
    smallest = np.sort(hashes)[:N_HASHES]
    return base64.b64encode(smallest.astype("<f8").tobytes()).decode("ascii")


def known_share(packed: str, ids: NDArray[Any]) -> float | None:
    """Return the share of the lists ``ids`` that are among the packed ones, None if unknown."""
    known = np.frombuffer(base64.b64decode(packed), dtype="<f8")
    hashes = hash_ids(ids)
    if len(known) == N_HASHES:  # there were more
        hashes = hashes[hashes <= known[-1]]
    if len(hashes) == 0:
        return None
    return float(np.isin(hashes, known).mean())
