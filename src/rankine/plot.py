"""Plots for notebooks: every function draws on matplotlib axes and returns them.

The numbers are those of ``rankine.report``; matplotlib is needed (``rankine[report]``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankine.core.atomic import atomic_file
from rankine.core.checks import reject_sets
from rankine.core.errors import MissingExtraError, ParameterError
from rankine.core.safe_text import printable
from rankine.metrics import Metric
from rankine.model.tables import find_tables
from rankine.rankers.path import RegularizationPath
from rankine.reporting.calibration import calibration as score_gaps
from rankine.reporting.data import lengths as list_lengths
from rankine.reporting.data import levels
from rankine.reporting.headline import headline
from rankine.reporting.judged import Judged
from rankine.reporting.ranks import curves, spread
from rankine.reporting.ranks import differences as query_differences
from rankine.reporting.results import path_curves
from rankine.reporting.run import as_model, judge_subject
from rankine.reporting.tables import pictures
from rankine.reporting.training import training as recorded
from rankine.reporting.weights import size_curve

if TYPE_CHECKING:
    from rankine.logs.propensity import Propensity
    from rankine.tuning.result import TuningResult

__all__ = [
    "calibration",
    "comparison",
    "differences",
    "labels",
    "lengths",
    "metric_at_k",
    "path",
    "per_query",
    "propensity",
    "quality",
    "size",
    "table",
    "training",
    "trials",
    "weights",
]

#: Colour of each kind of order, as in the report.
COLOURS = {
    "model": "#0b5fad",
    "against": "#c2570c",
    "shown": "#7446b3",
    "feature": "#19764a",
    "random": "#77818b",
    "soft": "#59626c",
}
LINES = {"model": "-", "against": "-", "shown": ":", "feature": "-.", "random": "--", "soft": "--"}


def finish(ax: Any, x_name: str, y_name: str, title: str = "", *, key: bool = False) -> Any:
    """Names, a faint grid, and the key where asked; returns the axes."""
    ax.set_xlabel(x_name)
    ax.set_ylabel(y_name)
    if title:
        ax.set_title(plain(title), loc="left", fontsize="medium")
    if key:
        ax.legend(frameon=False, fontsize="small")
    ax.grid(visible=True, alpha=0.25)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def plain(text: str, limit: int = 40) -> str:
    """A name from outside as plain text: no mathematics, no control characters, not too long."""
    return printable(text, limit).replace("$", r"\$")


def draw_line(ax: Any, x: Any, y: Any, kind: str, label: str | None = None, **band: Any) -> None:
    """A curve with dots; ``low`` and ``high`` draw a band around it."""
    colour = COLOURS[kind]
    if len(band.get("low", ())):
        ax.fill_between(x, band["low"], band["high"], color=colour, alpha=0.18, linewidth=0)
    name = None if label is None else plain(label)
    ax.plot(x, y, color=colour, linestyle=LINES[kind], marker="o", markersize=3.5, label=name)


def draw_intervals(ax: Any, rows: Sequence[tuple[str, str, float, float, float]]) -> None:
    """Name, kind, mean, low and high of each row, from the top."""
    for place, (_, kind, mean, low, high) in enumerate(rows):
        if math.isfinite(low):
            ax.plot([low, high], [-place] * 2, color=COLOURS[kind], alpha=0.4, linewidth=5)
        ax.plot(mean, -place, marker="o", color=COLOURS[kind], linestyle="none")
    ax.set_yticks([-k for k in range(len(rows))])
    ax.set_yticklabels([row[0] for row in rows])


def draw_bars(ax: Any, names: Sequence[str], sizes: Any, colours: Any) -> None:
    """Horizontal bars, the first at the bottom."""
    ax.barh(range(len(names)), sizes, color=colours)
    ax.set_yticks(range(len(names)))
    ax.set_yticklabels([plain(name, 32) for name in names])


def labels(data: Any, *, ax: Any = None) -> Any:
    """Items of each label."""
    found = levels(data)
    ax = ax or new_axes()
    if found.names:
        ax.bar(range(len(found.names)), found.counts, color=COLOURS["model"])
        ax.set_xticks(range(len(found.names)))
        ax.set_xticklabels(found.names)
    else:
        ax.stairs(found.counts, found.edges, fill=True, color=COLOURS["model"])
    return finish(ax, "label", "items")


def lengths(data: Any, *, ax: Any = None) -> Any:
    """Queries by the number of their items."""
    found = list_lengths(data)
    ax = ax or new_axes()
    ax.stairs(found.counts, found.edges, fill=True, color=COLOURS["model"])
    return finish(ax, "items of a query", "queries")


def quality(
    model: Any, data: Any, *, against: Any = None, metric: str | None = None, ax: Any = None
) -> Any:
    """Mean and 95 % interval of the model and of what it is compared with.

    Examples
    --------
    >>> import rankine
    >>> from rankine.logs.simulation import shop_log
    >>> log = shop_log(40)
    >>> ranker = rankine.LeastSquaresRanker(scale="standard").fit(log)
    >>> rankine.plot.quality(ranker, log).get_xlabel()
    'NDCG@10'
    """
    judged, chosen = _judged(model, data, against, metric)
    found = headline(judged, chosen)
    ax = ax or new_axes()
    shown = zip(found.kinds, found.systems, strict=True)
    draw_intervals(ax, [(plain(s.name), kind, s.mean, s.low, s.high) for kind, s in shown])
    return finish(ax, found.title, "")


def metric_at_k(
    model: Any, data: Any, *, against: Any = None, metric: str = "ndcg@10", ax: Any = None
) -> Any:
    """A metric at growing depth, for the model (with its interval) and its opponents."""
    judged, chosen = _judged(model, data, against, metric)
    found = None if metric in judged.refused else curves(judged, chosen)
    if found is None:
        raise ParameterError(
            f"{metric} has no value at fixed depths here", fix="Use ndcg@10 or p@10"
        )
    ax = ax or new_axes()
    for one in found.curves:
        draw_line(ax, found.depths, one.values, one.kind, one.name, low=one.low, high=one.high)
    return finish(ax, "k", f"{found.title}@k", key=True)


def per_query(model: Any, data: Any, *, metric: str | None = None, ax: Any = None) -> Any:
    """Histogram of the metric over queries; the dashed line is the mean."""
    judged, chosen = _judged(model, data, None, metric)
    found = spread(judged, chosen)
    ax = ax or new_axes()
    ax.stairs(found.counts, found.edges, fill=True, color=COLOURS["model"])
    ax.axvline(found.mean, color=COLOURS["soft"], linestyle="--", linewidth=1.2)
    return finish(ax, chosen.title, "queries")


def differences(
    model: Any, data: Any, *, against: Any = None, metric: str | None = None, ax: Any = None
) -> Any:
    """Histogram of (model - opponent) over queries; by default against the shown order or chance.

    Without ``against`` the opponent is the displayed order where positions are known, else the
    best single feature.
    """
    judged, chosen = _judged(model, data, against, metric)
    found = query_differences(judged, chosen, judged.rival)
    ax = ax or new_axes()
    colours = [COLOURS["against" if end < 0 else "model"] for end in found.edges[1:]]
    ax.bar(found.edges[:-1], found.counts, width=np.diff(found.edges), align="edge", color=colours)
    ax.axvline(0.0, color=COLOURS["soft"], linestyle="--", linewidth=1.2)
    title = f"against {found.opponent}: {found.better} better, {found.worse} worse"
    return finish(ax, f"difference in {chosen.title}", "queries", title)


def weights(model: Any, data: Any = None, *, top: int = 20, ax: Any = None) -> Any:
    """The strongest weights; with data, weight times the feature's spread within lists."""
    if data is None:
        fitted = as_model(model)
        sizes, named, x_name = fitted.values, fitted.weight_names, "weight"
    else:
        judged, _ = _judged(model, data, None, None)
        sizes, named, x_name = judged.effect, judged.view.weight_names, "weight x spread"
    order = np.argsort(-np.abs(sizes), kind="stable")[:top][::-1]
    ax = ax or new_axes()
    colours = [COLOURS["model" if sizes[k] > 0 else "against"] for k in order.tolist()]
    draw_bars(ax, [named[k] for k in order.tolist()], sizes[order], colours)
    return finish(ax, x_name, "")


def table(model: Any, *columns: str, data: Any = None, ax: Any = None) -> Any:
    """A table of an additive model: the curve of a column, or the heat map of a pair of columns.

    With data, the share of its rows in each bin stands under a curve.
    """
    tables = find_tables(as_model(model))
    named = (" x ".join(columns), " x ".join(reversed(columns)))
    found = [] if tables is None else [one for one in pictures(tables, data) if one.name in named]
    if not found:
        raise ParameterError(
            f"the model has no table of {printable(named[0])!r}",
            fix="Name a column, or a pair of columns, of an additive model (see model.summary())",
        )
    one, ax = found[0], ax or new_axes()
    if len(one.columns) == 2:
        values = np.array(one.values)
        most = np.abs(values).max() or 1.0
        shown = ax.imshow(values, origin="lower", aspect="auto", cmap="RdBu", vmin=-most, vmax=most)
        ax.figure.colorbar(shown, ax=ax, label="score")
        return finish(ax, plain(one.columns[1]), plain(one.columns[0]), one.name)
    if not one.places:
        draw_bars(ax, one.labels[0], one.values, COLOURS["model"])
        return finish(ax, "score", "", one.name)
    ax.stairs(one.values[:-1], one.places, baseline=None, color=COLOURS["model"])
    if one.share:
        below = ax.twinx()
        below.stairs(one.share[:-1], one.places, fill=True, color=COLOURS["soft"], alpha=0.2)
        below.set_ylim(0.0, 3.0 * max(one.share))
        below.set_yticks([])
    return finish(ax, plain(one.name), "score")


def size(model: Any, data: Any, *, metric: str | None = None, ax: Any = None) -> Any:
    """The metric when only the strongest weights are kept."""
    judged, chosen = _judged(model, data, None, metric)
    found = size_curve(judged, chosen)
    ax = ax or new_axes()
    if found is not None:
        draw_line(ax, found.sizes, found.values, "model")
        ax.axhline(found.values[-1], color=COLOURS["soft"], linestyle="--", linewidth=1.2)
        ax.set_xscale("log")
    return finish(ax, "weights kept", chosen.title)


def calibration(model: Any, data: Any, *, ax: Any = None) -> Any:
    """How often the higher score has the higher label, against the gap of the two scores."""
    judged, _ = _judged(model, data, None, None)
    found = score_gaps(judged)
    ax = ax or new_axes()
    if found is None:
        return finish(ax, "difference of scores", "share of pairs in the right order")
    gap = np.array([b.gap for b in found.bins])
    share, low, high = zip(*((b.share, b.low, b.high) for b in found.bins), strict=True)
    draw_line(ax, gap, share, "model", "measured", low=low, high=high)
    steps = np.linspace(0.0, gap.max(), 60)
    ax.plot(steps, 1 / (1 + np.exp(-found.slope * steps)), color=COLOURS["soft"], linestyle="--",
            label="logistic curve")  # fmt: skip
    return finish(ax, "difference of scores", "share of pairs in the right order", key=True)


def training(model: Any, *, columns: Sequence[str] | None = None, ax: Any = None) -> Any:
    """What training recorded, against its steps: objective, gap, validation ..."""
    reject_sets(columns=columns)
    fitted = as_model(model)
    found = recorded(fitted)
    if not found.curves and not found.validation:
        raise ParameterError(
            "the model file holds no trace of its training",
            fix="Train with an evaluation set, or with record_at",
        )
    wanted = found.curves if columns is None else columns
    ax = ax or new_axes()
    for name in wanted:
        if name not in found.curves:
            raise ParameterError(
                f"training recorded no {name!r}", fix=f"Choose among {', '.join(found.curves)}"
            )
        values = [math.nan if v is None else v for v in found.curves[name]]
        ax.plot(found.steps, values, linewidth=1.5, label=plain(name))
    if columns is None and len(found.validation):
        values = [math.nan if v is None else v for v in found.validation]
        label = plain(f"{found.metric} (validation)")
        ax.plot(found.validation_steps, values, color=COLOURS["against"], label=label)
    return finish(ax, found.step_name, "", key=True)


def _judged(model: Any, data: Any, against: Any, metric: str | None) -> tuple[Judged, Metric]:
    judged = judge_subject(
        model, data, against=against, metrics=None if metric is None else [metric]
    )
    return judged, judged.metric


def comparison(result: Any, *, ax: Any = None) -> Any:
    """Paired differences of a ``Comparison`` with their intervals and the margin around zero."""
    ax = ax or new_axes()
    ax.axvspan(-result.margin, result.margin, color=COLOURS["random"], alpha=0.15, linewidth=0)
    ax.axvline(0.0, color=COLOURS["soft"], linestyle="--", linewidth=1.2)
    rows = []
    for p in result.pairs:
        kind = "model" if p.significant else "random"
        rows.append((f"{plain(p.b, 20)} - {plain(p.a, 20)}", kind, p.difference, p.low, p.high))
    draw_intervals(ax, rows)
    return finish(ax, f"difference in {result.metric.title}", "")


def path(result: RegularizationPath, *, ax: Any = None) -> Any:
    """Draw the metric (or the loss, without evaluation data) against non-zero weights.

    The size axis is logarithmic and leaves out the empty model; a ring marks the best step. Tables
    are drawn against their strength, a curve for each number of pairs.
    """
    ax = ax or new_axes()
    values = result.values if result.measured else result.loss
    sizes = result.nonzeros
    along, x_name = result.x_axis
    for (name, curve), kind in zip(path_curves(result), COLOURS, strict=False):
        here = curve.nonzeros > 0
        heights = (curve.values if result.measured else curve.loss)[here]
        draw_line(ax, curve.x_axis[0][here], heights, kind, name)
    best = result.best()
    if sizes[best] > 0:
        ax.plot(
            along[best],
            values[best],
            marker="o",
            markersize=10,
            markerfacecolor="none",
            markeredgecolor=COLOURS["against"],
            linestyle="none",
            label=f"best: {sizes[best]:,} weights, {values[best]:.4g}",
        )
    ax.set_xscale("log")
    empty = not np.isfinite(values[sizes > 0]).any()
    title = "no model with a non-zero weight" if empty else ""
    y_name = result.metric if result.measured else "training loss"
    return finish(ax, x_name, y_name, title, key=bool(sizes[best] > 0))


def propensity(result: Propensity, *, ax: Any = None) -> Any:
    """Chance of being looked at by position, with its interval, and by context where asked."""
    ax = ax or new_axes()
    shown = {"all": result, **result.contexts}
    for (name, part), kind in zip(shown.items(), cycle(COLOURS), strict=False):
        positions = range(1, len(part) + 1)
        draw_line(ax, positions, part.values, kind, name, low=part.low, high=part.high)
    ax.set_ylim(bottom=0)
    return finish(ax, "position", "looked at, relative to the first", key=len(shown) > 1)


def trials(result: TuningResult, *, ax: Any = None) -> Any:
    """Finished trials as dots (hollow where a limit is exceeded), the best so far as a line."""
    ax = ax or new_axes()
    done = [r for r in result.trace if r.value is not None]
    colour = COLOURS["model"]
    for feasible, face, label in ((True, colour, "trials"), (False, "none", "above a limit")):
        shown = [r for r in done if r.feasible is feasible]
        if shown:
            ax.scatter(
                [r.number for r in shown],
                [r.value for r in shown],
                s=18,
                facecolors=face,
                edgecolors=colour,
                label=label,
            )
    line = [r for r in result.trace if r.best is not None]
    ax.step(
        [r.number for r in line],
        [r.best for r in line],
        where="post",
        color=COLOURS["against"],
        linewidth=1.4,
        label=f"best: {result.best_value:.4g}",
    )
    return finish(ax, "trial", result.metric, key=True)


def new_axes() -> Any:
    """Axes of a figure that belongs to no window."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError(
            "drawing needs matplotlib", fix="Install rankine[report]"
        ) from error
    return Figure(figsize=(6.0, 3.8), layout="constrained").subplots()


def check_plot_file(file: str) -> str:
    """The format that the name asks for; raises when it cannot be drawn."""
    kind = Path(file).suffix.removeprefix(".").lower()
    if kind not in new_axes().figure.canvas.get_supported_filetypes():
        raise ParameterError(
            f"cannot draw {file!r}: no format is called {kind!r}",
            fix="End the name with .png, .svg or .pdf",
        )
    return kind


def save_axes(ax: Any, file: str) -> None:
    """Write the figure of some axes; the suffix of the name chooses the format (png, svg, pdf)."""
    kind = check_plot_file(file)
    with atomic_file(file) as target:
        ax.figure.savefig(target, format=kind, dpi=150, bbox_inches="tight")
