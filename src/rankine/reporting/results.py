"""Make the reports of finished results: comparisons, LETOR protocol, interleaving, paths, searches.

All are the same kind of page: a sentence, tiles, then sections of tables and charts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from rankine.evaluation.compare import Comparison
from rankine.evaluation.interleave import Interleaving
from rankine.evaluation.letor import LetorResult
from rankine.evaluation.letor_tables import letor_dict, letor_notes, rank_tables, task_tables
from rankine.evaluation.pareto import ParetoFront
from rankine.metrics import parse_metric
from rankine.rankers.path import RegularizationPath
from rankine.reporting.headline import strip_table, system_strip, verdict_text
from rankine.reporting.html import captions, concatenate, name, parts, sentences
from rankine.reporting.numbers import count, number, parameter_text, percent, plural, signed
from rankine.reporting.origin import command_section, origin, origin_section
from rankine.reporting.page import Report, Section, figures, make_report, result_table, table
from rankine.reporting.pareto import front_report
from rankine.reporting.query_lists import ListItem, Ranked, query_lists
from rankine.reporting.svg import Bar, Line, bars, interval, line_chart, linear
from rankine.reporting.training import training, training_section
from rankine.reporting.weights import weights, weights_section

if TYPE_CHECKING:
    from rankine.evaluation.compare import ChangedQuery
    from rankine.evaluation.letor import MethodResult, TaskResult
    from rankine.tuning.result import TrialRecord, TuningResult

#: Colour classes of systems that are compared.
KINDS = ("model", "against", "feature", "shown", "random")
#: Number of trials in the table of a search.
TOP = 25


def result_report(subject: Any, *, title: str | None, command: str | None) -> Report | None:
    """Make the report of a finished result; None for anything else."""
    if isinstance(subject, Comparison):
        subject = [subject]
    if isinstance(subject, list) and subject and all(isinstance(c, Comparison) for c in subject):
        return _compare_report(subject, title, command)
    if isinstance(subject, LetorResult):
        return _letor_report(subject, title, command)
    if isinstance(subject, RegularizationPath):
        return _path_report(subject, title, command)
    if isinstance(subject, ParetoFront):
        return front_report(subject, title, command)
    if isinstance(subject, Interleaving):
        return _interleaving_report(subject, title, command)
    # Tuning needs an extra. A caller that has a TuningResult has imported its module.
    tuning = sys.modules.get("rankine.tuning.result")
    if tuning is not None and isinstance(subject, tuning.TuningResult):
        return _tune_report(subject, title, command)
    return None


def _against(names: Sequence[str], more: str) -> str:
    title = " against ".join(names[:3])
    if len(names) > 3:
        title += more
    return title


# ---------------------------------------------------------------------- comparisons
def _compare_report(
    comparisons: Sequence[Comparison], title: str | None, command: str | None
) -> Report:
    """Show means, paired differences, tests and the queries that changed most, per metric."""
    first = comparisons[0]
    title = title or _against([system.name for system in first.systems], " and more")
    sections: list[Section] = []
    for comparison in comparisons:
        sections += _compared(comparison, several=len(comparisons) > 1)
    sections += command_section(command)
    sign = 1.0 if first.metric.larger_is_better else -1.0
    best = max(first.systems, key=lambda system: sign * system.mean)
    n_significant = sum(pair.significant for pair in first.pairs)
    summary = sentences.comparison_summary(
        first.metric, best, len(first.ids), len(first.pairs), n_significant
    )
    tiles = []
    for system in first.systems[:4]:
        ends = f"{number(system.low, 3)} to {number(system.high, 3)}"
        tiles.append(parts.tile(name(system.name, 40), number(system.mean), ends))
    numbers = {"comparisons": [comparison.to_dict() for comparison in comparisons]}
    return make_report(title, "rankine comparison", summary, tiles, sections, numbers)


def _compared(comparison: Comparison, *, several: bool) -> list[Section]:
    metric = comparison.metric.title
    anchor = "".join(c if c.isalnum() else "-" for c in str(comparison.metric))
    tests = result_table(comparison.tables()[2])
    cards = map(parts.card, (_means(comparison), _differences(comparison), tests))
    title = "Which is better?"
    if several:
        title = f"Which is better by {metric}?"
    sections = [
        Section(
            f"means-{anchor}",
            metric,
            title,
            captions.comparison_lead(comparison),
            concatenate(cards),
        )
    ]
    if comparison.changed:
        queries = [_ranked(change) for change in comparison.changed]
        body = query_lists([("Queries that changed most", queries)], metric)
        short = f"{metric}: queries"
        sections.append(Section(f"changed-{anchor}", short, "What changed?", "", body))
    return sections


def _means(comparison: Comparison) -> Markup:
    scale = linear([v for s in comparison.systems for v in (s.mean, s.low, s.high)])
    rows = []
    for k, system in enumerate(comparison.systems):
        ends = parts.with_small("", f"{number(system.low)} to {number(system.high)}")
        strip = system_strip(system, scale, KINDS[k % len(KINDS)])
        rows.append((name(system.name, 60), strip, number(system.mean), ends, None))
    caption = f"{comparison.metric.title} of each system"
    return strip_table(caption, ("", "mean", "interval", ""), scale, rows)


def _differences(comparison: Comparison) -> Markup:
    ends = [v for p in comparison.pairs for v in (p.difference, p.low, p.high)]
    scale = linear([0.0, *ends])
    rows = []
    for pair in comparison.pairs:
        tally = f"{count(pair.wins)} won, {count(pair.ties)} equal, {count(pair.losses)} lost"
        tip = f"{pair.difference:+.4f}, interval {pair.low:+.4f} to {pair.high:+.4f}"
        kind = "random"
        if pair.significant:
            kind = "model"
        strip = interval(pair.difference, (pair.low, pair.high), scale, kind, tip, zero=0.0)
        span = parts.with_small("", f"{signed(pair.low)} to {signed(pair.high)}")
        label = sentences.difference_of(pair, tally)
        rows.append((label, strip, signed(pair.difference), span, verdict_text(pair)))
    header = ("", "difference", "interval", "")
    return strip_table("Differences, query by query", header, scale, rows)


def _ranked(change: ChangedQuery) -> Ranked:
    def items(ranking: Any) -> list[ListItem]:
        return [
            ListItem(rank, item["doc"], item["label"], item["score"])
            for rank, item in enumerate(ranking, 1)
        ]

    model, opponent = items(change.ranking_b), items(change.ranking_a)
    labels = sorted({item.label for item in (*model, *opponent)}, reverse=True)
    length = max(len(model), len(opponent))
    values = (change.value_b, change.value_a, length, labels)
    return Ranked(str(change.query), change.text, *values, model, change.a, opponent, change.b)


# ---------------------------------------------------------------------- the LETOR protocol
def _letor_report(result: LetorResult, title: str | None, command: str | None) -> Report:
    """Show NDCG@k, folds and published tables per task, and average ranks over tasks."""
    title = title or f"LETOR protocol on {', '.join(task.name for task in result.tasks[:3])}"
    metric = result.metric
    # The scripts of old collections do not measure every metric; all measure MAP.
    if any(metric not in m.means for task in result.tasks for m in task.methods[:1]):
        metric = "map"
    # Section ids come from the order of the tasks: their names may hold anything.
    sections = [_task(task, k, result.metric, metric) for k, task in enumerate(result.tasks)]
    for ranks in rank_tables(result):
        lead = captions.letor_ranks()
        body = parts.card(result_table(ranks))
        sections.append(Section("ranks", "Over tasks", "Which is best over all tasks?", lead, body))
    notes = [parts.note(text) for text in letor_notes(result)]
    sections += command_section(command, lead=captions.letor_rules(), notes=notes)
    winners = []
    for task in result.tasks[:3]:
        measured = [m for m in task.methods if not m.published and metric in m.means]
        if measured:
            winners.append((task.name, max(measured, key=lambda method: method.means[metric])))
    summary = sentences.letor_summary(metric, parse_metric(metric).title, winners)
    tiles = _method_tiles(result.tasks[0], metric)
    kicker = "rankine: the LETOR protocol"
    return make_report(title, kicker, summary, tiles, sections, letor_dict(result))


def _method_tiles(task: TaskResult, metric: str) -> list[Markup]:
    measured = [m for m in task.methods if not m.published and metric in m.means]
    tiles = []
    for method in measured:
        values = [fold.values[metric] for fold in method.folds if metric in fold.values]
        ends = None
        if values:
            ends = f"folds {number(min(values), 3)} to {number(max(values), 3)}"
        tiles.append(parts.tile(name(method.name, 40), number(method.means[metric]), ends))
    return tiles


def _task(task: TaskResult, index: int, metric: str, drawn_metric: str) -> Section:
    def by_depth(method: MethodResult) -> dict[int, float]:
        means = {k: method.means.get(f"ndcg@{k}") for k in range(1, 11)}
        return {k: mean for k, mean in means.items() if mean is not None}

    def by_fold(method: MethodResult) -> dict[int, float]:
        folds = [fold.values for fold in method.folds if drawn_metric in fold.values]
        return dict(enumerate((values[drawn_metric] for values in folds), 1))

    depths = _method_lines(
        task,
        by_depth,
        "NDCG@k",
        ("k, documents from the top", "NDCG@k"),
        captions.letor_depths(),
        ticks=(1, 3, 5, 8, 10),
    )
    title = parse_metric(drawn_metric).title
    folds = _method_lines(
        task,
        by_fold,
        f"{title} of every fold",
        ("fold", title),
        captions.letor_folds(),
        ticks=range(1, 1 + max(len(m.folds) for m in task.methods)),
    )
    cards = [parts.card(result_table(each)) for each in task_tables(task, metric)]
    body = figures(depths, folds) + concatenate(cards)
    lead = captions.letor_lead(task.script)
    return Section(f"task-{index}", task.name, f"{task.name}: how good is each?", lead, body)


def _method_lines(
    task: TaskResult,
    values: Callable[[MethodResult], dict[int, float]],
    title: str,
    axis_names: tuple[str, str],
    caption: str,
    *,
    ticks: Iterable[int],
) -> Markup | None:
    """Draw a line per method: published ones in grey, as one entry of the legend."""
    ours = [method for method in task.methods if not method.published]
    colours = {method.name: KINDS[k % 4] for k, method in enumerate(ours)}
    lines: list[Line] = []
    legend: list[tuple[str, Any]] = []
    # The later line is drawn on top: ours cover the published ones, the first of ours all others.
    for method in [*(m for m in task.methods if m.published), *ours[::-1]]:
        points = values(method)
        if len(points) < 2:
            continue
        kind = "random" if method.published else colours[method.name]
        lines.append(Line(method.name, kind, [float(k) for k in points], list(points.values())))
        if not method.published:
            legend.insert(0, (kind, name(method.name, 40)))
        elif not legend:
            legend = [(kind, "published")]
    if not lines:
        return None
    x_ticks = [float(tick) for tick in ticks]
    return line_chart(
        title, lines, axis_names, caption, legend=legend, about=title, x_ticks=x_ticks
    )


# ---------------------------------------------------------------------- interleaving
def _interleaving_report(result: Interleaving, title: str | None, command: str | None) -> Report:
    """Show the points of every model, and the tests of every pair."""
    title = title or _against(result.teams, " ...")
    n_decided = sum(pair.verdict != "undecided" for pair in result.pairs)
    summary = (
        f"{plural(result.lists, 'shared list')}, {plural(result.n_units, 'unit')} "
        f"({result.unit}): {count(n_decided)} of {plural(len(result.pairs), 'pair')} of models "
        "decided."
    )
    total = sum(result.points) or 1.0  # without a click nobody has a point
    tiles = [
        parts.tile(name(team, 40), percent(points / total), f"of {number(total)} points")
        for team, points in zip(result.teams[:4], result.points, strict=False)
    ]
    lead = captions.interleaving_lead()
    body = concatenate(result_table(each) for each in result.tables())
    points_section = Section("points", "points", "Who is preferred", lead, body)
    sections = [points_section, *command_section(command)]
    numbers = {"interleaving": result.to_dict()}
    return make_report(title, "rankine interleaving", summary, tiles, sections, numbers)


# ---------------------------------------------------------------------- paths
def path_curves(path: RegularizationPath) -> list[tuple[str | None, RegularizationPath]]:
    """Return the curves of a path: one, or a named one for each solver."""
    curves = getattr(path, "curves", None)
    if curves is None:
        return [(None, path)]
    return list(curves().items())


def _path_report(path: RegularizationPath, title: str | None, command: str | None) -> Report:
    """Show quality against size, every step, and the best model."""
    best = path.best()
    metric, values = "training loss", path.loss
    if path.measured:
        metric, values = path.metric, path.values
    value = number(float(values[best]))
    model = path.to_model(best)
    n_weights = int(path.nonzeros[best])
    title = title or f"Quality against size: {model.parameters.get('ranker') or 'path'}"
    summary = sentences.path_summary(
        len(path), n_weights, model.n_features, metric, value, path.measured
    )
    tiles = [
        parts.tile(metric, value, "best step"),
        parts.tile("weights", count(n_weights), f"of {count(model.n_features)}"),
        parts.tile("models", count(len(path)), f"{float(path.seconds.sum()):.1f} s in all"),
    ]
    learned = weights(model, model.values)
    lead = captions.path_lead()
    body = figures(_sizes(path, metric, best)) + parts.card(_steps(path, metric, best))
    sections = [
        Section("sizes", "Size", "How does quality follow size?", lead, body),
        weights_section(learned, effects=False),
        origin_section(origin(model), command),
    ]
    numbers = {
        "metric": path.metric,
        "measured": path.measured,
        "best": best,
        "steps": path.records(),
        "weights": learned,
    }
    return make_report(title, "rankine path", summary, tiles, sections, numbers)


def _sizes(path: RegularizationPath, metric: str, best: int) -> Markup | None:
    lines = []
    for k, (solver, curve) in enumerate(path_curves(path)):
        if path.measured:
            values = curve.values
        else:
            values = curve.loss
        # The axis is logarithmic: the empty model has no place on it.
        steps = np.flatnonzero((curve.nonzeros > 0) & np.isfinite(values))
        if len(steps) == 0:
            continue
        sizes = curve.x_axis[0]
        steps = steps[np.argsort(sizes[steps], kind="stable")]
        x, y = [float(size) for size in sizes[steps]], values[steps].tolist()
        nonzeros = curve.nonzeros[steps].tolist()
        tips = [f"{plural(n, 'weight')}: {number(v)}" for n, v in zip(nonzeros, y, strict=True)]
        lines.append(Line(solver or metric, KINDS[k % len(KINDS)], x, y, tips=tips))
    if not lines:
        return None
    caption = captions.path_sizes(path, best)
    axis_names = (path.x_axis[1], metric)
    about = f"{metric} against {axis_names[0]}"
    return line_chart("Quality against size", lines, axis_names, caption, about=about, log_x=True)


def _steps(path: RegularizationPath, metric: str, best: int) -> Markup:
    records = path.records()
    settings = [column for column in ("solver", "pairs") if column in records[0]]
    header = [*settings, path.strength, "weights", metric, "seconds"]
    quality = "loss"
    if path.measured:
        quality = path.metric
    rows = [
        [
            *(str(record[column]) for column in settings),
            f"{record[path.strength]:.4g}",
            count(record["nonzeros"]),
            number(record[quality]),
            f"{record['seconds']:.2f}",
        ]
        for record in records
    ]
    bold = frozenset((best, c) for c in range(1, len(header)))
    return table(header, rows, bold=bold, caption="Every step, the best in bold")


# ---------------------------------------------------------------------- searches
def _tune_report(result: TuningResult, title: str | None, command: str | None) -> Report:
    """Show trials, parameters and their importances, and the model that was fitted in the end."""
    metric = parse_metric(result.metric)
    title = title or f"Tuning {type(result.ranker).__name__} for {metric.title}"
    learned = weights(result.model, result.model.values)
    finished = [record for record in result.trace if record.value is not None]
    n_trials, n_unfinished = len(result.trace), 0
    for record in result.trace:
        n_unfinished += record.state != "complete"
    seconds = sum(record.seconds or 0.0 for record in result.trace)
    lead = captions.tuning_lead(n_trials, seconds)
    charts = figures(_trials(result, finished, metric.title), _importances(result, metric.title))
    larger = metric.larger_is_better
    best_trials = parts.card(_best_trials(result, finished, metric.title, larger=larger))
    sections: list[Section | None] = [
        Section("trials", "Trials", "How did the search go?", lead, charts),
        _parameters(result, finished, metric.title, larger=larger),
        Section("table", "Top trials", "Which settings did best?", "", best_trials),
        weights_section(learned, effects=False),
        training_section(training(result.model)),
        origin_section(origin(result.model), command),
    ]
    n_features = count(result.model.n_features)
    tiles = [
        parts.tile(f"best {metric.title}", number(result.best_value), "on held-out queries"),
        parts.tile("trials", count(n_trials), f"{count(n_unfinished)} stopped early or failed"),
        parts.tile("weights", count(result.model.nnz), f"of {n_features}"),
    ]
    if result.test is not None:
        tiles.insert(1, parts.tile(f"test {metric.title}", number(result.test), "measured once"))
    settings = [f"{key} = {parameter_text(value)}" for key, value in result.best_params.items()]
    summary = sentences.tuning_summary(
        n_trials, metric.title, result.best_value, ", ".join(settings), result.test
    )
    numbers = {**result.to_dict(), "learned": learned}
    return make_report(title, "rankine tuning", summary, tiles, sections, numbers)


def _trials(result: TuningResult, finished: Sequence[TrialRecord], metric: str) -> Markup:
    lines = []
    best = [(r.number, r.best) for r in result.trace if r.best is not None]
    if best:
        trials, values = zip(*best, strict=True)
        lines.append(Line("best so far", "against", trials, values, step=True, points=False))
    for feasible, kind, label in ((True, "model", "trial"), (False, "random", "above a limit")):
        dots = [r for r in finished if r.feasible is feasible]
        if dots:
            tips = [f"trial {r.number}: {number(r.value)} ({_setting(r)})" for r in dots]
            x, y = [float(r.number) for r in dots], [float(r.value or 0) for r in dots]
            lines.append(Line(label, kind, x, y, joined=False, tips=tips))
    if not lines:
        return parts.note("No trial finished.")
    about = f"{metric} of every trial"
    return line_chart("Trial by trial", lines, ("trial", metric), captions.trials(), about=about)


def _setting(record: TrialRecord) -> str:
    return ", ".join(f"{key}={parameter_text(v)}" for key, v in record.parameters.items())


def _importances(result: TuningResult, metric: str) -> Markup | None:
    if not result.importances:
        return None
    rows = [
        Bar(name(key), share, f"{key}: {share:.3f}", (percent(share),))
        for key, share in sorted(result.importances.items(), key=lambda item: -item[1])
    ]
    return bars("What matters", rows, captions.importances(metric))


def _parameters(
    result: TuningResult, finished: Sequence[TrialRecord], metric: str, *, larger: bool
) -> Section | None:
    charts = []
    for key in dict.fromkeys(key for record in finished for key in record.parameters):
        values = [(r, r.parameters[key]) for r in finished if key in r.parameters]
        # True and False are numbers to Python, but choices to a reader.
        if all(isinstance(v, (int, float)) and not isinstance(v, bool) for _, v in values):
            charts.append(_numeric(key, values, result, metric))
        else:
            charts.append(_choices(key, values, metric, larger=larger))
    if not any(charts):
        return None
    lead = captions.parameters_lead(metric)
    return Section("parameters", "Parameters", "Which values work?", lead, figures(*charts))


def _numeric(
    key: str, values: Sequence[tuple[TrialRecord, Any]], result: TuningResult, metric: str
) -> Markup | None:
    x = [float(value) for _, value in values]
    if len(set(x)) < 2:
        return None
    tips = [f"{key}={parameter_text(v)}: {number(r.value)}" for r, v in values]
    y = [float(record.value or 0) for record, _ in values]
    lines = [Line(key, "model", x, y, joined=False, tips=tips)]
    if key in result.best_params:
        best = result.best_params[key]
        tip = f"best: {parameter_text(best)}"
        point = ([float(best)], [result.best_value])
        lines.append(Line("best", "against", *point, joined=False, tips=[tip]))
    caption = captions.numeric_parameter(key)
    log_x = min(x) > 0 and max(x) / min(x) > 20
    return line_chart(key, lines, (key, metric), caption, legend=(), log_x=log_x)


def _choices(
    key: str, values: Sequence[tuple[TrialRecord, Any]], metric: str, *, larger: bool
) -> Markup:
    groups: dict[str, list[float]] = {}
    for record, value in values:
        groups.setdefault(parameter_text(value), []).append(float(record.value or 0))
    best_of = min
    if larger:
        best_of = max
    rows = []
    for choice, results in groups.items():
        label = parts.with_small(name(choice), plural(len(results), "trial"))
        best = best_of(results)
        rows.append(Bar(label, best, f"{choice}: {best:.4f}", (number(best),)))
    rows.sort(key=lambda row: row.value, reverse=larger)
    return bars(key, rows, captions.choices(metric))


def _best_trials(
    result: TuningResult, finished: Sequence[TrialRecord], metric: str, *, larger: bool
) -> Markup:
    top = sorted(finished, key=lambda r: float(r.value or 0), reverse=larger)[:TOP]
    keys = list(dict.fromkeys(key for record in top for key in record.parameters))
    header = ["trial", *(name(key, 40) for key in keys), metric, "weights", "seconds"]
    rows = []
    for record in top:
        parameters = record.parameters
        settings = [
            name(parameter_text(parameters[key]), 40) if key in parameters else "" for key in keys
        ]
        n_weights = seconds = ""
        if record.weights is not None:
            n_weights = count(record.weights)
        if record.seconds is not None:
            seconds = f"{record.seconds:.2f}"
        rows.append([str(record.number), *settings, number(record.value), n_weights, seconds])
    caption = f"The top {count(len(rows))} of {plural(len(result.trace), 'trial')}"
    return table(header, rows, caption=caption, left=1 + len(keys))
