"""ONNX: ``variable = X @ w`` over all features; X is float[?, n_features]. Tables are trees.

Written with the ``onnx`` package alone; feature names stand in the model's metadata.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from rankine._version import __version__
from rankine.core.errors import ExportError, MissingExtraError, ParameterError
from rankine.export.registry import (
    Export,
    ExportOptions,
    build_trees,
    flat,
    register,
    require_linear,
)
from rankine.model import LinearModel
from rankine.model.tables import Tables, find_tables

#: A protobuf message ends at 2 GiB.
_MAX_BYTES = 2**31 - 2**20
_IR_VERSION, _OPSET = 8, 17


@register("onnx")
def onnx_model(model: LinearModel, options: ExportOptions) -> Export:
    """Write one MatMul with the dense weights, or trees and the weights of linear columns."""
    tables = find_tables(model)
    if tables is not None:
        return Export(_build_trees(model, tables, options))
    require_linear(model, "ONNX")
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


def _onnx() -> Any:
    try:
        import onnx
    except ImportError as error:
        raise MissingExtraError(
            "writing ONNX needs the onnx package", fix="pip install 'rankine[onnx]'"
        ) from error
    return onnx


def _build(model: LinearModel, options: ExportOptions, weights: Any) -> bytes:
    onnx = _onnx()
    node = onnx.helper.make_node("MatMul", ["X", "coef"], ["variable"], name="score")
    return _finished(model, options, [node], weights)


def _build_trees(model: LinearModel, tables: Tables, options: ExportOptions) -> bytes:
    """One ensemble of trees, plus X w where columns stay linear."""
    if options.dtype != "float32":
        raise ParameterError(
            f"dtype={options.dtype!r}: ONNX adds the values of trees in float32", fix="Use float32"
        )
    onnx = _onnx()
    nodes = [
        (k, n, *found)
        for k, tree in enumerate(build_trees(tables, "ONNX", linear=True))
        for n, found in enumerate(flat(tree))
    ]
    leaves = [(k, n, node.value) for k, n, node, *_ in nodes if node.left is None]
    linear = tables.bins.linear
    trees = onnx.helper.make_node(
        "TreeEnsembleRegressor",
        ["X"],
        ["tables" if linear else "variable"],
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_treeids=[k for k, *_ in nodes],
        nodes_nodeids=[n for _, n, *_ in nodes],
        nodes_featureids=[node.column for _, _, node, *_ in nodes],
        nodes_values=[node.cut for _, _, node, *_ in nodes],
        nodes_modes=["LEAF" if node.left is None else "BRANCH_LT" for _, _, node, *_ in nodes],
        nodes_truenodeids=[max(left, 0) for _, _, _, left, _, _ in nodes],
        nodes_falsenodeids=[max(right, 0) for _, _, _, _, right, _ in nodes],
        nodes_missing_value_tracks_true=[int(node.left is not None) for _, _, node, *_ in nodes],
        target_treeids=[k for k, _, _ in leaves],
        target_nodeids=[n for _, n, _ in leaves],
        target_ids=[0] * len(leaves),
        target_weights=[value for _, _, value in leaves],
    )
    if not linear:
        return _finished(model, options, [trees], None)
    weights = tables.weights[tables.linear_start :].astype(np.float32)
    make = onnx.helper.make_node
    steps = [
        trees,
        make("Gather", ["X", "columns"], ["numbers"], axis=1),
        make("MatMul", ["numbers", "coef"], ["products"]),
        make("Add", ["tables", "products"], ["variable"]),
    ]
    columns = np.array(linear, dtype=np.int64)
    return _finished(model, options, steps, weights.reshape(-1, 1), columns=columns)


def _finished(
    model: LinearModel, options: ExportOptions, nodes: list[Any], weights: Any, **more: Any
) -> bytes:
    onnx = _onnx()
    helper = onnx.helper
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(options.dtype))
    arrays = {**({} if weights is None else {"coef": weights}), **more}
    graph = helper.make_graph(
        nodes,
        options.versioned(model),
        [helper.make_tensor_value_info("X", kind, [None, model.n_columns])],
        [helper.make_tensor_value_info("variable", kind, [None, 1])],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    found = helper.make_model(
        graph,
        producer_name="rankine",
        producer_version=__version__,
        ir_version=_IR_VERSION,
        opset_imports=[helper.make_opsetid("", _OPSET), helper.make_opsetid("ai.onnx.ml", 3)],
    )
    metadata = {"rankine_digest": model.digest, "rankine_metric": model.metric or ""}
    if model.column_names is not None:
        metadata["feature_names"] = json.dumps(list(model.column_names))
    helper.set_model_props(found, metadata)
    onnx.checker.check_model(found)
    content: bytes = found.SerializeToString()
    return content
