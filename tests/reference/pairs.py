"""Compute pair losses slowly, by listing every pair."""

from __future__ import annotations

import numpy as np


def pair_list(y, qid):
    """Return all (higher, lower) rows of the same query."""
    y, qid = np.asarray(y), np.asarray(qid)
    return np.nonzero((qid[:, None] == qid[None, :]) & (y[:, None] > y[None, :]))


def pair_weights(y, qid, normalization, weight=None, query_weight=None):
    """om_q w_i w_j of every pair of ``pair_list``."""
    high, low = pair_list(y, qid)
    weight = np.ones(len(y)) if weight is None else np.asarray(weight, float)
    of_query = (lambda q: 1.0) if query_weight is None else (lambda q: query_weight[q])
    product = weight[high] * weight[low]
    owner = np.asarray(qid)[high]
    out = np.zeros(len(high))
    usable = [
        q for q in dict.fromkeys(owner.tolist()) if of_query(q) * product[owner == q].sum() > 0
    ]
    all_weight = sum(of_query(q) for q in usable)
    all_pairs = sum(of_query(q) * product[owner == q].sum() for q in usable)
    for q in usable:
        mine = owner == q
        scale = {
            "query": of_query(q) / (all_weight * product[mine].sum()),
            "pair": of_query(q) / all_pairs,
            "sum": of_query(q),
        }[normalization]
        out[mine] = scale * product[mine]
    return out


def pair_risk(p, y, qid, loss, normalization, weight=None, query_weight=None):
    """Return the risk and its gradient; a pair at margin exactly 1 counts as inactive."""
    high, low = pair_list(y, qid)
    omega = pair_weights(y, qid, normalization, weight, query_weight)
    gap = 1 - (p[high] - p[low])
    active = p[low] - p[high] > -1
    if loss == "hinge":
        value, slope = np.where(active, gap, 0.0), np.where(active, -1.0, 0.0)
    elif loss == "logistic":
        value, slope = np.logaddexp(0.0, gap - 1), -np.exp(-np.logaddexp(0.0, 1 - gap))
    else:
        value, slope = np.where(active, gap**2, 0.0), np.where(active, -2.0 * gap, 0.0)
    u = np.zeros(len(p))
    np.add.at(u, high, omega * slope)
    np.add.at(u, low, -omega * slope)
    return float(omega @ value), u


def pair_curvature_times(p, v, y, qid, normalization, weight=None, query_weight=None):
    """d2R/dp2 v of the squared hinge."""
    high, low = pair_list(y, qid)
    omega = pair_weights(y, qid, normalization, weight, query_weight)
    pull = np.where(p[low] - p[high] > -1, 2 * omega * (v[high] - v[low]), 0.0)
    out = np.zeros(len(p))
    np.add.at(out, high, pull)
    np.add.at(out, low, -pull)
    return out
