"""Tables of LETOR results as papers print them: published figures beside one's own, average ranks.

Published figures come from a table file. TOML: one table per task, one entry per method, metric =
value (``map-folds`` lists folds)::

    [ohsumed]
    SVMrank = { "ndcg@1" = 0.5519, map = 0.4464 }

CSV: a header ``task,method,metric,value``, then one figure a line.

On every task the best method has rank 1, equal ones share the mean of their ranks. Friedman's test
asks whether the average ranks could come from methods that do not differ (Demsar 2006).
"""

from __future__ import annotations

import csv
import io
import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import resources
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from rankine.core.errors import ParameterError, ParseError, SchemaError
from rankine.evaluation.compare import Pair, compare_values, pairs_table
from rankine.evaluation.letor import TABLE, FoldResult, LetorResult, MethodResult, TaskResult
from rankine.evaluation.tables import Table
from rankine.metrics import parse_metric


@dataclass(frozen=True)
class AverageRanks:
    """Ranks over the tasks for which all methods have a figure.

    ``p_value`` is None where Friedman's test has nothing to say: fewer than three methods or two
    tasks.
    """

    metric: str
    ranks: Mapping[str, float]
    tasks: Sequence[str]
    statistic: float | None
    p_value: float | None


def average_ranks(tasks: Sequence[TaskResult], metric: str) -> AverageRanks | None:
    """Average ranks by one metric; None when no task has figures of two methods."""
    from scipy import stats

    figures = {
        task.name: {m.name: m.means[metric] for m in task.methods if metric in m.means}
        for task in tasks
    }
    names = [m.name for m in max(tasks, key=lambda t: len(t.methods)).methods]
    methods = [name for name in names if any(name in row for row in figures.values())]
    common = [task for task, row in figures.items() if all(name in row for name in methods)]
    if len(methods) < 2 or not common:
        return None
    sign = -1.0 if parse_metric(metric).larger_is_better else 1.0
    table = np.array([[sign * figures[task][name] for name in methods] for task in common])
    ranks = np.apply_along_axis(stats.rankdata, 1, table)
    statistic = p_value = None
    if len(methods) >= 3 and len(common) >= 2 and np.ptp(table, axis=1).any():
        test = stats.friedmanchisquare(*table.T)
        statistic, p_value = float(test.statistic), float(test.pvalue)
    means = dict(zip(methods, ranks.mean(axis=0).tolist(), strict=True))
    return AverageRanks(metric, means, common, statistic, p_value)


def absent_tasks(tasks: Sequence[TaskResult]) -> dict[str, list[str]]:
    """Method -> tasks for which it has no figures."""
    methods = {method.name for task in tasks for method in task.methods}
    return {
        name: missing
        for name in sorted(methods)
        if (missing := [t.name for t in tasks if name not in {m.name for m in t.methods}])
    }


_NDCG = [name for name in TABLE if "ndcg" in name]
_OTHERS = [name for name in TABLE if "ndcg" not in name]

#: The table that comes with the package.
PUBLISHED = "published"
_FOLDS = "-folds"
_COLUMNS = ("task", "method", "metric", "value")
#: Of the comparisons between methods.
CONFIDENCE, MARGIN = 0.95, 0.01

Figures = Mapping[str, Mapping[str, Mapping[str, Any]]]


def read_baselines(path: str | Path) -> Figures:
    """task -> method -> metric -> value."""
    if str(path) == PUBLISHED:
        tables = _shipped()
    else:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise ParseError("not UTF-8 text", file=str(path), fix="Save it as UTF-8") from None
        tables = _csv(text, str(path)) if Path(path).suffix == ".csv" else _toml(text, str(path))
    found = {task.lower(): value for task, value in tables.items() if isinstance(value, dict)}
    for task, methods in found.items():
        for method, values in methods.items():
            _check(values, f"{task}.{method}", str(path))
    return found


def letor_tasks() -> list[str]:
    """Names of all tasks of LETOR 3.0 and 4.0."""
    return list(_shipped()["letor_tasks"])


def add_baselines(result: LetorResult, figures: Figures, folder: str | None = None) -> LetorResult:
    """The result with published methods added to the tasks they have figures for.

    Figures belong to the folders whose names start with their task's name; ``folder`` names the
    one folder they belong to, whatever the table calls its only task. A note says when no folder
    matched.
    """
    if folder is not None:
        if len(figures) != 1 or folder not in {task.name for task in result.tasks}:
            raise ParameterError(
                f"{folder!r} is no folder of this run"
                if len(figures) == 1
                else f"the figures for {folder!r} hold {len(figures)} tasks",
                fix="Write FOLDER=FILE with the name of a folder and a file of one task",
            )
        figures = {folder.lower(): next(iter(figures.values()))}
    tasks = [_with_figures(task, figures) for task in result.tasks]
    notes = list(result.notes)
    if all(len(a.methods) == len(b.methods) for a, b in zip(tasks, result.tasks, strict=True)):
        notes.append(
            f"no folder's name starts with a task of the published figures "
            f"({', '.join(sorted(figures))}): name the folder with --baselines FOLDER=FILE"
        )
    return replace(result, tasks=tasks, notes=notes)


def _with_figures(task: TaskResult, figures: Figures) -> TaskResult:
    names = [name for name in figures if task.name.lower().startswith(name)]
    if not names:
        return task
    methods = [_method(name, values) for name, values in figures[max(names, key=len)].items()]
    return replace(task, methods=[*task.methods, *methods])


def _method(name: str, values: Mapping[str, Any]) -> MethodResult:
    means = {
        metric: float(value) for metric, value in values.items() if not metric.endswith(_FOLDS)
    }
    folds: list[FoldResult] = []
    for metric, listed in values.items():
        if metric.endswith(_FOLDS):
            base = metric.removesuffix(_FOLDS)
            folds = [
                FoldResult(f"Fold{k}", {}, float("nan"), {base: float(value)}, 0.0)
                for k, value in enumerate(listed, 1)
            ]
    return MethodResult(name, means, folds, published=True)


def _shipped() -> dict[str, Any]:
    text = resources.files("rankine.evaluation").joinpath("published.toml").read_text("utf-8")
    return _toml(text, PUBLISHED)


def _toml(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ParseError(f"not TOML: {error}", file=file, fix="See docs/how-to/letor.md") from None


def _csv(text: str, file: str) -> dict[str, Any]:
    rows = csv.DictReader(text.splitlines())
    if tuple(rows.fieldnames or ()) != _COLUMNS:
        raise SchemaError(
            f"columns {rows.fieldnames} instead of {list(_COLUMNS)}",
            file=file,
            fix="Start the file with the line: task,method,metric,value",
        )
    tables: dict[str, Any] = {}
    for number, row in enumerate(rows, 2):
        try:
            value = float(row["value"])
        except (TypeError, ValueError):
            raise ParseError(
                f"{row['value']!r} is not a number", file=file, line=number, fix="Write a number"
            ) from None
        tables.setdefault(row["task"], {}).setdefault(row["method"], {})[row["metric"]] = value
    return tables


def _check(values: Any, where: str, file: str) -> None:
    if not isinstance(values, dict):
        raise SchemaError(
            f"{where} is not a table of figures", file=file, fix="Write { map = 0.44 }"
        )
    for metric, value in values.items():
        parse_metric(metric.removesuffix(_FOLDS))
        for number in value if metric.endswith(_FOLDS) else [value]:
            if isinstance(number, bool) or not isinstance(number, (int, float)):
                raise SchemaError(
                    f"{where} has {metric} = {number!r}", file=file, fix="Write a number"
                )


def letor_tables(result: LetorResult) -> list[Table]:
    """The tables of every task, then the average ranks over tasks."""
    tables = [table for task in result.tasks for table in task_tables(task, result.metric)]
    return [*tables, *rank_tables(result)]


def task_tables(task: TaskResult, metric: str) -> list[Table]:
    """NDCG, precision and MAP, folds, differences; ``metric`` chose the parameters."""
    tables = [_figures(task, _NDCG), _figures(task, _OTHERS), _folds(task, metric)]
    pairs = task_pairs(task, metric)
    if pairs:
        title = (
            f"{task.name}: differences in {parse_metric(_shown(metric)).title}, query by query "
            f"over all test parts (Holm's correction, equivalence within {MARGIN:g})"
        )
        tables.append(pairs_table(title, pairs, CONFIDENCE))
    return tables


def task_pairs(task: TaskResult, metric: str) -> list[Pair]:
    """Every pair of one's own methods, compared on the test queries of all folds.

    By ``metric`` where the tables have it, else by MAP, under the rules of the task's script. No
    model has seen the queries it is judged on; queries without a value are left out.
    """
    own = [m for m in task.methods if m.folds and all(fold.per_query for fold in m.folds)]
    if len(own) < 2:
        return []
    name = _shown(metric)
    columns = [np.concatenate([fold.per_query[name] for fold in m.folds]) for m in own]
    values = np.column_stack(columns)
    kept = values[~np.isnan(values).any(axis=1)]
    if len(kept) < 2:
        return []
    places = list(combinations(range(len(own)), 2))
    names = [m.name for m in own]
    by = parse_metric(name)
    return compare_values(names, kept, by, places, CONFIDENCE, MARGIN, 10_000, 0)[1]


def letor_csv(result: LetorResult) -> Iterator[str]:
    """Lines ``task,method,metric,value`` of the means: a table that ``read_baselines`` reads."""
    rows = [
        (task.name, method.name, metric, repr(value))
        for task in result.tasks
        for method in task.methods
        for metric, value in method.means.items()
    ]
    return _csv_lines([_COLUMNS, *rows])


def per_query_csv(result: LetorResult) -> Iterator[str]:
    """Lines ``task,fold,query,method`` and a column per metric, for every test query."""
    yield from _csv_lines([("task", "fold", "query", "method", *TABLE)])
    for task in result.tasks:
        for method in task.methods:
            for fold in method.folds:
                for k, query in enumerate(fold.ids):
                    found = (float(fold.per_query[metric][k]) for metric in TABLE)
                    cells = ("" if math.isnan(v) else repr(v) for v in found)
                    yield from _csv_lines([(task.name, fold.fold, query, method.name, *cells)])


def _csv_lines(rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in rows:
        writer.writerow(row)
        yield out.getvalue()
        out.seek(0)
        out.truncate()


def _shown(metric: str) -> str:
    """The metric that chose, where the tables have it."""
    return metric if metric in TABLE else "map"


def rank_tables(result: LetorResult) -> list[Table]:
    """The average ranks over tasks, where there are several."""
    ranks = _ranks(result) if len(result.tasks) > 1 else []
    return [_rank_table(ranks)] if ranks else []


def letor_notes(result: LetorResult) -> list[str]:
    """What is missing, by name."""
    notes = list(result.notes)
    for method, tasks in absent_tasks(result.tasks).items():
        notes.append(f"{method} has no figures for {', '.join(tasks)}")
    given = [task.name.lower() for task in result.tasks]
    absent = [name for name in letor_tasks() if not any(g.startswith(name) for g in given)]
    if absent:
        notes.append(f"LETOR tasks that were not given: {', '.join(absent)}")
    return notes


def letor_dict(result: LetorResult) -> dict[str, Any]:
    """Plain data, as ``--json`` prints it."""
    return {
        "metric": result.metric,
        "tasks": [
            {
                "name": task.name,
                "script": task.script,
                "methods": [_plain_method(method) for method in task.methods],
                "pairs": [asdict(pair) for pair in task_pairs(task, result.metric)],
            }
            for task in result.tasks
        ],
        "average_ranks": [asdict(ranks) for ranks in _ranks(result)],
        "notes": letor_notes(result),
    }


def _plain_method(method: MethodResult) -> dict[str, Any]:
    bare = [replace(fold, ids=(), per_query={}) for fold in method.folds]
    plain = asdict(replace(method, folds=bare))
    for fold in plain["folds"]:
        del fold["ids"], fold["per_query"]
        if math.isnan(fold["validation"]):
            fold["validation"] = None
    return plain


def _ranks(result: LetorResult) -> list[AverageRanks]:
    found = (average_ranks(result.tasks, metric) for metric in TABLE)
    return [ranks for ranks in found if ranks is not None]


def _figures(task: TaskResult, metrics: Sequence[str]) -> Table:
    rows = []
    for method in task.methods:
        cells = (method.means.get(metric) for metric in metrics)
        rows.append([method.name, *("" if v is None else f"{v:.4f}" for v in cells)])
    bold = set()
    for c, metric in enumerate(metrics, 1):
        known = [m.means[metric] for m in task.methods if metric in m.means]
        best = f"{max(known, default=0):.4f}"
        bold |= {(r, c) for r, row in enumerate(rows) if row[c] == best}
    header = ["", *(parse_metric(metric).title for metric in metrics)]
    title = f"{task.name}: mean over folds of the test parts ({task.script} script)"
    return Table(title, header, rows, bold=frozenset(bold))


def _folds(task: TaskResult, metric: str) -> Table:
    shown = _shown(metric)
    with_folds = [
        m for m in task.methods if m.folds and all(shown in fold.values for fold in m.folds)
    ]
    names = [fold.fold for fold in with_folds[0].folds]
    rows = []
    for method in with_folds:
        cells = [f"{fold.values[shown]:.4f}" for fold in method.folds]
        searched = not method.published and any(f.chosen for f in method.folds)
        chosen = "; ".join(_chosen(f.chosen) for f in method.folds) if searched else ""
        rows.append([method.name, *cells, f"{method.means[shown]:.4f}", chosen])
    title = f"{task.name}: {parse_metric(shown).title} of each fold (parameters by {metric})"
    return Table(title, ["", *names, "mean", "chosen on validation"], rows)


def _chosen(setting: Any) -> str:
    return " ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in setting.items()
    )


def _rank_table(ranks: Sequence[AverageRanks]) -> Table:
    methods = list(max(ranks, key=lambda r: len(r.ranks)).ranks)
    rows = []
    for each in ranks:
        cells = [f"{each.ranks[m]:.2f}" if m in each.ranks else "" for m in methods]
        p = "" if each.p_value is None else f"{each.p_value:.3f}"
        rows.append([parse_metric(each.metric).title, *cells, str(len(each.tasks)), p])
    return Table(
        "Average rank over tasks (1 is best), and p of Friedman's test",
        ["", *methods, "tasks", "Friedman p"],
        rows,
    )
