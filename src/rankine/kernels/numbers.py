r"""Parse decimal text to the nearest double, without Python objects.

Grammar: ``[+-]?(\d+(\.\d+)?|\.\d+)([eE][+-]?\d+)?``. A number m 10^q with at most 19
significant digits is m * 10^q or m / 10^-q in one correctly rounded operation when m <= 2^53 and
|q| <= 22 (Clinger 1990); otherwise the algorithm of Eisel and Lemire (Lemire, "Number parsing at a
gigabyte per second", 2021, algorithm 1) decides it from 128 bits of 5^q, which always suffice
(Mushtak and Lemire, "Fast number parsing without fallback", 2023). Numbers that neither method can
decide (more digits, subnormal results, overflow) are called *hard*; the caller passes them to
Python's ``float``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit

GOOD, HARD, MALFORMED = 0, 1, 2

#: Outside these exponents every number of 19 digits is subnormal or close to overflow.
_Q_MIN, _Q_MAX = -326, 307


def _powers_of_five() -> NDArray[np.uint64]:
    """Return the first 128 bits of 5^q in two words, for all q; rounded up for q >= -27."""
    table = np.empty((_Q_MAX - _Q_MIN + 1, 2), dtype=np.uint64)
    for q in range(_Q_MIN, _Q_MAX + 1):
        if q < 0:
            five = 5**-q
            word = (1 << (five.bit_length() + 127)) // five + (q >= -27)
        else:
            word = 5**q << 128
            word >>= word.bit_length() - 128
        table[q - _Q_MIN] = word >> 64, word & (2**64 - 1)
    return table


_FIVES = _powers_of_five()
_TENS = np.array([10.0**k for k in range(23)])

_0, _1, _9, _10, _19 = (np.uint64(k) for k in (0, 1, 9, 10, 19))
_32, _48 = np.uint64(32), np.uint64(48)
_LOW = np.uint64(0xFFFFFFFF)
_TOP = np.uint64(1) << np.uint64(63)
_EXACT = np.uint64(1) << np.uint64(53)
_HIDDEN = np.uint64(1) << np.uint64(52)
_PLUS, _MINUS, _DOT, _BIG_E, _SMALL_E = 43, 45, 46, 69, 101


@jit
def _multiply(a: Any, b: Any) -> Any:
    """Return the 128-bit product of two words, high word first."""
    a_low, a_high = a & _LOW, a >> _32
    b_low, b_high = b & _LOW, b >> _32
    low = a_low * b_low
    middle = a_high * b_low + (low >> _32)
    middle_2 = a_low * b_high + (middle & _LOW)
    high = a_high * b_high + (middle >> _32) + (middle_2 >> _32)
    return high, (middle_2 << _32) | (low & _LOW)


@jit
def _eisel_lemire(m: Any, q: Any) -> Any:
    """Return (decided, m 10^q rounded to nearest even) for m > 0."""
    if q < _Q_MIN or q > _Q_MAX:
        return False, 0.0
    shift = _0
    while m & _TOP == _0:
        m <<= _1
        shift += _1
    high, low = _multiply(m, _FIVES[q - _Q_MIN, 0])
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):
        # The first 64 bits of 5^q leave the rounding open: add the product with the next 64 bits.
        carry_word, _ = _multiply(m, _FIVES[q - _Q_MIN, 1])
        low += carry_word
        if carry_word > low:
            high += _1
    upper = high >> np.uint64(63)
    mantissa = high >> (upper + _9)
    power = ((217706 * q) >> 16) + 63 + np.int64(upper) - np.int64(shift) + 1023
    if power <= 0 or power >= 2046:
        return False, 0.0
    if (
        low <= _1
        and -4 <= q <= 23
        and mantissa & np.uint64(3) == _1
        and mantissa << (upper + _9) == high
    ):
        mantissa &= ~_1  # exactly half way: round to even
    mantissa = (mantissa + (mantissa & _1)) >> _1
    if mantissa >= _EXACT:
        mantissa = _HIDDEN
        power += 1
    bits = np.uint64((mantissa & ~_HIDDEN) | (np.uint64(power) << np.uint64(52)))
    return True, bits.view(np.float64)


@jit
def _significant(buf: Any, start: Any, stop: Any) -> int:
    """Count the digits of a mantissa from its first non-zero digit on."""
    count = 0
    for k in range(start, stop):
        if buf[k] != _DOT and (count > 0 or buf[k] != 48):
            count += 1
    return count


@jit
def _exponent(buf: Any, pos: Any) -> Any:
    """Read the digits after ``e``; return (digits read, exponent, end). Large ones saturate."""
    sign = 1
    if buf[pos] == _PLUS or buf[pos] == _MINUS:
        if buf[pos] == _MINUS:
            sign = -1
        pos += _1
    start = pos
    value: Any = 0
    while np.uint64(buf[pos]) - _48 < _10:
        value = min(value * 10 + (np.int64(buf[pos]) - 48), 100_000_000)
        pos += _1
    return pos - start, sign * value, pos


@jit
def parse_number(buf: Any, pos: Any) -> Any:
    """Return (status, value, end) of the number at ``pos``; ``buf`` must end in a non-digit.

    A MALFORMED number ends where it violates the grammar. The value of a HARD one is not set.
    """
    negative = buf[pos] == _MINUS
    if negative or buf[pos] == _PLUS:
        pos += _1
    start = pos
    m = _0
    digit = np.uint64(buf[pos]) - _48
    while digit < _10:
        m = m * _10 + digit
        pos += _1
        digit = np.uint64(buf[pos]) - _48
    count = pos - start
    q = np.int64(0)
    if buf[pos] == _DOT:
        pos += _1
        first = pos
        digit = np.uint64(buf[pos]) - _48
        while digit < _10:
            m = m * _10 + digit
            pos += _1
            digit = np.uint64(buf[pos]) - _48
        if pos == first:
            return MALFORMED, 0.0, pos
        q = np.int64(first) - np.int64(pos)
        count += pos - first
    elif count == _0:
        return MALFORMED, 0.0, pos
    stop = pos
    if buf[pos] == _SMALL_E or buf[pos] == _BIG_E:
        digits, power, pos = _exponent(buf, pos + _1)
        if digits == _0:
            return MALFORMED, 0.0, pos
        q += power
    if count > _19 and _significant(buf, start, stop) > 19:
        return HARD, 0.0, pos
    if m <= _EXACT and -22 <= q <= 22:
        # Both operands are exact, so the one operation is correctly rounded (Clinger).
        value = np.float64(m) * _TENS[q] if q >= 0 else np.float64(m) / _TENS[-q]
    elif m == _0:
        value = 0.0
    else:
        decided, value = _eisel_lemire(m, q)
        if not decided:
            return HARD, 0.0, pos
    return GOOD, -value if negative else value, pos
