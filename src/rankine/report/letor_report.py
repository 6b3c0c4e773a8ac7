"""The report of the LETOR protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rankine.core.safe_text import Html, join, name_of, tag
from rankine.evaluation.letor_report import letor_dict, letor_notes, letor_tables
from rankine.metrics import parse_metric
from rankine.report.compare_report import KINDS
from rankine.report.page import Report, Section, figures, from_table, note, render, tile
from rankine.report.sections.origin import command_part
from rankine.report.svg import Line, figure, line_chart
from rankine.report.words import number, plural

if TYPE_CHECKING:
    from rankine.evaluation.letor import LetorResult, MethodResult, TaskResult

__all__ = ["letor_report"]


def letor_report(
    result: LetorResult, *, title: str | None = None, command: str | None = None
) -> Report:
    """Per task: NDCG@k, the folds, the tables papers print; over tasks the average ranks."""
    names = ", ".join(task.name for task in result.tasks[:3])
    heading = title or f"LETOR protocol on {names}"
    # Ids come from the order of the tasks, not from their names: names are anything.
    sections = [_task(task, k, result) for k, task in enumerate(result.tasks)]
    tables = letor_tables(result)
    if len(result.tasks) > 1 and len(tables) > 3 * len(result.tasks):
        card = tag("div", from_table(tables[-1]), class_="card")
        lead = "1 is best. Friedman's test asks whether methods differ over tasks at all."
        sections.append(Section("ranks", "Over tasks", "Which is best over all tasks?", lead, card))
    notes = [note(text) for text in letor_notes(result)]
    if command is not None or notes:
        parts: list[Any] = [*notes]
        if command is not None:
            parts.append(command_part("Make this page again", command))
        sections.append(
            Section("origin", "How it was made", "How was it made?", _RULES, join(parts))
        )
    page = render(
        heading, "rankine: the LETOR protocol", _summary(result), _tiles(result), sections
    )
    return Report(heading, page, {"title": heading, **letor_dict(result)})


_RULES = (
    "On every fold each setting is trained on the training part; the one with the best value on "
    "the validation part is kept, and it alone sees the test part, once."
)


def _shown(result: LetorResult) -> str:
    """The metric of the headline: the one that chose, where the tables have it."""
    has = all(result.metric in m.means for task in result.tasks for m in task.methods[:1])
    return result.metric if has else "map"


def _summary(result: LetorResult) -> Html:
    metric = _shown(result)
    title = parse_metric(metric).title
    words: list[Any] = []
    for task in result.tasks[:3]:
        own = [m for m in task.methods if not m.published and metric in m.means]
        if not own:
            continue
        best = max(own, key=lambda m: m.means[metric])
        words += [
            name_of(task.name, 60),
            f": {title} ",
            tag("strong", number(best.means[metric])),
            " by ",
            name_of(best.name, 60),
            ", mean over the test parts of ",
            plural(len(best.folds), "fold"),
            ". ",
        ]
    return join(words)


def _tiles(result: LetorResult) -> list[Html]:
    metric = _shown(result)
    found: list[Html] = []
    for method in result.tasks[0].methods:
        if method.published or metric not in method.means or len(found) == 5:
            continue
        values = [fold.values[metric] for fold in method.folds if metric in fold.values]
        span = f"folds {number(min(values), 3)} to {number(max(values), 3)}" if values else None
        found.append(tile(name_of(method.name, 40), number(method.means[metric]), span))
    return found


def _task(task: TaskResult, place: int, result: LetorResult) -> Section:
    shown = [table for table in letor_tables(result) if table.title.startswith(f"{task.name}: ")]
    cards = [tag("div", from_table(table), class_="card") for table in shown[:3]]
    lead = f"Means over the test parts of the folds, by the rules of the {task.script} script."
    body = join([figures(_depths(task), _folds(task, _shown(result))), *cards])
    return Section(f"task-{place}", task.name, f"{task.name}: how good is each?", lead, body)


def _coloured(methods: Any) -> list[tuple[MethodResult, str]]:
    """Own methods in colours, published ones in grey; drawn from back to front."""
    own = [m for m in methods if not m.published]
    colours = [(m, KINDS[k % 4]) for k, m in enumerate(own)]
    return [*((m, "random") for m in methods if m.published), *colours[::-1]]


def _with_key(key: list[tuple[str, Any]], method: MethodResult, kind: str) -> list[tuple[str, Any]]:
    """The key with one more line drawn: own methods by name, first; published ones as one."""
    if not method.published:
        return [(kind, name_of(method.name, 40)), *key]
    return key or [(kind, "published")]


def _depths(task: TaskResult) -> Html | None:
    depths = [k for k in range(1, 11) if any(f"ndcg@{k}" in m.means for m in task.methods)]
    lines: list[Line] = []
    key: list[tuple[str, Any]] = []
    for method, kind in _coloured(task.methods):
        known = [k for k in depths if f"ndcg@{k}" in method.means]
        if len(known) < 2:
            continue
        y = [method.means[f"ndcg@{k}"] for k in known]
        lines.append(Line(method.name, kind, [float(k) for k in known], y))
        key = _with_key(key, method, kind)
    if not lines:
        return None
    words = (
        "Quality of the first k documents. Read: the higher the line, the better. LETOR's scripts "
        "give 0 to lists that are shorter than k, so that lines may fall at the end."
    )
    picture = line_chart(
        lines,
        "k, documents from the top",
        "NDCG@k",
        "NDCG at depths 1 to 10",
        x_ticks=(1, 3, 5, 8, 10),
    )
    return figure("NDCG@k", picture, words, key)


def _folds(task: TaskResult, metric: str) -> Html | None:
    lines: list[Line] = []
    key: list[tuple[str, Any]] = []
    for method, kind in _coloured(task.methods):
        values = [f.values[metric] for f in method.folds if metric in f.values]
        if len(values) < 2:
            continue
        x = [float(k) for k in range(1, len(values) + 1)]
        lines.append(Line(method.name, kind, x, values))
        key = _with_key(key, method, kind)
    if not lines:
        return None
    title = parse_metric(metric).title
    words = (
        "One value per fold. Read: where folds differ more than methods do, a small difference of "
        "means says little; lines that do not cross differ on every fold."
    )
    ticks = tuple(float(k) for k in range(1, 1 + max(len(line.x) for line in lines)))
    picture = line_chart(lines, "fold", title, f"{title} of every fold", x_ticks=ticks)
    return figure(f"{title} of every fold", picture, words, key)
