"""Summarise a data file: rows, lists, columns with types, missing values, labels and examples.

A file is read once, in blocks, so that its size does not matter. Of a column with many values, only
the first ones are counted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rankine.core.safe_text import printable
from rankine.data.options import ReadOptions
from rankine.data.selection import select_sources
from rankine.data.sources import Source

if TYPE_CHECKING:
    import pyarrow as pa

    from rankine.data.dataset import Dataset

#: Distinct values of a column that are counted; a column with more has "more than" this number.
MAX_DISTINCT = 10_000
_N_EXAMPLES = 3


@dataclass
class ColumnOverview:
    """What a column holds.

    Attributes
    ----------
    type
        Type of the values, as the file names it; several where files differ.
    missing
        Rows without a value, NaN included.
    low, high
        Smallest and largest number; None for other values.
    counts
        Rows of each of the first ``MAX_DISTINCT`` values; empty for lists of values.
    is_complete
        Whether ``counts`` has all values.
    """

    name: str
    type: str = ""
    missing: int = 0
    low: float | None = None
    high: float | None = None
    counts: Counter[Any] = field(default_factory=Counter)
    is_complete: bool = True

    def add(self, values: Iterable[Any], counts: Iterable[int]) -> None:
        """Count distinct values."""
        for value, count in zip(values, counts, strict=True):
            if value in self.counts or len(self.counts) < MAX_DISTINCT:
                self.counts[value] += count
            else:
                self.is_complete = False

    def add_type(self, name: str) -> None:
        """Note the type that a file names."""
        types = self.type.split(" or ") if self.type else []
        if name not in types:
            self.type = " or ".join([*types, name])

    def extend(self, low: float | None, high: float | None) -> None:
        """Extend the range of numbers."""
        if low is not None and math.isfinite(low):
            self.low = low if self.low is None else min(self.low, low)
        if high is not None and math.isfinite(high):
            self.high = high if self.high is None else max(self.high, high)

    @property
    def examples(self) -> list[str]:
        """The most frequent values as text."""
        return [printable(_text(value), 40) for value, _ in self.counts.most_common(_N_EXAMPLES)]

    def to_dict(self) -> dict[str, Any]:
        """Return data for JSON."""
        return {
            "name": self.name,
            "type": self.type,
            "missing": self.missing,
            "distinct": len(self.counts),
            "distinct_is_exact": self.is_complete,
            "low": self.low,
            "high": self.high,
            "examples": self.examples,
        }


@dataclass
class Overview:
    """What a data file holds.

    Attributes
    ----------
    lists, longest, contiguous
        Number of lists, rows of the longest, and whether the rows of every list are together; None
        if no column has the ids of lists.
    labels
        Rows of each label, if the label is known.
    read_counts
        Rows and files that do not meet the condition on rows.
    """

    rows: int = 0
    columns: list[ColumnOverview] = field(default_factory=list)
    lists: int | None = None
    longest: int | None = None
    contiguous: bool | None = None
    labels: dict[str, int] = field(default_factory=dict)
    read_counts: dict[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return data for JSON."""
        columns = [column.to_dict() for column in self.columns]
        return {**vars(self), "columns": columns}


def table_overview(
    sources: list[Source], query: str | None, label: str | None, where: str | None = None
) -> Overview:
    """Summarise Parquet, Arrow, CSV or JSON files with the same columns.

    Parameters
    ----------
    query, label
        Columns of the ids of lists and of labels; None where there is none.
    where
        Condition that rows must meet.
    """
    from rankine.data.readers.tables import open_table

    options = ReadOptions.make(where=where, label=None, query=None, features=())
    sources, n_excluded = select_sources(sources, options)
    overview = Overview(read_counts={"excluded_files": n_excluded, "excluded_rows": 0})
    columns: dict[str, ColumnOverview] = {}
    lists = _ListCounter()
    for source in sources:
        with open_table(source, options) as table:
            for column in table.schema:
                overview_column = columns.setdefault(column.name, ColumnOverview(column.name))
                overview_column.add_type(str(column.type))
            for batch, location in table.batches(list(table.schema.names)):
                overview.rows += batch.num_rows
                overview.read_counts["excluded_rows"] += location.n_excluded
                for name, values in zip(batch.schema.names, batch.columns, strict=True):
                    _add_values(columns[name], values)
                    if name == query:
                        lists.add(values.to_pylist())
    overview.columns = list(columns.values())
    if query in columns:
        lists.finish(overview)
    if label in columns:
        counts = columns[label].counts
        overview.labels = {_text(value): counts[value] for value in sorted(counts, key=_order)}
    return overview


def _add_values(column: ColumnOverview, values: pa.Array) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    column.missing += values.null_count
    values = values.drop_null()
    if pa.types.is_floating(values.type):
        is_nan = pc.is_nan(values)
        column.missing += pc.sum(is_nan).as_py() or 0
        values = values.filter(pc.invert(is_nan))
    if pa.types.is_nested(values.type):
        return
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        bounds = pc.min_max(values).as_py()
        column.extend(bounds["min"], bounds["max"])
    counted = pc.value_counts(values)
    column.add(counted.field("values").to_pylist(), counted.field("counts").to_pylist())


class _ListCounter:
    """Counts lists from the ids of rows in file order."""

    def __init__(self) -> None:
        self.rows: Counter[Any] = Counter()
        self.runs = 0
        self.last: Any = object()

    def add(self, ids: list[Any]) -> None:
        self.rows.update(ids)
        for query in ids:
            if query != self.last:
                self.runs += 1
                self.last = query

    def finish(self, overview: Overview) -> None:
        overview.lists = len(self.rows)
        overview.longest = max(self.rows.values(), default=0)
        overview.contiguous = self.runs == len(self.rows)


def dataset_overview(blocks: Iterable[Dataset], base: int = 1) -> Overview:
    """Summarise blocks of whole lists, such as those of a LETOR file."""
    overview = Overview(lists=0, longest=0, contiguous=True)
    labels: Counter[float] = Counter()
    columns: list[ColumnOverview] = []
    for block in blocks:
        overview.rows += block.n_rows
        overview.lists = (overview.lists or 0) + block.n_queries
        longest = int(np.diff(block.queries.starts).max(initial=0))
        overview.longest = max(overview.longest or 0, longest)
        labels.update(np.asarray(block.y).tolist())
        names = block.feature_names or [str(j + base) for j in range(block.n_features)]
        columns += [ColumnOverview(name, "number") for name in names[len(columns) :]]
        for j, column in enumerate(columns[: block.n_features]):
            values = block.X[:, [j]]
            if hasattr(values, "toarray"):
                values = values.toarray()
            values = np.asarray(values, dtype=np.float64).ravel()
            present = values[~np.isnan(values)]
            column.missing += len(values) - len(present)
            if len(present):
                column.extend(float(present.min()), float(present.max()))
            distinct, counts = np.unique(present, return_counts=True)
            column.add(distinct.tolist(), counts.tolist())
    overview.columns = columns
    overview.labels = {_text(value): labels[value] for value in sorted(labels)}
    return overview


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _order(value: Any) -> tuple[bool, Any]:
    """Sort numbers as numbers and everything else as text after them."""
    is_number = isinstance(value, int | float)
    return (not is_number, value if is_number else str(value))
