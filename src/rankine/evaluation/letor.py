"""The LETOR protocol: train on each fold, tune on its validation part, test once.

Per fold every setting of a small grid is trained on the training part; the one with the best
validation value is kept, trained again from nothing, and it alone sees the test part. Means are
over the queries of a fold, then over the folds (Qin, Liu, Xu and Li 2010).

Rankers that are solved to a tolerance (``tol``) are tried more loosely, each setting starting from
the one before it along the longest numeric side of the grid: the order of settings hardly changes,
and what is tested is solved from zero to the ranker's own tolerance. Folds and settings are
independent of each other, so that any number of workers gives the same bits.

Folders are read as they are distributed, plain or compressed: ``Fold1/{train,vali,test}.txt`` ...
(LETOR 4.0, MSLR; LETOR 3.0 says ``trainingset.txt`` ...), ``{train,vali,test}.txt`` of one split
(Istella; without ``vali.txt`` the last fifth of the training queries validates), and
``set1.{train,valid,test}.txt`` ... (Yahoo). ``S1.txt`` ... need a ``FOLDS.txt`` that says which of
them make which fold.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import re
import threading
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rankine.core.checks import check_count, reject_sets
from rankine.core.errors import (
    ClusterError,
    EmptyDataError,
    FileKindError,
    ParameterError,
    ParseError,
)
from rankine.data.dataset import Dataset, concat
from rankine.data.open import load
from rankine.metrics import Metric, evaluate_on, parse_metric
from rankine.metrics.metric import MODES

#: How files of the training, validation and test part are called.
_ROLES = (r"train(ingset)?", r"vali(d|dation|dationset)?", r"test(set)?")
#: Share of the training queries that validate where no file does.
_HELD = 5


class Fold(NamedTuple):
    """One fold's data."""

    name: str
    train: Dataset
    vali: Dataset
    test: Dataset


#: Fold -> its folder, and patterns of the files of its training, validation and test part.
Plan = dict[str, tuple[Path, list[list[str]]]]


class LetorFolder:
    """A collection on disk: a folder whose name is the task's, read with ``rankine.load``."""

    def __init__(self, path: str | Path, **options: Any) -> None:
        self.path = Path(path)
        self.options = options
        if not self.path.is_dir():
            raise FileKindError(
                "not a folder", file=str(path), fix="Give a folder with Fold1, Fold2, ..."
            )
        self._plan = self._of_folders() or self._of_one_folder() or self._read_plan()
        self._parts: dict[Path, Dataset] = {}

    @property
    def name(self) -> str:
        """Name of the task."""
        return self.path.resolve().name

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return len(self._plan)

    def folds(self) -> Iterator[Fold]:
        """The folds in order."""
        return (self.fold(k) for k in range(self.n_folds))

    def fold(self, k: int) -> Fold:
        """Fold number k, from 0; parts that several folds share are read once."""
        name = self.fold_name(k)
        folder, roles = self._plan[name]
        files = [[_find(folder, pattern) for pattern in role] for role in roles]
        data = {path: self._part(path) for role in files for path in role}
        width = max(part.n_features for part in data.values())
        # A text file is as wide as its largest index: all get the widest.
        for path, part in data.items():
            if part.n_features < width:
                data[path] = load(path, **{**self.options, "n_features": width})
        parts = [concat([data[path] for path in role]) for role in files if role]
        if len(parts) < len(_ROLES):
            parts[:1] = _held_out(parts[0])
        return Fold(name, *parts)

    def fold_name(self, k: int) -> str:
        """Name of fold number k."""
        return list(self._plan)[k]

    def _part(self, path: Path) -> Dataset:
        if path in self._parts:
            return self._parts[path]
        data = load(path, **self.options)
        if path.parent == self.path:  # folders of folds share no files
            self._parts[path] = data
        return data

    def _of_folders(self) -> Plan:
        folds = [p for p in self.path.iterdir() if re.fullmatch(r"(?i)fold\d+", p.name)]
        folds.sort(key=lambda p: int(p.name[4:]))
        return {p.name: (p, [[role] for role in _ROLES]) for p in folds}

    def _of_one_folder(self) -> Plan:
        """Parts of one split, or of several that are called set1, set2 ..."""
        plan: Plan = {}
        for name in ("split", "set1", "set2"):
            roles = [role if name == "split" else rf"{name}\.{role}" for role in _ROLES]
            there = [[role] if _matches(self.path, role) else [] for role in roles]
            if there[0] and there[2]:
                plan[name] = (self.path, there)
        return plan

    def _read_plan(self) -> Plan:
        plan_file = self.path / "FOLDS.txt"
        if not plan_file.is_file():
            raise EmptyDataError(
                "no Fold1, Fold2, ..., no train.txt and test.txt, and no FOLDS.txt here",
                file=str(self.path),
                fix="Give the folder that holds the folds",
            )
        plan: Plan = {}
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
            parts = [[re.escape(name) for name in names.split(",")] for names in fields[1:]]
            plan[fields[0]] = (self.path, parts)
        if not plan:
            raise EmptyDataError("no folds", file=str(plan_file), fix="Write one line per fold")
        return plan


def _matches(folder: Path, stem: str) -> list[Path]:
    """Files called ``stem.txt``, whatever their case and compression."""
    pattern = re.compile(rf"(?i){stem}\.txt(\.(gz|bz2|xz|zst))?")
    return sorted(p for p in folder.iterdir() if pattern.fullmatch(p.name))


def _find(folder: Path, stem: str) -> Path:
    found = _matches(folder, stem)
    if not found:
        name = re.sub(r"\(.*|\\", "", stem)
        raise EmptyDataError(
            f"there is no {name}.txt", file=str(folder), fix="Give a complete LETOR folder"
        )
    return found[0]


def _held_out(train: Dataset) -> list[Dataset]:
    """Training queries, and the last fifth of them for validation."""
    n = train.n_queries
    kept = n - max(n // _HELD, 1)
    return [train.take_queries(np.arange(kept)), train.take_queries(np.arange(kept, n))]


#: Metrics of the tables, as the evaluation scripts print them.
TABLE = (
    *(f"ndcg@{k}" for k in range(1, 11)),
    "mean-ndcg",
    *(f"p@{k}" for k in range(1, 11)),
    "map",
)


@dataclass(frozen=True)
class FoldResult:
    """One method on one fold: the setting that won, and what it reached.

    ``validation`` is its value on the validation part, ``values`` are metric -> mean over the
    queries of the test part, ``per_query`` the values of the queries ``ids`` (none for published
    figures); ``seconds`` is the training time of all settings.
    """

    fold: str
    chosen: Mapping[str, Any]
    validation: float
    values: Mapping[str, float]
    seconds: float
    ids: Sequence[Any] = ()
    per_query: Mapping[str, NDArray[np.float64]] = field(default_factory=dict, compare=False)


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


#: Called with (fits done, fits in all, what was fitted last).
Report = Callable[[int, int, str], None]

#: Candidates are solved to this many times the ranker's tolerance.
LOOSER = 10.0
#: Stored values of a training part below which one thread is faster than several: handing out
#: shards then costs more than they save.
SMALL = 1_000_000


def run_letor(
    folders: Sequence[str | Path],
    rankers: Mapping[str, Any],
    *,
    metric: str = "map",
    script: str | None = None,
    grids: Mapping[str, Mapping[str, Sequence[Any]]] | None = None,
    random_state: int = 0,
    workers: int = 1,
    report: Report | None = None,
    **options: Any,
) -> LetorResult:
    """Run the whole protocol.

    Parameters
    ----------
    folders
        LETOR folders (``LetorFolder``).
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
    workers
        Processes that fit at the same time; the result is the same for any number. With more than
        one, scripts need the usual ``if __name__ == "__main__"``.
    report
        Called before the first fit and whenever some are done.
    **options
        Of ``rankine.load``.
    """
    from sklearn.base import clone

    if script is not None and script not in MODES:
        raise ParameterError(
            f"no evaluation script is called {script!r}", fix=f"Choose one of {', '.join(MODES)}"
        )
    check_count("workers", workers)
    reject_sets(folders=folders)
    parse_metric(metric)
    opened = [LetorFolder(folder, **options) for folder in folders]
    seeded = {name: clone(ranker) for name, ranker in rankers.items()}
    for ranker in seeded.values():
        if ranker.get_params(deep=False).get("random_state", 0) is None:
            ranker.set_params(random_state=random_state)
    grid = {name: list(settings(one, (grids or {}).get(name))) for name, one in rankers.items()}
    if not all(grid.values()):
        raise ParameterError("the grid is empty", fix="Give one value per parameter at least")
    places = [(f, k) for f, folder in enumerate(opened) for k in range(folder.n_folds)]
    protocol = _Protocol(opened, seeded, metric, script, workers)
    total = len(places) * sum(1 + (len(g) if len(g) > 1 else 0) for g in grid.values())
    with _Work(protocol, workers, total, report) as work:
        tried = work.run(
            [
                _Trial(*place, name, chain)
                for place in places
                for name, listed in grid.items()
                if len(listed) > 1
                for chain in _chains(seeded[name], listed)
            ],
            _Protocol.try_settings,
        )
        best = _winners(tried, grid, places)
        chosen = [_Trial(*place, name, [best[(*place, name)]]) for place in places for name in grid]
        tested = work.run(chosen, _Protocol.test)
    notes = [text for _, found, _ in tested for text in found.warnings]
    return LetorResult(metric, _gather(opened, grid, tried, tested), notes)


def _winners(
    tried: Sequence[_Tried], grid: Mapping[str, list[Setting]], places: Sequence[tuple[int, int]]
) -> dict[tuple[int, int, str], Setting]:
    """The best setting of each fold and ranker; of equal ones the first of the grid."""
    best: dict[tuple[int, int, str], Setting] = {}
    for place in places:
        for name, listed in grid.items():
            values = [
                (value, -listed.index(setting), setting)
                for trial, found, _ in tried
                if (trial.folder, trial.fold, trial.ranker) == (*place, name)
                for setting, value in zip(trial.settings, found, strict=True)
            ]
            best[(*place, name)] = max(values, key=lambda v: v[:2])[2] if values else listed[0]
    return best


def _gather(
    opened: Sequence[LetorFolder],
    grid: Mapping[str, Any],
    tried: Sequence[_Tried],
    tested: Sequence[tuple[_Trial, _Tested, float]],
) -> list[TaskResult]:
    """The results by task and method, in the order they were asked for."""
    seconds: dict[Any, float] = defaultdict(float)
    for trial, _, took in (*tried, *tested):
        seconds[trial[:3]] += took
    tasks = []
    for f, folder in enumerate(opened):
        here = [(trial, found) for trial, found, _ in tested if trial.folder == f]
        methods = []
        for name in grid:
            folds = [
                replace(found.result, fold=folder.fold_name(trial.fold), seconds=seconds[trial[:3]])
                for trial, found in here
                if trial.ranker == name
            ]
            means = {m: float(np.mean([fold.values[m] for fold in folds])) for m in TABLE}
            methods.append(MethodResult(name, means, folds))
        tasks.append(TaskResult(folder.name, here[0][1].script, methods))
    return tasks


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


Setting = dict[str, Any]


class _Trial(NamedTuple):
    """Settings of one ranker on one fold, to be fitted one after the other."""

    folder: int
    fold: int
    ranker: str
    settings: list[Setting]


class _Tested(NamedTuple):
    """What the test part said of a chosen setting, by which script, and what the fit warned of."""

    result: FoldResult
    script: str
    warnings: list[str]


#: A trial, the value of each of its settings (larger is better), and the time it took.
_Tried = tuple[_Trial, list[float], float]


def _chains(ranker: Any, listed: Sequence[Setting]) -> list[list[Setting]]:
    """Settings that can start from each other: alike but for one number, from large to small.

    A ranker without a tolerance, or that knows no warm start, is tried setting by setting.
    """
    known = ranker.get_params(deep=False)
    values = {key: {setting[key] for setting in listed} for key in listed[0]}
    sides = {key: v for key, v in values.items() if all(isinstance(x, (int, float)) for x in v)}
    if not {"tol", "warm_start"} <= known.keys() or not sides:
        return [[setting] for setting in listed]
    along = max(sides, key=lambda key: len(sides[key]))
    chains: dict[str, list[Setting]] = {}
    for setting in listed:
        others = repr({key: value for key, value in setting.items() if key != along})
        chains.setdefault(others, []).append(setting)
    return [sorted(chain, key=lambda s: -s[along]) for chain in chains.values()]


@dataclass
class _Protocol:
    """What every worker knows: the folders, the rankers, what is measured; it holds one fold."""

    folders: Sequence[LetorFolder]
    rankers: Mapping[str, Any]
    metric: str
    script: str | None
    workers: int
    _held: tuple[tuple[int, int], Fold, str] | None = None

    def try_settings(self, trial: _Trial) -> list[float]:
        """Validation value of each setting, negated where less is better."""
        fold, script = self._fold(trial)
        rule = script_metric(self.metric, script)
        sign = 1.0 if rule.larger_is_better else -1.0
        ranker = self._ranker(trial.ranker, fold)
        if len(trial.settings) > 1:
            ranker.set_params(warm_start=True, tol=LOOSER * ranker.get_params()["tol"])
        values = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the chosen setting is fitted again, and tells
            for setting in trial.settings:
                ranker.set_params(**setting).fit(fold.train)
                values.append(sign * evaluate_on(fold.vali, model=ranker, metric=rule))
        return values

    def test(self, trial: _Trial) -> _Tested:
        """Fit the chosen setting as the ranker stands, and look at the test part once."""
        fold, script = self._fold(trial)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            ranker = self._ranker(trial.ranker, fold).set_params(**trial.settings[0])
            ranker.fit(fold.train)
        rule = script_metric(self.metric, script)
        validation = evaluate_on(fold.vali, model=ranker, metric=rule)
        scores = ranker.predict(fold.test)
        values, per_query = {}, {}
        for name in TABLE:
            # LETOR 3.0 has no MeanNDCG: 4.0's is used
            rules = script if name.split("@")[0] in MODES[script] else "letor4"
            computed = f"{rules}:{name}"
            values[name] = evaluate_on(fold.test, scores=scores, metric=computed)
            per_query[name] = evaluate_on(fold.test, scores=scores, metric=computed, per_query=True)
        where = f"{self.folders[trial.folder].name} {fold.name} {trial.ranker}"
        texts = [f"{where}: {warning.message}" for warning in told]
        ids, chosen = fold.test.queries.ids.tolist(), trial.settings[0]
        result = FoldResult(fold.name, chosen, validation, values, 0.0, ids, per_query)
        return _Tested(result, script, texts)

    def _fold(self, trial: _Trial) -> tuple[Fold, str]:
        place = (trial.folder, trial.fold)
        if self._held is None or self._held[0] != place:
            self._held = None  # room for the next
            fold = self.folders[trial.folder].fold(trial.fold)
            # every fold of a collection holds all of its parts: all find the same script
            largest = max(part.y.max(initial=0.0) for part in (fold.train, fold.vali, fold.test))
            script = self.script or ("mslr" if largest > 2 else "letor4")
            self._held = place, fold, script
        return self._held[1], self._held[2]

    def _ranker(self, name: str, fold: Fold) -> Any:
        """An unfitted copy; the number of threads changes no result."""
        from sklearn.base import clone

        ranker = clone(self.rankers[name])
        if ranker.get_params(deep=False).get("n_threads", 0) is None:
            if fold.train.nnz < SMALL:
                ranker.set_params(n_threads=1)
            elif self.workers > 1:
                cores = os.cpu_count() or self.workers
                ranker.set_params(n_threads=max(cores // self.workers, 1))
        return ranker


class _Work:
    """Runs trials here or in worker processes, and tells how many fits are done."""

    def __init__(
        self, protocol: _Protocol, workers: int, total: int, report: Report | None
    ) -> None:
        self.protocol = protocol
        self.total = total
        self.report = report
        self.done = 0
        self.pool: ProcessPoolExecutor | None = None
        if workers > 1:
            # a forked child would share locks of threads that do not live in it
            context = multiprocessing.get_context("spawn")
            self.pool = ProcessPoolExecutor(workers, context, _begin, (protocol,))

    def __enter__(self) -> Self:
        self._tell(0, "")
        return self

    def __exit__(self, *_: object) -> None:
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)

    def run(self, trials: Sequence[_Trial], task: Any) -> list[Any]:
        """(trial, what ``task`` found, seconds) for every trial, in order."""
        if self.pool is None:
            return [self._finish(trial, _timed(self.protocol, task, trial)) for trial in trials]
        futures = {self.pool.submit(_ask, task, trial): trial for trial in trials}
        found: dict[int, Any] = {}
        try:
            for future in as_completed(futures):
                trial = futures[future]
                found[id(trial)] = self._finish(trial, future.result())
        except BrokenProcessPool as error:
            raise ClusterError(
                "a worker process was killed, probably for lack of memory",
                fix="Use fewer workers",
            ) from error
        return [found[id(trial)] for trial in trials]

    def _finish(self, trial: _Trial, answer: tuple[Any, float]) -> tuple[_Trial, Any, float]:
        found, seconds = answer
        folder = self.protocol.folders[trial.folder]
        self._tell(
            len(trial.settings), f"{folder.name} {folder.fold_name(trial.fold)} {trial.ranker}"
        )
        return trial, found, seconds

    def _tell(self, fits: int, text: str) -> None:
        self.done += fits
        if self.report is not None:
            self.report(self.done, self.total, text)


#: The protocol of a worker process.
_MINE: list[_Protocol] = []


def _begin(protocol: _Protocol) -> None:
    _MINE[:] = [protocol]
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _ask(task: Any, trial: _Trial) -> tuple[Any, float]:
    return _timed(_MINE[0], task, trial)


def _timed(protocol: _Protocol, task: Any, trial: _Trial) -> tuple[Any, float]:
    started = time.perf_counter()
    return task(protocol, trial), time.perf_counter() - started
