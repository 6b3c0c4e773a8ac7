"""Every number of a report equals the one computed by itself."""

from __future__ import annotations

import itertools
import math
import shlex
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

import rankine
from rankine import Dataset, LinearModel, logs
from rankine.core.specs import Binned, ListRange, LogColumns, MissingValues, OneHot, RunScores
from rankine.metrics import data_columns, evaluate, parse_metric, random_expectation
from rankine.reporting import calibration as calibrating
from rankine.reporting.calibration import _bin, _slope, calibration, calibration_section
from rankine.reporting.data import column_ranges, data_summary, lengths, levels
from rankine.reporting.headline import headline, resamples_for
from rankine.reporting.judged import Opponent, _candidates, _measurable, judge
from rankine.reporting.lists import ranked_query
from rankine.reporting.origin import origin, training_command
from rankine.reporting.ranks import curve_metrics, curves, differences, extremes, spread
from rankine.reporting.run import _lists, judge_subject
from rankine.reporting.training import training, training_section
from rankine.reporting.weights import size_curve, source_of, weights
from rankine.transforms.apply import score_dataset
from unit.reporting.report_cases import fitted, random_data, shop

NDCG = parse_metric("ndcg@10")


@pytest.fixture
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


def test_effects_are_weight_times_spread_within_lists():
    test = shop()[1]
    judged = judge_subject(fitted(), test)  # whose effects nobody has asked for
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
    for matrix in (data.X, sparse.csr_array(data.X)):
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
    checks = {"step": [0, 7, None], "value": [0.3, 0.4, 0.5]}
    checked = training(LinearModel.from_weights([1.0], provenance={"validation": checks}))
    assert checked.validation_steps == [0.0, 7.0, 0.0]
    assert checked.validation == [0.3, 0.4, 0.5]
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
    assert "--base" not in words
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


# ---------------------------------------------------------------------- numbers made by hand
def stub(values, *, pairs=None, **more):
    """What ``spread`` and its like ask of a judged model."""
    model, other = Opponent("model", "m", np.zeros(1)), Opponent("against", "o", np.zeros(1))
    counts = np.ones(len(values), dtype=np.int64) if pairs is None else np.asarray(pairs)
    data = SimpleNamespace(labels=SimpleNamespace(pair_counts=counts))
    given = {"m": np.asarray(values, dtype=float), **more}
    return SimpleNamespace(
        opponents=[model, other], data=data, values=lambda one, _: given[one.name]
    )


def test_the_range_of_a_histogram_holds_all_values():
    for values, ends in (
        ([0.2, 0.9, np.nan], (0.0, 1.0)), ([0.0, 1.0], (0.0, 1.0)), ([0.5, 3.0], (0.0, 3.0)),
        ([-2.0, 0.5], (-2.0, 1.0)),
    ):  # fmt: skip
        found = spread(stub(values), NDCG)
        assert (found.edges[0], found.edges[-1]) == ends
        assert len(found.counts) == 20
        assert sum(found.counts) == found.queries == np.isfinite(values).sum()
        assert found.zeros == values.count(0.0)


def test_differences_are_centred_on_zero_and_have_a_sign():
    values, others = [0.5, 0.4, 0.1, 1e-13, np.nan], np.array([0.2, 0.4, 0.4, 0.0, 0.1])
    found = differences(stub(values, o=others), NDCG, Opponent("against", "o", None))
    assert (found.better, found.equal, found.worse) == (1, 2, 1)
    assert (found.edges[0], found.edges[-1]) == (-max(found.edges), pytest.approx(0.3))
    assert len(found.counts) == 21
    assert found.counts[10] == 2
    error = parse_metric("pairwise_error")
    turned = differences(stub(values, o=others), error, Opponent("against", "o", None))
    assert (turned.better, turned.worse, turned.counts) == (1, 1, found.counts)
    values[0] = 0.9
    values[2] = 0.9
    turned = differences(stub(values, o=others), error, Opponent("against", "o", None))
    assert (turned.better, turned.equal, turned.worse) == (0, 2, 2)
    equal = differences(stub([0.5], o=np.array([0.5])), NDCG, Opponent("against", "o", None))
    assert (equal.edges[-1], equal.counts[10]) == (pytest.approx(1e-6), 1)


@pytest.mark.parametrize("larger", [True, False])
def test_extremes_among_equals_have_most_pairs(larger):
    values = np.array([0.5, 0.1, 0.5, 0.9, 0.1, np.nan, 0.0, 0.9])
    pairs = [1, 1, 5, 1, 3, 9, 0, 2]
    order = sorted((q for q in range(8) if pairs[q] and np.isfinite(values[q])),
                   key=lambda q: (values[q] if larger else -values[q], -pairs[q]))  # fmt: skip
    worst, best = extremes(stub(values, pairs=pairs), values, 2, larger_is_better=larger)
    assert worst == order[:2]
    rest = sorted(order[2:], key=lambda q: (-values[q] if larger else values[q], -pairs[q]))
    assert best == rest[:2]
    worst, best = extremes(stub(values, pairs=pairs), values, 4, larger_is_better=larger)
    assert (len(worst), len(best)) == (4, 2)
    assert not set(worst) & set(best)


@pytest.mark.parametrize(
    ("own", "drawn"),
    [("ndcg@10", ["ndcg@10", "p@10"]), ("recall@3", ["recall@3", "p@10"]), ("p@5", ["p@5"]),
     ("map", ["ndcg@10", "p@10"]), ("ndcg", ["ndcg@10", "p@10"]), ("p@label", ["ndcg@10", "p@10"])],
)  # fmt: skip
def test_metrics_down_the_list(own, drawn):
    found = curve_metrics(SimpleNamespace(metric=parse_metric(own)))
    assert [str(metric) for metric in found] == drawn


def test_two_queries_are_enough_for_intervals(monkeypatch):
    model = LinearModel.from_weights([1.0, 0.0, -1.0])
    for n in (1, 2):
        judged = judge_subject(model, random_data(n, 12, 3))
        assert len(headline(judged, NDCG).pairs) == (2 if n == 2 else 0)
        assert math.isfinite(headline(judged, NDCG).model.low) == (n == 2)
    data = random_data(6, 4, 3)
    y = np.where(data.qid < 2, 0, 1 + data.y)
    skipped = Dataset.from_arrays(data.X, y, data.qid)
    judged = judge_subject(model, skipped, metrics=["ndcg@10:no_relevant=skip"])
    found = headline(judged, judged.metric)
    assert (found.queries, found.skipped) == (4, 2)
    asked = []
    monkeypatch.setattr(
        "rankine.reporting.ranks.resamples_for", lambda n: asked.append(n) or resamples_for(n)
    )
    assert curves(judged, judged.metric) is not None
    assert asked == [4 * 4]


def test_the_lengths_of_lists_have_quantiles():
    sizes = [1, 2, 4, 9, 3]
    qid = np.repeat(np.arange(5), sizes)
    y = np.arange(len(qid)) % 2
    data = Dataset.from_arrays(np.arange(len(qid))[:, None] * 1.0, y, qid)
    found = data_summary(judge(LinearModel.from_weights([1.0]), data))
    assert found.length_quantiles == [1, 2, 3, 4, 9]
    assert found.without_pairs == 1


def test_curves_end_with_the_longest_list_and_need_two_queries_for_a_band():
    model = LinearModel.from_weights([1.0, 0.0, -1.0])
    for queries, length, depths in ((3, 4, [1, 2, 3, 4]), (1, 7, [1, 2, 3, 4, 5, 6]), (2, 1, [1])):
        data = random_data(queries, length, 3, labels=2, seed=3)
        found = curves(judge_subject(model, data), NDCG)
        assert found.depths == depths
        assert [len(curve.low) for curve in found.curves] == (
            [len(depths) * (queries > 1)] + [0] * (len(found.curves) - 1)
        )
        assert all(len(curve.values) == len(depths) for curve in found.curves)
    data = random_data(5, 6, 3)
    negative = Dataset.from_arrays(data.X, data.y - 1.0, data.qid)
    assert curves(judge_subject(model, negative), NDCG) is None


def test_wilson_intervals_and_ties():
    rng = np.random.default_rng(0)
    for n in (1, 5, 400):
        for right in (np.ones(n), np.zeros(n), rng.integers(0, 2, n) * 1.0):
            size = rng.random(n)
            found = _bin(size, right)
            p = right.mean()
            assert (found.gap, found.share, found.pairs) == (pytest.approx(size.mean()), p, n)
            for end in (found.low, found.high):  # |p - end| = z sqrt(end (1 - end) / n)
                assert (p - end) ** 2 == pytest.approx(1.959964**2 * end * (1 - end) / n, abs=1e-12)
            assert found.low <= p + 1e-12
            assert found.high >= p - 1e-12
    data = Dataset.from_arrays([[1.0], [0.0], [0.0], [0.0]], [1, 0, 1, 1], [0, 0, 0, 0])
    found = calibration(judge_subject(LinearModel.from_weights([1.0]), data))
    assert (found.pairs, found.tied, len(found.bins)) == (3, 2, 3)
    assert found.right == pytest.approx(2 / 3)
    flat = Dataset.from_arrays([[1.0], [0.0]], [1, 1], [0, 0])
    assert calibration(judge_subject(LinearModel.from_weights([1.0]), flat)) is None


@pytest.mark.parametrize("noise", [0.3, 1.0, 30.0])
@pytest.mark.parametrize("unit", [1e-3, 1.0, 50.0])
def test_the_slope_is_where_the_likelihood_is_level(noise, unit):
    gap = unit * (0.5 + noise * np.random.default_rng(0).normal(size=200))
    slope = _slope(gap)
    parts = gap / (1 + np.exp(np.clip(slope * gap, -700, 700)))
    assert abs(parts.sum()) < 1e-6 * np.abs(parts).sum()
    assert slope > 0


def test_scores_that_say_nothing_or_all_have_a_slope_too():
    assert _slope(np.zeros(3)) == _slope(np.array([1.0, -1.0])) == _slope(np.array([-1.0])) == 0.0
    assert _slope(np.ones(4)) == pytest.approx(2**20)  # the first power of 2 above a million


def test_levels_and_lengths_are_counted_in_bins_of_one_width():
    for n_levels in (12, 13, 40):
        y = np.arange(80) % n_levels
        found = levels(SimpleNamespace(y=y * 1.0))
        assert sum(found.counts) == 80
        assert bool(found.names) == (n_levels == 12)
        assert len(found.edges) == len(found.counts) + 1
        assert len(found.counts) == (12 if n_levels == 12 else 20)
    for sizes in ([3, 3], [1, 20], [1, 21, 7], [5, 44, 44, 6], [10, 49, 30]):
        found = lengths(SimpleNamespace(queries=SimpleNamespace(sizes=np.array(sizes))))
        span = max(sizes) - min(sizes) + 1
        width = math.ceil(span / 20)
        assert found.edges[0] == min(sizes) - 0.5
        assert np.diff(found.edges) == pytest.approx(width)
        assert len(found.counts) == math.ceil(span / width)
        assert sum(found.counts) == len(sizes)


def test_column_ranges_leave_out_what_is_missing():
    X = np.array([[1.0, np.nan, -3.0], [2.0, 5.0, np.nan]])
    for matrix in (X, sparse.csr_array(np.nan_to_num(X, nan=4.0))):
        low, high = column_ranges(matrix)
        dense = matrix if matrix is X else matrix.toarray()
        assert low.tolist() == np.nanmin(dense, axis=0).tolist()
        assert high.tolist() == np.nanmax(dense, axis=0).tolist()
    full = sparse.csr_array(np.array([[2.0, -1.0], [3.0, -4.0]]))
    assert [part.tolist() for part in column_ranges(full)] == [[2.0, -4.0], [3.0, -1.0]]


# ---------------------------------------------------------------------- lists of queries
def listed(y, scores, *, opponent=None, depth=10, **columns):
    """One query whose only feature is its score."""
    y, scores = np.asarray(y, dtype=float), np.asarray(scores, dtype=float)
    data = Dataset.from_arrays(scores[:, None], y, np.zeros(len(y), dtype=int), **columns)
    judged = judge_subject(LinearModel.from_weights([1.0]), data)
    return ranked_query(judged, 0, 0.5, opponent, None, depth=depth)


def test_good_items_that_stand_too_deep_are_shown_as_well():
    found = listed([0, 0, 1, 1, 0, 1, 1, 1], np.arange(8)[::-1], depth=2)
    assert [item.rank for item in found.left] == [1, 2, 3, 4, 6]
    assert [item.label for item in found.left] == [0, 0, 1, 1, 1]
    assert [item.name for item in found.left][:2] == ["row 1", "row 2"]
    flat = listed([1, 1, 1, 1], [4, 3, 2, 1], depth=2)
    assert [item.rank for item in flat.left] == [1, 2]
    assert flat.labels == [1.0]


def test_the_other_order_is_the_ideal_one_or_the_opponents():
    y, scores = [0, 2, 1], [3.0, 2.0, 1.0]
    ideal = listed(y, scores)
    assert ideal.right_name == "ideal order"
    assert [item.label for item in ideal.right] == [2, 1, 0]
    assert [item.score for item in ideal.right] == [None] * 3
    assert ideal.length == 3
    other = np.array([0.5, 0.1, 0.9])
    found = listed(y, scores, opponent=Opponent("against", "old", other))
    assert (found.right_name, [item.score for item in found.right]) == ("old", [0.9, 0.5, 0.1])
    shown = listed(y, scores, opponent=Opponent("shown", "as shown", other), depth=2)
    assert [(item.name, item.score) for item in shown.right] == [("row 3", None), ("row 1", None)]


def test_queries_and_documents_have_names_where_they_are_known():
    assert [item.rank for item in listed([1], [2.0]).left] == [1]
    columns = {"query": np.array(["x", "x"]), "text": np.array(["y", "y"])}
    found = listed([0, 1], [1.0, 2.0], docid=np.array(["", "b"]), columns=columns)
    assert [item.name for item in found.left] == ["b", "row 1"]
    assert found.text == "x"
    assert listed([0, 1], [1.0, 2.0]).text == ""


@pytest.mark.parametrize("make_sparse", [True, False])
def test_terms_add_up_for_sparse_rows_too(make_sparse):
    data = random_data(3, 5, 40, make_sparse=True)
    dense = data.X.toarray()
    weights_of = np.where(np.arange(40) % 3, np.linspace(-1, 2, 40), 0.0)
    X = data.X if make_sparse else dense
    judged = judge_subject(
        LinearModel.from_weights(weights_of), Dataset.from_arrays(X, data.y, data.qid)
    )
    for q in range(3):
        rows = judged.data.queries.rows_of(q)
        moves = weights_of * (dense[rows] - dense[rows].mean(axis=0))
        for item in ranked_query(judged, q, 0.5, None, None).left:
            (i,) = [k for k, row in enumerate(rows) if item.name == f"row {row + 1}"]
            strongest = np.argsort(-np.abs(moves[i]), kind="stable")[:3]
            assert [n for n, _ in item.terms] == [f"feature {j + 1}" for j in strongest]
            assert [v for _, v in item.terms] == pytest.approx(moves[i][strongest])
            assert item.rest == pytest.approx(moves[i].sum() - moves[i][strongest].sum())
    alone = listed([1, 0], [2.0, 2.0])
    assert [item.terms for item in alone.left] == [[], []]


# ---------------------------------------------------------------------- opponents and weights
def test_what_a_model_stands_against(monkeypatch):
    test = shop()[1]
    judged = judge_subject(fitted(), test)
    assert judged.rival.kind == "shown"
    other = judge_subject(fitted(), test, against=fitted().to_model())
    assert [one.kind for one in other.opponents][:2] == ["model", "against"]
    assert other.opponents[1].name == "model"
    assert other.rival.kind == "against"
    same = judge_subject(fitted(), test, against=fitted())
    assert same.opponents[1].name == "LeastSquaresRanker (other)"
    bare = Dataset.from_arrays(test.X, test.y, test.qid)
    assert judge_subject(fitted(), bare).rival.kind == "feature"
    assert (
        judge_subject(LinearModel.from_weights([1.0]), random_data(3, 4, 1)).rival.kind == "feature"
    )
    flat = Dataset.from_arrays(np.ones((6, 1)), [0, 1, 0, 1, 0, 1], [0, 0, 0, 1, 1, 1])
    alone = judge_subject(LinearModel.from_weights([1.0]), flat)
    assert [one.kind for one in alone.opponents] == ["model", "random"]
    assert alone.rival.kind == "random"
    places = np.array([1.0, np.nan, 2.0, 1.0, 2.0, 3.0])
    odd = Dataset.from_arrays(flat.X, flat.y, flat.qid, position=places)
    assert judge_subject(LinearModel.from_weights([1.0]), odd).opponent("shown") is None
    assert other.opponent("nothing") is None


def test_values_are_measured_once(judged, monkeypatch):
    values = [judged.values(one, NDCG) for one in judged.opponents]
    monkeypatch.setattr("rankine.reporting.judged.evaluate_on", None)
    monkeypatch.setattr("rankine.reporting.judged.random_expectation", None)
    again = [judged.values(one, NDCG) for one in judged.opponents]
    assert all(a is b for a, b in zip(values, again, strict=True))


@pytest.mark.parametrize("direction", [1.0, -1.0])
@pytest.mark.parametrize("metric", ["ndcg@10", "pairwise_error"])
@pytest.mark.parametrize("some", [None, 3])
def test_a_constant_feature_hides_no_good_one(direction, metric, some, monkeypatch):
    data = random_data(7, 6, 4, labels=2)
    X = data.X.copy()
    X[:, 0] = 1.0
    X[:, 2] = X[:, 3] = direction * data.y
    if some is not None:
        monkeypatch.setattr("rankine.reporting.judged.MAX_QUERIES", some)
    data = Dataset.from_arrays(X, data.y, data.qid)
    model = LinearModel.from_weights(np.ones(4), base=0, metric=metric)
    found = judge_subject(model, data).opponent("feature")
    assert found.name == "best single feature: feature 2"
    np.testing.assert_array_equal(found.scores, direction * X[:, 2])
    assert found.note.startswith("more" if direction > 0 else "less")


@pytest.mark.parametrize("make_sparse", [True, False])
def test_features_that_go_with_the_labels_come_first(make_sparse, monkeypatch):
    data = random_data(9, 6, 20, make_sparse=True, seed=2)
    X = data.X.toarray()
    X[:, 3] = 5.0
    X[:, 7] = 1000.0 * X[:, 7]
    matrix = sparse.csr_array(X) if make_sparse else X
    judged = judge_subject(
        LinearModel.from_weights(np.ones(20)), Dataset.from_arrays(matrix, data.y, data.qid)
    )
    strength = np.zeros(20)
    for j in range(20):
        rows = [data.queries.rows_of(q) for q in range(9)]
        inner = [(X[r, j] - X[r, j].mean(), data.y[r] - data.y[r].mean()) for r in rows]
        spread_of = math.sqrt(sum((x**2).sum() for x, _ in inner))
        strength[j] = abs(sum((x * y).sum() for x, y in inner)) / spread_of if spread_of else 0.0
    monkeypatch.setattr("rankine.reporting.judged.MAX_TRIED", 6)
    assert _candidates(judged).tolist() == np.argsort(-strength, kind="stable")[:6].tolist()
    monkeypatch.setattr("rankine.reporting.judged.MAX_TRIED", 20)
    assert _candidates(judged).tolist() == list(range(20))


def test_the_best_feature_is_found_where_lists_are_mixed():
    data = random_data(6, 5, 3)
    mixed = Dataset.from_arrays(data.X, data.y, np.tile(np.arange(6), 5))
    X = mixed.X.copy()
    X[:, 1] = mixed.y
    mixed = Dataset.from_arrays(X, mixed.y, mixed.qid)
    found = judge_subject(LinearModel.from_weights(np.ones(3)), mixed).opponent("feature")
    assert found.name == "best single feature: feature 2"
    np.testing.assert_array_equal(found.scores, mixed.y)


def test_features_are_named_by_the_model_then_by_the_data_then_by_number():
    data = random_data(4, 5, 3)
    named = Dataset.from_arrays(data.X, data.y, data.qid, feature_names=list("xyz"))
    model = LinearModel.from_weights([0.0, 1.0, 0.0])
    assert judge(model, data).feature_name(2) == "feature 3"
    assert judge(model, named).feature_name(2) == "z"
    assert judge(LinearModel.from_weights([0, 1.0, 0], list("abc")), data).feature_name(0) == "a"
    some = LinearModel.from_weights([0.0, 1.0, 0.0], weight_names=["b"])
    assert [judge(some, data).feature_name(j) for j in range(3)] == ["feature 1", "b", "feature 3"]


def test_metrics_are_the_models_own_then_the_usual_ones():
    data = random_data(4, 5, 3)
    names = [
        str(m) for m in judge(LinearModel.from_weights(np.ones(3), metric="err"), data).metrics
    ]
    assert names == ["err", "ndcg@10", "map", "mrr"]
    assert str(judge(LinearModel.from_weights(np.ones(3)), data).metric) == "ndcg@10"
    asked = judge(LinearModel.from_weights(np.ones(3)), data, metrics=["p@3", "map"])
    assert [str(m) for m in asked.metrics] == ["p@3", "map", "ndcg@10", "mrr"]
    odd = Dataset.from_arrays(data.X, data.y - 0.5, data.qid)
    found = judge(LinearModel.from_weights(np.ones(3), metric="map"), odd)
    assert [str(m) for m in found.metrics] == ["map", "mrr"]
    assert list(found.refused) == ["ndcg@10"]
    assert str(judge(LinearModel.from_weights(np.ones(3)), odd).metric) == "pairwise-error"


@pytest.mark.parametrize("rule", ["zero", "mean", "query_min", "indicator"])
@pytest.mark.parametrize("scaled", [True, False])
def test_features_are_those_that_the_weights_meet(rule, scaled):
    data = random_data(5, 6, 3)
    X = data.X.copy()
    X[::4, 1] = np.nan
    numbers = {"mean": ((1,), (0.25,)), "indicator": ((1,), (0.75,))}.get(rule, ((), ()))
    transforms = [MissingValues(rule, *numbers), *([ListRange()] if scaled else [])]
    model = LinearModel.from_weights([1.0, -2.0, 0.5], list("abc"), transforms=transforms)
    full = Dataset.from_arrays(X, data.y, data.qid, feature_names=list("abc"))
    judged = judge(model, full)
    np.testing.assert_allclose(judged.scores, score_dataset(model, full), atol=1e-12)
    np.testing.assert_allclose(judged.features @ judged.view.to_dense(), judged.scores, atol=1e-12)
    if rule == "indicator":
        assert judged.view.feature_names == ("a", "b", "c", "b missing")
    unnamed = LinearModel.from_weights([1.0, -2.0, 0.5], transforms=transforms)
    names = judge(unnamed, Dataset.from_arrays(X, data.y, data.qid)).view.feature_names
    assert (names is not None and names[-1] == "2 missing") == (rule == "indicator")


def test_retrievers_are_judged_by_their_normalised_scores():
    data = random_data(5, 6, 2)
    model = LinearModel.from_weights([1.0, 0.5], ["a", "b"], transforms=(RunScores("min_max"),))
    judged = judge(model, data)
    np.testing.assert_allclose(judged.scores, score_dataset(model, data), atol=1e-12)
    assert judged.features.max() <= 1.0


def test_weights_of_no_effect_share_nothing():
    model = LinearModel.from_weights([1.0, -2.0, 3.0], ["x=1", "x=2", "y"])
    found = weights(model, np.zeros(3))
    assert (found.idle, found.for_half, found.for_most) == (3, 0, 0)
    assert [share for _, share in found.concentration] == [0.0, 0.0, 0.0]
    assert {group.share for group in found.groups} == {0.0}
    for unit in (1.0, 0.01):
        effect = unit * np.array([4.0, -1.0])
        plain = weights(LinearModel.from_weights([1.0, -2.0]), effect)
        assert [w.name for w in (*plain.positive, *plain.negative)] == ["feature 1", "feature 2"]
        assert plain.concentration == [(1, pytest.approx(0.8)), (2, pytest.approx(1.0))]
        assert (plain.for_half, plain.for_most, plain.idle) == (1, 2, 0)
        grouped = weights(LinearModel.from_weights([1.0, -2.0], ["x=1", "x=2"]), effect).groups
        assert [(group.effect, group.share) for group in grouped] == [
            (pytest.approx(5 * unit), pytest.approx(1.0))
        ]
    alone = weights(LinearModel.from_weights([0.0, 2.0]), np.array([3.0]))
    assert alone.concentration == [(1, 1.0)]
    many = weights(LinearModel.from_weights(np.arange(1.0, 41)), np.arange(1.0, 41))
    assert [w.weight for w in many.positive] == np.arange(40.0, 28, -1).tolist()
    assert many.concentration[0] == (1, pytest.approx(40 / 820))
    wide = [f"c{k}={v}" for k in range(20) for v in "ab"]
    groups = weights(LinearModel.from_weights(np.arange(1.0, 41), wide), np.arange(1.0, 41)).groups
    assert [group.column for group in groups] == [f"c{k}" for k in range(19, 4, -1)]
    assert groups[0].share == pytest.approx(79 / 820)


def test_features_of_binned_columns_have_their_source():
    spec = LogColumns(("price",), (OneHot("shop", ("a", "b")),), ("brand",), (), 2, (),
                      (Binned("age", (1.0,)), Binned("n", ())))  # fmt: skip
    model = LinearModel.from_weights(np.ones(spec.n_features), transforms=(spec,))
    sources = [source_of(model, "hash:1", j) for j in range(spec.n_features)]
    assert sources == ["price", "shop", "shop", *["age"] * 3, "n", "n",
                       *["hashed (value unknown)"] * 4]  # fmt: skip
    assert source_of(LinearModel.from_weights([1.0]), "7", 0) == "7"


@pytest.mark.parametrize("metric", ["p@1", "pairwise_error"])
def test_the_smallest_model_that_is_good_enough(metric):
    data = random_data(6, 5, 30)
    y = (data.X[:, 0] > 0) * 1.0
    data = Dataset.from_arrays(data.X, y, data.qid)
    weights_of = np.r_[100.0 if metric == "pairwise_error" else -100.0, np.full(29, 1e-3)]
    judged = judge_subject(LinearModel.from_weights(weights_of), data)
    found = size_curve(judged, parse_metric(metric))
    assert found.values[-1] == 0.0
    assert found.enough == 1
    assert found.sizes == sorted({*np.geomspace(1, 30, 12).round().astype(int).tolist(), 30})
    noisy = Dataset.from_arrays(data.X, random_data(6, 5, 30, seed=5).y, data.qid)
    judged = judge_subject(LinearModel.from_weights(np.linspace(-1, 1, 30)), noisy)
    for other in (parse_metric("ndcg@5"), parse_metric("pairwise_error")):
        found = size_curve(judged, other)
        last = found.values[-1]
        good = [
            (v >= 0.99 * last) if other.larger_is_better else (v <= 1.01 * last)
            for v in found.values
        ]
        assert found.enough == found.sizes[good.index(True)]
    one = judge_subject(LinearModel.from_weights([2.0]), random_data(2, 3, 1))
    assert size_curve(one, NDCG).sizes == [1]
    assert (
        size_curve(judge_subject(LinearModel.from_weights([0.0]), random_data(2, 3, 1)), NDCG)
        is None
    )


@pytest.mark.parametrize("metric", ["ndcg@10", "pairwise_error"])
def test_lists_that_were_lost_and_won_against_another_model(metric):
    data = random_data(12, 6, 3)
    X = data.X.copy()
    X[:36, 2] = X[:36, 0]  # six lists in the same order
    data = Dataset.from_arrays(X, data.y, data.qid)
    against = LinearModel.from_weights([0.0, 0.0, 1.0])
    model = LinearModel.from_weights([1.0, 0.0, 0.0], metric=metric)
    judged = judge_subject(model, data, against=against)
    groups = dict(_lists(judged, 6))
    ours, theirs = (judged.values(one, judged.metric) for one in judged.opponents[:2])
    gap = (ours - theirs) * (1 if metric == "ndcg@10" else -1)
    for title, chosen in (("Lost", gap < 0), ("Won", gap > 0)):
        found = groups[f"{title} most against the other model"]
        for one in found:
            assert one.other_value == theirs[int(one.query)]
            assert one.value == ours[int(one.query)]
            assert chosen[int(one.query)]
    found = [len(groups[f"{title} most against the other model"]) for title in ("Lost", "Won")]
    assert found == [(gap < 0).sum(), (gap > 0).sum()]
    assert min(found) > 0
    assert max(found) < 6
    assert len(_lists(judge_subject(fitted(), shop()[1]), 2)) == 2  # beside the shown order
    assert [len(found) for _, found in _lists(judge_subject(model, data), 2)] == [2, 2]
    assert _lists(judge_subject(model, data), 2)[0][1][0].other_value is None


def test_options_of_a_log_are_those_that_training_needs():
    def told(**parameters):
        spec = LogColumns(("price",), (OneHot("brand", ("a",)),), ignored=("q", "y"))
        log = {"query": "q", "label": "y", "numeric": ["price"], "one_hot": ["brand"],
               "position": "place", "item": "sku"}  # fmt: skip
        held = {"ranker": "elastic", "log": {**log, **parameters.pop("log", {})}, **parameters}
        model = LinearModel.from_weights([1.0, 2.0], weight_names=["price", "brand=a"],
                                         transforms=(spec,), parameters=held, base=0)  # fmt: skip
        return shlex.split(training_command(model))

    plain = told()
    assert plain[:3] == ["rankine", "train", "TRAINING_DATA"]
    assert plain[-4:] == ["--base", "0", "--out", "model.rankine"]
    assert "--position" not in plain
    assert "--item" not in plain
    assert plain[plain.index("--one-hot") + 1] == "brand"
    assert "--position" in told(propensity={"a": 1})
    assert "--item" not in told(propensity={"a": 1})
    values = told(l1=[0.5, 0.25], random_state=None, unknown=3, n_passes=7, l2=True)
    assert values[values.index("--set") + 1] == "l1=[0.5, 0.25]"
    assert "unknown=3" not in values
    assert "n_passes=7" in values
