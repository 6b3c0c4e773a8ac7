"""Targets of exports are found by themselves; what a target ignores is refused."""

from __future__ import annotations

import json

import pytest

from rankine import LinearModel, ModelBundle
from rankine.core.errors import ExportError, ParameterError
from rankine.export import ExportOptions, export, targets
from rankine.export.registry import describe_targets, json_bytes

MODEL = LinearModel.from_weights([1.0, -2.0], ["a", "b"])


def test_every_target_has_a_line_of_help():
    lines = describe_targets()
    assert tuple(lines) == targets()
    assert all(line.endswith(".") for line in lines.values())


@pytest.mark.parametrize(
    ("to", "options", "parameter"),
    [
        ("nowhere", {}, "to"),
        ("json", {"name": "a b"}, "name"),
        ("json", {"name": "x" * 65}, "name"),
        ("json", {"store": "s"}, "store"),
        ("json", {"form": "tensor"}, "form"),
        ("elasticsearch", {"dtype": "float64"}, "dtype"),
        ("onnx", {"query": "q"}, "query"),
    ],
)
def test_options_without_effect_are_refused(to, options, parameter):
    with pytest.raises(ParameterError) as caught:
        export(MODEL, to, ExportOptions(**options))
    assert caught.value.parameter == parameter


def test_models_that_rank_nothing_are_refused():
    for model in (
        LinearModel.from_weights([0.0]),
        ModelBundle.from_weights({"a": [1.0], "b": [2.0]}),
    ):
        with pytest.raises(ExportError):
            export(model, "json")


def test_the_name_of_a_model_differs_with_its_content():
    names = {
        ExportOptions(name="shop").versioned(LinearModel.from_weights([weight]))
        for weight in (1.0, 2.0)
    }
    assert len(names) == 2
    assert all(name.startswith("shop_") for name in names)


def test_documents_hold_no_special_floats():
    assert json.loads(json_bytes({"a": [1]})) == {"a": [1]}
    with pytest.raises(ValueError, match="JSON"):
        json_bytes(float("nan"))
