"""Arrays inside a zip archive, read from start to end in pieces, without trust."""

from __future__ import annotations

import math
import zipfile
import zlib
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from rankine.core.errors import CompressionError, FileKindError, LimitError, SchemaError
from rankine.data.readers.arrow_errors import first_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rankine.data.options import ReadOptions
    from rankine.data.sources import Source

__all__ = ["Archive", "NpyStream", "open_archive"]

#: Expansion is not judged below this size: small arrays may be very repetitive.
_RATIO_FREE = 64 * 2**20
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError)


@contextmanager
def open_archive(source: Source, options: ReadOptions) -> Iterator[Archive]:
    """Open an npz file; pipes are refused, since a zip's index stands at its end."""
    if not source.rereadable:
        raise FileKindError(
            "npz cannot be read from a pipe, since its index stands at the end",
            fix="Save it to a file first",
            file=source.name,
        )
    with source.open() as raw:
        try:
            archive = zipfile.ZipFile(raw)
        except (*_DAMAGE, ValueError) as error:
            raise FileKindError(
                f"not a complete npz archive: {first_line(error)}",
                fix="Save it again",
                file=source.name,
            ) from error
        with archive:
            yield Archive(archive, source.name, options)


class Archive:
    """The arrays of an npz file by name."""

    def __init__(self, archive: zipfile.ZipFile, file: str, options: ReadOptions) -> None:
        self._archive = archive
        self._file = file
        self._options = options
        self.names: dict[str, zipfile.ZipInfo] = {}
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            if name in self.names:
                raise SchemaError(
                    f"two members are called {name!r}", fix="Save it again", file=file
                )
            self.names[name] = info

    @contextmanager
    def stream(self, name: str) -> Iterator[NpyStream]:
        """Open one array, its header checked against its size."""
        info = self.names[name]
        if info.file_size > _RATIO_FREE and (
            info.file_size > self._options.max_ratio * max(info.compress_size, 1)
        ):
            raise LimitError(
                f"member {name!r} expands to more than {self._options.max_ratio} times its size",
                fix="If the file can be trusted, pass a larger max_ratio",
                file=self._file,
                column=name,
            )
        try:
            member = self._archive.open(info)
        except (*_DAMAGE, ValueError) as error:
            raise CompressionError(
                f"member {name!r} cannot be opened: {first_line(error)}",
                fix="Save it again",
                file=self._file,
            ) from error
        with member:
            yield NpyStream(member, info, name, self._file)


class NpyStream:
    """One array of a zip archive, handed out in consecutive pieces of rows."""

    def __init__(self, member: IO[bytes], info: zipfile.ZipInfo, name: str, file: str) -> None:
        self.name = name
        self._file = file
        self._member = member
        self._left = info.file_size
        try:
            version = npy.read_magic(member)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            self.shape, by_column, self.dtype = read(member, max_header_size=10_000)
        except (*_DAMAGE, ValueError, TypeError, KeyError, SyntaxError) as error:
            raise self._error(f"is not an array: {first_line(error)}") from error
        header = info.file_size - member_left(member, info)
        if self.dtype.hasobject or self.dtype.itemsize == 0:
            raise self._error(f"holds {self.dtype}: Python objects are never read")
        self._left = info.file_size - header
        count = math.prod(self.shape)
        if any(side < 0 for side in self.shape) or count * self.dtype.itemsize != self._left:
            raise self._error(f"says it holds {self.shape} but has {self._left} bytes")
        if by_column and len(self.shape) > 1:
            raise self._error("is stored by columns; save it in C order")
        self._row = self.shape[1:]

    def take(self, rows: int) -> NDArray[Any]:
        """The next ``rows`` rows."""
        out = np.empty((rows, *self._row), dtype=self.dtype)
        view = out.reshape(-1).view(np.uint8)
        filled = 0
        while filled < len(view):
            try:
                piece = self._member.read(min(len(view) - filled, 2**24))
            except (*_DAMAGE, ValueError) as error:
                raise self._error(f"is damaged: {first_line(error)}") from error
            if not piece:
                raise self._error("ends too early")
            view[filled : filled + len(piece)] = np.frombuffer(piece, dtype=np.uint8)
            filled += len(piece)
        if not self.dtype.isnative:
            out = out.astype(self.dtype.newbyteorder("="))
        return out

    def _error(self, reason: str) -> SchemaError:
        return SchemaError(
            f"member {self.name!r} {reason}", fix="Save it again", file=self._file, column=self.name
        )

    def __str__(self) -> str:
        return f"{self.dtype} of shape {self.shape}"


def member_left(member: Any, info: zipfile.ZipInfo) -> int:
    """Uncompressed bytes of a member that were not read yet."""
    return int(info.file_size - member.tell())
