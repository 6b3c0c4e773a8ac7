"""From day to day on the command line: train, evaluate, explain, train on, with one state."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import rankine
from rankine.cli.main import app, find_commands
from rankine.core.errors import ExportError
from rankine.export import export
from rankine.logs.simulation import market_log

find_commands()
pytestmark = pytest.mark.cli
SCHEMA = """
query = "session"
label = "clicked"
time = "ts"
position = "position"
item = "product_id"
numeric = ["price"]

[history.item_rate]
rate = "clicked"
over = "examination"
by = "product_id"
half_life = "7d"

[history.user_brand]
count = "clicked"
by = ["user_id", "brand"]
"""


def run(*words):
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def fail(*words):
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code != 0
    return f"{getattr(result.exception, 'parameter', '')}: {result.exception}"


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Files of two months, their schema, and a model with the state after the first month."""
    folder = tmp_path_factory.mktemp("shop")
    log = pa.table(market_log(600, random_state=2))
    pq.write_table(log, folder / "log.parquet")
    pq.write_table(log[:4000], folder / "may.parquet")
    pq.write_table(log[4000:], folder / "june.parquet")
    (folder / "shop.toml").write_text(SCHEMA)
    words = ["train", folder / "may.parquet", "--schema", folder / "shop.toml"]
    words += ["--ranker", "ranksvm", "--propensity", "auto", "--state", folder / "state"]
    run(*words, "--out", folder / "may.rankine")
    return folder


def test_a_later_log_needs_the_state(shop):
    model, june = shop / "may.rankine", shop / "june.parquet"
    for command in ("evaluate", "predict", "watch"):
        assert fail(command, model, june).startswith("--state: ")
    value = json.loads(run("evaluate", model, june, "--state", shop / "state", "--json"))
    whole = json.loads(
        run("evaluate", model, shop / "log.parquet", "--split", "time:2/3,1/3", "--json")
    )
    assert value["metrics"] == whole["metrics"]  # with the state as without a gap
    assert "times the overall rate" in run(
        "explain", model, june, "--state", shop / "state", "--qid", 500
    )
    scores = run("predict", model, june, "--state", shop / "state").split()
    assert len(scores) == pq.read_metadata(june).num_rows


def test_training_without_a_state_says_what_needs_it(shop, tmp_path):
    words = ["train", shop / "log.parquet", "--schema", shop / "shop.toml", "--propensity", "auto",
             "--out", tmp_path / "m"]  # fmt: skip
    for more, is_said in (([], True), (["--state", tmp_path / "state"], False), (["-q"], False)):
        result = CliRunner().invoke(app, list(map(str, [*words, *more])))
        assert result.exit_code == 0
        assert ("add --state DIR" in " ".join(result.stderr.split())) == is_said


def test_the_model_holds_the_estimated_propensities(shop):
    history = rankine.LinearModel.load(shop / "may.rankine").history
    assert history.propensity[0] == 1.0
    assert len(history.propensity) == 10
    assert history.propensity[-1] < 0.8


def test_training_goes_on_from_the_state(shop, tmp_path):
    words = ["train", shop / "june.parquet", "--warm-start", shop / "may.rankine"]
    assert fail(*words, "--out", tmp_path / "m").startswith("--state: ")
    state = tmp_path / "state"
    state.mkdir()
    (state / "history.safetensors").write_bytes(
        (shop / "state" / "history.safetensors").read_bytes()
    )
    run(*words, "--out", tmp_path / "june.rankine", "--state", state)
    assert "applied before" in fail(*words, "--out", tmp_path / "m", "--state", state)
    # The state after both months is that of one pass over them.
    start = rankine.LinearModel.load(shop / "may.rankine")
    log = rankine.logs.scan(shop / "log.parquet", like=start)
    log.history_state().save(tmp_path / "at_once")
    saved = (state / "history.safetensors").read_bytes()
    assert (tmp_path / "at_once").read_bytes() == saved


def test_retrain_carries_the_state_on(shop, tmp_path):
    state = tmp_path / "state"
    state.mkdir()
    before = (shop / "state" / "history.safetensors").read_bytes()
    (state / "history.safetensors").write_bytes(before)
    words = ["retrain", shop / "may.rankine", shop / "june.parquet", "--out", tmp_path / "new",
             "--max-drift", 100, "--publish-if-worse"]  # fmt: skip
    assert fail(*words).startswith("--state: ")
    run(*words, "--state", state, "--dry-run")
    assert (state / "history.safetensors").read_bytes() == before
    run(*words, "--state", state)
    assert rankine.LinearModel.load(tmp_path / "new").history is not None
    assert "applied before" in fail(*words, "--state", state)


def test_held_out_files_streams_and_resumed_runs_have_the_history(shop, tmp_path):
    words = ["train", shop / "may.parquet", "--schema", shop / "shop.toml", "--ranker", "elastic",
             "--propensity", "auto", "--valid", shop / "june.parquet", "--stream"]  # fmt: skip
    first = json.loads(run(*words, "--out", tmp_path / "a", "--json"))
    assert 0.3 < first["valid"] < 1
    words += ["--checkpoint", tmp_path / "run", "--every", "100"]
    run(*words, "--out", tmp_path / "b")
    run(*words, "--out", tmp_path / "c", "--resume")
    assert (tmp_path / "b").read_bytes() == (tmp_path / "c").read_bytes()


@pytest.mark.parametrize("name", ["spd", "domination", "least-squares", "additive"])
def test_every_ranker_learns_from_the_history(shop, tmp_path, name):
    words = ["train", shop / "log.parquet", "--schema", shop / "shop.toml", "--ranker", name,
             "--propensity", "auto", "--split", "time:0.8,0.2"]  # fmt: skip
    if name != "spd":  # the others take no propensity weights
        text = (
            (shop / "shop.toml")
            .read_text()
            .replace(
                'item = "product_id"', 'item = "product_id"\npropensity = [1.0, 0.7, 0.5, 0.4]'
            )
        )
        (tmp_path / "shop.toml").write_text(text)
        words[3] = tmp_path / "shop.toml"
        words = [*words[:6], *words[8:]]
    result = json.loads(run(*words, "--out", tmp_path / "m", "--json"))
    assert np.isfinite(result["valid"])
    assert rankine.LinearModel.load(tmp_path / "m").history is not None


def test_commands_that_train_or_compare_take_the_schema(shop, tmp_path):
    text = (shop / "shop.toml").read_text().replace('over = "examination"\n', "")
    (tmp_path / "shop.toml").write_text(text)
    words = [shop / "log.parquet", "--schema", tmp_path / "shop.toml"]
    run("train", *words, "--ranker", "ranksvm", "--out", tmp_path / "with.rankine")
    columns = ["--query", "session", "--label", "clicked", "--numeric", "price", "--time", "ts"]
    train = ["train", shop / "log.parquet", *columns, "--ranker", "ranksvm"]
    run(*train, "--out", tmp_path / "without.rankine")
    models = [tmp_path / "without.rankine", tmp_path / "with.rankine"]
    output = run("compare", *models, shop / "log.parquet", "--split", "time:0.8,0.2")
    assert "with.rankine" in output
    # Another definition of the same feature is no basis for a comparison.
    text = text.replace("7d", "8d")
    (tmp_path / "shop.toml").write_text(text)
    run("train", *words, "--ranker", "ranksvm", "--out", tmp_path / "other.rankine")
    assert "item_rate" in fail(
        "compare", tmp_path / "other.rankine", tmp_path / "with.rankine", shop / "log.parquet"
    )
    run("report", tmp_path / "with.rankine", shop / "log.parquet", "--out", tmp_path / "r.html")
    assert "user_brand" in (tmp_path / "r.html").read_text()


def test_engines_get_the_features_as_fields(shop):
    model = rankine.LinearModel.load(shop / "may.rankine")
    for target in ("sql", "vespa", "solr", "python"):
        with pytest.raises(ExportError):
            export(model, target)
    assert "half_life" in str(export(model, "json"))


def test_the_market_changes_and_has_new_items():
    log = pa.table(market_log(400, random_state=0))
    assert market_log(400, random_state=0)["clicked"].tolist() == log["clicked"].to_pylist()
    assert pc.all(pc.equal(pc.cumulative_max(log["ts"]), log["ts"])).as_py()
    early = set(log["product_id"][:2000].to_pylist())
    late = set(log["product_id"][2000:].to_pylist())
    assert len(late - early) > 50
    assert set(log["relevance"].to_pylist()) == set(range(5))
