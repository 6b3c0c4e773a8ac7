"""``rankine train --dask`` from the outside."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from distributed_data import table, write_files

from rankine.model import LinearModel

COMMAND = [sys.executable, "-c", "from rankine.cli.main import run; run()", "train"]


def train(pattern, out, *arguments):
    command = [*COMMAND, str(pattern), "--out", str(out), "--json", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.fixture
def pattern(tmp_path):
    write_files(tmp_path, 2, n_queries=20)
    return tmp_path / "*.parquet"


@pytest.mark.cli
def test_checkpoint_and_resume_give_the_same_model(pattern, tmp_path):
    options = ("--ranker", "least-squares", "--dask", "here", "--checkpoint", tmp_path / "kept")
    first = train(pattern, tmp_path / "a.rankine", *options)
    assert first.returncode == 0, first.stderr
    assert "2 partitions of 2 files" in first.stderr
    again = train(pattern, tmp_path / "b.rankine", *options)
    assert again.returncode == 2
    assert "already holds checkpoints" in again.stderr
    resumed = train(pattern, tmp_path / "b.rankine", *options, "--resume")
    assert json.loads(resumed.stdout)["digest"] == json.loads(first.stdout)["digest"]


@pytest.mark.cli
def test_a_split_query_is_named_and_repartition_mends_it(tmp_path):
    for k in range(2):
        pq.write_table(table(9, k, first_query=8 * k), tmp_path / f"{k}.parquet")
    options = ("--ranker", "least-squares", "--dask", "here")
    split = train(tmp_path / "*.parquet", tmp_path / "a.rankine", *options)
    assert split.returncode == 2
    assert "query 8 has rows in" in split.stderr
    assert "--repartition" in split.stderr
    mended = train(tmp_path / "*.parquet", tmp_path / "a.rankine", *options, "--repartition")
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
    done = train(pattern, tmp_path / "a.rankine", *options)
    assert done.returncode == 2
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.dask
@pytest.mark.timeout(400)
def test_a_local_cluster_gives_the_model_of_this_process(pattern, tmp_path):
    made = {}
    for where in ("here", "local:2"):
        done = train(
            pattern, tmp_path / "m.rankine", "--ranker", "ranksvm", "--dask", where,
            "--set", "loss=squared_hinge",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        made[where] = json.loads(done.stdout)["digest"]
    assert made["here"] == made["local:2"]
