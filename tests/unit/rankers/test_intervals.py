"""Intervals of fitted rankers, compared with a brute-force sum over explicit pairs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import norm, t

from rankine import (
    AdditiveRanker,
    DominationRanker,
    ElasticRanker,
    LeastSquaresRanker,
    LinearModel,
    RankSVM,
    SPDRanker,
    scan,
)
from rankine.core.errors import DataError, ModelError, ParameterError
from rankine.data import Dataset
from rankine.distributed import scan as scan_partitions
from rankine.rankers import intervals as intervals_module
from rankine.rankers import ranksvm as ranksvm_module
from rankine.solvers.sketch import sketch

N_QUERIES, N_ROWS, N_FEATURES = 40, 8, 4


def make_lists():
    rng = np.random.default_rng(5)
    n = N_QUERIES * N_ROWS
    X = rng.normal(size=(n, N_FEATURES))
    X[:, 1] = 0.9 * X[:, 0] + 0.4 * X[:, 1]
    X[:, 3] *= rng.random(n) < 0.3
    y = np.digitize(X @ [1.0, -0.5, 0.3, 0.0] + rng.normal(size=n), [-0.5, 1.0]).astype(float)
    qid = np.repeat(np.arange(N_QUERIES), N_ROWS)
    return {
        "X": X,
        "y": y,
        "qid": qid,
        "sample_weight": rng.choice([0.5, 1.0, 2.0], n),
        "query_weight": rng.choice([1.0, 3.0], N_QUERIES),
    }


@pytest.fixture(scope="module")
def lists():
    return make_lists()


def derivatives(loss, z, width):
    """Return slope and curvature of a pair loss."""
    if loss == "squared_hinge":
        return -2 * max(0.0, 1 - z), 2.0 * (z < 1)
    if loss == "logistic":
        return -1 / (1 + np.exp(z)), np.exp(z) / (1 + np.exp(z)) ** 2
    return -1.0 * (z < 1), (abs(z - 1) < width / 2) / width


def brute_force(lists, w, l2, loss="squared_hinge", normalization="query"):
    """Compute covariance and degrees of freedom from listed pairs."""
    X, y, qid = lists["X"], lists["y"], lists["qid"]
    row_weight = lists.get("sample_weight", np.ones(len(y)))
    query_weight = lists.get("query_weight", np.ones(N_QUERIES))
    p = X.shape[1]
    width = N_QUERIES**-0.2
    gradients, curvatures, masses = [], [], []
    for q in range(N_QUERIES):
        rows = np.flatnonzero(qid == q)
        gradient, curvature, mass = np.zeros(p), np.zeros((p, p)), 0.0
        total = row_weight[rows].sum()
        for i in rows:
            for j in rows:
                d, weight = X[i] - X[j], row_weight[i] * row_weight[j]
                if loss == "squares":
                    # Each unordered pair once: (e_i - e_j)^2 / total.
                    if i >= j:
                        continue
                    error = d @ w - (y[i] - y[j])
                    gradient += 2 * weight / total * error * d
                    curvature += 2 * weight / total * np.outer(d, d)
                    mass += weight
                elif y[i] > y[j]:
                    slope, second = derivatives(loss, d @ w, width)
                    gradient += weight * slope * d
                    curvature += weight * second * np.outer(d, d)
                    mass += weight
        gradients.append(gradient)
        curvatures.append(curvature)
        masses.append((mass, total))
    masses, totals = np.array(masses).T
    v = query_weight
    if normalization == "sum":
        factors, shares = v, np.full(N_QUERIES, 1 / N_QUERIES)
    elif normalization == "pair":
        factors, shares = v / (v @ masses), v * masses / (v @ masses)
        if loss == "squares":
            factors = factors * totals
    else:
        divisor = totals if loss == "squares" else masses
        factors, shares = v / (v.sum() * divisor), v / v.sum()
    contributions = [f * g + s * l2 * w for f, g, s in zip(factors, gradients, shares, strict=True)]
    contributions = np.array(contributions) - np.mean(contributions, axis=0)
    risk = sum(f * c for f, c in zip(factors, curvatures, strict=True))
    inverse = np.linalg.inv(risk + l2 * np.eye(p))
    degrees = N_QUERIES - np.trace(inverse @ risk)
    outer = contributions.T @ contributions * N_QUERIES / degrees
    return inverse @ outer @ inverse, degrees


@pytest.mark.parametrize("normalization", ["query", "pair", "sum"])
@pytest.mark.parametrize("loss", ["squared_hinge", "logistic", "hinge"])
@pytest.mark.parametrize("weighted", [False, True])
def test_rank_svm_has_the_covariance_of_listed_pairs(lists, loss, normalization, weighted):
    data = dict(lists)
    if not weighted:
        del data["sample_weight"], data["query_weight"]
    # Close to the optimum, so that the covariance is measured at the solution itself.
    tol = 1e-3 if loss == "hinge" else 1e-9
    ranker = RankSVM(l2=0.05, loss=loss, normalization=normalization, scale=None, tol=tol)
    ranker.fit(**data, intervals=True)
    expected, degrees = brute_force(data, ranker.coef_, 0.05, loss, normalization)
    factor = ranker.covariance_.matrix
    np.testing.assert_allclose(factor @ factor.T, expected, rtol=1e-6, atol=1e-12)
    assert ranker.covariance_.record.degrees == pytest.approx(degrees)


@pytest.mark.parametrize("normalization", ["query", "pair", "sum"])
def test_least_squares_has_the_covariance_of_listed_pairs(lists, normalization):
    data = {name: lists[name] for name in ("X", "y", "qid", "query_weight")}
    ranker = LeastSquaresRanker(l2=0.05, normalization=normalization, scale=None)
    ranker.fit(**data, intervals=True)
    expected, _ = brute_force(data, ranker.coef_, 0.05, "squares", normalization)
    factor = ranker.covariance_.matrix
    np.testing.assert_allclose(factor @ factor.T, expected, rtol=1e-6, atol=1e-12)


def test_a_query_of_weight_2_has_the_estimate_of_two_queries_and_a_wider_interval(lists):
    data = {name: lists[name] for name in ("X", "y", "qid")}
    n = len(data["y"])
    doubled = {
        "X": np.concatenate([data["X"]] * 2),
        "y": np.concatenate([data["y"]] * 2),
        "qid": np.concatenate([data["qid"], data["qid"] + N_QUERIES]),
    }
    weight = np.full(N_QUERIES, 2.0)
    weighted = RankSVM(loss="logistic").fit(**data, query_weight=weight, intervals=True)
    repeated = RankSVM(loss="logistic").fit(**doubled, intervals=True)
    assert n == N_QUERIES * N_ROWS
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-2)
    # Twice as many queries have about 1/sqrt(2) of the error; a weight is no further query.
    ratio = repeated.covariance_.standard_errors() / weighted.covariance_.standard_errors()
    np.testing.assert_allclose(ratio, np.sqrt(0.5), rtol=0.1)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_products_give_the_curvature_of_listed_pairs_in_long_queries(lists, loss, monkeypatch):
    ranker = RankSVM(loss=loss).fit(**lists, intervals=True)
    monkeypatch.setattr("rankine.losses.query_curvature.LONGEST", 2)
    by_products = RankSVM(loss=loss).fit(**lists, intervals=True)
    a, b = ranker.covariance_.matrix, by_products.covariance_.matrix
    np.testing.assert_allclose(a @ a.T, b @ b.T, rtol=1e-9)


@pytest.mark.parametrize(
    "ranker", [RankSVM(), LeastSquaresRanker(), LeastSquaresRanker(pairs="untied")]
)
def test_sparse_rows_have_the_covariance_of_dense_rows(lists, ranker):
    dense = ranker.fit(**lists, intervals=True).covariance_.matrix
    rows = sparse.csr_matrix(lists["X"])
    compressed = ranker.fit(**{**lists, "X": rows}, intervals=True).covariance_.matrix
    np.testing.assert_allclose(dense @ dense.T, compressed @ compressed.T, rtol=1e-6)


def test_the_factor_has_the_same_bits_for_any_number_of_threads(lists):
    digests = {
        RankSVM(n_threads=n).fit(**lists, intervals=True).to_model().digest for n in (1, 2, 5)
    }
    assert len(digests) == 1


def test_weights_of_scaled_columns_have_intervals_in_their_own_units(lists):
    data = {name: lists[name] for name in ("X", "y", "qid")}
    scaled = {**data, "X": data["X"] * [1000.0, 1.0, 1.0, 1.0]}
    a = RankSVM(scale="standard").fit(**data, intervals=True).intervals()
    b = RankSVM(scale="standard").fit(**scaled, intervals=True).intervals()
    for column in ("estimate", "low", "high"):
        first, second = a[column].to_numpy(), b[column].to_numpy()
        np.testing.assert_allclose(first[0], second[0] * 1000, rtol=1e-3)
        np.testing.assert_allclose(first[1:], second[1:], rtol=1e-3)


def test_offsets_of_positions_widen_the_intervals_and_are_not_listed(lists):
    position = np.tile(np.arange(1, N_ROWS + 1), N_QUERIES)
    data = Dataset(lists["X"], lists["y"], lists["qid"], position=position)
    ranker = RankSVM(position_offset=4, loss="logistic").fit(data, intervals=True)
    assert ranker.intervals().num_rows == N_FEATURES
    # The offsets are weights of further columns.
    X = np.hstack([lists["X"], [[float(min(p, 4) == k) for k in (2, 3, 4)] for p in position]])
    wide = RankSVM(loss="logistic").fit(X, lists["y"], qid=lists["qid"], intervals=True)
    a, b = ranker.covariance_.standard_errors(), wide.covariance_.standard_errors()[:N_FEATURES]
    np.testing.assert_allclose(a, b, rtol=1e-3)


def test_indicators_of_missing_values_have_intervals(lists):
    X = lists["X"].copy()
    X[::3, 2] = np.nan
    ranker = RankSVM(missing="indicator").fit(X, lists["y"], qid=lists["qid"], intervals=True)
    table = ranker.intervals()
    assert table["name"].to_pylist() == ["1", "2", "3", "4", "3 missing"]
    filled = np.column_stack([np.where(np.isnan(X), 0.0, X), np.isnan(X[:, 2])])
    same = RankSVM(scale=None).fit(filled, lists["y"], qid=lists["qid"], intervals=True)
    other = RankSVM(missing="indicator", scale=None)
    other.fit(X, lists["y"], qid=lists["qid"], intervals=True)
    a, b = same.explain_pair(filled[0], filled[1]), other.explain_pair(X[0], X[1])
    assert a.interval() == pytest.approx(b.interval())


def test_partitions_have_the_covariance_of_memory(lists, tmp_path):
    paths = []
    for k, rows in enumerate(np.split(np.arange(len(lists["y"])), 4)):
        paths.append(str(tmp_path / f"part{k}.txt"))
        Dataset(lists["X"][rows], lists["y"][rows], lists["qid"][rows]).save(paths[-1])
    parts = scan_partitions(scan(paths))
    assert parts.n_partitions > 1
    for ranker in (RankSVM(loss="squared_hinge"), RankSVM(), LeastSquaresRanker(l2=0.01)):
        memory = ranker.fit(**{k: lists[k] for k in ("X", "y", "qid")}, intervals=True)
        a = memory.covariance_
        b = ranker.fit(parts, intervals=True).covariance_
        np.testing.assert_allclose(a.matrix @ a.matrix.T, b.matrix @ b.matrix.T, rtol=0.02)
        assert a.record.n_queries == b.record.n_queries
    additive = AdditiveRanker(bins=6, pairs=0, smooth=5.0)
    a = additive.fit(**{k: lists[k] for k in ("X", "y", "qid")}, intervals=True).covariance_
    b = additive.fit(parts, intervals=True).covariance_
    np.testing.assert_allclose(a.standard_errors(), b.standard_errors(), rtol=0.02)


def test_the_interval_of_a_pair_is_that_of_its_difference(lists):
    ranker = RankSVM(loss="logistic", scale=None).fit(**lists, intervals=True)
    a, b = lists["X"][:2]
    factor, degrees = ranker.covariance_.matrix, ranker.covariance_.record.degrees
    error = np.sqrt((a - b) @ factor @ factor.T @ (a - b))
    total = (a - b) @ ranker.coef_
    explanation = ranker.explain_pair(a, b)
    half = t.ppf(0.95, degrees) * error
    assert explanation.interval(0.9) == pytest.approx((total - half, total + half), rel=1e-3)
    assert explanation.probability == pytest.approx(t.cdf(total / error, degrees), abs=1e-3)
    assert explanation.probability + ranker.explain_pair(b, a).probability == pytest.approx(1.0)
    assert explanation.to_dict()["probability"] == explanation.probability


@pytest.mark.parametrize("loss", ["squared_hinge", "softmax"])
@pytest.mark.parametrize("linear", [(), (3,)])
def test_additive_has_the_covariance_of_its_parameters(lists, loss, linear):
    data = {name: lists[name] for name in ("X", "y", "qid", "query_weight")}
    ranker = AdditiveRanker(
        bins=6, pairs=[(0, 1)], smooth=5.0, loss=loss, linear=linear, reweight=0
    )
    problems = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "rankine.rankers.additive.sketch", lambda *a: problems.append(a) or sketch(*a)
        )
        # Systems are solved more exactly than users need.
        patch.setattr("rankine.solvers.sketch.TOL", 1e-4)
        ranker.fit(**data, intervals=True)
    problem, penalty, theta, shares = problems[-1]
    p = len(theta)
    X = problem.score_columns(np.eye(p))
    K = np.column_stack([penalty.times(unit) for unit in np.eye(p)])
    scores = X @ theta
    _, slopes, curvature = problem.risk.evaluate_with_curvature(scores)
    contributions = np.array(
        [X[rows].T @ slopes[rows] for rows in (data["qid"] == q for q in range(N_QUERIES))]
    )
    if loss == "squared_hinge":
        # The gradients by query are those of listed pairs.
        expected = np.zeros((N_QUERIES, p))
        for q in range(N_QUERIES):
            rows = np.flatnonzero(data["qid"] == q)
            pairs = [(i, j) for i in rows for j in rows if data["y"][i] > data["y"][j]]
            for i, j in pairs:
                slope = derivatives(loss, scores[i] - scores[j], 0)[0]
                weight = data["query_weight"][q] / len(pairs)
                expected[q] += weight * slope * (X[i] - X[j])
        np.testing.assert_allclose(contributions, expected, atol=1e-10)
    contributions = contributions + np.outer(shares, K @ theta)
    contributions -= contributions.mean(axis=0)
    columns = []
    for q in range(N_QUERIES):
        kept = (data["qid"] != q)[:, None] * X
        H_without = kept.T @ np.column_stack([curvature.times(x) for x in kept.T])
        columns.append(np.linalg.solve(H_without + K, contributions[q]))
    F = np.array(columns).T
    covariance = F @ F.T * (N_QUERIES - 1) / N_QUERIES
    assert ranker.covariance_.record.degrees == N_QUERIES - 1
    # Differences of scores do not depend on how tables are centred.
    a, b = data["X"][0], data["X"][5]
    error = np.sqrt((X[0] - X[5]) @ covariance @ (X[0] - X[5]))
    explanation = ranker.explain_pair(a, b)
    assert explanation.uncertainty.standard_error == pytest.approx(error, rel=5e-3)


def test_curves_have_bands_that_are_wider_than_intervals(lists):
    data = {name: lists[name] for name in ("X", "y", "qid")}
    ranker = AdditiveRanker(bins=6, pairs=0, smooth=5.0).fit(**data, intervals=True)
    for row in ranker.intervals().to_pylist():
        assert row["band_low"] <= row["low"] <= row["estimate"] <= row["high"] <= row["band_high"]
    loaded = LinearModel.from_bytes(ranker.to_model().to_bytes())
    assert loaded.intervals().equals(ranker.intervals())


def test_a_score_alone_has_no_interval(lists):
    ranker = RankSVM().fit(**lists, intervals=True)
    with pytest.raises(ModelError):
        ranker.explain(lists["X"][0]).interval()


def test_a_model_file_holds_the_covariance(lists):
    ranker = RankSVM().fit(**lists, intervals=True)
    model = ranker.to_model()
    loaded = LinearModel.from_bytes(model.to_bytes())
    assert loaded.intervals().equals(ranker.intervals())
    assert loaded.digest == model.digest


def test_a_model_without_intervals_says_how_to_get_them(lists):
    ranker = RankSVM().fit(**lists, intervals=True).fit(**lists)
    assert not hasattr(ranker, "covariance_")
    with pytest.raises(ModelError):
        ranker.intervals()


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
@pytest.mark.parametrize("tol", [0.1, 0.01])
def test_intervals_are_solved_closer_to_the_optimum_than_tol(lists, loss, tol):
    exact = RankSVM(loss=loss, tol=1e-6).fit(**lists, intervals=True)
    loose = RankSVM(loss=loss, tol=tol).fit(**lists, intervals=True)
    moved = np.abs(exact.coef_ - loose.coef_) / exact.covariance_.standard_errors()
    assert moved.max() <= 1.5 * intervals_module.CLOSE
    # The certificate is that of the weights after the last step.
    certificate = loose.solution_.certificate
    assert certificate["lower_bound"] <= exact.solution_.objective * (1 + 1e-9)
    assert certificate["relative_gap"] <= tol
    # A covariance from up to one standard error away differs by about the share of an error.
    ratio = loose.covariance_.standard_errors() / exact.covariance_.standard_errors()
    np.testing.assert_allclose(ratio, 1.0, rtol=0.1)


def test_newton_steps_take_the_place_of_further_runs_of_the_solver(lists, monkeypatch):
    runs = []
    solve = ranksvm_module.solve_newton
    monkeypatch.setattr(
        ranksvm_module, "solve_newton", lambda *a, **k: runs.append(a) or solve(*a, **k)
    )
    ranker = RankSVM(loss="logistic", tol=0.1).fit(**lists, intervals=True)
    assert len(runs) == 1
    assert ranker.n_iter_ > solve(*runs[0], tol=0.1).n_iter
    # The trace goes on, and ends at the objective of the solution.
    assert ranker.solution_.trace[-1]["objective"] == ranker.solution_.objective


@pytest.mark.parametrize(
    ("ranker", "parameter"),
    [
        (SPDRanker(), "intervals"),
        (ElasticRanker(), "intervals"),
        (RankSVM(positive=True), "intervals"),
        (AdditiveRanker(shapes={0: "increasing"}), "intervals"),
    ],
)
def test_rankers_without_a_formula_refuse(lists, ranker, parameter):
    with pytest.raises(ParameterError) as error:
        ranker.fit(**lists, intervals=True)
    assert error.value.parameter == parameter
    assert not hasattr(ranker, "coef_")


def test_a_bootstrap_has_about_the_widths_of_the_formula(lists):
    ranker = RankSVM(loss="logistic", l2=0.05, random_state=0)
    exact = ranker.fit(**lists, intervals=True).covariance_.standard_errors()
    drawn = ranker.fit(**lists, intervals=True, bootstrap=100).covariance_
    assert drawn.record.method == "bootstrap"
    assert drawn.record.degrees == 99
    # 40 queries are few, so that the two differ by more than the noise of 100 draws.
    assert np.mean(drawn.standard_errors() / exact) == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize(
    "ranker",
    [
        DominationRanker(l1=0.5, random_state=0),
        SPDRanker(n_steps=500, random_state=0),
        ElasticRanker(random_state=0),
    ],
)
def test_rankers_without_a_formula_have_a_bootstrap(lists, ranker):
    data = {name: lists[name] for name in ("X", "y", "qid")}
    table = ranker.fit(**data, intervals=True, bootstrap=5).intervals()
    assert table.num_rows == np.count_nonzero(ranker.coef_)
    assert (table["low"].to_numpy() < table["high"].to_numpy()).all()
    again = ranker.fit(**data, intervals=True, bootstrap=5).intervals()
    assert again.equals(table)
    plain = ranker.fit(**data).coef_
    np.testing.assert_array_equal(plain[plain != 0], table["estimate"].to_numpy())


@pytest.mark.parametrize(
    ("ranker", "options"),
    [
        (RankSVM(), {"bootstrap": 5}),
        (RankSVM(), {"bootstrap": 1, "intervals": True}),
        (RankSVM(), {"bootstrap": 0, "intervals": True}),
        (RankSVM([1.0, 0.1]), {"bootstrap": 5, "intervals": True}),
        (AdditiveRanker(), {"bootstrap": 5, "intervals": True}),
    ],
)
def test_a_bootstrap_that_makes_no_sense_is_refused(lists, ranker, options):
    with pytest.raises(ParameterError) as error:
        ranker.fit(**lists, **options)
    assert error.value.parameter == "bootstrap"


def test_a_training_that_was_stopped_has_no_intervals(lists):
    with pytest.raises(ParameterError) as error:
        RankSVM().fit(**lists, intervals=True, callbacks=[lambda _: True])
    assert error.value.parameter == "intervals"


def test_too_few_queries_are_an_error():
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(40, 12)), np.repeat([0, 1, 2, 3], 10)
    with pytest.raises(DataError):
        RankSVM(l2=1e-4).fit(X, rng.integers(0, 3, 40), qid=qid, intervals=True)


def test_too_many_weights_are_an_error(lists, monkeypatch):
    monkeypatch.setattr(intervals_module, "MAX_WEIGHTS", 3)
    with pytest.raises(ParameterError):
        RankSVM().fit(**lists, intervals=True)


def test_quantiles_are_those_of_students_t():
    from rankine.model.covariance import t_probability, t_quantile

    for degrees in (8.0, 40.0, 1e4):
        for level in (0.5, 0.95, 0.99):
            assert t_quantile(level, degrees) == pytest.approx(
                t.ppf(0.5 + level / 2, degrees), rel=1e-3
            )
        for value in (-2.0, 0.5, 3.0):
            assert t_probability(value, degrees) == pytest.approx(t.cdf(value, degrees), abs=2e-3)
    assert t_quantile(0.95, 1e9) == pytest.approx(norm.ppf(0.975))
