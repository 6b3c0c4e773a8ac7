"""Describe the evaluation data: queries, labels, list lengths, features that cannot help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from scipy import sparse

from rankine.data.dataset import Dataset
from rankine.evaluation.tables import Table
from rankine.metrics import count_without_value, data_columns
from rankine.model.tables import find_tables
from rankine.reporting.evaluated import EvaluatedModel
from rankine.reporting.html import captions, names, parts, sentences
from rankine.reporting.numbers import count
from rankine.reporting.page import Section, figures, result_table
from rankine.reporting.svg import histogram
from rankine.transforms.drift import DRIFT_HEADER, Drift

#: Largest number of distinct labels that get a column each.
MAX_LEVELS = 12
#: Columns of a histogram of labels or lengths.
BINS = 20
#: Largest number of names listed for features that cannot help to rank.
NAMED = 20


@dataclass(frozen=True)
class Histogram:
    """Counts between edges, or of named levels."""

    names: Sequence[str]
    edges: Sequence[float]
    counts: Sequence[int]


@dataclass(frozen=True)
class DataSummary:
    """Sizes and anomalies of the evaluation data.

    ``without_pairs``: queries whose items all have the same label; ``without_value``: queries to
    which the headline's metric applies its ``no_relevant`` rule; ``zero``: features that are always
    0; ``constant``: features with a single value other than 0; ``flat``: further features that
    differ between lists but never within one.
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


def data_summary(evaluated: EvaluatedModel) -> DataSummary:
    """Collect everything that the data section shows."""
    data, metric = evaluated.data, evaluated.metric
    low, high = column_ranges(data.X)
    single_valued = low == high
    zero = single_valued & (low == 0)
    constant = single_valued & ~zero
    # The spread was measured on the features of ``view``. These are the columns of the data unless
    # the model is made of tables or scales its lists.
    flat = np.zeros(len(low), dtype=np.bool_)
    if evaluated.view is evaluated.model:
        flat = ~single_valued & (evaluated.spread == 0)
    storage = "dense"
    if sparse.issparse(data.X):
        storage = "sparse"
    tables = find_tables(evaluated.model)
    column_name = evaluated.feature_name
    if tables is not None:
        column_name = tables.column_name

    def first_names(mask: NDArray[np.bool_]) -> list[str]:
        return [column_name(j) for j in np.flatnonzero(mask)[:NAMED].tolist()]

    optional = ("docid", "weight", "position")
    columns = [column for column in optional if getattr(data, column) is not None]
    return DataSummary(
        data.n_rows,
        data.n_queries,
        data.n_features,
        data.nnz,
        f"{storage} {data.X.dtype}",
        levels(data),
        lengths(data),
        np.quantile(data.queries.sizes, [0, 0.25, 0.5, 0.75, 1]).tolist(),
        data.n_queries - len(data.labels.queries_with_pairs),
        count_without_value(metric, data.y, data.queries, columns=data_columns(data)),
        metric.no_relevant,
        data.labels.n_pairs,
        int(zero.sum()),
        int(constant.sum()),
        int(flat.sum()),
        first_names(zero),
        first_names(constant),
        first_names(flat),
        [*columns, *data.columns],
        dict(data.read_counts),
        list(data.sources),
        data.fingerprint,
    )


def levels(data: Dataset) -> Histogram:
    """Count the items of each label; of many labels, in intervals of equal width."""
    labels, counts = np.unique(data.y, return_counts=True)
    if len(labels) <= MAX_LEVELS:
        texts = [f"{label:g}" for label in labels.tolist()]
        return Histogram(texts, list(range(len(texts) + 1)), counts.tolist())
    counts, edges = np.histogram(data.y, bins=BINS)
    return Histogram([], edges.tolist(), counts.tolist())


def lengths(data: Dataset) -> Histogram:
    """Count the lists by their number of items."""
    sizes = data.queries.sizes
    low, high = int(sizes.min()), int(sizes.max())
    width = -(-(high - low + 1) // BINS)
    # Edges between integers: every length is inside a bin.
    edges = np.arange(low, high + width + 1, width) - 0.5
    counts, _ = np.histogram(sizes, bins=edges)
    return Histogram([], edges.tolist(), counts.tolist())


def column_ranges(X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the smallest and largest value of every column: implicit zeros count, NaN does not."""
    if not sparse.issparse(X):
        low, high = np.fmin.reduce(X, axis=0), np.fmax.reduce(X, axis=0)
        return low.astype(np.float64), high.astype(np.float64)
    n_rows, n_features = X.shape
    low, high = np.full(n_features, np.inf), np.full(n_features, -np.inf)
    np.fmin.at(low, X.indices, X.data)
    np.fmax.at(high, X.indices, X.data)
    # A column with fewer entries than rows has implicit zeros.
    absent = np.bincount(X.indices, minlength=n_features) < n_rows
    low[absent], high[absent] = np.minimum(low[absent], 0.0), np.maximum(high[absent], 0.0)
    return low, high


def data_section(summary: DataSummary) -> Section:
    """Build histograms of labels and lengths, and a list of sizes, anomalies and sources."""
    body = figures(_labels(summary.labels), _lengths(summary.lengths))
    body += parts.card(parts.facts(_facts(summary)))
    return Section("data", "Data", "What was it judged on?", captions.data_lead(summary), body)


def drift_section(drift: Drift) -> Section:
    """Build a table that compares the log's columns with the training data's."""
    body = parts.card(result_table(Table("", DRIFT_HEADER, drift.cells()))) + parts.note(
        captions.alarms(drift.alarms)
    )
    title = "Does the log look like the training?"
    return Section("drift", "Drift", title, captions.drift_lead(), body)


def _labels(labels: Histogram) -> Markup:
    return histogram(
        "Labels",
        [float(edge) for edge in labels.edges],
        labels.counts,
        ("label", "items"),
        captions.labels(labels),
        about="Histogram of labels",
        labels=labels.names or None,
    )


def _lengths(lengths: Histogram) -> Markup:
    caption = captions.lengths()
    axis_names = ("items of a query", "queries")
    about = "Histogram of list lengths"
    return histogram(
        "List lengths", lengths.edges, lengths.counts, axis_names, caption, about=about
    )


def _facts(summary: DataSummary) -> list[tuple[str, Any]]:
    n_values = count(summary.values)
    rows: list[tuple[str, Any]] = [
        ("features", f"{count(summary.n_features)}, {summary.storage}, {n_values} values"),
        ("pairs", f"{count(summary.pairs)} pairs of items with different labels"),
        ("same label only", captions.same_label(summary)),
    ]
    for title, n, dead in (
        ("always zero", summary.zero, summary.zero_names),
        ("constant", summary.constant, summary.constant_names),
        ("constant within lists", summary.flat, summary.flat_names),
    ):
        if n:
            rows.append((title, sentences.dead_features(n, dead)))
    if not (summary.zero or summary.constant or summary.flat):
        rows.append(("dead features", "none: every feature differs within some list"))
    if summary.columns:
        rows.append(("further columns", names(summary.columns, 12)))
    counts: Any = "no row skipped, no value replaced"
    if summary.notes:
        counts = sentences.reader_counts(summary.notes)
    rows.append(("counted by the reader", counts))
    if summary.sources:
        rows.append(("files", names(summary.sources, 12)))
    rows.append(("fingerprint", sentences.code(summary.fingerprint)))
    return rows
