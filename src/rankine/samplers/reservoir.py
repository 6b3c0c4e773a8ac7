"""A sample of bounded size of a stream that is read once and need not be grouped by query.

Every query id has a random number, and so has every row. Kept are the queries with the smallest
numbers until the buffer is full, each with all its rows; of a query that is longer than its share
of the buffer, the rows with the smallest numbers. What is left out once could never have come
back, so the sample is a function of the rows and the seed alone: how the stream was cut into
blocks, and when the buffer was tidied, changes nothing. Whether a query is kept does not depend on
its own length, so queries are drawn alike, and so are the rows of a long one: the mean over
queries of the mean over their pairs is estimated without bias.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import EmptyDataError, ParameterError
from rankine.data.dataset import Dataset, concat
from rankine.data.splits import query_units
from rankine.kernels.random import stream_seed

#: Streams of a seed: the numbers of queries, and those of rows ("RESE").
OF_QUERIES, OF_ROWS = (0x52455345, 0), (0x52455345, 1)
#: A query may fill this part of the buffer, unless there are fewer queries.
SHARES = 8


class Reservoir:
    """Whole lists of queries drawn at random: ``rows`` rows, and at most a share of them more.

    Attributes
    ----------
    seen
        Rows that were added.
    """

    def __init__(self, rows: int, seed: int) -> None:
        if rows < 2 * SHARES:
            raise ParameterError(
                f"buffer_rows={rows} has no room for a few lists",
                fix=f"Give it {2 * SHARES} rows at least, better 100,000",
            )
        self.rows = int(rows)
        self.seen = 0
        self._of_query = stream_seed(seed, *OF_QUERIES)
        self._of_row = stream_seed(seed, *OF_ROWS)
        self._parts: list[Dataset] = []
        self._numbers: list[NDArray[np.float64]] = []
        #: The number from which on no query is kept.
        self._below = np.inf

    def add(self, block: Dataset) -> None:
        """Take note of some more rows."""
        numbers = query_units(np.arange(self.seen, self.seen + block.n_rows), self._of_row)
        self.seen += block.n_rows
        index = block.queries
        kept = np.flatnonzero((query_units(index.ids, self._of_query) < self._below)[index.codes])
        if len(kept):
            self._parts.append(block if len(kept) == block.n_rows else block.take(kept))
            self._numbers.append(numbers[kept])
        if sum(part.n_rows for part in self._parts) > 2 * self.rows:
            self._tidy()

    def sample(self) -> tuple[Dataset, bool]:
        """The rows that are kept, in the order of the stream, and whether a list may be cut."""
        if not self._parts:
            raise EmptyDataError("the stream holds no rows", fix="Check where it comes from")
        data = self._tidy()
        return data, bool(data.queries.sizes.max() >= self._share(data))

    def _tidy(self) -> Dataset:
        """Leave out what is too much."""
        data, numbers = concat(self._parts), np.concatenate(self._numbers)
        index = data.queries
        share = self._share(data)
        order = np.lexsort((numbers, index.codes))
        before = np.cumsum(index.sizes) - index.sizes
        place = np.empty(data.n_rows, dtype=np.int64)
        place[order] = np.arange(data.n_rows) - np.repeat(before, index.sizes)
        unit = query_units(index.ids, self._of_query)
        rising = np.argsort(unit, kind="stable")
        sizes = np.minimum(index.sizes, share)[rising]
        room = np.cumsum(sizes) - sizes < self.rows
        if not room.all():
            self._below = float(unit[rising[np.argmin(room)]])
        kept = np.flatnonzero((place < share) & (unit < self._below)[index.codes])
        if len(kept) < data.n_rows:
            data, numbers = data.take(kept), numbers[kept]
        self._parts, self._numbers = [data], [numbers]
        return data

    def _share(self, data: Dataset) -> int:
        """Rows that one query may fill.

        No query is left out before there are ``SHARES`` of them, and so many stay: a smaller
        number is that of all queries there were.
        """
        return self.rows // min(data.queries.n_queries, SHARES)
