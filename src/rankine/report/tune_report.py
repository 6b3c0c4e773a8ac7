"""The report of a search for parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rankine.core.safe_text import Html, join, name_of, tag
from rankine.metrics import parse_metric
from rankine.report.figures.origin import origin
from rankine.report.figures.training import training
from rankine.report.figures.weights import weights
from rankine.report.page import Report, Section, figures, render, table, tile
from rankine.report.path_report import RAW
from rankine.report.sections.origin import origin_section
from rankine.report.sections.training import training_section
from rankine.report.sections.weights import weights_section
from rankine.report.svg import Line, bar, figure, line_chart
from rankine.report.words import count, number, percent, plural, shown

if TYPE_CHECKING:
    from rankine.tune.result import TrialRecord, TuningResult

__all__ = ["tune_report"]

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
        Section("table", "Best trials", "Which settings did best?", "", _table(found, name)),
        weights_section(learned, RAW),
        training_section(training(found.model)),
        origin_section(origin(found.model), command),
    ]
    page = render(
        heading,
        "rankine tuning",
        _summary(found, name),
        _tiles(found, name),
        [section for section in sections if section is not None],
    )
    numbers = {"title": heading, **found.to_dict(), "learned": learned.to_dict()}
    return Report(heading, page, numbers)


def _summary(found: TuningResult, name: str) -> Html:
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


def _tiles(found: TuningResult, name: str) -> list[Html]:
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


def _table(found: TuningResult, name: str) -> Html:
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
