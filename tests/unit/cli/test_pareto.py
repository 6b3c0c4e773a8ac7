"""``rankine pareto``: files in, tables or JSON and a folder of models out."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from rankine.cli.main import app, find_commands
from rankine.cli.pareto import parse_floors
from rankine.core.errors import ParameterError, RankineError

pytestmark = pytest.mark.cli


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Return a log of clicks and margins without a column ``label``."""
    find_commands()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 2))
    columns = {
        "qid": np.repeat(np.arange(100), 8),
        "match": X[:, 0],
        "price": X[:, 1],
        "clicked": (X[:, 0] + rng.normal(size=800) > 0.5).astype(float),
        "margin": np.exp(X[:, 1]),
        "time": np.repeat(np.arange(100), 8),
    }
    path = tmp_path_factory.mktemp("shop") / "log.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def run(*arguments):
    result = CliRunner().invoke(app, ["pareto", *map(str, arguments)])
    if isinstance(result.exception, RankineError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


GOALS = ("--goal", "clicked", "--goal", "clicked*margin", "--columns", "time", "--points", 3)


def test_a_front_is_printed_and_saved(shop, tmp_path):
    output = run(
        shop, *GOALS, "--ranker", "least-squares", "--out", tmp_path / "models",
        "--maximise", "clicked*margin", "--floor", "clicked=0.5",
    )  # fmt: skip
    assert "chosen" in output
    assert "% less clicked buys" in output
    assert len(list((tmp_path / "models").glob("*.rankine"))) == 3


def test_json_has_every_point(shop):
    result = json.loads(run(shop, *GOALS, "--ranker", "least-squares", "--json"))
    assert [point["shares"]["clicked"] for point in result["points"]] == [1.0, 0.5, 0.0]
    assert result["certified"]
    assert result["out"] is None


def test_raw_logs_and_splits_by_time_are_read(shop):
    result = json.loads(
        run(
            shop,
            "--goal",
            "clicked",
            "--goal",
            "margin",
            "--points",
            2,
            "--ranker",
            "additive",
            "--set",
            "smooth=1",
            "--set",
            "pairs=0",
            "--numeric",
            "match,price",
            "--query",
            "qid",
            "--time",
            "time",
            "--split",
            "time:3,1,1",
            "--json",
        )
    )
    assert result["ranker"] == "AdditiveRanker"
    assert result["test"]["queries"] == 20


@pytest.mark.parametrize(
    ("words", "parameter"),
    [
        ((*GOALS, "--floor", "clicked"), "--floor"),
        ((*GOALS, "--maximise", "price"), "--maximise"),
        ((*GOALS, "--maximise", "clicked", "--floor", "clicked=2"), "--floor"),
        (("--goal", "clicked"), "--goal"),
        (("--goal", "clicked", "--goal", "sold"), "--columns"),
        ((*GOALS, "--ranker", "spd"), "--ranker"),
        ((*GOALS, "--split", "time:1,1", "--valid", "x"), "--valid"),
    ],
)
def test_errors_name_the_option(shop, words, parameter):
    with pytest.raises(RankineError) as caught:
        run(shop, *words)
    assert caught.value.parameter == parameter


def test_floors_are_read_from_the_last_sign():
    assert parse_floors(["stock == 1=0.9"]) == {"stock == 1": 0.9}
    with pytest.raises(ParameterError):
        parse_floors(["stock==one"])
