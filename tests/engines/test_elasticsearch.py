"""Exports for the native Learning to Rank, read and scored by Elasticsearch's own classes."""

import json

import numpy as np
import pytest

from engines import engine_models as models
from engines.java_engines import record_run, require_engine, run_engine
from rankine import LinearModel, Scorer
from rankine.core.errors import ExportError
from rankine.core.specs import Binned, LogColumns, OneHot
from rankine.export import export

pytestmark = [pytest.mark.engines]


def case(model, rows):
    body = json.loads(export(model, "eland").content)
    return {
        "body": json.dumps(body),
        "definition": json.dumps(body["definition"]),
        "rows": [{name: x for name, x in row.items() if x is not None} for row in rows],
    }


def additive_case():
    model, expected = models.additive()
    return case(
        model, [{name: row[name] for name in models.NAMES} for row in models.rows()]
    ), expected


def raw_case():
    """Features as their queries find them in documents: 1, or no match."""
    spec = LogColumns(
        one_hot=(OneHot("brand", models.BRANDS),), binned=(Binned("price", models.CUTS),)
    )
    weights = np.random.default_rng(1).normal(size=spec.n_features)
    model = LinearModel.from_weights(weights, weight_names=spec.names, transforms=[spec])
    alone = [
        LinearModel.from_weights(row, weight_names=[name], transforms=[spec])
        for name, row in zip(spec.names, np.eye(spec.n_features), strict=True)
    ]
    documents = [{name: row[name] for name in ("brand", "price")} for row in models.rows()]
    matches = np.stack([Scorer(each, unknown="zero").score(documents) for each in alone], axis=1)
    rows = [
        {name: 1.0 for name, match in zip(spec.names, row, strict=True) if match}
        for row in matches.tolist()
    ]
    return case(model, rows), Scorer(model).score(documents)


CASES = [additive_case, raw_case]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    require_engine("elasticsearch")
    path = tmp_path_factory.mktemp("elasticsearch") / "cases.json"
    cases, expected = zip(*(case() for case in CASES), strict=True)
    path.write_text(json.dumps(cases))
    scores = run_engine("elasticsearch", "ElasticsearchRun", path)
    return dict(zip(CASES, zip(scores, expected, strict=True), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_elasticsearch_computes_the_same_scores(results, case, record_property):
    record_run(record_property, "elasticsearch", "x-pack-core", case.__name__.removesuffix("_case"))
    scores, expected = results[case]
    np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-6)


def test_scaling_within_lists_is_refused():
    with pytest.raises(ExportError):
        export(models.scaled_within_lists(), "eland")
