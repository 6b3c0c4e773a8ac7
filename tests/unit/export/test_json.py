"""Export to JSON."""

import json

import numpy as np

from contracts import export_readers as readers
from rankine.export import export
from rankine.model import LinearModel


@readers.reads("json")
def read_json(export, names, X, n_features, indices):
    document = json.loads(export.content)
    assert (document["format"], document["version"]) == ("rankine-linear", 1)
    assert document["transforms"] == []
    keys = document["names"] or [str(j + document["base"]) for j in document["indices"]]
    return X[:, [names.index(key) for key in keys]] @ np.array(document["weights"])


def test_the_document_holds_everything_a_reader_needs():
    model = LinearModel.from_weights([0.5, 0.0, -2.0], ["a", "b", "c"], metric="map")
    document = json.loads(export(model, "json").content)
    assert document["digest"] == model.digest
    assert (document["names"], document["weights"]) == (["a", "c"], [0.5, -2.0])
    assert (document["indices"], document["n_features"], document["base"]) == ([0, 2], 3, 1)
    assert document["metric"] == "map"
