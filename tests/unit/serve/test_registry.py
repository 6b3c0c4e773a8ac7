"""Served models by name: topics, examples, self-tests, and lists compared with the training."""

import numpy as np
import pytest

from integration.serve.serve_tools import log_model, make_model
from rankine import LinearModel, ModelBundle, Scorer
from rankine.core.errors import ModelError
from rankine.core.specs import LogColumns, OneHot
from rankine.model.weights import Probes
from rankine.serve import registry as registry_module
from rankine.serve.registry import WATCH_EVERY, Registry, ServedModel, ServedScorer
from rankine.serve.schemas import RequestError


def test_a_request_without_a_name_goes_to_the_only_model():
    registry = Registry()
    registry.put(ServedModel("shop", make_model(0)))
    assert registry.find(None).name == "shop"
    registry.put(ServedModel("other", make_model(1)))
    for name, reason in ((None, "names no model"), ("nothing", "no model of this name"),
                         ("shop/", "is one model")):  # fmt: skip
        with pytest.raises(RequestError, match=reason) as caught:
            registry.find(name)
        assert caught.value.status == 404
    bundle = ServedModel("b", ModelBundle.from_weights({"a/b": [1.0], "": [2.0]}))
    registry.put(bundle)
    assert registry.find("b/a/b").name == "b/a/b"
    assert registry.find("b/").model.values.tolist() == [2.0]
    with pytest.raises(RequestError, match="is a bundle"):
        registry.find("b")


def test_an_entry_says_what_a_model_is():
    model = make_model(0, metric="map")
    entry = ServedModel("shop", model).entry("old")
    assert (entry.probes, entry.nnz, entry.base) == (len(model.probes.rows), 20, 1)
    assert (entry.required_count, entry.topics_count) == (20, 0)
    assert (entry.reads, entry.error, entry.metric) == ("features", "old", "map")
    assert ServedModel("none", LinearModel.from_weights(np.zeros(2))).entry().probes == 0
    topics = ServedModel("b", ModelBundle.from_weights({"t": [1.0, 0.0], "u": [2.0, 3.0]}))
    assert (topics.entry().probes, topics.entry().nnz, topics.entry().required) == (0, 3, [])
    one = topics.entry(topic="t")
    assert (one.name, one.nnz, one.required, one.topics) == ("b/t", 1, ["1"], [])
    assert ServedModel("log", log_model()).entry().reads == "raw"


def test_recently_requested_topics_are_kept(monkeypatch):
    bundle = ModelBundle.from_weights({name: [1.0, 2.0] for name in "abcdefgh"})
    monkeypatch.setattr(registry_module, "MAX_TOPICS_READY", 2)
    served = ServedModel("b", bundle)
    a, b = served.scorer("a"), served.scorer("b")
    assert served.scorer("a") is a
    served.scorer("c")
    assert served.scorer("a") is a
    assert served.scorer("b") is not b
    monkeypatch.undo()
    for names, ready in ((6, 4), (12, 6)):  # of two features each
        monkeypatch.setattr(registry_module, "_MAX_NAMES_READY", names)
        served = ServedModel("b", bundle)
        kept = [served.scorer(name) for name in "abcdefgh"[:ready]]
        assert [served.scorer(name) for name in "abcdefgh"[:ready]] == kept
        served.scorer("h")
        assert served.scorer("b") is kept[1]
        assert served.scorer("a") is not kept[0]
    monkeypatch.setattr(registry_module, "_MAX_NAMES_READY", 6)
    for width, ready in ((0, 6), (1, 6), (2, 4)):
        served = ServedModel("b", ModelBundle.from_weights({k: [1.0] * width for k in "abcdefgh"}))
        kept = [served.scorer(name) for name in "abcdefgh"[:ready]]
        assert served.scorer("a") is kept[0]
        served.scorer("h")
        assert served.scorer("b") is not kept[1]


def test_an_example_has_three_different_items():
    features = ServedScorer(
        "m", "", LinearModel.from_weights([1.0, 2.0, 3.0], ["a", "b", "c"])
    ).example
    assert features == [
        {"id": "first", "features": {"a": 0.0, "b": 1.5, "c": 0.5}},
        {"id": "second", "features": {"a": 1.0, "b": 0.0, "c": 1.5}},
        {"id": "third", "features": {"a": 2.0, "b": 1.0, "c": 0.0}},
    ]
    wide = ServedScorer("m", "", make_model(0)).example
    assert all(len(item["features"]) == 6 for item in wide)
    raw = [item["raw"] for item in ServedScorer("m", "", log_model()).example]
    assert [item["shop"] for item in raw] == ["south", "north", "south"]
    assert {item["price"] for item in raw} == {0.0, 1.0, 2.0}
    sizes = LogColumns(one_hot=tuple(OneHot(name, ("s", "m", "l")) for name in ("a", "b")))
    model = LinearModel.from_weights(np.arange(1.0, 7.0), transforms=(sizes,))
    example = [item["raw"] for item in ServedScorer("m", "", model).example]
    assert [item["a"] for item in example] == ["s", "m", "l"]
    assert [item["b"] for item in example] == ["m", "l", "s"]


def test_a_model_that_scores_its_rows_wrongly_is_not_proven():
    model = make_model(0)
    wrong = Probes(model.probes.rows, tuple(x + 1 for x in model.probes.scores))
    ServedScorer("m", "", model).self_test()
    for good in (ServedScorer("m", "", model), ServedScorer("log", "", log_model())):
        ranked = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Scorer, "rank", lambda _, rows, ranked=ranked: ranked.append(rows))
            good.self_test()
        (form,) = {"features", "raw"} & set(good.example[0])
        assert ranked == [[item[form] for item in good.example]]
    with pytest.raises(ModelError, match="stored rows"):
        ServedScorer("m", "", make_model(0, probes=wrong)).self_test()


def test_one_list_of_many_is_compared_with_the_training():
    class Watching:
        def __init__(self):
            self.summary, self.seen = self, []
            self.columns = ("price", "shop")

        def add(self, columns, n_rows, scores):
            self.seen.append((columns, n_rows, scores))

    target = ServedScorer("log", "", log_model())
    assert target.drift_monitor is None
    target.monitor_drift([{"price": 1.0}])
    drift_monitor = target.__dict__["drift_monitor"] = Watching()
    target.__dict__.pop("_list_numbers")
    rows = [{"price": 1.0, "shop": "north", "brand": "a"}, {"price": 3.0}]
    for _ in range(2 * WATCH_EVERY + 1):
        target.monitor_drift(rows)
    assert len(drift_monitor.seen) == 3
    columns, n_rows, scores = drift_monitor.seen[0]
    assert (columns, n_rows) == ({"price": [1.0, 3.0], "shop": ["north", None]}, 2)
    expected = Scorer(log_model(), unknown="zero").score(rows)
    np.testing.assert_allclose(scores, expected - expected.mean())
