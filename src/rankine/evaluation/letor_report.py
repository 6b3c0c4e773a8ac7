"""Tables of LETOR results in the form papers print them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rankine.evaluation.average_ranks import AverageRanks, absent_tasks, average_ranks
from rankine.evaluation.baselines import letor_tasks
from rankine.evaluation.letor import TABLE, LetorResult, MethodResult, TaskResult
from rankine.evaluation.tables import Table
from rankine.metrics import parse_metric

__all__ = ["letor_dict", "letor_notes", "letor_tables"]

_NDCG = [name for name in TABLE if "ndcg" in name]
_OTHERS = [name for name in TABLE if "ndcg" not in name]


def letor_tables(result: LetorResult) -> list[Table]:
    """Per task NDCG, then precision and MAP, then folds; over tasks the average ranks."""
    tables = []
    for task in result.tasks:
        tables += [_figures(task, _NDCG), _figures(task, _OTHERS), _folds(task, result.metric)]
    if len(result.tasks) > 1 and (ranks := _ranks(result)):
        tables.append(_rank_table(ranks))
    return tables


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
            }
            for task in result.tasks
        ],
        "average_ranks": [asdict(ranks) for ranks in _ranks(result)],
        "notes": letor_notes(result),
    }


def _plain_method(method: MethodResult) -> dict[str, Any]:
    plain = asdict(method)
    for fold in plain["folds"]:
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
    shown = metric if metric in TABLE else "map"
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
