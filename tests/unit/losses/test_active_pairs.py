"""Risk, slope and curvature by sorted counts equal sums over all pairs."""

from __future__ import annotations

import numpy as np
import pytest

from rankine.core.errors import NoPairsError, ParameterError
from rankine.data import Dataset
from rankine.kernels.sorting import RADIX_FROM, sort_queries
from rankine.losses import pair_queries
from rankine.losses.active_pairs import HingeRisk, SquaredHingeRisk
from rankine.losses.pair_queries import PairQueries, query_omega
from rankine.losses.pairwise.hinge import Hinge
from reference import pairs as listed
from reference.pair_data import lists
from reference.pairs import pair_curvature_times, pair_risk, pair_weights

pytestmark = pytest.mark.kernels


def random_problem(rng, n_rows=None):
    """Scores and labels with ties and margins of exactly 1, several queries, weights or none."""
    m = int(rng.integers(2, 40)) if n_rows is None else n_rows
    if rng.random() < 0.6:
        p = rng.integers(-3, 4, m) * rng.choice([0.5, 1.0])
    else:
        p = rng.normal(size=m) * 1.5
    y = (
        rng.integers(0, rng.integers(2, 6), m).astype(float)
        if rng.random() < 0.7
        else rng.normal(size=m)
    )
    qid = rng.integers(0, rng.integers(1, 4), m)
    weight = query_weight = None
    if rng.random() < 0.5:
        weight = rng.integers(0, 4, m) * rng.choice([0.5, 1.0])
        query_weight = dict(enumerate(rng.integers(0, 3, 4).astype(float)))
    return p.astype(float), y, qid, weight, query_weight


def build(risk, p, y, qid, weight, query_weight, normalization, oracle="tree", threads=1):
    data = Dataset.from_arrays(np.zeros((len(p), 1)), y, qid)
    if weight is not None:
        data = Dataset(data.X, data.y, data.qid, weight=weight, query_index=data.query_index)
    of_query = (
        None if query_weight is None else np.array([query_weight[q] for q in data.queries.ids])
    )
    queries = PairQueries.from_dataset(data, of_query)
    omega = query_omega(normalization, queries.totals, queries)
    return risk(Hinge(), queries, omega, oracle, threads)


def has_pairs(y, qid, weight, query_weight):
    return pair_weights(y, qid, "sum", weight, query_weight).sum() > 0


@pytest.mark.parametrize("seed", range(10))
def test_thousands_of_random_problems_equal_brute_force(seed):
    rng = np.random.default_rng(seed)
    exact_margins = 0
    checked = 0
    for _ in range(300 if numba_is_on() else 15):
        p, y, qid, weight, query_weight = random_problem(rng)
        if not has_pairs(y, qid, weight, query_weight):
            continue
        checked += 1
        exact_margins += bool((np.abs(p[:, None] - p[None, :]) == 1).any())
        normalization = rng.choice(["query", "pair", "sum"])
        oracle = rng.choice(["tree", "tree", "levels", "pairs"])
        for name, kind in (("hinge", HingeRisk), ("squared_hinge", SquaredHingeRisk)):
            risk = build(kind, p, y, qid, weight, query_weight, normalization, oracle)
            value, slope = risk.evaluate(p)
            expected, expected_slope = pair_risk(
                p, y, qid, name, normalization, weight, query_weight
            )
            scale = max(1.0, abs(expected))
            assert value == pytest.approx(expected, abs=1e-12 * scale)
            np.testing.assert_allclose(slope, expected_slope, atol=1e-12 * scale)
        v = rng.normal(size=len(p))
        np.testing.assert_allclose(
            risk.evaluate_with_curvature(p)[2].times(v),
            pair_curvature_times(p, v, y, qid, normalization, weight, query_weight),
            atol=1e-12 * scale,
        )
    assert checked > 0
    assert exact_margins > 0


@pytest.mark.parametrize("oracle", ["tree", "levels", "pairs"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_many_queries_share_a_thread(oracle, weighted):
    """More queries than shards, of many numbers of levels, in any order."""
    rng = np.random.default_rng(8)
    qid = rng.permutation(np.repeat(np.arange(45), rng.integers(1, 7, 45)))
    y, p = rng.integers(0, 5, len(qid)).astype(float), rng.normal(size=len(qid))
    weight = rng.choice([0.0, 0.5, 2.0], len(qid)) if weighted else None
    query_weight = dict(enumerate(rng.choice([0.0, 1.0, 2.0], 45)))
    for name, kind in (("hinge", HingeRisk), ("squared_hinge", SquaredHingeRisk)):
        risk = build(kind, p, y, qid, weight, query_weight, "query", oracle)
        value, slope = risk.evaluate(p)
        expected, slopes = pair_risk(p, y, qid, name, "query", weight, query_weight)
        assert value == pytest.approx(expected, rel=1e-12)
        np.testing.assert_allclose(slope, slopes, atol=1e-13)


def numba_is_on():
    import numba

    return not numba.config.DISABLE_JIT


@pytest.mark.parametrize("size", [RADIX_FROM - 1, RADIX_FROM, 1500])
@pytest.mark.parametrize("kind", ["normal", "ties", "counts", "narrow", "wide", "signed zeros"])
def test_scores_are_sorted_stably(size, kind):
    rng = np.random.default_rng(size)
    p = {
        "normal": lambda: rng.normal(size=size),
        "ties": lambda: rng.integers(-3, 4, size).astype(float),
        "counts": lambda: rng.integers(1, 9, size).astype(float),  # the lower bits are all 0
        "narrow": lambda: 1.0 + rng.integers(0, 8, size) / 8.0,  # one digit alone differs
        "wide": lambda: rng.normal(size=size) * 10.0 ** rng.integers(-300, 300, size),
        "signed zeros": lambda: rng.choice([0.0, -0.0, 1.0, -1.0], size),
    }[kind]()
    rows = rng.permutation(size).astype(np.uint32)
    out, items = np.empty(size), np.empty(size, dtype=np.uint32)
    starts = np.array([0, size])
    sort_queries(p, rows, starts, 0, 1, out, items, np.empty(size), np.empty_like(items))
    expected = np.argsort(p[rows], kind="stable")
    np.testing.assert_array_equal(items, expected)
    np.testing.assert_array_equal(out, p[rows][expected])


@pytest.mark.parametrize("oracle", ["tree", "levels", "pairs"])
def test_a_large_offset_costs_no_accuracy(oracle):
    rng = np.random.default_rng(3)
    y = rng.integers(0, 4, 60).astype(float)
    p = np.round(rng.normal(size=60), 3)
    near, _ = build(HingeRisk, p, y, np.zeros(60, int), None, None, "query", oracle).evaluate(p)
    far, _ = build(HingeRisk, p, y, np.zeros(60, int), None, None, "query", oracle).evaluate(
        np.round(p * 1024) / 1024 + 2.0**27
    )
    again, _ = build(HingeRisk, p, y, np.zeros(60, int), None, None, "query", oracle).evaluate(
        np.round(p * 1024) / 1024
    )
    assert far == pytest.approx(again, rel=1e-14)
    assert near == pytest.approx(again, rel=1e-2)


@pytest.mark.parametrize("threads", [2, 5])
@pytest.mark.parametrize("kind", [HingeRisk, SquaredHingeRisk])
def test_threads_do_not_change_a_bit(threads, kind):
    rng = np.random.default_rng(4)
    size = 400
    p, y, qid = rng.normal(size=size), rng.normal(size=size), rng.integers(0, 30, size)
    one, slope_one = build(kind, p, y, qid, None, None, "query").evaluate(p)
    many, slope_many = build(kind, p, y, qid, None, None, "query", threads=threads).evaluate(p)
    assert one == many
    np.testing.assert_array_equal(slope_one, slope_many)


def test_counts_of_a_long_query_do_not_overflow():
    size = 70_000 if numba_is_on() else 2000
    p = np.zeros(size)
    y = np.arange(size, dtype=float)
    value, slope = build(HingeRisk, p, y, np.zeros(size, int), None, None, "sum").evaluate(p)
    assert value == size * (size - 1) / 2
    np.testing.assert_array_equal(slope, size - 1 - 2 * np.arange(size, dtype=float))


def test_data_without_pairs_is_rejected():
    with pytest.raises(NoPairsError):
        build(HingeRisk, np.zeros(3), np.ones(3), np.zeros(3, int), None, None, "query")


def test_an_unknown_normalization_is_rejected():
    arguments = (np.zeros(3), np.arange(3.0), np.zeros(3, int), None, None)
    with pytest.raises(ParameterError) as caught:
        build(HingeRisk, *arguments, "mean")
    assert caught.value.parameter == "normalization"


def test_a_margin_other_than_one_is_rejected():
    queries = PairQueries.from_dataset(lists(False)[0])
    for risk in (HingeRisk, SquaredHingeRisk):
        with pytest.raises(ParameterError, match=r"2\.0") as caught:
            risk(Hinge(2.0), queries, np.ones(queries.n_queries))
        assert caught.value.parameter == "margin"


def replace_at_zero(risk, value):
    risk.at_zero = value
    return risk


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("width", [0.25, 0.9, 1.0, 3.0])
def test_smoothed_hinge_equals_its_formula_over_listed_pairs(width, weighted):
    data, _ = lists(weighted)
    rng = np.random.default_rng(3)
    p, v = rng.normal(size=data.n_rows), rng.normal(size=data.n_rows)
    high, low = listed.pair_list(data.y, data.qid)
    omega = listed.pair_weights(data.y, data.qid, "query", data.weight)
    short = 1.0 - (p[high] - p[low])
    if width >= 1.0:
        value, pull, bend = 0.5 * short**2, -short, np.ones(len(short))
    else:
        near = short < width
        value = np.where(near, short**2 / (2 * width), short - width / 2)
        pull, bend = -np.where(near, short / width, 1.0), near / width
    pull, bend = (omega * part * (short > 0) for part in (pull, bend))
    slopes, bent, degrees = np.zeros((3, data.n_rows))
    for rows, sign in ((high, 1.0), (low, -1.0)):
        np.add.at(slopes, rows, sign * pull)
        np.add.at(bent, rows, sign * bend * (v[high] - v[low]))
        np.add.at(degrees, rows, bend)
    risk = pair_queries.pair_risk(data).smoothed(width)
    found, by_row, curvature = risk.evaluate_with_curvature(p)
    assert found == pytest.approx((omega * value)[short > 0].sum(), rel=1e-12)
    np.testing.assert_allclose(by_row, slopes, atol=1e-13)
    np.testing.assert_allclose(curvature.times(v), bent, atol=1e-13)
    np.testing.assert_allclose(curvature.diagonal(), degrees, atol=1e-13)
    assert (curvature.diagonal() >= 0.0).all()
    assert risk.evaluate(np.zeros(data.n_rows))[0] == pytest.approx(risk.at_zero, rel=1e-12)
    double = replace_at_zero(pair_queries.pair_risk(data), 4.0).smoothed(width)
    assert double.at_zero == pytest.approx(4.0 * risk.at_zero)
