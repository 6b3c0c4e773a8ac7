"""``rankine predict``: runs, and files read as the model reads them."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from error_checks import raises_at
from rankine.cli.main import app, find_commands
from rankine.core.errors import ParameterError, ParseError, RankineError, SchemaError
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


def test_files_are_read_with_the_models_index_base(files):
    (files / "zero.txt").write_text("2 qid:7 0:1 1:0.5\n0 qid:7 0:0.5 2:1\n")
    LinearModel.from_weights([2.0, 0.5, -1.0], base=0).save(files / "zero.rankine")
    out = run("explain", files / "zero.rankine", files / "zero.txt", "--qid", 7, "--json")
    assert json.loads(out)["explanations"][0]["total"] == 2.25
    assert run("predict", files / "zero.rankine", files / "zero.txt").split() == ["2.25", "0.0"]
    with raises_at(ParseError, line=1, column=9):
        run("predict", files / "m.rankine", files / "zero.txt")


def test_a_run_names_rows_without_docids_by_their_number(files):
    (files / "bare.txt").write_text("2 qid:7 1:1\n0 qid:7 1:3 # B\n1 qid:8 1:1\n")
    lines = run("predict", files / "m.rankine", files / "bare.txt", "--trec", "-k", 1).splitlines()
    assert lines == ["7 Q0 B 1 6.0 rankine", "8 Q0 row2 1 2.0 rankine"]
    (files / "none.txt").write_text("2 qid:7 1:1\n0 qid:7 1:3\n")
    lines = run("predict", files / "m.rankine", files / "none.txt", "--trec").splitlines()
    assert [line.split()[2] for line in lines] == ["row1", "row0"]


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_a_file_of_fewer_features_is_reported(files, command):
    (files / "narrow.txt").write_text("2 qid:7 1:1\n0 qid:7 1:3 2:1\n")
    for data, told in (("narrow.txt", True), ("d.txt", False)):
        done = CliRunner().invoke(app, [command, str(files / "m.rankine"), str(files / data)])
        assert done.exit_code == 0
        assert ("1 of 1 files have fewer features than the model (3)" in done.stderr) is told


def test_a_table_of_ids_scores_and_ranks(files):
    (files / "d.txt").write_text(DATA + "0 qid:7 1:9\n")  # query 7 goes on, without a docid
    out = files / "scores.parquet"
    run("predict", files / "m.rankine", files / "d.txt", "--out", out)
    table = pq.read_table(out)
    assert table.column_names == ["qid", "docid", "score", "rank"]
    assert table["qid"].to_pylist() == [7, 7, 7, 8, 7]
    assert table["docid"].to_pylist() == ["A", "B", "C", "D", None]
    assert table["score"].to_pylist() == [2.25, 0.0, 1.0, 2.0, 18.0]
    assert table["rank"].to_pylist() == [2, 4, 3, 1, 1]


def test_a_stream_has_the_same_rows(files):
    n_rows = 66_000  # more than a block
    lines = (f"{i % 3} qid:{i // 7} 1:{i % 5}" for i in range(n_rows))
    (files / "long.txt").write_text("\n".join(lines))
    tables = []
    for name, how in (("whole", ()), ("stream", ("--stream",))):
        out = files / f"{name}.parquet"
        run("predict", files / "m.rankine", files / "long.txt", "--out", out, *how)
        tables.append(pq.read_table(out))
    assert tables[0].equals(tables[1])
    run_lines = run("predict", files / "m.rankine", files / "long.txt", "--trec", "--stream")
    names = [line.split()[2] for line in run_lines.splitlines()]
    assert sorted(names) == sorted(f"row{i}" for i in range(n_rows))


def test_columns_are_kept_in_the_table(files):
    table = pa.table({"qid": [1, 1], "label": [0, 1], "sku": ["x", "y"], "f": [1.0, 2.0]})
    pq.write_table(table, files / "rows.parquet")
    LinearModel.from_weights([3.0], ["f"]).save(files / "named.rankine")
    arguments = ["predict", files / "named.rankine", files / "rows.parquet", "-o"]
    run(*arguments, files / "scores.parquet", "--columns", "sku")
    kept = pq.read_table(files / "scores.parquet").drop(["docid"]).to_pylist()
    assert kept[1] == {"qid": 1, "sku": "y", "score": 6.0, "rank": 1}
    for options, parameter in ((["--columns", "rank"], "columns"), (["--trec"], "trec")):
        with pytest.raises(RankineError) as caught:
            run(*arguments, files / "no.parquet", *options)
        assert caught.value.parameter.lstrip("-") == parameter
    assert not (files / "no.parquet").exists()


@pytest.fixture
def ruled(files):
    (files / "rules.toml").write_text("[[filter]]\nwhere = \"id == 'A'\"\nuntil = 2020-01-02\n")
    return files


def test_rules_change_ranks(ruled):
    arguments = ["predict", ruled / "m.rankine", ruled / "d.txt", "--rules", ruled / "rules.toml"]
    with pytest.warns(UserWarning, match="never"):
        output = run(*arguments, "--trec", "--rules-at", "2020-01-01", "-k", "1")
    assert output.splitlines() == ["7 Q0 C 1 2.0 rankine", "8 Q0 D 1 1.0 rankine"]
    with pytest.warns(UserWarning, match="never"):
        run(*arguments, "--out", ruled / "ranks.parquet", "--rules-at", "2020-01-01")
    assert pq.read_table(ruled / "ranks.parquet")["rank"].to_pylist() == [None, 2, 1, 1]


@pytest.mark.parametrize(
    ("words", "parameter"),
    [
        (["--rules", "rules.toml"], "--rules"),
        (["--rules-at", "2020-01-01"], "--rules-at"),
        (["--rules", "rules.toml", "--rules-at", "soon", "--trec"], "--rules-at"),
        (["--rules", "none.toml", "--trec"], "--rules"),
    ],
)
def test_rules_without_ranks_or_without_a_file_are_rejected(ruled, words, parameter, monkeypatch):
    monkeypatch.chdir(ruled)
    with pytest.raises((ParameterError, SchemaError)) as caught:
        run("predict", "m.rankine", "d.txt", *words)
    assert caught.value.parameter == parameter
