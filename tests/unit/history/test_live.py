"""Events that come one after the other give the state of an offline pass, also after a crash."""

from __future__ import annotations

import numpy as np
import pytest

from rankine.core.errors import DataError, FeatureMismatchError, ParameterError, SchemaError
from rankine.history.folder import (
    LiveFolder,
    check_not_live,
    compact,
    log_path,
    log_segments,
    read_folder,
)
from rankine.history.live import LiveHistory, Outcome, Shown, compile_kernels
from rankine.history.state import HistoryState
from reference.history import history_of, random_log, run_state

TTL = 86400 * 10**6
OUTCOMES = ("clicked", "bought")


def split_events(log, history):
    """Return each list as its time, its columns, its rows in the log, and its events."""
    lists = []
    for session, part in log.groupby("session", sort=False):
        rows = part.astype(object).where(part.notna(), None).to_dict("records")
        end = int(part.ts.max()) * 10**6
        shown_rows = [{k: v for k, v in row.items() if k not in OUTCOMES} for row in rows]
        items = list(range(len(rows)))
        events = [Shown(f"s{session}", int(session), end, items, shown_rows)]
        for i, row in enumerate(rows):
            time = max(int(row["outcome_ts"]) * 10**6, end)
            values = {name: row[name] for name in OUTCOMES}
            events.append(Outcome(f"o{session}/{i}", int(session), time, i, values))
        lists.append((int(part.ts.min()) * 10**6, shown_rows, part.index.to_numpy(), events))
    return lists


def read_rows(live, time, rows):
    columns = {name: [row.get(name) for row in rows] for name in live.state.reader.key_columns}
    return live.read(time, live.state.reader.read_keys(columns, len(rows)))


def submit(live, events):
    record, receipt = live.prepare(events)
    receipt.late = live.apply(record)
    return receipt


def log_into(folder, events):
    record, receipt = folder.live.prepare(events)
    folder.append(record, receipt.rows)
    receipt.late = folder.live.apply(record)
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
    for time, rows, index, (shown, *outcomes) in split_events(log, history):
        # The server cannot know of an outcome that is still to come: rows without outcomes count
        # from the time when they were shown.
        due = [event for event in pending if event.time + 30 * 10**6 < time + 40 * 10**6]
        submit(live, due)
        pending = [event for event in pending if event not in due] + outcomes
        np.testing.assert_array_equal(read_rows(live, time, rows), expected[index])
        submit(live, [shown])
    assert live.late == 0


@pytest.mark.parametrize("seed", range(3))
def test_a_crash_loses_nothing(seed, tmp_path):
    """Kill at any moment = open the folder again without closing it."""
    rng = np.random.default_rng(seed)
    log, history = random_log(rng, 60), history_of(delay=5)
    expected = run_state(log, history)
    folder = LiveFolder(tmp_path, history, join_ttl=TTL)
    for i, (time, rows, index, events) in enumerate(split_events(log, history)):
        np.testing.assert_array_equal(read_rows(folder.live, time, rows), expected[index])
        receipt = log_into(folder, events)
        if i % 7 == 3:
            folder._lock_file.close()
            if i % 2:
                with log_path(tmp_path, log_segments(tmp_path)[-1]).open("ab") as file:
                    file.write(b"\x50\x00\x00\x00torn")
            folder = LiveFolder(tmp_path, history, join_ttl=TTL)
            assert (folder.torn_bytes > 0) == bool(i % 2)
            repeated = log_into(folder, events)
            assert (repeated.accepted, repeated.duplicates) == (0, receipt.accepted)
        if i % 20 == 10:
            segment = folder.begin_log()
            compact(tmp_path, segment, folder.live.state.clock, join_ttl=TTL)
            assert log_segments(tmp_path) == [segment]
    folder.close()
    assert run_tables(read_folder(tmp_path, history, join_ttl=TTL)) == run_tables(folder.live)


def run_tables(live):
    live.advance(10**12)
    return [table.live_rows(10**12).tolist() for table in live.state.tables]


def small_history(**fields):
    features = {
        "ctr": {"rate": "clicked", "by": "item", "prior": 0},
        "clicks": {"count": "clicked", "by": "item"},
        "coec": {"rate": "clicked", "over": "examination", "by": "item", "prior": 0},
        "last": {"last": "clicked", "by": "item"},
    }
    return history_of(features, **fields)


def shown(name, time, *items):
    return Shown(f"event {name}", name, time, list(items), [{"item": item} for item in items])


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
    with pytest.raises(SchemaError, match="clicked"):
        live.prepare([good, bad])
    with pytest.raises(SchemaError, match="below 1"):
        live.prepare([good._replace(rows=[{"item": "a", "position": 0}])])
    assert (live.n_waiting, live.last_event) == (0, None)
    assert submit(live, [good]).accepted == 1


def test_a_failed_snapshot_is_reported_and_loses_nothing(tmp_path):
    folder = LiveFolder(tmp_path, small_history(), join_ttl=TTL)
    log_into(folder, [shown("L1", 10, "a")])
    snapshot = tmp_path / "history.safetensors"
    content = snapshot.read_bytes()
    snapshot.write_bytes(b"damaged")
    folder.start_compaction()
    folder._compaction.wait()
    assert folder.poll_compaction() is False
    assert "ModelFormatError" in folder.compaction_error
    assert folder.poll_compaction() is None
    snapshot.write_bytes(content)
    folder.close()
    again = LiveFolder(tmp_path, small_history(), join_ttl=TTL)
    assert log_into(again, [shown("L1", 10, "a")]).duplicates == 1
    # A server that stops does not wait for a snapshot.
    again.start_compaction()
    again.close()
    assert read_folder(tmp_path, small_history(), join_ttl=TTL).n_waiting == 1


def test_a_folder_without_its_logs_goes_on_after_its_snapshot(tmp_path):
    history = small_history()
    folder = LiveFolder(tmp_path, history, join_ttl=TTL)
    log_into(folder, [shown("L1", 10, "a")])
    compact(tmp_path, folder.begin_log(), 20, join_ttl=TTL)
    folder.close()
    log_path(tmp_path, 2).unlink()
    live = read_folder(tmp_path, history, join_ttl=TTL)
    folder = LiveFolder(tmp_path, history, join_ttl=TTL, live=live)
    log_into(folder, [shown("L2", 30, "a")])
    folder.close()
    assert read_folder(tmp_path, history, join_ttl=TTL).n_waiting == 2


def test_a_folder_has_one_writer_and_one_history(tmp_path):
    history = small_history()
    check_not_live(tmp_path)
    folder = LiveFolder(tmp_path, history, join_ttl=TTL)
    log_into(folder, [shown("L1", 10, "a")])
    with pytest.raises(ParameterError, match="another process"):
        LiveFolder(tmp_path, history, join_ttl=TTL)
    folder.close()
    with pytest.raises(FeatureMismatchError):
        LiveFolder(tmp_path, small_history(delay=1), join_ttl=TTL)
    with pytest.raises(ParameterError, match="fed by"):
        check_not_live(tmp_path)
    log_path(tmp_path, 1).rename(log_path(tmp_path, 3))
    with pytest.raises(DataError, match="00000001"):
        read_folder(tmp_path, history, join_ttl=TTL)


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
