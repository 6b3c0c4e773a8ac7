"""Fixed shards on a thread pool, reduced in order: the same bits for any number of threads.

Kernels release the GIL, so plain threads run them in parallel. The cut depends on the data alone,
never on the number of threads.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["cut_by_weight", "map_shards", "n_threads"]

R = TypeVar("R")

#: Shards per data set; enough for load balance on large machines, few enough for cheap sums.
N_SHARDS = 16


def n_threads(requested: int | None = None) -> int:
    """Threads to use: ``requested``, else ``RANKINE_NUM_THREADS``, else the CPUs we may use."""
    if requested is not None and requested > 0:
        return requested
    if chosen := os.environ.get("RANKINE_NUM_THREADS"):
        return max(1, int(chosen))
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="rankine")


# Threads do not survive a fork; a forked child starts with an empty set of pools.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


def map_shards(
    function: Callable[[int, int], R],
    cuts: Sequence[int] | NDArray[np.int64],
    threads: int | None = None,
) -> list[R]:
    """``[function(cuts[k], cuts[k + 1]) for k in ...]``, in parallel, in order."""
    spans = [(int(a), int(b)) for a, b in zip(cuts[:-1], cuts[1:], strict=True)]
    workers = min(n_threads(threads), len(spans))
    if workers <= 1:
        return [function(a, b) for a, b in spans]
    return list(_pool(workers).map(lambda span: function(*span), spans))


def cut_by_weight(ends: NDArray[np.int64], n_shards: int = N_SHARDS) -> NDArray[np.int64]:
    """Cut ``len(ends) - 1`` items into contiguous shards of about equal weight.

    ``ends`` is a cumulative weight that starts at 0, such as a CSR ``indptr`` or query starts.
    """
    n_items = len(ends) - 1
    total = int(ends[-1])
    targets = np.array([total * k // n_shards for k in range(1, n_shards)], dtype=np.int64)
    inner = np.searchsorted(ends, targets, side="left")
    cuts = np.concatenate([[0], np.clip(inner, 0, n_items), [n_items]]).astype(np.int64)
    return np.unique(cuts)
