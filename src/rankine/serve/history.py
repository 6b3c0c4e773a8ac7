"""The state of history features on a server: read by rankings, fed by events or by snapshots.

Without events the folder is watched, and a newer snapshot replaces the state (nightly batches). The
first event makes the state live: from then on the events of this server change it, and are logged.
One thread handles events, so that rankings wait neither for it nor for the disk.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rankine.core.errors import DataError, FeatureMismatchError, RankineError
from rankine.core.safe_text import printable
from rankine.core.specs import History
from rankine.history.folder import LiveFolder, log_segments, read_folder
from rankine.history.live import LiveHistory, Outcome, Receipt, Shown, compile_kernels
from rankine.history.rows import format_time
from rankine.history.state import SNAPSHOT_NAME, HistoryState
from rankine.serve.schemas import RequestError, StateReply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankine.serve.metrics import Metrics

FSYNC_MODES = ("always", "interval")
_LOG = logging.getLogger("rankine.serve")


@dataclass(frozen=True)
class StateSettings:
    """Where the state of history features is, and how it is kept.

    Attributes
    ----------
    folder
        Folder of the snapshot and of the logs of events.
    always_fsync
        Whether each request is flushed to disk before its reply; otherwise all once a second.
    join_ttl
        Microseconds for which outcomes of a shown list are accepted.
    max_keys
        Largest number of keys per feature; with more, the least recently updated ones go.
    snapshot_rows
        A snapshot is written after this number of rows and outcomes.
    """

    folder: Path
    always_fsync: bool = False
    join_ttl: int = 86400 * 10**6
    max_keys: int | None = None
    snapshot_rows: int = 1_000_000


class HistoryService:
    """Computes the history features of the served models, and takes events.

    Attributes
    ----------
    live
        The state; None until a model with history features is loaded.
    """

    def __init__(self, settings: StateSettings, metrics: Metrics) -> None:
        self.settings = settings
        self.metrics = metrics
        self.live: LiveHistory | None = None
        self._folder: LiveFolder | None = None
        self._snapshot = settings.folder / SNAPSHOT_NAME
        #: Device, inode, size and time of the snapshot that was read.
        self._version: tuple[int, ...] | None = None
        self._evicted = 0
        # The first event must not come between reading a snapshot and using it.
        self._mode_lock = threading.Lock()
        metrics.observe_history(self)

    # -- state and models -----------------------------------------------------------------------
    def attach(self, history: History) -> LiveHistory:
        """Return the state for a model; raise if it belongs to other features."""
        live = self.live
        if live is None or (live.history != history and not self.is_live):
            live = self._open(history)
        if live.history != history:
            raise FeatureMismatchError(
                "the model has other history features than the state, which is fed by events",
                fix="Start another server for it, with its own state",
            )
        self.live = live
        return live

    def _open(self, history: History) -> LiveHistory:
        settings = self.settings
        compile_kernels()
        if log_segments(settings.folder):
            return self._go_live(history).live
        if self._read_version() is None:
            _LOG.warning("%s contains no state: history starts empty", settings.folder)
        return self._read_again(history)

    def _read_snapshot(self, history: History) -> LiveHistory:
        settings = self.settings
        return read_folder(
            settings.folder, history, join_ttl=settings.join_ttl, max_keys=settings.max_keys
        )

    def _go_live(self, history: History, live: LiveHistory | None = None) -> LiveFolder:
        """Open the logs of events, and apply those that are there."""
        settings = self.settings
        started = time.perf_counter()
        self._folder = folder = LiveFolder(
            settings.folder,
            history,
            join_ttl=settings.join_ttl,
            max_keys=settings.max_keys,
            live=live,
        )
        seconds = time.perf_counter() - started
        _LOG.info("the state is fed by events; %s read in %.1f s", settings.folder, seconds)
        if folder.torn_bytes:
            _LOG.warning("the last event was incomplete: %d bytes cut off", folder.torn_bytes)
        self._version = self._read_version()
        return folder

    @property
    def is_live(self) -> bool:
        """Whether events feed the state."""
        return self._folder is not None

    def _read_version(self) -> tuple[int, ...] | None:
        try:
            status = self._snapshot.stat()
        except OSError:
            return None
        return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)

    def refresh(self) -> bool:
        """Load a newer snapshot, unless events feed the state; return whether there is one."""
        with self._mode_lock:
            return self._load_newer_snapshot()

    def _load_newer_snapshot(self) -> bool:
        version = self._read_version()
        if self.live is None or self.is_live or version in (None, self._version):
            return False
        self._version = version
        try:
            loaded = self._read_snapshot(self.live.history)
        except RankineError as error:
            # A model that fits the new state may be among those that were refused.
            _LOG.error("the new state is not used: %s", printable(error.reason, 300))
            self.metrics.reload("refused")
            return True
        self.live.replace(loaded)
        self.metrics.reload("loaded")
        _LOG.info("state replaced, %d keys", sum(loaded.state.n_keys.values()))
        return True

    # -- events, on their own thread ------------------------------------------------------------
    def require_live(self) -> LiveHistory:
        """Return the state; an error if no model has history features."""
        if self.live is None:
            raise no_state()
        return self.live

    def submit(self, events: Sequence[Shown | Outcome]) -> Receipt:
        """Check, log and apply events; when this returns, they are in the log file."""
        live = self.require_live()
        record, receipt = live.prepare(events)
        try:
            if receipt.accepted:
                with self._mode_lock:
                    folder = self._folder or self._go_live(live.history, live)
                folder.append(record, receipt.rows + receipt.accepted)
                # Before the flush: what is in the log counts, also if it cannot be flushed.
                receipt.late = live.apply(record)
            # Also for a batch that is sent again because it could not be flushed.
            if self.settings.always_fsync and self._folder is not None:
                self._folder.sync()
        except (DataError, OSError) as error:
            _LOG.exception("events cannot be written")
            raise RequestError(
                503, "storage", "the events cannot be written", "Send them again later"
            ) from error
        self.metrics.count_events(receipt)
        return receipt

    def submit_recorded(self, shown: list[Shown]) -> None:
        """Take lists that the server itself returned."""
        try:
            self.submit(shown)
        except Exception:  # noqa: BLE001 - the reply has gone, and nobody waits for the result
            _LOG.exception("ranked lists were not recorded")

    def tick(self) -> None:
        """Flush the log, and write a snapshot when enough has come since the last one."""
        self._repair()
        self._report_evicted()
        folder = self._folder
        if folder is None:
            return
        try:
            folder.sync()
        except OSError:
            _LOG.exception("the log of events cannot be flushed")
        has_compacted = folder.poll_compaction()
        if has_compacted is not None:
            self._version = self._read_version()
            self.metrics.count_snapshot(succeeded=has_compacted)
            if not has_compacted:
                _LOG.error(
                    "no snapshot could be written; the logs of events stay: %s",
                    printable(folder.compaction_error, 1000),
                )
        if folder.n_rows >= self.settings.snapshot_rows and not folder.is_compacting:
            folder.start_compaction()

    def _repair(self) -> None:
        """Read the state again if a change of it has failed; the next tick tries again."""
        live = self.live
        if live is None or not live.changes.has_failed:
            return
        try:
            with self._mode_lock:
                live.replace(self._read_again(live.history))
        except (MemoryError, RankineError, OSError):
            _LOG.exception("the state cannot be read again after an error")
        else:
            _LOG.warning("the state was read again after an error")

    def _read_again(self, history: History) -> LiveHistory:
        self._version = self._read_version()
        if self._version is None:
            return LiveHistory(
                HistoryState(history, self.settings.max_keys), self.settings.join_ttl
            )
        return self._read_snapshot(history)

    def _report_evicted(self) -> None:
        if self.live is None:
            return
        evicted = sum(self.live.state.n_evicted.values())
        if evicted > self._evicted:
            _LOG.warning(
                "%d keys were removed because of --max-keys: features may differ from training",
                evicted - self._evicted,
            )
            self._evicted = evicted

    def close(self) -> None:
        """Flush and close the log."""
        if self._folder is not None:
            self._folder.close()

    # -- description ----------------------------------------------------------------------------
    def describe(self) -> StateReply:
        """Return the reply of ``/v1/state``."""
        live = self.require_live()
        state = live.state
        evicted = state.n_evicted
        return StateReply(
            mode="events" if self.is_live else "snapshots",
            keys=state.n_keys,
            bytes=live.n_bytes,
            last_event=format_time(live.last_event),
            clock=format_time(state.clock),
            lists_waiting=live.n_waiting + state.waiting.n_lists,
            late_lists=state.counts.late,
            late_outcomes=live.late,
            evicted=evicted,
            parity=not (any(evicted.values()) or state.counts.late or live.late),
        )


def no_state() -> RequestError:
    """Return the error of a server without a state."""
    return RequestError(
        404,
        "no-state",
        "no served model computes history features from a state",
        "Start the server with --state DIR, and a model that has history features",
    )
