"""``rankine calibrate``, and the commands that use probabilities."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from rankine import LinearModel
from rankine.cli.main import app, find_commands
from rankine.core.errors import ModelError, ParameterError, RankineError

pytestmark = pytest.mark.cli
find_commands()


def run(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    if isinstance(done.exception, RankineError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def files(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    n = 400
    x, position = rng.normal(size=6 * n), np.tile(np.arange(1, 7), n)
    clicked = rng.random(6 * n) < 1 / (1 + np.exp(1 - x)) / position
    columns = {"qid": np.repeat(np.arange(n) + 50, 6), "label": clicked.astype(int), "x": x}
    columns |= {"clicked": clicked.astype(int), "position": position}
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    LinearModel.from_weights([1.0], ["x"]).save(tmp_path / "m.rankine")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_calibrated_model_predicts_and_is_judged(files):
    arguments = ["calibrate", "m.rankine", "log.parquet", "--outcome", "clicked"]
    result = json.loads(run(*arguments, "--position", "position", "--out", "c.rankine", "--json"))
    assert (result["lists"], result["rows"]) == (400, 2400)
    assert result["held_out"]["ece"] < 0.05
    assert len(result["examination"]) == 6
    assert LinearModel.load("m.rankine").calibration is None
    words = ["predict", "c.rankine", "log.parquet", "--probability"]
    values = np.array(run(*words, "--position", "position").split(), dtype=float)
    at_first = np.array(run(*words).split(), dtype=float)
    assert ((values > 0) & (values <= at_first) & (at_first < 1)).all()
    run(*words, "--out", "p.parquet")
    assert pq.read_table("p.parquet")["probability"].to_pylist() == at_first.tolist()
    metrics = ["-m", "ece:label=clicked", "-m", "brier:label=clicked", "-m", "ndcg@3"]
    judged = json.loads(run("evaluate", "c.rankine", "log.parquet", *metrics, "--json"))["metrics"]
    clicked = pq.read_table("log.parquet")["clicked"].to_numpy()
    assert judged["brier:label=clicked"]["value"] == pytest.approx(np.mean((values - clicked) ** 2))
    run("calibrate", "m.rankine", "log.parquet", "--outcome", "clicked")
    assert LinearModel.load("m.rankine").calibration is not None


@pytest.mark.parametrize(
    ("words", "error", "parameter"),
    [
        (["predict", "m.rankine", "log.parquet", "--probability"], ModelError, None),
        (
            ["predict", "m.rankine", "log.parquet", "--position", "position"],
            ParameterError,
            "--position",
        ),
        (
            ["predict", "m.rankine", "log.parquet", "--probability", "--trec"],
            ParameterError,
            "--probability",
        ),
        (["evaluate", "m.rankine", "log.parquet", "-m", "ece"], ModelError, None),
        (
            ["calibrate", "m.rankine", "log.parquet", "--outcome", "bought"],
            RankineError,
            "--outcome",
        ),
        (
            ["calibrate", "m.rankine", "log.parquet", "--outcome", "clicked", "--position", "at"],
            RankineError,
            "--position",
        ),
    ],
)
def test_misuse_is_an_error_with_a_remedy(files, words, error, parameter):
    with pytest.raises(error) as caught:
        run(words[0], "m.rankine", "log.parquet", *words[1:])
    assert caught.value.parameter == parameter
    assert caught.value.fix
