"""The report of a model on labelled data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rankine.report.figures.calibration import calibration
from rankine.report.figures.curves import curve_metrics, curves
from rankine.report.figures.data import data_summary
from rankine.report.figures.headline import headline
from rankine.report.figures.lists import Ranked, ranked_query
from rankine.report.figures.origin import origin
from rankine.report.figures.queries import differences, extremes, spread
from rankine.report.figures.sizes import size_curve
from rankine.report.figures.training import training
from rankine.report.figures.weights import weights
from rankine.report.page import Report, Section, render
from rankine.report.sections.calibration import calibration_section
from rankine.report.sections.data import data_section
from rankine.report.sections.headline import headline_section, headline_tiles, summary_words
from rankine.report.sections.lists import lists_part
from rankine.report.sections.origin import origin_section
from rankine.report.sections.ranks import curves_section, queries_section
from rankine.report.sections.training import training_section
from rankine.report.sections.weights import size_section, weights_section

if TYPE_CHECKING:
    from rankine.report.judged import Judged

__all__ = ["model_report"]

#: Opponents that a query's list stands beside, the most telling first.
_BESIDE = ("against", "shown", "feature", "random")

_EFFECT = (
    "A bar is the weight times how much its feature usually varies within a list: how far it "
    "moves items, in units of the score."
)


def model_report(
    judged: Judged, *, title: str, n_queries: int = 3, seed: int = 0, command: str | None = None
) -> Report:
    """All figures, then all sections."""
    heads = [headline(judged, metric, seed) for metric in judged.metrics]
    made = origin(judged.model, judged.data)
    learned, summary = weights(judged.model, judged.effect), data_summary(judged)
    story = training(judged.model)
    numbers: dict[str, Any] = {
        "title": title,
        "headline": [head.to_dict() for head in heads],
        "refused": dict(judged.refused),
        "weights": learned.to_dict(),
        "training": story.to_dict(),
        "data": summary.to_dict(),
        "origin": made.to_dict(),
    }
    sections: list[Section | None] = [headline_section(judged, heads, made)]
    sections += _measured(judged, numbers, n_queries, seed)
    sections.insert(-2 if judged.metric is not None else 1, weights_section(learned, _EFFECT))
    sections += [training_section(story), data_section(summary), origin_section(made, command)]
    page = render(
        title,
        "rankine report",
        summary_words(judged, heads),
        headline_tiles(judged, heads),
        [section for section in sections if section is not None],
    )
    return Report(title, page, numbers)


def _measured(
    judged: Judged, numbers: dict[str, Any], n_queries: int, seed: int
) -> list[Section | None]:
    """Sections that need a metric, and their figures."""
    metric = judged.metric
    if metric is None:
        return []
    found = [curves(judged, one, seed) for one in curve_metrics(judged)]
    depth = [one for one in found if one is not None]
    values = spread(judged, metric)
    rival = judged.opponent(*_BESIDE)
    gaps = None if rival is None else differences(judged, metric, rival)
    groups = _lists(judged, n_queries)
    size = size_curve(judged, metric)
    gap = calibration(judged, seed)
    numbers.update(
        curves=[one.to_dict() for one in depth],
        queries=None if values is None else values.to_dict(),
        differences=None if gaps is None else gaps.to_dict(),
        lists={name: [one.to_dict() for one in ranked] for name, ranked in groups},
        size=None if size is None else size.to_dict(),
        calibration=None if gap is None else gap.to_dict(),
    )
    return [
        curves_section(depth),
        queries_section(values, gaps, metric.title, lists_part(groups, metric.title)),
        None if size is None else size_section(size, metric.title),
        None if gap is None else calibration_section(gap),
    ]


def _lists(judged: Judged, n: int) -> list[tuple[str, Sequence[Ranked]]]:
    """The worst and best queries, and those that moved most against another model."""
    metric = judged.metric
    if metric is None:
        return []
    values = judged.values(judged.opponents[0], metric)
    rival = judged.opponent("against", "shown")
    others = None if rival is None else judged.values(rival, metric)

    def listed(places: Sequence[int]) -> list[Ranked]:
        return [
            ranked_query(
                judged,
                q,
                float(values[q]),
                rival,
                None if others is None else _number(others[q]),
            )
            for q in places
        ]

    worst, best = extremes(judged, values, n, larger_is_better=metric.larger_is_better)
    groups: list[tuple[str, Sequence[Ranked]]] = [
        ("Worst queries", listed(worst)),
        ("Best queries", listed(best)),
    ]
    if rival is not None and rival.kind == "against" and others is not None:
        moved = values - others
        lost, won = extremes(judged, moved, n, larger_is_better=metric.larger_is_better)
        sign = 1 if metric.larger_is_better else -1
        groups += [
            ("Lost most against the other model", listed([q for q in lost if sign * moved[q] < 0])),
            ("Won most against the other model", listed([q for q in won if sign * moved[q] > 0])),
        ]
    return groups


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
