"""Apply rules to all lists of a dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.reranking.rules import RuleRanking, Rules

if TYPE_CHECKING:
    from rankine.data import Dataset
    from rankine.model import LinearModel


@dataclass
class RuleEffects:
    """What rules did to many lists, by the name of the rule.

    Attributes
    ----------
    lists
        Number of lists that the rule changed.
    items
        Number of items that it moved or removed.
    conflicts
        Number of times that it could not be followed.
    """

    lists: Counter[str] = field(default_factory=Counter)
    items: Counter[str] = field(default_factory=Counter)
    conflicts: Counter[str] = field(default_factory=Counter)

    def add(self, ranking: RuleRanking) -> None:
        """Count the effects on one list."""
        moved = Counter(name for move in ranking.moves for name in move.rules)
        moved.update(name for _, name in ranking.removed)
        self.items.update(moved)
        self.lists.update(moved.keys())
        self.conflicts.update(conflict.rule for conflict in ranking.conflicts)


def columns_to_read(rules: Rules, model: LinearModel) -> tuple[str, ...]:
    """Return the columns that a file must have for rules, in addition to what the model reads."""
    features: Sequence[str] = model.column_names or ()
    return tuple(name for name in rules.columns if name != "id" and name not in features)


def rank_lists(
    rules: Rules,
    data: Dataset,
    scores: NDArray[np.float64],
    *,
    time: float | None = None,
    shuffle: bool = False,
) -> Iterator[tuple[NDArray[np.int64], RuleRanking]]:
    """Rank every list; yield its rows and their ranking, which numbers the rows as they come.

    Rows with equal values stay in the order in which they come: the order of the file or, with
    ``shuffle``, a random one, the same in every call. The order of a file often reveals labels.
    """
    tie_order = np.arange(data.n_rows)
    if shuffle:
        tie_order = np.random.default_rng(0).permutation(data.n_rows)
    for q in range(data.n_queries):
        rows = data.queries.rows_of(q)
        rows = rows[np.argsort(tie_order[rows])]
        read = _column_reader(data, rows)
        yield rows, rules.rank(scores[rows], read, time=time, explain=True)


def rule_ranks(
    rules: Rules, data: Dataset, scores: NDArray[np.float64], *, time: float | None = None
) -> NDArray[np.int64]:
    """Return the rank of each row in its list, from 1; 0 for removed rows."""
    ranks = np.zeros(data.n_rows, dtype=np.int64)
    for rows, ranking in rank_lists(rules, data, scores, time=time):
        ranks[rows[ranking.order]] = np.arange(1, len(ranking.order) + 1)
    return ranks


def apply_rules(
    rules: Rules, data: Dataset, scores: NDArray[np.float64], *, time: float | None = None
) -> tuple[NDArray[np.float64], NDArray[np.bool_], RuleEffects]:
    """Return scores whose order follows the rules, which rows stay, and what each rule did.

    Lists that no rule changes keep their scores. In the others the scores are -1, -2, ... by rank,
    and removed rows have the smallest one.
    """
    ruled, stays = scores.copy(), np.ones(data.n_rows, dtype=np.bool_)
    effects = RuleEffects()
    for rows, ranking in rank_lists(rules, data, scores, time=time, shuffle=True):
        effects.add(ranking)
        order = ranking.order
        if np.array_equal(order, np.argsort(-scores[rows], kind="stable")):
            continue
        stays[rows] = False
        stays[rows[order]] = True
        ruled[rows] = -1.0 - len(rows)
        ruled[rows[order]] = -1.0 - np.arange(len(order))
    return ruled, stays, effects


def mark_removed(data: Dataset, stays: NDArray[np.bool_], columns: Iterable[str | None]) -> Dataset:
    """Return data in which removed rows have no rank: the given columns are 0 there."""
    if stays.all():
        return data
    marked = dict(data.columns)
    for name in dict.fromkeys(columns):
        if name is not None and (name in marked or name == "retrieved"):
            values = np.asarray(marked.get(name, np.ones(data.n_rows)), dtype=np.float64)
            marked[name] = np.where(stays, values, 0.0)
    return replace(data, columns=marked, query_index=data.queries)


def _column_reader(data: Dataset, rows: NDArray[np.int64]) -> Callable[[str], Any]:
    """Return a function that reads a column of some rows: a column, item ids, or a feature."""

    def read(name: str) -> Any:
        if name in data.columns:
            return data.columns[name][rows]
        if name == "id" and data.item_ids is not None:
            return data.item_ids[rows]
        if data.feature_names is not None and name in data.feature_names:
            values = data.X[rows][:, [data.feature_names.index(name)]]
            if hasattr(values, "toarray"):
                values = values.toarray()
            return values.ravel()
        return None

    return read
