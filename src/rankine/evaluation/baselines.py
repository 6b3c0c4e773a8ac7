"""Published figures, from a table file, beside one's own.

TOML: one table per task, one entry per method, metric = value (``map-folds`` lists folds)::

    [ohsumed]
    SVMrank = { "ndcg@1" = 0.5519, map = 0.4464 }

CSV: a header ``task,method,metric,value``, then one figure a line.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from rankine.core.errors import ParseError, SchemaError
from rankine.evaluation.letor import FoldResult, LetorResult, MethodResult, TaskResult
from rankine.metrics import parse_metric

__all__ = ["PUBLISHED", "add_baselines", "letor_tasks", "read_baselines"]

#: The table that comes with the package.
PUBLISHED = "published"
_FOLDS = "-folds"

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


def add_baselines(result: LetorResult, figures: Figures) -> LetorResult:
    """The result with published methods added to the tasks they have figures for."""
    tasks = [_with_figures(task, figures) for task in result.tasks]
    return replace(result, tasks=tasks)


def _with_figures(task: TaskResult, figures: Figures) -> TaskResult:
    names = [name for name in figures if task.name.lower().startswith(name)]
    if not names:
        return task
    methods = [_method(name, values) for name, values in figures[max(names, key=len)].items()]
    return replace(task, methods=[*task.methods, *methods])


def _method(name: str, values: Mapping[str, Any]) -> MethodResult:
    means = {metric: float(value) for metric, value in values.items() if not _is_folds(metric)}
    folds: list[FoldResult] = []
    for metric, listed in values.items():
        if _is_folds(metric):
            base = metric.removesuffix(_FOLDS)
            folds = [
                FoldResult(f"Fold{k}", {}, float("nan"), {base: float(value)}, 0.0)
                for k, value in enumerate(listed, 1)
            ]
    return MethodResult(name, means, folds, published=True)


def _is_folds(metric: str) -> bool:
    return metric.endswith(_FOLDS)


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
    wanted = ["task", "method", "metric", "value"]
    if rows.fieldnames != wanted:
        raise SchemaError(
            f"columns {rows.fieldnames} instead of {wanted}",
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
        for number in value if _is_folds(metric) else [value]:
            if isinstance(number, bool) or not isinstance(number, (int, float)):
                raise SchemaError(
                    f"{where} has {metric} = {number!r}", file=file, fix="Write a number"
                )
