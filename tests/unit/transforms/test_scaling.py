"""The rule of ``scale="auto"``, against its words; the same for every storage, cut and source."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse

import rankine
from rankine import Dataset, LeastSquaresRanker, SPDRanker
from rankine.data.writers import write_letor
from rankine.rankers import sources
from rankine.transforms.scaling import RowColumns, fit_scaling, measure_scaling, scaling_words


def _lists(rng, n_lists: int = 30, size: int = 10) -> Dataset:
    """Wide numbers, a constant, a rare indicator, a rare amount, zeros and shares."""
    n = n_lists * size
    rare = rng.random((n, 2)) < 0.05
    X = np.column_stack(
        [
            rng.normal(1e4, 3e3, n),
            rng.normal(0, 1e-4, n),
            np.full(n, 7.0),
            rare[:, 0],
            rare[:, 1] * rng.uniform(2, 50, n),
            np.zeros(n),
            rng.uniform(0, 1, n),
        ]
    )
    y = (X[:, 1] + rng.normal(0, 1e-4, n) > 0).astype(float)
    return Dataset.from_arrays(X, y, np.repeat(np.arange(n_lists), size))


def _by_the_words(X, weight=None):
    weight = np.ones(len(X)) if weight is None else weight
    total, factors = weight.sum(), np.ones(X.shape[1])
    for j, x in enumerate(X.T):
        largest = np.abs(x[weight > 0]).max()
        mean = weight @ x / total
        deviation = np.sqrt(weight @ (x - mean) ** 2 / total)
        dense = weight[x != 0].sum() >= total / 10
        if dense and (largest > 1 or deviation < 0.001):
            factors[j] = 1 / (deviation if deviation > 1e-9 * largest else largest)
        elif largest > 1:
            factors[j] = 1 / largest
    return factors


@pytest.mark.parametrize("weighed", [False, True])
def test_auto_does_what_it_says(weighed):
    rng = np.random.default_rng(0)
    data = _lists(rng)
    weight = rng.integers(0, 4, data.n_rows).astype(float) if weighed else None
    data = Dataset.from_arrays(data.X, data.y, data.qid, weight=weight)
    found = fit_scaling("auto", data)
    np.testing.assert_allclose(found.factors, _by_the_words(data.X, weight), rtol=1e-12)
    assert found.chosen == {"by_deviation": 3, "by_largest": 1, "as_they_are": 3, "lists": 30}
    assert scaling_words(found.facts).startswith("auto: 3 columns divided by their standard")


@pytest.mark.parametrize("kind", ["auto", "standard", "maxabs"])
def test_storage_and_blocks_change_no_bit(kind):
    data = _lists(np.random.default_rng(1))
    compressed = Dataset.from_arrays(sparse.csr_matrix(data.X), data.y, data.qid)
    blocks = list(data.blocks(37))
    expected = fit_scaling(kind, data).factors
    assert np.array_equal(fit_scaling(kind, compressed).factors, expected)
    cut = measure_scaling(kind, RowColumns(lambda: blocks, data.n_features))
    assert np.array_equal(cut.factors, expected)


def test_hashed_logs_stay_as_they_are():
    X = sparse.random_array((200, 5000), density=0.002, format="csr", rng=0)
    X.data[:] = 1.0
    found = fit_scaling("auto", Dataset.from_arrays(X, np.zeros(200)))
    assert found.factors is None
    assert found.chosen["as_they_are"] == 5000


def test_a_stream_looks_at_its_first_lists_whatever_the_blocks(monkeypatch, tmp_path):
    monkeypatch.setattr(sources, "SAMPLE_LISTS", 12)
    data = _lists(np.random.default_rng(2))
    write_letor([data], tmp_path / "rows.txt")
    expected = fit_scaling("auto", data.take_queries(np.arange(12))).factors
    for block_rows in (25, 1000):
        scan = rankine.scan(
            tmp_path / "rows.txt", n_features=data.n_features, block_rows=block_rows
        )
        ranker = SPDRanker(n_steps=100, random_state=0).fit(scan)
        np.testing.assert_allclose(ranker.scaling_.factors, expected, rtol=1e-12)
        assert ranker.training_["scaling"]["lists"] == 12
        assert ranker.to_model().provenance["training"]["scaling"]["kind"] == "auto"


class _Once:
    """A stream that can be read only once."""

    def __init__(self, data):
        self.left = data.blocks(40)
        self.n_features, self.feature_names = data.n_features, data.feature_names

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.left)


def test_a_stream_that_is_read_once_loses_no_list():
    data = _lists(np.random.default_rng(3))

    ranker = rankine.ElasticRanker(random_state=0).fit(_Once(data))
    assert ranker.training_["queries"] == data.n_queries
    assert ranker.scaling_.chosen["lists"] == data.n_queries


def test_units_do_not_matter():
    data = _lists(np.random.default_rng(4))
    dense = data.X[:, :2]
    first = LeastSquaresRanker(tol=1e-12).fit(dense, data.y, qid=data.qid)
    second = LeastSquaresRanker(tol=1e-12).fit(dense * [1e-2, 1e5], data.y, qid=data.qid)
    np.testing.assert_allclose(first.coef_, second.coef_ * [1e-2, 1e5], rtol=1e-6)


@pytest.mark.parametrize("source", ["memory", "stream", "once"])
def test_uneven_columns_warn_by_name(source, tmp_path):
    data = _lists(np.random.default_rng(5))
    named = Dataset.from_arrays(data.X[:, :2], data.y, data.qid, feature_names=["price", "share"])
    named.save(tmp_path / "rows.parquet")
    sources = {"memory": named, "stream": rankine.scan(tmp_path / "rows.parquet")}
    with pytest.warns(UserWarning, match=r"'price' [^,]*e\+03; 'share' .*scale='auto'"):
        rankine.ElasticRanker(scale=None).fit(sources.get(source, _Once(named)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LeastSquaresRanker(scale="none").fit(data.X[:, [3, 4]], data.y, qid=data.qid)
