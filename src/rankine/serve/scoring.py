"""The two endpoints that must be fast, as ASGI applications of their own."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from rankine.serve.errors import Refusal
from rankine.serve.work import Answer, refusal_answer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping
    from concurrent.futures import ThreadPoolExecutor

    from rankine.serve.pool import Pool

__all__ = ["Scoring"]

_CHARSETS = (b"", b"charset=utf-8", b'charset="utf-8"')


class Scoring:
    """POST /v1/rank or /v1/score.

    Parameters
    ----------
    work
        Makes the answer of a body; returns None on the event loop for what belongs in the thread.
    thread
        Where large and slow requests go.
    pool
        Limits and metrics.
    """

    def __init__(
        self,
        work: Callable[[bytes, bool], Answer | None],
        thread: ThreadPoolExecutor,
        pool: Pool,
    ) -> None:
        self.work = work
        self.thread = thread
        self.metrics = pool.metrics
        self.inline_bytes = pool.limits.inline_bytes

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        """Answer one request."""
        begin = time.perf_counter()
        try:
            check_json(scope["headers"])
            body = (await receive())["body"]  # the protocol gives it whole
            answer = self.work(body, True) if len(body) <= self.inline_bytes else None
            if answer is None:
                loop = asyncio.get_running_loop()
                answer = await loop.run_in_executor(self.thread, self.work, body, False)
                assert answer is not None  # noqa: S101 - in the thread nothing is put off
        except Refusal as refusal:
            answer = refusal_answer(refusal)
        self.metrics.unknown_features += answer.unknown_features
        self.metrics.observe(time.perf_counter() - begin, answer.items)
        self.metrics.count(scope["path"], answer.status)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(answer.body)),
        ]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})


def check_json(headers: list[tuple[bytes, bytes]]) -> None:
    """Only JSON as it is: a form or plain text could come from any page without a preflight."""
    kind = b""
    for name, value in headers:
        if name == b"content-type":
            kind = value
        elif name == b"content-encoding" and value.lower() != b"identity":
            raise Refusal(415, "content-encoding", "compressed bodies are not accepted")
    kind, _, parameters = kind.lower().partition(b";")
    if kind.strip() != b"application/json" or parameters.strip() not in _CHARSETS:
        raise Refusal(415, "content-type", "the body must be application/json in UTF-8")
