import numpy as np
import pytest

from rankine.core.errors import ModelError
from rankine.model import LinearModel, ModelBundle
from rankine.model.store import load_any


def bundle():
    return ModelBundle.from_weights(
        {"earn": [1.0, 0.0, 0.5], "grain": np.array([0.0, -2.0, 0.0]), "none": np.zeros(3)},
        ["a", "b", "c"],
        metric="map",
        parameters={"ranker": "domination"},
    )


def test_a_bundle_is_a_mapping_of_models_in_one_file(tmp_path):
    made = bundle()
    made.save(tmp_path / "b.rankine")
    again = ModelBundle.load(tmp_path / "b.rankine")
    assert list(again) == ["earn", "grain", "none"]
    assert len(again) == 3
    assert again.nnz == 3
    assert again["earn"].to_dense().tolist() == [1.0, 0.0, 0.5]
    assert again["grain"].weight_names == ("b",)
    assert again["grain"].metric == "map"
    assert again["grain"].parameters["topic"] == "grain"
    assert again["none"].nnz == 0
    assert [model.nnz for model in again.values()] == [2, 1, 0]
    assert again == made
    assert again.to_bytes() == (tmp_path / "b.rankine").read_bytes()
    assert isinstance(load_any(tmp_path / "b.rankine"), ModelBundle)
    with pytest.raises(KeyError):
        again["absent"]


def test_a_bundle_counts_features_from_one_unless_told():
    made = bundle()
    again = ModelBundle(made.topics, 3, made.starts, made.indices, made.weights)
    assert (again.base, again["grain"].weight_names) == (1, ("2",))
    assert LinearModel(3, made.indices[:1], made.weights[:1]).base == 1


def test_bundles_refuse_mixed_sizes_and_bad_weights():
    with pytest.raises(ModelError, match="sizes"):
        ModelBundle.from_weights({"a": [1.0], "b": [1.0, 2.0]})
    with pytest.raises(ModelError, match="sizes"):
        ModelBundle.from_weights({})
    with pytest.raises(ModelError, match="nan"):
        ModelBundle.from_weights({"a": [np.nan]})
    with pytest.raises(ModelError, match="names"):
        ModelBundle.from_weights({"a": [1.0]}, ["x", "y"])
