"""A sample of a stream: the same for any cut, of bounded size, and fair."""

from __future__ import annotations

import numpy as np
import pytest

from error_checks import raises_for
from rankine import Dataset, SPDRanker, shop_log
from rankine.core.errors import EmptyDataError, NoPairsError, ParameterError
from rankine.data.splits import query_units
from rankine.kernels.random import stream_seed
from rankine.samplers.reservoir import QUERY_NUMBERS, ROW_NUMBERS, SHARES, Reservoir


def rows_of(qid):
    """Create rows whose feature is their number."""
    qid = np.asarray(qid)
    numbers = np.arange(len(qid))
    return Dataset.from_arrays(numbers[:, None].astype(float), numbers % 2, qid)


def sampled(data, rows, seed, cut):
    """Numbers of the rows that are selected of blocks of ``cut`` rows."""
    reservoir = Reservoir(rows, seed)
    for start in range(0, data.n_rows, cut):
        reservoir.add(data.take(slice(start, start + cut)))
        assert sum(part.n_rows for part in reservoir._parts) <= 2 * rows + cut
    assert reservoir.seen == data.n_rows
    return reservoir.sample()[0].X[:, 0].astype(int).tolist()


def expected_rows(qid, rows, seed):
    """Return the rows of the sample by its definition: rows within queries, then queries."""
    ids = sorted(set(qid.tolist()))
    share = rows // min(len(ids), SHARES)
    of_row = query_units(np.arange(len(qid)), stream_seed(seed, *ROW_NUMBERS))
    of_query = dict(
        zip(ids, query_units(np.array(ids), stream_seed(seed, *QUERY_NUMBERS)), strict=True)
    )
    selected = []
    for query in sorted(ids, key=of_query.__getitem__):
        mine = np.flatnonzero(qid == query)
        if len(selected) >= rows:
            break
        selected += mine[np.argsort(of_row[mine])][:share].tolist()
    return sorted(selected)


@pytest.mark.parametrize("queries", [1, 3, 8, 40, 400])
@pytest.mark.parametrize("texts", [False, True])
def test_the_sample_follows_its_definition_for_any_blocks(queries, texts):
    rng = np.random.default_rng(queries)
    # Rows of a query are anywhere, and some queries are much longer than others.
    qid = (queries * rng.random(300) ** 2).astype(int)
    qid = np.array([f"q{q}" for q in qid]) if texts else qid
    data = rows_of(qid)
    for rows in (16, 23, 40, 130, 1000):
        expected = expected_rows(qid, rows, 7)
        for cut in (4, 37, 300):
            assert sampled(data, rows, 7, cut) == expected


def test_queries_of_any_length_are_equally_likely():
    qid = np.repeat(np.arange(50), np.where(np.arange(50) % 2, 2, 6))
    selected = np.zeros(50)
    for seed in range(300):
        rows = sampled(rows_of(qid), 40, seed, 200)
        selected[np.unique(qid[rows])] += 1
    assert selected[1::2].mean() == pytest.approx(selected[::2].mean(), rel=0.1)


class Unsorted:
    """A stream of rows in any order, which can be read once."""

    def __init__(self, data, cut):
        self.blocks = (data.take(slice(k, k + cut)) for k in range(0, data.n_rows, cut))

    def __iter__(self):
        return self.blocks

    def __next__(self):
        return next(self.blocks)


@pytest.fixture(scope="module")
def shop():
    data = shop_log(60, random_state=3)
    return data.take(np.random.default_rng(0).permutation(data.n_rows))


@pytest.mark.parametrize("ties", ["skip", "zero"])
def test_a_stream_in_any_cut_gives_the_same_bits(shop, ties):
    def fit(cut):
        ranker = SPDRanker(
            sampling="reservoir", buffer_rows=300, ties=ties, n_steps=500, random_state=1
        )
        return ranker.fit(Unsorted(shop, cut))

    one, other = fit(7), fit(shop.n_rows)
    assert one.coef_.tobytes() == other.coef_.tobytes()
    assert one.to_model().digest == other.to_model().digest
    assert one.training_["stream_rows"] == shop.n_rows
    assert 300 <= one.training_["rows"] <= 300 + 300 // SHARES


def test_a_large_buffer_gives_the_fit_in_memory(shop):
    settings = {"n_steps": 500, "random_state": 1, "scale": "query", "record_at": [500]}
    fitted = SPDRanker(**settings).fit(shop)
    streamed = SPDRanker(sampling="reservoir", **settings).fit(Unsorted(shop, 50))
    assert streamed.coef_.tobytes() == fitted.coef_.tobytes()
    assert streamed.record_ == fitted.record_
    weights = {q: 1.0 + q % 3 for q in shop.queries.ids.tolist()}
    streamed.fit(Unsorted(shop, 50), query_weight=weights)
    assert streamed.coef_.tobytes() == fitted.fit(shop, query_weight=weights).coef_.tobytes()


def test_rows_of_a_query_from_different_calls_form_pairs(shop):
    ranker = SPDRanker(sampling="reservoir", n_steps=50, random_state=1)
    for start in range(0, shop.n_rows, 170):
        ranker.partial_fit(shop.take(slice(start, start + 170)))
    assert ranker.training_["stream_rows"] == shop.n_rows
    assert ranker.training_["pairs"] == shop.labels.n_pairs


def test_a_call_without_pairs_is_an_error_and_adds_no_rows(shop):
    ranker = SPDRanker(sampling="reservoir", n_steps=50, random_state=1)
    with pytest.raises(NoPairsError):
        ranker.partial_fit(shop.take(slice(0, 1)))
    ranker.partial_fit(shop)
    assert ranker.training_["stream_rows"] == shop.n_rows


def test_options_that_a_reservoir_cannot_serve_are_errors(shop):
    ranker = SPDRanker(sampling="reservoir", random_state=0)
    with raises_for("sampling") as caught:
        ranker.fit(shop)
    assert caught.value.parameter == "sampling"
    stream = Unsorted(shop, 50)
    for settings, weights, parameter in [
        ({"n_passes": 2}, None, "n_passes"),
        ({}, np.ones(shop.n_queries), "query_weight"),
        ({"buffer_rows": 16, "scale": "query"}, None, "buffer_rows"),
        ({"buffer_rows": 15}, None, "buffer_rows"),
    ]:
        with pytest.raises(ParameterError) as caught:
            SPDRanker(sampling="reservoir", **settings).fit(stream, query_weight=weights)
        assert caught.value.parameter == parameter
    with pytest.raises(EmptyDataError):
        ranker.fit(iter(()))


@pytest.mark.parametrize(
    ("lengths", "full"),
    [
        ([3, 3, 3], False),
        ([6, 2, 3], False),
        ([7, 3, 3], False),
        ([8, 3, 3], True),
        ([1, 40], True),
    ],
)
def test_the_sample_reports_that_a_list_fills_its_share(lengths, full):
    """Of 24 rows: a third each of three lists, half of two."""
    reservoir = Reservoir(24, 0)
    reservoir.add(rows_of(np.repeat(np.arange(len(lengths)), lengths)))
    data, cut = reservoir.sample()
    assert cut is full
    assert data.n_rows == sum(min(length, 24 // len(lengths)) for length in lengths)


def test_a_reservoir_has_room_for_two_rows_a_share():
    assert Reservoir(2 * SHARES, 0).rows == 16
    with pytest.raises(ParameterError) as caught:
        Reservoir(2 * SHARES - 1, 0)
    assert caught.value.parameter == "buffer_rows"
    with pytest.raises(EmptyDataError):
        Reservoir(16, 0).sample()
