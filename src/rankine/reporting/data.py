"""The data that the model was judged on: queries, labels, lengths, features that cannot help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankine.core.safe_text import Html, join, listed, name_of, tag
from rankine.data.dataset import Dataset
from rankine.evaluation.tables import Table
from rankine.metrics import count_without_value, data_columns
from rankine.model.tables import find_tables
from rankine.reporting.judged import Judged
from rankine.reporting.page import (
    Section,
    card,
    count,
    facts,
    figures,
    from_table,
    note,
    percent,
    plural,
)
from rankine.reporting.svg import histogram
from rankine.transforms.drift import DRIFT_HEADER, Drift

#: Distinct labels shown one by one.
MAX_LEVELS = 12
BINS = 20
#: Names listed of features that cannot help.
NAMED = 20


@dataclass(frozen=True)
class Histogram:
    """Counts between edges, or of named levels."""

    names: Sequence[str]
    edges: Sequence[float]
    counts: Sequence[int]


@dataclass(frozen=True)
class DataSummary:
    """Sizes and oddities of the data that the model was judged on.

    ``without_pairs``: queries whose items all have one label; ``without_value``: queries that the
    headline's metric leaves to its ``no_relevant`` rule; ``zero``: features that are always 0;
    ``constant``: features with one value other than 0; ``flat``: further features that differ
    between lists but never within one.
    """

    rows: int
    queries: int
    n_features: int
    values: int
    storage: str
    labels: Histogram
    lengths: Histogram
    length_quantiles: Sequence[float]
    without_pairs: int
    without_value: int
    no_relevant: str | None
    pairs: int
    zero: int
    constant: int
    flat: int
    zero_names: Sequence[str]
    constant_names: Sequence[str]
    flat_names: Sequence[str]
    columns: Sequence[str]
    notes: Mapping[str, int]
    sources: Sequence[str]
    fingerprint: str


def data_summary(judged: Judged) -> DataSummary:
    """Everything the data section shows."""
    data = judged.data
    low, high = column_ranges(data.X)
    one_value = low == high
    zero = one_value & (low == 0)
    constant = one_value & ~zero
    flat = np.zeros(len(low), dtype=np.bool_)
    if judged.view is judged.model:
        flat = ~one_value & (judged.spread == 0)
    metric = judged.metric
    missing = count_without_value(metric, data.y, data.queries, columns=data_columns(data))
    kind = "sparse" if sparse.issparse(data.X) else "dense"
    tables = find_tables(judged.model)
    name_of_column = judged.feature_name if tables is None else tables.column_name
    named = {
        key: [name_of_column(j) for j in np.flatnonzero(mask)[:NAMED].tolist()]
        for key, mask in (("zero", zero), ("constant", constant), ("flat", flat))
    }
    given = [name for name in ("docid", "weight", "position") if getattr(data, name) is not None]
    return DataSummary(
        data.n_rows,
        data.n_queries,
        data.n_features,
        data.nnz,
        f"{kind} {data.X.dtype}",
        levels(data),
        lengths(data),
        np.quantile(data.queries.sizes, [0, 0.25, 0.5, 0.75, 1]).tolist(),
        data.n_queries - len(data.labels.queries_with_pairs),
        missing,
        metric.no_relevant,
        data.labels.n_pairs,
        int(zero.sum()),
        int(constant.sum()),
        int(flat.sum()),
        named["zero"],
        named["constant"],
        named["flat"],
        [*given, *data.columns],
        dict(data.read_counts),
        list(data.sources),
        data.fingerprint,
    )


def levels(data: Dataset) -> Histogram:
    """Items of each label; of many labels, in equal intervals."""
    found, counts = np.unique(data.y, return_counts=True)
    if len(found) <= MAX_LEVELS:
        names = [f"{level:g}" for level in found.tolist()]
        return Histogram(names, list(range(len(names) + 1)), counts.tolist())
    counts, edges = np.histogram(data.y, bins=BINS)
    return Histogram([], edges.tolist(), counts.tolist())


def lengths(data: Dataset) -> Histogram:
    """Lists by their number of items."""
    sizes = data.queries.sizes
    low, high = int(sizes.min()), int(sizes.max())
    width = -(-(high - low + 1) // BINS)
    edges = np.arange(low, high + width + 1, width) - 0.5
    counts, _ = np.histogram(sizes, bins=edges)
    return Histogram([], edges.tolist(), counts.tolist())


def column_ranges(X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Smallest and largest known value of every column, implicit zeros included."""
    if not sparse.issparse(X):
        known = np.fmin.reduce(X, axis=0), np.fmax.reduce(X, axis=0)
        return known[0].astype(np.float64), known[1].astype(np.float64)
    n_rows, n_features = X.shape
    low, high = np.full(n_features, np.inf), np.full(n_features, -np.inf)
    np.fmin.at(low, X.indices, X.data)
    np.fmax.at(high, X.indices, X.data)
    absent = np.bincount(X.indices, minlength=n_features) < n_rows
    low[absent], high[absent] = np.minimum(low[absent], 0.0), np.maximum(high[absent], 0.0)
    return low, high


def data_section(found: DataSummary) -> Section:
    """Histograms, oddities, and where it came from."""
    low, _, middle, _, high = found.length_quantiles
    lead = (
        f"{plural(found.rows, 'item')} in {plural(found.queries, 'query', 'queries')}; lists hold "
        f"{count(low)} to {count(high)} items, half of them {count(middle)} or fewer."
    )
    pictures = figures(_labels(found.labels), _lengths(found.lengths))
    return Section(
        "data", "Data", "What was it judged on?", lead, join([pictures, card(facts(_facts(found)))])
    )


def drift_section(found: Drift) -> Section:
    """The columns of the log against those of the training."""
    lead = (
        "Columns and scores now against the training's: the population stability index (above .25: "
        "much has changed), values that the training never saw, the largest shift at a decile, and "
        "missing values."
    )
    words = " ".join(f"{alarm}." for alarm in found.alarms) or "Nothing is above its limit."
    parts = [card(from_table(Table("", DRIFT_HEADER, found.cells()))), note(words)]
    return Section("drift", "Drift", "Does the log look like the training?", lead, join(parts))


def _labels(found: Histogram) -> Html:
    total = sum(found.counts)
    if found.names:
        best = max(range(len(found.counts)), key=lambda k: found.counts[k])
        words = (
            f"Items of each label; {percent(found.counts[best] / total)} have label "
            f"{found.names[best]}. Read: where almost all items have one label, few pairs teach."
        )
    else:
        words = "Items by label, in equal intervals. Read: labels may be any numbers."
    return histogram(
        "Labels",
        [float(e) for e in found.edges],
        found.counts,
        ("label", "items"),
        words,
        about="Histogram of labels",
        labels=found.names or None,
    )


def _lengths(found: Histogram) -> Html:
    words = (
        "Queries by the number of their items. Read: in very short lists every order looks good; "
        "very long ones hold most of the pairs."
    )
    names = ("items of a query", "queries")
    about = "Histogram of list lengths"
    return histogram("List lengths", found.edges, found.counts, names, words, about=about)


def _facts(found: DataSummary) -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = [
        ("features", f"{count(found.n_features)}, {found.storage}, {count(found.values)} values"),
        ("pairs", f"{count(found.pairs)} pairs of items with different labels"),
        (
            "one label only",
            f"{plural(found.without_pairs, 'query', 'queries')} without any pair"
            + _rule(found.without_value, found.no_relevant),
        ),
    ]
    for title, number, names in (
        ("always zero", found.zero, found.zero_names),
        ("constant", found.constant, found.constant_names),
        ("constant within lists", found.flat, found.flat_names),
    ):
        if number:
            rows.append(
                (title, [f"{plural(number, 'feature')}: ", listed(names, 12, total=number)])
            )
    if not (found.zero or found.constant or found.flat):
        rows.append(("dead features", "none: every feature differs within some list"))
    if found.columns:
        rows.append(("further columns", listed(found.columns, 12)))
    if found.notes:
        told = [
            tag("div", name_of(name.replace("_", " ")), f": {count(number)}")
            for name, number in found.notes.items()
        ]
        rows.append(("counted by the reader", told))
    else:
        rows.append(("counted by the reader", "no row skipped, no value replaced"))
    if found.sources:
        rows.append(("files", listed(found.sources, 12)))
    rows.append(("fingerprint", tag("code", found.fingerprint)))
    return rows


def _rule(without: int, rule: str | None) -> str:
    if without == 0 or rule is None:
        return ""
    counted = "are left out of the means" if rule == "skip" else f"count {rule} in the means"
    return f"; {plural(without, 'query', 'queries')} without a relevant item {counted}"
