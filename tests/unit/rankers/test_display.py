"""Notebook display."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rankine import DominationRanker, RankSVM, SPDRanker

SIZES = [3, 5, 4, 6]


QID = np.repeat(["a", "b", "c", "d"], SIZES)


def lists(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(len(QID), 3))
    return X, (X[:, 0] + rng.normal(size=len(QID)) > 0).astype(float)


def test_a_fitted_ranker_in_a_notebook() -> None:
    X, y = lists()
    ranker = RankSVM(l2=0.1)
    assert "trained on" not in ranker._html_repr()
    html = ranker.fit(pd.DataFrame(X, columns=["f", "g", "h"]), y, qid=QID)._html_repr()
    for words in ("fitted RankSVM", "18 rows of 4 queries", "relative_gap", "3 of 3", ">f<"):
        assert words in html
    unnamed, sizes = RankSVM(l2=0.1).fit(X, y, qid=QID)._displayed_weights()
    assert unnamed == ["0", "1", "2"]
    np.testing.assert_array_equal(sizes, ranker.coef_)
    sparse_one = DominationRanker(l1=2.0).fit(X, y, qid=QID)
    used = np.flatnonzero(sparse_one.coef_)
    assert sparse_one._displayed_weights()[0] == [str(j) for j in used]
    spd = SPDRanker(n_steps=10, random_state=0).fit(X, y, qid=QID)
    assert "certificate" not in spd._html_repr()
