"""Rows of pairs: all of them where they are few, a uniform sample where they are many."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import NoPairsError
from rankine.kernels.compile import jit
from rankine.samplers.pairs import draw_span
from rankine.rankers.spd import SPDRanker
from rankine.rankers.spd_parts import make_sampler

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset

__all__ = ["pair_rows"]


def pair_rows(
    data: Dataset, limit: int, seed: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64], bool]:
    """Better row, worse row of each pair, and whether these are all pairs.

    With more than ``limit`` pairs, so many are drawn, every pair with the same chance.
    """
    data.labels.require_pairs()
    if data.labels.n_pairs <= limit:
        return (*_all_pairs(data), True)
    alike = replace(data, weight=None, query_index=data.queries)
    sampler = make_sampler(SPDRanker(sampling="uniform"), alike, np.ones(data.n_queries))
    first, second = np.empty(limit, dtype=np.int64), np.empty(limit, dtype=np.int64)
    if not draw_span(sampler, np.uint64(seed), 0, first, second):
        raise NoPairsError("no pair was found in the allowed trials", fix="Check the labels")
    return first, second, False


def _all_pairs(data: Dataset) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    index = data.labels
    better = np.empty(index.n_pairs, dtype=np.int64)
    worse = np.empty(index.n_pairs, dtype=np.int64)
    _fill(index.order, index.query_starts, index.level_ptr, index.level_starts, better, worse)
    return better, worse


@jit
def _fill(
    order: Any, query_starts: Any, level_ptr: Any, level_starts: Any, better: Any, worse: Any
) -> None:
    """Every row of a level is better than the rows of its query before the level."""
    k = 0
    for q in range(query_starts.shape[0] - 1):
        for level in range(level_ptr[q], level_ptr[q + 1]):
            for i in range(level_starts[level], level_starts[level + 1]):
                for j in range(query_starts[q], level_starts[level]):
                    better[k] = order[i]
                    worse[k] = order[j]
                    k += 1
