"""Features, weights and raw columns of exports."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rankine import LinearModel, Scorer
from rankine.core.errors import ExportError
from rankine.core.specs import (
    Binned,
    ListRange,
    LogColumns,
    MissingValues,
    OneHot,
    RunScores,
)
from rankine.export import export
from rankine.export.features import require_features
from rankine.export.registry import targets

SPEC = LogColumns(
    numeric=("price",),
    one_hot=(OneHot("brand", ("acme", "it's", "9")),),
    binned=(Binned("age", (1.0, 2.5)),),
)


WEIGHTS = [-0.5, 1.0, 0.25, 2.0, 0.75, -1.0, 0.5, 0.125]


PLAIN = LinearModel.from_weights(WEIGHTS, weight_names=SPEC.names, transforms=[SPEC])


SCALED = LinearModel.from_weights(
    WEIGHTS,
    weight_names=SPEC.names,
    transforms=[SPEC, ListRange()],
    parameters={"log": {"query": "list"}},
)


ROWS = [
    {"price": 3.0, "brand": "acme", "age": 0.5},
    {"price": None, "brand": "it's", "age": 1.0},
    {"price": 7.5, "brand": "9", "age": 2.5},
    {"price": 0.0, "brand": None, "age": None},
    {"price": 4.0, "brand": "new", "age": 2.0},
]


def expected(model):
    rows = [dict(row) for row in ROWS]
    return Scorer(model).score(rows, group=[3, 2])


def test_what_a_target_cannot_read_is_refused():
    for target in ("onnx", "xgboost"):
        with pytest.raises(ExportError):
            export(PLAIN, target)
    odd = LogColumns(numeric=("unit price",))
    model = LinearModel.from_weights([1.0], weight_names=odd.names, transforms=[odd])
    with pytest.raises(ExportError):
        export(model, "vespa")
    for specs in ((SPEC, RunScores()), (MissingValues("zero"), RunScores()), (RunScores(),)):
        with pytest.raises(ExportError):
            require_features(SimpleNamespace(transforms=specs), "It", raw=True)
    require_features(SimpleNamespace(transforms=(MissingValues("zero"), ListRange())), "It")


@pytest.mark.parametrize(
    "target", sorted(set(targets()) - {"json", "javascript", "java", "onnx", "xgboost"})
)
def test_hashed_columns_are_refused_by_name(target):
    spec = LogColumns(numeric=("price",), hashed=("brand",), hash_bits=2)
    for weights in ([1, 0, 0, 1, 0], [1, 1, 0, 0, 0]):
        model = LinearModel.from_weights(
            weights, weight_names=["price", "brand=a"], transforms=[spec, ListRange()]
        )
        with pytest.raises(ExportError, match=r"'brand'.*--one-hot"):
            export(model, target)
