"""Convert categorical values to text, and text to indices of features.

The index of a hashed value is the first 8 bytes (little-endian) of BLAKE2b over the column names
and the values, modulo the size of the hashed space. It depends on neither machine nor process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.column_values import CATEGORY_FIX, category_text
from rankine.core.errors import SchemaError
from rankine.core.safe_text import printable

#: Number of values whose index is cached, so that the memory of a long stream stays bounded.
MAX_CACHED = 1 << 18
_UNIT = "\x1f"
#: Types that can be looked up without conversion. Not bool: True equals 1 as a key.
_KEY_TYPES = frozenset((str, int, type(None)))
_TEXT_TYPES = frozenset((str,))


def category_texts(values: Any, name: str) -> list[str]:
    """Convert the values of a categorical column to text, as ``core.column_values`` defines."""
    if getattr(values, "dtype", np.dtype(object)).kind in "mM":
        items = list(values)  # tolist drops the unit of times
    else:
        items = values.tolist() if hasattr(values, "tolist") else list(values)
    if _TEXT_TYPES.issuperset(map(type, items)):
        return items
    return [value if type(value) is str else _text(value, name, i) for i, value in enumerate(items)]


def categories(values: Any, name: str) -> Sequence[Any]:
    """Return the values of a categorical column as keys; they are converted only if necessary."""
    if isinstance(values, (list, tuple)) and _KEY_TYPES.issuperset(map(type, values)):
        return values
    return category_texts(values, name)


def distinct(columns: Mapping[str, Any], names: Sequence[str]) -> tuple[Sequence[Any], Any]:
    """Return the values of a column (tuples for several columns) and the index of each row's value.

    Text that is stored as codes is not decoded. Without codes the first result has one value per
    row, and there is no index (None).
    """
    get_coded = getattr(columns, "coded", None)
    coded: list[Any] = [None] * len(names)
    if get_coded is not None:
        coded = [get_coded(name) for name in names]
    if any(column is None for column in coded):
        values = [categories(columns[name], name) for name in names]
        if len(names) == 1:
            return values[0], None
        return list(zip(*values, strict=True)), None
    (codes, texts), *crossed = coded
    if not crossed:
        return texts, codes
    values, combined = [(text,) for text in texts], codes.astype(np.int64)
    for next_codes, next_texts in crossed:
        size = len(next_texts)
        pairs, combined = np.unique(combined * size + next_codes, return_inverse=True)
        values = [(*values[pair // size], next_texts[pair % size]) for pair in pairs.tolist()]
    return values, combined


def texts_in_order(columns: Mapping[str, Any], name: str) -> list[str]:
    """Return the distinct texts of a categorical column, in order of first appearance."""
    values, codes = distinct(columns, (name,))
    if codes is None:
        return list(dict.fromkeys(category_texts(values, name)))
    first = first_rows(codes, len(values))
    present = np.flatnonzero(first >= 0)
    return list(dict.fromkeys(values[k] for k in present[np.argsort(first[present])].tolist()))


def first_rows(codes: NDArray[Any], count: int) -> NDArray[np.int64]:
    """Find the first row of each code; -1 where no row has it."""
    first = np.full(count, -1, dtype=np.int64)
    # Assigned in reverse order: the last assignment wins.
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return first


def _text(value: Any, name: str, row: int) -> str:
    try:
        return category_text(value)
    except (TypeError, ValueError) as error:
        raise SchemaError(
            f"{printable(repr(value), 40)} in categorical column {name!r} is neither text nor a "
            "whole number",
            fix=CATEGORY_FIX,
            column=name,
            row=row,
        ) from error


class HashedFeatures(dict[Any, int]):
    """Feature index of each value of a hashed column, or tuple of a cross; -1 if missing.

    Indices are computed when they are first looked up.
    """

    def __init__(self, columns: Sequence[str], bits: int, start: int) -> None:
        super().__init__()
        self._columns = tuple(columns)
        prefix = "".join(name + _UNIT for name in columns)
        self._prefix = prefix.encode("utf-8", "surrogatepass")
        self._hash_of_names = blake2b(self._prefix, digest_size=8)
        self._bits = bits
        self._mask = (1 << bits) - 1
        self._start = start

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the cached indices."""
        return HashedFeatures, (self._columns, self._bits, self._start)

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
        hashed = self._hash_of_names.copy()
        hashed.update(text.encode("utf-8", "surrogatepass"))
        index = self._start + (int.from_bytes(hashed.digest(), "little") & self._mask)
        if len(self) >= MAX_CACHED:
            self.clear()
        self[value] = index
        return index

    def add_texts(self, values: Sequence[Any]) -> None:
        """Compute the indices of new texts, in less time than one after the other."""
        texts = [value for value in values if type(value) is str and value and value not in self]
        if len(self) + len(texts) > MAX_CACHED:
            return
        prefix = self._prefix
        digests = [
            blake2b(prefix + text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
            for text in texts
        ]
        hashed = np.frombuffer(b"".join(digests), dtype="<u8") & np.uint64(self._mask)
        self.update(zip(texts, (hashed.astype(np.int64) + self._start).tolist(), strict=True))

    def name(self, value: Any) -> str:
        """Name the feature of a value, such as ``brand=acme`` or ``brand=acme x size=9``."""
        if not isinstance(value, tuple):
            return f"{self._columns[0]}={value}"
        return " x ".join(f"{c}={v}" for c, v in zip(self._columns, value, strict=True))


class OneHotFeatures(dict[Any, int]):
    """Feature index of each value of a one-hot column; -1 for any other value."""

    def __init__(self, values: Sequence[str], start: int) -> None:
        super().__init__((value, start + k) for k, value in enumerate(values))

    def __missing__(self, value: Any) -> int:
        # The values are text, and integers are looked up by their digits.
        return self.get(str(value), -1) if type(value) is int else -1


def feature_indices(features: Any, values: Sequence[Any]) -> NDArray[np.int64]:
    """Look up the feature index of each value."""
    return np.fromiter(map(features.__getitem__, values), dtype=np.int64, count=len(values))
