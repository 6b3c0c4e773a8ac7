"""Mixtures of goals: objectives, vertices and certificates of each family of rankers."""

from dataclasses import replace

import numpy as np
import pytest

from rankine import (
    AdditiveRanker,
    ElasticRanker,
    LeastSquaresRanker,
    RankSVM,
)
from rankine.losses.pair_queries import pair_risk
from rankine.model.tables import Tables
from unit.rankers.test_goals import CLICKED, DATA, LABELS, MONEY, RNG, X, solve

EXACT = {
    "hinge": RankSVM(),
    "squared hinge": RankSVM(loss="squared_hinge"),
    "newton": RankSVM(solver="newton"),
    "positive": RankSVM(positive=True, normalization="pair"),
    "squares": LeastSquaresRanker(l2=0.01),
    "untied": LeastSquaresRanker(pairs="untied"),
    "tables": AdditiveRanker(smooth=1.0, pairs=0, bins=8),
    "softmax": AdditiveRanker(smooth=1.0, pairs=[(0, 1)], bins=8, loss="softmax"),
}


@pytest.mark.parametrize("name", EXACT)
def test_vertices_are_the_fits_to_one_goal_and_every_point_is_certified(name):
    ranker = EXACT[name]
    fits = solve(ranker)
    assert len(fits.fits) == 5
    assert all(fit.relative_gap <= ranker.tol for fit in fits.fits)
    for y, fit in zip(LABELS.values(), (fits.fits[0], fits.fits[-1]), strict=True):
        alone = type(ranker)(**ranker.get_params()).fit(replace(DATA, y=y))
        np.testing.assert_allclose(fits.fitted(fit).coef_, alone.coef_, atol=1e-6)
        assert fits.fitted(fit).to_model().nnz == alone.to_model().nnz


def test_every_goal_of_an_additive_ranker_has_its_own_strengths_pairs_and_rounds():
    # Each goal depends on another product of two columns.
    noise = 0.3 * RNG.normal(size=(2, 480))
    first = (X[:, 0] * X[:, 1] + noise[0] > 0.5).astype(float)
    second = np.where(X[:, 2] * X[:, 3] + noise[1] > 0.3, np.exp(X[:, 0]), 0.0)
    ranker = AdditiveRanker(bins=8, pairs=1, random_state=0)
    fits = solve(ranker, labels={"first": first, "second": second})
    metrics = ("ndcg@10", "ndcg@10:gain=linear")  # by which strengths are chosen
    models = [fits.fitted(fit) for fit in fits.fits]
    for y, metric, model in zip((first, second), metrics, (models[0], models[-1]), strict=True):
        alone = AdditiveRanker(**{**ranker.get_params(), "metric": metric}).fit(replace(DATA, y=y))
        np.testing.assert_array_equal(model.coef_, alone.coef_)
        assert (model.pairs_, model.strengths_) == (alone.pairs_, alone.strengths_)
        rounds = [each.solution_.certificate["rounds"] for each in (model, alone)]
        assert rounds[0] == rounds[1]
    assert [model.pairs_ for model in models] == [[(0, 1)], *[[(0, 1), (2, 3)]] * 3, [(2, 3)]]
    # Where a goal counts little, the grid that it alone chose vanishes.
    ranges = [Tables(model.bins_, model.grids_, model.coef_, 0).ranges() for model in models]
    heights = [dict(each).get("2 x 3", 0.0) for each in ranges]
    assert heights[0] < heights[1] < heights[2] < heights[3] < heights[4]
    assert max(fit.relative_gap for fit in fits.fits) <= ranker.tol


@pytest.mark.parametrize("name", ["hinge", "squared hinge", "squares", "tables"])
def test_a_point_minimises_the_mixed_objective(name):
    """No fit of the grid has a smaller mixed objective than the point whose objective it is."""
    fits = solve(EXACT[name], 9)
    coefs = [fit.result.solution.coef for fit in fits.fits]
    risks = np.array([fits.mixture.risks(coef) for coef in coefs])
    at_zero = fits.mixture.risks(np.zeros_like(coefs[0]))
    penalties = [
        fit.result.solution.objective - fit.weights @ risk
        for fit, risk in zip(fits.fits, risks, strict=True)
    ]
    for number, fit in enumerate(fits.fits):
        objectives = risks @ fit.weights + penalties
        tolerance = EXACT[name].tol * (fit.weights @ at_zero)
        assert objectives[number] <= objectives.min() + tolerance
    # More of a goal never raises its risk, but for the tolerance.
    assert (np.diff(risks[:, 0]) >= -2e-3 * at_zero[0]).all()


def test_weights_balance_what_each_goal_can_gain():
    fits = solve(LeastSquaresRanker(l2=0.01), 3)
    first, middle, last = fits.fits
    at_zero = fits.mixture.risks(np.zeros(4))
    gains = [
        at_zero[k] - fits.mixture.risks(fit.result.solution.coef)[k]
        for k, fit in enumerate((first, last))
    ]
    assert middle.weights.sum() == pytest.approx(1.0)
    assert middle.weights[0] * gains[0] == pytest.approx(middle.weights[1] * gains[1])
    scaled = solve(LeastSquaresRanker(l2=0.01), 3, {"clicked": CLICKED, "money": 100 * MONEY})
    np.testing.assert_allclose(
        scaled.fits[1].weights[0] / scaled.fits[1].weights[1],
        1e4 * middle.weights[0] / middle.weights[1],
        rtol=1e-4,
    )


def test_one_pass_mixes_lists_and_has_no_certificate():
    fits = solve(ElasticRanker(random_state=0), 3)
    assert not fits.mixture.exact
    pairwise = solve(ElasticRanker(objective="pairwise", loss="logistic", random_state=0), 2)
    coef = np.array([0.5, -1.0, 0.0, 2.0])
    scores = pairwise.mixture.task.scaling.apply(DATA).X @ coef
    expected = []
    for y in LABELS.values():
        data = replace(DATA, y=y)
        total = pair_risk(data, None, "logistic", "sum").evaluate(scores)[0]
        expected.append(total / len(data.labels.queries_with_pairs))
    np.testing.assert_allclose(pairwise.mixture.risks(coef), expected)
    assert np.isnan([fit.relative_gap for fit in fits.fits]).all()
    for y, fit in zip(LABELS.values(), (fits.fits[0], fits.fits[-1]), strict=True):
        alone = ElasticRanker(random_state=0).fit(replace(DATA, y=y))
        np.testing.assert_array_equal(fits.fitted(fit).coef_, alone.coef_)
    between = fits.fitted(fits.fits[1]).coef_
    ends = [fits.fitted(fit).coef_ for fit in (fits.fits[0], fits.fits[-1])]
    # The second column serves money alone, the first clicks more than money.
    ratios = [coef[1] / coef[0] for coef in (ends[0], between, ends[1])]
    assert ratios[0] < ratios[1] < ratios[2]


def test_results_do_not_depend_on_threads():
    coefs = [[fit.result.solution.coef for fit in solve(RankSVM(n_threads=n)).fits] for n in (1, 3)]
    np.testing.assert_array_equal(*coefs)
