"""Models to look at: summaries, notebooks, tables of explanations, each against its words."""

import re
from dataclasses import replace

import numpy as np
import pytest

from rankine.core.specs import Bins, ListRange, LogColumns, MissingValues, OneHot
from rankine.model import LinearModel, ModelBundle
from rankine.model.explain import Contribution, Explanation
from rankine.model.show import summary_text, weights_html


@pytest.mark.parametrize("weights", [[], [0.0], [2.0], [3.0, 0.0, -4.0]])
def test_a_summary_holds_the_definitions(weights):
    model = LinearModel.from_weights(weights, metric="map")
    told = model.summary(1)
    w = np.array(weights)
    assert told["zero_percent"] == round(100 * np.mean(w == 0) if weights else 100.0, 3)
    assert told["l1_norm"] == np.abs(w).sum()
    assert told["l2_norm"] == np.linalg.norm(w)
    assert told["probes"] == (4 if w.any() else 0)
    assert (told["nnz"], told["n_features"]) == (np.count_nonzero(w), len(w))
    best = int(np.argmax(np.abs(w))) if w.any() else None
    expected = [] if best is None else [{"name": str(best + 1), "index": best, "weight": w[best]}]
    assert told["top_weights"] == expected


def test_a_summary_as_text():
    model = LinearModel.from_weights(
        [1.0, -20.5, 0.0, 3.0],
        ["a", "longer", "zero", "b"],
        metric="map",
        transforms=(MissingValues("mean", (1,), (2.5,)), ListRange()),
        parameters={"ranker": "spd"},
    )
    assert summary_text(model.summary(2)).splitlines() == [
        "linear model, 3 of 4 features weighted",
        f"digest      {model.digest}",
        "metric      map",
        "transform   missing_values rule=mean, columns=[1], values=[2.5]",
        "transform   list_range",
        "parameters  ranker = spd",
        "",
        "longer  -20.5",
        "b          +3",
        "(1 more weights)",
    ]
    assert "more" not in summary_text(model.summary(3))
    unknown = LinearModel.from_weights([0.0])
    assert "metric" not in summary_text(unknown.summary())


def test_a_bundle_as_text_and_html():
    bundle = ModelBundle.from_weights(
        {f"topic {k}" + "!" * k: [1.0] * k + [0.0] * (9 - k) for k in range(9)}
    )
    lines = summary_text(bundle.summary(2)).splitlines()
    assert lines[-4:] == [
        "",
        "topic 0   0 weights",
        "topic 1!  1 weights",
        "(7 more topics)",
    ]
    assert "more topics" not in summary_text(bundle.summary(9))
    assert [one["nnz"] for one in bundle.summary()["topics"]] == list(range(9))
    html = bundle._repr_html_()
    assert "36 over 9 features" in html
    assert bundle.digest[:16] in html
    assert "and 1 more" in html


@pytest.mark.parametrize("count", [0, 1, 8, 9])
def test_bars_of_weights_are_in_proportion_and_signed(count):
    values = np.array([(-1) ** k * (k + 1.0) for k in range(count)])
    html = weights_html([f"w{k}" for k in range(count)], values)
    shown = sorted(range(count), key=lambda k: -abs(values[k]))[:8]
    assert re.findall(r"<bdi>w(\d+)</bdi> ([+-]\d)", html) == [
        (str(k), f"{values[k]:+.4g}") for k in shown
    ]
    bars = re.findall(r"background:(#\w+);width:(\d+)px", html)
    assert [int(width) for _, width in bars] == [
        max(1, round(120 * abs(values[k]) / count)) for k in shown
    ]
    assert [colour for colour, _ in bars] == [
        "#2f6fab" if values[k] > 0 else "#c2570c" for k in shown
    ]
    assert html.count("<br>") == max(len(shown) - 1, 0) + (count > 8)
    assert ("and 1 more" in html) == (count == 9)
    assert ("more" in html) == (count == 9)
    assert (html == "none") == (count == 0)


def test_notebooks_name_what_there_is():
    model = LinearModel.from_weights(
        [1.0, 0.0], transforms=(ListRange(),), metric="map", parameters={"ranker": "spd"}
    )
    html = model._repr_html_()
    for words in ("1 of 2 features", "spd", "map", "ListRange", model.digest[:16]):
        assert words in html
    assert model.digest[:17] not in html
    plain = LinearModel.from_weights([1.0])._repr_html_()
    assert plain.count("unknown") == 2
    assert ">none<" in plain
    flat = LinearModel.from_weights(np.zeros(3), transforms=(Bins(((0.5,),)),))
    assert "+0 " in flat._repr_html_()
    assert "#2f6fab" in flat._repr_html_()


def test_columns_of_an_explanation_are_aligned():
    terms = (
        Contribution("bm25", 0, 0.5, 2.0, 1.0, 0.5),
        Contribution("price x age", 1, -1.25, None, None, -1.25, "a cell", "another"),
        Contribution("age", 2, 100000.0, 3.0, 3.0001, -10.0),
    )
    found = Explanation(-10.75, terms, pair=True)
    lines = found.text(2).splitlines()
    assert [len(line) for line in lines] == [len(lines[0])] * 5
    assert lines[0].split() == ["feature", "weight", "a", "b", "contribution"]
    assert [line.split("  ")[0] for line in lines[1:]] == [
        "bm25",
        "price x age",
        "(1 more)",
        "score of a - score of b",
    ]
    assert lines[1].split()[1:] == ["0.5", "2", "1", "+0.5"]
    assert lines[2].split()[3:] == ["-1.25", "a", "cell", "another", "-1.25"]
    assert (lines[3].split()[-1], lines[4].split()[-1]) == ("-10", "-10.75")
    single = Explanation(0.5, (replace(terms[0], other=None),)).text().splitlines()
    assert single[0].split() == ["feature", "weight", "value", "contribution"]
    assert single[-1].split() == ["score", "+0.5"]
    pair, alone = found.to_dict(), Explanation(0.5, terms[:2]).to_dict(2)
    assert pair["contributions"][0]["other"] == 1.0
    assert [sorted(set(one) & {"other", "where"}) for one in alone["contributions"]] == [
        [],
        ["where"],
    ]
    assert (pair["rest"], pair["rest_count"]) == (0.0, 0)


def test_the_values_of_columns_are_counted_by_column():
    log = LogColumns(one_hot=(OneHot("brand", tuple("abcdefg")), OneHot("colour", ("red",))))
    model = LinearModel.from_weights([1.0] * log.n_features, transforms=(log,))
    text = " ".join(summary_text(model.summary()).split())
    assert (
        "one_hot=[(column=brand, values=7 values, the last g), (column=colour, values=[red])]"
        in text
    )
    long = {"x" * 90: "y" * 90, "z" * 90: 1}
    model = LinearModel.from_weights([1.0], provenance={"a": [long]})
    assert "a = [2 entries]" in summary_text(model.summary())
