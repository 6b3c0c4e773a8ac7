"""Fusions of retrievers as pipelines of search engines."""

import json

import numpy as np
import pytest

from rankine import LinearModel, Scorer
from rankine.core.errors import ExportError, ParameterError
from rankine.core.specs import RunScores
from rankine.export import ExportOptions, export
from unit.evaluation.test_fusion import CASES, engine_column, lists


def exported(engine, normalization, to=None, **options):
    model = LinearModel.from_weights(
        [0.5, 0.3, 0.2],
        ["bm25", "dense", "fresh"],
        transforms=(RunScores(normalization, engine),),
        parameters={"rrf_weights": [0.2, 0.2, 0.6]},
    )
    return model, export(model, to or engine, ExportOptions(**options))


def read_back(engine, content):
    """Weights and normalisation that an engine reads from an exported file."""
    if engine == "vespa":
        text = content.decode()
        ranks = "reciprocal_rank" in text
        lines = [part for part in text.splitlines() if " * " in part]
        return [float(part.split(" * ")[0]) for part in lines], (
            "reciprocal_rank" if ranks else "min_max"
        )
    body = json.loads(content)
    if engine == "solr":
        terms = body["params"]["q"].split("product(")[1:]
        return [float(term.split(",")[0]) for term in terms], "min_max"
    if engine == "elasticsearch":
        ((kind, inner),) = body["retriever"].items()
        weights = [child["weight"] for child in inner["retrievers"]]
        names = {child.get("normalizer") for child in inner["retrievers"]}
        known = {"minmax": "min_max", "l2_norm": "l2", None: "reciprocal_rank"}
        assert (kind == "rrf") == (names == {None}) == ("rank_constant" in inner)
        return weights, known[names.pop()]
    ((kind, inner),) = body["phase_results_processors"][0].items()
    weights = inner["combination"]["parameters"]["weights"]
    assert sum(weights) == pytest.approx(1)
    if kind == "score-ranker-processor":
        assert inner["combination"]["technique"] == "rrf"
        return weights, "reciprocal_rank"
    assert inner["combination"]["technique"] == "arithmetic_mean"
    return weights, inner["normalization"]["technique"]


@pytest.mark.parametrize(("engine", "normalization"), CASES)
def test_an_export_scores_as_the_model(engine, normalization):
    model, found = exported(engine, normalization)
    weights, read = read_back(engine, found.content)
    assert read == normalization
    has_version = read == "reciprocal_rank" and engine in ("elasticsearch", "opensearch")
    assert ("or newer" in found.remark) == has_version
    module = {}
    exec(exported(engine, normalization, "python")[1].content, module)  # noqa: S102
    for rows in lists(1):
        named = [
            {n: x for n, x in zip(model.feature_names, row, strict=True) if x is not None}
            for row in rows
        ]
        columns = [engine_column(engine, read, c) for c in zip(*rows, strict=True)]
        wanted = np.array(weights) @ np.array(columns)
        scorer = Scorer(model)
        np.testing.assert_allclose(scorer.score(named), wanted, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(module["scores"](named), wanted, rtol=1e-12, atol=1e-15)
        totals = [scorer.explain(named, i).total for i in range(len(named))]
        np.testing.assert_allclose(totals, wanted, rtol=1e-12, atol=1e-15)


def test_export_forms_of_a_fusion():
    _, found = exported("opensearch", "min_max", "elasticsearch", form="rrf")
    assert read_back("elasticsearch", found.content) == ([0.2, 0.2, 0.6], "reciprocal_rank")
    assert "opensearch" in found.remark
    assert "Elasticsearch 9.2 or newer" in found.remark
    found = exported("opensearch", "min_max", "opensearch", form="rrf")[1]
    assert found.remark.startswith("weights of RRF need OpenSearch 3.1 or newer")
    with pytest.raises(ExportError):
        exported("opensearch", "z_score", "elasticsearch")
    with pytest.raises(ExportError):
        exported("solr", "min_max", form="rrf")
    with pytest.raises(ExportError, match="no form 'linear'"):
        exported("opensearch", "reciprocal_rank", form="linear")
    with pytest.raises(ExportError):
        exported("opensearch", "min_max", "onnx")
    with pytest.raises(ParameterError) as caught:
        exported("opensearch", "min_max", form="tensor")
    assert caught.value.parameter == "form"
    document = json.loads(exported("opensearch", "l2", "json")[1].content)
    assert document["transforms"][0]["normalization"] == "l2"


def test_a_fusion_that_an_engine_cannot_express_is_refused():
    def fusion(names=("a", "b"), constant=60.0, normalization="reciprocal_rank", **more):
        spec = RunScores(normalization, rank_constant=constant)
        return LinearModel.from_weights([0.5, 0.25], names, transforms=(spec,), **more)

    for constant in (0.0, 0.5, 1.5):
        for target in ("elasticsearch", "opensearch"):
            with pytest.raises(ExportError, match=f"not {constant:g}"):
                export(fusion(constant=constant), target)
    body = json.loads(export(fusion(constant=1.0), "elasticsearch").content)
    assert body["retriever"]["rrf"]["rank_constant"] == 1
    assert body["retriever"]["rrf"]["rank_window_size"] == 100
    assert "reciprocal_rank(a, 0.5)" in export(fusion(constant=0.5), "vespa").content.decode()
    with pytest.raises(ExportError):
        export(fusion(names=None), "opensearch")
    with pytest.raises(ExportError, match="has no form 'rrf'"):
        export(fusion(normalization="min_max"), "opensearch", ExportOptions(form="rrf"))
    with pytest.raises(ExportError):
        export(fusion(names=("a b", "c")), "vespa")
    for name in ("a b", "q", "fl", "fq", "rows", "1a"):
        with pytest.raises(ExportError):
            export(fusion(names=(name, "c"), normalization="min_max"), "solr")
    params = json.loads(export(fusion(normalization="min_max"), "solr").content)["params"]
    assert params["a"] == params["b"] == "*:*"
    assert "scale(def(query($a),0),0,1)" in params["q"]
    made = export(fusion(), "opensearch")
    query = json.loads(made.extra_files[".query.json"])
    assert [one["match_all"]["_name"] for one in query["query"]["hybrid"]["queries"]] == ["a", "b"]
    assert query["size"] == 100
