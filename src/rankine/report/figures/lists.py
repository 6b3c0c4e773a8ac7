"""The items of a query in the order of the model and of an opponent, and what moved them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.sorting import rank_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankine.report.judged import Judged, Opponent

__all__ = ["Item", "Ranked", "ranked_query"]

#: Features shown of an item, and good items that are shown although they stand too deep.
TOP, MISSED = 3, 3


@dataclass(frozen=True)
class Item:
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
    left: Sequence[Item]
    right_name: str
    right: Sequence[Item]
    left_name: str = "the model's order"

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


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
    order = rank_order(judged.scores[rows], np.empty(0))
    ideal = opponent is None or opponent.scores is None
    by = data.y[rows] if ideal or opponent is None else np.asarray(opponent.scores)[rows]
    other = rank_order(np.ascontiguousarray(by, dtype=np.float64), np.empty(0))
    terms = _terms(judged, rows)
    left = [
        Item(
            rank,
            _doc(judged, int(rows[i])),
            float(data.y[rows[i]]),
            float(judged.scores[rows[i]]),
            *terms(i),
        )
        for rank, i in _shown(order, data.y[rows], depth)
    ]
    right = [
        Item(
            rank,
            _doc(judged, int(rows[i])),
            float(data.y[rows[i]]),
            None if ideal or opponent is None or opponent.kind == "shown" else float(by[i]),
        )
        for rank, i in enumerate(other[:depth].tolist(), 1)
    ]
    name = "ideal order" if ideal or opponent is None else opponent.name
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
        used = np.intersect1d(matrix.indices, judged.model.indices)
        values = np.asarray(matrix[:, used].toarray(), dtype=np.float64)
    else:
        used = judged.model.indices
        values = np.asarray(matrix[:, used], dtype=np.float64)
    weights = judged.model.values[np.searchsorted(judged.model.indices, used)]
    moves = (values - values.mean(axis=0)) * weights

    def of(i: int) -> tuple[list[tuple[str, float]], float]:
        top = np.argsort(-np.abs(moves[i]), kind="stable")[:TOP]
        top = top[moves[i][top] != 0]
        shown = [(judged.feature_name(int(used[k])), float(moves[i][k])) for k in top.tolist()]
        return shown, float(moves[i].sum() - moves[i][top].sum())

    return of
