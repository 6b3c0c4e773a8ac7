"""The recorded command trains the same model."""

from __future__ import annotations

import itertools
import shlex
from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
from markupsafe import Markup

import rankine
from rankine import LinearModel, logs
from rankine.core.specs import ListRange, LogColumns, OneHot
from rankine.reporting.origin import (
    _parameters,
    _value,
    command_section,
    origin,
    origin_section,
    training_command,
)
from rankine.reporting.training import training, training_section
from unit.reporting.report_cases import shop, words


def story(**held):
    model = LinearModel.from_weights([1.0], provenance=held, metric="map")
    return training_section(training(model))


def test_the_training_command_gives_the_same_model(tmp_path):
    train = shop()[0]
    path = tmp_path / "train data.txt"
    rankine.Dataset.from_arrays(train.X, train.y, train.qid).save(path)
    ranker = rankine.LeastSquaresRanker(l2=0.074, scale="maxabs", metric="map", random_state=3)
    model = ranker.fit(rankine.load(path)).to_model()
    words = shlex.split(training_command(model))
    assert words[:3] == ["rankine", "train", str(path)]
    assert "--base" not in words
    given = dict(itertools.pairwise(words))
    assert given["--ranker"] == "least-squares"
    assert given["--set"] == "l2=0.074"
    assert (given["--scale"], given["--metric"], given["--seed"]) == ("maxabs", "map", "3")
    assert origin(model, rankine.load(path)).seen == [str(path)]
    assert training_command(LinearModel.from_weights([1.0])) is None


def test_the_training_command_leaves_out_empty_lists_of_columns():
    ranker = rankine.AdditiveRanker(pairs=0, smooth=1.0, random_state=0)
    command = training_command(ranker.fit(shop()[0]).to_model())
    assert "categorical" not in command
    assert "linear" not in command
    assert "--set pairs=0" in command


def test_the_training_command_names_crosses(tmp_path):
    rows = {"q": [1, 1, 2, 2], "a": ["x", "y", "x", "z"], "b": [1, 2, 2, 1], "y": [1, 0, 0, 1]}
    pq.write_table(pa.table(rows), tmp_path / "log.parquet")
    log = logs.scan(
        tmp_path / "log.parquet", query="q", label="y", categorical=["a"], crosses=["a*b"],
        hash_bits=6,
    )  # fmt: skip
    words = shlex.split(training_command(rankine.ElasticRanker(random_state=0).fit(log).to_model()))
    given = dict(itertools.pairwise(words))
    assert (given["--cross"], given["--categorical"], given["--hash-bits"]) == ("a*b", "a", "6")


def test_options_of_a_log_are_those_that_training_needs():
    def told(**parameters):
        spec = LogColumns(("price",), (OneHot("brand", ("a",)),), ignored=("q", "y"))
        log = {"query": "q", "label": "y", "numeric": ["price"], "one_hot": ["brand"],
               "position": "place", "item": "sku"}  # fmt: skip
        held = {"ranker": "elastic", "log": {**log, **parameters.pop("log", {})}, **parameters}
        model = LinearModel.from_weights([1.0, 2.0], weight_names=["price", "brand=a"],
                                         transforms=(spec,), parameters=held, base=0)  # fmt: skip
        return shlex.split(training_command(model))

    plain = told()
    assert plain[:3] == ["rankine", "train", "TRAINING_DATA"]
    assert plain[-4:] == ["--base", "0", "--out", "model.rankine"]
    assert "--position" not in plain
    assert "--item" not in plain
    assert plain[plain.index("--one-hot") + 1] == "brand"
    assert "--position" in told(propensity={"a": 1})
    assert "--item" not in told(propensity={"a": 1})
    values = told(l1=[0.5, 0.25], random_state=None, unknown=3, n_passes=7, l2=True)
    assert values[values.index("--set") + 1] == "l1=[0.5, 0.25]"
    assert "unknown=3" not in values
    assert "n_passes=7" in values


def test_the_origin_section_shows_what_the_file_records():
    bare = origin(LinearModel.from_weights([1.0]))
    told = words(origin_section(bare, None).body)
    assert "ranker unknown" in told
    assert "none recorded" in told
    for absent in ("Train it again", "Make this page again", "trained with", "before the weights"):
        assert absent not in told
    parameters = {"ranker": "least-squares", "l2": 0.5, "scale": "standard", "metric": "ndcg@10"}
    story = {"rows": 1234, "sources": ["a.txt"], "empty": "", "nothing": None, "list": []}
    model = LinearModel.from_weights(
        [1.0], transforms=(ListRange(),), parameters=parameters,
        provenance={"rankine": "0.3", "training": story},
    )  # fmt: skip
    data = SimpleNamespace(sources=("b.txt", "a.txt"))
    found = origin(model, data)
    assert found.seen == ["a.txt"]
    assert origin(model).seen == []
    told = words(origin_section(found, "rankine report x").body)
    for part in ("ranker least-squares", "trained with rankine 0.3", "rows 1,234", "sources a.txt",
                 "transforms list_range", "Make this page again rankine report x",
                 "Train it again rankine train a.txt", "at their defaults", model.digest,
                 f"rankine {rankine.__version__}"):  # fmt: skip
        assert part in told
    for absent in ("empty", "nothing", "unknown"):
        assert absent not in told
    named = dict(_parameters(found))
    usual = {key for key, value in parameters.items() if found.defaults.get(key) == value}
    assert usual
    assert set(named) == {*parameters, "at their defaults"} - {"ranker"} - usual
    assert all(f"{key} = " in words(named["at their defaults"]) for key in usual)
    strange = replace(found, defaults={}, parameters={"new": 1})
    assert list(dict(_parameters(strange))) == ["new"]


def test_parameter_values_are_readable():
    shown = {
        True: "True", None: "none", "text": "text", 12345: "12,345", 0.1: "0.1",
    }  # fmt: skip
    for value, expected in shown.items():
        assert words(_value(value)) == expected
    assert words(_value([1, None, 0.5])) == "1, none, 0.5"
    assert words(_value(list(range(30)))).endswith(", 19")
    assert words(_value({"a": 1, "b": None})) == "a: 1, b: none"
    assert words(_value(1j)) == "1j"


def test_pages_without_a_model_show_command_and_notes():
    assert command_section(None) == []
    (section,) = command_section("rankine compare a b", lead="Rules.")
    assert words(section.body) == "Make this page again rankine compare a b"
    assert section.lead == "Rules."
    (section,) = command_section(None, notes=[Markup("<p>Mind this</p>")])
    assert words(section.body) == "Mind this"


def test_the_training_command_reads_the_same_rows(tmp_path):
    rows = {"q": [1, 1, 2, 2], "a": ["x", "y", "x", "z"], "t": [1, 1, 2, 2], "y": [1, 0, 0, 1]}
    pq.write_table(pa.table(rows), tmp_path / "log.parquet")
    log = logs.scan(tmp_path / "log.parquet", query="q", label="y", time="t", categorical=["a"])
    model = rankine.ElasticRanker(random_state=0).fit(log).to_model()
    training = {**model.provenance["training"], "where": "t > 0", "split": "time:1,1"}
    model = replace(model, provenance={**model.provenance, "training": training})
    given = dict(itertools.pairwise(shlex.split(training_command(model))))
    assert (given["--where"], given["--split"]) == ("t > 0", "time:1,1")
    # History features have no options: the schema of the model is a file.
    history = {"n": {"by": ["a"], "count": "y"}}
    log = logs.scan(tmp_path / "log.parquet", query="q", label="y", time="t", history=history)
    model = rankine.ElasticRanker(random_state=0).fit(log).to_model()
    first, second = training_command(model).split(" && ")
    assert first == "rankine inspect MODEL --schema > schema.toml"
    assert "--schema schema.toml" in second
    assert "--history" not in second
