"""Reports and plots of models of tables."""

from dataclasses import replace

import numpy as np
import pytest
from markupsafe import Markup

import rankine
from rankine import shop_log
from rankine.core.errors import ParameterError
from rankine.core.specs import Bins
from rankine.model.tables import find_tables
from rankine.plot import new_axes
from rankine.reporting.additive import TablePicture, _curve, _heat_map, pictures, tables_section
from rankine.reporting.evaluated import evaluate_model
from rankine.reporting.weights import Weight, Weights
from rankine.transforms.apply import score_dataset
from unit.reporting.report_cases import words
from unit.reporting.test_svg import Drawn


@pytest.fixture(scope="module")
def fitted():
    data = shop_log(40, random_state=1)
    ranker = rankine.AdditiveRanker(
        smooth=1.0, pairs=2, categorical=["warehouse_id"], linear=["sku_parity"]
    )
    return ranker.fit(data).to_model(), data


def test_parts_of_all_tables_add_up_to_the_scores(fitted):
    model, data = fitted
    judged = evaluate_model(model, data)
    np.testing.assert_allclose(judged.features.sum(axis=1), score_dataset(model, data), atol=1e-12)
    np.testing.assert_allclose(judged.scores, score_dataset(model, data), atol=1e-12)


def test_a_report_shows_curves_and_grids(fitted):
    model, data = fitted
    made = rankine.report(model, data)
    assert "What has it learned?" in made.html
    shown = {one["name"]: one for one in made.figures["tables"]}
    assert {name for name, _ in find_tables(model).ranges()} - {"sku_parity"} == set(shown)
    curve = shown["price_log"]
    assert sum(curve["share"]) == pytest.approx(1.0)
    assert len(curve["edges"]) == len(curve["values"])


def test_plots_of_tables(fitted):
    pytest.importorskip("matplotlib")
    model, data = fitted
    kinds = set()
    for one in pictures(find_tables(model), data):
        ax = new_axes()
        assert rankine.plot.table(model, *one.columns, data=data, ax=ax) is ax
        shown = {"x": ax.get_xlabel(), "y": ax.get_ylabel()}
        if len(one.columns) == 2:
            kinds.add("grid")
            (image,) = ax.images
            assert image.get_array().tolist() == one.values
            most = np.abs(one.values).max()
            assert image.get_clim() == (-most, most)
            assert image.origin == "lower"
            assert shown == {"x": one.columns[1], "y": one.columns[0]}
            turned = rankine.plot.table(model, *reversed(one.columns))
            assert turned.images[0].get_array().tolist() == one.values
        elif one.edges:
            kinds.add("curve")
            stairs = ax.patches[0].get_data()
            assert (stairs.values.tolist(), stairs.edges.tolist()) == (one.values[:-1], one.edges)
            assert shown == {"x": one.name, "y": "score"}
            (below,) = [other for other in ax.figure.axes if other is not ax]
            assert below.patches[0].get_data().values.tolist() == one.share[:-1]
            assert below.get_ylim() == (0.0, pytest.approx(3 * max(one.share)))
            assert len(rankine.plot.table(model, one.name).figure.axes) == 1
        else:
            kinds.add("categories")
            assert [bar.get_width() for bar in ax.patches] == one.values
            assert [label.get_text() for label in ax.get_yticklabels()] == list(one.labels[0])
            assert shown["x"] == "score"
    assert kinds == {"grid", "curve", "categories"}
    for name in ("sku_parity", "nothing"):
        with pytest.raises(ParameterError, match=name) as caught:
            rankine.plot.table(model, name)
        assert caught.value.parameter == "columns"
    with pytest.raises(ParameterError) as caught:
        rankine.plot.table(rankine.LinearModel.from_weights([1.0]), "a", "b")
    assert caught.value.parameter == "columns"


def test_a_curve_begins_and_ends_one_step_beyond_its_cuts(fitted):
    model, data = fitted
    tables = find_tables(model)
    for one in pictures(tables, data):
        if len(one.columns) == 2:
            assert not one.share
            assert not one.edges
            continue
        j = model.bins.names.index(one.name)
        cuts = model.bins.cuts[j]
        cells = tables.cells(j, data.X[:, j])
        counts = [(cells == k).mean() for k in range(len(one.values))]
        assert one.share == pytest.approx(counts)
        assert bool(one.edges) == (j not in model.bins.unordered)
        if len(cuts) > 1 and one.edges:
            step = (cuts[-1] - cuts[0]) / (len(cuts) - 1)
            assert one.edges == pytest.approx([cuts[0] - step, *cuts, cuts[-1] + step])
    assert [one.name for one in pictures(tables, None, ["nothing", tables.ranges()[0][0]])] == [
        tables.ranges()[0][0]
    ]
    assert all(one.share == [] for one in pictures(tables))


@pytest.mark.parametrize("cut", [0.25, -40.0])
def test_a_curve_of_one_cut_is_as_wide_as_its_number(cut):
    model = rankine.LinearModel.from_weights(
        [1.0, 2.0, 0.5, 3.0, 4.0], transforms=(Bins(((cut,), ()), names=("a", "b")),)
    )
    a, b = sorted(pictures(find_tables(model)), key=lambda one: one.name)
    assert a.edges == [cut - max(abs(cut), 1.0), cut, cut + max(abs(cut), 1.0)]
    assert b.edges == []
    two = rankine.LinearModel.from_weights(
        [1.0, 2.0, 0.5, 3.0], transforms=(Bins(((cut, cut + 3.0),), names=("a",)),)
    )
    (a,) = pictures(find_tables(two))
    assert a.edges == [cut - 3.0, cut, cut + 3.0, cut + 6.0]


def learned(names):
    made = [Weight(name, k, 1.0, 1.0 - k / 20) for k, name in enumerate(names)]
    return Weights(9, len(made), made, [], [], [], 0, 1, 1)


def test_the_strongest_curves_and_grids_are_drawn(fitted):
    model, data = fitted
    tables = find_tables(model)
    names = [name for name, _ in tables.ranges()]
    section = tables_section(tables, data, learned(names))
    root = Drawn(Markup("<div>%s</div>") % section.body).root
    titles = [figure.find("h3").text for figure in root.iter("figure")]
    pairs = [name for name in names if " x " in name]
    single = [name for name in names if name not in pairs]
    assert titles == ["Strongest tables", *single[:6], *pairs[:4]]
    assert len(single) > 6
    counted = len([term for term in tables.terms if len(term.columns) == 1])
    told = f"{counted} curves of single columns and {len(pairs)} tables of pairs"
    assert told in section.lead
    bars = root.find(".//table/tbody")
    widths = [float(rect.attrib["width"]) for rect in bars.iter("rect")]
    assert widths == pytest.approx([100 - 5 * k for k in range(len(names))])


def test_a_drawn_curve_is_its_table():
    one = TablePicture("x", ["x"], [["a", "b", "c", "missing"]], [0.0, 1.0, 2.0, 3.0],
                  [0.5, -1.0, 2.0, 0.25], [0.1, 0.1, 0.3, 0.5])  # fmt: skip
    drawn = Drawn(_curve(one))
    (line,) = drawn.of("line model")
    steps = [(0.0, 0.5), (1.0, 0.5), (1.0, -1.0), (2.0, -1.0), (2.0, 2.0), (3.0, 2.0)]
    for point, part in zip(steps, line["points"].split(), strict=True):
        drawn.stands(point, tuple(map(float, part.split(","))))
    (band,) = drawn.of("band soft")
    places = [tuple(map(float, part.split(","))) for part in band["points"].split()]
    dense = [-1.0 + 0.3 * 3.0 * share / 0.3 for share in (0.1, 0.1, 0.1, 0.1, 0.3, 0.3)]
    xs = [x for x, _ in steps]
    around = [*zip(xs, dense, strict=True), *zip(xs[::-1], [-1.0] * 6, strict=True)]
    for point, place in zip(around, places, strict=True):
        drawn.stands(point, place)
    assert drawn.of("dot") == []
    assert drawn.of("line soft") == []
    told = words(_curve(one))
    assert "A missing value adds +0.25." in told
    assert drawn.of("chart")[0]["aria-label"] == "Score added by x, from -1 to 2"
    assert "A missing value" not in words(_curve(replace(one, values=[0.5, -1.0, 2.0, 0.0])))
    empty = Drawn(_curve(replace(one, share=[0.0] * 4)))
    assert len(empty.of("band soft")) == 1


def test_categories_are_bars_and_zeros_are_left_out():
    labels = [f"v{k}" for k in range(30)]
    values = [0.0, 2.0, -1.0, *[0.5] * 27]
    drawn = Drawn(_curve(TablePicture("x", ["x"], [labels], [], values, [])))
    bars = drawn.of("column")
    assert [bar["width"] for bar in bars] == [50, 25, *[12.5] * 18]
    assert [bar["x"] for bar in bars] == [50, 25, *[50] * 18]
    assert "The 20 strongest values are shown; 9 more are weaker." in words(
        _curve(TablePicture("x", ["x"], [labels], [], values, []))
    )
    few = words(_curve(TablePicture("x", ["x"], [labels[:3]], [], values[:3], [])))
    assert "to the left it lowers it." in few
    assert "more are weaker" not in few


def test_a_drawn_grid_is_its_table():
    values = [[0.5, -2.0, 0.0], [1.0, 0.25, 0.125]]
    labels = [["a < 2", "2 <= a < 3.5"], ["b = p", "b = q", "b missing"]]
    one = TablePicture("a x b", ["a", "b"], labels, [], values, [])
    drawn = Drawn(_heat_map(one))
    assert "a upwards, b to the right" in words(_heat_map(one))
    assert "the fullest colour is 2." in words(_heat_map(one))
    tips = [cell["text"] for cell in drawn.of("column")]
    assert tips[:3] == ["a < 2, b = p: +0.5", "a < 2, b = q: -2", "a < 2, b missing: +0"]
    assert [tick["text"] for tick in drawn.of("tick mid")] == ["p", "q", "missing"]
    assert [tick["text"] for tick in drawn.of("tick end")] == ["< 2", "2"]
    assert [name["text"] for name in drawn.of("name")] == ["b", "a"]


def test_a_large_grid_has_ticks_where_there_is_room():
    labels = [[f"a = row {k}" for k in range(30)], [f"b = a long name {k}" for k in range(20)]]
    values = np.ones((30, 20)).tolist()
    drawn = Drawn(_heat_map(TablePicture("a x b", ["a", "b"], labels, [], values, [])))
    rows = [tick["text"] for tick in drawn.of("tick end")]
    assert (rows[0], rows[-1], len(rows)) == ("row 0", "row 29", 8)
    assert [tick["text"] for tick in drawn.of("tick mid")] == ["a long \N{HORIZONTAL ELLIPSIS}"] * 6


def test_summary_and_notebook_name_columns(fitted):
    model, _ = fitted
    told = model.summary(3)
    assert told["kind"] == "additive"
    assert [one["name"] for one in told["top_weights"]] == [
        name for name, _ in find_tables(model).ranges()[:3]
    ]
    assert told["top_weights"][0]["name"] in model._repr_html_()
