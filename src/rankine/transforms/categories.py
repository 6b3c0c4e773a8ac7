"""Categorical values as text, and text as places of a hashed space.

A place is the first 8 bytes (little-endian) of BLAKE2b over the column names and the values,
modulo the size of the space: the same on every machine, in every process, for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import SchemaError
from rankine.core.safe_text import printable

#: Values whose place is remembered; the memory of a long stream stays bounded.
REMEMBERED = 1 << 18
_UNIT = "\x1f"
#: Values that a table of places may be asked for as they stand. Not bool: True equals 1 as a key.
_PLAIN = frozenset((str, int, type(None)))


def category_texts(values: Any, name: str) -> list[str]:
    """Values of a categorical column as text; a missing value is empty.

    Text stands for itself, integers for their decimal digits, booleans for ``true`` and
    ``false``; fractions are refused, because their text is not theirs alone.
    """
    plain = values.tolist() if hasattr(values, "tolist") else list(values)
    if all(type(value) is str for value in plain):
        return plain
    return [value if type(value) is str else _text(value, name, i) for i, value in enumerate(plain)]


def categories(values: Any, name: str) -> Sequence[Any]:
    """Values of a categorical column, as the tables of places take them: most as they stand."""
    if isinstance(values, (list, tuple)) and _PLAIN.issuperset(map(type, values)):
        return values
    return category_texts(values, name)


def distinct(columns: Mapping[str, Any], names: Sequence[str]) -> tuple[Sequence[Any], Any]:
    """Values of a column (tuples of them for several), and which of them each row holds.

    Text that is kept as codes is not decoded. The second is None where each row has its own.
    """
    ask = getattr(columns, "coded", None)
    coded: list[Any] = [None if ask is None else ask(name) for name in names]
    if any(one is None for one in coded):
        values = [categories(columns[name], name) for name in names]
        return (values[0] if len(names) == 1 else list(zip(*values, strict=True))), None
    (codes, texts), *others = coded
    if not others:
        return texts, codes
    values, combined = [(text,) for text in texts], codes.astype(np.int64)
    for more, further in others:
        size = len(further)
        pairs, combined = np.unique(combined * size + more, return_inverse=True)
        values = [(*values[pair // size], further[pair % size]) for pair in pairs.tolist()]
    return values, combined


def texts_in_order(columns: Mapping[str, Any], name: str) -> list[str]:
    """Distinct texts of a categorical column, in order of first appearance."""
    values, codes = distinct(columns, (name,))
    if codes is None:
        return list(dict.fromkeys(category_texts(values, name)))
    first = first_rows(codes, len(values))
    used = np.flatnonzero(first >= 0)
    return list(dict.fromkeys(values[k] for k in used[np.argsort(first[used])].tolist()))


def first_rows(codes: NDArray[Any], count: int) -> NDArray[np.int64]:
    """The first row of each code; -1 where none has it."""
    first = np.full(count, -1, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # the last assignment stands
    return first


def _text(value: Any, name: str, row: int) -> str:
    if value is None:
        return ""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        if np.isnan(value):
            return ""
        if float(value).is_integer():
            return str(int(value))
    if isinstance(value, (str, np.str_)):
        return str(value)
    raise SchemaError(
        f"row {row}: {printable(repr(value), 40)} in categorical column {name!r} is neither text "
        "nor a whole number",
        fix="Name the column as numeric, or store its categories as text",
        column=name,
    )


class HashedPlaces(dict[Any, int]):
    """Place of every value (or tuple of values) of a column (or cross); -1 for a missing one."""

    def __init__(self, columns: Sequence[str], bits: int, start: int) -> None:
        super().__init__()
        self._columns = tuple(columns)
        prefix = "".join(name + _UNIT for name in columns)
        self._begun = blake2b(prefix.encode("utf-8", "surrogatepass"), digest_size=8)
        self._bits = bits
        self._mask = (1 << bits) - 1
        self._start = start

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels without what it remembers."""
        return HashedPlaces, (self._columns, self._bits, self._start)

    def __missing__(self, value: Any) -> int:
        if type(value) is str:
            text = value
        elif type(value) is int:
            text = str(value)
        elif value is None or None in value or "" in value:
            return -1
        else:
            text = _UNIT.join(map(str, value))
        if not text:
            return -1
        hashed = self._begun.copy()
        hashed.update(text.encode("utf-8", "surrogatepass"))
        place = self._start + (int.from_bytes(hashed.digest(), "little") & self._mask)
        if len(self) >= REMEMBERED:
            self.clear()
        self[value] = place
        return place

    def name(self, value: Any) -> str:
        """Name of the feature of a value, such as ``brand=acme`` or ``brand=acme x size=9``."""
        parts = value if isinstance(value, tuple) else (value,)
        return " x ".join(f"{c}={v}" for c, v in zip(self._columns, parts, strict=True))


class KnownPlaces(dict[Any, int]):
    """Place of every known value of a one-hot column; -1 for any other."""

    def __init__(self, values: Sequence[str], start: int) -> None:
        super().__init__((value, start + k) for k, value in enumerate(values))

    def __missing__(self, value: Any) -> int:
        return self.get(str(value), -1) if type(value) is int else -1


def places_of(places: Any, values: Sequence[Any]) -> NDArray[np.int64]:
    """Places of values, as an array."""
    return np.fromiter(map(places.__getitem__, values), dtype=np.int64, count=len(values))
