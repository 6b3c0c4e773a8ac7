"""HTTP connections: read requests, pass them to the service, write replies, enforce deadlines.

Requests are parsed by httptools (llhttp of Node.js). It refuses bare line feeds, folded lines, a
length together with a transfer coding and everything else that two parsers could understand
differently. This module adds limits of size, time and repeated fields. A request is passed to the
service only when it is complete: a slow client occupies a socket and a few bytes, but never a place
in the queue. A connection is closed when its deadline has passed.
"""

from __future__ import annotations

import asyncio
import enum
import http
import logging
import re
import socket
import struct
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import httptools

from rankine.serve.limits import Limits
from rankine.serve.schemas import encode_error

if TYPE_CHECKING:
    from rankine.serve.metrics import Metrics


_LOG = logging.getLogger("rankine.serve")
_NEVER = float("inf")
#: Interval of checking deadlines. One pass over all connections is cheaper than a timer for each.
SWEEP_SECONDS = 0.2
#: Seconds for a client to read why its request was refused.
_LINGER_SECONDS = 1.0
#: Seconds that idle connections stay open after the stop, for requests that are on their way.
_STOP_GRACE_SECONDS = 0.3
_INBOX_BYTES = 256 * 1024
#: Bytes that are parsed at a time outside bodies of known length.
_SLICE_BYTES = 1024
_SEND_BYTES = 256 * 1024
_MAX_TARGET = 4096
_MAX_CHUNKS = 4096
#: Option of a socket: close drops unsent bytes.
_NO_LINGER = struct.pack("ii", 1, 0)
_TARGET = re.compile(rb"/[!-\"$-~]*")
#: Header fields that are ambiguous if repeated.
_UNIQUE_FIELDS = frozenset(
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
_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode()
    for status in http.HTTPStatus
}


class BadRequest(Exception):  # noqa: N818 - named after the reply
    """A request whose reply is an error; the connection is closed after it."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Request(NamedTuple):
    """Complete request; names of fields are in lower case."""

    method: bytes
    target: bytes
    fields: dict[bytes, bytes]
    body: bytes
    close: bool


class Reply(NamedTuple):
    """Complete reply; ``fields`` are further header fields."""

    status: int
    body: bytes
    content_type: bytes = b"application/json"
    fields: tuple[tuple[bytes, bytes], ...] = ()


class Lane:
    """A thread that handles requests one after the other.

    Attributes
    ----------
    name
        Name of the limit in metrics.
    limit
        Number of requests that may wait or be handled; others get a reply of this ``status``.
    thread
        An executor of one thread.
    queued
        Number of requests that wait or are handled.
    """

    def __init__(self, name: str, limit: int, status: int, thread: Executor | None) -> None:
        self.name = name
        self.limit = limit
        self.status = status
        self.thread = thread
        self.queued = 0
        self._lock = threading.Lock()

    def enter(self) -> bool:
        """Count one more request, unless the lane is full; return whether there was room."""
        with self._lock:
            if self.queued >= self.limit:
                return False
            self.queued += 1
            return True

    def leave(self) -> None:
        """Count one request less."""
        with self._lock:
            self.queued -= 1


#: Function of a request and whether it runs on the event loop. There it returns a lane for a
#: request that would block the loop; None is the lane of large requests.
RequestHandler = Callable[[Request, bool], Reply | Lane | None]


class RequestReader:
    """Collects bytes and returns requests when they are complete.

    httptools calls the methods ``on_...``.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.ready: deque[Request] = deque()
        self.stage = "idle"
        self.wants_continue: bool
        self._parser: Any = httptools.HttpRequestParser(self)
        self._error: BadRequest | None = None
        self._unparsed = bytearray()
        self._bodies = self._unfinished = 0
        self._begin()

    def _begin(self) -> None:
        self._target = b""
        self._fields: dict[bytes, bytes] = {}
        self._count = self._header_bytes = self._chunks = self._body_bytes = self._length = 0
        self._body: list[bytes] = []

    @property
    def n_buffered(self) -> int:
        """Number of bytes in memory."""
        return self._bodies + len(self._unparsed)

    @property
    def backlog(self) -> bool:
        """Whether there are requests or bytes behind the current request."""
        return bool(self.ready or self._unparsed)

    @property
    def pending(self) -> bool:
        """Whether a request, an error or the rest of a request is left."""
        return self.backlog or self._error is not None or self.stage != "idle"

    def feed(self, data: bytes | memoryview) -> None:
        """Add bytes; they are dropped after an error."""
        if self._error is not None:
            return
        if self.backlog:
            self._unparsed += data
        else:
            self._unparsed += data[self._parse(data) :]

    def next(self) -> Request | None:
        """Return the next complete request, or None while bytes are missing.

        Raises
        ------
        BadRequest
            The bytes are no valid request, or exceed a limit.
        """
        if not self.ready:
            del self._unparsed[: self._parse(bytes(self._unparsed))]
        if self.ready:
            request = self.ready.popleft()
            self._bodies -= len(request.body)
            return request
        if self._error is not None:
            raise self._error
        return None

    def _parse(self, data: bytes | memoryview) -> int:
        """Parse until a request is ready; return the number of parsed bytes.

        The parser cannot be stopped within a slice. Small slices keep it from parsing many
        pipelined requests at once; the rest of a body with Content-Length is one slice.
        """
        n_parsed = 0
        while n_parsed < len(data) and not self.ready and self._error is None:
            slice_bytes = _SLICE_BYTES
            if self.stage == "body" and self._length > self._body_bytes:
                slice_bytes = self._length - self._body_bytes
            part = data[n_parsed : n_parsed + slice_bytes]
            self._parse_slice(part)
            n_parsed += len(part)
        if self._error is not None:
            return len(data)
        return n_parsed

    def _parse_slice(self, data: bytes | memoryview) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._error = BadRequest(400, "the connection cannot change its protocol")
        except httptools.HttpParserCallbackError as error:
            if not isinstance(error.__context__, BadRequest):
                raise
            self._error = error.__context__
        except httptools.HttpParserError as error:
            self._error = BadRequest(400, f"the request is not valid: {error}")
        if self.stage == "header" and not self.ready:
            self._unfinished += len(data)
            # The request line and the empty line do not count, as in a complete header.
            n_line_bytes = (
                len(self._parser.get_method()) + len(self._target) + len("  HTTP/1.1\r\n\r\n")
            )
            if self._unfinished > self.limits.header_bytes + n_line_bytes and self._error is None:
                self._error = self._header_too_large()

    def on_message_begin(self) -> None:
        """Start a request at its first byte."""
        self.stage = "header"
        self._begin()

    def on_url(self, part: bytes) -> None:
        """Append a part of the target."""
        self._target += part
        if len(self._target) > _MAX_TARGET:
            raise BadRequest(414, f"the path is longer than {_MAX_TARGET} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header field; refuse trailer fields."""
        if self.stage == "body":
            raise BadRequest(400, "fields after the body are not understood")
        limits = self.limits
        self._count += 1
        self._header_bytes += len(name) + len(value) + 4
        if self._header_bytes > limits.header_bytes:
            raise self._header_too_large()
        if self._count > limits.header_fields:
            raise BadRequest(431, f"the header has more than {limits.header_fields} fields")
        name = name.lower()
        if name in self._fields and name in _UNIQUE_FIELDS:
            raise BadRequest(400, f"the field {name.decode()} is repeated in the header")
        self._fields[name] = value.strip(b" \t")

    def on_headers_complete(self) -> None:
        """Check the complete header."""
        self.stage = "body"
        self._unfinished = 0
        fields = self._fields
        version = self._parser.get_http_version()
        method = self._parser.get_method()
        if version not in ("1.0", "1.1"):
            raise BadRequest(400, "the request line names no version that is understood")
        if not _TARGET.fullmatch(self._target):
            raise BadRequest(400, "the path does not start with '/', or holds other than ASCII")
        if version == "1.1" and not fields.get(b"host"):
            raise BadRequest(400, "the header has no Host")
        coding = fields.get(b"transfer-encoding")
        size = int(fields.get(b"content-length", b"0"))
        if coding is not None and (version == "1.0" or coding.lower() != b"chunked"):
            raise BadRequest(400, "Transfer-Encoding must be 'chunked', in HTTP/1.1")
        if method in (b"GET", b"HEAD") and (size or coding is not None):
            raise BadRequest(400, f"{method.decode()} takes no body")
        if size > self.limits.body_bytes:
            raise self._body_too_large()
        self._length = size
        expect = fields.get(b"expect")
        if expect is not None and (expect.lower() != b"100-continue" or version == "1.0"):
            raise BadRequest(417, "only 'Expect: 100-continue' is understood")
        self.wants_continue = expect is not None and (size > 0 or coding is not None)

    def on_chunk_header(self) -> None:
        """Count a chunk."""
        self._chunks += 1
        if self._chunks > _MAX_CHUNKS:
            raise BadRequest(400, f"the body has more than {_MAX_CHUNKS} chunks")

    def on_body(self, part: bytes) -> None:
        """Append a part of the body."""
        self._body_bytes += len(part)
        if self._body_bytes > self.limits.body_bytes:
            raise self._body_too_large()
        self._bodies += len(part)
        self._body.append(part)

    def on_message_complete(self) -> None:
        """Append the request to ``ready`` at its last byte."""
        self.stage = "idle"
        body = b"".join(self._body)
        parser = self._parser
        close = not parser.should_keep_alive() or parser.get_http_version() == "1.0"
        request = Request(parser.get_method(), self._target, self._fields, body, close)
        self.ready.append(request)
        self._begin()

    def _header_too_large(self) -> BadRequest:
        return BadRequest(431, f"the header is larger than {self.limits.header_bytes} bytes")

    def _body_too_large(self) -> BadRequest:
        return BadRequest(413, f"the body is larger than {self.limits.body_bytes} bytes")


class ConnectionPool:
    """What the connections of one server share: caps, bytes in memory, deadlines, the queue."""

    def __init__(
        self,
        limits: Limits,
        metrics: Metrics,
        large: Executor | None = None,
        events: Executor | None = None,
    ) -> None:
        self.limits = limits
        self.metrics = metrics
        self.large = Lane("queue", limits.queue, 503, large)
        self.events = Lane("event_queue", limits.event_queue, 429, events)
        self.connections: set[Connection] = set()
        self.per_address: Counter[str] = Counter()
        self.buffered = 0
        self.inbox = memoryview(bytearray(_INBOX_BYTES))
        self.stopping = False

    def admit(self, connection: Connection) -> bool:
        """Register a connection if it fits under the caps."""
        limits = self.limits
        if (
            len(self.connections) >= limits.connections
            or self.per_address[connection.address] >= limits.connections_per_address
        ):
            return False
        self.connections.add(connection)
        self.per_address[connection.address] += 1
        return True

    def remove(self, connection: Connection) -> None:
        """Remove a connection if it was admitted."""
        if connection not in self.connections:
            return
        self.connections.remove(connection)
        self.per_address -= Counter((connection.address,))  # keeps positive counts alone

    def sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close every connection whose deadline has passed, and schedule the next check."""
        now = loop.time()
        # A list, because closing a connection changes the set.
        for connection in [c for c in self.connections if now >= c.deadline]:
            connection.expire()
        loop.call_later(SWEEP_SECONDS, self.sweep, loop)


class State(enum.Enum):
    """States of a connection; the values describe what it waits for."""

    IDLE = "the first byte of a request"
    READING = "the rest of a request"
    WORKING = "the service"
    SENDING = "the client to read"
    CLOSING = "the last bytes to leave"
    LINGERING = "the client to close"


class Connection(asyncio.BufferedProtocol):
    """Protocol that uvicorn creates for every accepted socket."""

    def __init__(
        self,
        pool: ConnectionPool,
        handler: RequestHandler,
        config: Any,  # noqa: ARG002 - uvicorn's signature
        server_state: Any,
        app_state: dict[str, Any],  # noqa: ARG002
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.pool = pool
        self.limits = pool.limits
        self.handler = handler
        self.server_state = server_state
        self.loop = _loop or asyncio.get_event_loop()
        self.reader = RequestReader(pool.limits)
        self.state = State.IDLE
        self.deadline = _NEVER
        self.address: str
        self._request_deadline: float
        self._n_buffered = 0
        self._close_after = False
        self._eof = False
        self._write_paused = False
        self._read_paused = False
        self.transport: asyncio.Transport

    # -- callbacks of asyncio -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start a new connection, or refuse it if there are too many."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - narrows the type
        self.transport = transport
        transport.set_write_buffer_limits(high=0)
        channel = transport.get_extra_info("socket")
        if channel is not None:
            # A small buffer of the system: what a client does not read waits in this process, where
            # it has a deadline.
            channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if isinstance(peer, tuple) else ""
        self.server_state.connections.add(self)
        if not self.pool.admit(self):
            self.pool.metrics.refuse("connections")
            self._close_after = True
            self._reply_error(503, "too many connections", "overload")
            transport.close()
            return
        self.deadline = self.loop.time() + self.limits.idle_seconds

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Remove the connection; the reply of an unfinished request is dropped."""
        self.pool.remove(self)
        self.server_state.connections.discard(self)
        self.pool.buffered -= self._n_buffered
        self.state = State.CLOSING

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Return the buffer for the next bytes; all connections share it, as they copy at once."""
        return self.pool.inbox

    def buffer_updated(self, nbytes: int) -> None:
        """Process the received bytes."""
        if self.state in (State.LINGERING, State.CLOSING):
            return
        self.reader.feed(self.pool.inbox[:nbytes])
        if self.state is State.IDLE:
            self._begin_reading()
        if self.state is State.READING:
            self._advance()
        self._count_buffered()
        # Requests of a connection are handled one after the other.
        if self.reader.backlog and not self._read_paused:
            self._read_paused = True
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        """Record that the client sends no more; it may still wait for replies."""
        self._eof = True
        if self.state is State.READING:
            self._advance()
        return self.state in (State.READING, State.WORKING, State.SENDING)

    def pause_writing(self) -> None:
        """Record that the client reads more slowly than replies are written."""
        self._write_paused = True

    def resume_writing(self) -> None:
        """Resume when everything written has been sent."""
        self._write_paused = False
        if self.state is State.SENDING:
            self._after_reply()

    # -- called by the server -------------------------------------------------------------------

    def shutdown(self) -> None:
        """Close when the current request is finished."""
        self._close_after = True
        grace = self.limits.drain_seconds
        if self.state is State.IDLE:
            grace = _STOP_GRACE_SECONDS
        self.deadline = min(self.deadline, self.loop.time() + grace)

    def expire(self) -> None:
        """Close the connection, because its deadline has passed."""
        if self.state is State.READING:
            part = "body" if self.reader.stage == "body" else "header"
            self.pool.metrics.refuse(f"{part}_deadline")
            self._fail(408, f"the {part} of the request did not arrive in time")
        elif self.state is State.IDLE:
            self.pool.metrics.refuse("idle_deadline")
            self._close()
        elif self.state is not State.WORKING:
            if self.state is State.SENDING:
                self.pool.metrics.refuse("send_deadline")
            self._reset()

    # -- a request ------------------------------------------------------------------------------

    def _begin_reading(self) -> None:
        started = self.loop.time()
        self.state = State.READING
        self.deadline = started + self.limits.header_seconds
        self._request_deadline = started + self.limits.request_seconds

    def _advance(self) -> None:
        """Read on, and start the request when its last byte has arrived."""
        if self.state is not State.READING:
            return
        try:
            request = self.reader.next()
        except BadRequest as error:
            self.pool.metrics.refuse("protocol")
            self._fail(error.status, error.reason)
            return
        self._count_buffered()
        if request is not None:
            self._start(request)
            return
        if self._eof:
            self._close()
            return
        self._resume_reading()
        if self.reader.stage == "body":
            self.deadline = self._request_deadline
            if self.reader.wants_continue:
                self.reader.wants_continue = False
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            if self.pool.buffered > self.limits.buffered_bytes:
                self.pool.metrics.refuse("memory")
                self._fail(503, "the server holds too many unfinished requests")

    def _count_buffered(self) -> None:
        """Update the number of buffered bytes of all connections."""
        self.pool.buffered += self.reader.n_buffered - self._n_buffered
        self._n_buffered = self.reader.n_buffered

    def _start(self, request: Request) -> None:
        """Handle a request: small ones at once, others in the thread."""
        self.state = State.WORKING
        self.deadline = _NEVER
        self._close_after |= request.close
        reply = self._guarded(partial(self.handler, request, True))
        if isinstance(reply, Reply):
            self._finish(request, reply)
            return
        lane = reply or self.pool.large
        if not lane.enter():
            self.pool.metrics.refuse(lane.name)
            self._reply_error(lane.status, "the queue is full", "overload")
            self._after_reply()
        else:
            work = partial(self._guarded, partial(self.handler, request, False))
            future = self.loop.run_in_executor(lane.thread, work)
            future.add_done_callback(partial(self._on_handled, request, lane))

    @staticmethod
    def _guarded(work: Callable[[], Reply | Lane | None]) -> Reply | Lane | None:
        """Call a handler; any exception becomes a reply 500."""
        try:
            return work()
        except Exception:  # noqa: BLE001 - an error of one request must not stop the server
            _LOG.exception("a request failed")
            return Reply(500, encode_error("internal", "the server failed on this request"))

    def _on_handled(
        self, request: Request, lane: Lane, future: asyncio.Future[Reply | Lane | None]
    ) -> None:
        lane.leave()
        reply = None if future.cancelled() else future.result()
        if not isinstance(reply, Reply):
            self.transport.abort()
        elif self.state is State.WORKING:
            self._finish(request, reply)

    # -- a reply --------------------------------------------------------------------------------

    def _finish(self, request: Request, reply: Reply) -> None:
        self.server_state.total_requests += 1
        self._write(reply, head_only=request.method == b"HEAD")
        self._after_reply()

    def _write(self, reply: Reply, *, head_only: bool = False) -> None:
        if self.transport.is_closing():
            return
        parts = [_STATUS_LINES[reply.status]]
        fields: Iterable[tuple[bytes, bytes]] = (
            *self.server_state.default_headers,
            (b"content-type", reply.content_type),
            (b"content-length", b"%d" % len(reply.body)),
            (b"x-content-type-options", b"nosniff"),
            (b"cache-control", b"no-store"),
            *reply.fields,
        )
        for name, value in fields:
            parts += (name, b": ", value, b"\r\n")
        if self._close_after:
            parts.append(b"connection: close\r\n")
        parts += (b"\r\n", b"" if head_only else reply.body)
        self.transport.write(b"".join(parts))

    def _reply_error(self, status: int, reason: str, code: str = "request") -> None:
        self.pool.metrics.count("other", status)
        reply = Reply(status, encode_error(code, reason))
        if status in (http.HTTPStatus.SERVICE_UNAVAILABLE, http.HTTPStatus.TOO_MANY_REQUESTS):
            reply = reply._replace(fields=((b"retry-after", b"1"),))
        self._write(reply)

    def _after_reply(self) -> None:
        """Close, wait for a slow reader, or continue with the next request."""
        if self.transport.is_closing():
            return
        if self._write_paused:
            self.state = State.SENDING
            self.deadline = self.loop.time() + self.limits.send_seconds
            return
        if self._close_after or (self._eof and not self.reader.pending):
            self._close()
            return
        if self.reader.pending:
            self._begin_reading()
            # Not at once: many pipelined requests would delay those of other connections.
            self.loop.call_soon(self._advance)
        else:
            self._resume_reading()
            self.state = State.IDLE
            self.deadline = self.loop.time() + self.limits.idle_seconds

    def _resume_reading(self) -> None:
        if self._read_paused:
            self._read_paused = False
            self.transport.resume_reading()

    def _fail(self, status: int, reason: str) -> None:
        """Send an error, and close so that the client can still read it."""
        self._close_after = True
        self._reply_error(status, reason)
        self.state = State.LINGERING
        self.deadline = self.loop.time() + _LINGER_SECONDS
        self.reader = RequestReader(self.limits)
        self._count_buffered()
        self._resume_reading()
        if self.transport.can_write_eof() and not self.transport.is_closing():
            self.transport.write_eof()

    def _reset(self) -> None:
        """Close at once; bytes that the client has not read are dropped, by the system too."""
        channel = self.transport.get_extra_info("socket")
        if channel is not None:
            channel.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.transport.abort()

    def _close(self) -> None:
        self.state = State.CLOSING
        self.deadline = self.loop.time() + self.limits.send_seconds
        self.transport.close()
