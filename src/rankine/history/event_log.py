"""An append-only file of records, for events between two snapshots.

Each record is its length (4 bytes), the CRC-32 of its content (4 bytes) and the content. A crash
can only leave the last records incomplete or zero; they are cut off when the file is opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self
from zlib import crc32

from rankine.core.errors import DataError, LimitError, ParameterError

_HEADER_BYTES = 8
_MAGIC = b"rankine events 1\n"
#: Largest content of a record.
MAX_RECORD_BYTES = 1 << 26


class Recovery(NamedTuple):
    """What opening a file found.

    Attributes
    ----------
    records, n_bytes
        Complete records, and the length of the file up to their end.
    torn_bytes
        Bytes of an incomplete last record, which were cut off.
    """

    records: int
    n_bytes: int
    torn_bytes: int


class EventLog:
    """Appends records to a file; opening it cuts off an incomplete last record.

    Parameters
    ----------
    path
        The file, which is created if it does not exist.

    Attributes
    ----------
    recovery
        What opening found.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.recovery = _find_end(self.path)
        self._file = self.path.open("ab", buffering=0)
        if self.recovery.torn_bytes:
            self._file.truncate(self.recovery.n_bytes)
            os.fsync(self._file.fileno())
        if self.recovery.n_bytes == 0:
            self._write(_MAGIC)

    def append(self, *contents: bytes) -> None:
        """Append records; when this returns, the operating system has them."""
        parts = []
        for content in contents:
            if not 0 < len(content) <= MAX_RECORD_BYTES:
                raise ParameterError(
                    f"a record has {len(content):,} bytes, not 1 to {MAX_RECORD_BYTES:,}",
                    fix="Send smaller batches",
                )
            parts += [len(content).to_bytes(4, "little"), crc32(content).to_bytes(4, "little")]
            parts.append(content)
        self._write(b"".join(parts))

    def _write(self, data: bytes) -> None:
        start = self._file.seek(0, os.SEEK_END)
        try:
            written = self._file.write(data)
            while written < len(data):
                written += self._file.write(data[written:])
        except OSError as error:
            # A record that is not whole would hide those after it.
            self._file.truncate(start)
            raise DataError(
                f"cannot be written: {error.strerror}", file=str(self.path), fix="Free space"
            ) from error

    def sync(self) -> None:
        """Flush the file to disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Flush and close the file."""
        if not self._file.closed:
            self.sync()
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_records(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """Yield the content of every complete record of a file; an absent file has none."""
    file = Path(path)
    if file.exists():
        yield from _records(file, ReadProgress())


class ReadProgress:
    """Number of complete records that were read, and the file offset after them."""

    def __init__(self) -> None:
        self.records = 0
        self.n_bytes = 0


def _find_end(path: Path) -> Recovery:
    """Read a file, and return where its last complete record ends."""
    if not path.exists():
        return Recovery(0, 0, 0)
    progress = ReadProgress()
    for _ in _records(path, progress):
        pass
    size = path.stat().st_size
    return Recovery(progress.records, progress.n_bytes, size - progress.n_bytes)


def _records(path: Path, progress: ReadProgress) -> Iterator[bytes]:
    """Yield complete records; damage that is followed by further records is an error."""
    size = path.stat().st_size
    with path.open("rb") as file:
        magic = file.read(len(_MAGIC))
        if magic != _MAGIC:
            if _MAGIC.startswith(magic):  # a crash while the file was created
                return
            raise DataError(
                "not a log of events", file=str(path), fix="Pass the folder of a served state"
            )
        progress.n_bytes = len(_MAGIC)
        while header := file.read(_HEADER_BYTES):
            length = int.from_bytes(header[:4], "little")
            end = progress.n_bytes + _HEADER_BYTES + length
            if len(header) < _HEADER_BYTES:
                return
            # No record of ours: the lengths of records after it are lost.
            if length > MAX_RECORD_BYTES:
                raise LimitError(
                    f"a record of {length:,} bytes",
                    file=str(path),
                    fix="Restore the folder of the state from a copy",
                )
            content = file.read(length)
            if crc32(content).to_bytes(4, "little") != header[4:] or length == 0:
                # A power cut may leave zeros where the file was longer than what was written.
                if end >= size or not file.read().strip(b"\0"):
                    return
                raise DataError(
                    f"record {progress.records + 1} is damaged",
                    file=str(path),
                    fix="Restore the folder of the state from a copy",
                )
            progress.records += 1
            progress.n_bytes = end
            yield content
