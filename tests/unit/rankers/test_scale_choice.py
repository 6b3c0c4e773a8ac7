"""``scale="choose"`` takes the scaling with which a ranker ranks held-out lists better."""

from __future__ import annotations

import numpy as np
import pytest

import rankine
from rankine import Dataset, ElasticRanker, LeastSquaresRanker, LinearModel, SPDRanker
from rankine.core.errors import ParameterError

RANKERS = {
    "least-squares": LeastSquaresRanker,
    "elastic": lambda **o: ElasticRanker(random_state=0, **o),
    "spd": lambda **o: SPDRanker(random_state=0, n_steps=3000, **o),
}


def lists(by_list, seed=0, n_lists=120):
    """Labels by columns whose unit differs from list to list, or is the same in all lists."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_lists * 8, 4))
    utility = X @ [1.0, -1.0, 0.5, 0.0]
    qid = np.repeat(np.arange(n_lists), 8)
    if by_list:
        X = X * 10.0 ** rng.uniform(-3, 3, (n_lists, 4))[qid]
    else:
        # Lists in which a column hardly varies: its range is noise there.
        X = np.where(rng.random((n_lists, 4))[qid] < 0.8, 1e-3 * X + 5.0, X)
        utility = X @ [1.0, -1.0, 0.5, 0.0] + 0.05 * rng.normal(size=len(X))
    return Dataset.from_arrays(X, np.digitize(utility, np.quantile(utility, [0.6, 0.9])), qid)


@pytest.mark.parametrize("name", RANKERS)
@pytest.mark.parametrize("by_list", [True, False])
def test_the_data_decide_between_column_and_list(name, by_list):
    data = lists(by_list)
    ranker = RANKERS[name](scale="choose").fit(data)
    expected = "query" if by_list else "auto"
    assert ranker.scaling_.kind == expected
    fixed = RANKERS[name](scale=expected).fit(data)
    assert (ranker.coef_ == fixed.coef_).all()
    assert ranker.fit_scaling(data).kind == expected


def test_streams_choose_and_warm_starts_keep_the_choice(tmp_path):
    data = lists(True)
    path = tmp_path / "lists.parquet"
    data.save(path)
    ranker = ElasticRanker(scale="choose", random_state=0).fit(rankine.scan(path))
    assert ranker.scaling_.kind == "query"
    model = LinearModel.from_bytes(ranker.to_model().to_bytes())
    warm = ElasticRanker(scale="choose", random_state=0).fit(lists(False, 1), coef_init=model)
    assert warm.scaling_.kind == "query"
    assert warm.n_iter_ > ranker.n_iter_
    partial = ElasticRanker(scale="choose", random_state=0).partial_fit(data)
    assert partial.scaling_.kind == "query"


def test_partitions_and_single_lists(tmp_path):
    data = lists(True, n_lists=20)
    path = tmp_path / "lists.parquet"
    data.save(path)
    with pytest.raises(ParameterError) as caught:
        SPDRanker(scale="choose").fit(rankine.distributed.scan(path))
    assert caught.value.parameter == "scale"
    one = data.take_queries(np.arange(1))
    assert LeastSquaresRanker(scale="choose").fit(one).scaling_.kind == "auto"
