"""Document ids from comments: ``#docid = GX001 inc = 1`` and ``# 7555 rambo``."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankine.kernels.compile import jit

__all__ = ["copy_docid"]

_1 = np.uint64(1)
_DOCID = np.frombuffer(b"docid", dtype=np.uint8)


@jit
def _skip(buf: Any, pos: Any, stop: Any) -> Any:
    while pos < stop and (buf[pos] == 32 or buf[pos] == 9):
        pos += _1
    return pos


@jit
def _after_docid(buf: Any, pos: Any, stop: Any) -> Any:
    """Position after ``docid =``, or ``pos`` when the comment does not start with it."""
    k = pos
    for letter in _DOCID:
        if k >= stop or buf[k] != letter:
            return pos
        k += _1
    k = _skip(buf, k, stop)
    if k >= stop or buf[k] != 61:
        return pos
    return _skip(buf, k + _1, stop)


@jit
def copy_docid(buf: Any, pos: Any, stop: Any, heap: Any, used: Any) -> Any:
    """Copy the id found in the comment ``buf[pos:stop]`` to the heap; returns the bytes used.

    The id is the token after ``docid =``, else the first token of the comment.
    """
    pos = _after_docid(buf, _skip(buf, pos, stop), stop)
    while pos < stop and buf[pos] != 32 and buf[pos] != 9:
        heap[used] = buf[pos]
        used += 1
        pos += _1
    return used
