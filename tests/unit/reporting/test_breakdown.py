"""Curves and histograms equal what the metrics give."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from markupsafe import Markup

from rankine import Dataset, LinearModel
from rankine.metrics import evaluate, parse_metric
from rankine.reporting.breakdown import (
    Curve,
    Curves,
    Differences,
    Spread,
    curve_metrics,
    curves,
    curves_section,
    differences,
    extremes,
    queries_section,
    spread,
)
from rankine.reporting.evaluated import Opponent
from rankine.reporting.headline import (
    headline,
    resamples_for,
)
from rankine.reporting.run import evaluate_subject
from unit.reporting.report_cases import random_data, shop, words
from unit.reporting.test_svg import Drawn

NDCG = parse_metric("ndcg@10")


def stub(values, *, pairs=None, **more):
    """What ``spread`` and its like ask of a evaluated model."""
    model, other = Opponent("model", "m", np.zeros(1)), Opponent("against", "o", np.zeros(1))
    counts = np.ones(len(values), dtype=np.int64) if pairs is None else np.asarray(pairs)
    data = SimpleNamespace(labels=SimpleNamespace(pair_counts=counts))
    given = {"m": np.asarray(values, dtype=float), **more}
    return SimpleNamespace(
        opponents=[model, other], data=data, values=lambda one, _: given[one.name]
    )


def test_curves_hold_the_metric_at_every_depth(evaluated, scores):
    test = shop()[1]
    found = curves(evaluated, NDCG)
    for k, value in zip(found.depths, found.curves[0].values, strict=True):
        assert value == pytest.approx(evaluate(f"ndcg@{k}", test.y, scores, test.qid))
    model = found.curves[0]
    inside = zip(model.low, model.values, model.high, strict=True)
    assert all(low < value < high for low, value, high in inside)
    assert [curve.kind for curve in found.curves] == ["model", "shown", "feature", "random"]


def test_histograms_count_every_query(evaluated, scores):
    test = shop()[1]
    values = evaluate(NDCG, test.y, scores, test.qid, per_query=True)
    found = spread(evaluated, NDCG)
    assert sum(found.counts) == found.queries == test.n_queries
    assert found.mean == values.mean()
    assert found.quantiles[2] == np.median(values)
    assert found.zeros == (values == 0).sum()
    shown = evaluate(NDCG, test.y, -test.position.astype(float), test.qid, per_query=True)
    gaps = differences(evaluated, NDCG, evaluated.opponent("shown"))
    assert sum(gaps.counts) == gaps.better + gaps.equal + gaps.worse == test.n_queries
    assert gaps.better == (values - shown > 1e-12).sum()
    left = sum(c for c, edge in zip(gaps.counts, gaps.edges[1:], strict=True) if edge < 0)
    assert left <= gaps.worse


def test_the_worst_and_best_queries_are_the_extremes(evaluated):
    values = evaluated.values(evaluated.opponents[0], NDCG)
    worst, best = extremes(evaluated, values, 3, larger_is_better=True)
    usable = [q for q in range(len(values)) if evaluated.data.labels.pair_counts[q] > 0]
    assert values[worst].tolist() == sorted(values[usable])[:3]
    assert values[best].tolist() == sorted(values[usable], reverse=True)[:3]
    assert not set(worst) & set(best)


def test_the_range_of_a_histogram_holds_all_values():
    for values, ends in (
        ([0.2, 0.9, np.nan], (0.0, 1.0)), ([0.0, 1.0], (0.0, 1.0)), ([0.5, 3.0], (0.0, 3.0)),
        ([-2.0, 0.5], (-2.0, 1.0)),
    ):  # fmt: skip
        found = spread(stub(values), NDCG)
        assert (found.edges[0], found.edges[-1]) == ends
        assert len(found.counts) == 20
        assert sum(found.counts) == found.queries == np.isfinite(values).sum()
        assert found.zeros == values.count(0.0)


def test_differences_are_centred_on_zero_and_have_a_sign():
    values, others = [0.5, 0.4, 0.1, 1e-13, np.nan], np.array([0.2, 0.4, 0.4, 0.0, 0.1])
    found = differences(stub(values, o=others), NDCG, Opponent("against", "o", None))
    assert (found.better, found.equal, found.worse) == (1, 2, 1)
    assert (found.edges[0], found.edges[-1]) == (-max(found.edges), pytest.approx(0.3))
    assert len(found.counts) == 21
    assert found.counts[10] == 2
    error = parse_metric("pairwise_error")
    turned = differences(stub(values, o=others), error, Opponent("against", "o", None))
    assert (turned.better, turned.worse, turned.counts) == (1, 1, found.counts)
    values[0] = 0.9
    values[2] = 0.9
    turned = differences(stub(values, o=others), error, Opponent("against", "o", None))
    assert (turned.better, turned.equal, turned.worse) == (0, 2, 2)
    equal = differences(stub([0.5], o=np.array([0.5])), NDCG, Opponent("against", "o", None))
    assert (equal.edges[-1], equal.counts[10]) == (pytest.approx(1e-6), 1)


@pytest.mark.parametrize("larger", [True, False])
def test_extremes_among_equals_have_most_pairs(larger):
    values = np.array([0.5, 0.1, 0.5, 0.9, 0.1, np.nan, 0.0, 0.9])
    pairs = [1, 1, 5, 1, 3, 9, 0, 2]
    order = sorted((q for q in range(8) if pairs[q] and np.isfinite(values[q])),
                   key=lambda q: (values[q] if larger else -values[q], -pairs[q]))  # fmt: skip
    worst, best = extremes(stub(values, pairs=pairs), values, 2, larger_is_better=larger)
    assert worst == order[:2]
    rest = sorted(order[2:], key=lambda q: (-values[q] if larger else values[q], -pairs[q]))
    assert best == rest[:2]
    worst, best = extremes(stub(values, pairs=pairs), values, 4, larger_is_better=larger)
    assert (len(worst), len(best)) == (4, 2)
    assert not set(worst) & set(best)


@pytest.mark.parametrize(
    ("own", "drawn"),
    [("ndcg@10", ["ndcg@10", "p@10"]), ("recall@3", ["recall@3", "p@10"]), ("p@5", ["p@5"]),
     ("map", ["ndcg@10", "p@10"]), ("ndcg", ["ndcg@10", "p@10"]), ("p@label", ["ndcg@10", "p@10"])],
)  # fmt: skip
def test_metrics_down_the_list(own, drawn):
    found = curve_metrics(SimpleNamespace(metric=parse_metric(own)))
    assert [str(metric) for metric in found] == drawn


def test_two_queries_are_enough_for_intervals(monkeypatch):
    model = LinearModel.from_weights([1.0, 0.0, -1.0])
    for n in (1, 2):
        evaluated = evaluate_subject(model, random_data(n, 12, 3))
        assert len(headline(evaluated, NDCG).pairs) == (2 if n == 2 else 0)
        assert math.isfinite(headline(evaluated, NDCG).model.low) == (n == 2)
    data = random_data(6, 4, 3)
    y = np.where(data.qid < 2, 0, 1 + data.y)
    skipped = Dataset.from_arrays(data.X, y, data.qid)
    evaluated = evaluate_subject(model, skipped, metrics=["ndcg@10:no_relevant=skip"])
    found = headline(evaluated, evaluated.metric)
    assert (found.queries, found.skipped) == (4, 2)
    asked = []
    monkeypatch.setattr(
        "rankine.reporting.breakdown.resamples_for", lambda n: asked.append(n) or resamples_for(n)
    )
    assert curves(evaluated, evaluated.metric) is not None
    assert asked == [4 * 4]


def test_curves_end_with_the_longest_list_and_need_two_queries_for_a_band():
    model = LinearModel.from_weights([1.0, 0.0, -1.0])
    for queries, length, depths in ((3, 4, [1, 2, 3, 4]), (1, 7, [1, 2, 3, 4, 5, 6]), (2, 1, [1])):
        data = random_data(queries, length, 3, labels=2, seed=3)
        found = curves(evaluate_subject(model, data), NDCG)
        assert found.depths == depths
        assert [len(curve.low) for curve in found.curves] == (
            [len(depths) * (queries > 1)] + [0] * (len(found.curves) - 1)
        )
        assert all(len(curve.values) == len(depths) for curve in found.curves)
    data = random_data(5, 6, 3)
    negative = Dataset.from_arrays(data.X, data.y - 1.0, data.qid)
    assert curves(evaluate_subject(model, negative), NDCG) is None


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
    drawn = Drawn(Markup("<div>%s</div>") % body)
    assert [tick["text"] for tick in drawn.of("tick mid")] == ["1", "3", "5"]
    assert drawn.of("chart")[0]["aria-label"] == "NDCG at depths 1 to 5 of every order"
    assert len(drawn.of("band model")) == 1
    last = [one["class"] for one in drawn.of("line", "polyline")]
    assert last == ["line random", "line model"]  # the model in front
    named = ["".join(item.itertext()).strip() for item in drawn.root.iter("li")]
    assert named == ["mine", "random order"]
    other = words(curves_section([replace(found, metric="err", title="ERR")]).body)
    assert "Height: ERR of the first k items." in other


def test_captions_of_histograms_hold_their_numbers():
    spread = Spread("map", [0.0, 0.5, 1.0], [1, 3], 0.6, [0.1, 0.2, 0.65, 0.8, 0.95], 1, 4)
    gaps = Differences("map", "old", [-1.0, -0.3, 0.3, 1.0], [1, 2, 5], 5, 2, 1)
    section = queries_section(spread, gaps, "MAP", Markup("<p>lists</p>"))
    assert section.lead.endswith("MAP is 0.100 or less, on the best tenth 0.950 or more.")
    told = words(Markup("<div>%s</div>") % section.body)
    assert "mean (0.600), the median is 0.650. 1 query of 4 (25 %) has exactly 0." in told
    assert "Model minus old , query by query: 5 better, 2 equal, 1 worse." in told
    assert told.endswith("lists")
    drawn = Drawn(Markup("<div>%s</div>") % section.body)
    assert len(drawn.of("column against")) == 1
    assert len(drawn.of("rule soft")) == 2
    none = words(
        Markup("<div>%s</div>")
        % queries_section(replace(spread, zeros=0), gaps, "MAP", Markup()).body
    )
    assert "0 queries of 4 (0 %) have exactly 0." in none
