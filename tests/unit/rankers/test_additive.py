"""AdditiveRanker: curves, pairs, strengths, warm starts, paths."""

import copy
import pickle
from dataclasses import replace
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from typer.testing import CliRunner

import rankine
from error_checks import raises_for
from rankine import AdditiveRanker, Dataset, LinearModel, RankSVM, Scorer, distributed
from rankine.cli.train import app
from rankine.core.errors import CheckpointError, FeatureMismatchError, ParameterError, SchemaError
from rankine.metrics import evaluate_on
from rankine.model.shapes import certify
from rankine.rankers import additive, additive_search
from rankine.transforms.bins import BinCoder, fit_bins


def shop(n_queries=60, size=15, seed=0):
    """Labels bend in the first column and multiply the next two; the last is a category."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * size, 5))
    X[:, 4] = rng.integers(0, 4, len(X))
    utility = X[:, 0] ** 2 + 1.5 * X[:, 1] * X[:, 2] + np.array([0, 2, -1, 0])[X[:, 4].astype(int)]
    y = np.digitize(utility + 0.2 * rng.normal(size=len(X)), [-0.5, 0.5, 1.5, 2.5])
    return X, y, np.repeat(np.arange(n_queries), size)


@pytest.fixture(scope="module")
def fitted():
    X, y, qid = shop()
    return AdditiveRanker(smooth=0.3, pairs=3, categorical=[4]).fit(X, y, qid=qid)


def test_curves_and_pairs_beat_a_linear_ranker(fitted):
    X, y, qid = shop(seed=1)
    linear = RankSVM().fit(*shop()[:2], qid=shop()[2]).score(X, y, qid)
    assert fitted.score(X, y, qid) > linear + 0.1
    assert fitted.pairs_[0] == (1, 2)
    assert fitted.solution_.certificate["relative_gap"] <= fitted.tol
    assert fitted.solution_.stop_reason == "converged"


def test_strengths_are_chosen_on_held_out_queries_and_never_silently():
    X, y, qid = shop(40)
    chosen = AdditiveRanker(pairs=2, random_state=0).fit(X, y, qid=qid)
    errors = [tried["pairwise-error"] for tried in chosen.evals_]
    best = chosen.evals_[int(np.argmin(errors))]
    assert best["smooth"] == chosen.strengths_.smooth
    assert best["pairs"] == len(chosen.pairs_)
    assert chosen.score(*shop(seed=1)) > 0.8


def test_an_evaluation_set_replaces_the_held_out_queries():
    X, y, qid = shop(30)
    V, v, vid = shop(20, seed=2)
    with_set = AdditiveRanker(pairs=0, reweight=0).fit(X, y, qid=qid, eval_set=(V, v), eval_qid=vid)
    same = AdditiveRanker(pairs=0, reweight=0).fit(X, y, qid=qid, eval_set=(V, v), eval_qid=vid)
    assert (with_set.coef_ == same.coef_).all(), "no seed is drawn where nothing is held out"
    tried = max(tried["value"] for tried in with_set.evals_)
    assert tried == pytest.approx(with_set.score(V, v, vid), abs=0.02)
    sets = {"train": Dataset.from_arrays(X, y, qid), "valid": Dataset.from_arrays(V, v, vid)}
    several = AdditiveRanker(pairs=0, reweight=0).fit(X, y, qid=qid, eval_set=sets)
    assert (several.coef_ == same.coef_).all(), "the last set chooses"
    for name, data in sets.items():
        assert several.evals_[-1][name] == pytest.approx(several.score(data))


def test_threads_change_no_bit():
    X, y, qid = shop(30)
    one, two = (
        AdditiveRanker(pairs=2, random_state=0, n_threads=k).fit(X, y, qid=qid) for k in (1, 2)
    )
    assert one.to_model().digest == two.to_model().digest


def test_pairs_and_a_start_are_found_on_some_of_the_lists(monkeypatch):
    X, y, qid = shop(120)
    told = {"smooth": 0.3, "pairs": 1, "tol": 1e-8}
    whole = AdditiveRanker(**told).fit(X, y, qid=qid)
    monkeypatch.setattr(additive_search, "SEARCH_ROWS", 600)
    one, two = (AdditiveRanker(**told, n_threads=k).fit(X, y, qid=qid) for k in (1, 2))
    assert one.pairs_ == whole.pairs_ == [(1, 2)]
    np.testing.assert_allclose(one.coef_, whole.coef_, atol=1e-3)
    assert one.solution_.stop_reason == "converged"
    assert one.coef_.tobytes() == two.coef_.tobytes()


def test_missing_values_have_a_separate_cell():
    X, y, qid = shop(30)
    gone = np.random.default_rng(0).random(len(X)) < 0.3
    X[gone, 3] = np.nan
    ranker = AdditiveRanker(smooth=1.0, pairs=0).fit(X, np.where(gone, y + 3, y), qid=qid)
    present, absent = X[:1].copy(), X[:1].copy()
    present[0, 3], absent[0, 3] = 0.0, np.nan
    assert ranker.predict(absent) > ranker.predict(present)
    # Where nothing was missing in training, a missing value says nothing.
    lone = X[:1].copy()
    lone[0, 0] = np.nan
    assert not any(term.name == "1" for term in ranker.to_model().explain(lone[0]).contributions)


@pytest.mark.parametrize("shape", ["increasing", "decreasing"])
def test_the_whole_effect_of_a_column_has_its_shape(shape):
    X, y, qid = shop(30)
    X[::9, 1] = np.nan
    sign = {"increasing": 1.0, "decreasing": -1.0}[shape]
    shapes = {0: shape, 1: shape}
    ranker = AdditiveRanker(smooth=0.01, pairs=[(0, 1), (0, 2), (1, 2)], shapes=shapes)
    ranker.fit(X, y, qid=qid)
    assert ranker.solution_.certificate["relative_gap"] <= ranker.tol
    scorer = Scorer(ranker.to_model())
    line = np.linspace(-4, 4, 200)
    for row in X[:40]:
        for j in (0, 1):
            rows = np.tile(row, (200, 1))
            rows[:, j] = line
            for scores in (ranker.predict(rows), scorer.score(rows)):
                assert (sign * np.diff(scores) >= 0.0).all()
    assert all(proof.holds for proof in certify(ranker.to_model()))


def test_convex_and_concave_columns_bend_one_way():
    X, y, qid = shop(30)
    ranker = AdditiveRanker(smooth=0.01, pairs=4, shapes={0: "concave", 3: "convex"})
    ranker.fit(X, y, qid=qid)
    assert not {0, 3} & {j for pair in ranker.pairs_ for j in pair}
    assert all(proof.holds for proof in certify(ranker.to_model()))


@pytest.mark.parametrize("shape", ["increasing", "convex"])
def test_columns_of_few_values_have_shapes(shape):
    X, y, qid = shop(12)
    for column in (np.ones(len(X)), X[:, 0] > 0, np.full(len(X), np.nan)):
        rows = np.column_stack([column, X[:, 1:]])
        ranker = AdditiveRanker(smooth=1.0, pairs=0, shapes={0: shape}).fit(rows, y, qid=qid)
        assert certify(ranker.to_model())[0].holds


def test_a_warm_start_keeps_and_gains_shapes():
    X, y, qid = shop(30)
    free = AdditiveRanker(smooth=0.1, pairs=[(0, 1)]).fit(X, y, qid=qid)
    for shapes in ({0: "increasing"}, {0: "convex"}):
        told = {"smooth": 0.1, "pairs": [] if "convex" in shapes.values() else [(0, 1)]}
        ranker = AdditiveRanker(**told, shapes=shapes)
        cold = AdditiveRanker(**ranker.get_params()).fit(X, y, qid=qid)
        warm = ranker.fit(X, y, qid=qid, coef_init=free.to_model())
        again = AdditiveRanker(**told, shapes=shapes).fit(X, y, qid=qid, coef_init=warm.to_model())
        for each in (cold, warm, again):
            assert all(proof.holds for proof in certify(each.to_model()))
            assert each.solution_.objective == pytest.approx(cold.solution_.objective, rel=5e-3)


def test_sparse_rows_mean_zeros():
    X, y, qid = shop(30)
    X[np.abs(X) < 0.6] = 0.0
    told = {"smooth": 1.0, "pairs": 2, "categorical": [4]}
    dense = AdditiveRanker(**told).fit(X, y, qid=qid)
    compressed = AdditiveRanker(**told).fit(sparse.csr_array(X), y, qid=qid)
    assert (dense.coef_ == compressed.coef_).all()
    assert (dense.predict(X) == compressed.predict(sparse.csr_array(X))).all()


def test_linear_columns_stay_linear():
    X, y, qid = shop(40)
    ranker = AdditiveRanker(smooth=1.0, pairs=2, linear=[3, 0]).fit(X, y, qid=qid)
    rows = np.zeros((3, 5))
    rows[:, 0] = [0.0, 1.0, 3.0]
    low, middle, high = ranker.predict(rows)
    assert high - low == pytest.approx(3 * (middle - low))
    assert ranker.bins_.linear == (0, 3)
    whole = ranker.to_model().explain(X[0])
    assert whole.total == pytest.approx(ranker.predict(X[:1])[0], abs=1e-12)


def test_integer_weights_equal_repetitions():
    X, y, qid = shop(12)
    told = {"smooth": 1.0, "pairs": 0, "tol": 1e-10}
    weight = np.where(np.arange(12) % 3 == 0, 2.0, 1.0)
    bins = AdditiveRanker(**told).fit(X, y, qid=qid)
    weighted = AdditiveRanker(**told, warm_start=True)
    repeated = AdditiveRanker(**told, warm_start=True)
    for ranker in (weighted, repeated):  # the same cuts for both
        ranker.fit(X, y, qid=qid)
        assert (ranker.coef_ == bins.coef_).all()
    weighted.fit(X, y, qid=qid, query_weight=weight)
    extra = np.isin(qid, np.flatnonzero(weight == 2.0))
    repeated.fit(
        np.concatenate([X, X[extra]]),
        np.concatenate([y, y[extra]]),
        qid=np.concatenate([qid, qid[extra] + 100]),
    )
    assert np.ptp(weighted.predict(X) - repeated.predict(X)) < 1e-3  # centred by other counts


def test_row_weights_equal_repetitions_with_the_same_cuts():
    X, y, qid = shop(12)
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    many = np.repeat(np.arange(len(y)), weight)
    told = {"smooth": 1.0, "pairs": [(1, 2)], "reweight": 0, "tol": 1e-10}
    weighted, repeated = (AdditiveRanker(**told, warm_start=True) for _ in range(2))
    for ranker in (weighted, repeated):
        ranker.fit(X, y, qid=qid)
    weighted.fit(X, y, qid=qid, sample_weight=weight)
    repeated.fit(X[many], y[many], qid=qid[many])
    scores = weighted.predict(X)
    assert np.ptp(scores - repeated.predict(X)) < 1e-3 * np.ptp(scores)


def test_weights_of_rows_multiply_their_gain_in_softmax():
    """Rows of the lowest label have none: they are candidates once, whatever they weigh."""
    X, y, qid = shop(12)
    lowest = y == np.minimum.reduceat(y, np.arange(0, len(y), 15))[qid]
    told = {"smooth": 1.0, "pairs": 0, "loss": "softmax", "reweight": 0}
    plain, light, heavy = (
        AdditiveRanker(**told).fit(X, y, qid=qid, sample_weight=weight).coef_
        for weight in (None, np.where(lowest, 3.0, 1.0), np.where(lowest, 1.0, 1.0 + qid % 3))
    )
    np.testing.assert_allclose(light, plain, atol=1e-9)
    np.testing.assert_allclose(heavy, plain, atol=1e-9)  # alike within a list: the same shares
    more = AdditiveRanker(**told).fit(X, y, qid=qid, sample_weight=1.0 + (y == y.max())).coef_
    assert np.abs(more - plain).max() > 1e-3


def test_a_warm_start_keeps_cuts_pairs_and_strengths():
    X, y, qid = shop(40)
    ranker = AdditiveRanker(pairs=2, random_state=0, warm_start=True).fit(X, y, qid=qid)
    bins, pairs = ranker.bins_, ranker.pairs_
    ranker.fit(*shop(40, seed=3)[:2], qid=shop(40)[2])
    assert (ranker.bins_, ranker.pairs_) == (bins, pairs)
    ranker.fit(*shop(40, seed=3)[:2], qid=shop(40)[2])
    assert ranker.n_iter_ == 0


def test_the_model_explains_every_score_exactly(fitted, tmp_path):
    X = shop(5, seed=4)[0]
    X[0, 1] = np.nan
    model = fitted.to_model()
    model.save(tmp_path / "tables.rankine")
    loaded = LinearModel.load(tmp_path / "tables.rankine")
    assert loaded == model
    scores = fitted.predict(X)
    names = {*"12345", *(f"{a + 1} x {b + 1}" for a, b in fitted.pairs_)}  # as in text files
    for i in range(10):
        told = loaded.explain(X[i])
        assert told.total == pytest.approx(scores[i], abs=1e-9)
        pair = loaded.explain_pair(X[i], X[i + 1])
        assert pair.total == pytest.approx(scores[i] - scores[i + 1], abs=1e-9)
        assert {term.name for term in pair.contributions} <= names
    scorer = Scorer(loaded)
    scorer.self_test()
    named = [
        {str(j): None if np.isnan(x) else x for j, x in enumerate(row, 1)} for row in X.tolist()
    ]
    columns = {str(j + 1): X[:, j].tolist() for j in range(5)}
    for rows in (X, named, columns):
        np.testing.assert_allclose(scorer.score(rows), scores, atol=1e-12)
    filled = np.nan_to_num(X)
    compressed = scorer.score(sparse.csr_array(filled))
    np.testing.assert_allclose(compressed, scorer.score(filled), atol=1e-12)
    assert scorer.explain(named, 3).total == pytest.approx(scores[3], abs=1e-9)
    assert scorer.explain_pair(X, 3, 0).total == pytest.approx(scores[3] - scores[0], abs=1e-9)
    with pytest.raises(FeatureMismatchError):
        scorer.score([{"colour": 1.0}])


def test_named_columns():
    X, y, qid = shop(30)
    names = ["age", "price", "rating", "noise", "brand"]
    data = Dataset.from_arrays(X, y, qid, feature_names=names)
    ranker = AdditiveRanker(
        smooth=1.0,
        pairs=[("price", "rating")],
        categorical=["brand"],
        shapes={"noise": "increasing"},
    ).fit(data)
    assert ranker.pairs_ == [("price", "rating")]
    told = ranker.to_model().explain(dict(zip(names, X[0].tolist(), strict=True)))
    assert told.total == pytest.approx(ranker.predict(data)[0], abs=1e-9)


@pytest.mark.parametrize("loss", ["softmax", "squared_hinge"])
def test_losses_and_rounds(loss):
    X, y, qid = shop(40)
    ranker = AdditiveRanker(smooth=0.3, pairs=2, loss=loss, reweight=2, random_state=0)
    assert ranker.fit(X, y, qid=qid).score(*shop(seed=1)) > 0.85
    assert len(ranker.evals_) >= 2


@pytest.mark.parametrize(
    ("wrong", "parameter"),
    [
        ({"loss": "hinge"}, "loss"),
        ({"loss": "cubic"}, "loss"),
        ({"smooth": 0}, "smooth"),
        ({"pairs": -1}, "pairs"),
        ({"pairs": [(0, 0)]}, "pairs"),
        ({"pairs": [(0, 1)], "shapes": {0: "convex"}}, "pairs"),
        ({"linear": [0], "pairs": [(0, 1)]}, "pairs"),
        ({"shapes": {0: "rising"}}, "shapes"),
        ({"shapes": ["increasing"]}, "shapes"),
        ({"shapes": {0: "convex"}, "categorical": [0]}, "shapes"),
        ({"scale": "standard"}, "scale"),
        ({"reweight": -1}, "reweight"),
        ({"pair_smooth": 0.0}, "pair_smooth"),
        ({"anchor": 0}, "anchor"),
        ({"tol": 0}, "tol"),
        ({"max_iter": 0}, "max_iter"),
        ({"missing": "zero"}, "missing"),
    ],
)
def test_errors_name_the_parameter(wrong, parameter):
    X, y, qid = shop(4)
    with pytest.raises(ParameterError) as caught:
        AdditiveRanker(**{"smooth": 1.0, **wrong}).fit(X, y, qid=qid)
    assert caught.value.parameter == parameter


def test_a_registered_smooth_loss_is_minimised():
    """Curves of a loss from the registry: the same solution as that of its sum over all pairs."""
    X, y, qid = shop(40)
    ranker = AdditiveRanker(smooth=0.3, pairs=1, loss="logistic", tol=1e-6).fit(X, y, qid=qid)
    assert ranker.solution_.certificate["relative_gap"] <= 1e-6
    assert ranker.score(*shop(seed=1)) > 0.85
    hinge = AdditiveRanker(smooth=0.3, pairs=1, tol=1e-6).fit(X, y, qid=qid)
    assert np.abs(ranker.coef_ - hinge.coef_).max() > 1e-3


def test_coef_init_keeps_cuts_pairs_and_strengths_of_a_model():
    X, y, qid = shop(40)
    told = {"pairs": 2, "linear": [3], "shapes": {0: "increasing"}, "random_state": 0}
    first = AdditiveRanker(**told).fit(X, y, qid=qid)
    again = AdditiveRanker(**told).fit(X, y, qid=qid, coef_init=first.to_model())
    assert (again.bins_, again.pairs_, again.strengths_) == (
        first.bins_, first.pairs_, first.strengths_,
    )  # fmt: skip
    assert again.evals_ == []
    np.testing.assert_allclose(again.predict(X), first.predict(X), atol=0.1)
    asked = AdditiveRanker(**{**told, "pairs": [(1, 2)]}, smooth=5.0)
    asked.fit(X, y, qid=qid, coef_init=first.to_model())
    assert (asked.pairs_, asked.strengths_.smooth) == ([(1, 2)], 5.0)


def test_data_that_does_not_match_the_start_model_is_refused(fitted):
    X, y, qid = shop(4)
    model = fitted.to_model()
    with pytest.raises(FeatureMismatchError, match="has 5 columns, the data 4"):
        AdditiveRanker().fit(X[:, :4], y, qid=qid, coef_init=model)
    with pytest.raises(ParameterError) as caught:
        AdditiveRanker(linear=[1]).fit(X, y, qid=qid, coef_init=model)
    assert caught.value.parameter == "linear"
    held = {"eval_set": (X, y), "eval_qid": qid, "eval_query_weight": [1.0, 2.0, 1.0, 1.0]}
    with pytest.raises(ParameterError) as caught:
        AdditiveRanker(smooth=1.0, pairs=0).fit(X, y, qid=qid, **held)
    assert caught.value.parameter == "eval_query_weight"
    with raises_for("missing", SchemaError):
        AdditiveRanker(smooth=1.0, missing="error").fit(
            np.where(X > 1, np.nan, X), y, qid=qid
        )  # fmt: skip


@pytest.mark.parametrize(
    "told",
    [
        {"pairs": 0, "linear": [3]},
        {"pairs": [(0, 1), (1, 2), (1, 4)], "categorical": [4]},
        {"pairs": [(0, 2)], "linear": [4]},
        {"pairs": [(1, 2)], "loss": "softmax"},
    ],
)
@pytest.mark.parametrize("smooth", [0.1, 10.0])
def test_a_start_from_a_model_of_the_same_rows_begins_at_its_gap(told, smooth):
    """The tables of the model, with the least penalty among parameters that stand for them."""
    X, y, qid = shop(40)
    X[::6, 1], X[:, 3] = np.nan, X[:, 1] + 0.5 * X[:, 3]
    X[:, 3] = np.nan_to_num(X[:, 3])
    told = {"smooth": smooth, "tol": 1e-4, **told}
    cold = AdditiveRanker(**told).fit(X, y, qid=qid)
    warm = AdditiveRanker(**told).fit(X, y, qid=qid, coef_init=cold.to_model())
    assert warm.n_iter_ == 0
    assert warm.solution_.objective <= cold.solution_.objective * (1 + 1e-9)
    assert warm.solution_.certificate["gap"] <= cold.solution_.certificate["gap"] * (1 + 1e-6)
    moved = warm.predict(X) - cold.predict(X)
    np.testing.assert_allclose(moved, moved[0], atol=1e-9 * np.abs(cold.coef_).max())


def test_notebook_display_numbers_unnamed_columns(fitted):
    names, sizes = fitted._displayed_weights()
    assert sorted(name for name in names if " x " not in name) == list("01234")
    assert f"{fitted.pairs_[0][0]} x {fitted.pairs_[0][1]}" in names
    assert (np.diff(sizes) <= 0).all()


def test_a_time_split_of_a_log_is_read_as_tables(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["session,time,price,brand,hit"]
    lines += [f"s{k // 5},{k // 5},{rng.normal():.3f},{rng.choice(list('abc'))},{int(k % 5 == 0)}"
              for k in range(150)]  # fmt: skip
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    log = rankine.logs.scan(tmp_path / "log.csv", query="session", label="hit", time="time",
                            numeric=["price"], categorical=["brand"], hash_bits=5)  # fmt: skip
    part = log.split("time:1/2,1/2")["train"]
    ranker = AdditiveRanker(smooth=1.0, pairs=0).fit(part)
    assert ranker.training_["queries"] == 15
    assert ranker.feature_names_in_.tolist() == ["price", "brand"]
    assert ranker.training_["sources"] == list(log.sources)
    loaded = AdditiveRanker(smooth=1.0, pairs=0).fit(rankine.data.dataset.concat(list(part)))
    assert ranker.coef_.tobytes() == loaded.coef_.tobytes()


@pytest.mark.parametrize("given", [np.zeros(5), LinearModel.from_weights(np.ones(5))])
def test_feature_weights_are_refused_as_a_start(given):
    X, y, qid = shop(4)
    with pytest.raises(ParameterError) as caught:
        AdditiveRanker().fit(X, y, qid=qid, coef_init=given)
    assert caught.value.parameter == "coef_init"


def clicks(n_queries=200, size=8, seed=0):
    """Clicks that fall with the position, which follows a column that makes nothing better."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * size, 3))
    good = (X[:, 0] ** 2 + X[:, 1] > 1).astype(float)
    shown = np.argsort(np.argsort(-(X[:, 2] + 0.5 * rng.normal(size=len(X))).reshape(-1, size))) + 1
    look = 1.0 / shown.ravel()
    y = (rng.random(len(X)) < look * (0.1 + 0.8 * good)).astype(float)
    qid = np.repeat(np.arange(n_queries), size)
    data = Dataset.from_arrays(X, y, qid, position=shown.ravel())
    return data, replace(data, y=good)


@pytest.mark.parametrize("loss", ["softmax", "squared_hinge"])
@pytest.mark.parametrize("told", [{"propensity": 1 / np.arange(1.0, 9)}, {"position_offset": 8}])
def test_clicks_are_corrected_for_positions(loss, told):
    seen, truth = clicks()
    plain = AdditiveRanker(smooth=1.0, pairs=0, loss=loss).fit(seen)
    corrected = AdditiveRanker(smooth=1.0, pairs=0, loss=loss, **told).fit(seen)
    assert corrected.score(truth) > plain.score(truth)
    model = corrected.to_model()
    assert model.explain(seen.X[0]).total == pytest.approx(corrected.predict(seen)[0], abs=1e-9)
    if "position_offset" in told:
        offset = corrected.position_offset_
        assert offset[0] == 0.0
        assert offset[1] > offset[7]
        chosen = AdditiveRanker(pairs=0, linear=[2], **told).fit(seen, eval_set=truth)
        assert len(chosen.coef_) == sum(chosen.bins_.n_cells) + 1


def test_clicks_are_corrected_for_positions_by_context():
    seen, _ = clicks(60)
    device = np.where(np.arange(seen.n_queries) % 2, "tv", "pc")[seen.queries.codes]
    seen = replace(seen, columns={"device": device})
    parts = {name: np.arange(1.0, 9) ** -power for name, power in (("tv", 1.0), ("pc", 2.0))}
    by_context = SimpleNamespace(context="device", contexts=parts)
    same = SimpleNamespace(context="device", contexts=dict.fromkeys(parts, parts["tv"]))
    told = {"smooth": 1.0, "pairs": 0}
    coefs = [
        AdditiveRanker(**told, propensity=propensity, max_weight=100.0).fit(seen).coef_
        for propensity in (by_context, same, parts["tv"])
    ]
    np.testing.assert_array_equal(coefs[1], coefs[2])
    assert not np.allclose(coefs[0], coefs[1])


def test_weights_of_clicks_are_not_divided_out_again():
    """A list with one click weighs its inverse propensity, as a query weight would."""
    seen, _ = clicks(60)
    one = np.bincount(seen.queries.codes, seen.y) == 1
    seen = seen.take_queries(np.flatnonzero(one))
    inverse = np.arange(1.0, 9)
    weight = np.bincount(seen.queries.codes, seen.y * inverse[seen.position - 1])
    for loss in ("softmax", "squared_hinge"):
        told = {"smooth": 1.0, "pairs": 0, "loss": loss, "tol": 1e-9}
        by_rows = AdditiveRanker(**told, propensity=1 / inverse).fit(seen)
        by_query = AdditiveRanker(**told).fit(seen, query_weight=weight)
        np.testing.assert_allclose(by_rows.coef_, by_query.coef_, atol=1e-4)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    X, y, qid = shop(30)
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    Dataset.from_arrays(X, y, qid, feature_names=list("abcde")).save(path)
    return path


TOLD = {
    "pairs": 2, "categorical": ["e"], "linear": ["d"], "random_state": 0, "smooth": 1.0,
    "reweight": 1,
}  # fmt: skip


@pytest.mark.parametrize("rows", [40, 200])
def test_a_stream_gives_the_bits_of_memory_whatever_its_blocks(stored, rows):
    weight = np.where(np.arange(30) % 3 == 0, 2.0, 1.0)
    memory = AdditiveRanker(**TOLD).fit(rankine.load(stored), query_weight=weight)
    stream = rankine.scan(stored, block_rows=rows)
    found = AdditiveRanker(**TOLD).fit(stream, query_weight=weight)
    assert found.coef_.tobytes() == memory.coef_.tobytes()


@pytest.mark.parametrize("n_bytes", [5_000, 2**26])
def test_partitions_give_the_bits_of_memory_however_they_are_cut(stored, n_bytes, tmp_path):
    memory = AdditiveRanker(**TOLD).fit(rankine.load(stored))
    rankine.load(stored).save(tmp_path / "small.parquet", row_group_rows=60)
    parts = distributed.scan(tmp_path / "small.parquet", partition_bytes=n_bytes)
    assert parts.n_partitions > 1 or n_bytes > 5_000
    found = AdditiveRanker(**TOLD).fit(parts)
    assert found.coef_.tobytes() == memory.coef_.tobytes()
    assert found.training_["partitions"] == parts.n_partitions


@pytest.mark.parametrize("open_", [rankine.load, rankine.scan, distributed.scan])
def test_a_resumed_fit_has_the_same_bits(stored, open_, tmp_path):
    def fail(progress):
        raise KeyboardInterrupt

    whole = AdditiveRanker(**TOLD).fit(open_(stored))
    kept = {"checkpoint": tmp_path / "kept"}
    with pytest.raises(KeyboardInterrupt):
        AdditiveRanker(**TOLD).fit(open_(stored), callbacks=[fail], **kept)
    with mock.patch.object(additive_search, "solve_plan", side_effect=AssertionError):
        again = AdditiveRanker(**TOLD).fit(open_(stored), resume=True, **kept)
    assert again.coef_.tobytes() == whole.coef_.tobytes()
    with pytest.raises(CheckpointError):
        AdditiveRanker(**{**TOLD, "pairs": 1}).fit(open_(stored), resume=True, **kept)


def test_max_nonzero_and_callbacks_end_a_path(monkeypatch):
    X, y, qid = shop(20)
    ranker = AdditiveRanker(pairs=[(0, 1)], tol=1e-3)
    seen = []
    told = ranker.path(
        X, y, qid=qid, n_steps=2, callbacks=[lambda now: seen.append(now.step) or True]
    )
    assert seen == [1]
    assert len(told.nonzeros) == 1
    bound = int(told.nonzeros[0]) - 1
    solved = []
    solve = additive.solve_plan
    monkeypatch.setattr(additive, "solve_plan", lambda *how: solved.append(0) or solve(*how))
    assert len(ranker.path(X, y, qid=qid, n_steps=2, max_nonzero=bound).nonzeros) == 0
    assert len(solved) == 1


def test_a_path_holds_models_of_all_strengths_and_numbers_of_pairs(tmp_path):
    X, y, qid = shop(30)
    V, v, vid = shop(20, seed=2)
    ranker = AdditiveRanker(pairs=[(1, 2), (0, 1), (0, 3)], tol=1e-4)
    path = ranker.path(X, y, qid=qid, eval_set=(V, v), eval_qid=vid, n_steps=3, min_ratio=1e-4)
    assert (path.loss < path.objective).all()
    assert [(record["pairs"], record["smooth"]) for record in path.records()] == [
        (pairs, pytest.approx(smooth)) for pairs in (0, 1, 3) for smooth in (1000, 10, 0.1)
    ]
    best = path.best()
    model = path.to_model()
    assert model.transforms[0] == fit_bins(X, 64)
    held = Dataset.from_arrays(V, v, vid)
    assert evaluate_on(held, metric="ndcg@10", model=model) == pytest.approx(path.values[best])
    alone = ranker.set_params(smooth=10.0).fit(X, y, qid=qid)
    np.testing.assert_allclose(Scorer(path.to_model(7)).score(X), alone.predict(X), atol=0.05)
    assert (path.relative_gap <= 1e-4).all()
    assert path.best(max_nonzero=int(path.nonzeros[0])) < 3
    assert path.seconds.min() > 0
    assert {name: len(curve) for name, curve in path.curves().items()} == {
        "0 pairs": 3, "1 pairs": 3, "3 pairs": 3,
    }  # fmt: skip
    assert path.curves()["1 pairs"].l1.tolist() == path.l1[3:6].tolist()
    assert path.x_axis[1] == "smooth"
    for step, pairs in ((0, 0), (4, 1), (8, 3)):
        assert len(path.coef(step)) == path.to_model(step).n_features
        assert len(path.to_model(step).transforms) == 1 + (pairs > 0)
    sought = AdditiveRanker(pairs=2, tol=1e-3).path(X, y, qid=qid, n_steps=1)
    assert sought.n_pairs.tolist() == [0, 2]
    assert {axis.column for axis in sought.tables[1][1].axes} >= {1, 2}
    alone = AdditiveRanker(pairs=0, tol=1e-3).path(X, y, qid=qid, n_steps=2)
    assert alone.n_pairs.tolist() == [0, 0]
    fixed = AdditiveRanker(pairs=[(1, 2)], tol=1e-3, pair_smooth=5.0)
    assert fixed.path(X, y, qid=qid, n_steps=1).to_model(1).parameters["pair_smooth"] == 5.0
    curves = rankine.plot.path(path).get_lines()
    assert len(curves) == 4, "one curve a number of pairs, and a ring round the best"
    assert "3 pairs" in rankine.report(path).html


def test_the_command_starts_from_a_model(tmp_path):
    X, y, qid = shop(12)
    Dataset.from_arrays(X, y, qid).save(tmp_path / "rows.txt")
    command = ["train", str(tmp_path / "rows.txt"), "--ranker", "additive", "--set", "smooth=1.0"]
    command += ["--set", "pairs=1", "--out", str(tmp_path / "m.rankine")]
    for more in ([], ["--warm-start", str(tmp_path / "m.rankine")]):
        done = CliRunner().invoke(app, [*command, *more])
        assert done.exit_code == 0, done.output


def test_different_losses_give_different_models():
    X, y, qid = shop(20)
    models = [
        AdditiveRanker(smooth=0.3, pairs=0, reweight=0, loss=loss).fit(X, y, qid=qid).coef_
        for loss in ("softmax", "squared_hinge")
    ]
    assert np.abs(models[0] - models[1]).max() > 1e-3


@pytest.mark.parametrize("reweight", [0, 1])
def test_heavier_rows_are_ranked_higher(reweight):
    """Two kinds of relevant rows that look alike but for one column: the heavier kind wins."""
    rng = np.random.default_rng(0)
    qid, kind = np.repeat(np.arange(40), 6), np.tile([0, 1, 2, 2, 2, 2], 40)
    X = np.column_stack([kind + 0.01 * rng.random(240), rng.random(240)])
    ranker = AdditiveRanker(smooth=0.1, pairs=0, loss="softmax", reweight=reweight, categorical=[0])
    X[:, 0] = kind
    for heavy in (0, 1):
        weight = np.where(kind == heavy, 20.0, 1.0)
        fitted = ranker.fit(X, (kind < 2).astype(float), qid=qid, sample_weight=weight)
        scores = fitted.predict(X, qid)
        means = [scores[kind == k].mean() for k in range(3)]
        assert means[heavy] > means[1 - heavy] > means[2]


def table_data(n_queries=30, seed=0):
    """Lists as the search sees them."""
    X, y, qid = shop(n_queries, size=6, seed=seed)
    lists = Dataset.from_arrays(np.zeros((len(y), 0)), y, qid)
    bins = fit_bins(X, 8)
    rows = BinCoder(bins).code(X)
    return additive_search.TableData(lists, np.linspace(1, 2, n_queries), rows, X[:, :2].copy())


def test_with_given_strengths_the_sample_has_seed_0(monkeypatch):
    X, y, qid = shop(30, size=6)
    monkeypatch.setattr(additive_search, "SEARCH_ROWS", 30)
    seen = []
    solve = additive.first_solution
    monkeypatch.setattr(
        additive,
        "first_solution",
        lambda plan, few, *rest: seen.append(few) or solve(plan, few, *rest),
    )
    for seed in (None, 1, 2):
        AdditiveRanker(smooth=1.0, pairs=0, reweight=0, random_state=seed).fit(X, y, qid=qid)
    wanted = additive_search.sample(table_data(), 0).lists.queries.ids.tolist()
    assert [few.lists.queries.ids.tolist() for few in seen] == [wanted] * 3
    assert wanted != additive_search.sample(table_data(), 1).lists.queries.ids.tolist()


@pytest.mark.parametrize(("asked", "patience"), [(None, 2), (1, 1), (5, 5)])
def test_early_stopping_sets_the_patience_of_the_search(monkeypatch, asked, patience):
    def search(_plans, _plan, _pairs, given):
        raise KeyboardInterrupt(given)

    monkeypatch.setattr(additive, "search", search)
    X, y, qid = shop(4)
    held = {} if asked is None else {"eval_set": (X, y), "eval_qid": qid}
    with pytest.raises(KeyboardInterrupt) as told:
        AdditiveRanker(early_stopping=asked).fit(X, y, qid=qid, **held)
    assert told.value.args == (patience,)


def test_one_split_tries_a_round_and_folds_try_those_that_are_asked_for():
    X, y, qid = shop(12)
    held = {"eval_set": (X, y), "eval_qid": qid}
    for data, reweight, most in (({}, None, 0), (held, None, 1), ({}, 1, 1), (held, 0, 0)):
        ranker = AdditiveRanker(pairs=0, reweight=reweight).fit(X, y, qid=qid, **data)
        assert max(tried["rounds"] for tried in ranker.evals_) == most


def test_a_fit_without_warm_start_ignores_the_last_one():
    X, y, qid = shop(12)
    told = {"smooth": 1.0, "pairs": [(1, 2)], "linear": [3], "reweight": 0}
    again = AdditiveRanker(**told).fit(X, y, qid=qid)
    again.fit(X * [3, 1, 1, 10, 1], y, qid=qid)
    new = AdditiveRanker(**told).fit(X * [3, 1, 1, 10, 1], y, qid=qid)
    assert again.bins_ == new.bins_
    assert again.coef_.tobytes() == new.coef_.tobytes()


def test_two_columns_make_a_pair_and_may_rise_and_fall():
    X, y, qid = shop(12)
    both = AdditiveRanker(smooth=1.0, pairs=[(1, 0), (0, 1)]).fit(X[:, 1:3], y, qid=qid)
    assert both.pairs_ == [(0, 1)]
    sought = AdditiveRanker(smooth=1.0, pairs=3).fit(X[:, 1:3], y, qid=qid)
    assert sought.pairs_ == [(0, 1)]
    shapes = {0: "increasing", 1: "decreasing"}
    signs = AdditiveRanker(smooth=1.0, pairs=0, shapes=shapes).fit(X[:, :2], y, qid=qid)
    line = np.linspace(-2, 2, 30)
    for j, sign in ((0, 1), (1, -1)):
        rows = np.zeros((30, 2))
        rows[:, j] = line
        assert (sign * np.diff(signs.predict(rows)) >= -1e-12).all()


def test_pairs_are_searched_among_columns_with_cuts_and_without_constraints():
    X, y, qid = shop(12)
    wide = np.column_stack([X[:, 1:3], np.ones(len(X)), X[:, 0] > 0, np.where(y > 1, np.nan, 1.0)])
    for shapes, wanted in (
        ({0: "increasing"}, {0, 1, 3}),
        ({0: "convex"}, {1, 3}),
        ({0: "convex", 1: "concave"}, set()),
    ):
        ranker = AdditiveRanker(smooth=1.0, pairs=20, shapes=shapes, tol=1e-2)
        ranker.fit(wide, y, qid=qid)
        assert {j for pair in ranker.pairs_ for j in pair} == wanted
        assert len(ranker.pairs_) == len(wanted) * (len(wanted) - 1) // 2, "each once"
    alone = AdditiveRanker(smooth=1.0, pairs=20, tol=1e-2).fit(wide[:, [0, 2]], y, qid=qid)
    assert alone.pairs_ == []


def test_grids_have_the_strength_of_the_curves_unless_another_is_given():
    def strengths(**given):
        return AdditiveRanker(**given)._given_strengths()

    assert strengths() == {}
    assert strengths(smooth=2.0) == {"smooth": 2.0, "pair_smooth": 2.0}
    assert strengths(pair_smooth=3.0) == {"pair_smooth": 3.0}
    assert strengths(smooth=2.0, pair_smooth=3.0) == {"smooth": 2.0, "pair_smooth": 3.0}


def test_predict_arranges_the_cuts_once_and_again_after_a_fit(monkeypatch):
    X, y, qid = shop(12)
    ranker = AdditiveRanker(smooth=1.0, pairs=[(1, 2)]).fit(X, y, qid=qid)
    first = ranker.predict(X)
    size = len(pickle.dumps(ranker))
    with monkeypatch.context() as patch:
        patch.setattr(additive, "TableScorer", mock.Mock(side_effect=AssertionError))
        assert (ranker.predict(X) == first).all()
        ranker.coef_ = 2 * ranker.coef_
        assert (ranker.predict(X) == 2 * first).all(), "weights are not part of it"
    assert (ranker.set_params(n_threads=1).predict(X) == 2 * first).all()
    # Copies arrange their own, and contain none.
    for copied in (copy.deepcopy(ranker), pickle.loads(pickle.dumps(ranker))):  # noqa: S301
        assert (copied.predict(X) == 2 * first).all()
    assert abs(len(pickle.dumps(ranker)) - size) < 100
    clone(ranker).fit(2 * X, y, qid=qid)
    ranker.fit(10 * X, y, qid=qid)
    np.testing.assert_array_equal(ranker.predict(10 * X), Scorer(ranker.to_model()).score(10 * X))
    assert not np.allclose(ranker.predict(X), first)


@pytest.mark.parametrize("pairs", [0, [(0, 1)]])
def test_strong_smoothing_leaves_lines_with_and_without_pairs(pairs):
    rng = np.random.default_rng(0)
    X = np.exp(rng.normal(size=(1200, 3)))
    y = np.digitize(X[:, 0] + X[:, 1] / 2 + rng.normal(size=1200), [1, 2, 4])
    ranker = AdditiveRanker(smooth=1e5, anchor=0.1, pairs=pairs)
    ranker.fit(X, y, qid=np.repeat(np.arange(60), 20))
    cuts = np.array(ranker.bins_.cuts[0])
    entries = ranker.coef_[: ranker.bins_.n_cells[0]][1:-2]
    centres = (cuts[1:] + cuts[:-1]) / 2
    line = np.polyval(np.polyfit(centres, entries, 1), centres)
    np.testing.assert_allclose(entries, line, atol=1e-5 * np.ptp(entries))
    grids = ranker.coef_[sum(ranker.bins_.n_cells) :]
    assert np.abs(grids).max(initial=0.0) < 1e-5 * np.ptp(entries)
