"""Describe a partition as rows of a file, and cut a file into partitions of whole queries.

A Parquet footer contains the number of rows, the stored items and the query bounds of every row
group. Cuts are placed between row groups, or inside one that is too large; a cut is clean when the
query ids of its two neighbours do not overlap. Only where the footer cannot prove this, the query
column around the cut is read, and the cut moves to the next query. Nothing here depends on the
cluster, so the same files always give the same partitions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ChangedDataError, DataError, EmptyDataError
from rankine.data.dataset import Dataset
from rankine.data.formats import choose_format, reader_of
from rankine.data.open import check_names, read_source
from rankine.data.options import ReadOptions
from rankine.data.readers.parquet_guard import RowGroup
from rankine.data.readers.tables import ArrowRows, ParquetRows, open_parquet, open_table
from rankine.data.sources import Source

#: Bytes of a row in addition to its features: label, query id, weight, index of the pairs.
ROW_BYTES = 100
#: Bytes of a value of a further column, and of the feature that it becomes in a raw log.
COLUMN_BYTES = 32
#: Bytes of an item of the sparse layout, half of an index and a value: it has two list columns.
ITEM_BYTES = 6


@dataclass(frozen=True)
class Partition:
    """Rows of a file, described so that any machine with the file can read them."""

    #: Position among all partitions; sums are taken in this order.
    number: int
    source: Source
    #: First row and the row after the last; None for the whole file.
    rows: tuple[int, int] | None
    #: Size and time of last change of the file when it was cut.
    state: tuple[int, int]
    #: Estimated memory.
    nbytes: int
    options: ReadOptions
    feature_names: tuple[str, ...] | None
    #: How the columns of a raw log become features, or None.
    encoding: Any = None
    #: Formula that gives the rows other labels, or None.
    label: Any = None

    @property
    def file(self) -> str:
        """Name of the file."""
        return self.source.name

    @property
    def key(self) -> tuple[Any, ...]:
        """Value that is equal for the same rows, read in the same way."""
        encoding = label = None
        if self.encoding is not None:
            encoding = self.encoding.key
        if self.label is not None:
            label = self.label.text
        return self.file, self.rows, self.state, repr(self.options), encoding, label

    def load(self) -> Dataset:
        """Read the rows; raise if the file has changed since it was cut."""
        if file_state(self.source) != self.state:
            raise ChangedDataError(
                "the file changed since it was cut into partitions",
                file=self.file,
                fix="Scan again when no process writes to it",
            )
        # On another machine the same file has another stamp.
        source = replace(self.source, stamp=None)
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
        if data.feature_names is not None:
            return data
        return check_names(data, self.feature_names)

    @property
    def name(self) -> str:
        """Description for error messages."""
        rows = ""
        if self.rows is not None:
            rows = f", rows {self.rows[0] + 1} to {self.rows[1]}"
        return f"partition {self.number} ({self.file}{rows})"


def file_state(source: Source) -> tuple[int, int]:
    """Return the size and time of last change of a file; raise if it cannot be opened."""
    try:
        stamp = source.current_stamp()
    except OSError as error:
        raise DataError(
            f"cannot be opened: {error.strerror or error}",
            file=source.name,
            fix="Every worker must have the files under the same path (a shared file system)",
        ) from error
    if stamp is None:
        raise DataError("is not a file", file=source.name, fix="Save it to a file first")
    return stamp.size, stamp.mtime


class FileCuts(NamedTuple):
    """How a file is cut."""

    #: First row and the row after the last of each part; None for the whole file.
    ranges: list[tuple[int, int] | None]
    #: Estimated memory of each part.
    nbytes: list[int]
    n_features: int
    feature_names: tuple[str, ...] | None
    #: Number of row groups whose query ids had to be read.
    n_groups_read: int
    #: Rows that do not meet the condition of the options; parts without other rows are left out.
    n_excluded: int = 0


def cut_file(source: Source, options: ReadOptions, partition_bytes: int) -> FileCuts:
    """Cut one file; files other than Parquet stay whole."""
    form = choose_format(source, options.format, source.head())
    reader = reader_of(form)
    n_features = options.n_features
    if n_features is None:
        n_features = int(reader.measure(source, options))
    if form.name != "parquet":
        read_names = getattr(reader, "feature_names", None)
        names = None if read_names is None else read_names(source, options)
        cuts = FileCuts([None], [source.size or 0], n_features, names, 0)
        if options.condition is None:
            return cuts
        with open_table(source, options) as table:
            return _leave_out_empty(cuts, table, list(options.condition.columns))
    with open_parquet(source, options) as file:
        cutter = _Cutter(file, partition_bytes)
        names = file.plan.feature_names
        cuts = FileCuts(cutter.ranges(), cutter.nbytes(), n_features, names, cutter.n_groups_read)
        if options.condition is None:
            return cuts
        return _leave_out_empty(cuts, file, list(options.condition.columns))


def _leave_out_empty(
    cuts: FileCuts, table: ParquetRows | ArrowRows, columns: list[str]
) -> FileCuts:
    """Leave out parts without rows that meet the condition on some columns, and count rows."""
    ranges, nbytes = [], []
    n_excluded = 0
    for span, size in zip(cuts.ranges, cuts.nbytes, strict=True):
        n_rows = 0
        for batch, location in table.batches(columns, span):
            n_rows += batch.num_rows
            n_excluded += location.n_excluded
        if n_rows:
            ranges.append(span)
            nbytes.append(size)
    return cuts._replace(ranges=ranges, nbytes=nbytes, n_excluded=n_excluded)


class _Cutter:
    """Places the cuts of one Parquet file."""

    def __init__(self, file: ParquetRows, partition_bytes: int) -> None:
        self.file = file
        self.groups = [group for group in file.groups if group.n_rows]
        self.first_row = np.concatenate([[0], np.cumsum([g.n_rows for g in self.groups])])
        if self.first_row[-1] == 0:
            raise EmptyDataError("no rows", file=file.name, fix="Leave the file out")
        self.sizes = [self._estimate_bytes(group) for group in self.groups]
        self.n_groups_read = 0
        #: Number and query ids of the row group that was read last.
        self._last_ids: tuple[int, NDArray[Any]] | None = None
        self.cuts = self._find_cuts(partition_bytes)

    def ranges(self) -> list[tuple[int, int] | None]:
        """Return the first row and the row after the last of each part."""
        return [(int(a), int(b)) for a, b in zip(self.cuts[:-1], self.cuts[1:], strict=True)]

    def nbytes(self) -> list[int]:
        """Estimate the bytes of each part, in proportion to its share of the row groups."""
        bytes_before = np.concatenate([[0], np.cumsum(self.sizes)])
        return [int(n) for n in np.diff(np.interp(self.cuts, self.first_row, bytes_before))]

    def _estimate_bytes(self, group: RowGroup) -> int:
        plan = self.file.plan
        if not plan.sparse:
            columns = len(plan.features) * plan.dtype.itemsize + len(plan.extra) * COLUMN_BYTES
            return group.n_rows * (ROW_BYTES + columns)
        n_items = sum(c.n_values for c in group.chunks if c.path[0] in plan.features)
        return group.n_rows * ROW_BYTES + n_items * ITEM_BYTES

    def _find_cuts(self, partition_bytes: int) -> list[int]:
        """Return the rows where parts start, and the end."""
        candidates: list[int] = []
        pending = 0  # bytes since the last candidate
        for number, size in enumerate(self.sizes):
            start = int(self.first_row[number])
            if pending and pending + size > partition_bytes:
                candidates.append(start)
                pending = 0
            pending += size
            n_parts = size // partition_bytes  # of a row group that is larger than a partition
            n_rows = self.groups[number].n_rows
            candidates += [start + n_rows * k // n_parts for k in range(1, n_parts)]
        end = int(self.first_row[-1])
        cuts = [0]
        for row in candidates:
            if row > cuts[-1]:
                clean = self._next_query(row)
                if clean < end:
                    cuts.append(clean)
        return [*cuts, end]

    def _next_query(self, row: int) -> int:
        """Return the first row at or after ``row`` that starts a query."""
        last = row - 1  # last row of the previous part
        group = int(np.searchsorted(self.first_row, last, side="right")) - 1
        if row == self.first_row[group + 1] and self._disjoint(group, group + 1):
            return row
        query = self._query_ids(group)[last - self.first_row[group]]
        for number in range(group, len(self.groups)):
            start = max(last, int(self.first_row[number]))
            differs = self._query_ids(number)[start - self.first_row[number] :] != query
            if differs.any():
                return start + int(differs.argmax())
        return int(self.first_row[-1])

    def _disjoint(self, left: int, right: int) -> bool:
        """Whether the footer proves that two row groups share no query."""
        a, b = self._bounds(left), self._bounds(right)
        return a is not None and b is not None and (a[1] < b[0] or b[1] < a[0])

    def _bounds(self, number: int) -> tuple[Any, Any] | None:
        """Return the minimum and maximum query id of a row group.

        String statistics may be truncated and are then only bounds.
        """
        return self.file.value_bounds(self.groups[number], str(self.file.plan.query))

    def _query_ids(self, number: int) -> NDArray[Any]:
        """Return the query ids of a row group; the last row group that was read is cached."""
        if self._last_ids is None or self._last_ids[0] != number:
            self.n_groups_read += 1
            rows = (int(self.first_row[number]), int(self.first_row[number + 1]))
            column = str(self.file.plan.query)
            parts = [
                batch.column(0).to_numpy(zero_copy_only=False)
                for batch, _ in self.file.stored_batches([column], rows)
            ]
            self._last_ids = number, np.concatenate(parts)
        return self._last_ids[1]
