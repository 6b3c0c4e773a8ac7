"""Export to XGBoost."""

import json

import numpy as np
import pytest

from contracts import export_readers as readers
from rankine.core.errors import ExportError
from rankine.core.specs import Bins, ListRange
from rankine.export import export
from rankine.model import LinearModel


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


def test_names_that_xgboost_reserves_are_left_out():
    def learner(names):
        specs = [Bins(((1.0,), ()), names=names)]
        model = LinearModel.from_weights(np.arange(5.0), transforms=specs, metric="map")
        return json.loads(export(model, "xgboost").content)["learner"]

    assert learner(("a", "b"))["feature_names"] == ["a", "b"]
    assert learner(("a", "b[0]"))["feature_names"] == learner(None)["feature_names"] == []
    assert learner(None)["learner_model_param"]["num_feature"] == "2"


def test_linear_models_are_refused():
    for transforms in ([], [ListRange()]):
        with pytest.raises(ExportError):
            export(LinearModel.from_weights([1.0], ["a"], transforms=transforms), "xgboost")
