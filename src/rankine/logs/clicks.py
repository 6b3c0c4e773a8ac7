"""A click log in memory: who was shown what, where, and what was clicked.

One row per impression. Everything that reads clicks (propensities, labels from clicks over expected
clicks, judging on a log, interleaving) reads them through ``read_clicks``.
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
from rankine.data.splits import ScanPart
from rankine.logs.schema import log_sources
from rankine.transforms.clicks import check_positions

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
        Where the row was shown, from 1; None when the log does not say.
    item, search
        Numbers of the item and of the search (what was asked for), from 0; None without columns.
    columns
        Further columns that were asked for.
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
        """Number of the search-item pair of each row; of the item where no search is known."""
        if self.item is None:
            raise ParameterError(
                "this needs the item that each row shows", fix="Name its column (item='item')"
            )
        if self.search is None:
            return self.item
        return encode(self.search * (int(self.item.max()) + 1) + self.item)[0]

    def required_positions(self) -> NDArray[np.int64]:
        """The positions, or an error when the log has none."""
        if self.position is None:
            raise SchemaError(
                "this needs the position that each row was shown at",
                fix="Give a position column (position='position')",
            )
        return self.position

    def take(self, rows: NDArray[Any]) -> ClickLog:
        """Some rows, their lists numbered anew."""

        def part(values: NDArray[Any] | None) -> Any:
            return None if values is None else values[rows]

        return ClickLog(
            encode(self.lists[rows])[0],
            self.label[rows],
            part(self.position),
            part(self.item),
            part(self.search),
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
) -> ClickLog:
    """Read a click log.

    Parameters
    ----------
    log
        Parquet or Arrow files; a pyarrow, pandas or polars table; a mapping of arrays; a
        ``Dataset`` or a stream of them (its own query, label, position and docid columns are used,
        others by name); a simulated log; or a ``ClickLog``.
    query, label, position
        Column that names the list of a row; formula of the label (``"clicked + 4*purchased"``);
        column of displayed positions, counted from 1.
    item, search
        Columns of the item and of what was searched for.
    columns
        Further columns to keep.
    """
    reject_sets(columns=columns)
    if isinstance(log, ClickLog):
        return log
    formula = parse_expression(label)
    wanted = [name for name in (query, position, item, search) if name is not None]
    wanted = list(dict.fromkeys([*wanted, *formula.columns, *columns]))
    found = _columns(log, wanted, query, label, position, item)
    n_rows = len(found[query])
    if n_rows == 0:
        raise EmptyDataError("the log has no rows", fix="Check the path")
    return ClickLog(
        encode(found[query], query)[0],
        np.asarray(formula(found), dtype=np.float64),
        None if position is None else check_positions(found[position]),
        None if item is None else encode(found[item], item)[0],
        None if search is None else encode(found[search], search)[0],
        {name: np.asarray(found[name]) for name in columns},
    )


def coec(
    log: ClickLog, propensity: Sequence[float] = (), *, shrinkage: float | None = None
) -> NDArray[np.float64]:
    """Clicks over expected clicks of each row's search-item pair: a label without position bias.

    A pair with C clicks and E expected ones has the label ``(C + a) / (E + a)``: 1 is average, and
    a pair that was hardly shown stays near it. E sums the chance of a click at the positions where
    the pair was shown: the log's click rate there, or ``propensity`` times one common rate (better
    where good items stand high, since the click rate at a position also says what stands there).

    Parameters
    ----------
    log
        With positions and items.
    propensity
        By position, from ``estimate_propensity``; its last value holds for all beyond it.
    shrinkage
        a, in expected clicks. None: by moments, where pairs differ from the average with variance
        1/a, ``1/a = (sum (C - E)^2 - sum E) / sum E^2``.

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
        extra = float(((clicks - expected) ** 2 - expected).sum() / (expected**2).sum())
        shrinkage = 1 / max(extra, 1e-6)
    if not shrinkage > 0:
        raise ParameterError(f"shrinkage={shrinkage} is not positive", fix="Use 1.0, or leave out")
    return ((clicks + shrinkage) / (expected + shrinkage))[log.pair]


def coec_formula(label: str) -> str | None:
    """The formula of clicks in ``"coec"`` or ``"coec(FORMULA)"``; None for any other label.

    Examples
    --------
    >>> coec_formula("coec"), coec_formula("coec(clicked + purchased)"), coec_formula("clicked")
    ('clicked', 'clicked + purchased', None)
    """
    text = label.strip()
    if text == "coec":
        return "clicked"
    inside = text.removeprefix("coec(").removesuffix(")")
    return inside if text == f"coec({inside})" else None


class CoecLabel:
    """``coec`` of a log as a formula over its columns: the label of a row is that of its pair.

    Parameters
    ----------
    path, query, position, item, search
        The log, as for ``read_clicks``.
    formula
        What counts as a click where it is positive.
    propensity
        As for ``coec``.
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
    ) -> None:
        self.columns = (item,) if search is None else (item, search)
        log = read_clicks(
            path,
            query=query,
            label=formula,
            position=position,
            item=item,
            search=search,
            columns=self.columns,
        )
        first = np.unique(log.pair, return_index=True)[1]
        pairs = self._pairs({name: values[first] for name, values in log.columns.items()})
        labels = coec(log, propensity)[first]
        self._label = dict(zip(pairs, labels.tolist(), strict=True))
        #: Tells labels that differ apart.
        self.text = f"coec({formula}) {sha256(labels.tobytes()).hexdigest()[:16]}"

    def __call__(self, columns: Mapping[str, Any]) -> NDArray[np.float64]:
        """Labels of the rows of a block."""
        return np.array([self._label[pair] for pair in self._pairs(columns)], dtype=np.float64)

    def relabelled(self, data: Dataset) -> Dataset:
        """The rows with these labels."""
        labels = self({**data.columns, "docid": data.docid})
        return replace(data, y=labels, query_index=data.queries)

    def _pairs(self, columns: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        values = [np.asarray(columns[name]).tolist() for name in self.columns]
        return list(zip(*values, strict=True))


def position_propensity(propensity: Sequence[float]) -> NDArray[np.float64]:
    """Propensities by position alone; those by context are refused."""
    if context := getattr(propensity, "context", ""):
        raise ParameterError(
            f"this takes one list of propensities, not one for each {context}",
            fix=f"Pass found.values, or do it for the lists of each {context} apart",
        )
    return np.asarray(propensity, dtype=np.float64)


def relabelled(source: Any, label: CoecLabel) -> Any:
    """Rows in memory or a stream with other labels; a stream can then be cut into partitions."""
    if isinstance(source, Dataset):
        return label.relabelled(source)
    if hasattr(source, "relabelled"):
        return source.relabelled(label)
    return _Relabelled(source, label)


class _Relabelled(ScanPart):
    """All queries of a stream, with other labels."""

    def __init__(self, source: Any, label: CoecLabel) -> None:
        super().__init__(source, lambda: lambda block: np.arange(block.n_queries))
        self._label = label

    def blocks(self, block_rows: int | None = None) -> Iterator[Dataset]:
        """One pass."""
        return map(self._label.relabelled, super().blocks(block_rows))

    def to_partitions(self, **options: Any) -> PartitionedDataset:
        """The rows cut into partitions, see ``rankine.distributed.scan``."""
        from rankine.distributed.partitions import scan as cut

        parts = cut(self._scan, **options)
        partitions = tuple(replace(partition, label=self._label) for partition in parts.partitions)
        return replace(parts, partitions=partitions)


def expected_clicks(log: ClickLog, propensity: Sequence[float] = ()) -> NDArray[np.float64]:
    """Chance of a click on an average item at the position of each row; sums to the clicks."""
    place, theta = log.required_positions() - 1, position_propensity(propensity)
    if not log.clicked.any():
        raise SchemaError("the log has no click", fix="Check the label formula")
    if len(theta) == 0:
        clicked = sum_by(place, log.clicked)
        return (clicked / np.maximum(np.bincount(place), 1))[place]
    look = theta[np.minimum(place, len(theta) - 1)]
    return look * (log.clicked.sum() / look.sum())


def encode(values: Any, name: str = "") -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Numbers from 0 in order of first appearance, and the distinct values.

    Examples
    --------
    >>> codes, distinct = encode(["b", "a", "b"])
    >>> codes.tolist(), distinct.tolist()
    ([0, 1, 0], ['b', 'a'])
    """
    import pyarrow as pa

    array = pa.array(values) if not isinstance(values, (pa.Array, pa.ChunkedArray)) else values
    if array.null_count:
        raise SchemaError(
            f"{array.null_count} rows have no value", fix="Fill or drop them", column=name or None
        )
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    found = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    codes = found.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, found.dictionary.to_numpy(zero_copy_only=False)


def sum_by(number: NDArray[np.int64], values: NDArray[Any], size: int = 0) -> NDArray[np.float64]:
    """Sums of the values that share a number, by number from 0 to ``size`` - 1 at least."""
    found: Any = np.bincount(number, weights=values, minlength=size)
    return found


def _columns(
    log: Any, wanted: list[str], query: str, label: str, position: str | None, item: str | None
) -> dict[str, Any]:
    """The wanted columns of whatever the log is."""
    if isinstance(log, (str, Path)) or (isinstance(log, (list, tuple)) and log and _is_path(log)):
        rest = tuple(name for name in wanted if name not in {query, position})
        where = {} if position is None else {"position": position}
        log_sources(log)
        log = scan(log, query=query, label=None, features=(), columns=rest, **where)  # type: ignore[arg-type]
        return _of_blocks(log, {query: "qid", position: "position"}, rest)
    if isinstance(log, Dataset):
        log = [log]
    elif hasattr(log, "catalogue"):
        log = log.to_table()
    if isinstance(log, Mapping):
        return {name: _named(log, list(log), name) for name in wanted}
    table = hasattr(log, "schema") or hasattr(log, "columns")
    if hasattr(log, "blocks") or (isinstance(log, Iterable) and not table):
        own = {query: "qid", label: "y", position: "position", item: "docid"}
        return _of_blocks(log, own, [name for name in wanted if name not in own])
    arrow = _arrow(log)
    return {name: _values(_named(arrow, arrow.column_names, name), name) for name in wanted}


def _is_path(parts: Sequence[Any]) -> bool:
    return all(isinstance(part, (str, Path)) for part in parts)


def _of_blocks(
    blocks: Iterable[Dataset], own: Mapping[str | None, str], rest: Sequence[str]
) -> dict[str, Any]:
    """Columns of datasets: ``own`` names fields, unless there is a column of that name."""
    found: dict[str, list[Any]] = {name: [] for name in (*own, *rest) if name is not None}
    for block in blocks:
        for name, parts in found.items():
            if name in own and name not in block.columns:
                part = getattr(block, own[name])
                if part is None:
                    raise SchemaError(
                        f"the data has no {own[name]}", fix=f"Give it one ({own[name]}=)"
                    )
                parts.append(part)
            else:
                parts.append(_named(block.columns, list(block.columns), name))
    if not any(found.values()):
        raise EmptyDataError("the log has no rows", fix="Check the path")
    return {name: np.concatenate(parts) for name, parts in found.items()}


def _arrow(frame: Any) -> Any:
    import pyarrow as pa

    if isinstance(frame, pa.Table):
        return frame
    if hasattr(frame, "__arrow_c_stream__"):
        return pa.table(frame)
    raise SchemaError(
        f"a {type(frame).__name__} is no click log",
        fix="Give files, a table, a mapping of arrays or a Dataset",
    )


def _named(table: Any, names: Sequence[str], name: str) -> Any:
    if name not in names:
        raise SchemaError(
            f"there is no column {name!r}", fix=f"The columns are: {', '.join(map(str, names))}"
        )
    return table[name]


def _values(column: Any, name: str) -> Any:
    """A numeric Arrow column as an array; text stays in Arrow, which numbers it faster."""
    import pyarrow as pa

    if column.null_count:
        raise SchemaError(
            f"{column.null_count} rows have no value", fix="Fill or drop them", column=name
        )
    return column.to_numpy() if pa.types.is_primitive(column.type) else column
