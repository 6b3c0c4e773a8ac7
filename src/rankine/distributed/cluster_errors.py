"""Dask's exceptions as errors that say what to do."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rankine.core.errors import ClusterError, MissingExtraError, RankineError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["cluster_errors", "require_dask"]


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
