"""The application: its routes, its handlers, its beginning and its end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rankine.serve.errors import Refusal
from rankine.serve.guard import Guard
from rankine.serve.metrics import CONTENT_TYPE
from rankine.serve.openapi import openapi_document
from rankine.serve.page import page_response
from rankine.serve.scoring import Scoring
from rankine.serve.wire import ModelsReply
from rankine.serve.work import Answer, Worker, refusal_answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rankine.serve.pool import Pool
    from rankine.serve.registry import Registry
    from rankine.serve.reload import Reloader
    from rankine.serve.security import Access

__all__ = ["Service", "build_app"]


class Service:
    """The handlers and what they share."""

    def __init__(self, registry: Registry, reloader: Reloader, pool: Pool) -> None:
        self.registry = registry
        self.reloader = reloader
        self.pool = pool
        self.metrics = pool.metrics
        worker = Worker(registry, pool.limits)
        # One thread: it keeps large requests off the event loop.
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="rankine-large")
        self.rank = Scoring(worker.rank, self.thread, pool)
        self.score = Scoring(worker.score, self.thread, pool)
        self._openapi = openapi_document()

    async def models(self, _request: Request) -> Response:
        """GET /v1/models."""
        entries = self.registry.entries()
        return self._found(ModelsReply(entries, self.registry.current.default))

    async def model(self, request: Request) -> Response:
        """GET /v1/models/{name} and /v1/models/{name}/{topic}."""
        name, topic = request.path_params["name"], request.path_params.get("topic")
        now = self.registry.current
        try:
            if name not in now.models:
                raise Refusal(404, "no-model", "no model of this name is served", "See /v1/models")
            return self._found(now.models[name].entry(now.errors.get(name), topic))
        except Refusal as refusal:
            self.metrics.count("/v1/models", refusal.status)
            return _json(refusal_answer(refusal))

    def _found(self, reply: Any) -> Response:
        self.metrics.count("/v1/models", 200)
        return _json(Answer(200, msgspec.json.encode(reply)))

    async def healthz(self, _request: Request) -> Response:
        """GET /healthz: the process answers."""
        return Response(b"ok\n", media_type="text/plain")

    async def readyz(self, _request: Request) -> Response:
        """GET /readyz: models are loaded, kernels compiled, and no stop is under way."""
        if self.pool.stopping:
            return Response(b"stopping\n", 503, media_type="text/plain")
        if not self.registry.current.models:
            return Response(b"no model\n", 503, media_type="text/plain")
        return Response(b"ready\n", media_type="text/plain")

    async def metrics_page(self, _request: Request) -> Response:
        """GET /metrics."""
        text = self.metrics.text(self.registry, self.pool)
        return Response(text, headers={"content-type": CONTENT_TYPE})

    async def openapi(self, _request: Request) -> Response:
        """GET /openapi.json."""
        return _json(Answer(200, self._openapi))

    async def page(self, _request: Request) -> Response:
        """GET /."""
        return page_response()

    @contextlib.asynccontextmanager
    async def lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        """From the first connection to the last."""
        loop = asyncio.get_running_loop()
        hangup = getattr(signal, "SIGHUP", None)
        if hangup is not None:
            with contextlib.suppress(ValueError, RuntimeError):  # not in the main thread
                loop.add_signal_handler(hangup, self.reloader.wake)
        async with self.pool.sweeping():
            yield
        await loop.run_in_executor(None, self.reloader.stop)
        self.thread.shutdown()


def build_app(service: Service, access: Access) -> Starlette:
    """The ASGI application."""
    app = Starlette(
        routes=[
            Route("/v1/rank", service.rank, methods=["POST"]),  # an application of its own:
            Route("/v1/score", service.score, methods=["POST"]),  # Starlette only finds it
            Route("/v1/models", service.models),
            Route("/v1/models/{name}", service.model),
            Route("/v1/models/{name}/{topic:path}", service.model),
            Route("/healthz", service.healthz),
            Route("/readyz", service.readyz),
            Route("/metrics", service.metrics_page),
            Route("/openapi.json", service.openapi),
            Route("/", service.page),
        ],
        middleware=[Middleware(Guard, access=access)],
        exception_handlers={HTTPException: _http_error},
        lifespan=service.lifespan,
    )
    app.router.redirect_slashes = False
    return app


def _json(answer: Answer) -> Response:
    return Response(answer.body, answer.status, media_type="application/json")


async def _http_error(_request: Request, error: Exception) -> Response:
    """Starlette's own errors (404, 405) in our shape."""
    assert isinstance(error, HTTPException)  # noqa: S101 - what it is registered for
    refusal = Refusal(error.status_code, "http", error.detail, "See /openapi.json")
    response = _json(refusal_answer(refusal))
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response
