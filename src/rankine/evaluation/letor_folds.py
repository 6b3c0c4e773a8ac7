"""The folders of LETOR collections: five folds of training, validation and test data.

Two layouts are read, plain or compressed: ``Fold1/{train,vali,test}.txt`` ..., as distributed, and
the parts ``S1.txt`` ... with a ``FOLDS.txt`` that says which parts make which fold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rankine.core.errors import EmptyDataError, FileKindError, ParseError
from rankine.data.dataset import Dataset, concat
from rankine.data.open import load

__all__ = ["Fold", "LetorFolder"]

_ROLES = ("train", "vali", "test")


class Fold(NamedTuple):
    """One fold's data."""

    name: str
    train: Dataset
    vali: Dataset
    test: Dataset


class LetorFolder:
    """A collection on disk.

    Parameters
    ----------
    path
        The folder; its name is the task's name.
    **options
        Of ``rankine.load``.
    """

    def __init__(self, path: str | Path, **options: Any) -> None:
        self.path = Path(path)
        self.options = options
        if not self.path.is_dir():
            raise FileKindError(
                "not a folder", file=str(path), fix="Give a folder with Fold1, Fold2, ..."
            )
        folds = [p for p in self.path.iterdir() if re.fullmatch(r"(?i)fold\d+", p.name)]
        self._folds = sorted(folds, key=lambda p: int(p.name[4:]))
        self._plan = {} if self._folds else self._read_plan()

    @property
    def name(self) -> str:
        """Name of the task."""
        return self.path.resolve().name

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return len(self._folds) or len(self._plan)

    def folds(self) -> Iterator[Fold]:
        """The folds in order; only one is in memory at a time, or each part once."""
        if self._folds:
            for folder in self._folds:
                yield Fold(folder.name, *self._load_roles(folder))
            return
        parts = {name: self._load(name) for name in _parts_of(self._plan)}
        for fold, roles in self._plan.items():
            yield Fold(fold, *(concat([parts[name] for name in names]) for names in roles))

    def _load_roles(self, folder: Path) -> list[Dataset]:
        paths = [_find(folder, role) for role in _ROLES]
        data = [load(path, **self.options) for path in paths]
        width = max(part.n_features for part in data)
        # a text file is as wide as its largest index: all three get the widest
        return [
            part
            if part.n_features == width
            else load(path, **{**self.options, "n_features": width})
            for part, path in zip(data, paths, strict=True)
        ]

    def _load(self, part: str) -> Dataset:
        return load(_find(self.path, part), **self.options)

    def _read_plan(self) -> dict[str, list[list[str]]]:
        plan_file = self.path / "FOLDS.txt"
        if not plan_file.is_file():
            raise EmptyDataError(
                "no Fold1, Fold2, ... and no FOLDS.txt here",
                file=str(self.path),
                fix="Give the folder that holds the folds",
            )
        plan: dict[str, list[list[str]]] = {}
        for number, line in enumerate(plan_file.read_text().splitlines(), 1):
            fields = line.split("#")[0].split()
            if not fields:
                continue
            if len(fields) != 4:
                raise ParseError(
                    f"{len(fields)} fields instead of 4",
                    file=str(plan_file),
                    line=number,
                    fix="Write: Fold1 S1,S2,S3 S4 S5 (train, validation, test)",
                )
            plan[fields[0]] = [names.split(",") for names in fields[1:]]
        if not plan:
            raise EmptyDataError("no folds", file=str(plan_file), fix="Write one line per fold")
        return plan


def _parts_of(plan: dict[str, list[list[str]]]) -> Sequence[str]:
    return sorted({name for roles in plan.values() for names in roles for name in names})


def _find(folder: Path, stem: str) -> Path:
    """``stem.txt``, whatever its case and compression."""
    pattern = re.compile(rf"(?i){re.escape(stem)}\.txt(\.(gz|bz2|xz|zst))?")
    found = sorted(p for p in folder.iterdir() if pattern.fullmatch(p.name))
    if not found:
        raise EmptyDataError(
            f"there is no {stem}.txt", file=str(folder), fix="Give a complete LETOR folder"
        )
    return found[0]
