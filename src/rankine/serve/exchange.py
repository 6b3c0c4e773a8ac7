"""One request and its reply, between the protocol and the application."""

from __future__ import annotations

import http
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rankine.serve.http1 import Request

__all__ = ["Exchange", "encode_reply"]

_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode()
    for status in http.HTTPStatus
}


def encode_reply(
    status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes, close: bool
) -> bytes:
    """A whole reply."""
    parts = [_STATUS_LINES[status]]
    for name, value in headers:
        parts += (name, b": ", value, b"\r\n")
    if close:
        parts.append(b"connection: close\r\n")
    parts += (b"\r\n", body)
    return b"".join(parts)


class Exchange:
    """The application's side of one request."""

    __slots__ = ("_given", "body", "complete", "head_only", "headers", "request", "status")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.status = 0
        self.headers: Iterable[tuple[bytes, bytes]] = ()
        self.body = b""
        self.complete = False
        self.head_only = request.method == b"HEAD"
        self._given = False

    async def receive(self) -> dict[str, Any]:
        """The whole body at once; then nothing more."""
        if self._given:
            return {"type": "http.disconnect"}
        self._given = True
        return {"type": "http.request", "body": self.request.body, "more_body": False}

    async def send(self, message: dict[str, Any]) -> None:
        """Collect the reply; it is written in one piece."""
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], message["headers"]
        else:
            self.body += message.get("body", b"")
            self.complete = not message.get("more_body", False)
