"""Rows as cells of tables: which columns get tables, their bins, and codes of the rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ParameterError, SchemaError
from rankine.core.specs import Bins, Grids
from rankine.data.dataset import Dataset, concat, drain, first_lists
from rankine.model.checks import MAX_TABLE_COLUMNS
from rankine.model.tables import Tables
from rankine.rankers.additive_search import TableData
from rankine.rankers.inputs import FittedColumns
from rankine.transforms.bins import BinCoder, CodeStore, RowSample, fit_bins, linear_part
from rankine.transforms.scaling import Scaling, fit_scaling

if TYPE_CHECKING:
    from rankine.kernels.binned import BinnedRows
    from rankine.rankers.fitting import Evaluator
    from rankine.rankers.sources import TrainingSource


@dataclass(frozen=True, eq=False)
class TableColumns:
    """Which columns of the data get tables, and which stay linear.

    Attributes
    ----------
    columns
        Columns of the data.
    linear
        Numbers of the columns that stay linear, in order.
    numbers
        Numbers of the columns that get tables, in order. Bins, pairs and plans count these alone.
    """

    columns: FittedColumns
    linear: tuple[int, ...]
    numbers: NDArray[np.int64]

    @classmethod
    def from_columns(cls, columns: FittedColumns, linear: Sequence[Any]) -> TableColumns:
        """Give all columns tables but those named or numbered in ``linear``."""
        if columns.n_features > MAX_TABLE_COLUMNS:
            raise SchemaError(
                f"{columns.n_features} columns are too many for tables",
                fix=f"Use at most {MAX_TABLE_COLUMNS:,} columns, or a linear ranker",
            )
        numbers = tuple(sorted(columns.number(column) for column in linear))
        return cls(columns, numbers, np.setdiff1d(np.arange(columns.n_features), numbers))

    def table_number(self, column: Any) -> int:
        """Return the number of a column among those with tables."""
        matches = np.flatnonzero(self.numbers == self.columns.number(column))
        if len(matches) == 0:
            raise ParameterError(
                f"column {column!r} is linear and has no table", fix="Take it out of linear"
            )
        return int(matches[0])

    def pair_numbers(
        self, pairs: Iterable[tuple[Any, Any]], curved: Iterable[Any]
    ) -> list[tuple[int, int]]:
        """Return pairs of columns with tables, each once; ``curved`` columns take part in none."""
        excluded = {self.columns.number(column) for column in curved}
        free = {int(j): k for k, j in enumerate(self.numbers) if j not in excluded}
        numbers = []
        for first, second in pairs:
            a, b = sorted((self.columns.number(first), self.columns.number(second)))
            if a == b:
                raise ParameterError(
                    f"a pair names {first!r} twice", parameter="pairs", fix="Name two columns"
                )
            if not {a, b} <= set(free):
                raise ParameterError(
                    f"the pair {first!r}, {second!r} needs two columns with tables, none convex or "
                    "concave",
                    parameter="pairs",
                    fix="Take linear, convex and concave columns out of it",
                )
            numbers.append((free[a], free[b]))
        return list(dict.fromkeys(numbers))

    @property
    def table_names(self) -> tuple[str, ...] | None:
        """Names of the columns with tables, or None."""
        names = self.columns.names
        return None if names is None else tuple(str(names[j]) for j in self.numbers)

    def over_all_columns(self, bins: Bins, grids: Grids | None) -> tuple[Bins, Grids | None]:
        """Return bins and grids that count all columns of a row, those without tables too."""
        cuts: list[tuple[float, ...]] = [()] * self.columns.n_features
        for j, column_cuts in zip(self.numbers, bins.cuts, strict=True):
            cuts[j] = column_cuts
        names = self.columns.names
        all_bins = Bins(
            tuple(cuts),
            tuple(int(self.numbers[j]) for j in bins.unordered),
            self.linear,
            None if names is None else tuple(str(name) for name in names),
        )
        return all_bins, _renumber(grids, dict(enumerate(self.numbers.tolist())))

    def require_linear(self, linear: Sequence[int]) -> None:
        """Raise unless the fit or model to start from has the same linear columns."""
        if list(linear) != list(self.linear):
            raise ParameterError(
                "the model to start from has other linear columns",
                parameter="linear",
                fix=f"Pass {list(linear)}",
            )

    def over_table_columns(self, tables: Tables) -> Tables:
        """Return the tables of a model with bins and grids that count only columns with tables."""
        bins = tables.bins
        positions = {int(j): k for k, j in enumerate(self.numbers)}
        table_bins = msgspec.structs.replace(
            bins,
            cuts=tuple(bins.cuts[j] for j in positions),
            unordered=tuple(positions[j] for j in bins.unordered),
            linear=(),
            names=None if bins.names is None else tuple(bins.names[j] for j in positions),
        )
        return Tables(table_bins, _renumber(tables.grids, positions), tables.weights, tables.base)


def _renumber(grids: Grids | None, numbers: Mapping[int, int]) -> Grids | None:
    """Return grids whose columns have other numbers, in the same order."""
    if grids is None:
        return None
    axes = [msgspec.structs.replace(axis, column=numbers[axis.column]) for axis in grids.axes]
    return msgspec.structs.replace(grids, axes=tuple(axes))


@dataclass(frozen=True, eq=False)
class TableReader:
    """Turns rows into codes of cells.

    Attributes
    ----------
    columns
        Columns with tables, and those that stay linear.
    bins
        Bins of the columns with tables.
    linear_scaling
        Scaling of the linear columns and of the offsets of positions.
    threads
        Threads; None takes what the machine offers.
    """

    columns: TableColumns
    bins: Bins
    linear_scaling: Scaling
    threads: int | None

    def read_eval_set(self, evaluator: Evaluator) -> TableData:
        """Return an evaluation set as cells; its rows have no positions."""
        if evaluator.query_weight is not None:
            raise ParameterError(
                "AdditiveRanker does not support it",
                parameter="eval_query_weight",
                fix="Leave it out",
            )
        data, linear = evaluator.data, self.columns.linear
        table_columns = self.columns.numbers if linear else None
        rows, lists = code_block(data, self.bins, table_columns, linear, self.threads)
        numbers = None
        if linear:
            factors = self.linear_scaling.factors
            assert factors is not None  # noqa: S101 - standard scaling has some
            scaling = replace(self.linear_scaling, factors=factors[: len(linear)])
            numbers = scaling.apply(lists).X
        return TableData(_without_columns(lists), np.ones(data.n_queries), rows, numbers)


def read_tables(
    source: TrainingSource,
    columns: TableColumns,
    bins: Bins,
    linear_scaling: Scaling | None,
    threads: int | None,
) -> tuple[TableData, TableReader]:
    """Read all lists as codes, block by block; measure ``linear_scaling`` unless it is given.

    Linear columns and offsets of positions stay numbers.
    """
    linear = [*columns.linear, *range(columns.columns.n_features, source.n_features)]
    table_columns = None if len(columns.numbers) == source.n_features else columns.numbers
    # One byte a cell: only codes and linear columns of a block are kept, not its values.
    store = CodeStore(BinCoder(bins, threads))
    blocks: list[Dataset] = []
    weights: list[NDArray[np.float64]] = []
    n_queries = 0
    # Workers code their partitions, so that codes travel and not values.
    context = source.correction.context
    for rows, block in source.map_blocks(code_block, bins, table_columns, linear, threads, context):
        query_weights = source.query_weights(block, n_queries)
        n_queries += len(query_weights)
        weights.append(query_weights)
        store.append_codes(rows)
        blocks.append(replace(block, columns={}, query_index=block.queries))
    lists = concat(drain(blocks))
    if linear_scaling is None:
        linear_scaling = fit_scaling("standard", lists)
    source.record_counts(
        rows=lists.n_rows,
        queries=lists.n_queries,
        queries_used=len(lists.labels.queries_with_pairs),
        pairs=lists.labels.n_pairs,
    )
    numbers = linear_scaling.apply(lists).X if linear else None
    data = TableData(_without_columns(lists), np.concatenate(weights), store.rows(), numbers)
    return data, TableReader(columns, bins, linear_scaling, threads)


def fit_table_bins(
    source: TrainingSource, columns: TableColumns, n_bins: int, categorical: Sequence[Any]
) -> Bins:
    """Cut columns at quantiles of the first lists; blocks and threads change no cut."""
    source.require_rereadable("cuts are measured on its first lists")
    sample = RowSample()
    all_columns = len(columns.numbers) == source.n_features
    for block in first_lists(source.blocks()):
        sample.append(block.X if all_columns else block.X[:, columns.numbers])
    bins = fit_bins(
        sample.rows(), n_bins, unordered=unordered_columns(source, columns, categorical)
    )
    return msgspec.structs.replace(bins, names=columns.table_names)


def unordered_columns(
    source: TrainingSource, columns: TableColumns, categorical: Sequence[Any]
) -> list[int]:
    """Return the numbers, among columns with tables, of those whose values are categories."""
    unordered = list(categorical)
    if source.log_record is not None:
        unordered += [text.column for text in source.log_record.encoding.spec.one_hot]
    return [columns.table_number(column) for column in unordered]


def code_block(
    data: Dataset,
    bins: Bins,
    table_columns: NDArray[np.int64] | None,
    linear: Sequence[int],
    threads: int | None,
    context: Sequence[str] = (),
) -> tuple[BinnedRows, Dataset]:
    """Return codes of the columns with tables (None: all), and the lists with linear columns.

    The lists keep the columns ``context``, on which weights of positions depend.
    """
    X: Any = data.X
    rows = BinCoder(bins, threads).code(X if table_columns is None else X[:, table_columns])
    numbers = np.zeros((len(data.y), 0))
    if len(linear):
        numbers = linear_part(X, linear, data.feature_names)
    if isinstance(numbers, np.ndarray):
        numbers = np.ascontiguousarray(numbers)
    return rows, Dataset(
        numbers,
        data.y,
        data.qid,
        weight=data.weight,
        position=data.position,
        columns={name: data.columns[name] for name in context},
        sources=data.sources,
        query_index=data.queries,
    )


def _without_columns(lists: Dataset) -> Dataset:
    return replace(lists, X=np.zeros((lists.n_rows, 0)), query_index=lists.queries)
