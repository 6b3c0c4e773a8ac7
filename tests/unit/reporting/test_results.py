"""Reports of searches, comparisons, the LETOR protocol and paths."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
import pytest

import rankine
from rankine import LeastSquaresRanker
from rankine.evaluation.compare import ChangedQuery, Comparison, Pair, System
from rankine.evaluation.interleave import Interleaving, Preference
from rankine.evaluation.letor import TABLE, FoldResult, LetorResult, MethodResult, TaskResult
from rankine.metrics import parse_metric
from rankine.reporting.numbers import plural
from rankine.reporting.results import (
    KINDS,
    TOP,
    _differences,
    _interleaving_report,
    _means,
    _sizes,
    _task,
    path_curves,
    result_report,
)
from rankine.tuning.result import TrialRecord, TuningResult
from unit.reporting.report_cases import HOSTILE, assert_sound, fitted, shop, words
from unit.reporting.test_svg import Drawn


def test_a_comparison():
    test = shop()[1]
    systems = {"model": fitted(), HOSTILE[0]: test.X[:, 0], "shown": -test.position.astype(float)}
    found = [rankine.compare(systems, test, m, n_resamples=200) for m in ("ndcg@10", "map")]
    report = rankine.report(found)
    assert_sound(report)
    plain = report.figures["comparisons"][0]
    assert plain == found[0].to_dict()
    for pair in found[0].pairs:
        assert f"{abs(pair.difference):.4f}" in report.html
    assert f"{found[1].systems[0].mean:.4f}" in report.html
    assert_sound(rankine.report(found[0]))


def test_a_path():
    train, test = shop()
    path = rankine.DominationRanker(scale="standard").path(train, eval_set=test, n_steps=5)
    report = rankine.report(path)
    assert_sound(report)
    assert report.figures["steps"] == path.records()
    best = path.best()
    assert f"{path.values[best]:.4f}" in report.html
    assert report.figures["best"] == best
    unmeasured = rankine.DominationRanker(scale="standard").path(train, n_steps=3)
    assert "smallest loss wins" in rankine.report(unmeasured).html


@pytest.fixture(scope="module")
def tuned():
    pytest.importorskip("optuna")
    space = {"l2": "1e-3..10:log", "scale": "none,standard"}
    return rankine.tune(shop()[0], ranker="least-squares", folds=2, trials=6, space=space)


def test_a_search(tuned):
    report = rankine.report(tuned)
    page = assert_sound(report)
    assert {"trials", "parameters", "table", "weights", "origin"} <= set(page.ids)
    assert report.figures["best_value"] == tuned.best_value
    assert f"{tuned.best_value:.4f}" in report.html
    values = [t["value"] for t in report.figures["trials"] if t["value"] is not None]
    assert max(values) == tuned.best_value
    heights = {}
    for cy, tip in re.findall(r'cy="([\d.]+)"[^>]*><title>trial (\d+)', report.html):
        heights[int(tip)] = float(cy)
    value = {t["number"]: t["value"] for t in report.figures["trials"]}
    assert len(set(heights.values())) > 1
    assert all(value[a] >= value[b] for a in heights for b in heights if heights[a] < heights[b])


def method(name, published, seed):
    rng = np.random.default_rng(seed)
    folds = [
        FoldResult(f"Fold{k}", {"l2": 0.1}, 0.5, {m: float(rng.random()) for m in TABLE}, 1.0)
        for k in range(1, 6)
    ]
    means = {m: float(np.mean([fold.values[m] for fold in folds])) for m in TABLE}
    return MethodResult(name, means, () if published else folds, published)


def test_the_letor_protocol():
    tasks = [
        TaskResult(name, "letor4", [method("ours", False, k), method(HOSTILE[1], True, k + 9)])
        for k, name in enumerate(("OHSUMED", "MQ2008"))
    ]
    result = LetorResult("map", tasks)
    report = rankine.report(result)
    assert_sound(report)
    for task in tasks:
        assert f"{task.methods[0].means['map']:.4f}" in report.html
    assert report.figures["tasks"][1]["methods"][0]["means"] == dict(tasks[1].methods[0].means)


def test_reprs_are_readable_and_inert(tuned):
    train = shop()[0]
    ranker = LeastSquaresRanker(scale="standard")
    assert "heaviest weights" not in ranker._repr_html_()
    shown = ranker.fit(train)._repr_html_()
    assert "heaviest weights" in shown
    assert "title_match" in shown
    assert f"{train.n_rows:,} rows of {train.n_queries:,} queries" in shown
    model = rankine.LinearModel.from_weights([1.0, -2.0], HOSTILE[:2])
    page = model._repr_html_()
    assert "<script" not in page
    assert "<img" not in page
    assert "2 of 2 features" in page
    assert page.index("img src") < page.index("script")  # the heavier weight first
    bundle = rankine.ModelBundle.from_weights({HOSTILE[0]: [1.0], "b": [2.0]})
    assert "<script" not in bundle._repr_html_()
    assert "none" in rankine.LinearModel.from_weights([0.0])._repr_html_()


# ---------------------------------------------------------------------- results made by hand
def changed_pair(a="a", b="b", **held):
    return replace(Pair(a, b, 0.1, 0.05, 0.15, *[0.01] * 6, 3, 2, 1, True, False, "better"), **held)


def comparison(n=2, metric="ndcg@10", **held):
    names = "abcdef"[:n]
    systems = [System(name, 0.5 + k / 10, 0.4, 0.9) for k, name in enumerate(names)]
    item = {"doc": "d", "label": 1.0, "score": 2.0}
    changes = [ChangedQuery("a", "b", "q1", 0.1, 0.9, [item, {**item, "label": 2.0}], [item])]
    made = Comparison(
        parse_metric(metric), systems, [changed_pair(), changed_pair(significant=False)], changes,
        np.arange(20), np.zeros((20, n)), 0, 0.95, 0.01, 1000,
    )  # fmt: skip
    return replace(made, **held)


def test_the_text_of_a_comparison():
    told = words(rankine.report(comparison()).html)
    assert "a against b" in told
    assert "b has the best NDCG@10: 0.6000 on 20 queries. Of 2 pairs of systems, 1 differs" in told
    assert "Means over 20 queries, with 95% intervals from 1,000 resamplings" in told
    assert "b minus a 3 won, 2 equal, 1 lost" in told
    assert "Query q1 NDCG@10 0.900 other 0.100 2 items" in told
    assert "Which is better? " in told
    assert comparison().tables()[2].title in told
    assert "label score 1 d 1 +2.000" in told
    error = words(
        rankine.report(comparison(metric="pairwise_error", skipped=4, weighted=True)).html
    )
    assert "a has the best" in error
    assert "Weighted means over 20 queries; 4 without a value left out, with" in error
    many = rankine.report([comparison(4), comparison(4, "map", changed=[])], command="rankine x")
    told = words(many.html)
    assert "a against b against c and more" in told
    assert "Which is better by MAP?" in told
    assert "Make this page again rankine x" in told
    assert told.count("What changed?") == 1
    assert many.html.count('class="tile"') == 4
    assert "and more" not in words(rankine.report(comparison(3)).html)
    both = [changed_pair(), changed_pair()]
    assert "2 differ by more" in words(rankine.report(comparison(pairs=both)).html)
    assert "Mine" in words(rankine.report(comparison(), title="Mine").html)
    assert rankine.report(comparison(5)).html.count('class="tile"') == 4


def test_differences_stand_around_zero():
    drawn = Drawn(f"<div>{_differences(comparison())}</div>")
    first, second = drawn.of("zero")
    spans = drawn.of("span")
    assert first["x1"] == second["x1"] <= spans[0]["x"]
    assert [one["class"] for one in spans] == ["span model", "span random"]
    means = Drawn(f"<div>{_means(comparison(6))}</div>")
    kinds = [one["class"].split()[1] for one in means.of("span")]
    assert kinds == [*KINDS, KINDS[0]]
    places = [one["x"] for one in means.of("column")]
    assert places == sorted(places)
    assert "0.4000 to 0.9000" in words(_means(comparison()))


def test_other_objects_are_not_taken_for_results():
    for subject in ([], [comparison(), 1], None, {}, LeastSquaresRanker()):
        assert result_report(subject, title=None, command=None) is None


def letor(n_own=1, n_tasks=1, metric="map", folds=3):
    own = [replace(method(f"own{k}", False, k), folds=method("x", False, k).folds[:folds])
           for k in range(n_own)]  # fmt: skip
    paper, book = method("paper", True, 9), method("book", True, 8)
    paper = replace(paper, means={**paper.means, "map": 0.99})
    tasks = [TaskResult(f"T{k}", "letor4", [paper, *own, book]) for k in range(n_tasks)]
    return LetorResult(metric, tasks)


def test_the_text_of_a_letor_result():
    result = letor(7, 4)
    report = rankine.report(result, command="rankine letor x")
    told = words(report.html)
    assert "Make this page again rankine letor x" in told
    best = max(result.tasks[0].methods[1:8], key=lambda m: m.means["map"])
    line = f"MAP {best.means['map']:.4f} by {best.name} , mean over the test parts of 3 folds."
    assert [f"T{k} : {line}" in told for k in range(4)] == [True, True, True, False]
    assert "LETOR protocol on T0, T1, T2 " in told
    assert report.html.count('class="tile"') == 7
    first = result.tasks[0].methods[1]
    low, high = (f(fold.values["map"] for fold in first.folds) for f in (min, max))
    assert f"own0 {first.means['map']:.4f} folds {low:.3f} to {high:.3f}" in told
    assert "Over tasks" in told
    odd = letor()
    missing = replace(odd.tasks[0].methods[1], means={"map": 0.5, "ndcg@1": 0.4})
    odd = LetorResult("err", [replace(odd.tasks[0], methods=[missing, odd.tasks[0].methods[0]])])
    assert "MAP 0.5000 by own0" in words(rankine.report(odd).html)
    own = letor().tasks[0].methods[1]
    bare = replace(letor().tasks[0].methods[0], means={"map": 0.1})
    told = words(
        rankine.report(LetorResult("ndcg@3", [replace(odd.tasks[0], methods=[own, bare])])).html
    )
    assert f"NDCG@3 {own.means['ndcg@3']:.4f} by own0" in told


def test_lines_of_methods_own_ones_in_front():
    (task,) = letor(5).tasks
    made = _task(task, 0, "map", "map")
    drawn = Drawn(f"<div>{made.body}</div>")
    depths, folds = drawn.root.findall(".//figure")
    kinds = [line.attrib["class"] for line in depths.iter("polyline")]
    colours = [KINDS[k % 4] for k in range(5)]
    assert kinds == ["line random"] * 2 + [f"line {kind}" for kind in colours[::-1]]
    named = ["".join(item.itertext()).strip() for item in depths.iter("li")]
    assert named == [f"own{k}" for k in range(5)] + ["published"]
    assert len(list(folds.iter("polyline"))) == 5  # published methods have no folds
    for figure, n in ((depths, 10), (folds, 3)):
        marks = {t.text: t.attrib["x"] for t in figure.iter("text") if "mid" in t.attrib["class"]}
        line = list(figure.iter("polyline"))[-1].attrib["points"].split()
        assert len(line) == n
        assert line[0].split(",")[0] == marks["1"]
        assert line[-1].split(",")[0] == marks[str(n)]
    (pair,) = letor(1, folds=2).tasks
    both = Drawn(f"<div>{_task(pair, 0, 'map', 'map').body}</div>").root.findall(".//figure")
    assert len(both) == 2
    ticks = [one.text for one in folds.iter("text") if one.attrib["class"] == "tick mid"]
    assert ticks == ["1", "2", "3"]
    ticks = [one.text for one in depths.iter("text") if one.attrib["class"] == "tick mid"]
    assert ticks == ["1", "3", "5", "8", "10"]
    twelve = [replace(m, folds=[*m.folds] * 4) for m in task.methods]
    made = _task(replace(task, methods=twelve), 0, "map", "map")
    _, many = Drawn(f"<div>{made.body}</div>").root.findall(".//figure")
    ticks = [one.text for one in many.iter("text") if one.attrib["class"] == "tick mid"]
    assert ticks == [str(k) for k in range(1, 13)]  # every fold, however many
    (short,) = letor(1, folds=1).tasks
    paper, own, book = short.methods
    short = replace(short, methods=[replace(own, means={"map": 0.5}), paper, book])
    drawn = Drawn(f"<div>{_task(short, 0, 'map', 'map').body}</div>")
    (depths,) = drawn.root.findall(".//figure")
    assert len(list(depths.iter("polyline"))) == 2
    assert depths.find("ul") is None


def test_the_text_of_an_interleaving():
    def preference(verdict):
        return Preference(**{
            field.name: verdict if field.name == "verdict" else "x" if field.name in "ab" else 1
            for field in fields(Preference)
        })  # fmt: skip

    def found(n, points):
        teams = tuple("vwxyz"[:n])
        pairs = (preference("undecided"), preference("b"), preference("undecided"))
        return Interleaving(teams, points, (1,) * n, pairs, "session", 30, 40, "click", 0.95, 100)

    told = words(_interleaving_report(found(2, (30.0, 10.0)), None, "rankine y").html)
    assert "v against w " in told
    assert "40 shared lists, 30 units (session): 1 of 3 pairs of models decided." in told
    assert "v 75 % of 40.00 points w 25 %" in told
    assert "Make this page again rankine y" in told
    many = _interleaving_report(found(5, (0.0,) * 5), None, None)
    assert "v against w against x ..." in words(many.html)
    assert many.html.count('class="tile"') == 4
    assert "v 0 % of 1.0000 points" in words(many.html)
    assert "..." not in words(_interleaving_report(found(3, (1.0,) * 3), None, None).html)
    assert "Ours" in words(_interleaving_report(found(2, (1.0, 1.0)), "Ours", None).html)


def trial(number, value, best=None, *, feasible=True, state="complete", **parameters):
    return TrialRecord(number, state, value, best, parameters, 3, 0.5, feasible)


def search(trace, metric="map", **held):
    model = LeastSquaresRanker().fit(shop()[0]).to_model()
    best = max((r for r in trace if r.value is not None and r.feasible), key=lambda r: r.value)
    made = TuningResult(best.parameters, best.value, LeastSquaresRanker(), model, metric, trace,
                        {"l2": 0.2, "scale": 0.8}, None, None)  # fmt: skip
    return replace(made, **held)


TRACE = [
    trial(0, None, None, state="failed", l2=9.0),
    trial(1, 0.4, 0.4, l2=0.1, scale="none"),
    trial(2, 0.9, 0.4, feasible=False, l2=2.0, scale="standard"),
    trial(3, 0.5, 0.5, l2=1.0, scale="standard"),
    trial(4, 0.3, 0.5, l2=2.1, scale="none", extra=True),
]


def test_the_text_of_a_search():
    report = rankine.report(search(TRACE))
    told = words(report.html)
    assert (
        "The best of 5 trials reaches MAP 0.5000 on held-out queries with l2 = 1, scale = " in told
    )
    assert "5 trials, 2.5 s of training in all." in told
    assert "trials 5 1 stopped early or failed" in told
    assert "Tuning LeastSquaresRanker for MAP" in told
    assert "newest queries" not in told
    assert "measured once" not in told
    tested = rankine.report(search(TRACE, test=0.45, best_params={}), title="Ours")
    told = words(tested.html)
    assert "which the search did not use, it reaches 0.4500" in told
    assert "with the ranker's default parameters" in told
    assert told.index("test MAP 0.4500 measured once") < told.index("stopped early or failed")
    rows = re.search(r"<caption>The top 4 of 5 trials.*?</table>|The top 4 of 5 trials.*?</table>",
                     report.html, re.DOTALL)[0]  # fmt: skip
    order = [int(k) for k in re.findall(r'<th scope="row">(\d+)', rows)]
    assert order == [2, 3, 1, 4]
    shares = [float(w) for w in re.findall(r'width="([\d.]+)"', section_of(report, "What matters"))]
    assert shares == [100.0, 25.0]
    assert section_of(report, "What matters").index("scale") < section_of(
        report, "What matters"
    ).index("l2")
    less = rankine.report(search(TRACE, metric="pairwise_error"))
    rows = less.html[less.html.index("The top 4 of 5 trials") :]
    assert [int(k) for k in re.findall(r'<th scope="row">(\d+)', rows)][:4] == [4, 1, 3, 2]


def section_of(report, title):
    """The figure of this title."""
    (found,) = re.findall(rf"<figure><h3>{title}</h3>.*?</figure>", report.html, re.DOTALL)
    return found


def test_trials_are_dots_under_the_best_so_far():
    report = rankine.report(search(TRACE))
    drawn = Drawn(section_of(report, "Trial by trial"))
    dots = {
        kind: [one for one in drawn.of(f"dot {kind}") if one["text"]]
        for kind in ("model", "random")
    }
    assert [one["text"].partition(":")[0] for one in dots["model"]] == [
        "trial 1",
        "trial 3",
        "trial 4",
    ]
    assert [one["text"] for one in dots["random"]] == ["trial 2: 0.9000 (l2=2, scale=standard)"]
    (line,) = drawn.of("line against", "polyline")
    heights = [float(part.split(",")[1]) for part in line["points"].split()]
    assert heights == sorted(heights, reverse=True)
    level = {one["text"].split(":")[0]: one["cy"] for one in dots["model"]}
    assert (heights[0], heights[-1]) == (level["trial 1"], level["trial 3"])
    for number in (1, 3, 4):
        value = next(r.value for r in TRACE if r.number == number)
        (dot,) = [one for one in dots["model"] if one["text"].startswith(f"trial {number}:")]
        drawn.stands((number, value), (dot["cx"], dot["cy"]))
    nothing = search(TRACE[1:2])
    assert "No trial finished" not in words(rankine.report(nothing).html)
    empty = replace(nothing, trace=[trial(0, None, None, state="failed")])
    assert "No trial finished." in words(rankine.report(empty).html)
    assert "Which values work?" not in words(rankine.report(empty).html)
    bare = replace(search(TRACE), importances={})
    assert "What matters" not in words(rankine.report(bare).html)


def test_parameters_are_numbers_or_choices():
    report = rankine.report(search(TRACE))
    numbers = Drawn(section_of(report, "l2"), log_x=True)
    dots = [one for one in numbers.of("dot model") if one["text"]]
    assert [one["text"] for one in dots] == [
        "l2=0.1: 0.4000", "l2=2: 0.9000", "l2=1: 0.5000", "l2=2.1: 0.3000",
    ]  # fmt: skip
    (best,) = [one for one in numbers.of("dot against") if one["text"]]
    assert best["text"] == "best: 1"
    assert (best["cx"], best["cy"]) == (dots[2]["cx"], dots[2]["cy"])
    numbers.stands((2.0, 0.9), (dots[1]["cx"], dots[1]["cy"]))
    choices = words(section_of(report, "scale"))
    assert "standard 2 trials standard: 0.9000 0.9000 none 2 trials none: 0.4000" in choices
    assert "True 1 trial" in words(section_of(report, "extra"))  # a truth value is no number
    less = words(section_of(rankine.report(search(TRACE, metric="pairwise_error")), "scale"))
    assert "none 2 trials none: 0.3000 0.3000 standard 2 trials standard: 0.5000" in less
    narrow = [trial(k, 0.5 + k / 10, 0.5, l2=1.0 + k, depth=3) for k in range(4)]
    report = rankine.report(search(narrow))
    assert "depth" not in report.html.partition('id="parameters"')[2].partition("</section>")[0]
    even = Drawn(section_of(report, "l2"))
    a, b, *_ = [one["cx"] for one in even.of("dot model") if one["text"]]
    c = [one["cx"] for one in even.of("dot model") if one["text"]][2]
    assert b - a == pytest.approx(c - b, abs=0.2)
    zero = [trial(k, 0.5 + k / 10, 0.5, l2=100.0 * k) for k in range(3)]
    far = Drawn(section_of(rankine.report(search(zero)), "l2"))
    a, b, c = [one["cx"] for one in far.of("dot model") if one["text"]]
    assert b - a == pytest.approx(c - b, abs=0.2)
    for ends, even in (((1.0, 10.0, 20.0), True), ((1.0, 10.0, 21.0), False)):
        some = [trial(k, 0.5, 0.5, l2=end) for k, end in enumerate(ends)]
        drawn = Drawn(section_of(rankine.report(search(some)), "l2"))
        a, b, c = [one["cx"] for one in drawn.of("dot model") if one["text"]]
        assert ((b - a) < (c - b)) == even
    nothing = [trial(0, 0.0, 0.0, l2=1.0), trial(1, 0.5, 0.5, l2=2.0)]
    report = rankine.report(search(nothing))
    drawn = Drawn(section_of(report, "Trial by trial"))
    for number, dot in enumerate(one for one in drawn.of("dot model") if one["text"]):
        drawn.stands((number, nothing[number].value), (dot["cx"], dot["cy"]))
    start = drawn.of("line against", "polyline")[0]["points"].split()[0]
    drawn.stands((0, 0.0), tuple(map(float, start.split(","))))
    assert section_of(report, "l2")  # two values are a picture
    rows = report.html[report.html.index("The top 2 of 2 trials") :]
    assert [int(k) for k in re.findall(r'<th scope="row">(\d+)', rows)][:2] == [1, 0]
    kinds = re.findall(r"<th( class=\"n\")? scope=\"col\"", rows.partition("</thead>")[0])
    assert [bool(kind) for kind in kinds] == [False, False, True, True, True]
    many = [trial(k, k / 100, 0.5, l2=float(k)) for k in range(30)]
    assert f"The top {TOP} of 30 trials" in words(rankine.report(search(many)).html)


def test_the_text_of_a_path():
    train, test = shop()
    path = rankine.DominationRanker(scale="standard").path(train, eval_set=test, n_steps=5)
    report = rankine.report(path)
    told = words(report.html)
    best = path.best()
    size, value = path.nonzeros[best], path.values[best]
    assert f"The best of 5 models has {size} of 14 weights and {path.metric} {value:.4f} ." in told
    assert f"{path.seconds.sum():.1f} s in all" in told
    drawn = Drawn(section_of(report, "Quality against size"), log_x=True)
    kept = path.nonzeros > 0
    points = sorted(zip(path.nonzeros[kept], path.values[kept], strict=True))
    for point, dot in zip(points, drawn.of("dot model"), strict=True):
        assert dot["text"] == f"{plural(point[0], 'weight')}: {point[1]:.4f}"
    places = [dot["cx"] for dot in drawn.of("dot model")]
    assert places == sorted(places)
    rows = re.search(r"Every step, the best in bold.*?</table>", report.html, re.DOTALL)[0]
    rows = re.findall(r"<tr>(.*?)</tr>", rows)[1:]
    assert ["best" in row for row in rows] == [k == best for k in range(5)]
    assert rows[best].count("best") == 3
    none = rankine.DominationRanker(scale="standard").path(train, l1s=[1e9])
    assert "<h3>Quality against size</h3>" not in rankine.report(none).html


@pytest.mark.parametrize("strength", ["l1", "smooth"])
def test_a_path_of_several_solvers_has_a_line_for_each(strength):
    def curve(nonzeros, values):
        sizes = np.array(nonzeros)
        return SimpleNamespace(nonzeros=sizes, values=np.array(values), x_axis=(sizes, "size"))

    curves = {
        "empty": curve([0, 0], [0.1, 0.2]),
        "falling": curve([9, 3, 0], [0.5, 0.4, 0.1]),
        "other": curve([1, 30], [np.nan, 0.6]),
        "last": curve([1, 4], [0.3, 0.2]),
    }
    path = SimpleNamespace(measured=True, curves=lambda: curves, x_axis=(None, "size"),
                           strength=strength, nonzeros=np.array([1, 30]))  # fmt: skip
    drawn = Drawn(_sizes(path, "MAP", 0), log_x=True)
    named = ["".join(item.itertext()).strip() for item in drawn.root.iter("li")]
    assert named == ["falling", "other", "last"]
    kinds = [line["class"] for line in drawn.of("line", "polyline")]
    assert kinds == [f"line {KINDS[k]}" for k in (1, 2, 3)]
    dots = [one for one in drawn.of("dot") if one["text"]]
    assert [dot["text"] for dot in dots] == [
        "3 weights: 0.4000", "9 weights: 0.5000", "30 weights: 0.6000", "1 weight: 0.3000",
        "4 weights: 0.2000",
    ]  # fmt: skip
    points = [(3, 0.4), (9, 0.5), (30, 0.6), (1, 0.3), (4, 0.2)]
    for point, dot in zip(points, dots, strict=True):
        drawn.stands(point, (dot["cx"], dot["cy"]))
    assert ("from the best (1 weight)" in words(_sizes(path, "MAP", 0))) == (strength == "l1")
    assert path_curves(path) == list(curves.items())
