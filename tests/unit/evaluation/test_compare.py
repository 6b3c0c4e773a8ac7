import io
import json

import numpy as np
import pytest
from scipy import stats

import rankine
from rankine.core.errors import DataError, ParameterError, SchemaError
from rankine.evaluation.compare import ChangedQuery, _p_value, _side_by_side, compare_values
from rankine.evaluation.trec import Qrels, Run
from rankine.metrics import evaluate, parse_metric


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    n = 60 * 8
    y = rng.integers(0, 3, n)
    X = np.column_stack([y + rng.normal(0, 1, n), y + rng.normal(0, 3, n), rng.normal(size=n)])
    return rankine.Dataset.from_arrays(
        X, y, np.repeat(np.arange(60), 8), docid=[f"d{i}" for i in range(n)]
    )


@pytest.fixture
def result(data):
    systems = {"good": data.X[:, 0], "poor": data.X[:, 1], "copy": data.X[:, 0] * 2}
    return rankine.compare(systems, data, "ndcg@5", n_resamples=2000, n_changed=2, depth=4)


def test_means_are_the_metric_and_lie_in_their_intervals(data, result):
    for c, system in enumerate(result.systems[:2]):
        assert system.mean == pytest.approx(evaluate("ndcg@5", data.y, data.X[:, c], data.qid))
        assert system.low < system.mean < system.high


def test_a_worse_system_is_found_worse(result):
    pair = result.pairs[0]
    assert (pair.a, pair.b, pair.verdict) == ("good", "poor", "worse")
    assert pair.difference == pytest.approx(result.systems[1].mean - result.systems[0].mean)
    assert pair.high < 0
    assert pair.losses > pair.wins
    assert pair.wins + pair.ties + pair.losses == 60
    assert pair.significant
    assert not pair.equivalent
    assert pair.randomisation_holm >= pair.randomisation


def test_equal_rankings_are_equivalent(result):
    pair = next(p for p in result.pairs if {p.a, p.b} == {"good", "copy"})
    assert pair.verdict == "equivalent"
    assert (pair.wins, pair.ties, pair.losses) == (0, 60, 0)
    assert pair.randomisation == 1.0


def test_a_large_p_value_alone_is_not_equivalence(data):
    few = data.take_queries(np.arange(5))
    found = rankine.compare([few.X[:, 1], few.X[:, 2]], few, "ndcg@5", n_resamples=1000)
    assert found.pairs[0].verdict == "undecided"
    assert found.pairs[0].randomisation > 0.05


def test_a_real_but_small_difference_says_so(data):
    y, score = np.tile([1.0, 0.0, 0.0], 40), np.tile([3.0, 2.0, 1.0], 40)
    flat = rankine.Dataset.from_arrays(np.zeros((120, 1)), y, np.repeat(np.arange(40), 3))
    worse = score.copy()
    worse[: 8 * 3] = np.tile([2.0, 3.0, 1.0], 8)
    found = rankine.compare([score, worse], flat, "mrr", margin=0.2, n_resamples=2000)
    assert found.pairs[0].verdict == "worse, within the margin"


def test_smaller_errors_are_better(data):
    found = rankine.compare([data.X[:, 1], data.X[:, 0]], data, "pairwise-error", n_resamples=1000)
    assert found.pairs[0].verdict == "better"
    assert found.pairs[0].difference < 0
    assert found.pairs[0].wins > found.pairs[0].losses


def test_the_best_mean_and_proven_verdicts_are_bold(data, result):
    means, pairs, tests, *changes = result.tables()
    assert means.bold == {(0, 1)}
    assert "60 queries" in means.title
    assert "skipped" not in means.title
    assert pairs.bold == {(0, 4), (2, 4)}  # poor is worse than good and than its copy
    assert "3 pairs" in tests.title
    assert len(changes) == 2 + 0 + 2  # equal queries are not shown
    errors = {"poor": data.X[:, 1], "good": data.X[:, 0]}
    found = rankine.compare(errors, data, "pairwise-error", n_resamples=100, margin=0.0)
    assert found.tables()[0].bold == {(1, 1)}
    assert "1 pair)" in found.tables()[2].title
    assert (_p_value(0.00005), _p_value(0.00004)) == ("0.0001", "<0.0001")


def test_a_pair_equals_values_computed_by_hand():
    metric = parse_metric("map")

    def only(gaps, **options):
        values = np.column_stack([np.zeros(len(gaps)), gaps])
        given = {"confidence": 0.95, "margin": 0.01, **options}
        return compare_values(
            ["a", "b"], values, metric, [(0, 1)], *given.values(), 100, 0
        )[1][0]  # fmt: skip

    tied = only([1e-12, -1e-12, 0.5, -0.25, 0.5])  # what rounding makes is no difference
    assert (tied.wins, tied.ties, tied.losses) == (2, 2, 1)
    assert tied.difference == pytest.approx(0.15)
    # an interval that ends at the margin does not lie within it
    for gap in (0.25, -0.25):
        assert not only([gap] * 4, margin=0.25).equivalent
        assert only([gap] * 4, margin=0.26).equivalent
    # both signs of two queries: p = 1/2, which is not below 1 - confidence
    assert not only([0.5, 0.5], confidence=0.5).significant
    assert only([0.5, 0.5], confidence=0.49).verdict == "better"


def test_weighted_means_of_equal_values_have_no_spread():
    values = np.tile([0.25, 0.75], (30, 1))
    weight = np.random.default_rng(0).random(30) + 0.1
    given = (parse_metric("map"), [(0, 1)], 0.95, 0.01, 200, 0, weight)
    systems, (pair,) = compare_values(["a", "b"], values, *given)
    for system, value in zip(systems, (0.25, 0.75), strict=True):
        assert (system.mean, system.low, system.high) == pytest.approx((value,) * 3)
    assert (pair.low, pair.high) == pytest.approx((0.5, 0.5))


def test_the_most_changed_queries_come_with_both_rankings(data, result):
    change = result.changed[0]
    sizes = np.abs(result.values[:, 1] - result.values[:, 0])
    assert abs(change.value_b - change.value_a) == pytest.approx(sizes.max())
    rows = np.flatnonzero(data.qid == change.query)
    best = rows[np.argsort(-data.X[rows, 0], kind="stable")][:4]
    assert [item["doc"] for item in change.ranking_a] == [f"d{row}" for row in best]
    assert [item["label"] for item in change.ranking_a] == data.y[best].tolist()


def test_a_comparison_is_reproducible_to_the_bit(data, result):
    again = rankine.compare(
        {"good": data.X[:, 0], "poor": data.X[:, 1], "copy": data.X[:, 0] * 2},
        data, "ndcg@5", n_resamples=2000, n_changed=2, depth=4,
    )  # fmt: skip
    assert again.to_dict() == result.to_dict()


def test_forms_of_output(result):
    plain = json.loads(json.dumps(result.to_dict(per_query=True)))
    assert plain["metric"] == "ndcg@5"
    assert len(plain["per_query"]) == 60
    assert "| good |" in result.markdown()
    assert r"\begin{tabular}{lrr}" in result.latex()
    from rich.console import Console

    console = Console(width=80, record=True, file=io.StringIO())
    console.print(result)
    text = console.export_text()
    assert "poor - good" in text
    assert "Query" in text
    assert "…" not in text


def test_invalid_input_is_refused(data):
    score = data.X[:, 0]
    with pytest.raises(ParameterError) as caught:
        rankine.compare([score], data)
    assert caught.value.parameter == "systems"
    for confidence in (0, 1, 95):
        with pytest.raises(ParameterError) as caught:
            rankine.compare([score, score], data, confidence=confidence)
        assert caught.value.parameter == "confidence"
    with pytest.raises(ParameterError) as caught:
        rankine.compare([score, score], data, margin=-1)
    assert caught.value.parameter == "margin"
    with pytest.raises(ParameterError) as caught:
        rankine.compare([score, score], data, n_resamples=99)
    assert caught.value.parameter == "n_resamples"
    two = data.take_queries(np.arange(2))
    found = rankine.compare([score[:16], score[:16]], two, n_resamples=100, margin=0.0)
    assert found.to_dict()["queries"] == 2
    with pytest.raises(SchemaError):
        rankine.compare([score, score[:-1]], data)
    with pytest.raises(DataError, match="1 queries"):
        rankine.compare([score[:8], score[:8]], data.take_queries(np.arange(1)))
    nameless = rankine.Dataset.from_arrays(data.X, data.y, data.qid)
    run = Run(np.array(["0"]), np.array(["d1"]), np.array([1.0]), "r")
    with pytest.raises(SchemaError):
        rankine.compare([run, score], nameless)
    with pytest.raises(ParameterError, match="needs features"):
        rankine.compare([run, score], Qrels(np.array(["0"]), np.array(["d1"]), np.array([1.0])))


def test_skipped_queries_are_counted(data):
    y = data.y.copy()
    y[:8] = 0
    flat = rankine.Dataset.from_arrays(data.X, y, data.qid)
    found = rankine.compare([data.X[:, 0], data.X[:, 1]], flat, "auc", n_resamples=500)
    values = evaluate("auc", y, data.X[:, 0], data.qid, per_query=True)
    assert found.skipped == np.isnan(values).sum() >= 1
    assert f", {found.skipped} skipped" in found.tables()[0].title
    assert len(found.ids) + found.skipped == 60


def test_a_query_of_weight_two_is_a_query_twice():
    rng = np.random.default_rng(3)
    values = rng.random((12, 2))
    weight = rng.integers(1, 4, 12).astype(float)
    metric = parse_metric("ndcg@10")
    given = (metric, [(0, 1)], 0.95, 0.01, 500, 0)
    systems, (pair,) = compare_values(["a", "b"], values, *given, weight)
    copies = np.repeat(values, weight.astype(int), axis=0)
    assert [s.mean for s in systems] == pytest.approx(copies.mean(axis=0).tolist())
    assert pair.difference == pytest.approx((copies[:, 1] - copies[:, 0]).mean())
    gaps = weight * (values[:, 1] - values[:, 0])
    assert pair.t_test == pytest.approx(stats.ttest_1samp(gaps, 0.0).pvalue)
    assert pair.low < pair.difference < pair.high
    assert pair.wins + pair.ties + pair.losses == 12
    plain = compare_values(["a", "b"], values, *given)
    assert compare_values(["a", "b"], values, *given, np.full(12, 3.0)) == plain


def test_query_weights_of_a_comparison(data):
    weight = {q: float(q) for q in range(60)}
    systems = {"a": data.X[:, 0], "b": data.X[:, 1]}
    found = rankine.compare(systems, data, n_resamples=200, query_weight=weight)
    for system, scores in zip(found.systems, systems.values(), strict=True):
        assert system.mean == pytest.approx(
            evaluate("ndcg@10", data.y, scores, data.qid, query_weight=weight)
        )
    assert found.ids.tolist() == list(range(1, 60))  # a query without weight says nothing
    assert found.to_dict()["weighted"]
    assert "weighted" in found.tables()[0].title
    with pytest.raises(SchemaError) as caught:
        rankine.compare(systems, data, query_weight={0: 1.0})
    assert caught.value.parameter == "query_weight"


def test_scaling_all_query_weights_changes_nothing():
    rng = np.random.default_rng(0)
    values, weight = rng.random((40, 2)), rng.random(40) + 0.1
    metric = parse_metric("map")
    one, other = (
        compare_values(["a", "b"], values, metric, [(0, 1)], 0.95, 0.01, 500, 0, unit * weight)
        for unit in (1.0, 64.0)
    )
    assert one == other
    assert one[0][0].mean == pytest.approx(np.average(values[:, 0], weights=weight))


@pytest.mark.parametrize("lengths", [(2, 3), (3, 1), (0, 2)])
def test_rankings_of_different_length_are_shown_side_by_side(lengths):
    one, two = ([{"doc": f"{name}{k}", "label": k} for k in range(n)]
                for name, n in zip("ab", lengths, strict=True))  # fmt: skip
    made = _side_by_side(ChangedQuery("A", "B", 7, 0.5, 0.25, one, two))
    assert r"\begin{tabular}{llrrr}" in made.latex()
    shown = made.rows
    assert [row[0] for row in shown] == [str(k + 1) for k in range(max(lengths))]
    assert {len(row) for row in shown} == {5}
    assert [row[1] for row in shown if row[1]] == [item["doc"] for item in one]
    assert [row[3] for row in shown if row[3]] == [item["doc"] for item in two]
