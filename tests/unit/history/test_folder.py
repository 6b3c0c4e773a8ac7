"""The folder of a live state: one writer, a snapshot and logs that lose nothing in a crash."""

from __future__ import annotations

import numpy as np
import pytest

from rankine.core.errors import DataError, FeatureMismatchError, ParameterError
from rankine.history.folder import (
    LiveFolder,
    check_not_live,
    compact,
    log_path,
    log_segments,
    read_folder,
)
from reference.history import history_of, random_log, run_state
from unit.history.live_events import TTL, read_rows, shown, small_history, split_events


def log_into(folder, events):
    record, receipt = folder.live.prepare(events)
    folder.append(record, receipt.rows)
    receipt.late = folder.live.apply(record)
    return receipt


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
    with pytest.raises(ParameterError) as caught:
        LiveFolder(tmp_path, history, join_ttl=TTL)
    assert caught.value.parameter == "state"
    folder.close()
    with pytest.raises(FeatureMismatchError):
        LiveFolder(tmp_path, small_history(delay=1), join_ttl=TTL)
    with pytest.raises(ParameterError) as caught:
        check_not_live(tmp_path)
    assert caught.value.parameter == "state"
    log_path(tmp_path, 1).rename(log_path(tmp_path, 3))
    with pytest.raises(DataError) as caught:
        read_folder(tmp_path, history, join_ttl=TTL)
    assert caught.value.file == str(tmp_path)
