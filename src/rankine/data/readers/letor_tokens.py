"""Parse lines of LETOR / SVMlight text into arrays: the compiled part of the reader.

::

    line = label [ "qid:" id ] { index ":" value } [ "#" comment ]

Tokens are separated by blanks (spaces and tabs). Lines end in LF or CRLF. Blank lines and lines
that hold only a comment are not rows. The buffer must end in a line feed, which stops every inner
loop. A row is added to the arrays only when its whole line is valid. Query ids are exact 64-bit
integers, or UTF-8 text kept as bytes; document ids are in comments (``#docid = GX001 inc = 1`` and
``# 7555 rambo``).

*Hard* numbers are decimals that the fast conversion cannot round for certain. The tokenizer returns
their places (``Fault.UNDECIDED``), and is called again with their exact values.
"""

from __future__ import annotations

import math
from decimal import Decimal
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from rankine.kernels.compile import jit
from rankine.kernels.numbers import GOOD, HARD, MALFORMED, parse_number


class _Slots(NamedTuple):
    """Slots of the integer array that keeps the tokenizer's state between calls."""

    #: Position of the next line in the buffer, and end of its lines.
    POS: int = 0
    END: int = 1
    #: Number of lines parsed so far.
    LINE: int = 2
    #: Numbers of rows and of values in the arrays.
    ROWS: int = 3
    NNZ: int = 4
    #: Bytes in the heaps of query ids and document ids.
    QID_BYTES: int = 5
    DOCID_BYTES: int = 6
    #: Number of features: the largest index so far, counted from 1.
    WIDTH: int = 7
    #: Number of missing values.
    MISSING: int = 8
    #: Position of the token with a fault.
    FAULT: int = 9
    #: Number of hard numbers in the current row.
    HARDS: int = 10
    #: Number of indices at the start that are not stored, because these rows are full.
    IMPLIED: int = 11


#: Plain numbers, not an enumeration: not every supported Numba indexes with those.
State = _Slots()


class Fault(IntEnum):
    """Why the tokenizer stopped; DONE is not a fault, UNDECIDED requests exact numbers."""

    DONE = 0
    #: The label is not a number.
    LABEL = 1
    #: A query id is required, or forbidden because ``group`` or ``single_query`` was given.
    QID_ABSENT = 2
    QID_UNEXPECTED = 3
    #: The query id is malformed, not a 64-bit integer, or not UTF-8.
    QID_BAD = 4
    QID_RANGE = 5
    QID_UTF8 = 6
    #: The feature index is malformed, below the base, above the width, or used twice in a row.
    INDEX = 7
    INDEX_LOW = 8
    INDEX_HIGH = 9
    DUPLICATE = 10
    #: The value of a feature is not a number.
    VALUE = 11
    #: A carriage return without a line feed.
    CARRIAGE = 12
    #: The line is longer than ``max_line_bytes``.
    LONG = 13
    #: The row contains hard numbers.
    UNDECIDED = 14


@jit
def ends_token(c: Any) -> Any:
    """Whether a byte ends a token: blank, tab, LF, CR or ``#``."""
    return c == 32 or c == 10 or c == 9 or c == 13 or c == 35  # noqa: PLR1714 (compiles to one mask)


#: From here on a decimal rounds to infinity in float32: 2^128 - 2^103.
_FLOAT32_END = Decimal(2**128 - 2**103)


def nearest(text: bytes, dtype: str) -> float:
    """Return the number of a type nearest to a decimal text, ties to even; it may be infinite."""
    value = float(text)
    if dtype == "float64" or math.isinf(value):
        return value
    with np.errstate(over="ignore"):
        rounded = np.float32(value)
    if np.isinf(rounded):
        if Decimal(text.decode()).copy_abs() >= _FLOAT32_END:
            return math.copysign(math.inf, value)
        return math.copysign(float(np.finfo(np.float32).max), value)
    stored = float(rounded)
    if stored == value:
        return value
    # The double is between two floats; when it is exactly half way, the text decides.
    neighbour = 2.0 * value - stored
    if float(np.float32(neighbour)) != neighbour:
        return stored
    side = Decimal(text.decode()).compare(Decimal(value))
    if side > 0:
        return max(stored, neighbour)
    if side < 0:
        return min(stored, neighbour)
    return stored


_0, _1, _2, _3, _4, _10, _48 = (np.uint64(k) for k in (0, 1, 2, 3, 4, 10, 48))
_TAB, _LF, _CR, _BLANK, _HASH, _COLON, _EQUALS = 9, 10, 13, 32, 35, 58, 61
_DOCID = np.frombuffer(b"docid", dtype=np.uint8)


@jit
def _skip_blanks(buf: Any, pos: Any) -> Any:
    while buf[pos] == _BLANK or buf[pos] == _TAB:
        pos += _1
    return pos


@jit
def _after_docid(buf: Any, pos: Any) -> Any:
    """Return the position after ``docid =``, or ``pos`` if the comment does not start with it."""
    k = pos
    for letter in _DOCID:
        if buf[k] != letter:
            return pos
        k += _1
    k = _skip_blanks(buf, k)
    if buf[k] != _EQUALS:
        return pos
    return _skip_blanks(buf, k + _1)


@jit
def copy_docid(buf: Any, pos: Any, stop: Any, heap: Any, end: Any) -> Any:
    """Copy the document id of the comment ``buf[pos:stop]`` to the heap; return its new end.

    The id is the token after ``docid =``, else the first token of the comment. ``buf[stop]`` is a
    line feed or a carriage return.
    """
    pos = _after_docid(buf, _skip_blanks(buf, pos))
    while pos < stop and buf[pos] != _BLANK and buf[pos] != _TAB:
        heap[end] = buf[pos]
        end += 1
        pos += _1
    return end


_LARGEST = np.uint64(2**63 - 1)
_TENTH = np.uint64(2**63 // 10)


@jit
def parse_int_qid(buf: Any, pos: Any) -> Any:
    """Parse ``[+-]?[0-9]+`` within [-2^63, 2^63 - 1]; return (fault, value, end)."""
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
    qid = np.int64(_0 - value if negative else value)
    if pos == start or not ends_token(buf[pos]):
        return Fault.QID_BAD, qid, begin
    if not fits:
        return Fault.QID_RANGE, qid, begin
    return Fault.DONE, qid, pos


@jit
def parse_text_qid(buf: Any, pos: Any, heap: Any, used: Any) -> Any:
    """Copy a non-empty token to the heap; return (fault, end, used bytes of the heap).

    Control characters are refused, and so is anything that is not UTF-8.
    """
    begin = pos
    is_ascii = True
    while not ends_token(buf[pos]):
        c = buf[pos]
        if c < 32 or c == 127:
            return Fault.QID_BAD, begin, used
        is_ascii = is_ascii and c < 128
        heap[used] = c
        used += 1
        pos += _1
    if pos == begin:
        return Fault.QID_BAD, begin, used
    if not is_ascii and not _is_utf8(buf, begin, pos):
        return Fault.QID_UTF8, begin, used
    return Fault.DONE, pos, used


@jit
def _is_utf8(buf: Any, pos: Any, stop: Any) -> bool:
    """Whether the bytes are well-formed UTF-8 (Unicode 15, table 3-7); ``buf[stop]`` is ASCII."""
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
            if buf[pos] < low or buf[pos] > high:
                return False
            low, high = 0x80, 0xBF
            pos += _1
    return True


class TokenRules(NamedTuple):
    """What the caller declared about the file; see ``ReadOptions``."""

    base: int
    max_features: int
    max_line_bytes: int
    has_qid: bool
    text_qid: bool
    keep_spans: bool


class Arrays(NamedTuple):
    """Arrays that rows are appended to.

    Texts follow one another in a heap; ``*_ends`` are their ends. Indices of the first
    ``state[IMPLIED]`` values are not stored: these rows are full. ``starts`` and ``stops`` are the
    place of each row's line in the buffer, for sorting of lines.
    """

    indptr: Any
    indices: Any
    values: Any
    y: Any
    qid: Any
    lines: Any
    qid_ends: Any
    qid_heap: Any
    docid_ends: Any
    docid_heap: Any
    starts: Any
    stops: Any


_HUGE = np.uint64(1) << np.uint64(40)


@jit
def _is_missing(buf: Any, pos: Any) -> int:
    """Return the length of a ``NaN`` or ``NULL`` in upper or lower case, or 0."""
    if buf[pos] | 32 != 110:  # n
        return 0
    second = buf[pos + _1] | 32
    if second == 97 and buf[pos + _2] | 32 == 110:  # a, n
        return 3
    if second == 117 and buf[pos + _2] | 32 == 108 and buf[pos + _3] | 32 == 108:  # u, l, l
        return 4
    return 0


@jit
def _label(buf: Any, pos: Any, decided: Any, hards: Any) -> Any:
    """Parse the label; return (fault, value, end, number of hard numbers)."""
    status, value, stop = parse_number(buf, pos)
    if status == MALFORMED or not ends_token(buf[stop]):
        return Fault.LABEL, 0.0, pos, 0
    if status == HARD:
        return GOOD, _hard(pos, stop, decided, hards, 0), stop, 1
    return GOOD, value, stop, 0


@jit
def _features(
    buf: Any,
    pos: Any,
    rules: Any,
    arrays: Any,
    nnz: Any,
    implied: Any,
    decided: Any,
    hards: Any,
    n_hard: Any,
) -> Any:
    """Parse the features of a row.

    Return (fault, position, end of the values, number of hard numbers, of missing values, largest
    column, whether columns are sorted).
    """
    indices, values = arrays.indices, arrays.values
    base = np.int64(rules.base)
    limit = np.int64(rules.max_features)
    n_missing = 0
    largest = np.int64(-1)
    in_order = True
    while True:
        pos = _skip_blanks(buf, pos)
        if ends_token(buf[pos]):
            return GOOD, pos, nnz, n_hard, n_missing, largest, in_order
        start = pos
        index = np.uint64(0)
        digit = np.uint64(buf[pos]) - _48
        while digit < _10:
            index = index * _10 + digit if index < _HUGE else _HUGE
            pos += _1
            digit = np.uint64(buf[pos]) - _48
        if pos == start or buf[pos] != _COLON:
            return Fault.INDEX, start, nnz, n_hard, n_missing, largest, in_order
        column = np.int64(index) - base
        if column < 0:
            return Fault.INDEX_LOW, start, nnz, n_hard, n_missing, largest, in_order
        if column >= limit:
            return Fault.INDEX_HIGH, start, nnz, n_hard, n_missing, largest, in_order
        if column <= largest:
            in_order = False
        largest = max(largest, column)
        start = pos + _1
        status, value, pos = parse_number(buf, start)
        if status != GOOD:
            if status == MALFORMED:
                length = _is_missing(buf, start)
                pos = start + np.uint64(length)
                value = np.nan
                if length == 0:
                    return Fault.VALUE, start, nnz, n_hard, n_missing, largest, in_order
                n_missing += 1
            else:
                value = _hard(start, pos, decided, hards, n_hard)
                n_hard += 1
        if not ends_token(buf[pos]):
            return Fault.VALUE, start, nnz, n_hard, n_missing, largest, in_order
        values[nnz] = value
        stored = np.float64(values[nnz])
        if stored != value:
            # float32: of a double half way between two floats only the text decides the side; and
            # a double above the largest float may be below it as a text.
            neighbour = 2.0 * value - stored
            if np.float64(np.float32(neighbour)) == neighbour:
                values[nnz] = _hard(start, pos, decided, hards, n_hard)
                n_hard += 1
        indices[nnz - implied] = column
        nnz += _1


@jit
def _hard(start: Any, stop: Any, decided: Any, hards: Any, n_hard: Any) -> Any:
    """Return the n-th hard number of a row if the caller decided it; otherwise record its place."""
    if n_hard < decided.shape[0]:
        return decided[n_hard]
    if 2 * n_hard < hards.shape[0]:
        hards[2 * n_hard] = start
        hards[2 * n_hard + 1] = stop
    return 0.0


@jit
def _sift(indices: Any, values: Any, root: Any, count: Any) -> None:
    """Move the element at ``root`` of a heap of ``count`` elements down to its position."""
    index, value = indices[root], values[root]
    while True:
        child = root + root + _1
        if child >= count:
            break
        if child + _1 < count and indices[child] < indices[child + _1]:
            child += _1
        if indices[child] <= index:
            break
        indices[root], values[root] = indices[child], values[child]
        root = child
    indices[root], values[root] = index, value


@jit
def _sort_row(indices: Any, values: Any) -> bool:
    """Sort one row by column, in place; return False when a column appears twice."""
    count = np.uint64(indices.shape[0])
    for k in range(count // _2, 0, -1):
        _sift(indices, values, np.uint64(k - 1), count)
    for k in range(count - _1, 0, -1):
        last = np.uint64(k)
        indices[_0], indices[last] = indices[last], indices[_0]
        values[_0], values[last] = values[last], values[_0]
        _sift(indices, values, _0, last)
    distinct = True
    for k in range(_1, count):
        distinct = distinct and indices[k] != indices[k - _1]
    return distinct


@jit
def _finish_line(buf: Any, pos: Any, heap: Any, used: Any, is_row: bool) -> Any:
    """Read the rest of a line from a comment, CR or LF.

    Return (fault, start of the next line, used bytes of the document ids).
    """
    if buf[pos] == _HASH:
        start = pos + _1
        while buf[pos] != _LF and buf[pos] != _CR:
            pos += _1
        if is_row:
            used = copy_docid(buf, start, pos, heap, used)
    if buf[pos] == _CR:
        if buf[pos + _1] != _LF:
            return Fault.CARRIAGE, pos, used
        pos += _1
    return GOOD, pos + _1, used


@jit
def _query(buf: Any, pos: Any, rules: Any, arrays: Any, state: Any, row: Any) -> Any:
    """Parse the token after the label; return (fault, position, used bytes of the query ids)."""
    used = state[State.QID_BYTES]
    has_qid = (
        buf[pos] == 113  # q
        and buf[pos + _1] == 105  # i
        and buf[pos + _2] == 100  # d
        and buf[pos + _3] == _COLON
    )
    if not rules.has_qid:
        return Fault.QID_UNEXPECTED if has_qid else GOOD, pos, used
    if not has_qid:
        return Fault.QID_ABSENT, pos, used
    if rules.text_qid:
        return parse_text_qid(buf, pos + _4, arrays.qid_heap, used)
    fault, value, pos = parse_int_qid(buf, pos + _4)
    arrays.qid[row] = value
    return fault, pos, used


@jit
def parse_lines(buf: Any, rules: Any, arrays: Any, state: Any, decided: Any, hards: Any) -> Any:
    """Parse whole lines from ``state[POS]`` to ``state[END]``; return a ``Fault``.

    After a fault ``state[POS]`` is the start of the line, ``state[FAULT]`` the position of the
    fault. After ``UNDECIDED`` the row holds hard numbers, whose places are in ``hards``: the caller
    calls again with their values in ``decided``.
    """
    pos, end = np.uint64(state[State.POS]), np.uint64(state[State.END])
    longest = np.uint64(rules.max_line_bytes + 1)
    implied = np.uint64(state[State.IMPLIED])
    while pos < end:
        begin = pos
        pos = _skip_blanks(buf, pos)
        row = state[State.ROWS]
        docid_bytes = state[State.DOCID_BYTES]
        is_row = not ends_token(buf[pos])
        if is_row:
            fault, label, pos, n_hard = _label(buf, pos, decided, hards)
            if fault == GOOD:
                pos = _skip_blanks(buf, pos)
                fault, pos, qid_bytes = _query(buf, pos, rules, arrays, state, row)
            if fault == GOOD:
                first = np.uint64(state[State.NNZ])
                fault, pos, nnz, n_hard, n_missing, largest, in_order = _features(
                    buf, pos, rules, arrays, first, implied, decided, hards, n_hard
                )
            if fault == GOOD and n_hard > decided.shape[0]:
                fault = Fault.UNDECIDED
                state[State.HARDS] = n_hard
            if (
                fault == GOOD
                and not in_order
                and not _sort_row(
                    arrays.indices[first - implied : nnz - implied], arrays.values[first:nnz]
                )
            ):
                fault = Fault.DUPLICATE
            if fault != GOOD:
                state[State.POS], state[State.FAULT] = begin, pos
                return fault
        fault, pos, docid_bytes = _finish_line(buf, pos, arrays.docid_heap, docid_bytes, is_row)
        if fault == GOOD and pos - begin > longest:
            fault = Fault.LONG
        if fault != GOOD:
            state[State.POS], state[State.FAULT] = begin, pos
            return fault
        state[State.LINE] += 1
        if is_row:
            arrays.y[row] = label
            arrays.lines[row] = state[State.LINE]
            arrays.indptr[row + 1] = nnz
            if rules.keep_spans:
                arrays.starts[row], arrays.stops[row] = begin, pos
            arrays.docid_ends[row] = docid_bytes
            arrays.qid_ends[row] = qid_bytes
            state[State.ROWS] = row + 1
            state[State.NNZ] = nnz
            state[State.DOCID_BYTES] = docid_bytes
            state[State.QID_BYTES] = qid_bytes
            state[State.MISSING] += n_missing
            state[State.WIDTH] = max(state[State.WIDTH], largest + 1)
            decided = decided[:0]
    return 0
