"""``rankine explain``: the best documents of a query and pairs of documents."""

import json

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


def test_explain_the_best_documents_of_a_query(files):
    text = run("explain", files / "m.rankine", files / "d.txt", "--qid", 7, "-k", 2)
    assert "1. A (label 2)" in text
    assert "2. C (label 1)" in text
    assert "D" not in text
    data = json.loads(
        run("explain", files / "m.rankine", files / "d.txt", "--qid", 7, "-k", 1, "--json")
    )
    assert data["explanations"][0]["total"] == 2.25


def test_explain_a_pair_by_docid_or_row(files):
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


def test_documents_are_found_by_docid_before_row_number(files):
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
