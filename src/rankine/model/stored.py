"""What everything that is saved as one model file can do."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os

__all__ = ["Stored"]


class Stored:
    """Has one canonical content; what that is, ``rankine.model.store`` knows."""

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the whole file this is saved as; equal models have equal digests."""
        return self._encoded()[1]

    def to_bytes(self) -> bytes:
        """Content of the file that ``save`` writes."""
        return b"".join(self._encoded()[0])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file, atomically: a failure or kill leaves the old file as it was."""
        from rankine.model.store import save

        save(self, path)  # type: ignore[arg-type]

    def _encoded(self) -> tuple[list[Any], str]:
        from rankine.model.store import encode

        return encode(self)  # type: ignore[arg-type]
