"""An Arrow stream whose messages are checked before Arrow decodes them.

Every buffer of a compressed batch states its full length, and Arrow allocates that much. The
messages (``Message.fbs``) are read here one by one, with just enough of flatbuffers, and handed on
only when what they ask for stays in proportion to what they hold.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from functools import partial
from typing import Any, BinaryIO

import pyarrow as pa

from rankine.core.errors import FileKindError, LimitError, SchemaError
from rankine.data.options import ReadOptions
from rankine.data.readers.values import arrow_errors
from rankine.data.sources import read_fully


class FlatTable:
    """A table of a flatbuffer: fields are found through its vtable."""

    def __init__(self, data: bytes, place: int) -> None:
        if not 0 <= place <= len(data) - 4:
            raise ValueError("outside the message")
        self._data = data
        self._place = place
        self._fields = place - struct.unpack_from("<i", data, place)[0]
        if self._fields < 0:
            raise ValueError("outside the message")
        self._size = struct.unpack_from("<H", data, self._fields)[0]

    @classmethod
    def root(cls, data: bytes) -> FlatTable:
        """The table that a whole buffer holds."""
        return cls(data, struct.unpack_from("<I", data, 0)[0])

    def _find(self, field: int) -> int | None:
        """Place of a field, or None when it is absent."""
        slot = 4 + 2 * field
        if slot + 2 > self._size:
            return None
        offset = struct.unpack_from("<H", self._data, self._fields + slot)[0]
        return self._place + offset if offset else None

    def number(self, field: int, kind: str) -> int:
        """An integer field; 0 when it is absent."""
        place = self._find(field)
        return 0 if place is None else int(struct.unpack_from(f"<{kind}", self._data, place)[0])

    def child(self, field: int) -> FlatTable | None:
        """A table field, or None when it is absent."""
        place = self._find(field)
        if place is None:
            return None
        return FlatTable(self._data, place + struct.unpack_from("<I", self._data, place)[0])

    def structs(self, field: int, kind: str) -> list[tuple[int, ...]]:
        """A vector of structs of the given format; empty when it is absent."""
        place = self._find(field)
        if place is None:
            return []
        place += struct.unpack_from("<I", self._data, place)[0]
        count = struct.unpack_from("<I", self._data, place)[0]
        size = struct.calcsize(f"<{kind}")
        end = place + 4 + count * size
        if end > len(self._data):
            raise ValueError("outside the message")
        return list(struct.iter_unpack(f"<{kind}", self._data[place + 4 : end]))


#: Expansion is not judged below this size: small data may be very repetitive.
RATIO_FREE = 64 * 2**20
_DICTIONARY, _BATCH = 2, 3
_END_MARK = b"\xff\xff\xff\xff\0\0\0\0"


class _Watched(io.RawIOBase):
    """A binary file that remembers the last bytes taken from it."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self.last = b""
        self.count = 0

    def readable(self) -> bool:
        """Reading is all it does."""
        return True

    def read(self, count: int = -1) -> bytes:
        piece = read_fully(self._raw, count)
        self.last = (self.last + piece[-8:])[-8:]
        self.count += len(piece)
        return piece


class GuardedStream(io.RawIOBase):
    """The bytes of an Arrow stream, message by message, each checked; its end mark is required.

    Parameters
    ----------
    raw
        File at the start of the stream.
    """

    def __init__(self, raw: BinaryIO, options: ReadOptions) -> None:
        super().__init__()
        self._source = _Watched(raw)
        self._options = options
        self._pending = memoryview(b"")
        self._number = 0
        self._nodes = 0
        with arrow_errors("the Arrow stream"):
            self._messages = pa.ipc.MessageReader.open_stream(pa.PythonFile(self._source, "r"))

    @property
    def consumed(self) -> int:
        """Bytes taken from the file so far."""
        return self._source.count

    def readable(self) -> bool:
        """Reading is all it does."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill from the current message; the next one is fetched when it is used up."""
        if not len(self._pending) and not self._next():
            return 0
        view = memoryview(buffer).cast("B")
        count = min(len(view), len(self._pending))
        view[:count] = self._pending[:count]
        self._pending = self._pending[count:]
        return count

    def _next(self) -> bool:
        what = f"message {self._number}"
        with arrow_errors(what):
            try:
                message = self._messages.read_next_message()
            except StopIteration:
                self._check_end()
                return False
            body = message.body
            held = body.size if body is not None else 0
            check_message(
                message.metadata.to_pybytes(),
                held,
                lambda place, count: body.slice(place, count).to_pybytes(),
                self._options,
                what,
                self._nodes,
            )
            if message.type == "schema":
                self._nodes = _nodes(pa.ipc.read_schema(message))
            self._pending = memoryview(message.serialize()).cast("B")
        self._number += 1
        return True

    def _check_end(self) -> None:
        if self._source.last != _END_MARK:
            raise SchemaError(
                f"the data end after message {self._number} without an end mark: the file was cut",
                fix="Fetch or write the file again",
            )


def check_file(raw: pa.NativeFile, options: ReadOptions) -> pa.Schema:
    """Check every message that the index of an IPC file names; this is what Arrow will decode.

    Returns the schema at the start of the file; the index has another copy, which must be equal.
    """
    size = raw.size()
    try:
        length = struct.unpack("<i", raw.read_at(4, size - 10))[0]
        if not 0 < length <= size - 18 or raw.read_at(6, size - 6) != b"ARROW1":
            raise ValueError("no index at its end")
        footer = FlatTable.root(raw.read_at(length, size - 10 - length))
        blocks = footer.structs(2, "qi4xq") + footer.structs(3, "qi4xq")
    except (struct.error, IndexError, ValueError, OSError) as error:
        raise FileKindError(
            f"not a complete Arrow file: {error}", fix="Fetch or write it again"
        ) from error
    with arrow_errors("the Arrow schema", FileKindError):
        schema = pa.ipc.read_schema(pa.py_buffer(_first_message(raw)))
    for number, (place, head, body) in enumerate(blocks):
        what = f"record batch {number} of the index"
        if min(place, body) < 0 or head < 8 or place + head + body > size:
            raise _damaged(f"{what} lies outside the file")
        prefix = 8 if raw.read_at(4, place) == _END_MARK[:4] else 4
        check_message(
            raw.read_at(head - prefix, place + prefix),
            body,
            partial(_read_body, raw, place + head),
            options,
            what,
            _nodes(schema),
        )
    return schema


def _nodes(fields: pa.Schema | pa.DataType) -> int:
    """Columns of a record batch, those inside lists and structs included."""
    if isinstance(fields, pa.BaseExtensionType):
        return _nodes(fields.storage_type)
    if isinstance(fields, pa.Schema):
        return sum(1 + _nodes(field.type) for field in fields)
    return sum(1 + _nodes(fields.field(k).type) for k in range(fields.num_fields))


def _first_message(raw: pa.NativeFile) -> bytes:
    """The message after the magic bytes of an IPC file, which holds its schema."""
    start = 8
    prefix = 8 if raw.read_at(4, start) == _END_MARK[:4] else 4
    length = int.from_bytes(raw.read_at(4, start + prefix - 4), "little", signed=True)
    if not 0 < length <= raw.size() - start - prefix:
        raise ValueError(f"a first message of {length} bytes")
    return bytes(raw.read_at(prefix + length, start))


def _read_body(raw: pa.NativeFile, start: int, place: int, count: int) -> bytes:
    return bytes(raw.read_at(count, start + place))


def check_message(
    metadata: bytes,
    held: int,
    read: Callable[[int, int], bytes],
    options: ReadOptions,
    what: str,
    nodes: int,
) -> None:
    """Refuse a batch of other columns than the schema's, or that would expand too far."""
    try:
        message = FlatTable.root(metadata)
        _check_columns(message, nodes)
        expanded = _expanded_bytes(message, held, read)
    except (struct.error, IndexError, ValueError, OSError) as error:
        raise _damaged(f"{what} is damaged: {error}") from error
    limit = min(max(RATIO_FREE, options.max_ratio * held), options.memory_limit // 2)
    if expanded > limit:
        raise LimitError(
            f"{what} expands from {held} to {expanded} bytes",
            fix="If the file can be trusted, pass a larger max_ratio or max_memory",
        )


def _damaged(reason: str) -> SchemaError:
    return SchemaError(reason, fix="Write the file again")


def _check_columns(message: FlatTable, nodes: int) -> None:
    """Arrow would pass over the columns that a schema has lost."""
    batch = message.child(2)
    if message.number(1, "B") == _BATCH and batch is not None:
        held = len(batch.structs(1, "qq"))
        if held != nodes:
            raise ValueError(f"{held} columns where the schema has {nodes}")


def _expanded_bytes(message: FlatTable, held: int, read: Callable[[int, int], bytes]) -> int:
    """Sum of the lengths that the compressed buffers of a batch state."""
    kind = message.number(1, "B")
    batch = message.child(2)
    if batch is not None and kind == _DICTIONARY:
        batch = batch.child(1)
    if kind not in (_DICTIONARY, _BATCH) or batch is None or batch.child(3) is None:
        return 0  # a schema, or not compressed
    total = 0
    for place, length in batch.structs(2, "qq"):
        if length < 8:
            continue
        if place < 0 or place + 8 > held:
            raise ValueError("a buffer outside the body")
        stated = struct.unpack("<q", read(place, 8))[0]
        if stated < -1:
            raise ValueError("a negative length")
        total += length if stated == -1 else stated
    return total
