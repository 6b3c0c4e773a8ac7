"""Read a click log into memory: which items were shown where, and which of them were clicked.

A click log has one row per impression. Everything that needs clicks (propensities, labels from
clicks over expected clicks, evaluation on a log, interleaving) reads them with ``read_clicks``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.checks import reject_sets
from rankine.core.errors import EmptyDataError, ParameterError, SchemaError
from rankine.data.dataset import Dataset
from rankine.data.expressions import parse_expression
from rankine.data.open import scan
from rankine.data.sources import Source, is_table
from rankine.data.splits import PartPass, ScanPart
from rankine.logs.schema import log_sources
from rankine.transforms.categories import category_texts
from rankine.transforms.clicks import check_positions, row_positions

if TYPE_CHECKING:
    from rankine.distributed.partitions import PartitionedDataset

__all__ = ["ClickLog", "CoecLabel", "coec", "coec_formula", "encode", "read_clicks", "sum_by"]


@dataclass(frozen=True, eq=False)
class ClickLog:
    """Impressions in the order of the log.

    Attributes
    ----------
    lists
        Number of the list (the session) of each row, from 0 in order of appearance.
    label
        The label: 0 where nothing was clicked.
    position
        Position that the row was shown at, from 1; None when the log has none.
    item, search
        Numbers of the item and of the search (such as the query text), from 0; None without a
        column of them.
    columns
        Other columns that were requested.
    """

    lists: NDArray[np.int64]
    label: NDArray[np.float64]
    position: NDArray[np.int64] | None
    item: NDArray[np.int64] | None
    search: NDArray[np.int64] | None
    columns: Mapping[str, NDArray[Any]]

    @property
    def n_rows(self) -> int:
        """Number of impressions."""
        return len(self.lists)

    @cached_property
    def clicked(self) -> NDArray[np.bool_]:
        """Whether the label is positive."""
        return self.label > 0

    @cached_property
    def pair(self) -> NDArray[np.int64]:
        """Number of the search-item pair of each row; without searches, number of the item."""
        if self.item is None:
            raise ParameterError(
                "this needs the item that each row shows",
                parameter="item",
                fix="Name the column of items, such as 'item'",
            )
        if self.search is None:
            return self.item
        # Numbers of pairs, with gaps for pairs that do not occur, which encode closes.
        return encode(self.search * (int(self.item.max()) + 1) + self.item)[0]

    def take(self, rows: NDArray[Any]) -> ClickLog:
        """Select rows; their lists are numbered again."""

        def select(values: NDArray[Any] | None) -> Any:
            if values is None:
                return None
            return values[rows]

        return ClickLog(
            encode(self.lists[rows])[0],
            self.label[rows],
            select(self.position),
            select(self.item),
            select(self.search),
            {name: values[rows] for name, values in self.columns.items()},
        )


def read_clicks(
    log: Any,
    *,
    query: str = "session",
    label: str = "clicked",
    position: str | None = "position",
    item: str | None = None,
    search: str | None = None,
    columns: Sequence[str] = (),
    where: str | None = None,
) -> ClickLog:
    """Read a click log.

    Parameters
    ----------
    log
        Parquet or Arrow files; a pyarrow, pandas or polars table; a mapping of arrays; a
        ``Dataset`` or a stream of them (with their query, label, position and docid fields, and
        other columns by name); a simulated log; or a ``ClickLog``.
    query, label, position
        Column with the id of a row's list; formula of the label (``"clicked + 4*purchased"``);
        column of displayed positions, counted from 1.
    item, search
        Columns of the item and of what was searched for.
    columns
        Other columns to keep.
    where
        Condition that the rows of files and tables must meet, as for ``rankine.load``.
    """
    reject_sets(columns=columns)
    if isinstance(log, ClickLog):
        return log
    formula = parse_expression(label)
    named = [name for name in (query, position, item, search) if name is not None]
    names = list(dict.fromkeys([*named, *formula.columns, *columns]))
    values = _read_columns(log, names, query, label, position, item, search, where)
    if len(values[query]) == 0:
        raise _no_rows()
    positions = items = searches = None
    if position is not None:
        positions = check_positions(values[position])
    if item is not None:
        items, _ = encode(values[item], item)
    if search is not None:
        searches, _ = encode(values[search], search)
    return ClickLog(
        encode(values[query], query)[0],
        np.asarray(formula(values), dtype=np.float64),
        positions,
        items,
        searches,
        {name: np.asarray(values[name]) for name in columns},
    )


def coec(
    log: ClickLog, propensity: Sequence[float] = (), *, shrinkage: float | None = None
) -> NDArray[np.float64]:
    """Compute clicks over expected clicks of each row's search-item pair, without position bias.

    A pair with C clicks and E expected clicks has the label ``(C + a) / (E + a)``: 1 is average,
    and a pair that was rarely shown stays near 1. E sums the probability of a click at the
    positions where the pair was shown: the log's click rate there, or ``propensity`` times one
    common rate. The latter is better where good items are shown at the top, since the click rate at
    a position also depends on the items shown there.

    Parameters
    ----------
    log
        With positions and items.
    propensity
        By position, from ``estimate_propensity``; its last value applies to all later positions.
    shrinkage
        a, in expected clicks. None estimates the variance 1/a of pairs around the average by
        moments: ``1/a = (sum (C - E)^2 - sum E) / sum E^2``.

    Examples
    --------
    >>> log = read_clicks({"session": [1, 1, 2, 2], "position": [1, 2, 1, 2],
    ...                    "item": ["a", "b", "b", "a"], "clicked": [1, 0, 1, 1]}, item="item")
    >>> coec(log, shrinkage=1.0).round(3).tolist()
    [1.2, 0.8, 0.8, 1.2]
    """
    clicks = sum_by(log.pair, log.clicked)
    expected = sum_by(log.pair, expected_clicks(log, propensity))
    if shrinkage is None:
        # Clicks of an average pair have the variance E of a Poisson variable; the excess over it
        # is what pairs differ by. Little excess gives a large, but finite, shrinkage.
        variance = float(((clicks - expected) ** 2 - expected).sum() / (expected**2).sum())
        shrinkage = 1 / max(variance, 1e-6)
    if not shrinkage > 0:
        raise ParameterError(
            f"{shrinkage} is not positive", parameter="shrinkage", fix="Use 1.0, or leave it out"
        )
    return ((clicks + shrinkage) / (expected + shrinkage))[log.pair]


def coec_formula(label: str) -> str | None:
    """Return the formula of clicks in ``"coec"`` or ``"coec(FORMULA)"``; None for other labels.

    Examples
    --------
    >>> coec_formula("coec"), coec_formula("coec(clicked + purchased)"), coec_formula("clicked")
    ('clicked', 'clicked + purchased', None)
    """
    text = label.strip()
    if text == "coec":
        return "clicked"
    inside = text.removeprefix("coec(").removesuffix(")")
    if text != f"coec({inside})":
        return None
    return inside


class CoecLabel:
    """A label formula that gives every row the ``coec`` of its search-item pair.

    Parameters
    ----------
    path, query, position, item, search, where
        The log, as for ``read_clicks``.
    formula
        A row counts as clicked where this is positive.
    propensity
        Passed to ``coec``.
    """

    def __init__(
        self,
        path: Any,
        formula: str,
        propensity: Sequence[float] = (),
        *,
        query: str,
        position: str,
        item: str,
        search: str | None = None,
        where: str | None = None,
    ) -> None:
        self.columns: tuple[str, ...] = (item,)
        if search is not None:
            self.columns = (item, search)
        log = read_clicks(
            path,
            query=query,
            label=formula,
            position=position,
            item=item,
            search=search,
            columns=self.columns,
            where=where,
        )
        # One row of each pair is enough, since all of its rows have the same label.
        first = np.unique(log.pair, return_index=True)[1]
        pairs = self._pairs({name: values[first] for name, values in log.columns.items()})
        labels = coec(log, propensity)[first]
        self._label_of_pair = dict(zip(pairs, labels.tolist(), strict=True))
        #: Includes a digest of the labels, because this text identifies a formula in cache keys.
        self.text = f"coec({formula}) {sha256(labels.tobytes()).hexdigest()[:16]}"

    def __call__(self, columns: Mapping[str, Any]) -> NDArray[np.float64]:
        """Return the labels of the rows of a block."""
        labels = [self._label_of_pair[pair] for pair in self._pairs(columns)]
        return np.array(labels, dtype=np.float64)

    def relabelled(self, data: Dataset) -> Dataset:
        """Return the rows with these labels."""
        labels = self({**data.columns, "docid": data.docid})
        return replace(data, y=labels, query_index=data.queries)

    def _pairs(self, columns: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        values = [category_texts(columns[name], name) for name in self.columns]
        return list(zip(*values, strict=True))


def position_propensity(propensity: Sequence[float]) -> NDArray[np.float64]:
    """Return propensities by position; raise if they differ by context."""
    if context := getattr(propensity, "context", ""):
        raise ParameterError(
            f"must be one list of propensities, not one for each {context}",
            parameter="propensity",
            fix=f"Estimate it without a context, or treat the lists of each {context} separately",
        )
    return np.asarray(propensity, dtype=np.float64)


def relabelled(source: Any, label: CoecLabel) -> Any:
    """Return rows in memory, or a stream, with other labels; a stream can still be partitioned."""
    if isinstance(source, Dataset):
        return label.relabelled(source)
    if hasattr(source, "relabelled"):
        return source.relabelled(label)
    return _RelabelledScan(source, label)


class _RelabelledScan(ScanPart):
    """All queries of a stream, with other labels."""

    def __init__(self, source: Any, label: CoecLabel) -> None:
        super().__init__(source, lambda: PartPass(source, lambda block: np.arange(block.n_queries)))
        self._label = label

    def blocks(self, block_rows: int | None = None) -> Iterator[Dataset]:
        """Read the stream once."""
        return map(self._label.relabelled, super().blocks(block_rows))

    def to_partitions(self, **options: Any) -> PartitionedDataset:
        """Cut the rows into partitions; see ``rankine.distributed.scan``."""
        from rankine.distributed.partitions import scan as scan_partitions

        parts = scan_partitions(self._scan, **options)
        partitions = tuple(replace(partition, label=self._label) for partition in parts.partitions)
        return replace(parts, partitions=partitions)


def expected_clicks(log: ClickLog, propensity: Sequence[float] = ()) -> NDArray[np.float64]:
    """Return the click probability of an average item at the position of each row.

    It sums to the number of clicks.
    """
    position = row_positions(log) - 1
    theta = position_propensity(propensity)
    if not log.clicked.any():
        raise SchemaError(
            "no row of the log is clicked",
            parameter="label",
            fix="Check the formula: clicked rows have a positive label",
        )
    if len(theta) == 0:
        clicks = sum_by(position, log.clicked)
        return (clicks / np.maximum(np.bincount(position), 1))[position]
    # Examination probabilities give the ratios between positions; the clicks give the scale.
    examination = theta[np.minimum(position, len(theta) - 1)]
    return examination * (log.clicked.sum() / examination.sum())


def encode(values: Any, name: str = "") -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Number values from 0 in order of first appearance; return the numbers and distinct values.

    Examples
    --------
    >>> codes, distinct = encode(["b", "a", "b"])
    >>> codes.tolist(), distinct.tolist()
    ([0, 1, 0], ['b', 'a'])
    """
    import pyarrow as pa

    # Arrow numbers text several times faster than numpy.unique, which sorts it.
    array = values
    if not isinstance(array, (pa.Array, pa.ChunkedArray)):
        array = pa.array(array)
    _reject_nulls(array, name)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    codes = array.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, array.dictionary.to_numpy(zero_copy_only=False)


def sum_by(number: NDArray[np.int64], values: NDArray[Any], size: int = 0) -> NDArray[np.float64]:
    """Sum values by their numbers, for numbers from 0 to at least ``size`` - 1."""
    sums: Any = np.bincount(number, weights=values, minlength=size)
    return sums


def _read_columns(
    log: Any,
    names: list[str],
    query: str,
    label: str,
    position: str | None,
    item: str | None,
    search: str | None,
    where: str | None,
) -> dict[str, Any]:
    """Read columns from any form of a log."""
    parts = log if isinstance(log, (list, tuple)) and log else [log]
    if _are_paths(parts) or (where is not None and is_table(log)):
        # The reader returns these two as fields of the blocks, all others as columns.
        columns = tuple(name for name in names if name not in {query, position})
        options: dict[str, Any] = {}
        if position is not None:
            options["position"] = position
        log_sources(log)
        log = scan(
            log,
            query=query,
            label=None,
            features=(),
            columns=columns,
            categories=tuple(name for name in (item, search) if name is not None),
            where=where,
            **options,
        )
        return _read_blocks(log, {query: "qid", position: "position"}, columns)
    if where is not None:
        raise ParameterError(
            "applies to files and tables, and these rows are read already",
            parameter="where",
            fix="Leave it out, or choose the rows before",
        )
    if isinstance(log, Dataset):
        log = [log]
    elif hasattr(log, "catalogue"):  # a simulated log
        log = log.to_table()
    if isinstance(log, Mapping):
        return {name: _get_column(log, list(log), name) for name in names}
    has_columns = hasattr(log, "schema") or hasattr(log, "columns")
    if hasattr(log, "blocks") or (isinstance(log, Iterable) and not has_columns):
        fields = {query: "qid", label: "y", position: "position", item: "docid"}
        return _read_blocks(log, fields, [name for name in names if name not in fields])
    table = _to_arrow(log)
    return {name: _to_numpy(_get_column(table, table.column_names, name), name) for name in names}


def _are_paths(parts: Sequence[Any]) -> bool:
    return all(isinstance(part, (str, Path, Source)) for part in parts)


def _read_blocks(
    blocks: Iterable[Dataset], fields: Mapping[str | None, str], columns: Sequence[str]
) -> dict[str, Any]:
    """Read columns of datasets; ``fields`` maps names to fields, if no column has the name."""
    parts: dict[str, list[Any]] = {name: [] for name in (*fields, *columns) if name is not None}
    for block in blocks:
        for name, values in parts.items():
            if name not in fields or name in block.columns:
                values.append(_get_column(block.columns, list(block.columns), name))
                continue
            field = getattr(block, fields[name])
            if field is None:
                raise SchemaError(
                    f"the data has no {fields[name]}",
                    fix=f"Create the Dataset with {fields[name]}, or name one of its columns",
                )
            values.append(field)
    if not any(parts.values()):
        raise _no_rows()
    return {name: np.concatenate(values) for name, values in parts.items()}


def _no_rows() -> EmptyDataError:
    return EmptyDataError("the log has no rows", fix="Check the path and any filter on it")


def _to_arrow(frame: Any) -> Any:
    import pyarrow as pa

    if isinstance(frame, pa.Table):
        return frame
    if hasattr(frame, "__arrow_c_stream__"):
        return pa.table(frame)
    raise SchemaError(
        f"cannot read a click log from an object of type {type(frame).__name__}",
        parameter="log",
        fix="Pass files, a table, a mapping of arrays or a Dataset",
    )


def _get_column(table: Any, names: Sequence[str], name: str) -> Any:
    if name not in names:
        raise SchemaError(
            f"there is no column {name!r}", fix=f"The columns are: {', '.join(map(str, names))}"
        )
    return table[name]


def _to_numpy(column: Any, name: str) -> Any:
    """Convert a numeric Arrow column; text stays in Arrow, which encodes it faster."""
    import pyarrow as pa

    _reject_nulls(column, name)
    if pa.types.is_primitive(column.type):
        return column.to_numpy()
    return column


def _reject_nulls(column: Any, name: str) -> None:
    if column.null_count:
        raise SchemaError(
            f"{column.null_count} rows have no value",
            fix="Fill these values, or drop the rows",
            column=name or None,
        )
