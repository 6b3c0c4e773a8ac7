"""List everything that writes files, with two contents to save and a way to tell them apart."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

import rankine
from rankine.data import Dataset
from rankine.model import LinearModel, ModelBundle
from rankine.solvers.checkpoint import Checkpoint, read_checkpoint, write_checkpoint


class Saver(NamedTuple):
    """One kind of file."""

    name: str
    save_old: Callable[[Path], object]
    save_new: Callable[[Path], object]
    #: Differs for old and new; any exception means that the file is neither.
    digest: Callable[[Path], object]


def model_saver() -> Saver:
    """Return the saver of model files."""
    a, b = np.random.default_rng(0).normal(size=(2, 4000))
    old, new = LinearModel.from_weights(a), LinearModel.from_weights(b)
    return Saver("model", old.save, new.save, lambda path: LinearModel.load(path).digest)


def savers() -> list[Saver]:
    """Return all savers, or those that RELIABILITY_ONLY names."""
    a, b = np.random.default_rng(0).normal(size=(2, 4000))
    bundle = (
        ModelBundle.from_weights({"x": a}),
        ModelBundle.from_weights({"x": b, "y": a}),
    )
    marks = [Checkpoint("one_pass", 7, {"state": state}, {"seed": 1}) for state in (a, b)]
    found = [
        model_saver(),
        Saver("bundle", bundle[0].save, bundle[1].save, lambda p: ModelBundle.load(p).digest),
        Saver(
            "checkpoint",
            lambda path: write_checkpoint(path, marks[0]),
            lambda path: write_checkpoint(path, marks[1]),
            lambda path: read_checkpoint(path).arrays["state"].tobytes(),
        ),
    ]
    for suffix in ("txt", "txt.gz", "txt.zst", "parquet", "arrow"):
        old, new = (
            Dataset.from_arrays(x.reshape(500, 8), np.arange(500) % 3, np.arange(500) // 5)
            for x in (a, b)
        )
        found.append(
            Saver(
                f"data.{suffix}",
                old.save,
                new.save,
                lambda path: rankine.load(path, n_features=8).fingerprint,
            )
        )
    chosen = os.environ.get("RELIABILITY_ONLY", "")
    return [saver for saver in found if not chosen or saver.name in chosen.split(",")]


class FileChecker:
    """Tells whether a file is the old version or the new one."""

    def __init__(self, saver: Saver, folder: Path) -> None:
        self.saver = saver
        self.path = folder / f"file.{saver.name.partition('.')[2] or 'bin'}"
        saver.save_new(self.path)
        self.new = saver.digest(self.path)
        self.new_bytes = self.path.read_bytes()
        saver.save_old(self.path)
        self.old = saver.digest(self.path)
        self.old_bytes = self.path.read_bytes()
        assert self.old != self.new

    def reset(self) -> None:
        """Restore the old file and delete all others."""
        for other in self.path.parent.iterdir():
            shutil.rmtree(other) if other.is_dir() else other.unlink()
        self.path.write_bytes(self.old_bytes)

    def state(self) -> str:
        """Return ``old``, ``new`` or ``torn``."""
        try:
            found = self.saver.digest(self.path)
        except Exception:
            return "torn"
        return "old" if found == self.old else "new" if found == self.new else "torn"

    def count_other_files(self) -> int:
        """Count the other files in the folder."""
        return sum(1 for found in self.path.parent.iterdir() if found != self.path)
