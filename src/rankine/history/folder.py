"""The folder of a state that is fed live: a snapshot, and logs of the events after it.

The logs are numbered; a snapshot has the number of the log after it. ``compact`` applies the older
logs to the snapshot in another process, so that readings never wait for it. A restart does the same
with all logs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from rankine.core.errors import (
    DataError,
    FeatureMismatchError,
    ModelFormatError,
    ParameterError,
    attach_file_to_errors,
)
from rankine.core.specs import History, encode_transforms
from rankine.core.stores import local_path
from rankine.history.event_log import EventLog, read_records
from rankine.history.live import EventRecord, LiveContent, LiveHistory
from rankine.history.state import SNAPSHOT_NAME, HistoryState

_LOG_PATTERN = "events-*.log"
_LOCK_NAME = "lock"
#: Held while a snapshot is written, also by a process that has outlived its server.
_COMPACTION_LOCK_NAME = "snapshot.lock"
_COMPACT = "import sys; from rankine.history.folder import run_compaction; run_compaction(sys.argv)"
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(EventRecord).decode


def log_path(folder: Path, segment: int) -> Path:
    """Return the path of a log."""
    return folder / f"events-{segment:08}.log"


def log_segments(folder: Path) -> list[int]:
    """Return the numbers of the logs in a folder, in order."""
    numbers = [path.stem.partition("-")[2] for path in folder.glob(_LOG_PATTERN)]
    return sorted(int(number) for number in numbers if number.isdigit())


def check_not_live(folder: str | os.PathLike[str]) -> None:
    """Raise an error if a server feeds the state of a folder: batches would count twice."""
    if log_segments(local_path(folder, "state")):
        raise ParameterError(
            "the state is fed by the events of a server",
            parameter="state",
            fix="Send the events to the server, or pass another folder",
        )


def read_folder(
    folder: Path,
    history: History | None,
    *,
    join_ttl: int,
    max_keys: int | None = None,
    before: int | None = None,
) -> LiveHistory:
    """Read the snapshot of a folder, and apply the logs after it (those before a number)."""
    snapshot = folder / SNAPSHOT_NAME
    state, extra = HistoryState.load(snapshot, history, max_keys)
    live = LiveHistory(state, join_ttl)
    if extra:
        with attach_file_to_errors(os.fspath(snapshot)):
            live.restore(_decode_content(extra))
    segment = live.segment
    numbers = [number for number in log_segments(folder) if number >= segment]
    # A missing log would leave a gap in the sums that nobody notices.
    if numbers != list(range(segment, segment + len(numbers))):
        raise DataError(
            f"{log_path(folder, segment).name} is missing",
            file=str(folder),
            fix="Restore the folder of the state from a copy",
        )
    for number in numbers:
        if before is None or number < before:
            _replay(live, log_path(folder, number))
    return live


def _decode_content(extra: bytes) -> LiveContent:
    try:
        return msgspec.msgpack.decode(extra, type=LiveContent)
    except msgspec.MsgspecError as error:
        raise ModelFormatError(
            f"the waiting lists are damaged: {error}", fix="Restore the file from a copy"
        ) from error


def _replay(live: LiveHistory, path: Path) -> None:
    """Apply the records of a log; the first names the history features."""
    with attach_file_to_errors(str(path)):
        records = read_records(path)
        first = next(records, None)
        # A log of other features has rows of another layout.
        if first is not None and first != _header(live.history):
            raise FeatureMismatchError(
                "the events belong to other history features than the state",
                fix="Restore the folder of the state from a copy",
            )
        for record in records:
            try:
                live.apply(_decode(record))
            except (msgspec.MsgspecError, ValueError) as error:
                raise DataError(
                    f"a record is damaged: {error}", fix="Restore the folder of the state"
                ) from error


def _header(history: History) -> bytes:
    return msgspec.json.encode(encode_transforms([history]))


class LiveFolder:
    """Writes the events of a state to its folder, which one process at a time can do.

    Parameters
    ----------
    folder
        Is created if it does not exist, with an empty state.
    live
        The state of the folder, if it has been read and there are no logs.

    Attributes
    ----------
    live
        The state with all events of the folder.
    torn_bytes
        Bytes of an incomplete last event, which were cut off.
    compaction_error
        Why the last compaction failed.
    n_rows
        Rows and outcomes that were logged since the last snapshot began, in this process.
    """

    def __init__(
        self,
        folder: Path,
        history: History,
        *,
        join_ttl: int,
        max_keys: int | None = None,
        live: LiveHistory | None = None,
    ) -> None:
        self.folder = folder
        self.n_rows = 0
        self.compaction_error = ""
        self._arguments = (str(join_ttl), str(max_keys or 0))
        self._compaction: subprocess.Popen[bytes] | None = None
        self._is_dirty = False
        folder.mkdir(parents=True, exist_ok=True)
        self._lock_file = _lock(folder)
        _lock(folder, _COMPACTION_LOCK_NAME, wait=True).close()
        if not (folder / SNAPSHOT_NAME).exists():
            HistoryState(history).save(folder / SNAPSHOT_NAME)
        segments = log_segments(folder)
        self.torn_bytes = 0
        if segments:
            # Opening cuts off an incomplete last record, before the logs are read.
            with EventLog(log_path(folder, segments[-1])) as log:
                self.torn_bytes = log.recovery.torn_bytes
        if live is None or segments:
            live = read_folder(folder, history, join_ttl=join_ttl, max_keys=max_keys)
        self.live = live
        self._segment = max(segments, default=live.segment)
        self._log = self._open_log()

    def _open_log(self) -> EventLog:
        log = EventLog(log_path(self.folder, self._segment))
        if log.recovery.records == 0:
            log.append(_header(self.live.history))
        return log

    def append(self, record: EventRecord, n_rows: int) -> None:
        """Append a record; when this returns, the operating system has it."""
        self._log.append(_encode(record))
        self._is_dirty = True
        self.n_rows += n_rows

    def sync(self) -> None:
        """Flush the log to disk, if there is anything new."""
        if self._is_dirty:
            self._log.sync()
            self._is_dirty = False

    def begin_log(self) -> int:
        """Close the log and begin the next one; return its number."""
        self._log.close()
        self._segment += 1
        self._log = self._open_log()
        self.n_rows = 0
        return self._segment

    def start_compaction(self) -> None:
        """Begin a new log, and apply the others to the snapshot in another process."""
        segment = self.begin_log()
        # Another process: a thread would share Python's lock with the rankings.
        command = [sys.executable, "-c", _COMPACT, str(self.folder), str(segment)]
        command += [str(self.live.state.clock), *self._arguments]
        self._compaction = subprocess.Popen(command, stderr=subprocess.PIPE)  # noqa: S603

    def poll_compaction(self) -> bool | None:
        """Return whether a compaction has succeeded that ended since the last call; else None."""
        if self._compaction is None or self._compaction.poll() is None:
            return None
        process, self._compaction = self._compaction, None
        _, errors = process.communicate()
        self.compaction_error = errors.decode(errors="replace").strip()
        return process.returncode == 0

    @property
    def is_compacting(self) -> bool:
        """Whether a compaction is running."""
        return self._compaction is not None

    def close(self) -> None:
        """Flush and close the log."""
        self._log.close()
        if self._compaction is not None:
            # Its snapshot is written as a whole or not at all.
            self._compaction.kill()
            self._compaction.communicate()
        self._lock_file.close()


def _lock(folder: Path, name: str = _LOCK_NAME, *, wait: bool = False) -> Any:
    """Lock a folder until the returned file is closed."""
    file = (folder / name).open("wb")
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except ImportError:  # a system without such locks
        return file
    except OSError as error:
        file.close()
        raise ParameterError(
            f"another process writes events to {folder}",
            parameter="state",
            fix="Stop it, or pass another folder",
        ) from error
    return file


def compact(
    folder: Path, before: int, clock: int, *, join_ttl: int, max_keys: int | None = None
) -> None:
    """Apply the logs before a number to the snapshot, and remove them."""
    with _lock(folder, _COMPACTION_LOCK_NAME, wait=True):
        live = read_folder(folder, None, join_ttl=join_ttl, max_keys=max_keys, before=before)
        live.advance(clock)
        # First the snapshot, then the logs: after a crash between them old logs are left, not lost.
        live.state.save(folder / SNAPSHOT_NAME, live.content(before))
        for number in log_segments(folder):
            if number < before:
                log_path(folder, number).unlink()


def run_compaction(argv: list[str]) -> None:
    """Run ``compact`` with the arguments of a command line, at low priority."""
    if hasattr(os, "nice"):
        os.nice(5)
    folder, before, clock, join_ttl, max_keys = argv[1:]
    compact(
        Path(folder),
        int(before),
        int(clock),
        join_ttl=int(join_ttl),
        max_keys=int(max_keys) or None,
    )
