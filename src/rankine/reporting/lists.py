"""Lists of single queries in the order of the model and of an opponent, and what moved them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.safe_text import Html, join, name_of, tag
from rankine.reporting.judged import Judged, Opponent
from rankine.reporting.page import MINUS, count, number, signed

#: Features shown of an item, and good items that are shown although they stand too deep.
TOP, MISSED = 3, 3


@dataclass(frozen=True)
class ListItem:
    """One item of a list.

    ``terms`` are the features that lift (+) or lower (-) it most against the average of its list:
    w_j (x_j - mean of x_j); ``rest`` is the sum of all others, so that all add up to the score
    minus the list's mean score.
    """

    rank: int
    name: str
    label: float
    score: float | None
    terms: Sequence[tuple[str, float]] = ()
    rest: float = 0.0


@dataclass(frozen=True)
class Ranked:
    """A query: its value, its length, the model's list and the opponent's."""

    query: str
    text: str
    value: float
    other_value: float | None
    length: int
    labels: Sequence[float]
    left: Sequence[ListItem]
    right_name: str
    right: Sequence[ListItem]
    left_name: str = "the model's order"


def ranked_query(
    judged: Judged,
    query: int,
    value: float,
    opponent: Opponent | None,
    other_value: float | None,
    depth: int = 10,
) -> Ranked:
    """The first ``depth`` items of both orders; without opponent the right one is the ideal."""
    data = judged.data
    rows = data.queries.rows_of(query)
    order = np.argsort(-judged.scores[rows], kind="stable")
    scores = data.y if opponent is None or opponent.scores is None else opponent.scores
    by = scores[rows]
    other = np.argsort(-by, kind="stable")
    terms = _terms(judged, rows)
    left = [
        ListItem(
            rank,
            _doc(judged, int(rows[i])),
            float(data.y[rows[i]]),
            float(judged.scores[rows[i]]),
            *terms(i),
        )
        for rank, i in _shown(order, data.y[rows], depth)
    ]
    right = [
        ListItem(
            rank,
            _doc(judged, int(rows[i])),
            float(data.y[rows[i]]),
            None if opponent is None or opponent.kind == "shown" else float(by[i]),
        )
        for rank, i in enumerate(other[:depth].tolist(), 1)
    ]
    name = "ideal order" if opponent is None else opponent.name
    return Ranked(
        str(data.queries.ids[query]),
        _query_text(judged, int(rows[0])),
        value,
        other_value,
        len(rows),
        sorted({float(v) for v in data.y[rows].tolist()}, reverse=True),
        left,
        name,
        right,
    )


def _shown(
    order: NDArray[np.int64], labels: NDArray[np.float64], depth: int
) -> list[tuple[int, int]]:
    """Rank and place of the first items, and of the best ones that were missed."""
    ranked = list(enumerate(order.tolist(), 1))
    top = labels.max()
    missed = [(rank, i) for rank, i in ranked[depth:] if labels[i] == top and top > labels.min()]
    return [*ranked[:depth], *missed[:MISSED]]


def _query_text(judged: Judged, row: int) -> str:
    """Words of the query, where a column holds them."""
    for name in ("query_text", "query", "text"):
        column = judged.data.columns.get(name)
        if column is not None:
            return str(column[row])
    return ""


def _doc(judged: Judged, row: int) -> str:
    docid = judged.data.docid
    return str(docid[row]) if docid is not None and str(docid[row]) else f"row {row + 1}"


def _terms(judged: Judged, rows: NDArray[np.int64]) -> Any:
    """A function of a place in the list: its strongest terms, and the sum of the others."""
    matrix = judged.features[rows]
    if hasattr(matrix, "tocsr"):
        used = np.intersect1d(matrix.indices, judged.view.indices)
        values = np.asarray(matrix[:, used].toarray(), dtype=np.float64)
    else:
        used = judged.view.indices
        values = np.asarray(matrix[:, used], dtype=np.float64)
    weights = judged.view.values[np.searchsorted(judged.view.indices, used)]
    moves = (values - values.mean(axis=0)) * weights

    def of(i: int) -> tuple[list[tuple[str, float]], float]:
        top = np.argsort(-np.abs(moves[i]), kind="stable")[:TOP]
        top = top[moves[i][top] != 0]
        shown = [(judged.feature_name(int(used[k])), float(moves[i][k])) for k in top.tolist()]
        return shown, float(moves[i].sum() - moves[i][top].sum())

    return of


def lists_part(groups: Sequence[tuple[str, Sequence[Ranked]]], title: str) -> Html:
    """A heading per group, a folded list per query; the first of each group is open."""
    parts: list[Any] = []
    for heading, queries in groups:
        if not queries:
            continue
        parts.append(tag("h3", heading, class_="lists"))
        parts += [_query(query, title, unfolded=k == 0) for k, query in enumerate(queries)]
    if parts:
        parts.append(
            tag(
                "figcaption",
                "Each row is an item: its label, its score, and what lifts (+) or lowers "
                f"({MINUS}) it most against the average of its list, exactly: weight times (value "
                f"{MINUS} average value). "
                "Read: an item of high label far down is a mistake; its terms say which "
                "features made it.",
            )
        )
    return join(parts)


def _query(query: Ranked, title: str, *, unfolded: bool) -> Html:
    top = max(query.labels)
    head = tag(
        "summary",
        tag("b", "Query ", name_of(query.query, 60)),
        name_of(f"“{query.text}”", 80) if query.text else None,
        tag("span", f"{title} {number(query.value, 3)}"),
        tag("span", f"other {number(query.other_value, 3)}")
        if query.other_value is not None
        else None,
        tag("span", f"{count(query.length)} items"),
    )
    return tag(
        "details",
        head,
        tag(
            "div",
            tag("div", tag("h4", name_of(query.left_name, 60)), _list(query.left, top, terms=True)),
            tag("div", tag("h4", name_of(query.right_name, 60)), _list(query.right, top)),
            class_="sides",
        ),
        open=unfolded,
    )


def _list(items: Sequence[ListItem], top: float, *, terms: bool = False) -> Html:
    scored = any(item.score is not None for item in items)
    header = ["", "item", "label", *(["score"] if scored else [])]
    rows = []
    for item in items:
        cells = [
            tag("td", str(item.rank)),
            tag("td", name_of(item.name, 48), _lists_terms(item) if terms else None),
            tag("td", _label(item.label, top), class_="n"),
        ]
        if scored:
            cells.append(tag("td", signed(item.score, 3), class_="n"))
        rows.append(tag("tr", cells))
    kinds = [None, None, "n", "n"]
    head = tag("tr", [tag("th", h, class_=kinds[c], scope="col") for c, h in enumerate(header)])
    return tag("table", tag("thead", head), tag("tbody", rows))


def _label(label: float, top: float) -> Html:
    kind = "label high" if label == top and label > 0 else "label some" if label > 0 else "label"
    return tag("span", f"{label:g}", class_=kind)


def _lists_terms(item: ListItem) -> Html | None:
    if not item.terms:
        return None
    shown = [
        tag(
            "span",
            name_of(name, 32),
            " ",
            tag("b", signed(value, 2)),
            class_="plus" if value > 0 else "minus",
        )
        for name, value in item.terms
    ]
    return tag("div", shown, class_="terms")
