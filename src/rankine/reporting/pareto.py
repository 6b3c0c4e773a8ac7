"""The front of several goals on a page: charts of the points, and what a share of a goal buys."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from rankine.reporting.html import captions, concatenate, name, parts, sentences
from rankine.reporting.numbers import number, percent
from rankine.reporting.origin import command_section
from rankine.reporting.page import Report, Section, figures, make_report, result_table
from rankine.reporting.svg import Line, line_chart

if TYPE_CHECKING:
    from rankine.evaluation.pareto import ParetoFront


def front_report(front: ParetoFront, title: str | None, command: str | None) -> Report:
    """Make the page of a front."""
    title = title or f"Front of {' and '.join(front.goals)}"
    tiles = [
        parts.tile("points", str(len(front)), f"{int(front.test.optimal.sum())} not dominated"),
        parts.tile("hypervolume", number(front.test.hypervolume, 3), "above a random order"),
    ]
    if front.choice is not None:
        for result in front.choice.results:
            ends = f"{percent(result.share, 1)} of the best"
            tiles.append(parts.tile(name(result.goal, 40), number(result.value), ends))
    sections = [front_section(front), *command_section(command)]
    summary = sentences.front_summary(front)
    return make_report(title, "rankine front", summary, tiles, sections, front.to_dict())


def front_section(front: ParetoFront) -> Section:
    """Build the section that draws a front and lists its points."""
    charts: list[Markup | None] = []
    for goal in front.goals[1:]:
        charts += [_front(front, goal), _trade(front, goal)]
    tables = [parts.card(result_table(each)) for each in front.tables()]
    body = figures(*charts) + concatenate(tables)
    lead = captions.front_lead(front)
    return Section("front", "Goals", "What does one goal cost the other?", lead, body)


def _front(front: ParetoFront, goal: str) -> Markup:
    """Draw the test values of the first goal and another one."""
    test, first, k = front.test, front.goals[0], front.goals.index(goal)
    x, y = test.values[:, 0], test.values[:, k]
    shares = [" and ".join(f"{share:.0%}" for share in row) for row in front.shares]
    tips = [
        f"point {point}, shares {shares[point]}: {number(float(x[point]))} {first}, "
        f"{number(float(y[point]))} {goal}"
        for point in range(len(front))
    ]

    def dots(title: str, kind: str, points: Any) -> Line:
        points = points[np.argsort(x[points], kind="stable")]
        labels = [tips[point] for point in points]
        return Line(title, kind, x[points].tolist(), y[points].tolist(), joined=False, tips=labels)

    best = dots("front", "model", np.flatnonzero(test.optimal))
    confidence = None
    if len(front.goals) == 2:
        order = np.argsort(np.where(test.optimal, x, np.inf), kind="stable")[: len(best.x)]
        low, high = test.low[order, k].tolist(), test.high[order, k].tolist()
        best = replace(best, joined=True, low=low, high=high)
        confidence = front.confidence
    lines = [best]
    if not test.optimal.all():
        lines.append(dots("dominated", "random", np.flatnonzero(~test.optimal)))
    if front.choice is not None:
        lines.append(dots("chosen", "against", np.array([front.choice.point])))
    caption = captions.front(first, goal, confidence)
    about = f"{goal} against {first} on the test lists"
    return line_chart(f"{goal} and {first}", lines, (first, goal), caption, about=about)


def _trade(front: ParetoFront, goal: str) -> Markup | None:
    """Draw what giving up a share of the first goal buys of another one."""
    first = front.goals[0]
    whole = front.trade(first, goal, 1.0)
    if whole is None:
        return None
    # The first tenth matters most: nobody gives up half of the relevance.
    largest = min(whole.given_up, 10.0) / 100
    trades = [front.trade(first, goal, share) for share in np.linspace(0.0, largest, 21)]
    x = [trade.given_up for trade in trades if trade is not None]
    y = [trade.gained for trade in trades if trade is not None]
    tips = [str(trade) for trade in trades if trade is not None]
    one_percent = front.trade(first, goal)
    axis_names = (f"% less {first}", f"% more {goal}")
    caption = captions.trade(one_percent, first, goal)
    lines = [Line(goal, "model", x, y, tips=tips)]
    return line_chart(f"What {first} buys", lines, axis_names, caption)
