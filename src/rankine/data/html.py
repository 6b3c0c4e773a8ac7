"""A data set at a glance, for notebooks. Every name from outside is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset

__all__ = ["dataset_html"]

#: Distinct labels shown one by one; more are shown in equal intervals.
MAX_LABELS = 10
_MAX_TEXT = 60
_BAR = (
    '<span style="display:inline-block;height:.7em;background:#4878a8;width:{width:.0f}px"></span>'
)


def dataset_html(data: Dataset) -> str:
    """An HTML table: sizes, label histogram, list lengths, first names."""
    rows = [
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
        rows.append(("further columns", _listed(list(data.columns))))
    if data.sources:
        rows.append(("files", _listed(list(data.sources))))
    rows += [(_text(name), f"{count:,}") for name, count in data.notes.items()]
    body = "".join(
        f'<tr><th style="text-align:left">{name}</th><td style="text-align:left">{value}</td></tr>'
        for name, value in rows
    )
    return f"<table><caption>rankine.Dataset</caption><tbody>{body}</tbody></table>"


def _features(data: Dataset) -> str:
    kind = "dense"
    if sparse.issparse(data.X):
        per_row = data.nnz / max(data.n_rows, 1)
        kind = f"sparse, {per_row:,.1f} non-zeros a row"
    text = f"{data.n_features:,} ({kind}, {data.X.dtype})"
    return text if data.feature_names is None else f"{text}: {_listed(list(data.feature_names))}"


def _lengths(data: Dataset) -> str:
    low, middle, high = np.percentile(data.queries.sizes, [0, 50, 100])
    return f"{low:,.0f} to {high:,.0f}, median {middle:,.0f}"


def _labels(data: Dataset) -> str:
    levels, counts = np.unique(data.y, return_counts=True)
    names = [f"{level:g}" for level in levels[: MAX_LABELS + 1]]
    if len(levels) > MAX_LABELS:
        counts, edges = np.histogram(data.y, bins=MAX_LABELS)
        names = [f"{a:g} to {b:g}" for a, b in zip(edges[:-1], edges[1:], strict=True)]
    top = counts.max()
    return "<br>".join(
        f"{name}: {count:,} {_BAR.format(width=max(1, 120 * count / top))}"
        for name, count in zip(names, counts, strict=True)
    )


def _listed(names: list[str], limit: int = 8) -> str:
    shown = ", ".join(_text(name) for name in names[:limit])
    return shown + (f" and {len(names) - limit:,} more" if len(names) > limit else "")


def _text(name: str) -> str:
    """A name as inert text of bounded length, control characters made visible."""
    cut = name if len(name) <= _MAX_TEXT else name[: _MAX_TEXT - 1] + "…"
    visible = "".join(c if c.isprintable() else repr(c)[1:-1] for c in cut)
    return escape(visible, quote=True)
