"""What a difference of scores means."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rankine.report.page import Section, figures
from rankine.report.svg import Line, figure, line_chart
from rankine.report.words import count, number, percent

if TYPE_CHECKING:
    from rankine.report.figures.calibration import Calibration

__all__ = ["calibration_section"]


def calibration_section(found: Calibration) -> Section:
    """Share of right pairs against the gap of their scores."""
    bins = found.bins
    gaps = [b.gap for b in bins]
    measured = Line(
        "measured",
        "model",
        gaps,
        [b.share for b in bins],
        [b.low for b in bins],
        [b.high for b in bins],
        tips=[f"gap {b.gap:.3g}: {percent(b.share, 1)} of {count(b.pairs)} pairs" for b in bins],
    )
    top = max(gaps)
    steps = [top * k / 40 for k in range(41)]
    fitted = Line(
        "logistic curve",
        "soft",
        steps,
        [1 / (1 + math.exp(-min(found.slope * g, 700))) for g in steps],
        points=False,
    )
    which = "all pairs" if found.all_pairs else "a random sample of pairs"
    sure = (
        f" A gap of {number(math.log(9) / found.slope, 2)} stands for 90 % by the logistic curve "
        "(dashed)."
        if found.slope > 0
        else ""
    )
    words = (
        f"Two items of one list whose labels differ: how often the one with the higher score has "
        f"the higher label ({which}, {count(found.pairs)}; right in {percent(found.right, 1)} of "
        f"them).{sure} Read: the curve should rise from one half; a flat one means that the size "
        "of a gap says nothing."
    )
    key = [("model", "measured, with 95 % interval"), ("soft", "best logistic curve")]
    picture = line_chart(
        [fitted, measured],
        "difference of scores",
        "in the right order",
        "Share of rightly ordered pairs against the difference of their scores",
        y_values=(0.5, 1.0),
    )
    lead = "Scores have no unit. This picture gives them one: how sure a difference makes us."
    return Section(
        "gaps",
        "Score gaps",
        "How sure is a gap between two scores?",
        lead,
        figures(figure("Score gap against preference", picture, words, key)),
    )
