"""Export to the native Learning to Rank of Elasticsearch, in the form that eland uploads.

A model there is an ensemble of regression trees. Tables are such trees. So are weights of features
that are 0 or 1 (categories and cells of raw columns), but not weights of numbers.
"""

from __future__ import annotations

from typing import Any

from rankine.core.errors import ExportError
from rankine.export.features import RawFeature, column_names, raw_features, require_linear
from rankine.export.registry import Export, ExportOptions, json_bytes, register
from rankine.export.search_engines import field_query
from rankine.export.trees import LOWEST, Node, build_trees, flatten_tree
from rankine.model import LinearModel
from rankine.model.tables import find_tables


@register("eland")
def export_eland(model: LinearModel, options: ExportOptions) -> Export:
    """Write the body of Elasticsearch's ``PUT _ml/trained_models``, as eland does for 8.15."""
    target = "Elasticsearch's native LTR"
    tables = find_tables(model)
    queries: list[dict[str, Any]]
    if tables is None:
        features = _indicators(model, target)
        names = [feature.name for feature in features]
        queries = [field_query(feature) for feature in features]
        # A document that the query does not match has no value, which leads left like 0.
        weights = model.values.tolist()
        trees = [Node(0.0, j, 0.5, Node(0.0), Node(weight)) for j, weight in enumerate(weights)]
    else:
        names = list(column_names(tables, target))
        trees = build_trees(tables, target)
        # Columns of a raw log are fields; users replace the other queries by theirs.
        fields = {
            feature.name: field_query(feature) for feature in raw_features(model, target) or ()
        }
        queries = [fields.get(name, {"match_all": {}}) for name in names]
    body = {
        "inference_config": {
            "learning_to_rank": {
                "feature_extractors": [
                    {"query_extractor": {"feature_name": name, "query": query}}
                    for name, query in zip(names, queries, strict=True)
                ]
            }
        },
        "definition": {
            "trained_model": {
                "ensemble": {
                    "target_type": "regression",
                    "feature_names": names,
                    "trained_models": [_tree(tree, names) for tree in trees],
                    "aggregate_output": {"weighted_sum": {}},
                }
            }
        },
        "tags": [options.versioned(model)],
    }
    remark = f"upload it with PUT _ml/trained_models/{options.versioned(model)}"
    if {"match_all": {}} in queries:
        remark += ", after replacing the query of each feature by yours"
    return Export(json_bytes(body), remark=remark)


def _indicators(model: LinearModel, target: str) -> list[RawFeature]:
    """Return the raw features of a model if all of them are 0 or 1."""
    features = raw_features(model, target)
    require_linear(model, target, raw=True, rules=("zero",))
    if features is None or any(feature.kind == "number" for feature in features):
        raise ExportError(
            f"{target} has trees only, which cannot express the weight of a number exactly",
            fix="Train an AdditiveRanker, or a linear model of --one-hot and --binned columns; or "
            "export to elasticsearch (the LTR plugin)",
        )
    return features


def _tree(tree: Node, names: list[str]) -> dict[str, Any]:
    nodes: list[dict[str, Any]] = []
    for number, (node, left, right, _) in enumerate(flatten_tree(tree)):
        if node.left is None:
            nodes.append({"node_index": number, "leaf_value": node.value})
            continue
        nodes.append(
            {
                "node_index": number, "decision_type": "lt", "left_child": left,
                "right_child": right, "split_feature": node.column,
                # JSON has no infinity: no float32 is below the smallest one.
                "threshold": max(node.cut, LOWEST), "default_left": True,
            }
        )  # fmt: skip
    return {"tree": {"feature_names": names, "target_type": "regression", "tree_structure": nodes}}
