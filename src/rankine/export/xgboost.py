"""XGBoost's JSON: tables as trees, weights as a linear booster."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from rankine.core.errors import ExportError
from rankine.core.safe_text import printable
from rankine.export.registry import (
    LOWEST,
    Export,
    ExportOptions,
    Node,
    build_trees,
    flat,
    register,
    require_linear,
)
from rankine.model import LinearModel
from rankine.model.tables import find_tables


@register("xgboost")
def xgboost(model: LinearModel, options: ExportOptions) -> Export:
    """Write a file for ``xgboost.Booster(model_file=...)``; predict with ``output_margin=True``."""
    tables = find_tables(model)
    if tables is None:
        require_linear(model, "XGBoost")
        with np.errstate(over="ignore"):
            weights = model.to_dense().astype(np.float32)
        if not np.isfinite(weights).all():
            raise ExportError(
                "a weight overflows float32 in XGBoost", fix="Train on scaled features"
            )
        booster: dict[str, Any] = {
            "model": {"boosted_rounds": 1, "weights": [*weights.tolist(), 0.0]},
            "name": "gblinear",
        }
    else:
        width = len(tables.bins.cuts)
        trees = [_tree(tree, k, width) for k, tree in enumerate(build_trees(tables, "XGBoost"))]
        count = {"num_parallel_tree": "1", "num_trees": str(len(trees))}
        booster = {
            "model": {
                "gbtree_model_param": count,
                "iteration_indptr": list(range(len(trees) + 1)),
                "tree_info": [0] * len(trees),
                "trees": trees,
            },
            "name": "gbtree",
        }
    names = [printable(name) for name in model.column_names or ()]
    learner = {
        "attributes": {"rankine_name": options.versioned(model), "rankine_digest": model.digest},
        # XGBoost reserves these characters.
        "feature_names": [] if any(set(name) & set("[]<") for name in names) else names,
        "feature_types": [],
        "gradient_booster": booster,
        "learner_model_param": {
            "base_score": "0E0", "boost_from_average": "1", "num_class": "0",
            "num_feature": str(model.n_columns), "num_target": "1",
        },
        "objective": {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}},
    }  # fmt: skip
    document = {"learner": learner, "version": [2, 0, 0]}
    return Export(json.dumps(document, allow_nan=False).encode() + b"\n")


def _tree(tree: Node, number: int, width: int) -> dict[str, Any]:
    nodes = flat(tree)
    count = len(nodes)
    leaf = [node.left is None for node, *_ in nodes]
    return {
        "base_weights": [node.value for node, *_ in nodes],
        "categories": [], "categories_nodes": [], "categories_segments": [], "categories_sizes": [],
        "default_left": [int(not end) for end in leaf],
        "id": number,
        "left_children": [left for _, left, _, _ in nodes],
        "loss_changes": [0.0] * count,
        "parents": [parent for *_, parent in nodes],
        "right_children": [right for _, _, right, _ in nodes],
        "split_conditions": [
            node.value if end else max(node.cut, LOWEST)
            for (node, *_), end in zip(nodes, leaf, strict=True)
        ],
        "split_indices": [node.column for node, *_ in nodes],
        "split_type": [0] * count,
        "sum_hessian": [1.0] * count,
        "tree_param": {
            "num_deleted": "0", "num_feature": str(width), "num_nodes": str(count),
            "size_leaf_vector": "1",
        },
    }  # fmt: skip
