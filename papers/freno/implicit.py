"""Lists read once by implicit steps, whose iterates may be averaged: no method of the paper.

A step moves to the minimum of

    sum over pairs of |Delta(i, j)| log(1 + exp(-(s_i - s_j))) + l2 / 2 |v|^2 + |v - w|^2 / (2 eta)

with s = X v, where a plain gradient step only follows the slope at w. Delta is taken at w; Newton's
method finds the minimum, in a few iterations and as many columns as LETOR has.
"""

from __future__ import annotations

import numpy as np

NEWTON = 4
#: Share of the steps after which averaging begins; None keeps the last iterate.
TAILS = {"last": None, "all": 0.0, "second half": 0.5}


def suggested(trial):
    """Suggest a setting."""
    return {
        "objective": trial.suggest_categorical("objective", ("ndcg", "pairwise")),
        "eta0": trial.suggest_float("eta0", 1e-4, 1e1, log=True),
        "power": trial.suggest_categorical("power", ("0", "0.5", "1")),
        "l2": trial.suggest_float("l2", 1e-6, 1e0, log=True),
        "average": trial.suggest_categorical("average", tuple(TAILS)),
        "parts": trial.suggest_categorical("parts", (1, 2)),
    }


def learnt(train, seed, *, objective, eta0, power, l2, average, parts):
    """Train for one pass over the lists in random order, each cut into ``parts``."""
    X, y, starts = np.asarray(train.X, dtype=float), train.y, train.queries.starts
    rng, w = np.random.default_rng(seed), np.zeros(train.n_features)
    lists = []
    for query in rng.permutation(train.n_queries):
        members = rng.permutation(np.arange(starts[query], starts[query + 1]))
        lists += [part for part in np.array_split(members, parts) if np.ptp(y[part])]
    tail, total, count = TAILS[average], np.zeros(len(w)), 0
    for step, part in enumerate(lists, start=1):
        w = implicit_step(X[part], y[part], w, eta0 / step ** float(power), l2, objective)
        if tail is not None and step > tail * len(lists):
            total, count = total + w, count + 1
    return total / count if count else w


def implicit_step(X, y, w, eta, l2, objective):
    """Return the minimiser of one list's implicit update, starting from w."""
    weights = pair_weights(y, X @ w, objective)
    v = w
    for _ in range(NEWTON):
        wrong = weights / (1 + np.exp(np.clip(np.subtract.outer(X @ v, X @ v), -30, 30)))
        slopes = wrong.sum(axis=0) - wrong.sum(axis=1)
        bend = wrong * (1 - wrong / np.maximum(weights, 1e-300))
        bend = bend + bend.T
        gradient = X.T @ slopes + l2 * v + (v - w) / eta
        curve = X.T @ (bend.sum(axis=1)[:, None] * X - bend @ X)
        curve[np.diag_indices_from(curve)] += l2 + 1 / eta
        v = v - np.linalg.solve(curve, gradient)
    return v


def pair_weights(y, scores, objective):
    """Return |Delta| of every pair in the order of the labels, 0 elsewhere; sum at most 1."""
    above = np.subtract.outer(y, y) > 0
    if objective == "pairwise":
        return above / above.sum()
    position = np.empty(len(y))
    position[np.argsort(-scores, kind="stable")] = np.arange(len(y))
    gain, discount = 2.0**y - 1, 1 / np.log2(2 + position)
    best = np.sum(np.sort(gain)[::-1] / np.log2(2 + np.arange(len(y))))
    return (
        above * np.abs(np.subtract.outer(gain, gain) * np.subtract.outer(discount, discount)) / best
    )
