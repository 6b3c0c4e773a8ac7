"""RankSVM against liblinear on explicit pairs, bounded solvers, and its own promises."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from rankine import RankSVM
from rankine.core.errors import NoPairsError, ParameterError, SchemaError
from rankine.metrics import evaluate
from rankine.solvers import problem as coarse
from reference.pairs import pair_list, pair_risk

pytestmark = pytest.mark.usefixtures("raw_units")


def problem(seed=0, m=50, n=5, n_queries=3, noise=2.0):
    rng = np.random.default_rng(seed)
    X, qid = rng.normal(size=(m, n)), np.sort(rng.integers(0, n_queries, m))
    y = np.round(X @ rng.normal(size=n) + noise * rng.normal(size=m))
    return X, y, qid


def objective(w, X, y, qid, l2, loss, normalization="query", **weights):
    return 0.5 * l2 * w @ w + pair_risk(X @ w, y, qid, loss, normalization, **weights)[0]


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("seed", range(3))
def test_weights_equal_liblinear_on_explicit_pairs(seed, loss):
    X, y, qid = problem(seed, n_queries=1 + seed)
    high, low = pair_list(y, qid)
    D, N, l2 = X[high] - X[low], len(high), 0.1
    sign = np.where(np.arange(N) % 2, 1, -1)
    peer = LinearSVC(
        loss=loss,
        C=1 / (l2 * N),
        fit_intercept=False,
        tol=1e-10,
        max_iter=2_000_000,
        random_state=0,
        dual=True,
    ).fit(D * sign[:, None], sign)
    ours = RankSVM(l2=l2, loss=loss, normalization="pair", tol=1e-12).fit(X, y, qid=qid)
    np.testing.assert_allclose(ours.coef_, peer.coef_.ravel(), atol=2e-6)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("positive", [False, True])
def test_the_certificate_brackets_the_optimum(loss, positive):
    X, y, qid = problem(4)
    ranker = RankSVM(l2=0.02, loss=loss, positive=positive).fit(X, y, qid=qid)
    exact = RankSVM(l2=0.02, loss=loss, positive=positive, tol=1e-11).fit(X, y, qid=qid)
    proof = ranker.solution_.certificate
    assert proof["objective"] == pytest.approx(objective(ranker.coef_, X, y, qid, 0.02, loss))
    assert proof["gap"] == proof["objective"] - proof["lower_bound"] <= ranker.tol
    assert proof["lower_bound"] <= exact.solution_.objective + 1e-12
    assert exact.solution_.objective <= proof["objective"] + 1e-12


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_non_negative_weights_are_the_constrained_optimum(loss):
    X, y, qid = problem(5)
    ranker = RankSVM(l2=0.04, loss=loss, positive=True, tol=1e-10).fit(X, y, qid=qid)
    assert (ranker.coef_ >= 0).all()
    assert (ranker.coef_ == 0).any()
    rng = np.random.default_rng(0)
    best = min(
        minimize(
            lambda w: objective(np.abs(w), X, y, qid, 0.04, loss),
            ranker.coef_ + 0.3 * rng.random(5),
            method="Nelder-Mead",
            options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000, "adaptive": True},
        ).fun
        for _ in range(3)
    )
    assert ranker.solution_.objective <= best + 1e-9


def test_c_equals_the_c_of_svmrank():
    X, y, qid = problem(1)
    by_c = RankSVM(C=25.0, tol=1e-10).fit(X, y, qid=qid)
    by_l2 = RankSVM(l2=0.04, tol=1e-10).fit(X, y, qid=qid)
    np.testing.assert_array_equal(by_c.coef_, by_l2.coef_)
    assert by_c.l2_ == pytest.approx(0.04)
    assert pytest.approx(25.0) == by_c.C_
    assert by_c.training_["l2"] == by_c.l2_
    assert by_c.solution_.certificate["C"] == by_c.C_


def test_the_solvers_of_a_smooth_loss_find_the_same_weights():
    X, y, qid = problem(17)
    options = {"l2": 0.1, "loss": "squared_hinge", "tol": 1e-10}
    auto, newton, bundle = (
        RankSVM(solver=solver, **options).fit(X, y, qid=qid)
        for solver in ("auto", "newton", "bundle")
    )
    np.testing.assert_array_equal(auto.coef_, newton.coef_)
    assert "cuts" in bundle.solution_.certificate
    np.testing.assert_allclose(bundle.coef_, newton.coef_, atol=1e-4)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_gap_is_measured_by_the_risk_of_no_weights(loss):
    X, y, qid = problem(18)
    ranker = RankSVM(l2=2.0, loss=loss, normalization="sum", tol=1e-2).fit(X, y, qid=qid)
    proof = ranker.solution_.certificate
    at_zero = objective(np.zeros(5), X, y, qid, 2.0, loss, "sum")
    assert proof["relative_gap"] == pytest.approx(proof["gap"] / at_zero)
    assert proof["relative_gap"] <= 1e-2
    assert ranker.solution_.trace[0]["gap"] > proof["gap"]


@pytest.mark.parametrize("normalization", ["query", "pair", "sum"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_integer_weights_equal_repetitions(normalization, loss):
    X, y, qid = problem(2, m=30)
    rng = np.random.default_rng(7)
    times = rng.integers(0, 3, len(y))
    options = {"l2": 0.1, "loss": loss, "normalization": normalization, "tol": 1e-11}
    weighted = RankSVM(**options).fit(
        X, y, qid=qid, sample_weight=times, query_weight={0: 1.0, 1: 2.0, 2: 3.0}
    )
    rows = np.repeat(np.arange(len(y)), times)
    copies = [(rows[qid[rows] == q], 10 * q + c) for q in range(3) for c in range(q + 1)]
    again = np.concatenate([part for part, _ in copies])
    names = np.concatenate([np.full(len(part), name) for part, name in copies])
    repeated = RankSVM(**options).fit(X[again], y[again], qid=names)
    assert weighted.solution_.objective == pytest.approx(repeated.solution_.objective, abs=1e-9)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-5)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_path_equals_separate_fits(loss):
    X, y, qid = problem(3)
    path = RankSVM(l2=[0.02, 2.0, 0.2], loss=loss, tol=1e-10).fit(X, y, qid=qid)
    assert path.l2s_.tolist() == [2.0, 0.2, 0.02]
    assert path.l2_ == 0.02
    np.testing.assert_array_equal(path.coef_, path.coef_path_[-1])
    for l2, found in zip(path.l2s_, path.path_, strict=True):
        alone = RankSVM(l2=l2, loss=loss, tol=1e-10).fit(X, y, qid=qid)
        assert found.objective == pytest.approx(alone.solution_.objective, abs=1e-9)


def graded(seed):
    X, y, qid = problem(seed, m=120, n=20, noise=6.0)
    return X, np.clip(y, 0, 4), qid


def test_a_path_is_chosen_on_the_evaluation_set():
    X, y, qid = graded(3)
    valid = graded(30)
    ranker = RankSVM(l2=[2 * 10.0**k for k in range(-3, 2)])
    ranker.fit(X, y, qid=qid, eval_set=valid[:2], eval_qid=valid[2])
    values = [evaluate("ndcg@10", valid[1], valid[0] @ w, valid[2]) for w in ranker.coef_path_]
    assert len(set(values)) > 1
    assert ranker.l2_ == ranker.l2s_[np.argmax(values)]
    assert ranker.score(*valid) == pytest.approx(max(values))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_warm_start_from_the_optimum_ends_at_once(loss):
    X, y, qid = problem(6)
    ranker = RankSVM(l2=0.02, loss=loss, warm_start=True, tol=1e-6).fit(X, y, qid=qid)
    cold = ranker.n_iter_
    ranker.fit(X, y, qid=qid)
    assert ranker.n_iter_ < cold
    given = RankSVM(l2=0.02, loss=loss, tol=1e-6).fit(X, y, qid=qid, coef_init=ranker.coef_)
    assert given.n_iter_ < cold


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_three_oracles_agree(loss):
    X, y, qid = problem(8)
    tree, levels, pairs = (
        RankSVM(l2=0.02, loss=loss, oracle=oracle, tol=1e-8).fit(X, y, qid=qid)
        for oracle in ("tree", "levels", "pairs")
    )
    np.testing.assert_allclose(levels.coef_, tree.coef_, atol=1e-9)
    np.testing.assert_allclose(pairs.coef_, tree.coef_, atol=1e-9)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_storage_and_threads_do_not_matter(loss):
    X, y, qid = problem(9, m=200, n_queries=20)
    shuffled = np.random.default_rng(0).permutation(200)
    base = RankSVM(l2=0.02, loss=loss, n_threads=1).fit(X, y, qid=qid)
    threads = RankSVM(l2=0.02, loss=loss, n_threads=3).fit(X, y, qid=qid)
    np.testing.assert_array_equal(threads.coef_, base.coef_)
    tight = {"l2": 0.02, "loss": loss, "tol": 1e-9}
    dense = RankSVM(**tight).fit(X, y, qid=qid).coef_
    csr = RankSVM(**tight).fit(sparse.csr_array(X), y, qid=qid).coef_
    mixed = RankSVM(**tight).fit(X[shuffled], y[shuffled], qid=qid[shuffled]).coef_
    single = RankSVM(**tight).fit(X.astype(np.float32), y, qid=qid).coef_
    np.testing.assert_allclose(csr, dense, atol=1e-6)
    np.testing.assert_allclose(mixed, dense, atol=1e-6)
    np.testing.assert_allclose(single, dense, atol=1e-3)


@pytest.mark.parametrize("normalization", ["query", "sum"])
@pytest.mark.parametrize("n_queries", [1, 600])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_start_from_a_sample_does_not_change_the_optimum(
    monkeypatch, loss, n_queries, normalization
):
    X, y, qid = problem(10, m=2400, n=3, n_queries=n_queries)
    l2 = 0.02 if normalization == "query" else 200.0
    options = {"l2": l2, "loss": loss, "normalization": normalization}
    cold = RankSVM(**options, tol=1e-6).fit(X, y, qid=qid)
    monkeypatch.setattr(coarse, "MIN_ROWS", 200)
    warm = RankSVM(**options, tol=1e-6).fit(X, y, qid=qid)
    assert warm.solution_.objective == pytest.approx(cold.solution_.objective, rel=2e-6)
    assert warm.solution_.trace[0]["objective"] < cold.solution_.trace[0]["objective"]


def test_early_stopping_keeps_the_best_weights():
    X, y, qid = graded(11)
    valid = graded(12)
    ranker = RankSVM(l2=2e-4, early_stopping=2, tol=1e-9).fit(
        X, y, qid=qid, eval_set=valid[:2], eval_qid=valid[2]
    )
    measured = [record["value"] for record in ranker.evals_]
    assert ranker.solution_.stop_reason == "early_stopping"
    assert ranker.score(*valid) == pytest.approx(max(measured))


def test_a_callback_sees_the_gap_and_can_stop():
    X, y, qid = problem(13)
    seen = []

    def watch(progress):
        seen.append(progress.values["gap"])
        return np.bool_(len(seen) == 3)  # comparisons of numpy numbers give numpy booleans

    ranker = RankSVM(l2=2e-4, tol=1e-12).fit(X, y, qid=qid, callbacks=[watch])
    assert ranker.solution_.stop_reason == "callback"
    assert ranker.n_iter_ == 3
    assert seen == sorted(seen, reverse=True)


def test_running_out_of_iterations_gives_a_warning():
    X, y, qid = problem(14)
    with pytest.warns(ConvergenceWarning, match="short of tol"):
        ranker = RankSVM(l2=2e-5, max_iter=1, tol=1e-9).fit(X, y, qid=qid)
    assert ranker.solution_.stop_reason == "max_iter"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_impossible_tolerance_ends_at_rounding():
    X, y, qid = problem(15)
    ranker = RankSVM(l2=2.0, normalization="sum", tol=1e-300).fit(X, y, qid=qid)
    assert ranker.solution_.stop_reason != "max_iter"
    assert ranker.solution_.certificate["relative_gap"] < 1e-12


def test_a_model_scores_as_the_ranker_does():
    X, y, qid = problem(16)
    ranker = RankSVM(l2=0.02, scale="standard").fit(X, y, qid=qid)
    model = ranker.to_model()
    np.testing.assert_allclose(X @ model.to_dense(), ranker.predict(X))
    assert model.parameters["ranker"] == "ranksvm"
    assert model.provenance["certificate"]["gap"] <= 1e-3


@pytest.mark.parametrize(
    "bad",
    [
        {"l2": 0.0},
        {"l2": -1},
        {"l2": []},
        {"l2": "much"},
        {"l2": True},
        {"l2": float("nan")},
        {"C": 0.0},
        {"loss": "zero-one"},
        {"solver": "simplex"},
        {"tol": 0},
        {"max_iter": 0},
        {"max_iter": 1.5},
        {"oracle": "magic"},
        {"normalization": "mean"},
    ],
)
def test_bad_parameters_are_refused(bad):
    X, y, qid = problem(0, m=10)
    with pytest.raises(ParameterError):
        RankSVM(**bad).fit(X, y, qid=qid)


def test_data_that_cannot_be_ranked_is_refused():
    X, _, qid = problem(0, m=10)
    with pytest.raises(NoPairsError):
        RankSVM().fit(X, np.ones(10), qid=qid)
    with pytest.raises(SchemaError):
        RankSVM().fit(X, np.arange(10.0), qid=qid, coef_init=np.ones(3))
