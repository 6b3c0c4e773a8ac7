"""Records are whole or gone."""

from __future__ import annotations

import pytest

from rankine.core.errors import DataError, LimitError
from rankine.history.event_log import EventLog, read_records

RECORDS = [b"first", b"second record", b"\x00" * 40]


def _write(path):
    with EventLog(path) as log:
        log.append(*RECORDS)


def test_a_closed_file_gives_its_records_back(tmp_path):
    path = tmp_path / "events.log"
    _write(path)
    with EventLog(path) as log:
        assert log.recovery.records == 3
        log.append(b"later")
    assert list(read_records(path)) == [*RECORDS, b"later"]
    assert list(read_records(tmp_path / "absent.log")) == []


def test_a_torn_last_record_is_cut_off_wherever_it_was_torn(tmp_path):
    path = tmp_path / "events.log"
    _write(path)
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with EventLog(path) as log:
            n_left = log.recovery.records
            log.append(b"after the crash")
        assert list(read_records(path)) == [*RECORDS[:n_left], b"after the crash"]
    assert n_left == 2


def test_zeros_after_a_power_cut_are_cut_off(tmp_path):
    path = tmp_path / "events.log"
    _write(path)
    whole = path.read_bytes()
    start = whole.index(b"second") - 8
    for n_written in (0, 4, 8, 12):
        written = whole[: start + n_written]
        path.write_bytes(written + bytes(len(whole) - len(written)))
        with EventLog(path) as log:
            assert (log.recovery.records, log.recovery.torn_bytes) == (1, len(whole) - start)
            log.append(b"later")
        assert list(read_records(path)) == [RECORDS[0], b"later"]


def test_damage_before_the_end_is_an_error(tmp_path):
    path = tmp_path / "events.log"
    _write(path)
    data = bytearray(path.read_bytes())
    data[data.index(b"second")] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError):
        EventLog(path)
    data[data.index(b"econd") - 1 - 8 + 3] ^= 0x80  # the length
    path.write_bytes(data)
    with pytest.raises(LimitError):
        EventLog(path)
    path.write_bytes(b"something else entirely")
    with pytest.raises(DataError):
        list(read_records(path))
