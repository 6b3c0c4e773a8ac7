"""Break the headline's metric down: at every depth of the list, and query by query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from rankine.core.errors import DataError
from rankine.evaluation.significance import bootstrap_means, percentile_interval
from rankine.metrics import Metric, parse_metric
from rankine.reporting.evaluated import EvaluatedModel, Opponent
from rankine.reporting.headline import CONFIDENCE, resamples_for
from rankine.reporting.html import captions, name
from rankine.reporting.numbers import number
from rankine.reporting.page import Section, figures
from rankine.reporting.svg import Line, histogram, line_chart

#: Depths at which metrics are measured; users look at few items beyond the first ones.
DEPTHS = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20)


@dataclass(frozen=True)
class Curve:
    """Mean of one opponent at each depth; the model's has an interval."""

    kind: str
    name: str
    values: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True)
class Curves:
    """One metric at each depth, for all opponents, over the queries that have a value."""

    metric: str
    title: str
    depths: Sequence[int]
    curves: Sequence[Curve]


def curve_metrics(evaluated: EvaluatedModel) -> list[Metric]:
    """Return the headline's metric if it has a cutoff, NDCG otherwise, and precision."""
    metric = evaluated.metric
    if not isinstance(metric.cutoff, int):
        metric = parse_metric("ndcg@10")
    if metric.name == "p":
        return [metric]
    return [metric, parse_metric("p@10")]


def curves(evaluated: EvaluatedModel, metric: Metric, seed: int = 0) -> Curves | None:
    """Measure at growing depths, as deep as lists go; None if the metric refuses the labels."""
    # Beyond the longest list a deeper cutoff changes nothing.
    longest = int(evaluated.data.queries.sizes.max())
    depths = [k for k in DEPTHS if k <= longest]
    try:
        lines = [_curve(evaluated, metric, depths, each, seed) for each in evaluated.opponents]
    except DataError:
        return None
    return Curves(metric.name, metric.title.partition("@")[0], depths, lines)


def _curve(
    evaluated: EvaluatedModel, metric: Metric, depths: Sequence[int], opponent: Opponent, seed: int
) -> Curve:
    columns = np.column_stack([evaluated.values(opponent, metric.at(k)) for k in depths])
    values = columns[~np.isnan(columns).any(axis=1)]
    low: list[float] = []
    high: list[float] = []
    if opponent.kind == "model" and len(values) >= 2:
        # All depths share the resampled queries; the budget counts every value drawn.
        means = bootstrap_means(values, resamples_for(values.size), seed)
        for column in means.T:
            bottom, top = percentile_interval(column, CONFIDENCE)
            low.append(bottom)
            high.append(top)
    return Curve(opponent.kind, opponent.name, values.mean(axis=0).tolist(), low, high)


#: Columns of a histogram.
BINS = 20


@dataclass(frozen=True)
class Spread:
    """Histogram of a metric over queries, with its quantiles."""

    metric: str
    edges: Sequence[float]
    counts: Sequence[int]
    mean: float
    quantiles: Sequence[float]
    zeros: int
    queries: int


@dataclass(frozen=True)
class Differences:
    """Histogram of (model - opponent) over queries; number of better, equal and worse queries."""

    metric: str
    opponent: str
    edges: Sequence[float]
    counts: Sequence[int]
    better: int
    equal: int
    worse: int


def spread(evaluated: EvaluatedModel, metric: Metric) -> Spread:
    """Return the distribution of the model's values over queries."""
    values = evaluated.values(evaluated.opponents[0], metric)
    values = values[~np.isnan(values)]
    # The axis covers at least 0 to 1, the range of most metrics, so that pages can be compared.
    ends = min(float(values.min()), 0.0), max(float(values.max()), 1.0)
    counts, edges = np.histogram(values, bins=BINS, range=ends)
    return Spread(
        str(metric),
        edges.tolist(),
        counts.tolist(),
        float(values.mean()),
        np.quantile(values, [0.1, 0.25, 0.5, 0.75, 0.9]).tolist(),
        int((values == 0).sum()),
        len(values),
    )


def differences(evaluated: EvaluatedModel, metric: Metric, opponent: Opponent) -> Differences:
    """Return the distribution of the differences to an opponent, in bins centred on zero."""
    model = evaluated.opponents[0]
    gaps = evaluated.values(model, metric) - evaluated.values(opponent, metric)
    gaps = gaps[~np.isnan(gaps)]
    # Equal orders may differ by rounding: they count as equal, not as better or worse.
    gaps = np.where(np.abs(gaps) > 1e-12, gaps, 0.0)
    reach = max(float(np.abs(gaps).max()), 1e-6)
    # An odd number of bins puts zero in the middle of one.
    counts, edges = np.histogram(gaps, bins=BINS + 1, range=(-reach, reach))
    sign = 1.0 if metric.larger_is_better else -1.0
    return Differences(
        str(metric),
        opponent.name,
        edges.tolist(),
        counts.tolist(),
        int((sign * gaps > 0).sum()),
        int((gaps == 0).sum()),
        int((sign * gaps < 0).sum()),
    )


def extremes(
    evaluated: EvaluatedModel, values: NDArray[np.float64], n: int, *, larger_is_better: bool
) -> tuple[list[int], list[int]]:
    """Return the indices of the ``n`` worst and ``n`` best queries, ties by number of pairs.

    No query is in both lists; if there are too few, the worst come first.
    """
    pairs = evaluated.data.labels.pair_counts
    # Without a pair of different labels every order is equally good.
    candidates = np.flatnonzero(~np.isnan(values) & (pairs > 0))
    sign = 1.0 if larger_is_better else -1.0
    worst = candidates[np.lexsort((-pairs[candidates], sign * values[candidates]))][:n]
    candidates = np.setdiff1d(candidates, worst)
    best = candidates[np.lexsort((-pairs[candidates], -sign * values[candidates]))][:n]
    return worst.tolist(), best.tolist()


#: Depths that get a label on the axis.
_TICKS = (1, 3, 5, 8, 10, 15, 20)


def curves_section(curves: Sequence[Curves]) -> Section | None:
    """Build a chart per metric."""
    if not curves:
        return None
    return Section(
        "depth",
        "Down the list",
        "How far down the list does it hold?",
        captions.depth_lead(),
        figures(*map(_depth_chart, curves)),
    )


def _depth_chart(curves: Curves) -> Markup:
    depths = curves.depths
    lines = []
    for curve in curves.curves[::-1]:  # the model is drawn last, on top of the others
        tips = [
            f"{curve.name}: {curves.title}@{k} {number(v)}"
            for k, v in zip(depths, curve.values, strict=True)
        ]
        x = [float(k) for k in depths]
        lines.append(
            Line(curve.name, curve.kind, x, curve.values, curve.low, curve.high, tips=tips)
        )
    title = f"{curves.title}@k"
    return line_chart(
        title,
        lines,
        ("k, items from the top", title),
        captions.depth(curves, curves.curves[0]),
        about=f"{curves.title} at depths {depths[0]} to {depths[-1]} of every order",
        legend=[(curve.kind, name(curve.name, 40)) for curve in curves.curves],
        x_ticks=[float(k) for k in depths if k in _TICKS],
    )


def queries_section(spread: Spread, gaps: Differences, title: str, lists: Markup) -> Section:
    """Build the histograms over queries, followed by ranked lists."""
    body = figures(_spread(spread, title), _differences(gaps, title)) + lists
    heading = "Which queries go well, which badly?"
    lead = captions.queries_lead(spread, title)
    return Section("queries", "Query by query", heading, lead, body)


def _spread(spread: Spread, title: str) -> Markup:
    return histogram(
        f"{title} of every query",
        spread.edges,
        spread.counts,
        (title, "queries"),
        captions.spread(spread),
        about=f"Histogram of {title} over {spread.queries} queries",
        rules=[("soft", spread.mean)],
    )


def _differences(gaps: Differences, title: str) -> Markup:
    return histogram(
        "Won and lost",
        gaps.edges,
        gaps.counts,
        (f"difference in {title}", "queries"),
        captions.differences(gaps),
        about=f"Histogram of differences in {title}",
        split=0.0,
        rules=[("soft", 0.0)],
    )
