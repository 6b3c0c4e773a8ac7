"""Check the messages of an Arrow file or stream before Arrow decodes them.

Every buffer of a compressed record batch states its full length, and Arrow allocates that much
without a limit. So the metadata of each message (``Message.fbs``) are read here, with a minimal
reader of flatbuffers, and a message whose buffers would expand too far is refused.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from typing import Any, BinaryIO

import pyarrow as pa

from rankine.core.errors import FileKindError, LimitError, SchemaError
from rankine.data.options import ReadOptions
from rankine.data.readers.parquet_guard import RATIO_FREE
from rankine.data.readers.values import wrap_arrow_errors
from rankine.data.sources import read_fully

#: Values of ``MessageHeader`` in ``Message.fbs``.
_DICTIONARY, _BATCH = 2, 3
#: Continuation marker and a length of 0: the end of a stream.
_END_MARK = b"\xff\xff\xff\xff\0\0\0\0"


class FlatTable:
    """A table of a flatbuffer, whose fields are found through its vtable.

    Parameters
    ----------
    data
        The whole buffer.
    position
        Where the table starts; there is the distance back to its vtable.
    """

    def __init__(self, data: bytes, position: int) -> None:
        if not 0 <= position <= len(data) - 4:
            raise ValueError("outside the message")
        self._data = data
        self._position = position
        self._vtable = position - struct.unpack_from("<i", data, position)[0]
        if self._vtable < 0:
            raise ValueError("outside the message")
        self._vtable_bytes = struct.unpack_from("<H", data, self._vtable)[0]

    @classmethod
    def root(cls, data: bytes) -> FlatTable:
        """Return the root table of a buffer."""
        return cls(data, struct.unpack_from("<I", data, 0)[0])

    def _find(self, field: int) -> int | None:
        """Return the position of a field, or None when it is absent."""
        slot = 4 + 2 * field
        if slot + 2 > self._vtable_bytes:
            return None
        offset = struct.unpack_from("<H", self._data, self._vtable + slot)[0]
        if not offset:
            return None
        return self._position + offset

    def number(self, field: int, code: str) -> int:
        """Return an integer field of a ``struct`` format code, 0 when it is absent."""
        position = self._find(field)
        if position is None:
            return 0
        return int(struct.unpack_from(f"<{code}", self._data, position)[0])

    def child(self, field: int) -> FlatTable | None:
        """Return a table field, or None when it is absent."""
        position = self._find(field)
        if position is None:
            return None
        return FlatTable(self._data, position + struct.unpack_from("<I", self._data, position)[0])

    def structs(self, field: int, codes: str) -> list[tuple[int, ...]]:
        """Return a vector of structs of a ``struct`` format, empty when it is absent."""
        position = self._find(field)
        if position is None:
            return []
        position += struct.unpack_from("<I", self._data, position)[0]
        count = struct.unpack_from("<I", self._data, position)[0]
        stop = position + 4 + count * struct.calcsize(f"<{codes}")
        if stop > len(self._data):
            raise ValueError("outside the message")
        return list(struct.iter_unpack(f"<{codes}", self._data[position + 4 : stop]))


class _CountingFile(io.RawIOBase):
    """A binary file that counts the bytes read from it and remembers the last eight."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self.last_bytes = b""
        self.count = 0

    def readable(self) -> bool:
        return True

    def read(self, count: int = -1) -> bytes:
        data = read_fully(self._raw, count)
        self.last_bytes = (self.last_bytes + data[-8:])[-8:]
        self.count += len(data)
        return data


class GuardedStream(io.RawIOBase):
    """The bytes of an Arrow stream; each message is checked before its bytes are returned.

    A stream without the end mark at its end is an error, because it was cut.

    Parameters
    ----------
    raw
        File at the start of the stream.
    """

    def __init__(self, raw: BinaryIO, options: ReadOptions) -> None:
        super().__init__()
        self._file = _CountingFile(raw)
        self._options = options
        self._pending = memoryview(b"")
        self._number = 0
        with wrap_arrow_errors("the Arrow stream"):
            self._messages = pa.ipc.MessageReader.open_stream(pa.PythonFile(self._file, "r"))

    @property
    def consumed(self) -> int:
        """Bytes read from the file so far."""
        return self._file.count

    def readable(self) -> bool:
        """Return True: the stream can be read, not written."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a part of the buffer; read the next message when the last one is used up."""
        if not len(self._pending) and not self._read_message():
            return 0
        view = memoryview(buffer).cast("B")
        count = min(len(view), len(self._pending))
        view[:count] = self._pending[:count]
        self._pending = self._pending[count:]
        return count

    def _read_message(self) -> bool:
        what = f"message {self._number}"
        with wrap_arrow_errors(what):
            try:
                message = self._messages.read_next_message()
            except StopIteration:
                self._check_end()
                return False
            body = message.body or pa.py_buffer(b"")
            check_message(
                message.metadata.to_pybytes(),
                body.size,
                lambda start, count: body.slice(start, count).to_pybytes(),
                self._options,
                what,
            )
            self._pending = memoryview(message.serialize()).cast("B")
        self._number += 1
        return True

    def _check_end(self) -> None:
        if self._file.last_bytes != _END_MARK:
            raise SchemaError(
                f"the data end after message {self._number} without an end mark: the file was cut",
                fix="Fetch or write the file again",
            )


def check_file(raw: pa.NativeFile, options: ReadOptions) -> None:
    """Check every message that the index of an IPC file names; only these are decoded."""
    size = raw.size()
    try:
        index_bytes = struct.unpack("<i", raw.read_at(4, size - 10))[0]
        if not 0 < index_bytes <= size - 18 or raw.read_at(6, size - 6) != b"ARROW1":
            raise ValueError("no index at its end")
        index = FlatTable.root(raw.read_at(index_bytes, size - 10 - index_bytes))
        blocks = index.structs(2, "qi4xq") + index.structs(3, "qi4xq")
    except (struct.error, IndexError, ValueError, OSError) as error:
        raise FileKindError(
            f"not a complete Arrow file: {error}", fix="Fetch or write it again"
        ) from error
    for number, (start, metadata_bytes, body_bytes) in enumerate(blocks):
        what = f"record batch {number} of the index"
        body_start = start + metadata_bytes
        if min(start, body_bytes) < 0 or metadata_bytes < 8 or body_start + body_bytes > size:
            raise _damaged(f"{what} is outside the file")
        prefix_bytes = 4
        if raw.read_at(4, start) == _END_MARK[:4]:  # absent before version 0.15 of the format
            prefix_bytes = 8

        def read_body(offset: int, count: int, body_start: int = body_start) -> bytes:
            return bytes(raw.read_at(count, body_start + offset))

        metadata = raw.read_at(metadata_bytes - prefix_bytes, start + prefix_bytes)
        check_message(metadata, body_bytes, read_body, options, what)


def check_message(
    metadata: bytes,
    body_bytes: int,
    read_body: Callable[[int, int], bytes],
    options: ReadOptions,
    what: str,
) -> None:
    """Refuse a message whose buffers would expand too far.

    ``read_body(offset, count)`` returns bytes of the message's body; ``what`` names the message.
    """
    try:
        expanded = _expanded_bytes(FlatTable.root(metadata), body_bytes, read_body)
    except (struct.error, IndexError, ValueError, OSError) as error:
        raise _damaged(f"{what} is damaged: {error}") from error
    limit = min(max(RATIO_FREE, options.max_ratio * body_bytes), options.memory_limit // 2)
    if expanded > limit:
        raise LimitError(
            f"{what} expands from {body_bytes} to {expanded} bytes",
            parameter="max_ratio",
            fix="If the file can be trusted, raise max_ratio or max_memory",
        )


def _damaged(reason: str) -> SchemaError:
    return SchemaError(reason, fix="Write the file again")


def _expanded_bytes(
    message: FlatTable, body_bytes: int, read_body: Callable[[int, int], bytes]
) -> int:
    """Return the sum of the lengths that the compressed buffers of a message state."""
    message_type = message.number(1, "B")
    batch = message.child(2)
    if batch is not None and message_type == _DICTIONARY:
        batch = batch.child(1)
    if message_type not in (_DICTIONARY, _BATCH) or batch is None or batch.child(3) is None:
        return 0  # a schema, or not compressed
    total = 0
    for start, length in batch.structs(2, "qq"):
        if length < 8:
            continue
        if start < 0 or start + 8 > body_bytes:
            raise ValueError("a buffer outside the body")
        stated = struct.unpack("<q", read_body(start, 8))[0]
        if stated < -1:
            raise ValueError("a negative length")
        # The format marks a buffer that compression would have made longer by a length of -1.
        if stated == -1:
            stated = length
        total += stated
    return total
