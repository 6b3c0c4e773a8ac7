"""Numbers as people read them."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["MINUS", "NONE", "count", "number", "percent", "plural", "shown", "signed"]

MINUS, NONE = "\N{MINUS SIGN}", "\N{EN DASH}"


def number(value: float | None, digits: int = 4) -> str:
    """A metric or weight: fixed digits near 1, significant digits elsewhere; a dash for none."""
    if value is None or not math.isfinite(value):
        return NONE
    if value == 0 or 0.001 <= abs(value) < 1000:
        return f"{value:.{digits}f}" if abs(value) < 10 else f"{value:.{max(digits - 2, 0)}f}"
    return f"{value:.3g}"


def signed(value: float | None, digits: int = 4) -> str:
    """The same with its sign, a true minus."""
    found = number(None if value is None else abs(value), digits)
    if value is None or found == NONE:
        return found
    return (MINUS if value < 0 else "+") + found


def count(value: float) -> str:
    """A whole number with separators."""
    return f"{int(value):,}"


def percent(share: float | None, digits: int = 0) -> str:
    """A share of 1."""
    return (
        NONE
        if share is None or not math.isfinite(share)
        else f"{100 * share:.{digits}f}\N{NO-BREAK SPACE}%"
    )


def plural(n: int, word: str, words: str | None = None) -> str:
    """``1 query``, ``2 queries``."""
    return f"{count(n)} {word if n == 1 else (words or word + 's')}"


def shown(value: Any) -> str:
    """A parameter as it is written on the command line."""
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)
