"""Compute pairs, objectives and steps slowly, as references for the tests of SPD."""

from __future__ import annotations

import numpy as np


def all_pairs(y, qid):
    """Return every (better, worse) pair of rows of one query."""
    m = len(y)
    return [(i, j) for i in range(m) for j in range(m) if qid[i] == qid[j] and y[i] > y[j]]


def pair_weights(y, qid, sampling):
    """Return the probability of each pair under a sampling rule."""
    pairs = all_pairs(y, qid)
    count = {}
    for i, _ in pairs:
        count[qid[i]] = count.get(qid[i], 0) + 1
    if sampling in ("uniform", "rejection"):
        return {pair: 1 / len(pairs) for pair in pairs}
    if sampling == "query":
        return {pair: 1 / (len(count) * count[qid[pair[0]]]) for pair in pairs}
    weights = {}
    for i, j in pairs:
        mine = [y[k] for k in range(len(y)) if qid[k] == qid[i]]
        levels = len(set(mine))
        label_pairs = levels * (levels - 1) / 2
        weights[i, j] = 1 / (len(count) * label_pairs * mine.count(y[i]) * mine.count(y[j]))
    return weights


def objective(w, X, y, qid, l2, sampling, loss):
    """l2/2 |w|^2 + weighted mean pair loss."""
    s = X @ w
    total = sum(p * loss(s[i] - s[j]) for (i, j), p in pair_weights(y, qid, sampling).items())
    return 0.5 * l2 * w @ w + total


def hinge(z):
    return max(0.0, 1.0 - z)


def logistic(z):
    return float(np.logaddexp(0.0, -z))
