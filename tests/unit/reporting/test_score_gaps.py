"""Score gaps are binned and fitted correctly."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from markupsafe import Markup

from rankine import Dataset, LinearModel
from rankine.metrics import evaluate
from rankine.reporting.run import evaluate_subject
from rankine.reporting.score_gaps import ScoreGaps, _slope, score_gaps, score_gaps_section
from rankine.reporting.share_bins import ShareBin
from unit.reporting.report_cases import random_data, shop, words
from unit.reporting.test_svg import Drawn


def test_score_gaps_count_pairs(evaluated, scores):
    test = shop()[1]
    gaps = []
    for q in range(test.n_queries):
        for i, j in itertools.permutations(test.queries.rows_of(q).tolist(), 2):
            if test.y[i] > test.y[j]:
                gaps.append(scores[i] - scores[j])
    found = score_gaps(evaluated)
    assert found.all_pairs
    assert found.pairs == sum(b.n for b in found.bins) == len(gaps)
    assert found.right == pytest.approx(np.mean([g > 0 for g in gaps]))
    order = np.argsort(np.abs(gaps))
    first = np.array_split(order, 10)[0]
    assert found.bins[0].value == pytest.approx(np.abs(gaps)[first].mean())
    assert found.bins[0].share == pytest.approx((np.array(gaps)[first] > 0).mean())
    # the slope is where the likelihood of the logistic curve is largest
    grid = found.slope * np.array([0.98, 1.0, 1.02])
    likelihood = [-np.log1p(np.exp(-a * np.array(gaps))).sum() for a in grid]
    assert np.argmax(likelihood) == 1


def test_the_dashed_curve_is_the_logistic_one(evaluated, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        "rankine.reporting.score_gaps.line_chart", lambda _, lines, *__, **___: drawn.extend(lines)
    )
    found = score_gaps(evaluated)
    score_gaps_section(found)
    curve = next(line for line in drawn if line.name == "logistic curve")
    assert curve.x[0] == 0.0
    assert curve.x[-1] == max(b.value for b in found.bins)
    assert curve.y == pytest.approx(1 / (1 + np.exp(-found.slope * np.array(curve.x))))


def test_many_pairs_are_sampled_alike():
    data = random_data(4, 700, 2, labels=2)
    evaluated = evaluate_subject(LinearModel.from_weights([1.0, 0.0]), data)
    found = score_gaps(evaluated)
    assert not found.all_pairs
    assert found.pairs == 200_000
    exact = 1 - evaluate("pairwise_error:mean=pairs", data.y, data.X[:, 0], data.qid)
    assert found.right == pytest.approx(exact, abs=0.01)


def test_tied_pairs_are_half_right():
    data = Dataset.from_arrays([[1.0], [0.0], [0.0], [0.0]], [1, 0, 1, 1], [0, 0, 0, 0])
    found = score_gaps(evaluate_subject(LinearModel.from_weights([1.0]), data))
    assert (found.pairs, found.tied, len(found.bins)) == (3, 2, 3)
    assert found.right == pytest.approx(2 / 3)
    flat = Dataset.from_arrays([[1.0], [0.0]], [1, 1], [0, 0])
    assert score_gaps(evaluate_subject(LinearModel.from_weights([1.0]), flat)) is None


@pytest.mark.parametrize("noise", [0.3, 1.0, 30.0])
@pytest.mark.parametrize("unit", [1e-3, 1.0, 50.0])
def test_the_slope_is_where_the_likelihood_is_level(noise, unit):
    gap = unit * (0.5 + noise * np.random.default_rng(0).normal(size=200))
    slope = _slope(gap)
    parts = gap / (1 + np.exp(np.clip(slope * gap, -700, 700)))
    assert abs(parts.sum()) < 1e-6 * np.abs(parts).sum()
    assert slope > 0


def test_useless_and_perfect_scores_have_a_slope():
    assert _slope(np.zeros(3)) == _slope(np.array([1.0, -1.0])) == _slope(np.array([-1.0])) == 0.0
    assert _slope(np.ones(4)) == pytest.approx(2**20)  # the first power of 2 above a million


def test_the_caption_names_the_gap_of_90_percent():
    bins = [ShareBin(0.5, 0.6, 0.5, 0.7, 1000), ShareBin(2.0, 0.9, 0.8, 0.95, 1001)]
    section = score_gaps_section(ScoreGaps(bins, math.log(9) / 2.5, 0.75, 2001, 0, True))
    told = words(section.body)
    assert "a gap of 2.50 means 90 %" in told
    assert "(all pairs, 2,001; right in 75.0 % of them)" in told
    assert "gap 2: 90.0 % of 1,001 pairs" in told
    section = score_gaps_section(ScoreGaps(bins, 0.0, 0.5, 2001, 0, False))
    assert "stands for" not in words(section.body)
    assert "a random sample of pairs" in words(section.body)
    drawn = Drawn(Markup("<div>%s</div>") % section.body)
    assert [tick["text"] for tick in drawn.of("tick end")][-1] == "1"
