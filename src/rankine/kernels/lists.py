"""One list at a time: scratch space, and rankings whose ties are broken by seeded chance."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.random import random_below
from rankine.kernels.sorting import order_descending

__all__ = ["ListWork", "list_work", "rank_into"]


class ListWork(NamedTuple):
    """Buffers of one list; the first ``n`` places hold its items in file order.

    ``levels`` are what is compared (gains, relevance or labels, as the objective says), ``slopes``
    receives the derivative of the list's loss by each score; ``ranks`` counts from 1.
    """

    scores: NDArray[np.float64]
    levels: NDArray[np.float64]
    weights: NDArray[np.float64]
    slopes: NDArray[np.float64]
    order: NDArray[np.int64]
    ranks: NDArray[np.int64]
    first: NDArray[np.float64]
    second: NDArray[np.float64]


def list_work(longest: int) -> ListWork:
    """Buffers for lists of up to ``longest`` items."""
    size = longest + 2
    return ListWork(
        scores=np.zeros(size),
        levels=np.zeros(size),
        weights=np.zeros(size),
        slopes=np.zeros(size),
        order=np.zeros(size, dtype=np.int64),
        ranks=np.zeros(size, dtype=np.int64),
        first=np.zeros(size),
        second=np.zeros(size),
    )


@jit
def rank_into(keys: Any, n: int, seed: int, order: Any, ranks: Any) -> None:
    """ranks[i] = place of item i by falling key, from 1; equal keys in random order."""
    order_descending(keys, n, order)
    start = 0
    while start < n:
        stop = start + 1
        while stop < n and keys[order[stop]] == keys[order[start]]:
            stop += 1
        for k in range(stop - 1, start, -1):
            other = start + random_below(seed, k, k - start + 1)
            order[k], order[other] = order[other], order[k]
        start = stop
    for k in range(n):
        ranks[order[k]] = k + 1
