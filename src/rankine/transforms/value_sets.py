"""Sets of the values of categorical columns, small enough for a model file.

A set holds hashes of 28 bits. Once there are more than 2^16 of them, it holds their lowest 24 bits
only, and once there are more than 2^17 of these, their lowest 20 bits. A new value is taken for a
known one with the probability that its hash is in the set: 2e-4 for 2^16 values, .8 % for 2^17.
The result depends on neither the order of the values nor the way in which they are divided.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.log_summary import MAX_SIZES, unpack_gaps
from rankine.transforms.categories import HashedFeatures, distinct, feature_indices

FINE_BITS = 28


class NewValues:
    """Finds the values of a column, or tuples of several, that no earlier block had.

    Blocks often share one dictionary of texts; then only its codes are looked at.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        self._dictionary: Sequence[Any] | None = None
        self._seen = np.zeros(0, dtype=np.bool_)

    def find(self, columns: Mapping[str, Any]) -> list[Any]:
        """Return the distinct values of a block that were not returned for the same dictionary."""
        values, codes = distinct(columns, self.columns)
        if codes is None:
            return list(dict.fromkeys(values))
        if values is not self._dictionary:
            self._dictionary, self._seen = values, np.zeros(len(values), dtype=np.bool_)
        # A dictionary may hold values that no row has.
        present = np.zeros(len(values), dtype=np.bool_)
        present[codes] = True
        new = np.flatnonzero(present & ~self._seen)
        self._seen |= present
        return [values[code] for code in new.tolist()]


class ValueHasher:
    """Hashes the values of one column."""

    def __init__(self, column: str) -> None:
        self.column = column
        self._hashes = HashedFeatures((column,), FINE_BITS, 0)

    def hash_rows(self, columns: Mapping[str, Any]) -> NDArray[np.int64]:
        """Return the hash of each row's value, -1 for a missing one."""
        values, codes = distinct(columns, (self.column,))
        hashes = feature_indices(self._hashes, values)
        return hashes if codes is None else hashes[codes]

    def hash_distinct(self, columns: Mapping[str, Any]) -> NDArray[np.int64]:
        """Return the hashes of the distinct values, sorted."""
        return self.hash_values(NewValues((self.column,)).find(columns))

    def hash_values(self, values: Sequence[Any]) -> NDArray[np.int64]:
        """Return the hashes of distinct values, sorted."""
        self._hashes.add_texts(values)
        hashes = feature_indices(self._hashes, values)
        return np.unique(hashes[hashes >= 0])


class ValueSet:
    """A set of hashes of values."""

    def __init__(self, hashes: NDArray[np.int64] | None = None, bits: int = FINE_BITS) -> None:
        self.bits = bits
        self.hashes = np.zeros(0, dtype=np.int64) if hashes is None else hashes

    def add(self, hashes: NDArray[np.int64], bits: int = FINE_BITS) -> None:
        """Add hashes of ``bits`` bits."""
        self._shorten(bits)
        hashes = hashes & ((1 << self.bits) - 1)
        new = hashes[~self._contains(hashes)]
        if len(new):
            self.hashes = np.unique(np.concatenate([self.hashes, new]))
        while len(self.hashes) > MAX_SIZES[self.bits]:
            self._shorten(self.bits - 4)

    def _shorten(self, bits: int) -> None:
        """Keep the lowest ``bits`` bits of every hash."""
        if bits < self.bits:
            self.bits = bits
            self.hashes = np.unique(self.hashes & ((1 << bits) - 1))

    def _contains(self, hashes: NDArray[np.int64]) -> NDArray[np.bool_]:
        places = np.searchsorted(self.hashes, hashes)
        return np.append(self.hashes, -1)[places] == hashes

    @property
    def full_share(self) -> float:
        """Probability that a new value seems to be in the set."""
        return len(self.hashes) / (1 << self.bits)

    def count_new(self, hashes: NDArray[np.int64]) -> int:
        """Count the hashes outside the set; negative ones are missing values."""
        present = hashes[hashes >= 0] & ((1 << self.bits) - 1)
        return int((~self._contains(present)).sum())

    def pack(self) -> str:
        """Return the set as text: its gaps, byte by byte, since the upper bytes are mostly 0."""
        gaps = np.diff(self.hashes, prepend=0).astype("<u4").view(np.uint8).reshape(-1, 4)
        packed = zlib.compress(np.ascontiguousarray(gaps.T).tobytes(), 9)
        return f"{self.bits}:{base64.b64encode(packed).decode('ascii')}"

    @classmethod
    def unpack(cls, text: str) -> ValueSet:
        """Return the set of a text made by ``pack``."""
        gaps, bits = unpack_gaps(text)
        planes = np.frombuffer(gaps, dtype=np.uint8).reshape(4, -1)
        numbers = np.ascontiguousarray(planes.T).view("<u4").ravel()
        return cls(np.cumsum(numbers.astype(np.int64)), bits)
