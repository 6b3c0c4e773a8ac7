"""The page: inert, complete, self-contained, for every kind of model and data."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser

import msgspec
import numpy as np
import pytest

import rankine
from rankine import Dataset, LinearModel, ModelBundle
from rankine.core.errors import ParameterError
from rankine.core.safe_text import Html, join, name_of, tag, text
from rankine.core.specs import ListRange
from unit.reporting.report_cases import HOSTILE, fitted, hostile, random_data, shop


class Page(HTMLParser):
    """Elements, attributes and ids of a page; complains about tags that do not match."""

    VOID = frozenset({"meta", "br", "link"})

    def __init__(self, text):
        super().__init__()
        self.elements, self.ids, self.links, self.open = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, name, attributes):
        given = dict(attributes)
        self.elements.append((name, given))
        if "id" in given:
            self.ids.append(given["id"])
        if given.get("href", "").startswith("#"):
            self.links.append(given["href"][1:])
        if name not in self.VOID:
            self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name


def assert_sound(report):
    """What holds for every page."""
    page = Page(report.html)
    names = {name for name, _ in page.elements}
    assert not names & {"script", "img", "iframe", "object", "link", "base", "form"}
    for name, given in page.elements:
        assert not [key for key in given if key.startswith("on") or key in ("style", "src")], name
    assert len(set(page.ids)) == len(page.ids)
    assert set(page.links) <= set(page.ids)
    figures = [given for name, given in page.elements if name == "svg" and "role" in given]
    assert all(given["aria-label"] for given in figures)
    assert report.html.count("<figure") == report.html.count("</figcaption></figure>")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', report.html)[1]
    style = re.search(r"<style>(.*?)</style>", report.html, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy.startswith("default-src &#x27;none&#x27;; style-src &#x27;sha256-")
    assert digest in policy
    assert "url(" not in style
    assert "@import" not in style
    assert len(report.html) < 3_000_000
    msgspec.json.encode(report.to_dict())
    return page


def test_the_page_of_a_model(tmp_path):
    report = rankine.report(fitted(), shop()[1], against=LinearModel.from_weights(np.ones(14)))
    page = assert_sound(report)
    sections = [given["id"] for name, given in page.elements if name == "section"]
    assert sections == [
        "quality", "depth", "queries", "weights", "size", "gaps", "training", "data", "origin"
    ]  # fmt: skip
    mean = report.figures["headline"][0]["systems"][0]["mean"]
    assert f"{mean:.4f}" in report.html
    assert "Lost most against the other model" in report.html
    report.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == report.html
    shown = report._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert 'sandbox=""' in shown
    assert "<script" not in shown
    again = rankine.report(fitted(), shop()[1], against=LinearModel.from_weights(np.ones(14)))
    assert again.html == report.html


def test_hostile_names_are_inert_and_short():
    model, data = hostile()
    report = rankine.report(model, data, title=HOSTILE[0], command=HOSTILE[1])
    assert_sound(report)
    assert "\u202e" not in report.html
    assert "\x1b" not in report.html
    assert "<script" not in report.html
    assert "x" * 500 not in report.html
    assert "\u05e9\u05dc\u05d5\u05dd" in report.html


CASES = {
    "zero weights": (LinearModel.from_weights(np.zeros(4)), random_data(5, 6, 4)),
    "one weight": (LinearModel.from_weights([0.0, 1.0, 0.0, 0.0]), random_data(5, 6, 4)),
    "one query": (LinearModel.from_weights([1.0, 2.0]), random_data(1, 30, 2)),
    "two rows": (LinearModel.from_weights([1.0]), random_data(1, 2, 1, labels=2, seed=1)),
    "sparse": (LinearModel.from_weights(np.ones(500)), random_data(9, 7, 500, make_sparse=True)),
    "list scaling": (
        LinearModel.from_weights([1.0, -1.0, 0.5], transforms=(ListRange(),)),
        random_data(6, 5, 3),
    ),
    "error metric": (
        LinearModel.from_weights([1.0, -1.0], metric="pairwise_error"),
        random_data(6, 5, 2),
    ),
    "column cutoff": (
        LinearModel.from_weights([1.0, -1.0], metric="mrr"),
        random_data(6, 5, 2),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_every_kind_of_model_and_data(case):
    model, data = CASES[case]
    report = rankine.report(model, data)
    assert_sound(report)
    assert report.figures["data"]["rows"] == data.n_rows
    assert report.figures["origin"]["digest"] == model.digest


def test_data_without_a_relevant_item():
    data = random_data(4, 5, 3)
    nothing = Dataset.from_arrays(data.X, np.zeros(20), data.qid)
    report = rankine.report(LinearModel.from_weights([1.0, 2.0, 3.0]), nothing)
    assert_sound(report)
    assert report.figures["data"]["without_pairs"] == 4


def test_labels_that_the_metric_refuses_fall_back_to_pairs():
    data = random_data(5, 6, 2)
    real = Dataset.from_arrays(data.X, data.X[:, 0] - 0.3, data.qid)
    report = rankine.report(LinearModel.from_weights([1.0, 0.1]), real)
    assert_sound(report)
    assert "ndcg@10" in report.figures["refused"]
    assert report.figures["headline"][0]["metric"] == "pairwise-error"
    assert "cannot be measured here" in report.html


def test_positions_weights_and_reader_notes_are_told():
    data = random_data(5, 6, 3)
    full = Dataset.from_arrays(
        data.X, data.y, data.qid, weight=np.ones(30), position=np.tile(np.arange(1, 7), 5)
    )
    told = replace(full, read_counts={"rows_skipped": 17}, sources=("a.txt", "b.txt"))
    report = rankine.report(LinearModel.from_weights([1.0, 0.5, -1.0]), told)
    assert_sound(report)
    assert "rows skipped</bdi>: 17" in report.html
    assert [s["name"] for s in report.figures["headline"][0]["systems"]][1] == "order as shown"


def test_data_the_model_was_trained_on_is_noticed():
    train = replace(shop()[0], sources=("log.txt",))
    ranker = rankine.LeastSquaresRanker().fit(train)
    assert "flatter it" in rankine.report(ranker, train).html
    assert "flatter it" not in rankine.report(ranker, shop()[1]).html


def test_a_model_of_a_raw_log(tmp_path):
    """Hashed and one-hot columns: weights are grouped by column, positions are an opponent."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    n = 240
    brand = rng.choice(["acme", "zeta", "blue"], n)
    columns = {
        "session": np.repeat(np.arange(40), 6),
        "brand": brand,
        "shop": rng.choice(["north", "south"], n),
        "price": rng.random(n),
        "clicked": ((brand == "acme") & (rng.random(n) < 0.8)).astype(np.int64),
        "position": np.tile(np.arange(1, 7), 40),
    }
    log = tmp_path / "log.parquet"
    pq.write_table(pa.table(columns), log)
    lists = rankine.logs.scan(
        log,
        query="session",
        label="clicked",
        numeric=["price"],
        one_hot=["shop"],
        categorical=["brand"],
        hash_bits=10,
        position="position",
    )
    ranker = rankine.ElasticRanker(random_state=0, l1=0.0).fit(lists)
    ranker.to_model().save(tmp_path / "log.rankine")
    report = rankine.report(tmp_path / "log.rankine", log)
    page = assert_sound(report)
    groups = {group["column"] for group in report.figures["weights"]["groups"]}
    assert groups == {"price", "shop", "brand"}
    kinds = report.figures["headline"][0]["kinds"]
    assert kinds == ["model", "shown", "feature", "random"]
    assert "--categorical brand" in report.figures["origin"]["command"]
    assert report.figures["training"]["curves"]["progressive_ndcg@10"]
    assert "drift" in page.ids
    assert len(report.figures["drift"]["columns"]) == 3
    bare = replace(LinearModel.load(tmp_path / "log.rankine"), provenance={})
    assert "drift" not in rankine.report(bare, log).figures


def test_one_topic_of_a_bundle():
    bundle = ModelBundle.from_weights({"earn": [1.0, 0.0], "grain": [0.0, 2.0]})
    data = random_data(5, 6, 2)
    assert_sound(rankine.report(bundle, data, topic="grain"))
    with pytest.raises(ParameterError, match=r"bundle of 2 models \["):
        rankine.report(bundle, data)
    with pytest.raises(ParameterError, match="has no topic 'wheat'"):
        rankine.report(bundle, data, topic="wheat")
    with pytest.raises(ParameterError, match="a single model, not a bundle"):
        rankine.report(bundle["earn"], data, topic="earn")
    for pair in ((bundle, bundle["earn"]), (bundle["earn"], bundle), (bundle, bundle)):
        assert_sound(rankine.report(pair[0], data, against=pair[1], topic="grain"))
    with pytest.raises(ParameterError, match="a single model, not a bundle"):
        rankine.report(bundle["earn"], data, against=bundle["grain"], topic="earn")


def test_a_finished_result_is_not_judged_again():
    data = random_data(5, 6, 2)
    done = rankine.compare([data.X[:, 0], data.X[:, 1]], data, n_resamples=100)
    rankine.report(done)
    for given in ({"metric": "map"}, {"against": data}, {"topic": "earn"}):
        with pytest.raises(ParameterError, match="this result is finished"):
            rankine.report(done, **given)


def test_a_page_is_named_after_its_model_and_data():
    data = random_data(5, 6, 2)
    model = LinearModel.from_weights([1.0, 0.5])
    assert rankine.report(model, data).title == "model on 5 queries"
    one, two = (replace(data, sources=("x/a.txt", "b.txt")[:n]) for n in (1, 2))
    assert rankine.report(model, one).title == "model on a.txt"
    named = LinearModel.from_weights([1.0, 0.5], parameters={"ranker": "spd"})
    assert rankine.report(named, two).title == "spd on a.txt and 1 more"
    assert rankine.report(named, two, title="Ours").title == "Ours"
    elements = Page(rankine.report(model, data).html).elements
    assert [given["id"] for name, given in elements if name == "section"] == [
        "quality", "depth", "queries", "weights", "size", "gaps", "data", "origin"
    ]  # fmt: skip


def test_what_cannot_be_reported_is_refused():
    with pytest.raises(ParameterError, match="cannot report on dict"):
        rankine.report({}, random_data(3, 3, 2))
    with pytest.raises(ParameterError, match="judged on data"):
        rankine.report(LinearModel.from_weights([1.0]))


def test_elements_escape_what_is_not_html():
    assert tag("p", "<b>", tag("i", "x"), None, ["a", 1]) == "<p>&lt;b&gt;<i>x</i>a1</p>"
    assert tag("p", class_='a"b', aria_label="x", hidden=True, id=None) == (
        '<p class="a&quot;b" aria-label="x" hidden></p>'
    )
    assert join([Html("<b>"), "<b>"]) == "<b>&lt;b&gt;"
    assert text("a" * 300, 10) == "a" * 9 + "…"
    assert text("\u202e\x00") == "\\u202e\\x00"
    assert text("1\N{NO-BREAK SPACE}%") == "1\N{NO-BREAK SPACE}%"
    assert name_of("<x>") == "<bdi>&lt;x&gt;</bdi>"
