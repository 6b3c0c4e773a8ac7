"""Marks stand where their numbers are."""

import math
import re

import pytest

from rankine.report.svg import Bar, Line, bars, histogram, interval, line_chart, linear, logarithmic


@pytest.mark.parametrize("zero", [0.25, 0.5])
def test_the_rule_of_an_interval_stands_at_its_share_of_the_width(zero):
    drawn = str(interval(0.5, 0.4, 0.6, linear([0.0, 1.0]), "model", "tip", zero=zero))
    assert f'x1="{3 + 94 * zero}"' in drawn


def test_values_that_are_not_numbers_have_no_dot_and_hide_no_other():
    line = Line("a line", "model", [1.0, 2.0, 3.0], [0.1, math.nan, 0.3])
    drawn = str(line_chart("title", [line], ("x", "y"), "words"))
    assert drawn.count("<circle") == 2
    assert len(re.search(r'points="([^"]*)"', drawn)[1].split()) == 2


def test_a_bar_is_as_long_as_its_share_and_stands_in_the_middle_of_its_cell():
    drawn = str(bars("title", [Bar("a", 2.0, "tip", ()), Bar("b", -0.5, "tip", ())], "words"))
    box = re.search(r'viewBox="0 0 100 (\d+)"', drawn)
    for part, width in zip(drawn.split("<rect")[1:], ("100", "25"), strict=True):
        held = dict(re.findall(r'(\w+)="([\d.]+)"', part.partition(">")[0]))
        assert float(held["width"]) == float(width)
        assert 2 * float(held["y"]) + float(held["height"]) == float(box[1])


def test_columns_of_a_histogram_do_not_overlap():
    drawn = str(histogram("t", [0.0, 1.0, 2.0, 3.0], [3, 0, 2], ("x", "y"), "words", about="all"))
    held = [
        dict(re.findall(r'(\w+)="(-?[\d.]+)"', part.partition(">")[0]))
        for part in drawn.split("<rect")[1:]
    ]
    ends = [float(one["x"]) + float(one["width"]) for one in held]
    assert all(end < float(one["x"]) for end, one in zip(ends[:-1], held[1:], strict=True))
    heights = [float(one["height"]) for one in held]
    assert heights[0] > heights[2] > heights[1] == 0.0


@pytest.mark.parametrize(
    "values", [(0.2, 0.7), (3.0, 3.0), (-4.0, 9.0), (0.0, 1.0), (0.0, 0.0), (150.0, 90_000.0)]
)
def test_a_scale_holds_its_values_and_its_ticks(values):
    scale = linear(values)
    assert scale.low <= min(values) <= max(values) <= scale.high
    assert all(scale.low <= tick <= scale.high for tick in scale.ticks)
    assert scale.low < min(values) or min(values) == 0.0
    assert scale.high > max(values) or max(values) == 1.0
    assert 0.0 <= scale(min(values)) < scale(max(values)) or values[0] == values[1]
    if min(values) > 0:
        log = logarithmic(values)
        assert log(min(values)) <= log(max(values))
        assert all(log.low * 0.999 <= tick <= log.high * 1.001 for tick in log.ticks)


@pytest.mark.parametrize(
    "tick", [-2000.0, -5.5, 0.0, 0.25, 999.0, 1000.0, 99_999.0, 250_000.0, 1e12]
)
def test_the_text_of_a_tick_is_its_value(tick):
    text = linear([0.0, 1.0]).label(tick)
    assert float(text.replace(",", "").replace("\N{MINUS SIGN}", "-")) == tick
    assert ("," in text) == (1000 <= abs(tick) < 1e5)
