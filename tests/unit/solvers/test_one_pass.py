"""The compiled loop equals a slow ElasticRank, list by list, weight by weight."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from rankine.core.errors import DivergenceError, FeatureMismatchError
from rankine.data.dataset import Dataset
from rankine.losses.list_objectives import parse_objective
from rankine.solvers.one_pass import OnePassLearner
from rankine.updates import AdaptiveRda, Fobos, Psgd, Rda, Tgd
from reference.elastic_rank import Eager, slow_run

pytestmark = pytest.mark.kernels


def make_lists(seed=0, lists=40, d=12, labels=3):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 7, lists)
    qid = np.repeat(np.arange(lists), sizes)
    X = rng.normal(size=(len(qid), d)) * (rng.random((len(qid), d)) < 0.5)
    y = rng.integers(0, labels, len(qid)).astype(float)
    weight = rng.uniform(0.5, 2, len(qid))
    return Dataset.from_arrays(X, y, qid, weight=weight)


def start_weights(d):
    return np.linspace(-0.5, 0.6, d)


OPTIMIZERS = {
    "fobos": (Fobos(0.5, 0.5, 0.01, 0.02), {"eta0": 0.5, "l1": 0.01, "l2": 0.02}),
    "psgd": (Psgd(0.5, 0.5, 0.02, 0.1, 5), {"eta0": 0.5, "l2": 0.02, "theta": 0.1, "every": 5}),
    "tgd": (Tgd(0.5, 0.5, 0.02, 0.4, 3), {"eta0": 0.5, "l1": 0.02, "theta": 0.4, "every": 3}),
}


@pytest.mark.parametrize("objective", ["ndcg@3", "dcg", "recall@2", "mrr", "map", "pairwise"])
def test_every_objective_equals_the_slow_form(objective):
    data = make_lists(labels=3 if objective in ("ndcg@3", "dcg", "pairwise") else 2)
    parsed = parse_objective(objective)
    spec, options = OPTIMIZERS["fobos"]
    learner = OnePassLearner(spec, parsed, data.n_features, start=start_weights(12))
    learner.learn(data)
    eager = Eager("fobos", 12, **options)
    eager.begin_at(start_weights(12))
    expected = slow_run(data, parsed, eager)
    np.testing.assert_allclose(learner.coef(), expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(learner.coef() == 0, expected == 0)
    assert learner.steps == eager.t


@pytest.mark.parametrize("kind", ["psgd", "tgd"])
def test_every_optimizer_equals_the_slow_form(kind):
    data, parsed = make_lists(1), parse_objective("pairwise", loss="hinge", margin=0.5)
    spec, options = OPTIMIZERS[kind]
    learner = OnePassLearner(spec, parsed, 12, start=start_weights(12))
    learner.learn(data)
    eager = Eager(kind, 12, **options)
    eager.begin_at(start_weights(12))
    expected = slow_run(data, parsed, eager, loss="hinge", margin=0.5)
    np.testing.assert_allclose(learner.coef(), expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(learner.coef() == 0, expected == 0)


@pytest.mark.parametrize("kind", ["rda", "adaptive"])
def test_dual_averaging_equals_the_slow_form(kind):
    data, parsed = make_lists(2), parse_objective("pairwise")
    options = {"eta0": 0.3, "l1": 0.02, "l2": 0.01}
    spec = Rda(0.3, 0.5, 0.02, 0.01) if kind == "rda" else AdaptiveRda(0.3, 0.02, 0.01)
    learner = OnePassLearner(spec, parsed, 12)
    learner.learn(data)
    expected = slow_run(data, parsed, Eager(kind, 12, **options))
    np.testing.assert_allclose(learner.coef(), expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(learner.coef() == 0, expected == 0)


@pytest.mark.parametrize(("loss", "name"), [("hinge", "RankSVM"), ("logistic", "RankLR")])
def test_unit_gain_is_stochastic_gradient_of_the_pairwise_objective(loss, name):
    """RankSVM and RankLR, written as pairs of rows: the same weights."""
    data = make_lists(3)
    learner = OnePassLearner(Fobos(0.2, 0.5, 0.0, 0.1), parse_objective("pairwise", loss=loss), 12)
    learner.learn(data)
    w = np.zeros(12)
    t = 0
    for q in range(data.n_queries):
        rows = data.queries.rows_of(q)
        pairs = [(a, b) for a in rows for b in rows if data.y[a] > data.y[b]]
        if not pairs:
            continue
        t += 1
        gradient = np.zeros(12)
        for a, b in pairs:
            x = (data.X[a] - data.X[b]) * data.weight[a] * data.weight[b]
            z = (data.X[a] - data.X[b]) @ w
            gradient -= x * (float(z < 1) if loss == "hinge" else 1 / (1 + np.exp(z)))
        eta = 0.2 / np.sqrt(t)
        w = (w - eta * gradient) / (1 + eta * 0.1)
    np.testing.assert_allclose(learner.coef(), w, rtol=0, atol=1e-12, err_msg=name)


def test_target_mode_measures_delta_at_the_ranking_by_label():
    data = make_lists(4)
    distinct = np.concatenate([np.arange(n) for n in data.queries.sizes]).astype(float)
    data = Dataset.from_arrays(data.X, distinct % 7, data.qid)
    parsed = parse_objective("ndcg", delta="target")
    spec, options = OPTIMIZERS["fobos"]
    learner = OnePassLearner(spec, parsed, 12, start=start_weights(12))
    learner.learn(data)
    eager = Eager("fobos", 12, **options)
    eager.begin_at(start_weights(12))
    expected = slow_run(data, parsed, eager, target=True)
    np.testing.assert_allclose(learner.coef(), expected, rtol=0, atol=1e-12)


def test_batches_average_gradients_and_list_weights_scale_them():
    data, parsed = make_lists(5, lists=23), parse_objective("pairwise")
    weight = np.random.default_rng(0).uniform(0.5, 2, 23)
    learner = OnePassLearner(Fobos(0.5, 0.5, 0.01, 0.02), parsed, 12, batch_lists=4)
    learner.learn(data, lists=learner.lists(data, weight))
    eager = Eager("fobos", 12, eta0=0.5, l1=0.01, l2=0.02)
    expected = slow_run(data, parsed, eager, batch=4, lw=weight)
    np.testing.assert_allclose(learner.coef(), expected, rtol=0, atol=1e-12)
    assert learner.steps == 6


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_pointwise_is_regression_with_a_constant(loss):
    data = make_lists(6, labels=2)
    parsed = parse_objective("pointwise", loss=loss)
    learner = OnePassLearner(Fobos(0.5, 0.5, 0.0, 0.0), parsed, 12)
    learner.learn(data)
    w, b = np.zeros(12), 0.0
    for t, q in enumerate(range(data.n_queries), 1):
        rows = data.queries.rows_of(q)
        s, y = data.X[rows] @ w + b, data.y[rows]
        slope = (1 / (1 + np.exp(-s)) - y) if loss == "logistic" else s - y
        slope = slope * data.weight[rows] / len(rows)
        w, b = w - 0.5 / np.sqrt(t) * data.X[rows].T @ slope, b - 0.5 / np.sqrt(t) * slope.sum()
    np.testing.assert_allclose(learner.coef(), w, rtol=0, atol=1e-12)
    assert learner.intercept() == pytest.approx(b, abs=1e-12)


def learn_in(pieces, data, seed=3):
    learner = OnePassLearner(Rda(1.0, 0.5, 1e-3, 1e-3), parse_objective("ndcg"), 12, seed=seed)
    scores = np.full(data.n_rows, np.nan)
    for part in pieces:
        scores = np.fmax(scores, learner.learn(data, np.asarray(part)))
    return learner, scores


@pytest.mark.parametrize("tied", [False, True])
def test_result_does_not_depend_on_block_boundaries(tied):
    """Nor do draws, which decide between equal rows: they belong to the number of a list."""
    data = make_lists(7, lists=30)
    if tied:
        X = np.sign(data.X) * (np.arange(12) < 2)
        data = Dataset.from_arrays(X, data.y, data.qid)
    whole, scores = learn_in([range(30)], data)
    parts, again = learn_in([range(7), range(7, 8), range(8, 30)], data)
    np.testing.assert_array_equal(whole.coef(), parts.coef())
    np.testing.assert_array_equal(scores, again)
    assert whole.mean_loss == parts.mean_loss


def test_ties_are_broken_by_the_seed_not_by_the_file():
    data = make_lists(8, lists=1, labels=4)
    plain = OnePassLearner(Rda(1.0, 0.5, 1e-3, 1e-3), parse_objective("ndcg"), 12)
    assert (plain.seed, plain.batch_lists, plain.steps, plain.lists_seen) == (0, 1, 0, 0)
    coefs = {learn_in([range(1)], data, seed)[0].coef().tobytes() for seed in range(12)}
    assert len(coefs) > 1


def test_scores_come_before_learning():
    data = make_lists(9)
    _, scores = learn_in([range(40)], data)
    assert (scores[data.queries.rows_of(0)] == 0).all()
    assert (scores[data.queries.rows_of(39)] != 0).any()


def test_dense_sparse_and_ungrouped_rows_agree():
    data = make_lists(10)
    order = np.random.default_rng(0).permutation(data.n_rows)
    grouped = OnePassLearner(Fobos(0.5, 0.5, 0.01, 0.02), parse_objective("pairwise"), 12)
    grouped.learn(data)
    for X in (sparse.csr_matrix(data.X), sparse.csr_matrix(data.X.astype(np.float32))):
        other = Dataset.from_arrays(X[order], data.y[order], data.qid[order])
        other = Dataset(X[order], data.y[order], data.qid[order], weight=data.weight[order])
        first_seen = {q: k for k, q in enumerate(other.queries.ids.tolist())}
        visit = np.array([first_seen[q] for q in data.queries.ids.tolist()])
        learner = OnePassLearner(Fobos(0.5, 0.5, 0.01, 0.02), parse_objective("pairwise"), 12)
        learner.learn(other, visit)
        tolerance = 1e-12 if X.dtype == np.float64 else 1e-5
        np.testing.assert_allclose(learner.coef(), grouped.coef(), rtol=0, atol=tolerance)


def test_lists_with_one_level_take_no_step():
    data = Dataset.from_arrays(np.ones((4, 2)), [1, 1, 0, 0], [1, 1, 2, 2])
    learner = OnePassLearner(Rda(1.0, 0.5, 0.0, 0.0), parse_objective("ndcg"), 2)
    learner.learn(data)
    assert (learner.steps, learner.lists_seen, learner.lists_used) == (0, 2, 0)
    assert np.isnan(learner.mean_loss)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the JIT off: NumPy sees the overflow
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")  # numpy's word with the JIT off
def test_divergence_names_the_query():
    data = Dataset.from_arrays(
        np.array([[1e300], [-1e300]] * 3), [1, 0] * 3, np.repeat([7, 8, 9], 2)
    )
    learner = OnePassLearner(Fobos(1e10, 0.5, 0.0, 0.0), parse_objective("pairwise"), 1)
    with pytest.raises(DivergenceError, match="query 8"):
        learner.learn(data)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_infinite_weights_raise_an_error_at_the_first_list():
    data = Dataset.from_arrays(np.array([[1e300], [-1e300]]), [1, 0], [7, 7])
    learner = OnePassLearner(
        Fobos(1.0, 0.5, 0.0, 0.0), parse_objective("pairwise"), 1, start=np.array([1e300])
    )
    with pytest.raises(DivergenceError, match=r"query 7 .*after 0 steps"):
        learner.learn(data)


def test_a_wider_block_is_rejected():
    learner = OnePassLearner(Rda(1.0, 0.5, 0.0, 0.0), parse_objective("ndcg"), 3)
    with pytest.raises(FeatureMismatchError, match="12 features"):
        learner.learn(make_lists())


def test_mean_loss_counts_lists_with_a_gradient():
    """Steps so short that no list changes the next one's loss."""
    data, parsed = make_lists(11, lists=9), parse_objective("pairwise")
    weight = np.linspace(0.5, 2.0, 9)

    def learn(order, lists_weight=None):
        learner = OnePassLearner(Fobos(1e-300, 0.5, 0.0, 0.0), parsed, 12)
        learner.learn(data, np.asarray(order), learner.lists(data, lists_weight))
        return learner

    alone = [learn([q]).mean_loss for q in range(9)]
    taught = ~np.isnan(alone)
    assert 0 < taught.sum() < 9
    together = learn(range(9), weight)
    assert together.mean_loss == pytest.approx((weight * alone)[taught].mean())
    assert together.lists_used == taught.sum()
    assert (together.lists_seen, together.steps) == (9, taught.sum())


@pytest.mark.parametrize("optimizer", [Rda(0.5, 0.5, 1e-3, 1e-3), Fobos(0.3, 0.5, 0.01, 0.0)])
def test_largest_weights_are_unchanged(optimizer):
    learner = OnePassLearner(optimizer, parse_objective("ndcg"), 12)
    learner.learn(make_lists(12))
    coef = learner.coef()
    held = np.count_nonzero(coef)
    before = np.zeros(12, bool)
    for count in range(14):
        kept = learner.largest_weights(count)
        assert np.count_nonzero(kept) == min(count, held)
        np.testing.assert_array_equal(kept[kept != 0], coef[kept != 0])
        assert (kept != 0)[before].all()  # one more, and none is exchanged
        before = kept != 0
    np.testing.assert_array_equal(learner.largest_weights(held), coef)
    assert np.abs(learner.largest_weights(1)).max() >= np.abs(coef).max() - 1e-12


def test_a_narrower_block_updates_only_its_features():
    data = make_lists(13)
    wide = OnePassLearner(Fobos(0.5, 0.5, 0.0, 0.0), parse_objective("pairwise"), 15)
    same = OnePassLearner(Fobos(0.5, 0.5, 0.0, 0.0), parse_objective("pairwise"), 12)
    wide.learn(data)
    same.learn(data)
    np.testing.assert_array_equal(wide.coef(), [*same.coef(), 0.0, 0.0, 0.0])
    assert wide.intercept() == 0.0


def test_omitted_lists_have_no_score_and_are_not_counted():
    data = make_lists(14)
    learner = OnePassLearner(Rda(0.5, 0.5, 0.0, 0.0), parse_objective("ndcg"), 12)
    scores = learner.learn(data, np.array([7, 2]))
    inside = np.isin(data.queries.codes, [2, 7])
    assert np.isnan(scores[~inside]).all()
    assert np.isfinite(scores[inside]).all()
    assert learner.lists_seen == 2
    assert learner.steps == learner.lists_used
