"""Start the server, serve until a signal arrives, and stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import math
import os
import signal
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
import uvicorn

from rankine.reranking.rules import compile_kernels
from rankine.serve.app import Service
from rankine.serve.connection import Connection, ConnectionPool
from rankine.serve.history import HistoryService, StateSettings
from rankine.serve.limits import Limits
from rankine.serve.metrics import Metrics
from rankine.serve.registry import Registry
from rankine.serve.reload import Reloader
from rankine.serve.security import AccessPolicy, check_bind

_LOG = logging.getLogger("rankine.serve")
_SPARE_DESCRIPTORS = 64
_BACKLOG = 1024
#: Interval of flushing the log of events.
_TICK_SECONDS = 1.0


@dataclass(frozen=True)
class Settings:
    """Settings of a server."""

    path: str | os.PathLike[str]
    host: str = "127.0.0.1"
    port: int = 8080
    token: bytes | None = None
    allow_unauthenticated: bool = False
    allowed_hosts: tuple[str, ...] = ()
    reload_seconds: float = 1.0
    limits: Limits = field(default_factory=Limits)
    strict: bool = False
    state: StateSettings | None = None
    events_token: bytes | None = None


class Server(uvicorn.Server):
    """Server of uvicorn that exits with code 0 after a signal, when all requests are finished."""

    def __init__(
        self,
        config: uvicorn.Config,
        pool: ConnectionPool,
        reloader: Reloader,
        on_started: Callable[[], Any],
    ) -> None:
        super().__init__(config)
        self.pool = pool
        self.reloader = reloader
        self.on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then call ``on_started``."""
        loop = asyncio.get_running_loop()
        hangup = getattr(signal, "SIGHUP", None)
        if hangup is not None:
            with contextlib.suppress(ValueError, RuntimeError):  # outside the main thread
                loop.add_signal_handler(hangup, self.reloader.wake)
        self.pool.sweep(loop)
        self._tick(loop)
        await super().startup(sockets)
        self.on_started()

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the thread of events flush the log and write snapshots; schedule the next time."""
        history = self.reloader.history
        if history is None:
            return
        assert self.pool.events.thread is not None  # noqa: S101 - narrows the type
        self.pool.events.thread.submit(history.tick)
        loop.call_later(_TICK_SECONDS, self._tick, loop)

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Start to stop; after a second signal of the same kind, stop immediately."""
        self.pool.stopping = True
        super().handle_exit(sig, frame)
        # uvicorn would raise captured signals again at the end, and exit with their code.
        self._captured_signals.clear()


async def _no_application(scope: Any, receive: Any, send: Any) -> None:
    """Do nothing: uvicorn needs an application, but connections call the service themselves."""


def load_models(settings: Settings) -> Reloader:
    """Load the models; raise an error if there is nothing to serve."""
    metrics, history = Metrics(), None
    if settings.state is not None:
        history = HistoryService(settings.state, metrics)
    # Any request may bring rules, and compiling them then would delay all others.
    compile_kernels()
    reloader = Reloader(settings.path, Registry(), metrics, history)
    reloader.load_first()
    if history is not None and history.live is None:
        # A model that is loaded later may need the state.
        _LOG.warning(
            "no model has history features: the state in %s is not used, and events are refused",
            history.settings.folder,
        )
    return reloader


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket; raise OSError if the address is used or not of this machine."""
    family = socket.AF_INET
    if ":" in host:
        family = socket.AF_INET6
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)


def serve(settings: Settings, on_started: Callable[[dict[str, Any]], None] | None = None) -> None:
    """Serve until SIGTERM or SIGINT.

    ``on_started`` is called with the address, the models and the limits when the server is ready.
    """
    check_bind(settings.host, settings.token, allow_unauthenticated=settings.allow_unauthenticated)
    _raise_descriptor_limit(settings.limits.connections + _SPARE_DESCRIPTORS)
    # Other threads, which load models or handle large requests, hold the interpreter lock for this
    # time (0.5 ms instead of 5 ms) at most. Small requests wait for it.
    sys.setswitchinterval(0.0005)
    listener = bind(settings.host, settings.port)
    reloader = load_models(settings)
    hosts = tuple(name.lower() for name in settings.allowed_hosts)
    access = AccessPolicy(settings.host, settings.token, hosts, settings.events_token)
    # Large requests are handled one after the other, outside the event loop; so are events.
    large = ThreadPoolExecutor(1, thread_name_prefix="rankine-large")
    events = ThreadPoolExecutor(1, thread_name_prefix="rankine-events")
    pool = ConnectionPool(settings.limits, reloader.metrics, large, events)
    service = Service(
        reloader.registry, pool, access, strict=settings.strict, history=reloader.history
    )
    config = uvicorn.Config(
        _no_application,
        http=partial(Connection, pool, service.handle),
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=math.ceil(settings.limits.drain_seconds),
    )
    status = {
        "url": _url(listener),
        "pid": os.getpid(),
        "models": sorted(reloader.registry.current.models),
        "limits": msgspec.to_builtins(settings.limits),
    }
    reloader.start(settings.reload_seconds)
    # Models stay until they are replaced, and requests create no reference cycles: the garbage
    # collector would search much memory for nothing, which would delay requests.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    server = Server(config, pool, reloader, lambda: on_started and on_started(status))
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listener])
    reloader.stop()
    large.shutdown()
    events.shutdown()
    if reloader.history is not None:
        reloader.history.close()


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    if ":" in host:  # IPv6
        host = f"[{host}]"
    return f"http://{host}:{port}"


def _raise_descriptor_limit(n_descriptors: int) -> None:
    """Raise the limit of open files, as far as the system allows."""
    try:
        import resource
    except ImportError:  # a system without such limits
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= n_descriptors:
        return
    limit = n_descriptors if hard == resource.RLIM_INFINITY else min(n_descriptors, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    if limit < n_descriptors:
        _LOG.warning("only %d file descriptors for %d connections", limit, n_descriptors)
