"""Quality down the list and over queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankine.core.safe_text import Html, name_of
from rankine.report.page import Section, figures
from rankine.report.svg import Line, figure, histogram, line_chart
from rankine.report.words import count, number, percent, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankine.report.figures.curves import Curves
    from rankine.report.figures.queries import Differences, Spread

__all__ = ["curves_section", "queries_section"]

#: Depths that the axis names.
_TICKS = (1, 3, 5, 8, 10, 15, 20)
_MEANING = {
    "p": "the share of relevant items among the first k",
    "ndcg": "how close the first k items come to the ideal order (1 is ideal)",
    "recall": "the share of all relevant items that the first k hold",
}


def curves_section(found: Sequence[Curves]) -> Section | None:
    """One picture per metric."""
    if not found:
        return None
    pictures = [_curves(one) for one in found]
    return Section(
        "depth",
        "Down the list",
        "How far down the list does it hold?",
        "Users look at the top first: the same metric, cut after 1, 2, 3 ... items.",
        figures(*pictures),
    )


def _curves(found: Curves) -> Html:
    lines = [
        Line(
            curve.name,
            curve.kind,
            [float(k) for k in found.depths],
            curve.values,
            curve.low,
            curve.high,
            tips=[
                f"{curve.name}: {found.title}@{k} {number(v)}"
                for k, v in zip(found.depths, curve.values, strict=True)
            ],
        )
        for curve in found.curves[::-1]
    ]
    model = found.curves[0]
    first, last = model.values[0], model.values[-1]
    meaning = _MEANING.get(found.metric, f"{found.title} of the first k items")
    words = (
        f"Height: {meaning}. The model goes from {number(first, 3)} at k = {found.depths[0]} to "
        f"{number(last, 3)} at k = {found.depths[-1]}; the band is its 95 % interval. Read: the "
        "higher the line, the better the order; lines that meet are equally good at that depth."
    )
    about = f"{found.title} at depths {found.depths[0]} to {found.depths[-1]} of every order"
    key = [(curve.kind, name_of(curve.name, 40)) for curve in found.curves]
    picture = line_chart(lines, "k, items from the top", f"{found.title}@k", about,
                         x_ticks=[float(k) for k in found.depths if k in _TICKS])  # fmt: skip
    return figure(f"{found.title}@k", picture, words, key)


def queries_section(
    spread: Spread | None, gaps: Differences | None, title: str, lists: Html
) -> Section | None:
    """Histograms, then lists."""
    if spread is None:
        return None
    parts = [_spread(spread, title)]
    if gaps is not None:
        parts.append(_differences(gaps, title))
    low, high = spread.quantiles[0], spread.quantiles[-1]
    lead = (
        f"A mean hides much: on the worst tenth of the queries {title} is {number(low, 3)} or "
        f"less, on the best tenth {number(high, 3)} or more."
    )
    return Section(
        "queries", "Query by query", "Which queries go well, which badly?", lead,
        [figures(*parts), lists],
    )  # fmt: skip


def _spread(spread: Spread, title: str) -> Html:
    middle = spread.quantiles[2]
    words = (
        f"Each column counts queries with that value; the dashed line is the mean "
        f"({number(spread.mean, 3)}), the median is {number(middle, 3)}. "
        f"{plural(spread.zeros, 'query', 'queries')} of {count(spread.queries)} "
        f"({percent(spread.zeros / spread.queries)}) {'has' if spread.zeros == 1 else 'have'} "
        "exactly 0. Read: the further right the columns stand, the better."
    )
    picture = histogram(
        spread.edges,
        spread.counts,
        title,
        "queries",
        f"Histogram of {title} over {spread.queries} queries",
        rules=[("soft", spread.mean)],
    )
    return figure(f"{title} of every query", picture, words)


def _differences(gaps: Differences, title: str) -> Html:
    tally = f"{count(gaps.better)} better, {count(gaps.equal)} equal, {count(gaps.worse)} worse"
    reading = (
        "Read: columns right of zero are queries that the model ranks better, columns left of it "
        "are what it costs."
    )
    words = ["Model minus ", name_of(gaps.opponent, 60), f", query by query: {tally}. {reading}"]
    picture = histogram(
        gaps.edges,
        gaps.counts,
        f"difference in {title}",
        "queries",
        f"Histogram of differences in {title}",
        split=0.0,
        rules=[("soft", 0.0)],
    )
    return figure("Won and lost", picture, words)
