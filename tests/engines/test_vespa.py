"""Exported ranking expressions in Vespa's own evaluator, on 1,000 rows."""

import json
import re

import numpy as np
import pytest

from engines import engine_models as models
from engines.java_engines import record_run, require_engine, run_engine
from rankine import LinearModel, Scorer
from rankine.core.errors import ExportError
from rankine.export import ExportOptions, export

pytestmark = [pytest.mark.engines]


def expression_of(profile):
    """Return the expression of the first phase of a rank profile."""
    found = re.search(r"expression(?: \{\n(.*?)\n +\}|: (.*?)$)", profile, re.DOTALL | re.MULTILINE)
    return found[1] or found[2]


def many(rows):
    """Repeat 200 rows with other numbers, 1,000 in all."""
    shifted = [
        {name: x + k / 10 if isinstance(x, float) else x for name, x in row.items()}
        for k in range(1, 5)
        for row in rows
    ]
    return [*rows, *shifted]


def numbers():
    return many([{name: row[name] for name in models.NAMES} for row in models.rows()])


def named(model):
    """The same model with names of rank features."""
    bins = model.bins
    names = [f"attribute({name})" for name in models.NAMES]
    if bins is None:
        return model.renamed(names)
    specs = [
        type(bins)(bins.cuts, bins.unordered, bins.linear, tuple(names)),
        *model.transforms[1:],
    ]
    return LinearModel.from_weights(model.to_dense(), transforms=specs)


def as_attributes(rows):
    return [{f"attribute({name})": value for name, value in row.items()} for row in rows]


def linear_case():
    model = LinearModel.from_weights([0.7, -1.3, 0.01], models.NAMES)
    rows = [{name: value or 0.0 for name, value in row.items()} for row in numbers()]
    profile = export(named(model), "vespa").content.decode()
    case = {"expression": expression_of(profile), "rows": as_attributes(rows)}
    return case, Scorer(model).score(rows)


def tensor_case():
    model = LinearModel.from_weights([0.7, -1.3, 0.01], models.NAMES)
    rows = [{name: value or 0.0 for name, value in row.items()} for row in numbers()]
    exported = export(model, "vespa", ExportOptions(form="tensor"))
    expression = expression_of(exported.extra_files[".profile"].decode())
    (constant,) = re.findall(r"constant\(\w+\)", expression)
    case = {
        "expression": expression,
        "constants": {constant: json.loads(exported.content)},
        "rows": [{"attribute(features)": {"cells": row}} for row in rows],
    }
    return case, Scorer(model).score(rows)


def additive_case():
    model, _ = models.additive()
    profile = export(named(model), "vespa").content.decode()
    case = {"expression": expression_of(profile), "rows": as_attributes(numbers())}
    return case, Scorer(model).score(numbers())


def raw_case():
    model, _ = models.raw()
    rows = many(models.rows())
    profile = export(model, "vespa").content.decode()
    # A missing number is NaN and a missing text is empty, as in attributes of documents.
    filled = [{**row, "brand": row["brand"] or "", "rating": row["rating"] or 0.0} for row in rows]
    case = {"expression": expression_of(profile), "rows": as_attributes(filled)}
    return case, Scorer(model, unknown="zero").score(rows)


CASES = [linear_case, tensor_case, additive_case, raw_case]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    require_engine("vespa")
    path = tmp_path_factory.mktemp("vespa") / "cases.json"
    cases, expected = zip(*(case() for case in CASES), strict=True)
    path.write_text(json.dumps(cases))
    return dict(
        zip(CASES, zip(run_engine("vespa", "VespaRun", path), expected, strict=True), strict=True)
    )


@pytest.mark.parametrize("case", CASES)
def test_vespa_computes_the_same_scores(results, case, record_property):
    record_run(record_property, "vespa", "searchlib", case.__name__.removesuffix("_case"))
    scores, expected = results[case]
    assert len(scores) == 1000
    np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-6)


def test_scaling_within_lists_is_refused():
    with pytest.raises(ExportError):
        export(models.scaled_within_lists(), "vespa")
