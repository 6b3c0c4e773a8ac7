"""Numbers that the tokenizer leaves to exact arithmetic."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np

__all__ = ["nearest"]

#: From here on a decimal rounds to infinity in float32: 2^128 - 2^103.
_FLOAT32_END = Decimal(2**128 - 2**103)


def nearest(text: bytes, dtype: str) -> float:
    """The number of the given type nearest to a decimal text, ties to even; may be infinite."""
    value = float(text)
    if dtype == "float64" or math.isinf(value):
        return value
    with np.errstate(over="ignore"):
        rounded = np.float32(value)
    if np.isinf(rounded):
        small = Decimal(text.decode()).copy_abs() < _FLOAT32_END
        limit = float(np.finfo(np.float32).max)
        return math.copysign(limit if small else math.inf, value)
    stored = float(rounded)
    if stored == value:
        return value
    # The double lies between two floats; when it is exactly half way, the text decides.
    other = 2.0 * value - stored
    if float(np.float32(other)) != other:
        return stored
    side = Decimal(text.decode()).compare(Decimal(value))
    if side == 0:
        return stored
    return max(stored, other) if side > 0 else min(stored, other)
