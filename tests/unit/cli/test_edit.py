"""``rankine edit``: files of fixed entries, what is printed and saved, and errors."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import rankine
from rankine import AdditiveRanker, LinearModel
from rankine.cli.main import app, find_commands
from rankine.core.errors import ParameterError

pytestmark = [pytest.mark.cli, pytest.mark.filterwarnings("ignore:the range:UserWarning")]
find_commands()

EDITS = """by = "Anna"
[[fixed]]
column = "price_log"
from = -1.0
to = 0.5
value = 0.1
"""


def run(*words):
    done = CliRunner().invoke(app, ["edit", *map(str, words)])
    if done.exception is not None:
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("edit")
    log = replace(rankine.shop_log(60, random_state=0), columns={}, position=None)
    log.take_queries(np.arange(40)).save(folder / "train.parquet")
    log.take_queries(np.arange(40, 60)).save(folder / "valid.parquet")
    log.save(folder / "all.parquet")
    ranker = AdditiveRanker(bins=8, smooth=1.0, pairs=1)
    ranker.fit(log.take_queries(np.arange(40))).to_model().save(folder / "m.rankine")
    rankine.RankSVM().fit(log).to_model().save(folder / "linear.rankine")
    (folder / "edits.toml").write_text(EDITS)
    return folder


def test_a_file_of_entries_makes_a_model(folder):
    out = folder / "edited.rankine"
    words = [folder / "m.rankine", folder / "train.parquet", "--fixed", folder / "edits.toml"]
    code, text, _ = run(*words, "--valid", folder / "valid.parquet", "--out", out, "--note", "why")
    assert code == 0
    assert "objective" in text
    assert "ndcg@10" in text
    model = LinearModel.load(out)
    (edit,) = model.provenance["edits"]
    assert (edit["by"], edit["note"]) == ("Anna", "why")
    assert 0.1 in model.to_dense()
    shown = CliRunner().invoke(app, ["inspect", str(out)]).stdout
    assert "Anna: why" in shown


def test_nothing_is_saved_without_a_name(folder):
    before = sorted(folder.iterdir())
    words = [folder / "m.rankine", folder / "all.parquet", "--fixed", folder / "edits.toml"]
    code, text, _ = run(*words, "--json")
    record = json.loads(text)
    assert code == 0
    assert record["out"] is None
    assert record["objective_after"] >= record["objective_before"] - record["gap"]
    code, _, errors = run(*words)
    assert code == 0
    assert "--out" in errors
    assert sorted(folder.iterdir()) == before


def test_entries_of_an_edited_model_stay_when_it_is_trained_on(folder, tmp_path):
    edited, out = tmp_path / "edited.rankine", tmp_path / "on.rankine"
    words = [folder / "m.rankine", folder / "train.parquet", "--fixed", folder / "edits.toml"]
    assert run(*words, "--out", edited)[0] == 0
    words = ["train", folder / "all.parquet", "--ranker", "additive", "--set", "bins=8"]
    words += ["--set", "pairs=1", "--warm-start", edited, "--out", out]
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == 0, done.stderr
    assert LinearModel.load(out).provenance["edits"] == LinearModel.load(edited).provenance["edits"]
    assert 0.1 in LinearModel.load(out).to_dense()


@pytest.mark.parametrize(
    ("model", "text", "parameter", "place"),
    [
        ("m.rankine", EDITS.replace("price_log", "prize"), "--fixed", "prize"),
        ("m.rankine", EDITS.replace("value", "number"), "--fixed", "entry 1"),
        ("m.rankine", EDITS.replace("[[fixed]]", "[fixed]"), "--fixed", "wrong.toml"),
        ("linear.rankine", EDITS, "MODEL", "ranksvm"),
    ],
)
def test_errors_name_the_place(folder, tmp_path, model, text, parameter, place):
    wrong, out = tmp_path / "wrong.toml", tmp_path / "out.rankine"
    wrong.write_text(text)
    words = [folder / model, folder / "train.parquet", "--fixed", wrong, "--out", out]
    with pytest.raises(ParameterError) as caught:
        run(*words)
    assert caught.value.parameter == parameter
    assert place in caught.value.reason
    assert not out.exists()
