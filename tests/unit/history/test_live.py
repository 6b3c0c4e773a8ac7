"""Events that come one after the other give the state of an offline pass."""

from __future__ import annotations

import numpy as np
import pytest

from error_checks import raises_at
from rankine.core.errors import SchemaError
from rankine.history.live import LiveHistory, Outcome, compile_kernels
from rankine.history.state import HistoryState
from reference.history import history_of, random_log, run_state
from unit.history.live_events import TTL, read_rows, shown, small_history, split_events


def submit(live, events):
    record, receipt = live.prepare(events)
    receipt.late = live.apply(record)
    return receipt


@pytest.mark.parametrize("seed", range(6))
def test_ranking_and_posting_give_the_bits_of_an_offline_pass(seed):
    rng = np.random.default_rng(seed)
    log = random_log(rng, 60)
    history = history_of(delay=int(rng.choice([0, 30])), refresh=int(rng.choice([0, 50])))
    live = LiveHistory(HistoryState(history), TTL)
    expected = run_state(log, history)
    for time, rows, index, events in split_events(log, history):
        np.testing.assert_array_equal(read_rows(live, time, rows), expected[index])
        # One batch, or one request for each event.
        batches = [events] if rng.random() < 0.5 else [[event] for event in events]
        for batch in batches:
            receipt = submit(live, batch)
            assert (receipt.accepted, receipt.duplicates, receipt.late) == (len(batch), 0, 0)


def test_outcomes_may_come_later_but_before_they_are_known():
    log = random_log(np.random.default_rng(1), 60)
    history = history_of(delay=30)
    expected = run_state(log, history)
    live = LiveHistory(HistoryState(history), TTL)
    pending = []
    for time, rows, index, (shown_list, *outcomes) in split_events(log, history):
        # The server cannot know of an outcome that is still to come: rows without outcomes count
        # from the time when they were shown.
        due = [event for event in pending if event.time + 30 * 10**6 < time + 40 * 10**6]
        submit(live, due)
        pending = [event for event in pending if event not in due] + outcomes
        np.testing.assert_array_equal(read_rows(live, time, rows), expected[index])
        submit(live, [shown_list])
    assert live.late == 0


def test_late_outcomes_count_from_the_moment_they_come():
    live = LiveHistory(HistoryState(small_history()), TTL)
    submit(live, [shown("L1", 10, "a", "b")])
    rows = [{"item": "a"}]
    assert read_rows(live, 20, rows)[0, :2].tolist() == [0, 0]
    click = Outcome("click", "L1", 15, "a", {"clicked": 1, "colour": 3})
    receipt = submit(live, [click])
    assert (receipt.late, receipt.accepted, receipt.unknown_columns) == (1, 1, {"colour": 1})
    # One row was shown, and one click; a repeated event changes nothing.
    assert read_rows(live, 21, rows)[0].tolist() == [1, 1, 1, (21 - 15) / 3.6e9]
    assert submit(live, [click]).duplicates == 1
    assert submit(live, [click._replace(event_id="other")]).accepted == 1
    assert read_rows(live, 22, rows)[0, :3].tolist() == [1, 1, 1]
    assert live.late == 2


def test_unknown_lists_items_and_repeated_lists_are_counted():
    live = LiveHistory(HistoryState(small_history()), TTL)
    events = [
        shown("L1", 10, "a"),
        shown("L1", 11, "b")._replace(event_id="again"),
        Outcome("1", "L1", 12, "b", {"clicked": 1}),
        Outcome("2", "L2", 12, "a", {"clicked": 1}),
        Outcome("3", "L1", 12, "a", {"clicked": 1}),
        Outcome("3", "L1", 12, "a", {"clicked": 0}),
    ]
    receipt = submit(live, events)
    assert (receipt.accepted, receipt.duplicates, receipt.unmatched) == (2, 2, 2)
    assert read_rows(live, 20, [{"item": "a"}])[0, 1] == 1
    # An outcome that overtook its list may be sent again.
    again = [shown("L2", 20, "a"), events[3], shown("empty", 20)]
    assert submit(live, again).accepted == 3
    assert read_rows(live, 30, [{"item": "a"}])[0, 1] == 2


def test_lists_and_event_ids_are_forgotten_after_the_join_ttl():
    live = LiveHistory(HistoryState(small_history(delay=60)), 20 * 10**6)
    second = 10**6
    submit(live, [shown("L1", 10 * second, "a")])
    submit(live, [shown("L2", 40 * second, "a")])
    assert live.n_waiting == 1
    assert submit(live, [Outcome("x", "L1", 41, "a", {"clicked": 1})]).unmatched == 1
    # The forgotten list still counts when it is known.
    live.advance(200 * second)
    assert live.state.counts.lists == 2
    for time in (230, 260):
        submit(live, [shown(f"L{time}", time * second, "a")])
    assert submit(live, [shown("L260", 260 * second, "a")]).duplicates == 1
    assert submit(live, [shown("L1", 261 * second, "a")]).accepted == 1


def test_an_invalid_event_leaves_everything_as_it_was():
    live = LiveHistory(HistoryState(small_history()), TTL)
    good = shown("L1", 10, "a")
    bad = good._replace(list_id="L2", event_id="2", rows=[{"item": "a", "clicked": "yes"}])
    with raises_at(SchemaError, column="clicked"):
        live.prepare([good, bad])
    with raises_at(SchemaError, column="position"):
        live.prepare([good._replace(rows=[{"item": "a", "position": 0}])])
    assert (live.n_waiting, live.last_event) == (0, None)
    assert submit(live, [good]).accepted == 1


def test_what_a_server_calls_runs_once_before_the_first_request(monkeypatch):
    """A first call compiles, which would take seconds of a request."""
    names, calls = ("add_lists", "read_lists", "amend", "copy"), set()

    def record_calls(name):
        method = getattr(HistoryState, name)

        def call(self, *arguments):
            calls.add(name)
            return method(self, *arguments)

        monkeypatch.setattr(HistoryState, name, call)

    for name in names:
        record_calls(name)
    compile_kernels()
    assert calls == set(names)
