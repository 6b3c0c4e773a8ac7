"""Export to ONNX: the runtime scores as the scorer does."""

import sys

import numpy as np
import pytest

from contracts import export_readers as readers
from rankine.core.errors import ExportError, MissingExtraError, ParameterError
from rankine.export import ExportOptions, export
from rankine.model import LinearModel
from rankine.scoring import Scorer


@readers.reads("onnx")
def read_onnx(export, names, X, n_features, indices):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        export.content, options, providers=["CPUExecutionProvider"]
    )
    assert [i.name for i in session.get_inputs()] == ["X"]
    assert session.get_inputs()[0].shape[1] == n_features
    kind = np.float64 if "double" in session.get_inputs()[0].type else np.float32
    wide = np.zeros((len(X), n_features), dtype=kind)
    wide[:, indices] = X
    return session.run(["variable"], {"X": wide})[0][:, 0]


def test_weights_that_overflow_are_refused_where_they_do(monkeypatch):
    model = LinearModel.from_weights([1e60, 1.0], ["a", "b"])
    with pytest.raises(ExportError, match="overflows float32"):
        export(model, "onnx")
    assert export(model, "onnx", ExportOptions(dtype="float64")).content
    small = LinearModel.from_weights([1.0, 2.0])
    monkeypatch.setattr("rankine.export.features.MAX_DENSE_FEATURES", 2)
    assert export(small, "onnx").content
    monkeypatch.setattr("rankine.export.features.MAX_DENSE_FEATURES", 1)
    with pytest.raises(ExportError, match=r"has 2 features; the limit is 1") as caught:
        export(small, "onnx")
    assert "compact" in caught.value.fix
    monkeypatch.setattr("rankine.export.features.MAX_DENSE_FEATURES", 2)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError):
        export(small, "onnx")


def test_a_model_in_onnx_names_its_metric_and_its_inputs():
    import onnx

    for metric, names in (("map", ["a"]), (None, None)):
        model = LinearModel.from_weights([1.0], names, metric=metric)
        held = onnx.load_from_string(export(model, "onnx").content)
        props = {item.key: item.value for item in held.metadata_props}
        assert props["rankine_metric"] == (metric or "")
        assert ("feature_names" in props) == (names is not None)
        assert [item.name for item in held.graph.output] == ["variable"]
        assert [d.dim_value for d in held.graph.output[0].type.tensor_type.shape.dim] == [0, 1]
        assert {(one.domain, one.version) for one in held.opset_import} == {
            ("", 17), ("ai.onnx.ml", 3),
        }  # fmt: skip


def test_onnx_in_float64_is_exact_to_rounding_and_carries_names(tmp_path):
    import onnx

    model = readers.make_model(["a", "b", "c", "d"])
    result = export(model, "onnx", ExportOptions(dtype="float64"))
    X = readers.random_rows(model)
    found = read_onnx(result, None, X, model.n_features, model.indices)
    np.testing.assert_allclose(found, Scorer(model.compact()).score(X), rtol=1e-12, atol=1e-12)
    held = {item.key: item.value for item in onnx.load_from_string(result.content).metadata_props}
    assert held["feature_names"] == '["a", "b", "c", "d"]'
    assert held["rankine_digest"] == model.digest
    with pytest.raises(ParameterError) as caught:
        export(model, "onnx", ExportOptions(dtype="int8"))
    assert caught.value.parameter == "dtype"
