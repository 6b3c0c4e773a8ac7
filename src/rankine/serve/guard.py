"""What every request passes first: its Host, its token; and what every reply carries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rankine.serve.errors import Refusal
from rankine.serve.work import refusal_answer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from rankine.serve.security import Access

    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
    App = Callable[[Scope, Receive, Send], Awaitable[None]]

__all__ = ["Guard"]

_ALWAYS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
]


class Guard:
    """ASGI middleware; sends no CORS headers, so that no other page's script reads a reply."""

    def __init__(self, app: App, access: Access) -> None:
        self.app = app
        self.access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def reply(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_ALWAYS]
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None:
            await self.app(scope, receive, reply)
            return
        status, body, *_ = refusal_answer(refusal)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ]
        if status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        await reply({"type": "http.response.start", "status": status, "headers": headers})
        await reply({"type": "http.response.body", "body": body})

    def _refusal(self, scope: Scope) -> Refusal | None:
        host = authorization = None
        for name, value in scope["headers"]:
            if name == b"host":
                host = value
            elif name == b"authorization":
                authorization = value
        if not self.access.host_allowed((host or b"").decode("latin-1")):
            return Refusal(
                421,
                "host",
                "the Host header does not name this server",
                "Start it with --allow-host",
            )
        if not self.access.authorised(scope["path"], authorization):
            return Refusal(401, "token", "a bearer token is needed")
        return None
