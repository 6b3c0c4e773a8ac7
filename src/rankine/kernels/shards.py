"""Run fixed shards on a thread pool and add in a fixed order: same bits for any number of threads.

Kernels release the GIL, so Python threads run them in parallel. How data is cut into shards depends
on the data alone, not on the number of threads. The sums here replace BLAS, which splits long sums
by the number of its threads.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import REDUCE, jit

R = TypeVar("R")

#: Shards per dataset: enough to balance the load on large machines, few enough for cheap sums.
N_SHARDS = 16


def n_threads(requested: int | None = None) -> int:
    """Return ``requested``, else ``RANKINE_NUM_THREADS``, else the number of available CPUs."""
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
    """Return ``[function(cuts[k], cuts[k + 1]) for k in ...]``, computed in parallel."""
    spans = [(int(a), int(b)) for a, b in zip(cuts[:-1], cuts[1:], strict=True)]
    workers = min(n_threads(threads), len(spans))
    if workers <= 1:
        return [function(a, b) for a, b in spans]
    results: list[Any] = [None] * len(spans)
    numbers = itertools.count()

    def work() -> None:
        for number in numbers:
            if number >= len(spans):
                return
            results[number] = function(*spans[number])

    # The calling thread works too: one thread less to wake and to wait for.
    futures = [_pool(workers - 1).submit(work) for _ in range(workers - 1)]
    try:
        work()
    finally:
        for future in futures:
            if not future.cancel():
                future.result()
    return results


def cut_by_weight(ends: NDArray[np.int64], n_shards: int = N_SHARDS) -> NDArray[np.int64]:
    """Cut ``len(ends) - 1`` items into contiguous shards of about equal weight.

    ``ends`` is the cumulative weight, starting at 0, such as a CSR ``indptr`` or query starts.
    """
    n_items = len(ends) - 1
    total = int(ends[-1])
    targets = np.array([total * k // n_shards for k in range(1, n_shards)], dtype=np.int64)
    inner = np.searchsorted(ends, targets, side="left")
    cuts = np.concatenate([[0], inner, [n_items]]).astype(np.int64)
    return np.unique(cuts)


@jit(fastmath=REDUCE)
def dot(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return <a, b>."""
    total = 0.0
    for k in range(a.shape[0]):
        total += a[k] * b[k]
    return total


def norm(a: NDArray[np.float64]) -> float:
    """Return |a|, also where the squares would overflow or vanish."""
    with np.errstate(over="ignore"):
        squared = dot(a, a)
    if 1e-290 < squared < 1e290 or not a.size:
        return float(np.sqrt(squared))
    largest = float(np.abs(a).max())
    if largest == 0.0 or not np.isfinite(largest):
        return largest
    scaled = a / largest
    return largest * float(np.sqrt(dot(scaled, scaled)))


@jit
def rows_dot(matrix: NDArray[np.float64], a: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return <row, a> for every row of a matrix."""
    out = np.empty(matrix.shape[0])
    for k in range(matrix.shape[0]):
        out[k] = dot(matrix[k], a)
    return out


@jit
def add_rows(matrix: NDArray[np.float64], c: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sum_k c_k row_k; rows with c_k = 0 are not read."""
    out = np.zeros(matrix.shape[1])
    for k in range(matrix.shape[0]):
        if c[k] != 0.0:
            for j in range(matrix.shape[1]):
                out[j] += c[k] * matrix[k, j]
    return out


def tree_sum(parts: list[Any]) -> Any:
    """Sum by halves, ((a + b) + (c + d)) ...: the order depends on the number of parts alone."""
    while len(parts) > 1:
        paired = [parts[k] + parts[k + 1] for k in range(0, len(parts) - 1, 2)]
        parts = paired + parts[len(parts) - len(parts) % 2 :]
    return parts[0]
