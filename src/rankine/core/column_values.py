"""Define what one value of a raw log means, as a category and as a number, in every format.

Readers of files and frames, the scorer, the server and exported Python modules share these
functions. Exports copy their source, so they need the standard library alone and run on Python 3.8.
"""

# ruff: noqa: UP017

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

#: What to do with values that are no categories, and with those that are no numbers.
CATEGORY_FIX = "Name the column as numeric or binned, or store its categories as text"
NUMBER_FIX = "Name the column as categorical, or store numbers"


def category_text(value: Any) -> str:
    """Return the text of a category; a missing value is empty.

    Text is kept. Integers, and whole numbers below 10^15 of other types, become decimal digits;
    booleans become ``true`` and ``false``, dates ISO 8601. A TypeError refuses fractions and times,
    which programs write in several ways, and larger floats, which skip integers.
    """
    value = plain_value(value)
    if value is None or value != value:  # noqa: PLR0124 - NaN, and pandas' NaT
        return ""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, (float, Decimal)):
        number: Any = value
        if abs(number) < 10**15 and number == int(number):
            return str(int(number))
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    raise TypeError("not a category")


def number_of(value: Any) -> float:
    """Return a value as a number, NaN for a missing one.

    A boolean is 1 or 0. A date or time, also as ISO 8601 text, is its seconds since 1970-01-01 UTC;
    without a zone it is in UTC. A TypeError or ValueError refuses anything else.
    """
    value = plain_value(value)
    if value is None or value != value:  # noqa: PLR0124 - NaN, and pandas' NaT
        return float("nan")
    if isinstance(value, (int, float, Decimal)):
        try:
            return float(value)
        except OverflowError:  # an integer that no float can hold
            return float("inf")
    if isinstance(value, str) and value[4:5] == "-":
        value = datetime.fromisoformat(value)
    if not isinstance(value, date):
        raise TypeError("not a number")
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=timezone.utc)
    if value.tzinfo is None:
        value = value.replace(tzinfo=timezone.utc)
    elapsed = value - datetime(1970, 1, 1, tzinfo=timezone.utc)
    nanoseconds = 1000 * elapsed.microseconds + getattr(elapsed, "nanoseconds", 0)
    return elapsed.days * 86400 + elapsed.seconds + nanoseconds / 1e9


def plain_value(value: Any) -> Any:
    """Return a NumPy scalar as a value of Python."""
    if not hasattr(value, "item"):
        return value
    if getattr(value.dtype, "kind", "") == "m":
        raise TypeError("a duration is neither a category nor a number")
    plain = value.item()
    if getattr(value.dtype, "kind", "") == "M" and isinstance(plain, int):
        return value.astype("M8[us]").item()
    return plain
