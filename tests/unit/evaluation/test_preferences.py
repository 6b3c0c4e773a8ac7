"""Comparisons of two: the same likelihood as logistic regression on differences."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.base import clone

import rankine
from error_checks import raises_at
from rankine import (
    AdditiveRanker,
    Dataset,
    DominationRanker,
    LeastSquaresRanker,
    RankSVM,
    SPDRanker,
)
from rankine.core.errors import EmptyDataError, ParameterError, SchemaError
from rankine.data.comparisons import read_pairs
from rankine.evaluation import preferences
from rankine.evaluation.preferences import _Likelihood, item_strengths
from rankine.kernels.random import BOOTSTRAP, resolve_seed, stream_seed


def votes(n=400, n_items=5, seed=0):
    rng = np.random.default_rng(seed)
    strength = np.linspace(-1, 1, n_items)
    a, b = (rng.integers(0, n_items, n), rng.integers(1, n_items, n))
    b = (a + b) % n_items
    style = rng.normal(size=(2, n, 2))
    z = strength[a] - strength[b] + (style[0] - style[1]) @ [0.5, 0.0]
    wins = rng.random(n) < 1 / (1 + np.exp(-z))
    first = np.where(wins[:, None], style[0], style[1])
    second = np.where(wins[:, None], style[1], style[0])
    return np.where(wins, a, b), np.where(wins, b, a), first, second


def objective(w, D, v, l2):
    return l2 / 2 * w @ w + (v * np.log1p(np.exp(-D @ w))).sum() / v.sum()


def test_the_optimum_equals_logistic_regression():
    from scipy.optimize import minimize

    winner, loser, first, second = votes()
    v = np.random.default_rng(1).random(len(winner)) + 0.1
    tie = np.arange(len(winner)) % 7 == 0
    data = Dataset.from_pairs(winner, loser, weight=v, tie=tie, features=(first, second))
    ranker = RankSVM(1e-2, loss="logistic", normalization="pair", tol=1e-10, scale="none").fit(data)
    eye = np.eye(5)
    D = np.hstack([eye[winner] - eye[loser], first - second])
    D, v = np.vstack([D, -D[tie]]), np.concatenate([np.where(tie, v / 2, v), v[tie] / 2])
    wanted = minimize(objective, np.zeros(7), (D, v, 1e-2), tol=1e-12)
    assert objective(ranker.coef_, D, v, 1e-2) == pytest.approx(wanted.fun, rel=1e-9)
    np.testing.assert_allclose(ranker.coef_, wanted.x, atol=1e-4)
    assert ranker.solution_.stop_reason == "converged"


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_comparisons_of_feature_rows(kind):
    *_, first, second = votes()
    data = Dataset.from_pairs(kind(first), kind(second), feature_names=["length", "lists"])
    assert data.n_queries == 400
    assert data.y.tolist()[:4] == [1, 0, 1, 0]
    assert RankSVM(1e-3, loss="logistic").fit(data).coef_[0] > 0.2


def test_the_table_lists_items_strongest_first():
    winner, loser, first, second = votes(1500)
    data = Dataset.from_pairs(winner, loser, features=(first, second), feature_names=["a", "b"])
    found = item_strengths(data, n_resamples=20)
    assert found.items == ("4", "3", "2", "1", "0")
    assert (found.low <= found.strength).all()
    assert (found.strength <= found.high).all()
    assert found.strength.sum() == pytest.approx(0, abs=1e-9)
    assert 0.3 < found.coef["a"] < 0.7
    assert "interval" in found.table().markdown()
    for low, high, drawn in zip(found.low, found.high, items_of(found), strict=True):
        assert (low, high) == pytest.approx(np.quantile(drawn, [0.025, 0.975]))
    bare = item_strengths(data, n_resamples=0)
    assert (bare.low, bare.high) == (None, None)
    assert [sorted(item) for item in bare.to_dict()["items"]] == [["item", "strength"]] * 5
    assert bare.rounds.shape == (0, 7)
    wide = item_strengths(data, n_resamples=20, confidence=0.5)
    assert (wide.low >= found.low).all()
    assert (wide.low > found.low).any()


def items_of(found):
    """Strengths of every round, an item after the other as in the table."""
    names = list(found.coef)
    place = [names.index(item) for item in sorted(found.items)]
    rounds = found.rounds[:, place]
    rounds = rounds - rounds.mean(axis=1, keepdims=True)
    return [rounds[:, sorted(found.items).index(item)] for item in found.items]


def test_many_comparisons_need_no_other_solver(monkeypatch):
    """Steps with the known curvature suffice: only the first fit is a solver's."""
    winner, loser, first, second = votes(1500)
    weight = np.random.default_rng(2).random(1500) + 0.5
    data = Dataset.from_pairs(winner, loser, features=(first, second), weight=weight)
    fits, fit = [], RankSVM.fit
    monkeypatch.setattr(RankSVM, "fit", lambda *a, **k: fits.append(1) or fit(*a, **k))
    steps, solve = [], preferences.cho_solve
    monkeypatch.setattr(preferences, "cho_solve", lambda *a: steps.append(1) or solve(*a))
    item_strengths(data, n_resamples=10, l2=1e-3)
    assert len(fits) == 1
    assert len(steps) <= 10 * 7
    monkeypatch.setattr(preferences, "MAX_DENSE", 6)
    item_strengths(data, n_resamples=2, l2=1e-3)
    assert len(fits) == 2 + 2  # without the curvature every round is a solver's
    monkeypatch.setattr(preferences, "MAX_DENSE", 7)
    item_strengths(data, n_resamples=2, l2=1e-3)
    assert len(fits) == 4 + 1


def test_an_optimum_is_certified_by_its_gradient():
    winner, loser, first, second = votes(300)
    v = np.random.default_rng(2).random(300) + 0.5
    data = Dataset.from_pairs(winner, loser, features=(first, second), weight=v)
    start = RankSVM(1e-2, loss="logistic", normalization="pair", scale="none").fit(data).coef_
    counts = np.random.default_rng(3).integers(0, 3, 300).astype(float)
    eye = np.eye(5)
    D = np.hstack([eye[winner] - eye[loser], first - second])
    chance = 1 / (1 + np.exp(D @ start))
    H = D.T @ ((v / v.sum() * chance * (1 - chance))[:, None] * D) + 1e-2 * np.eye(7)
    known = _Likelihood(data, 1e-2, 1e-8, start).curvature
    np.testing.assert_allclose(preferences.cho_solve(known, H), np.eye(7), atol=1e-9)
    share = counts * v / (counts * v).sum()
    for tol in np.geomspace(1e-8, 1e-2, 300):
        w = _Likelihood(data, 1e-2, tol, start).optimum(counts)
        gradient = 1e-2 * w - D.T @ (share / (1 + np.exp(D @ w)))
        assert gradient @ gradient <= 2 * 1e-2 * tol * np.log(2)


@pytest.mark.parametrize("n", [60, 1500])  # with few comparisons RankSVM takes over
def test_bootstrap_rounds_are_optima_of_their_draws(n):
    winner, loser, first, second = votes(n)
    tie = np.arange(n) % 9 == 0
    data = Dataset.from_pairs(winner, loser, features=(first, second), tie=tie)
    found = item_strengths(data, n_resamples=3, l2=1e-4)
    drawn = np.random.default_rng(stream_seed(resolve_seed(0), BOOTSTRAP))
    for weights in found.rounds:
        counts = np.bincount(drawn.integers(0, n, n), minlength=n)[data.columns["comparison"][::2]]
        exact = RankSVM(1e-4, loss="logistic", normalization="pair", tol=1e-10, scale="none")
        exact.fit(data, query_weight=counts.astype(float))
        np.testing.assert_allclose(weights, exact.coef_, atol=1e-2)


EXACT = [
    RankSVM(normalization="pair", tol=1e-9),
    RankSVM(normalization="sum", tol=1e-9),
    LeastSquaresRanker(normalization="pair", l2=2e-3),
    SPDRanker(sampling="uniform", random_state=0, n_steps=20_000, scale="none"),
]
REFUSE = [
    RankSVM(),
    LeastSquaresRanker(normalization="sum"),
    SPDRanker(random_state=0),
    DominationRanker(),
    AdditiveRanker(),
]


@pytest.mark.parametrize("ranker", EXACT, ids=str)
def test_a_comparison_of_weight_two_counts_twice(ranker):
    *_, first, second = votes(40)
    times = np.arange(40) % 3 + 1
    found = clone(ranker).fit(Dataset.from_pairs(first, second, weight=times)).coef_
    again = np.repeat(np.arange(40), times)
    repeated = clone(ranker).fit(Dataset.from_pairs(first[again], second[again])).coef_
    np.testing.assert_allclose(found, repeated, rtol=1e-5)


@pytest.mark.parametrize("ranker", REFUSE, ids=str)
def test_a_ranker_that_would_lose_weights_refuses_them(ranker):
    *_, first, second = votes(40)
    with pytest.raises(ParameterError, match=re.escape(ranker.capabilities.comparisons)):
        ranker.fit(Dataset.from_pairs(first, second, tie=np.arange(40) % 3 == 0))
    ranker.fit(Dataset.from_pairs(first, second))


def test_files_of_comparisons(tmp_path):
    winner, loser, first, second = votes(60)
    tie = np.arange(60) % 9 == 0
    columns = {"winner": winner.astype(str), "loser": loser.astype(str), "tie": tie, "judge": "x"}
    for j, name in enumerate(("length", "lists")):
        columns |= {f"winner_{name}": first[:, j], f"loser_{name}": second[:, j]}
    frame = pd.DataFrame(columns)
    frame.to_csv(tmp_path / "votes.csv", index=False)
    frame.to_parquet(tmp_path / "votes.parquet")
    wanted = Dataset.from_pairs(
        winner.astype(str), loser.astype(str), tie=tie, features=(first, second),
        feature_names=["length", "lists"],
    )  # fmt: skip
    for kind in ("csv", "parquet"):
        found = read_pairs(tmp_path / f"votes.{kind}", "winner", "loser")
        np.testing.assert_allclose(found.X.toarray(), wanted.X.toarray())
        np.testing.assert_array_equal(found.weight, wanted.weight)
        assert found.feature_names == wanted.feature_names
    frame[["winner_length", "loser_length"]].to_csv(tmp_path / "rows.csv", index=False)
    assert read_pairs(tmp_path / "rows.csv", "winner", "loser").feature_names == ("length",)
    held = read_pairs(tmp_path / "rows.csv", "winner", "loser", ["x", "length"])
    assert held.n_features == 2
    with pytest.raises(SchemaError):
        read_pairs(tmp_path / "rows.csv", "winner", "loser", ["x"])
    frame[["winner", "loser_length"]].to_csv(tmp_path / "half.csv", index=False)
    with pytest.raises(SchemaError):
        read_pairs(tmp_path / "half.csv", "winner", "loser")
    frame.assign(weight=np.nan).to_parquet(tmp_path / "gap.parquet")
    with raises_at(SchemaError, column="weight"):
        read_pairs(tmp_path / "gap.parquet", "winner", "loser")


def test_invalid_comparisons_are_refused():
    with pytest.raises(SchemaError):
        Dataset.from_pairs(["a", "b"], ["b", "b"])
    with pytest.raises(SchemaError):
        Dataset.from_pairs(["a", "b"], ["b"])
    with pytest.raises(EmptyDataError):
        Dataset.from_pairs([], [])
    with pytest.raises(SchemaError):
        item_strengths(Dataset.from_arrays(np.eye(2), [0, 1]))
    for missing in ({"docid": ["a", "b"]}, {"columns": {"comparison": [0, 0]}}):
        with pytest.raises(SchemaError):
            item_strengths(Dataset.from_arrays(np.eye(2), [0, 1], **missing))


@pytest.mark.parametrize(("items", "n"), [(8, 200), (20, 2000), (50, 500)])
def test_strengths_are_near_the_truth_without_a_warning(items, n):
    """Differences are neither shrunk nor blown up, even where an item never loses."""
    slopes = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        truth = np.linspace(-1.7, 1.7, items)
        a = rng.integers(0, items, n)
        b = (a + rng.integers(1, items, n)) % items
        won = rng.random(n) < expit(truth[a] - truth[b])
        data = Dataset.from_pairs(np.where(won, a, b), np.where(won, b, a))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = item_strengths(data, n_resamples=10)
        numbers = np.array(found.items, dtype=int)
        slopes.append(np.polyfit(truth[numbers], found.strength, 1)[0])
    assert np.mean(slopes) == pytest.approx(1, abs=0.2)


def test_the_default_penalty_counts_weights_as_repetitions():
    winner, loser = [0, 0, 1, 2, 2], [1, 2, 2, 0, 1]
    weighted = Dataset.from_pairs(winner, loser, weight=[2.0, 1, 1, 1, 1])
    repeated = Dataset.from_pairs([0, *winner], [1, *loser])
    strengths = [item_strengths(d, n_resamples=0).strength for d in (weighted, repeated)]
    assert strengths[0] == pytest.approx(strengths[1], abs=1e-4)


def test_data_without_intervals_and_bad_parameters():
    data = Dataset.from_pairs([0, 0, 1], [1, 2, 2])
    assert "interval" not in item_strengths(data, n_resamples=0).table().markdown()
    found = item_strengths(data, n_resamples=3).to_dict()
    assert [item["item"] for item in found["items"]] == ["0", "1", "2"]
    assert found["features"] == {}
    for bad in ({"confidence": 1.0}, {"n_resamples": -1}, {"l2": -1.0}):
        with pytest.raises(ParameterError) as caught:
            item_strengths(data, **bad)
        assert caught.value.parameter == next(iter(bad))


def test_load_reads_comparisons(tmp_path):
    (tmp_path / "v.csv").write_text("better,worse,better_x,worse_x\na,b,1,2\nb,c,3,4\n")
    data = rankine.load(tmp_path / "v.csv", pairs=("better", "worse"))
    assert data.feature_names == ("a", "b", "c", "x")
    assert data.y.tolist() == [1, 0, 1, 0]
    for bad in ({"pairs": "better,worse"}, {"pairs": ["better"]},
                {"pairs": ("better", "worse"), "base": 0}):  # fmt: skip
        with pytest.raises(ParameterError) as caught:
            rankine.load(tmp_path / "v.csv", **bad)
        assert caught.value.parameter == "pairs"
