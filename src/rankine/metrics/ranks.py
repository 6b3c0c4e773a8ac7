"""Metrics of ranked lists: one loop over queries, asking the metric's spec for each list.

A spec answers two questions about a list whose items carry ``gain`` (a gain, or 0/1 relevance):
its value in one order, and its mean over all orders of items with equal scores. NaN says that the
metric has no value there (no relevant document); the caller decides what it counts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.dispatch import question
from rankine.kernels.sorting import rank_order, tie_ends, top_order

__all__ = [
    "ItemPool",
    "RankedLists",
    "block_means",
    "expected_values",
    "list_expected",
    "list_value",
    "ranked_values",
]


class RankedLists(NamedTuple):
    """The ranked items: query q holds starts[q]:starts[q + 1]."""

    starts: NDArray[np.int64]
    gain: NDArray[np.float64]
    score: NDArray[np.float64]


class ItemPool(NamedTuple):
    """All items of each query, also those that have no rank: what an ideal order draws from."""

    starts: NDArray[np.int64]
    gain: NDArray[np.float64]


@question
def list_value(spec: Any, ranked: Any, gain: Any, k: int) -> Any:
    """Value of a list: ``ranked`` holds the gains of the first min(k, n) ranks, ``gain`` all."""


@question
def list_expected(spec: Any, ranked: Any, ends: Any, gain: Any, k: int) -> Any:
    """Mean value over the orders of ties: rank r (from 0) lies in a block that ends at ends[r].

    ``ranked`` holds the gains of all n ranks.
    """


@jit
def block_means(ranked: Any, ends: Any) -> Any:
    """Each gain replaced by the mean of its block: the expectation of anything linear in gains."""
    means = np.empty(ranked.shape[0])
    start = 0
    while start < ranked.shape[0]:
        end = ends[start]
        total = 0.0
        for r in range(start, end):
            total += ranked[r]
        for r in range(start, end):
            means[r] = total / (end - start)
        start = end
    return means


@jit
def ranked_values(
    spec: Any,
    lists: RankedLists,
    pool: ItemPool,
    key: NDArray[np.float64],
    cutoffs: NDArray[np.int64],
    first: int,
    last: int,
    out: NDArray[np.float64],
) -> None:
    """out[q] = value of query q for first <= q < last, in the order of scores and keys."""
    for q in range(first, last):
        a, b = lists.starts[q], lists.starts[q + 1]
        gains = lists.gain[a:b]
        order = top_order(lists.score[a:b], key[a:b] if key.shape[0] > 0 else key, cutoffs[q])
        ranked = np.empty(order.shape[0])
        for r in range(order.shape[0]):
            ranked[r] = gains[order[r]]
        everything = pool.gain[pool.starts[q] : pool.starts[q + 1]]
        out[q] = list_value(spec, ranked, everything, cutoffs[q])


@jit
def expected_values(
    spec: Any,
    lists: RankedLists,
    pool: ItemPool,
    cutoffs: NDArray[np.int64],
    first: int,
    last: int,
    out: NDArray[np.float64],
) -> None:
    """out[q] = expected value of query q under random orders of its ties."""
    no_key = np.empty(0)
    for q in range(first, last):
        a, b = lists.starts[q], lists.starts[q + 1]
        gains, scores = lists.gain[a:b], lists.score[a:b]
        order = rank_order(scores, no_key)
        ranked = np.empty(order.shape[0])
        for r in range(order.shape[0]):
            ranked[r] = gains[order[r]]
        everything = pool.gain[pool.starts[q] : pool.starts[q + 1]]
        out[q] = list_expected(spec, ranked, tie_ends(scores, order), everything, cutoffs[q])
