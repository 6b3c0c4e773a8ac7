"""Just enough of flatbuffers to look into Arrow's messages."""

from __future__ import annotations

import struct

__all__ = ["FlatTable"]


class FlatTable:
    """A table of a flatbuffer: fields are found through its vtable."""

    def __init__(self, data: bytes, place: int) -> None:
        if not 0 <= place <= len(data) - 4:
            raise ValueError("outside the message")
        self._data = data
        self._place = place
        self._fields = place - struct.unpack_from("<i", data, place)[0]
        if self._fields < 0:
            raise ValueError("outside the message")
        self._size = struct.unpack_from("<H", data, self._fields)[0]

    @classmethod
    def root(cls, data: bytes) -> FlatTable:
        """The table that a whole buffer holds."""
        return cls(data, struct.unpack_from("<I", data, 0)[0])

    def _find(self, field: int) -> int | None:
        """Place of a field, or None when it is absent."""
        slot = 4 + 2 * field
        if slot + 2 > self._size:
            return None
        offset = struct.unpack_from("<H", self._data, self._fields + slot)[0]
        return self._place + offset if offset else None

    def number(self, field: int, kind: str) -> int:
        """An integer field; 0 when it is absent."""
        place = self._find(field)
        return 0 if place is None else int(struct.unpack_from(f"<{kind}", self._data, place)[0])

    def child(self, field: int) -> FlatTable | None:
        """A table field, or None when it is absent."""
        place = self._find(field)
        if place is None:
            return None
        return FlatTable(self._data, place + struct.unpack_from("<I", self._data, place)[0])

    def structs(self, field: int, kind: str) -> list[tuple[int, ...]]:
        """A vector of structs of the given format; empty when it is absent."""
        place = self._find(field)
        if place is None:
            return []
        place += struct.unpack_from("<I", self._data, place)[0]
        count = struct.unpack_from("<I", self._data, place)[0]
        size = struct.calcsize(f"<{kind}")
        end = place + 4 + count * size
        if end > len(self._data):
            raise ValueError("outside the message")
        return list(struct.iter_unpack(f"<{kind}", self._data[place + 4 : end]))
