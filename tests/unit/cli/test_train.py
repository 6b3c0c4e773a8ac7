"""``rankine train``: the same options on files, streams and raw logs."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from distributed_data import table, write_files
from typer.testing import CliRunner

import rankine
from rankine import Dataset, shop_log
from rankine.cli import _console
from rankine.cli._reading import ReadingOptions
from rankine.cli._train_options import ClickCorrectionOptions, ClusterOptions
from rankine.cli.main import app, find_commands
from rankine.cli.train import (
    ClickCorrection,
    TrainingJob,
    _evaluate_parts,
    _next_commands,
    _summary_rows,
)
from rankine.core.errors import LabelError, ParameterError
from rankine.core.specs import LogColumns
from rankine.logs.clicks import coec, read_clicks
from rankine.logs.schema import LogSchema
from rankine.logs.simulation import simulate
from rankine.model import LinearModel

find_commands()


def run(*words):
    return CliRunner().invoke(app, ["train", *map(str, words)])


def train(*words):
    done = run(*words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Training and evaluation lists as LETOR text."""
    folder = tmp_path_factory.mktemp("train")
    paths = [folder / "train.txt", folder / "valid.txt"]
    for seed, path in enumerate(paths):
        data = shop_log(80 - 50 * seed, random_state=seed, list_length=6)
        replace(data, columns={}, position=None).save(path)
    return paths


@pytest.mark.cli
@pytest.mark.parametrize("how", [[], ["--stream"], ["--dask", "here"]])
def test_early_stopping_works_wherever_the_lists_are(files, tmp_path, how):
    lists, valid = files
    words = [lists, "--ranker", "elastic", "--set", "eta0=10", "--valid", valid, *how]
    words += ["--early-stopping", "1", "--n-passes", "9", "--out", tmp_path / "m.rankine"]
    result = train(*words)
    assert result["stop_reason"] == "early_stopping"
    assert 0 < result["valid"] <= 1


@pytest.mark.cli
def test_errors_name_the_option_or_the_reason(files, tmp_path):
    lists, _ = files
    out = ["--out", tmp_path / "m.rankine"]
    for words, reason in (
        (["--ranker", "ranksvm", "--stream"], "RankSVM cannot be fitted to a stream"),
        (["--early-stopping", "2"], "Add --valid FILE"),
        (["--ranker", "elastic", "--resume"], "--resume: needs --checkpoint"),
        (["--ranker", "elastic", "--every", "9"], "--every: needs --checkpoint"),
        (["--ranker", "spd", "--n-passes", "0"], "--n-passes: "),
        (["--hash-bits", "9"], "--hash-bits: "),
        (["--bins", "9"], "--bins: "),
        (["--partition-mb", "9"], "--partition-mb: needs --dask"),
        (["--timeout", "9"], "--timeout: needs --dask"),
        (["--repartition"], "--repartition: needs --dask"),
        (["--repartition-to", "x"], "--repartition-to: needs --dask"),
        (["--every", "0"], "--every: needs --checkpoint"),
        (["--label", "clicked"], "--label: 'clicked' names a column"),
        (["--columns", "brand"], "a text file has none"),
    ):
        done = run(lists, *words, *out)
        assert done.exit_code != 0
        assert reason in str(done.exception) + done.output, words


@pytest.mark.cli
@pytest.mark.parametrize("sampling", ["query", "uniform"])
def test_queries_of_no_weight_are_left_out_of_a_stream(tmp_path, sampling):
    """Once out-of-bounds reads in a kernel."""
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(40), 5)
    columns = {"qid": qid, "label": rng.integers(0, 3, 200), "a": rng.normal(size=200)}
    columns["weight"] = np.where(qid % 3 == 0, 0.0, rng.random(200))
    pq.write_table(pa.table(columns), tmp_path / "f.parquet")
    words = [tmp_path / "f.parquet", "--ranker", "spd", "--stream", "--set", f"sampling={sampling}"]
    words += ["--set", "n_steps=2000"]
    result = train(*words, "--out", tmp_path / "m.rankine")
    assert result["queries_used"] <= 27


@pytest.mark.cli
def test_a_stream_goes_on_from_a_model_and_from_a_checkpoint(files, tmp_path):
    lists, _ = files
    kept = ["--stream", "--checkpoint", tmp_path / "kept", "--every", "500"]
    words = [lists, "--ranker", "spd", "--set", "n_steps=2000"]
    first = train(*words, *kept, "--out", tmp_path / "a.rankine")
    again = train(*words, *kept, "--resume", "--out", tmp_path / "b.rankine")
    assert again["digest"] == first["digest"]
    warm = ["--stream", "--warm-start", tmp_path / "a.rankine"]
    assert train(*words, *warm, "--out", tmp_path / "c.rankine")["n_iter"] == 4000


@pytest.mark.cli
def test_a_pipe_of_mixed_queries_is_read_once(files, tmp_path):
    """Sorted by label, so that no query is in one piece."""
    lists, valid = files
    lines = sorted(lists.read_bytes().splitlines(keepends=True))
    words = ["train", "-", "--stream", "--set", "sampling=reservoir", "--set", "n_steps=500"]
    words += ["--n-features", len(shop_log(1).feature_names), "--valid", valid]
    words += ["--out", tmp_path / "m.rankine", "--json"]
    done = CliRunner().invoke(app, list(map(str, words)), input=b"".join(lines))
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["certificate"]["stream_rows"] == result["rows"] == len(lines)
    assert result["queries"] == 80
    assert 0 < result["valid"] <= 1
    small = [*words, "--set", "buffer_rows=100"]
    done = CliRunner().invoke(app, list(map(str, small)), input=b"".join(lines))
    assert 100 <= json.loads(done.stdout)["rows"] <= 112
    refused = run(lists, "--set", "sampling=reservoir", "--out", tmp_path / "x.rankine")
    assert "these are rows in memory" in str(refused.exception) + refused.output


@pytest.mark.cli
@pytest.mark.parametrize("ranker", ["elastic", "spd", "ranksvm"])
def test_raw_logs_take_the_same_options(tmp_path, ranker):
    paths = [tmp_path / "log.parquet", tmp_path / "later.parquet"]
    for seed, path in enumerate(paths):
        rng = np.random.default_rng(seed)
        n = 60 * 5
        price = rng.lognormal(size=n)
        columns = {
            "session": np.repeat(np.arange(60), 5),
            "brand": rng.choice(["acme", "zed", "tyrell"], n),
            "price": price,
            "clicked": (price + rng.normal(size=n) > 1.5).astype(int),
        }
        pq.write_table(pa.table(columns), path)
    words = [paths[0], "--ranker", ranker, "--query", "session", "--label", "clicked"]
    words += ["--categorical", "brand", "--numeric", "price", "--hash-bits", "8"]
    watched = train(
        *words, "--valid", paths[1], "--early-stopping", "2", "--out", tmp_path / "m.rankine"
    )
    assert 0 < watched["valid"] <= 1
    assert watched["stop_reason"] in ("early_stopping", "passes", "steps", "converged")
    both = run(*words, "--valid", paths[1], "--split", "time:0.8,0.2", "--out", tmp_path / "x")
    assert both.exception.parameter == "--valid"


@pytest.fixture(scope="module")
def clicks(tmp_path_factory):
    """A simulated log with positions, its propensities, and the same rows as a file of features."""
    folder = tmp_path_factory.mktemp("clicks")
    log = simulate(1500, exploration=0.5, random_state=0)
    pq.write_table(log.to_table(features=True), folder / "log.parquet")
    log.to_dataset().save(folder / "rows.parquet")
    (folder / "looks.json").write_text('{"propensity": [1.0, 0.5, 0.25]}')
    return folder


def raw(folder):
    names = pq.read_schema(folder / "log.parquet").names
    numeric = [name for name in names if name.startswith("x")]
    return [folder / "log.parquet", "--query", "session", "--numeric", ",".join(numeric[:5])]


@pytest.mark.cli
@pytest.mark.parametrize("ranker", ["ranksvm", "elastic"])
def test_clicks_are_corrected_on_raw_logs(clicks, tmp_path, ranker):
    words = [*raw(clicks), "--ranker", ranker, "--out", tmp_path / "m.rankine"]
    clicked, where = ["--label", "clicked"], ["--position", "position"]
    pairs, looks = ["--item", "item", "--search", "search"], ["--propensity", clicks / "looks.json"]
    ways = {
        "plain": clicked,
        "weights": [*clicked, *where, *looks],
        "auto": [*clicked, *where, "--propensity", "auto", *pairs],
        "offset": [*clicked, *where, "--position-offset", "5"],
        "coec": ["--label", "coec", *where, *looks, *pairs],
    }
    found = {name: train(*words, *more) for name, more in ways.items()}
    assert len({one["digest"] for one in found.values()}) == len(found)
    assert {one["n_features"] for one in found.values()} == {5}
    train(*words, *ways["weights"])
    kept = LinearModel.load(tmp_path / "m.rankine").parameters
    assert kept["propensity"] == [1.0, 0.5, 0.25]
    assert kept["log"]["label"] == "clicked"


@pytest.mark.cli
@pytest.mark.parametrize("how", [[], ["--stream"], ["--dask", "here"]])
def test_clicks_are_corrected_on_files(clicks, tmp_path, how):
    words = [clicks / "rows.parquet", "--ranker", "elastic", *how, "--out", tmp_path / "m.rankine"]
    plain = train(*words)
    for more in (["--propensity", clicks / "looks.json"], ["--position-offset", "5"]):
        corrected = train(*words, *more)
        assert corrected["digest"] != plain["digest"]
        assert corrected["n_features"] == plain["n_features"]


@pytest.mark.cli
@pytest.mark.parametrize(
    ("ranker", "how"),
    [
        ("least-squares", []),
        ("least-squares", ["--dask", "here", "--partition-mb", "1"]),
        ("elastic", []),
        ("elastic", ["--stream"]),
        ("elastic", ["--dask", "here", "--partition-mb", "1"]),
    ],
)
def test_clicks_over_expected_clicks_are_labels_like_any(clicks, tmp_path, ranker, how):
    data = rankine.load(clicks / "rows.parquet", columns=("item", "search"))
    pairs = read_clicks(data, query="qid", label="label", item="item", search="search")
    labelled = replace(data, y=coec(pairs, (1.0, 0.5, 0.25)))
    labelled.save(tmp_path / "labelled.parquet")
    words = ["--ranker", ranker, *how, "--out", tmp_path / "m.rankine"]
    train(tmp_path / "labelled.parquet", *words)
    expected = LinearModel.load(tmp_path / "m.rankine").to_dense()
    counted = ["--label", "coec(label)", "--item", "item", "--search", "search"]
    looks = ["--position", "position", "--propensity", clicks / "looks.json"]
    train(clicks / "rows.parquet", *counted, *looks, *words)
    assert np.array_equal(LinearModel.load(tmp_path / "m.rankine").to_dense(), expected)


@pytest.mark.cli
@pytest.mark.parametrize("kind", ["log", "rows"])
def test_click_corrections_are_estimated_from_the_training_part_only(clicks, tmp_path, kind):
    names = ["session", "clicked"] if kind == "log" else ["qid", "label"]
    lists = pq.read_table(clicks / f"{kind}.parquet")
    first = pc.less(lists[names[0]], 1200)
    pq.write_table(lists.filter(first), tmp_path / "first.parquet")
    words = ["--query", names[0], "--ranker", "least-squares", "--position", "position"]
    words += ["--item", "item", "--search", "search", "--propensity", "auto"]
    words += ["--out", tmp_path / "m", *(["--numeric", "x1,x2,x3"] if kind == "log" else [])]
    for label in (names[1], f"coec({names[1]})"):
        held = train(
            clicks / f"{kind}.parquet", *words, "--label", label, "--split", "time:0.8,0.2"
        )
        coef = LinearModel.load(tmp_path / "m").to_dense()
        train(tmp_path / "first.parquet", *words, "--label", label)
        np.testing.assert_allclose(coef, LinearModel.load(tmp_path / "m").to_dense(), rtol=1e-9)
        assert 0 < held["valid"] < 1


@pytest.mark.cli
def test_options_of_clicks_that_would_be_ignored_are_refused(clicks, tmp_path):
    words = [*raw(clicks), "--label", "clicked", "--out", tmp_path / "m.rankine"]
    looks = ["--propensity", clicks / "looks.json"]
    for more, reasons in (
        (["--position", "position"], ("--position: ", "--propensity FILE", "--position-offset 10")),
        (["--max-weight", "5"], ("--max-weight: ",)),
        (["--item", "item", *looks], ("--item: needs",)),
        (["--propensity", "auto"], ("--item item",)),
        (["--label", "coec"], ("--item item",)),
        (["--context", "device", *looks], ("--context: needs",)),
    ):
        done = run(*words, *more)
        said = str(done.exception) + done.output
        assert done.exit_code != 0
        assert all(reason in said for reason in reasons), (more, said)


@pytest.mark.cli
def test_missing_values_of_a_raw_log_are_counted(tmp_path):
    price = [1.0, None, 3.0, 4.0, None, 6.0]
    columns = {"session": [1, 1, 1, 2, 2, 2], "price": price, "clicked": [1, 0, 0, 1, 0, 0]}
    columns |= {"brand": ["a", None, "b", "a", "b", "c"], "stars": [1, 2, 3, 4, 5, 6]}
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    words = [tmp_path / "log.parquet", "--query", "session", "--label", "clicked", "--numeric"]
    words += ["price,stars", "--categorical", "brand", "--hash-bits", "6", "--out", tmp_path / "m"]
    strict = [*words, "--missing", "error", "--ranker", "ranksvm"]
    assert "'price'] is missing" in str(run(*strict).exception)
    words += ["--missing", "mean"]
    assert train(*words, "--ranker", "ranksvm")["nulls"] == 3
    assert "3 values" in run(*words, "--ranker", "elastic").output


def test_undefined_training_metrics_are_left_out():
    model = LinearModel.from_weights([1.0, 2.0])
    X, qid = np.random.default_rng(0).normal(size=(6, 2)), [1, 1, 1, 2, 2, 2]
    parts = {
        name: Dataset.from_arrays(X, y, qid)
        for name, y in (("train", [-1, 0, 2, 0.5, 1, 0]), ("valid", [0, 1, 2, 0, 1, 0]))
    }
    assert set(_evaluate_parts("err@10", model, parts)) == {"valid"}


@pytest.mark.cli
def test_split_queries_are_grouped_beside_the_files_or_where_told(tmp_path):
    for k in range(2):
        pq.write_table(table(9, k, first_query=8 * k), tmp_path / f"{k}.parquet")
    words = [tmp_path / "*.parquet", "--ranker", "least-squares", "--dask", "here"]
    words += ["--out", tmp_path / "m.rankine", "--partition-mb", "1"]
    assert "query 8 has rows in" in str(run(*words).exception)
    done = run(*words, "--repartition")
    assert done.exit_code == 0, done.output
    target = tmp_path / "rankine-partitions" / "rows.parquet"
    total = rankine.load(str(tmp_path / "*.parquet")).n_rows
    assert f"{total:,} rows of 17 queries grouped in {target}" in done.stderr
    assert "1 partitions of 1 files" in done.stderr
    kept = ["--repartition-to", tmp_path / "kept", "--checkpoint", tmp_path / "state"]
    first = run(*words, *kept)
    assert "grouped in" in first.stderr
    again = run(*words, *kept, "--resume")
    assert again.exit_code == 0, again.output
    assert "grouped in" not in again.stderr
    afresh = run(*words, "--repartition-to", tmp_path / "kept")
    assert "grouped in" in afresh.stderr
    split = run(tmp_path / "kept" / "rows.parquet", *words[1:], "--split", "time:0.8,0.2")
    assert isinstance(split.exception, ParameterError)
    assert split.exception.parameter == "--split"


def test_the_summary_shows_what_the_result_contains(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "150")
    result = {
        "rows": 1234, "queries": 30, "queries_used": 28, "n_iter": 7, "seconds": 1.5,
        "stop_reason": "converged", "compile_seconds": 0.0, "scaling": {"kind": "none"},
        "ranker": "ranksvm", "certificate": {"gap": 1e-7}, "nnz": 3, "n_features": 5,
        "metric": "map", "model": "m.rankine", "digest": "0123456789abcdef", "valid": 0.25,
    }  # fmt: skip

    def shown(**more):
        _console.print_values(_summary_rows({**result, **more}))
        return {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}

    plain = shown()
    assert "1,234 rows, 30 queries (2 without pairs)" in plain["data"]
    assert plain["data"].rstrip().endswith("pairs)")
    assert "3 of 5 are not zero" in plain["weights"]
    assert "m.rankine  (0123456789ab)" in plain["model"]
    assert "0.2500" in plain["map"]
    assert plain.keys().isdisjoint({"partitions", "missing", "compiling"})
    full = shown(pairs=99, partitions=4, nulls=2, compile_seconds=2.0)
    assert full["data"].rstrip().endswith(", 99 pairs")
    assert full["partitions"].split()[1] == "4"
    assert full["missing"].split()[1:] == ["2", "values"]
    assert "2.00 s, once" in full["compiling"]
    assert "missing" not in shown(nulls=0)


@pytest.mark.parametrize(
    ("valid", "options", "paths", "held_out"),
    [
        (None, {}, ["a"], ["TEST_DATA"]),
        ("v", {}, ["a"], ["v"]),
        ("v", {"where": "d > 1", "query": "s"}, ["a"], ["v", "--where", "d > 1", "--query", "s"]),
        (None, {"split": "time:8,2"}, ["a", "b"], ["a", "b", "--split", "time:8,2"]),
        (
            None,
            {"split": "time:1,1", "time": "day"},
            ["a"],
            ["a", "--split", "time:1,1", "--time", "day"],
        ),
        (None, {"split": "time:1,1"}, ["-"], ["TEST_DATA"]),
    ],
)
def test_the_next_command_judges_on_held_out_lists(valid, options, paths, held_out):
    reading = ReadingOptions(**options)
    job = SimpleNamespace(
        valid=valid,
        paths=paths,
        reading=reading,
        schema=None,
        out="m",
        state_folder=None,
        intervals=0,
    )
    assert _next_commands(job)[0] == ["rankine", "report", "m", *held_out]


@pytest.mark.cli
def test_a_training_prints_next_commands_and_keeps_base_and_fingerprint(files, tmp_path):
    lists, valid = files
    words = [lists, "--ranker", "least-squares", "--out", tmp_path / "m.rankine"]
    assert f"rankine report {tmp_path / 'm.rankine'} TEST_DATA" in run(*words).stderr
    assert f"m.rankine {valid}" in run(*words, "--valid", valid).stderr
    kept = LinearModel.load(tmp_path / "m.rankine")
    assert kept.base == 1
    assert kept.provenance["training"]["fingerprint"] == rankine.load(lists).fingerprint
    (tmp_path / "zero.txt").write_text("1 qid:1 0:1 1:2\n0 qid:1 0:2 1:1\n")
    train(tmp_path / "zero.txt", *words[1:], "--base", "0")
    assert LinearModel.load(tmp_path / "m.rankine").base == 0


def test_a_part_without_valued_queries_has_a_nan_mean():
    model = LinearModel.from_weights([1.0])
    X = np.array([[1.0], [2.0], [3.0], [4.0]])
    parts = {
        "valid": Dataset.from_arrays(X, [0, 0, 0, 1], [1, 1, 2, 2]),
        "test": Dataset.from_arrays(X, [0, 0, 0, 0], [1, 1, 2, 2]),
    }
    found = _evaluate_parts("map:no_relevant=skip", model, parts)
    assert found["valid"] == 1.0
    assert np.isnan(found["test"])
    strange = {"valid": Dataset.from_arrays(X, [-1, 0.5, 0, 1], [1, 1, 2, 2])}
    with pytest.raises(LabelError):
        _evaluate_parts("err@10", model, strange)


class CapturedError(Exception):
    """Ends a command after its arguments were captured."""


def asking(found):
    def ask(*given, **options):
        found.update(options, given=given)
        raise CapturedError

    return ask


def test_click_columns_are_taken_from_options_then_from_the_log(monkeypatch):
    asked, told = {}, []

    def estimate(part, **names):
        asked.update(names, part=part)
        return "looks"

    def labels(part, label, looks, **names):
        return part, label, looks, names["item"]

    monkeypatch.setattr("rankine.logs.propensity.estimate_propensity", estimate)
    monkeypatch.setattr("rankine.logs.clicks.CoecLabel", labels)
    monkeypatch.setattr("rankine.logs.clicks.relabelled", lambda part, label: label)
    estimator = SimpleNamespace(set_params=lambda **given: told.append(given))
    schema = LogSchema("list", "bought", ("x",), position="place", item="sku", search="words")
    bare, log = SimpleNamespace(), SimpleNamespace(schema=schema)

    def names(correction, source, reading):
        asked.clear()
        correction.apply("part", source, reading, estimator)
        return [asked[name] for name in ("query", "position", "item", "search", "label")]

    auto = ClickCorrection(ClickCorrectionOptions(propensity="auto", context="device"), None, None)
    assert names(auto, bare, ReadingOptions()) == ["qid", "position", None, None, "label"]
    assert (asked["n_resamples"], asked["context"]) == (0, "device")
    assert told == [{"propensity": "looks"}]
    named = ReadingOptions(query="q", label="y")
    assert names(auto, bare, named) == ["q", "position", None, None, "y"]
    assert names(auto, log, named) == ["list", "place", "sku", "words", "bought"]
    own = ClickCorrectionOptions(position="p", item="i", search="s", propensity="auto")
    assert names(ClickCorrection(own, None, None), log, named) == ["list", "p", "i", "s", "bought"]
    told.clear()
    counted = ClickCorrection(own, "clicks", None)
    assert counted.apply("part", log, named, estimator) == ("part", "clicks", "looks", "i")
    assert (told, asked["label"]) == ([], "clicks")
    given = ClickCorrection(ClickCorrectionOptions(item="i"), "clicks", "known")
    assert given.apply("part", bare, named, estimator) == ("part", "clicks", "known", "i")
    none = ClickCorrection(ClickCorrectionOptions(item="i"), "clicks", None)
    assert none.apply("part", bare, named, estimator) == ("part", "clicks", (), "i")
    assert (
        ClickCorrection(ClickCorrectionOptions(), None, None).apply("part", bare, named, estimator)
        == "part"
    )


def test_columns_that_a_correction_reads():
    looks = SimpleNamespace(context="device")
    for options, given, columns in (
        ({}, None, ()),
        ({"item": "i", "search": "s"}, None, ("i", "s")),
        ({"item": "docid", "search": "s"}, looks, ("s", "device")),
        ({"context": "c"}, looks, ("c",)),
    ):
        assert ClickCorrection(ClickCorrectionOptions(**options), None, given).columns == columns


def job(**fields):
    """A training whose fields are those that a test needs."""
    defaults = {
        "estimator": SimpleNamespace(metric="ndcg@10"),
        "paths": [],
        "out": "",
        "valid": None,
        "start": None,
        "reading": ReadingOptions(),
        "schema": None,
        "correction": ClickCorrection(ClickCorrectionOptions(), None, None),
        "cluster": ClusterOptions(),
        "checkpoints": {},
        "stream": False,
    }
    return TrainingJob(**{**defaults, **fields})


def test_the_source_has_the_features_of_the_start_model():
    asked = {}
    spec = LogColumns(numeric=("price",))
    log = {"query": "session", "numeric": ["price"]}
    raw = LinearModel.from_weights([1.0], transforms=(spec,), parameters={"log": log})
    flat = LinearModel.from_weights([1.0, 2.0])
    schema = LogSchema("session", numeric=("price",))
    for start, log_schema, stream, streams, like, width in (
        (None, None, False, False, None, None),
        (None, None, True, True, None, None),
        (None, schema, False, True, None, None),
        (flat, None, False, False, None, 2),
        (flat, None, True, True, None, 2),
        (flat, schema, False, True, None, None),
        (raw, schema, False, True, raw, None),
    ):
        training = job(
            start=start,
            schema=log_schema,
            reading=SimpleNamespace(open=asking(asked)),
            correction=ClickCorrection(ClickCorrectionOptions(position="p", item="i"), None, None),
        )
        asked.clear()
        with pytest.raises(CapturedError):
            training._read(["a"], stream=stream)
        assert (asked["stream"], asked.get("like")) == (streams, like)
        assert asked.get("log_schema") == log_schema
        assert (asked["columns"], asked["position"], asked["given"]) == (("i",), "p", (["a"],))
        assert asked.get("n_features") == width


@pytest.mark.cli
def test_options_reach_the_ranker_and_the_training(files, tmp_path, monkeypatch):
    jobs = []

    def capture(self):
        jobs.append(self)
        raise CapturedError

    monkeypatch.setattr("rankine.cli.train.TrainingJob.run", capture)
    propensity = tmp_path / "propensity.json"
    propensity.write_text('{"propensity": [1.0, 0.5]}')
    out = ["--out", tmp_path / "m"]
    weights = ["--position", "p", "--propensity", propensity, "--max-weight", "3"]
    for words, stream, parameters in (
        ([], False, {"early_stopping": None, "propensity": None}),
        (["--stream"], True, {}),
        (["--ranker", "elastic", "--checkpoint", tmp_path / "kept"], True, {}),
        (["--early-stopping", "3", "--split", "time:0.8,0.2"], False, {"early_stopping": 3}),
        (weights, False, {"max_weight": 3}),
        (["--n-passes", "4", "--ranker", "elastic"], False, {"n_passes": 4}),
        (["--set", "l2=0.5", "--seed", "7"], False, {"l2": 0.5, "random_state": 7}),
    ):
        assert isinstance(run(files[0], *words, *out).exception, CapturedError), words
        assert (jobs[-1].stream, jobs[-1].schema) == (stream, None)
        found = jobs[-1].estimator.get_params()
        assert {name: found[name] for name in parameters} == parameters
    done = run(files[0], "--set", "early_stopping=2", *out)
    assert done.exception.parameter == "--set early_stopping"
    auto = ["--propensity", "auto", "--position", "p", "--item", "i", "--search", "s"]
    log = ["--query", "q", "--label", "y", "--numeric", "x"]
    assert isinstance(run(files[0], *auto, *out).exception, CapturedError)
    assert jobs[-1].schema is None
    assert isinstance(run(files[0], *auto, *log, *out).exception, CapturedError)
    schema = jobs[-1].schema
    assert (schema.position, schema.item, schema.search, schema.label) == ("p", "i", "s", "y")
    counted = ["--label", "coec(y)", "--query", "q", "--numeric", "x", "--item", "i"]
    assert isinstance(run(files[0], *counted, *out).exception, CapturedError)
    assert (jobs[-1].schema.label, jobs[-1].correction.click_formula) == ("y", "y")


def test_partitions_have_their_size_and_a_corrected_log(monkeypatch):
    asked = {}
    monkeypatch.setattr("rankine.distributed.scan", asking(asked))
    monkeypatch.setattr(
        "rankine.cli.train.TrainingJob._read", lambda self, paths, stream: (paths, stream)
    )
    monkeypatch.setattr(
        "rankine.cli.train.TrainingJob._correct",
        lambda self, log, source: ("corrected", log, source),
    )
    for options, size, seconds in (
        ({}, 64, 600.0),
        ({"partition_mb": 3, "timeout": 5.0}, 3, 5.0),
    ):
        training = job(paths=["a"], cluster=ClusterOptions(dask="here", **options))
        with pytest.raises(CapturedError), training._open_source():
            pass
        assert (asked["partition_bytes"], asked["timeout"]) == (size * 1024 * 1024, seconds)
        assert asked["given"] == (("corrected", (["a"], True), (["a"], True)),)


def test_grouped_rows_are_written_beside_the_first_file(tmp_path, monkeypatch):
    grouped = []

    def repartition(paths, target, **options):
        grouped.append((paths, target, options))
        return SimpleNamespace(rows=1, queries=1)

    monkeypatch.setattr("rankine.distributed.repartition", repartition)
    paths = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        paths.append(str(tmp_path / name / "rows.txt"))
        (tmp_path / name / "rows.txt").write_text("1 qid:1 1:1\n")
    options = SimpleNamespace(query="q", format="letor", label="y")
    reading = SimpleNamespace(open=lambda *_, **__: SimpleNamespace(options=options))
    cluster = ClusterOptions(dask="here", repartition=True)
    found = job(paths=paths, reading=reading, cluster=cluster)._group_rows()
    assert found == str(tmp_path / "one" / "rankine-partitions" / "rows.parquet")
    assert grouped == [(paths, Path(found), vars(options))]


COMMAND = [sys.executable, "-c", "from rankine.cli.main import run; run()", "train"]


def train_process(pattern, out, *arguments):
    command = [*COMMAND, str(pattern), "--out", str(out), "--json", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.fixture
def pattern(tmp_path):
    write_files(tmp_path, 2, n_queries=20)
    return tmp_path / "*.parquet"


@pytest.mark.cli
def test_checkpoint_and_resume_give_the_same_model(pattern, tmp_path):
    options = ("--ranker", "least-squares", "--dask", "here", "--checkpoint", tmp_path / "kept")
    first = train_process(pattern, tmp_path / "a.rankine", *options)
    assert first.returncode == 0, first.stderr
    assert "2 partitions of 2 files" in first.stderr
    again = train_process(pattern, tmp_path / "b.rankine", *options)
    assert again.returncode == 2
    assert "already holds checkpoints" in again.stderr
    resumed = train_process(pattern, tmp_path / "b.rankine", *options, "--resume")
    assert json.loads(resumed.stdout)["digest"] == json.loads(first.stdout)["digest"]


@pytest.mark.cli
def test_a_split_query_is_named_and_repartition_mends_it(tmp_path):
    for k in range(2):
        pq.write_table(table(9, k, first_query=8 * k), tmp_path / f"{k}.parquet")
    options = ("--ranker", "least-squares", "--dask", "here")
    split = train_process(tmp_path / "*.parquet", tmp_path / "a.rankine", *options)
    assert split.returncode == 2
    assert "query 8 has rows in" in split.stderr
    assert "--repartition" in split.stderr
    mended = train_process(
        tmp_path / "*.parquet", tmp_path / "a.rankine", *options, "--repartition"
    )
    assert mended.returncode == 0, mended.stderr
    assert json.loads(mended.stdout)["queries"] == 17
    model = LinearModel.load(tmp_path / "a.rankine")
    assert model.provenance["training"]["partitions"] == 1


@pytest.mark.cli
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--repartition"], "--repartition: needs --dask"),
        (["--dask", "here", "--stream"], "--stream: "),
        (["--dask", "here", "--numeric", "f0"], "query"),
        (["--dask", "nowhere"], "cannot read the cluster"),
        (["--dask", "here", "--resume"], "--resume: needs --checkpoint"),
    ],
    ids=["repartition", "stream", "log", "address", "resume"],
)
def test_options_without_effect_are_rejected(options, reason, pattern, tmp_path):
    done = train_process(pattern, tmp_path / "a.rankine", *options)
    assert done.returncode == 2
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.dask
@pytest.mark.timeout(400)
def test_a_local_cluster_gives_the_model_of_this_process(pattern, tmp_path):
    made = {}
    for where in ("here", "local:2"):
        done = train_process(
            pattern, tmp_path / "m.rankine", "--ranker", "ranksvm", "--dask", where,
            "--set", "loss=squared_hinge",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        made[where] = json.loads(done.stdout)["digest"]
    assert made["here"] == made["local:2"]


@pytest.mark.cli
def test_a_warm_start_takes_ranker_and_settings_from_the_model(files, tmp_path):
    lists, today = files
    out = tmp_path / "m.rankine"
    words = ["--ranker", "elastic", "--missing", "indicator", "--metric", "recall@3", "--seed", "7"]
    train(lists, *words, "--set", "l1=1e-3", "--out", out)
    warm = train(today, "--warm-start", out, "--out", tmp_path / "w.rankine")
    assert warm["metric"] == "recall@3"
    parameters = LinearModel.load(tmp_path / "w.rankine").parameters
    assert parameters == LinearModel.load(out).parameters
    # What is given comes first, also with the value of the option's default.
    changed = ["--metric", "ndcg@10", "--set", "l1=0.0", "--seed", "0"]
    train(today, "--warm-start", out, *changed, "--out", tmp_path / "w.rankine")
    expected = {**parameters, "metric": "ndcg@10", "l1": 0.0, "random_state": 0}
    assert LinearModel.load(tmp_path / "w.rankine").parameters == expected
    done = run(today, "--warm-start", out, "--missing", "zero", "--out", tmp_path / "w.rankine")
    assert "--missing: the model to start from was trained with missing='indicator'" in str(
        done.exception
    )
    done = run(today, "--warm-start", out, "--scale", "query", "--out", tmp_path / "w.rankine")
    assert str(done.exception).startswith("--scale: ")
    # Another ranker shares some of them.
    train(today, "--warm-start", out, "--ranker", "spd", "--out", tmp_path / "w.rankine")
    spd = LinearModel.load(tmp_path / "w.rankine").parameters
    assert (spd["ranker"], spd["missing"], spd["metric"]) == ("spd", "indicator", "recall@3")


@pytest.mark.cli
def test_a_warm_start_of_tables_needs_no_options(files, tmp_path):
    lists, today = files
    out = tmp_path / "m.rankine"
    train(lists, "--ranker", "additive", "--set", "pairs=0", "--out", out)
    warm = train(today, "--warm-start", out, "--out", tmp_path / "w.rankine")
    assert warm["ranker"] == "additive"
    words = [today, "--warm-start", out, "--ranker", "elastic", "--out", tmp_path / "w.rankine"]
    assert str(run(*words).exception).startswith("--ranker: the model to start from")


@pytest.mark.cli
def test_comparisons_are_judged_by_pairwise_error(tmp_path):
    (tmp_path / "votes.csv").write_text("winner,loser\na,b\nb,c\na,c\nb,a\n")
    words = [tmp_path / "votes.csv", "--pairs", "winner,loser", "--ranker", "ranksvm"]
    assert train(*words, "--out", tmp_path / "m")["metric"] == "pairwise_error"
    assert train(*words, "--metric", "map", "--out", tmp_path / "m")["metric"] == "map"
