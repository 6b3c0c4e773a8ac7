"""The page of a front draws its points, and says what a share of a goal buys."""

import re

import numpy as np
import pytest

import rankine
from rankine import LeastSquaresRanker

LOG = rankine.shop_log(60)
TWO, THREE = ["clicked", "margin"], ["clicked", "purchased", "margin"]


@pytest.mark.parametrize("goals", [TWO, THREE])
def test_every_point_is_drawn_once_per_pair_of_goals(goals):
    front = rankine.pareto(LeastSquaresRanker(l2=0.01), LOG, goals, n_points=6)
    page = rankine.report(front, command="rankine pareto log.parquet")
    assert len(re.findall(r"point \d+, shares", page.html)) == len(front) * (len(goals) - 1)
    assert "rankine pareto log.parquet" in page.html
    assert page.figures["goals"] == goals
    assert "more margin" in re.sub(r"<[^>]+>", "", page.html)


def test_a_choice_is_named_and_names_are_escaped():
    goal = "margin*(clicked < 1)"
    front = rankine.pareto(
        LeastSquaresRanker(l2=0.01),
        LOG,
        ["clicked", goal],
        n_points=3,
        maximise=goal,
        floors={"clicked": 0.5},
    )
    page = rankine.report(front, title="A front")
    assert page.title == "A front"
    assert "clicked < 1" not in page.html
    assert re.search(r"keep 50\.0.% of the best", re.sub(r"<[^>]+>", "", page.html))


def test_the_page_of_a_model_can_have_a_front():
    train, test = LOG.take_queries(np.arange(40)), LOG.take_queries(np.arange(40, 60))
    ranker = LeastSquaresRanker(l2=0.01)
    front = rankine.pareto(ranker, train, TWO, n_points=3)
    page = rankine.report(ranker.fit(train), test, front=front)
    assert page.figures["front"]["goals"] == TWO
    assert 'id="front"' in page.html
    with pytest.raises(rankine.ParameterError) as caught:
        rankine.report(front, front=front)
    assert caught.value.parameter == "front"
