"""``rankine train``: the same options on files, streams and raw logs."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from rankine.cli.main import app, find_commands
from rankine.data.shop import shop_log

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
    words = [lists, "--ranker", "elastic", "--set", "eta0=50", "--valid", valid, *how]
    words += ["--early-stopping", "1", "--n-passes", "9", "--out", tmp_path / "m.rankine"]
    result = train(*words)
    assert result["stop_reason"] == "early_stopping"
    assert 0 < result["valid"] <= 1


@pytest.mark.cli
def test_what_cannot_be_done_is_said_in_one_sentence(files, tmp_path):
    lists, _ = files
    out = ["--out", tmp_path / "m.rankine"]
    for words, reason in (
        (["--ranker", "ranksvm", "--stream"], "RankSVM cannot be fitted to a stream"),
        (["--early-stopping", "2"], "Add --valid FILE"),
        (["--ranker", "elastic", "--resume"], "--resume needs --checkpoint"),
        (["--ranker", "spd", "--n-passes", "0"], "n_passes"),
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
    assert "Leave out one of them" in str(both.exception) + both.output
