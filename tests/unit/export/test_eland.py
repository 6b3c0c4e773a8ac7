"""Export to the native Learning to Rank of Elasticsearch."""

import json

import numpy as np
import pytest

from contracts import export_readers as readers
from rankine import LinearModel, Scorer
from rankine.core.errors import ExportError
from rankine.core.specs import Binned, LogColumns, MissingValues, OneHot
from rankine.export import ExportOptions, export


@readers.reads_trees("eland")
def read_ensemble(content):
    """Score rows by the classes of eland's ``_model_serializer``: Ensemble, Tree and TreeNode."""
    body = json.loads(content)
    assert set(body) == {"inference_config", "definition", "tags"}
    extractors = body["inference_config"]["learning_to_rank"]["feature_extractors"]
    names = [each["query_extractor"]["feature_name"] for each in extractors]
    ensemble = body["definition"]["trained_model"]["ensemble"]
    assert set(ensemble) == {
        "target_type", "feature_names", "trained_models", "aggregate_output",
    }  # fmt: skip
    assert ensemble["target_type"] == "regression"
    assert ensemble["feature_names"] == names
    assert ensemble["aggregate_output"] == {"weighted_sum": {}}
    trees = []
    for each in ensemble["trained_models"]:
        tree = each["tree"]
        assert set(tree) == {"feature_names", "target_type", "tree_structure"}
        nodes = tree["tree_structure"]
        assert [node["node_index"] for node in nodes] == list(range(len(nodes)))
        trees.append((nodes, 0))

    def ask(at):
        nodes, number = at
        node = nodes[number]
        if "leaf_value" in node:
            assert set(node) == {"node_index", "leaf_value"}
            return node["leaf_value"]
        assert node["decision_type"] == "lt"
        assert node["default_left"] is True
        children = ((nodes, node[f"{side}_child"]) for side in ("left", "right"))
        return names[node["split_feature"]], readers.below(node["threshold"]), *children

    return readers.read_trees(trees, ask)


def test_weights_of_categories_and_cells_are_trees():
    spec = LogColumns(one_hot=(OneHot("brand", ("a", "b")),), binned=(Binned("age", (1.0, 2.5)),))
    weights = np.array([0.5, -1.25, 0.1, 2.0, 0.0, 3.0])
    model = LinearModel.from_weights(
        weights, weight_names=[name for name, w in zip(spec.names, weights, strict=True) if w],
        transforms=[MissingValues("zero"), spec],
    )  # fmt: skip
    exported = export(model, "eland", ExportOptions(name="shop"))
    body = json.loads(exported.content)
    assert body["tags"] == [f"shop_{model.digest[:12]}"]
    assert body["tags"][0] in exported.remark
    extractors = body["inference_config"]["learning_to_rank"]["feature_extractors"]
    queries = {
        each["query_extractor"]["feature_name"]: each["query_extractor"]["query"]
        for each in extractors
    }
    assert queries["brand=a"] == {"constant_score": {"filter": {"term": {"brand": "a"}}}}
    assert queries["age < 1"] == {"constant_score": {"filter": {"range": {"age": {"lt": 1.0}}}}}
    score = read_ensemble(exported.content)
    raw = [{"brand": "a", "age": 0.5}, {"brand": "b", "age": 1.0}, {"brand": "c", "age": None}]
    # What the queries of these documents return; a query without a match has no score.
    scores = [{"brand=a", "age < 1"}, {"brand=b", "1 <= age < 2.5"}, {"age missing"}]
    rows = [{name: 1.0 if name in matches else None for name in queries} for matches in scores]
    np.testing.assert_allclose(score(rows), Scorer(model).score(raw), rtol=1e-15)


def test_weights_of_numbers_are_refused():
    spec = LogColumns(numeric=("price",))
    for model in (
        LinearModel.from_weights([1.0], weight_names=["price"], transforms=[spec]),
        LinearModel.from_weights([1.0], ["a"]),
    ):
        with pytest.raises(ExportError):
            export(model, "eland")
