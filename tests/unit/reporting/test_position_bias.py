"""Clicks favour the order as shown, and the report says so and corrects for it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankine
from rankine.evaluation.counterfactual import counterfactual
from rankine.logs.propensity import estimate_propensity
from rankine.reporting.position_bias import PositionBias, position_note
from rankine.transforms.apply import score_dataset
from unit.reporting.report_cases import words

LISTS, DEPTH, ITEMS = 1500, 6, 40


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Lists ordered by stock, in which users click good items near the top."""
    rng = np.random.default_rng(0)
    price, stock = rng.normal(size=ITEMS), rng.integers(0, 2, ITEMS)
    rows = {name: [] for name in ("session", "sku", "words", "clicked", "position", "price")}
    for k in range(LISTS):
        items = rng.choice(ITEMS, DEPTH, replace=False)
        items = items[np.argsort(-stock[items] - rng.normal(size=DEPTH), kind="stable")]
        chance = (1 / np.arange(1, DEPTH + 1)) / (1 + np.exp(price[items]))
        rows["session"] += [f"s{k}"] * DEPTH
        rows["sku"] += [f"sku-{i}" for i in items]
        rows["words"] += ["red shoes"] * DEPTH
        rows["clicked"] += (rng.random(DEPTH) < chance).astype(int).tolist()
        rows["position"] += range(1, DEPTH + 1)
        rows["price"] += price[items].tolist()
    path = tmp_path_factory.mktemp("bias") / "log.parquet"
    pq.write_table(pa.table(rows), path)
    return path


def read(log, **uses):
    return rankine.logs.scan(log, query="session", label="clicked", numeric=["price"], **uses)


def test_the_report_corrects_for_positions(log):
    lists = read(log, position="position", item="sku", search="words").load()
    model = rankine.RankSVM().fit(lists).to_model()
    page = rankine.report(model, lists)
    text = words(page.html)
    assert "below the order as shown (which clicks favour)" in text
    assert "Clicks favour what was shown on top, because users see it first." in text
    clicks = {"q": lists.qid, "y": lists.y, "p": lists.position, "i": lists.columns["sku"],
              "s": lists.columns["words"]}  # fmt: skip
    names = {"query": "q", "label": "y", "position": "p", "item": "i", "search": "s"}
    propensity = estimate_propensity(clicks, n_resamples=0, **names)
    by_hand = counterfactual(clicks, score_dataset(model, lists), propensity=propensity, **names)
    bias = page.figures["position_bias"]
    assert bias["source"] == "log"
    assert bias["model"]["value"] == pytest.approx(by_hand["dr"].value)
    assert bias["shown"]["value"] == pytest.approx(by_hand.old.value)
    assert by_hand["dr"].value > by_hand.old.value
    assert f"expected to get {by_hand['dr'].value:.3f} clicks" in text
    # All lists of the report were trained on.
    assert "The model was trained on these lists, so these figures are too good." in text


@pytest.mark.parametrize(
    ("difference", "larger_is_better", "is_warned"),
    [(-0.1, True, True), (0.0, True, False), (0.1, True, False), (0.1, False, True)],
)
def test_the_note_warns_only_where_the_model_seems_worse(difference, larger_is_better, is_warned):
    pairs = [SimpleNamespace(a="order as shown", difference=difference),
             SimpleNamespace(a="random order", difference=-difference)]  # fmt: skip
    head = SimpleNamespace(pairs=pairs, larger_is_better=larger_is_better)
    bias = PositionBias(None, None, None, clicks=True, reason="too few lists")
    assert (position_note(bias, head) is not None) == is_warned
    assert position_note(None, head) is None


def test_without_items_the_report_says_why_there_is_no_estimate(log):
    lists = read(log, position="position").load()
    train, test = lists.take_queries(range(1000)), lists.take_queries(range(1000, LISTS))
    page = rankine.report(rankine.RankSVM().fit(train), test)
    text = words(page.html)
    assert "There is no estimate that corrects for it: the default method, harvest, needs" in text
    assert "Held out: the model was not trained on these lists." in text
    theta = [1 / k for k in range(1, DEPTH + 1)]
    weighted = rankine.report(rankine.RankSVM(propensity=theta).fit(train), test)
    assert weighted.figures["position_bias"]["source"] == "model"
    assert "(propensities of the model, estimate snips)" in words(weighted.html)


def test_there_is_no_note_without_positions(log, tmp_path):
    table = pq.read_table(log).drop_columns("position")
    pq.write_table(table, tmp_path / "log.parquet")
    log = tmp_path / "log.parquet"
    page = rankine.report(rankine.RankSVM().fit(read(log)).to_model(), read(log))
    assert page.figures["position_bias"] is None
    assert "Clicks favour" not in page.html
