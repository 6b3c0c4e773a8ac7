"""Checkpoints of a batch solver: the answers it has been given.

A solver is a pure function of the answers to its questions. Keeping the answers is therefore
enough to bring any of them back to the very same bits, in the middle of a line search or of an
inner loop: a resumed run asks the same questions again, is answered from the files as long as
they last, and goes on with the cluster from there. A question that differs from the recorded one
is an error, so a run can never continue as another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rankine.core.errors import CheckpointError
from rankine.distributed.team import token_of
from rankine.solvers.checkpoint import Checkpoint, CheckpointFolder, read_checkpoint

_SOLVER = "partitions"
#: Every file is part of the record.
_KEEP_ALL = 2**31


class Journal:
    """Answers in a folder, a file of them at a time.

    ``facts`` is what a resumed run must share: data, ranker, parameters; without ``resume`` the
    folder must hold nothing. Answers are written when the last writing is ``seconds`` ago, and at
    the end.
    """

    def __init__(
        self, folder: str | Path, facts: Mapping[str, Any], *, resume: bool, seconds: float = 5.0
    ) -> None:
        self._folder = CheckpointFolder(folder, 1, _KEEP_ALL)
        self._facts = dict(facts)
        self._seconds = seconds
        self._fresh: list[tuple[str, tuple[Any, ...]]] = []
        self._written = time.monotonic()
        self.step = 0
        self._records: Iterator[tuple[str, tuple[Any, ...]]] = iter(())
        if resume:
            self._folder.latest().require(_SOLVER, self._facts, self._folder.latest_path())
            self._records = self._recorded()
        elif self._folder.paths():
            raise CheckpointError(
                "the folder already holds checkpoints",
                file=str(self._folder.folder),
                fix="Resume from them, or use an empty folder",
            )

    def answer(
        self, question: str, arguments: tuple[Any, ...], ask: Callable[[], tuple[Any, ...]]
    ) -> tuple[Any, ...]:
        """The recorded answer, or that of ``ask``, which is then recorded."""
        asked = token_of(question, arguments)
        record = next(self._records, None)
        self.step += 1
        if record is not None:
            if record[0] != asked:
                raise CheckpointError(
                    f"question {self.step} of this run is not that of the checkpoint",
                    file=str(self._folder.folder),
                    fix="Resume with the same data, parameters and version, or start afresh",
                )
            return record[1]
        try:
            parts = ask()
        except BaseException:
            self.step -= 1
            self.flush()
            raise
        self._fresh.append((asked, parts))
        if time.monotonic() - self._written >= self._seconds:
            self.flush()
        return parts

    def remember(self, name: str, value: int) -> int:
        """The value that the interrupted run had, or this one, which is then recorded."""
        (kept,) = self.answer(f"remember {name}", (), lambda: (np.array([value], dtype=np.uint64),))
        return int(kept[0])

    def flush(self) -> None:
        """Write the answers that no file holds yet."""
        if not self._fresh:
            return
        arrays = {
            f"{k}.{j}": np.asarray(part)
            for k, (_, parts) in enumerate(self._fresh)
            for j, part in enumerate(parts)
        }
        questions = [
            [asked, [isinstance(part, np.ndarray) for part in parts]]
            for asked, parts in self._fresh
        ]
        facts = {**self._facts, "questions": questions, "first": self.step - len(questions)}
        self._folder.save(Checkpoint(_SOLVER, self.step, arrays, facts))
        self._fresh = []
        self._written = time.monotonic()

    def _recorded(self) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Questions and answers of the files, read one file at a time."""
        count = 0
        for path in self._folder.paths():
            saved = read_checkpoint(path)
            saved.require(_SOLVER, {**self._facts, "first": count}, path)
            for k, (asked, are_arrays) in enumerate(saved.facts["questions"]):
                found = [saved.arrays[f"{k}.{j}"] for j in range(len(are_arrays))]
                yield (
                    asked,
                    tuple(
                        array if is_array else float(array.item())
                        for array, is_array in zip(found, are_arrays, strict=True)
                    ),
                )
            count += len(saved.facts["questions"])
