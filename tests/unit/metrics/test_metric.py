"""Metrics as values: names, options, modes, text forms and registration."""

import numpy as np
import pytest

from error_checks import raises_for
from rankine.core.errors import (
    ParameterError,
    RankineError,
)
from rankine.metrics import (
    Metric,
    describe_metrics,
    evaluate,
    metric,
    metric_columns,
    parse_metric,
    random_expectation,
)
from rankine.metrics.metric import DEFINITIONS
from rankine.metrics.pairs import PairwiseError

pytestmark = pytest.mark.kernels


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
    with pytest.raises(ParameterError) as caught:
        Metric("map", mode="letor9")
    assert caught.value.parameter == "metric"
    with pytest.raises(ParameterError) as caught:
        Metric("ndcg", True)
    assert caught.value.parameter == "metric"


@pytest.mark.parametrize(("mode", "table"), [("letor4", "0,1,3"), ("mslr", "0,1,3,7,15")])
def test_the_mean_of_a_script_has_its_gains_and_discounts(mode, table):
    rule = metric.mode_defaults(mode, "mean-ndcg")
    assert rule == {"gain": table, "discount": "letor", "ties": "file"}
    with pytest.raises(ParameterError, match=mode) as caught:
        metric.mode_defaults(mode, "mrr")
    assert caught.value.parameter == "metric"
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
    assert metric.DEFINITIONS["mine"] is metric.find_definition("OWN")
    assert evaluate("own", [1, 0, 0, 1, 0], range(5), [0, 0, 1, 1, 1]) == 0.75
    assert seen == [3]
    for name, aliases in (("mine", ()), ("own", ()), ("other", ("map",))):
        with pytest.raises(ParameterError, match="exists"):
            metric.register(metric.Definition(name, "", "pairs", spec, aliases=aliases))


def test_a_metric_without_an_expectation_over_ties_names_the_function(monkeypatch):
    for name in ("DEFINITIONS", "_BY_NAME"):
        monkeypatch.setattr(metric, name, dict(getattr(metric, name)))
    metric.register(metric.Definition("mine", "Mine", "ranks", lambda *_: PairwiseError(0.5)))
    with raises_for("metric"):
        evaluate("mine", [1, 0], [0.0, 1.0])


def test_labels_from_1_on_are_relevant_unless_a_metric_says_otherwise(monkeypatch):
    for name in ("DEFINITIONS", "_BY_NAME"):
        monkeypatch.setattr(metric, name, dict(getattr(metric, name)))
    precision = metric.DEFINITIONS["p"]
    metric.register(metric.Definition("mine", "Mine", "ranks", precision.spec, cutoff="required"))
    for threshold, expected in (("", 0.5), (":threshold=2", 0.0)):
        assert evaluate(f"mine@2{threshold}", [1, 0], [0.0, 1.0]) == expected


def test_columns_that_a_metric_reads():
    metric = parse_metric("ndcg@shown:gain=2*margin:label=`my click`*(brand == 'a')")
    assert metric.columns == ("shown", "margin", "my click", "brand")
    assert parse_metric(str(metric)) == metric
    assert parse_metric("ndcg@10:gain=0,1,3").columns == ()
    assert metric_columns(["ndcg@shown", None, "map", "dcg@shown:gain=given"]) == ("shown", "gain")
    for text in ("ndcg:label=a+", "ndcg:gain=a+", "kendall:label=2"):
        with raises_for("metric") as caught:
            parse_metric(text)
        assert caught.value.parameter == "metric"


@pytest.mark.parametrize("name", DEFINITIONS)
def test_every_metric_survives_degenerate_queries(name):
    """One document, one label, nothing relevant: a number, a skip or a typed error; never NaN."""
    metric = f"{name}@2" if DEFINITIONS[name].cutoff == "required" else name
    if "by" in DEFINITIONS[name].defaults:
        metric += ":by=brand"
    for y in ([0], [1], [0, 0], [1, 1], [1, 0]):
        columns = {"brand": ["a", "b"][: len(y)]}
        for compute in (
            lambda y=y, c=columns: evaluate(metric, y, np.arange(len(y)), columns=c),
            lambda y=y, c=columns: random_expectation(metric, y, columns=c),
        ):
            try:
                assert np.isfinite(compute())
            except RankineError:
                assert len(set(y)) == 1


def test_text_forms_round_trip():
    for text in (
        "ndcg@10",
        "recall@shown",
        "letor3:ndcg@10",
        "ndcg@10:gain=linear:ties=expected",
        "ndcg:gain=0,1,3:no_relevant=skip",
        "pairwise-error:mean=pairs",
        "map:threshold=2.5",
        "mslr:map:threshold=2",
    ):
        assert str(parse_metric(text)) == text
        assert parse_metric(str(parse_metric(text))) == parse_metric(text)


def test_every_metric_has_one_line_of_help():
    lines = describe_metrics()
    assert list(lines) == sorted(DEFINITIONS)
    assert all(line and "\n" not in line for line in lines.values())
