"""How good the model is, and against what."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rankine.core.safe_text import Html, join, name_of, tag
from rankine.report.page import Section, note, table, tile
from rankine.report.scales import linear
from rankine.report.svg import interval
from rankine.report.words import count, number, percent, plural, signed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankine.evaluation.comparison import Pair, System
    from rankine.report.figures.headline import Headline
    from rankine.report.figures.origin import Origin
    from rankine.report.judged import Judged

__all__ = ["VERDICTS", "headline_section", "headline_tiles", "summary_words"]

VERDICTS = {
    "better": ("good", "better"),
    "better, within the margin": ("good", "better, by little"),
    "worse": ("bad", "worse"),
    "worse, within the margin": ("bad", "worse, by little"),
    "equivalent": ("", "no difference that matters"),
    "undecided": ("", "not settled by this data"),
}


def summary_words(judged: Judged, heads: Sequence[Headline]) -> Html:
    """The page's first sentence."""
    if not heads:
        return join(["Nothing can be measured on this data: no list holds two different labels."])
    head = heads[0]
    value = tag("strong", number(head.model.mean))
    where = plural(head.queries, "query", "queries")
    words: list[Any] = [f"On {where} the model reaches {head.title} ", value]
    if math.isfinite(head.model.low):
        words.append(f" (95 % interval {number(head.model.low)} to {number(head.model.high)})")
    told = [p for k, p in zip(head.kinds[1:], head.pairs, strict=False) if k != "feature"]
    for k, pair in enumerate(told):
        words += [
            ": " if k == 0 else " and " if k == len(told) - 1 else ", ",
            *_against(head, pair),
        ]
    return join([*words, "."])


def _against(head: Headline, pair: Pair) -> list[Any]:
    up = pair.difference > 0
    if pair.difference == 0:
        return ["the same as ", _told(pair.a)]
    sure = "" if pair.significant else " (not settled by this data)"
    side = "above" if up else "below"
    return [
        tag("strong", number(abs(pair.difference))),
        f" {side} ",
        _told(pair.a),
        sure,
    ]


def _told(name: str) -> Any:
    known = {"random order": "a random order", "order as shown": "the order as shown"}
    return known.get(name) or name_of(name, 60)


def headline_tiles(judged: Judged, heads: Sequence[Headline]) -> list[Html]:
    """Up to five figures."""
    found = []
    for head in heads[:3]:
        spread = ""
        if math.isfinite(head.model.low):
            spread = f"{number(head.model.low, 3)} \N{EN DASH} {number(head.model.high, 3)}"
        found.append(tile(head.title, number(head.model.mean), spread))
    model = judged.model
    share = model.nnz / max(model.n_features, 1)
    size = f"of {count(model.n_features)} features ({percent(share, 1 if share < 0.1 else 0)})"
    found.append(tile("weights", count(model.nnz), size))
    data = judged.data
    found.append(
        tile("data", plural(data.n_queries, "query", "queries"), f"{count(data.n_rows)} items")
    )
    return found


def headline_section(judged: Judged, heads: Sequence[Headline], origin: Origin) -> Section:
    """A table per metric, each row a system with its interval."""
    remarks = []
    if origin.seen:
        files = ", ".join(origin.seen)
        remarks.append(
            note(
                "The model was trained on data of this report (", name_of(files),
                "): these figures flatter it. Judge it on queries it has not seen.",
            )
        )  # fmt: skip
    for metric, reason in judged.refused.items():
        remarks.append(note(tag("code", metric), f" cannot be measured here: {reason}."))
    if heads and heads[0].queries < 2:
        remarks.append(note("One query gives a value but no interval: nothing to resample."))
    tables = [tag("div", _table(heads[0]), class_="card")] if heads else []
    if len(heads) > 1:
        tables.append(tag("div", _others(heads[1:]), class_="card"))
    lead = (
        "Each mark is a mean over queries, each bar the 95 % interval that resampling the queries "
        "gives. Differences are the model minus the other, query by query."
    )
    return Section(
        "quality", "Quality", "How good is it?", lead if heads else "", join([*remarks, *tables])
    )


def _others(heads: Sequence[Headline]) -> Html:
    """Means of all systems by further metrics; the best of a row stands out."""
    header = ["further metrics", *(name_of(s.name, 48) for s in heads[0].systems)]
    rows, bold = [], set()
    for r, head in enumerate(heads):
        less = "" if head.larger_is_better else " (less is better)"
        means = [s.mean for s in head.systems]
        best = max(means) if head.larger_is_better else min(means)
        bold |= {(r, c) for c, mean in enumerate(means, 1) if mean == best}
        cells = [[number(s.mean), _interval(s)] for s in head.systems]
        rows.append([[head.title, tag("small", less) if less else None], *cells])
    return table(header, rows, bold=frozenset(bold))


def _interval(system: System) -> Html | None:
    if not math.isfinite(system.low):
        return None
    return tag("small", f"{number(system.low, 3)} to {number(system.high, 3)}")


def _table(head: Headline) -> Html:
    scale = linear([v for s in head.systems for v in (s.mean, s.low, s.high)])
    ends = f"{number(scale.low, 2)} to {number(scale.high, 2)}"
    pairs: list[Pair | None] = [None, *head.pairs] if head.pairs else [None] * len(head.systems)
    rows = [
        _row(system, pair, kind, scale)
        for system, pair, kind in zip(head.systems, pairs, head.kinds, strict=True)
    ]
    header = tag(
        "tr",
        tag("th", "order", scope="col"),
        tag("th", tag("small", ends), class_="wide", scope="col"),
        tag("th", "mean", class_="n", scope="col"),
        tag("th", "model minus this", class_="n", scope="col"),
        tag("th", "the model is", scope="col"),
    )
    words = [f"{head.title} over {plural(head.queries, 'query', 'queries')}"]
    if head.skipped:
        words.append(f", {count(head.skipped)} without a value left out")
    if not head.larger_is_better:
        words.append(" (less is better)")
    return tag(
        "table",
        tag("caption", "".join(words)),
        tag("thead", header),
        tag("tbody", rows),
        class_="systems",
    )


def _row(system: System, pair: Pair | None, kind: str, scale: Any) -> Html:
    known = math.isfinite(system.low)
    tip = f"{system.name}: {number(system.mean)}"
    if known:
        tip += f", 95 % interval {number(system.low)} to {number(system.high)}"
    strip = (
        interval(
            system.mean,
            system.low if known else None,
            system.high if known else None,
            scale,
            kind,
            tip,
        )
        if math.isfinite(system.mean)
        else None
    )
    cell: Any = None
    verdict: Any = None
    if pair is not None:
        tone, word = VERDICTS.get(pair.verdict, ("", pair.verdict))
        verdict = tag("span", word, class_=tone or None)
        cell = [
            signed(pair.difference),
            tag("small", f"{signed(pair.low)} to {signed(pair.high)}"),
        ]
    return tag(
        "tr",
        tag("th", name_of(system.name, 80), scope="row"),
        tag("td", strip, class_="wide"),
        tag("td", number(system.mean), class_="n"),
        tag("td", cell, class_="n rest"),
        tag("td", verdict, class_="rest"),
    )
