"""``rankine inspect``: models, topics, foreign models and schemas."""

import json
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import rankine
from error_checks import raises_for
from rankine.cli.main import app, find_commands
from rankine.core.errors import DataError, ParameterError
from rankine.core.specs import LogColumns
from rankine.logs.schema import read_schema
from rankine.model import LinearModel, ModelBundle
from rankine.model.covariance import CovarianceRecord, WeightCovariance

pytestmark = pytest.mark.cli


DATA = """2 qid:7 1:1 2:0.5 #docid = A
0 qid:7 1:0.5 3:1 #docid = B
1 qid:7 2:2 #docid = C
1 qid:8 1:1 #docid = D
"""


@pytest.fixture
def files(tmp_path):
    find_commands()
    (tmp_path / "d.txt").write_text(DATA)
    LinearModel.from_weights([2.0, 0.5, -1.0], metric="map", parameters={"ranker": "spd"}).save(
        tmp_path / "m.rankine"
    )
    return tmp_path


def run(*arguments):
    result = CliRunner().invoke(app, [str(part) for part in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_inspect_shows_weights_and_training(files):
    text = run("inspect", files / "m.rankine", "--top", 2)
    assert "3 of 3 features" in text
    assert "ranker = spd" in text
    assert "(1 more weights)" in text
    data = json.loads(run("inspect", files / "m.rankine", "--json"))
    assert data["top_weights"][0] == {"name": "1", "index": 0, "weight": 2.0}
    assert data["metric"] == "map"


def test_inspect_lists_topics_and_shows_one(files):
    ModelBundle.from_weights({"earn": [1.0, 0.0], "grain\x1b[31m": [1.0, 2.0]}).save(files / "b")
    text = run("inspect", files / "b")
    assert "earn" in text
    assert "\x1b" not in text
    assert "1 of 2 features" in run("inspect", files / "b", "--topic", "earn")
    with raises_for("--topic"):
        run("inspect", files / "b", "--topic", "x")
    with raises_for("--topic"):
        run("inspect", files / "m.rankine", "--topic", "x")


def test_inspect_converts_foreign_models(files):
    (files / "sofia").write_text("0.1 1 2 3\n")
    run("inspect", files / "sofia", "--save", files / "new.rankine")
    np.testing.assert_array_equal(LinearModel.load(files / "new.rankine").to_dense(), [1, 2, 3])


def test_the_schema_of_a_model_or_a_proposal_for_a_log(files):
    with pytest.raises(ParameterError) as caught:
        run("inspect", files / "m.rankine", "--schema")
    assert caught.value.parameter == "--schema"
    columns = {"session": ["a", "a", "b"], "clicked": [1, 0, 1], "price": [1.5, 2.5, 3.5]}
    pq.write_table(pa.table(columns), files / "log.parquet")
    proposed = run("inspect", files / "log.parquet", "--schema")
    (files / "s.toml").write_text(proposed)
    schema = read_schema(files / "s.toml")
    assert "price" in schema.numeric
    assert "# price: " in proposed
    plain = json.loads(run("inspect", files / "log.parquet", "--schema", "--json"))
    assert plain["numeric"] == list(schema.numeric)
    raw = LinearModel.from_weights(
        [1.0], transforms=(LogColumns(numeric=("price",)),), parameters={"log": plain}
    )
    raw.save(files / "raw.rankine")
    known = run("inspect", files / "raw.rankine", "--schema")
    (files / "s.toml").write_text(known)
    assert read_schema(files / "s.toml").numeric == ("price",)
    assert "#" not in known
    with pytest.raises(DataError):
        run("inspect", files / "absent.parquet", "--schema")


def test_a_log_is_described_with_the_commands_that_come_next(files):
    columns = {
        "session_id": ["a", "a", "b", "b", "b"], "clicked": [1, 0, 1, 0, 0],
        "price": [1.5, 2.5, None, float("nan"), 9.0], "brand": ["x", "x", "y", None, "x"],
        "position": [1, 2, 1, 2, 3], "item": list("ABCDE"),
    }  # fmt: skip
    pq.write_table(pa.table(columns), files / "log.parquet")
    text = run("inspect", files / "log.parquet")
    assert "raw log (parquet)" in text
    assert "2 (ids in session_id), 2.5 rows on average, at most 3\n" in text
    assert "clicked 0: 3 (60.0%), 1: 2 (40.0%)" in text
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line}
    assert rows["price"][1:7] == ["double", "40.0%", "3", "1.5", "to", "9"]
    assert rows["brand"][1:] == ["string", "20.0%", "2", "x,", "y"]
    ends = {line.split()[0]: re.search(r"missing|40.0%|20.0%|$", line).end()
            for line in text.splitlines() if line}  # fmt: skip
    assert ends["column"] == ends["price"] == ends["brand"], "numbers are aligned on the right"
    assert "(4 more columns: --top 6)" in run("inspect", files / "log.parquet", "--top", 2)
    plain = json.loads(run("inspect", files / "log.parquet", "--json"))
    assert (plain["rows"], plain["lists"], plain["contiguous"]) == (5, 2, True)
    assert [command.split()[1] for command in plain["next"]] == ["inspect", "train", "clicks"]
    assert plain["next"][0].endswith(" > log.toml")
    some = json.loads(run("inspect", files / "log.parquet", "--where", "position < 9", "--json"))
    assert [command.split()[1] for command in some["next"]] == ["inspect", "train"]
    # Too few rows for a schema are described all the same.
    assert "none can be proposed" in run("inspect", files / "log.parquet", "--where", "price > 2")
    assert all("--where 'position < 9'" in command for command in some["next"])
    pq.write_table(pa.table({"a": [1], "b": [[1.0]]}), files / "table.parquet")
    assert "no column has a usual name" in run("inspect", files / "table.parquet")
    some = json.loads(run("inspect", files / "table.parquet", "--where", "a > 0", "--json"))
    assert "--where 'a > 0'" in some["next"][0]
    apart = {"qid": [1, 2, 1], "label": [0, 1, 1], "f": [1.0, 2.0, 3.0]}
    pq.write_table(pa.table(apart), files / "apart.parquet")
    assert "the rows of a list are not together" in run("inspect", files / "apart.parquet")
    with pytest.raises(ParameterError) as caught:
        run("inspect", files / "log.parquet", "--save", "x")
    assert caught.value.parameter == "--save"


def test_features_lists_runs_and_folders_are_described(files):
    text = run("inspect", files / "d.txt")
    assert "label 0: 1 (25.0%), 1: 2 (50.0%), 2: 1 (25.0%)" in text
    assert "2 (qid), 2.0 rows on average, at most 3" in text
    rankine.load(files / "d.txt").save(files / "d.parquet", layout="columns")
    assert "features and labels (parquet)" in run("inspect", files / "d.parquet")
    with pytest.raises(ParameterError) as caught:
        run("inspect", files / "d.parquet", "--schema")
    assert caught.value.parameter == "--schema"
    (files / "r.run").write_text("1 Q0 a 1 2.5 mine\n1 Q0 b 2 1.5 mine\n2 Q0 a 1 1 mine\n")
    assert "2, 1.5 documents on average" in run("inspect", files / "r.run")
    (files / "q.txt").write_text("1 0 a 1\n1 0 b 0\n")
    assert "0: 1, 1: 1" in run("inspect", files / "q.txt")
    plain = json.loads(run("inspect", files, "--json"))
    assert f"rankine inspect {files / 'd.parquet'}" in plain["next"]
    (files / "letor" / "Fold1").mkdir(parents=True)
    plain = json.loads(run("inspect", files / "letor", "--json"))
    assert plain["next"] == [f"rankine letor {files / 'letor'} --ranker all"]
    with pytest.raises(DataError):
        run("inspect", files / "letor" / "Fold1")


def with_intervals(weights):
    record = CovarianceRecord("sandwich", 50, 40.0)
    n = len(weights)
    covariance = WeightCovariance(np.arange(n), 0.1 * np.eye(n).ravel(), record)
    return replace(LinearModel.from_weights(weights), covariance=covariance)


def test_inspect_shows_intervals_largest_weights_first(files):
    with_intervals([0.5, -2.0, 1.0]).save(files / "i.rankine")
    lines = run("inspect", files / "i.rankine", "--intervals", "--top", 2).splitlines()
    assert [line.split()[0] for line in lines] == ["weight", "2", "3", "(1"]
    rows = json.loads(run("inspect", files / "i.rankine", "--intervals", "--json"))
    assert [row["name"] for row in rows] == ["1", "2", "3"]
    wide = json.loads(
        run("inspect", files / "i.rankine", "--intervals", "--confidence", 0.99, "--json")
    )
    assert wide[0]["low"] < rows[0]["low"] < rows[0]["estimate"]


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        (("--intervals", "--confidence", 2), "--confidence"),
        (("--confidence", 0.9), "--confidence"),
        (("--intervals", "--save", "x"), "--save"),
        (("--intervals", "--schema"), "--intervals"),
    ],
)
def test_inspect_refuses_intervals_that_make_no_sense(files, options, parameter):
    with_intervals([0.5]).save(files / "i.rankine")
    with pytest.raises(ParameterError) as error:
        run("inspect", files / "i.rankine", *options)
    assert error.value.parameter == parameter


def test_compare_shows_which_weights_changed(files):
    with_intervals([0.5, 1.0]).save(files / "old.rankine")
    with_intervals([0.5, 3.0]).save(files / "new.rankine")
    text = run("compare", files / "old.rankine", files / "new.rankine", "--weights")
    assert [line.split()[-1] for line in text.splitlines()[1:]] == ["yes", "no"]
    with pytest.raises(ParameterError):
        run("compare", files / "old.rankine", "--weights")
