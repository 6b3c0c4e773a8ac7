"""Files that are not what the caller takes them for, recognised by their first bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankine.core.errors import FileKindError
from rankine.data.sources import HEAD_BYTES

if TYPE_CHECKING:
    from rankine.data.compression import ByteStream

__all__ = ["kind_of", "refuse_other_kinds"]

_TEXT = "Pass LETOR text: 'label qid:ID index:value ... # docid'"
_UTF8 = "Convert it to UTF-8 without a byte order mark, e.g. iconv -f UTF-16 -t UTF-8"
_UNPACK = "Unpack it first"
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
    (b"\x93NUMPY", "a numpy array (.npy)", "Save X, y and qid together as .npz"),
    (b"PK\x03\x04", "a zip archive (or .npz, .xlsx)", _UNPACK),
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
        return "a Python pickle", "Save the data as text, Parquet or .npz; pickles are never read"
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


def refuse_other_kinds(stream: ByteStream, file: str) -> bytes:
    """Read the first bytes and raise FileKindError when they are those of another kind of file."""
    store = bytearray(HEAD_BYTES)
    count = 0
    while count < HEAD_BYTES and (more := stream.readinto(memoryview(store)[count:])):
        count += more
    head = bytes(store[:count])
    found = kind_of(head)
    if found is not None:
        kind, fix = found
        raise FileKindError(f"this is {kind}, not LETOR text", file=file, fix=fix)
    return head
