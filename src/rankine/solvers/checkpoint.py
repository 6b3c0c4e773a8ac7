"""Checkpoints: the state of a run in one file, whole or absent, checked when it is read.

A checkpoint is a safetensors file: the solver's arrays, and in its metadata the step, the facts
needed to continue (as JSON) and a SHA-256 over everything. It holds no code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.atomic import atomic_file
from rankine.core.errors import CheckpointError

VERSION = "1"
SUFFIX = ".checkpoint"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Where a run of a solver stands."""

    solver: str
    #: Progress in the solver's own unit; names the file and orders checkpoints.
    step: int
    arrays: Mapping[str, NDArray[Any]]
    #: Parameters, seed, counters, sources: JSON values.
    metadata: Mapping[str, Any]

    def require(self, solver: str, expected: Mapping[str, Any], path: Path | None = None) -> None:
        """Refuse to continue with another solver or other metadata, naming the first difference."""
        file = None if path is None else str(path)
        if self.solver != solver:
            raise CheckpointError(
                f"the checkpoint is of {self.solver!r}, not of {solver!r}",
                file=file,
                fix="Resume with the ranker that wrote it, or use another folder",
            )
        for name, value in expected.items():
            found = self.metadata.get(name)
            if found != json.loads(json.dumps(value)):
                raise CheckpointError(
                    f"the checkpoint was made with {name} = {_short(found)}, "
                    f"this run has {_short(value)}",
                    file=file,
                    fix="Resume with the same data and parameters, or use another folder",
                )


class CheckpointFolder:
    """A folder, made if absent, that keeps the last few checkpoints of one run.

    ``every`` counts units of progress between checkpoints.
    """

    def __init__(self, folder: str | Path, every: int, keep: int = 2) -> None:
        if every < 1:
            raise CheckpointError(f"every={every} is not positive", fix="Pass 1 or more")
        self.folder = Path(folder)
        self.every = every
        self.keep = keep

    def next_due(self, step: int) -> int:
        """The first step after ``step`` at which a checkpoint is due."""
        return (step // self.every + 1) * self.every

    def save(self, checkpoint: Checkpoint) -> Path:
        """Write a checkpoint, then drop the oldest."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"step-{checkpoint.step:015d}{SUFFIX}"
        write_checkpoint(path, checkpoint)
        for old in self.paths()[: -self.keep]:
            old.unlink(missing_ok=True)
        return path

    def paths(self) -> list[Path]:
        """Checkpoints, oldest first."""
        return sorted(self.folder.glob(f"step-*{SUFFIX}"))

    def latest_path(self) -> Path | None:
        """The newest checkpoint, if there is one."""
        paths = self.paths()
        return paths[-1] if paths else None

    def latest(self) -> Checkpoint:
        """The newest checkpoint; an error when there is none or it is damaged."""
        path = self.latest_path()
        if path is None:
            raise CheckpointError(
                "no checkpoint to resume from", file=str(self.folder), fix="Start without resume"
            )
        return read_checkpoint(path)


@dataclass(frozen=True)
class Checkpointer:
    """Keeps one run: the solver's state, and that of what accompanies it."""

    folder: CheckpointFolder
    #: What a resumed run must share with the interrupted one.
    metadata: Mapping[str, Any]
    #: Whether ``restore`` gives the newest checkpoint.
    resume: bool
    #: Monitor of the run: ``state()`` gives arrays and metadata, ``restore(arrays, metadata)``
    #: continues from them.
    monitor: Any

    def next_due(self, step: int) -> int:
        """The first step after ``step`` at which a checkpoint is due."""
        return self.folder.next_due(step)

    def save(
        self,
        solver: str,
        step: int,
        arrays: Mapping[str, NDArray[Any]],
        metadata: Mapping[str, Any],
    ) -> None:
        """Write a checkpoint."""
        more, told = self.monitor.state()
        everything = {**arrays, **{f"monitor.{name}": array for name, array in more.items()}}
        known = {**self.metadata, **metadata, "monitor": dict(told)}
        self.folder.save(Checkpoint(solver, step, everything, known))

    def restore(self, solver: str) -> Checkpoint | None:
        """The newest checkpoint of the same run, or None where a run begins."""
        if not self.resume:
            return None
        saved = self.folder.latest()
        saved.require(solver, self.metadata, self.folder.latest_path())
        own = {
            name.removeprefix("monitor."): array
            for name, array in saved.arrays.items()
            if name.startswith("monitor.")
        }
        self.monitor.restore(own, saved.metadata.get("monitor", {}))
        return saved


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write one checkpoint, whole or not at all."""
    from safetensors.numpy import save

    arrays = {name: np.ascontiguousarray(array) for name, array in checkpoint.arrays.items()}
    metadata = json.dumps(dict(checkpoint.metadata), sort_keys=True)
    head = {
        "rankine_checkpoint": VERSION,
        "solver": checkpoint.solver,
        "step": str(checkpoint.step),
        "metadata": metadata,
    }
    head["digest"] = _digest(head, arrays)
    with atomic_file(path) as file:
        file.write(save(arrays, metadata=head))


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint and check its digest."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy") as file:
            head = dict(file.metadata() or {})
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, ValueError) as error:
        raise CheckpointError(
            f"cannot read the checkpoint: {error}", file=str(path), fix="Delete it and resume again"
        ) from error
    if head.get("rankine_checkpoint") != VERSION:
        raise CheckpointError(
            "not a checkpoint of this version", file=str(path), fix="Start without resume"
        )
    digest = head.pop("digest", "")
    if digest != _digest(head, arrays):
        raise CheckpointError(
            "the checkpoint does not match its digest",
            file=str(path),
            fix="Delete it to resume from the one before",
        )
    return Checkpoint(head["solver"], int(head["step"]), arrays, json.loads(head["metadata"]))


def _digest(head: Mapping[str, str], arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for name in sorted(head):
        digest.update(f"{name}={len(head[name])}:{head[name]};".encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name}:{array.dtype.str}:{array.shape};".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
