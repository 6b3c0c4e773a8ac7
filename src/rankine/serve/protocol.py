"""One connection: bytes in, complete requests to the application, replies out, deadlines kept.

uvicorn's own protocols wait for ever for the rest of a header or body. This one hands a request to
the application only when it is complete, so that a slow client holds a socket and a few bytes but
never a place in the queue; and it closes whatever passes its deadline.
"""

from __future__ import annotations

import asyncio
import enum
import http
import logging
import socket
import struct
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from rankine.serve.errors import encode_error
from rankine.serve.exchange import Exchange, encode_reply
from rankine.serve.http1 import BadRequest, Request, RequestReader
from rankine.serve.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Connection"]

_LOG = logging.getLogger("rankine.serve")
_NEVER = float("inf")
_LINGER_SECONDS = 1.0
#: Idle connections are kept this long after the stop: a request already under way is answered.
_STOP_GRACE_SECONDS = 0.3
_PIPELINE_BYTES = 64 * 1024
_SEND_BYTES = 256 * 1024
_NO_LINGER = struct.pack("ii", 1, 0)
_JSON = [(b"content-type", b"application/json")]


class State(enum.Enum):
    """What a connection is waiting for."""

    IDLE = "the first byte of a request"
    READING = "the rest of a request"
    WORKING = "the application"
    SENDING = "the client to read"
    CLOSING = "the last bytes to leave"
    LINGERING = "the client to close"


class Connection(asyncio.BufferedProtocol):
    """The protocol that uvicorn creates for every accepted socket."""

    def __init__(
        self,
        pool: Pool,
        config: Any,
        server_state: Any,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.pool = pool
        self.limits = pool.limits
        self.app = config.loaded_app
        self.server_state = server_state
        self.app_state = app_state
        self.loop = _loop or asyncio.get_event_loop()
        self.reader = RequestReader(pool.limits)
        self.state = State.IDLE
        self.deadline = _NEVER
        self.address = ""
        self._request_deadline = _NEVER
        self._held = 0
        self._close_after = False
        self._eof = False
        self._write_paused = False
        self._read_paused = False
        self.transport: asyncio.Transport

    # -- what asyncio tells us ------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit or refuse a new connection."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - narrows the type
        self.transport = transport
        transport.set_write_buffer_limits(high=0)
        channel = transport.get_extra_info("socket")
        if channel is not None:  # what a client does not read shall wait here, under a deadline
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
        """Forget the connection; an unfinished application run has nowhere to send to."""
        self.pool.remove(self)
        self.server_state.connections.discard(self)
        self.pool.buffered -= self._held
        self._held = 0
        self.state = State.CLOSING

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Where to put the next bytes: one place for all, since they are taken at once."""
        return self.pool.inbox

    def buffer_updated(self, nbytes: int) -> None:
        """Take bytes."""
        if self.state in (State.LINGERING, State.CLOSING):
            return
        self.reader.feed(self.pool.inbox[:nbytes])
        if self.state is State.IDLE:
            self._begin_reading()
        if self.state is State.READING:
            self._advance()
        self._account()
        busy = self.state in (State.WORKING, State.SENDING)
        if busy and self._held > _PIPELINE_BYTES and not self._read_paused:
            self._read_paused = True
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        """The client sends no more; it may still wait for replies."""
        self._eof = True
        if self.state is State.READING:
            self._advance()
        return self.state in (State.WORKING, State.SENDING)

    def pause_writing(self) -> None:
        """The client reads more slowly than we write."""
        self._write_paused = True

    def resume_writing(self) -> None:
        """Everything written has left."""
        self._write_paused = False
        if self.state is State.SENDING:
            self._after_reply()

    # -- what the server tells us ---------------------------------------------------------------

    def shutdown(self) -> None:
        """Finish what has begun, then close."""
        self._close_after = True
        now = self.loop.time()
        grace = _STOP_GRACE_SECONDS if self.state is State.IDLE else self.limits.drain_seconds
        self.deadline = min(self.deadline, now + grace)

    def expire(self) -> None:
        """The deadline has passed."""
        if self.state is State.READING:
            kind = "header" if self.reader.head is None else "body"
            self.pool.metrics.refuse(f"{kind}_deadline")
            self._fail(408, f"the {kind} of the request did not arrive in time")
        elif self.state is State.IDLE:
            self.pool.metrics.refuse("idle_deadline")
            self._close()
        elif self.state is not State.WORKING:
            if self.state is State.SENDING:
                self.pool.metrics.refuse("send_deadline")
            self._reset()

    # -- a request ------------------------------------------------------------------------------

    def _begin_reading(self) -> None:
        now = self.loop.time()
        self.state = State.READING
        self.deadline = now + self.limits.header_seconds
        self._request_deadline = now + self.limits.request_seconds

    def _advance(self) -> None:
        """Go on with reading a request, as far as the bytes allow."""
        if self.state is not State.READING:
            return
        try:
            request = self.reader.next()
        except BadRequest as error:
            self.pool.metrics.refuse("protocol")
            self._fail(error.status, error.reason)
            return
        self._account()
        if request is not None:
            self._start(request)
            return
        if self._eof:
            self._close()
            return
        self._resume_reading()
        if self.reader.head is not None:
            self.deadline = self._request_deadline
            if self.reader.wants_continue:
                self.reader.wants_continue = False
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self.pool.buffered > self.limits.buffered_bytes and self.reader.head is not None:
            self.pool.metrics.refuse("memory")
            self._fail(503, "the server holds too many unfinished requests")

    def _account(self) -> None:
        held = self.reader.held
        self.pool.buffered += held - self._held
        self._held = held

    def _start(self, request: Request) -> None:
        self.state = State.WORKING
        self.deadline = _NEVER
        self._close_after |= request.close
        gated = request.target.startswith(b"/v1/")
        if gated and not self.pool.gate.enter():
            self.pool.metrics.refuse("queue")
            self._reply_error(503, "the queue is full", "overload")
            self._after_reply()
            return
        task = self.loop.create_task(self._run(request, gated))
        self.server_state.tasks.add(task)
        task.add_done_callback(self.server_state.tasks.discard)

    async def _run(self, request: Request, gated: bool) -> None:
        exchange = Exchange(request)
        try:
            await self.app(self._scope(request), exchange.receive, exchange.send)
        except asyncio.CancelledError:
            self.transport.abort()
            raise
        except Exception:  # noqa: BLE001 - a fault of ours is one reply 500, not the server's end
            _LOG.exception("a request failed")
            exchange.complete = False
        finally:
            if gated:
                self.pool.gate.leave()
        self.server_state.total_requests += 1
        if exchange.complete:
            self._write(exchange.status, exchange.headers, exchange.body, exchange.head_only)
        else:
            self._reply_error(500, "the server failed on this request", "internal")
        self._after_reply()

    def _scope(self, request: Request) -> dict[str, Any]:
        raw_path, _, query = request.target.partition(b"?")
        path = raw_path.decode("ascii")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": f"1.{request.minor}",
            "method": request.method.decode("ascii"),
            "scheme": "http",
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": query,
            "root_path": "",
            "headers": request.headers,
            "client": None,
            "server": None,
            "state": self.app_state,
        }

    # -- a reply --------------------------------------------------------------------------------

    def _write(
        self,
        status: int,
        headers: Iterable[tuple[bytes, bytes]],
        body: bytes,
        head_only: bool = False,
    ) -> None:
        if self.transport.is_closing():
            return
        fields = (*self.server_state.default_headers, *headers)
        content = b"" if head_only else body
        self.transport.write(encode_reply(status, fields, content, self._close_after))

    def _reply_error(self, status: int, reason: str, code: str = "request") -> None:
        body = encode_error(code, reason)
        headers = [*_JSON, (b"content-length", str(len(body)).encode())]
        if status == http.HTTPStatus.SERVICE_UNAVAILABLE:
            headers.append((b"retry-after", b"1"))
        self.pool.metrics.count("other", status)
        self._write(status, headers, body)

    def _after_reply(self) -> None:
        """Close, wait for a slow reader, or go on with the next request."""
        if self.transport.is_closing():
            return
        now = self.loop.time()
        if self._write_paused:
            if self.state is not State.SENDING:
                self.state = State.SENDING
                self.deadline = now + self.limits.send_seconds
            return
        if self._close_after or (self._eof and not self.reader.buffer):
            self._close()
            return
        if self.reader.buffer:
            self._begin_reading()
            # Not at once: a flood of pipelined requests would become a recursion.
            self.loop.call_soon(self._advance)
        else:
            self._resume_reading()
            self.state = State.IDLE
            self.deadline = now + self.limits.idle_seconds

    def _resume_reading(self) -> None:
        if self._read_paused:
            self._read_paused = False
            self.transport.resume_reading()

    def _fail(self, status: int, reason: str) -> None:
        """Answer with an error and close so that the client can still read the answer."""
        if self.state is State.IDLE:
            self._close()
            return
        self._close_after = True
        self._reply_error(status, reason)
        self.state = State.LINGERING
        self.deadline = self.loop.time() + _LINGER_SECONDS
        self.reader = RequestReader(self.limits)
        self._account()
        if self.transport.can_write_eof() and not self.transport.is_closing():
            self.transport.write_eof()

    def _reset(self) -> None:
        """Close at once; what the client has not read is dropped, by the kernel too."""
        channel = self.transport.get_extra_info("socket")
        if channel is not None:
            channel.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.transport.abort()

    def _close(self) -> None:
        self.state = State.CLOSING
        self.deadline = self.loop.time() + self.limits.send_seconds
        self.transport.close()
