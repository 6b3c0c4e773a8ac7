"""The report of a regularisation path: quality against size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rankine.core.html import Html, join, tag
from rankine.rankers.plot_path import path_curves
from rankine.report.compare_report import KINDS
from rankine.report.figures.origin import origin
from rankine.report.figures.weights import weights
from rankine.report.page import Report, Section, figures, render, table, tile
from rankine.report.sections.origin import origin_section
from rankine.report.sections.weights import weights_section
from rankine.report.svg import Line, figure, line_chart
from rankine.report.words import count, number, plural

if TYPE_CHECKING:
    from rankine.rankers.path import RegularizationPath

__all__ = ["RAW", "path_report"]

RAW = "A bar is the weight itself: compare bars only where features have the same scale."


def path_report(
    path: RegularizationPath, *, title: str | None = None, command: str | None = None
) -> Report:
    """Quality against size, every step, and the best model."""
    best = path.best()
    name = path.metric if path.measured else "training loss"
    heights = path.values if path.measured else path.loss
    model = path.to_model(best)
    heading = title or f"Quality against size: {model.parameters.get('ranker') or 'path'}"
    words = join(
        [
            "The best of ",
            plural(len(path), "model"),
            " has ",
            tag("strong", count(path.nonzeros[best])),
            f" of {count(model.n_features)} weights and {name} ",
            tag("strong", number(float(heights[best]))),
            "." if path.measured else ". Without validation data the smallest loss wins.",
        ]
    )
    tiles = [
        tile(name, number(float(heights[best])), "best step"),
        tile("weights", count(path.nonzeros[best]), f"of {count(model.n_features)}"),
        tile("models", count(len(path)), f"{float(path.seconds.sum()):.1f} s in all"),
    ]
    learned = weights(model, model.values)
    sections = [
        Section("sizes", "Size", "How does quality follow size?", _LEAD, _body(path, name, best)),
        weights_section(learned, RAW),
        origin_section(origin(model), command),
    ]
    numbers = {
        "title": heading,
        "metric": path.metric,
        "measured": path.measured,
        "best": best,
        "steps": path.records(),
        "weights": learned.to_dict(),
    }
    return Report(heading, render(heading, "rankine path", words, tiles, sections), numbers)


_LEAD = "One model per strength of the penalty: the stronger it is, the fewer weights are left."


def _body(path: RegularizationPath, name: str, best: int) -> Html:
    lines: list[Line] = []
    key: list[tuple[str, Any]] = []
    for k, (curve_name, curve) in enumerate(path_curves(path)):
        heights = curve.values if path.measured else curve.loss
        shown = np.flatnonzero((curve.nonzeros > 0) & np.isfinite(heights))
        if len(shown) == 0:
            continue
        shown = shown[np.argsort(curve.nonzeros[shown], kind="stable")]
        kind = KINDS[k % len(KINDS)]
        sizes = curve.nonzeros[shown].tolist()
        y = heights[shown].tolist()
        tips = [f"{plural(s, 'weight')}: {number(v)}" for s, v in zip(sizes, y, strict=True)]
        x = [float(s) for s in sizes]
        lines.append(Line(curve_name or name, kind, x, y, tips=tips))
        if curve_name is not None:
            key.append((kind, curve_name))
    parts: list[Any] = []
    if lines:
        size = plural(int(path.nonzeros[best]), "weight")
        words = (
            f"Each dot is a model. Read: go left from the best ({size}) "
            "until the loss of quality is more than the smaller model is worth to you."
        )
        picture = line_chart(
            lines, "non-zero weights", name, f"{name} against the number of weights", log_x=True
        )
        parts.append(figures(figure("Quality against size", picture, words, key)))
    parts.append(tag("div", _steps(path, name, best), class_="card"))
    return join(parts)


def _steps(path: RegularizationPath, name: str, best: int) -> Html:
    records = path.records()
    one_pass = "solver" in records[0]
    header = [*(["solver"] if one_pass else []), "l1", "weights", name, "seconds"]
    quality = path.metric if path.measured else "loss"
    rows = [
        [
            *([record["solver"]] if one_pass else []),
            f"{record['l1']:.4g}",
            count(record["nonzeros"]),
            number(record[quality]),
            f"{record['seconds']:.2f}",
        ]
        for record in records
    ]
    bold = frozenset((best, c) for c in range(1, len(header)))
    return table(header, rows, bold=bold, caption="Every step, the best in bold")
