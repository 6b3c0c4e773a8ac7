"""The reports of finished work: comparisons, the LETOR protocol, paths, searches."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rankine.core.html import Html, join, name_of, tag
from rankine.evaluation.compare import Comparison
from rankine.evaluation.letor import LetorResult
from rankine.evaluation.letor_tables import letor_dict, letor_notes, letor_tables
from rankine.metrics import parse_metric
from rankine.rankers.regularization_path import RegularizationPath
from rankine.report.headline import VERDICTS
from rankine.report.lists import Item, Ranked, lists_part
from rankine.report.origin import command_part, origin, origin_section
from rankine.report.page import (
    Report,
    Section,
    count,
    figures,
    from_table,
    note,
    number,
    percent,
    plural,
    render,
    shown,
    signed,
    table,
    tile,
)
from rankine.report.svg import Line, bar, figure, interval, line_chart, linear
from rankine.report.training import training, training_section
from rankine.report.weights import weights, weights_section

if TYPE_CHECKING:
    from rankine.evaluation.compare import Changed, Pair, System
    from rankine.evaluation.letor import MethodResult, TaskResult
    from rankine.tune.result import TrialRecord, TuningResult

__all__ = ["RAW", "compare_report", "letor_report", "path_report", "result_report", "tune_report"]

KINDS = ("model", "against", "feature", "shown", "random")


def compare_report(
    found: Sequence[Comparison], *, title: str | None = None, command: str | None = None
) -> Report:
    """Per metric: means, paired differences, tests, the queries that changed most."""
    first = found[0]
    names = [system.name for system in first.systems]
    heading = title or " against ".join(names[:3]) + (" and more" if len(names) > 3 else "")
    sections = [part for one in found for part in _sections(one, several=len(found) > 1)]
    if command is not None:
        words = command_part("Make this page again", command)
        sections.append(Section("origin", "How it was made", "How was it made?", "", words))
    page = render(heading, "rankine comparison", _summary(first), _tiles(first), sections)
    figures = {"title": heading, "comparisons": [one.to_dict() for one in found]}
    return Report(heading, page, figures)


def _summary(found: Comparison) -> Html:
    sign = 1 if found.metric.larger_is_better else -1
    best = max(found.systems, key=lambda system: sign * system.mean)
    proven = sum(pair.significant for pair in found.pairs)
    where = plural(len(found.ids), "query", "queries")
    verb = "differs" if proven == 1 else "differ"
    of = f"Of {plural(len(found.pairs), 'pair')} of systems, {count(proven)} {verb}"
    words = [
        name_of(best.name, 60),
        f" has the best {found.metric.title}: ",
        tag("strong", number(best.mean)),
        f" on {where}. {of} by more than chance.",
    ]
    return join(words)


def _tiles(found: Comparison) -> list[Html]:
    spans = ((s, f"{number(s.low, 3)} to {number(s.high, 3)}") for s in found.systems[:4])
    return [tile(name_of(s.name, 40), number(s.mean), span) for s, span in spans]


def _sections(found: Comparison, *, several: bool) -> list[Section]:
    name = str(found.metric)
    short = found.metric.title
    place = "".join(c if c.isalnum() else "-" for c in name)
    left_out = f"; {count(found.skipped)} without a value left out" if found.skipped else ""
    lead = (
        f"Means over {plural(len(found.ids), 'query', 'queries')}{left_out}, with "
        f"{found.confidence:.0%} intervals from {count(found.n_resamples)} resamplings of the "
        f"queries. A difference counts as none when its interval lies within {found.margin:g}."
    )
    cards = [
        tag("div", _means(found), class_="card"),
        tag("div", _pairs(found), class_="card"),
        tag("div", from_table(found.tables()[2]), class_="card"),
    ]
    title = f"Which is better by {short}?" if several else "Which is better?"
    sections = [Section(f"means-{place}", short, title, lead, join(cards))]
    if found.changed:
        groups = [("Queries that changed most", [_ranked(change) for change in found.changed])]
        body = lists_part(groups, short)
        sections.append(Section(f"changed-{place}", f"{short}: queries", "What changed?", "", body))
    return sections


def _means(found: Comparison) -> Html:
    scale = linear([v for s in found.systems for v in (s.mean, s.low, s.high)])
    rows = [
        _row(s.name, number(s.mean), _span(s), None, _strip(s, scale, KINDS[k % len(KINDS)]))
        for k, s in enumerate(found.systems)
    ]
    return _table(f"{found.metric.title} of each system", scale, "mean", rows)


def _pairs(found: Comparison) -> Html:
    ends = [v for p in found.pairs for v in (p.difference, p.low, p.high)]
    scale = linear([0.0, *ends])
    rows = []
    for pair in found.pairs:
        tone, word = VERDICTS.get(pair.verdict, ("", pair.verdict))
        verdict = tag("span", word, class_=tone or None)
        tally = f"{count(pair.wins)} won, {count(pair.ties)} equal, {count(pair.losses)} lost"
        span = f"{signed(pair.low)} to {signed(pair.high)}"
        name = [name_of(pair.b, 40), " minus ", name_of(pair.a, 40), tag("small", tally)]
        kind = "model" if pair.significant else "random"
        strip = interval(
            pair.difference, pair.low, pair.high, scale, kind, _tip(pair), zero=scale(0.0)
        )
        rows.append(_row(name, signed(pair.difference), span, verdict, strip))
    return _table("Differences, query by query", scale, "difference", rows)


def _tip(pair: Pair) -> str:
    return f"{pair.difference:+.4f}, interval {pair.low:+.4f} to {pair.high:+.4f}"


def _strip(system: System, scale: Any, kind: str) -> Html:
    tip = f"{number(system.mean)}, {_span(system)}"
    return interval(system.mean, system.low, system.high, scale, kind, tip)


def _span(system: System) -> str:
    return f"{number(system.low)} to {number(system.high)}" if math.isfinite(system.low) else ""


def _row(name: Any, value: str, span: str, verdict: Any, strip: Html) -> Html:
    return tag(
        "tr",
        tag("th", name if isinstance(name, list) else name_of(name, 60), scope="row"),
        tag("td", strip, class_="wide"),
        tag("td", value, class_="n"),
        tag("td", tag("small", span), class_="n rest"),
        tag("td", verdict, class_="rest"),
    )


def _table(caption: str, scale: Any, what: str, rows: Sequence[Html]) -> Html:
    ends = f"{number(scale.low, 2)} to {number(scale.high, 2)}".replace("-", "\N{MINUS SIGN}")
    header = tag(
        "tr",
        tag("th", "", scope="col"),
        tag("th", tag("small", ends), class_="wide", scope="col"),
        tag("th", what, class_="n", scope="col"),
        tag("th", "interval", class_="n", scope="col"),
        tag("th", "", scope="col"),
    )
    body = (tag("thead", header), tag("tbody", rows))
    return tag("table", tag("caption", caption), *body, class_="systems")


def _ranked(change: Changed) -> Ranked:
    def items(ranking: Any) -> list[Item]:
        return [
            Item(rank, item["doc"], item["label"], item["score"])
            for rank, item in enumerate(ranking, 1)
        ]

    left, right = items(change.ranking_b), items(change.ranking_a)
    labels = sorted({item.label for item in (*left, *right)}, reverse=True)
    return Ranked(
        str(change.query),
        "",
        change.value_b,
        change.value_a,
        max(len(left), len(right)),
        labels,
        left,
        change.a,
        right,
        change.b,
    )


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
        heading,
        "rankine: the LETOR protocol",
        _letor_report_summary(result),
        _letor_report_tiles(result),
        sections,
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


def _letor_report_summary(result: LetorResult) -> Html:
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


def _letor_report_tiles(result: LetorResult) -> list[Html]:
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


RAW = "A bar is the weight itself: compare bars only where features have the same scale."


def path_report(
    path: RegularizationPath, *, title: str | None = None, command: str | None = None
) -> Report:
    """Quality against size, every step, and the best model."""
    best = path.best()
    name = path.metric if path.measured else "training loss"
    heights = path.values if path.measured else path.loss
    model = path.to_model(best)
    heading = title or f"Quality against size: {model.parameters.get('ranker') or 'path'}"
    words = join(
        [
            "The best of ",
            plural(len(path), "model"),
            " has ",
            tag("strong", count(path.nonzeros[best])),
            f" of {count(model.n_features)} weights and {name} ",
            tag("strong", number(float(heights[best]))),
            "." if path.measured else ". Without validation data the smallest loss wins.",
        ]
    )
    tiles = [
        tile(name, number(float(heights[best])), "best step"),
        tile("weights", count(path.nonzeros[best]), f"of {count(model.n_features)}"),
        tile("models", count(len(path)), f"{float(path.seconds.sum()):.1f} s in all"),
    ]
    learned = weights(model, model.values)
    sections = [
        Section("sizes", "Size", "How does quality follow size?", _LEAD, _body(path, name, best)),
        weights_section(learned, RAW),
        origin_section(origin(model), command),
    ]
    numbers = {
        "title": heading,
        "metric": path.metric,
        "measured": path.measured,
        "best": best,
        "steps": path.records(),
        "weights": learned.to_dict(),
    }
    return Report(heading, render(heading, "rankine path", words, tiles, sections), numbers)


_LEAD = "One model per strength of the penalty: the stronger it is, the fewer weights are left."


def _body(path: RegularizationPath, name: str, best: int) -> Html:
    lines: list[Line] = []
    key: list[tuple[str, Any]] = []
    for k, (curve_name, curve) in enumerate(path_curves(path)):
        heights = curve.values if path.measured else curve.loss
        shown = np.flatnonzero((curve.nonzeros > 0) & np.isfinite(heights))
        if len(shown) == 0:
            continue
        shown = shown[np.argsort(curve.nonzeros[shown], kind="stable")]
        kind = KINDS[k % len(KINDS)]
        sizes = curve.nonzeros[shown].tolist()
        y = heights[shown].tolist()
        tips = [f"{plural(s, 'weight')}: {number(v)}" for s, v in zip(sizes, y, strict=True)]
        x = [float(s) for s in sizes]
        lines.append(Line(curve_name or name, kind, x, y, tips=tips))
        if curve_name is not None:
            key.append((kind, curve_name))
    parts: list[Any] = []
    if lines:
        size = plural(int(path.nonzeros[best]), "weight")
        words = (
            f"Each dot is a model. Read: go left from the best ({size}) "
            "until the loss of quality is more than the smaller model is worth to you."
        )
        picture = line_chart(
            lines, "non-zero weights", name, f"{name} against the number of weights", log_x=True
        )
        parts.append(figures(figure("Quality against size", picture, words, key)))
    parts.append(tag("div", _steps(path, name, best), class_="card"))
    return join(parts)


def _steps(path: RegularizationPath, name: str, best: int) -> Html:
    records = path.records()
    one_pass = "optimizer" in records[0]
    header = [*(["optimizer"] if one_pass else []), "l1", "weights", name, "seconds"]
    quality = path.metric if path.measured else "loss"
    rows = [
        [
            *([record["optimizer"]] if one_pass else []),
            f"{record['l1']:.4g}",
            count(record["nonzeros"]),
            number(record[quality]),
            f"{record['seconds']:.2f}",
        ]
        for record in records
    ]
    bold = frozenset((best, c) for c in range(1, len(header)))
    return table(header, rows, bold=bold, caption="Every step, the best in bold")


#: Trials in the table.
TOP = 25


def tune_report(
    found: TuningResult, *, title: str | None = None, command: str | None = None
) -> Report:
    """Trials, parameters, importances, and the model that was fitted in the end."""
    name = parse_metric(found.metric).title
    heading = title or f"Tuning {type(found.ranker).__name__} for {name}"
    learned = weights(found.model, found.model.values)
    sections: list[Section | None] = [
        Section("trials", "Trials", "How did the search go?", _lead(found), _trials(found, name)),
        _parameters(found, name),
        Section(
            "table", "Best trials", "Which settings did best?", "", _tune_report_table(found, name)
        ),
        weights_section(learned, RAW),
        training_section(training(found.model)),
        origin_section(origin(found.model), command),
    ]
    page = render(
        heading,
        "rankine tuning",
        _tune_report_summary(found, name),
        _tune_report_tiles(found, name),
        [section for section in sections if section is not None],
    )
    numbers = {"title": heading, **found.to_dict(), "learned": learned.to_dict()}
    return Report(heading, page, numbers)


def _tune_report_summary(found: TuningResult, name: str) -> Html:
    chosen = ", ".join(f"{key} = {shown(value)}" for key, value in found.best_params.items())
    words: list[Any] = [
        f"The best of {plural(len(found.trace), 'trial')} reaches {name} ",
        tag("strong", number(found.best_value)),
        " on held-out queries with ",
        name_of(chosen or "the ranker's own parameters", 200),
        ".",
    ]
    if found.test is not None:
        words += [" On the newest queries, which it never saw, it reaches ",
                  tag("strong", number(found.test)), "."]  # fmt: skip
    return join(words)


def _tune_report_tiles(found: TuningResult, name: str) -> list[Html]:
    states = [record.state for record in found.trace]
    given_up = len(states) - states.count("complete")
    parts = [
        tile(f"best {name}", number(found.best_value), "on held-out queries"),
        tile("trials", count(len(states)), f"{count(given_up)} given up or failed"),
        tile("weights", count(found.model.nnz), f"of {count(found.model.n_features)}"),
    ]
    if found.test is not None:
        parts.insert(1, tile(f"test {name}", number(found.test), "measured once"))
    return parts


def _lead(found: TuningResult) -> str:
    seconds = sum(record.seconds or 0.0 for record in found.trace)
    return f"{plural(len(found.trace), 'trial')}, {seconds:.1f} s of training in all."


def _trials(found: TuningResult, name: str) -> Html:
    done = [r for r in found.trace if r.value is not None]
    lines = []
    best = [r for r in found.trace if r.best is not None]
    if best:
        lines.append(
            Line("best so far", "against", [float(r.number) for r in best],
                 [float(r.best or 0) for r in best], step=True, points=False)
        )  # fmt: skip
    for feasible, kind, words in ((True, "model", "trial"), (False, "random", "above a limit")):
        some = [r for r in done if r.feasible is feasible]
        if some:
            tips = [f"trial {r.number}: {number(r.value)} ({_setting(r)})" for r in some]
            lines.append(
                Line(words, kind, [float(r.number) for r in some],
                     [float(r.value or 0) for r in some], joined=False, tips=tips)
            )  # fmt: skip
    if not lines:
        return tag("p", "No trial finished.")
    words = (
        "Each dot is a setting, the line the best one so far. Read: a line that has been level for "
        "long says that more trials would hardly help."
    )
    key = [(line.kind, line.name) for line in lines]
    picture = line_chart(lines, "trial", name, f"{name} of every trial")
    return figures(figure("Trial by trial", picture, words, key), _importances(found, name))


def _setting(record: TrialRecord) -> str:
    return ", ".join(f"{key}={shown(value)}" for key, value in record.parameters.items())


def _importances(found: TuningResult, name: str) -> Html | None:
    if not found.importances:
        return None
    largest = max(found.importances.values())
    rows = [
        tag(
            "tr",
            tag("th", name_of(key), scope="row"),
            tag("td", bar(share, largest, "model", f"{key}: {share:.3f}"), class_="wide"),
            tag("td", percent(share), class_="n"),
        )
        for key, share in sorted(found.importances.items(), key=lambda item: -item[1])
    ]
    words = (
        f"Share of the variation of {name} that each parameter explains over the trials. Read: "
        "search those with long bars more finely, leave the others alone."
    )
    return figure("What matters", tag("table", tag("tbody", rows)), words)


def _parameters(found: TuningResult, name: str) -> Section | None:
    done = [r for r in found.trace if r.value is not None]
    names = list(dict.fromkeys(key for record in done for key in record.parameters))
    pictures = [part for key in names if (part := _parameter(key, done, found, name)) is not None]
    if not pictures:
        return None
    lead = f"{name} of all finished trials against one parameter at a time."
    return Section("parameters", "Parameters", "Which values work?", lead, figures(*pictures))


def _parameter(
    key: str, done: Sequence[TrialRecord], found: TuningResult, name: str
) -> Html | None:
    known = [(r, r.parameters[key]) for r in done if key in r.parameters]
    if all(isinstance(v, (int, float)) and not isinstance(v, bool) for _, v in known):
        return _numeric(key, known, found, name)
    return _choices(key, known, name, larger=parse_metric(found.metric).larger_is_better)


def _numeric(key: str, known: Any, found: TuningResult, name: str) -> Html | None:
    x = [float(v) for _, v in known]
    if len(set(x)) < 2:
        return None
    log = min(x) > 0 and max(x) / min(x) > 20
    tips = [f"{key}={shown(v)}: {number(r.value)}" for r, v in known]
    y = [float(r.value) for r, _ in known]
    lines = [Line(key, "model", x, y, joined=False, tips=tips)]
    if key in found.best_params:
        best = float(found.best_params[key])
        lines.append(Line("best", "against", [best], [found.best_value], joined=False,
                          tips=[f"best: {shown(found.best_params[key])}"]))  # fmt: skip
    words = (
        f"Read: where dots stand highest, {key} suits this data; best at an edge of the picture "
        "asks for a wider range."
    )
    picture = line_chart(lines, key, name, f"{name} against {key}", log_x=log)
    return figure(key, picture, words)


def _choices(key: str, known: Any, name: str, *, larger: bool) -> Html:
    groups: dict[str, list[float]] = {}
    for record, value in known:
        groups.setdefault(shown(value), []).append(float(record.value))
    choose = max if larger else min
    top = max(choose(values) for values in groups.values())
    rows = [
        tag(
            "tr",
            tag("th", name_of(choice), tag("small", plural(len(values), "trial")), scope="row"),
            tag(
                "td",
                bar(choose(values), top, "model", f"{choice}: {choose(values):.4f}"),
                class_="wide",
            ),
            tag("td", number(choose(values)), class_="n"),
        )
        for choice, values in sorted(groups.items(), key=lambda g: choose(g[1]), reverse=larger)
    ]
    words = f"Best {name} of each choice. Read: few trials say little about a choice."
    return figure(key, tag("table", tag("tbody", rows)), words)


def _tune_report_table(found: TuningResult, name: str) -> Html:
    sign = 1 if parse_metric(found.metric).larger_is_better else -1
    done = [r for r in found.trace if r.value is not None]
    done.sort(key=lambda r: -sign * float(r.value or 0))
    names = list(dict.fromkeys(key for record in done[:TOP] for key in record.parameters))
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
        for r in done[:TOP]
    ]
    caption = f"The {len(rows)} best of {plural(len(found.trace), 'trial')}"
    made = table(header, rows, caption=caption, left=1 + len(names))
    return tag("div", made, class_="card")


def result_report(subject: Any, *, title: str | None, command: str | None) -> Report | None:
    """The report of a finished search, comparison, protocol or path; None for anything else."""
    if isinstance(subject, Comparison):
        subject = [subject]
    if isinstance(subject, list) and subject and all(isinstance(c, Comparison) for c in subject):
        return compare_report(subject, title=title, command=command)
    if isinstance(subject, LetorResult):
        return letor_report(subject, title=title, command=command)
    if isinstance(subject, RegularizationPath):
        return path_report(subject, title=title, command=command)
    # Tuning needs its own extra; a result of it shows that its module is there already.
    tuning = sys.modules.get("rankine.tune.result")
    if tuning is not None and isinstance(subject, tuning.TuningResult):
        return tune_report(subject, title=title, command=command)
    return None


def path_curves(path: RegularizationPath) -> list[tuple[str | None, RegularizationPath]]:
    """One curve, or one for each optimiser where there are several."""
    several = getattr(path, "curves", None)
    return [(None, path)] if several is None else list(several().items())
