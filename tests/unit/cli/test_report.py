"""``rankine report`` and the ``--report`` option of other commands."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from rankine import LinearModel
from rankine.cli.main import app, find_commands
from rankine.core.errors import ParameterError
from unit.reporting.report_cases import fitted, random_data, shop

find_commands()


def run(*words, code=0):
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.stdout


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    random_data(12, 6, 4).save(folder / "test.txt")
    LinearModel.from_weights([1.0, 0.5, 0.0, -1.0], metric="map").save(folder / "a.rankine")
    LinearModel.from_weights([0.0, 0.5, 1.0, -1.0]).save(folder / "b.rankine")
    return folder


def test_the_command_writes_the_page_and_the_figures(files):
    out = files / "page.html"
    words = ("report", files / "a.rankine", files / "test.txt", "-o", out)
    found = json.loads(
        run(*words, "--against", files / "b.rankine", "--title", "Ours", "--n-queries", 1, "--json")
    )
    assert found["report"] == str(out)
    assert found["title"] == "Ours"
    assert found["headline"][0]["metric"] == "map"
    assert [s["name"] for s in found["headline"][0]["systems"]][:2] == ["a.rankine", "b.rankine"]
    assert len(found["lists"]["Worst queries"]) == 1
    assert "<title>Ours</title>" in out.read_text(encoding="utf-8")
    assert "wrote" in run(*words, "--metric", "ndcg@5")
    assert "NDCG@5" in out.read_text(encoding="utf-8")


def test_a_page_that_cannot_be_written_is_refused_first(files):
    with pytest.raises(ParameterError) as caught:
        run("report", files / "a.rankine", files / "test.txt", "-o", files / "no" / "x.html")
    assert caught.value.parameter == "--out"


def test_other_commands_write_reports(files):
    test, page = files / "test.txt", files / "other.html"
    run("compare", files / "a.rankine", files / "b.rankine", test, "--n-resamples", 200,
        "--report", page)  # fmt: skip
    assert "a.rankine against b.rankine" in page.read_text(encoding="utf-8")
    run("path", test, "--n-steps", 3, "--valid", test, "--report", page)
    assert "Quality against size" in page.read_text(encoding="utf-8")


def test_the_demo_ends_by_saying_where_its_report_is(tmp_path):
    told = run("demo", "--out", tmp_path / "d", "--n-queries", 40).strip().splitlines()
    page = tmp_path / "d" / "report.html"
    assert any(line.strip().startswith(str(page)) for line in told[-2:])
    assert "A shop&#x27;s search" in page.read_text(encoding="utf-8")
    assert "Objective" in page.read_text(encoding="utf-8")
    curves = (tmp_path / "d" / "curves.html").read_text(encoding="utf-8")
    assert "1 table of pairs" in curves
    assert "item_rate" in curves
    assert "user_brand_rate" in curves


def test_a_fitted_ranker_is_a_subject_too():
    from rankine.reporting.run import _open

    assert _open(fitted())[1] == "LeastSquaresRanker"
    assert shop()[1].n_queries == 20
