"""What the model has learned: its strongest weights, their columns, how many are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rankine.core.safe_text import Html, join, name_of, tag
from rankine.report.page import Section, figures, note
from rankine.report.svg import Line, bar, figure, line_chart
from rankine.report.words import MINUS, count, number, percent, plural, signed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankine.report.figures.sizes import SizeCurve
    from rankine.report.figures.weights import Group, Weight, Weights

__all__ = ["size_section", "weights_section"]


def weights_section(found: Weights, meaning: str) -> Section:
    """Bars of effects by sign and by column, and their concentration; ``meaning`` of a bar."""
    lead = (
        f"{plural(found.nonzero, 'feature')} of {count(found.n_features)} "
        f"{'has' if found.nonzero == 1 else 'have'} a weight. {meaning}"
    )
    if found.nonzero == 0:
        body: Any = note("All weights are zero: every item has the same score.")
        return Section("weights", "Weights", "What has it learned?", lead, body)
    largest = max(abs(w.effect) for w in (*found.positive, *found.negative))
    parts = [
        _weights("Raises the score", found.positive, largest, "plus"),
        _weights("Lowers the score", found.negative, largest, "minus"),
    ]
    more: list[Html | None] = []
    if found.groups:
        more.append(_groups(found.groups))
    if len(found.concentration) > 2:
        more.append(_concentration(found))
    remark = None
    if found.idle:
        few = found.idle == 1
        remark = note(
            f"{plural(found.idle, 'weight')} {'belongs' if few else 'belong'} to features that "
            "never differ within a list of this data: here they decide nothing."
        )
    body = join([remark, figures(*parts), figures(*more)])
    return Section("weights", "Weights", "What has it learned?", lead, body)


def _weights(title: str, shown: Sequence[Weight], largest: float, kind: str) -> Html | None:
    if not shown:
        return None
    rows = [
        tag(
            "tr",
            tag("th", name_of(w.name, 60), scope="row"),
            tag("td", bar(w.effect, largest, kind, f"{w.name}: {w.effect:+.4g}"), class_="wide"),
            tag("td", signed(w.effect, 3), class_="n"),
            tag("td", number(w.weight, 3).replace("-", MINUS), class_="n"),
        )
        for w in shown
    ]
    more = "More" if kind == "plus" else "Less"
    words = (
        f"The {len(shown)} strongest features of this sign. {more} of such a feature puts an item "
        "higher. Read: a bar twice as long moves items twice as far."
    )
    return _bars(title, ("feature", "", "effect", "weight"), rows, words)


def _bars(title: str, header: Sequence[str], rows: Sequence[Html], words: str) -> Html:
    kinds = [None, "wide", *["n"] * (len(header) - 2)]
    head = tag("tr", [tag("th", h, class_=kinds[c], scope="col") for c, h in enumerate(header)])
    made = tag("table", tag("thead", head), tag("tbody", rows))
    return figure(title, made, words)


def _groups(groups: Sequence[Group]) -> Html:
    largest = max(group.effect for group in groups)
    rows = [
        tag(
            "tr",
            tag(
                "th", name_of(g.column, 60), tag("small", plural(g.weights, "weight")), scope="row"
            ),
            tag(
                "td", bar(g.effect, largest, "model", f"{g.column}: {g.effect:.4g}"), class_="wide"
            ),
            tag("td", percent(g.share), class_="n"),
        )
        for g in groups
    ]
    words = (
        "Features that come from one column, together. Read: the longer the bar, the more the "
        "column as a whole decides; shares are of all effects' sizes."
    )
    return _bars("By source column", ("column", "", "share"), rows, words)


def _concentration(found: Weights) -> Html:
    x = [float(k) for k, _ in found.concentration]
    y = [share for _, share in found.concentration]
    line = Line("share", "model", x, y, points=len(x) <= 40, tips=[
        f"{count(k)} features: {percent(share, 1)}" for k, share in found.concentration
    ])  # fmt: skip
    words = (
        f"Features from strongest to weakest, and the share of all effects they hold together: "
        f"half of it lies in {plural(found.for_half, 'feature')}, nine tenths in "
        f"{count(found.for_most)}. Read: a curve that rises early means that few features decide."
    )
    about = "Cumulative share of effects over features from strongest to weakest"
    picture = line_chart([line], "features", "share", about, log_x=x[-1] > 60, y_values=(0.0, 1.0))
    return figure("How many features decide", picture, words)


def size_section(found: SizeCurve, title: str) -> Section:
    """Quality against the number of weights kept."""
    tips = [
        f"{plural(size, 'weight')}: {number(value)}"
        for size, value in zip(found.sizes, found.values, strict=True)
    ]
    line = Line(title, "model", [float(s) for s in found.sizes], found.values, tips=tips)
    whole = found.values[-1]
    words = (
        f"The weights of least effect are cut away, and {title} is measured again on this data. "
        f"With {plural(found.enough, 'weight')} of {count(found.sizes[-1])} it stays within one "
        f"percent of the whole model's {number(whole, 3)} (dashed). Read: where the curve is "
        "flat, a smaller model would do as well."
    )
    picture = line_chart(
        [line],
        "weights kept",
        title,
        f"{title} of the model cut to its strongest weights",
        log_x=found.sizes[-1] > 12,
        rules=[("soft", whole)],
    )
    lead = (
        "Smaller models are faster to serve and easier to understand. Nothing is trained again: "
        "`rankine path` finds better small models."
    )
    return Section(
        "size",
        "Size",
        "Could it be smaller?",
        lead.replace("`", ""),
        figures(figure("Quality against size", picture, words)),
    )
