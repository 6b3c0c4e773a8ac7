"""The reports of finished work: comparisons, the LETOR protocol, paths, searches.

All are one kind of page: a sentence, tiles, then sections of tables and lines.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rankine.core.safe_text import Html, join, name_of, tag
from rankine.evaluation.compare import Comparison
from rankine.evaluation.interleave import Interleaving
from rankine.evaluation.letor import LetorResult
from rankine.evaluation.letor_tables import letor_dict, letor_notes, rank_tables, task_tables
from rankine.metrics import parse_metric
from rankine.rankers.path import RegularizationPath
from rankine.reporting.headline import strip_table, system_strip, verdict_of
from rankine.reporting.lists import ListItem, Ranked, lists_part
from rankine.reporting.origin import command_section, origin, origin_section
from rankine.reporting.page import (
    Report,
    Section,
    card,
    count,
    figures,
    from_table,
    make_report,
    note,
    number,
    percent,
    plural,
    shown,
    signed,
    table,
    tile,
)
from rankine.reporting.svg import Bar, Line, bars, interval, line_chart, linear
from rankine.reporting.training import training, training_section
from rankine.reporting.weights import weights, weights_section

if TYPE_CHECKING:
    from rankine.evaluation.compare import ChangedQuery
    from rankine.evaluation.letor import MethodResult, TaskResult
    from rankine.tuning.result import TrialRecord, TuningResult

#: Colours of several things side by side.
KINDS = ("model", "against", "feature", "shown", "random")
#: Trials in the table.
TOP = 25
RAW = "A bar is the weight itself: compare bars only where features have the same scale."


def result_report(subject: Any, *, title: str | None, command: str | None) -> Report | None:
    """The report of a finished search, comparison, protocol or path; None for anything else."""
    if isinstance(subject, Comparison):
        subject = [subject]
    if isinstance(subject, list) and subject and all(isinstance(c, Comparison) for c in subject):
        return _compare_report(subject, title, command)
    if isinstance(subject, LetorResult):
        return _letor_report(subject, title, command)
    if isinstance(subject, RegularizationPath):
        return _path_report(subject, title, command)
    if isinstance(subject, Interleaving):
        return _interleaving_report(subject, title, command)
    # Tuning needs its own extra; a result of it shows that its module is there already.
    tuning = sys.modules.get("rankine.tuning.result")
    if tuning is not None and isinstance(subject, tuning.TuningResult):
        return _tune_report(subject, title, command)
    return None


# ---------------------------------------------------------------------- comparisons
def _compare_report(found: Sequence[Comparison], title: str | None, command: str | None) -> Report:
    """Per metric: means, paired differences, tests, the queries that changed most."""
    first = found[0]
    names = [system.name for system in first.systems]
    heading = title or " against ".join(names[:3]) + (" and more" if len(names) > 3 else "")
    sections = [part for one in found for part in _compared(one, several=len(found) > 1)]
    sections += command_section(command)
    sign = 1.0 if first.metric.larger_is_better else -1.0
    best = max(first.systems, key=lambda system: sign * system.mean)
    proven = sum(pair.significant for pair in first.pairs)
    summary = [
        name_of(best.name, 60),
        f" has the best {first.metric.title}: ",
        tag("strong", number(best.mean)),
        f" on {plural(len(first.ids), 'query', 'queries')}. Of ",
        f"{plural(len(first.pairs), 'pair')} of systems, {count(proven)} ",
        f"{'differs' if proven == 1 else 'differ'} by more than chance.",
    ]
    spans = ((s, f"{number(s.low, 3)} to {number(s.high, 3)}") for s in first.systems[:4])
    tiles = [tile(name_of(s.name, 40), number(s.mean), span) for s, span in spans]
    numbers = {"comparisons": [one.to_dict() for one in found]}
    return make_report(heading, "rankine comparison", summary, tiles, sections, numbers)


def _compared(found: Comparison, *, several: bool) -> list[Section]:
    short = found.metric.title
    place = "".join(c if c.isalnum() else "-" for c in str(found.metric))
    left_out = f"; {count(found.skipped)} without a value left out" if found.skipped else ""
    lead = (
        f"{'Weighted means' if found.weighted else 'Means'} over "
        f"{plural(len(found.ids), 'query', 'queries')}{left_out}, with "
        f"{found.confidence:.0%} intervals from {count(found.n_resamples)} resamplings of the "
        f"queries. A difference counts as none when its interval lies within {found.margin:g}."
    )
    cards = [card(_means(found)), card(_differences(found)), card(from_table(found.tables()[2]))]
    title = f"Which is better by {short}?" if several else "Which is better?"
    sections = [Section(f"means-{place}", short, title, lead, join(cards))]
    if found.changed:
        groups = [("Queries that changed most", [_ranked(change) for change in found.changed])]
        body = lists_part(groups, short)
        sections.append(Section(f"changed-{place}", f"{short}: queries", "What changed?", "", body))
    return sections


def _means(found: Comparison) -> Html:
    scale = linear([v for s in found.systems for v in (s.mean, s.low, s.high)])
    rows = []
    for k, s in enumerate(found.systems):
        span = f"{number(s.low)} to {number(s.high)}"
        strip = system_strip(s, scale, KINDS[k % len(KINDS)])
        rows.append((name_of(s.name, 60), strip, number(s.mean), tag("small", span), None))
    caption = f"{found.metric.title} of each system"
    return strip_table(caption, ("", "mean", "interval", ""), scale, rows)


def _differences(found: Comparison) -> Html:
    scale = linear([0.0, *(v for p in found.pairs for v in (p.difference, p.low, p.high))])
    rows = []
    for pair in found.pairs:
        tally = f"{count(pair.wins)} won, {count(pair.ties)} equal, {count(pair.losses)} lost"
        name = [name_of(pair.b, 40), " minus ", name_of(pair.a, 40), tag("small", tally)]
        tip = f"{pair.difference:+.4f}, interval {pair.low:+.4f} to {pair.high:+.4f}"
        kind = "model" if pair.significant else "random"
        ends = (pair.low, pair.high)
        strip = interval(pair.difference, ends, scale, kind, tip, zero=0.0)
        span = tag("small", f"{signed(pair.low)} to {signed(pair.high)}")
        rows.append((name, strip, signed(pair.difference), span, verdict_of(pair)))
    header = ("", "difference", "interval", "")
    return strip_table("Differences, query by query", header, scale, rows)


def _ranked(change: ChangedQuery) -> Ranked:
    def items(ranking: Any) -> list[ListItem]:
        return [
            ListItem(rank, item["doc"], item["label"], item["score"])
            for rank, item in enumerate(ranking, 1)
        ]

    left, right = items(change.ranking_b), items(change.ranking_a)
    labels = sorted({item.label for item in (*left, *right)}, reverse=True)
    values = (change.value_b, change.value_a, max(len(left), len(right)), labels)
    return Ranked(str(change.query), "", *values, left, change.a, right, change.b)


# ---------------------------------------------------------------------- the LETOR protocol
def _letor_report(result: LetorResult, title: str | None, command: str | None) -> Report:
    """Per task: NDCG@k, the folds, the tables papers print; over tasks the average ranks."""
    heading = title or f"LETOR protocol on {', '.join(task.name for task in result.tasks[:3])}"
    has = all(result.metric in m.means for task in result.tasks for m in task.methods[:1])
    metric = result.metric if has else "map"
    # Ids come from the order of the tasks, not from their names: names are anything.
    sections = [_task(task, k, result.metric, metric) for k, task in enumerate(result.tasks)]
    for ranks in rank_tables(result):
        lead = "1 is best. Friedman's test asks whether methods differ over tasks at all."
        body = card(from_table(ranks))
        sections.append(Section("ranks", "Over tasks", "Which is best over all tasks?", lead, body))
    rules = (
        "On every fold each setting is trained on the training part; the one with the best value "
        "on the validation part is kept, and it alone sees the test part, once."
    )
    notes = [note(text) for text in letor_notes(result)]
    sections += command_section(command, lead=rules, notes=notes)
    words: list[Any] = []
    for task in result.tasks[:3]:
        own = [m for m in task.methods if not m.published and metric in m.means]
        if own:
            best = max(own, key=lambda m: m.means[metric])
            words += [
                name_of(task.name, 60),
                f": {parse_metric(metric).title} ",
                tag("strong", number(best.means[metric])),
                " by ",
                name_of(best.name, 60),
                f", mean over the test parts of {plural(len(best.folds), 'fold')}. ",
            ]
    tiles = _method_tiles(result.tasks[0], metric)
    kicker = "rankine: the LETOR protocol"
    return make_report(heading, kicker, words, tiles, sections, letor_dict(result))


def _method_tiles(task: TaskResult, metric: str) -> list[Html]:
    found: list[Html] = []
    for method in task.methods:
        if method.published or metric not in method.means or len(found) == 5:
            continue
        values = [fold.values[metric] for fold in method.folds if metric in fold.values]
        span = f"folds {number(min(values), 3)} to {number(max(values), 3)}" if values else None
        found.append(tile(name_of(method.name, 40), number(method.means[metric]), span))
    return found


def _task(task: TaskResult, place: int, metric: str, drawn: str) -> Section:
    cards = [card(from_table(one)) for one in task_tables(task, metric)]
    lead = f"Means over the test parts of the folds, by the rules of the {task.script} script."
    depths = _method_lines(
        task,
        lambda m: {k: m.means[f"ndcg@{k}"] for k in range(1, 11) if f"ndcg@{k}" in m.means},
        "NDCG@k",
        ("k, documents from the top", "NDCG@k"),
        "Quality of the first k documents. Read: the higher the line, the better. LETOR's scripts "
        "give 0 to lists that are shorter than k, so that lines may fall at the end.",
        ticks=(1, 3, 5, 8, 10),
    )
    title = parse_metric(drawn).title
    folds = _method_lines(
        task,
        lambda m: dict(enumerate((f.values[drawn] for f in m.folds if drawn in f.values), 1)),
        f"{title} of every fold",
        ("fold", title),
        "One value per fold. Read: where folds differ more than methods do, a small difference of "
        "means says little; lines that do not cross differ on every fold.",
        ticks=tuple(range(1, 1 + max(len(m.folds) for m in task.methods))),
    )
    body = join([figures(depths, folds), *cards])
    return Section(f"task-{place}", task.name, f"{task.name}: how good is each?", lead, body)


def _method_lines(
    task: TaskResult,
    values: Any,
    title: str,
    names: tuple[str, str],
    words: str,
    *,
    ticks: Sequence[int],
) -> Html | None:
    """A line per method: own ones in colours, in front; published ones grey, as one in the key."""
    own = [m for m in task.methods if not m.published]
    colours: list[tuple[MethodResult, str]] = [(m, KINDS[k % 4]) for k, m in enumerate(own)]
    lines: list[Line] = []
    key: list[tuple[str, Any]] = []
    for method, kind in [*((m, "random") for m in task.methods if m.published), *colours[::-1]]:
        known = values(method)
        if len(known) < 2:
            continue
        lines.append(Line(method.name, kind, [float(k) for k in known], list(known.values())))
        if not method.published:
            key.insert(0, (kind, name_of(method.name, 40)))
        elif not key:
            key = [(kind, "published")]
    at = [float(t) for t in ticks]
    return (
        line_chart(title, lines, names, words, key=key, about=title, x_ticks=at) if lines else None
    )


# ---------------------------------------------------------------------- paths
def path_curves(path: RegularizationPath) -> list[tuple[str | None, RegularizationPath]]:
    """One curve, or one for each solver where there are several."""
    several = getattr(path, "curves", None)
    return [(None, path)] if several is None else list(several().items())


def _interleaving_report(found: Interleaving, title: str | None, command: str | None) -> Report:
    """Points by team, and the tests of every pair."""
    heading = title or " against ".join(found.teams[:3]) + (" ..." if len(found.teams) > 3 else "")
    proven = [pair for pair in found.pairs if pair.verdict != "undecided"]
    words = [
        f"{plural(found.lists, 'shared list')}, {plural(found.n_units, 'unit')} ({found.unit}): ",
        f"{count(len(proven))} of {plural(len(found.pairs), 'pair')} of models decided.",
    ]
    total = sum(found.points) or 1.0
    tiles = [
        tile(name_of(name, 40), percent(points / total), f"of {number(total)} points")
        for name, points in zip(found.teams[:4], found.points, strict=False)
    ]
    lead = (
        "Models picked the items of each list in turns; a click is a point for the model that "
        "picked the item. The exact test counts who has more points, the bootstrap their mean "
        "difference; the verdict is that of the exact test, adjusted for all pairs (Holm)."
    )
    body = join([from_table(part) for part in found.tables()])
    points = Section("points", "points", "Who is preferred", lead, body)
    sections = [points, *command_section(command)]
    numbers = {"interleaving": found.to_dict()}
    return make_report(heading, "rankine interleaving", words, tiles, sections, numbers)


def _path_report(path: RegularizationPath, title: str | None, command: str | None) -> Report:
    """Quality against size, every step, and the best model."""
    best = path.best()
    name = path.metric if path.measured else "training loss"
    height = number(float((path.values if path.measured else path.loss)[best]))
    model = path.to_model(best)
    heading = title or f"Quality against size: {model.parameters.get('ranker') or 'path'}"
    summary = [
        f"The best of {plural(len(path), 'model')} has ",
        tag("strong", count(path.nonzeros[best])),
        f" of {count(model.n_features)} weights and {name} ",
        tag("strong", height),
        "." if path.measured else ". Without validation data the smallest loss wins.",
    ]
    tiles = [
        tile(name, height, "best step"),
        tile("weights", count(path.nonzeros[best]), f"of {count(model.n_features)}"),
        tile("models", count(len(path)), f"{float(path.seconds.sum()):.1f} s in all"),
    ]
    learned = weights(model, model.values)
    lead = "One model per strength of the penalty: the stronger it is, the fewer weights are left."
    body = [figures(_sizes(path, name, best)), card(_steps(path, name, best))]
    sections = [
        Section("sizes", "Size", "How does quality follow size?", lead, join(body)),
        weights_section(learned, RAW),
        origin_section(origin(model), command),
    ]
    numbers = {
        "metric": path.metric,
        "measured": path.measured,
        "best": best,
        "steps": path.records(),
        "weights": learned,
    }
    return make_report(heading, "rankine path", summary, tiles, sections, numbers)


def _sizes(path: RegularizationPath, name: str, best: int) -> Html | None:
    lines = []
    for k, (curve_name, curve) in enumerate(path_curves(path)):
        heights = curve.values if path.measured else curve.loss
        drawn = np.flatnonzero((curve.nonzeros > 0) & np.isfinite(heights))
        if len(drawn) == 0:
            continue
        along = curve.x_axis[0]
        drawn = drawn[np.argsort(along[drawn], kind="stable")]
        sizes, y = curve.nonzeros[drawn].tolist(), heights[drawn].tolist()
        tips = [f"{plural(s, 'weight')}: {number(v)}" for s, v in zip(sizes, y, strict=True)]
        x = [float(s) for s in along[drawn]]
        lines.append(Line(curve_name or name, KINDS[k % len(KINDS)], x, y, tips=tips))
    against = path.x_axis[1]
    words = (
        f"Each dot is a model. Read: go left from the best "
        f"({plural(int(path.nonzeros[best]), 'weight')}) until the loss of quality is more than "
        "the smaller model is worth to you."
        if path.strength == "l1"
        else "Each dot is a model, each line a number of pairs; curves are smoother to the right."
    )
    about, title = f"{name} against {against}", "Quality against size"
    names = (against, name)
    return line_chart(title, lines, names, words, about=about, log_x=True) if lines else None


def _steps(path: RegularizationPath, name: str, best: int) -> Html:
    records = path.records()
    kinds = [kind for kind in ("solver", "pairs") if kind in records[0]]
    header = [*kinds, path.strength, "weights", name, "seconds"]
    quality = path.metric if path.measured else "loss"
    rows = [
        [
            *(str(record[kind]) for kind in kinds),
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
def _tune_report(found: TuningResult, title: str | None, command: str | None) -> Report:
    """Trials, parameters, importances, and the model that was fitted in the end."""
    metric = parse_metric(found.metric)
    name, larger = metric.title, metric.larger_is_better
    heading = title or f"Tuning {type(found.ranker).__name__} for {name}"
    learned = weights(found.model, found.model.values)
    done = [r for r in found.trace if r.value is not None]
    seconds = sum(record.seconds or 0.0 for record in found.trace)
    lead = f"{plural(len(found.trace), 'trial')}, {seconds:.1f} s of training in all."
    body = figures(_trials(found, done, name), _importances(found, name))
    ranked = card(_best_trials(found, done, name, larger=larger))
    sections: list[Section | None] = [
        Section("trials", "Trials", "How did the search go?", lead, body),
        _parameters(found, done, name, larger=larger),
        Section("table", "Top trials", "Which settings did best?", "", ranked),
        weights_section(learned, RAW),
        training_section(training(found.model)),
        origin_section(origin(found.model), command),
    ]
    tiles = [
        tile(f"best {name}", number(found.best_value), "on held-out queries"),
        tile("trials", count(len(found.trace)), f"{count(_unfinished(found))} given up or failed"),
        tile("weights", count(found.model.nnz), f"of {count(found.model.n_features)}"),
    ]
    if found.test is not None:
        tiles.insert(1, tile(f"test {name}", number(found.test), "measured once"))
    numbers = {**found.to_dict(), "learned": learned}
    summary = _tune_summary(found, name)
    return make_report(heading, "rankine tuning", summary, tiles, sections, numbers)


def _unfinished(found: TuningResult) -> int:
    return sum(record.state != "complete" for record in found.trace)


def _tune_summary(found: TuningResult, name: str) -> list[Any]:
    chosen = ", ".join(f"{key} = {shown(value)}" for key, value in found.best_params.items())
    words: list[Any] = [
        f"The best of {plural(len(found.trace), 'trial')} reaches {name} ",
        tag("strong", number(found.best_value)),
        " on held-out queries with ",
        name_of(chosen or "the ranker's own parameters", 200),
        ".",
    ]
    if found.test is not None:
        value = tag("strong", number(found.test))
        words += [" On the newest queries, which it never saw, it reaches ", value, "."]
    return words


def _trials(found: TuningResult, done: Sequence[TrialRecord], name: str) -> Html:
    lines = []
    best = [r for r in found.trace if r.best is not None]
    if best:
        heights = [float(r.best or 0) for r in best]
        x = [float(r.number) for r in best]
        lines.append(Line("best so far", "against", x, heights, step=True, points=False))
    for feasible, kind, words in ((True, "model", "trial"), (False, "random", "above a limit")):
        some = [r for r in done if r.feasible is feasible]
        if some:
            tips = [f"trial {r.number}: {number(r.value)} ({_setting(r)})" for r in some]
            x, y = [float(r.number) for r in some], [float(r.value or 0) for r in some]
            lines.append(Line(words, kind, x, y, joined=False, tips=tips))
    words = (
        "Each dot is a setting, the line the best one so far. Read: a line that has been level for "
        "long says that more trials would hardly help."
    )
    if not lines:
        return tag("p", "No trial finished.")
    about = f"{name} of every trial"
    return line_chart("Trial by trial", lines, ("trial", name), words, about=about)


def _setting(record: TrialRecord) -> str:
    return ", ".join(f"{key}={shown(value)}" for key, value in record.parameters.items())


def _importances(found: TuningResult, name: str) -> Html | None:
    if not found.importances:
        return None
    rows = [
        Bar(name_of(key), share, f"{key}: {share:.3f}", (percent(share),))
        for key, share in sorted(found.importances.items(), key=lambda item: -item[1])
    ]
    words = (
        f"Share of the variation of {name} that each parameter explains over the trials. Read: "
        "search those with long bars more finely, leave the others alone."
    )
    return bars("What matters", rows, words)


def _parameters(
    found: TuningResult, done: Sequence[TrialRecord], name: str, *, larger: bool
) -> Section | None:
    pictures = []
    for key in dict.fromkeys(key for record in done for key in record.parameters):
        known = [(r, r.parameters[key]) for r in done if key in r.parameters]
        if all(isinstance(v, (int, float)) and not isinstance(v, bool) for _, v in known):
            pictures.append(_numeric(key, known, found, name))
        else:
            pictures.append(_choices(key, known, name, larger=larger))
    if not any(pictures):
        return None
    lead = f"{name} of all finished trials against one parameter at a time."
    return Section("parameters", "Parameters", "Which values work?", lead, figures(*pictures))


def _numeric(key: str, known: Any, found: TuningResult, name: str) -> Html | None:
    x = [float(v) for _, v in known]
    if len(set(x)) < 2:
        return None
    tips = [f"{key}={shown(v)}: {number(r.value)}" for r, v in known]
    y = [float(r.value) for r, _ in known]
    lines = [Line(key, "model", x, y, joined=False, tips=tips)]
    if key in found.best_params:
        best = found.best_params[key]
        at = ([float(best)], [found.best_value])
        lines.append(Line("best", "against", *at, joined=False, tips=[f"best: {shown(best)}"]))
    words = (
        f"Read: where dots stand highest, {key} suits this data; best at an edge of the picture "
        "asks for a wider range."
    )
    log = min(x) > 0 and max(x) / min(x) > 20
    return line_chart(key, lines, (key, name), words, key=(), log_x=log)


def _choices(key: str, known: Any, name: str, *, larger: bool) -> Html:
    groups: dict[str, list[float]] = {}
    for record, value in known:
        groups.setdefault(shown(value), []).append(float(record.value))
    choose = max if larger else min
    rows = [
        Bar(
            [name_of(choice), tag("small", plural(len(values), "trial"))],
            choose(values),
            f"{choice}: {choose(values):.4f}",
            (number(choose(values)),),
        )
        for choice, values in sorted(groups.items(), key=lambda g: choose(g[1]), reverse=larger)
    ]
    return bars(
        key, rows, f"Best {name} of each choice. Read: few trials say little about a choice."
    )


def _best_trials(
    found: TuningResult, done: Sequence[TrialRecord], name: str, *, larger: bool
) -> Html:
    top = sorted(done, key=lambda r: float(r.value or 0), reverse=larger)[:TOP]
    names = list(dict.fromkeys(key for record in top for key in record.parameters))
    header = ["trial", *(name_of(key, 40) for key in names), name, "weights", "seconds"]
    rows = [
        [
            str(r.number),
            *(
                name_of(shown(r.parameters[key]), 40) if key in r.parameters else ""
                for key in names
            ),
            number(r.value),
            "" if r.weights is None else count(r.weights),
            "" if r.seconds is None else f"{r.seconds:.2f}",
        ]
        for r in top
    ]
    caption = f"The top {count(len(rows))} of {plural(len(found.trace), 'trial')}"
    return table(header, rows, caption=caption, left=1 + len(names))
