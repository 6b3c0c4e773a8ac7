"""The search of AdditiveRanker for strengths, pairs and rounds."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from rankine import Dataset
from rankine.losses.pair_queries import pair_risk
from rankine.rankers import additive_search
from rankine.solvers.tables import PenaltyStrengths
from rankine.transforms.bins import BinCoder, fit_bins


def shop(n_queries=60, size=15, seed=0):
    """Labels bend in the first column and multiply the next two; the last is a category."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * size, 5))
    X[:, 4] = rng.integers(0, 4, len(X))
    utility = X[:, 0] ** 2 + 1.5 * X[:, 1] * X[:, 2] + np.array([0, 2, -1, 0])[X[:, 4].astype(int)]
    y = np.digitize(utility + 0.2 * rng.normal(size=len(X)), [-0.5, 0.5, 1.5, 2.5])
    return X, y, np.repeat(np.arange(n_queries), size)


def table_data(n_queries=30, seed=0):
    """Lists as the search sees them."""
    X, y, qid = shop(n_queries, size=6, seed=seed)
    lists = Dataset.from_arrays(np.zeros((len(y), 0)), y, qid)
    bins = fit_bins(X, 8)
    rows = BinCoder(bins).code(X)
    return additive_search.TableData(lists, np.linspace(1, 2, n_queries), rows, X[:, :2].copy())


def test_lists_are_held_out_whole_and_once():
    data = table_data()
    train, valid = additive_search.hold_out(data, 3)
    assert (train.lists.n_queries, valid.lists.n_queries) == (24, 6)
    assert set(train.lists.qid) | set(valid.lists.qid) == set(range(30))
    for part in (train, valid):
        rows = np.isin(data.lists.qid, part.lists.qid)
        np.testing.assert_array_equal(part.lists.y, data.lists.y[rows])
        np.testing.assert_array_equal(part.linear, data.linear[rows])
        np.testing.assert_array_equal(part.rows.codes[0].T, data.rows.codes[0].T[rows])
        np.testing.assert_array_equal(part.query_weight, data.query_weight[part.lists.queries.ids])
    other = additive_search.hold_out(data, 4)[1]
    assert set(other.lists.qid) != set(valid.lists.qid)
    few = additive_search.hold_out(table_data(4), 0)
    assert [part.lists.n_queries for part in few] == [3, 1]
    assert additive_search.sample(data, 3) is data


def test_few_lists_are_held_out_once_each(monkeypatch):
    data = table_data()
    folds = additive_search.split_folds(data, 3)
    held = [valid.lists.qid for _, valid in folds]
    assert [len(np.unique(qid)) for qid in held] == [6] * 5
    assert sorted(np.concatenate(held)) == sorted(data.lists.qid)
    for train, valid in folds:
        assert set(train.lists.qid) | set(valid.lists.qid) == set(range(30))
        assert set(train.lists.qid).isdisjoint(valid.lists.qid)
    again = additive_search.split_folds(data, 3)
    assert all((a.lists.qid == b.lists.qid).all() for (_, a), (_, b) in zip(folds, again))  # noqa: B905
    assert (additive_search.split_folds(data, 4)[0][1].lists.qid != held[0]).any()
    monkeypatch.setattr(additive_search, "MANY_LISTS", 30)
    ((_, valid),) = additive_search.split_folds(data, 3)
    np.testing.assert_array_equal(valid.lists.qid, additive_search.hold_out(data, 3)[1].lists.qid)


@pytest.mark.parametrize(("n_lists", "n_folds"), [(1, 1), (2, 2), (4, 4), (7, 5)])
def test_folds_hold_lists_with_pairs_alone(n_lists, n_folds):
    data = table_data()
    lists = data.lists
    y = np.where(np.isin(lists.qid, np.arange(n_lists)), lists.y, 1.0)
    lists = replace(lists, y=y, query_index=lists.queries)
    folds = additive_search.split_folds(replace(data, lists=lists), 0)
    assert len(folds) == n_folds
    for train, valid in folds:
        assert train.lists.labels.n_pairs > 0
        assert valid.lists.labels.n_pairs > 0


@pytest.mark.parametrize(("rows", "kept"), [(5, 1), (6, 1), (12, 2), (17, 2), (179, 29)])
def test_a_sample_is_no_larger_than_asked(rows, kept, monkeypatch):
    monkeypatch.setattr(additive_search, "SEARCH_ROWS", rows)
    assert additive_search.sample(table_data(), 0).lists.n_queries == kept


def test_list_gains_equal_values_computed_by_hand():
    y, starts = np.array([1.0, 3.0, 1.0, 0.0, -2.0]), np.array([0, 3, 5])
    assert additive_search.list_gains(y, starts).tolist() == [0.0, 3.0, 0.0, 3.0, 0.0]
    at_most = additive_search.list_gains(np.array([0.0, 31.0]), np.array([0, 2]))
    assert at_most.tolist() == [0.0, 2.0**31 - 1]
    beyond = additive_search.list_gains(np.array([0.0, 32.0, 8.0]), np.array([0, 3]))
    assert beyond.tolist() == [0.0, 1.0, 0.25]
    amounts = additive_search.list_gains(np.array([0.5, 2.5, 1.0]), np.array([0, 3]))
    assert amounts.tolist() == [0.0, 1.0, 0.25]


@pytest.mark.parametrize("normalization", ["query", "pair"])
def test_lists_count_alike_or_by_their_pairs_or_gain(normalization):
    data = table_data()
    lists, weights = data.lists, data.query_weight
    scores = np.random.default_rng(0).normal(size=lists.n_rows)

    def risk(loss):
        plan = SimpleNamespace(loss=loss, normalization=normalization, threads=1)
        return additive_search.make_risk(plan, data).evaluate(scores)[0]

    by_pairs = pair_risk(lists, weights, "squared_hinge", normalization).evaluate(scores)[0]
    has_pairs = lists.labels.pair_counts > 0
    assert risk("squared_hinge") == pytest.approx(by_pairs * weights[has_pairs].sum())
    losses, gains = [], []
    for q in np.flatnonzero(has_pairs):
        rows = lists.queries.rows_of_queries([q])
        gain = 2.0 ** (lists.y[rows] - lists.y[rows].min()) - 1.0
        log_shares = scores[rows] - np.log(np.exp(scores[rows]).sum())
        losses.append(-(gain @ log_shares) / gain.sum())
        gains.append(gain.sum())
    list_weights = weights[has_pairs]
    if normalization == "pair":
        list_weights = list_weights * gains * list_weights.sum() / (list_weights @ gains)
    assert risk("softmax") == pytest.approx(list_weights @ losses)


class Told:
    """A walk whose plans are worth what a function of their strengths says."""

    def __init__(self, worth, monkeypatch, metric="ndcg@10", n_folds=1):
        self.tried = []

        def evaluate(plan, valid, _theta, metric):
            value = worth(plan.strengths, plan)
            return value if metric.name == "ndcg" or n_folds == 1 else 1 - value + valid

        monkeypatch.setattr(additive_search, "evaluate_plan", evaluate)
        bins = fit_bins(np.arange(30.0).reshape(-1, 5), 4)
        counts = np.ones(sum(bins.n_cells))
        self.plan = additive_search.Plan(
            bins, np.zeros(len(counts)), counts, PenaltyStrengths(1.0, 1.0, 1.0), "softmax", metric
        )
        self.plans = [self.plan] * n_folds
        solver = SimpleNamespace(solve=lambda plan, _data, _start, _fold: np.zeros(plan.space.size))
        folds = [(None, 0.01 * fold) for fold in range(n_folds)]
        self.walk = additive_search.PlanSearch(
            folds, self.tried.append, solver, fold_metric=additive_search.FOLD_METRIC
        )

    def smooth(self):
        return [one["smooth"] for one in self.tried]


def test_a_path_ends_when_patience_runs_out_or_the_metric_falls_steeply(monkeypatch):
    worth = {100.0: 0.5, 10.0: 0.6, 1.0: 0.598, 0.1: 0.7, 0.01: 0.699, 0.001: 0.698}
    for patience, last in ((1, 1.0), (2, 0.001)):
        told = Told(lambda s, _: worth[s.smooth], monkeypatch)
        assert told.walk.path(told.plans, "smooth", additive_search.DECADES, patience)
        assert told.smooth()[-1] == last
        assert told.walk.best.strengths.smooth == (10.0 if patience == 1 else 0.1)
    step = Told(lambda s, _: {100.0: 0.5, 10.0: 0.496, 1.0: 0.9}[s.smooth], monkeypatch)
    step.walk.path(step.plans, "smooth", (100.0, 10.0, 1.0), 5)
    assert step.smooth() == [100.0, 10.0, 1.0], "a fall by less than a hundredth is borne"
    deeper = Told(lambda s, _: {100.0: 0.5, 10.0: 0.494, 1.0: 0.9}[s.smooth], monkeypatch)
    deeper.walk.path(deeper.plans, "smooth", (100.0, 10.0, 1.0), 5)
    assert deeper.smooth() == [100.0, 10.0]
    equal = Told(lambda _s, _p: 0.5, monkeypatch)
    assert equal.walk.path(equal.plans, "smooth", (100.0, 10.0), 1)
    assert equal.walk.best.strengths.smooth == 100.0
    assert not equal.walk.path(equal.walk.best.plans, "smooth", (1.0, 0.1), 1)
    errors = Told(lambda s, _: s.smooth, monkeypatch, "pairwise_error")
    errors.walk.path(errors.plans, "smooth", (3.0, 1.0, 2.0), 1)
    assert errors.walk.best.strengths.smooth == 1.0


def test_folds_choose_by_the_mean_of_their_pairwise_errors(monkeypatch):
    worth = {100.0: 0.5, 10.0: 0.8, 1.0: 0.7}
    told = Told(lambda s, _: worth[s.smooth], monkeypatch, n_folds=3)
    told.walk.path(told.plans, "smooth", worth)
    assert told.walk.best.strengths.smooth == 10.0
    assert [one["value"] for one in told.tried] == pytest.approx([0.5, 0.8, 0.7])
    assert [one["pairwise-error"] for one in told.tried] == pytest.approx([0.51, 0.21, 0.31])


def test_refining_tries_larger_strengths_and_then_smaller_ones(monkeypatch):
    half = additive_search.HALF
    for best, tried in ((half, [1.0, half, half**2]), (1 / half, [1.0, half, 1 / half, half**-2])):
        told = Told(lambda s, _: -abs(np.log(s.smooth / best)) + 9, monkeypatch)  # noqa: B023
        told.walk.try_plans(told.plans, None)
        told.walk.refine("smooth", 2)
        np.testing.assert_allclose(told.smooth(), tried)
        assert told.walk.best.strengths.smooth == pytest.approx(best)


def test_rounds_are_added_as_long_as_they_gain(monkeypatch):
    for useful, tried in ((0, [0, 1, 1]), (2, [0, 1, 1, 2, 2, 3, 3])):
        told = Told(lambda s, plan: 0.5 + 0.01 * min(plan.rounds, useful) - 0.001 * plan.rounds  # noqa: B023
                    - 1e-5 * abs(s.smooth - 0.3), monkeypatch)  # fmt: skip
        told.walk.try_plans(told.plans, None)
        told.walk.add_rounds(4)
        assert [one["rounds"] for one in told.tried] == tried
        assert told.walk.best.plans[0].rounds == useful
        assert told.walk.best.strengths.smooth == pytest.approx(0.3 if useful else 1.0, abs=0.4)


@pytest.mark.parametrize(
    ("worth", "tried", "kept"),
    [({0: 0.5, 10: 0.4}, [10], 0), ({0: 0.5, 10: 0.7, 3: 0.6, 1: 0.9}, [10, 3], 10),
     ({0: 0.5, 10: 0.7, 3: 0.8, 1: 0.75}, [10, 3, 1], 3)],
)  # fmt: skip
def test_fewer_pairs_are_tried_as_long_as_they_gain(worth, tried, kept, monkeypatch):
    pairs = [(a, b) for a in range(5) for b in range(a + 1, 5)]
    # Every fold has pairs of its own.
    for fold_pairs in ([pairs], [pairs, pairs[::-1]]):
        told = Told(lambda _s, plan: worth[len(plan.pairs)], monkeypatch, n_folds=len(fold_pairs))
        told.walk.try_plans(told.plans, None)
        additive_search.search_grids(told.walk, fold_pairs, 1)
        counts = [one["pairs"] for one in told.tried[1:]]
        assert list(dict.fromkeys(counts)) == tried
        for plan, its_pairs in zip(told.walk.best.plans, fold_pairs, strict=True):
            assert plan.pairs == its_pairs[:kept]


def test_pairs_by_name_stay_where_curves_alone_rank_better(monkeypatch):
    told = Told(lambda s, plan: (0.5 if plan.pairs else 0.9) - 0.01 * s.smooth, monkeypatch)
    pairs = [(0, 1), (2, 3), (1, 4)]
    additive_search.search(told.walk, told.plan, pairs, patience=1)
    (plan,), (theta,), _ = told.walk.best
    assert plan.pairs == pairs
    assert len(theta) == plan.space.size
    assert {one["pairs"] for one in told.tried} == {0, 3}


def test_grids_are_coarser_where_there_are_many_columns(monkeypatch):
    X = np.random.default_rng(0).normal(size=(400, 3))
    bins = fit_bins(X, 64)
    plan = additive_search.Plan(bins, np.zeros(0), np.ones(sum(bins.n_cells)),
                                PenaltyStrengths(1.0, 1.0, 1.0), "softmax", "ndcg@10")  # fmt: skip
    for few, side in ((4, 32), (3, 16)):
        monkeypatch.setattr(additive_search, "FEW_COLUMNS", few)
        paired = plan.with_pairs([(0, 2), (1, 2)])
        assert [axis.size for axis in paired.grids.axes] == [side + 1] * 3
        assert paired.pairs == [(0, 2), (1, 2)]
    assert plan.with_pairs([]).grids is None
