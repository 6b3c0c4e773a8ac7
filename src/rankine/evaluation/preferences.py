"""Strengths of items from comparisons, with bootstrap intervals over the comparisons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import SchemaError
from rankine.data.dataset import Dataset
from rankine.evaluation.tables import Table
from rankine.kernels.random import BOOTSTRAP, resolve_seed, stream_seed
from rankine.rankers.ranksvm import RankSVM

__all__ = ["ItemStrengths", "item_strengths"]


@dataclass(frozen=True, eq=False)
class ItemStrengths:
    """Items, strongest first.

    Attributes
    ----------
    items
        Their ids.
    strength, low, high
        Strength (the mean of all items is 0; a difference d is a probability 1 / (1 + e^-d) to
        win) and its interval.
    coef
        Weights of all features, items and others.
    ranker
        The fitted ``RankSVM``, with its certificate.
    """

    items: tuple[str, ...]
    strength: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    coef: dict[str, float]
    ranker: RankSVM

    def table(self) -> Table:
        """One line an item."""
        rows = [
            (name, f"{value:+.3f}", f"[{low:+.3f}, {high:+.3f}]")
            for name, value, low, high in zip(
                self.items, self.strength, self.low, self.high, strict=True
            )
        ]
        return Table("Items", ("item", "strength", "interval"), rows)


def item_strengths(
    data: Dataset,
    *,
    l2: float = 1e-6,
    n_rounds: int = 100,
    confidence: float = 0.95,
    tol: float = 1e-8,
    random_state: Any = 0,
) -> ItemStrengths:
    """Fit Bradley and Terry's model to ``Dataset.from_pairs`` of item ids.

    Parameters
    ----------
    l2
        Strength of the penalty, on the mean loss of a comparison.
    n_rounds, confidence
        Bootstrap rounds over comparisons, and the confidence of the intervals.
    tol
        Of the certified gap, relative to the loss of equal items.
    """
    if data.docid is None or "comparison" not in data.columns:
        raise SchemaError(
            "these are no comparisons of items", fix="Use Dataset.from_pairs with ids"
        )
    names = np.array(data.feature_names)
    items = np.unique(data.docid.astype(str))
    place = np.flatnonzero(np.isin(names, items))
    ranker = RankSVM(l2, loss="logistic", normalization="pair", tol=tol).fit(data)
    drawn = np.random.default_rng(stream_seed(resolve_seed(random_state), BOOTSTRAP))
    number = data.columns["comparison"][::2].astype(np.int64)
    n = int(number.max()) + 1
    found = np.empty((n_rounds, len(place)))
    for b in range(n_rounds):
        counts = np.bincount(drawn.integers(0, n, n), minlength=n)[number]
        again = RankSVM(l2, loss="logistic", normalization="pair", tol=tol)
        again.fit(data, query_weight=counts.astype(np.float64), coef_init=ranker.coef_)
        found[b] = again.coef_[place] - again.coef_[place].mean()
    strength = ranker.coef_[place] - ranker.coef_[place].mean()
    tail = (1 - confidence) / 2
    low, high = np.quantile(found, [tail, 1 - tail], axis=0) if n_rounds else (strength, strength)
    order = np.argsort(-strength, kind="stable")
    coef = dict(zip(names.tolist(), ranker.coef_.tolist(), strict=True))
    return ItemStrengths(
        tuple(names[place][order].tolist()), strength[order], low[order], high[order], coef, ranker
    )
