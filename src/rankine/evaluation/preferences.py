"""Strengths of items from comparisons, with bootstrap intervals over the comparisons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit
from sklearn.base import clone

from rankine.core.errors import SchemaError
from rankine.data.dataset import Dataset, as_rows
from rankine.evaluation.tables import Table
from rankine.kernels.products import Products
from rankine.kernels.random import BOOTSTRAP, resolve_seed, stream_seed
from rankine.rankers.ranksvm import RankSVM

#: Up to so many features the curvature is held as one dense matrix.
MAX_DENSE = 4000

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
    rounds
        The same of every bootstrap round, one row a round.
    ranker
        The fitted ``RankSVM``, with its certificate.
    """

    items: tuple[str, ...]
    strength: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    coef: dict[str, float]
    rounds: NDArray[np.float64]
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
    asked = RankSVM(l2, loss="logistic", normalization="pair", tol=tol, scale="none")
    ranker = clone(asked).fit(data)
    drawn = np.random.default_rng(stream_seed(resolve_seed(random_state), BOOTSTRAP))
    number = data.columns["comparison"][::2].astype(np.int64)
    n = int(number.max()) + 1
    likelihood = _Likelihood(data, l2, tol, ranker.coef_)
    rounds = np.empty((n_rounds, data.n_features))
    for b in range(n_rounds):
        counts = np.bincount(drawn.integers(0, n, n), minlength=n)[number].astype(np.float64)
        weights = likelihood.optimum(counts)
        if weights is None:
            again = asked.fit(data, query_weight=counts, coef_init=ranker.coef_)
            weights = again.coef_
        rounds[b] = weights
    strength, found = (
        weights[..., place] - weights[..., place].mean(axis=-1, keepdims=True)
        for weights in (ranker.coef_, rounds)
    )
    tail = (1 - confidence) / 2
    low, high = np.quantile(found, [tail, 1 - tail], axis=0) if n_rounds else (strength, strength)
    order = np.argsort(-strength, kind="stable")
    coef = dict(zip(names.tolist(), ranker.coef_.tolist(), strict=True))
    return ItemStrengths(
        tuple(names[place][order].tolist()), strength[order], low[order], high[order], coef, rounds,
        ranker,
    )  # fmt: skip


class _Likelihood:
    r"""Optima for other counts of the same comparisons, near one that is known.

    With the differences d of winner and loser, :math:`J(w) = \frac{l_2}{2}|w|^2 +
    \sum_i v_i \log(1 + e^{-\langle w, d_i\rangle}) / \sum_i v_i`.
    The curvature at the known optimum stands for that of every draw, so that a step needs the
    gradient g alone; :math:`J - J^* \le |g|^2 / (2 l_2)` certifies the end.
    """

    def __init__(self, data: Dataset, l2: float, tol: float, start: NDArray[np.float64]) -> None:
        self.l2, self.start = l2, start
        self.enough = 2 * l2 * tol * np.log(2)
        sign = data.y[::2] - data.y[1::2]
        differences = sparse.csr_matrix(sparse.diags(sign) @ (data.X[::2] - data.X[1::2]))
        self.products = Products(as_rows(differences), data.n_features)
        self.value = np.ones(len(sign)) if data.weight is None else data.weight[::2] ** 2
        self.curvature = None
        if data.n_features <= MAX_DENSE:
            chance = expit(self.products.scores(start))
            share = chance * (1 - chance) * self.value / self.value.sum()
            H = (differences.T @ differences.multiply(share[:, None]).tocsr()).toarray()
            self.curvature = cho_factor(H + l2 * np.eye(len(H)))

    def optimum(self, counts: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """The certified optimum; None where the known curvature does not lead to it."""
        share = counts * self.value / (counts @ self.value)
        w, last = self.start.copy(), np.inf
        while self.curvature is not None:
            lost = share * expit(-self.products.scores(w))
            gradient = self.l2 * w - self.products.transpose_times(lost)
            size = float(gradient @ gradient)
            if size <= self.enough:
                return w
            if size > 0.25 * last:
                return None
            w, last = w - cho_solve(self.curvature, gradient), size
        return None
