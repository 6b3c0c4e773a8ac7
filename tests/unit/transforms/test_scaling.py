"""The rule of ``scale="auto"``, against its words; the same for every storage, cut and source."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse

import rankine
from rankine import Dataset, LeastSquaresRanker, SPDRanker
from rankine.core.errors import ParameterError
from rankine.core.specs import RunScores
from rankine.data.writers import write_letor
from rankine.kernels.run_scores import run_score_values
from rankine.transforms import scaling
from rankine.transforms.scaling import (
    ColumnStatistics,
    describe_scaling,
    fit_scaling,
    measure_scaling,
)


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
def test_auto_scaling_follows_its_rule(weighed):
    rng = np.random.default_rng(0)
    data = _lists(rng)
    weight = rng.integers(0, 4, data.n_rows).astype(float) if weighed else None
    data = Dataset.from_arrays(data.X, data.y, data.qid, weight=weight)
    found = fit_scaling("auto", data)
    np.testing.assert_allclose(found.factors, _by_the_words(data.X, weight), rtol=1e-12)
    assert found.decisions == {"by_deviation": 3, "by_largest": 1, "as_they_are": 3, "lists": 30}
    assert describe_scaling(found.metadata).startswith("auto: 3 columns divided by their standard")


@pytest.mark.parametrize("span", [32, scaling.SPAN])
@pytest.mark.parametrize("kind", ["auto", "standard", "maxabs"])
def test_storage_blocks_and_threads_do_not_change_a_bit(kind, span, monkeypatch):
    whole = fit_scaling(kind, _lists(np.random.default_rng(1))).factors
    monkeypatch.setattr(scaling, "SPAN", span)
    data = _lists(np.random.default_rng(1))
    compressed = Dataset.from_arrays(sparse.csr_matrix(data.X), data.y, data.qid)
    expected = fit_scaling(kind, data).factors
    np.testing.assert_allclose(expected, whole, rtol=1e-14)
    assert np.array_equal(fit_scaling(kind, compressed).factors, expected)
    for size in (1, 32, 37, 1000):
        blocks = list(data.blocks(size))
        for threads in (1, 2):
            cut = measure_scaling(kind, ColumnStatistics(lambda: blocks, data.n_features, threads))  # noqa: B023
            assert np.array_equal(cut.factors, expected)


def test_hashed_logs_are_not_scaled():
    X = sparse.random_array((200, 5000), density=0.002, format="csr", rng=0)
    X.data[:] = 1.0
    found = fit_scaling("auto", Dataset.from_arrays(X, np.zeros(200)))
    assert found.factors is None
    assert found.decisions["as_they_are"] == 5000


def test_a_stream_is_measured_on_its_first_lists_for_any_blocks(monkeypatch, tmp_path):
    monkeypatch.setattr("rankine.data.dataset.first_lists.__defaults__", (12,))
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
    assert ranker.scaling_.decisions["lists"] == data.n_queries


def test_units_of_features_do_not_change_the_model():
    data = _lists(np.random.default_rng(4))
    dense = data.X[:, :2]
    first = LeastSquaresRanker(tol=1e-12).fit(dense, data.y, qid=data.qid)
    second = LeastSquaresRanker(tol=1e-12).fit(dense * [1e-2, 1e5], data.y, qid=data.qid)
    np.testing.assert_allclose(first.coef_, second.coef_ * [1e-2, 1e5], rtol=1e-6)


@pytest.mark.filterwarnings("ignore:the loss of the last lists")
@pytest.mark.parametrize("source", ["memory", "stream", "once"])
def test_uneven_columns_warn_by_name(source, tmp_path):
    data = _lists(np.random.default_rng(5))
    named = Dataset.from_arrays(data.X[:, :2], data.y, data.qid, feature_names=["price", "share"])
    named.save(tmp_path / "rows.parquet")
    sources = {"memory": named, "stream": rankine.scan(tmp_path / "rows.parquet")}
    with pytest.warns(UserWarning, match=r"'price' [^,]*e\+03; 'share' .*scale='auto'"):
        rankine.ElasticRanker(scale=None, eta0=1e-6).fit(sources.get(source, _Once(named)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LeastSquaresRanker(scale="none").fit(data.X[:, [3, 4]], data.y, qid=data.qid)


def _stored(X):
    """Compressed rows that store their zeros too."""
    n, d = X.shape
    shape = (X.ravel(), np.tile(np.arange(d), n), np.arange(0, n * d + 1, d))
    return sparse.csr_array(shape, shape=X.shape)


@pytest.mark.kernels
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, _stored])
@pytest.mark.parametrize("weighed", [False, True])
def test_scales_equal_their_definitions(kind, weighed):
    rng = np.random.default_rng(6)
    X = _lists(rng, 8).X
    X[:, 1] *= 1e-9
    weight = rng.integers(0, 4, len(X)).astype(float) if weighed else None
    counted = np.ones(len(X)) if weight is None else weight
    if weighed:
        X[np.argmin(weight), :2] = 1e6  # weighs nothing
    mean = counted @ X / counted.sum()
    deviation = np.sqrt(counted @ (X - mean) ** 2 / counted.sum())
    largest = np.abs(X[counted > 0]).max(axis=0)
    data = Dataset.from_arrays(kind(X), np.zeros(len(X)), weight=weight)
    by_largest = fit_scaling("maxabs", data).factors
    np.testing.assert_allclose(by_largest, 1 / np.where(largest > 0, largest, 1), rtol=1e-15)
    spread = np.where(deviation > 1e-9 * largest, deviation, largest)
    spread[largest == 0] = 1.0
    by_deviation = fit_scaling("standard", data)
    np.testing.assert_allclose(by_deviation.factors, 1 / spread, rtol=1e-12)
    scaled = by_deviation.apply(data).X
    scaled = scaled if kind is np.asarray else scaled.toarray()
    np.testing.assert_allclose(scaled, X * by_deviation.factors, rtol=1e-15)


def test_auto_scaling_at_its_limits():
    n = 100
    dense, rare, unit = np.zeros(n), np.zeros(n), np.zeros(n)
    dense[:10], rare[:9], unit[:50] = 3.0, 3.0, 1.0
    small = np.tile([-0.001, 0.001], 50)
    X = np.column_stack([dense, rare, unit, small])
    found = fit_scaling("auto", Dataset.from_arrays(X, dense))
    np.testing.assert_allclose(found.factors, [1 / dense.std(), 1 / 3.0, 1.0, 1.0])
    assert found.decisions == {"by_deviation": 1, "by_largest": 1, "as_they_are": 2, "lists": 1}
    assert describe_scaling(found.metadata) == (
        "auto: 1 columns divided by their standard deviation, 1 columns divided by their largest "
        "value, 2 columns left as they are (measured on 1 lists)"
    )
    assert describe_scaling({"kind": "maxabs"}) == "maxabs"
    with pytest.raises(ParameterError) as caught:
        scaling.check_scale("minmax")
    assert caught.value.parameter == "scale"
    assert scaling.check_scale(None) == "none"


@pytest.mark.parametrize(("kind", "used", "reads"), [("auto", 1.0, 3), ("auto", 0.0, 1),
                         ("maxabs", 1.0, 1), ("standard", 1.0, 3)])  # fmt: skip
def test_rows_are_read_no_more_often_than_needed(kind, used, reads):
    data = Dataset.from_arrays(np.full((20, 1), used), np.zeros(20))
    count = []

    def read():
        count.append(1)
        return [data]

    measure_scaling(kind, ColumnStatistics(read, 1))
    assert len(count) == reads


@pytest.mark.parametrize("columns", [1, scaling.SPAN // 4, scaling.SPAN])
def test_spans_have_the_documented_size(columns):
    spans = scaling._Spans(ColumnStatistics(list, columns), 1, (np.add, np.add))
    assert spans.row == scaling.Scaling("none").positions == 0
    assert spans.size == (scaling.SPAN if columns <= scaling.SPAN // 4 else 4 * columns)


def test_uneven_columns_are_the_three_widest_and_the_narrowest():
    sides = np.array([-1.0, 1.0] * 10)[:, None]
    for sizes, expected in (
        ([1000.0, 1.0], ()),
        ([1001.0, 1.0], (0, 1)),
        ([5000.0], ()),
        ([5000.0, 0.0], ()),
        ([0.0], ()),
        ([1.0, 2000.0, 3000.0, 7.0, 4000.0, 0.0], (4, 2, 1, 0)),
        ([3e3, 3e3, 1.0, 2.0], (0, 1, 3, 2)),
    ):
        found = fit_scaling("none", Dataset.from_arrays(sides * sizes, np.zeros(20))).uneven
        assert found == tuple((j, pytest.approx(sizes[j])) for j in expected)
    constant = np.hstack([sides * 5000.0, np.ones((20, 1))])
    assert fit_scaling("none", Dataset.from_arrays(constant, np.zeros(20))).uneven == ()


def test_merged_sizes_of_parts_equal_the_sizes_of_the_whole():
    data = _lists(np.random.default_rng(8))
    cut = (data.take_queries(np.arange(11)), data.take_queries(np.arange(11, 30)))
    parts = [ColumnStatistics(lambda part=part: [part], data.n_features).sizes() for part in cut]
    whole, joined = (
        ColumnStatistics(lambda: [data], data.n_features).sizes(),
        parts[0].merge(parts[1]),
    )
    assert (joined.n_rows, joined.n_lists) == (whole.n_rows, whole.n_lists) == (300, 30)
    np.testing.assert_array_equal(joined.largest, whole.largest)
    np.testing.assert_array_equal(joined.counts, whole.counts)


@pytest.mark.parametrize("shuffled", [False, True])
def test_runs_are_normalised_list_by_list_for_any_storage(shuffled):
    rng = np.random.default_rng(7)
    scores = rng.uniform(1, 9, (10, 3))
    scores[rng.random(scores.shape) < 0.3] = 0.0
    lists = np.array([0] * 4 + [1] * 6)
    order = rng.permutation(10) if shuffled else np.arange(10)
    X, qid = scores[order], lists[order]
    spec = RunScores()
    data = Dataset.from_arrays(sparse.csr_array(X), np.zeros(10), qid)
    absent = np.where(X == 0, np.nan, X)
    found = scaling.scale_lists(data, spec)
    for q in (0, 1):
        mine = np.flatnonzero(qid == q)
        alone = run_score_values(spec, absent[mine], np.array([0, len(mine)]))
        np.testing.assert_array_equal(found[mine], alone)
    index = data.queries
    dense = scaling.normalised_runs(spec, absent, 3, index.starts, index.rows)
    np.testing.assert_array_equal(dense, found)
    if not shuffled:
        ordered = scaling.normalised_runs(spec, data.X, 3, np.array([0, 4, 10]))
        np.testing.assert_array_equal(ordered, found)
    ranges = scaling.scale_lists(data).toarray()
    for q in (0, 1):
        spans = np.ptp(X[qid == q], axis=0)
        np.testing.assert_allclose(ranges[qid == q], X[qid == q] / spans, rtol=1e-15)


@pytest.mark.parametrize(("spread", "is_constant"), [(1e-14, True), (1e-9, False)])
def test_a_deviation_of_rounding_errors_counts_as_none(spread, is_constant):
    rng = np.random.default_rng(0)
    noise = rng.choice([-1.0, 1.0], 40)
    X = np.column_stack([4.0 * (1.0 + spread * noise), rng.normal(size=40)])
    y, qid = np.tile([0, 1], 20), np.repeat(np.arange(10), 4)
    factor = LeastSquaresRanker(scale="standard").fit(X, y, qid=qid).scaling_.factors[0]
    expected = 0.25 if is_constant else 1 / X[:, 0].std()
    assert factor == pytest.approx(expected, rel=0.1)
