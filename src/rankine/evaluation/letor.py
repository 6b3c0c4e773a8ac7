"""The LETOR protocol: train on each fold, tune on its validation part, test once.

For each fold, every setting of a small grid is trained on the training part. The setting with the
best validation value is trained again from scratch, and only this ranker is evaluated on the test
part. Means are over the queries of a fold, then over the folds (Qin, Liu, Xu and Li 2010).

Rankers with a tolerance (``tol``) are tuned at a larger tolerance, and each setting starts from the
solution of the previous one along the longest numeric dimension of the grid: this hardly changes
the order of settings. The tested ranker is trained from zero at its own tolerance. Folds and
settings are independent of each other, so any number of workers gives the same bits.

Folders are read in their distributed form, plain or compressed: ``Fold1/{train,vali,test}.txt`` ...
(LETOR 4.0, MSLR; in LETOR 3.0 ``trainingset.txt`` ...), ``{train,vali,test}.txt`` of one split
(Istella; without ``vali.txt`` the last fifth of the training queries is used for validation), and
``set1.{train,valid,test}.txt`` ... (Yahoo). ``S1.txt`` ... need a file ``FOLDS.txt`` that assigns
them to folds.
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

#: Patterns of the names of training, validation and test files.
_ROLES = (r"train(ingset)?", r"vali(d|dation|dationset)?", r"test(set)?")
#: Without a validation file, 1 / _VALIDATION_SHARE of the training queries are used for it.
_VALIDATION_SHARE = 5


class Fold(NamedTuple):
    """The data of one fold."""

    name: str
    train: Dataset
    vali: Dataset
    test: Dataset


#: Fold -> folder, and patterns of the training, validation and test files.
Plan = dict[str, tuple[Path, list[list[str]]]]


class LetorFolder:
    """A collection on disk, in a folder with the name of the task. ``options`` are of ``load``."""

    def __init__(self, path: str | Path, **options: Any) -> None:
        self.path = Path(path)
        self.options = options
        if not self.path.is_dir():
            raise FileKindError(
                "not a folder", file=str(path), fix="Pass a folder with Fold1, Fold2, ..."
            )
        self._plan = self._plan_from_folders() or self._plan_from_files() or self._read_plan()
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
        """Yield the folds in order."""
        return (self.fold(k) for k in range(self.n_folds))

    def fold(self, k: int) -> Fold:
        """Read fold number k, from 0. Files that several folds share are read once."""
        name = self.fold_name(k)
        folder, roles = self._plan[name]
        files = [[_find(folder, pattern) for pattern in role] for role in roles]
        data = {path: self._part(path) for role in files for path in role}
        width = max(part.n_features for part in data.values())
        # The width of a text file is its largest index: all files are read with the largest width.
        for path, part in data.items():
            if part.n_features < width:
                data[path] = load(path, **{**self.options, "n_features": width})
        parts = [concat([data[path] for path in role]) for role in files if role]
        if len(parts) < len(_ROLES):
            parts[:1] = _split_validation(parts[0])
        return Fold(name, *parts)

    def fold_name(self, k: int) -> str:
        """Return the name of fold number k."""
        return list(self._plan)[k]

    def _part(self, path: Path) -> Dataset:
        if path in self._parts:
            return self._parts[path]
        data = load(path, **self.options)
        # Files in folders of folds belong to one fold: keeping them would fill the memory.
        if path.parent == self.path:
            self._parts[path] = data
        return data

    def _plan_from_folders(self) -> Plan:
        folds = [p for p in self.path.iterdir() if re.fullmatch(r"(?i)fold\d+", p.name)]
        # By number, since the text Fold10 sorts before Fold2.
        folds.sort(key=lambda p: int(p.name[4:]))
        return {p.name: (p, [[role] for role in _ROLES]) for p in folds}

    def _plan_from_files(self) -> Plan:
        """Find the files of one split, or of several with the names set1, set2 ..."""
        plan: Plan = {}
        for name, prefix in (("split", ""), ("set1", r"set1\."), ("set2", r"set2\.")):
            patterns = [prefix + role for role in _ROLES]
            present = [[p] if _matching_files(self.path, p) else [] for p in patterns]
            # Validation files may be missing; the queries for it are then taken from training.
            if present[0] and present[2]:
                plan[name] = (self.path, present)
        return plan

    def _read_plan(self) -> Plan:
        plan_file = self.path / "FOLDS.txt"
        if not plan_file.is_file():
            raise EmptyDataError(
                "no Fold1, Fold2, ..., no train.txt and test.txt, and no FOLDS.txt here",
                file=str(self.path),
                fix="Pass the folder that contains the folds",
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


def _matching_files(folder: Path, stem: str) -> list[Path]:
    """Return files ``stem.txt`` in upper or lower case, compressed or not."""
    pattern = re.compile(rf"(?i){stem}\.txt(\.(gz|bz2|xz|zst))?")
    return sorted(p for p in folder.iterdir() if pattern.fullmatch(p.name))


def _find(folder: Path, stem: str) -> Path:
    files = _matching_files(folder, stem)
    if not files:
        name = re.sub(r"\(.*|\\", "", stem)
        raise EmptyDataError(
            f"there is no {name}.txt", file=str(folder), fix="Pass a complete LETOR folder"
        )
    return files[0]


def _split_validation(train: Dataset) -> list[Dataset]:
    """Split off the last fifth of the training queries for validation."""
    n = train.n_queries
    n_train = n - max(n // _VALIDATION_SHARE, 1)
    return [train.take_queries(np.arange(n_train)), train.take_queries(np.arange(n_train, n))]


#: Metrics of the tables, in the order of the evaluation scripts.
TABLE = (
    *(f"ndcg@{k}" for k in range(1, 11)),
    "mean-ndcg",
    *(f"p@{k}" for k in range(1, 11)),
    "map",
)


@dataclass(frozen=True)
class FoldResult:
    """Result of one method on one fold.

    Attributes
    ----------
    chosen
        Setting with the best validation value.
    validation
        That value.
    values
        Metric -> mean over the queries of the test part.
    seconds
        Training time of all settings.
    ids, per_query
        Ids of the test queries, and metric -> their values (empty for published figures).
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
    """Results of one method on one task; ``published`` ones have means, and folds at most."""

    name: str
    means: Mapping[str, float]
    folds: Sequence[FoldResult] = ()
    published: bool = False


@dataclass(frozen=True)
class TaskResult:
    """Results of all methods on one task, by the rules of the evaluation script ``script``."""

    name: str
    script: str
    methods: Sequence[MethodResult]


@dataclass(frozen=True)
class LetorResult:
    """Results on all tasks; ``notes`` are warnings of the training."""

    metric: str
    tasks: Sequence[TaskResult]
    notes: Sequence[str] = field(default_factory=tuple)


#: Called with (fits done, number of fits, name of the last fit).
Progress = Callable[[int, int, str], None]

#: Factor of the tolerance while tuning.
TUNING_TOLERANCE = 10.0
#: Number of stored values of a training part below which one thread is faster than several.
MIN_VALUES_FOR_THREADS = 1_000_000


def run_letor(
    folders: Sequence[str | Path],
    rankers: Mapping[str, Any],
    *,
    metric: str = "map",
    script: str | None = None,
    grids: Mapping[str, Mapping[str, Sequence[Any]]] | None = None,
    random_state: int = 0,
    workers: int = 1,
    report: Progress | None = None,
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
        Metric that selects settings on validation data, by the rules of the script if it computes
        the metric.
    script
        ``"letor3"``, ``"letor4"`` or ``"mslr"``. Default: ``letor4``, or ``mslr`` if there is a
        label above 2.
    grids
        Name -> parameter -> values; default: the ranker's ``letor_grid``.
    random_state
        Seed of rankers without one.
    workers
        Number of processes that fit at the same time; the result does not depend on it. With more
        than one, scripts need ``if __name__ == "__main__"``.
    report
        Called before the first fit and after fits, with the progress.
    **options
        Options of ``rankine.load``.
    """
    from sklearn.base import clone

    if script is not None and script not in MODES:
        raise ParameterError(
            f"no evaluation script is called {script!r}",
            fix=f"Choose one of {', '.join(MODES)}",
            parameter="script",
        )
    check_count("workers", workers)
    reject_sets(folders=folders)
    parse_metric(metric)
    opened = [LetorFolder(folder, **options) for folder in folders]
    # Clones, so that the user's rankers stay unfitted and without a seed.
    seeded = {name: clone(ranker) for name, ranker in rankers.items()}
    for ranker in seeded.values():
        if ranker.get_params(deep=False).get("random_state", 0) is None:
            ranker.set_params(random_state=random_state)
    grid = {
        name: list(settings(ranker, (grids or {}).get(name))) for name, ranker in rankers.items()
    }
    if not all(grid.values()):
        raise ParameterError(
            "a grid is empty", fix="Pass at least one value per parameter", parameter="grids"
        )
    folds = [(f, k) for f, folder in enumerate(opened) for k in range(folder.n_folds)]
    # A single setting needs no tuning: it is fitted once, for the test.
    tuned = {name: values for name, values in grid.items() if len(values) > 1}
    n_fits = len(folds) * (len(grid) + sum(map(len, tuned.values())))
    protocol = _Protocol(opened, seeded, metric, script, workers)
    with _TrialRunner(protocol, workers, n_fits, report) as runner:
        trials = []
        for fold in folds:
            for name, ranker_settings in tuned.items():
                chains = _chains(seeded[name], ranker_settings)
                trials += [_Trial(*fold, name, chain) for chain in chains]
        tried = runner.run(trials, _Protocol.try_settings)
        best = _best_settings(tried, grid, folds)
        final = [_Trial(*fold, name, [best[(*fold, name)]]) for fold in folds for name in grid]
        tested = runner.run(final, _Protocol.test)
    notes = [text for _, test, _ in tested for text in test.warnings]
    return LetorResult(metric, _collect_results(opened, grid, tried, tested), notes)


def _best_settings(
    tried: Sequence[_Tried], grid: Mapping[str, list[Setting]], folds: Sequence[tuple[int, int]]
) -> dict[tuple[int, int, str], Setting]:
    """Return the best setting of each fold and ranker; among equal ones the first of the grid."""
    best = {(*fold, name): values[0] for fold in folds for name, values in grid.items()}
    best_rank: dict[tuple[int, int, str], tuple[float, int]] = {}
    for trial, values, _ in tried:
        key = (trial.folder, trial.fold, trial.ranker)
        for setting, value in zip(trial.settings, values, strict=True):
            # Trials finish in any order, so the position in the grid decides between equals.
            rank = (value, -grid[trial.ranker].index(setting))
            if key not in best_rank or rank > best_rank[key]:
                best_rank[key], best[key] = rank, setting
    return best


def _collect_results(
    opened: Sequence[LetorFolder],
    grid: Mapping[str, Any],
    tried: Sequence[_Tried],
    tested: Sequence[tuple[_Trial, _TestResult, float]],
) -> list[TaskResult]:
    """Collect the results by task and method, in the order of folders and rankers."""
    seconds: dict[Any, float] = defaultdict(float)
    for trial, _, trial_seconds in (*tried, *tested):
        seconds[trial[:3]] += trial_seconds
    tasks = []
    for f, folder in enumerate(opened):
        tests = [(trial, test) for trial, test, _ in tested if trial.folder == f]
        methods = []
        for name in grid:
            folds = [
                replace(test.result, fold=folder.fold_name(trial.fold), seconds=seconds[trial[:3]])
                for trial, test in tests
                if trial.ranker == name
            ]
            means = {m: float(np.mean([fold.values[m] for fold in folds])) for m in TABLE}
            methods.append(MethodResult(name, means, folds))
        tasks.append(TaskResult(folder.name, tests[0][1].script, methods))
    return tasks


def settings(
    ranker: Any, grid: Mapping[str, Sequence[Any]] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield every combination of a grid, by default of the ranker's ``letor_grid``."""
    if grid is None:
        grid = getattr(ranker, "letor_grid", {})
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def script_metric(metric: str, script: str) -> Metric:
    """Return the metric by the rules of the script, or unchanged if the script lacks it."""
    rule = parse_metric(metric)
    if rule.mode is None and rule.name in MODES[script]:
        return parse_metric(f"{script}:{metric}")
    return rule


Setting = dict[str, Any]


class _Trial(NamedTuple):
    """Settings of one ranker that are fitted one after the other on one fold."""

    folder: int
    fold: int
    ranker: str
    settings: list[Setting]


class _TestResult(NamedTuple):
    """Result of the chosen setting on the test part, the script, and warnings of the fit."""

    result: FoldResult
    script: str
    warnings: list[str]


#: A trial, the value of each of its settings (larger is better), and its seconds.
_Tried = tuple[_Trial, list[float], float]


def _chains(ranker: Any, grid_settings: Sequence[Setting]) -> list[list[Setting]]:
    """Group settings that differ in one number only, from large to small, for warm starts.

    A ranker without a tolerance or without warm starts is tried setting by setting.
    """
    values = {key: {setting[key] for setting in grid_settings} for key in grid_settings[0]}
    numeric = [k for k, v in values.items() if all(isinstance(x, (int, float)) for x in v)]
    if not {"tol", "warm_start"} <= ranker.get_params(deep=False).keys() or not numeric:
        return [[setting] for setting in grid_settings]
    # The longest dimension has the most starts to gain from.
    along = max(numeric, key=lambda key: len(values[key]))
    chains: dict[str, list[Setting]] = {}
    for setting in grid_settings:
        fixed = repr({key: value for key, value in setting.items() if key != along})
        chains.setdefault(fixed, []).append(setting)
    return [sorted(chain, key=lambda setting: -setting[along]) for chain in chains.values()]


@dataclass
class _Protocol:
    """The folders, rankers and metric, as every worker has them; it keeps one fold in memory."""

    folders: Sequence[LetorFolder]
    rankers: Mapping[str, Any]
    metric: str
    script: str | None
    workers: int
    _loaded: tuple[tuple[int, int], Fold, str] | None = None

    def try_settings(self, trial: _Trial) -> list[float]:
        """Return the validation value of each setting, negated if smaller values are better."""
        fold, script = self._fold(trial)
        rule = script_metric(self.metric, script)
        ranker = self._ranker(trial.ranker, fold)
        if len(trial.settings) > 1:
            ranker.set_params(warm_start=True, tol=TUNING_TOLERANCE * ranker.get_params()["tol"])
        values = []
        with warnings.catch_warnings():
            # The chosen setting is fitted again, and its warnings are recorded then.
            warnings.simplefilter("ignore")
            # With warm_start each setting begins at the weights of the one before.
            for setting in trial.settings:
                ranker.set_params(**setting).fit(fold.train)
                values.append(rule.sign * evaluate_on(fold.vali, model=ranker, metric=rule))
        return values

    def test(self, trial: _Trial) -> _TestResult:
        """Fit the chosen setting at the ranker's own tolerance, and test it."""
        fold, script = self._fold(trial)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ranker = self._ranker(trial.ranker, fold).set_params(**trial.settings[0])
            ranker.fit(fold.train)
        rule = script_metric(self.metric, script)
        validation = evaluate_on(fold.vali, model=ranker, metric=rule)
        scores = ranker.predict(fold.test)
        values, per_query = {}, {}
        for name in TABLE:
            # LETOR 3.0 has no MeanNDCG: that of 4.0 is used.
            mode = script if name.split("@")[0] in MODES[script] else "letor4"
            metric = f"{mode}:{name}"
            values[name] = evaluate_on(fold.test, scores=scores, metric=metric)
            per_query[name] = evaluate_on(fold.test, scores=scores, metric=metric, per_query=True)
        source = f"{self.folders[trial.folder].name} {fold.name} {trial.ranker}"
        texts = [f"{source}: {warning.message}" for warning in caught]
        ids, setting = fold.test.queries.ids.tolist(), trial.settings[0]
        result = FoldResult(fold.name, setting, validation, values, 0.0, ids, per_query)
        return _TestResult(result, script, texts)

    def _fold(self, trial: _Trial) -> tuple[Fold, str]:
        key = (trial.folder, trial.fold)
        if self._loaded is None or self._loaded[0] != key:
            self._loaded = None  # frees the memory before the next fold is read
            fold = self.folders[trial.folder].fold(trial.fold)
            # Every fold consists of all parts of the collection, so all folds find the same script.
            largest = max(part.y.max(initial=0.0) for part in (fold.train, fold.vali, fold.test))
            script = self.script or ("mslr" if largest > 2 else "letor4")
            self._loaded = key, fold, script
        return self._loaded[1], self._loaded[2]

    def _ranker(self, name: str, fold: Fold) -> Any:
        """Return an unfitted copy. The number of threads, set here, does not change results."""
        from sklearn.base import clone

        ranker = clone(self.rankers[name])
        if ranker.get_params(deep=False).get("n_threads", 0) is None:
            if fold.train.nnz < MIN_VALUES_FOR_THREADS:
                ranker.set_params(n_threads=1)
            elif self.workers > 1:
                cores = os.cpu_count() or self.workers
                ranker.set_params(n_threads=max(cores // self.workers, 1))
        return ranker


class _TrialRunner:
    """Run trials in this process or in workers, and report the number of finished fits."""

    def __init__(
        self, protocol: _Protocol, workers: int, n_fits: int, report: Progress | None
    ) -> None:
        self.protocol = protocol
        self.n_fits = n_fits
        self.report = report
        self.n_done = 0
        self.pool: ProcessPoolExecutor | None = None
        if workers > 1:
            # fork would copy locks that are held by threads which do not exist in the child.
            context = multiprocessing.get_context("spawn")
            self.pool = ProcessPoolExecutor(workers, context, _start_worker, (protocol,))

    def __enter__(self) -> Self:
        self._report(0, "")
        return self

    def __exit__(self, *_: object) -> None:
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)

    def run(self, trials: Sequence[_Trial], task: Any) -> list[Any]:
        """Run a method of the protocol; return (trial, result, seconds) in order."""
        if self.pool is None:
            return [self._finish(trial, _timed(self.protocol, task, trial)) for trial in trials]
        futures = {self.pool.submit(_run_in_worker, task, trial): trial for trial in trials}
        results: dict[int, Any] = {}
        try:
            # As they finish, for the progress; the order of the results does not depend on it.
            for future in as_completed(futures):
                trial = futures[future]
                results[id(trial)] = self._finish(trial, future.result())
        except BrokenProcessPool as error:
            raise ClusterError(
                "a worker process was killed, probably for lack of memory",
                fix="Use fewer workers",
                parameter="workers",
            ) from error
        return [results[id(trial)] for trial in trials]

    def _finish(self, trial: _Trial, timed: tuple[Any, float]) -> tuple[_Trial, Any, float]:
        result, seconds = timed
        folder = self.protocol.folders[trial.folder]
        name = f"{folder.name} {folder.fold_name(trial.fold)} {trial.ranker}"
        self._report(len(trial.settings), name)
        return trial, result, seconds

    def _report(self, n_fits: int, name: str) -> None:
        self.n_done += n_fits
        if self.report is not None:
            self.report(self.n_done, self.n_fits, name)


#: The protocol of a worker process, set when it starts.
_WORKER_PROTOCOL: list[_Protocol] = []


def _start_worker(protocol: _Protocol) -> None:
    _WORKER_PROTOCOL[:] = [protocol]
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    """End the process when its parent ends, even if the parent was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run_in_worker(task: Any, trial: _Trial) -> tuple[Any, float]:
    return _timed(_WORKER_PROTOCOL[0], task, trial)


def _timed(protocol: _Protocol, task: Any, trial: _Trial) -> tuple[Any, float]:
    started = time.perf_counter()
    return task(protocol, trial), time.perf_counter() - started
