"""Draw figures as SVG inside the page; they take their colours from the page's style sheet.

Scales map data to coordinates and choose round ticks. Drawings are 400 units wide, so that on a
phone a unit is about a pixel and text stays readable. Only presentation attributes are used, never
``style``, which the page's content security policy forbids.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from markupsafe import Markup

from rankine.reporting.html import drawings, name, parts


@dataclass(frozen=True)
class Scale:
    """Map from ``low..high`` to 0..1, linear or logarithmic; ``ticks`` are round values inside."""

    low: float
    high: float
    ticks: tuple[float, ...]
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the position of a value between 0 and 1; values outside are put on the edge."""
        low, high = self.low, self.high
        if self.log:
            # 0 has no logarithm: it is drawn at the lower edge.
            value, low, high = (math.log(max(v, 1e-300)) for v in (value, low, high))
        if high == low:
            return 0.5
        return min(max((value - low) / (high - low), 0.0), 1.0)

    def label(self, tick: float) -> str:
        """Format a tick."""
        size = abs(tick)
        if size >= 1e5 or (self.log and tick < 0.01):
            digits, _, power = f"{tick:.2e}".partition("e")
            return f"{float(digits):g}e{int(power)}"
        if size >= 1000:
            return f"{tick:,.0f}"
        return f"{tick:.6g}".replace("-", "\N{MINUS SIGN}")


def linear(values: Sequence[float], *, n_ticks: int = 5, pad: float = 0.06) -> Scale:
    """Build a linear scale around values.

    It is wider than their range by the share ``pad`` on both sides, but ends at 0 if no value is
    negative, and at 1 if all are in 0..1. ``n_ticks`` is approximate: steps between ticks are
    round.
    """
    finite = [v for v in values if math.isfinite(v)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    if low == high:
        low, high = low - 0.5 * max(abs(low), 0.1), high + 0.5 * max(abs(high), 0.1)
    margin = pad * (high - low)
    start, stop = low - margin, high + margin
    if min(finite) >= 0:
        start = max(start, 0.0)
        if max(finite) <= 1:
            stop = min(stop, 1.0)
    step = _round_step((stop - start) / n_ticks)
    # The tolerance keeps a tick that rounding would push just outside of the scale.
    first = math.ceil(start / step - 1e-9)
    last = math.floor(stop / step + 1e-9)
    return Scale(start, stop, tuple(round(k * step, 12) for k in range(first, last + 1)))


def logarithmic(values: Sequence[float]) -> Scale:
    """Build a logarithmic scale of positive values, with ticks at powers of ten.

    Over few decades the ticks are at 1, 2 and 5 times a power of ten.
    """
    positive = [v for v in values if math.isfinite(v) and v > 0] or [1.0, 10.0]
    low, high = min(positive), max(positive)
    if low == high:
        low, high = low / 2, high * 2
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps: tuple[int, ...] = (1,)
    if math.log10(high / low) <= 2.2:
        steps = (1, 2, 5)
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    inside = [t for t in ticks if low * (1 - 1e-9) <= t <= high * (1 + 1e-9)]
    stride = max(1, -(-len(inside) // 7))  # at most seven labels fit on the axis
    return Scale(low, high, tuple(inside[::stride]), log=True)


def _round_step(size: float) -> float:
    power = 10.0 ** math.floor(math.log10(size))
    return next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= size * (1 - 1e-9))


#: Size of a chart, and the margins around its data, which hold the labels of the axes.
WIDTH, HEIGHT = 400, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 26, 44
#: Most labels on the axes of a heat map, and the length at which they are cut.
MAX_X_LABELS, MAX_Y_LABELS, LABEL_LENGTH = 6, 8, 8

#: An SVG element, its attributes, and its text or tooltip.
Shape = tuple[str, Mapping[str, Any], Any]


@dataclass(frozen=True)
class Line:
    """A curve of a chart.

    Attributes
    ----------
    name
        Its name in the legend and in tooltips.
    kind
        Its colour class in the style sheet.
    x, y
        Its points; those with a value that is not finite are left out.
    low, high
        Ends of the band around it; none if they are empty.
    points, joined
        Whether its points are drawn as dots, and whether they are joined by a line.
    step
        Whether the line is level up to the next point.
    tips
        Tooltips of the dots; by default the name and the values.
    """

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


def _shape(element: str, css: str, content: Any = "", **attributes: Any) -> Shape:
    """Describe an element of CSS classes ``css``; underscores in attributes become hyphens."""
    named = {key.replace("_", "-"): value for key, value in attributes.items()}
    return element, {"class": css, **named}, content


def _tooltip(text: str) -> Any:
    return drawings.tooltip(text)


# Coordinates are rounded to keep the page small. A tenth of a unit is a tenth of a pixel; a strip
# is stretched to the width of its column, so it needs hundredths.
def _tenth(value: float) -> float:
    return round(value, 1)


def _hundredth(value: float) -> float:
    return round(value, 2)


class _Frame:
    """Axes of a chart: they map data to coordinates of the drawing."""

    def __init__(self, x: Scale, y: Scale) -> None:
        self.x_scale, self.y_scale = x, y

    def x(self, value: float) -> float:
        return _tenth(_LEFT + self.x_scale(value) * (WIDTH - _LEFT - _RIGHT))

    def y(self, value: float) -> float:
        return _tenth(HEIGHT - _BOTTOM - self.y_scale(value) * (HEIGHT - _TOP - _BOTTOM))

    def axes(self, x_name: str, y_name: str, x_labels: Sequence[str] | None = None) -> list[Shape]:
        """Return grid lines, ticks, the horizontal axis and the names of both axes."""
        right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
        shapes = []
        for tick in self.y_scale.ticks:
            y = self.y(tick)
            shapes.append(_shape("line", "grid", x1=_LEFT, x2=right, y1=y, y2=y))
            label = self.y_scale.label(tick)
            shapes.append(_shape("text", "tick end", label, x=_LEFT - 6, y=_tenth(y + 4)))
        labels = x_labels or [self.x_scale.label(tick) for tick in self.x_scale.ticks]
        for tick, label in zip(self.x_scale.ticks, labels, strict=True):
            x = self.x(tick)
            shapes.append(_shape("line", "mark", x1=x, x2=x, y1=bottom, y2=bottom + 4))
            shapes.append(_shape("text", "tick mid", label, x=x, y=bottom + 18))
        shapes.append(_shape("line", "axis", x1=_LEFT, x2=right, y1=bottom, y2=bottom))
        shapes.append(_shape("text", "name mid", x_name, x=(_LEFT + right) / 2, y=HEIGHT - 5))
        shapes.append(_shape("text", "name", y_name, x=4, y=_TOP - 12))
        return shapes


def _chart(about: str, shapes: Sequence[Shape]) -> Markup:
    return drawings.chart(about, shapes, WIDTH, HEIGHT)


def line_chart(
    title: str,
    lines: Sequence[Line],
    axis_names: tuple[str, str],
    caption: Any,
    *,
    about: str | None = None,
    legend: Sequence[tuple[str, Any]] | None = None,
    log_x: bool = False,
    log_y: bool = False,
    rules: Sequence[tuple[str, float]] = (),
    y_values: Sequence[float] = (),
    x_ticks: Sequence[float] = (),
) -> Markup:
    """Draw a figure of curves over a common axis.

    ``about`` describes it to screen readers. The legend (colour class and name) lists all lines by
    default and is shown only if it has several entries. ``rules`` are horizontal lines (colour
    class and height). The vertical scale also includes ``y_values``.
    """
    xs = [v for line in lines for v in line.x]
    ys = [value for _, value in rules]
    ys += y_values
    for line in lines:
        ys += [*line.y, *line.low, *line.high]
    if log_x:
        x_scale = logarithmic(xs)
    else:
        x_scale = linear(xs, pad=0.0)
        # Whole numbers are counts, which have no ticks at fractions.
        if all(float(v).is_integer() for v in xs):
            x_scale = replace(x_scale, ticks=tuple(t for t in x_scale.ticks if t.is_integer()))
    if x_ticks:
        x_scale = replace(x_scale, ticks=tuple(x_ticks))
    y_scale = linear(ys)
    if log_y:
        y_scale = logarithmic(ys)
    frame = _Frame(x_scale, y_scale)
    shapes = frame.axes(*axis_names)
    for kind, value in rules:
        y = frame.y(value)
        shapes.append(_shape("line", f"rule {kind}", x1=_LEFT, x2=WIDTH - _RIGHT, y1=y, y2=y))
    # Bands lie under all curves, curves under all points.
    shapes += [_band(frame, line) for line in lines if len(line.low)]
    shapes += [_curve(frame, line) for line in lines if line.joined]
    for line in lines:
        if line.points:
            shapes += _points(frame, line)
    chart = _chart(about or f"{axis_names[1]} against {axis_names[0]}", shapes)
    if legend is None:
        legend = [(line.kind, name(line.name, 40)) for line in lines]
    return parts.figure(title, chart, caption, legend if len(legend) > 1 else ())


def _band(frame: _Frame, line: Line) -> Shape:
    # One polygon: along the upper ends to the right, and back along the lower ends.
    upper = [f"{frame.x(x)},{frame.y(v)}" for x, v in zip(line.x, line.high, strict=True)]
    lower = [f"{frame.x(x)},{frame.y(v)}" for x, v in zip(line.x, line.low, strict=True)]
    return _shape("polygon", f"band {line.kind}", points=" ".join([*upper, *lower[::-1]]))


def _curve(frame: _Frame, line: Line) -> Shape:
    corners: list[str] = []
    previous: float | None = None
    for x, y in zip(line.x, line.y, strict=True):
        if not math.isfinite(y):
            continue
        height = frame.y(y)
        if line.step and previous is not None:
            corners.append(f"{frame.x(x)},{previous}")
        corners.append(f"{frame.x(x)},{height}")
        previous = height
    return _shape("polyline", f"line {line.kind}", points=" ".join(corners))


def _points(frame: _Frame, line: Line) -> list[Shape]:
    dots = []
    for k, (x, y) in enumerate(zip(line.x, line.y, strict=True)):
        if not math.isfinite(y):
            continue
        tip = line.tips[k] if line.tips else f"{line.name}: {y:.4g} at {x:.6g}"
        css = f"dot {line.kind}"
        dots.append(_shape("circle", css, _tooltip(tip), cx=frame.x(x), cy=frame.y(y), r=3))
    return dots


def histogram(
    title: str,
    edges: Sequence[float],
    counts: Sequence[float],
    axis_names: tuple[str, str],
    caption: Any,
    *,
    about: str,
    split: float | None = None,
    rules: Sequence[tuple[str, float]] = (),
    labels: Sequence[str] | None = None,
) -> Markup:
    """Draw a figure of columns between edges; those below ``split`` take the other colour.

    ``rules`` are vertical lines (colour class and position). With ``labels``, which name the
    columns, the edges are 0, 1, 2, ... and the axis has no numbers.
    """
    if labels is None:
        ticks = linear([edges[0], edges[-1]], pad=0.0).ticks
    else:
        ticks = tuple((a + b) / 2 for a, b in zip(edges[:-1], edges[1:], strict=True))
    y_scale = linear([0.0, max(counts, default=1.0) or 1.0], n_ticks=4)
    # Columns must start at zero: their area is what the reader compares.
    frame = _Frame(Scale(edges[0], edges[-1], ticks), Scale(0.0, y_scale.high, y_scale.ticks))
    shapes = frame.axes(*axis_names, labels)
    bottom = frame.y(0.0)
    for k, height in enumerate(counts):
        left, right = frame.x(edges[k]), frame.x(edges[k + 1])
        label = labels[k] if labels is not None else f"{edges[k]:.4g} to {edges[k + 1]:.4g}"
        below = split is not None and edges[k + 1] <= split
        # A column that counts anything is at least 1.5 units high, so that it can be seen.
        top = min(frame.y(height), bottom - 1.5) if height else bottom
        shapes.append(
            _shape(
                "rect",
                f"column {'against' if below else 'model'}",
                _tooltip(f"{label}: {height:,.0f}"),
                x=_tenth(left + 0.7),
                width=_tenth(max(right - left - 1.4, 0.8)),
                y=top,
                height=_tenth(bottom - top),
            )
        )
    for rule, value in rules:
        x = frame.x(value)
        shapes.append(_shape("line", f"rule {rule}", x1=x, x2=x, y1=_TOP, y2=bottom))
    return parts.figure(title, _chart(about, shapes), caption)


class Bar(NamedTuple):
    """A row of ``bars``: its name, the bar's length, its tooltip, and further cells."""

    name: Any
    value: float
    tip: str
    cells: Sequence[Any]


def bars(
    title: str,
    rows: Sequence[Bar],
    caption: Any,
    *,
    header: Sequence[str] = (),
    kind: str | None = "model",
    largest: float | None = None,
) -> Markup:
    """Draw a figure that is a table with a bar in every row; ``largest`` is a full bar's length.

    With ``kind`` None, bars start in the middle: positive ones to the right, negative ones to the
    left.
    """
    if largest is None:
        largest = max(abs(row.value) for row in rows)
    drawn = [(row.name, _bar(row, largest, kind), row.cells) for row in rows]
    return parts.figure(title, parts.bar_table(header, drawn), caption)


def _bar(row: Bar, largest: float, kind: str | None) -> Markup:
    share = abs(row.value) / largest if largest > 0 else 0.0
    # A bar of less than 0.6 % of the width would be invisible.
    width = max(100 * share, 0.6 if row.value else 0.0)
    left, css = 0.0, f"column {kind}"
    if kind is None:
        width /= 2
        left, css = (50.0, "column plus") if row.value > 0 else (50.0 - width, "column minus")
    x, width = _hundredth(left), _hundredth(width)
    shapes = [_shape("rect", css, x=x, y=1, width=width, height=8, rx=1)]
    if kind is None:
        shapes.append(_shape("line", "zero", x1=50, x2=50, y1=0, y2=10))
    return drawings.strip(shapes, row.tip)


def interval(
    mean: float,
    ends: tuple[float, float] | None,
    scale: Scale,
    kind: str,
    tip: str,
    *,
    zero: float | None = None,
) -> Markup:
    """Draw a mark with its interval on a common scale, for a cell of a table.

    ``zero`` draws a vertical rule at that value.
    """

    def x_of(value: float) -> float:
        return _hundredth(3 + 94 * scale(value))

    # The strip is 100 units wide; 3 at either end leave room for half a mark.
    shapes = [_shape("line", "grid", x1=0, x2=100, y1=5, y2=5)]
    if zero is not None:
        x = x_of(zero)
        shapes.append(_shape("line", "zero", x1=x, x2=x, y1=0, y2=10))
    if ends is not None:
        left, right = map(x_of, ends)
        width = _hundredth(max(right - left, 0.5))
        shapes.append(_shape("rect", f"span {kind}", x=left, width=width, y=3, height=4))
    x = _hundredth(x_of(mean) - 0.7)
    shapes.append(_shape("rect", f"column {kind}", x=x, y=0, width=1.4, height=10))
    return drawings.strip(shapes, tip)


def heat_map(
    title: str,
    values: Sequence[Sequence[float]],
    tips: Sequence[Sequence[str]],
    axis_names: tuple[str, str],
    caption: Any,
    *,
    labels: tuple[Sequence[str], Sequence[str]],
) -> Markup:
    """Draw a table as coloured cells, the first row at the bottom; opacity grows with |value|.

    ``labels`` name the columns and the rows. Some are left out where there is no room for all.
    """
    largest = max((abs(v) for row in values for v in row), default=0.0) or 1.0
    height = (HEIGHT - _TOP - _BOTTOM) / len(values)
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    shapes = [
        _shape("text", "name mid", axis_names[0], x=middle, y=HEIGHT - 8),
        _shape("text", "name", axis_names[1], x=4, y=_TOP - 12),
    ]
    for a, row in enumerate(values):
        width = (WIDTH - _LEFT - _RIGHT) / len(row)
        for b, value in enumerate(row):
            shapes.append(
                _shape(
                    "rect",
                    f"column {'plus' if value > 0 else 'minus'}",
                    _tooltip(f"{tips[a][b]}: {value:+.4g}"),
                    x=_hundredth(_LEFT + b * width),
                    y=_hundredth(HEIGHT - _BOTTOM - (a + 1) * height),
                    width=_hundredth(width),
                    height=_hundredth(height),
                    fill_opacity=round(abs(value) / largest, 3),
                )
            )
    column_labels, row_labels = labels
    width = (WIDTH - _LEFT - _RIGHT) / len(column_labels)
    for b in _spread_out(len(column_labels), MAX_X_LABELS):
        # The last label, such as "missing", ends inside the drawing.
        x, label = _tenth(min(_LEFT + (b + 0.5) * width, WIDTH - 24)), _cut(column_labels[b])
        shapes.append(_shape("text", "tick mid", label, x=x, y=HEIGHT - _BOTTOM + 14))
    for a in _spread_out(len(row_labels), MAX_Y_LABELS):
        y, label = _tenth(HEIGHT - _BOTTOM - (a + 0.5) * height + 4), _cut(row_labels[a])
        shapes.append(_shape("text", "tick end", label, x=_LEFT - 6, y=y))
    return parts.figure(title, _chart(f"Grid of {title}", shapes), caption)


def _spread_out(n: int, most: int) -> list[int]:
    """Return at most ``most`` of n positions, evenly spread, with the first and the last."""
    if n <= most:
        return list(range(n))
    return [round(k * (n - 1) / (most - 1)) for k in range(most)]


def _cut(text: str) -> str:
    """Shorten the label of a tick."""
    if len(text) <= LABEL_LENGTH:
        return text
    return f"{text[: LABEL_LENGTH - 1]}\N{HORIZONTAL ELLIPSIS}"
