"""Start, serve, stop."""

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

from rankine.core.errors import ModelError
from rankine.serve.app import Service
from rankine.serve.connection import Connection, ConnectionPool
from rankine.serve.limits import Limits
from rankine.serve.metrics import Metrics
from rankine.serve.registry import Registry
from rankine.serve.reload import Reloader
from rankine.serve.security import AccessPolicy, check_bind

_LOG = logging.getLogger("rankine.serve")
_SPARE_DESCRIPTORS = 64
_BACKLOG = 1024


@dataclass(frozen=True)
class Settings:
    """How to serve."""

    path: str | os.PathLike[str]
    host: str = "127.0.0.1"
    port: int = 8080
    token: bytes | None = None
    allow_unauthenticated: bool = False
    allowed_hosts: tuple[str, ...] = ()
    reload_seconds: float = 1.0
    limits: Limits = field(default_factory=Limits)
    strict: bool = False


class Server(uvicorn.Server):
    """uvicorn's server; a signal ends it with exit code 0 once everything is answered."""

    def __init__(
        self,
        config: uvicorn.Config,
        pool: ConnectionPool,
        reloader: Reloader,
        started: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self.pool = pool
        self.reloader = reloader
        self.tell_started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then say so."""
        loop = asyncio.get_running_loop()
        hangup = getattr(signal, "SIGHUP", None)
        if hangup is not None:
            with contextlib.suppress(ValueError, RuntimeError):  # not in the main thread
                loop.add_signal_handler(hangup, self.reloader.wake)
        self.pool.sweep(loop)
        await super().startup(sockets)
        self.tell_started()

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Start the stop; a second signal of the same kind makes it immediate."""
        self.pool.stopping = True
        super().handle_exit(sig, frame)
        self._captured_signals.clear()


async def _no_application(scope: Any, receive: Any, send: Any) -> None:
    """uvicorn wants an application; here each connection asks the service itself."""


def load_models(settings: Settings) -> Reloader:
    """Load the models, with all that they need; an error where there is nothing to serve."""
    reloader = Reloader(settings.path, Registry(), Metrics())
    reloader.refresh()
    found = reloader.registry.current
    if not found.models:
        reasons = "; ".join(
            f"{name or 'folder'}: {text}" for name, text in sorted(found.errors.items())
        )
        raise ModelError(
            f"no model to serve: {reasons or 'the folder is empty'}",
            fix="Pass a model file, or a folder of them",
            file=str(settings.path),
        )
    return reloader


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; OSError where the address is taken or not ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)


def serve(settings: Settings, started: Callable[[dict[str, Any]], None] = lambda _: None) -> None:
    """Serve until SIGTERM or SIGINT.

    ``started`` is called with the address, the models and the limits once requests are answered.
    """
    check_bind(settings.host, settings.token, allow_unauthenticated=settings.allow_unauthenticated)
    _raise_descriptor_limit(settings.limits.connections + _SPARE_DESCRIPTORS)
    # Threads that load models or work on large requests give way to small requests soon.
    sys.setswitchinterval(0.0005)
    listener = bind(settings.host, settings.port)
    reloader = load_models(settings)
    hosts = tuple(name.lower() for name in settings.allowed_hosts)
    access = AccessPolicy(settings.host, settings.token, hosts)
    # One thread: it keeps large requests off the event loop.
    thread = ThreadPoolExecutor(1, thread_name_prefix="rankine-large")
    pool = ConnectionPool(settings.limits, reloader.metrics, thread)
    service = Service(reloader.registry, pool, access, strict=settings.strict)
    config = uvicorn.Config(
        _no_application,
        http=partial(Connection, pool, service.answer),
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=math.ceil(settings.limits.drain_seconds),
    )
    facts = {
        "url": _url(listener),
        "pid": os.getpid(),
        "models": sorted(reloader.registry.current.models),
        "limits": msgspec.to_builtins(settings.limits),
    }
    reloader.start(settings.reload_seconds)
    # What is loaded now stays; requests make no cycles. So the collector has little to look for.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    server = Server(config, pool, reloader, lambda: started(facts))
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listener])
    reloader.stop()
    thread.shutdown()


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _raise_descriptor_limit(wanted: int) -> None:
    try:
        import resource
    except ImportError:  # a system without such limits
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        if most < wanted:
            _LOG.warning("only %d file descriptors for %d connections", most, wanted)
