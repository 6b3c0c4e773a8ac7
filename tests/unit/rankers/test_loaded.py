"""A loaded model has the methods of the ranker that trained it, and their results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from raw_logs import COLUMNS, write_log

import rankine
from rankine import AdditiveRanker, ElasticRanker, LeastSquaresRanker, RankSVM, load_model
from rankine.core.errors import ModelError, SchemaError

LOG = replace(rankine.shop_log(30, random_state=1, list_length=8), feature_names=None)


@pytest.mark.parametrize(
    "ranker",
    [
        RankSVM(),
        AdditiveRanker(bins=8, smooth=1.0),
        LeastSquaresRanker(scale="query"),
        RankSVM(missing="query_min"),
    ],
    ids=["linear", "additive", "scale=query", "missing=query_min"],
)
def test_a_loaded_model_equals_its_ranker(ranker, tmp_path):
    ranker.fit(LOG)
    ranker.to_model().save(tmp_path / "m")
    model = load_model(tmp_path / "m")
    shuffled = np.random.default_rng(0).permutation(LOG.n_rows)
    X, qid = LOG.X[shuffled], LOG.qid[shuffled]
    np.testing.assert_allclose(model.predict(X, qid), ranker.predict(X, qid), rtol=1e-12)
    np.testing.assert_array_equal(model.predict(LOG), ranker.predict(LOG))
    ranked, expected = model.rank(X, qid, k=3), ranker.rank(X, qid, k=3)
    assert list(ranked) == list(expected)
    assert all(np.array_equal(ranked[q], expected[q]) for q in expected)
    if not model.scorer.treats_lists_separately:
        scores = ranker.predict(X[:2])
        for explained in (model, ranker):
            assert explained.explain(X[0]).total == pytest.approx(scores[0])
            assert explained.explain_pair(X[0], X[1]).total == pytest.approx(scores[0] - scores[1])
        assert model.rank(X[:5])[0].tolist() == np.argsort(-ranker.predict(X[:5])).tolist()
        return
    with pytest.raises(SchemaError):
        model.predict(X)
    np.testing.assert_array_equal(model.predict(X[:1], group=[1]), model.predict(X[:1]))
    with pytest.raises(ModelError, match="list"):
        model.explain(X[0])


def test_models_of_raw_columns_explain_single_rows(tmp_path):
    write_log(tmp_path / "log.parquet")
    row = {"price": 3.0, "brand": "acme", "category": "hats"}
    other = {**row, "brand": "zed"}
    columns = {**COLUMNS, "crosses": []}
    for ranker in (ElasticRanker(), AdditiveRanker(smooth=1.0)):
        log = rankine.logs.scan(tmp_path / "log.parquet", **columns)
        ranker.fit(log).to_model().save(tmp_path / "m")
        model = load_model(tmp_path / "m", unknown="zero")
        scores = model.predict([row, {**other, "unknown": 1}])
        for explained in (model, ranker):
            assert explained.explain(row).total == pytest.approx(scores[0])
            pair = explained.explain_pair(row, other)
            assert pair.total == pytest.approx(scores[0] - scores[1])
            assert "zed" in str(pair)


def test_fit_returns_its_own_type_to_type_checkers():
    from typing import Self, get_type_hints

    for cls in (RankSVM, AdditiveRanker, ElasticRanker):
        assert get_type_hints(cls.fit)["return"] is Self
