"""Checkpoints of a batch solver: where its loops stand, and the answers it has been given since.

A solver is a pure function of the answers to its questions. Keeping the answers is therefore
enough to bring any of them back to the very same bits, in the middle of a line search or of an
inner loop: a resumed run asks the same questions again, is answered from the files as long as
they last, and goes on with the cluster from there. A question that differs from the recorded one
is an error, so a run can never continue as another.

All answers of a long run would be many. A loop therefore puts a *bookmark* before its iterations:
all that it carries on, in place of every answer since it began. What is kept is then the answers
before the loop, its last state, and the answers of the iterations since that was written; a loop
within a loop keeps its own state after that of the outer one, until that is written next.
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
from rankine.solvers.checkpoint import Checkpoint, CheckpointFolder, read_checkpoint

_SOLVER = "answers and states"
#: The journal itself says which files are superseded.
_KEEP_ALL = 2**31


class Journal:
    """Records in a folder: answers, and states of loops in place of the answers that led there.

    ``facts`` is what a resumed run must share: data, ranker, parameters; without ``resume`` the
    folder must hold nothing. Answers are written when the last writing is ``seconds`` ago, and at
    the end; a state when the last state is as long ago.

    Attributes
    ----------
    monitor
        What watches the run, kept with every state: ``state()`` gives arrays and facts,
        ``restore(arrays, facts)`` goes on from them.
    """

    monitor: Any = None

    def __init__(
        self, folder: str | Path, facts: Mapping[str, Any], *, resume: bool, seconds: float = 5.0
    ) -> None:
        self._folder = CheckpointFolder(folder, 1, _KEEP_ALL)
        self._facts = dict(facts)
        self._seconds = seconds
        self._written = self._marked = time.monotonic()
        #: Records that a resumed run would be told so far, and those of them that no file holds.
        self._count = 0
        self._fresh: list[tuple[str, Any]] = []
        #: What the interrupted run left to tell.
        self._told: deque[tuple[str, Any]] = deque()
        #: First record of every file that counts.
        self._files: dict[Path, int] = {}
        if resume:
            self._folder.latest()  # an error when there is none
            self._told.extend(self._read())
        elif self._folder.paths():
            raise CheckpointError(
                "the folder already holds checkpoints",
                file=str(self._folder.folder),
                fix="Resume from them, or use an empty folder",
            )

    def recall_or_compute(
        self, question: str, arguments: tuple[Any, ...], ask: Callable[[], tuple[Any, ...]]
    ) -> tuple[Any, ...]:
        """The recorded answer, or that of ``ask``, which is then recorded."""
        asked = token_of(question, arguments)
        if self._told:
            known, value = self._told.popleft()
            self._count += 1
            if known != asked:
                raise CheckpointError(
                    f"question {self._count} of this run is not that of the checkpoint",
                    file=str(self._folder.folder),
                    fix="Resume with the same data, parameters and version, or start afresh",
                )
            return tuple(value)
        try:
            parts = ask()
        except BaseException:
            self.flush()
            raise
        self._fresh.append((asked, parts))
        self._count += 1
        if time.monotonic() - self._written >= self._seconds:
            self.flush()
        return parts

    def recall_or_record(self, name: str, value: int) -> int:
        """The value that the interrupted run had, or this one, which is then recorded."""
        return int(self.recall_or_compute(f"remember {name}", (), lambda: (value,))[0])

    def resume_point(self, solver: str, *given: Any) -> ResumePoint:
        """For a loop that begins here; its state where the interrupted run stood within it.

        ``given`` is what the loop starts from, where no question before it has named that.
        """
        name = f"where {solver} stands {token_of(given) if given else ''}"
        point = _Place(self, name, self._count)
        if self._told and self._told[0][0] == name:
            point.state, monitor = self._told.popleft()[1]
            self._count += 1
            if self.monitor is not None:
                self.monitor.restore(*monitor)
        self.flush()  # a file begins where the loop does
        return point

    def replace(self, name: str, first: int, state: Callable[[], Sequence[Any]]) -> None:
        """Write a state in place of all records from the first on, if it is time."""
        if self._told or time.monotonic() - self._marked < self._seconds:
            return
        monitor = ({}, {}) if self.monitor is None else self.monitor.state()
        self._fresh = [(name, [state(), monitor])]
        self._count = first + 1
        self.flush()
        self._marked = time.monotonic()
        # Whole before the old ones go: a reader of both knows which records are superseded.
        for path in self._folder.paths():
            if path not in self._files:
                path.unlink(missing_ok=True)

    def flush(self) -> None:
        """Write the records that no file holds yet."""
        if not self._fresh:
            return
        arrays: dict[str, NDArray[Any]] = {}
        records = _packed(self._fresh, arrays)
        first = self._count - len(records)
        step = 1 + max((int(path.stem.split("-")[1]) for path in self._files), default=0)
        facts = {**self._facts, "records": records, "first": first}
        self._counts(self._folder.save(Checkpoint(_SOLVER, step, arrays, facts)), first)
        self._fresh = []
        self._written = time.monotonic()

    def _counts(self, path: Path, first: int) -> None:
        """A file supersedes those that begin where it does, or later."""
        self._files = {file: at for file, at in self._files.items() if at < first}
        self._files[path] = first

    def _read(self) -> list[tuple[str, Any]]:
        """The records of all files that count."""
        records: list[tuple[str, Any]] = []
        for path in self._folder.paths():
            saved = read_checkpoint(path)
            saved.require(_SOLVER, self._facts, path)
            first = int(saved.metadata["first"])
            if first > len(records):
                raise CheckpointError(
                    "checkpoints before this one are missing",
                    file=str(path),
                    fix="Put them back, or start afresh",
                )
            records[first:] = _unpacked(saved.metadata["records"], saved.arrays)
            self._counts(path, first)
        return records


class _Place(ResumePoint):
    """A loop in a journal: its name, and the number of records before it."""

    def __init__(self, journal: Journal, name: str, first: int) -> None:
        self._journal, self._name, self._first = journal, name, first

    def save(self, state: Callable[[], Sequence[Any]]) -> None:
        """Write a state from time to time."""
        self._journal.replace(self._name, self._first, state)


def _packed(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """JSON of nested lists, tuples and mappings; arrays by their number."""
    if isinstance(value, np.ndarray):
        arrays[str(len(arrays))] = value
        return {"array": str(len(arrays) - 1)}
    if isinstance(value, Mapping):
        return {name: _packed(one, arrays) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_packed(one, arrays) for one in value]
    return value.item() if isinstance(value, np.generic) else value


def _unpacked(value: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """What was packed; tuples have become lists."""
    if isinstance(value, list):
        return [_unpacked(one, arrays) for one in value]
    if isinstance(value, dict):
        if value.keys() == {"array"}:
            return np.array(arrays[value["array"]])
        return {name: _unpacked(one, arrays) for name, one in value.items()}
    return value
