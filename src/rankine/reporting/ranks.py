"""Quality down the list and over queries: a metric at every depth, its spread, the extremes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import DataError
from rankine.core.safe_text import Html, name_of
from rankine.evaluation.significance import bootstrap_means, percentile_interval
from rankine.metrics import Metric, parse_metric
from rankine.reporting.headline import CONFIDENCE, resamples_for
from rankine.reporting.judged import Judged, Opponent
from rankine.reporting.page import Section, count, figures, number, percent, plural
from rankine.reporting.svg import Line, histogram, line_chart

DEPTHS = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20)


@dataclass(frozen=True)
class Curve:
    """One opponent's mean at each depth; the model's carries an interval."""

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


def curve_metrics(judged: Judged) -> list[Metric]:
    """The headline's metric where it has a cutoff (else NDCG), and precision."""
    own = judged.metric
    found = [own if isinstance(own.cutoff, int) else parse_metric("ndcg@10")]
    if found[0].name != "p":
        found.append(parse_metric("p@10"))
    return found


def curves(judged: Judged, metric: Metric, seed: int = 0) -> Curves | None:
    """Values at growing depths, as deep as lists go; None where labels do not suit the metric."""
    longest = int(judged.data.queries.sizes.max())
    depths = [k for k in DEPTHS if k <= longest]
    found = []
    try:
        for one in judged.opponents:
            values = np.column_stack([judged.values(one, metric.at(k)) for k in depths])
            kept = values[~np.isnan(values).any(axis=1)]
            low: list[float] = []
            high: list[float] = []
            if one.kind == "model" and len(kept) >= 2:
                means = bootstrap_means(kept, resamples_for(len(kept) * len(depths)), seed)
                ends = [percentile_interval(means[:, c], CONFIDENCE) for c in range(len(depths))]
                low, high = [end[0] for end in ends], [end[1] for end in ends]
            found.append(Curve(one.kind, one.name, kept.mean(axis=0).tolist(), low, high))
    except DataError:
        return None
    title = metric.title.partition("@")[0]
    return Curves(metric.name, title, depths, found)


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
    """Histogram of (model - opponent) over queries; better, equal and worse queries."""

    metric: str
    opponent: str
    edges: Sequence[float]
    counts: Sequence[int]
    better: int
    equal: int
    worse: int


def spread(judged: Judged, metric: Metric) -> Spread:
    """Distribution of the model's values."""
    values = judged.values(judged.opponents[0], metric)
    kept = values[~np.isnan(values)]
    ends = min(float(kept.min()), 0.0), max(float(kept.max()), 1.0)
    counts, edges = np.histogram(kept, bins=BINS, range=ends)
    return Spread(
        str(metric),
        edges.tolist(),
        counts.tolist(),
        float(kept.mean()),
        np.quantile(kept, [0.1, 0.25, 0.5, 0.75, 0.9]).tolist(),
        int((kept == 0).sum()),
        len(kept),
    )


def differences(judged: Judged, metric: Metric, opponent: Opponent) -> Differences:
    """Distribution of the differences to an opponent, in bins centred on zero."""
    gap = judged.values(judged.opponents[0], metric) - judged.values(opponent, metric)
    gap = gap[~np.isnan(gap)]
    gap = np.where(np.abs(gap) > 1e-12, gap, 0.0)
    reach = max(float(np.abs(gap).max()), 1e-6)
    counts, edges = np.histogram(gap, bins=BINS + 1, range=(-reach, reach))
    sign = 1.0 if metric.larger_is_better else -1.0
    return Differences(
        str(metric),
        opponent.name,
        edges.tolist(),
        counts.tolist(),
        int((sign * gap > 0).sum()),
        int((gap == 0).sum()),
        int((sign * gap < 0).sum()),
    )


def extremes(
    judged: Judged, values: NDArray[np.float64], n: int, *, larger_is_better: bool
) -> tuple[list[int], list[int]]:
    """Positions of the ``n`` worst and ``n`` best queries; among equals those with most pairs.

    No query is named twice; with few queries the worst come first.
    """
    pairs = judged.data.labels.pair_counts
    known = np.flatnonzero(~np.isnan(values) & (pairs > 0))
    sign = 1.0 if larger_is_better else -1.0
    worst = known[np.lexsort((-pairs[known], sign * values[known]))][:n]
    rest = np.setdiff1d(known, worst)
    best = rest[np.lexsort((-pairs[rest], -sign * values[rest]))][:n]
    return worst.tolist(), best.tolist()


#: Depths that the axis names.
_TICKS = (1, 3, 5, 8, 10, 15, 20)
_MEANING = {
    "p": "the share of relevant items among the first k",
    "ndcg": "how close the first k items come to the ideal order (1 is ideal)",
    "recall": "the share of all relevant items that the first k hold",
}


def curves_section(found: Sequence[Curves]) -> Section | None:
    """One picture per metric."""
    if not found:
        return None
    pictures = [_curves(one) for one in found]
    return Section(
        "depth",
        "Down the list",
        "How far down the list does it hold?",
        "Users look at the top first: the same metric, cut after 1, 2, 3 ... items.",
        figures(*pictures),
    )


def _curves(found: Curves) -> Html:
    lines = [
        Line(
            curve.name,
            curve.kind,
            [float(k) for k in found.depths],
            curve.values,
            curve.low,
            curve.high,
            tips=[
                f"{curve.name}: {found.title}@{k} {number(v)}"
                for k, v in zip(found.depths, curve.values, strict=True)
            ],
        )
        for curve in found.curves[::-1]
    ]
    model = found.curves[0]
    first, last = model.values[0], model.values[-1]
    meaning = _MEANING.get(found.metric, f"{found.title} of the first k items")
    words = (
        f"Height: {meaning}. The model goes from {number(first, 3)} at k = {found.depths[0]} to "
        f"{number(last, 3)} at k = {found.depths[-1]}; the band is its 95 % interval. Read: the "
        "higher the line, the better the order; lines that meet are equally good at that depth."
    )
    about = f"{found.title} at depths {found.depths[0]} to {found.depths[-1]} of every order"
    key = [(curve.kind, name_of(curve.name, 40)) for curve in found.curves]
    title = f"{found.title}@k"
    ticks = [float(k) for k in found.depths if k in _TICKS]
    names = ("k, items from the top", title)
    return line_chart(title, lines, names, words, about=about, key=key, x_ticks=ticks)


def queries_section(spread: Spread, gaps: Differences, title: str, lists: Html) -> Section:
    """Histograms, then lists."""
    parts = [_spread(spread, title), _differences(gaps, title)]
    low, high = spread.quantiles[0], spread.quantiles[-1]
    lead = (
        f"A mean hides much: on the worst tenth of the queries {title} is {number(low, 3)} or "
        f"less, on the best tenth {number(high, 3)} or more."
    )
    return Section(
        "queries", "Query by query", "Which queries go well, which badly?", lead,
        [figures(*parts), lists],
    )  # fmt: skip


def _spread(spread: Spread, title: str) -> Html:
    middle = spread.quantiles[2]
    words = (
        f"Each column counts queries with that value; the dashed line is the mean "
        f"({number(spread.mean, 3)}), the median is {number(middle, 3)}. "
        f"{plural(spread.zeros, 'query', 'queries')} of {count(spread.queries)} "
        f"({percent(spread.zeros / spread.queries)}) {'has' if spread.zeros == 1 else 'have'} "
        "exactly 0. Read: the further right the columns stand, the better."
    )
    return histogram(
        f"{title} of every query",
        spread.edges,
        spread.counts,
        (title, "queries"),
        words,
        about=f"Histogram of {title} over {spread.queries} queries",
        rules=[("soft", spread.mean)],
    )


def _differences(gaps: Differences, title: str) -> Html:
    tally = f"{count(gaps.better)} better, {count(gaps.equal)} equal, {count(gaps.worse)} worse"
    reading = (
        "Read: columns right of zero are queries that the model ranks better, columns left of it "
        "are what it costs."
    )
    words = ["Model minus ", name_of(gaps.opponent, 60), f", query by query: {tally}. {reading}"]
    return histogram(
        "Won and lost",
        gaps.edges,
        gaps.counts,
        (f"difference in {title}", "queries"),
        words,
        about=f"Histogram of differences in {title}",
        split=0.0,
        rules=[("soft", 0.0)],
    )
