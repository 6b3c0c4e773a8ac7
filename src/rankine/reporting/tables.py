"""What a model of tables has learned: a curve a column, a heat map a pair, the strongest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankine.core.safe_text import Html, join, name_of
from rankine.data.dataset import Dataset
from rankine.model.tables import Tables, TableTerm
from rankine.reporting.judged import column_of
from rankine.reporting.page import Section, figures, number, plural
from rankine.reporting.svg import Bar, Line, bars, heat_map, line_chart
from rankine.reporting.weights import Weights

CURVES, GRIDS = 6, 4


@dataclass(frozen=True)
class Picture:
    """A table to look at, and the columns it reads.

    ``labels``: what each place of each side holds, missing values last; ``places``: of a curve,
    where its steps begin and end on the column's axis (none for categories); ``values``: entries,
    of a grid row by row; ``share``: of the data's rows in each place of the first side.
    """

    name: str
    columns: Sequence[str]
    labels: Sequence[Sequence[str]]
    places: Sequence[float]
    values: Any
    share: Sequence[float]


def pictures(
    tables: Tables, data: Dataset | None = None, names: Sequence[str] = ()
) -> list[Picture]:
    """Pictures of all tables, or of those with these names, in their order."""
    known = {tables.name(term): term for term in tables.terms}
    chosen = names or [name for name, _ in tables.ranges()]
    return [_picture(tables, known[name], data) for name in chosen if name in known]


def _picture(tables: Tables, term: TableTerm, data: Dataset | None) -> Picture:
    j = term.columns[0]
    share = np.zeros(0)
    if data is not None and len(term.columns) == 1:
        cells = tables.cells(j, column_of(data.X, j))
        share = np.bincount(cells, minlength=len(term.values)) / len(cells)
    places: list[float] = []
    if len(term.columns) == 1 and j not in tables.bins.unordered and tables.bins.cuts[j]:
        cuts = np.array(tables.bins.cuts[j])
        width = (cuts[-1] - cuts[0]) / max(len(cuts) - 1, 1) or max(abs(cuts[0]), 1.0)
        places = [float(cuts[0] - width), *cuts.tolist(), float(cuts[-1] + width)]
    columns = [tables.column_name(column) for column in term.columns]
    return Picture(
        tables.name(term), columns, term.labels, places, term.values.tolist(), share.tolist()
    )


def tables_section(tables: Tables, data: Dataset, learned: Weights) -> Section:
    """Effects of all tables, then curves and heat maps of the strongest."""
    strongest = pictures(tables, data, [one.name for one in learned.positive])
    curves = [one for one in strongest if len(one.columns) == 1][:CURVES]
    grids = [one for one in strongest if len(one.columns) == 2][:GRIDS]
    n_pairs = sum(len(term.columns) == 2 for term in tables.terms)
    lead = (
        f"The score is a sum: {plural(len(tables.terms) - n_pairs, 'curve')} of single columns and "
        f"{plural(n_pairs, 'table')} of pairs of columns. Curves are centred, and a pair's table "
        "holds only what the curves of its two columns cannot say."
    )
    rows = [
        Bar(name_of(w.name, 60), w.effect, f"{w.name}: {w.effect:.4g}", (number(w.effect, 3),))
        for w in learned.positive
    ]
    words = (
        "How much a table's entry usually varies within a list, in units of the score. Read: a bar "
        "twice as long moves items twice as far."
    )
    strengths = bars("Strongest tables", rows, words, header=("table", "", "effect"))
    body = join([figures(strengths), figures(*map(_curve, curves)), figures(*map(_grid, grids))])
    return Section("weights", "Tables", "What has it learned?", lead, body)


def _curve(one: Picture) -> Html:
    if not one.places:
        rows = [
            Bar(name_of(label, 60), value, f"{label}: {value:+.4g}", (f"{value:+.3g}",))
            for label, value in zip(one.labels[0], one.values, strict=True)
            if value != 0.0
        ][:20]
        return bars(one.name, rows, "What each value adds to the score.")
    steps = np.repeat(np.arange(len(one.values) - 1), 2)
    x = np.repeat(one.places, 2)[1:-1].tolist()
    y = [one.values[k] for k in steps.tolist()]
    low, high = min(y), max(y)
    most = max(one.share[:-1], default=0.0) or 1.0
    dense = [low + 0.3 * (high - low) * one.share[k] / most for k in steps.tolist()]
    lines = [
        Line("rows", "soft", x, [low] * len(x), [low] * len(x), dense, points=False, joined=False),
        Line(one.name, "model", x, y, points=False),
    ]
    missing = one.values[-1]
    words = "What the column adds to the score; grey: where the rows of this data are." + (
        f" A missing value adds {missing:+.3g}." if missing else ""
    )
    about = f"Score added by {one.name}, from {low:.3g} to {high:.3g}"
    return line_chart(one.name, lines, (one.name, "score"), words, about=about, key=())


def _grid(one: Picture) -> Html:
    values = np.array(one.values)
    words = (
        f"{one.columns[0]} upwards, {one.columns[1]} to the right, in the order of their bins, "
        f"missing values last. Blue raises the score, orange lowers it; the fullest colour is "
        f"{np.abs(values).max():.3g}."
    )
    tips = [[f"{a}, {b}" for b in one.labels[1]] for a in one.labels[0]]
    return heat_map(one.name, values.tolist(), tips, (one.columns[1], one.columns[0]), words)
