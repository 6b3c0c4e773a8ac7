"""Query ids in LETOR text: exact 64-bit integers, or UTF-8 text kept as bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankine.data.readers.letor_codes import Fault, ends_token
from rankine.kernels.compile import jit

__all__ = ["parse_int_qid", "parse_text_qid"]

_0, _1, _10, _48 = (np.uint64(k) for k in (0, 1, 10, 48))
_LARGEST = np.uint64(2**63 - 1)
_TENTH = np.uint64(2**63 // 10)


@jit
def parse_int_qid(buf: Any, pos: Any) -> Any:
    """(fault, value, end) of ``[+-]?[0-9]+`` within [-2^63, 2^63 - 1]."""
    begin = pos
    negative = buf[pos] == 45
    if negative or buf[pos] == 43:
        pos += _1
    start = pos
    value = _0
    limit = _LARGEST + _1 if negative else _LARGEST
    digit = np.uint64(buf[pos]) - _48
    fits: Any = True
    while digit < _10:
        fits = fits and value <= _TENTH and value * _10 <= limit - digit
        value = value * _10 + digit
        pos += _1
        digit = np.uint64(buf[pos]) - _48
    if pos == start or not ends_token(buf[pos]):
        return Fault.QID_BAD, np.int64(0), begin
    if not fits:
        return Fault.QID_RANGE, np.int64(0), begin
    return Fault.DONE, np.int64(_0 - value if negative else value), pos


@jit
def parse_text_qid(buf: Any, pos: Any, heap: Any, used: Any) -> Any:
    """(fault, end, bytes used) of a non-empty token, copied to the heap.

    Control characters are refused, and so is anything that is not UTF-8.
    """
    begin = pos
    plain = True
    while not ends_token(buf[pos]):
        c = buf[pos]
        if c < 32 or c == 127:
            return Fault.QID_BAD, begin, used
        plain = plain and c < 128
        heap[used] = c
        used += 1
        pos += _1
    if pos == begin:
        return Fault.QID_BAD, begin, used
    if not plain and not _is_utf8(buf, begin, pos):
        return Fault.QID_UTF8, begin, used
    return Fault.DONE, pos, used


@jit
def _is_utf8(buf: Any, pos: Any, stop: Any) -> bool:
    """Whether the bytes are well-formed UTF-8 (Unicode 15, table 3-7)."""
    while pos < stop:
        c = buf[pos]
        pos += _1
        if c < 0x80:
            continue
        low, high = 0x80, 0xBF
        if 0xC2 <= c <= 0xDF:
            more = 1
        elif 0xE0 <= c <= 0xEF:
            more = 2
            low = 0xA0 if c == 0xE0 else 0x80
            high = 0x9F if c == 0xED else 0xBF
        elif 0xF0 <= c <= 0xF4:
            more = 3
            low = 0x90 if c == 0xF0 else 0x80
            high = 0x8F if c == 0xF4 else 0xBF
        else:
            return False
        for _ in range(more):
            if pos >= stop or buf[pos] < low or buf[pos] > high:
                return False
            low, high = 0x80, 0xBF
            pos += _1
    return True
