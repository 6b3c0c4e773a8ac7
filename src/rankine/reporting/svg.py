"""Pictures as SVG inside the page: they take their colours from the page's style.

Scales carry data to places on a picture and choose round ticks. Pictures are drawn 400 units wide,
so that on a phone a unit is about a pixel and text stays readable. Only presentation attributes are
used, no ``style``: the page's policy forbids it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from typing import Any, NamedTuple

from rankine.core.safe_text import Html, join, name_of, tag, text


@dataclass(frozen=True)
class Scale:
    """Maps ``low..high`` to 0..1, evenly or by logarithms; ``ticks`` are round values inside."""

    low: float
    high: float
    ticks: tuple[float, ...]
    log: bool = False

    def __call__(self, value: float) -> float:
        """Place between 0 and 1; values outside are put on the edge."""
        low, high = self.low, self.high
        if self.log:
            value, low, high = (math.log(max(v, 1e-300)) for v in (value, low, high))
        share = 0.5 if high == low else (value - low) / (high - low)
        return min(max(share, 0.0), 1.0)

    def label(self, tick: float) -> str:
        """Text of a tick."""
        size = abs(tick)
        if size >= 1e5 or (self.log and tick < 0.01):
            digits, _, power = f"{tick:.2e}".partition("e")
            return f"{float(digits):g}e{int(power)}"
        if size >= 1000:
            return f"{tick:,.0f}"
        return f"{tick:.6g}".replace("-", "\N{MINUS SIGN}")


def linear(values: Sequence[float], *, wanted: int = 5, pad: float = 0.06) -> Scale:
    """A linear scale around values, ending on them where they touch a natural bound (0 or 1)."""
    known = [v for v in values if math.isfinite(v)] or [0.0, 1.0]
    low, high = min(known), max(known)
    if low == high:
        low, high = low - 0.5 * max(abs(low), 0.1), high + 0.5 * max(abs(high), 0.1)
    margin = pad * (high - low)
    unit = min(known) >= 0 and max(known) <= 1
    start = max(low - margin, 0.0) if min(known) >= 0 else low - margin
    stop = min(high + margin, 1.0) if unit else high + margin
    step = _round_step((stop - start) / wanted)
    first = math.ceil(start / step - 1e-9)
    last = math.floor(stop / step + 1e-9)
    return Scale(start, stop, tuple(round(k * step, 12) for k in range(first, last + 1)))


def logarithmic(values: Sequence[float]) -> Scale:
    """A logarithmic scale of positive values; ticks at powers of ten, or 1-2-5 for few decades."""
    known = [v for v in values if math.isfinite(v) and v > 0] or [1.0, 10.0]
    low, high = min(known), max(known)
    if low == high:
        low, high = low / 2, high * 2
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    few = math.log10(high / low) <= 2.2
    steps = (1, 2, 5) if few else (1,)
    ticks = [s * 10.0**d for d in decades for s in steps]
    inside = [t for t in ticks if low * (1 - 1e-9) <= t <= high * (1 + 1e-9)]
    every = max(1, -(-len(inside) // 7))
    return Scale(low, high, tuple(inside[::every]), log=True)


def _round_step(size: float) -> float:
    power = 10.0 ** math.floor(math.log10(size))
    return next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= size * (1 - 1e-9))


WIDTH, HEIGHT = 400, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 26, 44


@dataclass(frozen=True)
class Line:
    """One curve: its kind gives the colour; ``low`` and ``high`` draw a band around it."""

    name: str
    kind: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    points: bool = True
    step: bool = False
    joined: bool = True
    tips: Sequence[str] = field(default_factory=tuple)


def _tenth(value: float) -> float:
    """As exact as a picture is."""
    return round(value, 1)


def _hundredth(value: float) -> float:
    """As exact as a strip, which is stretched."""
    return round(value, 2)


class _Frame:
    """Axes: where data lies on the picture."""

    def __init__(self, x: Scale, y: Scale) -> None:
        self.x_scale, self.y_scale = x, y

    def x(self, value: float) -> float:
        return _tenth(_LEFT + self.x_scale(value) * (WIDTH - _LEFT - _RIGHT))

    def y(self, value: float) -> float:
        return _tenth(HEIGHT - _BOTTOM - self.y_scale(value) * (HEIGHT - _TOP - _BOTTOM))

    def axes(self, x_name: str, y_name: str, x_labels: Sequence[str] | None = None) -> Html:
        right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
        parts = []
        for tick in self.y_scale.ticks:
            y = self.y(tick)
            parts.append(tag("line", class_="grid", x1=_LEFT, x2=right, y1=y, y2=y))
            label = self.y_scale.label(tick)
            parts.append(tag("text", label, class_="tick end", x=_LEFT - 6, y=_tenth(y + 4)))
        for k, tick in enumerate(self.x_scale.ticks):
            label = self.x_scale.label(tick) if x_labels is None else x_labels[k]
            x = self.x(tick)
            parts.append(tag("line", class_="mark", x1=x, x2=x, y1=bottom, y2=bottom + 4))
            parts.append(tag("text", label, class_="tick mid", x=x, y=bottom + 18))
        parts.append(tag("line", class_="axis", x1=_LEFT, x2=right, y1=bottom, y2=bottom))
        middle = (_LEFT + right) / 2
        parts.append(tag("text", x_name, class_="name mid", x=middle, y=HEIGHT - 5))
        parts.append(tag("text", y_name, class_="name", x=4, y=_TOP - 12))
        return join(parts)


def _figure(title: str, picture: Html, words: Any, key: Sequence[tuple[str, Any]] = ()) -> Html:
    """A picture with its title, its key and the sentence that says how to read it."""
    shown = [tag("li", _swatch(kind), " ", name) for kind, name in key]
    return tag(
        "figure",
        tag("h3", title),
        tag("ul", shown, class_="key") if shown else None,
        picture,
        tag("figcaption", words),
    )


def _swatch(kind: str) -> Html:
    """A sample of a colour."""
    line = tag("line", class_=f"line {kind}", x1=0, x2=18, y1=6, y2=6)
    dot = tag("circle", class_=f"dot {kind}", cx=9, cy=6, r=3.5)
    return tag("svg", line, dot, class_="swatch", viewBox="0 0 18 12", aria_hidden="true")


def line_chart(
    title: str,
    lines: Sequence[Line],
    names: tuple[str, str],
    words: Any,
    *,
    about: str | None = None,
    key: Sequence[tuple[str, Any]] | None = None,
    log_x: bool = False,
    log_y: bool = False,
    rules: Sequence[tuple[str, float]] = (),
    y_values: Sequence[float] = (),
    x_ticks: Sequence[float] = (),
) -> Html:
    """A figure of curves over a common axis.

    ``names`` are those of the axes, ``about`` is read aloud; the key (of all lines, unless told
    otherwise) is shown where it names several; ``rules`` are level lines of a kind.
    """
    xs = [v for line in lines for v in line.x]
    ys = [v for line in lines for part in (line.y, line.low, line.high) for v in part]
    ys += [value for _, value in rules]
    ys += list(y_values)
    x_scale = logarithmic(xs) if log_x else linear(xs, pad=0.0)
    if not log_x and all(float(v).is_integer() for v in xs):
        x_scale = replace(x_scale, ticks=tuple(t for t in x_scale.ticks if t.is_integer()))
    if x_ticks:
        x_scale = replace(x_scale, ticks=tuple(x_ticks))
    frame = _Frame(x_scale, logarithmic(ys) if log_y else linear(ys))
    parts = [frame.axes(*names)]
    for kind, value in rules:
        y = frame.y(value)
        parts.append(tag("line", class_=f"rule {kind}", x1=_LEFT, x2=WIDTH - _RIGHT, y1=y, y2=y))
    parts += [_band(frame, line) for line in lines if len(line.low)]
    parts += [_curve(frame, line) for line in lines if line.joined]
    parts += [_points(frame, line) for line in lines if line.points]
    picture = _picture(about or f"{names[1]} against {names[0]}", parts)
    known = [(line.kind, name_of(line.name, 40)) for line in lines] if key is None else key
    return _figure(title, picture, words, known if len(known) > 1 else ())


def _picture(about: str, parts: Sequence[Any]) -> Html:
    box = f"0 0 {WIDTH} {HEIGHT}"
    return tag("svg", parts, class_="chart", viewBox=box, role="img", aria_label=about)


def _band(frame: _Frame, line: Line) -> Html:
    upper = [f"{frame.x(x)},{frame.y(v)}" for x, v in zip(line.x, line.high, strict=True)]
    lower = [f"{frame.x(x)},{frame.y(v)}" for x, v in zip(line.x, line.low, strict=True)]
    return tag("polygon", class_=f"band {line.kind}", points=" ".join([*upper, *lower[::-1]]))


def _curve(frame: _Frame, line: Line) -> Html:
    places: list[str] = []
    before: float | None = None
    for x, y in zip(line.x, line.y, strict=True):
        if not math.isfinite(y):
            continue
        at = frame.y(y)
        if line.step and before is not None:
            places.append(f"{frame.x(x)},{before}")
        places.append(f"{frame.x(x)},{at}")
        before = at
    return tag("polyline", class_=f"line {line.kind}", points=" ".join(places))


def _points(frame: _Frame, line: Line) -> Html:
    dots = []
    for k, (x, y) in enumerate(zip(line.x, line.y, strict=True)):
        if not math.isfinite(y):
            continue
        tip = tag("title", text(line.tips[k] if line.tips else f"{line.name}: {y:.4g} at {x:.6g}"))
        dots.append(
            tag("circle", tip, class_=f"dot {line.kind}", cx=frame.x(x), cy=frame.y(y), r=3)
        )
    return join(dots)


def histogram(
    title: str,
    edges: Sequence[float],
    counts: Sequence[float],
    names: tuple[str, str],
    words: Any,
    *,
    about: str,
    split: float | None = None,
    rules: Sequence[tuple[str, float]] = (),
    labels: Sequence[str] | None = None,
) -> Html:
    """A figure of columns between edges; those below ``split`` take the other colour.

    ``labels`` name the columns instead of the axis' numbers (then edges count columns).
    """
    middles = [(a + b) / 2 for a, b in zip(edges[:-1], edges[1:], strict=True)]
    x_scale = linear([edges[0], edges[-1]], pad=0.0)
    x_scale = Scale(edges[0], edges[-1], x_scale.ticks if labels is None else tuple(middles))
    y_scale = linear([0.0, max(counts, default=1.0) or 1.0], wanted=4)
    frame = _Frame(x_scale, Scale(0.0, y_scale.high, y_scale.ticks))
    parts: list[Any] = [frame.axes(*names, labels)]
    bottom = frame.y(0.0)
    for k, height in enumerate(counts):
        left, right = frame.x(edges[k]), frame.x(edges[k + 1])
        where = labels[k] if labels is not None else f"{edges[k]:.4g} to {edges[k + 1]:.4g}"
        chosen = "against" if split is not None and edges[k + 1] <= split else "model"
        top = min(frame.y(height), bottom - 1.5) if height else bottom
        parts.append(
            tag(
                "rect",
                tag("title", text(f"{where}: {height:,.0f}")),
                class_=f"column {chosen}",
                x=_tenth(left + 0.7),
                width=_tenth(max(right - left - 1.4, 0.8)),
                y=top,
                height=_tenth(bottom - top),
            )
        )
    for rule, value in rules:
        x = frame.x(value)
        parts.append(tag("line", class_=f"rule {rule}", x1=x, x2=x, y1=_TOP, y2=bottom))
    return _figure(title, _picture(about, parts), words)


def _bar(value: float, largest: float, kind: str, tip: str) -> Html:
    """A horizontal bar from the left, for a cell of a table."""
    share = 0.0 if largest <= 0 else abs(value) / largest
    width = _hundredth(max(100 * share, 0.6 if value else 0.0))
    fill = tag("rect", class_=f"column {kind}", x=0, y=1, width=width, height=8, rx=1)
    return _strip([fill], tip)


class Bar(NamedTuple):
    """A row of ``bars``: what it is called, how long it is, its tip, the cells beside it."""

    name: Any
    value: float
    tip: str
    cells: Sequence[Any]


def bars(
    title: str,
    rows: Sequence[Bar],
    words: Any,
    *,
    header: Sequence[str] = (),
    kind: str = "model",
    largest: float | None = None,
) -> Html:
    """A figure that is a table with a bar in every row; ``largest`` is a full bar's length."""
    full = max(abs(row.value) for row in rows) if largest is None else largest
    body = [
        tag(
            "tr",
            tag("th", row.name, scope="row"),
            tag("td", _bar(row.value, full, kind, row.tip), class_="wide"),
            [tag("td", cell, class_="n") for cell in row.cells],
        )
        for row in rows
    ]
    kinds = chain((None, "wide"), repeat("n"))
    cells = [tag("th", h, class_=c, scope="col") for h, c in zip(header, kinds, strict=False)]
    head = tag("thead", tag("tr", cells)) if cells else None
    return _figure(title, tag("table", head, tag("tbody", body)), words)


def interval(
    mean: float,
    ends: tuple[float, float] | None,
    scale: Scale,
    kind: str,
    tip: str,
    *,
    zero: float | None = None,
) -> Html:
    """A mark with its interval on a common scale, for a cell of a table; ``zero``: a rule there."""

    def place(value: float) -> float:
        return _hundredth(3 + 94 * scale(value))

    parts: list[Any] = [tag("line", class_="grid", x1=0, x2=100, y1=5, y2=5)]
    if zero is not None:
        at = place(zero)
        parts.append(tag("line", class_="zero", x1=at, x2=at, y1=0, y2=10))
    if ends is not None:
        a, b = map(place, ends)
        parts.append(
            tag(
                "rect", class_=f"span {kind}", x=a, width=_hundredth(max(b - a, 0.5)), y=3, height=4
            )
        )
    parts.append(
        tag(
            "rect",
            class_=f"column {kind}",
            x=_hundredth(place(mean) - 0.7),
            y=0,
            width=1.4,
            height=10,
        )
    )
    return _strip(parts, tip)


def _strip(parts: Sequence[Any], tip: str) -> Html:
    """A strip that stretches to its cell."""
    return tag(
        "svg",
        tag("title", text(tip)),
        parts,
        class_="strip",
        viewBox="0 0 100 10",
        preserveAspectRatio="none",
        aria_hidden="true",
    )


def heat_map(
    title: str,
    values: Sequence[Sequence[float]],
    tips: Sequence[Sequence[str]],
    names: tuple[str, str],
    words: Any,
) -> Html:
    """Cells of a table, the first row at the bottom; the fuller the colour, the larger the size."""
    largest = max((abs(v) for row in values for v in row), default=0.0) or 1.0
    height = (HEIGHT - _TOP - _BOTTOM) / len(values)
    parts = [
        tag("text", names[0], class_="name mid", x=(_LEFT + WIDTH - _RIGHT) / 2, y=HEIGHT - 24),
        tag("text", names[1], class_="name", x=4, y=_TOP - 12),
    ]
    for a, row in enumerate(values):
        width = (WIDTH - _LEFT - _RIGHT) / len(row)
        for b, value in enumerate(row):
            parts.append(
                tag(
                    "rect",
                    tag("title", f"{tips[a][b]}: {value:+.4g}"),
                    class_=f"column {'plus' if value > 0 else 'minus'}",
                    x=_hundredth(_LEFT + b * width),
                    y=_hundredth(HEIGHT - _BOTTOM - (a + 1) * height),
                    width=_hundredth(width),
                    height=_hundredth(height),
                    fill_opacity=round(abs(value) / largest, 3),
                )
            )
    return _figure(title, _picture(f"Grid of {title}", parts), words)
