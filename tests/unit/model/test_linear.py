from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from rankine.core.errors import (
    ModelError,
    ParameterError,
)
from rankine.core.specs import Bins, ListRange, LogColumns, MissingValues, RunScores
from rankine.model import LinearModel
from rankine.scoring import Scorer

NAMES = ["bm25", "age", "spam", "prix é"]


def test_weights_may_be_sparse_rows_and_zeros_are_dropped():
    dense = np.array([0.0, -0.0, 3.0, 0.0, 1e-300])
    stored = sparse.csr_array((dense[[4, 0, 2]], [4, 0, 2], [0, 3]), shape=(1, 5))
    for given in (
        dense,
        dense[None, :],
        dense[:, None],
        sparse.csr_array(dense[None, :]),
        sparse.csc_matrix(dense),
        sparse.csc_array(dense[:, None]),
        stored,
    ):
        model = LinearModel.from_weights(given)
        assert model.indices.tolist() == [2, 4]
        assert model.to_dense().tolist() == dense.tolist()


def test_the_callers_array_is_neither_shared_nor_frozen():
    w = np.array([1.0, 2.0])
    model = LinearModel.from_weights(w)
    w[0] = 9.0
    assert model.to_dense().tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        model.values[0] = 5.0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_refused(bad):
    with pytest.raises(ModelError, match="position 1"):
        LinearModel.from_weights([1.0, bad])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"w": np.ones((2, 2))}, "shape"),
        ({"w": np.ones((1, 2, 2))}, "shape"),
        ({"w": sparse.csr_array(np.ones((2, 2)))}, "shape"),
        ({"w": 1.0}, "shape"),
        ({"w": ["a", "b"]}, "not numbers"),
        ({"w": [1.0, 2.0], "feature_names": ["a"]}, "1 feature names for 2"),
        ({"w": [1.0, 0.0, 2.0], "weight_names": ["a"]}, "1 feature names"),
        ({"w": [1.0], "base": 2}, "base"),
    ],
)
def test_shapes_and_names_must_fit(arguments, message):
    with pytest.raises(ModelError, match=message):
        LinearModel.from_weights(**arguments)


def test_positions_must_fit_the_values_and_the_features():
    none = np.zeros(0)
    assert LinearModel(0, none, none).n_features == 0
    assert LinearModel(2**31 - 1, none, none).nnz == 0
    for size in (-1, 2**31):
        with pytest.raises(ModelError, match=f"{size} features"):
            LinearModel(size, none, none)
    with pytest.raises(ModelError, match=r"positions of shape \(1, 2\)"):
        LinearModel(2, np.array([[0, 1]]), np.array([[1.0, 2.0]]))
    with pytest.raises(ModelError, match="position 1 is inf"):
        LinearModel.from_weights([1.0, np.inf, np.nan])
    with pytest.raises(ModelError, match=r"2 names|2 feature names") as caught:
        LinearModel.from_weights([1.0], ["a", "b"])
    assert caught.value.fix == "Name every feature once"
    with pytest.raises(ModelError) as caught:
        LinearModel.from_weights([1.0, 0.0, 2.0], weight_names=["a"])
    assert caught.value.fix == "Name every feature once, or every non-zero weight"


@pytest.mark.parametrize("transforms", [(), (ListRange(),), (RunScores(),)])
@pytest.mark.parametrize("count", [1, 16, 17, 31, 40])
def test_made_up_probes_spread_over_the_weights_and_hold(count, transforms):
    w = np.zeros(2 * count)
    w[1::2] = np.arange(1.0, count + 1)
    model = LinearModel.from_weights(w, transforms=transforms)
    probes = model.probes
    used = list(range(0, count, 2))[:16] if count >= 32 else list(range(count))[:16]
    assert [row.indices for row in probes.rows] == [tuple(2 * k + 1 for k in used)] * 4
    assert len({row.values for row in probes.rows}) == 4
    Scorer(model).self_test()
    by_range = np.array([row.values for row in probes.rows])
    if transforms == (ListRange(),):
        spans = np.ptp(by_range, axis=0)
        by_range = np.divide(by_range, spans, out=np.zeros_like(by_range), where=spans > 0)
    if not isinstance((*transforms, None)[0], RunScores):
        np.testing.assert_allclose(by_range @ w[1::2][used], probes.scores, rtol=1e-12)


def test_some_models_have_no_probes():
    assert LinearModel.from_weights([0.0, 0.0]).probes is None
    assert LinearModel.from_weights([1.0], transforms=(MissingValues("zero"),)).probes is None
    assert LinearModel.from_weights([1.7e308, 1.7e308]).probes is None


def test_names_must_be_distinct_and_valid():
    with pytest.raises(ParameterError, match="'a' appears twice"):
        LinearModel.from_weights([1.0, 2.0], ["a", "a"])
    with pytest.raises(ParameterError, match="Unicode"):
        LinearModel.from_weights([1.0], ["\ud800"])


def test_names_of_the_weights_alone_serve_hashed_models(tmp_path):
    model = LinearModel.from_weights([0.0, 1.0, 0.0, 2.0], weight_names=["brand=x", "brand=y"])
    model.save(tmp_path / "m")
    again = LinearModel.load(tmp_path / "m")
    assert again.feature_names is None
    assert again.weight_names == ("brand=x", "brand=y")
    assert LinearModel.from_weights([0.0, 1.0]).weight_names == ("2",)
    assert LinearModel.from_weights([0.0, 1.0], base=0).weight_names == ("1",)


def test_compact_keeps_the_function_over_fewer_columns():
    model = LinearModel.from_weights([0.0, 1.5, 0.0, -2.0], NAMES)
    small = model.compact()
    assert small.n_features == 2
    assert small.feature_names == ("age", "prix é")
    row = np.array([7.0, 2.0, 7.0, 3.0])
    assert small.to_dense() @ row[model.indices] == model.to_dense() @ row


def test_compact_renumbers_missing_values_and_drops_the_encoding_of_a_log():
    missing = MissingValues("mean", (1, 3), (0.5, 0.25))
    raw = LogColumns(("a", "b", "c", "d"))
    model = LinearModel.from_weights([0.0, 1.5, 0.0, -2.0], transforms=(raw, missing))
    small = model.compact()
    assert small.transforms == (MissingValues("mean", (0, 1), (0.5, 0.25)),)
    rows = np.array([[7.0, np.nan, 7.0, 3.0], [7.0, 2.0, 7.0, np.nan]])
    expected = Scorer(replace(model, transforms=(missing,))).score(rows)
    assert Scorer(small).score(rows[:, [1, 3]]).tolist() == expected.tolist()
    for other in (
        replace(model, transforms=(MissingValues("indicator", (0,), (1.0,)),)),
        LinearModel.from_weights(np.ones(3), transforms=(Bins(((0.5,),)),)),
    ):
        with pytest.raises(ModelError, match="depends on more than weighted features"):
            other.compact()


def test_equal_content_has_equal_digests_and_other_content_others():
    a, b = LinearModel.from_weights([1.0, 2.0]), LinearModel.from_weights(np.array([1.0, 2.0]))
    c = LinearModel.from_weights([1.0, np.nextafter(2.0, 3.0)])
    assert a == b
    assert hash(a) == hash(b)
    assert a != c
    assert len(a.digest) == 64


def test_an_empty_model_is_a_model(tmp_path):
    model = LinearModel.from_weights(np.zeros(5))
    model.save(tmp_path / "zero")
    assert LinearModel.load(tmp_path / "zero").nnz == 0
