"""The headline holds the numbers of ``rankine.compare``."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
from markupsafe import Markup

import rankine
from rankine import LinearModel
from rankine.evaluation.compare import System
from rankine.metrics import evaluate, parse_metric, random_expectation
from rankine.reporting.headline import (
    headline,
    headline_section,
    headline_tiles,
    resamples_for,
    summary,
    verdict_text,
)
from rankine.reporting.numbers import NONE
from rankine.reporting.run import evaluate_subject
from unit.reporting.report_cases import head, pair, random_data, shop, words
from unit.reporting.test_svg import Drawn

NDCG = parse_metric("ndcg@10")
#: An origin that knows nothing of the training data.
NOWHERE = SimpleNamespace(seen=[], trained_share=None, own_ids=False, training={})


def sizes(nnz=3, features=30, refused=None):
    model = SimpleNamespace(nnz=nnz, n_features=features, bins=None)
    data = SimpleNamespace(n_queries=20, n_rows=1000)
    return SimpleNamespace(model=model, data=data, refused=refused or {})


def test_the_headline_holds_the_numbers_of_compare(evaluated, scores):
    test = shop()[1]
    found = headline(evaluated, NDCG)
    assert found.kinds == ["model", "shown", "feature", "random"]
    feature = evaluated.opponents[2].scores
    systems = {"model": scores, "shown": -test.position.astype(float), "feature": feature}
    other = rankine.compare(systems, test, "ndcg@10", n_resamples=found.resamples)
    for mine, theirs in zip(found.systems, other.systems, strict=False):
        assert (mine.mean, mine.low, mine.high) == (theirs.mean, theirs.low, theirs.high)
    between = {(p.a, p.b): p for p in other.pairs}[("model", "shown")]
    assert found.pairs[0].difference == pytest.approx(-between.difference)
    assert found.pairs[0].low == pytest.approx(-between.high)
    assert (found.pairs[0].wins, found.pairs[0].losses) == (between.losses, between.wins)
    assert found.model.mean == evaluate("ndcg@10", test.y, scores, test.qid)
    assert found.systems[3].mean == pytest.approx(random_expectation("ndcg@10", test.y, test.qid))


def test_one_query_has_values_but_no_intervals():
    data = random_data(1, 12, 3)
    model = LinearModel.from_weights([1.0, 0.0, -1.0])
    found = headline(evaluate_subject(model, data), NDCG)
    assert found.queries == 1
    assert math.isnan(found.model.low)
    assert found.pairs == []
    assert found.model.mean == evaluate("ndcg@10", data.y, data.X @ [1.0, 0.0, -1.0])


def test_bootstrap_samples_are_affordable():
    assert resamples_for(5000) == 10_000
    assert resamples_for(100_000) == 500


def test_the_summary_names_all_opponents_except_the_feature():
    assert words(summary([head()])) == (
        "On 20 queries the model reaches NDCG@10 0.8000 (95 % interval 0.7500 to 0.8500): 0.2000 "
        "above the order as shown and 0.3000 above a random order."
    )
    three = words(summary([head(("against", "shown", "random"))]))
    assert ": 0.2000 above old.rankine , 0.1000 above the order as shown and 0.3000 above" in three
    alone = words(summary([head(("random",), (-0.2,))]))
    assert alone.endswith("0.8500): 0.2000 below a random order.")
    assert "): the same as a random order." in words(summary([head(("random",), (0.0,))]))
    doubt = head(("against",))
    doubt = replace(doubt, pairs=[pair("old.rankine", 0.1, significant=False)])
    assert " (could be chance)" in summary([doubt])
    assert "old.rankine" in words(summary([doubt]))
    single = replace(
        head(), systems=[System("model", 0.8, math.nan, math.nan)], pairs=[], queries=1
    )
    assert "interval" not in words(summary([single]))


def test_tiles_hold_three_metrics_the_weights_and_the_data():
    tiles = [words(one) for one in headline_tiles(sizes(), [head()] * 4)]
    assert tiles == [
        *[f"NDCG@10 0.8000 0.750 {NONE} 0.850"] * 3,
        "weights 3 of 30 features (10 %)",
        "data 20 queries 1,000 items",
    ]
    assert "(9.7 %)" in words(headline_tiles(sizes(29, 300), [])[0])
    assert "weights 0 of 0" in words(headline_tiles(sizes(0, 0), [])[0])
    assert "1 of 1 features (100 %)" in words(headline_tiles(sizes(1, 1), [])[0])
    single = replace(head(), systems=[System("model", 0.8, math.nan, math.nan)])
    assert words(headline_tiles(sizes(), [single])[0]) == "NDCG@10 0.8000"


def test_the_quality_section_warns_where_figures_mislead():
    seen = SimpleNamespace(**{**vars(NOWHERE), "seen": ["a.txt", "b.txt"]})
    unseen = NOWHERE
    body = words(headline_section(sizes(refused={"ndcg": "odd"}), [head()], seen).body)
    assert "trained on data of this report ( a.txt, b.txt )" in body
    assert "ndcg cannot be measured here: odd." in body
    body = words(headline_section(sizes(), [head()], unseen).body)
    for absent in (
        "too good",
        "cannot be measured",
        "A single query",
        "further metrics",
        "left out",
    ):
        assert absent not in body
    assert "NDCG@10 over 20 queries order" in body
    rows = "+0.2000 +0.1000 to +0.3000 better"
    assert rows in body
    one = replace(head(), queries=1, pairs=[])
    assert "A single query has a value" in words(headline_section(sizes(), [one], unseen).body)
    assert "A single query has" not in words(
        headline_section(sizes(), [replace(head(), queries=2)], unseen).body
    )
    left = replace(head(), skipped=3, larger_is_better=False)
    body = words(headline_section(sizes(), [left], unseen).body)
    assert ", 3 without a value left out (less is better)" in body


@pytest.mark.parametrize("larger", [True, False])
def test_the_best_of_further_metrics_stands_out(larger):
    more = replace(head(), larger_is_better=larger)
    single = replace(
        more, systems=[System(s.name, s.mean, math.nan, math.nan) for s in more.systems]
    )
    made = headline_section(sizes(), [head(), more, single], NOWHERE).body
    root = Drawn(Markup("<div>%s</div>") % made).root
    table = root.findall(".//table")[-1]
    for row in table.findall("tbody/tr"):
        means = [float(cell.text) for cell in row[1:]]
        best = max(means) if larger else min(means)
        chosen = ["best" in cell.attrib["class"] for cell in row[1:]]
        assert chosen == [mean == best for mean in means]
        assert ("less is better" in "".join(row[0].itertext())) != larger
    two = headline_section(sizes(), [head(), more], NOWHERE).body
    assert "further metrics model order as shown" in words(two)
    first, second = table.findall("tbody/tr")
    assert [cell.find("small").text for cell in first[1:]][:1] == ["0.750 to 0.850"]
    assert second[1].find("small") is None


def test_strips_stand_on_one_scale():
    made = headline_section(sizes(), [head()], NOWHERE).body
    drawn = Drawn(Markup("<div>%s</div>") % made)
    places = [one["x"] for one in drawn.of("column")]
    assert places[0] == max(places)
    assert places[3] == min(places)
    assert len(drawn.of("span")) == 4
    assert "order as shown: 0.6000, interval 0.5000 to 0.6000" in words(made)
    shown = drawn.root.find(".//thead/tr")
    assert [cell.attrib.get("class") for cell in shown] == [None, "wide", "n", "n", None]
    none = replace(head(), systems=[System(s.name, s.mean, math.nan, math.nan)
                                    for s in head().systems], pairs=[])  # fmt: skip
    bare = headline_section(sizes(), [none], NOWHERE).body
    assert Drawn(Markup("<div>%s</div>") % bare).of("span") == []
    assert "interval 0" not in words(bare)


def test_verdicts_have_words_and_colours():
    assert verdict_text(pair("a", 0.1)) == '<span class="good">better</span>'
    assert verdict_text(pair("a", 0.1, verdict="equivalent")) == (
        "<span>no relevant difference</span>"
    )
    assert verdict_text(pair("a", 0.1, verdict="else")) == "<span>else</span>"
