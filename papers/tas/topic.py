"""A topic that half of the documents belong to (the paper's CCAT), and its linear system."""

from __future__ import annotations

import numpy as np
from benchmarks.common.real_data import read_reuters
from benchmarks.common.workloads import large_text, linear_topics
from scipy.sparse.linalg import LinearOperator, eigsh

from rankine import Dataset
from rankine.losses.least_squares import least_squares_risk
from rankine.solvers.problem import NormalEquations, RowsProblem

#: Rows of the large collection that samples are drawn from.
POOL = 60_000
#: The most frequent topic of Reuters-21578, and the one of RCV1 that the paper took.
TOPIC, PAPERS = "earn", "CCAT"


def half_topics():
    """Load rows and labels 0 / 1 of two topics with as many negatives as positives."""
    X, Y, names, _ = read_reuters()
    y = Y[:, names.index(TOPIC)]
    positive, negative = np.flatnonzero(y > 0), np.flatnonzero(y == 0)
    drawn = np.random.default_rng(0).permutation(negative)[: len(positive)]
    selected = np.sort(np.concatenate([positive, drawn]))
    name, *large = large_half(POOL)
    return {
        f"Reuters-21578, {TOPIC}": (X[selected].astype(np.float32), y[selected]),
        name: tuple(large),
    }


def large_half(rows):
    """Load the paper's topic if RCV1 is available, else a generated one."""
    text = large_text(rows, topic=PAPERS)
    labels = text.binary if text.name == "RCV1" else next(linear_topics(text.X, 1, 0.5, seed=1))
    return text.name, text.X, (labels > 0).astype(float)


def sample(X, y, seed, rows, test):
    """Training and test data of one seed, each one query."""
    order = np.random.default_rng(seed).permutation(X.shape[0])
    train, test_rows = np.sort(order[:rows]), np.sort(order[rows : rows + test])
    return Dataset.from_arrays(X[train], y[train]), Dataset.from_arrays(X[test_rows], y[test_rows])


def system_of(data, lists=1):
    """Build X^T L X with the plain sums of the paper; ``lists`` cuts the rows into blocks."""
    if lists > 1:
        qid = np.sort(np.arange(data.n_rows) % lists)
        data = Dataset(data.X, data.y, qid)
    squares = least_squares_risk(data, None, "sum", "all", threads=1)
    return NormalEquations(RowsProblem.from_dataset(data, squares, 1))


def largest_eigenvalue(system):
    """Compute kappa_1 of X^T L X to ten digits.

    Its smallest eigenvalue is 0, because features are more than rows (or do not all occur).
    """
    n = system.n_features
    operator = LinearOperator((n, n), matvec=lambda v: system.times(np.ravel(v)))
    start = np.random.default_rng(0).normal(size=n)
    return float(eigsh(operator, k=1, which="LA", tol=1e-10, v0=start)[0][0])
