"""The LETOR protocol: train on each fold, tune on its validation part, test once.

Per fold every setting of a small grid is trained on the training part; the one with the best
validation value is kept, and it alone sees the test part. Means are over the queries of a fold,
then over the folds (Qin, Liu, Xu and Li 2010).

Two layouts of folders are read, plain or compressed: ``Fold1/{train,vali,test}.txt`` ..., as
distributed, and ``S1.txt`` ... with a ``FOLDS.txt`` that says which of them make which fold.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankine.core.errors import EmptyDataError, FileKindError, ParameterError, ParseError
from rankine.data.concat import concat
from rankine.data.dataset import Dataset
from rankine.data.open import load
from rankine.metrics import Metric, evaluate_on, parse_metric
from rankine.metrics.modes import MODES

__all__ = [
    "Fold",
    "FoldResult",
    "LetorFolder",
    "LetorResult",
    "MethodResult",
    "TaskResult",
    "run_letor",
]

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


#: Metrics of the tables, as the evaluation scripts print them.
TABLE = (
    *(f"ndcg@{k}" for k in range(1, 11)),
    "mean-ndcg",
    *(f"p@{k}" for k in range(1, 11)),
    "map",
)


@dataclass(frozen=True)
class FoldResult:
    """One method on one fold: what was chosen, its validation value, the test values."""

    fold: str
    chosen: Mapping[str, Any]
    validation: float
    values: Mapping[str, float]
    seconds: float


@dataclass(frozen=True)
class MethodResult:
    """One method on one task; ``published`` methods have means (and maybe folds) only."""

    name: str
    means: Mapping[str, float]
    folds: Sequence[FoldResult] = ()
    published: bool = False


@dataclass(frozen=True)
class TaskResult:
    """All methods on one task, and the script whose rules the figures follow."""

    name: str
    script: str
    methods: Sequence[MethodResult]


@dataclass(frozen=True)
class LetorResult:
    """All tasks."""

    metric: str
    tasks: Sequence[TaskResult]
    notes: Sequence[str] = field(default_factory=tuple)


#: Called with (fits done, fits in all, what is being fitted).
Report = Callable[[int, int, str], None]


def run_letor(
    folders: Sequence[str | Path],
    rankers: Mapping[str, Any],
    *,
    metric: str = "map",
    script: str | None = None,
    grids: Mapping[str, Mapping[str, Sequence[Any]]] | None = None,
    random_state: int = 0,
    report: Report | None = None,
    **options: Any,
) -> LetorResult:
    """Run the whole protocol.

    Parameters
    ----------
    folders
        LETOR folders (``letor_folds``).
    rankers
        Name -> unfitted ranker.
    metric
        Chosen on validation data; under the script's rules where the script computes it.
    script
        ``"letor3"``, ``"letor4"`` or ``"mslr"``; None takes ``letor4``, or ``mslr`` when a label
        exceeds 2.
    grids
        Name -> parameter -> values; default: the ranker's own ``letor_grid``.
    random_state
        Seed of rankers that have none of their own.
    report
        Called before every fit.
    **options
        Of ``rankine.load``.
    """
    if script is not None and script not in MODES:
        raise ParameterError(
            f"no evaluation script is called {script!r}", fix=f"Choose one of {', '.join(MODES)}"
        )
    parse_metric(metric)
    opened = [LetorFolder(folder, **options) for folder in folders]
    plans = {
        name: (_seeded(ranker, random_state), list(settings(ranker, (grids or {}).get(name))))
        for name, ranker in rankers.items()
    }
    count = _Counter(sum(f.n_folds for f in opened), plans, report)
    tasks = [_run_task(folder, plans, metric, script, count) for folder in opened]
    return LetorResult(metric, tasks)


def settings(
    ranker: Any, grid: Mapping[str, Sequence[Any]] | None = None
) -> Iterator[dict[str, Any]]:
    """Every combination of a grid, by default the ranker's ``letor_grid``."""
    chosen: Mapping[str, Sequence[Any]] = (
        getattr(ranker, "letor_grid", {}) if grid is None else grid
    )
    for values in itertools.product(*chosen.values()):
        yield dict(zip(chosen, values, strict=True))


def script_metric(metric: str, script: str) -> Metric:
    """The metric by the script's rules, where the script computes it; as it stands otherwise."""
    plain = parse_metric(metric)
    if plain.mode is None and plain.name in MODES[script]:
        return parse_metric(f"{script}:{metric}")
    return plain


class _Counter:
    """Progress over all fits."""

    def __init__(self, n_folds: int, plans: Mapping[str, Any], report: Report | None) -> None:
        self.total = n_folds * sum(len(grid) for _, grid in plans.values())
        self.done = 0
        self.report = report

    def tell(self, text: str) -> None:
        if self.report is not None:
            self.report(self.done, self.total, text)
        self.done += 1


def _seeded(ranker: Any, random_state: int) -> Any:
    from sklearn.base import clone

    copy = clone(ranker)
    if copy.get_params(deep=False).get("random_state", 0) is None:
        copy.set_params(random_state=random_state)
    return copy


def _run_task(
    folder: LetorFolder,
    plans: Mapping[str, tuple[Any, list[dict[str, Any]]]],
    metric: str,
    script: str | None,
    count: _Counter,
) -> TaskResult:
    results: dict[str, list[FoldResult]] = {name: [] for name in plans}
    rules = script or "letor4"
    for fold in folder.folds():
        if script is None and fold.train.y.max(initial=0.0) > 2:
            rules = "mslr"
        for name, (ranker, grid) in plans.items():
            text = f"{folder.name} {fold.name} {name}"
            results[name].append(_run_fold(fold, ranker, grid, metric, rules, text, count))
    methods = [
        MethodResult(name, {m: float(np.mean([f.values[m] for f in folds])) for m in TABLE}, folds)
        for name, folds in results.items()
    ]
    return TaskResult(folder.name, rules, methods)


def _run_fold(
    fold: Fold,
    ranker: Any,
    grid: Sequence[Mapping[str, Any]],
    metric: str,
    script: str,
    text: str,
    count: _Counter,
) -> FoldResult:
    from sklearn.base import clone

    started = time.perf_counter()
    rule = script_metric(metric, script)
    sign = 1.0 if rule.larger_is_better else -1.0
    best: tuple[float, Any, Mapping[str, Any]] | None = None
    for setting in grid:
        shown = ", ".join(f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"
                          for key, value in setting.items())  # fmt: skip
        count.tell(f"{text} {shown}".rstrip())
        fitted = clone(ranker).set_params(**setting).fit(fold.train)
        value = sign * evaluate_on(fold.vali, model=fitted, metric=rule)
        if best is None or value > best[0]:
            best = value, fitted, setting
    if best is None:
        raise ParameterError("the grid is empty", fix="Give one value per parameter at least")
    value, fitted, setting = best
    scores = fitted.predict(fold.test)
    values = {
        name: evaluate_on(
            fold.test,
            scores=scores,
            metric=f"{script}:{name}" if name in _computed(script) else f"letor4:{name}",
        )
        for name in TABLE
    }
    seconds = time.perf_counter() - started
    return FoldResult(fold.name, setting, sign * value, values, seconds)


def _computed(script: str) -> set[str]:
    """Metrics of the table that a script computes (LETOR 3.0 has no MeanNDCG: 4.0's is used)."""
    return {name for name in TABLE if name.split("@")[0] in MODES[script]}
