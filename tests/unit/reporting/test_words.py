"""What a page says about given numbers, word by word."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import rankine
from rankine import LinearModel
from rankine.core.safe_text import Html, join, tag
from rankine.core.specs import ListRange
from rankine.evaluation.compare import Pair, System
from rankine.reporting import page
from rankine.reporting.calibration import Bin, Calibration, calibration_section
from rankine.reporting.data import Histogram, _facts, data_section, data_summary, drift_section
from rankine.reporting.headline import (
    Headline,
    headline_section,
    headline_tiles,
    summary_words,
    verdict_of,
)
from rankine.reporting.judged import judge
from rankine.reporting.lists import ListItem, Ranked, lists_part
from rankine.reporting.origin import _parameters, _value, command_section, origin, origin_section
from rankine.reporting.page import MINUS, NONE, number, percent, plural, signed
from rankine.reporting.ranks import (
    Curve,
    Curves,
    Differences,
    Spread,
    curves_section,
    queries_section,
)
from rankine.reporting.training import training, training_section
from rankine.reporting.weights import (
    Group,
    SizeCurve,
    Weight,
    Weights,
    size_section,
    weights_section,
)
from unit.reporting.report_cases import random_data, words
from unit.reporting.test_svg import Drawn

PERCENT = "\N{NO-BREAK SPACE}%"


# ---------------------------------------------------------------------- the page
def test_numbers_are_short_and_exact_enough():
    read = {
        None: NONE, math.nan: NONE, math.inf: NONE, 0.0: "0.0000", 0.5: "0.5000", 0.001: "0.0010",
        0.00099: "0.00099", 9.5: "9.5000", 10.0: "10.00", 999.5: "999.50", 1000.0: "1e+03",
        -0.25: "-0.2500", -12.0: "-12.00", 123456.0: "1.23e+05",
    }  # fmt: skip
    assert {value: number(value) for value in read} == read
    assert (number(3.14159, 2), number(31.4, 3), number(31.4, 2)) == ("3.14", "31.4", "31")
    with_sign = {None: NONE, math.nan: NONE, 0.0: "+0.0000", 0.5: "+0.5000", -0.5: f"{MINUS}0.5000"}
    assert {value: signed(value) for value in with_sign} == with_sign
    assert (percent(0.125), percent(0.125, 1), percent(None), percent(math.nan)) == (
        f"12{PERCENT}", f"12.5{PERCENT}", NONE, NONE,
    )  # fmt: skip
    assert [plural(n, "query", "queries") for n in (0, 1, 1200)] == [
        "0 queries", "1 query", "1,200 queries",
    ]  # fmt: skip
    assert [plural(n, "item") for n in (1, 2)] == ["1 item", "2 items"]
    assert [page.shown(v) for v in (None, 0.1 + 0.2, 3, "a")] == ["none", "0.3", "3", "a"]


@pytest.mark.parametrize("columns", [page.STACKED, page.STACKED + 1])
@pytest.mark.parametrize("left", [1, 2])
def test_a_table_names_its_rows_and_marks_the_best(columns, left):
    header = [f"h{c}" for c in range(columns)]
    rows = [[f"{r}.{c}" for c in range(columns)] for r in range(2)]
    bold = frozenset({(0, 1), (1, columns - 1)})
    made = tag("div", page.table(header, rows, left=left, bold=bold, caption="All of it"))
    root = Drawn(made).root
    narrow = columns == page.STACKED
    assert root[-1].attrib["class"] == ("stack" if narrow else "scroll")
    assert words(made).startswith("All of it")
    numbers = ["n" if c >= left else None for c in range(columns)]
    assert [cell.attrib.get("class") for cell in root.find(".//thead/tr")] == numbers
    for r, row in enumerate(root.findall(".//tbody/tr")):
        assert [cell.text for cell in row] == rows[r]
        assert (row[0].tag, row[1].tag) == ("th", "td")
        for c, cell in enumerate(row[1:], 1):
            classes = [numbers[c], "best" if (r, c) in bold else None]
            assert cell.attrib.get("class", "").split() == [one for one in classes if one]
            assert cell.attrib.get("data-of") == (header[c] if narrow else None)
    assert "caption" not in page.table(header, rows)
    assert page.table([tag("b", "x"), "y"], [["a", "c"]]).count('data-of="y"') == 1
    assert page.table(["x", "y"], [["a", "c"]]).count('class="n"') == 2


def test_small_parts_of_a_page_are_left_out_where_they_are_empty():
    assert "more" not in page.tile("what", "1")
    assert words(page.tile("what", "1", "or less")) == "what 1 or less"
    assert page.figures(None, None) == ""
    assert page.figures(None, tag("i", "x")).count("<i>") == 1
    assert words(page.facts([("a", "b"), ("c", 1)])) == "a b c 1"
    bare = page.Section("x", "short", "Long", "", "body")
    made = page.make_report(
        "t", "k", ["sum"], [], [None, bare, replace(bare, id="y", lead="L")], {}
    )
    assert made.html.count('class="lead"') == 1
    assert made.html.count("<section") == 2
    assert 'class="tiles"' not in made.html
    assert made.figures == {"title": "t"}
    assert repr(made) == f"Report('t', {len(made.html) / 1000:,.0f} kB)"


# ---------------------------------------------------------------------- the headline
def pair(a, difference, *, significant=True, verdict="better"):
    return Pair(a, "model", difference, difference - 0.1, difference + 0.1, *[0.5] * 6, 3, 2, 1,
                significant, False, verdict)  # fmt: skip


def head(opponents=("shown", "feature", "random"), differences=(0.2, 0.1, 0.3), **changed):
    names = {"shown": "order as shown", "feature": "best single feature: x",
             "random": "random order", "against": "old.rankine"}  # fmt: skip
    systems = [System("model", 0.8, 0.75, 0.85)]
    systems += [System(names[k], 0.8 - d, 0.5, 0.6) for k, d in zip(opponents, differences)]  # noqa: B905
    pairs = [pair(names[k], d) for k, d in zip(opponents, differences)]  # noqa: B905
    made = Headline("ndcg@10", "NDCG@10", True, 20, 0, 100, ["model", *opponents], systems, pairs)
    return replace(made, **changed)


def test_the_first_sentence_tells_the_opponents_but_the_feature():
    assert words(join(summary_words([head()]))) == (
        "On 20 queries the model reaches NDCG@10 0.8000 (95 % interval 0.7500 to 0.8500): 0.2000 "
        "above the order as shown and 0.3000 above a random order."
    )
    told = summary_words([head(("against", "shown", "random"))])
    assert [part for part in told if part in (": ", ", ", " and ")] == [": ", ", ", " and "]
    alone = summary_words([head(("random",), (-0.2,))])
    assert ": " in alone
    assert " below " in alone
    assert "the same as " in summary_words([head(("random",), (0.0,))])
    doubt = head(("against",))
    doubt = replace(doubt, pairs=[pair("old.rankine", 0.1, significant=False)])
    assert " (not settled by this data)" in summary_words([doubt])
    assert "old.rankine" in words(summary_words([doubt]))
    single = replace(
        head(), systems=[System("model", 0.8, math.nan, math.nan)], pairs=[], queries=1
    )
    assert "interval" not in words(summary_words([single]))


def judged(nnz=3, features=30, refused=None):
    model = SimpleNamespace(nnz=nnz, n_features=features)
    data = SimpleNamespace(n_queries=20, n_rows=1000)
    return SimpleNamespace(model=model, data=data, refused=refused or {})


def test_tiles_hold_three_metrics_the_weights_and_the_data():
    tiles = [words(one) for one in headline_tiles(judged(), [head()] * 4)]
    assert tiles == [
        *[f"NDCG@10 0.8000 0.750 {NONE} 0.850"] * 3,
        "weights 3 of 30 features (10 %)",
        "data 20 queries 1,000 items",
    ]
    assert "(9.7 %)" in words(headline_tiles(judged(29, 300), [])[0])
    assert "weights 0 of 0" in words(headline_tiles(judged(0, 0), [])[0])
    assert "1 of 1 features (100 %)" in words(headline_tiles(judged(1, 1), [])[0])
    single = replace(head(), systems=[System("model", 0.8, math.nan, math.nan)])
    assert words(headline_tiles(judged(), [single])[0]) == "NDCG@10 0.8000"


def test_the_quality_section_warns_where_figures_mislead():
    seen = SimpleNamespace(seen=["a.txt", "b.txt"])
    unseen = SimpleNamespace(seen=[])
    body = words(headline_section(judged(refused={"ndcg": "odd"}), [head()], seen).body)
    assert "trained on data of this report ( a.txt, b.txt )" in body
    assert "ndcg cannot be measured here: odd." in body
    body = words(headline_section(judged(), [head()], unseen).body)
    for absent in ("flatter", "cannot be measured", "One query", "further metrics", "left out"):
        assert absent not in body
    assert "NDCG@10 over 20 queries order" in body
    rows = "+0.2000 +0.1000 to +0.3000 better"
    assert rows in body
    one = replace(head(), queries=1, pairs=[])
    assert "One query gives a value" in words(headline_section(judged(), [one], unseen).body)
    assert "One query gives" not in words(
        headline_section(judged(), [replace(head(), queries=2)], unseen).body
    )
    left = replace(head(), skipped=3, larger_is_better=False)
    body = words(headline_section(judged(), [left], unseen).body)
    assert ", 3 without a value left out (less is better)" in body


@pytest.mark.parametrize("larger", [True, False])
def test_the_best_of_further_metrics_stands_out(larger):
    more = replace(head(), larger_is_better=larger)
    single = replace(
        more, systems=[System(s.name, s.mean, math.nan, math.nan) for s in more.systems]
    )
    made = headline_section(judged(), [head(), more, single], SimpleNamespace(seen=[])).body
    root = Drawn(tag("div", made)).root
    table = root.findall(".//table")[-1]
    for row in table.findall("tbody/tr"):
        means = [float(cell.text) for cell in row[1:]]
        best = max(means) if larger else min(means)
        chosen = ["best" in cell.attrib["class"] for cell in row[1:]]
        assert chosen == [mean == best for mean in means]
        assert ("less is better" in "".join(row[0].itertext())) != larger
    two = headline_section(judged(), [head(), more], SimpleNamespace(seen=[])).body
    assert "further metrics model order as shown" in words(two)
    first, second = table.findall("tbody/tr")
    assert [cell.find("small").text for cell in first[1:]][:1] == ["0.750 to 0.850"]
    assert second[1].find("small") is None


def test_strips_stand_on_one_scale():
    made = headline_section(judged(), [head()], SimpleNamespace(seen=[])).body
    drawn = Drawn(tag("div", made))
    places = [one["x"] for one in drawn.of("column")]
    assert places[0] == max(places)
    assert places[3] == min(places)
    assert len(drawn.of("span")) == 4
    assert "order as shown: 0.6000, interval 0.5000 to 0.6000" in words(made)
    shown = drawn.root.find(".//thead/tr")
    assert [cell.attrib.get("class") for cell in shown] == [None, "wide", "n", "n", None]
    none = replace(head(), systems=[System(s.name, s.mean, math.nan, math.nan)
                                    for s in head().systems], pairs=[])  # fmt: skip
    bare = headline_section(judged(), [none], SimpleNamespace(seen=[])).body
    assert Drawn(tag("div", bare)).of("span") == []
    assert "interval 0" not in words(bare)


def test_verdicts_have_words_and_colours():
    assert verdict_of(pair("a", 0.1)) == '<span class="good">better</span>'
    assert verdict_of(pair("a", 0.1, verdict="equivalent")) == (
        "<span>no difference that matters</span>"
    )
    assert verdict_of(pair("a", 0.1, verdict="else")) == "<span>else</span>"


# ---------------------------------------------------------------------- data
def test_facts_of_the_data():
    data = random_data(8, 6, 3)
    found = data_summary(judge(LinearModel.from_weights(np.ones(3)), data))
    told = dict(_facts(found))
    assert told["features"] == "3, dense float64, 144 values"
    assert told["one label only"] == "0 queries without any pair"
    assert told["dead features"].startswith("none")
    assert told["counted by the reader"] == "no row skipped, no value replaced"
    assert not {
        "always zero",
        "constant",
        "constant within lists",
        "files",
        "further columns",
    } & set(told)
    for name, title in (("zero", "always zero"), ("constant", "constant"),
                        ("flat", "constant within lists")):  # fmt: skip
        one = replace(found, **{name: 2, f"{name}_names": ["a", "b"]})
        rows = dict(_facts(one))
        assert "dead features" not in rows
        assert words(tag("p", rows[title])).replace(" ,", ",") == "2 features: a, b"
    one = replace(found, without_pairs=2, without_value=1, no_relevant="skip", columns=["docid"],
                  sources=["x.txt"], notes={"rows_skipped": 7})  # fmt: skip
    rows = {key: words(tag("p", value)) for key, value in _facts(one)}
    assert rows["one label only"] == (
        "2 queries without any pair; 1 query without a relevant item are left out of the means"
    )
    assert (rows["further columns"], rows["files"]) == ("docid", "x.txt")
    assert rows["counted by the reader"] == "rows skipped : 7"
    rows = dict(_facts(replace(one, no_relevant="0")))
    assert rows["one label only"].endswith("count 0 in the means")
    assert dict(_facts(replace(one, no_relevant=None)))["one label only"].endswith("any pair")


def test_the_data_section_draws_labels_and_lengths():
    data = random_data(8, 6, 3)
    found = data_summary(judge(LinearModel.from_weights(np.ones(3)), data))
    named = replace(
        found, labels=Histogram(["0", "2"], [0, 1, 2], [30, 10]),
        length_quantiles=[2.0, 3.0, 4.0, 5.0, 9.0],
    )  # fmt: skip
    section = data_section(named)
    assert section.lead == (
        "48 items in 8 queries; lists hold 2 to 9 items, half of them 4 or fewer."
    )
    assert "75 % have label 0." in words(section.body)
    drawn = Drawn(tag("div", section.body))
    assert [tick["text"] for tick in drawn.of("tick mid")][:2] == ["0", "2"]
    real = replace(named, labels=Histogram([], [0.0, 0.5, 1.0], [3, 4]))
    assert "Items by label, in equal intervals" in words(data_section(real).body)


def test_drift_says_what_is_above_its_limit():
    cells = [["a"] * 6]
    quiet = SimpleNamespace(alarms=[], cells=lambda: cells)
    loud = SimpleNamespace(alarms=["a is new", "b is gone"], cells=lambda: cells)
    assert "Nothing is above its limit." in words(drift_section(quiet).body)
    assert "a is new. b is gone." in words(drift_section(loud).body)
    assert "Nothing" not in words(drift_section(loud).body)


# ---------------------------------------------------------------------- weights
def learned(n_positive=2, n_negative=1, **changed):
    positive = [Weight(f"p{k}", k, 2.0 - k / 10, 1.0 - k / 10) for k in range(n_positive)]
    negative = [Weight(f"n{k}", 9, -0.5, -0.25) for k in range(n_negative)]
    n = n_positive + n_negative
    shares = [(k, k / max(n, 1)) for k in range(1, n + 1)]
    made = Weights(10, n, positive, negative, [], shares, 0, 1, 2)
    return replace(made, **changed)


def test_weights_are_bars_on_one_scale():
    section = weights_section(learned(), "Meaning.")
    assert section.lead == "3 features of 10 have a weight. Meaning."
    drawn = Drawn(tag("div", section.body))
    assert [bar["width"] for bar in drawn.of("column plus")] == [100, 90]
    assert [bar["width"] for bar in drawn.of("column minus")] == [25]
    told = words(section.body)
    assert "The 2 strongest features of this sign. More of such" in told
    assert "The 1 strongest features of this sign. Less of such" in told
    assert f"n0 {MINUS}0.250 {MINUS}0.500" in told.replace("n0: -0.25 ", "")
    assert "How many features decide" in told
    assert "half of it lies in 1 feature, nine tenths in 2." in told
    assert "By source column" not in told
    assert "decide nothing" not in told


def test_few_weights_are_told_as_such():
    one = weights_section(learned(1, 0), "Meaning.")
    assert one.lead.startswith("1 feature of 10 has a weight.")
    assert "Lowers the score" not in words(one.body)
    assert "How many features decide" not in words(one.body)
    assert "How many" not in words(weights_section(learned(1, 1), "Meaning.").body)
    none = weights_section(learned(0, 0), "Meaning.")
    assert "All weights are zero" in words(none.body)
    assert "1 weight belongs to features" in words(weights_section(learned(idle=1), "M").body)
    assert "2 weights belong to features" in words(weights_section(learned(idle=2), "M").body)


def test_columns_and_concentration_are_drawn():
    groups = [Group("brand", 2, 3.0, 0.75), Group("price", 1, 1.0, 0.25)]
    body = weights_section(learned(groups=groups), "M").body
    drawn = Drawn(tag("div", body))
    assert [bar["width"] for bar in drawn.of("column model")][:2] == [100, pytest.approx(33.33)]
    assert "brand 2 weights" in words(body)
    assert "75 %" in words(body)
    for largest, dots in ((40, True), (41, False)):
        along = [(k, k / largest) for k in range(1, largest + 1)]
        body = weights_section(learned(concentration=along), "M").body
        drawn = Drawn(tag("div", body))
        assert (len(drawn.of("dot")) == largest) == dots
    for largest, powers in ((60, False), (61, True)):
        body = weights_section(
            learned(concentration=[(1, 0.2), (9, 0.6), (largest, 1.0)]), "M"
        ).body
        ticks = [tick["text"] for tick in Drawn(tag("div", body)).of("tick mid")]
        assert (ticks[0] == "1") == powers
    assert "9 features: 60.0 %" in words(body)


@pytest.mark.parametrize(("largest", "powers"), [(12, False), (13, True)])
def test_quality_against_size_has_a_rule_at_the_whole_model(largest, powers):
    found = SizeCurve("map", [1, 4, largest], [0.2, 0.7, 0.6], 4)
    section = size_section(found, "MAP")
    drawn = Drawn(tag("div", section.body))
    (rule,) = drawn.of("rule soft")
    dots = drawn.of("dot")
    assert rule["y1"] == dots[-1]["cy"]
    assert f"With 4 weights of {largest} it stays" in words(section.body)
    assert "0.600 (dashed)" in words(section.body)
    assert dots[0]["text"] == "1 weight: 0.2000"
    ticks = [tick["text"] for tick in drawn.of("tick mid")]
    assert ("1" in ticks and "10" in ticks) == powers


# ---------------------------------------------------------------------- gaps, depths, queries
def test_a_gap_of_scores_stands_for_a_share():
    bins = [Bin(0.5, 0.6, 0.5, 0.7, 1000), Bin(2.0, 0.9, 0.8, 0.95, 1001)]
    section = calibration_section(Calibration(bins, math.log(9) / 2.5, 0.75, 2001, 0, True))
    told = words(section.body)
    assert "A gap of 2.50 stands for 90 %" in told
    assert "(all pairs, 2,001; right in 75.0 % of them)" in told
    assert "gap 2: 90.0 % of 1,001 pairs" in told
    section = calibration_section(Calibration(bins, 0.0, 0.5, 2001, 0, False))
    assert "stands for" not in words(section.body)
    assert "a random sample of pairs" in words(section.body)
    drawn = Drawn(tag("div", section.body))
    assert [tick["text"] for tick in drawn.of("tick end")][-1] == "1"


def test_depths_are_drawn_with_their_ticks():
    found = Curves("ndcg", "NDCG", [1, 2, 3, 4, 5], [
        Curve("model", "mine", [0.5, 0.6, 0.7, 0.75, 0.8], [0.4] * 5, [0.9] * 5),
        Curve("random", "random order", [0.2, 0.3, 0.4, 0.5, 0.5]),
    ])  # fmt: skip
    assert curves_section([]) is None
    body = curves_section([found]).body
    told = words(body)
    assert "from 0.500 at k = 1 to 0.800 at k = 5" in told
    assert "the ideal order" in told
    assert "mine: NDCG@5 0.8000" in told
    drawn = Drawn(tag("div", body))
    assert [tick["text"] for tick in drawn.of("tick mid")] == ["1", "3", "5"]
    assert drawn.of("chart")[0]["aria-label"] == "NDCG at depths 1 to 5 of every order"
    assert len(drawn.of("band model")) == 1
    last = [one["class"] for one in drawn.of("line", "polyline")]
    assert last == ["line random", "line model"]  # the model in front
    named = ["".join(item.itertext()).strip() for item in drawn.root.iter("li")]
    assert named == ["mine", "random order"]
    other = words(curves_section([replace(found, metric="err", title="ERR")]).body)
    assert "Height: ERR of the first k items." in other


def test_histograms_of_queries_are_told():
    spread = Spread("map", [0.0, 0.5, 1.0], [1, 3], 0.6, [0.1, 0.2, 0.65, 0.8, 0.95], 1, 4)
    gaps = Differences("map", "old", [-1.0, -0.3, 0.3, 1.0], [1, 2, 5], 5, 2, 1)
    section = queries_section(spread, gaps, "MAP", tag("p", "lists"))
    assert section.lead.endswith("MAP is 0.100 or less, on the best tenth 0.950 or more.")
    told = words(tag("div", section.body))
    assert "mean (0.600), the median is 0.650. 1 query of 4 (25 %) has exactly 0." in told
    assert "Model minus old , query by query: 5 better, 2 equal, 1 worse." in told
    assert told.endswith("lists")
    drawn = Drawn(tag("div", section.body))
    assert len(drawn.of("column against")) == 1
    assert len(drawn.of("rule soft")) == 2
    none = words(tag("div", queries_section(replace(spread, zeros=0), gaps, "MAP", "").body))
    assert "0 queries of 4 (0 %) have exactly 0." in none


def inside(element):
    return words(" ".join(element.itertext()))


# ---------------------------------------------------------------------- lists
def ranked(query, labels=(2.0, 1.0, 0.0), **changed):
    left = [
        ListItem(k, f"d{k}", label, 0.5 - k, [("price", 0.25), ("age", -0.5)] if k == 1 else ())
        for k, label in enumerate(labels, 1)
    ]
    right = [ListItem(k, f"e{k}", label, None) for k, label in enumerate(labels, 1)]
    made = Ranked(query, "", 0.25, None, 1200, labels, left, "ideal order", right)
    return replace(made, **changed)


def test_lists_unfold_the_first_of_each_group_and_mark_labels():
    groups = [("None", []), ("Worst", [ranked("q1"), ranked("q2")]), ("Best", [ranked("q3")])]
    made = lists_part(groups, "MAP")
    root = Drawn(tag("div", Html(made.replace("<details open>", '<details open="">')))).root
    assert [head.text for head in root.findall("h3")] == ["Worst", "Best"]
    assert ["open" in one.attrib for one in root.findall("details")] == [True, False, True]
    assert len(root.findall("figcaption")) == 1
    assert lists_part([("None", [])], "MAP") == ""
    first = root.find("details")
    assert inside(first.find("summary")) == "Query q1 MAP 0.250 1,200 items"
    left, right = first.findall("div/div")
    kinds = [
        span.attrib["class"] for span in left.findall(".//span") if "label" in span.attrib["class"]
    ]
    assert kinds == ["label high", "label some", "label"]
    assert [cell.text for cell in left.findall("table/tbody/tr/td")[:1]] == ["1"]
    assert len(left.findall("table/thead/tr/th")) == 4
    assert len(right.findall("table/thead/tr/th")) == 3
    assert left.findall("table/thead/tr/th")[2].attrib["class"] == "n"
    terms = left.findall(".//div[@class='terms']")
    assert len(terms) == 1
    assert [one.attrib["class"] for one in terms[0]] == ["plus", "minus"]
    assert inside(terms[0]) == f"price +0.25 age {MINUS}0.50"
    assert right.findall(".//div[@class='terms']") == []


def test_a_list_tells_its_words_and_the_other_value():
    told = words(lists_part([("x", [ranked("q1", text="red shoe", other_value=0.5)])], "MAP"))
    assert "“red shoe” MAP 0.250 other 0.500 1,200 items" in told
    assert "label high" in lists_part([("x", [ranked("q1", labels=(1.0, 0.0))])], "MAP")
    flat = lists_part([("x", [ranked("q1", labels=(0.0, 0.0))])], "MAP")
    assert "label high" not in flat
    assert "label some" not in flat


# ---------------------------------------------------------------------- origin and training
def test_the_origin_tells_what_the_file_remembers():
    bare = origin(LinearModel.from_weights([1.0]))
    told = words(origin_section(bare, None).body)
    assert "ranker unknown" in told
    assert "none recorded" in told
    for absent in ("Train it again", "Make this page again", "trained with", "before the weights"):
        assert absent not in told
    parameters = {"ranker": "least-squares", "l2": 0.5, "scale": "standard", "metric": "ndcg@10"}
    story = {"rows": 1234, "sources": ["a.txt"], "empty": "", "nothing": None, "list": []}
    model = LinearModel.from_weights(
        [1.0], transforms=(ListRange(),), parameters=parameters,
        provenance={"rankine": "0.3", "training": story},
    )  # fmt: skip
    data = SimpleNamespace(sources=("b.txt", "a.txt"))
    found = origin(model, data)
    assert found.seen == ["a.txt"]
    assert origin(model).seen == []
    told = words(origin_section(found, "rankine report x").body)
    for part in ("ranker least-squares", "trained with rankine 0.3", "rows 1,234", "sources a.txt",
                 "before the weights list_range", "Make this page again rankine report x",
                 "Train it again rankine train a.txt", "at their defaults", model.digest,
                 f"rankine {rankine.__version__}"):  # fmt: skip
        assert part in told
    for absent in ("empty", "nothing", "unknown"):
        assert absent not in told
    named = dict(_parameters(found))
    usual = {key for key, value in parameters.items() if found.defaults.get(key) == value}
    assert usual
    assert set(named) == {*parameters, "at their defaults"} - {"ranker"} - usual
    assert all(f"{key} = " in words(named["at their defaults"]) for key in usual)
    strange = replace(found, defaults={}, parameters={"new": 1})
    assert list(dict(_parameters(strange))) == ["new"]


def test_values_of_parameters_are_words():
    shown = {
        True: "True", None: "none", "text": "text", 12345: "12,345", 0.1: "0.1",
    }  # fmt: skip
    for value, expected in shown.items():
        assert words(_value(value)) == expected
    assert words(_value([1, None, 0.5])) == "1, none, 0.5"
    assert words(_value(list(range(30)))).endswith(", 19")
    assert words(_value({"a": 1, "b": None})) == "a: 1, b: none"
    assert words(_value(1j)) == "1j"


def test_pages_without_a_model_show_command_and_notes():
    assert command_section(None) == []
    (section,) = command_section("rankine compare a b", lead="Rules.")
    assert words(section.body) == "Make this page again rankine compare a b"
    assert section.lead == "Rules."
    (section,) = command_section(None, notes=[tag("p", "Mind this")])
    assert words(section.body) == "Mind this"


def story(**held):
    model = LinearModel.from_weights([1.0], provenance=held, metric="map")
    return training_section(training(model))


def test_facts_of_the_training():
    proof = {"relative_gap": 0.25, "steps": 3000.0, "odd": "x"}
    told = words(story(n_iter=1200, stop_reason="converged", certificate=proof).body)
    assert told == (
        "steps or iterations 1,200 ended when the tolerance was met relative gap 0.250000 "
        "steps 3,000"
    )
    assert "ended by a thunderbolt" in words(story(stop_reason="by_a_thunderbolt").body)
    assert words(story(certificate={"big": 1e15}).body) == "big 1e+15"
    assert words(story(certificate={"big": -1e14}).body) == "big -100,000,000,000,000"


def axes(section, title):
    """The figure of this title, and its ticks across and up."""
    root = Drawn(tag("div", section.body)).root
    (figure,) = [one for one in root.iter("figure") if one.find("h3").text == title]
    ticks = [one for one in figure.iter("text") if "tick" in one.attrib["class"]]
    across = [one.text for one in ticks if "mid" in one.attrib["class"]]
    up = [one.text for one in ticks if "end" in one.attrib["class"]]
    return figure, across, up


def test_the_objective_is_logarithmic_where_it_falls_far():
    for last, log in ((1.0, False), (0.99, True)):
        trace = {"iteration": [1, 2], "objective": [50.0, last]}
        figure, _, up = axes(story(trace=trace), "Objective")
        assert log == ("0" not in up)
    figure, _, up = axes(story(trace={"step": [1, 2], "objective": [9.0, -1.0]}), "Objective")
    assert "penalty included. Read: it should fall and level off." in inside(figure)
    assert axes(story(trace={"step": [1, 2], "objective": [9.0, 0.0]}), "Objective")
    full = {"step": [1, 2], "objective": [3.0, 2.0], "lower_bound": [0.5, 1.0],
            "eval_objective": [4.0, 3.5]}  # fmt: skip
    told = inside(axes(story(trace=full), "Objective")[0])
    assert "; the lower bound proves how low it can go; on held-out data it should not rise" in told
    assert len(axes(story(trace=full), "Objective")[0].findall(".//polyline")) == 3
    for last, log in ((300, False), (301, True)):
        trace = {"step": [1, last], "objective": [3.0, 2.0]}
        _, across, _ = axes(story(trace=trace), "Objective")
        assert ("1" in across) == log
    _, across, _ = axes(story(trace={"step": [0, 900], "objective": [3.0, 2.0]}), "Objective")
    assert "0" in across


def test_curves_leave_out_what_is_not_known():
    assert story(trace={"step": [1, 2], "lower_bound": [1.0, 2.0]}) is None
    assert story(trace={"step": [1, 2], "objective": [None, None]}) is None
    assert story(trace={"step": [1, 2], "gap": [0.0, -1.0]}) is None
    figure, _, _ = axes(story(trace={"step": [1, 2, 3, 4], "gap": [0.0, 1.0, None, 0.1]}), "Gap")
    assert len(figure.findall(".//circle")) == 2
    for n, dots in ((40, 40), (41, 0)):
        trace = {"sweep": list(range(n)), "objective": [float(n - k) for k in range(n)]}
        figure, _, _ = axes(story(trace=trace), "Objective")
        assert len(figure.findall(".//circle")) == dots
        assert "sweeps over the features" in inside(figure)


def test_progressive_validation_needs_two_values():
    trace = {"lists": [5, 9], "progressive_map": [None, 0.1], "progressive_loss": [0.4, 0.3],
             "progressive_ndcg": [0.3, 0.4]}  # fmt: skip
    section = story(trace=trace)
    assert "Progressive map" not in words(section.body)
    assert "it should fall." in inside(axes(section, "Progressive loss")[0])
    assert "it should rise and level off." in inside(axes(section, "Progressive ndcg")[0])
    assert story(validation={"step": [1], "value": [0.3]}) is None
    told = words(story(validation={"step": [1, 2], "value": [0.3, 0.4]}).body)
    assert "map on held-out queries while training went on" in told
