"""``rankine explain``: the best documents of a query and pairs of documents."""

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import rankine
from error_checks import raises_for
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
    with raises_for("--docs"):
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


def test_items_and_query_texts_of_a_raw_log_are_named(tmp_path):
    find_commands()
    lists = 40
    rows = {
        "session": [f"s{k}" for k in range(lists) for _ in range(3)],
        "sku": [f"sku-{i}" for _ in range(lists) for i in range(3)],
        "words": [f"shoe {k}" for k in range(lists) for _ in range(3)],
        "price": [1.0, 2.0, 3.0] * lists,
        "clicked": [0, 1, 0, 0, 0, 1] * (lists // 2),
    }
    log = tmp_path / "log.parquet"
    pq.write_table(pa.table(rows), log)
    read = rankine.logs.scan(
        log, query="session", label="clicked", numeric=["price"], item="sku", search="words"
    )
    models = [tmp_path / name for name in ("a.rankine", "b.rankine")]
    model = rankine.LeastSquaresRanker().fit(read).to_model()
    model.save(models[0])
    replace(model, values=-model.values, probes=None).save(models[1])
    shown = run("explain", models[0], log, "--qid", "s7", "-k", 1)
    assert shown.startswith("query s7: shoe 7\n\n1. sku-2 (label 1)")
    assert "a = sku-0" in run("explain", models[0], log, "--qid", "s7", "--docs", "sku-0", "sku-1")
    assert run("predict", models[0], log, "--trec").startswith("s0 Q0 sku-2 1 ")
    compared = run("compare", *models, log)
    assert "(shoe " in compared
    assert "sku-1" in compared
    assert "row " not in compared
    page = run("report", models[0], log, "--out", tmp_path / "r.html")
    assert page.startswith("wrote")
    html = (tmp_path / "r.html").read_text()
    assert "sku-2" in html
    assert "shoe 7" in html or "shoe 0" in html
