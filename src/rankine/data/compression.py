"""Read and write the bytes of files, compressed or not, in bounded memory.

Compression is recognised by the first bytes. Truncated or damaged data, bytes after the end, and
data that expand more than ``max_ratio`` allows are errors. A file of several gzip members (or
frames) is one stream. ``refuse_other_kinds`` recognises files that are no LETOR text.
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
from typing import Any, BinaryIO, cast

from rankine.core.atomic import atomic_file
from rankine.core.errors import CompressionError, FileKindError, LimitError, attach_file_to_errors
from rankine.data.options import ReadOptions
from rankine.data.progress import read_ahead
from rankine.data.sources import HEAD_BYTES, Source, read_fully, read_some, unreadable

#: Suffix and first bytes of each compression.
_COMPRESSIONS = {
    "gzip": (".gz", b"\x1f\x8b"),
    "bzip2": (".bz2", b"BZh"),
    "xz": (".xz", b"\xfd7zXZ\x00"),
    "zstd": (".zst", b"\x28\xb5\x2f\xfd"),
}

#: Memory for the dictionary of an xz file, which may need gigabytes; the strongest preset of
#: common tools needs 65 MB.
_XZ_MEMORY = 256 * 2**20
#: Compressed bytes read, and decompressed bytes made of them, at a time.
_INPUT_BYTES, _OUTPUT_BYTES = 2**18, 2**20
#: The expansion ratio is not checked below this size: small files may be very repetitive.
_RATIO_FREE = 16 * 2**20


class ByteStream:
    """The decompressed bytes of a source.

    Attributes
    ----------
    consumed
        Bytes of the file read so far.
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        self.consumed = 0

    def readinto(self, view: memoryview) -> int:
        """Fill a part of ``view`` and return its size, 0 only at the end."""
        try:
            count = int(self._file.readinto(view) or 0)
        except OSError as error:
            raise unreadable(error) from error
        self.consumed += count
        return count


def strip_compression(name: str) -> str:
    """Return a file name without a compression suffix."""
    for suffix, _ in _COMPRESSIONS.values():
        if name.endswith(suffix):
            return name[: -len(suffix)]
    return name


def compression_of(head: bytes) -> str | None:
    """Return the name of the compression that starts with these bytes, or None."""
    for name, (_, magic) in _COMPRESSIONS.items():
        if head.startswith(magic):
            return name
    return None


@contextmanager
def open_stream(source: Source, options: ReadOptions) -> Iterator[ByteStream]:
    """Open a source for reading, decompressing what is compressed."""
    compression = compression_of(source.head())
    with attach_file_to_errors(source.name), source.open() as file:
        if compression is None:
            yield ByteStream(file)
            return
        with closing(_DecompressedStream(file, compression, options.max_ratio)) as stream:
            yield stream


@contextmanager
def open_target(path: str | os.PathLike[str]) -> Iterator[Any]:
    """Open for writing, compressed by the suffix; ``-`` is standard output.

    The file appears only when it is complete.
    """
    target = os.fspath(path)
    if target == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with atomic_file(target) as file, _compressor(target, file) as writer:
        yield writer


def _compressor(name: str, file: BinaryIO) -> Any:
    """Return a writer that compresses into ``file`` by the suffix of ``name``."""
    import gzip

    lower = name.lower()
    if lower.endswith(".gz"):
        # Without a time stamp and a name, equal data give equal files.
        return gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=6)
    if lower.endswith(".bz2"):
        return bz2.BZ2File(file, "wb")
    if lower.endswith(".xz"):
        return lzma.LZMAFile(file, "wb")
    if lower.endswith(".zst"):
        import pyarrow as pa

        return pa.CompressedOutputStream(pa.PythonFile(_OpenWriter(file), "w"), "zstd")
    return _OpenWriter(file)


class _OpenWriter(io.RawIOBase):
    """A writer whose ``close`` leaves the file open: its owner closes it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self._file.write(data)


class _DecompressedStream(ByteStream):
    """Decompresses on a thread, ahead of the reader; stops when the bytes expand too far."""

    def __init__(self, file: BinaryIO, compression: str, max_ratio: int) -> None:
        super().__init__(file)
        if compression == "zstd":
            chunks = self._read_zstd()
        else:
            chunks = self._read_members(compression)
        self._chunks = read_ahead(self._check_ratio(chunks, max_ratio))
        self._pending = memoryview(b"")

    def close(self) -> None:
        """Stop the thread."""
        self._chunks.close()

    def _check_ratio(self, chunks: Iterator[bytes], max_ratio: int) -> Iterator[bytes]:
        n_bytes = 0
        for chunk in chunks:
            n_bytes += len(chunk)
            if n_bytes > _RATIO_FREE and n_bytes > max_ratio * self.consumed:
                raise LimitError(
                    f"the file expands to more than {max_ratio} times its size",
                    parameter="max_ratio",
                    fix="If the file can be trusted, raise the limit",
                )
            yield chunk

    def readinto(self, view: memoryview) -> int:
        if not self._pending:
            self._pending = memoryview(next(self._chunks, b""))
        count = min(len(view), len(self._pending))
        view[:count] = self._pending[:count]
        self._pending = self._pending[count:]
        return count

    def _read(self, count: int = _INPUT_BYTES) -> bytes:
        data = read_some(self._file, count)
        self.consumed += len(data)
        return data

    def _read_members(self, compression: str) -> Iterator[bytes]:
        """Decompress the members of a gzip, bzip2 or xz file; each must be complete."""
        magic = _COMPRESSIONS[compression][1]
        pending = self._read()
        while pending:
            if len(pending) < len(magic):
                stream = cast("BinaryIO", _FunctionFile(self._read))
                pending += read_fully(stream, len(magic) - len(pending))
            if not pending.startswith(magic):
                raise _broken(f"bytes after the end of the {compression} data")
            member = _decompressor(compression)
            while not member.eof:
                if not pending and getattr(member, "needs_input", True):
                    pending = self._read()
                    if not pending:
                        raise _broken(f"the {compression} data end too early: the file was cut")
                try:
                    chunk = member.decompress(pending, _OUTPUT_BYTES)
                except (zlib.error, OSError, lzma.LZMAError, ValueError) as error:
                    raise _broken(f"damaged {compression} data ({error})") from error
                pending = getattr(member, "unconsumed_tail", b"")
                if chunk:
                    yield chunk
            pending = member.unused_data or self._read()

    def _read_zstd(self) -> Iterator[bytes]:
        """Decompress Zstandard frames, by Arrow."""
        import pyarrow as pa

        stream = pa.CompressedInputStream(pa.PythonFile(_FunctionFile(self._read), "r"), "zstd")
        try:
            while chunk := stream.read(_OUTPUT_BYTES):
                yield chunk
        except OSError as error:
            raise _broken(f"damaged or cut zstd data ({error})") from error


def _decompressor(compression: str) -> Any:
    if compression == "gzip":
        return zlib.decompressobj(wbits=31)
    if compression == "bzip2":
        return bz2.BZ2Decompressor()
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)


def _broken(reason: str) -> CompressionError:
    return CompressionError(reason, fix="Fetch or compress the file again")


class _FunctionFile(io.RawIOBase):
    """A binary file that reads by a function."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read

    def readable(self) -> bool:
        return True

    def read(self, count: int = -1) -> bytes:
        return self._read(count)


_TEXT = "Pass LETOR text: 'label qid:ID index:value ... # docid'"
_UTF8 = "Convert it to UTF-8 without a byte order mark, e.g. iconv -f UTF-16 -t UTF-8"
_UNPACK = "Unpack it first"
_NUMPY = "Load it with numpy.load and pass the arrays to rankine.Dataset.from_arrays"
_UNPACK_OR_NUMPY = f"Unpack it first; if it is an .npz: {_NUMPY}"
_MODEL = "This is a model, not data"

#: First bytes, their meaning, and what to do. Longer marks are before shorter ones.
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
    (b"\x93NUMPY", "a numpy array (.npy)", _NUMPY),
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

#: Bytes that no line of text starts with: control characters and parts of UTF-8 sequences.
_NEVER_FIRST = frozenset(bytes([k]) for k in range(256) if not (9 <= k <= 13 or 32 <= k < 127))
_HTML = (b"<!doctype", b"<html", b"<head", b"<?xml", b"<body", b"<svg", b"<error")


def kind_of(head: bytes) -> tuple[str, str] | None:
    """Describe a file that is certainly not LETOR text, by its first 512 bytes, and give a fix.

    Return None if the file may be text.
    """
    for mark, description, fix in _MARKS:
        if head.startswith(mark):
            return description, fix
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
    # Every other byte of UTF-16 text in Latin letters is 0.
    return len(head) >= 2 and 2 * head.count(0) > len(head)


def fill(stream: ByteStream, view: memoryview) -> int:
    """Fill the view, or less at the end of the stream, and return the number of bytes."""
    count = 0
    while count < len(view):
        n_bytes = stream.readinto(view[count:])
        if n_bytes == 0:
            break
        count += n_bytes
    return count


def refuse_other_kinds(stream: ByteStream) -> bytes:
    """Read the first bytes and raise FileKindError if the file is of another kind."""
    store = bytearray(HEAD_BYTES)
    head = bytes(store[: fill(stream, memoryview(store))])
    other_kind = kind_of(head)
    if other_kind is not None:
        description, fix = other_kind
        raise FileKindError(f"this is {description}, not LETOR text", fix=fix)
    return head
