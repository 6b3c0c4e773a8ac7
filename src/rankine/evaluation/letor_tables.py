"""Tables of LETOR results as in papers: published figures, differences, average ranks.

Published figures come from a file. TOML has one table per task and one entry per method, metric =
value (``map-folds`` lists folds)::

    [ohsumed]
    SVMrank = { "ndcg@1" = 0.5519, map = 0.4464 }

CSV has the header ``task,method,metric,value`` and one figure per line.

On every task the best method has rank 1; equal ones share the mean of their ranks. Friedman's test
is of the hypothesis that the methods do not differ (Demsar 2006).
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
from string import ascii_lowercase
from typing import Any

import numpy as np

from rankine.core.errors import ParameterError, ParseError, SchemaError
from rankine.evaluation.compare import Pair, compare_values, pairs_table
from rankine.evaluation.letor import TABLE, FoldResult, LetorResult, MethodResult, TaskResult
from rankine.evaluation.tables import Table
from rankine.metrics import parse_metric


@dataclass(frozen=True)
class AverageRanks:
    """Average ranks over the tasks for which all methods have a figure.

    ``p_value`` is None if Friedman's test does not apply: with fewer than three methods or two
    tasks.
    """

    metric: str
    ranks: Mapping[str, float]
    tasks: Sequence[str]
    statistic: float | None
    p_value: float | None


def average_ranks(tasks: Sequence[TaskResult], metric: str) -> AverageRanks | None:
    """Compute average ranks by one metric; None if no task has figures of two methods."""
    from scipy import stats

    figures = {
        task.name: {m.name: m.means[metric] for m in task.methods if metric in m.means}
        for task in tasks
    }
    longest = max(tasks, key=lambda task: len(task.methods))
    names = [method.name for method in longest.methods]
    # Published figures may lack a metric: methods without it take no part.
    methods = [name for name in names if any(name in row for row in figures.values())]
    common = [task for task, row in figures.items() if all(name in row for name in methods)]
    if len(methods) < 2 or not common:
        return None
    # rankdata gives rank 1 to the smallest value.
    sign = -parse_metric(metric).sign
    table = np.array([[sign * figures[task][name] for name in methods] for task in common])
    ranks = np.apply_along_axis(stats.rankdata, 1, table)
    statistic = p_value = None
    if len(methods) >= 3 and len(common) >= 2 and np.ptp(table, axis=1).any():
        test = stats.friedmanchisquare(*table.T)
        statistic, p_value = float(test.statistic), float(test.pvalue)
    means = dict(zip(methods, ranks.mean(axis=0).tolist(), strict=True))
    return AverageRanks(metric, means, common, statistic, p_value)


def absent_tasks(tasks: Sequence[TaskResult]) -> dict[str, list[str]]:
    """Return the tasks for which methods have no figures, by method."""
    names_by_task = {task.name: {method.name for method in task.methods} for task in tasks}
    absent = {}
    for name in sorted(set().union(*names_by_task.values())):
        missing = [task for task, names in names_by_task.items() if name not in names]
        if missing:
            absent[name] = missing
    return absent


_NDCG_METRICS = [name for name in TABLE if "ndcg" in name]
_OTHER_METRICS = [name for name in TABLE if "ndcg" not in name]

#: Name of the table that is part of the package.
PUBLISHED = "published"
#: Ending of metrics whose value is a list of folds.
_FOLDS = "-folds"
_COLUMNS = ("task", "method", "metric", "value")
# Confidence level and margin of the comparisons of methods.
CONFIDENCE, MARGIN = 0.95, 0.01

Figures = Mapping[str, Mapping[str, Mapping[str, Any]]]


def read_baselines(path: str | Path) -> Figures:
    """Read figures by task, method and metric from a TOML or CSV file."""
    if str(path) == PUBLISHED:
        tables = _read_published()
    else:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise ParseError("not UTF-8 text", file=str(path), fix="Save it as UTF-8") from None
        parse = _parse_csv if Path(path).suffix == ".csv" else _parse_toml
        tables = parse(text, str(path))
    figures = {task.lower(): value for task, value in tables.items() if isinstance(value, dict)}
    for task, methods in figures.items():
        for method, values in methods.items():
            _check_figures(values, f"{task}.{method}", str(path))
    return figures


def letor_tasks() -> list[str]:
    """Return the names of all tasks of LETOR 3.0 and 4.0."""
    return list(_read_published()["letor_tasks"])


def add_baselines(result: LetorResult, figures: Figures, folder: str | None = None) -> LetorResult:
    """Add published methods to the tasks for which they have figures.

    Figures belong to the folders whose names start with the name of their task. If ``folder`` is
    given, figures of a single task belong to this folder. A note is added if no folder matches.
    """
    if folder is not None:
        fix = "Write FOLDER=FILE with the name of a folder and a file of one task"
        if len(figures) != 1:
            raise ParameterError(
                f"the figures for {folder!r} are of {len(figures)} tasks",
                fix=fix,
                parameter="baselines",
            )
        if folder not in {task.name for task in result.tasks}:
            raise ParameterError(
                f"{folder!r} is not a folder of this run", fix=fix, parameter="baselines"
            )
        figures = {folder.lower(): next(iter(figures.values()))}
    tasks = [_with_figures(task, figures) for task in result.tasks]
    notes = list(result.notes)
    if all(len(a.methods) == len(b.methods) for a, b in zip(tasks, result.tasks, strict=True)):
        notes.append(
            "the name of no folder starts with a task of the published figures "
            f"({', '.join(sorted(figures))}): use --baselines FOLDER=FILE"
        )
    return replace(result, tasks=tasks, notes=notes)


def _with_figures(task: TaskResult, figures: Figures) -> TaskResult:
    names = [name for name in figures if task.name.lower().startswith(name)]
    if not names:
        return task
    # Of several names that match, the longest is the most specific.
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


def _read_published() -> dict[str, Any]:
    text = resources.files("rankine.evaluation").joinpath("published.toml").read_text("utf-8")
    return _parse_toml(text, PUBLISHED)


def _parse_toml(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ParseError(f"not TOML: {error}", file=file, fix="See docs/how-to/letor.md") from None


def _parse_csv(text: str, file: str) -> dict[str, Any]:
    rows = csv.DictReader(text.splitlines())
    if tuple(rows.fieldnames or ()) != _COLUMNS:
        raise SchemaError(
            f"columns {rows.fieldnames} instead of {list(_COLUMNS)}",
            file=file,
            fix="Start the file with the line: task,method,metric,value",
        )
    tables: dict[str, Any] = {}
    # Line 1 is the header.
    for number, row in enumerate(rows, 2):
        try:
            value = float(row["value"])
        except (TypeError, ValueError):
            raise ParseError(
                f"{row['value']!r} is not a number", file=file, line=number, fix="Write a number"
            ) from None
        tables.setdefault(row["task"], {}).setdefault(row["method"], {})[row["metric"]] = value
    return tables


def _check_figures(values: Any, name: str, file: str) -> None:
    if not isinstance(values, dict):
        raise SchemaError(
            f"{name} is not a table of figures", file=file, fix="Write { map = 0.44 }"
        )
    for metric, value in values.items():
        parse_metric(metric.removesuffix(_FOLDS))
        for number in value if metric.endswith(_FOLDS) else [value]:
            # True and False are numbers to Python.
            if isinstance(number, bool) or not isinstance(number, (int, float)):
                raise SchemaError(
                    f"{name} has {metric} = {number!r}", file=file, fix="Write a number"
                )


def letor_tables(result: LetorResult) -> list[Table]:
    """Return the tables of every task, then the average ranks over tasks."""
    tables = [table for task in result.tasks for table in task_tables(task, result.metric)]
    return [*tables, *rank_tables(result)]


def task_tables(task: TaskResult, metric: str) -> list[Table]:
    """Return tables of metrics, folds and differences of methods."""
    pairs = task_pairs(task, metric)
    folds_table = _folds_table(task, metric)
    tables = [
        _means_table(task, _NDCG_METRICS),
        _means_table(task, _OTHER_METRICS),
        replace(folds_table, marks=_significance_marks(folds_table, pairs)),
    ]
    if pairs:
        name = parse_metric(_table_metric(metric)).title
        title = (
            f"{task.name}: differences in {name}, query by query "
            f"over all test parts (Holm's correction, equivalence within {MARGIN:g})"
        )
        tables.append(pairs_table(title, pairs, CONFIDENCE))
    return tables


def _significance_marks(table: Table, pairs: Sequence[Pair]) -> dict[tuple[int, int], str]:
    """Return a letter for each compared method, and at its mean those of methods it beats."""
    names = [row[0] for row in table.rows]
    compared = [name for name in names if any(name in (pair.a, pair.b) for pair in pairs)]
    letters = dict(zip(compared, ascii_lowercase, strict=False))
    column = list(table.header).index("mean")
    marks = {(names.index(name), 0): letter for name, letter in letters.items()}
    for pair in pairs:
        if not pair.significant:
            continue
        better, worse = (pair.b, pair.a) if pair.difference > 0 else (pair.a, pair.b)
        cell = names.index(better), column
        marks[cell] = "".join(sorted(marks.get(cell, "") + letters.get(worse, "")))
    return marks


def task_pairs(task: TaskResult, metric: str) -> list[Pair]:
    """Compare every pair of trained methods on the test queries of all folds.

    The metric is ``metric`` if the tables have it, else MAP, by the rules of the task's script. No
    model was trained on the queries it is evaluated on. Queries without a value are left out.
    """
    trained = [m for m in task.methods if m.folds and all(fold.per_query for fold in m.folds)]
    if len(trained) < 2:
        return []
    name = _table_metric(metric)
    columns = [np.concatenate([fold.per_query[name] for fold in m.folds]) for m in trained]
    values = np.column_stack(columns)
    defined = values[~np.isnan(values).any(axis=1)]
    if len(defined) < 2:
        return []
    index_pairs = list(combinations(range(len(trained)), 2))
    names = [m.name for m in trained]
    rule = parse_metric(name)
    return compare_values(names, defined, rule, index_pairs, CONFIDENCE, MARGIN, 10_000, 0)[1]


def letor_csv(result: LetorResult) -> Iterator[str]:
    """Yield the means as CSV ``task,method,metric,value``, which ``read_baselines`` reads."""
    rows = [
        (task.name, method.name, metric, repr(value))
        for task in result.tasks
        for method in task.methods
        for metric, value in method.means.items()
    ]
    return _csv_lines([_COLUMNS, *rows])


def per_query_csv(result: LetorResult) -> Iterator[str]:
    """Yield CSV with ``task,fold,query,method`` and a column per metric, for every test query."""
    yield from _csv_lines([("task", "fold", "query", "method", *TABLE)])
    for task in result.tasks:
        for method in task.methods:
            for fold in method.folds:
                for k, query in enumerate(fold.ids):
                    values = [float(fold.per_query[metric][k]) for metric in TABLE]
                    cells = ["" if math.isnan(value) else repr(value) for value in values]
                    yield from _csv_lines([(task.name, fold.fold, query, method.name, *cells)])


def _csv_lines(rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in rows:
        writer.writerow(row)
        yield out.getvalue()
        # One line in memory at a time: there may be a line for each of millions of queries.
        out.seek(0)
        out.truncate()


def _table_metric(metric: str) -> str:
    """Return the metric that selected the settings if the tables have it, else MAP."""
    return metric if metric in TABLE else "map"


def rank_tables(result: LetorResult) -> list[Table]:
    """Return the table of average ranks, if there are several tasks."""
    if len(result.tasks) < 2:
        return []
    ranks = _ranks(result)
    return [_rank_table(ranks)] if ranks else []


def letor_notes(result: LetorResult) -> list[str]:
    """Return notes, including the tie rule and the figures and tasks that are missing."""
    notes = [*result.notes, "equal scores keep the order of the file, as in the scripts"]
    for method, tasks in absent_tasks(result.tasks).items():
        notes.append(f"{method} has no figures for {', '.join(tasks)}")
    folders = [task.name.lower() for task in result.tasks]
    absent = [task for task in letor_tasks() if not any(f.startswith(task) for f in folders)]
    if absent:
        notes.append(f"LETOR tasks without a folder: {', '.join(absent)}")
    return notes


def letor_dict(result: LetorResult) -> dict[str, Any]:
    """Return data for JSON, as ``--json`` prints it."""
    return {
        "metric": result.metric,
        "tasks": [
            {
                "name": task.name,
                "script": task.script,
                "methods": [_method_dict(method) for method in task.methods],
                "pairs": [asdict(pair) for pair in task_pairs(task, result.metric)],
            }
            for task in result.tasks
        ],
        "average_ranks": [asdict(ranks) for ranks in _ranks(result)],
        "notes": letor_notes(result),
    }


def _method_dict(method: MethodResult) -> dict[str, Any]:
    # Values of queries are not copied by asdict only to be deleted.
    folds = [replace(fold, ids=(), per_query={}) for fold in method.folds]
    data = asdict(replace(method, folds=folds))
    for fold in data["folds"]:
        del fold["ids"], fold["per_query"]
        if math.isnan(fold["validation"]):
            fold["validation"] = None
    return data


def _ranks(result: LetorResult) -> list[AverageRanks]:
    all_ranks = [average_ranks(result.tasks, metric) for metric in TABLE]
    return [ranks for ranks in all_ranks if ranks is not None]


def _means_table(task: TaskResult, metrics: Sequence[str]) -> Table:
    rows = [
        [method.name, *(_number_text(method.means.get(metric), 4) for metric in metrics)]
        for method in task.methods
    ]
    bold = set()
    for c, metric in enumerate(metrics, 1):
        means = [m.means[metric] for m in task.methods if metric in m.means]
        # Figures are compared as they are printed: equal texts are all in bold.
        best = f"{max(means, default=0):.4f}"
        bold |= {(r, c) for r, row in enumerate(rows) if row[c] == best}
    header = ["", *(parse_metric(metric).title for metric in metrics)]
    title = f"{task.name}: mean over folds of the test parts ({task.script} script)"
    # A narrow terminal keeps the ranks that papers compare.
    optional = [name for rank in (9, 8, 7, 6, 4, 2) for name in header if name.endswith(f"@{rank}")]
    return Table(title, header, rows, bold=frozenset(bold), optional=optional)


def _folds_table(task: TaskResult, metric: str) -> Table:
    name = _table_metric(metric)
    with_folds = [
        m for m in task.methods if m.folds and all(name in fold.values for fold in m.folds)
    ]
    names = [fold.fold for fold in with_folds[0].folds]
    rows = []
    for method in with_folds:
        cells = [f"{fold.values[name]:.4f}" for fold in method.folds]
        settings = ""
        if not method.published and any(fold.chosen for fold in method.folds):
            settings = "; ".join(_setting_text(fold.chosen) for fold in method.folds)
        rows.append([method.name, *cells, f"{method.means[name]:.4f}", settings])
    title = f"{task.name}: {parse_metric(name).title} of each fold (parameters by {metric})"
    header = ["", *names, "mean", "chosen on validation"]
    return Table(title, header, rows, further_text=header[-1:], optional=header[-1:])


def _number_text(value: float | None, digits: int) -> str:
    if value is None:
        return ""
    return f"{value:.{digits}f}"


def _setting_text(setting: Any) -> str:
    return " ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in setting.items()
    )


def _rank_table(ranks: Sequence[AverageRanks]) -> Table:
    methods = list(max(ranks, key=lambda r: len(r.ranks)).ranks)
    rows = []
    for each in ranks:
        cells = [_number_text(each.ranks.get(method), 2) for method in methods]
        p_value = _number_text(each.p_value, 3)
        rows.append([parse_metric(each.metric).title, *cells, str(len(each.tasks)), p_value])
    return Table(
        "Average rank over tasks (1 is best), and p of Friedman's test",
        ["", *methods, "tasks", "Friedman p"],
        rows,
    )
