"""Show a data set in notebooks. All names are escaped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from rankine.core.safe_text import Html, html_table, join, listed, small_bar, tag, text

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset


#: Distinct labels shown one by one; more are shown in equal intervals.
MAX_LABELS = 10
_MAX_TEXT = 60


def dataset_html(data: Dataset) -> str:
    """Return an HTML table: sizes, label histogram, list lengths, first names."""
    rows: list[tuple[Any, Any]] = [
        ("rows", f"{data.n_rows:,}"),
        ("queries", f"{data.n_queries:,}"),
        ("features", _features(data)),
    ]
    if data.n_rows:
        rows += [("rows per query", _lengths(data)), ("labels", _labels(data))]
    for name in ("docid", "weight", "position"):
        if getattr(data, name) is not None:
            rows.append((name, "given"))
    if data.columns:
        rows.append(("further columns", listed(data.columns)))
    if data.sources:
        rows.append(("files", listed(data.sources)))
    rows += [(text(name, _MAX_TEXT), f"{count:,}") for name, count in data.read_counts.items()]
    return html_table("rankine.Dataset", rows)


def _features(data: Dataset) -> Html:
    storage = "dense"
    if sparse.issparse(data.X):
        per_row = data.nnz / max(data.n_rows, 1)
        storage = f"sparse, {per_row:,.1f} non-zeros a row"
    size = f"{data.n_features:,} ({storage}, {data.X.dtype})"
    names = None if data.feature_names is None else [": ", listed(data.feature_names)]
    return join([size, names])


def _lengths(data: Dataset) -> str:
    low, middle, high = np.percentile(data.queries.sizes, [0, 50, 100])
    return f"{low:,.0f} to {high:,.0f}, median {middle:,.0f}"


def _labels(data: Dataset) -> Html:
    levels, counts = np.unique(data.y, return_counts=True)
    names = [f"{level:g}" for level in levels[:MAX_LABELS]]
    if len(levels) > MAX_LABELS:
        counts, edges = np.histogram(data.y, bins=MAX_LABELS)
        names = [f"{a:g} to {b:g}" for a, b in zip(edges[:-1], edges[1:], strict=True)]
    top = counts.max()
    lines = [
        [None if k == 0 else tag("br"), f"{name}: {count:,} ", small_bar(count / top)]
        for k, (name, count) in enumerate(zip(names, counts.tolist(), strict=True))
    ]
    return join(lines)
