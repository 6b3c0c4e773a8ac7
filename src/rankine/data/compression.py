"""Compressed streams, recognised by their first bytes, read with bounded memory.

Truncated or damaged data, bytes after the end, and data that expand beyond ``max_ratio`` are
typed errors. A file of several gzip members (or frames) is one stream.
"""

from __future__ import annotations

import bz2
import lzma
import os
import sys
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, Self, cast

from rankine.core.atomic import atomic_file
from rankine.core.errors import CompressionError, LimitError
from rankine.data.forward_file import ForwardFile
from rankine.data.sources import read_some, unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rankine.data.options import ReadOptions
    from rankine.data.sources import Source

__all__ = [
    "ByteStream",
    "compression_of",
    "open_stream",
    "open_target",
    "strip_compression",
]

#: Name -> (suffix, first bytes).
_KINDS = {
    "gzip": (".gz", b"\x1f\x8b"),
    "bzip2": (".bz2", b"BZh"),
    "xz": (".xz", b"\xfd7zXZ\x00"),
    "zstd": (".zst", b"\x28\xb5\x2f\xfd"),
}

#: An xz file may ask for gigabytes of dictionary; the strongest preset needs 65 MB.
_XZ_MEMORY = 256 * 2**20
_INPUT_BYTES = 2**18
#: The ratio is not judged before this many bytes came out: small files may be very repetitive.
_RATIO_FREE = 16 * 2**20


class ByteStream(Protocol):
    """Bytes of a source after decompression."""

    @property
    def consumed(self) -> int:
        """Bytes taken from the file so far (for progress)."""

    def readinto(self, view: memoryview) -> int:
        """Fill a part of ``view``; 0 only at the end."""


def strip_compression(name: str) -> str:
    """File name without a compression suffix."""
    for suffix, _ in _KINDS.values():
        if name.endswith(suffix):
            return name[: -len(suffix)]
    return name


def compression_of(head: bytes) -> str | None:
    """Kind of compression that the first bytes announce."""
    return next((kind for kind, (_, magic) in _KINDS.items() if head.startswith(magic)), None)


@contextmanager
def open_stream(source: Source, options: ReadOptions) -> Iterator[ByteStream]:
    """Open a source for reading, decompressing what is compressed."""
    kind = compression_of(source.head())
    with source.open() as file:
        if kind is None:
            yield _PlainStream(file, source.name)
        elif kind == "zstd":
            yield _ZstdStream(file, source.name, options.max_ratio)
        else:
            yield _MemberStream(file, kind, source.name, options.max_ratio)


@contextmanager
def open_target(path: str | os.PathLike[str]) -> Iterator[Any]:
    """Open for writing, whole or not at all, compressed as the suffix says; ``-`` is stdout."""
    target = os.fspath(path)
    if target == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with atomic_file(target) as file, _compressor(target, file) as packed:
        yield packed


def _compressor(name: str, file: BinaryIO) -> Any:
    """Writer that compresses into ``file`` as the suffix of ``name`` says; ``close`` ends it."""
    import gzip

    lower = name.lower()
    if lower.endswith(".gz"):
        # No time stamp and no name inside: equal data give equal files.
        return gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=6)
    if lower.endswith(".bz2"):
        return bz2.BZ2File(file, "wb")
    if lower.endswith(".xz"):
        return lzma.LZMAFile(file, "wb")
    if lower.endswith(".zst"):
        import pyarrow as pa

        return pa.CompressedOutputStream(pa.PythonFile(_Unclosed(file), "w"), "zstd")
    return _Unclosed(file)


class _Unclosed:
    """A writer that leaves closing to the owner of the file."""

    def __init__(self, file: BinaryIO) -> None:
        self.write = file.write
        self.flush = file.flush
        self.closed = False

    def close(self) -> None:
        """Close this view alone."""
        self.closed = True

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _PlainStream:
    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self.consumed = 0

    def readinto(self, view: memoryview) -> int:
        count = _read_into(self._file, view, self._name)
        self.consumed += count
        return count


class _Ratio:
    """Counts bytes in and out, and stops a compression bomb."""

    def __init__(self, name: str, limit: int) -> None:
        self.taken = 0
        self.given = 0
        self._name = name
        self._limit = limit

    def give(self, count: int) -> None:
        self.given += count
        if self.given > _RATIO_FREE and self.given > self._limit * max(self.taken, 1):
            raise LimitError(
                f"expands to more than {self._limit} times its size",
                file=self._name,
                fix="If the file can be trusted, pass a larger max_ratio",
            )


class _MemberStream:
    """gzip, bzip2 or xz: members one after the other, each complete, nothing in between."""

    def __init__(self, file: BinaryIO, kind: str, name: str, max_ratio: int) -> None:
        self._file = file
        self._kind = kind
        self._name = name
        self._member: Any = None
        self._pending = b""
        self._ratio = _Ratio(name, max_ratio)

    @property
    def consumed(self) -> int:
        return self._ratio.taken

    def readinto(self, view: memoryview) -> int:
        while True:
            if self._member is None:
                if not self._refill():
                    return 0
                self._start()
            piece = self._decompress(len(view))
            if self._member.eof:
                self._pending = self._member.unused_data
                self._member = None
            if piece:
                view[: len(piece)] = piece
                self._ratio.give(len(piece))
                return len(piece)

    def _start(self) -> None:
        magic = _KINDS[self._kind][1]
        while len(self._pending) < len(magic) and self._refill(more=True):
            pass
        if not self._pending.startswith(magic):
            raise self._error(f"bytes after the end of the {self._kind} data")
        if self._kind == "gzip":
            self._member = zlib.decompressobj(wbits=31)
        elif self._kind == "bzip2":
            self._member = bz2.BZ2Decompressor()
        else:
            self._member = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)

    def _decompress(self, limit: int) -> bytes:
        if not self._pending and self._wants_input() and not self._refill():
            raise self._error(f"the {self._kind} data end too early: the file was cut")
        try:
            piece = self._member.decompress(self._pending, limit)
        except (zlib.error, OSError, lzma.LZMAError, ValueError) as error:
            raise self._error(f"damaged {self._kind} data ({error})") from error
        self._pending = getattr(self._member, "unconsumed_tail", b"")
        return cast("bytes", piece)

    def _wants_input(self) -> bool:
        return getattr(self._member, "needs_input", True)

    def _refill(self, *, more: bool = False) -> bool:
        if self._pending and not more:
            return True
        piece = read_some(self._file, _INPUT_BYTES, self._name)
        self._ratio.taken += len(piece)
        self._pending += piece
        return bool(piece)

    def _error(self, reason: str) -> CompressionError:
        return CompressionError(reason, file=self._name, fix="Fetch or compress the file again")


class _ZstdStream:
    """Zstandard frames, through Arrow."""

    def __init__(self, file: BinaryIO, name: str, max_ratio: int) -> None:
        import pyarrow as pa

        self._name = name
        self._ratio = _Ratio(name, max_ratio)
        self._stream = pa.CompressedInputStream(
            pa.PythonFile(_CountedFile(file, self._ratio), "r"), "zstd"
        )

    @property
    def consumed(self) -> int:
        return self._ratio.taken

    def readinto(self, view: memoryview) -> int:
        try:
            piece = self._stream.read(len(view))
        except OSError as error:
            raise CompressionError(
                f"damaged or cut zstd data ({error})",
                file=self._name,
                fix="Fetch or compress the file again",
            ) from error
        view[: len(piece)] = piece
        self._ratio.give(len(piece))
        return len(piece)


class _CountedFile(ForwardFile):
    """A file that counts the bytes taken from it."""

    def __init__(self, file: BinaryIO, ratio: _Ratio) -> None:
        self._file = file
        self._ratio = ratio

    def read(self, count: int = -1) -> bytes:
        piece = self._file.read(count) or b""
        self._ratio.taken += len(piece)
        return piece


def _read_into(file: Any, view: memoryview, name: str) -> int:
    try:
        if hasattr(file, "readinto"):
            return int(file.readinto(view) or 0)
        piece = file.read(len(view))
    except OSError as error:
        raise unreadable(error, name) from error
    view[: len(piece)] = piece
    return len(piece)
