"""An Optuna study that several workers complete together, in memory or in an SQLite file.

Optuna stores the trials and detects dead workers: while a trial runs, a thread writes a heartbeat
to the storage. A trial without one for ``GRACE_PERIOD`` seconds fails, and its parameters are
queued again. This module adds what Optuna leaves open:

- A trial is claimed under an exclusive lock on a file next to the study, which the operating
  system releases when a process dies. So the number of trials never exceeds the number requested.
- A study is only continued with the data, metric and space that it was created for.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from rankine.core.errors import CheckpointError
from rankine.core.stores import local_path
from rankine.tuning import import_optuna

NAME = "rankine"
#: User attribute of a study: data, metric, space and limits that it was created for.
CONFIGURATION = "rankine:about"
#: User attribute of a trial: its number, once its first heartbeat is stored.
CLAIMED = "rankine:claimed"
#: User attribute of a trial that failed: why. Trials of dead workers have none.
REASON = "reason"
#: Seconds between heartbeats, and without one until a worker counts as dead.
HEARTBEAT_INTERVAL, GRACE_PERIOD = 2, 20
#: How often the parameters of a trial whose worker died are tried again.
MAX_RETRIES = 3
#: Seconds to wait for another worker that holds the lock or writes.
LOCK_TIMEOUT = 600.0


def is_abandoned(trial: Any) -> bool:
    """Return whether a trial failed because its worker died, not because of its parameters."""
    return trial.state.name == "FAIL" and REASON not in trial.user_attrs


class SharedStudy:
    """An Optuna study that several workers complete together.

    ``path`` is its SQLite file (None: in memory). ``configuration`` holds the data, metric, space
    and so on; a file with another configuration is refused.
    """

    def __init__(
        self,
        path: str | PathLike[str] | None,
        configuration: Mapping[str, Any],
        *,
        maximize: bool,
        sampler: Any,
        pruner: Any,
    ) -> None:
        self.path = None if path is None else local_path(path, "study")
        self._memory_lock = threading.Lock()
        optuna = import_optuna()
        # Limited: a setting that kills its worker, by memory for example, must not be tried for
        # ever.
        self._retry = optuna.storages.RetryHeartbeatStaleTrialCallback(max_retry=MAX_RETRIES)
        with self.lock():
            if self.path is None:
                self._storage = optuna.storages.InMemoryStorage()
            else:
                self._storage = _open_storage(optuna, self.path, self._retry)
            self.study = optuna.create_study(
                storage=self._storage,
                study_name=NAME,
                direction="maximize" if maximize else "minimize",
                sampler=sampler,
                pruner=pruner,
                load_if_exists=True,
            )
            # The stored configuration was JSON, where tuples become lists.
            self._check_configuration(json.loads(json.dumps(configuration)))

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the study, so that no other worker changes it inside the block."""
        study_lock: AbstractContextManager[Any] = self._memory_lock
        if self.path is not None:
            study_lock = _exclusive(self.path)
        with study_lock:
            yield

    def start_with(self, settings: Iterable[Mapping[str, Any]]) -> None:
        """Let the first trials of a new study try these settings."""
        with self.lock():
            if not self._trials():
                for setting in settings:
                    self.study.enqueue_trial(dict(setting))

    def claim(self, total: int) -> Any:
        """Start the next trial; return None if ``total`` trials are finished or running."""
        with self.lock():
            self._queue_lost_trials()
            started = [
                t for t in self._trials() if t.state.name != "WAITING" and not is_abandoned(t)
            ]
            # Counted under the lock, so that two workers never start the last trial both.
            if len(started) >= total:
                return None
            trial = self.study.ask()
            self._beat(trial)
            trial.set_user_attr(CLAIMED, trial.number)
            return trial

    @contextmanager
    def heartbeat(self, trial: Any) -> Iterator[None]:
        """Write heartbeats of a trial while it runs."""
        # The public way to a heartbeat is study.optimize, which cannot claim under the lock.
        from optuna.storages._heartbeat import get_heartbeat_thread

        with get_heartbeat_thread(self._storage_id(trial), self._storage):
            yield

    def has_running_trials(self) -> bool:
        """Return whether trials were running; trials of dead workers are queued again."""
        with self.lock():
            # Before queueing: what is queued now must be claimed by the caller.
            is_running = any(t.state.name == "RUNNING" for t in self._trials())
            self._queue_lost_trials()
            return is_running

    def abandon(self, trial: Any) -> None:
        """Queue a trial of this process again, unless it has finished."""
        with self.lock():
            if self._trials()[trial.number].state.name == "RUNNING":
                self._queue_again(trial.number)

    def close(self) -> None:
        """Release the file; the study opens it again when it is used."""
        if self.path is not None:
            self._storage.remove_session()
            self._storage.engine.dispose()

    def _trials(self) -> list[Any]:
        return list(self.study.get_trials(deepcopy=False))

    def _beat(self, trial: Any) -> None:
        if self.path is not None:
            self._storage.record_heartbeat(self._storage_id(trial))

    def _storage_id(self, trial: Any) -> int:
        """Return the id of a trial in the storage, which numbers the trials of all studies."""
        study_id = self._storage.get_study_id_from_name(NAME)
        return int(self._storage.get_trial_id_from_study_id_trial_number(study_id, trial.number))

    def _queue_lost_trials(self) -> None:
        """Queue the trials of dead and interrupted workers again."""
        for trial in self._trials():
            # Trials are claimed under the lock, which is held here: the worker that started this
            # one has ended before its claim was stored.
            if trial.state.name == "RUNNING" and trial.user_attrs.get(CLAIMED) != trial.number:
                self._queue_again(trial.number)
        import_optuna().storages.fail_stale_trials(self.study)

    def _queue_again(self, number: int) -> None:
        failed = self.study.tell(number, state=import_optuna().trial.TrialState.FAIL)
        self._retry(self.study, failed)

    def _check_configuration(self, configuration: dict[str, Any]) -> None:
        stored = self.study.user_attrs.get(CONFIGURATION)
        if stored is None:
            # Trials without a configuration come from another program.
            if self._trials():
                raise CheckpointError(
                    "this study was not created by rankine tune",
                    file=str(self.path),
                    fix="Name another file",
                )
            self.study.set_user_attr(CONFIGURATION, configuration)
            return
        previous, current = _flatten(stored), _flatten(configuration)
        changes = [
            f"{key} was {_shorten(previous.get(key))} and is now {_shorten(current.get(key))}"
            for key in sorted({*previous, *current})
            if previous.get(key) != current.get(key)
        ]
        if changes:
            raise CheckpointError(
                f"this study was created with other settings: {'; '.join(changes)}",
                file=str(self.path),
                fix="Continue it with the same data and options, or name another study file",
            )


def _flatten(nested: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested mappings into one, with names like ``"space.l2"``."""
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        inner = {}
        if isinstance(value, dict):
            inner = _flatten(value, f"{prefix}{key}.")
        # An empty dictionary has no inner names and is listed itself.
        flat |= inner or {f"{prefix}{key}": value}
    return flat


def _shorten(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    if len(text) > 200:
        text = f"{text[:200]}..."
    return text


def _open_storage(optuna: Any, path: Path, retry: Any) -> Any:
    try:
        with closing(sqlite3.connect(path, timeout=LOCK_TIMEOUT)) as connection:
            # Readers such as the dashboard do not block writers in this mode.
            connection.execute("PRAGMA journal_mode=WAL")
        return optuna.storages.RDBStorage(
            f"sqlite:///{path}",
            engine_kwargs={"connect_args": {"timeout": LOCK_TIMEOUT}},
            heartbeat_interval=HEARTBEAT_INTERVAL,
            grace_period=GRACE_PERIOD,
            heartbeat_stale_trial_callback=retry,
        )
    except (sqlite3.DatabaseError, RuntimeError) as error:
        raise CheckpointError(
            f"this is not a study: {error}", file=str(path), fix="Name another file"
        ) from error


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Lock a file next to the study, by an exclusive SQLite transaction."""
    lock_file = path.with_name(f"{path.name}.lock")
    with ExitStack() as stack:
        try:
            # A separate file: Optuna's own transactions on the study would wait for this lock.
            connection = sqlite3.connect(lock_file, timeout=LOCK_TIMEOUT, isolation_level=None)
            stack.enter_context(closing(connection))
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            raise CheckpointError(
                f"cannot lock the study: {error}", file=str(path), fix="Name a file you can write"
            ) from error
        yield
