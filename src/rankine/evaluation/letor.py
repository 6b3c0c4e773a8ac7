"""The LETOR protocol: train on each fold, tune on its validation part, test once.

Per fold every setting of a small grid is trained on the training part; the one with the best
validation value is kept, and it alone sees the test part. Means are over the queries of a fold,
then over the folds (Qin, Liu, Xu and Li 2010).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rankine.core.errors import ParameterError
from rankine.evaluation.letor_folds import Fold, LetorFolder
from rankine.metrics import Metric, evaluate_on, parse_metric
from rankine.metrics.modes import MODES

__all__ = ["FoldResult", "LetorResult", "MethodResult", "TaskResult", "run_letor"]

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
