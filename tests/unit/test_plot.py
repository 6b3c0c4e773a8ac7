"""Plots draw the report's numbers on the axes they are given."""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.colors import to_hex

import rankine
from error_checks import raises_for
from rankine import Dataset, LinearModel, estimate_propensity, plot
from rankine.core.errors import MissingExtraError, ParameterError
from rankine.logs.simulation import simulate
from rankine.metrics import evaluate
from rankine.plot import COLOURS, new_axes, save_axes
from rankine.reporting.run import evaluate_subject
from rankine.reporting.score_gaps import score_gaps
from unit.reporting.report_cases import HOSTILE, fitted, random_data, shop

LOOKS = simulate(500, exploration=0.5, n_searches=5, list_length=3)
HOW = {"item": "item", "search": "search", "n_resamples": 2, "context": "ranker"}


@cache
def judged():
    return evaluate_subject(fitted(), shop()[1])


@cache
def steps(measured):
    train, test = shop()
    ranker = rankine.DominationRanker(scale="standard")
    return ranker.path(train, n_steps=3, **({"eval_set": test} if measured else {}))


def trial(number, value, best, *, feasible=True):
    return SimpleNamespace(number=number, value=value, best=best, feasible=feasible)


SEARCH = SimpleNamespace(
    metric="map",
    best_value=0.5,
    trace=[trial(0, None, None), trial(1, 0.4, 0.4), trial(2, 0.9, 0.4, feasible=False),
           trial(3, 0.5, 0.5), trial(4, None, 0.5)],
)  # fmt: skip

DRAWN = {
    "metric_at_k": lambda ax: plot.metric_at_k(fitted(), shop()[1], ax=ax),
    "weights": lambda ax: plot.weights(fitted(), ax=ax),
    "weights on data": lambda ax: plot.weights(fitted(), shop()[1], ax=ax),
    "score_gaps": lambda ax: plot.score_gaps(fitted(), shop()[1], ax=ax),
    "propensity": lambda ax: plot.propensity(estimate_propensity(LOOKS, **HOW), ax=ax),
    "path": lambda ax: plot.path(steps(measured=True), ax=ax),
    "trials": lambda ax: plot.trials(SEARCH, ax=ax),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_plot_draws_on_the_given_axes(name, tmp_path):
    ax = new_axes()
    assert DRAWN[name](ax) is ax
    assert ax.has_data()
    ax.figure.savefig(tmp_path / "plot.png")
    assert DRAWN[name](None).figure is not ax.figure


def test_every_plot_is_tested():
    tested = {name.split()[0] for name in DRAWN} | {"table"}  # below
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


def points(line):
    return list(zip(line.get_xdata(), line.get_ydata(), strict=True))


def test_lines_are_those_of_the_report():
    test = shop()[1]
    ax, found = plot.score_gaps(fitted(), test), score_gaps(judged())
    assert points(ax.lines[0]) == [(b.value, b.share) for b in found.bins]
    x, y = ax.lines[1].get_data()
    assert (x[0], x[-1]) == (0.0, max(b.value for b in found.bins))
    assert y == pytest.approx(1 / (1 + np.exp(-found.slope * x)))
    band = ax.collections[0].get_paths()[0].get_extents()
    assert band.y0 == min(b.low for b in found.bins)
    assert band.y1 == max(b.high for b in found.bins)
    assert ax.collections[0].get_linewidth() == 0
    ax = plot.propensity(whole := estimate_propensity(LOOKS, **HOW))
    assert ax.get_ylim()[0] == 0
    shown = [whole, *whole.contexts.values()]
    assert len(shown) > 1
    for line, part in zip(ax.lines, shown, strict=True):
        assert points(line) == list(enumerate(part.values, 1))
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["all", *whole.contexts]
    alone = estimate_propensity(LOOKS, **{**HOW, "context": None})
    assert plot.propensity(alone).get_legend() is None
    two = replace(alone, contexts={"phone": alone})
    assert len(plot.propensity(two).get_legend().get_texts()) == 2


def test_trials_are_dots_and_the_best_so_far_a_line():
    ax = plot.trials(SEARCH)
    inside, above = ax.collections
    assert inside.get_offsets().tolist() == [[1, 0.4], [3, 0.5]]
    assert above.get_offsets().tolist() == [[2, 0.9]]
    assert len(above.get_facecolors()) == 0
    assert points(ax.lines[0]) == [(1, 0.4), (2, 0.4), (3, 0.5), (4, 0.5)]
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["trials", "above a limit", "best: 0.5"]
    unlimited = SimpleNamespace(**{**vars(SEARCH), "trace": SEARCH.trace[:2]})
    assert len(plot.trials(unlimited).collections) == 1


@pytest.mark.parametrize("measured", [True, False])
def test_a_path_leaves_out_the_empty_model_and_marks_the_best(measured):
    found = steps(measured)
    ax = plot.path(found)
    heights = found.values if measured else found.loss
    kept = found.nonzeros > 0
    assert 0 < kept.sum() < len(found)
    assert points(ax.lines[0]) == list(zip(found.nonzeros[kept], heights[kept], strict=True))
    best = found.best()
    ring = ax.lines[1]
    assert [*ring.get_xdata(), *ring.get_ydata()] == [found.nonzeros[best], heights[best]]
    assert ax.get_ylabel() == ("ndcg@10" if measured else "training loss")
    assert (ax.get_xlabel(), ax.get_xscale(), ax.get_title(loc="left")) == (
        "non-zero weights", "log", "",
    )  # fmt: skip
    assert ax.get_legend() is not None


@pytest.mark.parametrize(("best", "size"), [(1, 1), (0, 0)])
def test_the_ring_marks_the_best_model_unless_it_is_empty(best, size):
    sizes, values = np.array([0, 1, 4]), np.array([0.1, 0.5, 0.4])
    made = SimpleNamespace(
        values=values, loss=values, nonzeros=sizes, x_axis=(sizes, "weights"), measured=True,
        metric="map",
        best=lambda: best,
    )  # fmt: skip
    ax = plot.path(made)
    assert points(ax.lines[0]) == [(1, 0.5), (4, 0.4)]
    assert len(ax.lines) == 1 + (size > 0)
    assert (ax.get_legend() is not None) == (size > 0)
    assert ax.get_title(loc="left") == ""
    one = SimpleNamespace(**{**vars(made), "values": np.array([0.1, 0.5, np.nan])})
    assert plot.path(one).get_title(loc="left") == ""


def test_a_path_of_empty_models_says_so():
    train = shop()[0]
    none = rankine.DominationRanker(scale="standard").path(train, l1s=[1e9])
    assert (none.nonzeros == 0).all()
    ax = plot.path(none)
    assert "no model" in ax.get_title(loc="left")
    assert len(ax.lines) == 1
    assert ax.get_legend() is None


@pytest.mark.parametrize("data", [None, "test"])
def test_weights_are_bars_the_strongest_on_top(data):
    model = fitted().to_model()
    sizes, names = model.values, np.array(model.weight_names)
    ax = plot.weights(fitted(), shop()[1] if data else None, top=5)
    if data:
        sizes = judged().effect
    order = np.argsort(-np.abs(sizes))[:5][::-1]
    assert [bar.get_width() for bar in ax.patches] == pytest.approx(sizes[order])
    assert [label.get_text() for label in ax.get_yticklabels()] == names[order].tolist()
    assert [to_hex(bar.get_facecolor()) for bar in ax.patches] == [
        COLOURS["model" if size > 0 else "against"] for size in sizes[order]
    ]
    assert ax.get_yticks().tolist() == [bar.get_y() + bar.get_height() / 2 for bar in ax.patches]
    assert len(plot.weights(fitted()).patches) == min(20, model.nnz)


def test_names_are_drawn_literally(tmp_path):
    model = LinearModel.from_weights(
        np.ones(len(HOSTILE)), [f"{h}{k}" for k, h in enumerate(HOSTILE)]
    )
    ax = plot.weights(model)
    assert all(len(label.get_text()) <= 40 for label in ax.get_yticklabels())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a font may lack a letter
        ax.figure.savefig(tmp_path / "hostile.svg")


def test_what_cannot_be_drawn_is_refused(tmp_path, monkeypatch):
    bare = LinearModel.from_weights([1.0, 0.0])
    with pytest.raises(ParameterError) as caught:
        plot.score_gaps(bare, None)
    assert caught.value.parameter == "data"
    mixed = random_data(3, 4, 2)
    negative = Dataset.from_arrays(mixed.X, mixed.y - 1.0, mixed.qid)
    with pytest.raises(ParameterError) as caught:
        plot.metric_at_k(bare, negative)
    assert caught.value.parameter == "metric"
    with raises_for("plot"):
        save_axes(new_axes(), str(tmp_path / "x.xyz"))
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError):
        new_axes()
