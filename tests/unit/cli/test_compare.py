import json

import numpy as np
import pytest
from typer.testing import CliRunner

import rankine
from rankine.cli.main import app, find_commands
from rankine.core.errors import ParameterError
from reference.trec_files import write_qrels, write_run

pytestmark = pytest.mark.cli


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    find_commands()
    root = tmp_path_factory.mktemp("compare")
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, 160)
    a, b = y + rng.normal(0, 1, 160), y + rng.normal(0, 4, 160)
    qid = np.repeat(np.arange(20), 8)
    lines = [
        f"{label} qid:{q} 1:{one!r} 2:{two!r} # d{i}\n"
        for i, (label, q, one, two) in enumerate(zip(y, qid, a.tolist(), b.tolist(), strict=True))
    ]
    (root / "test.txt").write_text("".join(lines))
    docid = [f"d{i}" for i in range(160)]
    write_run(root / "b.run", qid, docid, b)
    write_qrels(root / "qrels.txt", qid, docid, y)
    rankine.LinearModel.from_weights([1.0, 0.0]).save(root / "a.rankine")
    return root


def invoke(*arguments):
    return CliRunner().invoke(app, ["compare", *map(str, arguments), "--n-resamples", "500"])


def test_json_is_one_object_on_one_line(folder):
    result = invoke(
        folder / "a.rankine", folder / "b.run", folder / "test.txt",
        "-m", "ndcg@10", "-m", "map", "--json", "--per-query",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 1
    plain = json.loads(result.stdout)
    assert [c["metric"] for c in plain["comparisons"]] == ["ndcg@10", "map"]
    first = plain["comparisons"][0]
    assert first["pairs"][0]["verdict"] == "worse"
    assert len(first["per_query"]) == 20


@pytest.mark.parametrize(
    ("option", "expected"),
    [("--markdown", "| a.rankine |"), ("--latex", r"\toprule"), ("--n-changed=1", "Query")],
)
def test_tables(folder, option, expected):
    result = invoke(folder / "a.rankine", folder / "b.run", folder / "test.txt", option)
    assert result.exit_code == 0, result.output
    assert expected in result.stdout


def test_runs_need_only_judgements(folder):
    result = invoke(folder / "b.run", folder / "b.run", folder / "qrels.txt", "--json")
    plain = json.loads(result.stdout)
    assert plain["comparisons"][0]["pairs"][0]["verdict"] == "equivalent"


def test_one_system_is_not_enough(folder):
    result = invoke(folder / "a.rankine", folder / "test.txt")
    assert isinstance(result.exception, ParameterError)


def test_evaluate_a_run(folder):
    result = CliRunner().invoke(
        app,
        ["evaluate", "--run", str(folder / "b.run"), "--qrels", str(folder / "qrels.txt"),
         "-m", "map", "--per-query", "--json"],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    plain = json.loads(result.stdout)
    values = list(plain["metrics"]["map"]["per_query"].values())
    assert plain["metrics"]["map"]["value"] == pytest.approx(np.mean(values))
    assert plain["notes"]["queries_missing_from_run"] == 0


def test_evaluate_names_the_convention_of_queries_without_relevant_documents(folder, tmp_path):
    data = tmp_path / "t.txt"
    data.write_text("1 qid:1 1:1 2:0\n0 qid:1 1:0 2:1\n0 qid:2 1:1 2:0\n0 qid:2 1:0 2:1\n")
    command = ["evaluate", str(folder / "a.rankine"), str(data), "-m", "map"]
    plain = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert plain["metrics"]["map"]["value"] == 0.5
    assert plain["metrics"]["map"]["queries_without_value"] == 1
    assert plain["metrics"]["map"]["no_relevant"] == "0"
    shown = CliRunner().invoke(app, command)
    assert "1 of 2 queries have no relevant document and count 0" in shown.stderr
    skipped = CliRunner().invoke(app, [*command[:-1], "map:no_relevant=skip"])
    assert "are skipped" in skipped.stderr


def call(*words, code=0):
    done = CliRunner().invoke(app, [str(word) for word in words])
    if isinstance(done.exception, rankine.core.errors.RankineError):
        raise done.exception
    assert done.exit_code == code, done.output
    return done


@pytest.fixture(scope="module")
def rivals(tmp_path_factory):
    """A model that knows the labels, one that does not, and one in between."""
    root = tmp_path_factory.mktemp("rivals")
    rng = np.random.default_rng(3)
    y, qid = rng.integers(0, 3, 160), np.repeat(np.arange(20), 8)
    X = np.column_stack([y + rng.normal(0, 0.3, 160), rng.normal(size=160)])
    rankine.Dataset.from_arrays(X, y, qid).save(root / "d.txt")
    for name, w in (("good", [1.0, 0.0]), ("middle", [1.0, 0.01]), ("bad", [0.0, 1.0])):
        rankine.LinearModel.from_weights(w).save(root / f"{name}.rankine")
    return root


@pytest.mark.parametrize(
    ("systems", "code"),
    [
        (["good", "bad"], 3),
        (["bad", "good"], 0),
        (["good", "middle"], 0),
        (["good", "bad", "middle"], 0),
        (["good", "middle", "bad"], 3),
    ],
)
def test_fail_if_worse_sets_the_exit_code(rivals, systems, code):
    paths = [rivals / f"{name}.rankine" for name in systems]
    words = ["compare", *paths, rivals / "d.txt", "--n-resamples", "300"]
    call(*words, "--fail-if-worse", "-m", "ndcg@10", "-m", "map", code=code)
    found = json.loads(call(*words, "--json").stdout)["comparisons"]
    assert [one["metric"] for one in found] == ["ndcg@10"]
    assert "per_query" not in found[0]
