"""``rankine path``: the steps that are shown and the options that reach the path."""

import json
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from rankine import DominationRanker
from rankine.cli._reading import ModelReadingOptions
from rankine.cli.main import app, find_commands
from rankine.cli.path import path_table
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


class CapturedError(Exception):
    """Ends a command after its arguments were captured."""


@pytest.fixture
def asked(monkeypatch):
    found = {}

    def ask(*given, **options):
        found.update(options, given=given)
        raise CapturedError

    monkeypatch.setattr("rankine.evaluation.letor.run_letor", ask)
    monkeypatch.setattr(ModelReadingOptions, "open", ask)
    return found


def call(*words):
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


STEP = {"l1": 0.5, "nonzeros": 1234, "map": 0.25, "loss": 1.5, "relative_gap": None, "seconds": 2}


@pytest.mark.parametrize(
    ("more", "heads"),
    [
        ({}, ["best", "l1", "weights", "map", "gap", "seconds"]),
        (
            {"smooth": 0.5, "pairs": 3},
            ["best", "pairs", "smooth", "weights", "map", "gap", "seconds"],
        ),
        (
            {"solver": "rda", "latency_ms": 0.125},
            ["best", "solver", "l1", "weights", "map", "ms an item", "seconds"],
        ),
    ],
)
def test_the_best_step_is_marked_by_a_star(more, heads):
    for count in (1, 3):
        steps = [{**STEP, **more} for _ in range(count)]
        result = {"metric": "map", "measured": True, "steps": steps, "best": count - 1}
        table = path_table(result)
        assert list(table.header) == heads
        assert [row[0] for row in table.rows] == [""] * (count - 1) + ["*"]
        assert {row[heads.index("weights")] for row in table.rows} == {"1,234"}
        if more:
            assert {row[1] for row in table.rows} == {str(more[heads[1]])}
    table = path_table({**result, "measured": False})
    k = heads.index("map")
    assert (table.header[k], table.rows[0][k]) == ("loss", "1.5000")


def test_options_reach_the_path_of_the_ranker(monkeypatch, tmp_path):
    found, held = {}, []

    def ask(_self, rows, **options):
        found.clear()
        found.update(options, rows=rows)
        raise CapturedError

    monkeypatch.setattr("rankine.DominationRanker.path", ask)
    monkeypatch.setattr(ModelReadingOptions, "open", lambda *_, **__: "rows")
    monkeypatch.setattr(ModelReadingOptions, "open_like", lambda *_, **__: held.append(1) or "held")
    monkeypatch.setattr(ModelReadingOptions, "parts", lambda *_: {"train": "old", "valid": "new"})
    for words, rows, eval_set, steps in (
        ([], "rows", None, {"max_nonzero": None}),
        (["--n-steps", "4"], "rows", None, {"max_nonzero": None, "n_steps": 4}),
        (["--min-ratio", "0.5"], "rows", None, {"max_nonzero": None, "min_ratio": 0.5}),
        (["--max-nonzero", "9", "--valid", "v"], "rows", "held", {"max_nonzero": 9}),
        (["--split", "time:0.5,0.5"], "old", "new", {"max_nonzero": None}),
    ):
        with pytest.raises(CapturedError):
            call("path", "rows.txt", *words)
        assert (found.pop("rows"), found.pop("eval_set"), found.pop("callbacks")) == (
            rows, eval_set, [],
        )  # fmt: skip
        assert found == steps
    with pytest.raises(ParameterError) as caught:
        call("path", "rows.txt", "--valid", "v", "--split", "time:0.5,0.5")
    assert caught.value.parameter == "--valid"
    for option in (["--solvers", "rda"], ["--max-latency", "1ms"]):
        with pytest.raises(ParameterError) as caught:
            call("path", "rows.txt", *option)
        assert caught.value.parameter == option[0]
    monkeypatch.setattr("rankine.DominationRanker.path", lambda *_, **__: [])
    with pytest.raises(ParameterError) as caught:
        call("path", "rows.txt")
    assert caught.value.parameter == "--max-nonzero"


def test_the_result_of_a_path_is_printed_saved_and_drawn(monkeypatch, tmp_path):
    class Found(list):
        metric, measured, nonzeros = "map", True, [1, 1]

        def best(self):
            return 1

        def records(self):
            return list(self)

        def to_model(self, step):
            return LinearModel.from_weights([float(step)])

    drawn = []
    monkeypatch.setattr("rankine.DominationRanker.path", lambda *_, **__: Found([STEP, STEP]))
    monkeypatch.setattr(ModelReadingOptions, "open", lambda *_, **__: SimpleNamespace(n_features=7))
    monkeypatch.setattr("rankine.plot.path", lambda found: found)
    monkeypatch.setattr("rankine.plot.save_axes", lambda ax, file: drawn.append((len(ax), file)))
    out, plot = str(tmp_path / "m.rankine"), str(tmp_path / "p.svg")
    bare = json.loads(call("path", "rows.txt", "--json").stdout)
    assert bare == {
        "ranker": "DominationRanker", "metric": "map", "measured": True, "n_features": 7,
        "best": 1, "steps": [STEP, STEP],
    }  # fmt: skip
    said = json.loads(call("path", "rows.txt", "--json", "--out", out, "--plot", plot).stdout)
    assert said == {**bare, "plot": plot, "model": out, "digest": LinearModel.load(out).digest}
    assert LinearModel.load(out).values.tolist() == [1.0]
    assert drawn == [(2, plot)]
    text = call("path", "rows.txt", "--out", out).stdout
    assert f"model  {out}  ({said['digest'][:12]})" in text


@pytest.mark.parametrize(
    ("words", "stream"),
    [
        (["--ranker", "elastic"], False),
        (["--ranker", "elastic", "--n-features", "9"], True),
        (["--ranker", "elastic", "--query", "q", "--numeric", "a"], True),
        (["--n-features", "9"], False),
    ],
)
def test_a_path_reads_a_stream_if_the_width_is_known(asked, words, stream):
    with pytest.raises(CapturedError):
        call("path", "rows.txt", *words)
    assert asked["stream"] is stream


def test_the_first_line_says_that_no_weights_are_best(files, monkeypatch):
    monkeypatch.chdir(files)
    lists = [f"{k % 2} qid:{k // 2} 1:{k % 2}" for k in range(200)]
    (files / "t.txt").write_text("\n".join(lists))
    (files / "v.txt").write_text("\n".join(f"{1 - int(line[0])}{line[1:]}" for line in lists))
    reversed_lists = run("path", "t.txt", "--valid", "v.txt", "--n-steps", 3, "--metric", "mrr")
    assert reversed_lists.startswith("The best model has no weights: by mrr on held-out lists")
    same_lists = run("path", "t.txt", "--valid", "t.txt", "--n-steps", 3, "--metric", "mrr")
    assert "no weights" not in same_lists
