"""Utilities of the paper: dot products with one removed document."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from benchmarks.common.real_data import read_reuters
from benchmarks.common.workloads import large_text
from scipy import sparse

LAM, TOL = 1e-5, 1e-3
SEED = 1


class Task(NamedTuple):
    """Training rows in random order, of which the first m are used, and test rows."""

    name: str
    X: Any
    y: Any
    X_test: Any
    y_test: Any


def large(rows, test):
    """Load RCV1 if available, else generated rows; nearly all utilities differ."""
    text = large_text(rows + test)
    X, y = text.X, text.utility
    return Task(text.name, X[:rows], y[:rows], X[rows:], y[rows:])


def mostly_zero(task):
    """Return the same rows with utilities that are mostly 0: products with a rare document.

    Its words are those of one row, the most frequent left out until over 60 % share none.
    """
    X = sparse.vstack([task.X, task.X_test], format="csr")
    frequent = np.bincount(X.indices, minlength=X.shape[1])
    target = X[np.random.default_rng(SEED).integers(X.shape[0])].toarray().ravel().astype(float)
    for word in sorted(np.flatnonzero(target), key=lambda word: -frequent[word]):
        y = np.asarray(X @ target)
        if np.mean(y == 0) > 0.6:
            break
        target[word] = 0.0
    rows = len(task.y)
    return task._replace(name="most utilities 0", y=y[:rows], y_test=y[rows:])


def reuters(rows, test):
    """Load Reuters; utilities are dot products with a randomly removed document."""
    X, _, _, _ = read_reuters()
    X = sparse.csr_matrix(X, dtype=np.float32)
    order = np.random.default_rng(SEED).permutation(X.shape[0])
    target, order = order[0], order[1:]
    y = np.asarray(X @ X[target].toarray().ravel(), dtype=float)
    rows = min(rows, len(order) - test)
    train, held = order[:rows], order[rows : rows + test]
    return Task("Reuters-21578", X[train], y[train], X[held], y[held])
