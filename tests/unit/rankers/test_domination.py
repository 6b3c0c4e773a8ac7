"""The optimum: against L-BFGS, its certificate, monotony, threads, seeds, storage."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from slow_domination import brute_loss, reference_optimum

from error_checks import raises_for
from rankine import DominationRanker
from rankine.core.errors import DivergenceError, NoPairsError, ParameterError, SchemaError
from rankine.data import Dataset

pytestmark = pytest.mark.usefixtures("raw_units")


def problem(seed, levels=2, m=80, n=12):
    rng = np.random.default_rng(seed)
    X = np.abs(rng.normal(size=(m, n))) * (rng.random((m, n)) < 0.4)
    u = X @ rng.normal(size=n) + 1.5 * rng.normal(size=m)
    y = np.digitize(u, np.quantile(u, np.linspace(0.6, 0.9, levels - 1))).astype(float)
    return X, y, rng.integers(0, 3, m)


@pytest.mark.parametrize(
    ("levels", "margin", "l1", "l2"),
    [(2, 0.0, 1.0, 0.0), (2, 0.0, 0.0, 0.5), (4, 0.0, 1.0, 0.0), (3, 0.5, 0.5, 0.1)],
)
@pytest.mark.parametrize(
    "how", [{}, {"curvature": "paper"}, {"solver": "cd_plain"}], ids=["cd", "paper", "plain"]
)
def test_optimum_equals_l_bfgs(levels, margin, l1, l2, how):
    X, y, qid = problem(levels, levels)
    w, best = reference_optimum(X, y, qid, margin * y, l1, l2)
    ranker = DominationRanker(l1, l2, margin=margin or None, tol=1e-9, max_iter=20000, **how).fit(
        X, y, qid=qid
    )
    assert ranker.solution_.objective == pytest.approx(best, rel=1e-7)
    np.testing.assert_allclose(ranker.coef_, w, atol=2e-3)
    assert ((np.abs(w) > 1e-6) == (ranker.coef_ != 0)).all()
    assert ranker.solution_.certificate["gap"] >= best * -1e-9
    assert ranker.solution_.certificate["lower_bound"] <= best * (1 + 1e-9)
    falls = np.diff([record["objective"] for record in ranker.solution_.trace])
    assert (falls <= 1e-9 * best).all()


def figure_1_1(X, positive, sweeps, l1):
    """The paper's algorithm as printed, with the soft threshold of its lemma 2."""
    w, rho = np.zeros(X.shape[1]), np.zeros(len(X))
    bound = positive.sum() * (X**2).max(axis=0)
    for _ in range(sweeps):
        for r in np.flatnonzero(bound):
            Z, mu = np.exp(rho[~positive]).sum(), np.exp(rho[~positive]) @ X[~positive, r]
            v = ((Z * X[positive, r] - mu) / (Z + np.exp(rho[positive]))).sum()
            u = bound[r] * w[r] + v
            step = np.sign(u) * max(abs(u) - l1, 0.0) / bound[r] - w[r]
            w[r] += step
            rho += step * X[:, r]
    return w


@pytest.mark.parametrize("l1", [0.0, 0.7])
def test_cd_plain_is_the_algorithm_of_the_paper(l1):
    X, y, _ = problem(5)
    ranker = DominationRanker(l1, 1e-9, solver="cd_plain", tol=0.0, max_iter=4)
    with pytest.warns(ConvergenceWarning):
        ranker.fit(X, y)
    np.testing.assert_allclose(ranker.coef_, figure_1_1(X, y > 0, 4, l1), atol=1e-8)
    assert ranker.n_iter_ == 4


def test_cd_plain_refuses_options_without_effect():
    X, y, qid = problem(5)
    with pytest.raises(ParameterError) as caught:
        DominationRanker(solver="cd_plain", curvature="newton").fit(X, y, qid=qid)
    assert caught.value.parameter == "curvature"


def test_copies_of_rows_equal_weights():
    X, y, qid = problem(5, 3)
    counts = np.random.default_rng(0).integers(0, 4, len(y))
    rows = np.repeat(np.arange(len(y)), counts)
    for normalization in ("sum", "query"):
        ranker = DominationRanker(0.3, 0.1, normalization=normalization, tol=1e-10)
        weighted = ranker.fit(X, y, qid=qid, sample_weight=counts).coef_
        copied = ranker.fit(X[rows], y[rows], qid=qid[rows]).coef_
        np.testing.assert_allclose(weighted, copied, atol=1e-5)


def test_query_weight_zero_removes_a_query():
    X, y, qid = problem(6)
    keep = qid != 1
    ranker = DominationRanker(0.5, tol=1e-9)
    without = ranker.fit(X[keep], y[keep], qid=qid[keep]).coef_
    zero = ranker.fit(X, y, qid=qid, query_weight={0: 1.0, 1: 0.0, 2: 1.0}).coef_
    np.testing.assert_allclose(zero, without, atol=1e-6)


def test_default_penalties_are_shares_of_the_largest_l1():
    X, y, qid = problem(1)
    ranker = DominationRanker().fit(X, y, qid=qid)
    assert ranker.l1_ == pytest.approx(0.01 * ranker.l1_max_)
    assert ranker.l2_ == pytest.approx(0.003 * ranker.l1_max_)
    told = ranker.solution_.certificate
    assert (told["l1"], told["l2"]) == (ranker.l1_, ranker.l2_)
    assert DominationRanker(0.5).fit(X, y, qid=qid).l2_ == 0.0
    same = DominationRanker(ranker.l1_, ranker.l2_).fit(X, y, qid=qid)
    np.testing.assert_array_equal(same.coef_, ranker.coef_)
    assert not DominationRanker(ranker.l1_max_).fit(X, y, qid=qid).coef_.any()
    assert DominationRanker(0.99 * ranker.l1_max_).fit(X, y, qid=qid).coef_.any()


def test_same_bits_for_any_threads_and_storage_agrees():
    X, y, qid = problem(2, 3, m=400, n=60)
    one = DominationRanker(n_threads=1).fit(sparse.csr_array(X), y, qid=qid)
    two = DominationRanker(n_threads=3).fit(sparse.csr_array(X), y, qid=qid)
    dense = DominationRanker().fit(X, y, qid=qid)
    assert one.coef_.tobytes() == two.coef_.tobytes()
    np.testing.assert_allclose(dense.coef_, one.coef_, rtol=1e-9, atol=1e-12)
    narrow = DominationRanker(tol=1e-9).fit(X.astype(np.float32), y, qid=qid)
    exact = DominationRanker(tol=1e-9).fit(X.astype(np.float32).astype(float), y, qid=qid)
    np.testing.assert_allclose(narrow.coef_, exact.coef_, atol=1e-4)


def test_random_order_follows_the_seed_and_ends_at_the_same_optimum():
    X, y, qid = problem(3, 3)
    first = DominationRanker(0.5, order="random", random_state=1, tol=1e-9).fit(X, y, qid=qid)
    again = DominationRanker(0.5, order="random", random_state=1, tol=1e-9).fit(X, y, qid=qid)
    cyclic = DominationRanker(0.5, tol=1e-9).fit(X, y, qid=qid)
    assert first.coef_.tobytes() == again.coef_.tobytes()
    np.testing.assert_allclose(first.coef_, cyclic.coef_, atol=1e-4)


def test_rows_in_any_order_give_the_same_model():
    X, y, qid = problem(4, 3)
    shuffled = np.random.default_rng(1).permutation(len(y))
    plain = DominationRanker(0.5, tol=1e-10).fit(X, y, qid=qid)
    mixed = DominationRanker(0.5, tol=1e-10).fit(X[shuffled], y[shuffled], qid=qid[shuffled])
    np.testing.assert_allclose(mixed.coef_, plain.coef_, atol=1e-6)


def test_warm_start_needs_fewer_sweeps():
    X, y, qid = problem(5, 3)
    ranker = DominationRanker(0.5, warm_start=True).fit(X, y, qid=qid)
    sweeps, coef = ranker.n_iter_, ranker.coef_
    ranker.fit(X, y, qid=qid)
    assert ranker.n_iter_ < sweeps
    np.testing.assert_allclose(ranker.coef_, coef, atol=1e-2)


def test_margin_forms_agree():
    X, y, qid = problem(6, 3)
    clicks = y * 10
    fits = [
        DominationRanker(0.5, margin=2.0).fit(X, y, qid=qid),
        DominationRanker(0.5, margin=lambda labels: 2.0 * labels).fit(X, y, qid=qid),
        DominationRanker(0.5, margin=clicks, margin_scale=0.2).fit(X, y, qid=qid),
        DominationRanker(0.5, margin="clicks", margin_scale=0.2).fit(
            Dataset.from_arrays(X, y, qid, columns={"clicks": clicks})
        ),
        DominationRanker(0.5, margin_table=[[0, 0, 0], [2, 0, 0], [4, 2, 0]]).fit(X, y, qid=qid),
    ]
    for other in fits[1:]:
        np.testing.assert_allclose(other.coef_, fits[0].coef_, rtol=1e-7, atol=1e-9)
    plain = DominationRanker(0.5).fit(X, y, qid=qid)
    assert np.abs(plain.coef_ - fits[0].coef_).max() > 1e-2


def test_table_of_labels_that_are_not_numbered():
    X, y, qid = problem(6, 3)
    table = [[0, 0, 0], [0.5, 0, 0], [3, 0.1, 0]]
    numbered = DominationRanker(0.5, margin_table=table).fit(X, y, qid=qid)
    named = DominationRanker(0.5, margin_table=table).fit(X, y * 7 - 3, qid=qid)
    np.testing.assert_array_equal(named.coef_, numbered.coef_)
    w = numbered.coef_
    objective = brute_loss(w, X, y, qid, table=np.array(table)) + 0.5 * np.abs(w).sum()
    assert numbered.solution_.objective == pytest.approx(objective, rel=1e-10)


def test_a_smaller_margin_for_a_higher_label_is_refused():
    X, y, qid = problem(6, 3)
    with raises_for("margin", SchemaError):
        DominationRanker(margin=-y).fit(X, y, qid=qid)
    with raises_for("margin"):
        DominationRanker(margin="clicks").fit(X, y, qid=qid)
    with raises_for("margin", SchemaError):
        DominationRanker(margin=[1.0, 2.0]).fit(X, y, qid=qid)
    with pytest.raises(SchemaError, match="row 0"):
        DominationRanker(margin=np.full(len(y), np.nan)).fit(X, y, qid=qid)


@pytest.mark.parametrize(
    "wrong",
    [
        {"l1": 0.0},
        {"l1": -1.0},
        {"l2": np.inf},
        {"tol": "small"},
        {"curvature": "flat"},
        {"order": "sorted"},
        {"max_iter": 0},
        {"max_nonzero": 0},
        {"normalization": "pair"},
        {"margin": -1.0},
        {"margin": 1.0, "margin_scale": -1.0},
        {"margin_table": [[0, 0], [np.inf, 0]]},
        {"margin_table": [[0.0, 1.0]]},
        {"margin_table": np.zeros((5, 5)) - 1},
    ],
    ids=str,
)
def test_bad_parameters_are_refused(wrong):
    X, y, qid = problem(1, 3)
    with pytest.raises(ParameterError):
        DominationRanker(**wrong).fit(X, y, qid=qid)


def test_nothing_to_rank_is_refused():
    with pytest.raises(NoPairsError):
        DominationRanker().fit(np.eye(3), [1, 1, 1])
    with pytest.raises(NoPairsError):
        DominationRanker().fit(np.eye(3), [1, 2, 3], qid=[1, 2, 3])


def test_constant_features_get_no_weight():
    X, y, qid = problem(1)
    X[:, 0] = 3.0
    assert DominationRanker(0.1).fit(X, y, qid=qid).coef_[0] == 0.0
    assert not DominationRanker().fit(np.ones((4, 2)), [0, 1, 0, 1]).coef_.any()
    assert not DominationRanker(l1=0.0, l2=0.0).fit(np.ones((4, 2)), [0, 1, 0, 1]).coef_.any()


@pytest.mark.parametrize("solver", ["cd", "cd_plain"])
@pytest.mark.parametrize("constant", [3.0, 1e10, 1e100])
def test_rounding_errors_of_constant_columns_do_not_change_the_model(constant, solver):
    """Slopes that are 0 come out as dust, at 1e100 as a mountain of it."""
    X, y, qid = problem(1)
    X[:, [2, 5]] = constant, -constant / 7
    for options in ({}, {"l1": 0.5}, {"l1": 0.0, "l2": 0.5}, {"max_nonzero": 3}):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ranker = DominationRanker(solver=solver, **options).fit(X, y, qid=qid)
            rest = DominationRanker(solver=solver, **options).fit(
                np.delete(X, [2, 5], axis=1), y, qid=qid
            )
            alone = DominationRanker(solver=solver, **options).fit(X[:, [2, 5]], y, qid=qid)
        assert ranker.l1_max_ == rest.l1_max_
        assert not ranker.coef_[[2, 5]].any()
        np.testing.assert_array_equal(np.delete(ranker.coef_, [2, 5]), rest.coef_)
        assert alone.l1_max_ == 0.0
        assert not alone.coef_.any()
        assert alone.solution_.stop_reason == "converged"


def test_overflowing_squares_of_a_column_are_an_error():
    X, y, qid = problem(1)
    X[:, 3] *= 1e170
    with (
        warnings.catch_warnings(),
        pytest.raises(DivergenceError, match=r"squares of column 3 overflow.*after 30 sweeps"),
    ):
        warnings.filterwarnings("ignore", "scale='none' with columns")
        DominationRanker(0.0, 0.1, max_iter=30).fit(X, y, qid=qid)


def test_too_few_sweeps_give_a_warning():
    X, y, qid = problem(1)
    with pytest.warns(ConvergenceWarning, match="short of tol"):
        DominationRanker(0.01, max_iter=1, tol=1e-9).fit(X, y, qid=qid)


def test_a_callback_stops_the_run():
    X, y, qid = problem(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ranker = DominationRanker(tol=0.0).fit(X, y, qid=qid, callbacks=[lambda p: p.step > 2])
    assert ranker.solution_.stop_reason == "callback"


def test_csc_matrices_are_not_copied(monkeypatch):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(50, 6)) * (rng.random((50, 6)) < 0.6)
    y = (np.arange(50) % 5 == 0).astype(float)
    expected = DominationRanker().fit(sparse.csr_array(X), y)
    by_columns = sparse.csc_array(X)
    monkeypatch.setattr(sparse.csc_array, "tocsr", None)
    found = DominationRanker().fit(by_columns, y)
    monkeypatch.undo()
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    assert found.to_model().digest == expected.to_model().digest
    np.testing.assert_allclose(found.predict(by_columns), expected.predict(X), atol=1e-12)
    by_columns.data[3] = np.nan
    with raises_for("missing", SchemaError):
        DominationRanker().fit(by_columns, y)
