"""Runners compute partial results: one after the other in this process, or on a Dask cluster.

``connect`` opens a client for ``tcp://host:8786`` or ``local:2``.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from rankine.core.errors import ClusterError, MissingExtraError, ParameterError, RankineError
from rankine.distributed.worker_pool import (
    WorkItem,
    compute_in_list,
    compute_partial,
    return_item,
    sum_in_order,
)


def require_dask() -> Any:
    """Return the module ``distributed``, or raise a MissingExtraError."""
    try:
        import distributed
    except ImportError as error:
        raise MissingExtraError(
            "training on a cluster needs Dask", fix="pip install 'rankine[dask]'"
        ) from error
    return distributed


@contextmanager
def cluster_errors(client: Any) -> Iterator[None]:
    """Turn errors of Dask into ClusterErrors; errors of rankine pass unchanged."""
    from concurrent.futures import CancelledError

    from distributed.client import ClosedClientError
    from distributed.comm import CommClosedError
    from distributed.scheduler import KilledWorker

    try:
        yield
    except RankineError:
        raise
    except KilledWorker as error:
        raise ClusterError(
            f"a task was abandoned because its workers died repeatedly: {error.task}",
            fix="A partition that does not fit into memory ends its worker: pass a smaller "
            "partition_bytes or give the workers more memory; see "
            "distributed.scheduler.allowed-failures",
        ) from error
    except ModuleNotFoundError as error:
        raise ClusterError(
            f"a worker cannot import a module: {error}",
            fix="Install rankine[dask] of the same version on every worker",
        ) from error
    except (CancelledError, ClosedClientError, CommClosedError, TimeoutError, OSError) as error:
        address = getattr(getattr(client, "scheduler", None), "address", None)
        raise ClusterError(
            f"the scheduler {address or ''} was lost or cancelled the work: {_first_line(error)}",
            fix="Start the scheduler again, and resume the run if it has a checkpoint folder",
        ) from error


#: Neighbouring results that one task adds; a power of two, so that the order of the sum is that
#: of ``tree_sum``.
FAN_IN = 8
#: Arguments above this size are sent once, as the result of a task, and fetched by the workers.
SHARED_BYTES = 2**18
#: Seconds between checks of progress.
TICK = 1.0


class LocalRunner:
    """Computes partial results one after the other in this process, with all threads."""

    def submit(self, items: Sequence[WorkItem]) -> Any:
        """Prepare items once; the result is passed to ``total`` and ``each``."""
        return [replace(item, threads=None) for item in items]

    def total(self, submitted: Any, method: str, arguments: tuple[Any, ...]) -> Any:
        """Sum all partial results, holding at most log2 of them at a time."""
        return sum_in_order(compute_partial(item, method, arguments) for item in submitted)

    def each(self, submitted: Any, method: str, arguments: tuple[Any, ...]) -> list[Any]:
        """Return all partial results, in order of partitions."""
        return [compute_partial(item, method, arguments) for item in submitted]

    def map(self, function: Callable[..., Any], items: Sequence[Any]) -> list[Any]:
        """Apply a function to every item, in order."""
        return [function(item) for item in items]


class DaskRunner(LocalRunner):
    """Computes partial results with one task per partition on a Dask cluster.

    Nothing is scattered or pinned to a worker. Every task is a pure function of its work item, so
    a task that is lost with its worker is run again elsewhere with the same result. A work item is
    the result of a tiny task; Dask prefers to run later tasks on the worker that holds it, which
    has read the partition's rows before. A round in which no task finishes for ``timeout`` seconds
    is an error.
    """

    def __init__(self, client: Any, timeout: float = 600.0) -> None:
        self.client = client
        self.timeout = timeout
        self._run = uuid.uuid4().hex[:12]
        self._numbers = itertools.count()

    def submit(self, items: Sequence[WorkItem]) -> list[Any]:
        """Return futures of the items."""
        with cluster_errors(self.client):
            futures = self._map(return_item, list(items), "partition")
            self._wait(futures, futures)
        return futures

    def total(self, submitted: list[Any], method: str, arguments: tuple[Any, ...]) -> Any:
        """Sum all partial results, in groups on the workers and then here."""
        return self._gather(compute_partial, submitted, method, arguments)

    def each(self, submitted: list[Any], method: str, arguments: tuple[Any, ...]) -> list[Any]:
        """Return all partial results, in order of partitions."""
        return self._gather(compute_in_list, submitted, method, arguments)

    def map(self, function: Callable[..., Any], items: Sequence[Any]) -> list[Any]:
        """Apply a function to every item, in order."""
        with cluster_errors(self.client):
            futures = self._map(function, list(items), "file")
            self._wait(futures, futures)
            return [future.result(timeout=self.timeout) for future in futures]

    def _gather(
        self,
        function: Callable[..., Any],
        submitted: list[Any],
        method: str,
        arguments: tuple[Any, ...],
    ) -> Any:
        with cluster_errors(self.client):
            shared = self._share(arguments)
            argument = shared[0] if shared else arguments
            levels = [self._map(function, submitted, method, method=method, arguments=argument)]
            while len(levels[-1]) > FAN_IN:
                below = levels[-1]
                groups = [below[k : k + FAN_IN] for k in range(0, len(below), FAN_IN)]
                # Sums have priority: results that wait for each other fill the workers' memory.
                levels.append(self._map(sum_in_order, groups, "sum", priority=len(levels)))
            try:
                self._wait(levels[-1], levels[0])
                results = [future.result(timeout=self.timeout) for future in levels[-1]]
            finally:
                for future in itertools.chain(shared, *levels):
                    future.release()
            return sum_in_order(results)

    def _share(self, arguments: tuple[Any, ...]) -> list[Any]:
        """Return the future of a task that returns the arguments, if they are large."""
        size = sum(a.nbytes for a in arguments if isinstance(a, np.ndarray))
        if size <= SHARED_BYTES:
            return []
        return self._map(tuple, [arguments], "weights")

    def _map(
        self, function: Callable[..., Any], items: list[Any], name: str, **keywords: Any
    ) -> list[Any]:
        import dask

        prefix = f"rankine-{name}-{self._run}-{next(self._numbers)}"
        keys = [f"{prefix}-{k}" for k in range(len(items))]
        # A weight vector may be larger than what Dask warns about as an oversight.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "2GB"}):
            futures: list[Any] = self.client.map(function, items, key=keys, pure=False, **keywords)
        return futures

    def _wait(self, roots: list[Any], leaves: list[Any]) -> None:
        """Wait for all roots; raise if none of the leaves finishes for ``timeout`` seconds."""
        from distributed import wait

        last_count, last_progress = None, time.monotonic()
        while True:
            try:
                with self.client.as_current():
                    wait(roots, timeout=min(TICK, self.timeout))
            except TimeoutError:
                pass
            else:
                return
            if any(future.status in ("error", "cancelled", "lost") for future in roots):
                return
            count = sum(future.done() for future in leaves)
            if count != last_count:
                last_count, last_progress = count, time.monotonic()
            elif time.monotonic() - last_progress >= self.timeout:
                raise self._timeout_error(count, len(leaves))

    def _timeout_error(self, n_finished: int, n_partitions: int) -> ClusterError:
        try:
            n_workers = len(self.client.scheduler_info(n_workers=-1)["workers"])
        except (OSError, KeyError, TypeError):
            n_workers = 0
        return ClusterError(
            f"no task finished for {self.timeout:g} s: {n_finished} of {n_partitions} partitions "
            f"of this round are done, the scheduler has {n_workers} workers",
            parameter="timeout",
            fix="Check the workers' logs, increase timeout if a partition may take that long, "
            "and resume from the checkpoint",
        )


#: Seconds to wait for a scheduler, and for its first worker, which may have to be started.
SCHEDULER_TIMEOUT = 10.0
WORKER_TIMEOUT = 60.0
#: Deaths of workers after which a local cluster abandons a task.
ALLOWED_FAILURES = 10
#: Milliseconds between checks for lost workers, and how long a worker must be gone to be lost.
RESTORE_INTERVAL = 1000
LOST_WORKER_TIMEOUT = "3s"


@contextmanager
def connect(address: str, *, timeout: float = SCHEDULER_TIMEOUT, **local: Any) -> Iterator[Any]:
    """Connect to a running scheduler, or start a cluster of processes on this machine.

    Parameters
    ----------
    address
        ``tcp://host:8786``, ``tls://host:8786`` (certificates from Dask's configuration) or
        another address in Dask's format; ``local:2`` starts two worker processes on this machine,
        bound to loopback, and ends them.
    timeout
        Seconds to wait for the scheduler.
    **local
        Further options of ``LocalCluster``, for ``local:N``.
    """
    scheme, _, count = address.partition(":")
    if scheme == "local":
        if not count.isdigit() or int(count) < 1:
            raise ParameterError(
                f"cannot read the cluster {address!r}",
                fix="Write local:2 for two worker processes on this machine",
            )
        with _start_local(int(count), local) as client:
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
            f"cannot reach a scheduler at {address}: {_first_line(error)}",
            fix="Start one with `dask scheduler`, check the address, and TLS settings for tls://",
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=WORKER_TIMEOUT)
        except TimeoutError as error:
            raise ClusterError(
                f"the scheduler at {address} has no worker",
                fix=f"Start workers: dask worker {address}",
            ) from error
        yield client


@contextmanager
def _start_local(count: int, options: dict[str, Any]) -> Iterator[Any]:
    """Start a cluster of ``count`` processes, restore lost ones, and end it."""
    distributed = require_dask()
    import dask
    from tornado.ioloop import PeriodicCallback

    settings = {
        "distributed.scheduler.allowed-failures": ALLOWED_FAILURES,
        "distributed.deploy.lost-worker-timeout": LOST_WORKER_TIMEOUT,
    }
    defaults = {
        "threads_per_worker": 1,
        "dashboard_address": "127.0.0.1:0",
        "host": "127.0.0.1",
    }
    with (
        dask.config.set(settings),
        distributed.LocalCluster(n_workers=count, processes=True, **defaults | options) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        # A nanny restarts its worker, but gives up when the worker dies while it starts, and the
        # cluster would continue with fewer workers. Asking for the planned number replaces them.
        restore = PeriodicCallback(lambda: cluster.scale(len(cluster.plan)), RESTORE_INTERVAL)
        cluster.loop.add_callback(restore.start)
        try:
            yield client
        finally:
            cluster.loop.add_callback(restore.stop)


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]
