"""Every ranker as a scikit-learn citizen: the registry says which there are."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
    parametrize_with_checks,
)

from rankine import AdditiveRanker, LeastSquaresRanker, RankSVM, SPDRanker, shop_log
from rankine.rankers.registry import RANKERS, ranker_class

# The checks cut max_iter to 5 and expect a warning rather than an error.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    # Some checks pass columns of small whole numbers, which look like query ids.
    pytest.mark.filterwarnings("ignore:.*rows came without query ids"),
]

#: Parameters that keep a check short.
SHORT = {"spd": {"n_steps": 2000}, "additive": {"smooth": 1.0, "pairs": 2}}
#: Why a weight of 2 is not a row twice, by ranker.
UNEQUAL = {
    "spd": "weights are sampling probabilities: equal in distribution, by other draws",
    "elastic": (
        "a weight multiplies the pairs of a row, while a repeated row also changes the ranks of "
        "the list and so every |Delta|"
    ),
    "additive": "cuts are quantiles of rows, not of weights",
    "ranksvm": (
        "the hinge has kinks: runs on weighted and on repeated rows take different subgradients "
        "there and stop at different points within tol; test_weights_equal_repetitions checks a "
        "tight tol"
    ),
}
WEIGHTS = (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
)
SUBJECTS = [ranker_class(name)(random_state=0, **SHORT.get(name, {})) for name in RANKERS]


def excused(ranker):
    smooth = ranker.system == "ranksvm" and ranker.loss == "squared_hinge"
    if smooth or ranker.system not in UNEQUAL:
        return {}
    return {check.__name__: UNEQUAL[ranker.system] for check in WEIGHTS}


@pytest.mark.estimators
@parametrize_with_checks([*SUBJECTS, RankSVM(loss="squared_hinge")], expected_failed_checks=excused)
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.estimators
@pytest.mark.parametrize("check", WEIGHTS)
def test_weights_equal_repetitions(check):
    check("RankSVM", RankSVM(tol=1e-14))


@pytest.mark.parametrize("name", RANKERS)
def test_a_ranker_says_what_it_can_do(name):
    kind = ranker_class(name)
    assert kind.system == name
    assert "memory" in kind.capabilities.fit
    assert set(kind.capabilities.path) | set(kind.capabilities.checkpoint) <= set(
        kind.capabilities.fit
    )
    assert bool(kind.capabilities.path) == hasattr(kind, "path")
    assert kind.capabilities.partial == hasattr(kind(), "partial_fit")


@pytest.fixture(scope="module")
def shop():
    return shop_log(40, random_state=5)


def test_clone_and_parameters(shop):
    ranker = SPDRanker("romma", l2=0.1, random_state=3, n_steps=100)
    copy = clone(ranker)
    assert copy.get_params() == ranker.get_params()
    ranker.fit(shop)
    assert ranker.coef_.ndim == 1
    assert not hasattr(copy, "coef_")


def test_grid_search_by_query_with_metadata_routing(shop):
    with sklearn.config_context(enable_metadata_routing=True):
        ranker = SPDRanker(n_steps=500, random_state=0)
        ranker = ranker.set_fit_request(qid=True).set_score_request(qid=True)
        search = GridSearchCV(ranker, {"l2": [1e-3, 1e-1]}, cv=GroupKFold(3))
        search.fit(shop.X, shop.y, qid=shop.qid, groups=shop.qid)
    assert search.best_score_ > 0
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_pipeline_with_routing_scores(shop):
    """Pipeline.score hands on sample_weight=None even when nobody gave one."""
    with sklearn.config_context(enable_metadata_routing=True):
        ranker = SPDRanker(n_steps=500, random_state=0)
        ranker = ranker.set_fit_request(qid=True).set_score_request(qid=True, sample_weight=True)
        pipeline = make_pipeline(MaxAbsScaler(), ranker)
        search = GridSearchCV(pipeline, {"spdranker__l2": [1e-3, 1e-2]}, cv=GroupKFold(3))
        search.fit(shop.X, shop.y, qid=shop.qid, groups=shop.qid)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_qid_column_in_a_data_frame_is_honoured(shop, library):
    module = pytest.importorskip(library)
    columns = {name: shop.X[:, j] for j, name in enumerate(shop.feature_names)}
    columns["qid"] = shop.qid
    frame = module.table(columns) if library == "pyarrow" else module.DataFrame(columns)
    ranker = SPDRanker(n_steps=500, random_state=0).fit(frame, shop.y)
    plain = SPDRanker(n_steps=500, random_state=0).fit(shop)
    assert ranker.coef_.tobytes() == plain.coef_.tobytes()
    assert ranker.to_model().feature_names == shop.feature_names
    np.testing.assert_array_equal(ranker.predict(frame), plain.predict(shop))


def test_rank_gives_rows_best_first(shop):
    ranker = SPDRanker(n_steps=500, random_state=0).fit(shop)
    scores = ranker.predict(shop)
    for query, rows in ranker.rank(shop, k=3).items():
        mine = np.flatnonzero(shop.qid == query)
        assert len(rows) == min(3, len(mine))
        assert scores[rows[0]] == scores[mine].max()
        assert (np.diff(scores[rows]) <= 0).all()


@pytest.mark.parametrize("ranker", [
    SPDRanker(n_steps=500, scale="none"),
    SPDRanker(n_steps=500, scale="none", sampling="indexed"),
    RankSVM(scale="none"),
    RankSVM(loss="squared_hinge", scale="none"),
    LeastSquaresRanker(scale="none"),
    AdditiveRanker(smooth=1.0, pairs=1),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("factor", [2.0**60, 2.0**-60])
@pytest.mark.parametrize("q", [0, 2])
def test_the_unit_of_the_weights_within_a_query_changes_no_bit(ranker, factor, q):
    """Queries have the same share, so that only the ratios of weights within a query count."""
    rng = np.random.default_rng(1)
    X, y, qid = rng.normal(size=(24, 3)), rng.integers(0, 3, 24), np.repeat(np.arange(4), 6)
    usual = rng.choice([0.0, 1.0, 2.0, 0.3], 24)
    other = np.where(qid == q, usual * factor, usual)
    one, two = (
        clone(ranker).set_params(random_state=0).fit(X, y, qid=qid, sample_weight=weight)
        for weight in (usual, other)
    )
    np.testing.assert_array_equal(one.coef_, two.coef_)


def test_group_sizes_are_checked(shop):
    sizes = shop.queries.sizes
    by_group = SPDRanker(n_steps=500, random_state=0).fit(shop.X, shop.y, group=sizes)
    by_qid = SPDRanker(n_steps=500, random_state=0).fit(shop)
    assert by_group.coef_.tobytes() == by_qid.coef_.tobytes()
    with pytest.raises(ValueError, match="add up to"):
        SPDRanker().fit(shop.X, shop.y, group=sizes[:-1])
