"""ONNX: ``variable = X @ w`` over all features; X is float[?, n_features].

Written with the ``onnx`` package alone; feature names stand in the model's metadata.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from rankine._version import __version__
from rankine.core.errors import ExportError, MissingExtraError, ParameterError
from rankine.export.registry import Export, ExportOptions, register, require_plain

if TYPE_CHECKING:
    from rankine.model import LinearModel


#: A protobuf message ends at 2 GiB.
_MAX_BYTES = 2**31 - 2**20
_IR_VERSION, _OPSET = 8, 17


@register("onnx")
def onnx_model(model: LinearModel, options: ExportOptions) -> Export:
    """Write one MatMul with the dense weights."""
    require_plain(model, "ONNX")
    if options.dtype not in ("float32", "float64"):
        raise ParameterError(f"dtype={options.dtype!r}", fix="Choose float32 or float64")
    dtype = np.dtype(options.dtype)
    if model.n_features * dtype.itemsize > _MAX_BYTES:
        raise ExportError(
            f"ONNX files end at 2 GiB and this model has {model.n_features:,} features",
            fix="Export model.compact(), which reads its weighted features alone",
        )
    with np.errstate(over="ignore"):
        weights = model.to_dense().astype(dtype)
    if not np.isfinite(weights).all():
        raise ExportError("a weight overflows float32", fix="Export with --dtype float64")
    return Export(_build(model, options, weights.reshape(-1, 1)))


def _build(model: LinearModel, options: ExportOptions, weights: Any) -> bytes:
    try:
        import onnx
        from onnx import helper, numpy_helper
    except ImportError as error:
        raise MissingExtraError(
            "writing ONNX needs the onnx package", fix="pip install 'rankine[onnx]'"
        ) from error
    kind = helper.np_dtype_to_tensor_dtype(weights.dtype)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["X", "coef"], ["variable"], name="score")],
        options.versioned(model),
        [helper.make_tensor_value_info("X", kind, [None, model.n_features])],
        [helper.make_tensor_value_info("variable", kind, [None, 1])],
        [numpy_helper.from_array(weights, "coef")],
    )
    found = helper.make_model(
        graph,
        producer_name="rankine",
        producer_version=__version__,
        ir_version=_IR_VERSION,
        opset_imports=[helper.make_opsetid("", _OPSET)],
    )
    metadata = {"rankine_digest": model.digest, "rankine_metric": model.metric or ""}
    if model.feature_names is not None:
        metadata["feature_names"] = json.dumps(list(model.feature_names))
    helper.set_model_props(found, metadata)
    onnx.checker.check_model(found)
    content: bytes = found.SerializeToString()
    return content
