"""A partition as a task: rows of a file, and how a file is cut into ranges of whole queries.

A Parquet footer tells the rows, stored items and query bounds of every row group. Cuts are put
between row groups, where one is not too large; a cut is known to be clean when the query ids of
its two neighbours do not overlap. Only where the footer cannot prove it the query column around
the cut is read, and the cut moves to the next query. Nothing here depends on the cluster, so the
same files always give the same partitions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ChangedDataError, DataError, EmptyDataError
from rankine.data.dataset import Dataset
from rankine.data.formats import choose_format, reader_of
from rankine.data.open import check_names, read_source
from rankine.data.options import ReadOptions
from rankine.data.readers.parquet_guard import Chunk, RowGroup
from rankine.data.readers.tables import ParquetRows, open_parquet
from rankine.data.sources import Source

#: Bytes of a row besides its features: label, query id, weight, index of the pairs.
ROW_BYTES = 100
#: Bytes of a value of a further column, and of the feature that it becomes in a raw log.
COLUMN_BYTES = 32
#: Bytes of an item of the sparse layout, half of an index and a value: it has two list columns.
ITEM_BYTES = 6


@dataclass(frozen=True)
class Partition:
    """Rows of a file, described well enough for any machine that sees the file."""

    #: Place among all partitions; sums are taken in this order.
    number: int
    file: str
    #: First row and the row after the last; None for the whole file.
    rows: tuple[int, int] | None
    #: Size and time of last change of the file when it was cut.
    state: tuple[int, int]
    #: About the memory it takes.
    nbytes: int
    options: ReadOptions
    feature_names: tuple[str, ...] | None
    #: How the columns of a raw log become features, or None.
    encoding: Any = None
    #: What gives the rows other labels, or None.
    label: Any = None

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for the same rows read in the same way."""
        how = None if self.encoding is None else self.encoding.key
        label = None if self.label is None else self.label.text
        return self.file, self.rows, self.state, repr(self.options), how, label

    def load(self) -> Dataset:
        """Read the rows; a file that is not what it was when it was cut is an error."""
        if file_state(self.file) != self.state:
            raise ChangedDataError(
                "the file changed since it was cut into partitions",
                file=self.file,
                fix="Scan again once nobody writes to it",
            )
        source = Source(self.file, Path(self.file))
        if self.rows is None:
            data = read_source(source, self.options)
            if not data.n_rows:
                raise DataError("no rows", file=self.file, fix="Leave the file out")
        else:
            reader = reader_of(choose_format(source, self.options.format, source.head()))
            data = reader.read(source, self.options, self.rows)
        data = replace(data, sources=(self.file,))
        if self.encoding is not None:
            return self.encoding.encode(data)
        if self.label is not None:
            data = self.label.relabelled(data)
        return check_names(data, self.feature_names) if data.feature_names is None else data

    @property
    def name(self) -> str:
        """The partition in words, for errors."""
        where = "" if self.rows is None else f", rows {self.rows[0] + 1} to {self.rows[1]}"
        return f"partition {self.number} ({self.file}{where})"


def file_state(file: str) -> tuple[int, int]:
    """Size and time of last change; a file that cannot be seen is an error."""
    try:
        seen = Path(file).stat()
    except OSError as error:
        raise DataError(
            f"cannot be opened: {error.strerror}",
            file=file,
            fix="Every worker must see the files under the same path (a shared file system)",
        ) from error
    return seen.st_size, seen.st_mtime_ns


class FileCuts(NamedTuple):
    """How a file is cut."""

    #: First row and the row after the last of each part; None for the whole file.
    ranges: list[tuple[int, int] | None]
    #: About the memory that each part takes.
    nbytes: list[int]
    n_features: int
    feature_names: tuple[str, ...] | None
    #: Row groups whose query ids had to be read.
    peeked: int


def cut_file(source: Source, options: ReadOptions, partition_bytes: int) -> FileCuts:
    """Cut one file; files other than Parquet stay whole."""
    form = choose_format(source, options.format, source.head())
    reader = reader_of(form)
    width = options.n_features
    if width is None:
        width = int(reader.measure(source, options))
    if form.name != "parquet":
        find = getattr(reader, "feature_names", None)
        names = None if find is None else find(source, options)
        return FileCuts([None], [source.size or 0], width, names, 0)
    with open_parquet(source, options) as file:
        cuts = _Cutter(file, partition_bytes)
        return FileCuts(cuts.ranges(), cuts.nbytes(), width, file.plan.feature_names, cuts.peeked)


class _Cutter:
    def __init__(self, file: ParquetRows, partition_bytes: int) -> None:
        self.file = file
        self.groups = [group for group in file.bounded_groups() if group.n_rows]
        self.first_row = np.concatenate([[0], np.cumsum([g.n_rows for g in self.groups])])
        if self.first_row[-1] == 0:
            raise EmptyDataError("no rows", file=file.name, fix="Leave the file out")
        self.sizes = [self._bytes(group) for group in self.groups]
        self.peeked = 0
        self._ids: tuple[int, NDArray[Any]] | None = None
        self.rows = self._cut(partition_bytes)

    def ranges(self) -> list[tuple[int, int] | None]:
        return [(int(a), int(b)) for a, b in zip(self.rows[:-1], self.rows[1:], strict=True)]

    def nbytes(self) -> list[int]:
        """Bytes of each range, in proportion to its part of the row groups."""
        total = np.concatenate([[0], np.cumsum(self.sizes)])
        at = np.interp(self.rows, self.first_row, total)
        return [int(size) for size in np.diff(at)]

    def _bytes(self, group: RowGroup) -> int:
        plan = self.file.plan
        if not plan.sparse:
            columns = len(plan.features) * plan.dtype.itemsize + len(plan.extra) * COLUMN_BYTES
            return group.n_rows * (ROW_BYTES + columns)
        lists = [c.items for c in group.chunks if c.path[0] in plan.features]
        return group.n_rows * ROW_BYTES + sum(lists) * ITEM_BYTES

    def _cut(self, partition_bytes: int) -> list[int]:
        """Rows where parts start, and the end."""
        wanted: list[int] = []
        held = 0
        for number, size in enumerate(self.sizes):
            if held and held + size > partition_bytes:
                wanted.append(int(self.first_row[number]))
                held = 0
            held += size
            n_parts = size // partition_bytes  # of a row group that holds several
            start, n_rows = int(self.first_row[number]), self.groups[number].n_rows
            wanted += [start + n_rows * k // n_parts for k in range(1, n_parts)]
        end = int(self.first_row[-1])
        rows = [0]
        for row in wanted:
            if row > rows[-1] and (clean := self._next_query(row)) < end:
                rows.append(clean)
        return [*rows, end]

    def _next_query(self, row: int) -> int:
        """The first row at or after ``row`` that starts a query."""
        last = row - 1  # of the part before
        group = int(np.searchsorted(self.first_row, last, side="right")) - 1
        if row == self.first_row[group + 1] and self._disjoint(group, group + 1):
            return row
        before = self._query_ids(group)[last - self.first_row[group]]
        for number in range(group, len(self.groups)):
            start = max(last, int(self.first_row[number]))
            others = self._query_ids(number)[start - self.first_row[number] :] != before
            if others.any():
                return start + int(others.argmax())
        return int(self.first_row[-1])

    def _disjoint(self, left: int, right: int) -> bool:
        """Whether the footer proves that two row groups share no query."""
        a, b = self._bounds(left), self._bounds(right)
        return a is not None and b is not None and (a[1] < b[0] or b[1] < a[0])

    def _bounds(self, number: int) -> tuple[Any, Any] | None:
        """Smallest and largest id of a row group; texts are bounds even when they were cut."""
        chunk = self._query_chunk(self.groups[number])
        if chunk is None or not chunk.least or not chunk.most:
            return None
        if self.file.plan.query in self.file.texts:
            return chunk.least, chunk.most
        low, high = (int.from_bytes(v, "little", signed=True) for v in (chunk.least, chunk.most))
        return (low, high) if low <= high else None

    def _query_chunk(self, group: RowGroup) -> Chunk | None:
        return next((c for c in group.chunks if c.path == (self.file.plan.query,)), None)

    def _query_ids(self, number: int) -> NDArray[Any]:
        """Query ids of one row group, kept until the next is asked for."""
        if self._ids is None or self._ids[0] != number:
            self.peeked += 1
            span = (int(self.first_row[number]), int(self.first_row[number + 1]))
            column = str(self.file.plan.query)
            parts = [
                batch.column(0).to_numpy(zero_copy_only=False)
                for batch, _ in self.file.batches([column], span)
            ]
            self._ids = number, np.concatenate(parts)
        return self._ids[1]
