"""Scorers for scikit-learn."""

from __future__ import annotations

import numpy as np
import sklearn
from sklearn.model_selection import GroupKFold, cross_validate

from rankine import RankSVM
from rankine.metrics import scorer

SIZES = [3, 5, 4, 6]


QID = np.repeat(["a", "b", "c", "d"], SIZES)


def lists(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(len(QID), 3))
    return X, (X[:, 0] + rng.normal(size=len(QID)) > 0).astype(float)


def test_a_scorer_requests_query_ids_and_negates_errors():
    X, y = lists()
    ranker = RankSVM().fit(X, y, qid=QID)
    assert scorer("map")(ranker, X, y, qid=QID) == ranker.score(X, y, qid=QID, metric="map")
    error = ranker.score(X, y, qid=QID, metric="pairwise_error")
    assert scorer("pairwise_error")(ranker, X, y, qid=QID) == -error
    with sklearn.config_context(enable_metadata_routing=True):
        found = cross_validate(
            RankSVM(scale="query").set_fit_request(qid=True),
            X,
            y,
            cv=GroupKFold(2),
            scoring=scorer("map"),
            params={"qid": QID, "groups": QID},
        )
    assert np.isfinite(found["test_score"]).all()
