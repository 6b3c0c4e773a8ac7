"""A study on disk: created once, refused for other data, safe against kills and rivals.

The study is Optuna's SQLite file (in WAL mode; every commit reaches the disk), so that Optuna and
its dashboard read it. What Optuna leaves open is done here under an exclusive lock on a file beside
it, which the system releases when a process dies: a trial is claimed and signed by its owner in one
step, the number of trials never exceeds what was asked for, and trials whose owner is dead are
failed and queued again.

An owner is a process. Its id alone is not enough, since it is used again: the id, the moment the
process began and the boot of the machine together are unique. All workers of a study run on one
machine.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from rankine.core.errors import CheckpointError
from rankine.tuning import import_optuna
from rankine.tuning.thompson import ABANDONED

#: Start of a process where neither /proc nor ps tells: then only this process counts as alive.
_UNKNOWN = "unknown"


def own_name() -> str:
    """Name of the running process: ``"pid boot start"``."""
    return f"{os.getpid()} {_boot()} {_start(os.getpid())}"


def alive(owner: str) -> bool:
    """Whether the process of that name still runs."""
    pid, _, rest = owner.partition(" ")
    if not pid.isdigit():
        return False
    if rest.endswith(_UNKNOWN):
        return int(pid) == os.getpid()
    return rest == f"{_boot()} {_start(int(pid))}"


def _boot() -> str:
    """Something that changes when the machine starts again."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return sys.platform


def _start(pid: int) -> str:
    """When a process began; ``"gone"`` if there is none."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            # the command, in brackets, may hold spaces and brackets itself
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            return "gone"
        return "gone" if fields[0] in "ZX" else fields[19]
    try:
        asked = subprocess.run(  # noqa: S603 - the id is a number
            ["ps", "-o", "lstart=", "-p", str(pid)],  # noqa: S607
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return _UNKNOWN
    return asked.stdout.strip() or "gone"


NAME = "rankine"
OWNER = "rankine:owner"
AGAIN = "rankine:again"
ABOUT = "rankine:about"
#: Seconds to wait for a rival that holds the lock or writes.
PATIENCE = 600.0


class SharedStudy:
    """An Optuna study that several workers complete together.

    ``path`` is its SQLite file (None: in memory), ``about`` what it is about: data, metric, space
    and so on. A file that was made for something else is refused.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        about: Mapping[str, Any],
        *,
        maximize: bool,
        sampler: Any,
        pruner: Any,
    ) -> None:
        self.path = None if path is None else Path(path)
        self._owner = own_name()
        self._in_memory = threading.Lock()
        optuna = import_optuna()
        storage: Any
        with self.lock():
            if self.path is None:
                storage = optuna.storages.InMemoryStorage()
            else:
                storage = _open_storage(optuna, self.path)
            self.study = optuna.create_study(
                storage=storage,
                study_name=NAME,
                direction="maximize" if maximize else "minimize",
                sampler=sampler,
                pruner=pruner,
                load_if_exists=True,
            )
            self._sign(json.loads(json.dumps(about)))

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Be alone with the study."""
        with self._in_memory if self.path is None else _exclusive(self.path):
            yield

    def claim(self, total: int) -> Any:
        """The next trial; None when ``total`` are finished or being run by live workers."""
        with self.lock():
            self.sweep()
            taken = [
                t
                for t in self._trials()
                if t.state.name != "WAITING"
                and not (t.state.name == "FAIL" and t.user_attrs.get(ABANDONED))
            ]
            if len(taken) >= total:
                return None
            trial = self.study.ask()
            trial.set_user_attr(OWNER, self._owner)
            return trial

    def rivals(self) -> bool:
        """Whether other workers still run trials; the dead among them are queued again."""
        with self.lock():
            self.sweep()
            return any(t.state.name == "RUNNING" for t in self._trials())

    def sweep(self) -> int:
        """Fail and queue again the trials of dead owners; returns how many there were.

        Call it under the lock: then a running trial without a signature is a dead one's.
        """
        dead = [
            t
            for t in self._trials()
            if t.state.name == "RUNNING" and not alive(str(t.user_attrs.get(OWNER, "")))
        ]
        for trial in dead:
            self.give_up(trial)
        return len(dead)

    def give_up(self, trial: Any) -> None:
        """Fail a running trial without blaming its parameters, and queue those again."""
        storage = self.study._storage  # noqa: SLF001 - Optuna tells running trials only this way
        storage.set_trial_user_attr(trial._trial_id, ABANDONED, True)  # noqa: SLF001
        # queue first: a kill between the two lines costs a repeated trial, never a lost one
        if trial.params and trial.user_attrs.get(AGAIN, 0) < 3:
            again = {AGAIN: int(trial.user_attrs.get(AGAIN, 0)) + 1}
            self.study.enqueue_trial(trial.params, user_attrs=again)
        state = import_optuna().trial.TrialState.FAIL
        storage.set_trial_state_values(trial._trial_id, state=state)  # noqa: SLF001

    def close(self) -> None:
        """Let go of the file; the study opens it again when asked."""
        storage = self.study._storage  # noqa: SLF001
        backend = getattr(storage, "_backend", storage)
        if hasattr(backend, "engine"):
            storage.remove_session()
            backend.engine.dispose()

    def _trials(self) -> list[Any]:
        return list(self.study.get_trials(deepcopy=False))

    def _sign(self, about: dict[str, Any]) -> None:
        known = self.study.user_attrs.get(ABOUT)
        if known is None:
            if self._trials():
                raise CheckpointError(
                    "this study was not made by rankine tune",
                    file=str(self.path),
                    fix="Name another file",
                )
            self.study.set_user_attr(ABOUT, about)
            return
        known, about = _flat(known), _flat(about)
        differing = [key for key in sorted({*known, *about}) if known.get(key) != about.get(key)]
        if differing:
            told = "; ".join(
                f"{key} was {_short(known.get(key))} and is now {_short(about.get(key))}"
                for key in differing
            )
            raise CheckpointError(
                f"this study was made for something else: {told}",
                file=str(self.path),
                fix="Continue it with the same data and options, or name another study file",
            )


def _flat(about: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, with names like ``"space.l2"``."""
    found: dict[str, Any] = {}
    for key, value in about.items():
        inner = _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {}
        found |= inner or {f"{prefix}{key}": value}
    return found


def _short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= 200 else f"{text[:200]}..."


def _open_storage(optuna: Any, path: Path) -> Any:
    try:
        with closing(sqlite3.connect(path, timeout=PATIENCE)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
        return optuna.storages.RDBStorage(
            f"sqlite:///{path}", engine_kwargs={"connect_args": {"timeout": PATIENCE}}
        )
    except (sqlite3.DatabaseError, RuntimeError) as error:
        raise CheckpointError(
            f"this is not a study: {error}", file=str(path), fix="Name another file"
        ) from error


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Hold an SQLite lock on a file of its own; it vanishes with the process."""
    beside = path.with_name(f"{path.name}.lock")
    with ExitStack() as stack:
        try:
            connection = sqlite3.connect(beside, timeout=PATIENCE, isolation_level=None)
            stack.enter_context(closing(connection))
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            raise CheckpointError(
                f"cannot lock the study: {error}", file=str(path), fix="Name a file you can write"
            ) from error
        yield
