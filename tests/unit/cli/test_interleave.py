"""``rankine interleave``: shared lists and the sessions that a test needs."""

import json

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from rankine.cli.main import app, find_commands
from rankine.core.errors import ParameterError
from rankine.model import LinearModel

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


def test_shared_lists_need_two_models_and_a_file(files, monkeypatch):
    monkeypatch.chdir(files)
    LinearModel.from_weights([0.0, 1.0, 0.0]).save("n.rankine")
    models = ["m.rankine", "n.rankine"]
    for words, reason in (
        (["m.rankine", "d.txt", "--out", "s.parquet"], "two models"),
        ([*models, "d.txt"], "two models"),
        (["--out", "s.parquet"], "two models"),
        (["m.rankine", "m.rankine", "d.txt", "--out", "s.parquet"], "named twice"),
    ):
        with pytest.raises(ParameterError, match=reason):
            run("interleave", "plan", *words)
    words = ["interleave", "plan", *models, "d.txt", "--out", "s.parquet", "--length", 2]
    said = json.loads(run(*words, "--json"))
    assert (said["lists"], said["rows"], said["teams"]) == (2, 3, models)
    table = pq.read_table("s.parquet")
    assert table["session"].to_pylist() == [7, 7, 8]
    assert table["position"].to_pylist() == [1, 2, 1]
    assert set(table["item"].to_pylist()[:2]) <= {"A", "B", "C"}
    assert table["item"].to_pylist()[2] == "D"
    assert f"2 lists of {', '.join(models)}: s.parquet" in run(*words)
    told = run("interleave", "plan", "--detect", 0.6, "--decided", 0.5)
    needed = json.loads(run("interleave", "plan", "--detect", 0.6, "--decided", 0.5, "--json"))
    assert told.startswith(f"{needed['sessions_needed']:,} sessions detect a preference of 0.6")
    assert "lists" not in needed
