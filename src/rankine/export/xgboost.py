"""Export tables to XGBoost's JSON, as trees."""

from __future__ import annotations

import json
from typing import Any

from rankine.core.errors import ExportError
from rankine.core.safe_text import printable
from rankine.export.features import require_linear
from rankine.export.registry import Export, ExportOptions, register
from rankine.export.trees import LOWEST, Node, build_trees, flatten_tree
from rankine.model import LinearModel
from rankine.model.tables import Tables, find_tables


@register("xgboost")
def export_xgboost(model: LinearModel, options: ExportOptions) -> Export:
    """Write a JSON model for ``xgboost.Booster``; predict with ``output_margin=True``."""
    tables = find_tables(model)
    if tables is None:
        require_linear(model, "XGBoost")
        # XGBoost is about to remove its linear booster.
        raise ExportError(
            "XGBoost has trees only, which cannot express the weight of a number exactly",
            fix="Train an AdditiveRanker, or export to onnx, java, javascript or python",
        )
    names = [printable(name) for name in model.column_names or ()]
    if any(set(name) & set("[]<") for name in names):  # reserved by XGBoost
        names = []
    learner = {
        "attributes": {"rankine_name": options.versioned(model), "rankine_digest": model.digest},
        "feature_names": names,
        "feature_types": [],
        "gradient_booster": _tree_booster(tables),
        "learner_model_param": {
            "base_score": "0E0", "boost_from_average": "1", "num_class": "0",
            "num_feature": str(model.n_columns), "num_target": "1",
        },
        "objective": {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}},
    }  # fmt: skip
    document = {"learner": learner, "version": [2, 0, 0]}
    return Export(json.dumps(document, allow_nan=False).encode() + b"\n")


def _tree_booster(tables: Tables) -> dict[str, Any]:
    n_columns = len(tables.bins.cuts)
    trees = [_tree(tree, k, n_columns) for k, tree in enumerate(build_trees(tables, "XGBoost"))]
    return {
        "model": {
            "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
            "iteration_indptr": list(range(len(trees) + 1)),
            "tree_info": [0] * len(trees),
            "trees": trees,
        },
        "name": "gbtree",
    }


def _tree(tree: Node, number: int, n_columns: int) -> dict[str, Any]:
    flat = flatten_tree(tree)
    n_nodes = len(flat)
    is_leaf = [entry.node.left is None for entry in flat]
    return {
        "base_weights": [entry.node.value for entry in flat],
        "categories": [], "categories_nodes": [], "categories_segments": [], "categories_sizes": [],
        "default_left": [int(not leaf) for leaf in is_leaf],
        "id": number,
        "left_children": [entry.left for entry in flat],
        "loss_changes": [0.0] * n_nodes,
        "parents": [entry.parent for entry in flat],
        "right_children": [entry.right for entry in flat],
        # XGBoost stores the value of a leaf as its split condition.
        "split_conditions": [
            entry.node.value if leaf else max(entry.node.cut, LOWEST)
            for entry, leaf in zip(flat, is_leaf, strict=True)
        ],
        "split_indices": [entry.node.column for entry in flat],
        "split_type": [0] * n_nodes,
        "sum_hessian": [1.0] * n_nodes,
        "tree_param": {
            "num_deleted": "0", "num_feature": str(n_columns), "num_nodes": str(n_nodes),
            "size_leaf_vector": "1",
        },
    }  # fmt: skip
