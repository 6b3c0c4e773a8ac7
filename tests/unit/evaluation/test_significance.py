"""Tests and intervals against scipy."""

import itertools

import numpy as np
import pytest
from scipy import stats

from rankine.evaluation.significance import (
    bootstrap_means,
    flipped_sums,
    holm,
    paired_tests,
    percentile_interval,
    randomisation_test,
)

pytestmark = pytest.mark.kernels


@pytest.fixture
def difference():
    rng = np.random.default_rng(8)
    found = np.where(rng.random(40) < 0.2, 0.0, rng.normal(0.1, 0.4, 40))
    found[:2] = 1.0
    return found


def test_t_test_and_wilcoxon_equal_scipy(difference):
    found = paired_tests(difference, 1000, 0)
    assert found.t_test == pytest.approx(stats.ttest_rel(difference, np.zeros(40)).pvalue)
    moved = difference[difference != 0]
    assert found.wilcoxon == pytest.approx(stats.wilcoxon(moved).pvalue)


def test_few_queries_are_enumerated_exactly():
    d = np.array([0.3, -0.1, 0.25, 0.4, 0.05, -0.2, 0.1])
    scipys = stats.permutation_test(
        (d,), np.mean, permutation_type="samples", n_resamples=np.inf
    ).pvalue
    sums = [abs(np.dot(s, d)) for s in itertools.product([-1, 1], repeat=7)]
    brute = np.mean(np.array(sums) >= abs(d.sum()) - 1e-12)
    for enough in (2**7, 10_000):
        assert randomisation_test(d, enough, 0) == pytest.approx(brute)
        assert randomisation_test(d, enough, 0) == pytest.approx(scipys)
    # queries without a difference say nothing, and cost no pattern
    assert randomisation_test(np.r_[d, np.zeros(20)], 2**7, 0) == pytest.approx(brute)


def test_many_queries_are_sampled(difference):
    scipys = stats.permutation_test(
        (difference,), np.mean, permutation_type="samples", n_resamples=20_000, rng=1
    ).pvalue
    found = randomisation_test(difference, 20_000, 0)
    assert found == pytest.approx(scipys, abs=4 * np.sqrt(scipys / 20_000) + 1e-3)
    assert found == randomisation_test(difference, 20_000, 0)


def test_sign_flips_are_fair_and_counted():
    sums = flipped_sums(np.ones(70), 4000, 3)
    assert set(np.unique(sums)) <= set(range(-70, 71, 2))
    assert abs(sums.mean()) < 4 * np.sqrt(70 / 4000)
    assert sums.var() == pytest.approx(70, rel=0.15)


def test_no_difference_gives_p_one_and_a_constant_one_is_certain():
    assert paired_tests(np.zeros(5), 1000, 0) == (1.0, 1.0, 1.0)
    assert randomisation_test(np.zeros(5), 1000, 0) == 1.0
    single = np.array([0.0, 0.0, 0.5, 0.0])
    assert paired_tests(single, 1000, 0) == (stats.ttest_1samp(single, 0.0).pvalue, 1.0, 1.0)
    found = paired_tests(np.full(30, 0.1), 1000, 0)
    assert found.t_test == 0.0
    assert found.randomisation == pytest.approx(1 / 1001)


def test_bootstrap_interval_equals_scipy():
    rng = np.random.default_rng(0)
    values = rng.beta(2, 3, size=(40, 2))
    means = bootstrap_means(values, 5000, 5)
    for c in range(2):
        low, high = np.quantile(means[:, c], [0.025, 0.975])
        scipys = stats.bootstrap(
            (values[:, c],), np.mean, n_resamples=5000, method="percentile", rng=2
        ).confidence_interval
        width = high - low
        assert abs(low - scipys.low) < 0.07 * width
        assert abs(high - scipys.high) < 0.07 * width


def test_bootstrap_is_paired_and_independent_of_threads(monkeypatch):
    values = np.column_stack([np.arange(30.0), np.arange(30.0) + 1])
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("RANKINE_NUM_THREADS", threads)
        found.append(bootstrap_means(values, 200, 1))
    assert (found[0] == found[1]).all()
    np.testing.assert_allclose(found[0][:, 1] - found[0][:, 0], 1.0)


def test_a_percentile_interval_cuts_equal_tails():
    assert percentile_interval(np.arange(1001.0), 0.9) == pytest.approx((50.0, 950.0))


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("n", [3, 12])
def test_differences_of_one_size_are_as_extreme_as_their_sum(size, n):
    """0.1 + 0.1 + ... rounds otherwise in another order; all have one sign in 2 of 2^n cases."""
    difference = np.full(n, 0.1 * size)
    assert randomisation_test(difference, 2**n, 0) == 2 / 2**n
    mixed = np.array([0.3, 0.1, -0.2, 0.2, -0.1, 0.3] * 2) * size
    sums = np.array([np.dot(s, mixed / size) for s in itertools.product([-1, 1], repeat=12)])
    exact = np.mean(np.abs(sums) > 1.2 - 1e-6)
    assert randomisation_test(mixed, 2**12, 0) == pytest.approx(exact)


def test_each_difference_has_its_own_random_bit():
    """The first 64 differences and the others are flipped apart, a bit for each."""
    n = 130
    for place in (0, 63, 64, 127, 128, 129):
        one = np.zeros(n)
        one[place] = 1.0
        signs = flipped_sums(one, 400, 3)
        assert set(signs) == {-1.0, 1.0}
        assert abs(signs.mean()) < 0.2
        both = flipped_sums(one + 2 * (np.arange(n) == (place + 1) % n), 400, 3)
        assert set(both) == {-3.0, -1.0, 1.0, 3.0}
        np.testing.assert_array_equal(np.abs(both - signs), 2.0)


def test_bootstrap_draws_every_query_equally_often():
    """Means of indicator columns are counts over n: of n draws, all of them counted."""
    drawn = bootstrap_means(np.eye(5), 4000, 1) * 5
    np.testing.assert_allclose(drawn.sum(axis=1), 5.0)
    np.testing.assert_array_equal(drawn, np.round(drawn))
    np.testing.assert_allclose(drawn.mean(axis=0), 1.0, atol=0.08)
    np.testing.assert_allclose(drawn.var(axis=0), 0.8, atol=0.1)
    assert len(np.unique(drawn, axis=0)) > 100
    assert (bootstrap_means(np.eye(5), 4000, 2) != drawn / 5).any()


def test_holm_equals_values_computed_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []
