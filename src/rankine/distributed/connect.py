"""From ``tcp://host:8786`` or ``local:2`` to a client."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rankine.core.errors import ClusterError, ParameterError
from rankine.distributed.runners import require_dask

if TYPE_CHECKING:
    from collections.abc import Iterator


#: Seconds to wait for a scheduler, and for its first worker, which may have to be started.
PATIENCE = 10.0
WORKER_PATIENCE = 60.0
#: Deaths of workers after which a local cluster gives a task up.
ALLOWED_FAILURES = 10
#: Milliseconds between looks for workers that are gone for good, and how long one must be gone.
RENEWAL = 1000
GONE = "3s"


@contextmanager
def connect(address: str, *, timeout: float = PATIENCE, **local: Any) -> Iterator[Any]:
    """A client of a running scheduler, or of a cluster of processes started here.

    Parameters
    ----------
    address
        ``tcp://host:8786``, ``tls://host:8786`` (certificates from Dask's configuration) or
        another address that Dask knows; ``local:2`` starts two worker processes on this machine,
        bound to loopback, and ends them.
    timeout
        Seconds to wait for the scheduler.
    **local
        Further options of ``LocalCluster``, for ``local:N``.
    """
    kind, _, count = address.partition(":")
    if kind == "local":
        if not count.isdigit() or int(count) < 1:
            raise ParameterError(
                f"cannot read the cluster {address!r}", fix="Write local:2 for two workers here"
            )
        with _local(int(count), local) as client:
            yield client
        return
    distributed = require_dask()
    if "://" not in address:
        raise ParameterError(
            f"cannot read the cluster {address!r}",
            fix="Write tcp://host:8786, tls://host:8786 or local:2",
        )
    try:
        client = distributed.Client(address, timeout=timeout, set_as_default=False)
    except (OSError, TimeoutError, ValueError, RuntimeError, TypeError) as error:
        raise ClusterError(
            f"no scheduler answers at {address}: {_short(error)}",
            fix="Start one with `dask scheduler`, check the address, and TLS settings for tls://",
        ) from error
    with client:
        _require_workers(client, address)
        yield client


@contextmanager
def _local(count: int, options: dict[str, Any]) -> Iterator[Any]:
    distributed = require_dask()
    import dask

    settings = {
        "distributed.scheduler.allowed-failures": ALLOWED_FAILURES,
        "distributed.deploy.lost-worker-timeout": GONE,
    }
    chosen = {
        "threads_per_worker": 1,
        "dashboard_address": "127.0.0.1:0",
        "host": "127.0.0.1",
        **options,
    }
    with (
        dask.config.set(settings),
        distributed.LocalCluster(n_workers=count, processes=True, **chosen) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
        _renewed(cluster),
    ):
        yield client


@contextmanager
def _renewed(cluster: Any) -> Iterator[None]:
    """Keep a local cluster at its number of workers.

    A nanny starts its worker again when that dies, but gives up for good when it dies while it is
    being started; the cluster then goes on with one worker fewer, in the end with none.
    """
    from tornado.ioloop import PeriodicCallback

    # Asking for the number that is planned already makes the cluster replace what it has lost.
    renewal = PeriodicCallback(lambda: cluster.scale(len(cluster.plan)), RENEWAL)
    cluster.loop.add_callback(renewal.start)
    try:
        yield
    finally:
        cluster.loop.add_callback(renewal.stop)


def _require_workers(client: Any, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=WORKER_PATIENCE)
    except TimeoutError as error:
        raise ClusterError(
            f"the scheduler at {address} has no worker",
            fix=f"Start workers: dask worker {address}",
        ) from error


def _short(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]
