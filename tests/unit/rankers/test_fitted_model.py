"""The model of a fitted ranker."""

from __future__ import annotations

import numpy as np

from rankine import DominationRanker

SIZES = [3, 5, 4, 6]


QID = np.repeat(["a", "b", "c", "d"], SIZES)


def lists(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(len(QID), 3))
    return X, (X[:, 0] + rng.normal(size=len(QID)) > 0).astype(float)


def test_the_model_stores_means_only_of_columns_with_a_weight() -> None:
    X, y = lists()
    X[:, 2] = 1.0
    X[3, 0] = X[4, 2] = np.nan
    model = DominationRanker(l1=0.1, missing="mean").fit(X, y, qid=QID).to_model()
    weighted = set(np.flatnonzero(model.to_dense()).tolist())
    assert 2 not in weighted
    assert set(model.missing.columns) == weighted
