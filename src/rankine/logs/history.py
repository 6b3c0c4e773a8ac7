"""Compute history features of a raw log while it is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import (
    ParameterError,
    QueryOrderError,
    SchemaError,
    attach_file_to_errors,
)
from rankine.core.specs import History
from rankine.data.dataset import Dataset, NamedColumns
from rankine.data.scan import sort_hint
from rankine.history.rows import RowReader, hash_values, to_microseconds
from rankine.history.state import HistoryState

if TYPE_CHECKING:
    from rankine.data.scan import Scan


class FirstList(NamedTuple):
    """The first list of a log: its time in microseconds, and the hash of its id."""

    time: int
    id: int


class Lists(NamedTuple):
    """Times and ids of the lists of a block.

    Attributes
    ----------
    starts
        First row of each list, and the end.
    times, ends
        Earliest time of its rows, and latest time of its rows and outcomes, in microseconds.
    ids
        Hashes of their ids.
    """

    starts: NDArray[np.int64]
    times: NDArray[np.int64]
    ends: NDArray[np.int64]
    ids: NDArray[np.int64]

    @classmethod
    def from_block(cls, block: Dataset, history: History) -> Lists:
        """Return the lists of a block, whose rows are grouped."""
        starts = block.queries.starts
        times = to_microseconds(block.columns[history.time], history.time_unit, history.time)
        # Without outcome times a list ends with its last row.
        latest = times
        if history.outcome_time is not None and history.outcome_time in block.columns:
            values = block.columns[str(history.outcome_time)]
            # A row without an outcome keeps its own time.
            outcome_times = to_microseconds(values, history.time_unit, history.outcome_time, times)
            latest = np.maximum(times, outcome_times)
        return cls(
            starts,
            np.minimum.reduceat(times, starts[:-1]),
            np.maximum.reduceat(latest, starts[:-1]),
            hash_values(block.queries.ids, history.query).view(np.int64),
        )

    @property
    def first(self) -> FirstList:
        """The first list."""
        return FirstList(int(self.times[0]), int(self.ids[0]))


class HistoryScan:
    """A scan of a raw log whose blocks have history features as columns.

    It can be read as often as the scan; each pass computes the features again, from the state
    before the log.

    Parameters
    ----------
    raw
        The scan, whose lists must come in order of time.
    spec
        How the features are computed.
    before
        State after an earlier log, which this log continues.
    previous
        The earlier log itself, whose state is computed when it is needed.
    model_start
        First list of the training log of the model that reads this log. The log must start with
        it, unless there is a state.
    adds_outcomes
        Whether the log has the columns of outcomes; otherwise its lists are only read.
    """

    def __init__(
        self,
        raw: Scan,
        spec: History,
        *,
        before: HistoryState | None = None,
        previous: HistoryScan | None = None,
        model_start: Mapping[str, Any] | None = None,
        adds_outcomes: bool = True,
    ) -> None:
        self.raw = raw
        self.spec = spec
        self.inputs = raw.inputs
        self.options = raw.options
        self.sources = raw.sources
        self._before = before
        self._previous = previous
        self._model_start = model_start
        self._adds_outcomes = adds_outcomes
        self._first: FirstList | None = None
        self._after: HistoryState | None = None

    @property
    def read_counts(self) -> Mapping[str, int] | None:
        """Counts of the last full pass; None before."""
        return self.raw.read_counts

    def blocks(self, block_rows: int | None = None, *, overall: bool = False) -> Iterator[Dataset]:
        """Read the log once, as blocks of whole lists with their history features.

        With ``overall``, the rate over all keys is in place of the rate of a key, and other
        features are missing.
        """
        state: HistoryState | None = None
        self._after = None
        with self._name_sort_command():
            for block in self.raw.blocks(block_rows):
                with attach_file_to_errors(block.sources[-1]):
                    lists = Lists.from_block(block, self.spec)
                    if state is None:
                        state = self._start_state(lists)
                        self._first = lists.first
                    block_with_features = self._add_features(block, lists, state, overall=overall)
                yield block_with_features
        self._after = state

    def _add_features(
        self, block: Dataset, lists: Lists, state: HistoryState, *, overall: bool
    ) -> Dataset:
        self._check_order(lists, state.clock)
        reader, columns = state.reader, block.columns
        keys = reader.read_keys(columns, block.n_rows)
        if self._adds_outcomes:
            numbers = {name: columns[name] for name in reader.amount_columns if name in columns}
            if self.spec.position is not None and block.position is not None:
                numbers[self.spec.position] = block.position
            amounts = reader.read_amounts(numbers, block.n_rows)
            state.add_lists(lists.ids, keys, amounts, lists.starts, lists.ends)
        # Key 0 is a missing value, for which a rate is the overall rate.
        if overall:
            keys = np.zeros_like(keys)
        # Lists of the block wait until they are visible, so that none sees its own outcomes.
        values = state.read_lists(lists.times, keys, lists.starts, lists.ids)
        stored: dict[str, Any] = {}
        if isinstance(columns, NamedColumns):
            stored |= columns.items_as_stored()  # text stays coded
        else:
            stored |= columns
        stored |= {name: values[:, j] for j, name in enumerate(self.spec.names)}
        return replace(block, columns=NamedColumns(stored), query_index=block.queries)

    def _check_order(self, lists: Lists, clock: int) -> None:
        # The clock is the time of the last list of the block before.
        times = np.append(clock, lists.times)
        if (np.diff(times) < 0).any():
            raise QueryOrderError(
                f"the lists are not in order of {self.spec.time!r}, which history features need",
                fix=sort_hint(self.sources, self.spec.query, self.spec.time),
            )

    @contextmanager
    def _name_sort_command(self) -> Iterator[None]:
        """Name the command that sorts the log in errors about its order."""
        try:
            yield
        except QueryOrderError as error:
            if error.parameter != "state":
                error.fix = sort_hint(self.sources, self.spec.query, self.spec.time)
            raise

    # ------------------------------------------------------------------------------------- states
    def _start_state(self, lists: Lists) -> HistoryState:
        """Return the state before the log."""
        before = self._before
        if before is None and self._previous is not None and lists.first != self._previous.first():
            before = self._previous.state()
        if before is not None:
            before.check_follows(lists.times, lists.ids)
            return before.copy()
        if self._model_start is not None and self._model_start != _encode_first(lists.first):
            raise ParameterError(
                "this log does not start with the training log of the model, so the history "
                "before it is unknown",
                parameter="state",
                fix="Pass the folder that rankine train --state wrote, or read the log from the "
                "start of the training log",
            )
        return HistoryState(self.spec)

    def first(self) -> FirstList:
        """Return the first list of the log."""
        if self._first is None:
            next(self.blocks())
        assert self._first is not None  # noqa: S101 - narrows the type
        return self._first

    def state(self) -> HistoryState:
        """Return the state after the log; it is computed by a pass unless one has ended."""
        if self._after is None:
            for _ in self.blocks():
                pass
        assert self._after is not None  # noqa: S101 - narrows the type
        return self._after

    def overall_rates(self, query: Any) -> dict[str, float]:
        """Return the rates over all keys as a list of the log sees them."""
        rates: dict[str, float] = {}
        for block in self.blocks(overall=True):
            rows = np.flatnonzero(block.qid == query)
            if len(rows):
                for name, feature in zip(self.spec.names, self.spec.features, strict=True):
                    if feature.rate is not None:
                        rates[name] = float(block.columns[name][rows[0]])
                break
        return rates

    def origin(self) -> dict[str, Any]:
        """Return what a model stores to recognise its training log: the first list."""
        # A log that continues another one cannot be read again without the state before it.
        if self._before is not None:
            return {}
        return _encode_first(self.first())

    def __repr__(self) -> str:
        return f"{self.raw!r} with {len(self.spec.names)} history features"


def _encode_first(first: FirstList) -> dict[str, Any]:
    return {"time": first.time, "list": f"{first.id & (2**64 - 1):016x}"}


def check_history_columns(reader: RowReader, present: set[str], *, adds_outcomes: bool) -> None:
    """Raise if a history feature has the name of a column of the files, or reads an absent one."""
    for name, plan in zip(reader.history.names, reader.plans, strict=True):
        if name in present:
            raise SchemaError(
                f"the log has a column {name!r}, which is the name of a history feature",
                column=name,
                fix=f"Choose another name for [history.{name}]; or use the column as numeric "
                "and leave the declaration out",
            )
        columns = [*plan.by]
        if adds_outcomes:
            columns += reader.columns_of(plan)
        # A column of the usual name stands for positions that are not named.
        for column in sorted({*columns} - present - {reader.history.position or ""}):
            raise SchemaError(
                f"[history.{name}]: the log has no column {column!r}",
                column=column,
                fix="Correct the name, or add the column to the log",
            )
