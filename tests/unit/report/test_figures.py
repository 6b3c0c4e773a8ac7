"""Every number of a report equals the one computed by itself."""

from __future__ import annotations

import itertools
import math
import shlex

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankine
from rankine import Dataset, LinearModel, logs
from rankine.core.specs import LogColumns, OneHot
from rankine.metrics import data_columns, evaluate, parse_metric, random_expectation
from rankine.report import calibration as calibrating
from rankine.report.calibration import calibration, calibration_section
from rankine.report.data import column_ranges, data_summary
from rankine.report.headline import headline, resamples_for
from rankine.report.judged import _measurable
from rankine.report.lists import ranked_query
from rankine.report.origin import origin, training_command
from rankine.report.ranks import curves, differences, extremes, spread
from rankine.report.run import judge_subject
from rankine.report.training import training, training_section
from rankine.report.weights import size_curve, source_of, weights
from unit.report.report_cases import fitted, random_data, shop

NDCG = parse_metric("ndcg@10")


@pytest.fixture(scope="module")
def judged():
    return judge_subject(fitted(), shop()[1])


@pytest.fixture(scope="module")
def scores():
    return fitted().predict(shop()[1])


def test_the_headline_holds_the_numbers_of_compare(judged, scores):
    test = shop()[1]
    found = headline(judged, NDCG)
    assert found.kinds == ["model", "shown", "feature", "random"]
    feature = judged.opponents[2].scores
    systems = {"model": scores, "shown": -test.position.astype(float), "feature": feature}
    other = rankine.compare(systems, test, "ndcg@10", n_resamples=found.resamples)
    for mine, theirs in zip(found.systems, other.systems, strict=False):
        assert (mine.mean, mine.low, mine.high) == (theirs.mean, theirs.low, theirs.high)
    between = {(p.a, p.b): p for p in other.pairs}[("model", "shown")]
    assert found.pairs[0].difference == pytest.approx(-between.difference)
    assert found.pairs[0].low == pytest.approx(-between.high)
    assert (found.pairs[0].wins, found.pairs[0].losses) == (between.losses, between.wins)
    assert found.model.mean == evaluate("ndcg@10", test.y, scores, test.qid)
    assert found.systems[3].mean == pytest.approx(random_expectation("ndcg@10", test.y, test.qid))


def test_one_query_has_values_but_no_intervals():
    data = random_data(1, 12, 3)
    model = LinearModel.from_weights([1.0, 0.0, -1.0])
    found = headline(judge_subject(model, data), NDCG)
    assert found.queries == 1
    assert math.isnan(found.model.low)
    assert found.pairs == []
    assert found.model.mean == evaluate("ndcg@10", data.y, data.X @ [1.0, 0.0, -1.0])


def test_the_best_single_feature_is_the_best(judged):
    test = shop()[1]
    values = {
        (j, sign): evaluate("ndcg@10", test.y, sign * test.X[:, j], test.qid)
        for j in range(test.n_features)
        for sign in (1, -1)
    }
    found = judged.opponent("feature")
    (j, _), best = max(values.items(), key=lambda item: item[1])
    assert found.name == f"best single feature: {test.feature_names[j]}"
    assert evaluate("ndcg@10", test.y, found.scores, test.qid) == best


def test_of_many_features_those_that_go_with_the_labels_are_tried():
    data = random_data(20, 10, 300, make_sparse=True)
    X = data.X.tolil()
    X[:, [271]] = -data.y[:, None]
    data = Dataset.from_arrays(X.tocsr(), data.y, data.qid)
    found = judge_subject(LinearModel.from_weights(np.ones(300)), data).opponent("feature")
    assert found.name == "best single feature: feature 272"
    assert "less is better" in found.note


def test_curves_hold_the_metric_at_every_depth(judged, scores):
    test = shop()[1]
    found = curves(judged, NDCG)
    for k, value in zip(found.depths, found.curves[0].values, strict=True):
        assert value == pytest.approx(evaluate(f"ndcg@{k}", test.y, scores, test.qid))
    model = found.curves[0]
    inside = zip(model.low, model.values, model.high, strict=True)
    assert all(low < value < high for low, value, high in inside)
    assert [curve.kind for curve in found.curves] == ["model", "shown", "feature", "random"]


def test_histograms_count_every_query(judged, scores):
    test = shop()[1]
    values = evaluate(NDCG, test.y, scores, test.qid, per_query=True)
    found = spread(judged, NDCG)
    assert sum(found.counts) == found.queries == test.n_queries
    assert found.mean == values.mean()
    assert found.quantiles[2] == np.median(values)
    assert found.zeros == (values == 0).sum()
    shown = evaluate(NDCG, test.y, -test.position.astype(float), test.qid, per_query=True)
    gaps = differences(judged, NDCG, judged.opponent("shown"))
    assert sum(gaps.counts) == gaps.better + gaps.equal + gaps.worse == test.n_queries
    assert gaps.better == (values - shown > 1e-12).sum()
    left = sum(c for c, edge in zip(gaps.counts, gaps.edges[1:], strict=True) if edge < 0)
    assert left <= gaps.worse


def test_the_worst_and_best_queries_are_the_extremes(judged):
    values = judged.values(judged.opponents[0], NDCG)
    worst, best = extremes(judged, values, 3, larger_is_better=True)
    usable = [q for q in range(len(values)) if judged.data.labels.pair_counts[q] > 0]
    assert values[worst].tolist() == sorted(values[usable])[:3]
    assert values[best].tolist() == sorted(values[usable], reverse=True)[:3]
    assert not set(worst) & set(best)


def test_a_list_shows_ranks_labels_and_exact_terms(judged, scores):
    test = shop()[1]
    rows = test.queries.rows_of(2)
    found = ranked_query(judged, 2, 0.5, judged.opponent("shown"), 0.4, depth=5)
    order = rows[np.argsort(-scores[rows], kind="stable")]
    assert [item.name for item in found.left[:5]] == [str(test.docid[i]) for i in order[:5]]
    by_place = rows[np.argsort(test.position[rows])]
    assert [item.name for item in found.right] == [str(test.docid[i]) for i in by_place[:5]]
    weights_of = judged.model.to_dense()
    for item, row in zip(found.left[:5], order[:5], strict=True):
        moves = weights_of * (test.X[row] - test.X[rows].mean(axis=0))
        strongest = np.argsort(-np.abs(moves))[:3]
        assert [value for _, value in item.terms] == pytest.approx(moves[strongest].tolist())
        assert sum(v for _, v in item.terms) + item.rest == pytest.approx(
            scores[row] - scores[rows].mean()
        )
        assert item.label == test.y[row]
    # the best items that stand below the shown depth are told with their true rank
    top = test.y[rows].max()
    missed = [k for k, row in enumerate(order, 1) if k > 5 and test.y[row] == top][:3]
    assert [item.rank for item in found.left[5:]] == missed


def test_effects_are_weight_times_spread_within_lists(judged):
    test = shop()[1]
    model = judged.model
    centred = test.X.copy()
    for q in range(test.n_queries):
        rows = test.queries.rows_of(q)
        centred[rows] -= test.X[rows].mean(axis=0)
    expected = model.to_dense() * np.sqrt((centred**2).mean(axis=0))
    np.testing.assert_allclose(judged.effect, expected[model.indices], rtol=1e-9)
    found = weights(model, judged.effect, top=4)
    strongest = max(zip(model.weight_names, expected, strict=True), key=lambda item: item[1])
    assert found.positive[0].name == strongest[0]
    assert found.positive[0].effect == pytest.approx(strongest[1])
    assert [w.effect for w in found.positive] == sorted(w.effect for w in found.positive)[::-1]
    assert all(w.weight < 0 for w in found.negative)
    sizes = sorted(np.abs(expected), reverse=True)
    shares = np.cumsum(sizes) / sum(sizes)
    assert found.concentration[-1] == (14, pytest.approx(1.0))
    assert found.for_half == int((shares < 0.5).sum()) + 1
    assert found.groups == []


def test_features_of_one_column_are_grouped():
    model = LinearModel.from_weights(
        [1.0, -2.0, 3.0, 0.5], ["brand=acme", "brand=zeta", "price", "brand=acme x size=9"]
    )
    found = weights(model, model.values)
    groups = {group.column: (group.weights, group.effect) for group in found.groups}
    assert groups == {"brand": (2, 3.0), "price": (1, 3.0), "brand x size": (1, 0.5)}
    assert sum(group.share for group in found.groups) == pytest.approx(1.0)
    spec = LogColumns(("price",), (OneHot("shop", ("a=b", "c")),), ("brand",), (), 4)
    log = LinearModel.from_weights(np.ones(19), transforms=(spec,))
    assert [source_of(log, "?", j) for j in (0, 1, 2)] == ["price", "shop", "shop"]
    assert source_of(log, "brand=x", 5) == "brand"
    assert source_of(log, "hash:3", 6) == "hashed (value unknown)"


def test_the_size_curve_measures_models_of_the_strongest_weights(judged, scores):
    test = shop()[1]
    found = size_curve(judged, NDCG)
    assert (found.sizes[0], found.sizes[-1]) == (1, judged.model.nnz)
    strongest = judged.model.indices[np.argmax(np.abs(judged.effect))]
    alone = judged.model.to_dense()[strongest] * test.X[:, strongest]
    assert found.values[0] == evaluate(NDCG, test.y, alone, test.qid)
    assert found.values[-1] == evaluate(NDCG, test.y, scores, test.qid)
    values = dict(zip(found.sizes, found.values, strict=True))
    assert values[found.enough] >= 0.99 * found.values[-1]


def test_calibration_counts_pairs(judged, scores):
    test = shop()[1]
    gaps = []
    for q in range(test.n_queries):
        for i, j in itertools.permutations(test.queries.rows_of(q).tolist(), 2):
            if test.y[i] > test.y[j]:
                gaps.append(scores[i] - scores[j])
    found = calibration(judged)
    assert found.all_pairs
    assert found.pairs == sum(b.pairs for b in found.bins) == len(gaps)
    assert found.right == pytest.approx(np.mean([g > 0 for g in gaps]))
    order = np.argsort(np.abs(gaps))
    first = np.array_split(order, 10)[0]
    assert found.bins[0].gap == pytest.approx(np.abs(gaps)[first].mean())
    assert found.bins[0].share == pytest.approx((np.array(gaps)[first] > 0).mean())
    # the slope is where the likelihood of the logistic curve is largest
    grid = found.slope * np.array([0.98, 1.0, 1.02])
    likelihood = [-np.log1p(np.exp(-a * np.array(gaps))).sum() for a in grid]
    assert np.argmax(likelihood) == 1


def test_the_dashed_curve_is_the_logistic_one(judged, monkeypatch):
    drawn = []
    monkeypatch.setattr(calibrating, "line_chart", lambda _, lines, *__, **___: drawn.extend(lines))
    found = calibration(judged)
    calibration_section(found)
    curve = next(line for line in drawn if line.name == "logistic curve")
    assert curve.x[0] == 0.0
    assert curve.x[-1] == max(b.gap for b in found.bins)
    assert curve.y == pytest.approx(1 / (1 + np.exp(-found.slope * np.array(curve.x))))


def test_many_pairs_are_sampled_alike():
    data = random_data(4, 700, 2, labels=2)
    judged = judge_subject(LinearModel.from_weights([1.0, 0.0]), data)
    found = calibration(judged)
    assert not found.all_pairs
    assert found.pairs == 200_000
    exact = 1 - evaluate("pairwise_error:mean=pairs", data.y, data.X[:, 0], data.qid)
    assert found.right == pytest.approx(exact, abs=0.01)


def test_features_that_cannot_help_are_named():
    data = random_data(8, 6, 5)
    X = data.X.copy()
    X[:, 0], X[:, 1], X[:, 2] = 0.0, 7.0, data.qid
    data = Dataset.from_arrays(X, data.y, data.qid, feature_names=list("abcde"))
    for matrix in (data.X, __import__("scipy.sparse").sparse.csr_array(data.X)):
        same = Dataset.from_arrays(matrix, data.y, data.qid, feature_names=list("abcde"))
        found = data_summary(judge_subject(LinearModel.from_weights(np.ones(5)), same))
        assert (found.zero_names, found.constant_names, found.flat_names) == (["a"], ["b"], ["c"])
        assert found.fingerprint == data.fingerprint
    assert found.rows == 48
    assert sum(found.labels.counts) == 48
    assert sum(found.lengths.counts) == found.queries == 8


def test_column_ranges_see_implicit_zeros():
    data = random_data(5, 5, 40, make_sparse=True)
    low, high = column_ranges(data.X)
    np.testing.assert_array_equal(low, data.X.toarray().min(axis=0))
    np.testing.assert_array_equal(high, data.X.toarray().max(axis=0))


def test_queries_without_relevant_items_are_counted():
    data = random_data(6, 4, 2)
    y = np.where(data.qid < 2, 0, data.y)
    judged = judge_subject(LinearModel.from_weights([1.0, 2.0]),
                           Dataset.from_arrays(data.X, y, data.qid))  # fmt: skip
    found = data_summary(judged)
    assert found.without_value == sum((y[data.qid == q] == 0).all() for q in range(6)) >= 2
    expected = evaluate("ndcg@10", y, judged.scores, data.qid, columns=data_columns(judged.data))
    assert headline(judged, NDCG).model.mean == expected


def test_the_training_of_a_model_can_be_read_back():
    ranker = rankine.RankSVM(scale="standard", l2=0.02, metric="map").fit(shop()[0])
    found = training(ranker.to_model())
    trace = ranker.solution_.trace
    assert found.step_name == "iteration"
    assert found.steps == [record["iteration"] for record in trace]
    assert found.curves["objective"] == pytest.approx([r["objective"] for r in trace], rel=1e-5)
    assert found.certificate["gap"] == ranker.solution_.certificate["gap"]
    assert training(LinearModel.from_weights([1.0])).curves == {}
    broken = LinearModel.from_weights([1.0], provenance={"trace": {"a": [1], "b": [1, 2]}})
    assert training(broken).curves == {}


def test_the_section_of_training_draws_what_was_recorded():
    def section(**story):
        return training_section(training(LinearModel.from_weights([1.0], provenance=story)))

    checks = {"step": [1, 2], "value": [0.3, 0.4]}
    objective = {"iteration": [1, 2], "objective": [3.0, 2.0]}
    assert section() is None
    facts = section(n_iter=7)
    assert "no trace" in facts.lead
    assert "Validation" not in str(facts.body)
    for story, titles in (
        ({"validation": checks}, {"Validation"}),
        ({"validation": {"step": [1], "value": [0.3]}, "n_iter": 1}, set()),
        ({"trace": objective}, {"Objective"}),
        ({"trace": {**objective, "gap": [1.0, 0.5]}, "validation": checks},
         {"Objective", "Gap", "Validation"}),
        ({"trace": {"lists": [5, 9], "progressive_loss": [0.4, 0.3]}}, {"Progressive loss"}),
    ):  # fmt: skip
        found = section(**story)
        shown = {name for name in ("Objective", "Gap", "Validation", "Progressive loss")
                 if f">{name}<" in str(found.body)}  # fmt: skip
        assert shown == titles
        assert ("What was recorded" in found.lead) == bool(titles)


def test_the_training_command_gives_the_same_model(tmp_path):
    train = shop()[0]
    path = tmp_path / "train data.txt"
    rankine.Dataset.from_arrays(train.X, train.y, train.qid).save(path)
    ranker = rankine.LeastSquaresRanker(l2=0.074, scale="maxabs", metric="map", random_state=3)
    model = ranker.fit(rankine.load(path)).to_model()
    words = shlex.split(training_command(model))
    assert words[:3] == ["rankine", "train", str(path)]
    given = dict(itertools.pairwise(words))
    assert given["--ranker"] == "least-squares"
    assert given["--set"] == "l2=0.074"
    assert (given["--scale"], given["--metric"], given["--seed"]) == ("maxabs", "map", "3")
    assert origin(model, rankine.load(path)).seen == [str(path)]
    assert training_command(LinearModel.from_weights([1.0])) is None


def test_bootstrap_samples_are_affordable():
    assert resamples_for(5000) == 10_000
    assert resamples_for(100_000) == 500


def test_the_training_command_names_crosses(tmp_path):
    rows = {"q": [1, 1, 2, 2], "a": ["x", "y", "x", "z"], "b": [1, 2, 2, 1], "y": [1, 0, 0, 1]}
    pq.write_table(pa.table(rows), tmp_path / "log.parquet")
    log = logs.scan(
        tmp_path / "log.parquet", query="q", label="y", categorical=["a"], crosses=["a*b"],
        hash_bits=6,
    )  # fmt: skip
    words = shlex.split(training_command(rankine.ElasticRanker(random_state=0).fit(log).to_model()))
    given = dict(itertools.pairwise(words))
    assert (given["--cross"], given["--categorical"], given["--hash-bits"]) == ("a*b", "a", "6")


def test_metrics_that_are_one_are_told_once(scores):
    wanted = ["ndcg@10", "ndcg@10:gain=exp", "map"]
    found, refused = _measurable(wanted, shop()[1], scores)
    assert [str(metric) for metric in found] == ["ndcg@10", "map"]
    assert refused == {}
