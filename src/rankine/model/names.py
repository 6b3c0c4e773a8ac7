"""Many names in two arrays: UTF-8 bytes and where each name ends.

A million names as Python strings would take several times the file's size; packed, they are
checked where they lie and become strings when somebody asks.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ModelFormatError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["PackedNames"]

_CHECK_BLOCK = 4096


class PackedNames:
    """Distinct names in order.

    Parameters
    ----------
    text
        Bytes of all names, one after the other (uint8).
    ends
        Where each name ends in ``text`` (int64).
    """

    def __init__(self, text: NDArray[np.uint8], ends: NDArray[np.int64]) -> None:
        self.text = text
        self.ends = ends
        self._check()

    @classmethod
    def pack(cls, names: Iterable[str], what: str = "feature name") -> PackedNames:
        """Pack strings; they must be distinct and valid Unicode."""
        try:
            parts = [str(name).encode("utf-8") for name in names]
        except UnicodeEncodeError as error:
            raise ParameterError(
                f"a {what} is not valid Unicode: {error.object!r}", fix="Rename it"
            ) from error
        if len(set(parts)) != len(parts):
            seen: set[bytes] = set()
            twice = next(part for part in parts if part in seen or seen.add(part))  # type: ignore[func-returns-value]
            raise ParameterError(
                f"{what} {twice.decode()!r} appears twice", fix="Give every one its own name"
            )
        ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
        return cls(np.frombuffer(b"".join(parts), dtype=np.uint8), ends)

    def __len__(self) -> int:
        return len(self.ends)

    @cached_property
    def strings(self) -> tuple[str, ...]:
        """All names as strings."""
        data, starts = self.text.tobytes(), [0, *self.ends.tolist()]
        return tuple(data[a:b].decode() for a, b in zip(starts[:-1], starts[1:], strict=True))

    @cached_property
    def positions(self) -> dict[str, int]:
        """Name -> position."""
        return {name: k for k, name in enumerate(self.strings)}

    def _check(self) -> None:
        """Ends in order, valid UTF-8 within every name, no name twice; in bounded memory."""
        ends, size = self.ends, len(self.text)
        if len(ends) == 0:
            if size:
                raise ModelFormatError("name bytes without names")
            return
        if ends[0] < 0 or int(ends[-1]) != size or (ends[1:] < ends[:-1]).any():
            raise ModelFormatError("ends of names are out of order or out of range")
        hashes = np.empty(len(ends), dtype=np.int64)
        for first in range(0, len(ends), _CHECK_BLOCK):
            block = ends[first : first + _CHECK_BLOCK]
            start = int(ends[first - 1]) if first else 0
            data = self.text[start : int(block[-1])].tobytes()
            begin = 0
            for k, end in enumerate((block - start).tolist()):
                name = data[begin:end]
                try:
                    name.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise ModelFormatError(f"name {first + k} is not UTF-8") from error
                hashes[first + k] = hash(name)
                begin = end
        hashes.sort()
        if (hashes[1:] == hashes[:-1]).any() and len(set(self.strings)) != len(ends):
            raise ModelFormatError("a name appears twice")
