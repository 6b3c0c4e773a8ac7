"""Random lists with pairs for the tests of pair losses and risks."""

from __future__ import annotations

import numpy as np

from rankine.data import Dataset

#: Weights of the queries 0 to 5, the last of which has a single label.
QUERY_WEIGHT = np.array([1.0, 0.5, 2.0, 0.0, 3.0, 1.0])


def lists(weighted, seed=0, m=40):
    """Return interleaved lists and their query weights.

    In some of the lists only one label has a positive weight.
    """
    rng = np.random.default_rng(seed)
    qid, y = rng.integers(0, 6, m), rng.integers(0, 4, m).astype(float)
    y[qid == 5] = 1.0
    weight = None
    if weighted:
        weight = rng.choice([0.0, 0.5, 1.0, 3.0], m)
        weight[(qid == 2) & (y > 0)] = 0.0
    data = Dataset.from_arrays(rng.normal(size=(m, 5)), y, qid, weight=weight)
    return data, QUERY_WEIGHT[data.queries.ids]


def blocks(data, query_weight):
    """Yield the lists one by one."""
    for q in range(data.n_queries):
        yield data.take(data.queries.rows_of(q)), query_weight[q : q + 1]
