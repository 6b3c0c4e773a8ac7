"""Lines of LETOR / SVMlight text to arrays: the compiled part of the reader.

::

    line = label [ "qid:" id ] { index ":" value } [ "#" comment ]

Tokens are separated by blanks (spaces and tabs). Lines end in LF or CRLF. Blank lines and lines
that hold only a comment are no rows. The buffer must end in a line feed, which is what stops
every inner loop. A row is committed to the arrays only when its whole line is good.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankine.data.readers.letor_codes import Fault, State, ends_token
from rankine.data.readers.letor_docid import copy_docid
from rankine.data.readers.letor_query import parse_int_qid, parse_text_qid
from rankine.kernels.compile import jit
from rankine.kernels.numbers import GOOD, HARD, MALFORMED, parse_number

__all__ = ["Arrays", "Rules", "parse_lines"]


class Rules(NamedTuple):
    """What the caller declared about the file."""

    base: int
    max_features: int
    max_line_bytes: int
    has_qid: bool
    text_qid: bool
    missing_zero: bool
    keep_spans: bool


class Arrays(NamedTuple):
    """Where rows go; ``*_ends`` close the texts that lie one after the other in a heap.

    Indices of the first ``state[IMPLIED]`` values are not stored: these rows are full.
    ``starts`` and ``stops`` are where the row's line lies in the buffer, for those who move lines.
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


_0, _1, _2, _4 = (np.uint64(k) for k in (0, 1, 2, 4))
_48, _10 = np.uint64(48), np.uint64(10)
_HUGE = np.uint64(1) << np.uint64(40)
_TAB, _LF, _CR, _BLANK, _HASH, _COLON = 9, 10, 13, 32, 35, 58


@jit
def _skip_blanks(buf: Any, pos: Any) -> Any:
    while buf[pos] == _BLANK or buf[pos] == _TAB:
        pos += _1
    return pos


@jit
def _is_missing(buf: Any, pos: Any) -> int:
    """Length of a ``NaN`` or ``NULL`` in any case, or 0."""
    first = buf[pos] | 32
    if first != 110:  # n
        return 0
    second = buf[pos + _1] | 32
    if second == 97:  # a
        return 3 if buf[pos + np.uint64(2)] | 32 == 110 else 0
    if second == 117:  # u
        good = buf[pos + np.uint64(2)] | 32 == 108 and buf[pos + np.uint64(3)] | 32 == 108
        return 4 if good else 0
    return 0


@jit
def _label(buf: Any, pos: Any, given: Any, hards: Any) -> Any:
    """(fault, value, end, hard numbers met)."""
    status, value, stop = parse_number(buf, pos)
    if status == MALFORMED:
        return Fault.LABEL, 0.0, pos, 0
    if not ends_token(buf[stop]):
        return Fault.LABEL, 0.0, pos, 0
    if status == HARD:
        if given.shape[0] == 0:
            hards[0], hards[1] = pos, stop
            return GOOD, 0.0, stop, 1
        return GOOD, given[0], stop, 1
    return GOOD, value, stop, 0


@jit
def _features(
    buf: Any,
    pos: Any,
    rules: Any,
    arrays: Any,
    nnz: Any,
    implied: Any,
    given: Any,
    hards: Any,
    n_hard: Any,
) -> Any:
    """(fault, position, end of the values, hards met, missing met, largest column, sorted)."""
    indices, values = arrays.indices, arrays.values
    base = np.int64(rules.base)
    limit = np.int64(rules.max_features)
    n_missing = 0
    previous = np.int64(-1)
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
        if column <= previous:
            in_order = False
        previous = column
        largest = max(largest, column)
        start = pos + _1
        status, value, pos = parse_number(buf, start)
        if status != GOOD:
            if status == MALFORMED:
                length = _is_missing(buf, start) if rules.missing_zero else 0
                pos = start + np.uint64(length)
                if length == 0:
                    return Fault.VALUE, start, nnz, n_hard, n_missing, largest, in_order
                n_missing += 1
            else:
                value = _hard(start, pos, given, hards, n_hard)
                n_hard += 1
        if not ends_token(buf[pos]):
            return Fault.VALUE, start, nnz, n_hard, n_missing, largest, in_order
        values[nnz] = value
        stored = np.float64(values[nnz])
        if stored != value:
            # float32: a double half way between two floats may hide on which side the text lies.
            other = 2.0 * value - stored
            if np.isinf(stored) or np.float64(np.float32(other)) == other:
                values[nnz] = _hard(start, pos, given, hards, n_hard)
                n_hard += 1
        indices[nnz - implied] = column
        nnz += _1


@jit
def _hard(start: Any, stop: Any, given: Any, hards: Any, n_hard: Any) -> Any:
    """Value of the n-th hard number of a row, if the caller has decided it; else ask for it."""
    if n_hard < given.shape[0]:
        return given[n_hard]
    if 2 * n_hard + 1 < hards.shape[0]:
        hards[2 * n_hard] = start
        hards[2 * n_hard + 1] = stop
    return 0.0


@jit
def _sift(indices: Any, values: Any, root: Any, count: Any) -> None:
    """Sink an element of a heap of ``count`` elements to its place."""
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
    """Sort one row by column, in place; False when a column appears twice."""
    count = np.uint64(indices.shape[0])
    for k in range(count // _2, 0, -1):
        _sift(indices, values, np.uint64(k - 1), count)
    for k in range(count - _1, 0, -1):
        last = np.uint64(k)
        indices[_0], indices[last] = indices[last], indices[_0]
        values[_0], values[last] = values[last], values[_0]
        _sift(indices, values, _0, last)
    twice = False
    for k in range(_1, count):
        twice = twice or indices[k] == indices[k - _1]
    return not twice


@jit
def _finish_line(buf: Any, pos: Any, heap: Any, used: Any, is_row: bool) -> Any:
    """(fault, start of the next line, bytes of docids) from a comment, CR or LF."""
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
    """(fault, position, bytes of query ids) of the token after the label."""
    used = state[State.QID_BYTES]
    found = (
        buf[pos] == 113  # q
        and buf[pos + _1] == 105  # i
        and buf[pos + np.uint64(2)] == 100  # d
        and buf[pos + np.uint64(3)] == _COLON
    )
    if not rules.has_qid:
        arrays.qid[row] = 0
        return Fault.QID_UNEXPECTED if found else GOOD, pos, used
    if not found:
        return Fault.QID_ABSENT, pos, used
    if rules.text_qid:
        return parse_text_qid(buf, pos + _4, arrays.qid_heap, used)
    fault, value, pos = parse_int_qid(buf, pos + _4)
    arrays.qid[row] = value
    return fault, pos, used


@jit
def parse_lines(buf: Any, rules: Any, arrays: Any, state: Any, given: Any, hards: Any) -> Any:
    """Parse whole lines from ``state[POS]`` to ``state[END]``; returns a ``Fault``.

    After a fault ``state[POS]`` is the start of the line, ``state[FAULT]`` the place.
    ``UNDECIDED``: the row holds hard numbers, whose places stand in ``hards``; call again with
    their values in ``given``.
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
            fault, label, pos, n_hard = _label(buf, pos, given, hards)
            if fault == GOOD:
                pos = _skip_blanks(buf, pos)
                fault, pos, qid_bytes = _query(buf, pos, rules, arrays, state, row)
            if fault == GOOD:
                first = np.uint64(state[State.NNZ])
                fault, pos, nnz, n_hard, n_missing, largest, in_order = _features(
                    buf, pos, rules, arrays, first, implied, given, hards, n_hard
                )
            if fault == GOOD and n_hard > given.shape[0]:
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
            given = given[:0]
    state[State.POS] = pos
    return 0
