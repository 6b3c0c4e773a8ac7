"""Fronts: values, dominance, hypervolume, choices, files and bad input."""

import json
import re

import numpy as np
import pytest

import rankine
from rankine import (
    Dataset,
    ElasticRanker,
    LeastSquaresRanker,
    LinearModel,
    ParameterError,
    SchemaError,
)
from rankine.evaluation.pareto import hypervolume, is_optimal
from rankine.metrics import evaluate_on, random_expectation

RNG = np.random.default_rng(1)
N_LISTS, LENGTH = 200, 8
X = RNG.normal(size=(N_LISTS * LENGTH, 3))
TASTE = X[:, 0] + 0.5 * RNG.normal(size=len(X))
CLICKED = (TASTE > 0.5).astype(float)
MARGIN = np.exp(X[:, 1] - 0.5 * X[:, 0])
QID = np.repeat(np.arange(N_LISTS), LENGTH)
COLUMNS = {"clicked": CLICKED, "margin": MARGIN}
DATA = Dataset.from_arrays(X, CLICKED, QID, columns=COLUMNS)
GOALS = ["clicked", "margin"]


@pytest.fixture(scope="module")
def front():
    return rankine.pareto(LeastSquaresRanker(l2=0.01), DATA, GOALS, n_points=11)


def test_values_are_those_of_the_models_on_the_held_out_lists(front):
    train, valid, test = rankine.split_queries(DATA, (3, 1, 1), 0)
    assert front.metrics == ("ndcg@10:label=clicked", "dcg@10:gain=margin")
    model = front.to_model(4)
    for part, data in ((front.valid, valid), (front.test, test)):
        assert part.n_queries == data.n_queries
        values = [evaluate_on(data, model=model, metric=metric) for metric in front.metrics]
        np.testing.assert_allclose(part.values[4], values)
        assert (part.low < part.values).all()
        assert (part.values < part.high).all()
        reference = [
            random_expectation(metric, data.y, data.queries, columns=data.columns)
            for metric in front.metrics
        ]
        np.testing.assert_allclose(part.reference, reference)
    alone = LeastSquaresRanker(l2=0.01).fit(train)
    np.testing.assert_allclose(front.fitted(0).coef_, alone.coef_, atol=1e-6)


def test_more_of_a_goal_has_a_larger_value_of_it(front):
    assert (np.diff(front.shares[:, 1]) > 0).all()
    assert front.valid.values[0, 0] > front.valid.values[-1, 0]
    assert front.valid.values[-1, 1] > front.valid.values[0, 1]


def test_dominated_points_are_marked():
    values = np.array([[1.0, 0.0], [0.5, 0.5], [0.4, 0.5], [0.5, 0.5], [0.0, 1.0]])
    assert is_optimal(values).tolist() == [True, True, False, True, True]


def test_the_hypervolume_is_the_volume_of_a_union_of_boxes():
    rng = np.random.default_rng(0)
    for n_goals in (2, 3):
        points, reference = rng.uniform(-0.2, 1, (8, n_goals)), np.full(n_goals, 0.1)
        samples = rng.uniform(0.1, 1, (200_000, n_goals))
        inside = (samples[:, None] <= points).all(axis=2).any(axis=1)
        expected = inside.mean() * 0.9**n_goals
        assert hypervolume(points, reference) == pytest.approx(expected, abs=0.005)


def test_a_choice_maximises_a_goal_while_others_keep_their_share(front):
    choice = front.choose("margin", {"clicked": 0.95})
    shares, values = front.valid.shares, front.valid.values
    allowed = np.flatnonzero(shares[:, 0] >= 0.95)
    assert values[choice.point, 1] == values[allowed, 1].max()
    assert front.valid.optimal[choice.point]
    clicked, margin = choice.results
    assert clicked.value == front.test.values[choice.point, 0]
    assert clicked.share == clicked.value / front.test.values[np.argmax(values[:, 0]), 0]
    assert clicked.share_low <= clicked.share <= clicked.share_high
    assert margin.low < margin.value < margin.high
    again = rankine.pareto(
        LeastSquaresRanker(l2=0.01),
        DATA,
        GOALS,
        n_points=11,
        maximise="margin",
        floors={"clicked": 0.95},
    )
    assert again.choice == choice
    assert again.to_model().digest == front.to_model(choice.point).digest


def test_a_trade_is_a_step_along_the_front(front):
    (trade,) = front.trades
    assert trade.given_up == pytest.approx(1.0)
    assert trade.gained > 0
    everything = front.trade("clicked", "margin", share=0.99)
    values = front.test.values[front.test.optimal]
    assert everything.given_up == pytest.approx(100 * (1 - values[:, 0].min() / values[:, 0].max()))


def test_floors_that_no_point_meets_name_what_can_be_met(front):
    with pytest.raises(ParameterError) as caught:
        front.choose("margin", {"clicked": 1.0, "margin": 1.0})
    assert caught.value.parameter == "floors"
    closest = map(float, re.findall(r"([\d.]+) of \w+", str(caught.value)))
    front.choose("margin", dict(zip(GOALS, closest, strict=True)))


def test_a_folder_holds_a_model_per_point_and_an_index(front, tmp_path):
    front.save(tmp_path / "models")
    index = json.loads((tmp_path / "models" / "front.json").read_text())
    assert len(index["points"]) == len(front) == 11
    for record in index["points"]:
        model = LinearModel.load(tmp_path / "models" / record["model"])
        assert model.digest == record["digest"]
        assert model.provenance["training"]["goal_shares"] == list(record["shares"].values())
    table = front.to_table()
    assert table.num_rows == 11
    np.testing.assert_array_equal(table["test.margin"], front.test.values[:, 1])


def test_tables_fit_a_terminal_and_show_the_choice(front):
    tables = rankine.pareto(
        ElasticRanker(objective="ndcg:gain=linear", random_state=0),
        DATA,
        GOALS,
        n_points=3,
        maximise="margin",
        floors={"clicked": 0.5},
    ).tables()
    lines = [line for table in [*tables, *front.tables()] for line in table.lines(80)]
    assert max(map(len, lines)) <= 80
    assert any("chosen" in line for line in lines)


def test_a_metric_that_cannot_differ_is_warned_about():
    sums = ["ndcg@10:label=clicked", "dcg@10:gain=margin:discount=none"]
    with pytest.warns(UserWarning, match="smaller one"):
        rankine.pareto(LeastSquaresRanker(l2=0.01), DATA, GOALS, metrics=sums, n_points=3)


def test_held_out_sets_can_be_given():
    ranker = LeastSquaresRanker(l2=0.01)
    train, held_out = rankine.split_queries(DATA, (3, 2), 0)
    both = rankine.pareto(ranker, train, GOALS, valid=held_out, test=held_out, n_points=2)
    assert both.valid.n_queries == both.test.n_queries == 80
    halves = rankine.pareto(ranker, train, GOALS, valid=held_out, n_points=2)
    assert (halves.valid.n_queries, halves.test.n_queries) == (40, 40)
    fifth = rankine.pareto(ranker, train, GOALS, test=held_out, n_points=2)
    assert (fifth.valid.n_queries, fifth.test.n_queries) == (24, 80)


def test_the_label_of_the_data_can_be_a_goal():
    front = rankine.pareto(LeastSquaresRanker(l2=0.01), DATA, ["label", "margin"], n_points=2)
    assert front.metrics[0] == "ndcg@10"
    named = rankine.pareto(LeastSquaresRanker(l2=0.01), DATA, GOALS, n_points=2)
    np.testing.assert_array_equal(front.valid.values, named.valid.values)


@pytest.mark.parametrize(
    ("goals", "options", "error", "parameter"),
    [
        (["clicked"], {}, ParameterError, "goals"),
        (["clicked", "clicked"], {}, ParameterError, "goals"),
        ("clicked", {}, ParameterError, "goals"),
        (["clicked", "price"], {}, ParameterError, "goals"),
        (GOALS, {"n_points": 1}, ParameterError, "n_points"),
        (GOALS, {"maximise": "price"}, ParameterError, "maximise"),
        (GOALS, {"floors": {"clicked": 0.9}}, ParameterError, "maximise"),
        (GOALS, {"maximise": "margin", "floors": {"price": 0.9}}, ParameterError, "floors"),
        (GOALS, {"maximise": "margin", "floors": {"clicked": 98}}, ParameterError, "floors"),
        (GOALS, {"metrics": "pairwise-error"}, ParameterError, "metrics"),
        (GOALS, {"metrics": ["ndcg@10"] * 3}, ParameterError, "metrics"),
        (GOALS, {"metrics": "ndcg@10:label=price"}, SchemaError, None),
    ],
)
def test_wrong_arguments_are_named(goals, options, error, parameter):
    with pytest.raises(error) as caught:
        rankine.pareto(LeastSquaresRanker(l2=0.01), DATA, goals, **{"n_points": 2, **options})
    assert caught.value.parameter == parameter
