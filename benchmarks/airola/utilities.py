"""Utilities of the paper: dot products with one removed document, generated and real."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from benchmarks.real_data import read_reuters
from benchmarks.workloads import stored_rcv1_like

LAM, TOL = 1e-5, 1e-3
SEED = 1


class Task(NamedTuple):
    """Training rows in random order, of which the first m are used, and test rows."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any


def generated(rows, test):
    """The project's generator: nearly every utility is another number."""
    X, _, y = stored_rcv1_like(rows + test)
    return Task(X[:rows], y[:rows], X[rows:], y[rows:])


def distinct(rows, test):
    """The same rows with noise that makes every label different, small beside the utilities."""
    task = generated(rows, test)
    rng = np.random.default_rng(SEED)
    y, y_test = (v + 1e-6 * rng.random(len(v)) for v in (task.y, task.y_test))
    return Task(task.X, y, task.X_test, y_test)


def reuters(rows, test):
    """Real documents: one is removed at random, the utility of the others is their dot product."""
    X, _, _, _ = read_reuters()
    X = sparse.csr_matrix(X, dtype=np.float32)
    order = np.random.default_rng(SEED).permutation(X.shape[0])
    target, order = order[0], order[1:]
    y = np.asarray(X @ X[target].toarray().ravel(), dtype=float)
    rows = min(rows, len(order) - test)
    train, held = order[:rows], order[rows : rows + test]
    return Task(X[train], y[train], X[held], y[held])
