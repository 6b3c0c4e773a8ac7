"""The preconditioner that sees how tables overlap."""

from __future__ import annotations

import numpy as np
import pytest

from rankine import AdditiveRanker
from rankine.solvers import coarse, tables
from rankine.solvers.newton import solve_newton


@pytest.fixture(scope="module")
def system():
    """Build a problem of overlapping columns, its penalty and its curvature."""
    rng = np.random.default_rng(3)
    n_lists, n_rows = 120, 20
    common = rng.normal(size=(n_lists * n_rows, 1))
    X = common + 0.4 * rng.normal(size=(n_lists * n_rows, 5))
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.digitize(np.nan_to_num(X).sum(axis=1) + rng.normal(size=len(X)), [0.0, 3.0])
    problems = []

    class StopError(Exception):
        pass

    def grab(problem, penalty, **_):
        problems.append((problem, penalty))
        raise StopError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rankine.rankers.additive.minimise", grab)
        ranker = AdditiveRanker(bins=12, pairs=[(0, 1), (2, 3)], smooth=3.0, reweight=0)
        with pytest.raises(StopError):
            ranker.fit(X, y, qid=np.repeat(np.arange(n_lists), n_rows))
    problem, penalty = problems[0]
    scores = problem.scores(np.zeros(problem.n_features))
    curvature = problem.evaluate_with_curvature(scores)[2]
    return problem, penalty, curvature


def dense(function, size):
    return np.column_stack([function(unit) for unit in np.eye(size)])


def build(system):
    problem, penalty, curvature = system
    scale = problem.curvature_scale(curvature)
    blocks = penalty.factor(scale)
    return coarse.CoarseFactor(problem, blocks, curvature.diagonal(), scale), blocks


def test_the_preconditioner_is_symmetric_and_positive(system):
    factor, _ = build(system)
    matrix = dense(factor.solve, system[0].n_features)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-10 * np.abs(matrix).max())
    assert np.linalg.eigvalsh(0.5 * (matrix + matrix.T)).min() > 0.0


def test_the_preconditioner_is_closer_to_the_curvature_than_tables_on_their_own(system):
    problem, penalty, curvature = system
    factor, blocks = build(system)
    size = problem.n_features

    def times(v):
        return penalty.times(v) + problem.curvature_times(curvature, problem.scores(v))

    A = dense(times, size)
    spread = []
    for each in (factor, blocks):
        values = np.linalg.eigvals(dense(each.solve, size) @ A).real
        spread.append(values.max() / values.min())
    assert spread[0] < 0.5 * spread[1]


def test_newton_finds_the_same_solution(system, monkeypatch):
    problem, penalty, _ = system
    plain = solve_newton(problem, penalty, tol=1e-6)
    monkeypatch.setattr(tables, "MIN_ROWS", 0)
    helped = solve_newton(problem, penalty, tol=1e-6)
    assert helped.objective == pytest.approx(plain.objective, rel=2e-6)
    assert helped.stop_reason == "converged"


def test_any_number_of_threads_gives_the_same_bits(monkeypatch):
    monkeypatch.setattr(tables, "MIN_ROWS", 0)
    rng = np.random.default_rng(4)
    X = rng.normal(size=(600, 5)) + rng.normal(size=(600, 1))
    y = np.digitize(X.sum(axis=1) + rng.normal(size=600), [0.0, 3.0])
    options = {"bins": 8, "pairs": [(0, 1)], "smooth": 1.0}
    fits = [
        AdditiveRanker(**options, n_threads=n).fit(X, y, qid=np.repeat(np.arange(40), 15))
        for n in (1, 3)
    ]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    assert fits[0].solution_.stop_reason == "converged"


def test_columns_without_rows_in_a_cell_have_fewer_directions():
    groups = coarse._cut_by_mass(np.array([0.0, 1.0, 0.0, 1.0]), 2)
    assert groups.tolist() == [0, 0, 1, 1]
    assert coarse._cut_by_mass(np.zeros(3), 2).tolist() == [0, 0, 0]
