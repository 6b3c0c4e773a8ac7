"""Measure how good the model is: means with intervals, and its difference to every opponent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from rankine.evaluation.compare import Pair, System, compare_values
from rankine.metrics import Metric
from rankine.model.tables import find_tables
from rankine.reporting.evaluated import EvaluatedModel
from rankine.reporting.html import captions, concatenate, name, parts, sentences
from rankine.reporting.numbers import MINUS, NONE, count, number, percent, plural, signed
from rankine.reporting.origin import Origin
from rankine.reporting.page import Section, table
from rankine.reporting.svg import Scale, interval, linear

#: Confidence level of the intervals, and the largest difference that counts as irrelevant.
CONFIDENCE, MARGIN = 0.95, 0.01
#: Number of queries drawn, over all bootstrap samples of a metric, that a report can afford.
BUDGET = 50_000_000


@dataclass(frozen=True)
class Headline:
    """One metric: the mean of every opponent, and the model compared with each of them.

    ``pairs[k]`` compares the model (b) with opponent k + 1 (a). It is empty for fewer than two
    queries, for which intervals and tests mean nothing.
    """

    metric: str
    title: str
    larger_is_better: bool
    queries: int
    skipped: int
    resamples: int
    kinds: Sequence[str]
    systems: Sequence[System]
    pairs: Sequence[Pair]

    @property
    def model(self) -> System:
        """Mean of the model."""
        return self.systems[0]


def resamples_for(n_queries: int) -> int:
    """Return the number of bootstrap samples: 10,000, or fewer if there are many queries."""
    return int(np.clip(BUDGET // n_queries, 500, 10_000))


def headline(evaluated: EvaluatedModel, metric: Metric, seed: int = 0) -> Headline:
    """Compare the model with its opponents on the queries for which all have a value."""
    opponents = evaluated.opponents
    # Only queries where every system has a value can be compared in pairs.
    columns = np.column_stack([evaluated.values(opponent, metric) for opponent in opponents])
    values: NDArray[np.float64] = columns[~np.isnan(columns).any(axis=1)]
    names = [opponent.name for opponent in opponents]
    n_queries = len(values)
    resamples = resamples_for(n_queries)
    if n_queries >= 2:
        against = [(k, 0) for k in range(1, len(names))]
        systems, pairs = compare_values(
            names, values, metric, against, CONFIDENCE, MARGIN, resamples, seed
        )
    else:
        means = values.mean(axis=0).tolist()
        systems = [System(*named, math.nan, math.nan) for named in zip(names, means, strict=True)]
        pairs = []
    return Headline(
        str(metric),
        metric.title,
        metric.larger_is_better,
        n_queries,
        len(columns) - n_queries,
        resamples,
        [opponent.kind for opponent in opponents],
        systems,
        pairs,
    )


#: Verdict of a comparison -> CSS class and text on the page.
VERDICTS = {
    "better": ("good", "better"),
    "better, within the margin": ("good", "slightly better"),
    "worse": ("bad", "worse"),
    "worse, within the margin": ("bad", "slightly worse"),
    "equivalent": ("", "no relevant difference"),
    "undecided": ("", "could be chance"),
}


def summary(heads: Sequence[Headline]) -> Markup:
    """Return the first sentence of the page, which leaves out the best single feature."""
    head = heads[0]
    # ``pairs`` is empty for a single query: then the sentence ends after the mean.
    opponents = zip(head.kinds[1:], head.pairs, strict=False)
    return sentences.model_summary(head, [pair for kind, pair in opponents if kind != "feature"])


def headline_tiles(evaluated: EvaluatedModel, heads: Sequence[Headline]) -> list[Markup]:
    """Return up to five tiles: three metrics, the weights, the data."""
    tiles = []
    for head in heads[:3]:
        ends = ""
        if math.isfinite(head.model.low):
            ends = f"{number(head.model.low, 3)} {NONE} {number(head.model.high, 3)}"
        tiles.append(parts.tile(head.title, number(head.model.mean), ends))
    model, data = evaluated.model, evaluated.data
    share = model.nnz / max(model.n_features, 1)
    digits = 0
    if share < 0.1:
        digits = 1
    size = f"of {count(model.n_features)} features ({percent(share, digits)})"
    tables = find_tables(model)
    if tables is None:
        tiles.append(parts.tile("weights", count(model.nnz), size))
    else:
        size = f"with {count(model.nnz)} entries that are not zero"
        tiles.append(parts.tile("tables", count(len(tables.terms)), size))
    n_queries = plural(data.n_queries, "query", "queries")
    tiles.append(parts.tile("data", n_queries, f"{count(data.n_rows)} items"))
    return tiles


def headline_section(
    evaluated: EvaluatedModel, heads: Sequence[Headline], origin: Origin, note: Markup | None = None
) -> Section:
    """Build a table of systems with their intervals, a table of further metrics, and warnings.

    ``note`` is a further remark.
    """
    body = []
    lead = captions.quality()
    if origin.trained_share == 0:
        lead = Markup("{} {}").format(sentences.trained_on_this(origin), lead)
    elif origin.seen or origin.trained_share is not None:
        body.append(parts.note(sentences.trained_on_this(origin)))
    if note is not None:
        body.append(note)
    for metric, reason in evaluated.refused.items():
        body.append(parts.note(sentences.unmeasurable(metric, reason)))
    if heads[0].queries < 2:
        body.append(parts.note(captions.single_query()))
    body.append(parts.card(_systems_table(heads[0])))
    if len(heads) > 1:
        body.append(parts.card(_further_metrics(heads[1:])))
    title = "How good is it?"
    return Section("quality", "Quality", title, lead, concatenate(body))


def _further_metrics(heads: Sequence[Headline]) -> Markup:
    """Render the means of all systems by further metrics, the best of each row in bold."""
    header = ["further metrics", *(name(s.name, 48) for s in heads[0].systems)]
    rows, bold = [], set()
    for r, head in enumerate(heads):
        means = [system.mean for system in head.systems]
        best, direction = max(means), None
        if not head.larger_is_better:
            best, direction = min(means), " (less is better)"
        bold |= {(r, c) for c, mean in enumerate(means, 1) if mean == best}
        cells = [parts.with_small(number(s.mean), _interval_text(s)) for s in head.systems]
        rows.append([parts.with_small(head.title, direction), *cells])
    return table(header, rows, bold=frozenset(bold))


def _interval_text(system: System) -> str | None:
    if not math.isfinite(system.low):
        return None
    return f"{number(system.low, 3)} to {number(system.high, 3)}"


def _systems_table(head: Headline) -> Markup:
    scale = linear([v for s in head.systems for v in (s.mean, s.low, s.high)])
    pairs: Iterable[Pair | None] = [None, *head.pairs]  # the model is not compared with itself
    rows = []
    for system, kind, pair in zip_longest(head.systems, head.kinds, pairs):
        difference = verdict = None
        if pair is not None:
            ends = f"{signed(pair.low)} to {signed(pair.high)}"
            difference = parts.with_small(signed(pair.difference), ends)
            verdict = verdict_text(pair)
        strip = system_strip(system, scale, kind)
        rows.append((name(system.name, 80), strip, number(system.mean), difference, verdict))
    header = ("order", "mean", "model minus this", "the model is")
    return strip_table(captions.systems(head), header, scale, rows)


def strip_table(
    caption: Any, header: Sequence[str], scale: Scale, rows: Sequence[Sequence[Any]]
) -> Markup:
    """Render rows of name, strip on a common scale, value, difference or interval, verdict.

    ``header`` names all columns but the strip's, which shows the ends of the scale.
    """
    ends = f"{number(scale.low, 2)} to {number(scale.high, 2)}".replace("-", MINUS)
    return parts.strip_table(caption, header, ends, rows)


def system_strip(system: System, scale: Scale, kind: str) -> Markup:
    """Draw a mean, and its interval if it has one."""
    tip = f"{system.name}: {number(system.mean)}"
    if not math.isfinite(system.low):
        return interval(system.mean, None, scale, kind, tip)
    tip += f", interval {number(system.low)} to {number(system.high)}"
    return interval(system.mean, (system.low, system.high), scale, kind, tip)


def verdict_text(pair: Pair) -> Markup:
    """Return the verdict of a comparison in its colour."""
    return parts.verdict(*VERDICTS.get(pair.verdict, ("", pair.verdict)))
