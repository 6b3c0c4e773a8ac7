"""Lists are normalised one by one; what is at an edge stays finite."""

import numpy as np
import pytest

from rankine.core.specs import FUSION_RULES, RunScores
from rankine.kernels.run_scores import run_score_values

pytestmark = pytest.mark.kernels
CASES = [(e, n) for e, rules in FUSION_RULES.items() for n in rules.normalizations]


def alone(spec, scores):
    return run_score_values(spec, scores, np.array([0, len(scores)]))


@pytest.mark.parametrize(("engine", "normalization"), CASES)
def test_lists_and_retrievers_do_not_meet(engine, normalization):
    """Many lists, some of them empty, are the lists one by one; so are retrievers."""
    rng = np.random.default_rng(0)
    spec = RunScores(normalization, engine, rank_constant=rng.integers(1, 90))
    lists = []
    for size in (3, 0, 1, 7, 0, 0, 2, 5):
        scores = rng.integers(-6, 6, (size, 3)) / 2.0
        lists.append(np.where(rng.random(scores.shape) < 0.3, np.nan, scores))
    starts = np.concatenate([[0], np.cumsum([len(one) for one in lists])])
    found = run_score_values(spec, np.concatenate(lists), starts)
    for one, start in zip(lists, starts[:-1], strict=True):
        here = found[start : start + len(one)]
        np.testing.assert_array_equal(here, alone(spec, one))
        for j in range(3):
            np.testing.assert_array_equal(here[:, [j]], alone(spec, one[:, [j]]))
    assert alone(spec, np.zeros((0, 3))).shape == (0, 3)


@pytest.mark.parametrize(("engine", "normalization"), CASES)
def test_zeros_huge_numbers_and_lists_of_one_stay_finite(engine, normalization):
    spec = RunScores(normalization, engine)
    for column in ([0.0, 0.0], [1.7e308, -1.7e308], [5.0], [np.nan, 3.0], [np.nan], [-2.0, -2.0]):
        with np.errstate(all="ignore"):
            found = alone(spec, np.array(column)[:, None])
        if normalization != "z_score" or np.abs(np.nan_to_num(column)).max() < 1e300:
            assert np.isfinite(found).all()


def test_ranks_count_from_one_and_equal_scores_in_the_order_of_the_rows():
    scores = np.array([[2.0], [np.nan], [5.0], [2.0], [np.nan], [7.0]])
    spec = RunScores("reciprocal_rank", "opensearch", rank_constant=10.0)
    found = run_score_values(spec, scores, np.array([0, 4, 6]))[:, 0]
    np.testing.assert_allclose(found, [1 / 12, 0, 1 / 11, 1 / 13, 0, 1 / 11])


def test_lengths_and_deviations_leave_out_what_is_absent():
    scores = np.array([[3.0], [np.nan], [-4.0], [7.0]])
    found = alone(RunScores("l2", "elasticsearch"), scores)[:, 0]
    there = scores[[0, 2, 3], 0]
    np.testing.assert_allclose(found[[0, 2, 3]], there / np.linalg.norm(there))
    found = alone(RunScores("z_score", "opensearch"), scores)[:, 0]
    expected = (there - there.mean()) / there.std(ddof=1)
    np.testing.assert_allclose(found[[0, 2, 3]], np.where(expected > 0, expected, 0.001))


@pytest.mark.parametrize(("gap", "equal"), [(9e-7, True), (1.1e-6, False)])
def test_nearly_equal_scores_of_elasticsearch_are_equal(gap, equal):
    scores = np.array([[0.0], [gap]])
    found = alone(RunScores("min_max", "elasticsearch"), scores)
    np.testing.assert_allclose(found, scores if equal else [[0.0], [1.0]])


def test_scores_at_the_mean_count_as_those_below_it():
    found = alone(RunScores("z_score", "opensearch"), np.array([[1.0], [2.0], [3.0]]))
    np.testing.assert_allclose(found, [[0.001], [0.001], [1.0]])


def test_differences_whose_squares_vanish_leave_scores_finite():
    scores = np.array([[1e-200], [3e-200], [2e-200]])
    found = alone(RunScores("z_score", "opensearch"), scores)
    np.testing.assert_allclose(found, [[0.001], [1e-200], [0.001]])
