"""How good the model is: means with intervals, and what separates it from every opponent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.safe_text import Html, join, name_of, tag
from rankine.evaluation.compare import Pair, System, compare_values
from rankine.metrics import Metric
from rankine.reporting.judged import Judged
from rankine.reporting.origin import Origin
from rankine.reporting.page import (
    MINUS,
    Section,
    card,
    count,
    note,
    number,
    percent,
    plural,
    signed,
    table,
    tile,
)
from rankine.reporting.svg import Scale, interval, linear

CONFIDENCE, MARGIN = 0.95, 0.01
#: Draws of queries that a report affords for one metric.
BUDGET = 50_000_000


@dataclass(frozen=True)
class Headline:
    """One metric: every opponent's mean, and the model against each of them.

    ``pairs[k]`` is the model (b) against opponent k + 1 (a); empty with fewer than two queries,
    where intervals and tests mean nothing.
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
        """The model's mean."""
        return self.systems[0]


def resamples_for(n_queries: int) -> int:
    """Bootstrap samples: 10,000, fewer for very many queries."""
    return int(np.clip(BUDGET // n_queries, 500, 10_000))


def headline(judged: Judged, metric: Metric, seed: int = 0) -> Headline:
    """Compare the model with its opponents on the queries where all have a value."""
    columns = np.column_stack([judged.values(one, metric) for one in judged.opponents])
    kept: NDArray[np.float64] = columns[~np.isnan(columns).any(axis=1)]
    names = [one.name for one in judged.opponents]
    n = len(kept)
    resamples = resamples_for(n)
    if n >= 2:
        against = [(k, 0) for k in range(1, len(names))]
        systems, pairs = compare_values(
            names, kept, metric, against, CONFIDENCE, MARGIN, resamples, seed
        )
    else:
        nothing = float("nan")
        systems = [
            System(name, float(kept[:, c].mean()), nothing, nothing) for c, name in enumerate(names)
        ]
        pairs = []
    return Headline(
        str(metric),
        metric.title,
        metric.larger_is_better,
        n,
        len(columns) - n,
        resamples,
        [one.kind for one in judged.opponents],
        systems,
        pairs,
    )


VERDICTS = {
    "better": ("good", "better"),
    "better, within the margin": ("good", "better, by little"),
    "worse": ("bad", "worse"),
    "worse, within the margin": ("bad", "worse, by little"),
    "equivalent": ("", "no difference that matters"),
    "undecided": ("", "not settled by this data"),
}


def summary_words(heads: Sequence[Headline]) -> list[Any]:
    """The page's first sentence."""
    head = heads[0]
    value = tag("strong", number(head.model.mean))
    where = plural(head.queries, "query", "queries")
    words: list[Any] = [f"On {where} the model reaches {head.title} ", value]
    if math.isfinite(head.model.low):
        words.append(f" (95 % interval {number(head.model.low)} to {number(head.model.high)})")
    told = [p for k, p in zip(head.kinds[1:], head.pairs, strict=False) if k != "feature"]
    for k, pair in enumerate(told):
        words += [
            ": " if k == 0 else " and " if k == len(told) - 1 else ", ",
            *_against(pair),
        ]
    return [*words, "."]


def _against(pair: Pair) -> list[Any]:
    known = {"random order": "a random order", "order as shown": "the order as shown"}
    other = known.get(pair.a) or name_of(pair.a, 60)
    if pair.difference == 0:
        return ["the same as ", other]
    sure = "" if pair.significant else " (not settled by this data)"
    side = " above " if pair.difference > 0 else " below "
    return [tag("strong", number(abs(pair.difference))), side, other, sure]


def headline_tiles(judged: Judged, heads: Sequence[Headline]) -> list[Html]:
    """Up to five figures."""
    found = []
    for head in heads[:3]:
        spread = ""
        if math.isfinite(head.model.low):
            spread = f"{number(head.model.low, 3)} \N{EN DASH} {number(head.model.high, 3)}"
        found.append(tile(head.title, number(head.model.mean), spread))
    model = judged.model
    share = model.nnz / max(model.n_features, 1)
    size = f"of {count(model.n_features)} features ({percent(share, 1 if share < 0.1 else 0)})"
    found.append(tile("weights", count(model.nnz), size))
    data = judged.data
    found.append(
        tile("data", plural(data.n_queries, "query", "queries"), f"{count(data.n_rows)} items")
    )
    return found


def headline_section(judged: Judged, heads: Sequence[Headline], origin: Origin) -> Section:
    """A table per metric, each row a system with its interval."""
    remarks = []
    if origin.seen:
        files = ", ".join(origin.seen)
        remarks.append(
            note(
                "The model was trained on data of this report (", name_of(files),
                "): these figures flatter it. Judge it on queries it has not seen.",
            )
        )  # fmt: skip
    for metric, reason in judged.refused.items():
        remarks.append(note(tag("code", metric), f" cannot be measured here: {reason}."))
    if heads[0].queries < 2:
        remarks.append(note("One query gives a value but no interval: nothing to resample."))
    tables = [card(_table(heads[0]))]
    if len(heads) > 1:
        tables.append(card(_others(heads[1:])))
    lead = (
        "Each mark is a mean over queries, each bar the 95 % interval that resampling the queries "
        "gives. Differences are the model minus the other, query by query."
    )
    return Section("quality", "Quality", "How good is it?", lead, join([*remarks, *tables]))


def _others(heads: Sequence[Headline]) -> Html:
    """Means of all systems by further metrics; the best of a row stands out."""
    header = ["further metrics", *(name_of(s.name, 48) for s in heads[0].systems)]
    rows, bold = [], set()
    for r, head in enumerate(heads):
        less = "" if head.larger_is_better else " (less is better)"
        means = [s.mean for s in head.systems]
        best = max(means) if head.larger_is_better else min(means)
        bold |= {(r, c) for c, mean in enumerate(means, 1) if mean == best}
        cells = [[number(s.mean), _interval(s)] for s in head.systems]
        rows.append([[head.title, tag("small", less) if less else None], *cells])
    return table(header, rows, bold=frozenset(bold))


def _interval(system: System) -> Html | None:
    if not math.isfinite(system.low):
        return None
    return tag("small", f"{number(system.low, 3)} to {number(system.high, 3)}")


def _table(head: Headline) -> Html:
    scale = linear([v for s in head.systems for v in (s.mean, s.low, s.high)])
    pairs: list[Pair | None] = [None, *head.pairs] if head.pairs else [None] * len(head.systems)
    rows = [
        _row(system, pair, kind, scale)
        for system, pair, kind in zip(head.systems, pairs, head.kinds, strict=True)
    ]
    words = [f"{head.title} over {plural(head.queries, 'query', 'queries')}"]
    if head.skipped:
        words.append(f", {count(head.skipped)} without a value left out")
    if not head.larger_is_better:
        words.append(" (less is better)")
    header = ("order", "mean", "model minus this", "the model is")
    return strip_table("".join(words), header, scale, rows)


def _row(system: System, pair: Pair | None, kind: str, scale: Scale) -> tuple[Any, ...]:
    cell = verdict = None
    if pair is not None:
        verdict = verdict_of(pair)
        cell = [signed(pair.difference), tag("small", f"{signed(pair.low)} to {signed(pair.high)}")]
    strip = system_strip(system, scale, kind)
    return name_of(system.name, 80), strip, number(system.mean), cell, verdict


def strip_table(
    caption: str, header: Sequence[str], scale: Scale, rows: Sequence[Sequence[Any]]
) -> Html:
    """A table with a picture in every row: name, strip on a common scale, value, more, verdict.

    ``header`` names all columns but the strip's, which shows the ends of the scale.
    """
    ends = f"{number(scale.low, 2)} to {number(scale.high, 2)}".replace("-", MINUS)
    kinds = (None, "wide", "n", "n", None)
    named = (header[0], tag("small", ends), *header[1:])
    head = [tag("th", h, class_=k, scope="col") for h, k in zip(named, kinds, strict=True)]
    body = []
    for row in rows:
        cells = zip(row[1:], ("wide", "n", "n rest", "rest"), strict=True)
        body.append(
            tag("tr", tag("th", row[0], scope="row"), [tag("td", c, class_=k) for c, k in cells])
        )
    parts = (tag("caption", caption), tag("thead", tag("tr", head)), tag("tbody", body))
    return tag("table", *parts, class_="systems")


def system_strip(system: System, scale: Scale, kind: str) -> Html:
    """A mean with its interval, where it has one."""
    tip = f"{system.name}: {number(system.mean)}"
    if not math.isfinite(system.low):
        return interval(system.mean, None, scale, kind, tip)
    tip += f", interval {number(system.low)} to {number(system.high)}"
    return interval(system.mean, (system.low, system.high), scale, kind, tip)


def verdict_of(pair: Pair) -> Html:
    """What a comparison says, in words and colour."""
    tone, words = VERDICTS.get(pair.verdict, ("", pair.verdict))
    return tag("span", words, class_=tone or None)
