"""Weights, groups and the size curve equal what is computed directly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from markupsafe import Markup

from rankine import Dataset, LinearModel
from rankine.core.specs import Binned, LogColumns, OneHot
from rankine.metrics import evaluate, parse_metric
from rankine.reporting.numbers import MINUS
from rankine.reporting.run import evaluate_subject
from rankine.reporting.weights import (
    Group,
    SizeCurve,
    Weight,
    Weights,
    size_curve,
    size_section,
    source_of,
    weights,
    weights_section,
)
from unit.reporting.report_cases import random_data, shop, words
from unit.reporting.test_svg import Drawn

NDCG = parse_metric("ndcg@10")


def learned(n_positive=2, n_negative=1, **changed):
    positive = [Weight(f"p{k}", k, 2.0 - k / 10, 1.0 - k / 10) for k in range(n_positive)]
    negative = [Weight(f"n{k}", 9, -0.5, -0.25) for k in range(n_negative)]
    n = n_positive + n_negative
    shares = [(k, k / max(n, 1)) for k in range(1, n + 1)]
    made = Weights(10, n, positive, negative, [], shares, 0, 1, 2)
    return replace(made, **changed)


def test_features_of_one_column_are_grouped():
    model = LinearModel.from_weights(
        [1.0, -2.0, 3.0, 0.5], ["brand=acme", "brand=zeta", "price", "brand=acme x size=9"]
    )
    found = weights(model, model.values)
    groups = {group.column: (group.weights, group.effect) for group in found.groups}
    assert groups == {"brand": (2, 3.0), "price": (1, 3.0), "brand x size": (1, 0.5)}
    assert sum(group.share for group in found.groups) == pytest.approx(1.0)
    spec = LogColumns(("price",), (OneHot("shop", ("a=b", "c")),), ("brand",), (), 4)
    log = LinearModel.from_weights(np.ones(19), transforms=(spec,))
    assert [source_of(log, "?", j) for j in (0, 1, 2)] == ["price", "shop", "shop"]
    assert source_of(log, "brand=x", 5) == "brand"
    assert source_of(log, "hash:3", 6) == "hashed (value unknown)"


def test_the_size_curve_measures_models_of_the_strongest_weights(evaluated, scores):
    test = shop()[1]
    found = size_curve(evaluated, NDCG)
    assert (found.sizes[0], found.sizes[-1]) == (1, evaluated.model.nnz)
    strongest = evaluated.model.indices[np.argmax(np.abs(evaluated.effect))]
    alone = evaluated.model.to_dense()[strongest] * test.X[:, strongest]
    assert found.values[0] == evaluate(NDCG, test.y, alone, test.qid)
    assert found.values[-1] == evaluate(NDCG, test.y, scores, test.qid)
    values = dict(zip(found.sizes, found.values, strict=True))
    assert values[found.enough] >= 0.99 * found.values[-1]


def test_weights_without_effect_have_no_share():
    model = LinearModel.from_weights([1.0, -2.0, 3.0], ["x=1", "x=2", "y"])
    found = weights(model, np.zeros(3))
    assert (found.idle, found.for_half, found.for_most) == (3, 0, 0)
    assert [share for _, share in found.concentration] == [0.0, 0.0, 0.0]
    assert {group.share for group in found.groups} == {0.0}
    for unit in (1.0, 0.01):
        effect = unit * np.array([4.0, -1.0])
        plain = weights(LinearModel.from_weights([1.0, -2.0]), effect)
        assert [w.name for w in (*plain.positive, *plain.negative)] == ["feature 1", "feature 2"]
        assert plain.concentration == [(1, pytest.approx(0.8)), (2, pytest.approx(1.0))]
        assert (plain.for_half, plain.for_most, plain.idle) == (1, 2, 0)
        grouped = weights(LinearModel.from_weights([1.0, -2.0], ["x=1", "x=2"]), effect).groups
        assert [(group.effect, group.share) for group in grouped] == [
            (pytest.approx(5 * unit), pytest.approx(1.0))
        ]
    alone = weights(LinearModel.from_weights([0.0, 2.0]), np.array([3.0]))
    assert alone.concentration == [(1, 1.0)]
    many = weights(LinearModel.from_weights(np.arange(1.0, 41)), np.arange(1.0, 41))
    assert [w.weight for w in many.positive] == np.arange(40.0, 28, -1).tolist()
    assert many.concentration[0] == (1, pytest.approx(40 / 820))
    wide = [f"c{k}={v}" for k in range(20) for v in "ab"]
    groups = weights(LinearModel.from_weights(np.arange(1.0, 41), wide), np.arange(1.0, 41)).groups
    assert [group.column for group in groups] == [f"c{k}" for k in range(19, 4, -1)]
    assert groups[0].share == pytest.approx(79 / 820)


def test_features_of_binned_columns_have_their_source():
    spec = LogColumns(("price",), (OneHot("shop", ("a", "b")),), ("brand",), (), 2, (),
                      (Binned("age", (1.0,)), Binned("n", ())))  # fmt: skip
    model = LinearModel.from_weights(np.ones(spec.n_features), transforms=(spec,))
    sources = [source_of(model, "hash:1", j) for j in range(spec.n_features)]
    assert sources == ["price", "shop", "shop", *["age"] * 3, "n", "n",
                       *["hashed (value unknown)"] * 4]  # fmt: skip
    assert source_of(LinearModel.from_weights([1.0]), "7", 0) == "7"


@pytest.mark.parametrize("metric", ["p@1", "pairwise_error"])
def test_enough_is_the_smallest_size_within_one_percent(metric):
    data = random_data(6, 5, 30)
    y = (data.X[:, 0] > 0) * 1.0
    data = Dataset.from_arrays(data.X, y, data.qid)
    weights_of = np.r_[100.0 if metric == "pairwise_error" else -100.0, np.full(29, 1e-3)]
    evaluated = evaluate_subject(LinearModel.from_weights(weights_of), data)
    found = size_curve(evaluated, parse_metric(metric))
    assert found.values[-1] == 0.0
    assert found.enough == 1
    assert found.sizes == sorted({*np.geomspace(1, 30, 12).round().astype(int).tolist(), 30})
    noisy = Dataset.from_arrays(data.X, random_data(6, 5, 30, seed=5).y, data.qid)
    evaluated = evaluate_subject(LinearModel.from_weights(np.linspace(-1, 1, 30)), noisy)
    for other in (parse_metric("ndcg@5"), parse_metric("pairwise_error")):
        found = size_curve(evaluated, other)
        last = found.values[-1]
        good = [
            (v >= 0.99 * last) if other.larger_is_better else (v <= 1.01 * last)
            for v in found.values
        ]
        assert found.enough == found.sizes[good.index(True)]
    one = evaluate_subject(LinearModel.from_weights([2.0]), random_data(2, 3, 1))
    assert size_curve(one, NDCG).sizes == [1]
    assert (
        size_curve(evaluate_subject(LinearModel.from_weights([0.0]), random_data(2, 3, 1)), NDCG)
        is None
    )


def test_weights_are_bars_on_one_scale():
    section = weights_section(learned(), effects=True)
    assert section.lead.startswith("3 features of 10 have a weight. A bar is the weight times")
    drawn = Drawn(Markup("<div>%s</div>") % section.body)
    assert [bar["width"] for bar in drawn.of("column plus")] == [100, 90]
    assert [bar["width"] for bar in drawn.of("column minus")] == [25]
    told = words(section.body)
    assert "The 2 strongest features of this sign. More of such" in told
    assert "The 1 strongest features of this sign. More of such" in told
    assert f"n0 {MINUS}0.250 {MINUS}0.500" in told.replace("n0: -0.25 ", "")
    assert "How many features decide" in told
    assert "half of it is in 1 feature, nine tenths in 2." in told
    assert "By source column" not in told
    assert "have no effect here" not in told


def test_texts_about_few_weights_are_singular_or_left_out():
    one = weights_section(learned(1, 0), effects=False)
    assert one.lead.startswith("1 feature of 10 has a weight.")
    assert "Lowers the score" not in words(one.body)
    assert "How many features decide" not in words(one.body)
    assert "How many" not in words(weights_section(learned(1, 1), effects=False).body)
    none = weights_section(learned(0, 0), effects=False)
    assert "All weights are zero" in words(none.body)
    assert "1 weight belongs to features" in words(
        weights_section(learned(idle=1), effects=True).body
    )
    assert "2 weights belong to features" in words(
        weights_section(learned(idle=2), effects=True).body
    )


def test_columns_and_concentration_are_drawn():
    groups = [Group("brand", 2, 3.0, 0.75), Group("price", 1, 1.0, 0.25)]
    body = weights_section(learned(groups=groups), effects=True).body
    drawn = Drawn(Markup("<div>%s</div>") % body)
    assert [bar["width"] for bar in drawn.of("column model")][:2] == [100, pytest.approx(33.33)]
    assert "brand 2 weights" in words(body)
    assert "75 %" in words(body)
    for largest, dots in ((40, True), (41, False)):
        along = [(k, k / largest) for k in range(1, largest + 1)]
        body = weights_section(learned(concentration=along), effects=True).body
        drawn = Drawn(Markup("<div>%s</div>") % body)
        assert (len(drawn.of("dot")) == largest) == dots
    for largest, powers in ((60, False), (61, True)):
        body = weights_section(
            learned(concentration=[(1, 0.2), (9, 0.6), (largest, 1.0)]), effects=True
        ).body
        ticks = [tick["text"] for tick in Drawn(Markup("<div>%s</div>") % body).of("tick mid")]
        assert (ticks[0] == "1") == powers
    assert "9 features: 60.0 %" in words(body)


@pytest.mark.parametrize(("largest", "powers"), [(12, False), (13, True)])
def test_quality_against_size_has_a_rule_at_the_whole_model(largest, powers):
    found = SizeCurve("map", [1, 4, largest], [0.2, 0.7, 0.6], 4)
    section = size_section(found, "MAP")
    drawn = Drawn(Markup("<div>%s</div>") % section.body)
    (rule,) = drawn.of("rule soft")
    dots = drawn.of("dot")
    assert rule["y1"] == dots[-1]["cy"]
    assert f"With 4 weights of {largest} it stays" in words(section.body)
    assert "0.600 (dashed)" in words(section.body)
    assert dots[0]["text"] == "1 weight: 0.2000"
    ticks = [tick["text"] for tick in drawn.of("tick mid")]
    assert ("1" in ticks and "10" in ticks) == powers
