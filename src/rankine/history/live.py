"""History features while events come: shown lists, their outcomes, and the state they change.

A shown list waits until it is visible (see ``rankine.history.state``). Outcomes that come before
change the waiting rows; later ones are late and change the sums at once.
"""

from __future__ import annotations

import heapq
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ModelFormatError
from rankine.core.specs import History, HistoryFeature
from rankine.history.rows import RowReader, hash_values, read_numbers
from rankine.history.state import ChangeGuard, HistoryState

#: Words of a shown list and of an outcome in a record.
_LIST_WORDS, _OUTCOME_WORDS = 3, 3
_SAVED_WORDS = 5


class Shown(NamedTuple):
    """A list that was shown.

    Attributes
    ----------
    event_id
        Id of the event; None for a list that the server returned itself.
    list_id
        Id of the list.
    time
        When it was shown, in microseconds.
    items
        Ids of its items, in displayed order.
    rows
        Raw columns of the items.
    """

    event_id: str | int | None
    list_id: str | int
    time: int
    items: Sequence[str | int]
    rows: Sequence[Mapping[str, Any]]


class Outcome(NamedTuple):
    """What happened to one item of a shown list: new values of some columns of its row."""

    event_id: str | int | None
    list_id: str | int
    time: int
    item: str | int
    values: Mapping[str, Any]


E = TypeVar("E", Shown, Outcome)


@dataclass
class Receipt:
    """What became of the events of a batch.

    Attributes
    ----------
    accepted, rows
        Events that count, and rows of the shown lists among them.
    duplicates
        Events whose id, or list, was seen before; they are ignored.
    unmatched
        Outcomes of an unknown list or item; they are ignored.
    late
        Outcomes that came after their list had become visible.
    unknown_columns
        Columns of outcomes that no feature reads, with the number of outcomes.
    """

    accepted: int = 0
    rows: int = 0
    duplicates: int = 0
    unmatched: int = 0
    late: int = 0
    unknown_columns: Counter[str] = field(default_factory=Counter)


class EventRecord(msgspec.Struct, array_like=True, frozen=True):
    """The changes of a batch as the log keeps them: hashes and numbers, without any value.

    Attributes
    ----------
    ids
        Hashes of event ids.
    lists
        Id, time and number of rows of shown lists.
    rows
        The words of their rows (see ``RowLayout``).
    outcomes
        List, item and time of outcomes.
    changes
        Numbers and amounts of their rows afterwards.
    """

    ids: bytes
    lists: bytes
    rows: bytes
    outcomes: bytes
    changes: bytes


class RowLayout:
    """Parts of the 8-byte words of rows: hash of the item, hashes of keys, numbers, amounts."""

    def __init__(self, reader: RowReader) -> None:
        first_number = 1 + len(reader.keys)
        first_amount = first_number + len(reader.amount_columns)
        self.height = first_amount + len(reader.amounts)
        self.keys = slice(1, first_number)
        self.numbers = slice(first_number, first_amount)
        self.amounts = slice(first_amount, self.height)
        #: Numbers and amounts, which outcomes change.
        self.changing = slice(first_number, self.height)


# There may be millions of these, which the garbage collector would visit for nothing.
class WaitingList(msgspec.Struct, gc=False):
    """A shown list whose outcomes may still come.

    Attributes
    ----------
    time, end
        When it was shown, and the latest time of its outcomes.
    words
        Its rows (see ``RowLayout``).
    is_applied
        Whether its rows are in the tables of the state.
    """

    time: int
    end: int
    words: Any
    is_applied: bool

    def find_row(self, item: int) -> int:
        """Return the first row of an item, or -1."""
        rows = np.flatnonzero(self.words[0] == item)
        return int(rows[0]) if len(rows) else -1


class LiveContent(msgspec.Struct, array_like=True, frozen=True):
    """What a snapshot adds to the state: recent event ids, and lists that wait for outcomes."""

    segment: int
    event_ids: tuple[bytes, bytes]
    lists: bytes
    rows: bytes
    last_event: int
    late: int


class LiveHistory:
    """A state that is read at any time while one thread adds events.

    Parameters
    ----------
    state
        The state at the start; from then on only this object changes it.
    join_ttl
        Microseconds for which outcomes of a shown list are accepted, and event ids remembered.

    Attributes
    ----------
    last_event
        Latest time of an event, in microseconds; None before the first.
    late
        Number of late outcomes.
    segment
        Number of the first log after the snapshot that the state comes from.
    changes
        Notices changes that failed.
    """

    def __init__(self, state: HistoryState, join_ttl: int) -> None:
        self.state = state
        self.join_ttl = join_ttl
        self.history = state.history
        self.layout = RowLayout(state.reader)
        self.last_event: int | None = None
        self.late = 0
        self.segment = 1
        # Readings and additions take turns. The lock is never held while a file is written.
        self._lock = threading.Lock()
        self.changes = ChangeGuard()
        #: Lists by the hash of their id, in the order in which they came.
        self._lists: dict[int, WaitingList] = {}
        #: (when visible, hash of the id) of lists that are not applied; old entries are skipped.
        self._not_visible: list[tuple[int, int]] = []
        # Two sets, exchanged every ``join_ttl``, forget old ids without a time for each.
        self._event_ids: tuple[set[int], set[int]] = (set(), set())
        self._ids_since = 0
        self._n_rows = 0

    # -- reading --------------------------------------------------------------------------------
    def read(self, time: int, keys: NDArray[np.int64]) -> NDArray[np.float64]:
        """Compute the features of one list at a time; see ``HistoryState.read_list``."""
        with self._lock, self.changes:
            self._apply_visible(max(time, self.state.clock))
            return self.state.read_list(time, keys)

    def replace(self, other: LiveHistory) -> None:
        """Become another state of the same features, such as a newer snapshot."""
        content = {name: value for name, value in vars(other).items() if name != "_lock"}
        with self._lock:
            vars(self).update(content)

    def advance(self, time: int) -> None:
        """Apply everything that is visible before a time."""
        self.read(time, np.zeros((len(self.state.reader.keys), 0), dtype=np.int64))

    def _apply_visible(self, time: int) -> None:
        """Add the lists that are visible before a time to the state."""
        ids, lists = [], []
        while self._not_visible and self._not_visible[0][0] < time:
            visible, list_id = heapq.heappop(self._not_visible)
            waiting = self._lists.get(list_id)
            if (
                waiting is None
                or waiting.is_applied
                or visible != self.state.visible_times(waiting.end)
            ):
                continue
            waiting.is_applied = True
            ids.append(list_id)
            lists.append(waiting)
        self._add_to_state(ids, lists)

    def _add_to_state(self, ids: Sequence[int], lists: Sequence[WaitingList]) -> None:
        if not lists:
            return
        # The state counts them as the offline pass does: a list, its end, all of its rows.
        words = np.concatenate([waiting.words for waiting in lists], axis=1)
        sizes = [waiting.words.shape[1] for waiting in lists]
        self.state.add_lists(
            np.array(ids, dtype=np.int64),
            words[self.layout.keys],
            words[self.layout.amounts].view(np.float64),
            np.cumsum([0, *sizes]),
            np.array([waiting.end for waiting in lists], dtype=np.int64),
        )

    # -- checking events ------------------------------------------------------------------------
    def prepare(self, events: Sequence[Shown | Outcome]) -> tuple[EventRecord, Receipt]:
        """Check a batch and compute its changes, which ``apply`` makes.

        An invalid event raises a ``SchemaError``, and nothing of the batch counts.
        """
        # Otherwise the batch would be logged, and would not count.
        self.changes.check()
        receipt = Receipt()
        ids, fresh = self._fresh_events(events, receipt)
        shown: dict[int, Shown] = {}
        for list_id, event in self._with_lists(fresh, Shown):
            if list_id in self._lists or list_id in shown:
                receipt.duplicates += 1
            else:
                shown[list_id] = event
        lists, words = self._read_shown(shown)
        added = dict(_split_lists(lists, words))
        outcomes = self._with_lists(fresh, Outcome)
        heads, changes, unmatched = self._read_outcomes(outcomes, added, receipt)
        # Senders may repeat an outcome that came before its list.
        ids.difference_update(_hash_ids(event.event_id for event in unmatched))
        receipt.accepted = len(lists) + len(heads)
        receipt.rows = words.shape[1]
        receipt.unmatched = len(unmatched)
        parts = (np.array(sorted(ids), dtype=np.int64), lists, words, heads, changes)
        return EventRecord(*(array.tobytes() for array in parts)), receipt

    def _fresh_events(
        self, events: Sequence[Shown | Outcome], receipt: Receipt
    ) -> tuple[set[int], list[Shown | Outcome]]:
        """Return the hashes of new event ids, and the events that have them or no id."""
        with_id = [event for event in events if event.event_id is not None]
        fresh = [event for event in events if event.event_id is None]
        seen: set[int] = set()
        event_ids = _hash_ids(event.event_id for event in with_id)
        for event, event_id in zip(with_id, event_ids, strict=True):
            # A sender that got no reply sends the batch again.
            if event_id in seen or any(event_id in ids for ids in self._event_ids):
                receipt.duplicates += 1
                continue
            seen.add(event_id)
            fresh.append(event)
        return seen, fresh

    def _with_lists(self, events: Sequence[Any], kind: type[E]) -> list[tuple[int, E]]:
        """Return the events of a kind with the hashes of their list ids."""
        matching = [event for event in events if isinstance(event, kind)]
        return list(zip(_hash_ids(event.list_id for event in matching), matching, strict=True))

    def _read_shown(
        self, shown: Mapping[int, Shown]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return id, time and size of lists, and the words of their rows."""
        reader, layout = self.state.reader, self.layout
        heads = [(list_id, event.time, len(event.rows)) for list_id, event in shown.items()]
        rows = [row for event in shown.values() for row in event.rows]
        items = [item for event in shown.values() for item in event.items]
        words = np.empty((layout.height, len(rows)), dtype=np.int64)
        if rows:
            columns: dict[str, Any] = {
                name: [row.get(name) for row in rows] for name in reader.key_columns
            }
            words[0] = _hash_ids(items)
            words[layout.keys] = reader.read_keys(columns, len(rows))
            numbers = {}
            for name in reader.amount_columns:
                values = [row.get(name) for row in rows]
                if name == self.history.position:
                    # The order of the items is their position where no row says otherwise.
                    order = [i + 1 for event in shown.values() for i in range(len(event.rows))]
                    values = [order[i] if x is None else x for i, x in enumerate(values)]
                numbers[name] = read_numbers({name: values}, name)
            self._fill_amounts(words[layout.changing].view(np.float64), numbers)
        return np.array(heads, dtype=np.int64).reshape(-1, _LIST_WORDS), words

    def _fill_amounts(
        self, changing: NDArray[np.float64], numbers: Mapping[str, NDArray[np.float64]]
    ) -> None:
        """Write numbers, and the amounts computed from them."""
        n_numbers = len(numbers)
        for k, values in enumerate(numbers.values()):
            changing[k] = values
        changing[n_numbers:] = self.state.reader.read_amounts(numbers, changing.shape[1])

    def _read_outcomes(
        self,
        outcomes: Sequence[tuple[int, Outcome]],
        added: Mapping[int, NDArray[np.int64]],
        receipt: Receipt,
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], list[Outcome]]:
        """Return list, item and time of outcomes, and the changed numbers and amounts.

        The last value contains the outcomes of unknown lists or items.
        """
        names = self.state.reader.amount_columns
        positions = {name: k for k, name in enumerate(names)}
        heads: list[tuple[int, int, int]] = []
        numbers: list[NDArray[np.float64]] = []
        unmatched: list[Outcome] = []
        #: Numbers of rows that an earlier outcome of this batch has changed.
        changed: dict[tuple[int, int], NDArray[np.float64]] = {}
        items = _hash_ids(event.item for _, event in outcomes)
        for (list_id, event), item in zip(outcomes, items, strict=True):
            row = changed.get((list_id, item))
            if row is None:
                row = self._find_numbers(list_id, item, added)
            if row is None:
                unmatched.append(event)
                continue
            # Nothing changes until the record is in the log: ``apply`` makes the changes.
            row = row.copy()
            for name, value in event.values.items():
                if name in positions:
                    row[positions[name]] = value
                else:
                    receipt.unknown_columns[name] += 1
            changed[list_id, item] = row
            heads.append((list_id, item, event.time))
            numbers.append(row)
        changes = np.empty((self.layout.height - self.layout.numbers.start, len(numbers)))
        if numbers:
            columns = np.array(numbers).T
            self._fill_amounts(changes, dict(zip(names, columns, strict=True)))
        return np.array(heads, dtype=np.int64).reshape(-1, _OUTCOME_WORDS), changes, unmatched

    def _find_numbers(
        self, list_id: int, item: int, added: Mapping[int, NDArray[np.int64]]
    ) -> NDArray[np.float64] | None:
        """Return the numbers of the row of an item, None if the list or the item is unknown."""
        waiting = self._lists.get(list_id)
        if waiting is None:
            words = added.get(list_id)
            if words is None:
                return None
            waiting = WaitingList(0, 0, words, False)
        row = waiting.find_row(item)
        if row < 0:
            return None
        return waiting.words[self.layout.numbers, row].view(np.float64)

    # -- applying -------------------------------------------------------------------------------
    def apply(self, record: EventRecord) -> int:
        """Make the changes of a batch; return the number of late outcomes."""
        lists = np.frombuffer(record.lists, dtype=np.int64).reshape(-1, _LIST_WORDS)
        words = np.frombuffer(record.rows, dtype=np.int64).reshape(self.layout.height, -1)
        heads = np.frombuffer(record.outcomes, dtype=np.int64).reshape(-1, _OUTCOME_WORDS)
        n_changing = self.layout.height - self.layout.numbers.start
        changes = np.frombuffer(record.changes, dtype=np.float64).reshape(n_changing, -1)
        ids = np.frombuffer(record.ids, dtype=np.int64).tolist()
        late = 0
        with self._lock, self.changes:
            for (list_id, rows), head in zip(_split_lists(lists, words), lists, strict=True):
                time = int(head[1])
                # A copy, because outcomes change it.
                self._lists[list_id] = WaitingList(time, time, rows.copy(), False)
                self._n_rows += rows.shape[1]
                self._push(list_id, time)
            for (list_id, item, time), change in zip(heads.tolist(), changes.T, strict=True):
                late += self._change(list_id, item, time, change)
            self.late += late
            self._event_ids[0].update(ids)
            times = [*lists[:, 1].tolist(), *heads[:, 2].tolist()]
            if times:
                previous = times[0] if self.last_event is None else self.last_event
                self.last_event = max(previous, *times)
            self._expire()
        return late

    def _push(self, list_id: int, end: int) -> None:
        heapq.heappush(self._not_visible, (self.state.visible_times(end), list_id))

    def _change(self, list_id: int, item: int, time: int, change: NDArray[np.float64]) -> bool:
        """Change the row of an outcome; return whether it is late."""
        waiting = self._lists.get(list_id)
        row = -1
        # An outcome that was accepted may come after its list has expired.
        if waiting is not None:
            row = waiting.find_row(item)
        if waiting is None or row < 0:
            return False
        layout = self.layout
        old_amounts = waiting.words[layout.amounts, row].view(np.float64).copy()
        waiting.words[layout.changing, row] = change.view(np.int64)
        end = waiting.end
        # Without a column of outcome times, offline lists end with their rows, and so do these.
        if self.history.outcome_time is not None:
            end = max(end, time)
        if waiting.is_applied:
            added = waiting.words[layout.amounts, row].view(np.float64) - old_amounts
            keys = waiting.words[layout.keys, row]
            self.state.amend(keys[:, None].copy(), added[:, None].copy(), end)
        # The list ends later, so it becomes visible later; its former entry is skipped.
        elif end != waiting.end:
            waiting.end = end
            self._push(list_id, end)
        return waiting.is_applied

    def _expire(self) -> None:
        """Forget lists and event ids that are older than ``join_ttl``."""
        now = max(self.state.clock, self.last_event or self.state.clock)
        ids, lists = [], []
        while self._lists:
            list_id, waiting = next(iter(self._lists.items()))
            # Lists are in the order in which they came, so the first is the oldest.
            if waiting.time >= now - self.join_ttl:
                break
            del self._lists[list_id]
            self._n_rows -= waiting.words.shape[1]
            if not waiting.is_applied:
                ids.append(list_id)
                lists.append(waiting)
        self._add_to_state(ids, lists)
        if now - self._ids_since > self.join_ttl:
            self._event_ids = (set(), self._event_ids[0])
            self._ids_since = now

    # -- counts and snapshots -------------------------------------------------------------------
    @property
    def n_waiting(self) -> int:
        """Number of lists whose outcomes are accepted."""
        return len(self._lists)

    @property
    def n_bytes(self) -> int:
        """Bytes of the tables and of the waiting rows."""
        return self.state.n_bytes + 8 * self.layout.height * self._n_rows

    def content(self, segment: int) -> bytes:
        """Return what a snapshot adds to the state; ``segment`` is the first log after it."""
        self.changes.check()
        lists = [
            (list_id, waiting.time, waiting.end, int(waiting.is_applied), waiting.words.shape[1])
            for list_id, waiting in self._lists.items()
        ]
        empty = np.empty((self.layout.height, 0), dtype=np.int64)
        rows = np.concatenate([empty, *(w.words for w in self._lists.values())], axis=1)
        recent, older = (np.array(sorted(ids), dtype=np.int64) for ids in self._event_ids)
        last_event = self.state.clock
        if self.last_event is not None:
            last_event = self.last_event
        content = LiveContent(
            segment,
            (recent.tobytes(), older.tobytes()),
            np.array(lists, dtype=np.int64).tobytes(),
            rows.tobytes(),
            last_event,
            self.late,
        )
        return msgspec.msgpack.encode(content)

    def restore(self, content: LiveContent) -> None:
        """Add the ids of events and the waiting lists of a snapshot."""
        try:
            lists = np.frombuffer(content.lists, dtype=np.int64).reshape(-1, _SAVED_WORDS)
            words = np.frombuffer(content.rows, dtype=np.int64).reshape(self.layout.height, -1)
            recent, older = (np.frombuffer(ids, dtype=np.int64) for ids in content.event_ids)
        except ValueError as error:
            raise _damaged(str(error)) from error
        heads = lists[:, [0, 1, 4]]
        if (heads[:, 2] < 0).any() or heads[:, 2].sum() != words.shape[1]:
            raise _damaged("the sizes of lists do not add up")
        for (list_id, rows), head in zip(_split_lists(heads, words), lists.tolist(), strict=True):
            _, time, end, is_applied, _ = head
            waiting = WaitingList(time, end, rows.copy(), bool(is_applied))
            self._lists[list_id] = waiting
            self._n_rows += rows.shape[1]
            if not is_applied:
                self._push(list_id, end)
        self._event_ids = (set(recent.tolist()), set(older.tolist()))
        self.last_event = content.last_event
        self.late = content.late
        self.segment = content.segment


def _hash_ids(ids: Iterable[str | int | None]) -> list[int]:
    """Hash the ids of lists, items or events as ids in files."""
    hashes: list[int] = hash_values(list(ids), "id").view(np.int64).tolist()
    return hashes


def _damaged(reason: str) -> ModelFormatError:
    return ModelFormatError(
        f"the waiting lists are damaged: {reason}", fix="Restore the file from a copy"
    )


def _split_lists(
    lists: NDArray[np.int64], words: NDArray[np.int64]
) -> Iterable[tuple[int, NDArray[np.int64]]]:
    """Yield the id and the words of each list."""
    ends = np.cumsum(lists[:, 2])
    for list_id, size, end in zip(lists[:, 0].tolist(), lists[:, 2].tolist(), ends, strict=True):
        yield list_id, words[:, end - size : end]


def compile_kernels() -> None:
    """Compile everything that a server calls, so that no request waits for it."""
    feature = HistoryFeature(("item", "user"), rate="clicked", half_life="1d")
    history = History(("rate",), (feature,), "list", "time")
    live = LiveHistory(HistoryState(history), join_ttl=10**9)
    rows = [{"item": "a", "user": 1}]
    keys = live.state.reader.read_keys({"item": ["a"], "user": [1]}, 1)
    for time in (1, 3):
        record, _ = live.prepare([Shown(time, time, time, [1], rows)])
        live.apply(record)
        live.read(time + 1, keys)
        # The second click is late.
        record, _ = live.prepare([Outcome(-time, 1, time, 1, {"clicked": time})])
        live.apply(record)
        live.state = live.state.copy()
    live.read(5, keys)
