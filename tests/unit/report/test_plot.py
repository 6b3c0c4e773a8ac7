"""Plots draw the report's numbers on the axes they are given."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import rankine
from rankine import LinearModel, estimate_propensity, plot
from rankine.core.errors import ParameterError
from rankine.logs.simulate import simulate
from rankine.metrics import evaluate
from rankine.plot import new_axes
from unit.report.report_cases import HOSTILE, fitted, random_data, shop

LOOKS = simulate(500, exploration=0.5, n_searches=5, list_length=3)
HOW = {"item": "item", "search": "search", "n_resamples": 2, "context": "ranker"}

DRAWN = {
    "quality": lambda ax: plot.quality(fitted(), shop()[1], ax=ax),
    "metric_at_k": lambda ax: plot.metric_at_k(fitted(), shop()[1], ax=ax),
    "per_query": lambda ax: plot.per_query(fitted(), shop()[1], ax=ax),
    "differences": lambda ax: plot.differences(fitted(), shop()[1], ax=ax),
    "weights": lambda ax: plot.weights(fitted(), ax=ax),
    "weights on data": lambda ax: plot.weights(fitted(), shop()[1], ax=ax),
    "size": lambda ax: plot.size(fitted(), shop()[1], ax=ax),
    "calibration": lambda ax: plot.calibration(fitted(), shop()[1], ax=ax),
    "training": lambda ax: plot.training(fitted(), ax=ax),
    "labels": lambda ax: plot.labels(shop()[1], ax=ax),
    "lengths": lambda ax: plot.lengths(shop()[1], ax=ax),
    "propensity": lambda ax: plot.propensity(estimate_propensity(LOOKS, **HOW), ax=ax),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_plot_draws_on_the_given_axes(name, tmp_path):
    ax = new_axes()
    assert DRAWN[name](ax) is ax
    assert ax.has_data()
    ax.figure.savefig(tmp_path / "plot.png")
    assert DRAWN[name](None).figure is not ax.figure


def test_every_plot_is_tested():
    elsewhere = {"comparison", "path", "trials", "table"}
    tested = {name.split()[0] for name in DRAWN} | elsewhere
    assert tested == set(plot.__all__)


def test_the_numbers_are_those_of_the_metrics():
    test = shop()[1]
    scores = fitted().predict(test)
    ax = plot.metric_at_k(fitted(), test, metric="p@10")
    model = next(line for line in ax.lines if line.get_label() == "LeastSquaresRanker")
    depths = dict(zip(model.get_xdata(), model.get_ydata(), strict=True))
    assert depths[5] == pytest.approx(evaluate("p@5", test.y, scores, test.qid))
    bars = plot.weights(fitted(), top=3).patches
    largest = sorted(np.abs(fitted().coef_))[-3:]
    assert [abs(bar.get_width()) for bar in bars] == pytest.approx(largest)


def test_results_are_drawn():
    test = shop()[1]
    found = rankine.compare({"a": fitted(), "b": test.X[:, 0]}, test, n_resamples=200)
    assert plot.comparison(found).get_xlabel() == "difference in NDCG@10"
    path = rankine.DominationRanker(scale="standard").path(shop()[0], n_steps=3)
    assert plot.path(path).get_xlabel() == "non-zero weights"


def test_names_are_drawn_as_they_are(tmp_path):
    model = LinearModel.from_weights(
        np.ones(len(HOSTILE)), [f"{h}{k}" for k, h in enumerate(HOSTILE)]
    )
    ax = plot.weights(model)
    assert all(len(label.get_text()) <= 40 for label in ax.get_yticklabels())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a font may lack a letter
        ax.figure.savefig(tmp_path / "hostile.svg")


def test_what_cannot_be_drawn_is_refused():
    bare = LinearModel.from_weights([1.0, 0.0])
    with pytest.raises(ParameterError, match="no trace"):
        plot.training(bare)
    data = random_data(3, 4, 2, labels=1)
    with pytest.raises(ParameterError, match="recorded no 'x'"):
        plot.training(fitted(), columns=["x"])
    with pytest.raises(ParameterError, match="data"):
        plot.quality(bare, None)
    assert plot.labels(data).has_data()


def test_bars_of_queries_that_became_worse_have_their_own_colour():
    ax = plot.differences(fitted(), shop()[1])
    bars = [bar for bar in ax.patches if bar.get_width() > 0]
    ends = [bar.get_x() + bar.get_width() for bar in bars]
    assert ends[:-1] == pytest.approx([bar.get_x() for bar in bars[1:]])
    worse = [bar.get_x() + bar.get_width() / 2 < -bar.get_width() / 4 for bar in bars]
    colours = {True: set(), False: set()}
    for bar, bad in zip(bars, worse, strict=True):
        colours[bad].add(bar.get_facecolor())
    assert len(colours[True]) == len(colours[False]) == 1
    assert colours[True] != colours[False]
