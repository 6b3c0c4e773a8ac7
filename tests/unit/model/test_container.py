import numpy as np
import pytest

from rankine.core.errors import ModelFormatError
from rankine.model import LinearModel, ModelBundle
from rankine.model.container import pack

DOCUMENT = {
    "kind": "linear",
    "n_features": 2,
    "base": 1,
    "metric": None,
    "parameters": {},
    "provenance": {},
    "transforms": [],
    "probes": None,
}
TENSORS = {"indices": np.array([0, 1]), "values": np.array([1.0, 2.0])}


def packed(document, tensors):
    return b"".join(pack(document, tensors)[0])


def names(text, *ends):
    return {**TENSORS, "names": np.frombuffer(text, np.uint8), "name_ends": np.array(ends)}


def test_the_hand_made_document_is_good():
    assert LinearModel.from_bytes(packed(DOCUMENT, TENSORS)).nnz == 2


@pytest.mark.parametrize(
    "tensors",
    [
        {**TENSORS, "extra": np.array([1.0])},
        {"indices": TENSORS["indices"]},
        {**TENSORS, "values": np.array([1, 2])},
        {**TENSORS, "values": np.array([1.0])},
        {**TENSORS, "indices": np.array([1, 0])},
        {**TENSORS, "indices": np.array([1, 1])},
        {**TENSORS, "indices": np.array([0, 2])},
        {**TENSORS, "indices": np.array([-1, 0])},
        {**TENSORS, "values": np.array([1.0, np.nan])},
        {**TENSORS, "values": np.array([1.0, 0.0])},
        names(b"aa", 1, 2),
        names(b"\xff\xfe", 1, 2),
        names("é".encode(), 1, 2),
        names(b"ab", 2, 1),
        names(b"ab", 1, 3),
        names(b"abc", 1, 2, 3),
        {**TENSORS, "names": np.frombuffer(b"ab", np.uint8)},
    ],
)
def test_tensors_that_no_model_has_are_refused(tensors):
    with pytest.raises(ModelFormatError):
        LinearModel.from_bytes(packed(DOCUMENT, tensors))


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "tree"},
        {"n_features": -1},
        {"n_features": 2.5},
        {"n_features": 10**12},
        {"n_features": True},
        {"base": 7},
        {"metric": 3},
        {"transforms": [{"type": "exec"}]},
        {"transforms": [{"type": "list_range", "extra": 1}]},
        {"probes": {"rows": [], "scores": []}},
        {"probes": {"rows": [{"indices": [5], "values": [1.0]}], "scores": [1.0]}},
        {"probes": {"rows": [{"indices": [1, 0], "values": [1.0, 2.0]}], "scores": [1.0]}},
        {"probes": {"rows": [{"indices": [1], "values": [1]}], "scores": [1.0]}},
        {"surprise": 1},
    ],
)
def test_documents_that_no_model_has_are_refused(change):
    with pytest.raises(ModelFormatError):
        LinearModel.from_bytes(packed({**DOCUMENT, **change}, TENSORS))


@pytest.mark.parametrize(
    ("starts", "topics", "ends"),
    [([0, 2, 1], b"ab", [1, 2]), ([0, 1], b"ab", [1, 2]), ([1, 1, 2], b"ab", [1, 2]),
     ([0, 1, 3], b"ab", [1, 2]), ([0, 1, 2], b"aa", [1, 2]), ([], b"", [])],
)  # fmt: skip
def test_bundles_with_bad_rows_are_refused(starts, topics, ends):
    tensors = {
        **TENSORS,
        "starts": np.array(starts, dtype=np.int64),
        "topics": np.frombuffer(topics, np.uint8),
        "topic_ends": np.array(ends, dtype=np.int64),
    }
    with pytest.raises(ModelFormatError):
        ModelBundle.from_bytes(packed({**DOCUMENT, "kind": "bundle"}, tensors))
