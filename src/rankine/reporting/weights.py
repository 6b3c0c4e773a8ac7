"""What the model has learned: its strongest weights, their columns, how few would be enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.safe_text import Html, join, name_of, tag
from rankine.core.specs import LogColumns
from rankine.data.dataset import row_scores
from rankine.metrics import Metric, evaluate_on
from rankine.model import LinearModel
from rankine.reporting.judged import Judged
from rankine.reporting.page import (
    MINUS,
    Section,
    count,
    figures,
    note,
    number,
    percent,
    plural,
    signed,
)
from rankine.reporting.svg import Bar, Line, bars, line_chart

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
    """Features of one source column: how many have weights, and the sum of their effects' sizes."""

    column: str
    weights: int
    effect: float
    share: float


@dataclass(frozen=True)
class Weights:
    """What the model knows.

    ``positive`` and ``negative`` are ordered by effect; ``groups`` is empty where every feature is
    its own column; ``concentration`` holds (number of features, share of all effects) along the
    features from strongest to weakest; ``idle`` weights belong to features that never differ
    within a list of this data.
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
    """Strongest features, groups and concentration by effect (one per weight)."""
    names = model.weight_names
    if model.names is None:
        names = tuple(f"feature {name}" for name in names)
    strong = np.argsort(-np.abs(effect), kind="stable")
    chosen = {sign: [k for k in strong.tolist() if sign * model.values[k] > 0] for sign in (1, -1)}

    def listed(places: list[int]) -> list[Weight]:
        return [
            Weight(names[k], int(model.indices[k]), float(model.values[k]), float(effect[k]))
            for k in places[:top]
        ]

    total = float(np.abs(effect).sum())
    along = np.cumsum(np.abs(effect)[strong]) / total if total > 0 else np.zeros(model.nnz)
    places = _sizes(model.nnz, POINTS)
    return Weights(
        model.n_features,
        model.nnz,
        listed(chosen[1]),
        listed(chosen[-1]),
        _groups(model, effect, total),
        [(k, float(along[k - 1])) for k in places],
        int((effect == 0).sum()),
        int(np.searchsorted(along, 0.5) + 1) if total > 0 else 0,
        int(np.searchsorted(along, 0.9) + 1) if total > 0 else 0,
    )


def _sizes(largest: int, points: int) -> list[int]:
    """Whole numbers from 1 to ``largest``, all of them or evenly spaced by logarithm."""
    if largest == 0:
        return []
    return sorted({*np.geomspace(1, largest, points).round().astype(int).tolist(), largest})


def _groups(model: LinearModel, effect: NDArray[np.float64], total: float) -> list[Group]:
    found: dict[str, list[float]] = {}
    for name, index, size in zip(
        model.weight_names, model.indices.tolist(), np.abs(effect).tolist(), strict=True
    ):
        found.setdefault(source_of(model, name, index), []).append(size)
    if all(len(sizes) == 1 for sizes in found.values()):
        return []
    groups = [
        Group(column, len(sizes), sum(sizes), sum(sizes) / total if total > 0 else 0.0)
        for column, sizes in found.items()
    ]
    return sorted(groups, key=lambda group: -group.effect)[:TOP_GROUPS]


def source_of(model: LinearModel, name: str, index: int) -> str:
    """Column that a feature comes from: ``brand`` of ``brand=acme``; a number stands for itself.

    Crosses keep both columns (``brand x size``); hashed features whose value is unknown are
    ``hashed``.
    """
    spec = next((spec for spec in model.transforms if isinstance(spec, LogColumns)), None)
    if spec is not None:
        if index < len(spec.numeric):
            return spec.numeric[index]
        start = len(spec.numeric)
        sizes = [(field.column, len(field.values)) for field in spec.one_hot]
        for column, size in [*sizes, *((field.column, field.n_cells) for field in spec.binned)]:
            start += size
            if index < start:
                return column
        if name.startswith("hash:"):
            return "hashed (value unknown)"
    if "=" not in name:
        return name
    return " x ".join(part.partition("=")[0] for part in name.split(" x "))


CUTS = 12


@dataclass(frozen=True)
class SizeCurve:
    """The metric of models that keep only the ``sizes[k]`` weights with the largest effect.

    ``enough`` is the smallest size within one percent of the whole model's value.
    """

    metric: str
    sizes: Sequence[int]
    values: Sequence[float]
    enough: int


def size_curve(judged: Judged, metric: Metric) -> SizeCurve | None:
    """Cut the weights of smallest effect, measure again; None for a model without weights."""
    model, data = judged.view, judged.data
    if model.nnz == 0:
        return None
    strong = np.lexsort((-np.abs(model.values), -np.abs(judged.effect)))
    sizes = _sizes(model.nnz, CUTS)
    values = []
    for size in sizes:
        kept = strong[:size]
        coef = np.zeros(model.n_features)
        coef[model.indices[kept]] = model.values[kept]
        scores = judged.scores if size == model.nnz else row_scores(judged.features, coef)
        values.append(evaluate_on(data, scores=scores, metric=metric))
    near = [
        size
        for size, value in zip(sizes, values, strict=True)
        if (value >= 0.99 * values[-1] if metric.larger_is_better else value <= 1.01 * values[-1])
    ]
    return SizeCurve(str(metric), sizes, values, min(near))


def weights_section(found: Weights, meaning: str) -> Section:
    """Bars of effects by sign and by column, and their concentration; ``meaning`` of a bar."""
    lead = (
        f"{plural(found.nonzero, 'feature')} of {count(found.n_features)} "
        f"{'has' if found.nonzero == 1 else 'have'} a weight. {meaning}"
    )
    if found.nonzero == 0:
        body: Any = note("All weights are zero: every item has the same score.")
        return Section("weights", "Weights", "What has it learned?", lead, body)
    largest = max(abs(w.effect) for w in (*found.positive, *found.negative))
    parts = [
        _weights("Raises the score", found.positive, largest, "plus"),
        _weights("Lowers the score", found.negative, largest, "minus"),
    ]
    more: list[Html | None] = []
    if found.groups:
        more.append(_by_column(found.groups))
    if len(found.concentration) > 2:
        more.append(_concentration(found))
    remark = None
    if found.idle:
        few = found.idle == 1
        remark = note(
            f"{plural(found.idle, 'weight')} {'belongs' if few else 'belong'} to features that "
            "never differ within a list of this data: here they decide nothing."
        )
    body = join([remark, figures(*parts), figures(*more)])
    return Section("weights", "Weights", "What has it learned?", lead, body)


def _weights(title: str, shown: Sequence[Weight], largest: float, kind: str) -> Html | None:
    if not shown:
        return None
    rows = [
        Bar(
            name_of(w.name, 60),
            w.effect,
            f"{w.name}: {w.effect:+.4g}",
            (signed(w.effect, 3), number(w.weight, 3).replace("-", MINUS)),
        )
        for w in shown
    ]
    more = "More" if kind == "plus" else "Less"
    words = (
        f"The {len(shown)} strongest features of this sign. {more} of such a feature puts an item "
        "higher. Read: a bar twice as long moves items twice as far."
    )
    header = ("feature", "", "effect", "weight")
    return bars(title, rows, words, header=header, kind=kind, largest=largest)


def _by_column(groups: Sequence[Group]) -> Html:
    rows = [
        Bar(
            [name_of(g.column, 60), tag("small", plural(g.weights, "weight"))],
            g.effect,
            f"{g.column}: {g.effect:.4g}",
            (percent(g.share),),
        )
        for g in groups
    ]
    words = (
        "Features that come from one column, together. Read: the longer the bar, the more the "
        "column as a whole decides; shares are of all effects' sizes."
    )
    return bars("By source column", rows, words, header=("column", "", "share"))


def _concentration(found: Weights) -> Html:
    x = [float(k) for k, _ in found.concentration]
    y = [share for _, share in found.concentration]
    line = Line("share", "model", x, y, points=len(x) <= 40, tips=[
        f"{count(k)} features: {percent(share, 1)}" for k, share in found.concentration
    ])  # fmt: skip
    words = (
        f"Features from strongest to weakest, and the share of all effects they hold together: "
        f"half of it lies in {plural(found.for_half, 'feature')}, nine tenths in "
        f"{count(found.for_most)}. Read: a curve that rises early means that few features decide."
    )
    about = "Cumulative share of effects over features from strongest to weakest"
    return line_chart(
        "How many features decide",
        [line],
        ("features", "share"),
        words,
        about=about,
        log_x=x[-1] > 60,
        y_values=(0.0, 1.0),
    )


def size_section(found: SizeCurve, title: str) -> Section:
    """Quality against the number of weights kept."""
    tips = [
        f"{plural(size, 'weight')}: {number(value)}"
        for size, value in zip(found.sizes, found.values, strict=True)
    ]
    line = Line(title, "model", [float(s) for s in found.sizes], found.values, tips=tips)
    whole = found.values[-1]
    words = (
        f"The weights of least effect are cut away, and {title} is measured again on this data. "
        f"With {plural(found.enough, 'weight')} of {count(found.sizes[-1])} it stays within one "
        f"percent of the whole model's {number(whole, 3)} (dashed). Read: where the curve is "
        "flat, a smaller model would do as well."
    )
    chart = line_chart(
        "Quality against size",
        [line],
        ("weights kept", title),
        words,
        about=f"{title} of the model cut to its strongest weights",
        log_x=found.sizes[-1] > 12,
        rules=[("soft", whole)],
    )
    lead = (
        "Smaller models are faster to serve and easier to understand. Nothing is trained again: "
        "rankine path finds better small models."
    )
    return Section("size", "Size", "Could it be smaller?", lead, figures(chart))
