"""Compute the domination loss pair by pair, and its optimum by another solver."""

import numpy as np
from scipy.optimize import minimize


def brute_loss(w, X, y, qid, *, s=None, weight=None, query_weight=None, table=None, mean=False):
    """sum_q v_q sum_i a_i log(1 + sum_{j in D(i)} a_j e^{f_j - f_i + s_i - s_j + M[y_i, y_j]})."""
    m = len(y)
    f = X @ w
    s = np.zeros(m) if s is None else s
    a = np.ones(m) if weight is None else weight
    total = 0.0
    for q in np.unique(qid):
        terms, dominating = 0.0, 0.0
        for i in np.flatnonzero(qid == q):
            below = [j for j in np.flatnonzero(qid == q) if y[j] < y[i] and a[j] > 0]
            if not below or a[i] == 0:
                continue
            gap = [0.0 if table is None else table[int(y[i]), int(y[j])] for j in below]
            inner = sum(
                a[j] * np.exp(f[j] - f[i] + s[i] - s[j] + g)
                for j, g in zip(below, gap, strict=True)
            )
            terms += a[i] * np.log1p(inner)
            dominating += a[i]
        v = 1.0 if query_weight is None else query_weight[q]
        total += v * terms / (dominating if mean and dominating else 1.0)
    return total


def slope(function, w, eps=1e-6):
    """Return the gradient by central differences."""
    return np.array(
        [(function(w + eps * e) - function(w - eps * e)) / (2 * eps) for e in np.eye(len(w))]
    )


def fast_loss_and_gradient(w, X, y, qid, s):
    """Compute the same loss in O(rows x levels), with its gradient, for the other solver."""
    rho = X @ w - s
    total, pull = 0.0, np.zeros(len(y))
    for q in np.unique(qid):
        rows = np.flatnonzero(qid == q)
        for level in np.unique(y[rows])[1:]:
            below, own = rows[y[rows] < level], rows[y[rows] == level]
            top = rho[below].max()
            e = np.exp(rho[below] - top)
            log_z = top + np.log(e.sum())
            z = log_z - rho[own]
            total += np.logaddexp(0, z).sum()
            sigma = np.exp(-np.logaddexp(0, -z))
            pull[own] -= sigma
            pull[below] += sigma.sum() * e / e.sum()
    return total, X.T @ pull


def reference_optimum(X, y, qid, s, l1, l2):
    """L-BFGS-B on w = p - m with p, m >= 0; returns weights and objective."""
    n = X.shape[1]

    def objective(z):
        w = z[:n] - z[n:]
        loss, g = fast_loss_and_gradient(w, X, y, qid, s)
        value = loss + l1 * z.sum() + l2 / 2 * w @ w
        return value, np.concatenate([g + l2 * w + l1, -g - l2 * w + l1])

    z = np.zeros(2 * n)
    options = {"maxiter": 20000, "maxfun": 40000, "ftol": 1e-16, "gtol": 1e-10, "maxcor": 30}
    for _ in range(3):
        z = minimize(
            objective, z, jac=True, method="L-BFGS-B", bounds=[(0, None)] * (2 * n), options=options
        ).x
    return z[:n] - z[n:], objective(z)[0]
