"""What all rankers do with query ids, bad values and weights for judging."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rankine import AdditiveRanker, DominationRanker, LeastSquaresRanker, RankSVM, SPDRanker

SIZES = [3, 5, 4, 6]


QID = np.repeat(["a", "b", "c", "d"], SIZES)


def _ranker(kind: Any, l2: float, **options: Any) -> Any:
    return kind(l2=l2, **options)


def lists(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(len(QID), 3))
    return X, (X[:, 0] + rng.normal(size=len(QID)) > 0).astype(float)


def _weighted_and_repeated(make: Callable[[float], Any], l2: float) -> tuple[Any, Any]:
    """The same problem by weights 1 to 3, and by rows and queries that occur so often."""
    X, y = lists(3)
    times = np.random.default_rng(3).integers(1, 4, len(y))
    often = {"a": 2, "b": 1, "c": 3, "d": 1}
    rows = np.repeat(np.arange(len(y)), times)
    parts = [(rows[QID[rows] == q], f"{q}{c}") for q, n in often.items() for c in range(n)]
    again = np.concatenate([part for part, _ in parts])
    names = np.concatenate([np.full(len(part), name) for part, name in parts])
    weighted = make(1.0).fit(X, y, qid=QID, sample_weight=times, query_weight=often)
    return weighted, make(l2).fit(X[again], y[again], qid=names)


@pytest.mark.parametrize(
    "make",
    [
        *(
            partial(_ranker, LeastSquaresRanker, pairs=pairs, normalization=norm, tol=1e-12)
            for pairs in ("all", "untied")
            for norm in ("query", "sum", "pair")
            if (pairs, norm) != ("all", "pair")
        ),
        *(partial(_ranker, RankSVM, loss=loss, tol=1e-11) for loss in ("hinge", "squared_hinge")),
        *(
            partial(_ranker, DominationRanker, l1=0.1, normalization=norm, tol=1e-11)
            for norm in ("sum", "query")
        ),
    ],
    ids=lambda make: " ".join([make.args[0].__name__, *map(str, make.keywords.values())]),
)
def test_a_row_of_weight_2_equals_the_row_twice(make: Callable[[float], Any]) -> None:
    weighted, repeated = _weighted_and_repeated(make, 1.0)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-5)


def test_the_mean_over_all_pairs_differs_by_a_factor_of_l2() -> None:
    make = partial(_ranker, LeastSquaresRanker, normalization="pair", tol=1e-12)
    _, y = lists(3)
    times = np.random.default_rng(3).integers(1, 4, len(y))
    masses = [times[q == QID] for q in "abcd"]
    usable = [(v, s) for v, s, q in zip((2, 1, 3, 1), masses, "abcd", strict=True)
              if len(set(y[q == QID])) > 1]  # fmt: skip
    with_copies = sum(v * s.sum() * (s.sum() - 1) for v, s in usable)
    without = sum(v * (s.sum() ** 2 - (s**2).sum()) for v, s in usable)
    weighted, repeated = _weighted_and_repeated(make, without / with_copies)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-8)


def test_only_models_of_the_same_ranker_continue_the_step_count() -> None:
    X, y = lists()
    own = SPDRanker(n_steps=70, random_state=0).fit(X, y, qid=QID)
    told = {"n_steps": 30, "random_state": 0}
    assert SPDRanker(**told).fit(X, y, qid=QID, coef_init=own.to_model()).n_iter_ == 100
    other = RankSVM().fit(X, y, qid=QID).to_model()
    assert SPDRanker(**told).fit(X, y, qid=QID, coef_init=other).n_iter_ == 30
    assert SPDRanker(**told).fit(X, y, qid=QID, coef_init=own.coef_).n_iter_ == 30
    again = SPDRanker(**told, warm_start=True).fit(X, y, qid=QID)
    assert (again.n_iter_, again.fit(X, y, qid=QID).n_iter_) == (30, 60)
    cold = SPDRanker(**told).fit(X, y, qid=QID)
    assert cold.fit(X, y, qid=QID).n_iter_ == 30


def test_a_model_without_a_step_count_starts_at_step_0() -> None:
    X, y = lists()
    own = SPDRanker(n_steps=70, random_state=0).fit(X, y, qid=QID).to_model()
    bare = replace(own, provenance={})
    assert SPDRanker(n_steps=30, random_state=0).fit(X, y, qid=QID, coef_init=bare).n_iter_ == 30


def test_two_rows_are_enough() -> None:
    ranker = RankSVM().fit([[1.0], [2.0]], [0, 1])
    assert ranker.coef_[0] > 0
    assert RankSVM().fit(pd.DataFrame({"f": [1.0, 2.0]}), [0, 1]).coef_ == ranker.coef_


def test_scikit_learn_tags_of_a_ranker() -> None:
    tags = RankSVM().__sklearn_tags__()
    assert tags.estimator_type == "ranker"
    assert tags.input_tags.sparse
    assert tags.target_tags.required


def test_scikit_learn_tags_say_whether_nan_is_allowed() -> None:
    for ranker, allowed in ((RankSVM(), False), (RankSVM(missing="error"), False),
                            (RankSVM(missing="zero"), True), (AdditiveRanker(), True)):  # fmt: skip
        assert ranker.__sklearn_tags__().input_tags.allow_nan == allowed


def test_rows_of_weight_0_count_only_in_the_range_of_their_list():
    """``scale="query"`` sees what will be seen when the list is scored."""
    rng = np.random.default_rng(0)
    X, y, qid = rng.normal(size=(80, 3)), rng.integers(0, 3, 80), np.repeat(np.arange(10), 8)
    weight = (np.arange(80) % 8 > 0).astype(float)
    kept, told = weight > 0, {"loss": "squared_hinge", "tol": 1e-10}
    for scale in ("none", "auto", "standard", "maxabs", "query"):
        ranker = RankSVM(scale=scale, **told)
        weighed = ranker.fit(X, y, qid=qid, sample_weight=weight).coef_
        alone = ranker.fit(X[kept], y[kept], qid=qid[kept]).coef_
        assert np.allclose(weighed, alone, rtol=1e-5, atol=1e-8) == (scale != "query")
    low, high = (extreme.reduceat(X, np.arange(0, 80, 8)) for extreme in (np.minimum, np.maximum))
    by_hand = (X - low[qid]) / (high - low)[qid]
    ranker = RankSVM(scale="none", **told).fit(by_hand, y, qid=qid, sample_weight=weight)
    np.testing.assert_allclose(weighed, ranker.coef_, rtol=1e-5)
