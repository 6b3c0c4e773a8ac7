"""Reports and plots of models of tables."""

import numpy as np
import pytest

import rankine
from rankine import shop_log
from rankine.core.errors import ParameterError
from rankine.model.tables import tables_of
from rankine.report.judged import judge
from rankine.report.tables import pictures
from rankine.transforms.apply import score_dataset


@pytest.fixture(scope="module")
def fitted():
    data = shop_log(40, random_state=1)
    ranker = rankine.AdditiveRanker(
        smooth=1.0, pairs=2, categorical=["warehouse_id"], linear=["sku_parity"]
    )
    return ranker.fit(data).to_model(), data


def test_parts_of_all_tables_add_up_to_the_scores(fitted):
    model, data = fitted
    judged = judge(model, data)
    np.testing.assert_allclose(judged.features.sum(axis=1), score_dataset(model, data), atol=1e-12)
    np.testing.assert_allclose(judged.scores, score_dataset(model, data), atol=1e-12)


def test_a_report_shows_curves_and_grids(fitted):
    model, data = fitted
    made = rankine.report(model, data)
    assert "What has it learned?" in made.html
    shown = {one["name"]: one for one in made.figures["tables"]}
    assert {name for name, _ in tables_of(model).ranges()} - {"sku_parity"} == set(shown)
    curve = shown["price_log"]
    assert sum(curve["share"]) == pytest.approx(1.0)
    assert len(curve["places"]) == len(curve["values"])


def test_plots_of_tables(fitted):
    pytest.importorskip("matplotlib")
    model, data = fitted
    for one in pictures(tables_of(model)):
        assert rankine.plot.table(model, *one.columns, data=data).get_xlabel()
    with pytest.raises(ParameterError, match="no table of 'sku_parity'"):
        rankine.plot.table(model, "sku_parity")


def test_summary_and_notebook_name_columns(fitted):
    model, _ = fitted
    told = model.summary(3)
    assert told["kind"] == "additive"
    assert [one["name"] for one in told["top_weights"]] == [
        name for name, _ in tables_of(model).ranges()[:3]
    ]
    assert told["top_weights"][0]["name"] in model._repr_html_()
