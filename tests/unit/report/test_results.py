"""Reports of searches, comparisons, the LETOR protocol and paths."""

from __future__ import annotations

import re

import numpy as np
import pytest

import rankine
from rankine import LeastSquaresRanker
from rankine.evaluation.letor import TABLE, FoldResult, LetorResult, MethodResult, TaskResult
from unit.report.report_cases import HOSTILE, fitted, shop
from unit.report.test_page import assert_sound


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
    order = sorted(heights, key=lambda k: -heights[k])
    assert [values[k] for k in order] == sorted(values)


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
