"""Exports run in an embedded Solr."""

import json

import numpy as np
import pytest

from engines import engine_models as models
from engines.java_engines import record_run, require_engine, run_engine
from rankine.core.errors import ExportError
from rankine.export import ExportOptions, export

pytestmark = [pytest.mark.engines]

_CONFIG = """<config>
<luceneMatchVersion>LATEST</luceneMatchVersion>
<directoryFactory name="DirectoryFactory" class="solr.ByteBuffersDirectoryFactory"/>
<indexConfig><lockType>single</lockType></indexConfig>
<schemaFactory class="ClassicIndexSchemaFactory"/>
<queryParser name="ltr" class="org.apache.solr.ltr.search.LTRQParserPlugin"/>
<requestHandler name="/select" class="solr.SearchHandler"/>
<requestHandler name="/update" class="solr.UpdateRequestHandler"/>
<updateHandler class="solr.DirectUpdateHandler2"/>
</config>"""
_SCHEMA = """<schema name="rows" version="1.6">
<fieldType name="string" class="solr.StrField" docValues="true"/>
<fieldType name="double" class="solr.DoublePointField" docValues="true"/>
<field name="id" type="string" indexed="true" stored="true" required="true"/>
<field name="brand" type="string" indexed="true" stored="true"/>
<dynamicField name="*" type="double" indexed="true" stored="true"/>
<uniqueKey>id</uniqueKey>
</schema>"""


def field_features(model_body, store, default):
    """Write the features that a user puts in place of the placeholders: values of fields."""
    return [
        {
            "store": store,
            "name": feature["name"],
            "class": "org.apache.solr.ltr.feature.FieldValueFeature",
            "params": {"field": feature["name"], **default},
        }
        for feature in model_body["features"]
    ]


def case(model, name, *, fields=True, default=()):
    result = export(model, "solr", ExportOptions(name=name, feature_set=name))
    body = json.loads(result.content)
    features = json.loads(result.extra_files[".featureset.json"])
    if fields:
        features = field_features(body, name, dict(default))
    params = json.loads(result.extra_files[".query.json"])["params"]
    params |= {"rows": models.N_DOCUMENTS, "fl": "id,score"}
    params["rq"] = params["rq"].replace("reRankDocs=100", f"reRankDocs={models.N_DOCUMENTS}")
    return {"features": features, "model": body, "params": params}


def fusion_case():
    """Fuse two queries whose scores are fields of the documents."""
    model, _, _ = models.fusion("solr")
    params = json.loads(export(model, "solr").content)["params"]
    for name in ("first", "second"):
        params[name] = f"{{!boost b={name}_score}}{name}_score:[* TO *]"
    return {"params": {**params, "rows": models.N_DOCUMENTS, "fl": "id,score"}}


@pytest.fixture(scope="module", params=["solr9", "solr8"])
def results(request, tmp_path_factory):
    """Results of all cases, run in one process."""
    require_engine(request.param, "solr-ltr-*")
    home = tmp_path_factory.mktemp(request.param)
    conf = home / "rows" / "conf"
    conf.mkdir(parents=True)
    (home / "solr.xml").write_text("<solr/>")
    (home / "rows" / "core.properties").write_text("name=rows")
    (conf / "solrconfig.xml").write_text(_CONFIG)
    (conf / "schema.xml").write_text(_SCHEMA)
    cases = {
        "linear": case(models.linear()[0], "linear"),
        "scaled": case(models.scaled()[0], "scaled"),
        "raw": case(models.raw()[0], "raw", fields=False),
    }
    if request.param == "solr9":
        cases["additive"] = case(models.additive()[0], "additive", default={"defaultValue": "NaN"})
    cases["fusion"] = fusion_case()
    _, runs, _ = models.fusion("solr")
    documents = [
        {
            "id": str(i),
            **{name: value for name, value in row.items() if value is not None},
            **{f"{name}_score": score for name, score in runs[i].items()},
        }
        for i, row in enumerate(models.rows())
    ]
    (home / "input.json").write_text(
        json.dumps({"documents": documents, "cases": list(cases.values())})
    )
    found = run_engine(request.param, "SolrRun", home, home / "input.json")
    return dict(zip(cases, found, strict=True))


@pytest.mark.parametrize("name", ["linear", "scaled", "raw", "additive", "fusion"])
def test_solr_computes_the_same_scores(results, name, request, record_property):
    if name not in results:
        pytest.skip("trees with missing values need Solr 9.2")
    found = results[name]
    engine = request.node.callspec.params["results"]
    record_run(record_property, engine, "solr-core", name)
    assert "error" not in found, found
    if name == "fusion":
        _, _, expected = models.fusion("solr")
    else:
        _, expected = getattr(models, name)()
    positions = [int(i) for i in found["ids"]]
    assert sorted(positions) == list(range(models.N_DOCUMENTS))
    np.testing.assert_allclose(found["scores"], expected[positions], rtol=1e-5, atol=1e-5)
    # The order is that of the scores, apart from scores that are equal in float32.
    assert (np.diff(expected[positions]) <= 1e-5).all()


def test_scaling_within_lists_is_refused():
    with pytest.raises(ExportError):
        export(models.scaled_within_lists(), "solr")
