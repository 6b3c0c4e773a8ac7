"""A binary file that libraries may only read forwards."""

from __future__ import annotations

__all__ = ["ForwardFile"]


class ForwardFile:
    """Answers what libraries ask of a file before they call ``read``."""

    closed = False

    def readable(self) -> bool:
        """It can be read."""
        return True

    def writable(self) -> bool:
        """It cannot be written."""
        return False

    def seekable(self) -> bool:
        """It goes forwards only."""
        return False

    def close(self) -> None:
        """Only remembered: the file below belongs to somebody else."""
        self.closed = True
