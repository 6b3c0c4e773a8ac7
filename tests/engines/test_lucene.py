"""Exported scripts, compiled and evaluated by Lucene's expressions."""

import json
import math

import numpy as np
import pytest

from engines import engine_models as models
from engines.java_engines import record_run, require_engine, run_engine
from rankine import LinearModel, Scorer
from rankine.core.errors import ExportError
from rankine.core.specs import Binned, LogColumns
from rankine.export import export

pytestmark = [pytest.mark.engines]


def raw():
    """Numbers and cells: expressions have no texts."""
    spec = LogColumns(numeric=("rating",), binned=(Binned("price", models.CUTS),))
    weights = np.random.default_rng(1).normal(size=spec.n_features)
    model = LinearModel.from_weights(weights, weight_names=spec.names, transforms=[spec])
    rows = [{name: row[name] for name in ("rating", "price")} for row in models.rows()]
    return model, Scorer(model).score(rows)


CASES = {"linear": models.linear, "scaled": models.scaled, "additive": models.additive, "raw": raw}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    require_engine("lucene")
    folder = tmp_path_factory.mktemp("lucene")
    expected = []
    for k, case in enumerate(CASES.values()):
        model, scores = case()
        expected.append(scores)
        (sort,) = json.loads(export(model, "script").content)["sort"]
        (folder / f"{k}.expression").write_text(sort["_script"]["script"]["source"])
        (folder / f"{k}.fields").write_text("\n".join(models.NAMES))
        lines = []
        for row in models.rows():
            numbers = [math.nan if row[name] is None else row[name] for name in models.NAMES]
            lines.append(" ".join(f"{x!r}".replace("nan", "NaN") for x in numbers))
        (folder / f"{k}.rows").write_text("\n".join(lines))
    found = run_engine("lucene", "LuceneRun", folder)
    return dict(zip(CASES, zip(found, expected, strict=True), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_lucene_computes_the_same_scores(results, case, record_property):
    record_run(record_property, "lucene", "lucene-expressions", case)
    scores, expected = results[case]
    np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-6)


def test_scaling_within_lists_is_refused():
    with pytest.raises(ExportError):
        export(models.scaled_within_lists(), "script")
