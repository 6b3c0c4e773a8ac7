"""Plots for notebooks: every function draws on matplotlib axes and returns them.

The numbers are those of ``rankine.report``; matplotlib is needed (``rankine[report]``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankine.core.atomic import atomic_file
from rankine.core.errors import MissingExtraError, ParameterError
from rankine.core.safe_text import printable

if TYPE_CHECKING:
    from rankine.logs.propensity import Propensity
    from rankine.metrics import Metric
    from rankine.rankers.path import RegularizationPath
    from rankine.report.judged import Judged
    from rankine.tune.result import TuningResult

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


def start(ax: Any) -> Any:
    """The given axes, or new ones that belong to no window."""
    return new_axes() if ax is None else ax


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


def labels(data: Any, *, ax: Any = None) -> Any:
    """Items of each label."""
    from rankine.report.data import levels

    found = levels(data)
    ax = start(ax)
    if found.names:
        ax.bar(range(len(found.names)), found.counts, color=COLOURS["model"])
        ax.set_xticks(range(len(found.names)))
        ax.set_xticklabels(found.names)
    else:
        ax.stairs(found.counts, found.edges, fill=True, color=COLOURS["model"])
    return finish(ax, "label", "items")


def lengths(data: Any, *, ax: Any = None) -> Any:
    """Queries by the number of their items."""
    from rankine.report.data import lengths as measure

    found = measure(data)
    ax = start(ax)
    ax.stairs(found.counts, found.edges, fill=True, color=COLOURS["model"])
    return finish(ax, "items of a query", "queries")


def quality(
    model: Any, data: Any, *, against: Any = None, metric: str | None = None, ax: Any = None
) -> Any:
    """Mean and 95 % interval of the model and of what it is compared with.

    Examples
    --------
    >>> import rankine
    >>> from rankine.data.shop import shop_log
    >>> log = shop_log(40)
    >>> ranker = rankine.LeastSquaresRanker(scale="standard").fit(log)
    >>> rankine.plot.quality(ranker, log).get_xlabel()
    'NDCG@10'
    """
    from rankine.report.headline import headline

    judged, chosen = _judged(model, data, against, metric)
    found = headline(judged, chosen)
    ax = start(ax)
    for place, (kind, one) in enumerate(zip(found.kinds, found.systems, strict=True)):
        if math.isfinite(one.low):
            ax.plot([one.low, one.high], [-place] * 2, color=COLOURS[kind], alpha=0.4, linewidth=5)
        ax.plot(one.mean, -place, marker="o", color=COLOURS[kind], linestyle="none")
    ax.set_yticks([-k for k in range(len(found.systems))])
    ax.set_yticklabels([plain(one.name) for one in found.systems])
    return finish(ax, found.title, "")


def metric_at_k(
    model: Any, data: Any, *, against: Any = None, metric: str = "ndcg@10", ax: Any = None
) -> Any:
    """A metric at growing depth, for the model (with its interval) and its opponents."""
    from rankine.report.ranks import curves

    judged, chosen = _judged(model, data, against, metric)
    found = curves(judged, chosen)
    if found is None:
        raise ParameterError(
            f"{metric} has no value at fixed depths here", fix="Use ndcg@10 or p@10"
        )
    ax = start(ax)
    for curve in found.curves:
        ax.plot(
            found.depths,
            curve.values,
            color=COLOURS[curve.kind],
            linestyle=LINES[curve.kind],
            marker="o",
            markersize=3,
            label=plain(curve.name),
        )
        if len(curve.low):
            ax.fill_between(
                found.depths, curve.low, curve.high, color=COLOURS[curve.kind], alpha=0.18
            )
    return finish(ax, "k", f"{found.title}@k", key=True)


def per_query(model: Any, data: Any, *, metric: str | None = None, ax: Any = None) -> Any:
    """Histogram of the metric over queries; the dashed line is the mean."""
    from rankine.report.ranks import spread

    judged, chosen = _judged(model, data, None, metric)
    found = spread(judged, chosen)
    ax = start(ax)
    if found is not None:
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
    from rankine.report.ranks import differences as gaps

    judged, chosen = _judged(model, data, against, metric)
    rival = judged.opponent("against", "shown", "feature", "random")
    found = None if rival is None else gaps(judged, chosen, rival)
    ax = start(ax)
    if found is None:
        return finish(ax, f"difference in {chosen.title}", "queries")
    widths = [b - a for a, b in zip(found.edges[:-1], found.edges[1:], strict=True)]
    worse = [a + w / 2 < -w / 4 for a, w in zip(found.edges[:-1], widths, strict=True)]
    colours = [COLOURS["against" if w else "model"] for w in worse]
    ax.bar(found.edges[:-1], found.counts, width=widths, align="edge", color=colours)
    ax.axvline(0.0, color=COLOURS["soft"], linestyle="--", linewidth=1.2)
    title = f"against {found.opponent}: {found.better} better, {found.worse} worse"
    return finish(ax, f"difference in {chosen.title}", "queries", title)


def weights(model: Any, data: Any = None, *, top: int = 20, ax: Any = None) -> Any:
    """The strongest weights; with data, weight times the feature's spread within lists."""
    from rankine.report.run import as_model

    if data is None:
        fitted = as_model(model)[0]
        sizes, named, x_name = fitted.values, fitted.weight_names, "weight"
    else:
        judged, _ = _judged(model, data, None, None)
        sizes, named, x_name = judged.effect, judged.view.weight_names, "weight x spread"
    order = np.argsort(-np.abs(sizes), kind="stable")[:top][::-1]
    ax = start(ax)
    colours = [COLOURS["model" if sizes[k] > 0 else "against"] for k in order.tolist()]
    ax.barh(range(len(order)), sizes[order], color=colours)
    ax.set_yticks(range(len(order)))
    ax.set_yticklabels([plain(named[k], 32) for k in order.tolist()])
    return finish(ax, x_name, "")


def table(model: Any, *columns: str, data: Any = None, ax: Any = None) -> Any:
    """A table of an additive model: the curve of a column, or the heat map of a pair of columns.

    With data, the share of its rows in each bin stands under a curve.
    """
    from rankine.model.tables import tables_of
    from rankine.report.run import as_model
    from rankine.report.tables import pictures

    tables = tables_of(as_model(model)[0])
    named = (" x ".join(columns), " x ".join(reversed(columns)))
    found = [] if tables is None else [one for one in pictures(tables, data) if one.name in named]
    if not found:
        raise ParameterError(
            f"the model has no table of {printable(named[0])!r}",
            fix="Name a column, or a pair of columns, of an additive model (see model.summary())",
        )
    one, ax = found[0], start(ax)
    if len(one.columns) == 2:
        values = np.array(one.values)
        most = np.abs(values).max() or 1.0
        shown = ax.imshow(values, origin="lower", aspect="auto", cmap="RdBu", vmin=-most, vmax=most)
        ax.figure.colorbar(shown, ax=ax, label="score")
        return finish(ax, plain(one.columns[1]), plain(one.columns[0]), one.name)
    if not one.places:
        ax.barh(range(len(one.values)), one.values, color=COLOURS["model"])
        ax.set_yticks(range(len(one.values)))
        ax.set_yticklabels([plain(label, 32) for label in one.labels[0]])
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
    from rankine.report.weights import size_curve

    judged, chosen = _judged(model, data, None, metric)
    found = size_curve(judged, chosen)
    ax = start(ax)
    if found is not None:
        ax.plot(found.sizes, found.values, color=COLOURS["model"], marker="o", markersize=3.5)
        ax.axhline(found.values[-1], color=COLOURS["soft"], linestyle="--", linewidth=1.2)
        ax.set_xscale("log")
    return finish(ax, "weights kept", chosen.title)


def calibration(model: Any, data: Any, *, ax: Any = None) -> Any:
    """How often the higher score has the higher label, against the gap of the two scores."""
    from rankine.report.calibration import calibration as measure

    judged, _ = _judged(model, data, None, None)
    found = measure(judged)
    ax = start(ax)
    if found is None:
        return finish(ax, "difference of scores", "share of pairs in the right order")
    gap = np.array([b.gap for b in found.bins])
    ax.fill_between(gap, [b.low for b in found.bins], [b.high for b in found.bins],
                    color=COLOURS["model"], alpha=0.18)  # fmt: skip
    ax.plot(gap, [b.share for b in found.bins], color=COLOURS["model"], marker="o", markersize=3.5,
            label="measured")  # fmt: skip
    steps = np.linspace(0.0, gap.max(), 60)
    ax.plot(steps, 1 / (1 + np.exp(-found.slope * steps)), color=COLOURS["soft"], linestyle="--",
            label="logistic curve")  # fmt: skip
    return finish(ax, "difference of scores", "share of pairs in the right order", key=True)


def training(model: Any, *, columns: Sequence[str] | None = None, ax: Any = None) -> Any:
    """What training recorded, against its steps: objective, gap, validation ..."""
    from rankine.report.run import as_model
    from rankine.report.training import training as recorded

    fitted = as_model(model)[0]
    found = recorded(fitted)
    if not found.curves and not found.validation:
        raise ParameterError(
            "the model file holds no trace of its training",
            fix="Train with an evaluation set, or with record_at",
        )
    wanted = found.curves if columns is None else columns
    ax = start(ax)
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
    from rankine.report.run import judge_subject

    judged = judge_subject(
        model, data, against=against, metrics=None if metric is None else [metric]
    )
    if judged.metric is None:
        raise ParameterError(
            "nothing can be measured: no list holds two different labels",
            fix="Check the label and query columns",
        )
    return judged, judged.metric


def comparison(result: Any, *, ax: Any = None) -> Any:
    """Paired differences of a ``Comparison`` with their intervals and the margin around zero."""
    ax = start(ax)
    ax.axvspan(-result.margin, result.margin, color=COLOURS["random"], alpha=0.15, linewidth=0)
    ax.axvline(0.0, color=COLOURS["soft"], linestyle="--", linewidth=1.2)
    for place, pair in enumerate(result.pairs):
        colour = COLOURS["model" if pair.significant else "random"]
        ax.plot([pair.low, pair.high], [-place] * 2, color=colour, alpha=0.4, linewidth=5)
        ax.plot(pair.difference, -place, marker="o", color=colour, linestyle="none")
    ax.set_yticks([-k for k in range(len(result.pairs))])
    ax.set_yticklabels([f"{plain(p.b, 20)} - {plain(p.a, 20)}" for p in result.pairs])
    return finish(ax, f"difference in {result.metric.title}", "")


def path(result: RegularizationPath, *, ax: Any = None) -> Any:
    """Draw the metric (or the loss, without evaluation data) against non-zero weights.

    The size axis is logarithmic and leaves out the empty model; a ring marks the best step. Tables
    are drawn against their strength, a curve for each number of pairs.
    """
    from rankine.report.results import path_curves

    ax = start(ax)
    values = result.values if result.measured else result.loss
    sizes = result.nonzeros
    along, x_name = result.drawn_by
    for (name, curve), colour in zip(path_curves(result), COLOURS.values(), strict=False):
        here = curve.nonzeros > 0
        heights = (curve.values if result.measured else curve.loss)[here]
        ax.plot(
            curve.drawn_by[0][here],
            heights,
            marker="o",
            markersize=3.5,
            linewidth=1.4,
            color=colour,
            label=name,
        )
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
    ax = start(ax)
    colours = [COLOURS[name] for name in ("model", "against", "shown", "feature", "random")]
    shown = {"all": result, **result.contexts}
    for place, (name, part) in enumerate(shown.items()):
        colour = colours[place % len(colours)]
        positions = range(1, len(part) + 1)
        ax.fill_between(positions, part.low, part.high, color=colour, alpha=0.2, linewidth=0)
        ax.plot(positions, part.values, marker="o", markersize=4, color=colour, label=plain(name))
    ax.set_ylim(bottom=0)
    return finish(ax, "position", "looked at, relative to the first", key=len(shown) > 1)


def trials(result: TuningResult, *, ax: Any = None) -> Any:
    """Finished trials as dots (hollow where a limit is exceeded), the best so far as a line."""
    ax = start(ax)
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
