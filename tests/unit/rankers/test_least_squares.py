"""LeastSquaresRanker against dense direct solutions, and eGDM's promises."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from rankine import LeastSquaresRanker
from rankine.core.errors import DivergenceError, NoPairsError, ParameterError
from rankine.kernels.random import SPLIT, permutation, stream_seed
from rankine.rankers.least_squares import CANDIDATES, _choose_candidate
from rankine.solvers.heavy_ball import lanczos, power_iteration

pytestmark = pytest.mark.usefixtures("raw_units")


def problem(seed=0, m=150, n=8, n_queries=6, decay=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n)) * np.arange(1.0, n + 1) ** -decay + 2.0
    qid = rng.integers(0, n_queries, m)
    y = np.round(X @ rng.normal(size=n) + rng.normal(size=m))
    return X, y, qid


def direct(X, y, qid, l2, pairs="all", normalization="query", weight=None, query_weight=None):
    """H, b and solution with every pair written out."""
    weight = np.ones(len(y)) if weight is None else weight
    of_query = dict.fromkeys(np.unique(qid), 1.0) if query_weight is None else query_weight
    blocks = {}
    for q in np.unique(qid):
        rows = np.flatnonzero((qid == q) & (weight > 0))
        if len(np.unique(y[rows])) < 2 or of_query[q] == 0:
            continue
        joint = np.outer(weight[rows], weight[rows])
        np.fill_diagonal(joint, 0.0)
        if pairs == "untied":
            joint *= y[rows][:, None] != y[rows][None, :]
        blocks[q] = (rows, joint, weight[rows].sum())
    all_weight = sum(of_query[q] for q in blocks)
    all_pairs = sum(of_query[q] * joint.sum() / 2 for q, (_, joint, _) in blocks.items())
    H, b = 0.5 * l2 * np.eye(X.shape[1]), np.zeros(X.shape[1])
    for q, (rows, joint, total) in blocks.items():
        scale = (
            of_query[q]
            * {
                "query": 1 / (all_weight * total),
                "sum": 1.0,
                "pair": total / all_pairs,
            }[normalization]
        )
        L = scale * (np.diag(joint.sum(axis=1)) - joint) / total
        H += X[rows].T @ L @ X[rows]
        b += X[rows].T @ L @ y[rows]
    return H, b, np.linalg.solve(H, b)


@pytest.mark.parametrize("pairs", ["all", "untied"])
@pytest.mark.parametrize("normalization", ["query", "sum", "pair"])
@pytest.mark.parametrize("solver", ["cg", "egdm"])
def test_solvers_equal_the_direct_solution(solver, normalization, pairs):
    X, y, qid = problem()
    rng = np.random.default_rng(1)
    weight = rng.integers(0, 3, len(y)).astype(float)
    query_weight = dict(enumerate(rng.integers(0, 3, 6).astype(float)))
    expected = direct(X, y, qid, 0.02, pairs, normalization, weight, query_weight)[2]
    ranker = LeastSquaresRanker(
        l2=0.02, solver=solver, pairs=pairs, normalization=normalization, tol=1e-12
    ).fit(X, y, qid=qid, sample_weight=weight, query_weight=query_weight)
    np.testing.assert_allclose(ranker.coef_, expected, rtol=0, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("solver", ["cg", "egdm"])
def test_accuracy_up_to_condition_ten_thousand(solver):
    X, y, qid = problem(3, n=12, decay=1.9)
    H, _, expected = direct(X, y, qid, 2e-4)
    assert 3e3 < np.linalg.cond(H) < 1.1e4
    ranker = LeastSquaresRanker(l2=2e-4, solver=solver, tol=1e-12, max_iter=100_000)
    ranker.fit(X, y, qid=qid)
    assert ranker.solution_.stop_reason == "converged"
    np.testing.assert_allclose(ranker.coef_, expected, rtol=0, atol=1e-8 * np.abs(expected).max())


def test_the_objective_is_the_sum_over_pairs():
    X, y, qid = problem(4)
    ranker = LeastSquaresRanker(l2=0.2, normalization="sum").fit(X, y, qid=qid)
    e = y - X @ ranker.coef_
    total = 0.1 * ranker.coef_ @ ranker.coef_
    for q in np.unique(qid):
        own = e[qid == q]
        total += ((own[:, None] - own[None, :]) ** 2).sum() / (2 * len(own))
    assert ranker.solution_.objective == pytest.approx(total)


@pytest.mark.parametrize("solver", ["cg", "egdm", "gdm"])
def test_several_strengths_equal_separate_fits(solver):
    X, y, qid = problem(5)
    l2s = [2.0, 2e-3, 0.2]
    ranker = LeastSquaresRanker(l2=l2s, solver=solver, tol=1e-11).fit(X, y, qid=qid)
    assert ranker.l2s_.tolist() == [2.0, 0.2, 2e-3]
    for l2, coef in zip(ranker.l2s_, ranker.coef_path_, strict=True):
        expected = direct(X, y, qid, l2)[2]
        np.testing.assert_allclose(coef, expected, atol=1e-8 * np.abs(expected).max())
    assert ranker.l2_ == 2e-3


def test_many_strengths_share_their_products():
    X, y, qid = problem(6, n=12, decay=1.0)
    l2s = [2 * 10.0**k for k in range(-4, 2)]
    alone = LeastSquaresRanker(l2=2e-4).fit(X, y, qid=qid).solution_.certificate["products"]
    shared = LeastSquaresRanker(l2=l2s).fit(X, y, qid=qid).path_[-1].certificate["products"]
    assert shared <= alone + 4 * len(l2s)


def flat_data(seed=0):
    """Wide sparse noise: a flat spectrum, on which power iteration underestimates."""
    X = sparse.random_array((300, 600), density=0.05, rng=np.random.default_rng(seed), format="csr")
    return X, np.random.default_rng(seed + 1).normal(size=300), np.zeros(300, dtype=int)


@pytest.mark.parametrize("curvature", ["lanczos", "power", "online"])
@pytest.mark.parametrize("l2", [2.0, 2e-2])
@pytest.mark.parametrize("data", ["flat", "ill"])
def test_egdm_never_diverges(data, l2, curvature):
    X, y, qid = flat_data() if data == "flat" else problem(7, n=12, decay=2.0)
    ranker = LeastSquaresRanker(
        l2=l2,
        solver="egdm",
        curvature=curvature,
        normalization="sum",
        tol=1e-6,
        max_iter=60_000,
        random_state=3,
    ).fit(X, y, qid=qid)
    assert ranker.solution_.stop_reason == "converged"
    cg = LeastSquaresRanker(l2=l2, normalization="sum", tol=1e-10).fit(X, y, qid=qid)
    assert ranker.solution_.objective == pytest.approx(cg.solution_.objective, rel=1e-6)


def test_power_iteration_is_low_where_lanczos_is_safe():
    X = flat_data()[0].toarray()
    X -= X.mean(axis=0)
    H = X.T @ X
    largest = np.linalg.eigvalsh(H)[-1]
    rough = power_iteration(lambda v: H @ v, 600, seed=0)
    safe = lanczos(lambda v: H @ v, 600, seed=0)
    assert rough.largest < largest * (1 - 1e-3)
    assert largest <= safe.largest <= 1.05 * largest
    assert [record["step"] for record in safe.trace] == list(range(1, 31))
    assert safe.shifted(2.0) == (safe.largest + 2.0, max(0.0, safe.smallest) + 2.0)


def test_restarts_correct_a_wrong_first_estimate(monkeypatch):
    import rankine.rankers.least_squares as module

    X, y, qid = problem(8)
    honest = LeastSquaresRanker(solver="egdm", random_state=0).fit(X, y, qid=qid).spectrum_
    wrong = type(honest)(honest.largest / 50, honest.smallest, 1)
    monkeypatch.setattr(module, "lanczos", lambda *_: wrong)
    ranker = LeastSquaresRanker(solver="egdm", random_state=0, max_iter=100_000).fit(X, y, qid=qid)
    assert ranker.solution_.certificate["restarts"] >= 3
    assert ranker.solution_.stop_reason == "converged"


def test_gdm_refuses_an_unstable_eta_and_names_the_largest_stable_one():
    X, y, qid = problem(9)
    kappa = (
        LeastSquaresRanker(solver="gdm", random_state=0)
        .fit(X, y, qid=qid)
        .solution_.certificate["kappa_1"]
    )
    limit = 2 * 1.5 / (0.5 * kappa)
    with pytest.raises(ParameterError, match=f"{limit:.4g}"[:4]):
        LeastSquaresRanker(solver="gdm", random_state=0, eta=1.01 * limit, momentum=0.5).fit(
            X, y, qid=qid
        )
    stable = LeastSquaresRanker(
        solver="gdm", random_state=0, eta=0.98 * limit, momentum=0.5, max_iter=50_000
    )
    assert stable.fit(X, y, qid=qid).solution_.stop_reason == "converged"


@pytest.mark.filterwarnings("ignore:LeastSquaresRanker stopped .passes.")
def test_stochastic_descent_approaches_the_optimum_and_depends_on_the_seed_alone():
    X, y, qid = problem(10, m=600, n_queries=40)
    best = LeastSquaresRanker(l2=0.2).fit(X, y, qid=qid).solution_.objective

    def descend(n_passes, **options):
        ranker = LeastSquaresRanker(l2=0.2, solver="sgd", n_passes=n_passes, **options)
        with pytest.warns(ConvergenceWarning, match="short of tol"):
            return ranker.fit(X, y, qid=qid)

    few, many = descend(4, random_state=1), descend(60, random_state=1)
    at_zero = LeastSquaresRanker(l2=2e9).fit(X, y, qid=qid).solution_.objective
    assert best <= many.solution_.objective < few.solution_.objective
    assert many.solution_.objective - best < 1e-2 * (at_zero - best)
    again = descend(4, random_state=1, n_threads=2)
    np.testing.assert_array_equal(again.coef_, few.coef_)
    assert (descend(4, random_state=2).coef_ != few.coef_).any()


@pytest.mark.parametrize("n_queries", [1, 40])
@pytest.mark.parametrize("solver", ["cg", "egdm"])
def test_storage_and_threads_do_not_matter(solver, n_queries):
    X, y, qid = problem(11, m=400, n_queries=n_queries)
    base = LeastSquaresRanker(solver=solver, random_state=0, n_threads=1).fit(X, y, qid=qid)
    threads = LeastSquaresRanker(solver=solver, random_state=0, n_threads=3).fit(X, y, qid=qid)
    np.testing.assert_array_equal(threads.coef_, base.coef_)
    tight = {"solver": solver, "tol": 1e-11}
    dense = LeastSquaresRanker(**tight).fit(X, y, qid=qid).coef_
    csr = LeastSquaresRanker(**tight).fit(sparse.csr_array(X), y, qid=qid).coef_
    single = LeastSquaresRanker(**tight).fit(X.astype(np.float32), y, qid=qid).coef_
    np.testing.assert_allclose(csr, dense, atol=1e-8)
    np.testing.assert_allclose(single, dense, atol=1e-4)


def test_starts_and_traces():
    X, y, qid = problem(12)
    ranker = LeastSquaresRanker(warm_start=True).fit(X, y, qid=qid)
    residuals = [record["residual"] for record in ranker.solution_.trace]
    assert residuals[0] == 1.0
    assert residuals[-1] <= 1e-6
    assert ranker.fit(X, y, qid=qid).n_iter_ == 0
    given = LeastSquaresRanker().fit(X, y, qid=qid, coef_init=ranker.coef_)
    assert given.n_iter_ == 0


def test_tied_queries_are_left_out():
    X, y, qid = problem(13)
    y = np.where(qid == 2, 1.0, y)
    expected = direct(X[qid != 2], y[qid != 2], qid[qid != 2], 2e-3)[2]
    found = LeastSquaresRanker(tol=1e-11).fit(X, y, qid=qid).coef_
    np.testing.assert_allclose(found, expected, atol=1e-9)
    with pytest.raises(NoPairsError):
        LeastSquaresRanker().fit(X, np.ones(len(y)), qid=qid)


def test_running_out_of_iterations_gives_a_warning():
    X, y, qid = problem(14)
    with pytest.warns(ConvergenceWarning, match="short of tol"):
        LeastSquaresRanker(l2=2e-6, max_iter=2).fit(X, y, qid=qid)


@pytest.mark.parametrize(
    "bad",
    [
        {"l2": 0.0},
        {"l2": [1.0, -1.0]},
        {"solver": "adam"},
        {"pairs": "some"},
        {"curvature": "guess"},
        {"normalization": "mean"},
        {"momentum": 1.0},
        {"eta": -1.0, "solver": "gdm"},
        {"tol": -1.0},
        {"n_passes": 0},
    ],
)
def test_bad_parameters_are_refused(bad):
    X, y, qid = problem(0, m=20)
    with pytest.raises(ParameterError):
        LeastSquaresRanker(**bad).fit(X, y, qid=qid)


def even_lists(noise, n_lists=40, size=10, n=200):
    """Lists of one size."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n_lists * size, n))
    y = X @ rng.normal(size=n) + noise * rng.normal(size=len(X))
    return X, y, np.repeat(np.arange(n_lists), size)


def test_automatic_l2_grows_with_noise_and_is_the_default_for_few_lists():
    l2s = []
    for noise in (0, 9):
        X, y, qid = even_lists(noise)
        noisy = LeastSquaresRanker().fit(X, y, qid=qid)
        l2s.append(noisy.l2_ * 40 / 32)  # a fifth of 40 lists is held out
    assert l2s[0] < 2.1e-3 < l2s[1]
    assert all(any(l2 == pytest.approx(one) for one in CANDIDATES) for l2 in l2s)
    assert noisy.solution_.certificate["l2"] == noisy.l2_
    half = LeastSquaresRanker().fit(X, y, qid=qid, query_weight=np.full(40, 0.5))
    assert half.l2_ == pytest.approx(noisy.l2_)
    some = (np.arange(40) < 24).astype(float)
    for weight, usual in ((some, True), (some + (np.arange(40) == 30), False)):
        found = LeastSquaresRanker().fit(X, y, qid=qid, query_weight=weight).l2_
        assert (found == pytest.approx(2e-3)) == usual, "lists of weight 0 tell nothing"
    X, y, qid = even_lists(9, n_lists=24)
    assert LeastSquaresRanker().fit(X, y, qid=qid).l2_ == pytest.approx(2e-3)


@pytest.mark.parametrize("normalization", ["query", "sum", "pair"])
@pytest.mark.parametrize("pairs", ["all", "untied"])
def test_an_automatic_l2_does_not_see_lists_without_weight(normalization, pairs):
    X, y, qid = even_lists(3, n_lists=60)
    lists = np.unique(qid)
    weight = (np.arange(len(lists)) % 3 > 0).astype(float)
    of_row = weight[np.searchsorted(lists, qid)]
    one_label = (np.searchsorted(lists, qid) % 3 == 0) & (y == y.min())
    kept = of_row > 0
    told = {"normalization": normalization, "pairs": pairs}
    expected = LeastSquaresRanker(**told).fit(X[kept], y[kept], qid=qid[kept])
    for weights in (
        {"query_weight": weight},
        {"sample_weight": of_row},
        {"sample_weight": np.maximum(of_row, one_label)},
    ):
        found = LeastSquaresRanker(**told).fit(X, y, qid=qid, **weights)
        assert found.l2_ == pytest.approx(expected.l2_, rel=1e-12)
        np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-5)


def test_an_automatic_l2_means_the_same_for_sums_and_means():
    X, y, qid = even_lists(3)
    mean, total = (
        LeastSquaresRanker(normalization=normalization, tol=1e-10).fit(X, y, qid=qid)
        for normalization in ("query", "sum")
    )
    assert total.l2_ == pytest.approx(mean.l2_ * len(X))
    np.testing.assert_allclose(total.coef_, mean.coef_, rtol=1e-6)
    for options in ({"random_state": 7}, {"n_threads": 2}, {"solver": "egdm"}):
        assert LeastSquaresRanker(**options).fit(X, y, qid=qid).l2_ == mean.l2_


def test_every_one_of_few_lists_is_held_out_once(monkeypatch):
    X, y, qid = even_lists(3, n_lists=42, n=5)
    folds = []
    try_strengths = LeastSquaresRanker._try_strengths

    def counted(self, data, weight, train, held_out):
        folds.append((held_out.tolist(), train.tolist()))
        return try_strengths(self, data, weight, train, held_out)

    monkeypatch.setattr(LeastSquaresRanker, "_try_strengths", counted)
    LeastSquaresRanker().fit(X, y, qid=qid)
    assert [len(held_out) for held_out, _ in folds] == [8] * 5
    assert folds[0][0] == permutation(stream_seed(0, SPLIT), 42)[:8].tolist(), "of seed 0"
    assert len(set().union(*(held_out for held_out, _ in folds))) == 40
    assert all(sorted(held_out + train) == list(range(42)) for held_out, train in folds)
    folds.clear()
    monkeypatch.setattr("rankine.rankers.least_squares.MIN_LISTS_FOR_ONE_SPLIT", 42)
    LeastSquaresRanker().fit(X, y, qid=qid)
    assert len(folds) == 1


def test_the_chosen_strength_is_the_one_next_to_the_usual_that_is_no_worse_than_chance():
    rng = np.random.default_rng(0)
    for _ in range(50):
        losses = rng.gamma(2.0, size=(9, 12)) + rng.normal(size=(9, 1)) ** 2
        best = losses[losses.mean(axis=1).argmin()]
        good = [
            k
            for k, own in enumerate(losses)
            if (own - best).mean() <= 0.5 * (own - best).std(ddof=1) / np.sqrt(12)
        ]
        assert _choose_candidate(losses, 6) == min(good, key=lambda k: abs(k - 6))


@pytest.mark.parametrize("solver", ["cg", "egdm", "gdm", "sgd"])
@pytest.mark.parametrize("l2", [1.0, [1.0, 0.01]], ids=["one", "several"])
def test_overflowing_squares_are_an_error(solver, l2):
    X, y, qid = problem()
    with pytest.raises(DivergenceError):
        LeastSquaresRanker(l2, solver=solver).fit(1e170 * X, y, qid=qid)


@pytest.mark.parametrize("l2", [1e-3, [1.0, 1e-3]], ids=["one", "several"])
def test_a_residual_above_tol_that_the_recursion_misses_gives_a_warning(l2):
    """Of rows near 1e13 products keep three digits."""
    rng = np.random.default_rng(0)
    X, y, qid = rng.normal(size=(200, 8)), rng.integers(0, 3, 200), np.repeat(np.arange(20), 10)
    with pytest.warns(ConvergenceWarning, match=r"residual=.*short of tol=1e-06"):
        ranker = LeastSquaresRanker(l2, scale="none").fit(X + 1e13, y, qid=qid)
    assert ranker.solution_.stop_reason == "precision"
    assert ranker.solution_.certificate["residual"] > 1e-6
