"""The bytes of a file: of the right kind, decompressed with bounded memory.

Compression is recognised by the first bytes. Truncated or damaged data, bytes after the end, and
data that expand beyond ``max_ratio`` are typed errors. A file of several gzip members (or frames)
is one stream. Files that are not what the caller takes them for are named.
"""

from __future__ import annotations

import bz2
import io
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, BinaryIO

from rankine.core.atomic import atomic_file
from rankine.core.errors import CompressionError, FileKindError, LimitError, attach_file_to_errors
from rankine.data.options import ReadOptions
from rankine.data.progress import read_ahead
from rankine.data.sources import HEAD_BYTES, Source, read_some, unreadable

#: Name -> (suffix, first bytes).
_KINDS = {
    "gzip": (".gz", b"\x1f\x8b"),
    "bzip2": (".bz2", b"BZh"),
    "xz": (".xz", b"\xfd7zXZ\x00"),
    "zstd": (".zst", b"\x28\xb5\x2f\xfd"),
}

#: An xz file may ask for gigabytes of dictionary; the strongest preset needs 65 MB.
_XZ_MEMORY = 256 * 2**20
#: Compressed bytes read, and bytes made of them, at a time.
_INPUT_BYTES, _PIECE_BYTES = 2**18, 2**20
#: The ratio is not judged before this many bytes came out: small files may be very repetitive.
_RATIO_FREE = 16 * 2**20


class ByteStream:
    """Bytes of a source after decompression; ``consumed`` are those taken from the file."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.consumed = 0

    def readinto(self, view: memoryview) -> int:
        """Fill a part of ``view``; 0 only at the end."""
        try:
            count = int(self._file.readinto(view) or 0)
        except OSError as error:
            raise unreadable(error) from error
        self.consumed += count
        return count


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
    with attach_file_to_errors(source.name), source.open() as file:
        if kind is None:
            yield ByteStream(file)
            return
        with closing(_Unpacked(file, kind, options.max_ratio)) as stream:
            yield stream


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


class _Unclosed(io.RawIOBase):
    """A writer that leaves closing to the owner of the file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self._file.write(data)


class _Unpacked(ByteStream):
    """Bytes out of compressed ones, made ahead on a thread while the last ones are read.

    Both are counted, so that a compression bomb is stopped.
    """

    def __init__(self, file: BinaryIO, kind: str, max_ratio: int) -> None:
        super().__init__(file)
        pieces = self._frames() if kind == "zstd" else self._members(kind)
        self._pieces = read_ahead(self._bounded(pieces, max_ratio))
        self._left = memoryview(b"")

    def close(self) -> None:
        """Stop the thread."""
        self._pieces.close()

    def _bounded(self, pieces: Iterator[bytes], limit: int) -> Iterator[bytes]:
        given = 0
        for piece in pieces:
            given += len(piece)
            if given > _RATIO_FREE and given > limit * self.consumed:
                raise LimitError(
                    f"expands to more than {limit} times its size",
                    fix="If the file can be trusted, pass a larger max_ratio",
                )
            yield piece

    def readinto(self, view: memoryview) -> int:
        if not self._left:
            self._left = memoryview(next(self._pieces, b""))
        count = min(len(view), len(self._left))
        view[:count] = self._left[:count]
        self._left = self._left[count:]
        return count

    def _take(self, count: int = _INPUT_BYTES) -> bytes:
        piece = read_some(self._file, count)
        self.consumed += len(piece)
        return piece

    def _members(self, kind: str) -> Iterator[bytes]:
        """gzip, bzip2 or xz: members one after the other, each complete, nothing in between."""
        magic = _KINDS[kind][1]
        pending = self._take()
        while pending:
            while len(pending) < len(magic) and (more := self._take()):
                pending += more
            if not pending.startswith(magic):
                raise _broken(f"bytes after the end of the {kind} data")
            member = _decompressor(kind)
            while not member.eof:
                if not pending and getattr(member, "needs_input", True):
                    pending = self._take()
                    if not pending:
                        raise _broken(f"the {kind} data end too early: the file was cut")
                try:
                    piece = member.decompress(pending, _PIECE_BYTES)
                except (zlib.error, OSError, lzma.LZMAError, ValueError) as error:
                    raise _broken(f"damaged {kind} data ({error})") from error
                pending = getattr(member, "unconsumed_tail", b"")
                if piece:
                    yield piece
            pending = member.unused_data or self._take()

    def _frames(self) -> Iterator[bytes]:
        """Zstandard frames, through Arrow."""
        import pyarrow as pa

        stream = pa.CompressedInputStream(pa.PythonFile(_Taken(self._take), "r"), "zstd")
        try:
            while piece := stream.read(_PIECE_BYTES):
                yield piece
        except OSError as error:
            raise _broken(f"damaged or cut zstd data ({error})") from error


def _decompressor(kind: str) -> Any:
    if kind == "gzip":
        return zlib.decompressobj(wbits=31)
    if kind == "bzip2":
        return bz2.BZ2Decompressor()
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)


def _broken(reason: str) -> CompressionError:
    return CompressionError(reason, fix="Fetch or compress the file again")


class _Taken(io.RawIOBase):
    """A file by the function that reads it."""

    def __init__(self, take: Callable[[int], bytes]) -> None:
        self._take = take

    def readable(self) -> bool:
        return True

    def read(self, count: int = -1) -> bytes:
        return self._take(count)


_TEXT = "Pass LETOR text: 'label qid:ID index:value ... # docid'"
_UTF8 = "Convert it to UTF-8 without a byte order mark, e.g. iconv -f UTF-16 -t UTF-8"
_UNPACK = "Unpack it first"
_UNPACK_OR_NUMPY = (
    "Unpack it first, or load an .npz with numpy.load and pass its arrays to "
    "rankine.Dataset.from_arrays"
)
_MODEL = "This is a model, not data"

#: First bytes, what they mean, what to do. Longer marks stand before shorter ones.
_MARKS: tuple[tuple[bytes, str, str], ...] = (
    (b"\xef\xbb\xbf", "UTF-8 with a byte order mark", "Remove the first three bytes: tail -c +4"),
    (b"\xff\xfe\x00\x00", "UTF-32 text", _UTF8),
    (b"\x00\x00\xfe\xff", "UTF-32 text", _UTF8),
    (b"\xff\xfe", "UTF-16 text", _UTF8),
    (b"\xfe\xff", "UTF-16 text", _UTF8),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself", "Run 'git lfs pull'"),
    (b"PAR1", "a Parquet file", "Let rankine choose the format, or pass format='parquet'"),
    (b"PARE", "an encrypted Parquet file", "Decrypt it first"),
    (b"ARROW1", "an Arrow file", "Let rankine choose the format, or pass format='arrow'"),
    (b"FEA1", "a Feather V1 file", "Write it again as Feather V2 or Parquet"),
    (b"\xff\xff\xff\xff", "an Arrow stream", "Write it as an Arrow file or Parquet"),
    (
        b"\x93NUMPY",
        "a numpy array (.npy)",
        "Load it with numpy.load and pass the arrays to rankine.Dataset.from_arrays",
    ),
    (b"PK\x03\x04", "a zip archive (or .npz, .xlsx)", _UNPACK_OR_NUMPY),
    (b"PK\x05\x06", "an empty zip archive", _UNPACK),
    (b"\x1f\x8b", "gzip data inside compressed data", _UNPACK),
    (b"BZh", "bzip2 data inside compressed data", _UNPACK),
    (b"\xfd7zXZ\x00", "xz data inside compressed data", _UNPACK),
    (b"\x28\xb5\x2f\xfd", "zstd data inside compressed data", _UNPACK),
    (b"\x04\x22\x4d\x18", "an lz4 file", "Unpack it with lz4 -d"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    (b"Rar!\x1a\x07", "a RAR archive", _UNPACK),
    (b"Obj\x01", "an Avro file", "Convert it to Parquet"),
    (b"ORC", "an ORC file", "Convert it to Parquet"),
    (b"SQLite format 3\x00", "an SQLite database", "Export the table to Parquet"),
    (b"tree\nversion=", "a LightGBM model", _MODEL),
    (b"SVM-light Version", "an SVMlight model", _MODEL),
    (b"solver_type ", "a liblinear model", _MODEL),
    (b"svm_type ", "a libsvm model", _MODEL),
    (b"binf", "an XGBoost model", _MODEL),
    (b"%PDF", "a PDF document", _TEXT),
)

#: No line of text starts with a control character, nor with half a letter.
_NEVER_FIRST = frozenset(bytes([k]) for k in range(256) if not (9 <= k <= 13 or 32 <= k < 127))
_HTML = (b"<!doctype", b"<html", b"<head", b"<?xml", b"<body", b"<svg", b"<error")


def kind_of(head: bytes) -> tuple[str, str] | None:
    """(kind, fix) of a file that is certainly not LETOR text, by its first 512 bytes."""
    for mark, kind, fix in _MARKS:
        if head.startswith(mark):
            return kind, fix
    if head[257:262] == b"ustar" and b"\0" in head[:257]:
        return "a tar archive", _UNPACK
    if head[:1] == b"\x80" and head[1:2] in {b"\x02", b"\x03", b"\x04", b"\x05"}:
        return "a Python pickle", "Save the data as text or Parquet; pickles are never read"
    start = head.lstrip(b" \t\r\n").lower()
    if start.startswith(_HTML):
        return "an HTML or XML page (a failed download?)", "Fetch the file again"
    if start[:1] in {b"{", b"["}:
        return "JSON", _TEXT
    if head[:1] != b"#" and any(_mostly_nul(head[k:128:2]) for k in (0, 1)):
        return "UTF-16 text", _UTF8
    if head[:1] in _NEVER_FIRST:
        return "binary data", _TEXT
    return None


def _mostly_nul(head: bytes) -> bool:
    return len(head) >= 2 and 2 * head.count(0) > len(head)


def fill(stream: ByteStream, view: memoryview) -> int:
    """Fill the view as far as the stream allows."""
    count = 0
    while count < len(view) and (more := stream.readinto(view[count:])):
        count += more
    return count


def refuse_other_kinds(stream: ByteStream) -> bytes:
    """Read the first bytes and raise FileKindError when they are those of another kind of file."""
    store = bytearray(HEAD_BYTES)
    head = bytes(store[: fill(stream, memoryview(store))])
    found = kind_of(head)
    if found is not None:
        kind, fix = found
        raise FileKindError(f"this is {kind}, not LETOR text", fix=fix)
    return head
