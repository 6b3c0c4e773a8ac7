"""Score gaps are binned and fitted correctly."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from markupsafe import Markup

from rankine import Dataset, LinearModel
from rankine.metrics import evaluate
from rankine.reporting import calibration as calibrating
from rankine.reporting.calibration import (
    Bin,
    Calibration,
    _slope,
    calibration,
    calibration_section,
    share_bin,
)
from rankine.reporting.run import evaluate_subject
from unit.reporting.report_cases import fitted, random_data, shop, words
from unit.reporting.test_svg import Drawn


@pytest.fixture
def evaluated():
    return evaluate_subject(fitted(), shop()[1])


@pytest.fixture(scope="module")
def scores():
    return fitted().predict(shop()[1])


def test_calibration_counts_pairs(evaluated, scores):
    test = shop()[1]
    gaps = []
    for q in range(test.n_queries):
        for i, j in itertools.permutations(test.queries.rows_of(q).tolist(), 2):
            if test.y[i] > test.y[j]:
                gaps.append(scores[i] - scores[j])
    found = calibration(evaluated)
    assert found.all_pairs
    assert found.pairs == sum(b.pairs for b in found.bins) == len(gaps)
    assert found.right == pytest.approx(np.mean([g > 0 for g in gaps]))
    order = np.argsort(np.abs(gaps))
    first = np.array_split(order, 10)[0]
    assert found.bins[0].gap == pytest.approx(np.abs(gaps)[first].mean())
    assert found.bins[0].share == pytest.approx((np.array(gaps)[first] > 0).mean())
    # the slope is where the likelihood of the logistic curve is largest
    grid = found.slope * np.array([0.98, 1.0, 1.02])
    likelihood = [-np.log1p(np.exp(-a * np.array(gaps))).sum() for a in grid]
    assert np.argmax(likelihood) == 1


def test_the_dashed_curve_is_the_logistic_one(evaluated, monkeypatch):
    drawn = []
    monkeypatch.setattr(calibrating, "line_chart", lambda _, lines, *__, **___: drawn.extend(lines))
    found = calibration(evaluated)
    calibration_section(found)
    curve = next(line for line in drawn if line.name == "logistic curve")
    assert curve.x[0] == 0.0
    assert curve.x[-1] == max(b.gap for b in found.bins)
    assert curve.y == pytest.approx(1 / (1 + np.exp(-found.slope * np.array(curve.x))))


def test_many_pairs_are_sampled_alike():
    data = random_data(4, 700, 2, labels=2)
    evaluated = evaluate_subject(LinearModel.from_weights([1.0, 0.0]), data)
    found = calibration(evaluated)
    assert not found.all_pairs
    assert found.pairs == 200_000
    exact = 1 - evaluate("pairwise_error:mean=pairs", data.y, data.X[:, 0], data.qid)
    assert found.right == pytest.approx(exact, abs=0.01)


def test_wilson_intervals_and_ties():
    rng = np.random.default_rng(0)
    for n in (1, 5, 400):
        for right in (np.ones(n), np.zeros(n), rng.integers(0, 2, n) * 1.0):
            size = rng.random(n)
            found = share_bin(size, right)
            p = right.mean()
            assert (found.gap, found.share, found.pairs) == (pytest.approx(size.mean()), p, n)
            for end in (found.low, found.high):  # |p - end| = z sqrt(end (1 - end) / n)
                assert (p - end) ** 2 == pytest.approx(1.959964**2 * end * (1 - end) / n, abs=1e-12)
            assert found.low <= p + 1e-12
            assert found.high >= p - 1e-12
    data = Dataset.from_arrays([[1.0], [0.0], [0.0], [0.0]], [1, 0, 1, 1], [0, 0, 0, 0])
    found = calibration(evaluate_subject(LinearModel.from_weights([1.0]), data))
    assert (found.pairs, found.tied, len(found.bins)) == (3, 2, 3)
    assert found.right == pytest.approx(2 / 3)
    flat = Dataset.from_arrays([[1.0], [0.0]], [1, 1], [0, 0])
    assert calibration(evaluate_subject(LinearModel.from_weights([1.0]), flat)) is None


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
    bins = [Bin(0.5, 0.6, 0.5, 0.7, 1000), Bin(2.0, 0.9, 0.8, 0.95, 1001)]
    section = calibration_section(Calibration(bins, math.log(9) / 2.5, 0.75, 2001, 0, True))
    told = words(section.body)
    assert "a gap of 2.50 means 90 %" in told
    assert "(all pairs, 2,001; right in 75.0 % of them)" in told
    assert "gap 2: 90.0 % of 1,001 pairs" in told
    section = calibration_section(Calibration(bins, 0.0, 0.5, 2001, 0, False))
    assert "stands for" not in words(section.body)
    assert "a random sample of pairs" in words(section.body)
    drawn = Drawn(Markup("<div>%s</div>") % section.body)
    assert [tick["text"] for tick in drawn.of("tick end")][-1] == "1"
