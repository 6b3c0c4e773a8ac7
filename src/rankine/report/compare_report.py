"""The report of a comparison of systems."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rankine.core.safe_text import Html, join, name_of, tag
from rankine.report.figures.lists import Item, Ranked
from rankine.report.page import Report, Section, from_table, render, tile
from rankine.report.scales import linear
from rankine.report.sections.headline import VERDICTS
from rankine.report.sections.lists import lists_part
from rankine.report.sections.origin import command_part
from rankine.report.svg import interval
from rankine.report.words import count, number, plural, signed

if TYPE_CHECKING:
    from rankine.evaluation.comparison import Changed, Comparison, Pair, System

__all__ = ["compare_report"]

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
