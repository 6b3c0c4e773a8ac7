"""Estimate strengths of items from comparisons, with bootstrap intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit
from sklearn.base import clone

from rankine.core.checks import check_count
from rankine.core.errors import SchemaError
from rankine.data.dataset import Dataset, as_rows
from rankine.data.query_index import id_texts
from rankine.evaluation.significance import check_confidence
from rankine.evaluation.tables import Table
from rankine.kernels.products import Products
from rankine.kernels.random import BOOTSTRAP, resolve_seed, stream_seed
from rankine.rankers.ranksvm import RankSVM

#: Number of features up to which the curvature is stored as a dense matrix.
MAX_DENSE = 4000
#: Variance of strengths before any comparison. Without a prior the strengths of few comparisons are
#: too far apart: 12 items, 100 comparisons, 1.41 times the truth (1.11 with this one).
_PRIOR_VARIANCE = 9.0

__all__ = ["ItemStrengths", "item_strengths"]


@dataclass(frozen=True, eq=False)
class ItemStrengths:
    """Strengths of items, strongest first.

    Attributes
    ----------
    items
        Ids of the items.
    strength
        Strengths. The mean of all items is 0; an item that is stronger by d wins with probability
        1 / (1 + e^-d).
    low, high
        Ends of their intervals; None without bootstrap rounds.
    coef
        Weights of all features: items and others.
    rounds
        Weights in every bootstrap round, one row per round.
    ranker
        The fitted ``RankSVM``, with its certificate.
    confidence
        Confidence level of the intervals.
    """

    items: tuple[str, ...]
    strength: NDArray[np.float64]
    low: NDArray[np.float64] | None
    high: NDArray[np.float64] | None
    coef: dict[str, float]
    rounds: NDArray[np.float64]
    ranker: RankSVM
    confidence: float = 0.95

    def table(self) -> Table:
        """Return a table with one line per item."""
        rows = [
            (name, f"{value:+.3f}") for name, value in zip(self.items, self.strength, strict=True)
        ]
        if self.low is None or self.high is None:
            return Table("", ("item", "strength"), rows)
        intervals = [
            (f"[{low:+.3f}, {high:+.3f}]",) for low, high in zip(self.low, self.high, strict=True)
        ]
        header = ("item", "strength", f"{self.confidence:.0%} interval")
        return Table("", header, [a + b for a, b in zip(rows, intervals, strict=True)])

    def to_dict(self) -> dict[str, Any]:
        """Return plain data: every item with its interval, then the weights of other features."""
        numbers = {"strength": self.strength}
        if self.low is not None and self.high is not None:
            numbers |= {"low": self.low, "high": self.high}
        items = [
            {"item": item, **{name: float(values[i]) for name, values in numbers.items()}}
            for i, item in enumerate(self.items)
        ]
        features = {name: value for name, value in self.coef.items() if name not in self.items}
        result: dict[str, Any] = {"items": items, "features": features}
        if self.low is not None:
            result["confidence"] = self.confidence
        return {**result, "certificate": dict(self.ranker.solution_.certificate)}


def item_strengths(
    data: Dataset,
    *,
    l2: float | None = None,
    n_resamples: int = 100,
    confidence: float = 0.95,
    tol: float = 1e-8,
    random_state: Any = 0,
) -> ItemStrengths:
    """Fit Bradley and Terry's model to ``Dataset.from_pairs`` of item ids.

    Parameters
    ----------
    l2
        Strength of the L2 penalty, added to the mean loss of a comparison. None is the penalty of a
        normal prior with a standard deviation of 3 for every strength, 1 / (9 comparisons): it
        bounds the strength of an item that always wins, and hardly moves the others.
    n_resamples, confidence
        Number of bootstrap samples of comparisons (0: no intervals), and confidence level of the
        intervals.
    tol
        Tolerance of the duality gap, relative to the loss of equal items.
    random_state
        Seed of the bootstrap.
    """
    if data.docid is None or "comparison" not in data.columns:
        raise SchemaError(
            "the data are not comparisons of items", fix="Use Dataset.from_pairs with ids"
        )
    names = np.array(data.feature_names)
    items = np.unique(id_texts(data.docid))
    item_columns = np.flatnonzero(np.isin(names, items))
    check_confidence(confidence)
    if n_resamples != 0:
        check_count("n_resamples", n_resamples)
    if l2 is None:
        l2 = 1.0 / (_PRIOR_VARIANCE * _total_weight(data))
    # The logistic loss of pairs is the likelihood of Bradley and Terry's model.
    prototype = RankSVM(l2, loss="logistic", normalization="pair", tol=tol, scale="none")
    ranker = clone(prototype).fit(data)
    generator = np.random.default_rng(stream_seed(resolve_seed(random_state), BOOTSTRAP))
    # A tie is two comparisons with one number: they are drawn together.
    comparison = data.columns["comparison"][::2].astype(np.int64)
    n = int(comparison.max()) + 1
    likelihood = _Likelihood(data, l2, tol, ranker.coef_)
    rounds = np.empty((n_resamples, data.n_features))
    for b in range(n_resamples):
        drawn = np.bincount(generator.integers(0, n, n), minlength=n)
        counts = drawn[comparison].astype(np.float64)
        # A draw differs little from all comparisons: a few steps from their optimum are enough.
        weights = likelihood.optimum(counts)
        # Rare: the draw is too different, and a complete fit takes its place.
        if weights is None:
            prototype.fit(data, query_weight=counts, coef_init=ranker.coef_)
            weights = prototype.coef_
        rounds[b] = weights
    # Only differences of strengths have a meaning, so their mean is set to 0.
    strength = _centre(ranker.coef_[item_columns])
    order = np.argsort(-strength, kind="stable")
    low = high = None
    if n_resamples:
        tail = (1 - confidence) / 2
        round_strengths = _centre(rounds[:, item_columns[order]])
        low, high = np.quantile(round_strengths, [tail, 1 - tail], axis=0)
    coef = dict(zip(names.tolist(), ranker.coef_.tolist(), strict=True))
    return ItemStrengths(
        tuple(names[item_columns][order].tolist()), strength[order], low, high,
        coef, rounds, ranker, confidence,
    )  # fmt: skip


def _total_weight(data: Dataset) -> float:
    """Return the number of comparisons, each counted with its weight."""
    if data.weight is None:
        return data.n_rows / 2
    # Both rows have the root of the comparison's weight, and a pair weighs their product.
    return float(np.sum(data.weight[::2] ** 2))


def _centre(strengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Subtract the mean over items."""
    return strengths - strengths.mean(axis=-1, keepdims=True)


class _Likelihood:
    r"""Find optima for other counts of the same comparisons, near the optimum of all counts.

    With the differences d of winner and loser, :math:`J(w) = \frac{l_2}{2}|w|^2 + \sum_i v_i \log(1
    + e^{-\langle w, d_i\rangle}) / \sum_i v_i`. The curvature at this optimum replaces the
    curvature of every draw, so that a step needs only the gradient g. The iteration ends by the
    bound :math:`J - J^* \le |g|^2 / (2 l_2)`.
    """

    def __init__(self, data: Dataset, l2: float, tol: float, start: NDArray[np.float64]) -> None:
        self.l2, self.start = l2, start
        self.squared_gradient_tol = 2 * l2 * tol * np.log(2)
        # Rows 2i and 2i + 1 are the two items of comparison i.
        sign = data.y[::2] - data.y[1::2]
        differences = sparse.csr_matrix(sparse.diags(sign) @ (data.X[::2] - data.X[1::2]))
        self.products = Products(as_rows(differences), data.n_features)
        self.value = np.ones(len(sign))
        if data.weight is not None:
            # Both rows have the root of the comparison's weight, and a pair weighs their product.
            self.value = data.weight[::2] ** 2
        self.curvature = None
        if data.n_features <= MAX_DENSE:
            win_probability = expit(self.products.scores(start))
            share = win_probability * (1 - win_probability) * self.value / self.value.sum()
            H = (differences.T @ differences.multiply(share[:, None]).tocsr()).toarray()
            self.curvature = cho_factor(H + l2 * np.eye(len(H)))

    def optimum(self, counts: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Return the certified optimum, or None if the fixed curvature does not lead to it."""
        share = counts * self.value / (counts @ self.value)
        w, last_size = self.start.copy(), np.inf
        while self.curvature is not None:
            loss_slopes = share * expit(-self.products.scores(w))
            gradient = self.l2 * w - self.products.transpose_times(loss_slopes)
            size = float(gradient @ gradient)
            if size <= self.squared_gradient_tol:
                return w
            # Too slow: this draw's curvature is too different.
            if size > 0.25 * last_size:
                return None
            w = w - cho_solve(self.curvature, gradient)
            last_size = size
        return None
