"""The state of history features: tables of sums, and lists that are not visible yet.

Lists are read in order of time. A list that was added is visible to lists whose time is later than
``end + delay``, rounded up to the next multiple of ``refresh``. Until then it waits.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from rankine.core.atomic import atomic_file
from rankine.core.errors import (
    DataError,
    FeatureMismatchError,
    ModelFormatError,
    ParameterError,
    QueryOrderError,
    attach_file_to_errors,
)
from rankine.core.specs import History, decode_transforms, encode_transforms
from rankine.core.stores import local_path
from rankine.history.declarations import FeaturePlan, parse_duration
from rankine.history.kernels import (
    AGE,
    COUNT,
    LAST,
    KeyTable,
    TableRule,
    insert_rows,
    mark_live,
    overall_rate,
    read,
    run,
)
from rankine.history.rows import RowReader
from rankine.model.container import pack, unpack

#: Name of the snapshot in the folder of a state.
SNAPSHOT_NAME = "history.safetensors"
#: Time of a state that has read nothing.
_BEGINNING = -(1 << 62)
_MIN_CAPACITY = 1 << 10
_MAX_CAPACITY = 1 << 33
#: A table with too many keys shrinks to this share of ``max_keys``.
_KEPT_SHARE = 0.9


class ChangeGuard:
    """Context of the changes of a state: after one that failed, the state cannot be used.

    A part of the change may have been made, for example if memory ran out in between.

    Attributes
    ----------
    has_failed
        Whether a change has failed.
    """

    def __init__(self) -> None:
        self.has_failed = False

    def check(self) -> None:
        """Raise an error if a change has failed."""
        if self.has_failed:
            raise DataError(
                "an error or an interrupt has stopped a change of the state half-way",
                fix="Load the state again from its folder, or read the log again from its start",
            )

    __enter__ = check

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        if error_type is not None:
            self.has_failed = True


class ListChunk(NamedTuple):
    """Lists that wait, with their rows.

    Attributes
    ----------
    visible, end, ids
        When each list becomes visible, its end, and the hash of its id.
    starts
        First row of each list, and the end.
    keys, amounts
        A row for each group of key columns and for each amount, as ``RowReader`` returns them.
    """

    visible: NDArray[np.int64]
    end: NDArray[np.int64]
    ids: NDArray[np.int64]
    starts: NDArray[np.int64]
    keys: NDArray[np.int64]
    amounts: NDArray[np.float64]

    def take(self, lists: NDArray[np.int64]) -> ListChunk:
        """Return some lists, in the given order."""
        sizes = np.diff(self.starts)[lists]
        starts = np.append(0, np.cumsum(sizes))
        if len(lists) and (lists[-1] - lists[0] + 1 == len(lists)) and (np.diff(lists) == 1).all():
            first, last = self.starts[lists[0]], self.starts[lists[-1] + 1]
            keys, amounts = self.keys[:, first:last], self.amounts[:, first:last]
        else:
            rows = np.repeat(self.starts[:-1][lists] - starts[:-1], sizes)
            rows += np.arange(len(rows))
            keys, amounts = self.keys[:, rows], self.amounts[:, rows]
        return ListChunk(
            self.visible[lists], self.end[lists], self.ids[lists], starts, keys, amounts
        )

    def sort(self) -> ListChunk:
        """Return the lists in the order in which they become visible."""
        order = np.lexsort((self.ids, self.end, self.visible))
        if (np.diff(order) == 1).all():
            return self
        return self.take(order)


def _join_chunks(chunks: list[ListChunk]) -> ListChunk:
    if len(chunks) == 1:
        return chunks[0]
    sizes = np.concatenate([np.diff(chunk.starts) for chunk in chunks])
    return ListChunk(
        np.concatenate([chunk.visible for chunk in chunks]),
        np.concatenate([chunk.end for chunk in chunks]),
        np.concatenate([chunk.ids for chunk in chunks]),
        np.append(0, np.cumsum(sizes)),
        np.concatenate([chunk.keys for chunk in chunks], axis=1),
        np.concatenate([chunk.amounts for chunk in chunks], axis=1),
    )


class Waiting:
    """Lists that are not visible yet, in the order in which they become so, then by end and id."""

    def __init__(self) -> None:
        #: Sorted chunks by the time of their first list; the number breaks ties.
        self._heap: list[tuple[int, int, ListChunk]] = []
        self._n_chunks = 0

    def add(self, chunk: ListChunk) -> None:
        """Add lists in any order."""
        if len(chunk.visible):
            self._push(chunk.sort())

    def _push(self, chunk: ListChunk) -> None:
        self._n_chunks += 1
        heapq.heappush(self._heap, (int(chunk.visible[0]), self._n_chunks, chunk))

    def take_before(self, time: int) -> ListChunk | None:
        """Remove and return, in order, all lists that are visible before a time."""
        taken = []
        while self._heap and self._heap[0][0] < time:
            chunk = heapq.heappop(self._heap)[2]
            # The rest of the chunk goes back, with the time of its first list.
            count = int(np.searchsorted(chunk.visible, time))
            if count < len(chunk.visible):
                self._push(chunk.take(np.arange(count, len(chunk.visible))))
                chunk = chunk.take(np.arange(count))
            taken.append(chunk)
        if not taken:
            return None
        return _join_chunks(taken).sort()

    @property
    def chunks(self) -> list[ListChunk]:
        """All lists."""
        return [chunk for _, _, chunk in self._heap]

    @property
    def n_lists(self) -> int:
        """Number of lists that wait."""
        return sum(len(chunk.visible) for chunk in self.chunks)


class FeatureTable:
    """The table of one feature, which grows as keys come."""

    def __init__(self, plan: FeaturePlan, group: int, forget: int) -> None:
        self.plan = plan
        self.group = group
        self._forget = forget
        self.n_sums = {COUNT: 1, LAST: 0, AGE: 1}.get(plan.kind, 2)
        #: Words of a row: hash, time and sums.
        self.width = 2 + self.n_sums * max(plan.n_buckets, 1)
        #: Keys that were removed because there were more than ``max_keys``.
        self.evicted = 0
        self.table = self._make(_MIN_CAPACITY)

    def _make(self, capacity: int) -> KeyTable:
        if capacity > _MAX_CAPACITY:
            raise ParameterError(f"a table of {capacity:,} keys is too large", fix="Set max_keys")
        # One array of words for hashes, times and sums; the last row has the sums over all keys.
        words = np.zeros((capacity + 1, self.width), dtype=np.int64)
        plan = self.plan
        return KeyTable(
            words,
            words.view(np.float64),
            np.zeros(1, dtype=np.int64),
            TableRule(
                plan.kind,
                self.n_sums,
                plan.half_life,
                plan.bucket,
                plan.n_buckets,
                self._forget,
                plan.prior,
                plan.log,
            ),
        )

    @property
    def n_keys(self) -> int:
        """Number of keys."""
        return int(self.table.used[0])

    @property
    def totals(self) -> NDArray[np.int64]:
        """The row of the sums over all keys."""
        return self.table.words[-1]

    def rebuild(self, capacity: int, rows: NDArray[np.int64], live: NDArray[np.bool_]) -> None:
        """Move the live rows to a new table."""
        table = self._make(capacity)
        count = insert_rows(table.words, rows, live)
        if count < 0:
            raise ModelFormatError("a key is 0 or occurs twice", fix="Restore the file from a copy")
        table.words[-1] = self.totals
        table.used[0] = count
        self.table = table

    def grow(self) -> None:
        """Double the capacity."""
        rows = self.table.words[:-1]
        self.rebuild(2 * len(rows), rows, rows[:, 0] != 0)

    def evict(self, max_keys: int) -> None:
        """Remove the least recently updated keys if there are more than ``max_keys``."""
        if self.n_keys <= max_keys:
            return
        rows = self.table.words[:-1]
        live = rows[:, 0] != 0
        # Some room is made at once, so that not every new key rebuilds the table.
        n_removed = self.n_keys - int(_KEPT_SHARE * max_keys)
        oldest = np.flatnonzero(live)
        # Equal times are ordered by key, so that the result does not depend on the table's layout.
        oldest = oldest[np.lexsort((rows[oldest, 0], rows[oldest, 1]))][:n_removed]
        live[oldest] = False
        self.rebuild(len(rows), rows, live)
        self.evicted += n_removed

    def live_rows(self, time: int) -> NDArray[np.int64]:
        """Return the rows that a reading after ``time`` can see, in order of their keys."""
        rows = self.table.words[:-1]
        live = np.empty(len(rows), dtype=np.bool_)
        mark_live(self.table, time, live)
        rows = rows[live]
        return rows[np.argsort(rows[:, 0])]

    def restore(self, rows: NDArray[np.int64], totals: NDArray[np.int64]) -> None:
        """Fill the table from rows of a snapshot."""
        numbers = rows.view(np.float64)[:, 2:]
        is_sum = self.plan.kind < LAST
        if is_sum and not (
            np.isfinite(numbers).all() and np.isfinite(totals.view(np.float64)[2:]).all()
        ):
            raise ModelFormatError("a sum is not finite", fix="Restore the file from a copy")
        if len(rows) and int(np.abs(rows[:, 1]).max()) > -_BEGINNING:
            raise ModelFormatError("a time is out of range", fix="Restore the file from a copy")
        # At most half full, so that a key is found after few steps.
        capacity = _MIN_CAPACITY
        while capacity < 2 * len(rows):
            capacity *= 2
        self.totals[:] = totals
        self.rebuild(capacity, rows, np.ones(len(rows), dtype=np.bool_))

    def overall_rate(self, time: int) -> float:
        """Return the rate over all keys at a time."""
        table = self.table
        return float(overall_rate(table.words, table.numbers, table.rule, time))

    def read(self, key: int, time: int) -> float:
        """Return the feature of a key at a time."""
        table, overall = self.table, self.overall_rate(time)
        return float(read(table.words, table.numbers, table.rule, key, time, overall))

    def run(
        self,
        applied: ListChunk,
        ends: NDArray[np.int64],
        x: NDArray[np.float64],
        y: NDArray[np.float64],
        read_keys: NDArray[np.int64],
        times: NDArray[np.int64],
        starts: NDArray[np.int64],
        n_applied: NDArray[np.int64],
        values: NDArray[np.float64],
    ) -> None:
        """Apply updates and read lists; see ``rankine.history.kernels.run``."""
        progress = np.zeros(3, dtype=np.int64)
        keys = applied.keys[self.group]
        # The kernel stops when the table is full, and goes on from ``progress`` in a larger one.
        while not run(
            self.table, keys, ends, x, y, read_keys, times, starts, n_applied, progress, values
        ):
            self.grow()


@dataclass
class Counts:
    """What a state has counted.

    Attributes
    ----------
    lists, rows
        Lists and rows that were added.
    late
        Lists that were added after they should have been visible.
    """

    lists: int = 0
    rows: int = 0
    late: int = 0


class SnapshotDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The JSON document of a snapshot."""

    kind: str
    history: list[Any]
    clock: int
    counts: Counts
    evicted: list[int]


class HistoryState:
    """All that history features remember. One thread at a time may use it.

    Parameters
    ----------
    history
        How the features are computed.
    max_keys
        Maximum number of keys of a feature; the least recently updated ones are removed.

    Attributes
    ----------
    reader
        Computes the keys and amounts of rows.
    clock
        Time of the latest reading, in microseconds. It never goes back.
    counts
        Lists and rows that were added.
    changes
        Notices changes that failed.
    """

    def __init__(self, history: History, max_keys: int | None = None) -> None:
        if max_keys is not None and max_keys < 1:
            raise ParameterError(
                f"{max_keys} is below 1", parameter="max_keys", fix="Leave it out for no limit"
            )
        self.history = history
        self.max_keys = max_keys
        self.reader = RowReader(history)
        self.delay = parse_duration(history.delay, "delay")
        self.refresh = parse_duration(history.refresh, "refresh")
        forget = parse_duration(history.forget, "forget")
        groups = {by: k for k, by in enumerate(self.reader.keys)}
        amounts = {amount.text: k for k, amount in enumerate(self.reader.amounts)}
        self.tables = [FeatureTable(p, groups[p.by], forget) for p in self.reader.plans]
        #: Amounts that each feature sums; None is 1 for each row.
        self._amounts_of = [
            tuple(amounts[a.text] if a else None for a in (plan.first, plan.second))
            for plan in self.reader.plans
        ]
        self.waiting = Waiting()
        self.changes = ChangeGuard()
        self.clock = _BEGINNING
        self.counts = Counts()
        #: Hashes of the ids of the lists whose time is the clock's.
        self._ids_at_clock: set[int] = set()

    # ---------------------------------------------------------------------------------- add, read
    def visible_times(self, ends: Any) -> Any:
        """Return when lists that end at given times become visible."""
        times = ends + self.delay
        if self.refresh:
            # Rounded up, as integers.
            times = -(-times // self.refresh) * self.refresh
        return times

    def add_lists(
        self,
        ids: NDArray[np.int64],
        keys: NDArray[np.int64],
        amounts: NDArray[np.float64],
        starts: NDArray[np.int64],
        ends: NDArray[np.int64],
    ) -> int:
        """Add lists with their outcomes; return how many of them are late.

        Parameters
        ----------
        ids
            Hash of the id of each list (``hash_values``).
        keys, amounts
            Keys and amounts of all rows, from ``reader``.
        starts
            First row of each list, and the end.
        ends
            Time of the last row or outcome of each list, in microseconds.
        """
        visible = self.visible_times(ends)
        late = int((visible < self.clock).sum())
        with self.changes:
            self.waiting.add(ListChunk(visible, ends, ids, starts, keys, amounts))
            self.counts.lists += len(ids)
            self.counts.rows += keys.shape[1]
            self.counts.late += late
        return late

    def read_lists(
        self,
        times: NDArray[np.int64],
        keys: NDArray[np.int64],
        starts: NDArray[np.int64],
        ids: NDArray[np.int64] | None = None,
    ) -> NDArray[np.float64]:
        """Compute the features of lists in order of time: a row for each row of the lists.

        Parameters
        ----------
        times
            Time of each list, not before the previous one's. A time before the clock counts
            as the clock's time.
        keys, starts
            Keys of all rows, from ``reader``; first row of each list, and the end.
        ids
            Hash of the id of each list, to notice a log that is read twice.
        """
        times = np.maximum(times, self.clock)
        values = np.empty((len(self.tables), keys.shape[1]))
        if len(times) == 0:
            return values.T
        if (np.diff(times) < 0).any():
            raise QueryOrderError("lists are not in order of time", fix="Sort them by time")
        with self.changes:
            # Taken for the last list at once; ``n_applied`` says how many rows each list may see.
            applied = self.waiting.take_before(int(times[-1]))
            if applied is None:
                applied = _no_lists(len(self.reader.keys), len(self.reader.amounts))
            self._run_tables(applied, 1.0, times, keys, starts, values)
            self._advance(times, ids)
        return values.T

    def _run_tables(
        self,
        applied: ListChunk,
        row_count: float,
        times: NDArray[np.int64],
        keys: NDArray[np.int64],
        starts: NDArray[np.int64],
        values: NDArray[np.float64],
    ) -> None:
        """Apply lists, and read others.

        In sums that count rows an applied row adds ``row_count``.
        """
        ends = np.repeat(applied.end, np.diff(applied.starts))
        n_applied = applied.starts[np.searchsorted(applied.visible, times)]
        counts, zeros = np.full(len(ends), row_count), np.zeros(len(ends))
        for table, amounts, out in zip(self.tables, self._amounts_of, values, strict=True):
            x, y = (counts if k is None else applied.amounts[k] for k in amounts)
            # These kinds have one sum; the kernel takes two amounts.
            if table.n_sums < 2:
                y = zeros
            table.run(applied, ends, x, y, keys[table.group], times, starts, n_applied, out)
            if self.max_keys is not None:
                table.evict(self.max_keys)

    def amend(self, keys: NDArray[np.int64], amounts: NDArray[np.float64], end: int) -> None:
        """Add to the amounts of rows that were applied before, because an outcome came late."""
        one_list = np.array([0, keys.shape[1]])
        times = np.array([self.clock])
        change = ListChunk(times - 1, np.array([end]), times, one_list, keys, amounts)
        no_keys = np.zeros((len(self.reader.keys), 0), dtype=np.int64)
        values = np.empty((len(self.tables), 0))
        with self.changes:
            # The rows themselves were counted when they were applied.
            self._run_tables(change, 0.0, times, no_keys, np.array([0, 0]), values)

    def _advance(self, times: NDArray[np.int64], ids: NDArray[np.int64] | None) -> None:
        latest = int(times[-1])
        # Only lists of the latest instant could come twice without being older than the clock.
        if latest > self.clock:
            self._ids_at_clock.clear()
        self.clock = latest
        if ids is not None:
            self._ids_at_clock.update(ids[np.searchsorted(times, latest) :].tolist())

    def add_list(self, list_id: int, keys: Any, amounts: Any, end: int) -> bool:
        """Add one list with its outcomes; return whether it is late. See ``add_lists``."""
        starts = np.array([0, keys.shape[1]])
        return bool(self.add_lists(np.array([list_id]), keys, amounts, starts, np.array([end])))

    def read_list(self, time: int, keys: NDArray[np.int64]) -> NDArray[np.float64]:
        """Compute the features of one list. See ``read_lists``."""
        return self.read_lists(np.array([time]), keys, np.array([0, keys.shape[1]]))

    def advance(self, time: int) -> None:
        """Move the clock to a time, and apply the lists that are visible before it."""
        no_keys = np.zeros((len(self.reader.keys), 0), dtype=np.int64)
        self.read_lists(np.array([time]), no_keys, np.array([0, 0]))

    def check_follows(self, times: NDArray[np.int64], ids: NDArray[np.int64]) -> None:
        """Raise if the first lists of a log are older than the state, or were read before."""
        if len(times) == 0 or times[0] > self.clock:
            return
        if times[0] == self.clock:
            same = ids[times == times[0]].tolist()
            if not self._ids_at_clock.intersection(same):
                return
        raise QueryOrderError(
            "the log starts before the end of what the state has read: it was applied before, or "
            "is older",
            parameter="state",
            fix="Pass only newer logs, or another folder",
        )

    def overall_rates(self, time: int) -> dict[str, float]:
        """Return the overall rate, at a time, of each feature of kind ``rate``."""
        time = max(time, self.clock)
        return {
            name: table.overall_rate(time)
            for name, feature, table in zip(
                self.history.names, self.history.features, self.tables, strict=True
            )
            if feature.rate is not None
        }

    def read_key(self, columns: Mapping[str, Any]) -> dict[str, float]:
        """Return the features of one key at the clock, for features of no other key columns."""
        keys = self.reader.read_keys({name: [value] for name, value in columns.items()}, 1)
        values = {}
        for name, table in zip(self.history.names, self.tables, strict=True):
            if set(table.plan.by) <= set(columns):
                values[name] = table.read(keys[table.group, 0], self.clock)
        return values

    # ---------------------------------------------------------------------------------- snapshots
    @property
    def n_keys(self) -> dict[str, int]:
        """Number of keys by feature."""
        return {n: t.n_keys for n, t in zip(self.history.names, self.tables, strict=True)}

    @property
    def n_evicted(self) -> dict[str, int]:
        """Number of keys by feature that were removed because of ``max_keys``."""
        return {n: t.evicted for n, t in zip(self.history.names, self.tables, strict=True)}

    @property
    def n_bytes(self) -> int:
        """Bytes of all tables and waiting rows."""
        total = sum(table.table.words.nbytes for table in self.tables)
        for chunk in self.waiting.chunks:
            total += sum(array.nbytes for array in chunk)
        return total

    def copy(self) -> HistoryState:
        """Return an independent copy."""
        other = HistoryState(self.history, self.max_keys)
        other.restore(*self._content())
        return other

    def save(self, path: str | os.PathLike[str], extra: bytes = b"") -> None:
        """Write a snapshot atomically, with further bytes of the caller."""
        document, tensors = self._content()
        tensors["extra"] = np.frombuffer(extra, dtype=np.uint8)
        parts, _ = pack(msgspec.to_builtins(document), tensors)
        with atomic_file(path) as file:
            for part in parts:
                file.write(part)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        history: History | None = None,
        max_keys: int | None = None,
    ) -> tuple[HistoryState, bytes]:
        """Read a snapshot; return the state and the caller's further bytes.

        With ``history`` a state of other features is an error. The file is checked: digest, sizes,
        times and sums.
        """
        with attach_file_to_errors(os.fspath(path)):
            try:
                content = unpack(Path(path).read_bytes())
            except OSError as error:
                raise DataError(
                    f"cannot be read: {error.strerror}", fix="Check the folder of the state"
                ) from error
            try:
                document = msgspec.convert(content.document, SnapshotDocument, strict=True)
                (saved,) = decode_transforms(document.history)
            except (msgspec.ValidationError, ValueError, TypeError) as error:
                raise _malformed(f"this is no state of history features: {error}") from error
            if document.kind != "history" or not isinstance(saved, History):
                raise _malformed("this is no state of history features")
            if history is not None and saved != history:
                raise FeatureMismatchError(
                    "the state belongs to other history features than the schema or model",
                    parameter="state",
                    fix="Pass the folder of the state that the model was trained with",
                )
            state = cls(saved, max_keys)
            tensors = dict(content.tensors)
            extra = tensors.pop("extra", None)
            if extra is None or extra.dtype != np.uint8:
                raise _malformed("a tensor is missing")
            state.restore(document, tensors)
        return state, extra.tobytes()

    def _content(self) -> tuple[SnapshotDocument, dict[str, NDArray[Any]]]:
        """Return the document and the tensors of a snapshot."""
        self.changes.check()
        # An outcome that still comes may end this long before the clock.
        horizon = max(self.clock - self.delay - self.refresh - 1, _BEGINNING)
        tensors: dict[str, NDArray[Any]] = {}
        for k, table in enumerate(self.tables):
            tensors[f"keys.{k}"] = table.live_rows(horizon).ravel()
            tensors[f"totals.{k}"] = table.totals.copy()
        # In one order, whatever the order in which they were added: equal states give equal files.
        chunks = self.waiting.chunks or [_no_lists(len(self.reader.keys), len(self.reader.amounts))]
        waiting = _join_chunks(chunks).sort()
        tensors["waiting.ends"], tensors["waiting.ids"] = waiting.end, waiting.ids
        tensors["waiting.starts"] = waiting.starts
        tensors["waiting.keys"] = waiting.keys.ravel()
        tensors["waiting.amounts"] = waiting.amounts.ravel()
        tensors["ids_at_clock"] = np.array(sorted(self._ids_at_clock), dtype=np.int64)
        document = SnapshotDocument(
            "history",
            encode_transforms([self.history]),
            self.clock,
            replace(self.counts),
            [table.evicted for table in self.tables],
        )
        return document, tensors

    def restore(self, document: SnapshotDocument, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Fill an empty state with the content of a snapshot, which is checked."""
        lists = ("waiting.ends", "waiting.ids", "waiting.starts", "waiting.keys", "ids_at_clock")
        tables = [f"{part}.{k}" for k in range(len(self.tables)) for part in ("keys", "totals")]
        expected = dict.fromkeys((*lists, *tables), np.int64) | {"waiting.amounts": np.float64}
        # Sizes and types first: everything below relies on them.
        if {name: array.dtype for name, array in tensors.items()} != expected:
            raise _malformed("the tensors do not match the features")
        for k, table in enumerate(self.tables):
            rows, totals = tensors[f"keys.{k}"], tensors[f"totals.{k}"]
            if len(rows) % table.width or len(totals) != table.width:
                raise _malformed("a table has a wrong size")
            table.restore(rows.reshape(-1, table.width), totals)
        if len(document.evicted) != len(self.tables):
            raise _malformed("a count is missing")
        for table, evicted in zip(self.tables, document.evicted, strict=True):
            table.evicted = evicted
        ends, ids, starts, keys, ids_at_clock = (tensors[name] for name in lists)
        n_rows = int(starts[-1]) if len(starts) else -1
        n_keys, n_amounts = len(self.reader.keys), len(self.reader.amounts)
        amounts = tensors["waiting.amounts"]
        if (
            not len(ends) == len(ids) == len(starts) - 1
            or starts[0] != 0
            or (np.diff(starts) < 0).any()
            or len(keys) != n_rows * n_keys
            or len(amounts) != n_rows * n_amounts
            or not np.isfinite(amounts).all()
            or (len(ends) and int(np.abs(ends).max()) > -_BEGINNING)
            or not abs(document.clock) <= -_BEGINNING
        ):
            raise _malformed("the waiting lists have wrong sizes or values")
        shape = (n_keys, n_rows), (n_amounts, n_rows)
        chunk = ListChunk(
            self.visible_times(ends),
            ends,
            ids,
            starts,
            keys.reshape(shape[0]),
            amounts.reshape(shape[1]),
        )
        self.waiting.add(chunk)
        self.clock = document.clock
        self._ids_at_clock = set(ids_at_clock.tolist())
        self.counts = document.counts


def _no_lists(n_keys: int, n_amounts: int) -> ListChunk:
    times = np.zeros(0, dtype=np.int64)
    keys = np.zeros((n_keys, 0), dtype=np.int64)
    return ListChunk(
        times, times, times, np.zeros(1, dtype=np.int64), keys, np.zeros((n_amounts, 0))
    )


def _malformed(reason: str) -> ModelFormatError:
    return ModelFormatError(reason, fix="Restore the file from a copy, or build the state again")


def load_state(
    folder: str | os.PathLike[str], history: History | None = None, max_keys: int | None = None
) -> HistoryState:
    """Read the snapshot in a folder; a folder without one is an error."""
    return HistoryState.load(local_path(folder, "state") / SNAPSHOT_NAME, history, max_keys)[0]


def has_state(folder: str | os.PathLike[str]) -> bool:
    """Whether a folder contains a snapshot."""
    return (local_path(folder, "state") / SNAPSHOT_NAME).exists()


def save_state(state: HistoryState, folder: str | os.PathLike[str]) -> None:
    """Write a snapshot to a folder, which is created if it does not exist."""
    local_path(folder, "state").mkdir(parents=True, exist_ok=True)
    state.save(Path(folder) / SNAPSHOT_NAME)
