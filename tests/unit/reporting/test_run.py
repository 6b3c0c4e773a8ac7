"""``rankine.report`` makes a sound page of every kind of model and data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankine
from error_checks import raises_for
from rankine import Dataset, LinearModel, ModelBundle
from rankine.core.errors import ParameterError
from rankine.core.specs import ListRange
from rankine.reporting.run import _query_groups, evaluate_subject
from unit.reporting.report_cases import (
    Page,
    assert_sound,
    fitted,
    random_data,
    shop,
)

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


@pytest.mark.parametrize("metric", ["ndcg@10", "pairwise_error"])
def test_lists_that_were_lost_and_won_against_another_model(metric):
    data = random_data(12, 6, 3)
    X = data.X.copy()
    X[:36, 2] = X[:36, 0]  # six lists in the same order
    data = Dataset.from_arrays(X, data.y, data.qid)
    against = LinearModel.from_weights([0.0, 0.0, 1.0])
    model = LinearModel.from_weights([1.0, 0.0, 0.0], metric=metric)
    evaluated = evaluate_subject(model, data, against=against)
    groups = dict(_query_groups(evaluated, 6))
    ours, theirs = (evaluated.values(one, evaluated.metric) for one in evaluated.opponents[:2])
    gap = (ours - theirs) * (1 if metric == "ndcg@10" else -1)
    for title, chosen in (("Lost", gap < 0), ("Won", gap > 0)):
        found = groups[f"{title} most against the other model"]
        for one in found:
            assert one.other_value == theirs[int(one.query)]
            assert one.value == ours[int(one.query)]
            assert chosen[int(one.query)]
    found = [len(groups[f"{title} most against the other model"]) for title in ("Lost", "Won")]
    assert found == [(gap < 0).sum(), (gap > 0).sum()]
    assert min(found) > 0
    assert max(found) < 6
    assert (
        len(_query_groups(evaluate_subject(fitted(), shop()[1]), 2)) == 2
    )  # beside the shown order
    assert [len(found) for _, found in _query_groups(evaluate_subject(model, data), 2)] == [2, 2]
    assert _query_groups(evaluate_subject(model, data), 2)[0][1][0].other_value is None


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


def test_positions_weights_and_reader_counts_are_shown():
    data = random_data(5, 6, 3)
    full = Dataset.from_arrays(
        data.X, data.y, data.qid, weight=np.ones(30), position=np.tile(np.arange(1, 7), 5)
    )
    told = replace(full, read_counts={"rows_skipped": 17}, sources=("a.txt", "b.txt"))
    report = rankine.report(LinearModel.from_weights([1.0, 0.5, -1.0]), told)
    assert_sound(report)
    assert "rows skipped</bdi>: 17" in report.html
    assert [s["name"] for s in report.figures["headline"][0]["systems"]][1] == "order as shown"


def test_training_data_in_the_report_raises_a_warning():
    train = replace(shop()[0], sources=("log.txt",))
    ranker = rankine.LeastSquaresRanker().fit(train)
    assert "are too good" in rankine.report(ranker, train).html
    assert "are too good" not in rankine.report(ranker, shop()[1]).html


def test_a_model_of_a_raw_log(tmp_path):
    """Hashed and one-hot columns: weights are grouped by column, positions are an opponent."""

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
    with pytest.raises(ParameterError, match="2 models") as caught:
        rankine.report(bundle, data)
    assert caught.value.parameter == "topic"
    with raises_for("topic") as caught:
        rankine.report(bundle, data, topic="wheat")
    assert caught.value.parameter == "topic"
    with raises_for("topic") as caught:
        rankine.report(bundle["earn"], data, topic="earn")
    assert caught.value.parameter == "topic"
    for pair in ((bundle, bundle["earn"]), (bundle["earn"], bundle), (bundle, bundle)):
        assert_sound(rankine.report(pair[0], data, against=pair[1], topic="grain"))
    with raises_for("topic") as caught:
        rankine.report(bundle["earn"], data, against=bundle["grain"], topic="earn")
    assert caught.value.parameter == "topic"


def test_a_finished_result_is_not_judged_again():
    data = random_data(5, 6, 2)
    done = rankine.compare([data.X[:, 0], data.X[:, 1]], data, n_resamples=100)
    rankine.report(done)
    for given in ({"metric": "map"}, {"against": data}, {"topic": "earn"}):
        with pytest.raises(ParameterError) as caught:
            rankine.report(done, **given)
        assert [caught.value.parameter] == list(given)


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
    with raises_for("subject") as caught:
        rankine.report({}, random_data(3, 3, 2))
    assert caught.value.parameter == "subject"
    with pytest.raises(ParameterError) as caught:
        rankine.report(LinearModel.from_weights([1.0]))
    assert caught.value.parameter == "data"
