"""Items with the same feature names, from JSON text straight to a matrix.

Programs write every item of a list in one way: the same names in the same order. Then only the
numbers differ, and one compiled pass over the bytes reads them, without a Python object for each.
Anything else (another order, escapes in names, numbers of more than 19 digits, any fault) is left
to the general decoder, which also words the errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rankine.kernels.compile import jit
from rankine.kernels.numbers import GOOD, parse_number
from rankine.scoring import NamedTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import msgspec

__all__ = ["uniform_table"]

_0, _1 = np.uint64(0), np.uint64(1)
_QUOTE, _BACKSLASH, _COLON, _COMMA, _OPEN, _CLOSE = 34, 92, 58, 44, 123, 125
_MINUS, _ZERO, _NINE = 45, 48, 57


def uniform_table(objects: Sequence[msgspec.Raw], most: int) -> NamedTable | None:
    """The rows of JSON objects that all have the same keys in the same order, else None.

    Parameters
    ----------
    objects
        At least one object of names and numbers, as text.
    most
        Largest number of names.
    """
    data = b"".join(objects)
    text = np.frombuffer(data, dtype=np.uint8)
    keys = np.empty((most, 2), dtype=np.int64)
    width = first_keys(text, keys)
    if width < 0:
        return None
    try:
        names = tuple([data[a:b].decode() for a, b in keys[:width].tolist()])
    except UnicodeDecodeError:
        return None
    if len(set(names)) != width:
        return None
    values = np.empty((len(objects), width))
    with np.errstate(over="ignore"):  # digits are found by wrapping, which Python would remark on
        fits = read_objects(text, keys[:width], values)
    if not fits:
        return None
    return NamedTable(names, values)


@jit
def _skip_blanks(text: Any, pos: Any, end: Any) -> Any:
    while pos < end and (text[pos] == 32 or text[pos] == 10 or text[pos] == 13 or text[pos] == 9):
        pos += _1
    return pos


@jit
def first_keys(text: Any, keys: Any) -> int:
    """Where the keys of the first object stand, without quotes; their number, or -1."""
    end = np.uint64(text.shape[0])
    pos = _skip_blanks(text, _0, end)
    if pos >= end or text[pos] != _OPEN:
        return -1
    pos += _1
    count = 0
    inside = False
    while pos < end:
        byte = text[pos]
        if byte == _BACKSLASH or (not inside and byte == _OPEN) or (byte < 32 and inside):
            return -1
        if byte == _QUOTE:
            if inside:
                keys[count, 1] = pos
                count += 1
            elif count == keys.shape[0]:
                return -1
            else:
                keys[count, 0] = pos + _1
            inside = not inside
        elif byte == _CLOSE and not inside:
            return count
        pos += _1
    return -1


@jit
def read_objects(text: Any, keys: Any, values: Any) -> bool:
    """Values of objects that stand one after the other, all with these keys; whether they fit."""
    end = np.uint64(text.shape[0])
    pos = _0
    for i in range(values.shape[0]):
        pos = _skip_blanks(text, pos, end)
        if pos >= end or text[pos] != _OPEN:
            return False
        pos += _1
        for j in range(values.shape[1]):
            pos = _skip_blanks(text, pos, end)
            start, size = np.uint64(keys[j, 0]), np.uint64(keys[j, 1] - keys[j, 0])
            if pos + size + np.uint64(2) >= end or text[pos] != _QUOTE:
                return False
            pos += _1
            for k in range(size):
                if text[pos + k] != text[start + k]:
                    return False
            pos += size
            if text[pos] != _QUOTE:
                return False
            pos = _skip_blanks(text, pos + _1, end)
            if pos >= end or text[pos] != _COLON:
                return False
            pos = _skip_blanks(text, pos + _1, end)
            good, value, pos = _json_number(text, pos, end)
            if not good:
                return False
            values[i, j] = value
            pos = _skip_blanks(text, pos, end)
            if pos >= end or text[pos] != (_COMMA if j + 1 < values.shape[1] else _CLOSE):
                return False
            pos += _1
        if values.shape[1] == 0:
            pos = _skip_blanks(text, pos, end)
            if pos >= end or text[pos] != _CLOSE:
                return False
            pos += _1
    return _skip_blanks(text, pos, end) == end


@jit
def _json_number(text: Any, pos: Any, end: Any) -> Any:
    """A number as JSON writes it: no plus sign, no bare point, no zero in front of digits."""
    first = pos + _1 if pos < end and text[pos] == _MINUS else pos
    # Text ends in a brace, so that no number reaches its end.
    if first + _1 >= end or text[first] < _ZERO or text[first] > _NINE or text[end - _1] != _CLOSE:
        return False, 0.0, pos
    if text[first] == _ZERO and _ZERO <= text[first + _1] <= _NINE:
        return False, 0.0, pos
    status, value, stop = parse_number(text, pos)
    return status == GOOD, value, stop
