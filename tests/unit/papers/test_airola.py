"""Utilities that are mostly zero, and claims that follow the collection that was run."""

from __future__ import annotations

import numpy as np
from papers import claims
from papers.airola.utilities import Task, mostly_zero
from scipy import sparse


def test_most_utilities_can_be_zero_on_the_same_rows():
    rng = np.random.default_rng(0)
    words = rng.random((400, 60)) < np.linspace(0.9, 0.01, 60)
    X = sparse.csr_matrix(words * rng.random(words.shape))
    task = mostly_zero(Task("generated", X[:300], np.ones(300), X[300:], np.ones(100)))
    every = np.concatenate([task.y, task.y_test])
    assert 0.6 < np.mean(every == 0) < 1
    assert (X[:300] != task.X).nnz == 0
    assert task.name != "generated"


def test_claims_name_the_collection():
    generated = [claim for claim in claims.of("airola") if not claim.own]
    assert generated
    assert all(claim.data.startswith("generated ") for claim in generated)
