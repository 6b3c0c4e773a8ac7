"""What a metric does at the edges: labels, empty queries, columns, weights, text."""

import numpy as np
import pytest

from rankine.core.errors import (
    EmptyDataError,
    LabelError,
    NoPairsError,
    ParameterError,
    RankineError,
    SchemaError,
)
from rankine.data.query_index import QueryIndex
from rankine.metrics import DEFINITIONS, Metric, evaluate, metric, parse_metric, random_expectation
from rankine.metrics.gains import _look_up, discounts
from rankine.metrics.pairs import PairwiseError

pytestmark = pytest.mark.kernels

Y = [1, 0, 0, 0, 2, 0]
S = [1.0, 2.0, 1.0, 2.0, 3.0, 1.0]
Q = ["a", "a", "b", "b", "c", "c"]


@pytest.mark.parametrize("label", [-1.0, 0.5, 32.0, 1100.0, 1e9])
def test_exponential_gain_refuses_labels_outside_its_domain(label):
    with pytest.raises(LabelError, match="use linear gain"):
        evaluate("ndcg@10", [0.0, label], [1.0, 2.0])


def test_linear_gain_takes_real_labels_and_refuses_negative_ones():
    assert evaluate("ndcg:gain=linear", [0.5, 1e9], [1.0, 2.0]) == 1.0
    with pytest.raises(LabelError, match=r"row 1 has gain -0\.5, which is negative"):
        evaluate("ndcg:gain=linear", [1.0, -0.5], [1.0, 2.0])
    assert evaluate("pairwise-error", [-0.5, 1.0], [1.0, 2.0]) == 0.0


@pytest.mark.parametrize("label", range(32))
def test_exponential_gains_stay_finite(label):
    assert evaluate("dcg@1", [label, 0], [1.0, 0.0]) == 2.0**label - 1


def test_tables_know_their_labels():
    assert evaluate("dcg@1:gain=0,5,7", [2], [0.0]) == 7.0
    with pytest.raises(LabelError, match=r"0, 1, ..., 2"):
        evaluate("letor3:ndcg@1", [3, 0], [0.0, 1.0])
    assert evaluate("mslr:ndcg@1", [4, 0], [1.0, 0.0]) == 1.0
    for table in ("0,inf", "0,-1", "nan,1"):
        with pytest.raises(ParameterError, match="negative or infinite"):
            evaluate(f"ndcg:gain={table}", [1, 0], [0.0, 1.0])
    out = np.empty(2)
    assert _look_up(np.array([1.0, 0.0]), np.array([5.0, 7.0]), out) == -1
    assert out.tolist() == [7.0, 5.0]


@pytest.mark.parametrize("kind", ["std", "paper", "letor"])
def test_there_is_a_discount_for_every_rank(kind):
    assert [len(discounts(kind, size)) for size in (1, 2, 5)] == [1, 2, 5]


def test_err_needs_the_highest_label():
    with pytest.raises(LabelError, match="max_label"):
        evaluate("err", [5, 0], [0.0, 1.0])
    assert evaluate("err:max_label=5", [5, 0], [1.0, 0.0]) == 31 / 32
    assert evaluate("err:gain=stop", [0, 0], [1.0, 0.0], columns={"stop": [0.5, 1.0]}) == 0.75
    with pytest.raises(LabelError, match="probabilities"):
        evaluate("err:gain=linear", [2, 0], [1.0, 0.0])


@pytest.mark.parametrize(("option", "mean"), [("0", 1.5 / 3), ("1", 2.5 / 3), ("skip", 0.75)])
def test_value_of_a_query_without_relevant_documents(option, mean):
    assert evaluate(f"map:no_relevant={option}", Y, S, Q) == pytest.approx(mean)


def test_skipped_queries_hold_nan_and_all_skipped_is_an_error():
    values = evaluate("map:no_relevant=skip", Y, S, Q, per_query=True)
    assert np.isnan(values).tolist() == [False, True, False]
    with pytest.raises(NoPairsError, match="no query has a value"):
        evaluate("auc", [0, 0], [1.0, 2.0])


def test_interleaved_queries_give_the_same_values_in_order_of_appearance():
    order = [4, 0, 2, 5, 1, 3]
    y, s, q = (np.asarray(v)[order] for v in (Y, S, Q))
    expected = evaluate("map", Y, S, Q, per_query=True)[[2, 0, 1]]
    assert evaluate("map", y, s, q, per_query=True).tolist() == expected.tolist()


def test_docid_ties_fall_as_in_trec_eval():
    columns = {"docid": ["d1", "d2"]}
    assert evaluate("mrr:ties=docid", [1, 0], [0.0, 0.0], columns=columns) == 0.5
    assert evaluate("mrr:ties=docid", [0, 1], [0.0, 0.0], columns=columns) == 1.0
    with pytest.raises(SchemaError, match="docid"):
        evaluate("mrr:ties=docid", [0, 1], [0.0, 0.0])


class TestColumns:
    def test_cutoff_per_query(self):
        y, s, q = [1, 1, 0, 1, 1, 0], [3, 2, 1, 3, 2, 1], [0, 0, 0, 1, 1, 1]
        shown = {"shown": [1, 1, 1, 2, 2, 2]}
        found = evaluate("recall@shown", y, s, q, per_query=True, columns=shown)
        assert found.tolist() == [0.5, 1.0]

    def test_cutoff_must_exist_be_constant_and_positive(self):
        with pytest.raises(SchemaError, match="lacks"):
            evaluate("recall@shown", [1, 0], [1.0, 2.0])
        with pytest.raises(SchemaError, match="changes within query"):
            evaluate("recall@shown", [1, 0], [1.0, 2.0], columns={"shown": [1, 2]})
        with pytest.raises(SchemaError, match=r"changes within query b\b"):
            depths = {"shown": [1, 1, 2, 3, 1]}
            evaluate("recall@shown", [1, 0, 1, 0, 1], range(5), list("aabbc"), columns=depths)
        with pytest.raises(SchemaError, match="holds 0, which is no cutoff"):
            evaluate("recall@shown", [1, 1], [1.0, 2.0], ["a", "b"], columns={"shown": [1, 0]})
        for depth in (0, -3, 2.5, 0.5):
            with pytest.raises(SchemaError, match=f"{depth:g}, which is no cutoff"):
                evaluate("recall@shown", [1, 0], [1.0, 2.0], columns={"shown": [depth, depth]})

    def test_items_not_displayed_keep_their_rank_but_count_for_nothing(self):
        y, s = [1, 1, 0, 1], [4.0, 3.0, 2.0, 1.0]
        marks = {"displayed": [0, 1, 1, 1]}
        assert evaluate("recall@2", y, s, columns=marks) == 0.5
        assert evaluate("mrr", y, s, columns=marks) == 0.5
        # pairs of displayed items only: (2nd, 3rd) right, (4th, 3rd) wrong
        assert evaluate("auc", y, s, columns=marks) == 0.5
        assert evaluate("recall@2:displayed=none", y, s, columns=marks) == pytest.approx(2 / 3)
        assert evaluate("recall@2:displayed=seen", y, s, columns={"seen": [0, 1, 1, 1]}) == 0.5

    def test_given_gains(self):
        columns = {"price": [1.0, 3.0], "gain": [2.0, 0.0]}
        assert evaluate("dcg@1:gain=price", [0, 0], [0.0, 1.0], columns=columns) == 3.0
        assert evaluate("dcg@1:gain=given", [0, 0], [0.0, 1.0], columns=columns) == 0.0
        with pytest.raises(SchemaError, match=r"'price', which the data lacks.*data has: none"):
            evaluate("dcg@1:gain=price", [0, 0], [0.0, 1.0])
        with pytest.raises(SchemaError, match=r"lacks.*data has: a, b"):
            given = {"b": [1, 2], "a": [1, 2]}
            evaluate("dcg@1:gain=price", [0, 0], [0.0, 1.0], columns=given)

    @pytest.mark.parametrize(
        ("column", "match"),
        [
            (None, "lacks"),
            ([1, 0, 1], r"shape \(3,\) for 2 rows"),
            (["x", "y"], "not numeric"),
            ([1.0, np.inf], "holds inf at row 1"),
        ],
    )
    def test_bad_columns_are_refused(self, column, match):
        with pytest.raises(SchemaError, match=match):
            evaluate("recall@2:displayed=seen", [1, 0], [0.0, 1.0], columns={"seen": column})


class TestWeights:
    def test_a_query_weighs_the_mean_of_its_rows(self):
        values = evaluate("map", Y, S, Q, per_query=True)
        found = evaluate("map", Y, S, Q, sample_weight=[1, 3, 1, 1, 0, 8])
        assert found == pytest.approx(np.average(values, weights=[2, 1, 4]))
        weight, lists = [1.0, 3.0, 2.0], ["a", "a", "b"]  # however many there are
        assert evaluate("mrr", [0, 1, 1], [2.0, 1.0, 0.0], lists, sample_weight=weight) == 0.75

    def test_query_weights_by_id_or_by_order(self):
        values = evaluate("map", Y, S, Q, per_query=True)
        expected = np.average(values, weights=[1, 2, 3])
        assert evaluate("map", Y, S, Q, query_weight=[1, 2, 3]) == pytest.approx(expected)
        by_id = {"a": 1, "b": 2, "c": 3}
        assert evaluate("map", Y, S, Q, query_weight=by_id) == pytest.approx(expected)
        with pytest.raises(SchemaError, match="lacks query"):
            evaluate("map", Y, S, Q, query_weight={"a": 1})
        with pytest.raises(SchemaError, match="weigh 0"):
            evaluate("map:no_relevant=skip", Y, S, Q, query_weight=[0, 1, 0])

    def test_weights_of_rows_and_of_queries_are_multiplied(self):
        values = evaluate("map", Y, S, Q, per_query=True)
        rows, queries = [1, 3, 1, 1, 0, 8], [3, 2, 1]
        found = evaluate("map", Y, S, Q, sample_weight=rows, query_weight=queries)
        assert found == pytest.approx(np.average(values, weights=[6, 2, 4]))

    def test_pooled_pairs(self):
        y, s, q = [1, 0, 1, 0, 0], [1.0, 2.0, 3.0, 1.0, 2.0], [0, 0, 1, 1, 1]
        assert evaluate("pairwise-error", y, s, q) == 0.5
        assert evaluate("pairwise-error:mean=pairs", y, s, q) == pytest.approx(1 / 3)
        found = evaluate("pairwise-error:mean=pairs", y, s, q, query_weight=[2.0, 3.0])
        assert found == pytest.approx(2 / (2 * 1 + 3 * 2))


@pytest.mark.parametrize(
    "text",
    ["", "nosuch", "ndcg@0", "ndcg@-3", "p", "auc@3", "map:gain=linear", "ndcg:ties=half",
     "letor3:mrr", "ndcg@10:colour=red", "ndcg@10:gain", "map:threshold=x", "letor9:map",
     "kendall:mean=pairs", "rbp:persistence=1", "rbp:persistence=0", "ndcg:gain=0,x", "letor3"],
)  # fmt: skip
def test_bad_metrics_are_refused_with_a_way_out(text):
    with pytest.raises(ParameterError) as caught:
        evaluate(text, [1, 0], [1.0, 2.0])
    assert caught.value.fix


def test_bad_arrays_are_refused():
    for scores, match in (
        ([1.0], r"shape \(1,\) for 2 labels"),
        ([[1.0, 2.0], [3.0, 4.0]], "shape"),
        ([np.nan, 1.0], "score"),
        (["x", "y"], "not numeric"),
    ):
        with pytest.raises(SchemaError, match=match):
            evaluate("map", [1, 0], scores)
    with pytest.raises(SchemaError, match="covers 3 rows, not 2"):
        evaluate("map", [1, 0], [1.0, 2.0], QueryIndex.from_group([3], 3))
    with pytest.raises(EmptyDataError):
        evaluate("map", [], [])


@pytest.mark.parametrize("name", DEFINITIONS)
def test_every_metric_survives_degenerate_queries(name):
    """One document, one label, nothing relevant: a number, a skip or a typed error; never NaN."""
    metric = f"{name}@2" if DEFINITIONS[name].cutoff == "required" else name
    for y in ([0], [1], [0, 0], [1, 1], [1, 0]):
        for compute in (
            lambda y=y: evaluate(metric, y, np.arange(len(y))),
            lambda y=y: random_expectation(metric, y),
        ):
            try:
                assert np.isfinite(compute())
            except RankineError:
                assert len(set(y)) == 1


def test_metrics_are_values():
    assert parse_metric("ndcg@10") == Metric("ndcg", 10)
    assert hash(parse_metric("ndcg@10")) == hash(parse_metric("NDCG@10:gain=exp"))
    assert parse_metric("precision@5") == parse_metric("p@5")
    assert parse_metric("ndcg@10").at(3) == parse_metric("ndcg@3")
    assert parse_metric("ndcg@10").title == "NDCG@10"
    assert not parse_metric("pairwise_error").larger_is_better
    assert parse_metric("auc:ties=expected") == parse_metric("auc")
    for value in (0, 1):
        assert Metric("map", no_relevant=value) == Metric("map", no_relevant=str(value))
    with pytest.raises(ParameterError, match="no evaluation script is called 'letor9'"):
        Metric("map", mode="letor9")
    with pytest.raises(ParameterError, match="True is not positive"):
        Metric("ndcg", True)


@pytest.mark.parametrize(("mode", "table"), [("letor4", "0,1,3"), ("mslr", "0,1,3,7,15")])
def test_the_mean_of_a_script_has_its_gains_and_discounts(mode, table):
    rule = metric.mode_defaults(mode, "mean-ndcg")
    assert rule == {"gain": table, "discount": "letor"}
    with pytest.raises(ParameterError, match=f"the {mode} script does not compute mrr"):
        metric.mode_defaults(mode, "mrr")
    labels, scores = [0, 2, 1], [3.0, 2.0, 1.0]
    at = [evaluate(f"ndcg@{k}:gain={table}:discount=letor", labels, scores) for k in (1, 2, 3)]
    assert evaluate(f"{mode}:mean-ndcg", labels, scores) == pytest.approx(np.mean(at))


def test_a_registered_metric_is_known_by_all_its_names_and_learns_the_longest_list(monkeypatch):
    for name in ("DEFINITIONS", "_BY_NAME"):
        monkeypatch.setattr(metric, name, dict(getattr(metric, name)))
    seen = []

    def spec(_, longest):
        seen.append(longest)
        return PairwiseError(0.5)

    mine = {"defaults": {"no_relevant": "skip", "mean": "queries"}, "cutoff": "none"}
    metric.register(metric.Definition("mine", "Mine", "pairs", spec, aliases=("own",), **mine))
    assert metric.DEFINITIONS["mine"] is metric.definition("OWN")
    assert evaluate("own", [1, 0, 0, 1, 0], range(5), [0, 0, 1, 1, 1]) == 0.75
    assert seen == [3]
    for name, aliases in (("mine", ()), ("own", ()), ("other", ("map",))):
        with pytest.raises(ParameterError, match="exists"):
            metric.register(metric.Definition(name, "", "pairs", spec, aliases=aliases))


def test_same_bits_for_any_number_of_threads(monkeypatch):
    rng = np.random.default_rng(2)
    y, s = rng.integers(0, 4, 40_000), rng.normal(size=40_000)
    qid = np.repeat(np.arange(1000), 40)
    found = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("RANKINE_NUM_THREADS", threads)
        found.append(evaluate("ndcg@10", y, s, qid).hex())
    assert len(set(found)) == 1
