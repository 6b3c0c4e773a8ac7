"""A problem in parts is the whole problem."""

from __future__ import annotations

import numpy as np
import pytest

from rankine.data import Dataset
from rankine.losses.active_pairs import HingeRisk, SquaredHingeRisk
from rankine.losses.pair_queries import PairQueries, PairTotals, pair_scale
from rankine.losses.squared import LaplacianTotals, PairLaplacian
from rankine.solvers.bundle import solve_bundle
from rankine.solvers.cg import solve_cg
from rankine.solvers.newton import solve_newton
from rankine.solvers.problem import NormalEquations, Partition, QuadraticPartition, SummedOracle


def problem(seed=0, m=120, n=4, n_queries=9):
    rng = np.random.default_rng(seed)
    X, qid = rng.normal(size=(m, n)), np.sort(rng.integers(0, n_queries, m))
    y = np.round(X @ rng.normal(size=n) + rng.normal(size=m))
    return Dataset.from_arrays(X, y, qid, weight=rng.integers(1, 3, m).astype(float))


def parts_of(data):
    cut = [np.arange(0, 3), np.arange(3, 4), np.arange(4, data.n_queries)]
    return [data.take_queries(queries) for queries in cut]


def oracle_of(parts, kind, normalization):
    queries = [PairQueries.build(part) for part in parts]
    totals = queries[0].totals
    for other in queries[1:]:
        totals = totals + other.totals
    return SummedOracle(
        [
            Partition(part.rows, part.n_features, kind(own, pair_scale(normalization, totals, own)))
            for part, own in zip(parts, queries, strict=True)
        ]
    )


@pytest.mark.parametrize("normalization", ["query", "pair", "sum"])
@pytest.mark.parametrize(
    ("kind", "solve"), [(HingeRisk, solve_bundle), (SquaredHingeRisk, solve_newton)]
)
def test_partitions_add_up(normalization, kind, solve):
    data = problem()
    w = np.random.default_rng(1).normal(size=4)
    found = []
    for parts in ([data], parts_of(data)):
        oracle = oracle_of(parts, kind, normalization)
        value, slopes = oracle.evaluate(oracle.scores(w))
        solution = solve(oracle, 0.05, tol=1e-11)
        found.append((value, oracle.gradient(slopes), solution.objective, solution.coef))
    for whole, summed in zip(*found, strict=True):
        np.testing.assert_allclose(summed, whole, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("normalization", ["query", "pair", "sum"])
def test_least_squares_partitions_add_up(normalization):
    data = problem(3)
    found = []
    for parts in ([data], parts_of(data)):
        laplacians = [PairLaplacian(PairQueries.build(part)) for part in parts]
        totals = LaplacianTotals(*np.sum([own.totals for own in laplacians], axis=0).tolist())
        for own in laplacians:
            own.normalise(normalization, totals)
        system = NormalEquations(
            [
                QuadraticPartition(part.rows, part.n_features, part.y, own)
                for part, own in zip(parts, laplacians, strict=True)
            ]
        )
        found.append(solve_cg(system, 0.1, tol=1e-12))
    np.testing.assert_allclose(found[1].coef, found[0].coef, rtol=1e-9)
    assert found[1].objective == pytest.approx(found[0].objective)


def test_totals_add():
    assert PairTotals(1.0, 2.0, 3) + PairTotals(10.0, 20.0, 30) == PairTotals(11.0, 22.0, 33)
