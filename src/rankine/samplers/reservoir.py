"""A sample of bounded size from a stream that is read once and need not be grouped by query.

Every query id has a random number, and so has every row. The sample consists of the queries with
the smallest numbers, as many as fill the buffer, each with all its rows; of a query that is longer
than its share of the buffer, it has the rows with the smallest numbers. A row that is dropped once
could not enter the sample later, so the sample is a function of the rows and the seed alone: it
does not depend on how the stream was cut into blocks, nor on when the buffer was compacted. Whether
a query is in the sample does not depend on its own length, so queries are drawn with equal
probability, and so are the rows of a long one: the mean over queries of the mean over their pairs
is estimated without bias.
"""

from __future__ import annotations

from copy import copy

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import EmptyDataError, ParameterError
from rankine.data.dataset import Dataset, concat
from rankine.data.splits import query_units
from rankine.kernels.random import stream_seed

#: Streams of a seed: the numbers of queries, and those of rows ("RESE").
QUERY_NUMBERS, ROW_NUMBERS = (0x52455345, 0), (0x52455345, 1)
#: A query may fill one in this many parts of the buffer, or more if there are fewer queries.
SHARES = 8


class Reservoir:
    """Draws whole queries at random until they fill ``rows`` rows, or one query's share more.

    Attributes
    ----------
    seen
        Number of rows that were added.
    """

    def __init__(self, rows: int, seed: int) -> None:
        if rows < 2 * SHARES:
            raise ParameterError(
                f"{rows} rows have no room for a few lists",
                parameter="buffer_rows",
                fix=f"Pass {2 * SHARES} at least, better 100,000",
            )
        self.rows = int(rows)
        self.seen = 0
        self._query_seed = stream_seed(seed, *QUERY_NUMBERS)
        self._row_seed = stream_seed(seed, *ROW_NUMBERS)
        self._parts: list[Dataset] = []
        self._row_numbers: list[NDArray[np.float64]] = []
        #: Queries with this number or a larger one are dropped.
        self._limit = np.inf

    def copy(self) -> Reservoir:
        """Return a reservoir to which rows can be added without changing this one."""
        other = copy(self)
        vars(other).update(_parts=self._parts.copy(), _row_numbers=self._row_numbers.copy())
        return other

    def add(self, block: Dataset) -> None:
        """Add the rows of a block."""
        row_numbers = query_units(np.arange(self.seen, self.seen + block.n_rows), self._row_seed)
        self.seen += block.n_rows
        queries = block.queries
        selected_queries = query_units(queries.ids, self._query_seed) < self._limit
        rows = np.flatnonzero(selected_queries[queries.codes])
        if len(rows) > 0:
            if len(rows) < block.n_rows:
                block = block.take(rows)
            self._parts.append(block)
            self._row_numbers.append(row_numbers[rows])
        # Compacting costs a sort of the buffer, so it waits until the buffer is twice too large.
        if sum(part.n_rows for part in self._parts) > 2 * self.rows:
            self._compact()

    def sample(self) -> tuple[Dataset, bool]:
        """Return the sample in the order of the stream, and whether a query may be cut."""
        if not self._parts:
            raise EmptyDataError("the stream has no rows", fix="Check where it comes from")
        data = self._compact()
        return data, bool(data.queries.sizes.max() >= self._rows_per_query(data))

    def _compact(self) -> Dataset:
        """Drop the rows that cannot be in the sample any more; return the others."""
        data, row_numbers = concat(self._parts), np.concatenate(self._row_numbers)
        queries = data.queries
        limit_per_query = self._rows_per_query(data)
        order = np.lexsort((row_numbers, queries.codes))
        starts = np.cumsum(queries.sizes) - queries.sizes
        rank_in_query = np.empty(data.n_rows, dtype=np.int64)
        rank_in_query[order] = np.arange(data.n_rows) - np.repeat(starts, queries.sizes)
        query_numbers = query_units(queries.ids, self._query_seed)
        by_number = np.argsort(query_numbers, kind="stable")
        sizes = np.minimum(queries.sizes, limit_per_query)[by_number]
        fits = np.cumsum(sizes) - sizes < self.rows
        if not fits.all():
            self._limit = float(query_numbers[by_number[np.argmin(fits)]])
        selected_queries = query_numbers < self._limit
        rows = np.flatnonzero((rank_in_query < limit_per_query) & selected_queries[queries.codes])
        if len(rows) < data.n_rows:
            data, row_numbers = data.take(rows), row_numbers[rows]
        self._parts, self._row_numbers = [data], [row_numbers]
        return data

    def _rows_per_query(self, data: Dataset) -> int:
        """Return the number of rows that one query may fill.

        No query is dropped before there are ``SHARES`` of them, and that many remain. So where
        there are fewer in the buffer, they are all queries of the stream so far.
        """
        return self.rows // min(data.queries.n_queries, SHARES)
