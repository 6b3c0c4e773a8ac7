"""Cut a stream into blocks with a fixed number of queries, however it arrives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from rankine.data.concat import concat

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset

__all__ = ["regroup"]


def regroup(blocks: Iterable[Dataset], queries: int) -> Iterator[Dataset]:
    """Blocks of exactly ``queries`` queries in the same order; the last may be shorter.

    The input must be query-aligned, as ``Scan`` gives it, so the result does not depend on how
    the input was cut.
    """
    pending: list[Dataset] = []
    waiting = 0
    for block in blocks:
        first = 0
        while waiting + block.n_queries - first >= queries:
            last = first + queries - waiting
            pending.append(_part(block, first, last))
            yield concat(pending)
            pending, waiting, first = [], 0, last
        if first < block.n_queries:
            pending.append(_part(block, first, block.n_queries))
            waiting += block.n_queries - first
    if pending:
        yield concat(pending)


def _part(block: Dataset, first: int, last: int) -> Dataset:
    if first == 0 and last == block.n_queries:
        return block
    index = block.queries
    if index.rows is None:
        return block.take(np.arange(index.starts[first], index.starts[last]))
    return block.take_queries(np.arange(first, last))
