"""An implicit step ends at the minimum of its list, near the weights that it starts from."""

from __future__ import annotations

import numpy as np
import pytest
from papers.freno import implicit
from scipy import optimize

from rankine import Dataset


def some_list(seed=0, rows=12, columns=4):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, columns)), rng.integers(0, 3, rows).astype(float)


@pytest.mark.parametrize("objective", ["ndcg", "pairwise"])
def test_a_step_minimises_the_loss_of_its_list(objective):
    X, y = some_list()
    w, eta, l2 = np.full(4, 0.2), 0.5, 0.01
    weights = implicit.pair_weights(y, X @ w, objective)

    def loss(v):
        gaps = np.subtract.outer(X @ v, X @ v)
        near = ((v - w) ** 2).sum() / (2 * eta)
        return (weights * np.logaddexp(0, -gaps)).sum() + l2 / 2 * (v**2).sum() + near

    found = implicit.implicit_step(X, y, w, eta, l2, objective)
    best = optimize.minimize(loss, w, tol=1e-12).x
    np.testing.assert_allclose(found, best, atol=1e-5)


def test_only_pairs_in_the_order_of_the_labels_weigh():
    _, y = some_list()
    for objective in ("ndcg", "pairwise"):
        weights = implicit.pair_weights(y, np.arange(len(y)), objective)
        assert ((weights > 0) <= (np.subtract.outer(y, y) > 0)).all()
        assert weights.sum() > 0


def test_averages_are_of_the_steps_that_they_name():
    X, y = some_list(rows=40)
    train = Dataset.from_arrays(X, y, np.repeat(np.arange(4), 10))
    setting = {"objective": "pairwise", "eta0": 1.0, "power": "0", "l2": 0.1, "parts": 1}
    ends = {name: implicit.learnt(train, 3, average=name, **setting) for name in implicit.TAILS}
    assert len({tuple(end) for end in ends.values()}) == 3
    # the second half has two steps, the last of which is known
    other = 2 * ends["second half"] - ends["last"]
    order = np.random.default_rng(3)
    w = np.zeros(4)
    for k, query in enumerate(order.permutation(4)):
        part = order.permutation(np.arange(10 * query, 10 * query + 10))
        w = implicit.implicit_step(X[part], y[part], w, 1.0, 0.1, "pairwise")
        if k == 2:
            np.testing.assert_allclose(w, other)
    np.testing.assert_allclose(w, ends["last"])
