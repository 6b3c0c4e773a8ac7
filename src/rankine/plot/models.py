"""Plots of a model on labelled data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rankine.core.errors import ParameterError
from rankine.plot.axes import COLOURS, LINES, finish, plain, start

if TYPE_CHECKING:
    from rankine.metrics import Metric
    from rankine.report.judged import Judged

__all__ = [
    "calibration",
    "differences",
    "metric_at_k",
    "per_query",
    "quality",
    "size",
    "training",
    "weights",
]


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
    from rankine.report.figures.headline import headline

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
    from rankine.report.figures.curves import curves

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
    from rankine.report.figures.queries import spread

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
    from rankine.report.figures.queries import differences as gaps

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
    import numpy as np

    from rankine.report.run import as_model

    if data is None:
        fitted = as_model(model)[0]
        sizes, named, x_name = fitted.values, fitted.weight_names, "weight"
    else:
        judged, _ = _judged(model, data, None, None)
        sizes, named, x_name = judged.effect, judged.model.weight_names, "weight x spread"
    order = np.argsort(-np.abs(sizes), kind="stable")[:top][::-1]
    ax = start(ax)
    colours = [COLOURS["model" if sizes[k] > 0 else "against"] for k in order.tolist()]
    ax.barh(range(len(order)), sizes[order], color=colours)
    ax.set_yticks(range(len(order)))
    ax.set_yticklabels([plain(named[k], 32) for k in order.tolist()])
    return finish(ax, x_name, "")


def size(model: Any, data: Any, *, metric: str | None = None, ax: Any = None) -> Any:
    """The metric when only the strongest weights are kept."""
    from rankine.report.figures.sizes import size_curve

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
    import numpy as np

    from rankine.report.figures.calibration import calibration as measure

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
    from rankine.report.figures.training import training as recorded
    from rankine.report.run import as_model

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
