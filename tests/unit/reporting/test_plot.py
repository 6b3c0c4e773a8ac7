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
from rankine import Dataset, LinearModel, estimate_propensity, plot
from rankine.core.errors import MissingExtraError, ParameterError
from rankine.logs.simulation import simulate
from rankine.metrics import evaluate, parse_metric
from rankine.plot import COLOURS, new_axes, save_axes
from rankine.reporting.calibration import calibration
from rankine.reporting.headline import headline
from rankine.reporting.ranks import differences, spread
from rankine.reporting.run import judge_subject
from rankine.reporting.weights import size_curve
from unit.reporting.report_cases import HOSTILE, fitted, random_data, shop

NDCG = parse_metric("ndcg@10")
LOOKS = simulate(500, exploration=0.5, n_searches=5, list_length=3)
HOW = {"item": "item", "search": "search", "n_resamples": 2, "context": "ranker"}


@cache
def judged():
    return judge_subject(fitted(), shop()[1])


@cache
def compared():
    test = shop()[1]
    systems = {"a": fitted(), "b": test.X[:, 0], "c": test.X[:, 0]}
    return rankine.compare(systems, test, n_resamples=200)


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
    "comparison": lambda ax: plot.comparison(compared(), ax=ax),
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
    tested = {name.split()[0] for name in DRAWN} | {"table"}  # test_tables.py
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


def rungs(ax, rows):
    """Names beside the intervals and dots of rows (name, kind, mean, low, high), top first."""
    lines = iter(ax.lines[-sum(1 + np.isfinite(row[3]) for row in rows) :])
    for place, (_, kind, mean, low, high) in enumerate(rows):
        if np.isfinite(low):
            span = next(lines)
            assert points(span) == [(low, -place), (high, -place)]
            assert span.get_color() == COLOURS[kind]
        dot = next(lines)
        assert np.ravel([dot.get_xdata(), dot.get_ydata()]).tolist() == [mean, -place]
        assert dot.get_color() == COLOURS[kind]
    assert ax.get_yticks().tolist() == [-k for k in range(len(rows))]
    return [label.get_text() for label in ax.get_yticklabels()]


def test_means_stand_with_their_intervals():
    test = shop()[1]
    found = headline(judged(), NDCG)
    shown = zip(found.kinds, found.systems, strict=True)
    rows = [(plot.plain(s.name), kind, s.mean, s.low, s.high) for kind, s in shown]
    assert rungs(plot.quality(fitted(), test), rows) == [row[0] for row in rows]
    alone = random_data(1, 12, 3)
    model = LinearModel.from_weights([1.0, 0.0, -1.0])
    found = headline(judge_subject(model, alone), NDCG)
    shown = zip(found.kinds, found.systems, strict=True)
    rows = [(s.name, k, s.mean, s.low, s.high) for k, s in shown]
    assert rungs(plot.quality(model, alone), rows) == [row[0] for row in rows]


def test_paired_differences_stand_beside_the_margin():
    ax = plot.comparison(compared())
    assert ax.get_xlabel() == "difference in NDCG@10"
    (band,) = ax.patches
    ends = band.get_extents().transformed(ax.transData.inverted())
    assert (ends.x0, ends.x1) == pytest.approx((-compared().margin, compared().margin))
    assert band.get_linewidth() == 0
    rows = [
        (f"{p.b} - {p.a}", "model" if p.significant else "random", p.difference, p.low, p.high)
        for p in compared().pairs
    ]
    assert rungs(ax, rows) == [row[0] for row in rows]
    assert ax.get_legend() is None


def test_histograms_are_those_of_the_report():
    test = shop()[1]
    stairs = plot.per_query(fitted(), test).patches[0].get_data()
    found = spread(judged(), NDCG)
    assert (stairs.values.tolist(), stairs.edges.tolist()) == (found.counts, found.edges)
    assert plot.per_query(fitted(), test).lines[0].get_xdata()[0] == found.mean
    lengths = plot.lengths(test).patches[0].get_data()
    for size, count in zip(*np.unique(test.queries.sizes, return_counts=True), strict=True):
        assert lengths.values[np.searchsorted(lengths.edges, size) - 1] >= count
    assert lengths.values.sum() == test.n_queries
    bars = plot.labels(test)
    levels, counts = np.unique(test.y, return_counts=True)
    assert [bar.get_height() for bar in bars.patches] == counts.tolist()
    assert [label.get_text() for label in bars.get_xticklabels()] == [f"{v:g}" for v in levels]
    assert [bar.get_x() + bar.get_width() / 2 for bar in bars.patches] == pytest.approx(
        bars.get_xticks()
    )
    real = Dataset.from_arrays(test.X, test.X[:, 0], test.qid)
    assert plot.labels(real).patches[0].get_data().values.sum() == test.n_rows


def test_lines_are_those_of_the_report():
    test = shop()[1]
    ax, found = plot.size(fitted(), test), size_curve(judged(), NDCG)
    assert points(ax.lines[0]) == list(zip(found.sizes, found.values, strict=True))
    assert set(ax.lines[1].get_ydata()) == {found.values[-1]}
    assert ax.get_xscale() == "log"
    ax, found = plot.calibration(fitted(), test), calibration(judged())
    assert points(ax.lines[0]) == [(b.gap, b.share) for b in found.bins]
    x, y = ax.lines[1].get_data()
    assert (x[0], x[-1]) == (0.0, max(b.gap for b in found.bins))
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
def test_the_ring_stands_at_the_best_model_unless_it_is_empty(best, size):
    sizes, values = np.array([0, 1, 4]), np.array([0.1, 0.5, 0.4])
    made = SimpleNamespace(
        values=values, nonzeros=sizes, x_axis=(sizes, "weights"), measured=True, metric="map",
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


def test_what_training_recorded_is_drawn():
    def story(**held):
        return LinearModel.from_weights([1.0], provenance=held, metric="map")

    trace = {"iteration": [0, 2, 3], "objective": [3.0, 2.0, 1.0], "gap": [1.0, 0.5, 0.1]}
    checks = {"step": [0, 3], "value": [0.3, 0.4]}
    ax = plot.training(story(trace=trace, validation=checks))
    assert [line.get_label() for line in ax.lines] == ["objective", "gap", "map (validation)"]
    assert points(ax.lines[1]) == [(0, 1.0), (2, 0.5), (3, 0.1)]
    assert points(ax.lines[2]) == [(0, 0.3), (3, 0.4)]
    assert ax.get_xlabel() == "iteration"
    assert len(plot.training(story(trace=trace, validation=checks), columns=["gap"]).lines) == 1
    assert len(plot.training(story(trace=trace)).lines) == 2
    assert len(plot.training(story(validation=checks)).lines) == 1
    holes = {"iteration": [1, 2], "gap": [None, 0.5]}
    assert np.isnan(plot.training(story(trace=holes)).lines[0].get_ydata()[0])


def test_names_are_drawn_as_they_are(tmp_path):
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
    with pytest.raises(ParameterError, match="no trace"):
        plot.training(bare)
    data = random_data(3, 4, 2, labels=1)
    with pytest.raises(ParameterError, match="recorded no 'x'"):
        plot.training(fitted(), columns=["x"])
    with pytest.raises(ParameterError, match="data"):
        plot.quality(bare, None)
    assert plot.labels(data).has_data()
    mixed = random_data(3, 4, 2)
    negative = Dataset.from_arrays(mixed.X, mixed.y - 1.0, mixed.qid)
    with pytest.raises(ParameterError, match="fixed depths"):
        plot.metric_at_k(bare, negative)
    with pytest.raises(ParameterError, match="no format is called 'xyz'"):
        save_axes(new_axes(), str(tmp_path / "x.xyz"))
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"rankine\[report\]"):
        new_axes()


def test_bars_of_queries_that_became_worse_have_their_own_colour():
    ax = plot.differences(fitted(), shop()[1])
    found = differences(judged(), NDCG, judged().opponent("shown"))
    assert [bar.get_height() for bar in ax.patches] == found.counts
    assert [bar.get_x() for bar in ax.patches] == found.edges[:-1]
    ends = [bar.get_x() + bar.get_width() for bar in ax.patches]
    assert ends == pytest.approx(found.edges[1:])
    assert [to_hex(bar.get_facecolor()) for bar in ax.patches] == (
        [COLOURS["against"]] * 10 + [COLOURS["model"]] * 11
    )
    title = f"against {found.opponent}: {found.better} better, {found.worse} worse"
    assert ax.get_title(loc="left") == plot.plain(title)
    assert set(ax.lines[0].get_xdata()) == {0.0}
