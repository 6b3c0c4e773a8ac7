"""Show ranked lists of single queries, and the features that moved their items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from rankine.reporting.evaluated import EvaluatedModel, Opponent
from rankine.reporting.html import lists

#: Number of features shown with an item, and of relevant items shown although they rank too low.
TOP, MISSED = 3, 3


@dataclass(frozen=True)
class ListItem:
    """One item of a list.

    ``terms`` are the features that raise (+) or lower (-) its score most against the average item
    of its list: w_j (x_j - mean of x_j). ``rest`` is the sum over all other features, so that both
    add up to the score minus the mean score of the list.
    """

    rank: int
    name: str
    label: float
    score: float | None
    terms: Sequence[tuple[str, float]] = ()
    rest: float = 0.0


@dataclass(frozen=True)
class Ranked:
    """A query: its metric, its length, the model's list (left) and the opponent's list (right)."""

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
    evaluated: EvaluatedModel,
    query: int,
    value: float,
    opponent: Opponent | None,
    other_value: float | None,
    depth: int = 10,
) -> Ranked:
    """Return the first ``depth`` items of a query in the model's and in the opponent's order.

    Without an opponent the right list is in the ideal order, by label.
    """
    data = evaluated.data
    rows = data.queries.rows_of(query)
    labels, scores = data.y[rows], evaluated.scores[rows]
    items = [_item_name(evaluated, row) for row in rows.tolist()]
    terms = _score_terms(evaluated, rows)
    order = np.argsort(-scores, kind="stable")
    left = [
        ListItem(rank, items[i], float(labels[i]), float(scores[i]), *terms(i))
        for rank, i in _top_and_missed(order, labels, depth)
    ]
    right_scores = labels
    if opponent is not None and opponent.scores is not None:
        right_scores = opponent.scores[rows]
    # The displayed order has positions, not scores worth showing.
    has_scores = opponent is not None and opponent.kind != "shown"
    right_order = np.argsort(-right_scores, kind="stable")[:depth].tolist()
    right = [
        ListItem(rank, items[i], float(labels[i]), float(right_scores[i]) if has_scores else None)
        for rank, i in enumerate(right_order, 1)
    ]
    return Ranked(
        str(data.queries.ids[query]),
        _query_text(evaluated, int(rows[0])),
        value,
        other_value,
        len(rows),
        sorted(set(labels.tolist()), reverse=True),
        left,
        "ideal order" if opponent is None else opponent.name,
        right,
    )


def _top_and_missed(
    order: NDArray[np.int64], labels: NDArray[np.float64], depth: int
) -> list[tuple[int, int]]:
    """Return rank and index of the first items, and of the most relevant ones ranked below."""
    ranked = list(enumerate(order.tolist(), 1))
    highest = labels.max()
    missed = []
    if highest > labels.min():
        missed = [(rank, i) for rank, i in ranked[depth:] if labels[i] == highest]
    return [*ranked[:depth], *missed[:MISSED]]


def _query_text(evaluated: EvaluatedModel, row: int) -> str:
    """Return the text of the query if a column holds it."""
    texts = evaluated.data.query_texts
    return "" if texts is None else str(texts[row])


def _item_name(evaluated: EvaluatedModel, row: int) -> str:
    items = evaluated.data.item_ids
    if items is not None and str(items[row]):
        return str(items[row])
    return f"row {row + 1}"


def _score_terms(
    evaluated: EvaluatedModel, rows: NDArray[np.int64]
) -> Callable[[int], tuple[list[tuple[str, float]], float]]:
    """Return a function from an item's index to its strongest terms and the sum of the others."""
    matrix, model = evaluated.features[rows], evaluated.view
    # Of a sparse matrix only columns with an entry in this list can differ within it.
    columns = model.indices
    if hasattr(matrix, "tocsr"):
        columns = np.intersect1d(matrix.indices, model.indices)
        matrix = matrix[:, columns].toarray()
    else:
        matrix = matrix[:, columns]
    values = np.asarray(matrix, dtype=np.float64)
    weights = model.values[np.searchsorted(model.indices, columns)]
    terms = (values - values.mean(axis=0)) * weights

    def strongest(i: int) -> tuple[list[tuple[str, float]], float]:
        top = np.argsort(-np.abs(terms[i]), kind="stable")[:TOP]
        top = top[terms[i][top] != 0]
        named = [
            (evaluated.feature_name(int(columns[k])), float(terms[i][k])) for k in top.tolist()
        ]
        return named, float(terms[i].sum() - terms[i][top].sum())

    return strongest


def query_lists(groups: Sequence[tuple[str, Sequence[Ranked]]], metric_title: str) -> Markup:
    """Render a heading per group and a folded list per query; the first of each group is open."""
    return lists.groups(groups, metric_title)
