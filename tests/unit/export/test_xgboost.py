"""Export to XGBoost."""

import json

import numpy as np

from contracts import export_readers as readers
from rankine.export import export
from rankine.model import LinearModel


@readers.reads("xgboost")
def read_xgboost(export, names, X, n_features, indices):
    booster = json.loads(export.content)["learner"]["gradient_booster"]
    assert booster["name"] == "gblinear"
    weights = np.array(booster["model"]["weights"], dtype=np.float32)
    assert weights[-1] == 0.0, "no intercept"
    return readers.float32_sum(dict(zip(names, weights[indices], strict=True)), names, X)


@readers.reads_trees("xgboost")
def read_xgboost_trees(content):
    learner = json.loads(content)["learner"]
    names = learner["feature_names"]

    def ask(at):
        tree, k = at
        cut = tree["split_conditions"][k]
        if tree["left_children"][k] < 0:
            return cut
        assert tree["default_left"][k] == 1
        children = ((tree, tree[f"{side}_children"][k]) for side in ("left", "right"))
        return names[tree["split_indices"][k]], readers.below(cut), *children

    return readers.read_trees([(t, 0) for t in learner["gradient_booster"]["model"]["trees"]], ask)


def test_xgboost_is_told_names_it_does_not_reserve():
    def learner(names):
        model = LinearModel.from_weights([1.0, 2.0], names, metric="map")
        return json.loads(export(model, "xgboost").content)["learner"]

    assert learner(["a", "b"])["feature_names"] == ["a", "b"]
    assert learner(["a", "b[0]"])["feature_names"] == learner(None)["feature_names"] == []
    assert learner(None)["learner_model_param"]["num_feature"] == "2"
    document = json.loads(export(LinearModel.from_weights([1.0]), "xgboost").content)
    assert document["version"] == [2, 0, 0]
    assert document["learner"]["gradient_booster"]["model"]["boosted_rounds"] == 1
