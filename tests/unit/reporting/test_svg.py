"""Marks stand where their numbers are: places are read back from the pictures."""

import itertools
import math
import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from rankine.reporting import svg
from rankine.reporting.svg import (
    Bar,
    Line,
    Scale,
    bars,
    heat_map,
    histogram,
    interval,
    line_chart,
    linear,
    logarithmic,
)

LEFT, RIGHT = svg._LEFT, svg.WIDTH - svg._RIGHT
TOP, BOTTOM = svg._TOP, svg.HEIGHT - svg._BOTTOM


def value(text):
    return float(text.replace(",", "").replace("\N{MINUS SIGN}", "-"))


class Drawn:
    """A figure: its elements by class, and the axes as their ticks tell them."""

    def __init__(self, figure, *, log_x=False, log_y=False):
        self.root = ET.fromstring(str(figure))  # noqa: S314 - our own picture
        self.log = (log_x, log_y)

    def of(self, kind, name=None):
        """Elements whose classes begin so, as attributes; ``text`` is what stands inside."""
        found = []
        for one in self.root.iter():
            held = one.attrib.get("class", "").split()
            if held[: len(kind.split())] == kind.split() and name in (None, one.tag):
                numbers = {k: value(v) for k, v in one.attrib.items() if _is_number(v)}
                inside = "".join(one.itertext())
                found.append({**one.attrib, **numbers, "text": inside})
        return found

    def places(self, across):
        """Tick values and where they stand."""
        if across:
            return [(value(one["text"]), one["x"]) for one in self.of("tick mid")]
        lines = {one["y1"] for one in self.of("grid")}
        found = [(value(one["text"]), one["y"] - 4) for one in self.of("tick end")]
        assert all(min(abs(y - line) for line in lines) < 0.05 for _, y in found)
        return found

    def at(self, number, *, across):
        """Where a value stands by the axis, from its first and last tick."""
        bend = math.log if self.log[0 if across else 1] else float
        (a, x), *_, (b, y) = self.places(across)
        return x + (bend(number) - bend(a)) / (bend(b) - bend(a)) * (y - x)

    def stands(self, point, place):
        """Whether a place of the picture belongs to a point of the data."""
        assert place[0] == pytest.approx(self.at(point[0], across=True), abs=0.25)
        assert place[1] == pytest.approx(self.at(point[1], across=False), abs=0.25)


def _is_number(text):
    return re.fullmatch(r"-?[\d.]+", text) is not None


def pairs(text):
    return [tuple(map(float, part.split(","))) for part in text.split()]


# ---------------------------------------------------------------------- scales
ROUND = sorted(m * 10.0**d for m in (1, 2, 2.5, 5) for d in range(-9, 12))


@pytest.mark.parametrize(
    "values",
    [(0.2, 0.7), (3.0, 3.0), (-4.0, 9.0), (0.0, 1.0), (0.0, 0.0), (150.0, 90_000.0), (-0.03, 0.04),
     (0.0, 5.0), (0.5, 1.5), (-0.5, 1.0), (1.0, math.nan, 3.0), (-2.0, -2.0), (0.01, 0.01),
     (0.0, 20.0)],
)  # fmt: skip
@pytest.mark.parametrize("pad", [0.0, 0.06])
@pytest.mark.parametrize("n_ticks", [4, 5])
def test_a_linear_scale_is_padded_and_its_ticks_are_round(values, pad, n_ticks):
    known = [v for v in values if math.isfinite(v)]
    low, high = min(known), max(known)
    if low == high:
        reach = 0.5 * max(abs(low), 0.1)
        low, high = low - reach, high + reach
    margin = pad * (high - low)
    start, stop = low - margin, high + margin
    if min(known) >= 0:
        start = max(start, 0.0)
        if max(known) <= 1:
            stop = min(stop, 1.0)
    scale = linear(values, pad=pad, n_ticks=n_ticks)
    assert (scale.low, scale.high) == pytest.approx((start, stop))
    step = next(s for s in ROUND if s >= (stop - start) / n_ticks * 0.99999)
    some = np.arange(math.floor(start / step) - 1, math.ceil(stop / step) + 2) * step
    inside = [t for t in some if start - 1e-9 * step <= t <= stop + 1e-9 * step]
    assert scale.ticks == pytest.approx(inside)
    assert not scale.log


def test_a_scale_of_nothing_is_from_zero_to_one():
    assert (linear([]).low, linear([math.nan]).high) == (0.0, 1.0)
    assert (logarithmic([]).low, logarithmic([-1.0, 0.0]).high) == (1.0, 10.0)


@pytest.mark.parametrize(
    "values",
    [(1.0, 100.0), (1.0, 158.0), (1.0, 10**2.2), (1.0, 160.0), (0.002, 0.2), (3.0, 4.0),
     (7.0, 7.0), (1e-9, 1e9), (0.0, math.inf, 2.0, 50.0), (1e4, 3e6), (0.05, 0.5), (1e-3, 1e3)],
)  # fmt: skip
def test_a_logarithmic_scale_has_few_round_ticks(values):
    known = [v for v in values if 0 < v < math.inf]
    low, high = min(known), max(known)
    if low == high:
        low, high = low / 2, high * 2
    scale = logarithmic(values)
    assert (scale.low, scale.high, scale.log) == (low, high, True)
    steps = (1, 2, 5) if high / low <= 10**2.2 else (1,)
    every = sorted(s * 10.0**d for s in steps for d in range(-12, 12))
    inside = [t for t in every if low * 0.999999 <= t <= high * 1.000001]
    thin = next(k for k in itertools.count(1) if len(inside[::k]) <= 7)
    assert scale.ticks == pytest.approx(inside[::thin])
    assert [value(scale.label(tick)) for tick in scale.ticks] == pytest.approx(scale.ticks)


def test_a_scale_gives_the_share_of_the_way():
    for scale, places in (
        (Scale(2.0, 6.0, ()), {2.0: 0, 3.0: 0.25, 5.0: 0.75, 6.0: 1, 1.0: 0, 7.0: 1}),
        (Scale(1.0, 16.0, (), log=True), {1.0: 0, 2.0: 0.25, 8.0: 0.75, 16.0: 1, 0.0: 0, 99.0: 1}),
        (Scale(3.0, 3.0, ()), {3.0: 0.5}),
    ):
        assert {v: scale(v) for v in places} == pytest.approx(places)


@pytest.mark.parametrize(
    "tick", [-2000.0, -5.5, 0.0, 0.25, 999.0, 1000.0, 99_999.0, 1e5, -1e5, 250_000.0, 1e12]
)
def test_the_text_of_a_tick_is_its_value(tick):
    text = linear([0.0, 1.0]).label(tick)
    assert value(text) == tick
    assert ("," in text) == (1000 <= abs(tick) < 1e5)
    assert ("e" in text) == (abs(tick) >= 1e5)


def test_small_ticks_of_a_logarithmic_axis_are_powers():
    label = logarithmic([1e-4, 1e6]).label
    texts = {0.005: "5e-3", 0.01: "0.01", 99.0: "99", 2000.0: "2,000", 1e5: "1e5", 2e6: "2e6"}
    assert {tick: label(tick) for tick in texts} == texts


# ---------------------------------------------------------------------- curves
LINES = {
    "plain": (Line("a", "model", [1.0, 2.0, 4.0], [0.2, 0.9, 0.4]), {}),
    "fractions": (Line("a", "model", [0.1, 0.35, 0.9], [-3.0, 8.0, 2.5]), {}),
    "log x": (Line("a", "model", [1.0, 30.0, 2000.0], [5.0, 6.0, 7.5]), {"log_x": True}),
    "log y": (Line("a", "model", [0.0, 10.0, 20.0], [100.0, 1.0, 0.02]), {"log_y": True}),
    "band": (
        Line("a", "model", [1.0, 2.0, 3.0], [0.5, 0.6, 0.4], [0.2, 0.3, 0.1], [0.7, 0.95, 0.6]),
        {},
    ),
    "rule": (Line("a", "model", [5.0, 6.0], [0.5, 0.6]), {"rules": [("soft", 0.1)]}),
    "taller": (Line("a", "model", [5.0, 6.0], [0.5, 0.6]), {"y_values": (0.0, 1.0)}),
    "thousands": (Line("a", "model", [0.0, 9e5], [-2000.0, 70_000.0]), {}),
}


@pytest.mark.parametrize("case", LINES)
def test_points_are_drawn_at_their_values(case):
    line, options = LINES[case]
    logs = {key: options[key] for key in ("log_x", "log_y") if key in options}
    drawn = Drawn(line_chart("title", [line], ("across", "up"), "words", **options), **logs)
    points = list(zip(line.x, line.y, strict=True))
    dots = drawn.of("dot model")
    for point, dot in zip(points, dots, strict=True):
        drawn.stands(point, (dot["cx"], dot["cy"]))
        assert dot["text"] == f"a: {point[1]:.4g} at {point[0]:.6g}"
    (curve,) = drawn.of("line model")
    assert pairs(curve["points"]) == [(dot["cx"], dot["cy"]) for dot in dots]
    if line.low:
        (band,) = drawn.of("band model")
        above = list(zip(line.x, line.high, strict=True))
        around = [*above, *list(zip(line.x, line.low, strict=True))[::-1]]
        for point, place in zip(around, pairs(band["points"]), strict=True):
            drawn.stands(point, place)
    for _, level in options.get("rules", ()):
        (rule,) = drawn.of("rule soft")
        assert (rule["x1"], rule["x2"]) == (LEFT, RIGHT)
        assert rule["y1"] == rule["y2"] == pytest.approx(drawn.at(level, across=False), abs=0.25)
    for level in options.get("y_values", ()):
        assert TOP - 1 <= drawn.at(level, across=False) <= BOTTOM + 1
    if all(x.is_integer() for x in line.x):
        assert all(tick.is_integer() for tick, _ in drawn.places(across=True))
    for across in (True, False):
        assert 2 <= len(drawn.places(across=across)) <= 8


@pytest.mark.parametrize("case", LINES)
def test_everything_is_drawn_inside_the_frame(case):
    line, options = LINES[case]
    drawn = Drawn(line_chart("title", [line], ("across", "up"), "words", **options))
    picture = drawn.of("chart")[0]
    assert picture["viewBox"] == f"0 0 {svg.WIDTH} {svg.HEIGHT}"
    assert picture["aria-label"] == "up against across"
    numbers = re.findall(r'(?:x|y|x1|x2|y1|y2|cx|cy)="([^"]*)"', str(line_chart(
        "title", [line], ("across", "up"), "words", **options)))  # fmt: skip
    assert all(len(number.partition(".")[2]) <= 1 for number in numbers)
    (axis,) = drawn.of("axis")
    assert (axis["x1"], axis["x2"], axis["y1"], axis["y2"]) == (LEFT, RIGHT, BOTTOM, BOTTOM)
    for grid, label in zip(drawn.of("grid"), drawn.of("tick end"), strict=True):
        assert (grid["x1"], grid["x2"]) == (LEFT, RIGHT)
        assert TOP <= grid["y1"] == grid["y2"] <= BOTTOM
        assert 0 < label["x"] < LEFT
        assert grid["y1"] < label["y"] < grid["y1"] + 8  # the middle of the letters
    for mark, label in zip(drawn.of("mark"), drawn.of("tick mid"), strict=True):
        assert LEFT <= mark["x1"] == mark["x2"] == label["x"] <= RIGHT
        assert (mark["y1"], mark["y2"]) == (BOTTOM, BOTTOM + 4)
        assert mark["y2"] + 10 < label["y"] < svg.HEIGHT - 20
    (across,) = drawn.of("name mid")
    assert across["text"] == "across"
    assert across["x"] == (LEFT + RIGHT) / 2
    assert drawn.of("tick mid")[0]["y"] + 12 < across["y"] < svg.HEIGHT
    up = next(one for one in drawn.of("name") if one["text"] == "up")
    assert 0 < up["x"] < LEFT
    assert 10 < up["y"] < TOP


def test_a_line_may_be_steps_and_leaves_out_what_is_no_number():
    line = Line("a", "model", [1.0, 2.0, 3.0, 4.0], [0.1, math.nan, 0.3, 0.2], step=True)
    drawn = Drawn(line_chart("title", [line], ("x", "y"), "words"))
    a, b, c = [(dot["cx"], dot["cy"]) for dot in drawn.of("dot")]
    (curve,) = drawn.of("line")
    assert pairs(curve["points"]) == [a, (b[0], a[1]), b, (c[0], b[1]), c]
    whole = Line("a", "model", line.x, line.y)
    drawn = Drawn(line_chart("title", [whole], ("x", "y"), "words"))
    assert pairs(drawn.of("line")[0]["points"]) == [a, b, c]


def test_tips_ticks_and_keys_are_those_that_are_given():
    first = Line("first", "model", [1.0, 2.0], [0.1, 0.2], tips=["one", "two"], joined=False)
    second = Line("second", "against", [1.0, 9.0], [0.4, 0.3], points=False)
    drawn = Drawn(
        line_chart("t", [first, second], ("x", "y"), "words", about="all", x_ticks=(1.0, 5.0, 8.0))
    )
    assert [dot["text"] for dot in drawn.of("dot model")[1:]] == ["one", "two"]  # after the key's
    assert [tick for tick, _ in drawn.places(across=True)] == [1.0, 5.0, 8.0]
    assert drawn.of("chart")[0]["aria-label"] == "all"
    named = ["".join(item.itertext()).strip() for item in drawn.root.iter("li")]
    assert named == ["first", "second"]
    assert len(drawn.of("line model", "polyline")) == 0
    assert len(drawn.of("line against", "polyline")) == 1
    assert len(drawn.of("dot against")) == 1  # of the key
    for kind in ("model", "against"):
        sample, dot = drawn.of(f"line {kind}", "line")[0], drawn.of(f"dot {kind}")[0]
        assert (sample["x1"], sample["x2"]) == (0, 18)
        assert sample["y1"] == sample["y2"] == dot["cy"] == 6
        assert dot["cx"] == 9
    alone = Drawn(line_chart("t", [first], ("x", "y"), "words"))
    assert alone.of("key") == []
    key = [("soft", "s"), ("shown", "o")]
    given = Drawn(line_chart("t", [first], ("x", "y"), "words", legend=key))
    assert "".join(given.root.find("ul").itertext()).split() == ["s", "o"]


# ---------------------------------------------------------------------- columns
@pytest.mark.parametrize(
    ("edges", "counts"),
    [
        ([0.0, 1.0, 2.0, 3.0], [3, 0, 2]),
        ([-1.5, -0.5, 0.5, 1.5], [1, 5000, 40]),
        ([0.5, 1.0, 3.0], [7, 1]),
        ([0.0, 2.0], [0]),
        ([float(k) for k in range(401)], [k % 7 for k in range(400)]),
    ],
)
def test_columns_are_drawn_between_their_edges(edges, counts):
    drawn = Drawn(
        histogram("t", edges, counts, ("x", "y"), "words", about="all", rules=[("soft", edges[1])])
    )
    columns = drawn.of("column model")
    for k, (one, count) in enumerate(zip(columns, counts, strict=True)):
        left, right = (drawn.at(edge, across=True) for edge in edges[k : k + 2])
        assert one["text"] == f"{edges[k]:.4g} to {edges[k + 1]:.4g}: {count:,}"
        if right - left > 3:  # a gap between neighbours
            assert left + 0.4 < one["x"] < left + 1
            assert right - 1 < one["x"] + one["width"] < right - 0.4
        else:
            assert one["width"] == 0.8
        assert one["y"] + one["height"] == pytest.approx(BOTTOM, abs=0.05)
        tall = BOTTOM - drawn.at(count, across=False)
        least = 1.5 if count else 0.0
        assert one["height"] == pytest.approx(max(tall, least), abs=0.25)
        assert (one["height"] == 0) == (count == 0)
    (rule,) = drawn.of("rule soft")
    assert rule["x1"] == rule["x2"] == pytest.approx(drawn.at(edges[1], across=True), abs=0.25)
    assert (rule["y1"], rule["y2"]) == (TOP, BOTTOM)
    across = linear([edges[0], edges[-1]], pad=0.0).ticks
    assert [tick for tick, _ in drawn.places(across=True)] == pytest.approx(across)
    steps = linear([0.0, max(counts) or 1.0], n_ticks=4)
    assert [tick for tick, _ in drawn.places(across=False)] == pytest.approx(steps.ticks)
    most = drawn.at(steps.high, across=False)
    assert most == pytest.approx(TOP, abs=0.3)


def test_columns_may_have_names():
    drawn = Drawn(
        histogram("t", [0, 1, 2, 3], [4, 2, 1], ("x", "y"), "w", about="a", labels=["n", "o", "p"])
    )
    columns = drawn.of("column model")
    for column, tick, name in zip(columns, drawn.of("tick mid"), "nop", strict=True):
        assert tick["text"] == name
        assert column["x"] + column["width"] / 2 == pytest.approx(tick["x"], abs=0.1)
        assert column["text"].startswith(f"{name}: ")


@pytest.mark.parametrize("reach", [1.0, 0.3, 0.7, 1e-6, 0.123456789])
def test_only_columns_wholly_below_the_split_have_the_other_colour(reach):
    edges = np.histogram([0.0], bins=21, range=(-reach, reach))[1].tolist()
    drawn = Drawn(histogram("t", edges, [1] * 21, ("x", "y"), "w", about="a", split=0.0))
    assert len(drawn.of("column against")) == 10
    assert len(drawn.of("column model")) == 11
    assert max(one["x"] for one in drawn.of("column against")) < drawn.of("column model")[0]["x"]
    even = Drawn(histogram("t", [-1, 0, 1], [1, 1], ("x", "y"), "w", about="a", split=0.0))
    assert len(even.of("column against")) == len(even.of("column model")) == 1


# ---------------------------------------------------------------------- tables
@pytest.mark.parametrize("largest", [None, 8.0])
def test_a_bar_is_as_long_as_its_share_and_centred_in_its_cell(largest):
    sizes = [2.0, -0.5, 0.001, 0.0]
    rows = [Bar(f"n{k}", size, f"tip {k}", ("x", "y")) for k, size in enumerate(sizes)]
    header = ("a", "b", "c", "d")
    drawn = Drawn(bars("title", rows, "words", header=header, kind="plus", largest=largest))
    found = drawn.of("column plus")
    for bar, size in zip(found, sizes, strict=True):
        share = 100 * abs(size) / (largest or 2.0)
        assert bar["width"] == pytest.approx(max(share, 0.6 if size else 0.0), abs=0.01)
        assert (bar["x"], bar["rx"]) == (0, 1)
        assert 2 * bar["y"] + bar["height"] == 10
    assert all(one["viewBox"] == "0 0 100 10" for one in drawn.of("strip"))
    heads = [one.attrib.get("class") for one in drawn.root.find("table/thead/tr")]
    assert heads == [None, "wide", "n", "n"]
    assert drawn.root.find("table/thead/tr/th").text == "a"
    assert Drawn(bars("t", rows, "w")).root.find("table/thead") is None


def test_bars_of_nothing_have_no_length():
    drawn = Drawn(bars("title", [Bar("n", 0.0, "tip", ()), Bar("m", 0.0, "tip", ())], "words"))
    assert [bar["width"] for bar in drawn.of("column")] == [0, 0]


@pytest.mark.parametrize("zero", [None, 0.25, 0.5])
@pytest.mark.parametrize("ends", [None, (0.4, 0.6), (0.5, 0.5)])
def test_an_interval_is_drawn_at_its_share_of_the_width(zero, ends):
    third = str(interval(1 / 3, (1 / 7, 2 / 3), linear([0.0, 1.0]), "model", "tip"))
    assert not re.search(r"\.\d{3}", third)
    drawn = Drawn(interval(0.5, ends, linear([0.0, 1.0]), "model", "tip", zero=zero))
    (mark,) = drawn.of("column model")
    assert mark["x"] + mark["width"] / 2 == pytest.approx(3 + 94 * 0.5)
    assert (mark["y"], mark["height"], mark["width"]) == (0, 10, 1.4)
    (grid,) = drawn.of("grid")
    assert (grid["x1"], grid["x2"], grid["y1"], grid["y2"]) == (0, 100, 5, 5)
    rules = drawn.of("zero")
    assert [(r["x1"], r["x2"], r["y1"], r["y2"]) for r in rules] == (
        [] if zero is None else [(3 + 94 * zero, 3 + 94 * zero, 0, 10)]
    )
    spans = drawn.of("span model")
    assert len(spans) == (ends is not None)
    for span in spans:
        assert span["x"] == pytest.approx(3 + 94 * ends[0])
        assert span["width"] == pytest.approx(max(94 * (ends[1] - ends[0]), 0.5))
        assert 2 * span["y"] + span["height"] == 10
        assert span["height"] == 4


@pytest.mark.parametrize(
    "cells", [[[1.0, -2.0, 0.0], [0.5, 0.25, -0.125]], [[0.0, 0.0]], [[3.0], [1.0], [-7.0]]]
)
def test_cells_of_a_heat_map_fill_the_frame(cells):
    tips = [[f"{a} {b}" for b in range(len(row))] for a, row in enumerate(cells)]
    labels = ([""] * len(cells[0]), [""] * len(cells))
    drawn = Drawn(heat_map("title", cells, tips, ("across", "up"), "words", labels=labels))
    found = drawn.of("column")
    most = max(abs(v) for row in cells for v in row) or 1.0
    width, height = (RIGHT - LEFT) / len(cells[0]), (BOTTOM - TOP) / len(cells)
    places = [(a, b) for a, row in enumerate(cells) for b in range(len(row))]
    for (a, b), one in zip(places, found, strict=True):
        assert one["x"] == pytest.approx(LEFT + b * width, abs=0.01)
        assert one["y"] + one["height"] == pytest.approx(BOTTOM - a * height, abs=0.02)
        assert (one["width"], one["height"]) == pytest.approx((width, height), abs=0.01)
        assert one["fill-opacity"] == pytest.approx(abs(cells[a][b]) / most, abs=0.001)
        assert one["class"] == f"column {'plus' if cells[a][b] > 0 else 'minus'}"
        assert one["text"] == f"{a} {b}: {cells[a][b]:+.4g}"
    for b, tick in enumerate(drawn.of("tick mid")):
        assert tick["x"] == pytest.approx(min(LEFT + (b + 0.5) * width, svg.WIDTH - 24), abs=0.05)
        assert BOTTOM < tick["y"] < svg.HEIGHT
    for a, tick in enumerate(drawn.of("tick end")):
        assert tick["x"] == LEFT - 6
        assert tick["y"] == pytest.approx(BOTTOM - (a + 0.5) * height + 4, abs=0.05)
    across, up = drawn.of("name")
    assert (across["text"], up["text"]) == ("across", "up")
    assert across["x"] == (LEFT + RIGHT) / 2
    assert BOTTOM + 10 < across["y"] < svg.HEIGHT
    assert 10 < up["y"] < TOP
    assert 0 < up["x"] < LEFT
