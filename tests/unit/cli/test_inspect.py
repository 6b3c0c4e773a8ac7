"""``rankine inspect``: models, topics, foreign models and schemas."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from rankine.cli.main import app, find_commands
from rankine.core.errors import DataError, ParameterError
from rankine.core.specs import LogColumns
from rankine.logs.schema import read_schema
from rankine.model import LinearModel, ModelBundle

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
    with pytest.raises(ParameterError, match="no topic"):
        run("inspect", files / "b", "--topic", "x")
    with pytest.raises(ParameterError, match="single model"):
        run("inspect", files / "m.rankine", "--topic", "x")


def test_inspect_converts_foreign_models(files):
    (files / "sofia").write_text("0.1 1 2 3\n")
    run("inspect", files / "sofia", "--save", files / "new.rankine")
    np.testing.assert_array_equal(LinearModel.load(files / "new.rankine").to_dense(), [1, 2, 3])


def test_the_schema_of_a_model_or_a_proposal_for_a_log(files):
    with pytest.raises(ParameterError, match="reads features, not the columns of a log"):
        run("inspect", files / "m.rankine", "--schema")
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
