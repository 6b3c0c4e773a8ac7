"""The container: a safetensors file with one canonical header and a digest over every byte.

Layout, byte by byte (``docs/model-file.md`` tells the same story to users)::

    0    8   N, the header's length, little-endian unsigned; a multiple of 8, at most 1 MiB
    8    N   header: canonical JSON, padded with spaces to a multiple of 8
    8+N  ..  tensors, one after the other without gaps: 8-byte types first, then by name

The header starts with ``{"__metadata__":{"digest":"`` + 64 hex digits + ``","format":"rankine/1",``
so the digest stands at a fixed place: it is the SHA-256 of the whole file with these 64 characters
replaced by zeros, and it is checked before anything is parsed.

Reading trusts nothing. Lengths are compared with the file's size before they are used, arrays are
views of the bytes read, and the header must equal, byte for byte, what writing the parsed content
again gives; so duplicate keys, unknown fields, spare spaces, gaps and overlaps have no room.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import DigestError, ModelFormatError, ModelVersionError
from rankine.core.strict_json import canonical_json, parse_json_strictly

FORMAT_VERSION = 1
MAX_HEADER_BYTES = 1 << 20
MAX_TENSORS = 64

_DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "I64": np.dtype("<i8"),
    "U8": np.dtype("u1"),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_OPENING = b'{"__metadata__":{"digest":"'
_DIGEST_AT = 8 + len(_OPENING)
_BLANK = b"0" * 64
_AFTER_DIGEST = re.compile(rb'","format":"rankine/([1-9][0-9]{0,3})","')

#: What files that are no models usually are: first bytes -> name.
_OTHER_KINDS = {
    b"\x80\x02": "a pickle",
    b"\x80\x03": "a pickle",
    b"\x80\x04": "a pickle",
    b"\x80\x05": "a pickle",
    b"PK\x03\x04": "a zip archive (npz?)",
    b"PAR1": "a Parquet file",
    b"\x1f\x8b": "gzip data",
    b"\x93NUMPY": "a numpy array",
    b"version https://git-lfs": "a Git LFS pointer, not the file itself",
    b"SVM-": "an SVMlight or SVMrank model (rankine.model.foreign reads those)",
    b"{": "plain JSON",
    b"<": "HTML or XML",
}


class Content(NamedTuple):
    """What a container holds."""

    document: dict[str, Any]
    tensors: dict[str, NDArray[Any]]
    digest: str


def pack(document: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> tuple[list[Any], str]:
    """Pieces of the file, in order, and its digest."""
    arrays = {name: _storable(array) for name, array in tensors.items()}
    shapes = {name: (_NAMES[array.dtype], len(array)) for name, array in arrays.items()}
    header = _header(document, shapes, _BLANK.decode())
    if len(header) > MAX_HEADER_BYTES:
        raise ModelFormatError(
            f"the model's parameters and provenance take {len(header):,} bytes, "
            f"more than the {MAX_HEADER_BYTES:,} a header may hold",
            fix="Shorten parameters or provenance",
        )
    start = len(header).to_bytes(8, "little") + header
    payload = [arrays[name].view(np.uint8).data for name in _order(shapes) if len(arrays[name])]
    digest = hashlib.sha256(start)
    for piece in payload:
        digest.update(piece)
    found = digest.hexdigest()
    signed = start[:_DIGEST_AT] + found.encode() + start[_DIGEST_AT + 64 :]
    return [signed, *payload], found


def check_start(start: bytes, size: int) -> int:
    """Check the first bytes of a file of ``size`` bytes; returns the header's length."""
    length = int.from_bytes(start[:8], "little")
    if start[8 : 8 + len(_OPENING)] == _OPENING:
        if length > MAX_HEADER_BYTES:
            raise ModelFormatError(
                f"the header claims {length:,} bytes, the limit is {MAX_HEADER_BYTES:,}",
                fix="The file is damaged; copy it again",
            )
        if length % 8 or 8 + length > size:
            raise ModelFormatError(
                f"the header claims {length:,} bytes in a file of {size:,}",
                fix="The file is cut short or damaged; copy it again",
            )
        return length
    kind = next((name for head, name in _OTHER_KINDS.items() if start.startswith(head)), "")
    if not kind and size == 0:
        kind = "an empty file"
    if not kind and start[8:9] == b"{":
        kind = "a safetensors file, but not one of rankine's"
    raise ModelFormatError(
        f"not a rankine model; this looks like {kind}" if kind else "not a rankine model",
        fix="Pass a file written by model.save or rankine train",
    )


def unpack(data: bytes) -> Content:
    """Check a whole file and view its content."""
    length = check_start(data, len(data))
    digest = _check_digest(data)
    version = _AFTER_DIGEST.match(data, _DIGEST_AT + 64, 8 + length)
    if version is None:
        raise ModelFormatError("the header names no rankine format", fix="Copy the file again")
    if int(version[1]) > FORMAT_VERSION:
        raise ModelVersionError(
            f"the file has format {int(version[1])}, this rankine reads up to {FORMAT_VERSION}",
            fix="Upgrade rankine, or save the model with this version",
        )
    try:
        return _parse(data, length, digest)
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        if isinstance(error, ModelFormatError):
            raise
        raise ModelFormatError(
            f"malformed header: {str(error)[:200]}", fix="The file was not written by rankine"
        ) from error


def _check_digest(data: bytes) -> str:
    stored = data[_DIGEST_AT : _DIGEST_AT + 64]
    digest = hashlib.sha256(data[:_DIGEST_AT])
    digest.update(_BLANK)
    digest.update(memoryview(data)[_DIGEST_AT + 64 :])
    found = digest.hexdigest()
    if found.encode() != stored:
        raise DigestError(
            "the content does not match its SHA-256 digest: the file was cut, changed or damaged",
            fix="Copy it again from where it was saved",
        )
    return found


def _parse(data: bytes, length: int, digest: str) -> Content:
    header = parse_json_strictly(data[8 : 8 + length])
    metadata = header["__metadata__"]
    document = parse_json_strictly(metadata["model"])
    entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
    if len(entries) > MAX_TENSORS:
        raise ValueError(f"{len(entries)} tensors, at most {MAX_TENSORS} are allowed")
    shapes = {name: _shape(entry) for name, entry in entries.items()}
    again = _header(document, shapes, digest)
    if data[8 : 8 + length] != again:
        raise ValueError("the header is not in canonical form")
    tensors: dict[str, NDArray[Any]] = {}
    position = 8 + length
    for name in _order(shapes):
        dtype, count = _DTYPES[shapes[name][0]], shapes[name][1]
        if count > (len(data) - position) // dtype.itemsize:
            raise ValueError(f"tensor {name!r} reaches beyond the end of the file")
        view = np.frombuffer(data, dtype=dtype, count=count, offset=position)
        tensors[name] = view.astype(dtype.newbyteorder("="), copy=False)
        position += count * dtype.itemsize
    if position != len(data):
        raise ValueError(f"{len(data) - position} bytes after the last tensor")
    return Content(document, tensors, digest)


def _shape(entry: Any) -> tuple[str, int]:
    """Type and length of a tensor entry; offsets are checked by writing the header again."""
    kind, (count,) = entry["dtype"], entry["shape"]
    if kind not in _DTYPES or type(count) is not int or count < 0:
        raise ValueError("a tensor is neither F64, I64 nor U8 of some length")
    return kind, count


def _order(shapes: Mapping[str, tuple[str, int]]) -> list[str]:
    """Order in the payload: wide types first, so that every array is aligned."""
    return sorted(shapes, key=lambda name: (-_DTYPES[shapes[name][0]].itemsize, name))


def _header(
    document: Mapping[str, Any], shapes: Mapping[str, tuple[str, int]], digest: str
) -> bytes:
    header: dict[str, Any] = {
        "__metadata__": {
            "digest": digest,
            "format": f"rankine/{FORMAT_VERSION}",
            "model": canonical_json(document),
        }
    }
    position = 0
    for name in _order(shapes):
        kind, count = shapes[name]
        end = position + count * _DTYPES[kind].itemsize
        header[name] = {"data_offsets": [position, end], "dtype": kind, "shape": [count]}
        position = end
    text = canonical_json(header).encode("ascii")
    return text + b" " * (-len(text) % 8)


def _storable(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
