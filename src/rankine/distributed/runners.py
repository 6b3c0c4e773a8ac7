"""Who asks the partitions: this process, one after the other, or the workers of a Dask cluster.

``connect`` comes from ``tcp://host:8786`` or ``local:2`` to a client of such a cluster.
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
from rankine.distributed.worker_pool import WorkItem, ask, describe, listed, sum_in_order


def require_dask() -> Any:
    """The module ``distributed``, or a MissingExtraError."""
    try:
        import distributed
    except ImportError as error:
        raise MissingExtraError(
            "training on a cluster needs Dask", fix="pip install 'rankine[dask]'"
        ) from error
    return distributed


@contextmanager
def cluster_errors(client: Any) -> Iterator[None]:
    """Turn what Dask raises into a ClusterError; errors of rankine pass as they are."""
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
            f"a task was given up after its workers died again and again: {error.task}",
            fix="A partition that does not fit ends its worker: pass a smaller partition_bytes or "
            "give the workers more memory; see distributed.scheduler.allowed-failures",
        ) from error
    except ModuleNotFoundError as error:
        raise ClusterError(
            f"a worker cannot import what it needs: {error}",
            fix="Install rankine[dask] of the same version on every worker",
        ) from error
    except (CancelledError, ClosedClientError, CommClosedError, TimeoutError, OSError) as error:
        raise _lost(client, error) from error


def _lost(client: Any, error: BaseException) -> ClusterError:
    reason = str(error) or type(error).__name__
    where = getattr(getattr(client, "scheduler", None), "address", None)
    return ClusterError(
        f"the scheduler {where or ''} was lost or cancelled the work: {reason.splitlines()[0]}",
        fix="Start it again and resume from the checkpoint (checkpoint=, resume=True)",
    )


#: Neighbouring answers that one task adds; a power of two, so that the order of the sum is that
#: of ``tree_sum``.
FAN_IN = 8
#: Arguments above this size are sent once, as a task of their own, and fetched by the workers.
SHARED_BYTES = 2**18
#: Seconds between looks at the progress of a round.
TICK = 1.0


class LocalRunner:
    """Asks partitions and adds their answers in order: here one after the other, in this process.

    The kernels use all threads.
    """

    def place(self, items: Sequence[WorkItem]) -> Any:
        """Make partitions known; the result is passed back to ``total`` and ``each``."""
        return [replace(one, threads=None) for one in items]

    def total(self, placed: Any, question: str, arguments: tuple[Any, ...]) -> Any:
        """Sum of all answers; at most log2 of them are held at a time."""
        return sum_in_order(ask(one, question, arguments) for one in placed)

    def each(self, placed: Any, question: str, arguments: tuple[Any, ...]) -> list[Any]:
        """All answers, in order of partitions."""
        return [ask(one, question, arguments) for one in placed]

    def map(self, function: Callable[..., Any], items: Sequence[Any]) -> list[Any]:
        """``function`` of every item, in order."""
        return [function(item) for item in items]


class DaskRunner(LocalRunner):
    """One task per partition on a Dask cluster; nothing is scattered, nothing is pinned.

    Every task is a pure function of its description, so a task that is lost with its worker is
    run again elsewhere with the same result. A partition's description is the result of a tiny
    task; Dask prefers to run what needs it where it lies, which is where its rows were read
    before. A round in which no task finishes for ``timeout`` seconds is an error.
    """

    def __init__(self, client: Any, timeout: float = 600.0) -> None:
        self.client = client
        self.timeout = timeout
        self._run = uuid.uuid4().hex[:12]
        self._numbers = itertools.count()

    def place(self, items: Sequence[WorkItem]) -> list[Any]:
        """Futures of the descriptions."""
        with cluster_errors(self.client):
            placed = self._map(describe, list(items), "partition")
            self._wait(placed, placed)
        return placed

    def total(self, placed: list[Any], question: str, arguments: tuple[Any, ...]) -> Any:
        """Sum of all answers, added in groups on the workers and then here."""
        return self._gather(ask, placed, question, arguments)

    def each(self, placed: list[Any], question: str, arguments: tuple[Any, ...]) -> list[Any]:
        """All answers, in order."""
        return self._gather(listed, placed, question, arguments)

    def map(self, function: Callable[..., Any], items: Sequence[Any]) -> list[Any]:
        """``function`` of every item, in order."""
        with cluster_errors(self.client):
            futures = self._map(function, list(items), "file")
            self._wait(futures, futures)
            return [future.result(timeout=self.timeout) for future in futures]

    def _gather(
        self, task: Callable[..., Any], placed: list[Any], question: str, arguments: tuple[Any, ...]
    ) -> Any:
        with cluster_errors(self.client):
            weights = self._shared(arguments)
            shared = weights[0] if weights else arguments
            leaves = self._map(task, placed, question, question=question, arguments=shared)
            levels = [leaves]
            while len(levels[-1]) > FAN_IN:
                below = levels[-1]
                groups = [below[k : k + FAN_IN] for k in range(0, len(below), FAN_IN)]
                # Sums come first: answers that wait for each other fill the workers' memory.
                levels.append(self._map(sum_in_order, groups, "sum", priority=len(levels)))
            try:
                self._wait(levels[-1], leaves)
                answers = [future.result(timeout=self.timeout) for future in levels[-1]]
            finally:
                for future in [*weights, *(one for level in levels for one in level)]:
                    future.release()
            return sum_in_order(answers)

    def _shared(self, arguments: tuple[Any, ...]) -> list[Any]:
        """Large arguments as the result of one task; none when they are small."""
        size = sum(a.nbytes for a in arguments if isinstance(a, np.ndarray))
        return self._map(tuple, [arguments], "weights") if size > SHARED_BYTES else []

    def _map(
        self, function: Callable[..., Any], items: list[Any], name: str, **same: Any
    ) -> list[Any]:
        import dask

        stem = f"rankine-{name}-{self._run}-{next(self._numbers)}"
        keys = [f"{stem}-{k}" for k in range(len(items))]
        # A weight vector may be larger than what Dask takes for an oversight.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "2GB"}):
            futures: list[Any] = self.client.map(function, items, key=keys, pure=False, **same)
        return futures

    def _wait(self, roots: list[Any], watched: list[Any]) -> None:
        """Until all roots are there or one failed; no progress for ``timeout`` is an error."""
        from distributed import wait

        finished, since = None, time.monotonic()
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
            count = sum(future.done() for future in watched)
            if count != finished:
                finished, since = count, time.monotonic()
            elif time.monotonic() - since >= self.timeout:
                raise self._stalled(count, len(watched))

    def _stalled(self, finished: int, count: int) -> ClusterError:
        try:
            workers = len(self.client.scheduler_info(n_workers=-1)["workers"])
        except (OSError, KeyError, TypeError):
            workers = 0
        return ClusterError(
            f"no task finished for {self.timeout:g} s: {finished} of {count} partitions of this "
            f"round are done, {workers} workers are known",
            fix="Look at the workers' logs; raise timeout if a partition may take that long; "
            "resume from the checkpoint",
        )


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
