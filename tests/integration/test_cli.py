"""The command line as a user meets it: real processes, real files, wrong files."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import rankine
from rankine import shop_log

pytestmark = pytest.mark.cli


def run(*arguments, stdin=None, code=0, cwd=None):
    result = subprocess.run(
        [sys.executable, "-c", "from rankine.cli.main import run; run()", *map(str, arguments)],
        capture_output=True,
        text=True,
        input=stdin,
        timeout=110,
        env={**os.environ, "COLUMNS": "200"},
        cwd=cwd,
    )
    assert result.returncode == code, result.stderr
    return result


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    log = shop_log(80, random_state=2)
    from dataclasses import replace

    log = replace(log, columns={}, position=None, feature_names=None)
    for name, queries in (("train", range(60)), ("test", range(60, 80))):
        part = log.take_queries(np.array(list(queries)))
        part.save(folder / f"{name}.txt")
    return folder


@pytest.fixture(scope="module")
def model(files):
    out = files / "model.rankine"
    result = run(
        "train", files / "train.txt", "--ranker", "spd", "--set", "n_steps=3000",
        "--set", "l2=1e-3", "--valid", files / "test.txt", "--out", out, "--json",
    )  # fmt: skip
    report = json.loads(result.stdout)
    assert result.stdout.count("\n") == 1
    assert report["n_iter"] == 3000
    assert 0 < report["valid"] <= 1
    return out


def test_train_predict_evaluate_agree_with_the_library(files, model):
    loaded = rankine.LinearModel.load(model)
    data = rankine.load(files / "test.txt", n_features=loaded.n_features)
    scores = [float(line) for line in run("predict", model, files / "test.txt").stdout.split()]
    np.testing.assert_allclose(scores, data.X @ loaded.to_dense(), rtol=1e-12)
    shown = run("evaluate", model, files / "test.txt", "--metric", "ndcg@5", "--json").stdout
    expected = rankine.metrics.evaluate("ndcg@5", data.y, np.array(scores), data.qid)
    assert json.loads(shown)["metrics"]["ndcg@5"]["value"] == pytest.approx(expected, rel=1e-12)


def test_a_trained_model_names_its_data(files, model):
    story = rankine.LinearModel.load(model).provenance["training"]
    assert story["fingerprint"] == rankine.load(files / "train.txt").fingerprint


def test_same_seed_writes_the_same_bytes(files, model, tmp_path):
    def trained(name, seed):
        out = tmp_path / name
        run("train", files / "train.txt", "--set", "n_steps=500", "--seed", seed, "-o", out)
        return rankine.LinearModel.load(out).to_dense()

    np.testing.assert_array_equal(trained("a", 4), trained("b", 4))
    assert not np.array_equal(trained("a", 4), trained("c", 5))


def test_trec_run_is_evaluated_like_the_model(files, model, tmp_path):
    run("predict", model, files / "test.txt", "--trec", "--tag", "mine", "-o", tmp_path / "run.txt")
    lines = (tmp_path / "run.txt").read_text().splitlines()
    qid, q0, _docid, rank, _score, tag = lines[0].split()
    assert (q0, rank, tag) == ("Q0", "1", "mine")
    data = rankine.load(files / "test.txt")
    (tmp_path / "qrels.txt").write_text(
        "".join(
            f"{q} 0 {d} {int(y)}\n" for q, d, y in zip(data.qid, data.docid, data.y, strict=True)
        )
    )
    assert int(qid) in data.qid
    shown = run(
        "evaluate", "--run", tmp_path / "run.txt", "--qrels", tmp_path / "qrels.txt",
        "--metric", "map", "--json",
    ).stdout  # fmt: skip
    direct = run("evaluate", model, files / "test.txt", "--metric", "map", "--json").stdout
    assert json.loads(shown)["metrics"]["map"]["value"] == pytest.approx(
        json.loads(direct)["metrics"]["map"]["value"], abs=1e-12
    )


def test_stdin_and_streaming(files, tmp_path):
    text = (files / "train.txt").read_text()
    run("train", "-", "--set", "n_steps=500", "-o", tmp_path / "a", stdin=text)
    run("train", files / "train.txt", "--set", "n_steps=500", "-o", tmp_path / "b")
    one, two = (rankine.LinearModel.load(tmp_path / name) for name in "ab")
    np.testing.assert_array_equal(one.to_dense(), two.to_dense())
    run("train", files / "train.txt", "--stream", "--set", "n_steps=500", "-o", tmp_path / "c")
    assert rankine.LinearModel.load(tmp_path / "c").nnz > 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "{none}", "--out", "x"], ["none.txt", "does not exist"]),
        (["train", "{bad}", "--out", "x"], ["bad.txt:2:", "[parse]"]),
        (["train", "{train}", "--out", "x", "--set", "lamda=1"], ["lamda", "l2"]),
        (["train", "{train}", "--out", "x", "--set", "l2"], ["name=value"]),
        (
            ["train", "{train}", "--out", "x", "--ranker", "ranksvm", "--n-passes", "2"],
            ["ranksvm", "n_passes"],
        ),
        (["train", "{train}", "--out", "x", "--ranker", "tree"], ["tree", "spd"]),
        (["train", "{train}", "--out", "x", "--metric", "nope@3"], ["nope"]),
        (
            ["train", "{train}", "--out", "/no/such/folder/x", "--set", "n_steps=10"],
            ["/no/such/folder"],
        ),
        (["predict", "{train}", "{train}"], ["model"]),
        (["evaluate"], ["MODEL DATA"]),
        (["evaluate", "--run", "{train}"], ["--qrels"]),
    ],
)
def test_errors_are_one_line_without_a_traceback(files, arguments, words):
    (files / "bad.txt").write_text("1 qid:1 1:0.5\n0 qid:1 1:zero\n")
    names = {"none": files / "none.txt", "bad": files / "bad.txt", "train": files / "train.txt"}
    result = run(*(a.format(**names) for a in arguments), code=2, cwd=files)
    assert not (files / "x").exists()
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr


def test_help_version_and_import_stay_light():
    assert "rankine" in run("--version").stdout
    shown = run("--help").stdout
    for command in ("train", "predict", "evaluate", "demo", "warmup", "convert", "sort"):
        assert command in shown
    loaded = "print([n for n in ('numba', 'scipy', 'sklearn', 'pyarrow') if n in sys.modules])"
    for start in ("import rankine.cli.main as m; m.find_commands()", "import rankine"):
        program = f"import sys; {start}; {loaded}"
        found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert found.stdout.strip() == "[]", start


def test_a_raw_parquet_log_trains_and_its_model_scores_raw_rows(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    n = 600
    brand = rng.choice(["acme", "zeta", "<b>blue</b>"], n)
    price = np.round(rng.random(n), 3)
    clicked = ((brand == "acme") & (price < 0.6)).astype(int)
    table = pa.table(
        {
            "session_id": np.repeat(np.arange(60), 10).astype(str),
            "clicked": clicked,
            "purchased": clicked * rng.integers(0, 2, n),
            "price": price,
            "brand": brand,
        }
    )
    pq.write_table(table, tmp_path / "log.parquet")
    columns = ("--query", "session_id", "--label", "clicked + 4*purchased")
    result = run(
        "train", tmp_path / "log.parquet", "--ranker", "elastic", *columns,
        "--categorical", "brand", "--numeric", "price", "--split", "time:9/11,1/11,1/11",
        "--metric", "map", "--out", tmp_path / "m", "--json",
    )  # fmt: skip
    report = json.loads(result.stdout)
    assert report["test"] > 0.5
    shown = run("evaluate", tmp_path / "m", tmp_path / "log.parquet", "-m", "map", "--json").stdout
    assert json.loads(shown)["metrics"]["map"]["value"] > 0.5
    scores = run("predict", tmp_path / "m", tmp_path / "log.parquet").stdout.split()
    assert len(scores) == n


def test_demo_runs_and_beats_the_shop(tmp_path):
    result = json.loads(run("demo", "--out", tmp_path / "d", "--n-queries", 200, "--json").stdout)
    for values in result["metrics"].values():
        assert values["model"] > values["as_shown"] > values["random"]
    shown = run("demo", "--out", tmp_path / "d", "--n-queries", 200).stdout
    assert "ranks above" in shown
    assert "Open in a browser" in shown
    assert (tmp_path / "d" / "model.rankine").exists()


def test_trials_run_one_at_a_time_by_default():
    from rankine.cli.tune import SearchOptions

    assert SearchOptions().options()["workers"] == 1
