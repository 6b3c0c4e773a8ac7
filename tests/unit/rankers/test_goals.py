"""Fits to mixtures of goals: vertices, certificates, grids and bad goals."""

from dataclasses import replace

import numpy as np
import pytest

from rankine import (
    AdditiveRanker,
    DataError,
    Dataset,
    ElasticRanker,
    LabelError,
    LeastSquaresRanker,
    NoPairsError,
    ParameterError,
    RankSVM,
    SPDRanker,
)
from rankine.rankers.goals import simplex_grid

RNG = np.random.default_rng(0)
QID = np.repeat(np.arange(60), 8)
X = RNG.normal(size=(480, 4))
CLICKED = (X[:, 0] + 0.5 * RNG.normal(size=480) > 0.5).astype(float)
MONEY = CLICKED * np.exp(X[:, 1] - X[:, 0])
LABELS = {"clicked": CLICKED, "money": MONEY}
DATA = Dataset.from_arrays(X, np.zeros(480), QID)


def solve(ranker, n_points=5, labels=LABELS, **options):
    fits = ranker.goal_fits(DATA, labels, **options)
    fits.solve(simplex_grid(len(labels), n_points))
    return fits


def test_an_edge_of_three_goals_has_the_grids_of_its_two_goals():
    labels = {"first": CLICKED, "second": MONEY, "third": (X[:, 2] > 0).astype(float)}
    ranker = AdditiveRanker(smooth=1.0, pairs=1, bins=8)
    fits = solve(ranker, 6, labels)
    pairs = [set(fits.fitted(fit).pairs_) for fit in fits.fits]
    for fit, fit_pairs in zip(fits.fits, pairs, strict=True):
        used = [vertex for vertex, share in zip((0, 3, 5), fit.shares, strict=True) if share > 0.0]
        assert fit_pairs == set.union(*(pairs[vertex] for vertex in used))


def test_three_goals_have_a_triangle_of_points():
    labels = {**LABELS, "column": (X[:, 2] > 0).astype(float)}
    fits = solve(RankSVM(), 21, labels)
    assert len(fits.fits) == 21
    assert max(fit.relative_gap for fit in fits.fits) <= 1e-3


def test_weights_of_rows_and_queries_and_propensities_are_those_of_a_fit():
    weight = {query: 1.0 + query % 3 for query in range(60)}
    data = replace(DATA, weight=RNG.uniform(0.5, 2, 480), position=np.tile(np.arange(1, 9), 60))
    ranker = RankSVM(propensity=[1.0, 0.5, 0.3], normalization="pair", scale="none")
    fits = ranker.goal_fits(data, LABELS, weight)
    fits.solve(simplex_grid(2, 3))
    for y, fit in zip(LABELS.values(), (fits.fits[0], fits.fits[-1]), strict=True):
        alone = RankSVM(**ranker.get_params()).fit(replace(data, y=y), query_weight=weight)
        np.testing.assert_array_equal(fits.fitted(fit).coef_, alone.coef_)


@pytest.mark.parametrize(
    ("ranker", "parameter"),
    [
        (SPDRanker(), "ranker"),
        (RankSVM([0.1, 0.01]), "l2"),
        (LeastSquaresRanker(solver="egdm"), "solver"),
        (ElasticRanker(objective="pointwise"), "objective"),
    ],
)
def test_rankers_and_parameters_without_a_mixture_are_refused(ranker, parameter):
    with pytest.raises(ParameterError) as caught:
        solve(ranker)
    assert caught.value.parameter == parameter


def test_goals_that_cannot_be_learned_are_named():
    with pytest.raises(LabelError, match="'none'"):
        solve(RankSVM(), labels={"clicked": CLICKED, "none": np.zeros(480)})
    with pytest.raises(NoPairsError, match="'same'"):
        solve(RankSVM(), labels={"clicked": CLICKED, "same": QID + 1.0})
    constant = replace(DATA, X=np.column_stack([X[:, 0], X[:, 1] * 0]))
    constant.X[QID != 0] = 0.0  # only the first list can be learned from
    fits = RankSVM().goal_fits(constant, {"a": CLICKED, "b": np.where(QID == 0, 1.0, CLICKED)})
    with pytest.raises(DataError, match="'b'"):
        fits.solve(simplex_grid(2, 3))


def test_a_callback_ends_the_run():
    fits = RankSVM().goal_fits(DATA, LABELS)
    steps = []
    fits.solve(
        simplex_grid(2, 9), [lambda progress: steps.append(progress.step) or len(steps) == 4]
    )
    assert steps == [1, 2, 3, 4]
    assert len(fits.fits) == 4
