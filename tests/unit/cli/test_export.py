import json

import pytest
from typer.testing import CliRunner

from error_checks import raises_for
from rankine.cli.main import app, find_commands
from rankine.core.errors import ExportError, ModelError, ParameterError
from rankine.core.specs import ListRange
from rankine.model import LinearModel, ModelBundle

pytestmark = pytest.mark.cli


@pytest.fixture
def folder(tmp_path):
    find_commands()
    LinearModel.from_weights([1.5, 0.0, -2.0], ["a", "b", "c"]).save(tmp_path / "m")
    return tmp_path


def run(*arguments):
    result = CliRunner().invoke(app, ["export", *(str(part) for part in arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


def test_export_writes_the_file_and_says_so(folder):
    result = run(folder / "m", "--to", "json", "-o", folder / "x.json", "--name", "shop", "--json")
    said = json.loads(result.stdout)
    assert said["nnz"] == 2
    assert said["name"].startswith("shop_")
    assert json.loads((folder / "x.json").read_text())["weights"] == [1.5, -2.0]


def test_export_to_stdout(folder):
    assert "CAST(1.5 AS DOUBLE PRECISION)" in run(folder / "m", "--to", "sql", "-o", "-").stdout


def test_stdout_contains_only_the_exported_file(folder):
    plain = run(folder / "m", "--to", "sql", "-o", "-")
    with pytest.raises(ParameterError) as caught:
        run(folder / "m", "--to", "sql", "-o", "-", "--json")
    assert caught.value.parameter == "--json"
    assert "wrote" not in plain.stderr
    told = run(folder / "m", "--to", "sql", "-o", folder / "x.sql")
    assert f"wrote {folder / 'x.sql'}: 2 weights for sql" in told.stderr
    assert told.stdout == ""
    said = run(folder / "m", "--to", "sql", "-o", folder / "x.sql", "--json")
    assert json.loads(said.stdout)["files"] == {
        str(folder / "x.sql"): (folder / "x.sql").stat().st_size
    }
    assert "wrote" not in said.stderr


def test_the_tensor_form_writes_two_files(folder):
    run(folder / "m", "--to", "vespa", "--form", "tensor", "-o", folder / "w.json")
    assert json.loads((folder / "w.json").read_text()) == {"cells": {"a": 1.5, "c": -2.0}}
    assert "rank-profile" in (folder / "w.json.profile").read_text()


def test_names_from_a_file_and_topics_of_a_bundle(folder):
    LinearModel.from_weights([1.0, 2.0]).save(folder / "plain")
    (folder / "names.txt").write_text("x\ny\n")
    run(
        folder / "plain", "--to", "solr", "-o", folder / "s.json",
        "--feature-names", folder / "names.txt",
    )  # fmt: skip
    assert json.loads((folder / "s.json").read_text())["features"] == [{"name": "x"}, {"name": "y"}]
    (folder / "short.txt").write_text("x\n")
    with pytest.raises(ModelError, match="1 feature names for 2"):
        run(folder / "plain", "--to", "solr", "-o", "-", "--feature-names", folder / "short.txt")
    ModelBundle.from_weights({"t": [1.0, 0.0]}, ["x", "y"]).save(folder / "b")
    run(folder / "b", "--to", "python", "-o", folder / "p.py", "--topic", "t")
    assert "'x': 1.0" in (folder / "p.py").read_text()
    with raises_for("--topic"):
        run(folder / "b", "--to", "python", "-o", folder / "p.py")
    with raises_for("--topic"):
        run(folder / "m", "--to", "python", "-o", folder / "p.py", "--topic", "t")


def test_a_refused_model_leaves_no_file(folder):
    LinearModel.from_weights([1.0], ["a"], transforms=(ListRange(),)).save(folder / "scaled")
    with pytest.raises(ExportError):
        run(folder / "scaled", "--to", "elasticsearch", "-o", folder / "e.json")
    assert not (folder / "e.json").exists()
