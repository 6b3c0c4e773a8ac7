import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from rankine import DominationRanker
from rankine.cli.main import app, find_commands
from rankine.core.errors import DataError, ParameterError, ParseError
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


def test_explain_the_best_documents_of_a_query(files):
    text = run("explain", files / "m.rankine", files / "d.txt", "--qid", 7, "-k", 2)
    assert "1. A (label 2)" in text
    assert "2. C (label 1)" in text
    assert "D" not in text
    data = json.loads(
        run("explain", files / "m.rankine", files / "d.txt", "--qid", 7, "-k", 1, "--json")
    )
    assert data["explanations"][0]["total"] == 2.25


def test_files_are_read_with_the_models_index_base(files):
    (files / "zero.txt").write_text("2 qid:7 0:1 1:0.5\n0 qid:7 0:0.5 2:1\n")
    LinearModel.from_weights([2.0, 0.5, -1.0], base=0).save(files / "zero.rankine")
    out = run("explain", files / "zero.rankine", files / "zero.txt", "--qid", 7, "--json")
    assert json.loads(out)["explanations"][0]["total"] == 2.25
    assert run("predict", files / "zero.rankine", files / "zero.txt").split() == ["2.25", "0.0"]
    with pytest.raises(ParseError, match="base"):
        run("predict", files / "m.rankine", files / "zero.txt")


def test_a_run_names_rows_without_docids_by_their_number(files):
    (files / "bare.txt").write_text("2 qid:7 1:1\n0 qid:7 1:3 # B\n1 qid:8 1:1\n")
    lines = run("predict", files / "m.rankine", files / "bare.txt", "--trec", "-k", 1).splitlines()
    assert lines == ["7 Q0 B 1 6.0 rankine", "8 Q0 row2 1 2.0 rankine"]
    (files / "none.txt").write_text("2 qid:7 1:1\n0 qid:7 1:3\n")
    lines = run("predict", files / "m.rankine", files / "none.txt", "--trec").splitlines()
    assert [line.split()[2] for line in lines] == ["row1", "row0"]


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_a_file_of_fewer_features_is_told(files, command):
    (files / "narrow.txt").write_text("2 qid:7 1:1\n0 qid:7 1:3 2:1\n")
    for data, told in (("narrow.txt", True), ("d.txt", False)):
        done = CliRunner().invoke(app, [command, str(files / "m.rankine"), str(files / data)])
        assert done.exit_code == 0
        assert ("1 of 1 files hold fewer features than the model's 3" in done.stderr) is told


def test_explain_a_pair_by_docid_or_place(files):
    for docs in (("A", "B"), ("1", "2")):
        out = run(
            "explain", files / "m.rankine", files / "d.txt", "--qid", 7, "--docs", *docs, "--json"
        )
        found = json.loads(out)["explanations"][0]
        assert found["total"] == 2.25
        assert found["contributions"][0]["contribution"] == 1.0
    with pytest.raises(ParameterError, match="no document 'Z'"):
        run("explain", files / "m.rankine", files / "d.txt", "--qid", 7, "--docs", "A", "Z")
    with pytest.raises(ParameterError, match="no query '9'"):
        run("explain", files / "m.rankine", files / "d.txt", "--qid", 9)


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


def test_a_document_is_found_by_its_name_before_its_place(files):
    lines = ["2 qid:7 1:1 # 2", "0 qid:7 1:2 # x", "1 qid:7 1:3 # y"]
    (files / "numbers.txt").write_text("".join(f"{line}\n" for line in lines))

    def pair(*docs):
        words = ["explain", files / "m.rankine", files / "numbers.txt", "--qid", 7, "--docs", *docs]
        return run(*words).splitlines()[2]

    assert pair("2", "3") == "a = 2 (label 2), b = y (label 1)"
    assert pair("1", "x") == "a = 2 (label 2), b = x (label 0)"
    for place in ("0", "4", "-1", "\u00b2", "1.0"):
        with pytest.raises(ParameterError, match="from 1 to 3"):
            pair(place, "x")
    (files / "bare.txt").write_text("2 qid:7 1:1\n0 qid:7 1:2\n")
    words = ["explain", files / "m.rankine", files / "bare.txt", "--qid", 7, "--json"]
    found = json.loads(run(*words))["explanations"]
    assert [one["title"] for one in found] == ["1. row 2 (label 0)", "2. row 1 (label 2)"]
    with pytest.raises(ParameterError, match=r"queries start with 7, 8$"):
        run("explain", files / "m.rankine", files / "d.txt", "--qid", "70")


@pytest.mark.parametrize(
    ("words", "parameter"),
    [
        (["--valid", "d.txt", "--split", "time:0.5,0.5"], "--valid"),
        (["--solvers", "rda"], "--solvers"),
        (["--max-latency", "1ms"], "--max-latency"),
        (["--max-nonzero", "0"], "--max-nonzero"),
    ],
)
def test_options_that_a_path_cannot_use_are_rejected(files, monkeypatch, words, parameter):
    monkeypatch.chdir(files)
    monkeypatch.setattr(DominationRanker, "path", lambda *_, **__: [])
    with pytest.raises(ParameterError) as caught:
        run("path", "d.txt", "--n-steps", 2, *words)
    assert caught.value.parameter == parameter


def test_a_test_of_shared_lists_needs_two_models_and_a_file(files, monkeypatch):
    monkeypatch.chdir(files)
    LinearModel.from_weights([0.0, 1.0, 0.0]).save("n.rankine")
    models = ["m.rankine", "n.rankine"]
    for words, reason in (
        (["m.rankine", "d.txt", "--out", "s.parquet"], "two models, their lists and --out"),
        ([*models, "d.txt"], "two models, their lists and --out"),
        (["--out", "s.parquet"], "two models, their lists and --out"),
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
