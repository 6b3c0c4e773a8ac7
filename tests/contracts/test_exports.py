"""Every export ranks random rows as the scorer does; found by registration."""

import json
import re

import numpy as np
import pytest

from contracts import export_readers as readers
from contracts.export_readers import weight_targets
from rankine.core.errors import ExportError, ParameterError
from rankine.core.specs import ListRange
from rankine.export import ExportOptions, export, targets
from rankine.model import LinearModel, ModelBundle
from rankine.scoring import Scorer


def read(target, model, result, X):
    """Scores of rows X of the weighted features."""
    reader = readers.reader_of(target)
    return reader(result, list(model.weight_names), X, model.n_features, model.indices)


def test_the_targets_are_those_we_promise():
    assert set(targets()) >= {
        "elasticsearch", "opensearch", "solr", "vespa", "onnx", "sql", "json", "python",
        "javascript", "java",
    }  # fmt: skip


def test_targets_of_trees_refuse_weights_of_numbers():
    only_trees = set(targets()) - set(weight_targets())
    assert only_trees >= {"eland", "xgboost"}
    for target in only_trees:
        with pytest.raises(ExportError):
            export(readers.make_model(["a", "b", "c"]), target)


@pytest.mark.parametrize("target", weight_targets())
def test_plain_names_rank_as_the_scorer_does(target):
    model = readers.make_model(readers.VESPA_NAMES, zeros=1)
    X = readers.random_rows(model)
    readers.assert_same_order(model, read(target, model, export(model, target), X), X)


@pytest.mark.parametrize("target", weight_targets())
def test_hostile_names_are_escaped(target):
    model = readers.make_model(readers.HOSTILE)
    X = readers.random_rows(model)
    result = export(model, target, ExportOptions(form="tensor" if target == "vespa" else None))
    readers.assert_same_order(model, read(target, model, result, X), X)


@pytest.mark.parametrize("target", weight_targets())
def test_a_model_of_two_thousand_weights(target, monkeypatch):
    monkeypatch.setattr("rankine.export.script.MAX_BYTES", 1 << 20)
    model = readers.make_model([f"f{j}" for j in range(1900)])
    X = readers.random_rows(model, n=12)
    readers.assert_same_order(model, read(target, model, export(model, target), X), X)


@pytest.mark.parametrize("target", targets())
def test_per_list_scaling_is_refused_where_it_cannot_be_expressed(target):
    model = LinearModel.from_weights([1.0, -2.0], ["a", "b"], transforms=(ListRange(),))
    try:
        result = export(model, target)
    except ExportError:
        if target in ("json", "python", "sql", "javascript", "java"):
            raise
        with pytest.raises(ExportError, match="scale='standard'"):
            export(model, target)
        return
    if target == "json":  # its reader is a sum; the document names the transform
        assert b'"list_range"' in result.content
        return
    X = np.random.default_rng(0).normal(size=(30, 2))
    scores = read(target, model, result, X)
    np.testing.assert_allclose(scores, Scorer(model).score(X), atol=1e-12)


@pytest.mark.parametrize("target", ["elasticsearch", "opensearch", "solr", "vespa", "sql"])
def test_features_without_names_are_refused(target):
    model = LinearModel.from_weights([1.0, 2.0])
    with pytest.raises(ExportError):
        export(model, target)
    assert export(model.renamed(["x", "y"]), target).content


@pytest.mark.parametrize("target", targets())
def test_models_that_rank_nothing_and_bundles_are_refused(target):
    with pytest.raises(ExportError):
        export(LinearModel.from_weights([0.0], ["a"]), target)
    with pytest.raises(ExportError):
        export(ModelBundle.from_weights({"t": [1.0]}), target)
    for name in ("", "1a", "a b", "a}", "x" * 65, "a\n"):
        with pytest.raises(ParameterError) as caught:
            export(LinearModel.from_weights([1.0], ["a"]), target, ExportOptions(name=name))
        assert caught.value.parameter == "name"
    with pytest.raises(ParameterError) as caught:
        export(LinearModel.from_weights([1.0], ["a"]), "mainframe")
    assert caught.value.parameter == "to"


@pytest.mark.parametrize("target", ["elasticsearch", "opensearch", "solr", "vespa"])
def test_weights_are_float32_and_those_that_vanish_are_left_out(target):
    model = LinearModel.from_weights([0.1, 1e-60, 2.0], ["x", "y", "z"])
    text = export(model, target).content.decode()
    assert "0.1" in text
    assert "0.10000000149" not in text
    assert not re.search(r"\by\b", text)
    with pytest.raises(ExportError):
        export(LinearModel.from_weights([1e60], ["x"]), target)


def test_names_in_engines_carry_the_digest():
    model = readers.make_model(["a", "b", "c"])
    for target in ("elasticsearch", "solr", "vespa", "sql"):
        text = export(model, target, ExportOptions(name="shop")).content.decode()
        assert f"shop_{model.digest[:12]}" in text


def test_documents_are_laid_out_for_people():
    model = readers.make_model(["a", "b", "c"])
    for target, indent, form in (("json", 1, None), ("solr", 2, None), ("vespa", 1, "tensor")):
        content = export(model, target, ExportOptions(form=form)).content.decode()
        assert content == json.dumps(json.loads(content), indent=indent) + "\n"
