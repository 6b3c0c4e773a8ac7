"""SPDRanker as a scikit-learn citizen."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from rankine import SPDRanker
from rankine.data.shop import shop_log

#: Weights are sampling probabilities: a row of weight 2 is drawn as often as two copies, but not
#: by the same draws, so that the two runs differ as two seeds do.
EXCUSED = {
    "check_sample_weight_equivalence_on_dense_data": "drawn pairs differ; equal in distribution",
    "check_sample_weight_equivalence_on_sparse_data": "drawn pairs differ; equal in distribution",
}


@pytest.mark.estimators
@parametrize_with_checks(
    [SPDRanker(n_steps=2000, random_state=0)],
    expected_failed_checks=lambda _estimator: EXCUSED,
)
def test_estimator_checks(estimator, check):
    check(estimator)


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


def test_group_sizes_are_checked(shop):
    sizes = shop.queries.sizes
    by_group = SPDRanker(n_steps=500, random_state=0).fit(shop.X, shop.y, group=sizes)
    by_qid = SPDRanker(n_steps=500, random_state=0).fit(shop)
    assert by_group.coef_.tobytes() == by_qid.coef_.tobytes()
    with pytest.raises(ValueError, match="add up to"):
        SPDRanker().fit(shop.X, shop.y, group=sizes[:-1])
