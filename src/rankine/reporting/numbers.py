"""Format numbers for readers of a report: metrics, signed differences, counts, shares."""

from __future__ import annotations

import math
from typing import Any

MINUS, NONE = "\N{MINUS SIGN}", "\N{EN DASH}"


def number(value: float | None, digits: int = 4) -> str:
    """Format a metric or weight: fixed digits near 1, significant digits elsewhere.

    An unknown or infinite value becomes a dash.
    """
    if value is None or not math.isfinite(value):
        return NONE
    if value != 0 and not 0.001 <= abs(value) < 1000:
        return f"{value:.3g}"
    if abs(value) >= 10:
        digits -= 2
    return f"{value:.{digits}f}"


def signed(value: float | None, digits: int = 4) -> str:
    """Format a number with its sign, using a typographic minus."""
    if value is None or not math.isfinite(value):
        return NONE
    text = number(abs(value), digits)
    if value < 0:
        return MINUS + text
    return f"+{text}"


def count(value: float) -> str:
    """Format a whole number with thousands separators."""
    return f"{int(value):,}"


def percent(share: float | None, digits: int = 0) -> str:
    """Format a share of 1 as a percentage."""
    if share is None or not math.isfinite(share):
        return NONE
    return f"{100 * share:.{digits}f}\N{NO-BREAK SPACE}%"


def plural(n: int, singular: str, plural_form: str | None = None) -> str:
    """Format a count with its noun: ``1 query``, ``2 queries``."""
    if n == 1:
        return f"{count(n)} {singular}"
    return f"{count(n)} {plural_form or singular + 's'}"


def parameter_text(value: Any) -> str:
    """Format a parameter's value as it is written on the command line."""
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)
