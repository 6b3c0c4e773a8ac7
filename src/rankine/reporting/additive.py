"""Draw what a model of tables has learned: curves of columns and heat maps of pairs of columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from rankine.data.dataset import Dataset
from rankine.model.tables import Tables, TableTerm
from rankine.reporting.evaluated import column_of
from rankine.reporting.html import captions, name
from rankine.reporting.numbers import number, signed
from rankine.reporting.page import Section, figures
from rankine.reporting.svg import Bar, Line, bars, heat_map, line_chart
from rankine.reporting.weights import Weights

#: Tables that are drawn, and categories of one table, at most: the strongest.
MAX_CURVES, MAX_HEAT_MAPS, MAX_CATEGORIES = 6, 4, 20
#: Level of the bands around curves.
LEVEL = 0.95


@dataclass(frozen=True)
class TablePicture:
    """A table of one or two columns, ready to be drawn.

    ``labels``: text of each bin of each column, missing values last; ``edges``: for a curve, where
    its steps begin and end on the column's axis (empty for categories); ``values``: entries, row by
    row for two columns; ``share``: share of the data's rows in each bin of the first column;
    ``low`` and ``high``: the 95 % band of a curve, empty without intervals.
    """

    name: str
    columns: Sequence[str]
    labels: Sequence[Sequence[str]]
    edges: Sequence[float]
    values: Any
    share: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


def pictures(
    tables: Tables, data: Dataset | None = None, names: Sequence[str] = ()
) -> list[TablePicture]:
    """Return all tables, or those with these names in this order, ready to be drawn."""
    terms = {tables.name(term): term for term in tables.terms}
    selected = names or [name for name, _ in tables.ranges()]
    return [_picture(tables, terms[name], data) for name in selected if name in terms]


def _picture(tables: Tables, term: TableTerm, data: Dataset | None) -> TablePicture:
    j, single = term.columns[0], len(term.columns) == 1
    share = np.zeros(0)
    if data is not None and single:
        cells = tables.cells(j, column_of(data.X, j))
        share = np.bincount(cells, minlength=len(term.values)) / len(cells)
    edges: list[float] = []
    cuts = np.array(tables.bins.cuts[j])
    if single and j not in tables.bins.unordered and len(cuts):
        # The outer bins have no end: they are drawn as wide as the average bin.
        width = (cuts[-1] - cuts[0]) / max(len(cuts) - 1, 1) or max(abs(cuts[0]), 1.0)
        edges = [float(cuts[0] - width), *cuts.tolist(), float(cuts[-1] + width)]
    columns = [tables.column_name(column) for column in term.columns]
    low, high = [], []
    if single and tables.covariance is not None:
        band = tables.covariance.band(term.start, term.values, LEVEL)
        low, high = band[0].tolist(), band[1].tolist()
    return TablePicture(
        tables.name(term),
        columns,
        term.labels,
        edges,
        term.values.tolist(),
        share.tolist(),
        low,
        high,
    )


def tables_section(tables: Tables, data: Dataset, learned: Weights) -> Section:
    """Build bars of the strongest tables, then their curves and heat maps."""
    strongest = pictures(tables, data, [weight.name for weight in learned.positive])
    curves = [picture for picture in strongest if len(picture.columns) == 1][:MAX_CURVES]
    grids = [picture for picture in strongest if len(picture.columns) == 2][:MAX_HEAT_MAPS]
    n_pairs = sum(len(term.columns) == 2 for term in tables.terms)
    lead = captions.tables_lead(len(tables.terms) - n_pairs, n_pairs)
    rows = [
        Bar(name(w.name, 60), w.effect, f"{w.name}: {w.effect:.4g}", (number(w.effect, 3),))
        for w in learned.positive
    ]
    strengths = bars(
        "Strongest tables", rows, captions.table_strengths(), header=("table", "", "effect")
    )
    body = figures(strengths) + figures(*map(_curve, curves)) + figures(*map(_heat_map, grids))
    return Section("weights", "Tables", "What has it learned?", lead, body)


def _curve(picture: TablePicture) -> Markup:
    has_band = len(picture.low) > 0
    if not picture.edges:
        rows = []
        for k, (label, value) in enumerate(zip(picture.labels[0], picture.values, strict=True)):
            tip = f"{label}: {value:+.4g}"
            if has_band:
                tip += f" ({picture.low[k]:+.4g} to {picture.high[k]:+.4g})"
            if value != 0.0:
                rows.append(Bar(name(label, 60), value, tip, (signed(value, 3),)))
        rows.sort(key=lambda row: -abs(row.value))
        caption = captions.table_values(len(rows), MAX_CATEGORIES)
        return bars(picture.name, rows[:MAX_CATEGORIES], caption, kind=None)
    # Each bin is a level piece: two points at its ends.
    bins = np.repeat(np.arange(len(picture.values) - 1), 2).tolist()
    x = np.repeat(picture.edges, 2)[1:-1].tolist()
    y = [picture.values[k] for k in bins]
    low, high = min(y), max(y)
    # The density of the rows is drawn below the curve, 30 % of its height at most.
    largest = max(picture.share[:-1], default=0.0) or 1.0
    density = [low + 0.3 * (high - low) * picture.share[k] / largest for k in bins]
    base = [low] * len(x)
    lines = [
        Line("rows", "soft", x, base, base, density, points=False, joined=False),
        Line(
            picture.name,
            "model",
            x,
            y,
            [picture.low[k] for k in bins] if has_band else (),
            [picture.high[k] for k in bins] if has_band else (),
            points=False,
        ),
    ]
    caption = captions.table_curve(picture.values[-1], has_band)
    about = f"Score added by {picture.name}, from {low:.3g} to {high:.3g}"
    axis_names = (picture.name, "score")
    return line_chart(picture.name, lines, axis_names, caption, about=about, legend=())


def _heat_map(picture: TablePicture) -> Markup:
    values = np.array(picture.values)
    first, second = picture.columns
    caption = captions.heat_map(picture.columns, float(np.abs(values).max()))
    tips = [[f"{a}, {b}" for b in picture.labels[1]] for a in picture.labels[0]]
    labels = _ticks(picture.labels[1], second), _ticks(picture.labels[0], first)
    return heat_map(picture.name, values.tolist(), tips, (second, first), caption, labels=labels)


def _ticks(labels: Sequence[str], column: str) -> list[str]:
    """Return the labels of an axis without the column's name; of a range, its lower end."""
    lower_ends = [label.partition(f" <= {column} < ")[0] for label in labels]
    return [label.removeprefix(f"{column} ").removeprefix("= ") for label in lower_ends]
