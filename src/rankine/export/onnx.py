"""Export to ONNX: ``variable = X @ w`` over all features, X is float[?, n_features].

Tables are an ensemble of trees. Files are written with the ``onnx`` package alone; feature names
are in the model's metadata.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine._version import __version__
from rankine.core.errors import MissingExtraError, ParameterError
from rankine.export.features import dense_weights, require_linear
from rankine.export.registry import Export, ExportOptions, register
from rankine.export.trees import build_trees, flatten_tree
from rankine.model import LinearModel
from rankine.model.tables import Tables, find_tables

_IR_VERSION, _OPSET = 8, 17


@register("onnx", options=("dtype",))
def export_onnx(model: LinearModel, options: ExportOptions) -> Export:
    """Write an ONNX model: one MatMul, or trees and the weights of linear columns."""
    tables = find_tables(model)
    if tables is not None:
        return Export(_write_tables(model, tables, options))
    require_linear(model, "ONNX")
    if options.dtype not in ("float32", "float64"):
        raise ParameterError(
            f"{options.dtype!r} is not supported",
            fix="Choose float32 or float64",
            parameter="dtype",
        )
    weights = dense_weights(model, "ONNX", options.dtype)
    node = _onnx().helper.make_node("MatMul", ["X", "coef"], ["variable"], name="score")
    return Export(_serialize(model, options, [node], {"coef": weights.reshape(-1, 1)}))


def _onnx() -> Any:
    try:
        import onnx
    except ImportError as error:
        raise MissingExtraError(
            "writing ONNX needs the onnx package", fix="pip install 'rankine[onnx]'"
        ) from error
    return onnx


def _write_tables(model: LinearModel, tables: Tables, options: ExportOptions) -> bytes:
    """Write one ensemble of trees, plus X w if columns stay linear."""
    if options.dtype != "float32":
        raise ParameterError(
            f"{options.dtype!r} is not supported: ONNX adds the values of trees in float32",
            fix="Use float32",
            parameter="dtype",
        )
    make_node = _onnx().helper.make_node
    trees = [flatten_tree(tree) for tree in build_trees(tables, "ONNX", linear=True)]
    # (number of the tree, number of the node in it, node with its children)
    nodes = [(k, n, flat) for k, tree in enumerate(trees) for n, flat in enumerate(tree)]
    leaves = [(k, n, flat.node.value) for k, n, flat in nodes if flat.node.left is None]
    linear = tables.bins.linear
    ensemble = make_node(
        "TreeEnsembleRegressor",
        ["X"],
        ["tables" if linear else "variable"],
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_treeids=[k for k, _, _ in nodes],
        nodes_nodeids=[n for _, n, _ in nodes],
        nodes_featureids=[flat.node.column for _, _, flat in nodes],
        nodes_values=[flat.node.cut for _, _, flat in nodes],
        nodes_modes=["LEAF" if flat.node.left is None else "BRANCH_LT" for _, _, flat in nodes],
        nodes_truenodeids=[max(flat.left, 0) for _, _, flat in nodes],
        nodes_falsenodeids=[max(flat.right, 0) for _, _, flat in nodes],
        nodes_missing_value_tracks_true=[int(flat.node.left is not None) for _, _, flat in nodes],
        target_treeids=[k for k, _, _ in leaves],
        target_nodeids=[n for _, n, _ in leaves],
        target_ids=[0] * len(leaves),
        target_weights=[value for _, _, value in leaves],
    )
    if not linear:
        return _serialize(model, options, [ensemble], {})
    steps = [
        ensemble,
        make_node("Gather", ["X", "columns"], ["numbers"], axis=1),
        make_node("MatMul", ["numbers", "coef"], ["products"]),
        make_node("Add", ["tables", "products"], ["variable"]),
    ]
    weights = tables.weights[tables.linear_start :].astype(np.float32)
    arrays: dict[str, NDArray[Any]] = {
        "coef": weights.reshape(-1, 1),
        "columns": np.array(linear, dtype=np.int64),
    }
    return _serialize(model, options, steps, arrays)


def _serialize(
    model: LinearModel,
    options: ExportOptions,
    nodes: list[Any],
    arrays: Mapping[str, NDArray[Any]],
) -> bytes:
    onnx = _onnx()
    helper = onnx.helper
    dtype = helper.np_dtype_to_tensor_dtype(np.dtype(options.dtype))
    graph = helper.make_graph(
        nodes,
        options.versioned(model),
        [helper.make_tensor_value_info("X", dtype, [None, model.n_columns])],
        [helper.make_tensor_value_info("variable", dtype, [None, 1])],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    message = helper.make_model(
        graph,
        producer_name="rankine",
        producer_version=__version__,
        ir_version=_IR_VERSION,
        opset_imports=[helper.make_opsetid("", _OPSET), helper.make_opsetid("ai.onnx.ml", 3)],
    )
    metadata = {"rankine_digest": model.digest, "rankine_metric": model.metric or ""}
    if model.column_names is not None:
        metadata["feature_names"] = json.dumps(list(model.column_names))
    helper.set_model_props(message, metadata)
    onnx.checker.check_model(message)
    content: bytes = message.SerializeToString()
    return content
