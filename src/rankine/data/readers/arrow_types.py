"""The Arrow types that columns may have."""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as pt

__all__ = ["is_list", "is_number", "is_text"]


def is_list(kind: pa.DataType) -> bool:
    """Whether one row of this type is a list whose offsets can be a CSR row pointer."""
    return bool(pt.is_list(kind) or pt.is_large_list(kind))


def is_number(kind: pa.DataType) -> bool:
    """Integers, floating point numbers and booleans; decimals are not, they would be rounded."""
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_boolean(kind))


def is_text(kind: pa.DataType) -> bool:
    """Any of Arrow's string types."""
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))
