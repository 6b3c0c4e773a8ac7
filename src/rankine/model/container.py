"""The model file: a safetensors file with one canonical header and a digest over every byte.

Layout, byte by byte (``docs/model-file.md`` documents it for users)::

    0    8   N, the header's length, little-endian unsigned; a multiple of 8, at most 1 MiB
    8    N   header: canonical JSON, padded with spaces to a multiple of 8
    8+N  ..  tensors, one after the other without gaps: 8-byte types first, then by name

The header starts with ``{"__metadata__":{"digest":"`` + 64 hex digits + ``","format":"rankine/1",``
so the digest has a fixed offset: it is the SHA-256 of the whole file with these 64 characters
replaced by zeros, and it is checked before anything is parsed.

Files are not trusted. Lengths are compared with the file's size before they are used, arrays are
views of the bytes read, and the header must equal, byte for byte, what writing the parsed content
again gives. This excludes duplicate keys, unknown fields, extra spaces, gaps and overlaps.
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
MAX_TENSORS = 1024

_DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "I64": np.dtype("<i8"),
    "U8": np.dtype("u1"),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_HEADER_START = b'{"__metadata__":{"digest":"'
_DIGEST_OFFSET = 8 + len(_HEADER_START)
_ZERO_DIGEST = b"0" * 64
_AFTER_DIGEST = re.compile(rb'","format":"rankine/([1-9][0-9]{0,3})","')

#: Kinds of files that users confuse with models: first bytes -> name.
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
    """Document, tensors and digest of a model file."""

    document: dict[str, Any]
    tensors: dict[str, NDArray[Any]]
    digest: str


def pack(document: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> tuple[list[Any], str]:
    """Return the parts of the file, in order, and its digest."""
    arrays = {name: _storable(array) for name, array in tensors.items()}
    # The digest covers the header, which holds it: it is computed with zeros in its place.
    shapes = {name: (_NAMES[array.dtype], len(array)) for name, array in arrays.items()}
    header = _header(document, shapes, _ZERO_DIGEST.decode())
    if len(header) > MAX_HEADER_BYTES:
        raise ModelFormatError(
            f"the header with the model's parameters and provenance has {len(header):,} bytes; "
            f"the limit is {MAX_HEADER_BYTES:,}",
            fix="Shorten parameters or provenance",
        )
    start = len(header).to_bytes(8, "little") + header
    payload = [arrays[name].view(np.uint8).data for name in _order(shapes) if len(arrays[name])]
    digest = hashlib.sha256(start)
    for tensor_bytes in payload:
        digest.update(tensor_bytes)
    text = digest.hexdigest()
    signed = start[:_DIGEST_OFFSET] + text.encode() + start[_DIGEST_OFFSET + 64 :]
    return [signed, *payload], text


def check_start(start: bytes, size: int) -> int:
    """Check the first bytes of a file of ``size`` bytes; return the length of the header."""
    length = int.from_bytes(start[:8], "little")
    if start[8 : 8 + len(_HEADER_START)] == _HEADER_START:
        if length > MAX_HEADER_BYTES:
            raise ModelFormatError(
                f"the header has {length:,} bytes; the limit is {MAX_HEADER_BYTES:,}",
                fix="The file is damaged; copy it again",
            )
        if length % 8 or 8 + length > size:
            raise ModelFormatError(
                f"the header claims {length:,} bytes in a file of {size:,}",
                fix="The file is cut short or damaged; copy it again",
            )
        return length
    # Name what the file is instead: most often a path is mistaken for another.
    kinds = (name for head, name in _OTHER_KINDS.items() if start.startswith(head))
    description = next(kinds, "")
    if not description and size == 0:
        description = "an empty file"
    if not description and start[8:9] == b"{":
        description = "a safetensors file, but not one of rankine's"
    looks_like = f"; this looks like {description}" if description else ""
    raise ModelFormatError(
        f"not a rankine model{looks_like}",
        fix="Pass a file written by model.save or rankine train",
    )


def unpack(data: bytes) -> Content:
    """Check a whole file and return its content; tensors are views of ``data``."""
    length = check_start(data, len(data))
    digest = _check_digest(data)
    version = _AFTER_DIGEST.match(data, _DIGEST_OFFSET + 64, 8 + length)
    if version is None:
        raise ModelFormatError("the header has no rankine format", fix="Copy the file again")
    # The digest was right, so a newer version is no damage.
    if int(version[1]) > FORMAT_VERSION:
        raise ModelVersionError(
            f"the file has format {int(version[1])}; this version reads up to {FORMAT_VERSION}",
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
    stored = data[_DIGEST_OFFSET : _DIGEST_OFFSET + 64]
    digest = hashlib.sha256(data[:_DIGEST_OFFSET])
    digest.update(_ZERO_DIGEST)
    digest.update(memoryview(data)[_DIGEST_OFFSET + 64 :])
    computed = digest.hexdigest()
    if computed.encode() != stored:
        raise DigestError(
            "the content does not match its SHA-256 digest: the file was cut, changed or damaged",
            fix="Copy it again from where it was saved",
        )
    return computed


def _parse(data: bytes, length: int, digest: str) -> Content:
    header = parse_json_strictly(data[8 : 8 + length])
    metadata = header["__metadata__"]
    document = parse_json_strictly(metadata["model"])
    entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
    if len(entries) > MAX_TENSORS:
        raise ValueError(f"{len(entries)} tensors, at most {MAX_TENSORS} are allowed")
    shapes = {name: _shape(entry) for name, entry in entries.items()}
    # One header for one content: no second spelling can hide a field.
    if data[8 : 8 + length] != _header(document, shapes, digest):
        raise ValueError("the header is not in canonical form")
    tensors: dict[str, NDArray[Any]] = {}
    # Tensors follow each other in canonical order; no offset of the file is used.
    position = 8 + length
    for name in _order(shapes):
        dtype, count = _DTYPES[shapes[name][0]], shapes[name][1]
        # Compared by division: the product of a hostile count could be astronomically large.
        if count > (len(data) - position) // dtype.itemsize:
            raise ValueError(f"tensor {name!r} extends past the end of the file")
        view = np.frombuffer(data, dtype=dtype, count=count, offset=position)
        tensors[name] = view.astype(dtype.newbyteorder("="), copy=False)
        position += count * dtype.itemsize
    if position != len(data):
        raise ValueError(f"{len(data) - position} bytes after the last tensor")
    return Content(document, tensors, digest)


def _shape(entry: Any) -> tuple[str, int]:
    """Return type and length of a tensor entry; offsets are checked by writing the header again."""
    dtype, (count,) = entry["dtype"], entry["shape"]
    if dtype not in _DTYPES or type(count) is not int or count < 0:
        raise ValueError("a tensor is not a vector of F64, I64 or U8")
    return dtype, count


def _order(shapes: Mapping[str, tuple[str, int]]) -> list[str]:
    """Return the order in the payload: wide types first, so that every array is aligned."""
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
        dtype, count = shapes[name]
        end = position + count * _DTYPES[dtype].itemsize
        header[name] = {"data_offsets": [position, end], "dtype": dtype, "shape": [count]}
        position = end
    # Padding keeps the tensors aligned to 8 bytes.
    text = canonical_json(header).encode("ascii")
    return text + b" " * (-len(text) % 8)


def _storable(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
