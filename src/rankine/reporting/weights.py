"""Show what the model has learned: its strongest weights, their columns, how few would suffice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from rankine.core.specs import LogColumns
from rankine.data.dataset import row_scores
from rankine.metrics import Metric, evaluate_on
from rankine.model import LinearModel
from rankine.model.tables import find_tables
from rankine.reporting.evaluated import EvaluatedModel
from rankine.reporting.html import captions, name, parts
from rankine.reporting.numbers import MINUS, count, number, percent, plural, signed
from rankine.reporting.page import Section, figures
from rankine.reporting.svg import Bar, Line, bars, line_chart

#: Features of each sign, columns, and points of the curve of shares, at most.
TOP, TOP_GROUPS, POINTS = 12, 15, 40


@dataclass(frozen=True)
class Weight:
    """A weighted feature; ``effect`` = weight x spread within lists, in units of the score."""

    name: str
    index: int
    weight: float
    effect: float


@dataclass(frozen=True)
class Group:
    """Features of one source column: number of weights, and the sum of their absolute effects."""

    column: str
    weights: int
    effect: float
    share: float


@dataclass(frozen=True)
class Weights:
    """Strongest features of a model.

    ``positive`` and ``negative`` are ordered by effect. ``groups`` is empty if every feature is
    a separate column. ``concentration`` holds (number of features, share of all effects), counting
    from the strongest feature. ``idle`` is the number of weights whose feature never differs within
    a list of this data.
    """

    n_features: int
    nonzero: int
    positive: Sequence[Weight]
    negative: Sequence[Weight]
    groups: Sequence[Group]
    concentration: Sequence[tuple[int, float]]
    idle: int
    for_half: int
    for_most: int


def weights(model: LinearModel, effect: NDArray[np.float64], top: int = TOP) -> Weights:
    """Return strongest features, groups and concentration by effect (one value per weight)."""
    names = model.weight_names
    if model.names is None:
        names = tuple(f"feature {label}" for label in names)
    size = np.abs(effect)
    order = np.argsort(-size, kind="stable")

    def strongest(sign: int) -> list[Weight]:
        of_sign = [k for k in order.tolist() if sign * model.values[k] > 0]
        return [
            Weight(names[k], int(model.indices[k]), float(model.values[k]), float(effect[k]))
            for k in of_sign[:top]
        ]

    total = float(size.sum())
    cumulative = np.zeros(model.nnz)
    for_half = for_most = 0
    if total > 0:
        cumulative = np.cumsum(size[order]) / total
        # How many of the strongest features make up half and nine tenths of all effects.
        for_half, for_most = (int(np.searchsorted(cumulative, s) + 1) for s in (0.5, 0.9))
    return Weights(
        model.n_features,
        model.nnz,
        strongest(1),
        strongest(-1),
        _groups(model, effect, total),
        [(k, float(cumulative[k - 1])) for k in _sizes(model.nnz, POINTS)],
        int((effect == 0).sum()),
        for_half,
        for_most,
    )


def _sizes(largest: int, n_points: int) -> list[int]:
    """Return integers from 1 to ``largest``: all of them, or evenly spaced by logarithm."""
    if largest == 0:
        return []
    return sorted({*np.geomspace(1, largest, n_points).round().astype(int).tolist(), largest})


def _groups(model: LinearModel, effect: NDArray[np.float64], total: float) -> list[Group]:
    sizes_by_column: dict[str, list[float]] = {}
    for label, index, size in zip(
        model.weight_names, model.indices.tolist(), np.abs(effect).tolist(), strict=True
    ):
        sizes_by_column.setdefault(source_of(model, label, index), []).append(size)
    # A table of columns would repeat the bars of the features.
    if all(len(sizes) == 1 for sizes in sizes_by_column.values()):
        return []
    groups = []
    for column, sizes in sizes_by_column.items():
        share = 0.0
        if total > 0:
            share = sum(sizes) / total
        groups.append(Group(column, len(sizes), sum(sizes), share))
    return sorted(groups, key=lambda group: -group.effect)[:TOP_GROUPS]


def source_of(model: LinearModel, feature: str, index: int) -> str:
    """Return the column of a feature: ``brand`` for ``brand=acme``, the name itself for a number.

    Crosses keep both columns (``brand x size``); hashed features whose value is unknown are
    ``hashed``.
    """
    spec = next((spec for spec in model.transforms if isinstance(spec, LogColumns)), None)
    # Encoded columns are laid out as numbers, then one-hot, then binned, then hashed columns.
    if spec is not None:
        if index < len(spec.numeric):
            return spec.numeric[index]
        end = len(spec.numeric)
        sizes = [(field.column, len(field.values)) for field in spec.one_hot]
        sizes += [(field.column, field.n_cells) for field in spec.binned]
        for column, size in sizes:
            end += size
            if index < end:
                return column
        # Only weights whose value was found in the log have a name.
        if feature.startswith("hash:"):
            return "hashed (value unknown)"
    if "=" not in feature:
        return feature
    return " x ".join(part.partition("=")[0] for part in feature.split(" x "))


#: Sizes at which a smaller model is measured, at most.
CUTS = 12


@dataclass(frozen=True)
class SizeCurve:
    """The metric of models that keep only the ``sizes[k]`` weights with the largest effect.

    ``enough`` is the smallest size within one percent of the whole model's value. A model of tables
    keeps whole tables: ``unit`` is ``"table"``.
    """

    metric: str
    sizes: Sequence[int]
    values: Sequence[float]
    enough: int
    unit: str = "weight"


def size_curve(evaluated: EvaluatedModel, metric: Metric) -> SizeCurve | None:
    """Remove the weights of smallest effect and measure again; None for a model without weights."""
    model, data = evaluated.view, evaluated.data
    if model.nnz == 0:
        return None
    # Ties in effect (constant features) are ordered by weight.
    order = np.lexsort((-np.abs(model.values), -np.abs(evaluated.effect)))
    sizes = _sizes(model.nnz, CUTS)
    values = []
    for size in sizes:
        scores = evaluated.scores
        if size < model.nnz:
            strongest = order[:size]
            coef = np.zeros(model.n_features)
            coef[model.indices[strongest]] = model.values[strongest]
            scores = row_scores(evaluated.features, coef)
        values.append(evaluate_on(data, scores=scores, metric=metric))
    if metric.larger_is_better:
        # The last value is that of the whole model.
        close = np.array(values) >= 0.99 * values[-1]
    else:
        close = np.array(values) <= 1.01 * values[-1]
    unit = "weight" if find_tables(evaluated.model) is None else "table"
    return SizeCurve(str(metric), sizes, values, sizes[int(np.argmax(close))], unit)


def weights_section(learned: Weights, *, effects: bool) -> Section:
    """Build bars by sign and by column, of effects or of the weights themselves."""
    lead = captions.weights_lead(learned, effects)
    if learned.nonzero == 0:
        body = parts.note("All weights are zero: every item has the same score.")
        return Section("weights", "Weights", "What has it learned?", lead, body)
    # One scale for both charts, so that bars can be compared between them.
    largest = max(abs(w.effect) for w in (*learned.positive, *learned.negative))
    body = figures(
        _weights("Raises the score", learned.positive, largest, "plus"),
        _weights("Lowers the score", learned.negative, largest, "minus"),
    )
    body += figures(_by_column(learned.groups), _concentration(learned))
    if learned.idle:
        body = parts.note(captions.idle_weights(learned.idle)) + body
    return Section("weights", "Weights", "What has it learned?", lead, body)


def _weights(title: str, strongest: Sequence[Weight], largest: float, sign: str) -> Markup | None:
    if not strongest:
        return None
    rows = []
    for weight in strongest:
        cells = (signed(weight.effect, 3), number(weight.weight, 3).replace("-", MINUS))
        tip = f"{weight.name}: {weight.effect:+.4g}"
        rows.append(Bar(name(weight.name, 60), weight.effect, tip, cells))
    caption = captions.strongest(len(strongest), sign)
    header = ("feature", "", "effect", "weight")
    return bars(title, rows, caption, header=header, kind=sign, largest=largest)


def _by_column(groups: Sequence[Group]) -> Markup | None:
    if not groups:
        return None
    rows = []
    for group in groups:
        label = parts.with_small(name(group.column, 60), plural(group.weights, "weight"))
        tip = f"{group.column}: {group.effect:.4g}"
        rows.append(Bar(label, group.effect, tip, (percent(group.share),)))
    return bars("By source column", rows, captions.by_column(), header=("column", "", "share"))


def _concentration(learned: Weights) -> Markup | None:
    if len(learned.concentration) <= 2:
        return None
    x = [float(k) for k, _ in learned.concentration]
    y = [share for _, share in learned.concentration]
    tips = [f"{count(k)} features: {percent(share, 1)}" for k, share in learned.concentration]
    line = Line("share", "model", x, y, points=len(x) <= 40, tips=tips)
    return line_chart(
        "How many features decide",
        [line],
        ("features", "share"),
        captions.concentration(learned),
        about="Cumulative share of effects over features from strongest to weakest",
        log_x=x[-1] > 60,
        y_values=(0.0, 1.0),
    )


def size_section(curve: SizeCurve, title: str) -> Section:
    """Build a chart of quality against the number of weights that are kept."""
    tips = [
        f"{plural(size, curve.unit)}: {number(value)}"
        for size, value in zip(curve.sizes, curve.values, strict=True)
    ]
    line = Line(title, "model", [float(s) for s in curve.sizes], curve.values, tips=tips)
    chart = line_chart(
        "Quality against size",
        [line],
        (f"{curve.unit}s kept", title),
        captions.size(curve, title),
        about=f"{title} of the model cut to its strongest {curve.unit}s",
        log_x=curve.sizes[-1] > 12,
        rules=[("soft", curve.values[-1])],
    )
    lead = captions.size_lead()
    return Section("size", "Size", "Could it be smaller?", lead, figures(chart))
