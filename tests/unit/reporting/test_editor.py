"""The session behind the page on which curves are edited."""

from dataclasses import replace

import numpy as np
import pytest

import rankine
from rankine import AdditiveRanker, LinearModel
from rankine.core.edits import FixedEntry
from rankine.core.errors import ParameterError
from rankine.reporting.editor import CellEdit, EditSession, editor_page, read_cells

OPTIONS = {"bins": 8, "smooth": 1.0, "pairs": 1, "categorical": ["warehouse_id"]}


@pytest.fixture(scope="module")
def parts():
    log = replace(rankine.shop_log(80, random_state=0), columns={}, position=None)
    train, valid = log.take_queries(np.arange(50)), log.take_queries(np.arange(50, 80))
    return train, valid, AdditiveRanker(**OPTIONS).fit(train).to_model()


@pytest.fixture
def session(parts):
    train, valid, model = parts
    return EditSession(model, lambda: AdditiveRanker(**OPTIONS), train, valid)


def test_the_state_shows_all_curves(session, parts):
    state = session.state()
    _, valid, model = parts
    assert state["lists"] == valid.n_queries
    assert state["out"] == ""
    assert len(state["curves"]) == len(model.column_names)
    ranges = [curve["range"] for curve in state["curves"]]
    assert ranges == sorted(ranges, reverse=True)
    curve = next(curve for curve in state["curves"] if curve["name"] == "price_log")
    assert curve["ordered"]
    assert len(curve["labels"]) == len(curve["values"]) == len(curve["fixed"])
    assert not any(curve["fixed"])


def test_cells_are_solved_and_the_effect_is_that_of_the_model(session, parts):
    _, valid, _ = parts
    cells = [CellEdit(2, 0, 0.5), CellEdit(2, 1, 0.5)]
    result = session.solve(cells)
    assert result["curves"]["2"][:2] == [0.5, 0.5]
    assert result["objective_after"] > result["objective_before"] - result["gap"]
    ranker = AdditiveRanker(**OPTIONS)
    ranker.fit(parts[0])
    assert result["metric_before"] == pytest.approx(ranker.score(valid))
    assert result["better"] + result["worse"] <= valid.n_queries
    losses = [query["value_before"] - query["value_after"] for query in result["queries"]]
    assert losses == sorted(losses, reverse=True)
    assert all(loss > 0 for loss in losses)
    assert len(result["queries"][0]["before"]) == 5


def test_neighbours_of_equal_value_are_one_entry(session):
    session.solve([CellEdit(2, 1, 0.5), CellEdit(2, 0, 0.5), CellEdit(2, 2, 0.4)])
    cuts = session.model.bins.cuts[2]
    _, ranker = session._solved
    fixed = ranker.edits_[0]["fixed"]
    assert [(entry.get("from"), entry.get("to")) for entry in fixed] == [
        (None, cuts[1]),
        (cuts[1], cuts[2]),
    ]


def test_categories_missing_and_other_values(session):
    j = session.model.column_names.index("warehouse_id")
    cuts = session.model.bins.cuts[j]
    cells = [CellEdit(j, 0, 0.1), CellEdit(j, len(cuts), 0.1), CellEdit(j, len(cuts) + 1, 0.1)]
    assert session._entries(cells) == [
        FixedEntry(column=j, category=cuts[0], value=0.1),
        FixedEntry(column=j, other=True, value=0.1),
        FixedEntry(column=j, missing=True, value=0.1),
    ]


def test_only_what_was_solved_is_saved_to_a_new_model_file(session, tmp_path):
    cells = [CellEdit(2, 0, 0.5)]
    out = str(tmp_path / "edited.rankine")
    with pytest.raises(ParameterError, match="Solve again"):
        session.save(cells, out, "", "")
    session.solve(cells)
    with pytest.raises(ParameterError):
        session.save([CellEdit(2, 0, 0.4)], out, "", "")
    session.save(cells, out, " Anna ", "")
    model = LinearModel.load(out)
    assert model.provenance["edits"][0]["by"] == "Anna"
    assert "note" not in model.provenance["edits"][0]
    assert model.to_dense()[sum(model.bins.n_cells[:2])] == 0.5
    with pytest.raises(ParameterError, match="exists"):
        session.save(cells, out, "", "")
    session.out = out
    session.save(cells, out, "", "")


@pytest.mark.parametrize(
    "name", ["", " ", "a.txt", ".rankine", "a.rankine/", "no/such/a.rankine", "a\0.rankine"]
)
def test_other_names_are_refused(session, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    session.solve([CellEdit(2, 0, 0.5)])
    with pytest.raises(ParameterError):
        session.save([CellEdit(2, 0, 0.5)], name, "", "")
    assert not any(tmp_path.iterdir())


def test_links_and_folders_are_refused(session, tmp_path):
    session.solve([CellEdit(2, 0, 0.5)])
    link, folder = tmp_path / "link.rankine", tmp_path / "folder.rankine"
    link.symlink_to(tmp_path / "elsewhere.rankine")
    folder.mkdir()
    for path in (link, folder):
        session.out = str(path)
        with pytest.raises(ParameterError):
            session.save([CellEdit(2, 0, 0.5)], str(path), "", "")
    assert not (tmp_path / "elsewhere.rankine").exists()


def test_an_edited_model_shows_and_frees_its_entries(session, parts, tmp_path):
    train, valid, _ = parts
    cells = [CellEdit(2, 0, 0.5)]
    session.solve(cells)
    out = tmp_path / "edited.rankine"
    session.save(cells, str(out), "", "")
    again = EditSession(LinearModel.load(out), lambda: AdditiveRanker(**OPTIONS), train, valid)
    curve = next(curve for curve in again.state()["curves"] if curve["column"] == 2)
    assert curve["fixed"][0]
    assert curve["values"][0] == 0.5
    result = again.solve([CellEdit(2, 0, None)])
    assert result["curves"]["2"][0] != 0.5


@pytest.mark.parametrize(
    "cells",
    [None, [], [{"column": 0}], [{"column": 0, "cell": 0, "value": "x"}],
     [{"column": 0, "cell": 0, "value": 1}] * 2, [{"column": 0, "cell": 0, "value": 1, "x": 2}]],
)  # fmt: skip
def test_wrong_cells(cells):
    with pytest.raises(ParameterError):
        read_cells({"cells": cells})


def test_cells_beyond_the_model(session):
    for cell in (CellEdit(99, 0, 1.0), CellEdit(0, 999, 1.0), CellEdit(-1, 0, 1.0)):
        with pytest.raises(ParameterError):
            session.solve([cell])


def test_the_page_holds_no_data_and_allows_its_own_script_only():
    page, policy = editor_page()
    assert b"price_log" not in page
    assert b"src=" not in page
    assert "'unsafe-inline'" not in policy
    assert policy.count("sha256-") == 2


def test_a_linear_model_has_no_curves(parts):
    train, valid, _ = parts
    model = rankine.RankSVM().fit(train).to_model()
    with pytest.raises(ParameterError) as caught:
        EditSession(model, AdditiveRanker, train, valid)
    assert caught.value.parameter == "model"
