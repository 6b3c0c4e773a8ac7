"""Compute ElasticRank slowly: metrics by definition, |Delta| by exchanging, textbook updates."""

from __future__ import annotations

import numpy as np

DISCOUNT = {
    "std": lambda r: 1 / np.log2(r + 1),
    "paper": lambda r: 1 / (np.log2(r) + 1),
    "letor": lambda r: np.where(r <= 2, 1.0, 1 / np.log2(np.maximum(r, 2))),
}


def metric_value(name, ranks, levels, cutoff=None, discount="std"):
    """Return the metric of a ranking; levels are gains (dcg, ndcg) or 0/1 relevance."""
    ranks, levels = np.asarray(ranks, float), np.asarray(levels, float)
    k = len(levels) if cutoff is None else cutoff
    shown = ranks <= k
    if name in ("dcg", "ndcg"):
        value = (levels * DISCOUNT[discount](ranks) * shown).sum()
        if name == "dcg":
            return value
        places = np.arange(1, len(levels) + 1)
        ideal = (np.sort(levels)[::-1] * DISCOUNT[discount](places))[:k].sum()
        return value / ideal if ideal > 0 else 0.0
    found = np.sort(ranks[levels > 0])
    if len(found) == 0:
        return 0.0
    if name == "recall":
        return (found <= k).sum() / len(found)
    if name == "mrr":
        return 1 / found[0] if found[0] <= k else 0.0
    return (np.arange(1, len(found) + 1) / found).mean()


def exchange_weight(name, ranks, levels, i, j, **options):
    """|M(r) - M(r with i and j exchanged)|; 1 for "pairwise"."""
    if name == "pairwise":
        return 1.0
    swapped = np.array(ranks)
    swapped[i], swapped[j] = ranks[j], ranks[i]
    return abs(
        metric_value(name, ranks, levels, **options)
        - metric_value(name, swapped, levels, **options)
    )


def list_gradient(
    name, scores, levels, ranks, *, loss="logistic", margin=1.0, weights=None, **opts
):
    """Return the loss of a list and its gradient in the scores."""
    n = len(scores)
    weights = np.ones(n) if weights is None else weights
    total, slopes = 0.0, np.zeros(n)
    for i in range(n):
        for j in range(n):
            if levels[i] > levels[j]:
                share = exchange_weight(name, ranks, levels, i, j, **opts)
                share *= weights[i] * weights[j]
                z = scores[i] - scores[j]
                if loss == "logistic":
                    value, slope = np.logaddexp(0, -z), -np.exp(-np.logaddexp(0, z))
                else:
                    value, slope = max(0.0, margin - z), -float(z < margin)
                total += share * value
                slopes[i] += share * slope
                slopes[j] -= share * slope
    return total, slopes


def soft(v, a):
    return np.sign(v) * np.maximum(np.abs(v) - a, 0)


class Eager:
    """Textbook updates; every weight is touched at every step. Step sizes fell ``before``."""

    def __init__(
        self, kind, n, *, eta0=1.0, power=0.5, l1=0.0, l2=0.0, theta=0.0, every=1, before=0
    ):
        self.kind, self.w, self.t, self.before = kind, np.zeros(n), 0, before
        self.eta0, self.power, self.l1, self.l2 = eta0, power, l1, l2
        self.theta, self.every = theta, every
        self.total, self.squares, self.start = np.zeros(n), np.zeros(n), np.zeros(n)

    def begin_at(self, weights):
        self.w = np.array(weights, float)
        self.start = self.w.copy()

    def step(self, gradient, squares=None):
        self.t += 1
        t = self.t
        eta = self.eta0 / (self.before + t) ** self.power
        if self.kind == "fobos":
            self.w = soft(self.w - eta * gradient, eta * self.l1) / (1 + eta * self.l2)
        elif self.kind in ("rda", "adaptive"):
            self.total += gradient
            self.squares += gradient**2 if squares is None else squares
            beta = (self.before + t) ** self.power / self.eta0
            if self.kind == "adaptive":
                beta = (1 + np.sqrt(self.squares)) / self.eta0
            pulled = soft(beta * self.start - self.total, t * self.l1)
            self.w = pulled / (t * self.l2 + beta)
        elif self.kind == "psgd":
            self.w = (self.w - eta * gradient) / (1 + eta * self.l2)
            if t % self.every == 0:
                self.w = np.where(np.abs(self.w) < self.theta, 0.0, self.w)
        elif self.kind == "tgd":
            self.w = self.w - eta * gradient
            if t % self.every == 0:
                short = soft(self.w, self.every * eta * self.l1)
                self.w = np.where(np.abs(self.w) <= self.theta, short, self.w)


def slow_run(
    data, objective, eager, *, loss="logistic", target=False, margin=1.0, batch=1, lw=None
):
    """Rank by the scores themselves: the data has no ties after the first list."""
    name = objective.name
    cut = None if objective.metric is None else objective.metric.cutoff
    levels = objective.levels(data)
    n = data.n_queries
    lw = np.ones(n) if lw is None else lw
    for first in range(0, n, batch):
        total, squares, used = np.zeros(data.n_features), np.zeros(data.n_features), 0
        for q in range(first, min(first + batch, n)):
            rows = data.queries.rows_of(q)
            level, scores = levels[rows], data.X[rows] @ eager.w
            if len(set(level)) < 2:
                continue
            used += 1
            keys = level if target else scores
            ranks = np.empty(len(rows), int)
            ranks[np.argsort(-keys, kind="stable")] = np.arange(1, len(rows) + 1)
            extra = {} if name == "pairwise" else {"cutoff": cut}
            _, slopes = list_gradient(
                name,
                scores,
                level,
                ranks,
                loss=loss,
                margin=margin,
                weights=None if data.weight is None else data.weight[rows],
                **extra,
            )
            parts = slopes[:, None] * data.X[rows] * lw[q]
            total += parts.sum(0)
            squares += (parts**2).sum(0)
        if used:
            eager.step(total / used, squares / used**2)
    return eager.w
