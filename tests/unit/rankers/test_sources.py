"""Where lists come from: shares of queries, first lists, weights, what a run must find again."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import rankine
import rankine.distributed
from rankine import Dataset, ElasticRanker, LeastSquaresRanker
from rankine.core.errors import CheckpointError, NoPairsError, ParameterError, SchemaError
from rankine.rankers import sources
from rankine.rankers.clicks import PositionCorrection
from rankine.rankers.sources import (
    MemorySource,
    PartitionSource,
    StreamSource,
    classify,
    read_first_lists,
    resolve_query_weight,
    warn_uneven_columns,
    weight_rows_by_query,
)
from rankine.transforms.scaling import Scaling


def shown(n_lists=12, size=5, seed=0) -> Dataset:
    rng = np.random.default_rng(seed)
    n = n_lists * size
    return Dataset.from_arrays(
        rng.normal(size=(n, 2)),
        rng.integers(0, 3, n),
        np.repeat(np.arange(n_lists), size),
        position=np.tile(np.arange(1, size + 1), n_lists),
        weight=rng.uniform(0.5, 2, n),
    )


def test_uneven_columns_are_detected_on_a_few_rows(monkeypatch):
    monkeypatch.setattr(sources, "UNEVEN_ROWS", 20)
    data = shown()
    for n, rows in ((20, range(20)), (21, range(0, 21, 2)), (60, range(0, 60, 3))):
        found = sources.take_some_rows(data.take(np.arange(n)))
        np.testing.assert_array_equal(found.X, data.X[list(rows)])
    small = data.take(np.arange(20))
    assert sources.take_some_rows(small) is small


class Blocks:
    """A stream, cut at some queries."""

    n_features = 2

    def __init__(self, data, *cuts):
        self.data, self.cuts = data, [0, *cuts, data.n_queries]

    def __iter__(self):
        for a, b in zip(self.cuts[:-1], self.cuts[1:], strict=True):
            yield self.data.take_queries(np.arange(a, b))


class NoBlocks(list):
    """A stream without any block."""

    n_features = 2


def test_weights_of_a_stream_are_those_of_its_queries():
    data, weight = shown(), np.linspace(0.0, 2.0, 12)
    by_id = dict(zip(range(12), weight.tolist(), strict=True))
    for given in (weight, by_id, None):
        source, first, found = StreamSource(Blocks(data, 1, 5), given), 0, []
        for block in source.blocks():
            found += source.query_weights(block, first).tolist()
            first += block.n_queries
        assert found == (np.ones(12) if given is None else weight).tolist()
    source = StreamSource(Blocks(data), weight[:11])
    with pytest.raises(SchemaError) as caught:
        source.query_weights(data, 0)
    assert caught.value.parameter == "query_weight"
    rows = weight_rows_by_query(data, weight)
    np.testing.assert_allclose(rows.weight, data.weight * weight[data.qid])
    np.testing.assert_array_equal(
        weight_rows_by_query(replace(data, weight=None), weight).weight, weight[data.qid]
    )
    part = data.take_queries(np.arange(2))
    assert resolve_query_weight({0: 0.0, 1: 0.0}, part, allow_zero=True).tolist() == [0.0, 0.0]
    with pytest.raises(SchemaError):
        resolve_query_weight({0: 0.0, 1: 0.0}, part)


def test_a_sample_is_the_first_lists_with_their_weights(monkeypatch):
    monkeypatch.setattr("rankine.data.dataset.first_lists.__defaults__", (7,))
    data, weight = shown(), np.linspace(0.1, 2.0, 12)
    for source in (MemorySource(data, weight), StreamSource(Blocks(data, 3, 5), weight)):
        found, weights = read_first_lists(source)
        np.testing.assert_array_equal(found.X, data.X[:35])
        assert weights.tolist() == weight[:7].tolist()
    with pytest.raises(NoPairsError):
        read_first_lists(StreamSource(NoBlocks()))


def test_a_sample_of_rows_counts_lists_with_pairs_and_does_not_depend_on_blocks(monkeypatch):
    monkeypatch.setattr("rankine.rankers.sources.MIN_PAIRED_LISTS", 3)
    data = shown()
    paired = data.labels.queries_with_pairs
    for n_rows, expected in ((1, paired[2] + 1), (4 * 5, paired[3] + 1), (10**6, 12)):
        for source in (MemorySource(data), *(StreamSource(Blocks(data, k)) for k in (1, 3, 4))):
            sample, weights = read_first_lists(source, n_rows)
            assert sample.n_queries == len(weights) == expected
            np.testing.assert_array_equal(sample.X, data.X[: 5 * expected])


def test_the_type_of_the_input_decides_its_source(tmp_path):
    data = shown()
    path = tmp_path / "rows.parquet"
    replace(data, weight=None, position=None).save(path)
    assert classify(data) is classify(data.X) is classify([[1.0]]) is MemorySource
    assert classify(Blocks(data)) is classify(iter([])) is StreamSource
    assert classify(rankine.scan(path)) is StreamSource
    assert classify(rankine.distributed.scan(path)) is PartitionSource


def test_a_resumed_stream_must_be_the_same_file(tmp_path):
    data = shown()
    path = tmp_path / "rows.txt"
    replace(data, weight=None, position=None).save(path)
    ranker = ElasticRanker(random_state=0, adaptive=False)
    ranker.fit(rankine.scan(path), checkpoint=tmp_path / "kept", every=4)
    path.write_text(path.read_text() + path.read_text().splitlines()[-1] + "\n")
    with pytest.raises(CheckpointError):
        ranker.fit(rankine.scan(path), checkpoint=tmp_path / "kept", every=4, resume=True)


def test_uneven_columns_go_by_name_or_number():
    scaling = Scaling("none", uneven=((4, 2000.0), (1, 1000.0), (0, 0.5)))
    with pytest.warns(UserWarning, match="column 4 2e[+]03, column 1 1e[+]03; column 0 0.5"):
        warn_uneven_columns(scaling, None)
    with pytest.warns(UserWarning, match="'e' 2e[+]03, 'b' 1e[+]03; 'a' 0.5"):
        warn_uneven_columns(scaling, list("abcde"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_uneven_columns(Scaling("none"), None)
        sides = np.tile([-1.0, 1.0], 30)[:, None] * [1e4, 1.0]
        rows = MemorySource(replace(shown(), X=sparse.csc_array(sides)))
        rows.measure("none", "error")  # columns are not looked at row by row
    with pytest.warns(UserWarning, match="very different sizes"):
        MemorySource(replace(shown(), X=sides)).measure("none", "error")
    stream = StreamSource(Blocks(replace(shown(), X=sides), 3, 6))
    stream.measure("none", "error")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert len(list(stream.blocks())) == 3
    assert len(told) == 1, "once, of the first block"


def test_weights_of_rows_and_queries_count_in_a_scaling():
    data, weight = shown(), np.linspace(0.0, 2.0, 12)
    counted = data.weight * weight[data.qid]
    mean = counted @ data.X / counted.sum()
    spread = np.sqrt(counted @ (data.X - mean) ** 2 / counted.sum())
    for source in (MemorySource(data, weight), StreamSource(Blocks(data, 3), weight)):
        found = source.measure("standard", "error").apply(data).X
        ratio = data.X[:, 0] / found[:, 0], data.X[:, 1] / found[:, 1]
        for j in range(2):
            np.testing.assert_allclose(ratio[j], ratio[j][0])
        np.testing.assert_allclose(ratio[0][0] / ratio[1][0], spread[0] / spread[1], rtol=1e-6)


@pytest.mark.parametrize("scale", ["auto", "none", "query"])
@pytest.mark.parametrize("missing", ["error", "mean"])
def test_a_stream_that_is_read_once_loses_no_list(scale, missing):
    data = shown()
    if missing == "mean":
        data = replace(data, X=np.where(data.X > 1, np.nan, data.X))
    again = StreamSource(Blocks(data, 3, 5))
    again.measure(scale, missing)
    wanted = np.vstack([block.X for block in again.blocks()])

    class Once:
        n_features = 2

        def __init__(self):
            self.left = iter(Blocks(data, 3, 5))

        def __iter__(self):
            return self

        def __next__(self):
            return next(self.left)

    for sampled in (False, True):
        once = StreamSource(Once())
        once.measure(scale, missing)
        if sampled:
            seen = np.vstack([block.X for block in once.first_blocks()])
            np.testing.assert_array_equal(seen, wanted)
        rows = np.vstack([block.X for block in once.blocks()])
        np.testing.assert_array_equal(rows, wanted)
    for _ in range(2):
        np.testing.assert_array_equal(np.vstack([b.X for b in again.first_blocks()]), wanted)
        np.testing.assert_array_equal(np.vstack([b.X for b in again.blocks()]), wanted)
    for scale_of_all in ("standard", "maxabs"):
        with pytest.raises(ParameterError, match="read only once"):
            StreamSource(Once()).measure(scale_of_all, missing)


def test_streams_add_columns_for_missing_values_and_offsets():
    data = shown()
    holes = replace(data, X=np.where(data.X > 1, np.nan, data.X))
    source = StreamSource(Blocks(holes, 3), None, PositionCorrection((), 4))
    scaling = source.measure("none", "indicator")
    assert scaling.n_indicators == 2
    assert source.n_features == 2 + 2 + 3
    assert {block.n_features for block in source.blocks()} == {7}
    ranker = LeastSquaresRanker(missing="indicator", position_offset=4).fit(holes)
    assert (len(ranker.coef_), len(ranker.position_offset_)) == (2, 4)
    assert len(ranker.scaling_.missing.values) == 2
