"""HTTP/1.1 requests from bytes, strictly.

Whatever two parsers could read in two ways is refused: bare LF or CR, folded header lines, spaces
around names, two lengths, a length beside a transfer coding, codings other than ``chunked``,
chunk extensions, trailers, a body where none belongs. What is accepted, every parser reads alike;
so nothing can be smuggled past a proxy in front.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rankine.serve.limits import Limits

__all__ = ["BadRequest", "Request", "RequestReader"]

_REQUEST_LINE = re.compile(rb"([A-Z]{1,16}) (/[!-\"$-~]*) HTTP/1\.([01])")
_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_BARE = re.compile(rb"(?<!\r)\n|\r(?=[^\n])|\x00")
_LENGTH = re.compile(rb"[0-9]{1,15}")
_CHUNK = re.compile(rb"[0-9A-Fa-f]{1,8}")
_BODILESS = (b"GET", b"HEAD")
_MAX_TARGET = 4096
_MAX_CHUNKS = 4096
_END = b"\r\n\r\n"


class BadRequest(Exception):  # noqa: N818 - named after the reply
    """A request that is answered with an error, after which the connection closes."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Request(NamedTuple):
    """One complete request."""

    method: bytes
    target: bytes
    minor: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    close: bool


class _Head(NamedTuple):
    method: bytes
    target: bytes
    minor: int
    headers: list[tuple[bytes, bytes]]
    length: int
    chunked: bool
    close: bool
    expects: bool


class RequestReader:
    """Takes bytes as they come, gives requests when they are complete."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.buffer = bytearray()
        self.head: _Head | None = None
        self.wants_continue = False
        self._scanned = 0
        self._chunks = bytearray()
        self._chunk_left = -1
        self._count = 0

    @property
    def held(self) -> int:
        """Bytes in memory."""
        return len(self.buffer) + len(self._chunks)

    def feed(self, data: bytes | memoryview) -> None:
        """Add bytes."""
        self.buffer += data

    def next(self) -> Request | None:
        """The next complete request, or None while bytes are missing; raises ``BadRequest``."""
        if self.head is None:
            self.head = self._read_head()
            if self.head is None:
                return None
            self.wants_continue = self.head.expects
        head = self.head
        body = self._read_chunks() if head.chunked else self._read_fixed(head.length)
        if body is None:
            return None
        self.head, self.wants_continue = None, False
        return Request(head.method, head.target, head.minor, head.headers, body, head.close)

    def _read_head(self) -> _Head | None:
        buffer, limits = self.buffer, self.limits
        end = buffer.find(_END, max(0, self._scanned - 3), limits.header_bytes + 4)
        if end < 0:
            if len(buffer) > limits.header_bytes:
                raise BadRequest(431, f"the header is larger than {limits.header_bytes} bytes")
            if _BARE.search(buffer, max(0, self._scanned - 1)):
                raise BadRequest(400, "lines of the header do not end in CR LF")
            self._scanned = len(buffer)
            return None
        text = bytes(buffer[:end])
        del buffer[: end + 4]
        self._scanned = 0
        return _parse_head(text, limits)

    def _read_fixed(self, length: int) -> bytes | None:
        if len(self.buffer) < length:
            return None
        body = bytes(self.buffer[:length])
        del self.buffer[:length]
        return body

    def _read_chunks(self) -> bytes | None:
        buffer, chunks = self.buffer, self._chunks
        while True:
            if self._chunk_left < 0:
                size = self._chunk_size()
                if size is None:
                    return None
                if len(chunks) + size > self.limits.body_bytes:
                    raise _too_large(self.limits)
                self._count += 1
                if self._count > _MAX_CHUNKS:
                    raise BadRequest(400, f"the body has more than {_MAX_CHUNKS} chunks")
                self._chunk_left = size
            wanted = self._chunk_left + 2
            if len(buffer) < wanted:
                return None
            if buffer[wanted - 2 : wanted] != b"\r\n":
                raise BadRequest(400, "a chunk does not end where its size says")
            chunks += buffer[: wanted - 2]
            last = self._chunk_left == 0
            del buffer[:wanted]
            self._chunk_left = -1
            if last:
                body = bytes(chunks)
                chunks.clear()
                self._count = 0
                return body

    def _chunk_size(self) -> int | None:
        end = self.buffer.find(b"\r\n", 0, 12)
        if end < 0:
            if len(self.buffer) > 10 or _BARE.search(self.buffer):
                raise BadRequest(400, "a chunk's size is not a plain hexadecimal number")
            return None
        line = bytes(self.buffer[:end])
        if not _CHUNK.fullmatch(line):
            raise BadRequest(400, "a chunk's size is not a plain hexadecimal number")
        del self.buffer[: end + 2]
        return int(line, 16)


def _parse_head(text: bytes, limits: Limits) -> _Head:
    first, *lines = text.split(b"\r\n")
    match = _REQUEST_LINE.fullmatch(first)
    if match is None:
        raise BadRequest(400, "the request line is not 'METHOD /path HTTP/1.1'")
    if len(match[2]) > _MAX_TARGET:
        raise BadRequest(414, f"the path is longer than {_MAX_TARGET} bytes")
    if len(lines) > limits.header_fields:
        raise BadRequest(431, f"the header has more than {limits.header_fields} fields")
    headers = []
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not _TOKEN.fullmatch(name) or _CONTROL.search(value):
            raise BadRequest(400, "a line of the header is not 'name: value'")
        headers.append((name.lower(), value.strip(b" \t")))
    return _frame(match[1], match[2], int(match[3]), headers, limits)


def _frame(
    method: bytes, target: bytes, minor: int, headers: list[tuple[bytes, bytes]], limits: Limits
) -> _Head:
    """Where the body ends and whether the connection goes on, from the header's fields."""
    once: dict[bytes, bytes] = {}
    close = minor == 0
    for name, value in headers:
        if name == b"connection":
            close |= b"close" in (token.strip().lower() for token in value.split(b","))
        elif name in _SINGLE:
            if name in once:
                raise BadRequest(400, f"the field {name.decode()} stands twice in the header")
            once[name] = value
    if minor == 1 and not once.get(b"host"):
        raise BadRequest(400, "the header has no Host")
    coding, length = once.get(b"transfer-encoding"), once.get(b"content-length")
    if coding is not None and (length is not None or minor == 0 or coding.lower() != b"chunked"):
        raise BadRequest(400, "Transfer-Encoding must be 'chunked', alone, in HTTP/1.1")
    if length is not None and not _LENGTH.fullmatch(length):
        raise BadRequest(400, "Content-Length is not a plain number")
    size = int(length or 0)
    if method in _BODILESS and (size or coding is not None):
        raise BadRequest(400, f"{method.decode()} takes no body")
    if size > limits.body_bytes:
        raise _too_large(limits)
    expect = once.get(b"expect")
    if expect is not None and (expect.lower() != b"100-continue" or minor == 0):
        raise BadRequest(417, "only 'Expect: 100-continue' is understood")
    expects = expect is not None and (size > 0 or coding is not None)
    return _Head(method, target, minor, headers, size, coding is not None, close, expects)


_SINGLE = frozenset(
    (
        b"host",
        b"content-length",
        b"transfer-encoding",
        b"content-type",
        b"content-encoding",
        b"authorization",
        b"expect",
    )
)


def _too_large(limits: Limits) -> BadRequest:
    return BadRequest(413, f"the body is larger than {limits.body_bytes} bytes")
