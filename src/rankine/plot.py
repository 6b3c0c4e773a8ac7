"""Plots for notebooks: every function draws on matplotlib axes and returns them.

``rankine.report`` shows all figures of a model or result on one page. These functions draw those
that are worth having on axes of your own, from the same numbers. They need matplotlib
(``pip install rankine[report]``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankine.core.atomic import atomic_file
from rankine.core.errors import MissingExtraError, ParameterError
from rankine.core.safe_text import printable
from rankine.model.tables import find_tables
from rankine.rankers.path import RegularizationPath
from rankine.reporting.additive import TablePicture, pictures
from rankine.reporting.breakdown import curves
from rankine.reporting.results import path_curves
from rankine.reporting.run import as_model, evaluate_subject
from rankine.reporting.score_gaps import score_gaps as measure_score_gaps

if TYPE_CHECKING:
    from rankine.logs.propensity import Propensity
    from rankine.tuning.result import TuningResult

__all__ = ["metric_at_k", "path", "propensity", "score_gaps", "table", "trials", "weights"]

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


def metric_at_k(
    model: Any, data: Any, *, against: Any = None, metric: str = "ndcg@10", ax: Any = None
) -> Any:
    """Plot a metric at growing depth, for the model (with its 95 % interval) and its opponents.

    Examples
    --------
    >>> import rankine
    >>> log = rankine.shop_log(40)
    >>> ranker = rankine.LeastSquaresRanker(scale="standard").fit(log)
    >>> rankine.plot.metric_at_k(ranker, log).get_ylabel()
    'NDCG@k'
    """
    evaluated = evaluate_subject(model, data, against=against, metrics=[metric])
    by_depth = None
    if metric not in evaluated.refused:
        by_depth = curves(evaluated, evaluated.metric)
    if by_depth is None:
        raise ParameterError(
            f"{metric} has no value at fixed depths here",
            fix="Use ndcg@10 or p@10",
            parameter="metric",
        )
    ax = ax or new_axes()
    for curve in by_depth.curves:
        band = {"low": curve.low, "high": curve.high}
        _draw_line(ax, by_depth.depths, curve.values, curve.kind, curve.name, **band)
    return _finish(ax, "k", f"{by_depth.title}@k", key=True)


def weights(model: Any, data: Any = None, *, top: int = 20, ax: Any = None) -> Any:
    """Plot the strongest weights; with data, weight times the feature's spread within lists."""
    if data is None:
        fitted = as_model(model)
        sizes, names, x_name = fitted.values, fitted.weight_names, "weight"
    else:
        evaluated = evaluate_subject(model, data)
        sizes, names, x_name = evaluated.effect, evaluated.view.weight_names, "weight x spread"
    # Bars are drawn from the bottom, so the strongest comes last.
    order = np.argsort(-np.abs(sizes), kind="stable")[:top][::-1]
    ax = ax or new_axes()
    colours = [COLOURS["model" if sizes[k] > 0 else "against"] for k in order.tolist()]
    _draw_bars(ax, [names[k] for k in order.tolist()], sizes[order], colours)
    return _finish(ax, x_name, "")


def score_gaps(model: Any, data: Any, *, ax: Any = None) -> Any:
    """Plot how often the higher score has the higher label, against the gap of the two scores."""
    gaps = measure_score_gaps(evaluate_subject(model, data))
    ax = ax or new_axes()
    x_name, y_name = "difference of scores", "share of pairs in the right order"
    if gaps is None:
        return _finish(ax, x_name, y_name)
    x = np.array([b.value for b in gaps.bins])
    share, low, high = zip(*((b.share, b.low, b.high) for b in gaps.bins), strict=True)
    _draw_line(ax, x, share, "model", "measured", low=low, high=high)
    steps = np.linspace(0.0, x.max(), 60)
    fitted = 1 / (1 + np.exp(-gaps.slope * steps))
    ax.plot(steps, fitted, color=COLOURS["soft"], linestyle="--", label="logistic curve")
    return _finish(ax, x_name, y_name, key=True)


def table(model: Any, *columns: str, data: Any = None, ax: Any = None) -> Any:
    """Plot a table of an additive model: the curve of a column, or the heat map of two columns.

    With data, the share of its rows in each bin is drawn below a curve.
    """
    tables = find_tables(as_model(model))
    names = (" x ".join(columns), " x ".join(reversed(columns)))
    matches = []
    if tables is not None:
        matches = [picture for picture in pictures(tables, data) if picture.name in names]
    if not matches:
        raise ParameterError(
            f"the model has no table of {printable(names[0])!r}",
            fix="Name a column, or a pair of columns, of an additive model (see model.summary())",
            parameter="columns",
        )
    picture, ax = matches[0], ax or new_axes()
    if len(picture.columns) == 2:
        return _heat_map(ax, picture)
    if not picture.edges:
        _draw_bars(ax, picture.labels[0], picture.values, COLOURS["model"])
        return _finish(ax, "score", "", picture.name)
    ax.stairs(picture.values[:-1], picture.edges, baseline=None, color=COLOURS["model"])
    if picture.share:
        below = ax.twinx()
        colour = COLOURS["soft"]
        below.stairs(picture.share[:-1], picture.edges, fill=True, color=colour, alpha=0.2)
        below.set_ylim(0.0, 3.0 * max(picture.share))  # at most the lower third of the plot
        below.set_yticks([])
    return _finish(ax, _safe(picture.name), "score")


def _heat_map(ax: Any, picture: TablePicture) -> Any:
    values = np.array(picture.values)
    # The same limit on both sides: white means no effect.
    largest = np.abs(values).max() or 1.0
    limits = {"vmin": -largest, "vmax": largest}
    image = ax.imshow(values, origin="lower", aspect="auto", cmap="RdBu", **limits)
    ax.figure.colorbar(image, ax=ax, label="score")
    return _finish(ax, _safe(picture.columns[1]), _safe(picture.columns[0]), picture.name)


def path(result: RegularizationPath, *, ax: Any = None) -> Any:
    """Plot the metric (or the loss, without evaluation data) against non-zero weights.

    The size axis is logarithmic and leaves out the empty model; a ring marks the best step. Models
    of tables are drawn against their strength, with a curve for each number of pairs.
    """
    ax = ax or new_axes()
    y_name, values = "training loss", result.loss
    if result.measured:
        y_name, values = result.metric, result.values
    sizes = result.nonzeros
    x, x_name = result.x_axis
    for (label, curve), kind in zip(path_curves(result), COLOURS, strict=False):
        # A logarithmic axis has no place for 0 weights.
        nonempty = curve.nonzeros > 0
        heights = curve.values if result.measured else curve.loss
        _draw_line(ax, curve.x_axis[0][nonempty], heights[nonempty], kind, label)
    best = result.best()
    if sizes[best] > 0:
        ax.plot(
            x[best],
            values[best],
            marker="o",
            markersize=10,
            markerfacecolor="none",
            markeredgecolor=COLOURS["against"],
            linestyle="none",
            label=f"best: {sizes[best]:,} weights, {values[best]:.4g}",
        )
    ax.set_xscale("log")
    title = ""
    if not np.isfinite(values[sizes > 0]).any():
        title = "no model with a non-zero weight"
    return _finish(ax, x_name, y_name, title, key=bool(sizes[best] > 0))


def propensity(result: Propensity, *, ax: Any = None) -> Any:
    """Plot the examination probability by position with its interval, for each context."""
    ax = ax or new_axes()
    contexts = {"all": result, **result.contexts}
    for (label, part), kind in zip(contexts.items(), cycle(COLOURS), strict=False):
        positions = range(1, len(part) + 1)
        _draw_line(ax, positions, part.values, kind, label, low=part.low, high=part.high)
    ax.set_ylim(bottom=0)
    y_name = "examination probability, relative to position 1"
    return _finish(ax, "position", y_name, key=len(contexts) > 1)


def trials(result: TuningResult, *, ax: Any = None) -> Any:
    """Plot finished trials as dots (hollow if above a limit) and the best so far as a line."""
    ax = ax or new_axes()
    colour = COLOURS["model"]
    for feasible, face, label in ((True, colour, "trials"), (False, "none", "above a limit")):
        dots = [
            (r.number, r.value)
            for r in result.trace
            if r.value is not None and r.feasible is feasible
        ]
        if dots:
            x, y = zip(*dots, strict=True)
            ax.scatter(x, y, s=18, facecolors=face, edgecolors=colour, label=label)
    # Trials before the first feasible one have no best value.
    line = [record for record in result.trace if record.best is not None]
    ax.step(
        [record.number for record in line],
        [record.best for record in line],
        where="post",
        color=COLOURS["against"],
        linewidth=1.4,
        label=f"best: {result.best_value:.4g}",
    )
    return _finish(ax, "trial", result.metric, key=True)


def _finish(ax: Any, x_name: str, y_name: str, title: str = "", *, key: bool = False) -> Any:
    """Add axis names, title, grid and key; return the axes."""
    ax.set_xlabel(x_name)
    ax.set_ylabel(y_name)
    if title:
        ax.set_title(_safe(title), loc="left", fontsize="medium")
    if key:
        ax.legend(frameon=False, fontsize="small")
    ax.grid(visible=True, alpha=0.25)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def _safe(text: str, limit: int = 40) -> str:
    """Return a name from outside without mathematics or control characters, of bounded length."""
    return printable(text, limit).replace("$", r"\$")


def _draw_line(ax: Any, x: Any, y: Any, kind: str, label: str | None = None, **band: Any) -> None:
    """Draw a curve with dots; ``low`` and ``high`` draw a band around it."""
    colour = COLOURS[kind]
    if len(band.get("low", ())):
        ax.fill_between(x, band["low"], band["high"], color=colour, alpha=0.18, linewidth=0)
    label = None if label is None else _safe(label)
    ax.plot(x, y, color=colour, linestyle=LINES[kind], marker="o", markersize=3.5, label=label)


def _draw_bars(ax: Any, names: Sequence[str], sizes: Any, colours: Any) -> None:
    """Draw horizontal bars, the first at the bottom."""
    ax.barh(range(len(names)), sizes, color=colours)
    ax.set_yticks(range(len(names)))
    ax.set_yticklabels([_safe(name, 32) for name in names])


def new_axes() -> Any:
    """Create axes of a figure that belongs to no window."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError(
            "drawing needs matplotlib", fix="Install rankine[report]"
        ) from error
    return Figure(figsize=(6.0, 3.8), layout="constrained").subplots()


def check_plot_file(file: str) -> str:
    """Return the format that a file name ends with; raise if matplotlib cannot write it."""
    suffix = Path(file).suffix.removeprefix(".").lower()
    if suffix not in new_axes().figure.canvas.get_supported_filetypes():
        raise ParameterError(
            f"cannot draw {file!r}: unknown format {suffix!r}",
            fix="End the name with .png, .svg or .pdf",
            parameter="plot",
        )
    return suffix


def save_axes(ax: Any, file: str) -> None:
    """Write the figure of some axes; the suffix of the name chooses the format (png, svg, pdf)."""
    suffix = check_plot_file(file)
    with atomic_file(file) as target:
        ax.figure.savefig(target, format=suffix, dpi=150, bbox_inches="tight")
