"""Checkpoints of a batch solver: recorded results, and states of loops that replace them.

A solver is a deterministic function of the results of its requests (sums over partitions). It is
therefore enough to record these results: a resumed run repeats its requests, gets recorded results
until there are no more, and computes from there, with the same bits, even in the middle of a line
search or an inner loop. A request that differs from the recorded one is an error, so a run cannot
be resumed as a different run.

Recording every result of a long run would take too much space. A loop therefore saves its *state*
before an iteration, everything that it needs to continue, which replaces all results since the loop
began. What remains are the results before the loop, its last state, and the results since then. The
state of an inner loop is kept until the outer loop saves its next state.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import CheckpointError
from rankine.distributed.worker_pool import token_of
from rankine.solvers.base import ResumePoint
from rankine.solvers.checkpoint import Checkpoint, CheckpointFolder, read_checkpoint, step_of

_SOLVER = "results and states"
#: The journal removes superseded files itself, so the folder keeps them all.
_KEEP_ALL = 2**31


class Journal:
    """Records results, and states of loops in place of the results that led there, in a folder.

    Parameters
    ----------
    folder
        Folder of the files; without ``resume`` it must hold no checkpoint.
    metadata
        What a resumed run must share: data, ranker, parameters.
    resume
        Whether to continue the run that is recorded in the folder.
    seconds
        Results are written when the last write is this long ago, and at the end; a state when the
        last state is this long ago.

    Attributes
    ----------
    monitor
        Observer of the run, which is saved with every state: ``state()`` returns arrays and
        metadata, ``restore(arrays, metadata)`` continues from them.
    """

    monitor: Any = None

    def __init__(
        self, folder: str | Path, metadata: Mapping[str, Any], *, resume: bool, seconds: float = 5.0
    ) -> None:
        self._folder = CheckpointFolder(folder, 1, _KEEP_ALL)
        self._metadata = dict(metadata)
        self._seconds = seconds
        self._last_write = self._last_state = time.monotonic()
        #: Number of records that a resumed run would replay to get to this point.
        self._n_records = 0
        #: Those of them that are not in a file yet.
        self._unwritten: list[tuple[str, Any]] = []
        #: Records of the interrupted run that are still to be replayed.
        self._to_replay: deque[tuple[str, Any]] = deque()
        #: Number of the first record of every file that is not superseded.
        self._first_records: dict[Path | str, int] = {}
        if resume:
            self._folder.latest()  # raises if there is none
            self._to_replay.extend(self._read())
        elif self._folder.paths():
            raise CheckpointError(
                "the folder already holds checkpoints",
                file=str(self._folder.folder),
                fix="Resume from them, or use an empty folder",
            )

    def recall_or_compute(
        self, request: str, arguments: tuple[Any, ...], compute: Callable[[], tuple[Any, ...]]
    ) -> tuple[Any, ...]:
        """Return the recorded result of a request, or compute and record it."""
        token = token_of(request, arguments)
        if self._to_replay:
            recorded_token, recorded = self._to_replay.popleft()
            self._n_records += 1
            if recorded_token != token:
                raise CheckpointError(
                    f"request {self._n_records} of this run differs from the checkpoint",
                    file=str(self._folder.folder),
                    fix="Resume with the same data, parameters and version, or start again",
                )
            return tuple(recorded)
        try:
            result = compute()
        except BaseException:
            self.flush()
            raise
        self._unwritten.append((token, result))
        self._n_records += 1
        if time.monotonic() - self._last_write >= self._seconds:
            self.flush()
        return result

    def recall_or_record(self, name: str, value: int) -> int:
        """Return the value that the interrupted run recorded; a new run records ``value``."""
        return int(self.recall_or_compute(f"remember {name}", (), lambda: (value,))[0])

    def resume_point(self, solver: str, *start: Any) -> ResumePoint:
        """Return the place where the loop of a solver saves its state, and the state to resume.

        ``start`` is what the loop starts from, where no earlier request depends on it.
        """
        name = f"state of {solver} "
        if start:
            name += token_of(start)
        point = _JournalPoint(self, name, self._n_records)
        if self._to_replay and self._to_replay[0][0] == name:
            point.state, monitor_state = self._to_replay.popleft()[1]
            self._n_records += 1
            if self.monitor is not None:
                self.monitor.restore(*monitor_state)
        # A state replaces whole files, so a file must begin where the loop does.
        self.flush()
        return point

    def replace_records(
        self, name: str, first: int, compute_state: Callable[[], Sequence[Any]]
    ) -> None:
        """Write a state in place of all records from number ``first`` on, if one is due."""
        if self._to_replay or time.monotonic() - self._last_state < self._seconds:
            return
        monitor_state: Any = ({}, {})
        if self.monitor is not None:
            monitor_state = self.monitor.state()
        self._unwritten = [(name, [compute_state(), monitor_state])]
        self._n_records = first + 1
        self.flush()
        self._last_state = time.monotonic()
        # Removed only now: after a kill in between, a reader sees which records are superseded.
        for path in self._folder.paths():
            if path not in self._first_records:
                self._folder.delete(path)

    def flush(self) -> None:
        """Write the records that are in no file yet."""
        if not self._unwritten:
            return
        arrays: dict[str, NDArray[Any]] = {}
        records = _pack(self._unwritten, arrays)
        first = self._n_records - len(records)
        step = 1 + max(map(step_of, self._first_records), default=0)
        metadata = {**self._metadata, "records": records, "first": first}
        path = self._folder.save(Checkpoint(_SOLVER, step, arrays, metadata))
        self._supersede(path, first)
        self._unwritten = []
        self._last_write = time.monotonic()

    def _supersede(self, path: Path | str, first: int) -> None:
        """Add a file; it supersedes the files that begin at the same record or later."""
        earlier = {file: k for file, k in self._first_records.items() if k < first}
        self._first_records = {**earlier, path: first}

    def _read(self) -> list[tuple[str, Any]]:
        """Read the records of all files that are not superseded."""
        records: list[tuple[str, Any]] = []
        for path in self._folder.paths():
            saved = read_checkpoint(path)
            saved.require(_SOLVER, self._metadata, path)
            first = int(saved.metadata["first"])
            if first > len(records):
                raise CheckpointError(
                    "checkpoints before this one are missing",
                    file=str(path),
                    fix="Put them back, or start again",
                )
            records[first:] = _unpack(saved.metadata["records"], saved.arrays)
            self._supersede(path, first)
        return records


class _JournalPoint(ResumePoint):
    """Loop in a journal: its name, and the number of records before it."""

    def __init__(self, journal: Journal, name: str, first: int) -> None:
        self._journal, self._name, self._first = journal, name, first

    def save(self, state: Callable[[], Sequence[Any]]) -> None:
        """Write the state if one is due."""
        self._journal.replace_records(self._name, self._first, state)


def _pack(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """Convert nested lists, tuples and mappings to JSON; arrays are numbered and set apart."""
    if isinstance(value, np.ndarray):
        number = str(len(arrays))
        arrays[number] = value
        return {"array": number}
    if isinstance(value, Mapping):
        return {name: _pack(item, arrays) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_pack(item, arrays) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    return value


def _unpack(value: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Restore a packed value; tuples become lists."""
    if isinstance(value, list):
        return [_unpack(item, arrays) for item in value]
    if isinstance(value, dict):
        if value.keys() == {"array"}:
            return np.array(arrays[value["array"]])
        return {name: _unpack(item, arrays) for name, item in value.items()}
    return value
