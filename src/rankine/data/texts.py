"""Texts that lie one after the other in a heap of bytes, as an array of strings."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.printable import printable
from rankine.kernels.compile import jit

__all__ = ["texts"]

#: Fixed-width strings up to this length; longer ones get numpy's variable-width type, so that one
#: long text does not make every row as wide.
_WIDEST = 256


def texts(heap: NDArray[np.uint8], ends: NDArray[np.int64]) -> NDArray[Any]:
    r"""String k is ``heap[ends[k - 1]:ends[k]]``, decoded as UTF-8.

    Bytes that are not UTF-8, and control characters, are shown escaped (``\xff``).
    """
    width, plain = _survey(heap, ends)
    if plain and width <= _WIDEST:
        out = np.zeros((len(ends), max(width, 1)), dtype=np.uint32)
        _spread(heap, ends, out)
        return out.view(f"U{max(width, 1)}").ravel()
    starts = np.concatenate([[0], ends[:-1]]).tolist()
    data = heap.tobytes()
    found = [_decode(data[a:b]) for a, b in zip(starts, ends.tolist(), strict=True)]
    if max(map(len, found), default=0) <= _WIDEST:
        return np.array(found, dtype=np.str_)
    return np.array(found, dtype=np.dtypes.StringDType())


def _decode(data: bytes) -> str:
    text = data.decode("utf-8", "backslashreplace")
    return printable(text, len(text))


@jit
def _survey(heap: Any, ends: Any) -> Any:
    """(length of the longest text, whether all bytes are printable ASCII)."""
    width = 0
    start = 0
    for end in ends:
        width = max(width, end - start)
        start = end
    for c in heap:
        if c < 32 or c > 126:
            return width, False
    return width, True


@jit
def _spread(heap: Any, ends: Any, out: Any) -> None:
    start = 0
    for k in range(ends.shape[0]):
        for j in range(ends[k] - start):
            out[k, j] = heap[start + j]
        start = ends[k]
