"""Numbers that the compiled tokenizer and its Python driver share."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

from rankine.kernels.compile import jit

__all__ = ["Fault", "State", "ends_token"]


class _Slots(NamedTuple):
    """Slots of the integer array that survives from call to call."""

    POS: int = 0
    END: int = 1
    LINE: int = 2
    ROWS: int = 3
    NNZ: int = 4
    QID_BYTES: int = 5
    DOCID_BYTES: int = 6
    WIDTH: int = 7
    MISSING: int = 8
    FAULT: int = 9
    HARDS: int = 10
    IMPLIED: int = 11


#: Plain numbers, not an enumeration: not every supported Numba indexes with those.
State = _Slots()


class Fault(IntEnum):
    """Why the tokenizer stopped; DONE is not a fault, UNDECIDED asks for numbers."""

    DONE = 0
    LABEL = 1
    QID_ABSENT = 2
    QID_UNEXPECTED = 3
    QID_BAD = 4
    QID_RANGE = 5
    QID_UTF8 = 6
    INDEX = 7
    INDEX_LOW = 8
    INDEX_HIGH = 9
    DUPLICATE = 10
    VALUE = 11
    CARRIAGE = 12
    LONG = 13
    UNDECIDED = 14


@jit
def ends_token(c: Any) -> Any:
    """Blank, tab, LF, CR or ``#``."""
    return c == 32 or c == 10 or c == 9 or c == 13 or c == 35  # noqa: PLR1714 (compiles to one mask)
