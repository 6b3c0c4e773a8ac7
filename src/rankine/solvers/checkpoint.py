"""Checkpoints: the state of a run in one file, written atomically and checked when it is read.

A checkpoint is a safetensors file with the solver's arrays. Its header holds the step, the metadata
needed to continue (as JSON) and a SHA-256 digest of everything. It contains no code.

What happens on resume depends on the kind of fit; ``TrainingSource.open_checkpoints`` decides:

* Stochastic solvers on rows in memory or a stream (``solvers.pair_sgd``, ``solvers.one_pass_run``):
  ``Checkpointer.restore`` reads the newest checkpoint, compares its metadata (parameters, seed,
  sources) with this run's, raises CheckpointError at the first difference, and passes the monitor's
  part to the monitor. The solver then sets its arrays and counters from the rest and continues at
  ``step``. Random numbers are functions of seed and step.
* Fits over partitions, and rankers whose ``Capabilities.journal`` is set: the fit starts again, and
  ``distributed.journal`` replays the recorded results of what was finished. Over partitions it also
  restores the state of the loop (``solvers.base.ResumePoint``) that was interrupted.

In both cases the result has the same bits as an uninterrupted run.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.atomic import atomic_file
from rankine.core.errors import CheckpointError
from rankine.core.stores import is_url, open_store, read_bytes

VERSION = "1"
SUFFIX = ".checkpoint"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """State of a solver's run."""

    solver: str
    #: Progress in the solver's own unit; names the file and orders checkpoints.
    step: int
    arrays: Mapping[str, NDArray[Any]]
    #: Parameters, seed, counters, sources: JSON values.
    metadata: Mapping[str, Any]

    def require(
        self, solver: str, expected: Mapping[str, Any], path: Path | str | None = None
    ) -> None:
        """Raise CheckpointError if the solver or a metadata value differs from this run's."""
        file = None if path is None else str(path)
        if self.solver != solver:
            raise CheckpointError(
                f"the checkpoint is of {self.solver!r}, not of {solver!r}",
                file=file,
                fix="Resume with the ranker that wrote it, or use another folder",
            )
        for name, value in expected.items():
            saved_value = self.metadata.get(name)
            if saved_value != json.loads(json.dumps(value)):
                raise CheckpointError(
                    f"the checkpoint was made with {name} = {_short(saved_value)}, "
                    f"this run has {_short(value)}",
                    file=file,
                    fix="Resume with the same data and parameters, or use another folder",
                )


class CheckpointFolder:
    """A folder, created if needed, with the last ``keep`` checkpoints of one run.

    ``every`` is the number of steps between checkpoints.
    """

    def __init__(self, folder: str | Path, every: int, keep: int = 2) -> None:
        if every < 1:
            raise CheckpointError(
                f"{every} is not a positive number of steps", parameter="every", fix="Pass >= 1"
            )
        self.folder = folder if is_url(folder) else Path(folder)
        self.every = every
        self.keep = keep

    def next_due(self, step: int) -> int:
        """Return the first step after ``step`` at which a checkpoint is due."""
        return (step // self.every + 1) * self.every

    def save(self, checkpoint: Checkpoint) -> Path | str:
        """Write a checkpoint, then delete the oldest ones."""
        name = f"step-{checkpoint.step:015d}{SUFFIX}"
        path: Path | str
        if isinstance(self.folder, Path):
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / name
        else:
            path = f"{self.folder.rstrip('/')}/{name}"
        write_checkpoint(path, checkpoint)
        for old in self.paths()[: -self.keep]:
            self.delete(old)
        return path

    def delete(self, path: Path | str) -> None:
        """Delete a checkpoint."""
        if isinstance(path, Path):
            path.unlink(missing_ok=True)
        else:
            store, name = open_store(path)
            store.delete(name)

    def paths(self) -> list[Path] | list[str]:
        """Return the paths of the checkpoints, oldest first."""
        if isinstance(self.folder, Path):
            return sorted(self.folder.glob(f"step-*{SUFFIX}"))
        store, folder = open_store(self.folder)
        urls = map(store.url, store.list_objects(folder.rstrip("/")))
        return [url for url in urls if re.search(rf"/step-\d+{re.escape(SUFFIX)}$", url)]

    def latest_path(self) -> Path | str | None:
        """Return the path of the newest checkpoint, None in an empty folder."""
        paths = self.paths()
        return paths[-1] if paths else None

    def latest(self) -> Checkpoint:
        """Read the newest checkpoint; raise CheckpointError if it is missing or damaged."""
        path = self.latest_path()
        if path is None:
            raise CheckpointError(
                "no checkpoint to resume from", file=str(self.folder), fix="Start without resume"
            )
        return read_checkpoint(path)


@dataclass(frozen=True)
class Checkpointer:
    """Writes and restores the checkpoints of one run: the state of its solver and monitor."""

    folder: CheckpointFolder
    #: Values that must be equal in the interrupted and the resumed run.
    metadata: Mapping[str, Any]
    #: Whether to resume: if not, ``restore`` returns None.
    resume: bool
    #: Monitor of the run: ``state()`` gives arrays and metadata, ``restore(arrays, metadata)``
    #: continues from them.
    monitor: Any

    def next_due(self, step: int) -> int:
        """Return the first step after ``step`` at which a checkpoint is due."""
        return self.folder.next_due(step)

    def save(
        self,
        solver: str,
        step: int,
        arrays: Mapping[str, NDArray[Any]],
        metadata: Mapping[str, Any],
    ) -> None:
        """Write a checkpoint of the solver's and the monitor's state."""
        monitor_arrays, monitor_metadata = self.monitor.state()
        all_arrays = dict(arrays)
        for name, array in monitor_arrays.items():
            all_arrays[f"monitor.{name}"] = array
        all_metadata = {**self.metadata, **metadata, "monitor": dict(monitor_metadata)}
        self.folder.save(Checkpoint(solver, step, all_arrays, all_metadata))

    def restore(self, solver: str) -> Checkpoint | None:
        """Return the newest checkpoint of this run and restore its monitor; None for a new run."""
        if not self.resume:
            return None
        saved = self.folder.latest()
        saved.require(solver, self.metadata, self.folder.latest_path())
        monitor_arrays = {
            name.removeprefix("monitor."): array
            for name, array in saved.arrays.items()
            if name.startswith("monitor.")
        }
        self.monitor.restore(monitor_arrays, saved.metadata.get("monitor", {}))
        return saved


def step_of(path: Path | str) -> int:
    """Return the step in the name of a checkpoint."""
    return int(str(path).rpartition("/step-")[2].removesuffix(SUFFIX))


def write_checkpoint(path: Path | str, checkpoint: Checkpoint) -> None:
    """Write one checkpoint atomically."""
    from safetensors.numpy import save

    arrays = {name: np.ascontiguousarray(array) for name, array in checkpoint.arrays.items()}
    metadata = json.dumps(dict(checkpoint.metadata), sort_keys=True)
    header = {
        "rankine_checkpoint": VERSION,
        "solver": checkpoint.solver,
        "step": str(checkpoint.step),
        "metadata": metadata,
    }
    header["digest"] = _digest(header, arrays)
    with atomic_file(path) as file:
        file.write(save(arrays, metadata=header))


def read_checkpoint(path: Path | str) -> Checkpoint:
    """Read a checkpoint and check its digest."""
    from safetensors import SafetensorError, safe_open

    try:
        with _local_copy(path) as name, safe_open(name, framework="numpy") as file:
            header = dict(file.metadata() or {})
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, ValueError) as error:
        raise CheckpointError(
            f"cannot read the checkpoint: {error}", file=str(path), fix="Delete it and resume again"
        ) from error
    if header.get("rankine_checkpoint") != VERSION:
        raise CheckpointError(
            "not a checkpoint of this version", file=str(path), fix="Start without resume"
        )
    digest = header.pop("digest", "")
    if digest != _digest(header, arrays):
        raise CheckpointError(
            "the checkpoint does not match its digest",
            file=str(path),
            fix="Delete it to resume from the previous one",
        )
    return Checkpoint(header["solver"], int(header["step"]), arrays, json.loads(header["metadata"]))


@contextmanager
def _local_copy(path: Path | str) -> Iterator[str]:
    """Yield the name of a local file with the content of ``path``."""
    if not is_url(path):
        yield str(path)
        return
    with tempfile.NamedTemporaryFile(prefix="rankine-") as file:
        file.write(read_bytes(path))
        file.flush()
        yield file.name


def _digest(header: Mapping[str, str], arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for name in sorted(header):
        digest.update(f"{name}={len(header[name])}:{header[name]};".encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name}:{array.dtype.str}:{array.shape};".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    if len(text) > 60:
        text = text[:57] + "..."
    return text
